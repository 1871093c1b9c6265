"""Differential types, and the signatures of `fwd_diff(f)` and `bwd_diff(f)`.

In: `struct S : IDifferentiable { float x; int n; }`.   Out: the struct S.Differential { float x; }.
In: `float f(float x, int n)`, backward.   Out: (inout DifferentialPair<float> x, int n, float) -> void.

A struct whose fields are all their own differentials is its own. Users may give a Differential of their
own, tie fields to it with [DerivativeMember] and define dzero and dadd. How derivatives flow in a body is
in activity.py.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.check.generics.bounds import element_type
from slangrad.check.generics.infer import match
from slangrad.check.generics.substitution import own_substitution, self_type, substitute
from slangrad.check.interfaces.lookup import (
    all_members,
    concrete_members,
    conforms,
    conforms_to,
    declared,
    extension_target,
    extensions_of,
    interface_bases,
    library_type,
)
from slangrad.check.model.checked import DifferentialInfo, VariableInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.packs import packs_of
from slangrad.check.model.types import (
    VOID,
    ArrayType,
    ExpandedType,
    FunctionParameter,
    FunctionType,
    InterfaceType,
    MatrixType,
    ParameterType,
    Projection,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    array,
    expanded_type,
    function_type,
    is_pack,
    nominal,
    tuple_of,
    with_element,
)
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import modifiers_of

# --- Differential types -------------------------------------------------------------------------------


def differential(checker: Checker, kind: Type) -> DifferentialInfo | None:
    """The tangent type, or None when a type carries no derivative."""
    if kind.abstract:
        return _find(checker, kind)
    return checker.settled(("differential", kind), lambda: _find(checker, kind), None)


def _find(checker: Checker, kind: Type) -> DifferentialInfo | None:
    rule = _pack if is_pack(kind) else _RULES.get(type(kind))
    return rule(checker, kind) if rule is not None else None


def tangent(checker: Checker, kind: Type) -> Type | None:
    """Only the type of the differential."""
    info = differential(checker, kind)
    return None if info is None else info.type


def _pack(checker: Checker, kind: Type) -> DifferentialInfo | None:
    tangent_type = tangent(checker, element_type(checker, kind))
    return None if tangent_type is None else DifferentialInfo(expanded_type(tangent_type, packs_of(kind)), ())


def _scalar(checker: Checker, kind: ScalarType) -> DifferentialInfo | None:
    return DifferentialInfo(kind, ()) if kind.is_float else None


def _elementwise(checker: Checker, kind: VectorType | MatrixType | ArrayType) -> DifferentialInfo | None:
    element = tangent(checker, kind.element)
    if element is None:
        return None
    whole = array(element, kind.count) if isinstance(kind, ArrayType) else with_element(kind, element)
    return DifferentialInfo(whole, ())


def _tuple(checker: Checker, kind: Tuple) -> DifferentialInfo | None:
    parts = [tangent(checker, element) for element in kind.elements]
    tangents = tuple(part for part in parts if part is not None)
    return DifferentialInfo(tuple_of(tangents), ()) if parts and len(tangents) == len(parts) else None


def _parameter(checker: Checker, kind: Type) -> DifferentialInfo | None:
    differentiable = checker.standard("IDifferentiable")
    interface = conforms_to(checker, kind, differentiable)
    if interface is None:
        return None
    (requirement,) = declared(checker, differentiable, "Differential")
    tangent_type = checker.associated(kind, interface, requirement)
    return DifferentialInfo(tangent_type, ())


def _struct(checker: Checker, kind: StructType) -> DifferentialInfo | None:
    if conforms_to(checker, kind, checker.standard("IDifferentiable")) is None:
        return None
    declared_type = given_differential(checker, kind)
    if declared_type is None:
        return _synthesize(checker, kind)
    pairs = tuple(
        (reference, _given_field(checker, reference, declared_type)) for reference in field_references(kind)
    )
    return DifferentialInfo(
        declared_type, pairs, _own_method(checker, kind, "dzero"), _own_method(checker, kind, "dadd")
    )


def given_differential(checker: Checker, kind: StructType) -> Type | None:
    for member in concrete_members(checker, kind, "Differential"):
        declaration = member.declaration
        if isinstance(declaration, ast.TypeAlias):
            return substitute(checker, checker.info(declaration).type, member.substitution)
        if isinstance(declaration, ast.StructDeclaration):
            return nominal(declaration, kind.arguments)
    return None


def _own_method(checker: Checker, kind: Type, name: str) -> DeclRef | None:
    methods = [
        member
        for member in concrete_members(checker, kind, name)
        if isinstance(member.declaration, ast.FunctionDeclaration)
    ]
    return methods[0].reference if methods else None


def _given_field(checker: Checker, field: DeclRef, owner: Type) -> DeclRef | None:
    """The field of a user's Differential: as [DerivativeMember(Differential.x)] says, else the one of its
    name.
    """
    if has_no_diff(field.declaration) or not isinstance(owner, StructType):
        return None
    name = field.declaration.name
    attribute = field.declaration.attribute("DerivativeMember")
    if attribute is not None and len(attribute.arguments) == 1:
        argument = attribute.arguments[0]
        name = argument.name if isinstance(argument, (ast.Member, ast.Name)) else name
    for member in concrete_members(checker, owner, name):
        if isinstance(member.declaration, ast.Variable) and not member.declaration.has("static"):
            return member.reference
    return None


def has_no_diff(declaration: ast.Declaration) -> bool:
    """`no_diff` before a declaration or in its type."""
    if declaration.has("no_diff"):
        return True
    node = getattr(declaration, "value_type", None) or getattr(declaration, "result", None)
    return "no_diff" in modifiers_of(node)


def field_declarations(declaration: ast.StructDeclaration) -> list[ast.Variable]:
    """The fields of a struct in order."""
    return [
        member
        for member in all_members(declaration)
        if isinstance(member, ast.Variable) and not member.has("static")
    ]


def field_references(kind: StructType) -> tuple[DeclRef, ...]:
    """The fields of a struct type, seen through its arguments."""
    seen = own_substitution(kind)
    return tuple(DeclRef(field, seen) for field in field_declarations(kind.declaration))


def field_type(checker: Checker, reference: DeclRef) -> Type:
    field: ast.Variable = reference.declaration
    return substitute(checker, checker.info(field).type, reference.substitution)


def _synthesize(checker: Checker, kind: StructType) -> DifferentialInfo:
    references = field_references(kind)
    tangents = [_field_tangent(checker, field_reference) for field_reference in references]
    same = all(
        tangent_type is field_type(checker, field_reference)
        for tangent_type, field_reference in zip(tangents, references)
    )
    owner = kind if same else _synthesized_struct(checker, kind)
    seen = own_substitution(kind)
    pairs = []
    for reference, field_tangent in zip(references, tangents):
        # A field of an open type that need not be differentiable has no place in the Differential of all instances.
        fields = (
            [] if field_tangent is None else declared(checker, owner.declaration, reference.declaration.name)
        )
        pairs.append((reference, DeclRef(fields[0], seen) if fields else None))
    return DifferentialInfo(owner, tuple(pairs))


def _field_tangent(checker: Checker, field: DeclRef) -> Type | None:
    return None if has_no_diff(field.declaration) else tangent(checker, field_type(checker, field))


def _synthesized_struct(checker: Checker, kind: StructType) -> StructType:
    """The struct named Differential inside of the user's, made once for all arguments of its generics. Where an
    extension makes some of them differentiable, one for these.
    """
    owner, extension = kind.declaration, _conforming_extension(checker, kind)
    key = owner if extension is None else (owner, extension)
    struct = checker.synthesized.get(key)
    if struct is None:
        struct = checker.synthesized[key] = _declare_differential(
            checker, owner, _tangents_by_name(checker, owner, extension)
        )
    return nominal(struct, kind.arguments)


def _conforming_extension(checker: Checker, kind: StructType) -> ast.Extension | None:
    """The extension that makes a type differentiable, if its declaration does not."""
    differentiable = nominal(checker.standard("IDifferentiable"))
    if conforms(checker, self_type(kind.declaration), differentiable):
        return None
    for extension, bindings in extensions_of(checker, kind):
        for interface in interface_bases(checker, extension):
            seen = substitute(checker, interface, bindings)
            if seen is differentiable or conforms(checker, seen, differentiable):
                return extension
    return None


def _tangents_by_name(
    checker: Checker, owner: ast.StructDeclaration, extension: ast.Extension | None
) -> dict[str, Type]:
    """The tangents of the fields, in terms of the generics of the struct."""
    kind, seen = self_type(owner), {}
    if extension is not None:
        target = extension_target(checker, extension)
        assert isinstance(target, StructType)
        seen = match(checker, extension.generics, target, kind) or {}
        kind = target
    tangents = {field.declaration.name: _field_tangent(checker, field) for field in field_references(kind)}
    return {
        name: substitute(checker, tangent_type, seen)
        for name, tangent_type in tangents.items()
        if tangent_type is not None
    }


def _declare_differential(
    checker: Checker, owner: ast.StructDeclaration, tangents: dict[str, Type]
) -> ast.StructDeclaration:
    struct = ast.StructDeclaration(owner.span, "Differential", owner.name_span, "struct", [], [], True, None)
    struct.parent = owner
    checker.bases[struct] = [nominal(checker.standard("IDifferentiable"))]
    for field in field_declarations(owner):
        tangent_type = tangents.get(field.name)
        if tangent_type is None:
            continue
        copy = ast.Variable(field.span, field.name, field.name_span, "", None, None, [], None)
        copy.parent, copy.checked = struct, VariableInfo(tangent_type, "field")
        struct.members.append(copy)
    return struct


Rule = Callable[[Checker, OfClass], DifferentialInfo | None]

_RULES: dict[type[Type], Rule] = {
    ScalarType: _scalar,
    VectorType: _elementwise,
    MatrixType: _elementwise,
    ArrayType: _elementwise,
    Tuple: _tuple,
    StructType: _struct,
    ParameterType: _parameter,
    Projection: _parameter,
    InterfaceType: _parameter,
}

# --- Pairs --------------------------------------------------------------------------------------------


def pair_of(checker: Checker, kind: Type) -> Type | None:
    """DifferentialPair<kind>, of a type of pointers DifferentialPtrPair<kind>; of a pack, one for each element. None
    for types without a derivative."""
    if pointer_tangent(checker, kind) is not None:
        return library_type(checker, "DifferentialPtrPair", kind)
    if tangent(checker, kind) is None:
        return None
    if is_pack(kind):
        element = pair_of(checker, element_type(checker, kind))
        return None if element is None else expanded_type(element, packs_of(kind))
    return library_type(checker, "DifferentialPair", kind)


def pair_element(checker: Checker, kind: Type) -> Type | None:
    """T of DifferentialPair<T> and of DifferentialPtrPair<T>; None for other types."""
    if isinstance(kind, ExpandedType):
        inner = pair_element(checker, kind.pattern)
        return None if inner is None else expanded_type(inner, kind.packs)
    pairs = (checker.standard("DifferentialPair"), checker.standard("DifferentialPtrPair"))
    if isinstance(kind, StructType) and kind.declaration in pairs:
        return kind.inner
    return None


RESULT_COTANGENT = "result_cotangent"  # the last parameter of a backward derivative

# --- Pointers -----------------------------------------------------------------------------------------


def pointer_tangent(checker: Checker, kind: Type) -> Type | None:
    """The Differential of a type of pointers: a pointer to the derivatives of its pointee. None for other types,
    and for those that carry derivatives themselves.
    """
    interface = conforms_to(checker, kind, checker.standard("IDifferentiablePtrType"))
    if interface is None or tangent(checker, kind) is not None:
        return None
    (requirement,) = declared(checker, interface.declaration, "Differential")
    return checker.associated(kind, interface, requirement)


# --- Signatures ---------------------------------------------------------------------------------------


def derivative_signature(
    checker: Checker, mode: str, signature: FunctionType, no_diff_result: bool
) -> FunctionType:
    """The type of `fwd_diff(f)` or `bwd_diff(f)` for the type of f; `this`, if it counts, is its first
    parameter.
    """
    derive = _forward_parameter if mode == "forward" else _backward_parameter
    passed_on = [derive(checker, parameter) for parameter in signature.parameters]
    parameters = tuple(passed for passed in passed_on if passed is not None)
    if mode == "forward":
        pair = None if no_diff_result else pair_of(checker, signature.result)
        return function_type(parameters, pair or signature.result)
    cotangent = None if no_diff_result else tangent(checker, signature.result)
    if cotangent is not None:
        parameters += (FunctionParameter(cotangent, "in", False, RESULT_COTANGENT),)
    return function_type(parameters, VOID)


def _forward_parameter(checker: Checker, parameter: FunctionParameter) -> FunctionParameter:
    pair = None if parameter.no_diff else pair_of(checker, parameter.type)
    return FunctionParameter(pair or parameter.type, parameter.direction, pair is None, parameter.name)


def _backward_parameter(checker: Checker, parameter: FunctionParameter) -> FunctionParameter | None:
    """The pair of an input, for its cotangent; the cotangent of a pure output."""
    cotangent = None if parameter.no_diff else tangent(checker, parameter.type)
    pair = None if parameter.no_diff else pair_of(checker, parameter.type)
    if parameter.direction == "out":
        return None if cotangent is None else FunctionParameter(cotangent, "in", False, parameter.name)
    if pair is None:
        direction = "in" if parameter.direction == "inout" else parameter.direction
        return FunctionParameter(parameter.type, direction, True, parameter.name)
    return FunctionParameter(pair, "in" if cotangent is None else "inout", False, parameter.name)


def same_signature(left: FunctionType, right: FunctionType) -> bool:
    """Whether two function types agree in types and directions."""
    if left.result is not right.result or len(left.parameters) != len(right.parameters):
        return False
    return all(
        mine.type is other.type and mine.direction == other.direction
        for mine, other in zip(left.parameters, right.parameters)
    )
