"""Implicit and explicit conversions between types, what they cost, and the common type of two.

In: `int` to `float3`.   Out: _coercion("splat", float3, cost 401).

Costs rank overloads; only their order matters. Identical types are free, a wider type of the same kind is cheap, an
integer to a float costs more, and a conversion that can lose information costs most. From EXPLICIT on, the program
must write a cast.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.generics.bounds import stated_conversion, stated_equal
from slangrad.check.generics.signatures import signature_of
from slangrad.check.generics.substitution import own_substitution
from slangrad.check.interfaces.handles import handled, numbers_of_handle, resource_of_handle
from slangrad.check.interfaces.lookup import (
    LookupResult,
    base_of,
    conforms,
    conforms_to,
    declared,
    members,
    tag_type,
)
from slangrad.check.model.checked import Conversion
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import Coercion
from slangrad.check.model.types import (
    BOOL,
    ERROR,
    FLOAT,
    INT,
    NONE,
    NULL,
    VOID,
    ArrayType,
    EnumType,
    InterfaceType,
    MatrixType,
    ParameterType,
    PointerType,
    Projection,
    ScalarType,
    StructType,
    Type,
    VectorType,
    element_of,
    extents_of,
    is_pack,
    with_element,
)
from slangrad.check.model.values import Value
from slangrad.syntax import ast

# fmt: off
SPLAT           = 1
LITERAL_FITS    = 23     # an integer literal to another integer type that holds it
UNSIZE          = 30
TO_INTERFACE    = 50
FROM_BOOL       = 120    # to int
PROMOTION       = 150    # to more bits of the same kind
TO_OPTIONAL     = 150
TO_SIGNED       = 200    # to a signed type with more bits
TO_UNSIGNED     = 250
SAME_SIZE       = 300    # uint to int
TO_FLOAT        = 400
FROM_ENUM       = 420
CONSTRUCTOR     = 500
NARROWING       = 900    # may lose information
FLOAT_TO_INT    = 950
TRUNCATION      = 1000   # a vector loses components
EXPLICIT        = 90_000
# fmt: on


def convert(checker: Checker, source: Type, target: Type, explicit: bool = False) -> Coercion | None:
    """The conversion from one type to another; None without one, or if it needs a cast and `explicit` is False."""
    if source is target or source is ERROR or target is ERROR:
        return Coercion(target, 0)
    if is_pack(source) or is_pack(target):
        return None
    rules = (_from_handle,) if handled(checker, source) else _RULES.get(type(target), ())
    for rule in rules:
        coercion = rule(checker, source, target)
        if coercion is not None:
            return coercion if explicit or coercion.cost < EXPLICIT else None
    return _stated(checker, source, target, explicit) if source.abstract or target.abstract else None


def _coercion(
    kind: str, target: Type, cost: int, warning: str | None = None, source: Type | None = None
) -> Coercion:
    """By a conversion of one kind."""
    return Coercion(target, cost, Conversion(kind, target, source=source), warning)


def _stated(checker: Checker, source: Type, target: Type, explicit: bool) -> Coercion | None:
    """Conversions stated by `where U(T)` and `where T == int`."""
    equal_source, other = stated_equal(checker, source), stated_equal(checker, target)
    if equal_source is not source or other is not target:
        inner = convert(checker, equal_source, other, explicit)
        return None if inner is None else _coercion("stated", target, inner.cost, source=source)
    implicit = stated_conversion(checker, source, target)
    if not implicit and not (explicit and implicit is not None):
        return None
    return _coercion("stated", target, CONSTRUCTOR if implicit else EXPLICIT, source=source)


def conversion(checker: Checker, source: Type, target: Type, implicit: bool) -> Coercion | None:
    """The conversion from one concrete type to another, also by a constructor."""
    plain = convert(checker, source, target, explicit=not implicit)
    if plain is not None:
        return plain
    coercions = [
        _by_constructor(checker, source, target, member, implicit)
        for member in members(checker, target, "__init")
    ]
    return min(
        (coercion for coercion in coercions if coercion is not None),
        key=lambda coercion: coercion.cost,
        default=None,
    )


def _by_constructor(
    checker: Checker, source: Type, target: Type, member: LookupResult, implicit: bool
) -> Coercion | None:
    declared = member.declaration
    marked = declared.is_marked("__implicit_conversion")
    if len(declared.parameters) != 1 or declared.generics or (implicit and not marked):
        return None
    (parameter,) = signature_of(checker, member.reference).parameters
    inner = convert(checker, source, parameter.type)
    if inner is None or parameter.direction not in ("in", "constref"):
        return None
    cost = inner.cost + CONSTRUCTOR
    return Coercion(target, cost, Conversion("call", target, member.reference, inner.conversion))


# --- Numbers ------------------------------------------------------------------------------------------


def scalar_cost(source: ScalarType, target: ScalarType) -> int:
    """The cost of converting a number. Of a bool `int` comes first, then unsigned types, then signed ones."""
    if source is target:
        return 0
    if target is BOOL:
        return NARROWING
    wider = target.bits > source.bits
    if target.is_float:
        if source is BOOL:
            return FROM_BOOL + TO_FLOAT
        return TO_FLOAT if not source.is_float else PROMOTION if wider else NARROWING
    if source is BOOL:
        return FROM_BOOL if target is INT else PROMOTION if target.kind == "uint" else TO_SIGNED
    if source.is_float:
        return FLOAT_TO_INT
    if source.kind == target.kind:
        return PROMOTION if wider else NARROWING
    if source.bits > target.bits:
        return NARROWING
    return TO_UNSIGNED if target.kind == "uint" else TO_SIGNED if wider else SAME_SIZE


def _element_cost(checker: Checker, source: Type, target: Type) -> int | None:
    """The cost of converting components; type parameters convert only to themselves, or by a cast."""
    if source is target:
        return 0
    if isinstance(source, ScalarType) and isinstance(target, ScalarType):
        return scalar_cost(source, target)
    if is_builtin_parameter(checker, source) or is_builtin_parameter(checker, target):
        numbers = all(
            isinstance(side, ScalarType) or is_builtin_parameter(checker, side) for side in (source, target)
        )
        return EXPLICIT if numbers else None
    return None


def is_builtin_parameter(checker: Checker, kind: Type) -> bool:
    """A type parameter that can only be a builtin number."""
    if not isinstance(kind, (ParameterType, Projection)):
        return False
    builtin = checker.standard("__BuiltinType")
    return isinstance(builtin, ast.Interface) and conforms_to(checker, kind, builtin) is not None


def _to_number(checker: Checker, source: Type, target: Type) -> Coercion | None:
    if isinstance(source, EnumType):
        return _from_enum(checker, source, target)
    if isinstance(source, PointerType):
        wide = isinstance(target, ScalarType) and target.is_integer and target.bits == 64
        return (
            _coercion("pointer", target, EXPLICIT if wide else TO_FLOAT) if wide or target is BOOL else None
        )
    number = _to_shape(checker, source, target)
    if (
        number is None
        and isinstance(target, ScalarType)
        and not target.is_float
        and _is_some_enum(checker, source)
    ):
        return _coercion("stated", target, FROM_ENUM if target is BOOL else EXPLICIT, source=source)
    return number


def _is_some_enum(checker: Checker, kind: Type) -> bool:
    if not isinstance(kind, (ParameterType, Projection)):
        return False
    return conforms_to(checker, kind, checker.standard("__EnumType")) is not None


def _from_enum(checker: Checker, source: EnumType, target: Type) -> Coercion | None:
    tag = tag_type(checker, source)
    if isinstance(tag, ScalarType) and isinstance(target, ScalarType):
        return _coercion("numeric", target, FROM_ENUM + scalar_cost(tag, target))
    return None


def _to_parameter(checker: Checker, source: Type, target: Type) -> Coercion | None:
    if isinstance(source, ScalarType) and is_builtin_parameter(checker, target):
        return _coercion("numeric", target, EXPLICIT)
    return None


# --- Vectors and matrices -----------------------------------------------------------------------------


def _to_shape(checker: Checker, source: Type, target: Type) -> Coercion | None:
    """Between numbers, vectors and matrices: the cost of the shapes and of the elements."""
    shape = _shape_cost(source, target)
    cost = _element_cost(checker, element_of(source), element_of(target))
    if shape is None or cost is None:
        return None
    kind, shape_cost = shape
    is_lossy = kind == "truncate" and shape_cost >= TRUNCATION
    warning = f"'{source}' is implicitly truncated to '{target}'" if is_lossy else None
    return _coercion(kind, target, cost + shape_cost, warning)


def _shape_cost(source: Type, target: Type) -> tuple[str, int] | None:
    """The kind of conversion between shapes, and its cost; None where there is none."""
    if not isinstance(source, (VectorType, MatrixType)):
        return "splat" if isinstance(target, (VectorType, MatrixType)) else "numeric", splat_cost(target)
    extents = extents_of(source), extents_of(target)
    if isinstance(target, (VectorType, MatrixType)):
        pairs = list(zip(*extents)) if type(source) is type(target) else []
        if pairs and all(same_value(*pair) for pair in pairs):
            return "numeric", 0
        if pairs and isinstance(source, VectorType) and source.count == 1:
            return "splat", SPLAT
        fits = pairs and all(same_value(*pair) or _longer(*pair) for pair in pairs)
        return ("truncate", TRUNCATION) if fits else None
    if isinstance(source, VectorType) and source.count == 1:  # the first component
        return "truncate", SPLAT
    return None if target is BOOL else ("truncate", 2 * TRUNCATION)


def splat_cost(target: Type) -> int:
    """The cost of a number for all components: an overload for numbers is better."""
    return SPLAT if isinstance(target, VectorType) else 10 * SPLAT if isinstance(target, MatrixType) else 0


def _from_array(checker: Checker, source: Type, target: VectorType) -> Coercion | None:
    if (
        not isinstance(source, ArrayType)
        or source.element is not target.element
        or source.count != target.count
    ):
        return None
    return _coercion("reshape", target, EXPLICIT)


def same_value(left: Value, right: Value) -> bool:
    """Whether two integers, known or not, are equal."""
    return left is right or (isinstance(left, int) and left == right)


def _longer(left: Value, right: Value) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left > right


# --- Arrays, pointers, enums, structs, interfaces -----------------------------------------------------


def _to_array(checker: Checker, source: Type, target: ArrayType) -> Coercion | None:
    if not isinstance(source, (VectorType, ArrayType)):
        return None
    is_same = source.element is target.element
    if target.count is None:
        return _coercion("existing", source, UNSIZE) if is_same and isinstance(source, ArrayType) else None
    if source.count is None or not same_value(source.count, target.count):
        return None
    if isinstance(source, VectorType):
        return _coercion("reshape", target, EXPLICIT) if is_same else None
    inner = convert(checker, source.element, target.element)
    return inner and Coercion(
        target, inner.cost + EXPLICIT, Conversion("array", target, inner=inner.conversion)
    )


def _to_pointer(checker: Checker, source: Type, target: PointerType) -> Coercion | None:
    if source is NULL:
        return _coercion("pointer", target, PROMOTION)
    if isinstance(source, PointerType):
        cost = PROMOTION if target.element is VOID else EXPLICIT
        return _coercion("pointer", target, cost)
    if isinstance(source, ScalarType) and source.is_integer:
        return _coercion("pointer", target, EXPLICIT)
    return None


def _to_enum(checker: Checker, source: Type, target: EnumType) -> Coercion | None:
    number = isinstance(source, ScalarType) and not source.is_float
    if number or isinstance(source, EnumType):
        return _coercion("numeric", target, EXPLICIT)
    return None


def _to_struct(checker: Checker, source: Type, target: StructType) -> Coercion | None:
    inherited = base_of(checker, source)
    while inherited is not None:
        if inherited is target:
            return _coercion("base", target, TO_INTERFACE)
        inherited = base_of(checker, inherited)
    if target.declaration is not checker.standard("Optional"):
        return None
    if source is NONE:
        return _coercion("optional", target, TO_OPTIONAL)
    if isinstance(source, StructType) and source.declaration is checker.standard("Conditional"):
        (get,) = declared(checker, source.declaration, "get")
        if source.inner is target.inner:
            return Coercion(
                target, TO_OPTIONAL, Conversion("call", target, DeclRef(get, own_substitution(source)))
            )
    inner = convert(checker, source, target.inner)
    if inner is None:
        return None
    return Coercion(target, inner.cost + TO_OPTIONAL, Conversion("optional", target, inner=inner.conversion))


def _from_handle(checker: Checker, source: Type, target: Type) -> Coercion | None:
    """To the resource, to numbers, and to what any struct converts to."""
    if target is handled(checker, source):
        return Coercion(target, PROMOTION, resource_of_handle(checker, source))
    numbers = numbers_of_handle(checker, source, target)
    if numbers is not None:
        return Coercion(target, EXPLICIT, numbers)
    rules = _RULES.get(type(target), ()) if isinstance(target, (StructType, InterfaceType)) else ()
    coercions = (rule(checker, source, target) for rule in rules)
    return next((coercion for coercion in coercions if coercion is not None), None)


def _to_interface(checker: Checker, source: Type, target: InterfaceType) -> Coercion | None:
    if conforms(checker, source, target):
        return _coercion("interface", target, TO_INTERFACE, source=source)
    return None


_RULES: dict[type[Type], tuple[Callable[..., Coercion | None], ...]] = {
    ScalarType: (_to_number,),
    ParameterType: (_to_number, _to_parameter),
    Projection: (_to_number, _to_parameter),
    VectorType: (_to_shape, _from_array),
    MatrixType: (_to_shape,),
    ArrayType: (_to_array,),
    PointerType: (_to_pointer,),
    EnumType: (_to_enum,),
    StructType: (_to_struct,),
    InterfaceType: (_to_interface,),
}

# --- The common type ----------------------------------------------------------------------------------


def common_scalar(left: ScalarType, right: ScalarType) -> ScalarType:
    """The type in which an operator computes: a float before an integer, more bits, unsigned before
    signed.
    """
    if left is right:
        return left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if BOOL in (left, right):
        return right if left is BOOL else left
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    if left.is_float:
        return FLOAT  # neither of `half` and `BFloat16` holds the other
    return left if left.kind == "uint" else right


def common_type(checker: Checker, left: Type, right: Type) -> Type | None:
    """The type that two operands, two arguments for one T or two arms of `?:` are converted to."""
    if left is right:
        return left
    if ERROR in (left, right):
        return ERROR
    element, other = (element_of(_without_enum(checker, kind)) for kind in (left, right))
    if isinstance(element, ScalarType) and isinstance(other, ScalarType):
        element = common_scalar(element, other)
    elif element is not other:
        return _one_way(checker, left, right)
    shaped = _common_shape(left, right)
    return None if shaped is None else with_element(shaped, element)


def _without_enum(checker: Checker, kind: Type) -> Type:
    return tag_type(checker, kind) if isinstance(kind, EnumType) else kind


def _common_shape(left: Type, right: Type) -> Type | None:
    """The vector or matrix type whose shape both take; a scalar gives way."""
    if not isinstance(left, (VectorType, MatrixType)):
        return right
    if not isinstance(right, (VectorType, MatrixType)):
        return left
    if type(left) is not type(right):
        return None
    if all(map(same_value, extents_of(left), extents_of(right))):
        return left
    if isinstance(left, VectorType) and left.count == 1:
        return right
    return left if isinstance(right, VectorType) and right.count == 1 else None


def _one_way(checker: Checker, left: Type, right: Type) -> Type | None:
    forward, backward = convert(checker, left, right), convert(checker, right, left)
    if forward is not None and (backward is None or forward.cost <= backward.cost):
        return right
    return left if backward is not None else None


def arithmetic_type(kind: Type) -> Type:
    """Arithmetic on bools is done on ints."""
    return with_element(kind, INT) if element_of(kind) is BOOL else kind
