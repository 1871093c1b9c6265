"""Functions that work on each component: one row of a table each.

    sqrt(float2(4, 9)) -> float2(2, 3)      max(int3(1, 5, 2), 3) -> int3(3, 5, 3)      sin(0.5) -> a Python float

A row has the kinds of elements that a function takes (i: signed, u: unsigned, f: floats, b: truth values), its
computation, and the type of its result. Operands are of one type; numbers stand for all components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slangrad.ir.data import types as ir
from slangrad.marshal.host.components import Data, converted, fits
from slangrad.marshal.host.vectors import HOST_NUMBERS, HostArray, HostQuaternion, HostVector, vector_class

SAME, TRUTH = "same", "truth"
WHOLE, FLOATS, NUMBERS, ALL = "iu", "f", "iuf", "iufb"


@dataclass(frozen=True, slots=True)
class FunctionRow:
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
ROWS: dict[str, FunctionRow] = {
    "abs":        FunctionRow("if",    X,  np.abs),
    "sign":       FunctionRow("if",    X,  np.sign),
    "isfinite":   FunctionRow(FLOATS,  X,  np.isfinite, TRUTH),
    "isinf":      FunctionRow(FLOATS,  X,  np.isinf,    TRUTH),
    "isnan":      FunctionRow(FLOATS,  X,  np.isnan,    TRUTH),
    "floor":      FunctionRow(FLOATS,  X,  np.floor),
    "ceil":       FunctionRow(FLOATS,  X,  np.ceil),
    "trunc":      FunctionRow(FLOATS,  X,  np.trunc),
    "round":      FunctionRow(FLOATS,  X,  _half_away),
    "sqrt":       FunctionRow(FLOATS,  X,  np.sqrt),
    "rsqrt":      FunctionRow(FLOATS,  X,  lambda x: x.dtype.type(1) / np.sqrt(x)),
    "rcp":        FunctionRow(FLOATS,  X,  lambda x: x.dtype.type(1) / x),
    "exp":        FunctionRow(FLOATS,  X,  np.exp),
    "exp2":       FunctionRow(FLOATS,  X,  np.exp2),
    "log":        FunctionRow(FLOATS,  X,  np.log),
    "log2":       FunctionRow(FLOATS,  X,  np.log2),
    "log10":      FunctionRow(FLOATS,  X,  np.log10),
    "radians":    FunctionRow(FLOATS,  X,  np.radians),
    "degrees":    FunctionRow(FLOATS,  X,  np.degrees),
    "sin":        FunctionRow(FLOATS,  X,  np.sin),
    "cos":        FunctionRow(FLOATS,  X,  np.cos),
    "tan":        FunctionRow(FLOATS,  X,  np.tan),
    "asin":       FunctionRow(FLOATS,  X,  np.arcsin),
    "acos":       FunctionRow(FLOATS,  X,  np.arccos),
    "atan":       FunctionRow(FLOATS,  X,  np.arctan),
    "sinh":       FunctionRow(FLOATS,  X,  np.sinh),
    "cosh":       FunctionRow(FLOATS,  X,  np.cosh),
    "tanh":       FunctionRow(FLOATS,  X,  np.tanh),
    "frac":       FunctionRow(FLOATS,  X,  lambda x: x - np.floor(x)),
    "saturate":   FunctionRow(FLOATS,  X,  _saturate),
    "eq":         FunctionRow(ALL,     XY, np.equal,         TRUTH),
    "ne":         FunctionRow(ALL,     XY, np.not_equal,     TRUTH),
    "lt":         FunctionRow(NUMBERS, XY, np.less,          TRUTH),
    "gt":         FunctionRow(NUMBERS, XY, np.greater,       TRUTH),
    "le":         FunctionRow(NUMBERS, XY, np.less_equal,    TRUTH),
    "ge":         FunctionRow(NUMBERS, XY, np.greater_equal, TRUTH),
    "min":        FunctionRow(NUMBERS, XY, _minimum),
    "max":        FunctionRow(NUMBERS, XY, _maximum),
    "pow":        FunctionRow(FLOATS,  XY, np.power),
    "fmod":       FunctionRow(FLOATS,  XY, np.fmod),
    "step":       FunctionRow(FLOATS,  XY, _step),
    "atan2":      FunctionRow(FLOATS,  ("y", "x"),          np.arctan2),
    "clamp":      FunctionRow(NUMBERS, ("x", "min", "max"), _clamp),
    "lerp":       FunctionRow(FLOATS,  ("x", "y", "s"),     _lerp),
    "smoothstep": FunctionRow(FLOATS,  ("min", "max", "x"), _smoothstep),
}
# fmt: on

_OF_QUATERNIONS = ("eq", "ne", "isfinite", "isinf", "isnan", "lerp")
_TEXTS = {
    "round": "The nearest whole number; halves go away from zero.",
    "step": "1 where x >= y, else 0. In Slang the arguments are the other way round: step(edge, x).",
    "min": "The smaller one; y where they cannot be compared.",
    "max": "The larger one; y where they cannot be compared.",
}


def _function(name: str, row: FunctionRow) -> Callable[..., object]:
    def apply(*by_position: object, **named: object) -> object:
        return _applied(name, row, arguments_of(name, row.parameters, by_position, named))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = _TEXTS.get(name, f"{name}({', '.join(row.parameters)}) of each component.")
    return apply


def arguments_of(
    name: str, parameters: Sequence[str], by_position: Sequence[object], named: dict[str, object]
) -> list[object]:
    """The values of the parameters; TypeError as Python's own functions raise it."""
    values = dict(zip(parameters, by_position))
    unknown = [name_given for name_given in named if name_given not in parameters or name_given in values]
    if unknown:
        raise TypeError(f"{name}() got an unexpected argument '{unknown[0]}'")
    values |= named
    if len(by_position) > len(parameters) or len(values) < len(parameters):
        count = len(by_position) + len(named)
        raise TypeError(f"{name}() takes {len(parameters)} arguments ({', '.join(parameters)}), not {count}")
    return [values[parameter] for parameter in parameters]


