"""How a type satisfies an interface: witnesses for its requirements, and whether any is missing.

In: `float`, IArithmetic, the requirement `add`.   Out: a DeclRef of the callee of `add` on a float.

A witness is a member of the type or of an extension with the required signature, else the default body in the
interface. A requirement marked [intrinsic] is its own witness for primitive types. Differential types are made in
differentiable.py.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.base.source import Span
from slangrad.check.generics.bounds import generic_info, requirement_substitution, root_owner
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.signatures import signature_of, signature_text
from slangrad.check.generics.substitution import (
    nominal_parameters,
    own_substitution,
    see_through,
    self_argument,
    self_type,
    substitute,
    substitute_stored,
    substitute_value,
)
from slangrad.check.interfaces.differentiable import tangent
from slangrad.check.interfaces.lookup import (
    ANY,
    LookupResult,
    cache_key,
    concrete_members,
    conformances,
    conforms,
    declared,
    extensions_of,
    filed_extensions,
    has_body,
    interface_bases,
    is_stated,
    is_type_declaration,
    tag_type,
    unmet_constraint,
)
from slangrad.check.interfaces.synthesize import synthesized
from slangrad.check.model.checked import FunctionInfo, SubscriptInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef, Substitution
from slangrad.check.model.types import (
    ERROR,
    EnumType,
    InterfaceType,
    LambdaType,
    Nominal,
    ParameterType,
    Projection,
    Type,
    associated_type,
    nominal,
    parameter_type,
    unstored,
)
from slangrad.check.model.values import Value, required_value
from slangrad.syntax import ast

# --- Associated types and constants -------------------------------------------------------------------


def associated(
    checker: Checker, base: Type, interface: InterfaceType, declaration: ast.AssociatedType
) -> Type:
    """`base.Name`."""
    if base is ERROR:
        return ERROR
    if isinstance(base, (ParameterType, Projection, InterfaceType)):
        abstract = associated_type(base, interface, declaration)
        equal = known_equal(checker, abstract)
        return equal if equal is not abstract else _by_extension(checker, abstract)
    key = (base, interface, declaration)
    meanwhile: Type = associated_type(base, interface, declaration)
    return checker.settled(key, lambda: _find_associated(checker, base, interface, declaration), meanwhile)


def _by_extension(checker: Checker, kind: Projection) -> Type:
    """`T.Name` where T conforms by an extension of all types of its bounds, which declares the name."""
    base = kind.base
    if isinstance(base, InterfaceType) or not filed_extensions(checker, ANY):
        return kind
    if is_stated(checker, base, kind.interface):
        return kind
    for extension, bindings in extensions_of(checker, base):
        bases = (
            substitute(checker, interface, bindings) for interface in interface_bases(checker, extension)
        )
        for declaration in declared(checker, extension, kind.declaration.name):
            if is_type_declaration(declaration) and any(interface is kind.interface for interface in bases):
                return unstored(member_type(checker, LookupResult(declaration, bindings)))
    return kind


def _find_associated(
    checker: Checker, base: Type, interface: InterfaceType, declaration: ast.AssociatedType
) -> Type:
    for member in members_for(checker, base, interface, declaration.name):
        if is_type_declaration(member.declaration):
            return unstored(member_type(checker, member))
    if declaration.name == "Differential" and interface.declaration.name == "IDifferentiable":
        return tangent(checker, base) or ERROR
    if isinstance(base, EnumType) and interface.declaration is checker.standard("__EnumType"):
        return tag_type(checker, base)
    if declaration.default is None:
        return ERROR
    default = checker.resolve_type(checker.scope_of(interface.declaration), declaration.default)
    return substitute(checker, default, requirement_substitution(base, interface))


def members_for(checker: Checker, kind: Type, interface: InterfaceType, name: str) -> list[LookupResult]:
    """Members that may satisfy a requirement; those of the extension that states the conformance come first."""
    results = concrete_members(checker, kind, name)
    if len(results) < 2:
        return results

    def is_elsewhere(member: LookupResult) -> bool:
        home = member.declaration.parent
        if not isinstance(home, ast.Extension):
            return True
        return not any(
            base.declaration is interface.declaration
            and substitute(checker, base, member.substitution) is interface
            for base in interface_bases(checker, home)
        )

    return sorted(results, key=is_elsewhere)


def member_type(checker: Checker, member: LookupResult) -> Type:
    """The type that a nested struct or alias is, seen from where it was found."""
    declaration = member.declaration
    if isinstance(declaration, ast.TypeAlias):
        return substitute_stored(checker, checker.info(declaration).type, member.substitution)
    parameters = nominal_parameters(declaration)
    kind: Type = nominal(
        declaration,
        tuple(member.substitution.get(parameter, self_argument(parameter)) for parameter in parameters),
    )
    return kind


def required(checker: Checker, base: Type, interface: InterfaceType, declaration: ast.Variable) -> Value:
    """`base.kCount`; zero if the type has none, which its conformance check reports."""
    if isinstance(base, (ParameterType, Projection, InterfaceType)):
        return required_value(base, interface, declaration)
    for member in concrete_members(checker, base, declaration.name):
        if isinstance(member.declaration, ast.Variable):
            constant = checker.info(member.declaration).constant
            if constant is not None:
                return substitute_value(checker, constant, member.substitution)
    default = checker.info(declaration).constant
    if default is None or default is required_value_of(declaration):
        return 0
    return substitute_value(checker, default, requirement_substitution(base, interface))


def required_value_of(declaration: ast.Variable) -> Value:
    """The constant that an interface requires, as the interface itself sees it."""
    interface = declaration.parent
    assert isinstance(interface, ast.Interface)
    return required_value(self_argument(interface), self_type(interface), declaration)


# --- Associated types that a `where` clause or a `__constraint` fixes ---------------------------------


def known_equal(checker: Checker, kind: Projection) -> Type:
    """The type that is known to be an associated type; the type itself if none is known.

    Equalities come from three sources: the declaration of the root parameter, the `where` clauses that hold, and
    the interfaces that the base conforms to (with `This` for the base). `T.Differential` with T :
    __BuiltinFloatingPointType is T, as that interface says.
    """
    meanwhile: Type = kind
    return checker.settled(("equal", cache_key(checker, kind)), lambda: _find_equal(checker, kind), meanwhile)


def _find_equal(checker: Checker, kind: Projection) -> Type:
    for owner in _owners(checker, kind):
        for left, right in generic_info(checker, owner).equalities:
            replaced = _apply(checker, kind, left, right, owner)
            if replaced is not None and replaced is not kind:
                return replaced
    return kind


def _owners(checker: Checker, kind: Projection) -> dict[ast.Declaration, None]:
    """The declarations whose equalities may mention the type, in a fixed order."""
    owners: dict[ast.Declaration, None] = {}
    root = root_owner(kind)
    if root is not None:
        owners[root] = None
    for declaration in checker.assumptions:
        owners[declaration] = None
    base: Type = kind
    while isinstance(base, Projection):
        owners[base.interface.declaration] = None
        base = base.base
        for interface in conformances(checker, base):
            owners[interface.declaration] = None
    return owners


def _apply(
    checker: Checker, kind: Projection, left: Type, right: Type, owner: ast.Declaration
) -> Type | None:
    if left is kind:
        return right
    if not isinstance(owner, ast.Interface) or not isinstance(left, Projection):
        return None
    base = _matching_base(kind, left, parameter_type(owner))
    if base is None:
        return None
    substitution: Substitution = {owner: base}
    return substitute(checker, right, substitution)


def _matching_base(kind: Type, pattern: Type, this: ParameterType) -> Type | None:
    """The type of `This` in `pattern` when the pattern is `kind`: This.A.B against X.A.B gives X."""
    while isinstance(pattern, Projection):
        if not isinstance(kind, Projection) or kind.declaration is not pattern.declaration:
            return None
        kind, pattern = kind.base, pattern.base
    return kind if pattern is this else None


WithGenerics = ast.FunctionDeclaration | ast.Constructor | ast.Subscript
Accessed = ast.Property | ast.Subscript

# --- Witnesses ----------------------------------------------------------------------------------------


def resolve(checker: Checker, reference: DeclRef, substitution: Substitution) -> DeclRef:
    """The reference under a substitution; a requirement becomes the member of what `This` now is."""
    seen = see_through(checker, reference, substitution)
    interface = seen.declaration.parent
    if not isinstance(interface, ast.Interface):
        return seen
    this = seen.substitution.get(interface)
    if not isinstance(this, Type) or isinstance(this, (ParameterType, Projection, InterfaceType)):
        return seen
    arguments = tuple(seen.substitution[parameter] for parameter in interface.generics)
    kind: InterfaceType = nominal(interface, arguments)
    member = witness(checker, this, kind, seen.declaration)
    return seen if member is None else _with_own_generics(seen, member)


def _with_own_generics(requirement: DeclRef, member: DeclRef) -> DeclRef:
    """The witness with the arguments given for the requirement's own generic parameters."""
    generics = list(getattr(requirement.declaration, "generics", ()))
    if not generics or member.declaration is requirement.declaration:
        merged = {**requirement.substitution, **member.substitution}
        return DeclRef(member.declaration, merged if generics else member.substitution)
    arguments = {
        mine: requirement.substitution[theirs]
        for mine, theirs in zip(member.declaration.generics, generics)
        if theirs in requirement.substitution
    }
    return DeclRef(member.declaration, {**member.substitution, **arguments})


