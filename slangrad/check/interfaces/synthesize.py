"""Members that a type does not declare but that follow from its members.

In: the requirement `float f(int x)` and a struct with `float f(float x)`.
Out: the method `float f(int x) { return this.f(x); }`, checked, for the interface only.

    a method or subscript that can be called with the arguments of the requirement, and whose result converts
    `__init()` of a struct without constructors: all fields have their defaults
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.base.diagnostics import Reporter
from slangrad.check.generics.bounds import requirement_substitution
from slangrad.check.generics.substitution import own_substitution, self_argument, self_type, substitute
from slangrad.check.interfaces.lookup import concrete_members, conformances, is_type_declaration
from slangrad.check.model.checked import FunctionInfo, ParameterInfo, SubscriptInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.types import VOID, InterfaceType, StructType, Type
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.ast.walk import walk


def synthesized(
    checker: Checker, kind: Type, interface: InterfaceType, requirement: ast.Declaration
) -> DeclRef | None:
    """A synthesized member that satisfies a requirement, or None."""
    if not isinstance(kind, StructType):
        return None
    seen = _seen_from_inside(checker, kind, interface)
    if seen is None:
        return None
    key = (kind.declaration, seen, requirement)
    if key not in checker.synthesized_members:
        checker.synthesized_members[key] = None  # its callee must be written, not synthesized
        member = _make(checker, kind.declaration, seen, requirement)
        checker.synthesized_members[key] = (
            None if member is None or _forwards_to(member, requirement) else member
        )
    member = checker.synthesized_members[key]
    return None if member is None else DeclRef(member, own_substitution(kind))


def _forwards_to(member: ast.Declaration, requirement: ast.Declaration) -> bool:
    """Whether the callee is the default of the requirement itself."""
    parts = member.accessors if isinstance(member, ast.Subscript) else (member,)
    bodies = [part.body for part in parts if isinstance(part, ast.AnyFunction) and part.body is not None]
    forms = [node.ref for body in bodies for node in walk(body) if isinstance(node, ast.Expression)]
    called = [getattr(form, "reference", getattr(form, "function", None)) for form in forms]
    return any(getattr(reference, "declaration", None) is requirement for reference in called)


def _seen_from_inside(checker: Checker, kind: StructType, interface: InterfaceType) -> InterfaceType | None:
    """The interface in terms of the struct's own generic parameters."""
    bindings = own_substitution(kind)
    for offered in conformances(checker, self_type(kind.declaration)):
        if (
            offered.declaration is interface.declaration
            and substitute(checker, offered, bindings) is interface
        ):
            return offered
    return None


def _make(
    checker: Checker, owner: ast.StructDeclaration, interface: InterfaceType, requirement: ast.Declaration
) -> ast.Declaration | None:
    this = self_type(owner)
    if isinstance(requirement, ast.Constructor):
        return _default_constructor(checker, owner, this, requirement)
    if all(is_type_declaration(m.declaration) for m in concrete_members(checker, this, requirement.name)):
        return None
    seen = requirement_substitution(this, interface)
    if isinstance(requirement, ast.FunctionDeclaration):
        return _forwarding_method(checker, owner, this, seen, requirement)
    if getattr(requirement, "generics", None):
        return None
    if isinstance(requirement, ast.Subscript):
        return _forwarding_subscript(checker, owner, this, seen, requirement)
    return None


def _default_constructor(
    checker: Checker, owner: ast.StructDeclaration, this: Type, requirement: ast.Constructor
) -> ast.Constructor | None:
    if requirement.parameters or concrete_members(checker, this, "__init"):
        return None
    constructor = ast.Constructor(owner.span, "__init", owner.name_span, [], ast.Block(owner.span, []))
    constructor.parent = owner
    constructor.checked = FunctionInfo(
        this, True, (), this, level=checker.info(requirement).level, body_checked=True
    )
    return constructor


