"""Functions that work on each component: one row of a table each.

    sqrt(float2(4, 9)) -> float2(2, 3)      max(int3(1, 5, 2), 3) -> int3(3, 5, 3)      sin(0.5) -> a Python float

A row tells the kinds of elements that a function takes (i: signed, u: unsigned, f: floats, b: truth values), what
it computes, and what its result is made of. Operands are of one type; numbers stand for all components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import Data, converted, fits
from slangrad.marshal.host.vectors import HostArray, HostQuaternion, HostVector, vector_class

SAME, TRUTH = "same", "truth"
WHOLE, FLOATS, NUMBERS, ALL = "iu", "f", "iuf", "iufb"


@dataclass(frozen=True, slots=True)
class Row:
    """`parameters`: names, in the order of arguments. `numbers`: whether it takes numbers alone."""

    kinds: str
    parameters: tuple[str, ...]
    compute: Callable[..., object]
    result: str = SAME


def _half_away(x: Data) -> Data:
    """Where x + 0.5 is not exact, x is below a half or a whole number."""
    whole = np.trunc(x)
    return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole))


def _saturate(x: Data) -> Data:
    return _maximum(_minimum(x, x.dtype.type(1)), x.dtype.type(0))


def _minimum(x: Data, y: Data) -> Data:
    return np.where(x < y, x, y)


def _maximum(x: Data, y: Data) -> Data:
    return np.where(x > y, x, y)


def _clamp(x: Data, low: Data, high: Data) -> Data:
    return _maximum(low, _minimum(high, x))


def _lerp(x: Data, y: Data, s: Data) -> Data:
    return np.asarray((s.dtype.type(1) - s) * x + s * y)


def _smoothstep(low: Data, high: Data, x: Data) -> Data:
    t: Data = _saturate(np.asarray((x - low) / (high - low)))
    return np.asarray(t * t * (t.dtype.type(3) - t.dtype.type(2) * t))


def _step(x: Data, y: Data) -> Data:
    return np.asarray(np.where(x >= y, x.dtype.type(1), x.dtype.type(0)))


X, XY = ("x",), ("x", "y")

# fmt: off
ROWS: dict[str, Row] = {
    "abs":        Row("if",    X,  np.abs),
    "sign":       Row("if",    X,  np.sign),
    "isfinite":   Row(FLOATS,  X,  np.isfinite, TRUTH),
    "isinf":      Row(FLOATS,  X,  np.isinf,    TRUTH),
    "isnan":      Row(FLOATS,  X,  np.isnan,    TRUTH),
    "floor":      Row(FLOATS,  X,  np.floor),
    "ceil":       Row(FLOATS,  X,  np.ceil),
    "trunc":      Row(FLOATS,  X,  np.trunc),
    "round":      Row(FLOATS,  X,  _half_away),
    "sqrt":       Row(FLOATS,  X,  np.sqrt),
    "rsqrt":      Row(FLOATS,  X,  lambda x: x.dtype.type(1) / np.sqrt(x)),
    "rcp":        Row(FLOATS,  X,  lambda x: x.dtype.type(1) / x),
    "exp":        Row(FLOATS,  X,  np.exp),
    "exp2":       Row(FLOATS,  X,  np.exp2),
    "log":        Row(FLOATS,  X,  np.log),
    "log2":       Row(FLOATS,  X,  np.log2),
    "log10":      Row(FLOATS,  X,  np.log10),
    "radians":    Row(FLOATS,  X,  np.radians),
    "degrees":    Row(FLOATS,  X,  np.degrees),
    "sin":        Row(FLOATS,  X,  np.sin),
    "cos":        Row(FLOATS,  X,  np.cos),
    "tan":        Row(FLOATS,  X,  np.tan),
    "asin":       Row(FLOATS,  X,  np.arcsin),
    "acos":       Row(FLOATS,  X,  np.arccos),
    "atan":       Row(FLOATS,  X,  np.arctan),
    "sinh":       Row(FLOATS,  X,  np.sinh),
    "cosh":       Row(FLOATS,  X,  np.cosh),
    "tanh":       Row(FLOATS,  X,  np.tanh),
    "frac":       Row(FLOATS,  X,  lambda x: x - np.floor(x)),
    "saturate":   Row(FLOATS,  X,  _saturate),
    "eq":         Row(ALL,     XY, np.equal,         TRUTH),
    "ne":         Row(ALL,     XY, np.not_equal,     TRUTH),
    "lt":         Row(NUMBERS, XY, np.less,          TRUTH),
    "gt":         Row(NUMBERS, XY, np.greater,       TRUTH),
    "le":         Row(NUMBERS, XY, np.less_equal,    TRUTH),
    "ge":         Row(NUMBERS, XY, np.greater_equal, TRUTH),
    "min":        Row(NUMBERS, XY, _minimum),
    "max":        Row(NUMBERS, XY, _maximum),
    "pow":        Row(FLOATS,  XY, np.power),
    "fmod":       Row(FLOATS,  XY, np.fmod),
    "step":       Row(FLOATS,  XY, _step),
    "atan2":      Row(FLOATS,  ("y", "x"),          np.arctan2),
    "clamp":      Row(NUMBERS, ("x", "min", "max"), _clamp),
    "lerp":       Row(FLOATS,  ("x", "y", "s"),     _lerp),
    "smoothstep": Row(FLOATS,  ("min", "max", "x"), _smoothstep),
}
# fmt: on

_OF_QUATERNIONS = ("eq", "ne", "isfinite", "isinf", "isnan", "lerp")
_TEXTS = {
    "round": "The nearest whole number; halves go away from zero.",
    "step": "1 where x >= y, else 0. In Slang the arguments are the other way round: step(edge, x).",
    "min": "The smaller one; y where they cannot be compared.",
    "max": "The larger one; y where they cannot be compared.",
}


def _function(name: str, row: Row) -> Callable[..., object]:
    def apply(*given: object, **named: object) -> object:
        return _applied(name, row, arguments_of(name, row.parameters, given, named))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = _TEXTS.get(name, f"{name}({', '.join(row.parameters)}) of each component.")
    return apply


def arguments_of(
    name: str, parameters: Sequence[str], given: Sequence[object], named: dict[str, object]
) -> list[object]:
    """The values of the parameters; TypeError as Python's own functions raise it."""
    values = dict(zip(parameters, given))
    unknown = [each for each in named if each not in parameters or each in values]
    if unknown:
        raise TypeError(f"{name}() got an unexpected argument '{unknown[0]}'")
    values |= named
    if len(given) > len(parameters) or len(values) < len(parameters):
        count = len(given) + len(named)
        raise TypeError(f"{name}() takes {len(parameters)} arguments ({', '.join(parameters)}), not {count}")
    return [values[each] for each in parameters]


