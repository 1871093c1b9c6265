"""Implicit and explicit conversions between types, what they cost, and the common type of two.

In: `int` to `float3`.   Out: Coercion(cost 401, Conversion("splat", float3)).

Costs rank overloads; only their order matters. Identical types cost nothing, a wider type of the same
kind little, an integer to a float more, what can lose information most. From EXPLICIT on a cast has to be
written.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.generics.bounds import stated_conversion, stated_equal
from slangrad.check.generics.signatures import signature_of
from slangrad.check.generics.substitution import own_substitution
from slangrad.check.interfaces.lookup import (
    Member,
    base_of,
    conforms,
    conforms_to,
    declared,
    members,
    tag_type,
)
from slangrad.check.model.checked import Conversion
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import Coercion
from slangrad.check.model.types import (
    BOOL,
    ERROR,
    INT,
    NONE,
    NULL,
    VOID,
    Array,
    AssociatedType,
    EnumType,
    InterfaceType,
    Matrix,
    ParameterType,
    Pointer,
    Scalar,
    StructType,
    Type,
    Vector,
    element_of,
    is_pack,
    matrix,
    vector,
    with_element,
)
from slangrad.check.model.values import Value
from slangrad.check.model.world import World
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


NOTHING = Coercion(0)


def convert(world: World, source: Type, target: Type, explicit: bool = False) -> Coercion | None:
    """How a value of one type becomes another; None when it cannot, or only by a cast and `explicit` is
    False.
    """
    if source is target or source is ERROR or target is ERROR:
        return NOTHING
    if is_pack(source) or is_pack(target):
        return None
    for rule in _RULES.get(type(target), ()):
        found = rule(world, source, target)
        if found is not None:
            return found if explicit or found.cost < EXPLICIT else None
    return _stated(world, source, target, explicit) if source.abstract or target.abstract else None


def _stated(world: World, source: Type, target: Type, explicit: bool) -> Coercion | None:
    """What `where U(T)` and `where T == int` say."""
    one, other = stated_equal(world, source), stated_equal(world, target)
    if one is not source or other is not target:
        inner = convert(world, one, other, explicit)
        return None if inner is None else Coercion(inner.cost, Conversion("stated", target, source=source))
    implicit = stated_conversion(world, source, target)
    if not implicit and not (explicit and implicit is not None):
        return None
    made = Conversion("stated", target, source=source)
    return Coercion(CONSTRUCTOR if implicit else EXPLICIT, made)


def conversion(world: World, source: Type, target: Type, implicit: bool) -> Coercion | None:
    """How a value of a type that is known becomes one of another, by a constructor of that, too."""
    plain = convert(world, source, target, explicit=not implicit)
    if plain is not None:
        return plain
    found = [
        _by_constructor(world, source, target, each, implicit) for each in members(world, target, "__init")
    ]
    return min((each for each in found if each is not None), key=lambda each: each.cost, default=None)


def _by_constructor(
    world: World, source: Type, target: Type, member: Member, implicit: bool
) -> Coercion | None:
    declared = member.declaration
    marked = declared.is_marked("__implicit_conversion")
    if len(declared.parameters) != 1 or declared.generics or (implicit and not marked):
        return None
    (parameter,) = signature_of(world, member.reference).parameters
    inner = convert(world, source, parameter.type)
    if inner is None or parameter.direction not in ("in", "constref"):
        return None
    made = Conversion("call", target, member.reference, inner.conversion)
    return Coercion(inner.cost + CONSTRUCTOR, made)


# --- Numbers ------------------------------------------------------------------------------------------


def scalar_cost(source: Scalar, target: Scalar) -> int:
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


def _element_cost(world: World, source: Type, target: Type) -> int | None:
    """The cost of converting components; type parameters convert only to themselves, or by a cast."""
    if source is target:
        return 0
    if isinstance(source, Scalar) and isinstance(target, Scalar):
        return scalar_cost(source, target)
    if is_builtin_parameter(world, source) or is_builtin_parameter(world, target):
        numbers = all(
            isinstance(each, Scalar) or is_builtin_parameter(world, each) for each in (source, target)
        )
        return EXPLICIT if numbers else None
    return None


def is_builtin_parameter(world: World, kind: Type) -> bool:
    """A type parameter that stands for a builtin number only."""
    if not isinstance(kind, (ParameterType, AssociatedType)):
        return False
    builtin = world.standard("__BuiltinType")
    return isinstance(builtin, ast.Interface) and conforms_to(world, kind, builtin) is not None


def _to_number(world: World, source: Type, target: Type) -> Coercion | None:
    if isinstance(source, (Vector, Matrix)):
        return _shrink(world, source, target)
    if isinstance(source, EnumType):
        return _from_enum(world, source, target)
    if isinstance(source, Pointer):
        wide = isinstance(target, Scalar) and target.is_integer and target.bits == 64
        if wide or target is BOOL:
            return Coercion(EXPLICIT if wide else TO_FLOAT, Conversion("pointer", target))
        return None
    cost = _element_cost(world, source, target)
    if cost is None and isinstance(target, Scalar) and not target.is_float and _is_some_enum(world, source):
        return Coercion(
            FROM_ENUM if target is BOOL else EXPLICIT, Conversion("stated", target, source=source)
        )
    return None if cost is None else Coercion(cost, Conversion("numeric", target))


def _is_some_enum(world: World, kind: Type) -> bool:
    if not isinstance(kind, (ParameterType, AssociatedType)):
        return False
    return conforms_to(world, kind, world.standard("__EnumType")) is not None


def _from_enum(world: World, source: EnumType, target: Type) -> Coercion | None:
    tag = tag_type(world, source)
    if isinstance(tag, Scalar) and isinstance(target, Scalar):
        return Coercion(FROM_ENUM + scalar_cost(tag, target), Conversion("numeric", target))
    return None


def _to_parameter(world: World, source: Type, target: Type) -> Coercion | None:
    if isinstance(source, Scalar) and is_builtin_parameter(world, target):
        return Coercion(EXPLICIT, Conversion("numeric", target))
    return None


# --- Vectors and matrices -----------------------------------------------------------------------------


def _to_vector(world: World, source: Type, target: Vector) -> Coercion | None:
    if isinstance(source, Vector):
        return _vector_to_vector(world, source, target)
    if isinstance(source, Array):
        if source.element is target.element and source.count == target.count:
            return Coercion(EXPLICIT, Conversion("reshape", target))
        return None
    return _splat(world, source, target, target.element)


def _splat(world: World, source: Type, target: Type, element: Type) -> Coercion | None:
    cost = _element_cost(world, source, element)
    if cost is None:
        return None
    return Coercion(cost + splat_cost(target), Conversion("splat", target))


def splat_cost(target: Type) -> int:
    """What a number pays for standing for all components: an overload for numbers is better."""
    if isinstance(target, Scalar):
        return 0
    return SPLAT if isinstance(target, Vector) else 10 * SPLAT


def _vector_to_vector(world: World, source: Vector, target: Vector) -> Coercion | None:
    cost = _element_cost(world, source.element, target.element)
    if cost is None:
        return None
    if same_value(source.count, target.count):
        return Coercion(cost, Conversion("numeric", target))
    if source.count == 1:
        return Coercion(cost + SPLAT, Conversion("splat", target))
    if not _longer(source.count, target.count):
        return None
    return Coercion(cost + TRUNCATION, Conversion("truncate", target), _truncation(source, target))


def _to_matrix(world: World, source: Type, target: Matrix) -> Coercion | None:
    if not isinstance(source, Matrix):
        return _splat(world, source, target, target.element)
    cost = _element_cost(world, source.element, target.element)
    if cost is None:
        return None
    rows, columns = same_value(source.rows, target.rows), same_value(source.columns, target.columns)
    if rows and columns:
        return Coercion(cost, Conversion("numeric", target))
    if (rows or _longer(source.rows, target.rows)) and (columns or _longer(source.columns, target.columns)):
        return Coercion(cost + TRUNCATION, Conversion("truncate", target), _truncation(source, target))
    return None


def _shrink(world: World, source: Vector | Matrix, target: Type) -> Coercion | None:
    """A vector where a number is wanted: its first component."""
    cost = _element_cost(world, source.element, target)
    if cost is None:
        return None
    if isinstance(source, Vector) and source.count == 1:
        return Coercion(cost + SPLAT, Conversion("truncate", target))
    if target is BOOL:
        return None
    return Coercion(cost + 2 * TRUNCATION, Conversion("truncate", target), _truncation(source, target))


def _truncation(source: Type, target: Type) -> str:
    return f"'{source}' is implicitly truncated to '{target}'"


def same_value(left: Value, right: Value) -> bool:
    """Whether two integers, known or not, are equal."""
    return left is right or (isinstance(left, int) and left == right)


def _longer(left: Value, right: Value) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left > right


# --- Arrays, pointers, enums, structs, interfaces -----------------------------------------------------


def _to_array(world: World, source: Type, target: Array) -> Coercion | None:
    if isinstance(source, Vector):
        if (
            source.element is target.element
            and target.count is not None
            and same_value(source.count, target.count)
        ):
            return Coercion(EXPLICIT, Conversion("reshape", target))
        return None
    if not isinstance(source, Array):
        return None
    if target.count is None and source.element is target.element:
        return Coercion(UNSIZE, Conversion("existing", source))
    if source.count is None or target.count is None or not same_value(source.count, target.count):
        return None
    inner = convert(world, source.element, target.element)
    if inner is None:
        return None
    return Coercion(inner.cost + EXPLICIT, Conversion("array", target, inner=inner.conversion))


def _to_pointer(world: World, source: Type, target: Pointer) -> Coercion | None:
    if source is NULL:
        return Coercion(PROMOTION, Conversion("pointer", target))
    if isinstance(source, Pointer):
        cost = PROMOTION if target.element is VOID else EXPLICIT
        return Coercion(cost, Conversion("pointer", target))
    if isinstance(source, Scalar) and source.is_integer:
        return Coercion(EXPLICIT, Conversion("pointer", target))
    return None


def _to_enum(world: World, source: Type, target: EnumType) -> Coercion | None:
    number = isinstance(source, Scalar) and not source.is_float
    if number or isinstance(source, EnumType):
        return Coercion(EXPLICIT, Conversion("numeric", target))
    return None


def _to_struct(world: World, source: Type, target: StructType) -> Coercion | None:
    inherited = base_of(world, source)
    while inherited is not None:
        if inherited is target:
            return Coercion(TO_INTERFACE, Conversion("base", target))
        inherited = base_of(world, inherited)
    if target.declaration is not world.standard("Optional"):
        return None
    if source is NONE:
        return Coercion(TO_OPTIONAL, Conversion("optional", target))
    if isinstance(source, StructType) and source.declaration is world.standard("Conditional"):
        (get,) = declared(world, source.declaration, "get")
        if source.inner is target.inner:
            return Coercion(TO_OPTIONAL, Conversion("call", target, DeclRef(get, own_substitution(source))))
    inner = convert(world, source, target.inner)
    if inner is None:
        return None
    return Coercion(inner.cost + TO_OPTIONAL, Conversion("optional", target, inner=inner.conversion))


def _to_interface(world: World, source: Type, target: InterfaceType) -> Coercion | None:
    if conforms(world, source, target):
        return Coercion(TO_INTERFACE, Conversion("interface", target, source=source))
    return None


_RULES: dict[type[Type], tuple[Callable[..., Coercion | None], ...]] = {
    Scalar: (_to_number,),
    ParameterType: (_to_number, _to_parameter),
    AssociatedType: (_to_number, _to_parameter),
    Vector: (_to_vector,),
    Matrix: (_to_matrix,),
    Array: (_to_array,),
    Pointer: (_to_pointer,),
    EnumType: (_to_enum,),
    StructType: (_to_struct,),
    InterfaceType: (_to_interface,),
}

# --- The common type ----------------------------------------------------------------------------------


def common_scalar(left: Scalar, right: Scalar) -> Scalar:
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
    return left if left.kind == "uint" else right


def common_type(world: World, left: Type, right: Type) -> Type | None:
    """The type that two operands, two arguments for one T or two arms of `?:` are converted to."""
    if left is right:
        return left
    if ERROR in (left, right):
        return ERROR
    element = _common_element(
        world, element_of(_without_enum(world, left)), element_of(_without_enum(world, right))
    )
    if element is None:
        return _one_way(world, left, right)
    shaped = _common_shape(left, right)
    return None if shaped is None else with_element(shaped, element)


def _common_element(world: World, left: Type, right: Type) -> Type | None:
    if left is right:
        return left
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return common_scalar(left, right)
    return None


def _without_enum(world: World, kind: Type) -> Type:
    return tag_type(world, kind) if isinstance(kind, EnumType) else kind


def _common_shape(left: Type, right: Type) -> Type | None:
    """The vector or matrix type whose shape both take; a scalar gives way."""
    if not isinstance(left, (Vector, Matrix)):
        return right
    if not isinstance(right, (Vector, Matrix)):
        return left
    if isinstance(left, Vector) and isinstance(right, Vector):
        return _common_vector(left, right)
    if isinstance(left, Matrix) and isinstance(right, Matrix):
        same = same_value(left.rows, right.rows) and same_value(left.columns, right.columns)
        return left if same else None
    return None


def _common_vector(left: Vector, right: Vector) -> Type | None:
    if same_value(left.count, right.count):
        return left
    if left.count == 1:
        return right
    return left if right.count == 1 else None


def _one_way(world: World, left: Type, right: Type) -> Type | None:
    forward, backward = convert(world, left, right), convert(world, right, left)
    if forward is not None and (backward is None or forward.cost <= backward.cost):
        return right
    return left if backward is not None else None


def arithmetic_type(kind: Type) -> Type:
    """Arithmetic on bools is done on ints."""
    return with_element(kind, INT) if element_of(kind) is BOOL else kind


def bool_like(kind: Type) -> Type:
    """The type of a comparison of two values of `kind`."""
    if isinstance(kind, Vector):
        return vector(BOOL, kind.count)
    if isinstance(kind, Matrix):
        return matrix(BOOL, kind.rows, kind.columns)
    return BOOL
