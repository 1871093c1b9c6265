"""Checked types, interned: equal types are one object, compare them with `is`.

In: parts (`vector(FLOAT, 3)`).   Out: an immutable `Type`; `str()` writes it as Slang does: `float3`.

Types may contain type parameters and symbolic integers; `declref.substitute` fills them in. A type whose
`abstract` is False contains none. Members, conformances and the Differential of a type are not here: `interfaces/`
computes them for a program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from slangrad.base.process.threads import Interned
from slangrad.base.records import WeaklyReferenced, record
from slangrad.base.type_names import shaped_name
from slangrad.check.model.values import Pack, Symbol, Value, identity_key

if TYPE_CHECKING:  # types are needed without `syntax`: by calls whose kernels exist already
    from slangrad.syntax import ast


@record
class Type(WeaklyReferenced):
    """A checked type. `abstract`: a type parameter or an unknown integer is inside. `weight`: how many parts it has,
    each counted where it stands.
    """

    abstract: bool = field(default=False, init=False)
    weight: int = field(default=1, init=False)

    def __repr__(self) -> str:
        return str(self)


GenericArgument = Type | Value | tuple["GenericArgument", ...]  # for a type, a value, a pack of either

HEAVIEST = 1_000  # a type of more parts cannot be used


# --- Types without parts ------------------------------------------------------------------------------


@record
class Plain(Type):
    """void, the types of string literals, of `nullptr`, of `none`, and of wrong expressions."""

    name: str

    def __str__(self) -> str:
        return self.name


ERROR = Plain("<error>")  # suppresses follow-up errors: an operation on it is of this type, too
VOID = Plain("void")
STRING = Plain("String")
NULL = Plain("nullptr_t")
NONE = Plain("none_t")


@record
class ScalarType(Type):
    """A builtin number or bool. `kind`: "bool", "int", "uint" or "float"; `bits`: 1, 8, 16, 32 or 64."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name


# fmt: off
BOOL   = ScalarType("bool",     "bool",   1)
INT8   = ScalarType("int8_t",   "int",    8)
INT16  = ScalarType("int16_t",  "int",   16)
INT    = ScalarType("int",      "int",   32)
INT64  = ScalarType("int64_t",  "int",   64)
UINT8  = ScalarType("uint8_t",  "uint",   8)
UINT16 = ScalarType("uint16_t", "uint",  16)
UINT   = ScalarType("uint",     "uint",  32)
UINT64 = ScalarType("uint64_t", "uint",  64)
HALF   = ScalarType("half",     "float", 16)
FLOAT  = ScalarType("float",    "float", 32)
DOUBLE = ScalarType("double",   "float", 64)
BFLOAT16  = ScalarType("BFloat16",  "float", 16)
FLOAT_E4M3 = ScalarType("FloatE4M3", "float", 8)
FLOAT_E5M2 = ScalarType("FloatE5M2", "float", 8)
SMALL_FLOATS = (BFLOAT16, FLOAT_E4M3, FLOAT_E5M2)
SCALARS = (BOOL, INT8, INT16, INT, INT64, UINT8, UINT16, UINT, UINT64, HALF, FLOAT, DOUBLE, *SMALL_FLOATS)
# fmt: on


def has_short_names(element: Type) -> bool:
    """Whether vectors and matrices of these elements have names as `float3`."""
    return isinstance(element, ScalarType) and element not in SMALL_FLOATS


def _shaped_name(t: VectorType | MatrixType) -> str:
    extents = extents_of(t)
    is_short = has_short_names(t.element) and all(isinstance(size, int) for size in extents)
    return shaped_name(str(t.element), extents, is_short)


# --- Types with parts ---------------------------------------------------------------------------------


@record
class VectorType(Type):
    element: Type
    count: Value

    def __str__(self) -> str:
        return _shaped_name(self)


@record
class MatrixType(Type):
    """`rows` row vectors of `columns` elements."""

    element: Type
    rows: Value
    columns: Value

    def __str__(self) -> str:
        return _shaped_name(self)


@record
class ArrayType(Type):
    """`count` is None for `T[]`, whose length comes from an initializer."""

    element: Type
    count: Value | None

    def __str__(self) -> str:
        return f"{self.element}[{'' if self.count is None else self.count}]"


@record
class PointerType(Type):
    element: Type

    def __str__(self) -> str:
        return f"Ptr<{self.element}>" if isinstance(self.element, Stored) else f"{self.element}*"


