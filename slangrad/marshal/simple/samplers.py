"""Samplers: how a kernel finds values between the texels of a texture, and outside of it.

    s = device.create_sampler(address_u=TextureAddressingMode.clamp_to_edge)      t.SampleLevel(s, uv, 0) in Slang

A sampler stands for a SamplerState of `std/texture.slang`, as a dict does for a struct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING

from slangrad.base.lazy import LazyModule
from slangrad.base.records import desc_and_values
from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.tensors import descriptors as DESCRIPTORS
    from slangrad.tensors.descriptors import DescriptorHandle
else:
    DESCRIPTORS = LazyModule("slangrad.tensors.descriptors")


class TextureFilteringMode(Enum):
    """What is between texels: the nearest one, or a blend."""

    point = 0
    linear = 1


class TextureAddressingMode(Enum):
    """What is outside of a texture. `std/texture.slang` has the same numbers."""

    wrap = 0
    clamp_to_edge = 1
    clamp_to_border = 2
    mirror_repeat = 3
    mirror_once = 4


class TextureReductionOp(Enum):
    """What becomes of several texels: their average, or the share of those that a comparison holds for. The least and
    the most are not supported."""

    average = 0
    comparison = 1
    minimum = 2
    maximum = 3


class ComparisonFunc(Enum):
    """How a value is compared with a texel. `std/texture.slang` has the same numbers."""

    never = 0
    less = 1
    equal = 2
    less_equal = 3
    greater = 4
    not_equal = 5
    greater_equal = 6
    always = 7


@dataclass(slots=True)
class SamplerDesc:
    """The arguments of a sampler; `sampler.desc` is a copy of those that it was made with."""

    min_filter: TextureFilteringMode = TextureFilteringMode.linear
    mag_filter: TextureFilteringMode = TextureFilteringMode.linear
    mip_filter: TextureFilteringMode = TextureFilteringMode.linear
    reduction_op: TextureReductionOp = TextureReductionOp.average
    address_u: TextureAddressingMode = TextureAddressingMode.wrap
    address_v: TextureAddressingMode = TextureAddressingMode.wrap
    address_w: TextureAddressingMode = TextureAddressingMode.wrap
    mip_lod_bias: float = 0.0
    max_anisotropy: int = 1
    comparison_func: ComparisonFunc = ComparisonFunc.never
    border_color: Sequence[float] = (1.0, 1.0, 1.0, 1.0)
    min_lod: float = -1000.0
    max_lod: float = 1000.0
    label: str = ""

    @staticmethod
    def of(desc: SamplerDesc | Mapping[str, HostValue] | None, named: Mapping[str, HostValue]) -> SamplerDesc:
        """A copy of a desc, or of a dict of its fields, with other values for those that are named. TypeError for
        other objects and names.
        """
        start, values = desc_and_values(SamplerDesc, desc, named, "a sampler has no such argument; it has")
        return replace(start, **values)

    @property
    def compares(self) -> bool:
        """Whether it compares values with texels."""
        return self.reduction_op is TextureReductionOp.comparison

    def check(self) -> None:
        """TypeError and ValueError for what makes no sampler, CallError (E9001) for what is not supported."""
        for field in fields(SamplerDesc):
            value = getattr(self, field.name)
            wanted = type(field.default)
            if wanted in (float, int) and (not isinstance(value, Real) or isinstance(value, bool)):
                raise TypeError(f"{field.name}: expected a number, not {value!r}")
            if issubclass(wanted, (Enum, str)) and not isinstance(value, wanted):
                raise TypeError(f"{field.name}: expected a {wanted.__name__}, not {value!r}")
        color = list(self.border_color) if isinstance(self.border_color, Iterable) else []
        if len(color) != 4 or not all(isinstance(part, Real) for part in color):
            raise ValueError(f"border_color: expected four numbers, not {self.border_color!r}")
        if not self.min_lod <= self.max_lod:
            raise ValueError(f"min_lod: {self.min_lod} is above max_lod, {self.max_lod}")
        if self.reduction_op in (TextureReductionOp.minimum, TextureReductionOp.maximum):
            raise CallError("E9001", f"reduction_op: {self.reduction_op.name} is not supported")
        if self.comparison_func is not ComparisonFunc.never and not self.compares:
            message = "comparison_func: such a sampler needs reduction_op=TextureReductionOp.comparison"
            raise ValueError(message)
        if self.max_anisotropy != 1:
            raise CallError("E9001", f"max_anisotropy: {self.max_anisotropy} is not supported; leave it at 1")


class Sampler:
    """How values of a texture between its texels, and outside of it, are found."""

    __slots__ = ("_desc", "_handle", "_state", "device")

    def __init__(self, device: object, desc: SamplerDesc) -> None:
        desc.check()
        self.device = device
        self._handle: DescriptorHandle | None = None
        self._desc = replace(desc, border_color=tuple(float(part) for part in desc.border_color))
        filters = (desc.min_filter, desc.mag_filter, desc.mip_filter)
        self._state: dict[str, HostValue] = {
            "_modes": [mode.value for mode in (desc.address_u, desc.address_v, desc.address_w)],
            "_isLinear": sum(kind.value << bit for bit, kind in enumerate(filters)),
            "_bias": float(desc.mip_lod_bias),
            "_leastLevel": float(desc.min_lod),
            "_mostLevel": float(desc.max_lod),
            "_border": list(self._desc.border_color),
        }

    def __repr__(self) -> str:
        return f"Sampler({self._desc.mag_filter.name}, {self._desc.address_u.name})"

    @property
    def desc(self) -> SamplerDesc:
        """The arguments that it was made with."""
        return replace(self._desc)

    @property
    def label(self) -> str:
        """The name that it was given, for people."""
        return self._desc.label

    @property
    def descriptor_handle(self) -> DescriptorHandle:
        """The handle by which programs find it."""
        if self._handle is None:
            self._handle = DESCRIPTORS.of_sampler(self)
        return self._handle

    def numbers(self) -> list[HostValue]:
        """The numbers of a SamplerState, in the order of memory."""
        modes, *others, border = self._state.values()
        return [*modes, *others, *border]

    def get_this(self) -> dict[str, HostValue]:
        """What it stands for in calls."""
        if self._desc.compares:
            function = self._desc.comparison_func.value
            return {"_type": "SamplerComparisonState", "_state": self._state, "_function": function}
        return {"_type": "SamplerState", **self._state}
