"""Bodies of functions, and checks of declarations as a whole.

In: a declaration of a module.   Out: errors; everything inside is filled.

Modules of users are checked throughout when they are loaded; of the standard library only the bodies that
a program needs, when it needs them.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass, kinds_of
from slangrad.check.bodies.headers import check_accessors, check_header
from slangrad.check.bodies.nesting import check_nesting, check_parameters_of_extension
from slangrad.check.bodies.statements import check_statements
from slangrad.check.bodies.visibility import check_visibility
from slangrad.check.derivatives.activity import check_activity
from slangrad.check.derivatives.custom_derivatives import check_derivative_attributes
from slangrad.check.derivatives.paths import is_endless
from slangrad.check.derivatives.rules import check_differential, check_levels
from slangrad.check.generics.bounds import generic_info, interfaces_in
from slangrad.check.generics.signatures import signature_of
from slangrad.check.interfaces.differentiable import tangent
from slangrad.check.interfaces.lookup import (
    all_members,
    base_of,
    conforms,
    interface_bases,
    tag_type,
    with_inherited,
)
from slangrad.check.interfaces.witnesses import check_conformance
from slangrad.check.model import checked
from slangrad.check.model.checked import FunctionInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import (
    ERROR,
    VOID,
    EnumType,
    MatrixType,
    ScalarType,
    StructType,
    Type,
    VectorType,
)
from slangrad.check.names.attributes import check_attributes, check_modifiers
from slangrad.check.names.scopes import Body, Scope, this_type
from slangrad.check.names.struct_fields import complete_structs, inherits
from slangrad.check.texts.linking import is_open
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import children, walk
from slangrad.syntax.parser import parse_body


def check_body(checker: Checker, declaration: ast.AnyFunction) -> None:
    """Check the body of a function, constructor or accessor, once."""
    info: FunctionInfo = checker.info(declaration)
    if info.body_checked or declaration.body is None:
        return
    info.body_checked = True
    if isinstance(declaration.body, ast.Unparsed):
        declaration.body = parse_body(declaration.body, declaration)
    scope = Scope(checker, checker.scope_of(declaration), declaration)
    for parameter in info.parameters:
        check_modifiers(checker, parameter)
        scope.add(parameter)
    scope.body, scope.handlers = Body(declaration, info), ()
    with checker.assuming(declaration):
        check_statements(scope, declaration.body.statements)
        _check_end(checker, declaration, declaration.body, info)
        if checker.refusals.concern(declaration.span):
            return  # it may store, and compute derivatives, where it cannot be checked
        _warn_of_unset(checker, declaration.body, scope.body.assigned)
        check_activity(checker, declaration)


def _check_end(checker: Checker, declaration: ast.AnyFunction, body: ast.Block, info: FunctionInfo) -> None:
    if isinstance(declaration, ast.Constructor) or info.result in (VOID, ERROR):
        return
    if all(_falls_through(statement) for statement in body.statements):
        if checker.reporter.has_syntax_error(body.span):
            return  # the 'return' may be in the part that could not be read
        message = f"'{declaration.name}' can end without returning a '{info.result}', which is zero then"
        checker.warning("E0605", message, declaration.name_span, "add a 'return' at the end")


def _warn_of_unset(checker: Checker, body: ast.Block, assigned: set[ast.Declaration]) -> None:
    """Warn where a variable is read although its function never stores into it, passes it as `out` or `inout`, or
    takes its address. `assigned`: variables with a store. The warning is never wrong; it misses variables that are
    set too late."""
    if body.span.source.is_library:
        return
    statements = [node for node in walk(body) if isinstance(node, ast.DeclarationStatement)]
    declared = [declaration for node in statements for declaration in node.declarations]
    _check_empty(checker, body, {node for node in declared if _is_none(node)} - assigned)
    unset = {declaration for declaration in declared if _has_no_value(checker, declaration)} - assigned
    if not unset:
        return
    for node in walk(body):
        if isinstance(node, ast.Unary) and node.operator == "&":
            unset -= {_local_of(child) for child in walk(node)}
    for node in walk(body):
        variable = _local_of(node)
        if variable in unset:
            unset.remove(variable)
            note = f"write '{variable.name} = 0' where it is declared, if this is meant"
            checker.warning("E0331", f"'{variable.name}' has no value here, so it is zero", node.span, note)


def _check_empty(checker: Checker, body: ast.Block, empty: set[ast.Declaration]) -> None:
    """Report `x.value` of variables that are `none`, have no store, and are not compared or looked at."""
    nodes = list(walk(body)) if empty else []
    reads = [node for node in nodes if isinstance(node, ast.Member) and node.name == "value"]
    read = {node.base for node in reads}
    empty -= {_local_of(node) for node in nodes if node not in read}
    for node in reads:
        variable = _local_of(node.base)
        if variable in empty:
            note = f"write 'if ({variable.name}.hasValue)', or store into it first"
            checker.error("E0331", f"'{variable.name}' is none here, so it has no value", node.span, note)


def _is_none(node: ast.Declaration) -> bool:
    return isinstance(node, ast.Variable) and isinstance(node.initializer, ast.NoneLiteral)


def _has_no_value(checker: Checker, node: ast.Declaration) -> bool:
    if not isinstance(node, ast.Variable) or node.initializer is not None or node.has("static"):
        return False
    return isinstance(checker.info(node).type, (ScalarType, VectorType, MatrixType))


def _local_of(node: ast.SyntaxNode) -> ast.Variable | ast.ParameterDeclaration | None:
    if isinstance(node, ast.Name) and isinstance(node.ref, checked.Local):
        return node.ref.declaration
    return None


# --- Declarations -------------------------------------------------------------------------------------


def check_declaration(checker: Checker, declaration: ast.Declaration) -> None:
    """Check a declaration with all that is in it."""
    check_attributes(checker, declaration)
    check_modifiers(checker, declaration)
    check_header(checker, declaration)
    check_visibility(checker, declaration)
    RULES[type(declaration)](checker, declaration)


def _function(checker: Checker, node: ast.FunctionDeclaration) -> None:
    info: FunctionInfo = checker.info(node)
    generic_info(checker, node)
    attribute = node.attribute("NoDiscard")
    if attribute is not None and info.result is VOID:
        message = f"'{node.name}' has no result that [NoDiscard] could be about"
        checker.error("E0208", message, node.name_span, "leave it out")
    if node.attribute("CudaKernel") is not None and info.result not in (VOID, ERROR):
        message = f"'{node.name}' returns a value, and a launch has no result"
        checker.error("E0709", message, node.name_span, "write it into a tensor")
    if node.attribute("CudaKernel") is not None and info.level != "none":
        _check_parameters_of_kernel(checker, node)
    check_body(checker, node)
    check_derivative_attributes(checker, node)


def _check_parameters_of_kernel(checker: Checker, node: ast.FunctionDeclaration) -> None:
    """A launch gives no derivative to a parameter that each thread has a copy of."""
    for parameter in node.parameters:
        passed = checker.info(parameter)
        is_copied = isinstance(passed.type, (ScalarType, VectorType, MatrixType)) and not passed.no_diff
        if is_copied and tangent(checker, passed.type) is not None:
            message = f"a launch has no derivative by '{parameter.name}', of which each thread has a copy"
            note = "mark it no_diff, or take a DiffTensorView"
            checker.error("E0709", message, parameter.name_span, note)


def _constructor(checker: Checker, node: ast.Constructor) -> None:
    checker.info(node)
    generic_info(checker, node)
    check_body(checker, node)


def _accessors(checker: Checker, node: ast.Subscript | ast.Property) -> None:
    checker.info(node)
    check_accessors(checker, node)
    for accessor in node.accessors:
        if accessor.name not in ("get", "set", "ref", "__atomic"):
            checker.error(
                "E0324", f"'{accessor.name}' is no accessor; there are get, set and ref", accessor.span
            )
            continue
        checker.info(accessor)
        check_attributes(checker, accessor)
        check_body(checker, accessor)
        check_derivative_attributes(checker, accessor)


def _struct(checker: Checker, node: ast.StructDeclaration) -> None:
    complete_structs(checker, [node])  # of a local one
    generic_info(checker, node)
    kind = this_type(checker, node)
    _check_bases(checker, node, kind)
    check_members(checker, node)
    checker.later.append(lambda: _check_conformances(checker, node, kind))


def _check_bases(checker: Checker, node: ast.StructDeclaration | ast.EnumDeclaration, kind: Type) -> None:
    for position, base in enumerate(node.bases):
        base_type = checker.resolve_type(checker.scope_of(node), base)
        if (
            base_type is ERROR
            or interfaces_in(base_type)
            or (position == 0 and base_type is base_of(checker, kind) and not _is_of_2026(node))
        ):
            continue
        if isinstance(kind, EnumType):
            tag_type(checker, kind)
        elif (
            isinstance(base_type, StructType)
            and isinstance(node, ast.StructDeclaration)
            and inherits(base_type, node)
        ):
            checker.error(
                "E0325", f"'{kind}' inherits from itself", base.span, "hold the index of one in a buffer"
            )
        elif isinstance(base_type, StructType) and _is_of_2026(node):
            message = f"in Slang 2026 a struct inherits from interfaces only, not from '{base_type}'"
            checker.error("E0413", message, base.span, f"make a '{base_type}' a field of '{kind}'")
        else:
            message = f"'{kind}' can inherit from one struct, the first, and from interfaces, not from '{base_type}'"
            checker.error("E0413", message, base.span, f"make a '{base_type}' a field of '{kind}'")


def _is_of_2026(node: ast.Declaration) -> bool:
    while node.parent is not None:
        node = node.parent
    return isinstance(node, ast.ModuleDeclaration) and node.language >= 2026


def _check_conformances(checker: Checker, node: ast.StructDeclaration | ast.Extension, kind: Type) -> None:
    if is_open(node):
        return
    alias = node.alias if isinstance(node, ast.StructDeclaration) else None
    meant = kind if alias is None else checker.resolve_type(checker.scope_of(node), alias)
    for base in node.bases:
        for interface in interfaces_in(checker.resolve_type(checker.scope_of(node), base)):
            for inherited in with_inherited(checker, interface):
                if alias is None:
                    check_conformance(checker, kind, inherited, base.span)
                    check_levels(checker, kind, inherited, base.span)
                    check_differential(checker, kind, inherited, base.span)
                elif not conforms(checker, meant, inherited):
                    checker.error("E0411", f"'{meant}' does not conform to '{inherited}'", alias.span)


def check_members(checker: Checker, node: ast.Container) -> None:
    """The members of a type, module or namespace, and whether two of them clash."""
    check_nesting(checker, node, node.members)
    if isinstance(node, ast.Extension):
        check_parameters_of_extension(checker, node)
    for member in node.members:
        check_declaration(checker, member)
    _check_duplicates(checker, list(all_members(node)))


def _check_duplicates(checker: Checker, members: list[ast.Declaration]) -> None:
    by_name: dict[str, list[ast.Declaration]] = {}
    for member in members:
        if member.name and not isinstance(member, (ast.Namespace, ast.Import, ast.IncludeModule, ast.Using)):
            by_name.setdefault(member.name, []).append(member)
    for name, same in by_name.items():
        if len(same) > 1:
            _check_same_name(checker, name, same)


_OVERLOADED = (ast.FunctionDeclaration, ast.Constructor, ast.Subscript)


def _check_same_name(checker: Checker, name: str, same: list[ast.Declaration]) -> None:
    if not all(isinstance(declaration, _OVERLOADED) for declaration in same):
        if all(
            isinstance(declaration, ast.StructDeclaration) and not declaration.has_body
            for declaration in same[1:]
        ):
            return
        checker.error("E0308", f"'{name}' is declared twice", same[-1].name_span)
        return
    seen: set[object] = set()
    for overload in same:
        if not isinstance(overload, (ast.FunctionDeclaration, ast.Constructor)):
            continue
        foreign = overload.attribute("__target_intrinsic") is not None
        if overload.body is None and not foreign:
            continue
        key = (foreign, _overload_key(checker, overload))
        if key in seen:
            checker.error("E0308", f"'{name}' is declared twice with these parameters", overload.name_span)
        seen.add(key)


def _overload_key(checker: Checker, node: ast.FunctionDeclaration | ast.Constructor) -> object:
    """The distinguishing parts of overloads: parameters, `static`, the bounds of generic parameters."""
    signature = signature_of(checker, DeclRef(node, {}))
    bounds = [
        str(interface)
        for interfaces in generic_info(checker, node).bounds.values()
        for interface in interfaces
    ]
    parameters = [f"{passed.direction} {passed.type}" for passed in signature.parameters]
    return (len(node.generics), node.has("static"), node.has("__postfix"), *parameters, *bounds)


def _interface(checker: Checker, node: ast.Interface) -> None:
    generic_info(checker, node)
    interface_bases(checker, node)
    for member in node.members:
        if isinstance(member, ast.AssociatedType):
            for bound in member.bounds:
                checker.resolve_type(checker.scope_of(node), bound)
    check_members(checker, node)


def _extension(checker: Checker, node: ast.Extension) -> None:
    generic_info(checker, node)
    kind = this_type(checker, node)
    for base in node.bases:
        base_type = checker.resolve_type(checker.scope_of(node), base)
        if base_type is not ERROR and not interfaces_in(base_type):
            checker.error("E0413", f"an extension can add interfaces only, not '{base_type}'", base.span)
    check_members(checker, node)
    if kind is not ERROR:
        checker.later.append(lambda: _check_conformances(checker, node, kind))


def _enum(checker: Checker, node: ast.EnumDeclaration) -> None:
    kind = this_type(checker, node)
    assert isinstance(kind, EnumType)
    _check_bases(checker, node, kind)
    for case in node.members:
        checker.info(case)
    _check_duplicates(checker, list(node.members))


def _alias(checker: Checker, node: ast.TypeAlias) -> None:
    generic_info(checker, node)
    checker.info(node)


def _block(checker: Checker, node: ast.BufferBlock) -> None:
    for member in node.members:
        check_declaration(checker, member)


Rule = Callable[[Checker, OfClass], object]

# The declaration around one of these checks it, or the search for names does.
_CHECKED_ELSEWHERE = (
    ast.Accessor, ast.AssociatedType, ast.ConstraintRequirement, ast.EnumCase, ast.Import, ast.IncludeModule,
    ast.ModuleDeclaration, ast.ParameterDeclaration, ast.TypeParameter, ast.Using, ast.ValueParameter,
)  # fmt: skip

RULES: dict[type[ast.Declaration], Rule] = {
    ast.FunctionDeclaration: _function,
    ast.Constructor: _constructor,
    ast.Subscript: _accessors,
    ast.Property: _accessors,
    ast.Variable: lambda checker, node: checker.info(node),
    ast.StructDeclaration: _struct,
    ast.Interface: _interface,
    ast.Extension: _extension,
    ast.EnumDeclaration: _enum,
    ast.TypeAlias: _alias,
    ast.BufferBlock: _block,
    ast.Namespace: check_members,
    **dict.fromkeys(_CHECKED_ELSEWHERE, lambda checker, node: None),
}
assert RULES.keys() == kinds_of(ast.Declaration), RULES.keys() ^ kinds_of(ast.Declaration)


# --- Can the end be reached? --------------------------------------------------------------------------


def _falls_through(node: ast.Statement) -> bool:
    """Whether the code after a statement can run. Conditions count as unknown, except the literal `true`; a loop
    that never ends and has no `break` is never left."""
    rule = _FALLING.get(type(node))
    return True if rule is None else rule(node)


def _sequence(statements: list[ast.Statement]) -> bool:
    return all(_falls_through(statement) for statement in statements)


def _if(node: ast.If | ast.IfLet) -> bool:
    return node.otherwise is None or _falls_through(node.then) or _falls_through(node.otherwise)


def _switch(node: ast.Switch) -> bool:
    if not any(labeled.is_default for labeled in node.cases):
        return True
    if any(_breaks(statement) for case in node.cases for statement in case.body):
        return True
    return bool(node.cases) and _sequence(node.cases[-1].body)


def _breaks(node: ast.SyntaxNode) -> bool:
    """Whether a `break` in here leaves the statement around it."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, _TAKING_BREAKS):
        return any(isinstance(child, ast.Break) and child.label is not None for child in walk(node))
    return not isinstance(node, (ast.Expression, ast.Defer, ast.TargetSwitch)) and any(
        map(_breaks, children(node))
    )


