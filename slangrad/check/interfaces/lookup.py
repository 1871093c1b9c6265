"""Members of types: fields, methods, nested types; from the type itself, its extensions, its interfaces.

In: `MLVec<4>` and "data".   Out: [LookupResult(the field, {N: 4})].

A member found in an extension is seen through the extension's parameters, a requirement through `This`.
Members of interfaces are found only where the type itself has none of that name, or where they bring a
default body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from slangrad.base.records import record
from slangrad.check.generics.bounds import (
    bounds_of,
    element_type,
    generic_info,
    interfaces_in,
    requirement_substitution,
)
from slangrad.check.generics.infer import Solver, match
from slangrad.check.generics.substitution import own_substitution, substitute, substitute_value
from slangrad.check.model import checked
from slangrad.check.model.checked import FunctionInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, Declared, DeclRef, Substitution
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.packs import element_parameter
from slangrad.check.model.types import (
    ERROR,
    INT,
    ArrayType,
    EnumType,
    FunctionType,
    GenericArgument,
    InterfaceType,
    LambdaType,
    MatrixType,
    Nominal,
    ParameterType,
    Projection,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    associated_type,
    is_pack,
    nominal,
    parameter_type,
    projection_root,
)
from slangrad.check.model.values import Value, operate
from slangrad.syntax import ast

ANY = "any type"  # the key of extensions whose target is a parameter or an interface


@record
class LookupResult:
    """A declaration that a name may mean, with its substitution at the place of the lookup. `path`: the fields that
    lead to the base with it. `is_member`: it was found in the type around, and belongs to `this`.
    """

    declaration: Any  # as in a DeclRef
    substitution: Bindings
    path: tuple[DeclRef, ...] = ()
    is_member: bool = False

    @property
    def reference(self) -> DeclRef:
        return DeclRef(self.declaration, self.substitution)


def members(checker: Checker, kind: Type, name: str) -> list[LookupResult]:
    """All meanings of `value.name` or `Type.name`."""
    results = concrete_members(checker, kind, name)
    is_own = bool(results) and not isinstance(kind, (ParameterType, Projection))
    for interface in _requiring(checker, kind, name):
        for requirement in declared(checker, interface.declaration, name):
            if not is_own or has_body(requirement):
                seen = requirement_substitution(kind, interface)
                results.append(LookupResult(requirement, seen))
    return results


def member_candidates(
    checker: Checker, kind: Type, name: str, of: type[ast.Declaration], this: checked.Base | None = None
) -> list[Candidate]:
    """The members of one name and kind that a call may mean."""
    results = members(checker, kind, name)
    return [Candidate(r.declaration, r.substitution, this) for r in results if isinstance(r.declaration, of)]


MANY = 32  # interfaces of a type, each of which would be searched for each name


def _requiring(checker: Checker, kind: Type, name: str) -> Sequence[InterfaceType]:
    """The interfaces of a type that may require a name: all, or those that do where there are many."""
    interfaces, key = conformances(checker, kind), cache_key(checker, kind)
    if len(interfaces) <= MANY or checker.view.conformances.get(key) is not interfaces:
        return interfaces
    table = checker.view.requirements.get(key)
    if table is None:
        table = checker.view.requirements[key] = {}
        for interface in interfaces:
            for required in {member.name: None for member in all_members(interface.declaration)}:
                table.setdefault(required, []).append(interface)
    return table.get(name, [])


def is_type_declaration(declaration: ast.Declaration) -> bool:
    return isinstance(declaration, (ast.StructDeclaration, ast.EnumDeclaration, ast.TypeAlias, ast.Interface))


def concrete_members(checker: Checker, kind: Type, name: str) -> list[LookupResult]:
    """Members that the type itself or an extension declares."""
    results: list[LookupResult] = []
    if isinstance(kind, (StructType, EnumType)):
        seen = own_substitution(kind)
        results = [
            LookupResult(declaration, seen) for declaration in declared(checker, kind.declaration, name)
        ]
    for extension, bindings in extensions_of(checker, kind):
        for member in declared(checker, extension, name):
            results.append(LookupResult(member, bindings))
    if not results and isinstance(kind, StructType) and not _NOT_INHERITED.fullmatch(name):
        results = _members_of_base(checker, kind, name)
    return results


BASE = "__base"  # the field that a struct has for the struct that it inherits from
_NOT_INHERITED = re.compile(r"__base|__init|__subscript|operator.*|Differential|dzero|dadd")


def _members_of_base(checker: Checker, kind: StructType, name: str) -> list[LookupResult]:
    base = base_of(checker, kind)
    if base is None:
        return []
    step = DeclRef(declared(checker, kind.declaration, BASE)[0], own_substitution(kind))
    results = concrete_members(checker, base, name)
    return [LookupResult(result.declaration, result.substitution, (step, *result.path)) for result in results]


def base_of(checker: Checker, kind: Type) -> Type | None:
    """The struct that a struct inherits from."""
    if not isinstance(kind, StructType):
        return None
    field: ast.Variable | None = next(iter(declared(checker, kind.declaration, BASE)), None)
    return None if field is None else substitute(checker, checker.info(field).type, own_substitution(kind))


def has_body(declaration: ast.Declaration) -> bool:
    """Whether a function, property or subscript brings one."""
    if isinstance(declaration, (ast.FunctionDeclaration, ast.Constructor)):
        return declaration.body is not None
    return isinstance(declaration, (ast.Property, ast.Subscript)) and any(
        accessor.body is not None for accessor in declaration.accessors
    )


def declared(checker: Checker, declaration: ast.Container, name: str) -> list[Declared]:
    """The members of that name which a struct, enum, interface or extension writes down."""
    table = checker.member_tables.get(declaration)
    if table is None:
        table = checker.member_tables[declaration] = {}
        for member in all_members(declaration):
            table.setdefault(member.name, []).append(member)
    return table.get(name, [])


def all_members(declaration: ast.Container) -> Iterator[ast.Declaration]:
    """Members in order; those of a cbuffer inside count as members themselves."""
    for member in declaration.members:
        if isinstance(member, ast.BufferBlock):
            yield from member.members
        else:
            yield member


_Around = type[ast.StructDeclaration | ast.Namespace | ast.Extension | ast.Interface]
_AROUND: tuple[_Around, ...] = (ast.StructDeclaration, ast.Namespace, ast.Extension)


def nested(
    members: Iterable[ast.Declaration], into: tuple[_Around, ...] = _AROUND
) -> Iterator[ast.Declaration]:
    """Declarations, each before those in it."""
    for member in members:
        yield member
        if isinstance(member, into):
            yield from nested(member.members, into)


def member_names(checker: Checker, kind: Type) -> set[str]:
    """Names for "did you mean"."""
    names: set[str] = set()
    declarations: list[ast.Declaration] = [kind.declaration] if isinstance(kind, Nominal) else []
    declarations += [extension for extension, _ in extensions_of(checker, kind)]
    declarations += [interface.declaration for interface in conformances(checker, kind)]
    for declaration in declarations:
        if isinstance(declaration, ast.Container):
            names.update(member.name for member in all_members(declaration))
    return names


def library_type(checker: Checker, name: str, *arguments: GenericArgument) -> Nominal:
    """A type of the standard library."""
    declaration: ast.Declaration = checker.standard(name)
    return nominal(declaration, arguments)


def tag_type(checker: Checker, kind: EnumType) -> Type:
    """The integer type of an enum: its base, or int."""
    tag = checker.tag_types.get(kind.declaration)
    if tag is None:
        tag = checker.tag_types[kind.declaration] = _find_tag(checker, kind.declaration)
    return tag


def _find_tag(checker: Checker, declaration: ast.EnumDeclaration) -> Type:
    for node in declaration.bases:
        base = checker.resolve_type(checker.scope_of(declaration), node)
        if isinstance(base, ScalarType) and not base.is_float:
            return base
        if isinstance(base, (ScalarType, ParameterType)):
            checker.error(
                "E0323", f"an enum cannot be stored as '{base}'", node.span, "name a type of whole numbers"
            )
    return INT


# --- Extensions ---------------------------------------------------------------------------------------


def extension_key(kind: Type) -> object:
    """The key of an extension of a type."""
    if isinstance(kind, ParameterType):
        return ANY
    if isinstance(kind, Nominal):
        return kind.declaration
    return kind if isinstance(kind, ScalarType) else type(kind)


def add_extension(checker: Checker, extension: ast.Extension) -> None:
    """Make an extension known that a module declares."""
    target = extension_target(checker, extension)
    checker.extensions.setdefault(extension_key(target), []).append(extension)


def filed_extensions(checker: Checker, key: object) -> list[ast.Extension]:
    """The extensions under a key that are visible."""
    filed = checker.extensions.get(key, ())
    return [extension for extension in filed if checker.extension_homes[extension] in checker.view.modules]


def extension_target(checker: Checker, extension: ast.Extension) -> Type:
    """The type that an extension extends, in terms of its own parameters."""
    target = checker.extension_targets.get(extension)
    if target is None:
        with checker.answering(("target", extension)):
            target = checker.resolve_type(checker.scope_of(extension), extension.target)
        checker.extension_targets[extension] = target
    return target


def extensions_of(checker: Checker, kind: Type) -> list[tuple[ast.Extension, Bindings]]:
    """The extensions that apply to a type, with the arguments for their parameters."""
    if kind is ERROR or isinstance(kind, FunctionType) or is_pack(kind):
        return []
    key = cache_key(checker, kind)
    kept = checker.view.extension_matches.get(key)
    if kept is not None:
        return kept
    with checker.settling(("extensions", kind)) as settling:
        matches = []
        for extension in [*_own_extensions(checker, kind), *filed_extensions(checker, ANY)]:
            bindings = _match_extension(checker, extension, kind)
            if bindings is not None:
                matches.append((extension, bindings))
        for interface in conformances(checker, kind):
            for extension in filed_extensions(checker, interface.declaration):
                seen = match(checker, extension.generics, extension_target(checker, extension), interface)
                if seen is not None and unmet_constraint(checker, extension, seen) is None:
                    matches.append((extension, {**seen, extension: kind}))
    if settling.complete:
        checker.view.extension_matches[key] = matches
    return matches


def cache_key(checker: Checker, kind: Type) -> object:
    """The facts about a type parameter depend on the `where` clauses that hold."""
    return (kind, *checker.assumptions) if kind.abstract else kind


def _own_extensions(checker: Checker, kind: Type) -> list[ast.Extension]:
    if isinstance(kind, (ParameterType, InterfaceType)):
        return []
    return filed_extensions(checker, extension_key(kind))


def _match_extension(checker: Checker, extension: ast.Extension, kind: Type) -> Bindings | None:
    bindings = match(checker, extension.generics, extension_target(checker, extension), kind)
    if bindings is None:
        return None
    if len(bindings) < len(extension.generics):
        solver = Solver(checker, extension.generics)
        solver.bindings = bindings
        bind_by_bounds(checker, extension, {}, solver)
    return bindings if unmet_constraint(checker, extension, bindings) is None else None


def bind_by_bounds(checker: Checker, declaration: ast.Declaration, seen: Bindings, solver: Solver) -> None:
    """Bind parameters by other parameters: `T : IFoo<U>` or `T.Item == U` binds U once T is bound."""
    info = generic_info(checker, declaration)
    for subject, interfaces in info.bounds.items():
        actual = substitute(checker, subject, {**seen, **solver.bindings})
        if isinstance(actual, tuple) or is_pack(actual) or _is_unbound(subject, solver):
            continue
        for interface in interfaces:
            for offered in conformances(checker, actual):
                if interface.abstract and offered.declaration is interface.declaration:
                    solver.unify(substitute(checker, interface, seen), offered)
    for left, right in info.equalities:
        if not is_pack(left):
            solver.unify(
                substitute(checker, right, seen), substitute(checker, left, {**seen, **solver.bindings})
            )


def _is_unbound(kind: Type, solver: Solver) -> bool:
    kind = projection_root(kind)
    return isinstance(kind, ParameterType) and kind.declaration in solver.open - solver.bindings.keys()


# --- Conformances -------------------------------------------------------------------------------------


def conforms(checker: Checker, kind: Type, interface: InterfaceType) -> bool:
    """Whether a type is stated to conform to an interface."""
    return kind is ERROR or any(offered is interface for offered in conformances(checker, kind))


def conforms_to(checker: Checker, kind: Type, declaration: ast.Interface) -> InterfaceType | None:
    """The interface that a declaration makes, as the type conforms to it."""
    return next(
        (interface for interface in conformances(checker, kind) if interface.declaration is declaration), None
    )


def conformances(checker: Checker, kind: Type) -> tuple[InterfaceType, ...]:
    """All interfaces of a type, inherited ones included."""
    if kind is ERROR or is_pack(kind):
        return ()
    key = cache_key(checker, kind)
    kept = checker.view.conformances.get(key)
    if kept is not None:
        return kept
    stated = list(_stated(checker, kind))  # may resolve `where` clauses, which may ask the same question
    with checker.settling(("conformances", kind)) as settling:
        if not settling.is_first:
            return tuple(checker.partial_conformances.get(kind, ()))
        interfaces: dict[InterfaceType, None] = {}
        checker.partial_conformances[kind] = interfaces
        for interface in stated:
            _add_with_bases(checker, kind, interface, interfaces)
        for extension in [*_own_extensions(checker, kind), *filed_extensions(checker, ANY)]:
            _add_bases_of_extension(checker, kind, extension, interfaces)
    result = tuple(interfaces)
    if settling.complete:
        checker.view.conformances[key] = result
    return result


def is_stated(checker: Checker, kind: Type, interface: InterfaceType) -> bool:
    """Whether a type conforms by its own declaration, not by an extension."""
    interfaces: dict[InterfaceType, None] = {}
    for stated in _stated(checker, kind):
        _add_with_bases(checker, kind, stated, interfaces)
    return interface in interfaces


def _add_bases_of_extension(
    checker: Checker, kind: Type, extension: ast.Extension, interfaces: dict[InterfaceType, None]
) -> None:
    bases = interface_bases(checker, extension)
    bindings = _match_extension(checker, extension, kind) if bases else None
    if bindings is not None:
        for interface in bases:
            _add_with_bases(checker, kind, substitute(checker, interface, bindings), interfaces)


def _add_with_bases(
    checker: Checker, kind: Type, interface: Type, interfaces: dict[InterfaceType, None]
) -> None:
    if not isinstance(interface, InterfaceType) or interface in interfaces:
        return
    interfaces[interface] = None
    seen = requirement_substitution(kind, interface)
    for base in interface_bases(checker, interface.declaration):
        _add_with_bases(checker, kind, substitute(checker, base, seen), interfaces)


def _stated(checker: Checker, kind: Type) -> Iterator[Type]:
    if isinstance(kind, (ParameterType, Projection)):
        yield from bounds_of(checker, kind)
        if isinstance(kind, Projection):
            yield from _constrained_by_base(checker, kind)
    elif isinstance(kind, (StructType, EnumType)):
        seen = own_substitution(kind)
        for base in interface_bases(checker, kind.declaration):
            yield substitute(checker, base, seen)
        if isinstance(kind, EnumType):
            yield nominal(checker.standard("__EnumType"))
    elif isinstance(kind, InterfaceType):
        yield kind
    elif isinstance(kind, LambdaType):
        yield from function_interfaces(checker, kind)
    elif (
        isinstance(kind, (ScalarType, VectorType, MatrixType, ArrayType, Tuple))
        and checker.differential(kind) is not None
    ):
        yield nominal(checker.standard("IDifferentiable"))
    if kind.abstract and not isinstance(kind, (ParameterType, Projection)):
        for declaration in checker.assumptions:
            yield from generic_info(checker, declaration).bounds.get(kind, ())


_PLAIN_FUNCTIONS = ("IFunc", "IMutatingFunc")
_ALL_FUNCTIONS = (*_PLAIN_FUNCTIONS, "IDifferentiableFunc", "IDifferentiableMutatingFunc")


def function_interfaces(checker: Checker, kind: LambdaType) -> tuple[InterfaceType, ...]:
    """IFunc<R, (A, B)> and its kin, as far as the standard library declares them."""
    info: FunctionInfo = checker.info(kind.declaration)
    seen = own_substitution(kind)
    result = substitute(checker, info.result, seen)
    parameters = tuple(
        substitute(checker, checker.info(parameter).type, seen) for parameter in info.parameters
    )
    interfaces = []
    for name in _ALL_FUNCTIONS if info.level != "none" else _PLAIN_FUNCTIONS:
        interface = checker.standard(name)
        if isinstance(interface, ast.Interface):
            interfaces.append(nominal(interface, (result, parameters)))
    return tuple(interfaces)


def interface_bases(checker: Checker, declaration: ast.WithBases) -> list[InterfaceType]:
    """The interfaces among the bases of a struct, enum, interface or extension."""
    interfaces = checker.bases.get(declaration)
    if interfaces is not None:
        return interfaces
    with checker.settling(("bases", declaration)) as settling:
        if not settling.is_first:
            return []
        scope = checker.scope_of(declaration)
        bases = [checker.resolve_type(scope, node) for node in declaration.bases]
    interfaces = [interface for base in bases for interface in interfaces_in(base)]
    checker.bases[declaration] = interfaces
    if isinstance(declaration, ast.Interface):  # which may need these bases again
        interfaces = checker.bases[declaration] = [
            inherited for inherited in interfaces if not _is_circle(checker, declaration, inherited)
        ]
    return interfaces


def _is_circle(checker: Checker, declaration: ast.Interface, base: InterfaceType) -> bool:
    """Whether an interface would inherit from itself, which is reported."""
    with checker.settling(("circle", declaration)) as settling:
        is_circle = _inherits(checker, base.declaration, declaration)
    if is_circle:
        through = "" if base.declaration is declaration else f" through '{base.declaration.name}'"
        message = f"the interface '{declaration.name}' inherits from itself{through}"
        checker.error("E0413", message, declaration.name_span)
    elif settling.complete:
        checker.without_circles.add(base.declaration)
    return is_circle


def _inherits(checker: Checker, start: ast.Interface, other: ast.Interface) -> bool:
    """Whether an interface is another one, or inherits from it. Interfaces known to be in no circle are skipped."""
    reached = {start: None}
    pending = [start]
    while pending and other not in reached:
        interface = pending.pop()
        if interface not in checker.without_circles:
            new = {more.declaration: None for more in interface_bases(checker, interface)}
            pending += new.keys() - reached.keys()
            reached.update(new)
    return other in reached


def _constrained_by_base(checker: Checker, kind: Projection) -> Iterator[InterfaceType]:
    """The bounds of an inherited associated type: `__constraint Differential : IFoo` in an interface of its base."""
    for interface in conformances(checker, kind.base):
        if interface is kind.interface:
            continue
        stated = generic_info(checker, interface.declaration).bounds
        subject = associated_type(parameter_type(interface.declaration), kind.interface, kind.declaration)
        for bound in stated.get(subject, ()):
            yield substitute(checker, bound, requirement_substitution(kind.base, interface))


def with_inherited(checker: Checker, interface: InterfaceType) -> list[InterfaceType]:
    """An interface and all that it inherits from."""
    interfaces: dict[InterfaceType, None] = {}
    _add_with_bases(checker, parameter_type(interface.declaration), interface, interfaces)
    return list(interfaces)


def unmet_constraint(
    checker: Checker, declaration: ast.Declaration, substitution: Substitution
) -> str | None:
    """Why the arguments do not satisfy the bounds and `where` clauses of a declaration; None when they do."""
    info = generic_info(checker, declaration)
    for subject, interfaces in info.bounds.items():
        if _is_required(declaration, subject, substitution):
            continue
        for actual, seen in _seen_entries(checker, subject, substitution):
            for interface in interfaces:
                wanted = substitute(checker, interface, seen)
                if actual is subject and wanted is interface and isinstance(subject, ParameterType):
                    continue  # a parameter without an argument stands for itself
                if not conforms(checker, actual, wanted):
                    return f"'{actual}' does not conform to '{wanted}'"
    for left, right in info.equalities:
        if _is_required(declaration, left, substitution):
            continue
        for actual_left, seen in _seen_entries(checker, left, substitution):
            other = substitute(checker, right, seen)
            if actual_left is not other and ERROR not in (actual_left, other):
                return f"'{left}' is '{actual_left}', not '{other}'"
    for left, right, implicit in info.conversions:
        for actual_left, seen in _seen_entries(checker, left, substitution):
            other = substitute(checker, right, seen)
            if checker.conversion(actual_left, other, implicit) is None:
                return f"'{actual_left}' does not convert to '{other}'{' without a cast' if implicit else ''}"
    for operator, least, most in info.counts:
        counts = substitute_value(checker, least, substitution), substitute_value(checker, most, substitution)
        if not _holds(checker, operator, *counts):
            return f"'{least} {operator} {most}' does not hold: it is {counts[0]} {operator} {counts[1]}"
    return None


def _is_required(declaration: ast.Declaration, subject: Type, substitution: Substitution) -> bool:
    """Whether a constraint is about `This` of an interface, and no type is asked about: conformances are."""
    root = projection_root(subject)
    of_this = isinstance(declaration, ast.Interface) and root is parameter_type(declaration)
    return of_this and declaration not in substitution


def _seen_entries(
    checker: Checker, subject: Type, substitution: Substitution
) -> Iterator[tuple[Type, Substitution]]:
    """A type with its parameters filled in; of a pack each element, and how the pack's element is seen then."""
    filled: Any = substitute(checker, subject, substitution)  # of a pack a tuple
    pack = subject.declaration if isinstance(subject, ParameterType) else None
    if not isinstance(pack, ast.TypeParameter) or not pack.is_pack:
        yield filled, substitution
        return
    for entry in filled if isinstance(filled, tuple) else (filled,):
        element = element_type(checker, entry)
        yield element, {**substitution, element_parameter(pack): element}


def _holds(checker: Checker, operator: str, left: Value, right: Value) -> bool:
    """Whether a comparison is true, or stated by a declaration around."""
    result = operate(operator, left, right)
    if isinstance(result, int):
        return result != 0
    if left is right:
        return operator in ("==", "<=", ">=")
    stated = [count for owner in checker.assumptions for count in generic_info(checker, owner).counts]
    return any(
        count == (operator, left, right) or (operator == "==" and count == ("==", right, left))
        for count in stated
    )
