"""Numbers and host vectors as arguments.

f(2, x) with float a  ->  uniform float a, packed as 2.0      float3(1, 2, 3) to a float  ->  three calls
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.check.model.types import (
    BOOL,
    FLOAT,
    INT,
    EnumType,
    ParameterType,
    PointerType,
    ScalarType,
    Type,
    VectorType,
    element_of,
)
from slangrad.marshal.containers.arrays import ArrayMarshal
from slangrad.marshal.errors import BoundVariableException
from slangrad.marshal.host.vectors import HostArray
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Leaf
from slangrad.marshal.protocol.patterns import from_value
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.spelling import spell
from slangrad.marshal.simple.enums import EnumValue
from slangrad.marshal.simple.plain import bind_plain, refuse_writes
from slangrad.tensors.elements.conversion import HostValue

# fmt: off
_GOES_TO: dict[type, tuple[str, ...]] = {
    bool:  ("bool", "int", "uint", "float"),
    int:   ("int", "uint", "float"),
    float: ("float",),
}
_BY_DEFAULT: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT}
# fmt: on


class NumberMarshal(Marshal):
    """A Python bool, int or float, or a NumPy scalar."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.described = kind.__name__

    is_plain = True

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        if isinstance(wanted, ParameterType):
            return [Way(_BY_DEFAULT[self.kind], 0)]
        if isinstance(wanted, PointerType):
            return [Way(wanted, 0)] if self.kind is int and not wanted.abstract else []
        if isinstance(wanted, EnumType):
            return [Way(wanted, 0, cost=1)] if self.kind is int else []
        element = element_of(wanted)
        fits = isinstance(element, ScalarType) and element.kind in _GOES_TO[self.kind]
        return [Way(wanted, 0, cost=int(element is not wanted))] if fits and not wanted.abstract else []

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        return bind_plain(way, spot, self.described)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        element = wanted.element if isinstance(wanted, VectorType) else wanted
        if self.kind is float and isinstance(element, ScalarType) and element.is_integer:
            return f"a Python float does not fit '{wanted}': use int(x) if cutting off is meant"
        if isinstance(wanted, EnumType):
            return f"a Python {self.kind.__name__} does not fit the enum '{wanted}': pass an int or one of its values"
        if self.kind is int and element is BOOL:
            return f"a Python int does not fit '{wanted}': use bool(x)"
        return super().reason(wanted, types)


class EnumMarshal(NumberMarshal):
    """A value with the name of its enum."""

    def __init__(self, value: EnumValue) -> None:
        super().__init__(int)
        self.enum = value.enum
        self.described = f"value of the enum '{value.enum}'"

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        if isinstance(wanted, EnumType):
            return [Way(wanted, 0)] if spell(wanted) == self.enum else []
        enum = types.find(self.enum) if isinstance(wanted, ParameterType) else None
        if enum is not None:
            return [Way(enum, 0)]
        return [Way(way.type, way.dims, way.how, way.cost + 1) for way in super().ways(wanted, types, mode)]

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        return f"a {self.described} does not fit '{wanted}': pass int(x) if its number is meant"


class HostArrayMarshal(Marshal):
    """A host vector or matrix: itself, or one call for each row or component."""

    def __init__(self, host_class: type[HostArray]) -> None:
        self.host_class = host_class
        self.described = host_class.__name__

    is_plain = True

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        checked = types.lift(self.host_class.ir_type)
        return [] if checked is None else [Way(t, dims) for t, dims in from_value(wanted, checked)]

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if way.dims == 0:
            return bind_plain(way, spot, self.described)
        refuse_writes(spot, self.described)
        rows = ArrayMarshal(self.host_class.dtype, self.host_class.shape, writable=False)
        node = rows.bind(way, spot)
        assert isinstance(node, Leaf)
        node.prepare = data_of
        return node


def data_of(value: HostArray) -> HostValue:
    return value.data


class UnsupportedMarshal(Marshal):
    """A value that can be no argument."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.described = kind.__name__

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        note = _INSTEAD.get(self.kind) if self.kind.__module__ == "builtins" else _TEACH
        raise BoundVariableException("E1001", f"Unsupported type {self.kind}", (), note)

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        raise AssertionError("an unsupported value has no way to be bound")


_TEACH = "give its class a method get_this(), or tell register_type() what it stands for"
_INSTEAD: dict[type, str] = {
    tuple: "pass a list for an array, or spy.float3(...) and the like for a vector",
    set: "pass a list",
    str: "functions take no texts; pass a number or an enum",
}