_TAKING_BREAKS = (ast.For, ast.While, ast.DoWhile, ast.CompileTimeFor, ast.Switch)


def _loop(node: ast.For | ast.While) -> bool:
    return not is_endless(node.condition) or _breaks(node.body)


def _do_while(node: ast.DoWhile) -> bool:
    if _breaks(node.body):
        return True
    continues = any(isinstance(child, ast.Continue) for child in walk(node.body))
    return not is_endless(node.condition) and (_falls_through(node.body) or continues)


_FALLING: dict[type[ast.Statement], Callable[[OfClass], bool]] = {
    ast.Return: lambda node: False,
    ast.Discard: lambda node: False,
    ast.Throw: lambda node: False,
    ast.Break: lambda node: False,
    ast.Continue: lambda node: False,
    ast.Block: lambda node: _sequence(node.statements),
    ast.If: _if,
    ast.IfLet: _if,
    ast.DoCatch: lambda node: any(_falls_through(part.body) for part in (node, *node.handlers)),
    ast.Switch: _switch,
    ast.For: _loop,
    ast.While: _loop,
    ast.DoWhile: _do_while,
    ast.Labeled: lambda node: _falls_through(node.statement),
    ast.TargetSwitch: lambda node: any(
        _sequence(case.body) for case in ([node.chosen] if node.chosen else node.cases)
    ),
    ast.TargetAssembly: lambda node: False,
}