def witness(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.Declaration
) -> DeclRef | None:
    """The witness of a requirement, or None without one."""
    key = (kind, interface, requirement)
    return checker.settled(key, lambda: _find_witness(checker, kind, interface, requirement), None)


def _find_witness(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.Declaration
) -> DeclRef | None:
    if isinstance(kind, LambdaType) and requirement.name == "operator()":
        return DeclRef(kind.declaration, own_substitution(kind))
    seen = requirement_substitution(kind, interface)
    compare = _COMPARISONS.get(type(requirement))
    for member in members_for(checker, kind, interface, requirement.name):
        reference = (
            compare(checker, requirement, seen, member) if compare is not None and not member.path else None
        )
        if reference is not None:
            return reference
    synthesized_member = synthesized(checker, kind, interface, requirement)
    if synthesized_member is not None:
        return synthesized_member
    if has_default(requirement) or attribute_text(requirement, "intrinsic") is not None:
        return DeclRef(requirement, seen)
    return None


def has_default(requirement: ast.Declaration) -> bool:
    """Whether a requirement brings a body or a value."""
    return has_body(requirement) or (
        isinstance(requirement, ast.Variable) and requirement.initializer is not None
    )


def attribute_text(declaration: ast.Declaration, name: str) -> str | None:
    """The text in `[name("text")]`."""
    attribute = declaration.attribute(name)
    if attribute is None or len(attribute.arguments) != 1:
        return None
    argument = attribute.arguments[0]
    return argument.value if isinstance(argument, ast.StringLiteral) else None