@record
class Stored(Type):
    """The element of a pointer or buffer whose memory has other rules than the default ones. Values are of the type
    `element`: no value has this type."""

    element: Type
    rules: str  # a layout, an order of matrices, or both: "std140 columns"
    layout: ParameterType | None  # a generic parameter that will be the layout

    def __str__(self) -> str:
        return self.around(str(self.element))

    def around(self, element: str) -> str:
        """As an argument of a generic type is written."""
        words = self.rules.split()
        order = "".join(f"{word} " for word, name in ORDERS.items() if name in words)
        behind = [word for word, name in LAYOUTS.items() if name in words]
        behind += [] if self.layout is None else [str(self.layout)]
        return order + ", ".join((element, *behind))


ORDERS = {"row_major": "rows", "column_major": "columns"}
LAYOUTS = {"Std140DataLayout": "std140", "Std430DataLayout": "std430", "ScalarDataLayout": "scalar"}
LIKE_C = ("CDataLayout", "DefaultDataLayout")  # how memory is laid out anyway


@record
class Tuple(Type):
    """`(A, B)`; its elements are `._0`, `._1`."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return arguments_text(self.elements, "()")


@record
class FunctionParameter:
    """A parameter in a function type. `direction` is "in", "out", "inout", "ref" or "constref"."""

    type: Type
    direction: str = "in"
    no_diff: bool = False
    name: str = ""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        words = ["no_diff"] if self.no_diff else []
        words += [self.direction] if self.direction != "in" else []
        return " ".join([*words, str(self.type), self.name]).rstrip()


@record
class FunctionType(Type):
    """The type of a derivative, a function name or a `functype`. Not interned: compare with `same_signature`."""

    parameters: tuple[FunctionParameter, ...]
    result: Type

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.result}"


# --- Types from declarations --------------------------------------------------------------------------


@record
class Nominal(Type):
    """A declared type: `arguments` are the types and values of all generic parameters, the outermost
    first.
    """

    declaration: ast.Declaration
    arguments: tuple[GenericArgument, ...]
    name: str | None = field(default=None, init=False)  # once it was asked for

    @property
    def inner(self) -> Type:
        """The first argument, a type: T of `Tensor<T, 1>`."""
        first = self.arguments[0]
        assert isinstance(first, Type)
        return first

    def __str__(self) -> str:
        if self.name is None:
            self.name = nominal_name(self.declaration, self.arguments)
        return self.name


@record
class StructType(Nominal):
    """`DifferentialPair<T>`, buffers and tensors are structs of the standard library, too."""

    declaration: ast.StructDeclaration


@record
class EnumType(Nominal):
    declaration: ast.EnumDeclaration


@record
class InterfaceType(Nominal):
    """As a bound, or as the type of a value whose own type is known only at run time."""

    declaration: ast.Interface


@record
class LambdaType(Nominal):
    """The type of one lambda expression: a struct of its captures with an `operator()`."""

    declaration: ast.FunctionDeclaration

    def __str__(self) -> str:
        return f"lambda at {self.declaration.span.location}"


@record
class ParameterType(Type):
    """The generic parameter T; of an interface or an extension of one: `This` inside, the type that will
    conform.
    """

    declaration: ast.TypeParameter | ast.Interface | ast.Extension

    def __str__(self) -> str:
        if _node(self.declaration) != "TypeParameter":
            return "This"
        return f"expand each {self.declaration.name}" if is_pack(self) else self.declaration.name


@record
class ExpandedType(Type):
    """`expand S<each T>`: the pattern for each element of packs. The pack T alone is a ParameterType."""

    pattern: Type
    packs: tuple[Pack, ...]

    def __str__(self) -> str:
        return f"expand {self.pattern}"


@record
class Projection(Type):
    """`base.Name` while `base` is a parameter, an interface or another associated type; `interface` requires Name."""

    base: Type
    interface: InterfaceType
    declaration: ast.AssociatedType

    def __str__(self) -> str:
        return f"{self.base}.{self.declaration.name}"


@record
class ConjunctionType(Type):
    """`IFoo & IBar`, as a bound only."""

    interfaces: tuple[InterfaceType, ...]

    def __str__(self) -> str:
        return " & ".join(map(str, self.interfaces))


# --- Making types -------------------------------------------------------------------------------------

_TABLE: Interned[Type] = Interned()


def vector(element: Type, count: Value) -> VectorType:
    return _intern(VectorType, element, count)


def matrix(element: Type, rows: Value, columns: Value) -> MatrixType:
    return _intern(MatrixType, element, rows, columns)


def array(element: Type, count: Value | None) -> ArrayType:
    return _intern(ArrayType, element, count)


def pointer(element: Type) -> PointerType:
    return _intern(PointerType, element)


def stored(element: Type, rules: str, layout: Type | None = None) -> Type:
    """`element` by rules, and by a layout; its own rules about the same subject stay."""
    if isinstance(layout, StructType):
        return stored(element, join_rules(LAYOUTS.get(layout.declaration.name, ""), rules))
    if isinstance(element, Stored):
        rules, layout, element = join_rules(element.rules, rules), element.layout or layout, element.element
    if has_layout(rules):
        layout = None
    while isinstance(element, ArrayType) and isinstance(element.element, Stored):
        rules = join_rules(element.element.rules, rules)
        element = array(element.element.element, element.count)
    inner = innermost(element, ArrayType)
    if not isinstance(inner, MatrixType) and not inner.abstract:
        rules = " ".join(word for word in rules.split() if word not in ORDERS.values())
    return _intern(Stored, element, rules, layout) if rules or layout is not None else element


def has_layout(rules: str) -> bool:
    """Whether rules state a layout."""
    return any(word in LAYOUTS.values() for word in rules.split())


def layout_of(rules: str) -> str:
    """The name of the layout that rules state, of the default one if they state none."""
    return next((name for name, word in LAYOUTS.items() if word in rules.split()), LIKE_C[1])


def array_of(element: Type, count: Value | None) -> Type:
    """An array of elements that may have rules for memory, which become rules for the array."""
    return stored(array(unstored(element), count), rules_of(element))


def join_rules(inner: str, outer: str) -> str:
    """Rules of a part within other rules: each is about layouts or about matrices."""
    about = [[word for word in side.split() if has_layout(word) is layout] for layout in (True, False)
             for side in (inner, outer)]  # fmt: skip
    return " ".join((*(about[0] or about[1]), *(about[2] or about[3])))


def unstored(kind: Type) -> Type:
    """The type of values."""
    return kind.element if isinstance(kind, Stored) else kind


def rules_of(kind: Type) -> str:
    """The rules for memory of this type, "" for the default."""
    return kind.rules if isinstance(kind, Stored) else ""


def tuple_of(elements: tuple[Type, ...]) -> Tuple:
    return _intern(Tuple, elements)


# By the names of the nodes that declare them.
_NOMINAL: dict[str, type[Nominal]] = {
    "StructDeclaration": StructType,
    "EnumDeclaration": EnumType,
    "Interface": InterfaceType,
    "FunctionDeclaration": LambdaType,
}
_SCOPES = ("StructDeclaration", "EnumDeclaration", "Interface", "Extension")
_WITH_THIS = ("Interface", "Extension")


@overload
def nominal(
    declaration: ast.StructDeclaration, arguments: tuple[GenericArgument, ...] = ()
) -> StructType: ...
@overload
def nominal(declaration: ast.EnumDeclaration, arguments: tuple[GenericArgument, ...] = ()) -> EnumType: ...
@overload
def nominal(declaration: ast.Interface, arguments: tuple[GenericArgument, ...] = ()) -> InterfaceType: ...
@overload
def nominal(declaration: ast.Declaration, arguments: tuple[GenericArgument, ...] = ()) -> Nominal: ...
def nominal(declaration: ast.Declaration, arguments: tuple[GenericArgument, ...] = ()) -> Nominal:
    """The type that a struct, enum, interface or lambda declares."""
    return _intern(_NOMINAL[_node(declaration)], declaration, arguments)


def _node(declaration: object) -> str:
    return type(declaration).__name__


def parameter_type(declaration: ast.TypeParameter | ast.Interface | ast.Extension) -> ParameterType:
    kind = _intern(ParameterType, declaration)
    kind.abstract = True
    return kind


def associated_type(base: Type, interface: InterfaceType, declaration: ast.AssociatedType) -> Projection:
    kind = _intern(Projection, base, interface, declaration)
    kind.abstract = kind.abstract or not is_dynamic(base)
    return kind


def expanded_type(pattern: Type, packs: tuple[Pack, ...]) -> Type:
    """A type for each element of packs; the pack itself if the pattern is its element."""
    if pattern is ERROR:
        return ERROR
    if (
        isinstance(pattern, ParameterType)
        and len(packs) == 1
        and packs[0].pack_element is pattern.declaration
    ):
        return parameter_type(cast("ast.TypeParameter", packs[0]))
    kind = _intern(ExpandedType, pattern, packs)
    kind.abstract = True
    return kind


def is_pack(kind: object) -> bool:
    """Whether a type stands for several."""
    if isinstance(kind, ParameterType):
        return bool(getattr(kind.declaration, "is_pack", False))
    return isinstance(kind, ExpandedType)


def as_written(kind: Type) -> str:
    """For messages: the hidden generic parameter of a parameter like `IFoo x` as the text has it. Not unique."""
    implied = isinstance(kind, ParameterType) and kind.declaration.name.startswith("$")
    return kind.declaration.span.text if isinstance(kind, ParameterType) and implied else str(kind)


def is_dynamic(kind: Type) -> bool:
    """Whether values of a type have a dynamic type: values of an interface, or of an associated type of a dynamic
    type."""
    kind = projection_root(kind)
    return isinstance(kind, InterfaceType) and not kind.abstract


def projection_root(kind: Type) -> Type:
    """The type that an associated type belongs to in the end: T of `T.Item.Next`."""
    while isinstance(kind, Projection):
        kind = kind.base
    return kind


def conjunction(interfaces: tuple[InterfaceType, ...]) -> Type:
    return interfaces[0] if len(interfaces) == 1 else _intern(ConjunctionType, interfaces)


def function_type(parameters: tuple[FunctionParameter, ...], result: Type) -> FunctionType:
    kind = FunctionType(parameters, result)
    kind.abstract = is_abstract(result) or any(is_abstract(parameter.type) for parameter in parameters)
    kind.weight = 1 + weight_of(result) + sum(weight_of(parameter.type) for parameter in parameters)
    return kind


def is_abstract(part: object) -> bool:
    """Whether a type, a value or a tuple of them depends on a generic parameter."""
    if isinstance(part, Type):
        return part.abstract
    if isinstance(part, tuple):
        return any(map(is_abstract, part))
    return isinstance(part, Symbol)


AnyType = TypeVar("AnyType", bound=Type)


def _intern(kind: type[AnyType], *parts: object) -> AnyType:
    key = (kind, identity_key(parts))
    interned = cast("AnyType | None", _TABLE.get(key))
    if interned is None:
        new = kind(*parts)
        new.abstract = is_abstract(parts)
        new.weight = 1 + sum(weight_of(part) for part in parts if isinstance(part, (Type, tuple)))
        interned = cast("AnyType", _TABLE.setdefault(key, new))
    return interned


def weight_of(part: object) -> int:
    """How many parts a type, a value or a tuple of them has."""
    if isinstance(part, tuple):
        return sum(map(weight_of, part))
    return part.weight if isinstance(part, Type) else 1


# --- Names --------------------------------------------------------------------------------------------

SCALAR_NAMES = {scalar.name: scalar for scalar in SCALARS}


def nominal_name(declaration: ast.Declaration, arguments: tuple[object, ...]) -> str:
    """`Outer<float>.Inner<4>`."""
    parts: list[str] = []
    scope: Any = declaration  # `ast` stands above this file at run time
    left = list(arguments)
    while _node(scope) in _SCOPES:
        has_this = _node(scope) in _WITH_THIS and scope is not declaration
        count = len(scope.generics) + has_this
        mine = left[len(left) - count :] if count else []
        del left[len(left) - count :]
        if _node(scope) != "Extension":
            parts.insert(0, scope.name + (arguments_text(mine) if mine else ""))
        scope = scope.parent
    return ".".join(parts)


def arguments_text(arguments: Iterable[object], brackets: str = "<>") -> str:
    """Generic arguments as source text: a pack is its elements. A very long name is cut."""
    texts = [
        "..." if weight_of(entry) > HEAVIEST else str(entry)
        for argument in arguments
        for entry in (argument if isinstance(argument, tuple) else (argument,))
    ]
    return f"{brackets[0]}{', '.join(texts)}{brackets[1]}"


# --- Questions about shape ----------------------------------------------------------------------------


def element_of(kind: Type) -> Type:
    """The scalar inside a vector or matrix; the type itself otherwise."""
    return kind.element if isinstance(kind, (VectorType, MatrixType)) else kind


def innermost(kind: Type, *kinds: type[ArrayType | VectorType | MatrixType]) -> Type:
    """The element of nested types of these classes; of arrays, vectors and matrices without classes."""
    while isinstance(kind, kinds or (ArrayType, VectorType, MatrixType)):
        kind = kind.element
    return kind


def extents_of(kind: Type) -> tuple[Value, ...]:
    """The sizes of a vector or matrix; () for other types."""
    if isinstance(kind, MatrixType):
        return kind.rows, kind.columns
    return (kind.count,) if isinstance(kind, VectorType) else ()


def with_element(kind: Type, element: Type) -> Type:
    """The same shape with another element."""
    if isinstance(kind, VectorType):
        return vector(element, kind.count)
    if isinstance(kind, MatrixType):
        return matrix(element, kind.rows, kind.columns)
    return element