def _forwarding_method(
    checker: Checker,
    owner: ast.StructDeclaration,
    this: Type,
    seen: Bindings,
    requirement: ast.FunctionDeclaration,
) -> ast.FunctionDeclaration | None:
    wanted: FunctionInfo = checker.info(requirement)
    generics = [duplicate(parameter) for parameter in requirement.generics]
    seen = {**seen, **{theirs: self_argument(other) for theirs, other in zip(requirement.generics, generics)}}
    parameters = _parameters(checker, seen, requirement.parameters)
    span = owner.name_span
    object_: ast.Expression = ast.ThisType(span) if wanted.this_type is None else ast.This(span)
    callee: ast.Expression = ast.Member(span, object_, requirement.name, span, ".")
    if generics:
        callee = ast.GenericApplication(
            span, callee, [ast.Name(span, parameter.name) for parameter in generics]
        )
    call = ast.Call(span, callee, _names(parameters))
    throws = None if wanted.throws is None else substitute(checker, wanted.throws, seen)
    value = call if throws is None or not _throws(checker, this, requirement.name) else ast.Try(span, call)
    result = substitute(checker, wanted.result, seen)
    function = ast.FunctionDeclaration(
        span, requirement.name, span, parameters, None, None, _returning(value), []
    )
    function.parent, function.modifiers, function.generics = owner, requirement.modifiers, generics
    for generic in generics:
        generic.parent = function
    function.checked = FunctionInfo(
        None if wanted.this_type is None else this,
        wanted.mutating,
        tuple(parameters),
        result,
        wanted.level,
        wanted.no_diff_this,
        wanted.no_diff_result,
        throws=throws,
    )
    return function if _is_correct(checker, [function]) else None


def _throws(checker: Checker, this: Type, name: str) -> bool:
    """Whether the methods of that name throw errors."""
    offered = [checker.info(member.declaration) for member in concrete_members(checker, this, name)]
    return any(getattr(info, "throws", None) is not None for info in offered)


def _forwarding_subscript(
    checker: Checker, owner: ast.StructDeclaration, this: Type, seen: Bindings, requirement: ast.Subscript
) -> ast.Subscript | None:
    wanted: SubscriptInfo = checker.info(requirement)
    parameters = _parameters(checker, seen, requirement.parameters)
    span = owner.name_span
    result = substitute(checker, wanted.result, seen)
    subscript = ast.Subscript(span, "__subscript", span, parameters, requirement.result, [])
    subscript.parent = owner
    subscript.checked = SubscriptInfo(this, tuple(parameters), result)
    for accessor in requirement.accessors:
        subscript.accessors.append(_forwarding_accessor(checker, subscript, accessor, result))
    return subscript if _is_correct(checker, subscript.accessors) else None


def _forwarding_accessor(
    checker: Checker, owner: ast.Subscript, wanted: ast.Accessor, element: Type
) -> ast.Accessor:
    span = owner.span
    place = ast.Index(span, ast.This(span), _names(owner.parameters))
    info: FunctionInfo = checker.info(wanted)
    forwarding = ast.Accessor(span, wanted.name, span, wanted.parameter, _returning(place))
    forwarding.parent = owner
    parameters = tuple(owner.parameters)
    if wanted.parameter is not None:
        value = _parameter(wanted.parameter, element, "in")
        forwarding.parameter, parameters = value, (*parameters, value)
        assign = ast.Assign(span, "=", place, ast.Name(span, value.name))
        forwarding.body = ast.Block(span, [ast.ExpressionStatement(span, assign)])
    this = owner.checked.this_type
    result = VOID if wanted.name == "set" else element
    forwarding.checked = FunctionInfo(this, info.mutating, parameters, result, info.level)
    return forwarding


def _parameters(
    checker: Checker, seen: Bindings, wanted: list[ast.ParameterDeclaration]
) -> list[ast.ParameterDeclaration]:
    parameters = []
    for required in wanted:
        info: ParameterInfo = checker.info(required)
        parameters.append(
            _parameter(required, substitute(checker, info.type, seen), info.direction, info.no_diff)
        )
    return parameters


def _parameter(
    like: ast.ParameterDeclaration, kind: Type, direction: str, no_diff: bool = False
) -> ast.ParameterDeclaration:
    parameter = ast.ParameterDeclaration(like.span, like.name, like.name_span, direction, None, None, [])
    parameter.checked = ParameterInfo(kind, direction, no_diff)
    return parameter


def _names(parameters: list[ast.ParameterDeclaration]) -> list[ast.Expression]:
    return [ast.Name(parameter.span, parameter.name) for parameter in parameters]


def _returning(value: ast.Expression) -> ast.Block:
    return ast.Block(value.span, [ast.Return(value.span, value)])


def _is_correct(checker: Checker, functions: Sequence[ast.AnyFunction]) -> bool:
    """Check the bodies, without their errors."""
    before, checker.reporter = checker.reporter, Reporter()
    for function in functions:
        checker.check_synthesized(function)
    correct = not checker.reporter.has_errors
    checker.reporter = before
    return correct