def _applied(name: str, row: Row, values: list[object]) -> object:
    model = model_of(name, values)
    data = operands(name, model, values)
    if data[0].dtype.kind not in row.kinds:
        raise TypeError(f"{name}: there is none for {_described(model, values)}")
    if isinstance(model, HostQuaternion) and name not in _OF_QUATERNIONS:
        raise TypeError(f"{name}: there is none for {type(model).__name__}")
    with np.errstate(all="ignore"):
        made = np.asarray(row.compute(*data))
    if model is None:
        return made.item()
    if row.result is TRUTH:
        return vector_class(ir.BOOL, made.size).of(made)
    return model.of(made.astype(model.dtype, copy=False))


def model_of(name: str, values: Sequence[object]) -> HostArray | None:
    """The first vector or quaternion, whose type all others must have; None if all are numbers."""
    found = [each for each in values if isinstance(each, HostArray)]
    for each in found:
        if not isinstance(each, (HostVector, HostQuaternion)):
            raise TypeError(f"{name}: there is none for {type(each).__name__}")
        if (each.shape, each.dtype) != (found[0].shape, found[0].dtype):
            raise TypeError(
                f"{name}: {type(found[0]).__name__} and {type(each).__name__} are of different types"
            )
    return found[0] if found else None


def operands(name: str, model: HostArray | None, values: Sequence[object]) -> list[Data]:
    """All values as arrays of the model's element type, numbers alone as those of the widest of them."""
    if model is None:
        if not all(isinstance(each, (int, float, np.number, np.bool_)) for each in values):
            wrong = next(each for each in values if not isinstance(each, (int, float, np.number, np.bool_)))
            raise TypeError(f"{name}: {type(wrong).__name__} is no number or vector")
        common = np.result_type(*(np.asarray(each).dtype for each in values))
        return [np.asarray(each, common) for each in values]
    made = []
    for each in values:
        if isinstance(each, HostArray):
            made.append(each.data)
        elif isinstance(each, (int, float, np.number, np.bool_)) and fits(each, model.dtype):
            made.append(converted(each, model.dtype, name))
        else:
            raise TypeError(f"{name}: {each!r} is no component of {type(model).__name__}")
    return made


