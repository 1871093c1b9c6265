"""A type of a module as users see it: `module.float3`, `module.Particle`, `tensor.dtype`,
`function.parameters`.

    t = module.find_type("Particle");  t.name;  t.fields["mass"].name;  Tensor.empty(device, (100,), t)

It stands for an element type wherever one is asked for (`ir_type`), and knows its derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slangrad.check.types import Array, Matrix, Nominal, Type, Vector
from slangrad.ir import types as ir
from slangrad.ir.layout import Layout, layout_of
from slangrad.marshal.element_layouts import ElementLayout
from slangrad.marshal.marshal import ProgramTypes
from slangrad.marshal.patterns import row_of
from slangrad.marshal.spelling import spell
from slangrad.tensors.shape import Shape


@dataclass(slots=True, eq=False, repr=False)
class SavedType(Type):
    """A declared type that was met in an earlier process: how it is shown, how it is written in a text, its form in
    memory, and its derivative."""

    text: str
    spelled: str
    lowered: ir.Type | None
    tangent: Type | None = None

    def __str__(self) -> str:
        return self.text


class SlangType:
    """A checked type together with the program that knows it. Equal types of one program are equal."""

    __slots__ = ("_given", "types")

    def __init__(self, checked: Type, types: ProgramTypes) -> None:
        self._given = checked
        self.types = types

    @property
    def checked(self) -> Type:
        if isinstance(self._given, SavedType):
            found = self.types.find(self._given.spelled)
            assert found is not None, f"the program has lost its type '{self._given}'"
            self._given = found
        return self._given

    def __eq__(self, other: object) -> bool:
        checked = getattr(other, "checked", None)  # a reflected type has one, too
        return checked is self.checked if isinstance(checked, Type) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.checked)

    def __repr__(self) -> str:
        return f"SlangType({self.name})"

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return str(self._given)

    @property
    def spelled(self) -> str:
        """As a text writes it that is outside of all namespaces."""
        return self._given.spelled if isinstance(self._given, SavedType) else spell(self._given)

    @property
    def base_name(self) -> str:
        """The name without generic arguments; empty where the type is not declared by a name."""
        return str(self.checked.declaration.name) if isinstance(self.checked, Nominal) else ""

    @property
    def arguments(self) -> tuple[SlangType | int, ...]:
        """The generic arguments."""
        given = self.checked.arguments if isinstance(self.checked, Nominal) else ()
        return tuple(SlangType(each, self.types) if isinstance(each, Type) else each for each in given)

    @property
    def full_name(self) -> str:
        return str(self._given)

    @property
    def ir_type(self) -> ir.Type | None:
        """The type in memory; None for types that cannot be stored."""
        return self._given.lowered if isinstance(self._given, SavedType) else self.types.lower(self.checked)

    @property
    def element_type(self) -> SlangType:
        """What one index gives; the type itself where nothing can be indexed."""
        element = row_of(self.checked)
        return self if element is None else SlangType(element, self.types)

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions of a value."""
        sizes: list[Any] = []
        part: Type | None = self.checked
        while part is not None:
            if isinstance(part, Matrix):
                sizes.append(part.rows)
            elif isinstance(part, (Vector, Array)):
                sizes.append(part.count)
            part = row_of(part)
        return Shape(sizes)

    @property
    def differentiable(self) -> bool:
        return self._tangent() is not None

    def _tangent(self) -> Type | None:
        return self._given.tangent if isinstance(self._given, SavedType) else self.types.tangent(self._given)

    @property
    def derivative(self) -> SlangType | None:
        """The type of a tangent or cotangent."""
        found = self._tangent()
        return None if found is None else SlangType(found, self.types)

    @property
    def fields(self) -> dict[str, SlangType]:
        return {name: SlangType(t, self.types) for name, t in self.types.fields(self.checked)}

    @property
    def buffer_layout(self) -> ElementLayout:
        """How values lie in buffers."""
        lowered = self.ir_type
        if lowered is None:
            raise TypeError(f"values of type '{self.name}' cannot be stored in memory")
        return ElementLayout(lowered)

    @property
    def layout(self) -> Layout:
        """Size, alignment and offsets in memory."""
        lowered = self.ir_type
        if lowered is None:
            raise TypeError(f"values of type '{self.name}' cannot be stored in memory")
        return layout_of(lowered)
