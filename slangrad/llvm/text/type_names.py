"""The types and constants of flat IR in LLVM text.

    TypeNames(8).of(f32) = "float"      TypeNames(8).of(lanes<f32>) = "<8 x float>"
    number(f32, 1.0) = "0x3FF0000000000000"

A bool is `i1` in a register and `i8` in memory. A bf16 and a float of 8 bits are the integers with their bits.
Pointers carry neither element nor space here.
"""

from __future__ import annotations

import re
import struct

from slangrad.ir.data.numbers import Number
from slangrad.ir.data.small_floats import bits_of_small
from slangrad.ir.data.types import F16, SMALL_FLOATS, Lanes, Pointer, Scalar, Type

SCALAR_NAMES = {"f16": "half", "f32": "float", "f64": "double"}
SUFFIXES = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}

_VECTOR = re.compile(r"<(\d+) x (\w+)>")


def scalar_name(t: Type) -> str:
    """The LLVM type of one scalar or pointer in a register."""
    if isinstance(t, Pointer):
        return "ptr"
    assert isinstance(t, Scalar), f"{t} is not flat"
    return SCALAR_NAMES.get(t.name) or f"i{t.bits}"


class TypeNames:
    """LLVM types for a given number of lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def of(self, t: Type) -> str:
        return self.widened(scalar_name(t.element)) if isinstance(t, Lanes) else scalar_name(t)

    def widened(self, name: str) -> str:
        return f"<{self.lanes} x {name}>"


def memory_name(name: str) -> str:
    """The memory type of a register type."""
    vector = _VECTOR.fullmatch(name)
    if vector is not None:
        return f"<{vector[1]} x {memory_name(vector[2])}>"
    return "i8" if name == "i1" else name


def suffix(name: str) -> str:
    """How intrinsics mangle a type: <8 x float> is v8f32."""
    vector = _VECTOR.fullmatch(name)
    if vector is not None:
        return f"v{vector[1]}{suffix(vector[2])}"
    return SUFFIXES.get(name, name)


def number(t: Scalar, value: Number) -> str:
    """A constant of a scalar type."""
    if t.kind == "bool":
        return "true" if value else "false"
    if t.kind != "float":
        return str(int(value))
    if t in SMALL_FLOATS:
        return str(bits_of_small(t, float(value)))
    if t is F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(name: str, text: str) -> str:
    """A constant of LLVM type `name`: splatted when that is a vector."""
    vector = _VECTOR.fullmatch(name)
    return text if vector is None else f"splat ({vector[2]} {text})"


def is_constant(operand: str) -> bool:
    return not operand.startswith("%")