def _compare_functions(
    checker: Checker,
    requirement: ast.FunctionDeclaration | ast.Constructor,
    seen: Bindings,
    member: LookupResult,
) -> DeclRef | None:
    if type(member.declaration) is not type(requirement):
        return None
    wanted: FunctionInfo = checker.info(requirement)
    offered: FunctionInfo = checker.info(member.declaration)
    if wanted.this_type is None and offered.this_type is not None:
        return None
    if offered.mutating > wanted.mutating:
        return None
    return _compare_signatures(checker, requirement, seen, member)


def _compare_signatures(
    checker: Checker, requirement: WithGenerics, seen: Bindings, member: LookupResult
) -> DeclRef | None:
    theirs, mine = list(requirement.generics), list(member.declaration.generics)
    if theirs and len(theirs) != len(mine):
        return None
    renamed: Bindings = {
        **seen,
        **{parameter: self_argument(other) for parameter, other in zip(theirs, mine)},
    }
    wanted = signature_of(checker, DeclRef(requirement, renamed))
    offered = signature_of(checker, member.reference)
    if len(wanted.parameters) != len(offered.parameters):
        return None
    solver = Solver(checker, () if theirs else mine)
    for wanted_parameter, other in zip(wanted.parameters, offered.parameters):
        if wanted_parameter.direction != other.direction or not _same(
            solver, checker, other.type, wanted_parameter.type
        ):
            return None
    if not _same(solver, checker, offered.result, wanted.result):
        return None
    if not _throws_the_same(checker, requirement, renamed, member):
        return None
    return DeclRef(member.declaration, {**member.substitution, **solver.bindings})


