"""The identities the builder applies: constant folding, and rows such as x + 0 = x.

    add %x, 0.0   stays      (-0.0 + 0.0 is 0.0, so that is no identity for floats)
    add %x, -0.0  ->  %x

Only identities that hold bit for bit, NaN and signed zeros included, are here: results must not depend on how much
was simplified. A multiplication by zero is not zero for floats; derivative code has a symbolic zero for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from slangrad.ir.data.numbers import Number, bitcast, convert
from slangrad.ir.data.types import Scalar, Type, index_extent, is_tape, scalar_of
from slangrad.ir.ops.core import Attributes, Op, OpBuilder, Value
from slangrad.ir.ops.primitives import INEXACT, PRIMITIVES


def simplify(b: OpBuilder, name: str, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """A value equal to the op's result, if there is one that is simpler than the op."""
    folded = _fold(b, name, xs, t)
    if folded is not None:
        return folded
    rule = RULES.get(name)
    return None if rule is None else rule(b, xs, attributes, t)


def _fold(b: OpBuilder, name: str, xs: tuple[Value, ...], t: Type) -> Value | None:
    primal = PRIMITIVES[name].primal
    if primal is None or not xs or name in INEXACT:
        return None
    numbers = []
    for x in xs:
        number = b.constant_of(x)
        if number is None:
            return None
        numbers.append(number)
    scalar = scalar_of(xs[0].type)
    assert scalar is not None
    return b.constant(t, primal(scalar, *numbers))


def _is(number: Number | None, wanted: Number) -> bool:
    """Equal, and of the same sign when zero."""
    return number is not None and number == wanted and math.copysign(1, number) == math.copysign(1, wanted)


def _is_float(x: Value) -> bool:
    scalar = scalar_of(x.type)
    return scalar is not None and scalar.kind == "float"