def _applied(name: str, row: FunctionRow, values: list[object]) -> object:
    model = model_of(name, values)
    data = operands(name, model, values)
    if data[0].dtype.kind not in row.kinds:
        raise TypeError(f"{name}: there is none for {_described(model, values)}")
    if isinstance(model, HostQuaternion) and name not in _OF_QUATERNIONS:
        raise TypeError(f"{name}: there is none for {type(model).__name__}")
    with np.errstate(all="ignore"):
        computed = np.asarray(row.compute(*data))
    if model is None:
        return computed.item()
    if row.result is TRUTH:
        return vector_class(ir.BOOL, computed.size).of(computed)
    return model.of(computed.astype(model.dtype, copy=False))


def model_of(name: str, values: Sequence[object]) -> HostArray | None:
    """The first vector or quaternion, whose type all others must have; None if all are numbers."""
    arrays = [array for array in values if isinstance(array, HostArray)]
    for array in arrays:
        if not isinstance(array, (HostVector, HostQuaternion)):
            raise TypeError(f"{name}: there is none for {type(array).__name__}")
        if (array.shape, array.dtype) != (arrays[0].shape, arrays[0].dtype):
            raise TypeError(
                f"{name}: {type(arrays[0]).__name__} and {type(array).__name__} are of different types"
            )
    return arrays[0] if arrays else None


def operands(name: str, model: HostArray | None, values: Sequence[object]) -> list[Data]:
    """All values as arrays of the model's element type, numbers alone as those of the widest of them."""
    if model is None:
        if not all(isinstance(value, HOST_NUMBERS) for value in values):
            wrong = next(value for value in values if not isinstance(value, HOST_NUMBERS))
            raise TypeError(f"{name}: {type(wrong).__name__} is no number or vector")
        common = np.result_type(*(np.asarray(value).dtype for value in values))
        return [np.asarray(value, common) for value in values]
    numbers = []
    for value in values:
        if isinstance(value, HostArray):
            numbers.append(value.data)
        elif isinstance(value, HOST_NUMBERS) and fits(value, model.dtype):
            numbers.append(converted(value, model.dtype, name))
        else:
            raise TypeError(f"{name}: {value!r} is no component of {type(model).__name__}")
    return numbers


def _described(model: HostArray | None, values: Sequence[object]) -> str:
    return ", ".join(type(value).__name__ for value in values) if model is None else type(model).__name__


# --- Functions without a row --------------------------------------------------------------------------


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
    """For each component one of two values. TypeError where the numbers of components differ."""
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
            vector = vector_class(gives, x.shape[0])
            return vector.of(x.data.view(vector.dtype).copy())
        dtype = np.dtype(number)
        if isinstance(x, int) and x < 0 and dtype.kind == "u":
            dtype = np.dtype(f"int{8 * dtype.itemsize}")
        if not isinstance(x, (int, float, np.number)) or not fits(x, dtype):
            raise TypeError(f"{name}: {x!r} is no {dtype}")
        return converted(x, dtype, name).view(vector_class(gives, 1).dtype).item()

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The bits of {' or '.join(takes)} as {gives}. TypeError for others."
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
    """The halves of these bits; only the lowest 16 bits count. TypeError for floats."""
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