def _throws_the_same(
    checker: Checker, requirement: WithGenerics, seen: Bindings, member: LookupResult
) -> bool:
    wanted = getattr(checker.info(requirement), "throws", None)
    offered = getattr(checker.info(member.declaration), "throws", None)
    if wanted is None or offered is None:
        return wanted is offered
    return substitute(checker, offered, member.substitution) is substitute(checker, wanted, seen)


def _same(solver: Solver, checker: Checker, offered: Type, wanted: Type) -> bool:
    mine = substitute(checker, offered, solver.bindings)
    if mine is wanted or ERROR in (mine, wanted):
        return True
    return bool(solver.open) and solver.unify(mine, wanted)


def _compare_properties(
    checker: Checker, requirement: ast.Property, seen: Bindings, member: LookupResult
) -> DeclRef | None:
    wanted: SubscriptInfo = checker.info(requirement)
    if isinstance(member.declaration, ast.Variable):
        offered = checker.info(member.declaration).type
    elif isinstance(member.declaration, ast.Property) and has_accessors(
        checker, member.declaration, requirement
    ):
        offered = checker.info(member.declaration).result
    else:
        return None
    same = substitute(checker, offered, member.substitution) is substitute(checker, wanted.result, seen)
    return member.reference if same else None


def _compare_subscripts(
    checker: Checker, requirement: ast.Subscript, seen: Bindings, member: LookupResult
) -> DeclRef | None:
    declaration = member.declaration
    if not isinstance(declaration, ast.Subscript) or not has_accessors(checker, declaration, requirement):
        return None
    return _compare_signatures(checker, requirement, seen, member)


def has_accessors(checker: Checker, offered: Accessed, wanted: Accessed) -> bool:
    """Whether each accessor that is wanted can be made from those offered; `ref` serves for all. None may change an
    object where the one that is wanted does not."""
    have = {accessor.name: accessor for accessor in offered.accessors}
    for needed in wanted.accessors:
        serves = have.get(needed.name, have.get("ref"))
        if serves is None or checker.info(serves).mutating > (
            needed.name == "set" or checker.info(needed).mutating
        ):
            return False
    return True


def _compare_variables(
    checker: Checker, requirement: ast.Variable, seen: Bindings, member: LookupResult
) -> DeclRef | None:
    if not isinstance(member.declaration, ast.Variable):
        return None
    wanted = substitute(checker, checker.info(requirement).type, seen)
    offered = substitute(checker, checker.info(member.declaration).type, member.substitution)
    return member.reference if wanted is offered else None


Comparison = Callable[[Checker, OfClass, Bindings, LookupResult], DeclRef | None]

_COMPARISONS: dict[type[ast.Declaration], Comparison] = {
    ast.FunctionDeclaration: _compare_functions,
    ast.Constructor: _compare_functions,
    ast.Property: _compare_properties,
    ast.Subscript: _compare_subscripts,
    ast.Variable: _compare_variables,
}

