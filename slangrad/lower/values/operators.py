"""Builtin operators on numbers, vectors, matrices and pointers.

a > b   ->   less %b, %a          p + i   ->   offset %p, %i          p - q   ->   bytes between / size
"""

from __future__ import annotations

from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import (
    BOOL,
    I32,
    I64,
    U32,
    U64,
    Lanes,
    Pointer,
    Scalar,
    Type,
    scalar_of,
    with_scalar,
)
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame

INT = I32

# fmt: off
BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor",
          "&&": "and", "||": "or", "<<": "shl", ">>": "shr",
          "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal"}
MIRRORED = {">": "less", ">=": "less_equal"}
UNARY = {"-": "neg", "~": "not", "!": "not"}
# fmt: on


def of_update(name: str) -> str:
    """The operator that `+=` or `++` applies."""
    return name.removesuffix("=") if name not in ("++", "--") else name[0]


def apply(f: Frame, name: str, operands: list[Value], result: Type) -> Value:
    """The operator's value; `result` is the type the checker gave it."""
    if any(isinstance(x.type, Pointer) for x in operands):
        return _on_pointers(f, name, operands)
    if len(operands) == 1:
        return _unary(f, name, operands[0])
    x, y = operands
    if name in ("<<", ">>"):
        return shifted(f, BINARY[name], x, y if x.type is y.type else like(f, y, x.type))
    if name in MIRRORED:
        return f.emit(MIRRORED[name], y, x)
    return f.emit(BINARY[name], x, y)


def shifted(f: Frame, name: str, x: Value, count: Value) -> Value:
    """Numbers of 8 and 16 bits are shifted as 32 bits, as in C: the count is modulo 32."""
    scalar = scalar_of(x.type)
    if scalar is None or scalar.bits >= 32:
        return f.emit(name, x, count)
    wide = with_scalar(x.type, I32 if scalar.kind == "signed" else U32)
    amount = f.emit("convert", count, type=wide)
    return f.emit("convert", f.emit(name, f.emit("convert", x, type=wide), amount), type=x.type)


def _unary(f: Frame, name: str, x: Value) -> Value:
    if name == "+":
        return x
    if name == "!" and scalar_of(x.type) is not BOOL:
        return f.emit("equal", x, f.b.constant(x.type, 0))
    return f.emit(UNARY[name], x)


def like(f: Frame, value: Value, t: Type) -> Value:
    """A shift count in the type of the shifted value."""
    scalar = scalar_of(t)
    assert scalar is not None
    if isinstance(value.type, Scalar):
        converted = f.emit("convert", value, type=scalar)
        return converted if t is scalar else f.emit("splat", converted, type=t)
    return f.emit("convert", value, type=with_scalar(value.type, scalar))


def to_int(f: Frame, value: Value) -> Value:
    """A truth value as 0 or 1."""
    assert not isinstance(value.type, Lanes)
    return f.emit("convert", value, type=INT)


def _on_pointers(f: Frame, name: str, operands: list[Value]) -> Value:
    if len(operands) == 1:
        assert name == "!", name
        return f.emit("equal", _address(f, operands[0]), f.b.zero(U64))
    x, y = operands
    if name == "+":
        return f.emit("offset", x, y) if isinstance(x.type, Pointer) else f.emit("offset", y, x)
    if name == "-" and not isinstance(y.type, Pointer):
        wide = f.emit("convert", y, type=I64)
        return f.emit("offset", x, f.emit("neg", wide))
    if name == "-":
        size = f.b.constant(I64, element_size(x.type))
        return f.emit("div", f.emit("bitcast", f.emit("sub", _address(f, x), _address(f, y)), type=I64), size)
    return apply(f, name, [_address(f, x), _address(f, y)], BOOL)


def _address(f: Frame, value: Value) -> Value:
    return f.emit("bitcast", value, type=U64) if isinstance(value.type, Pointer) else value