def _add(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    neutral: Number = -0.0 if _is_float(xs[0]) else 0
    if _is(b.constant_of(xs[1]), neutral):
        return xs[0]
    if _is(b.constant_of(xs[0]), neutral):
        return xs[1]
    for x, y in (xs, xs[::-1]):
        negated = _negated(b, y)
        if negated is not None:
            return b.emit("sub", x, negated)
        whole = _divided(b, x, y)
        if whole is not None:
            return whole
    return None


def _divided(b: OpBuilder, x: Value, y: Value) -> Value | None:
    """(n / c) * c + n % c is n: the number of a thread, from those of its group and in its group."""
    product, rest = b.made_by(x), b.made_by(y)
    if product is None or rest is None or product.name != "mul" or rest.name != "rem" or _is_float(x):
        return None
    quotient, by = b.made_by(product.operands[0]), b.constant_of(product.operands[1])
    if quotient is None or quotient.name != "div" or not by:
        return None
    divisors = (quotient.operands[1], rest.operands[1])
    if any(b.constant_of(divisor) != by for divisor in divisors):
        return None
    whole, again = quotient.operands[0], rest.operands[0]
    return whole if whole is again or _same_thread(b, whole, again) else None


def _same_thread(b: OpBuilder, x: Value, y: Value) -> bool:
    first, second = b.made_by(x), b.made_by(y)
    if first is None or second is None or first.name != "thread_id" or second.name != "thread_id":
        return False
    return first.attributes["axis"] == second.attributes["axis"]


def _sub(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    if _is(b.constant_of(xs[1]), 0):
        return xs[0]
    if xs[0] is xs[1] and not _is_float(xs[0]):
        return b.zero(t)
    negated = _negated(b, xs[1])
    return None if negated is None else b.emit("add", xs[0], negated)


def _mul(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    for x, y in (xs, xs[::-1]):
        number = b.constant_of(y)
        if number is not None and number == 1:
            return x
        if number is not None and number == -1:
            return b.emit("neg", x)
        if number is not None and number == 0 and not _is_float(x):
            return y
    for x, y in (xs, xs[::-1]):
        negated = _negated(b, y)
        if negated is not None:  # outwards, where it meets another one or a sum
            return b.emit("neg", b.emit("mul", x, negated))
    return None


def _scale(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """Plain multiplication by a finite number; zero by zero, of any sign."""
    for x, y in (xs, xs[::-1]):
        number = b.constant_of(y)
        if number is not None and number == 0:
            return b.constant(t, 0)
        if number is not None and math.isfinite(number):
            return b.emit("mul", x, y)
    for x, y in (xs, xs[::-1]):
        negated = _negated(b, y)
        if negated is not None:
            return b.emit("neg", b.primitive("scale", (x, negated), None, attributes))
    return None


def _div(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    number = b.constant_of(xs[1])
    return xs[0] if number is not None and number == 1 else None


def _negated(b: OpBuilder, x: Value) -> Value | None:
    """The y of x = -y, if there is one. Rounding is symmetric, so signs may move through sums and products."""
    op = b.made_by(x)
    return op.operands[0] if op is not None and op.name == "neg" else None


def _neg(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    return _negated(b, xs[0])


def _and(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    return _of_bits(b, xs, no_bits=1, all_bits=0)


def _or(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    return _of_bits(b, xs, no_bits=0, all_bits=1)


def _of_bits(b: OpBuilder, xs: tuple[Value, ...], no_bits: int, all_bits: int) -> Value | None:
    """Which of two operands is the result, where the second one is a constant without bits or with all bits."""
    if xs[0] is xs[1]:
        return xs[0]
    for pair in (xs, xs[::-1]):
        number = b.constant_of(pair[1])
        if number is not None and number == 0:
            return pair[no_bits]
        if number is True or number == -1:
            return pair[all_bits]
    return None


def _not(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    op = b.made_by(xs[0])
    return op.operands[0] if op is not None and op.name == "not" else None


def _shift(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    return xs[0] if b.constant_of(xs[1]) == 0 else None


def _select(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    if xs[1] is xs[2]:
        return xs[1]
    condition = b.constant_of(xs[0])
    return None if condition is None else xs[1] if condition else xs[2]


def _convert(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    if xs[0].type is t:
        return xs[0]
    number, source, target = b.constant_of(xs[0]), scalar_of(xs[0].type), scalar_of(t)
    if number is None or source is None or target is None:
        return None
    return b.constant(t, convert(source, target, number))


def _bitcast(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    if xs[0].type is t:
        return xs[0]
    op = b.made_by(xs[0])
    if op is not None and op.name == "bitcast":
        return b.emit("bitcast", op.operands[0], type=t)
    number, source = b.constant_of(xs[0]), xs[0].type
    if number is None or not isinstance(source, Scalar) or not isinstance(t, Scalar) or number != number:
        return None
    return b.constant(t, bitcast(source, t, number))


def _make(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """make(get 0 of v, get 1 of v, ...) is v."""
    whole: Value | None = None
    for i, x in enumerate(xs):
        op = b.made_by(x)
        if op is None or op.name != "get" or op.attributes["index"] != i:
            return None
        if op.operands[0].type is not t or (whole is not None and op.operands[0] is not whole):
            return None
        whole = op.operands[0]
    return whole


def _get(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    op, index = b.made_by(xs[0]), attributes["index"]
    if op is None:
        return None
    if op.name == "make":
        return op.operands[index]
    if op.name == "splat":
        return op.operands[0] if op.operands[0].type is t else b.emit("splat", op.operands[0], type=t)
    if op.name == "set" and op.attributes["index"] == index:
        return op.operands[1]
    if op.name == "set":
        return b.emit("get", op.operands[0], index=index)
    if op.name == "zero":
        return b.zero(t)
    return b.constant(t, op.attributes["value"]) if op.name == "const" else None


def _set(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """A component set to its own value, or set twice."""
    part, whole = b.made_by(xs[1]), b.made_by(xs[0])
    index = attributes["index"]
    if part is not None and part.name == "get" and part.operands == xs[:1] and part.attributes == attributes:
        return xs[0]
    if whole is not None and whole.name == "set" and whole.attributes["index"] == index:
        return b.emit("set", whole.operands[0], xs[1], index=index)
    return None


def _index(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """A constant index within the array is `get`; an element of a zero, or one set to zero, is zero."""
    number, op = b.constant_of(xs[1]), b.made_by(xs[0])
    if number is not None and _reaches(xs[0].type, number):
        return None if is_tape(xs[0].type) else b.emit("get", xs[0], index=int(number))
    if op is None or (attributes.get("check") and not op.attributes.get("check")):
        return None
    same = op.name == "set_index" and op.operands[1] is xs[1]
    if op.name == "zero" or (same and _is_zero(b, op.operands[2])):
        return b.zero(t)
    return op.operands[2] if same and is_tape(xs[0].type) and not _is_signed(xs[1]) else None


def _set_index(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """With a constant index `set`; the array itself for an element set to its own value; one write instead of
    two."""
    number, part, whole = b.constant_of(xs[1]), b.made_by(xs[2]), b.made_by(xs[0])
    if number is not None and not is_tape(t) and _reaches(t, number):
        return b.emit("set", xs[0], xs[2], index=int(number))
    read = part is not None and part.name == "index" and part.operands == xs[:2]
    if read and not attributes.get("check"):  # an unused read disappears with its report
        return xs[0]
    if whole is None or not _reported(attributes, whole):
        return None
    again = whole.name in ("set_index", "add_index") and whole.operands[1] is xs[1]
    if again and scalar_of(xs[2].type) is not None:  # rows are written in place, see flatten/leaves.py
        return b.emit("set_index", whole.operands[0], *xs[1:], type=t, **_check(whole))
    has_zeros = whole.name == "zero" and not whole.attributes.get("written_first")
    return xs[0] if has_zeros and _is_zero(b, xs[2]) else None


def _add_index(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """With a constant index `set` of a sum; the sum, where the element was just written."""
    if scalar_of(xs[2].type) is None:
        return None
    number, whole = b.constant_of(xs[1]), b.made_by(xs[0])
    if number is not None and not is_tape(t) and _reaches(t, number):
        old = b.emit("get", xs[0], index=int(number))
        return b.emit("set", xs[0], b.emit("add", old, xs[2]), index=int(number))
    if whole is None or whole.name != "set_index" or whole.operands[1] is not xs[1]:
        return None
    if not _reported(attributes, whole):
        return None
    new = b.emit("add", whole.operands[2], xs[2])
    return b.emit("set_index", whole.operands[0], xs[1], new, type=t, **_check(whole))


def _reported(attributes: Attributes, other: Op) -> bool:
    """Whether another op on the same index reports whenever an op with these attributes does."""
    return bool(other.attributes.get("check")) or not attributes.get("check")


def _check(op: Op) -> Attributes:
    return {"check": True} if op.attributes.get("check") else {}


def _is_zero(b: OpBuilder, x: Value) -> bool:
    op = b.made_by(x)
    return _is(b.constant_of(x), 0) or (op is not None and op.name == "zero")


def _is_signed(x: Value) -> bool:
    scalar = scalar_of(x.type)
    return scalar is None or scalar.kind == "signed"


def _reaches(t: Type, number: Number) -> bool:
    """Whether there is an element of that number."""
    extent = index_extent(t)
    return number >= 0 and (extent is None or number < extent)


def _splat(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    number = b.constant_of(xs[0])
    return None if number is None else b.constant(t, number)


def _shuffle(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    """A swizzle is written as components, so that `get` sees through it."""
    indices = attributes["indices"]
    picked = [b.emit("get", xs[0], index=i) for i in indices]
    return picked[0] if t is picked[0].type else b.emit("make", *picked, type=t)


def _zero(b: OpBuilder, xs: tuple[Value, ...], attributes: Attributes, t: Type) -> Value | None:
    return b.constant(t, 0) if isinstance(t, Scalar) else None


RULES: dict[str, Callable[[OpBuilder, tuple[Value, ...], Attributes, Type], Value | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "scale": _scale,
    "div": _div,
    "neg": _neg,
    "and": _and,
    "or": _or,
    "not": _not,
    "shl": _shift,
    "shr": _shift,
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "make": _make,
    "get": _get,
    "set": _set,
    "index": _index,
    "set_index": _set_index,
    "add_index": _add_index,
    "splat": _splat,
    "shuffle": _shuffle,
    "zero": _zero,
}
assert RULES.keys() <= PRIMITIVES.keys()