# --- Is the conformance true? -------------------------------------------------------------------------


def check_conformance(checker: Checker, kind: Type, interface: InterfaceType, span: Span) -> None:
    """Report requirements that a type claims to satisfy and does not."""
    missing = lacking(checker, kind, interface)
    if missing:
        note = "\n        ".join(missing)
        place = _unfit_member(checker, kind, interface) if len(missing) == 1 else None
        checker.error("E0411", f"'{kind}' does not conform to '{interface}'", place or span, note)
    for requirement in interface.declaration.members:
        if isinstance(requirement, ast.FunctionDeclaration) and has_body(requirement):
            _check_override(checker, kind, interface, requirement)


def _check_override(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.FunctionDeclaration
) -> None:
    """An `override` of the type itself replaces the default."""
    reference = witness(checker, kind, interface, requirement)
    if reference is None or reference.declaration is not requirement or not isinstance(kind, Nominal):
        return
    for member in concrete_members(checker, kind, requirement.name):
        if member.declaration.has("override") and member.declaration.parent is kind.declaration:
            message = f"'{requirement.name}' overrides nothing: that of '{interface}' has another form"
            note = f"it is declared as {signature_text(checker, DeclRef(requirement, {}))}"
            checker.error("E0411", message, member.declaration.name_span, note)


def _unfit_member(checker: Checker, kind: Type, interface: InterfaceType) -> Span | None:
    """The place of the member that has the name of the missing one, but another form."""
    for requirement in interface.declaration.members:
        if isinstance(requirement, tuple(_COMPARISONS)) and _missing_member(
            checker, kind, interface, requirement
        ):
            members = concrete_members(checker, kind, requirement.name)
            declared = members[0].declaration if len(members) == 1 else None
            is_own = (
                isinstance(kind, Nominal) and declared is not None and declared.parent is kind.declaration
            )
            return declared.name_span if declared is not None and is_own else None
    return None


def lacking(checker: Checker, kind: Type, interface: InterfaceType) -> list[str]:
    """The missing requirements of an interface in a type, a sentence for each."""
    missing: list[str] = []
    for requirement in interface.declaration.members:
        if isinstance(requirement, ast.AssociatedType):
            missing += _missing_type(checker, kind, interface, requirement)
        elif isinstance(requirement, tuple(_COMPARISONS)):
            missing += _missing_member(checker, kind, interface, requirement)
    if any(isinstance(member, ast.ConstraintRequirement) for member in interface.declaration.members):
        seen = requirement_substitution(kind, interface)
        reason = None if missing else unmet_constraint(checker, interface.declaration, seen)
        missing += [reason] if reason else []
    return missing


def _missing_type(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.AssociatedType
) -> list[str]:
    chosen = associated(checker, kind, interface, requirement)
    if chosen is ERROR:
        return [f"it lacks the type '{requirement.name}': typealias {requirement.name} = ...;"]
    seen = requirement_substitution(kind, interface)
    scope = checker.scope_of(interface.declaration)
    bounds = [substitute(checker, checker.resolve_type(scope, node), seen) for node in requirement.bounds]
    return [
        f"its '{requirement.name}' is '{chosen}', which does not conform to '{bound}'"
        for bound in bounds
        if isinstance(bound, InterfaceType) and not conforms(checker, chosen, bound)
    ]


def _missing_member(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.Declaration
) -> list[str]:
    if witness(checker, kind, interface, requirement) is not None:
        return []
    wanted = signature_text(checker, DeclRef(requirement, requirement_substitution(kind, interface)))
    near = concrete_members(checker, kind, requirement.name)
    if not near:
        return [f"it lacks {wanted}"]
    is_type = is_type_declaration(near[0].declaration)
    has = f"the type '{requirement.name}'" if is_type else signature_text(checker, near[0].reference)
    return [f"it lacks {wanted}; it has {has}"]