def _described(model: HostArray | None, values: Sequence[object]) -> str:
    return ", ".join(type(each).__name__ for each in values) if model is None else type(model).__name__


# --- Others than rows ---------------------------------------------------------------------------------


def _any(x: object) -> bool:
    """Whether some component is true."""
    return bool(_truths("any", x).any())


def _all(x: object) -> bool:
    """Whether all components are true."""
    return bool(_truths("all", x).all())


def _none(x: object) -> bool:
    """Whether no component is true."""
    return not _any(x)


def _truths(name: str, x: object) -> Data:
    data = x.data if isinstance(x, HostVector) else np.asarray(x)
    if data.dtype.kind != "b":
        raise TypeError(
            f"{name}: a vector of truth values is needed, not {type(x).__name__}; compare with ne(x, 0)"
        )
    return data


def select(condition: object, true_value: object, false_value: object) -> object:
    """For each component one of two values."""
    truths = _truths("select", condition)
    model = model_of("select", [true_value, false_value])
    if model is None:
        model = condition if isinstance(condition, HostVector) else None
        if model is not None:
            raise TypeError("select: one of the values must be a vector where the condition is one")
        return true_value if bool(truths) else false_value
    if truths.ndim and truths.shape != model.shape:
        raise TypeError(f"select: a condition of {truths.size} components for {type(model).__name__}")
    yes, no = operands("select", model, [true_value, false_value])
    return model.of(np.where(truths, yes, no).astype(model.dtype, copy=False))


# --- Bits ---------------------------------------------------------------------------------------------

_NUMBERS: dict[str, tuple[tuple[str, ...], str, ir.Scalar]] = {
    # name        takes                    as        gives
    "asuint": (("float32", "int32"), "float32", ir.U32),
    "asint": (("float32", "uint32"), "float32", ir.I32),
    "asfloat": (("uint32", "int32"), "uint32", ir.F32),
    "asuint16": (("float16", "int16"), "float16", ir.U16),
    "asfloat16": (("uint16", "int16"), "uint16", ir.F16),
}


def _reinterpreted(name: str) -> Callable[[object], object]:
    takes, number, gives = _NUMBERS[name]

    def apply(x: object) -> object:
        if isinstance(x, HostVector):
            if x.dtype.name not in takes:
                raise TypeError(f"{name}: there is none for {type(x).__name__}")
            made = vector_class(gives, x.shape[0])
            return made.of(x.data.view(made.dtype).copy())
        dtype = np.dtype(number)
        if isinstance(x, int) and x < 0 and dtype.kind == "u":
            dtype = np.dtype(f"int{8 * dtype.itemsize}")
        if not isinstance(x, (int, float, np.number)) or not fits(x, dtype):
            raise TypeError(f"{name}: {x!r} is no {dtype}")
        return converted(x, dtype, name).view(vector_class(gives, 1).dtype).item()

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The bits of {' or '.join(takes)} as {gives}."
    return apply


def f32tof16(x: object) -> object:
    """Floats rounded to half, as the bits of these."""
    if isinstance(x, HostVector) and x.dtype == np.float32:
        return vector_class(ir.U32, x.shape[0]).of(_half_bits(x.data))
    return int(_half_bits(operands("f32tof16", None, [x])[0]))


def _half_bits(x: Data) -> Data:
    with np.errstate(over="ignore"):
        return np.asarray(x.astype(np.float16).view(np.uint16).astype(np.uint32))


def f16tof32(x: object) -> object:
    """What halves with these bits are; only the lowest 16 bits count."""
    if isinstance(x, HostVector) and x.dtype == np.uint32:
        return vector_class(ir.F32, x.shape[0]).of(_floats(x.data))
    if not isinstance(x, (int, np.integer)):
        raise TypeError(
            f"f16tof32: {type(x).__name__} has no bits of a half; give a uint or a vector of these"
        )
    return float(_floats(np.asarray(int(x) & 0xFFFF, np.uint32)))


def _floats(bits: Data) -> Data:
    return np.asarray((bits & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32))


FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: _function(name, row) for name, row in ROWS.items()},
    **{name: _reinterpreted(name) for name in _NUMBERS},
    "any": _any,
    "all": _all,
    "none": _none,
    "select": select,
    "f32tof16": f32tof16,
    "f16tof32": f16tof32,
}
