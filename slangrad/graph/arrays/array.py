"""Traced arrays: NumPy's functions of them make nodes.

    np.exp(x) + 1        add(exp(%x), broadcast(1))

NumPy decides types: each function of one element takes the types of the ufunc itself. A function that is not in the
tables below is an error; no value is computed on the host in secret.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from math import prod
from operator import index
from typing import Any, Literal, NoReturn, ParamSpec, TypeGuard, TypeVar, Unpack

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from slangrad.graph.arrays.captured import Captured
from slangrad.graph.arrays.keywords import refuse
from slangrad.graph.arrays.traces import TRACES, unknown_value
from slangrad.graph.ir.errors import (
    GraphError,
    TracedValueError,
    UnknownAttributeError,
    UnknownFunctionError,
    explained,
    refused,
)
from slangrad.graph.ir.node import DType, Node, NodeAttributes, Shape, make
from slangrad.graph.ir.ops import OPS
from slangrad.graph.ir.values import Operand, is_array, numpy_type, shape_of

INT = np.dtype(np.int64)
BOOL = np.dtype(bool)
ALIASES = {
    "true_divide": "divide", "abs": "absolute", "mod": "remainder", "fabs": "absolute", "conj": "positive",
    "conjugate": "positive", "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "prod", "logical_or": "sum",
}  # fmt: skip
FUNCTIONS: dict[Callable[..., object], Callable[..., Operand]] = {}
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
ToDType = DTypeLike | None
METHODS: dict[str, Callable[..., Operand]] = {}
P = ParamSpec("P")
R = TypeVar("R")


def implements(
    *functions: Callable[..., object], method: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register the traced version of NumPy's functions, and of a method of arrays; `**_` takes refused keywords."""

    def enter(function: Callable[P, R]) -> Callable[P, R]:
        name, parameters = method or called(functions[0]).removeprefix("np."), signature(function).parameters

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse(name, **{key: value for key, value in kwargs.items() if key not in parameters})
            return function(*args, **kwargs)

        entered = explained(name)(checked if "_" in parameters else function)
        FUNCTIONS.update(dict.fromkeys(functions, entered))
        if method:
            METHODS[method] = entered
        return entered

    return enter


# Replacements for functions without an operator.
INSTEAD = {
    "scipy.special.erf": "a Slang function can be called: [Differentiable] float f(float x) { return erf(x); }",
    "scipy.special.expit": "1 / (1 + np.exp(-x))",
    "scipy.special.logit": "np.log(x / (1 - x))",
    "scipy.special.log_expit": "-np.logaddexp(0, -x)",
    "scipy.special.xlogy": "np.where(x == 0, 0, x * np.log(y))",
    "np.gradient": "np.diff",
}  # fmt: skip
OUTSIDE = "compute it outside of the function, and give it the result"


def called(function: Callable[..., object]) -> str:
    """The name by which programs call a function of NumPy's or SciPy's."""
    name, module = function.__name__, getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc):
        special = getattr(sys.modules.get("scipy.special"), name, None)
        module = (
            "numpy" if getattr(np, name, None) is function else "scipy.special" if special is function else ""
        )
    return ".".join([*(["np" if part == "numpy" else part for part in module.split(".") if part]), name])


def unknown(function: Callable[..., object]) -> GraphError:
    """The error for a function that has no operator."""
    name = called(function)
    traced = [
        *map(called, FUNCTIONS),
        *(f"np.{n}" for n in OPS if isinstance(getattr(np, n, None), np.ufunc)),
    ]
    within = [n for n in traced if n.removeprefix("np.") in name.removeprefix("np.")]
    near = f"did you mean {max(within, key=len)}? " if within and name.count(".") == 1 else ""
    is_whole = name.startswith(("np.linalg.", "np.fft."))  # its elements depend on all of an array
    advice = OUTSIDE if is_whole else f"{near}a Slang function can be called"
    return GraphError("E1040", f"{name} of a traced array is not known", INSTEAD.get(name, advice))


class Array(NDArrayOperatorsMixin):
    """The value of a node. It has a shape and a dtype, and no elements yet.

    `shape` is a tuple of numbers, and `dtype` one of NumPy's: bool, integers, or floats of 16 to 64 bits. NumPy's
    functions and operators of it give traced arrays, with the shape and dtype of NumPy's results.

    TracedValueError (E1041) where Python asks it for a number, a truth value or elements. GraphError (E1040) for
    functions and dtypes that are not known, (E1042) for shapes that do not fit.
    """

    __slots__ = ("__weakref__", "node")
    __array_priority__ = 1000
    node: Node

    def __init__(self, node: Node) -> None:
        _set_node(self, node)
        TRACES.note(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        instead = (
            "y = x.reshape(shape)" if name == "shape" else "y = x.astype(dtype)" if name == "dtype" else None
        )
        note = f"arrays in graphs do not change{f': {instead}' if instead else ''}"
        raise refused("E1041", f"the attribute '{name}' of a traced array {self.node!r} cannot be set", note)

    def __copy__(self) -> Array:
        return self

    def __repr__(self) -> str:
        return f"Array({self.node!r})"

    __hash__ = object.__hash__

    # --- shapes and types

    @property
    def shape(self) -> Shape:
        return self.node.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def size(self) -> int:
        return self.node.size

    @property
    def T(self) -> Array:
        return self.transpose()

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return self.swapaxes(-1, -2)

    def __len__(self) -> int:
        if not self.shape:
            note = "np.stack([x, y]) makes one array of several, where np.array, torch.tensor and list do not"
            raise refused("E1042", "len() of an array without dimensions", note)
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    # --- requests for elements, which are refused

    def __bool__(self) -> NoReturn:
        raise self._unknown(
            "the truth value", "np.where(condition, a, b) chooses by element; a Slang function may branch"
        )

    def __float__(self) -> NoReturn:
        raise self._unknown("a Python number", "keep it an array, or return it")

    __int__ = __complex__ = __float__

    def __index__(self) -> NoReturn:
        raise self._unknown(
            "a Python integer",
            "sizes are Python numbers: pass an int; x[i + np.arange(n)] are n elements from i on",
        )

    def item(self, *args: object) -> NoReturn:
        self.__float__()

    tolist = __round__ = item

    def __format__(self, form: str) -> str:
        return self.item() if form else repr(self)

    def __deepcopy__(self, memo: object) -> Array:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise self._unknown("a copy on disk or in another process", "return it: a result can be pickled")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self._unknown("a NumPy array", "np.stack makes one of several, np.take(a, x, 0) is a[x]")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        note = "arrays in graphs do not change: np.where and np.concatenate make new ones"
        raise refused("E1041", f"elements of a traced array {self.node!r} cannot be assigned", note)

    def __dlpack__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self._unknown("the memory", "NumPy's functions take traced arrays, and return them")

    __dlpack_device__ = __dlpack__

    def _unknown(self, fact: str, instead: str) -> TracedValueError:
        return unknown_value(fact, self.node, instead)

    # --- NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Operand:
        return explained(ufunc.__name__)(of_ufunc)(ufunc, method, *inputs, **kwargs)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[Operand],
        kwargs: Mapping[str, Operand],
    ) -> Operand:
        if function not in FUNCTIONS:
            raise unknown(function)
        return FUNCTIONS[function](*args, **kwargs)

    @classmethod
    def __torch_function__(cls, function: Callable[..., object], *_: object, **__: object) -> NoReturn:
        """Functions of torch. Its operators take the error for a refusal, and then those of this class answer."""
        name = function.__name__
        homes = ("np", np), ("graph", sys.modules["slangrad.graph"])
        instead = next((f"{home}.{name}(x)" for home, module in homes if hasattr(module, name)), None)
        message = f"{name}: functions of torch take no traced arrays"
        raise UnknownFunctionError("E1040", message, instead or "NumPy's functions do")

    def __slangrad_call__(
        self, function: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Array:
        """A call of a Slang function with a traced array is a node."""
        result: Array = METHODS["__slangrad_call__"](self, function, args, kwargs)
        return result

    def __getattr__(self, name: str) -> Any:  # a method of the table
        if name in METHODS:
            return METHODS[name].__get__(self)
        names = [n for n in (*METHODS, *dir(Array)) if n[0] != "_" and hasattr(np.ndarray, n)]
        near = get_close_matches(name, names, 1)
        meant = f"; did you mean '{near[0]}'?" if near else ""
        raise UnknownAttributeError("E1040", f"a traced array has no attribute '{name}'{meant}")

    # --- attributes and nodes, for derivatives and rules

    @property
    def node_axes(self) -> tuple[int, ...]:
        """The axes of a reduction."""
        return self.node.attributes["axes"]

    def sliced(self, shape: Shape, starts: Shape, steps: Shape) -> Array:
        """`shape[i]` elements of each axis, from a start by a step, which may be negative."""
        if shape == self.shape and not any(starts) and all(step == 1 for step in steps):
            return self
        return Array(make("slice", [self.node], shape, self.dtype, starts=starts, steps=steps))

    def placed(self, shape: Shape, starts: Shape, steps: Shape) -> Array:
        """Zeros of a shape, with these elements where `sliced` would read them."""
        if shape == self.shape and not any(starts) and all(step == 1 for step in steps):
            return self
        return Array(make("place", [self.node], shape, self.dtype, starts=starts, steps=steps))

    def added_along(self, index: Array, shape: Shape, axis: int) -> Array:
        """Zeros of a shape, to which elements are added where `np.take_along_axis` would read them."""
        return Array(make("add_along", [self.node, index.node], shape, self.dtype, axis=axis))

    def counted(self, shape: Shape, axis: int, dtype: DType) -> Array:
        """0, 1, 2, ... along an axis."""
        return Array(make("count", [], shape, dtype, axis=axis))

    # --- views

    @explained("reshape")
    def reshape(self, *shape: Operand, order: str = "C") -> Array:
        is_number = not len(shape) or isinstance(shape[0], int | np.integer) or is_scalar(shape[0])
        sizes = list(map(index, shape if len(shape) > 1 or is_number else shape[0]))
        if order != "C":
            raise GraphError("E1040", f"reshape: order={order!r} cannot be traced", "transpose first")
        count: int = prod(sizes)
        if sizes.count(-1) == 1 and count:
            sizes[sizes.index(-1)] = self.size // max(1, -count)
        target = tuple(sizes)
        if prod(target) != self.size or min(target, default=0) < 0:
            message = f"reshape: {self.size} elements of shape {self.shape} do not fill {tuple(shape)}"
            raise GraphError("E1042", message)
        return self if target == self.shape else Array(make("reshape", [self.node], target, self.dtype))

    @explained("transpose")
    def transpose(self, *axes: Operand) -> Array:
        wanted = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
        order = range(self.ndim)[::-1] if wanted is None or len(wanted) == 0 else wanted
        turned = tuple(axis_of(axis, self.ndim) for axis in order)
        if sorted(turned) != list(range(self.ndim)):
            raise GraphError("E1042", f"transpose: axes {tuple(order)} are no order of {self.ndim} axes")
        if turned == tuple(range(self.ndim)):
            return self
        return Array(
            make("transpose", [self.node], tuple(self.shape[i] for i in turned), self.dtype, order=turned)
        )

    def swapaxes(self, a: int, b: int) -> Array:
        order = list(range(self.ndim))
        a, b = axis_of(a, self.ndim), axis_of(b, self.ndim)
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    @explained("broadcast_to")
    def broadcast_to(self, shape: Sequence[int]) -> Array:
        """As `np.broadcast_to`. GraphError (E1042) for shapes that do not fit."""
        target = tuple(map(index, shape))
        if target == self.shape:
            return self
        try:
            fits = np.broadcast_shapes(self.shape, target) == target
        except ValueError:
            fits = False
        if not fits:
            raise GraphError("E1042", f"shape {self.shape} cannot be broadcast to {target}")
        return Array(make("broadcast", [self.node], target, self.dtype))

    @explained("astype")
    def astype(self, dtype: ToDType, casting: Casting = "unsafe", **rest: object) -> Array:
        """The values in another type. As bool they are true where they are not zero."""
        refuse("astype", **rest)
        target = checked_type(np.dtype(dtype))
        if not np.can_cast(self.dtype, target, casting):
            raise GraphError("E1042", f"{self.dtype} cannot be cast to {target}: casting is {casting!r}")
        if target == self.dtype:
            return self
        if target == BOOL:
            is_nonzero: Array = self != 0
            return is_nonzero
        return Array(make("convert", [self.node], self.shape, target))

    def __mul__(self, other: Operand) -> Operand:
        self._refuse_repetition(other)
        return super().__mul__(other)

    def __rmul__(self, other: Operand) -> Operand:
        self._refuse_repetition(other)
        return super().__rmul__(other)

    def _refuse_repetition(self, other: object) -> None:
        """A list times an integer is a longer list, but a product of arrays if the integer is an array."""
        if isinstance(other, list | tuple) and is_scalar(self) and self.dtype.kind in "iu":
            note = "np.asarray(list) * x is a product; a Python number repeats a list"
            raise self._unknown("the length of a list times the value", note)

    def __pow__(self, other: Operand) -> Operand:
        # As NumPy has it: the operator is a square here, of booleans in int8.
        return np.square(self) if type(other) is int and other == 2 else np.power(self, other)

    def __getitem__(self, index: object) -> Array:
        parts = index if isinstance(index, tuple) else (index,)
        # An empty list has no integers, so NumPy would take it for floats.
        parts = tuple(np.zeros(0, int) if isinstance(part, list) and not part else part for part in parts)
        result: Array = METHODS["__getitem__"](self, parts)
        return result


_set_node = vars(Array)["node"].__set__


def is_scalar(value: object) -> TypeGuard[Array]:
    """Whether a value is a traced array without dimensions."""
    return isinstance(value, Array) and not value.shape


def axis_of(axis: object, ndim: int) -> int:
    """An axis counted from the front."""
    if is_scalar(axis):
        index(axis)  # which raises the error
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise GraphError("E1042", f"an axis is an integer, not {type(axis).__name__}")
    if not -ndim <= axis < ndim:
        raise GraphError("E1042", f"axis {axis} is out of range for an array of {ndim} dimensions")
    return int(axis) % ndim


def along(x: Array, axis: object) -> tuple[Array, int]:
    """An array and one of its axes, counted from the front; None is the only axis of the flat array."""
    return (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.ndim))


def axes_of(axis: object, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction: None is all."""
    wanted = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    counted = tuple(sorted(axis_of(place, ndim) for place in wanted))
    if len(set(counted)) != len(counted):
        raise GraphError("E1042", f"axes {tuple(wanted)}: one is there twice")
    return counted


def checked_type(dtype: DType) -> DType:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        note = "use bool, integers, or floats of 16 to 64 bits"
        raise GraphError("E1040", f"arrays of {dtype} cannot be traced", note)
    return dtype


def constant(value: object, dtype: DType | None = None) -> Array:
    """A number."""
    number = np.asarray(value, dtype)
    checked_type(number.dtype)
    return Array(make("constant", [], (), number.dtype, value=number.tobytes()))


def lifted(value: object) -> Array:
    """Any operand as a traced array. One that was not traced is captured: each call reads its elements anew."""
    if isinstance(value, Array):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return constant(value)
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    if not is_array(value):
        raise GraphError("E1043", f"a {type(value).__name__} cannot be used with traced arrays")
    dtype = checked_type(numpy_type(value))
    return Array(make("captured", [], shape_of(value), dtype, captured=Captured(value)))


# --- functions of one element


def of_ufunc(ufunc: np.ufunc, method: str, *inputs: Operand, **kwargs: Operand) -> Operand:
    """A ufunc of NumPy's, or its `reduce`, of traced arrays."""
    name, dtype = ufunc.__name__, kwargs.pop("dtype", None)
    if method == "reduce" and name in REDUCTIONS:
        x = lifted(inputs[0])
        if name.startswith("logical"):
            x, dtype = x.astype(bool), BOOL
        return reduced(REDUCTIONS[name], x, kwargs.pop("axis", 0), dtype, **kwargs)
    if method == "outer":
        a, b = map(lifted, inputs)
        return of_ufunc(ufunc, "__call__", a.reshape(*a.shape, *(1,) * b.ndim), b, dtype=dtype, **kwargs)
    if method == "accumulate" and ufunc is np.add:
        return FUNCTIONS[np.cumsum](*inputs, **{"axis": 0, "dtype": dtype, **kwargs})
    if method != "__call__":
        raise GraphError("E1040", f"np.{name}.{method} cannot be traced")
    refuse(name, **kwargs)
    if ufunc is np.divmod:
        return np.floor_divide(*inputs, dtype=dtype), np.remainder(*inputs, dtype=dtype)
    if ufunc is np.matmul:
        return matmul(*(inputs if dtype is None else [lifted(x).astype(dtype, "same_kind") for x in inputs]))
    return elementwise(ufunc, inputs, dtype)


def elementwise(ufunc: np.ufunc, inputs: Sequence[Operand], dtype: ToDType = None) -> Array:
    """A map, in the types that NumPy would compute in, or such that it gives `dtype`."""
    name = ALIASES.get(ufunc.__name__, ufunc.__name__)
    if name not in OPS or OPS[name].kind != "map":
        raise unknown(ufunc)
    operands = [x if type(x) in (bool, int, float) else lifted(x) for x in inputs]
    kinds = [type(x) if not isinstance(x, Array) else x.dtype for x in operands]
    kinds = [BOOL if kind is bool else kind for kind in kinds]
    try:
        wanted = (*[None] * ufunc.nin, None if dtype is None else np.dtype(dtype))
        resolved = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), signature=wanted)
    except TypeError:
        types = ", ".join(map(str, kinds)) + ("" if dtype is None else f" and dtype={np.dtype(dtype)}")
        raise GraphError("E1042", f"np.{ufunc.__name__} is not defined for {types}") from None
    if name == "power" and resolved[-1].kind in "iu" and _may_be_negative(operands[1]):
        message = "power: an integer to the power of an integer that is or may be negative"
        raise GraphError("E1042", message, "x.astype(float) ** p, or exponents of an unsigned type")
    if resolved[-1] == BOOL and any(map(is_beyond, operands, resolved)):
        # All elements lie on one side of the number.
        truth = ufunc(*(x if type(x) is int else np.zeros((), x.dtype) for x in operands))
        return constant(truth).broadcast_to(next(x.shape for x in operands if isinstance(x, Array)))
    if [kind.kind for kind in resolved[:2]] in (["i", "u"], ["u", "i"]) and resolved[-1] == BOOL:
        return _of_signs(ufunc, *(_operand(x, to) for x, to in zip(operands, resolved, strict=False)))
    if name in ("floor", "ceil", "trunc") and resolved[0].kind in "biu":
        name = "positive"
    elif name in _OF_BOOLS and resolved[0] == BOOL:
        name = _OF_BOOLS[name]
    elif name in ("isnan", "isinf", "isfinite") and resolved[0] == BOOL:
        resolved = (INT, BOOL)
    elif name in _BITWISE and resolved[0] != BOOL:
        resolved = (BOOL,) * len(resolved)
    return mapped(name, [_operand(x, to) for x, to in zip(operands, resolved, strict=False)], resolved[-1])


_OF_BOOLS = {
    "add": "logical_or", "maximum": "logical_or", "multiply": "logical_and", "minimum": "logical_and",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor", "not_equal": "logical_xor",
    "invert": "logical_not", "absolute": "positive", "fmax": "logical_or", "fmin": "logical_and",
}  # fmt: skip
_BITWISE = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})


def is_beyond(value: object, dtype: DType) -> bool:
    """Whether a Python integer is none of an integer type."""
    if type(value) is not int or dtype.kind not in "iu":
        return False
    return not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def _may_be_negative(p: Operand) -> bool:
    if not isinstance(p, Array):
        return bool(p < 0)
    if p.node.op == "constant":
        return bool(np.frombuffer(p.node.attributes["value"], p.dtype)[0] < 0)
    return p.dtype.kind == "i"


def _of_signs(ufunc: np.ufunc, a: Array, b: Array) -> Array:
    """A comparison of int64 with uint64, which have no common type: an operand below 0 decides the result."""
    below, outcome = (a < 0, ufunc(-1, 0)) if a.dtype.kind == "i" else (b < 0, ufunc(0, -1))
    alike: Array = ufunc(a.astype(np.uint64), b.astype(np.uint64))
    return mapped("where", [below, constant(outcome), alike], BOOL)


def _operand(value: object, dtype: DType) -> Array:
    return value.astype(dtype) if isinstance(value, Array) else constant(value, dtype)


def mapped(op: str, inputs: Sequence[Array], dtype: DType, **attributes: Unpack[NodeAttributes]) -> Array:
    """A map over inputs that are broadcast against each other."""
    shapes = [x.shape for x in inputs]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shape_texts = " and ".join(str(shape) for shape in shapes)
        note = "sizes are equal or 1, counted from the last axis"
        raise GraphError("E1042", f"{op}: shapes {shape_texts} do not fit", note) from None
    nodes = [x.broadcast_to(shape).node for x in inputs]
    return Array(make(op, nodes, shape, checked_type(dtype), **attributes))


# --- reductions and products


def reduced(
    name: str,
    x: object,
    axis: object = None,
    dtype: ToDType = None,
    out: object = None,
    keepdims: bool = False,
    **rest: object,
) -> Array:
    """`sum`, `prod`, `max` or `min` over axes, in the type that NumPy takes."""
    refuse(name, out=out, **rest)
    x = lifted(x)
    axes = axes_of(axis, x.ndim)
    if name in ("sum", "prod"):
        wanted = np.dtype(dtype) if dtype is not None else getattr(np.zeros(1, x.dtype), name)().dtype
        x = x.astype(wanted)
    elif dtype is not None:
        x = x.astype(dtype, "same_kind")
    empty = 0 in [x.shape[i] for i in axes]
    if name in ("max", "min") and empty:
        raise GraphError("E1042", f"np.{name}: there is no {name} of no elements, in shape {x.shape}")
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if x.dtype == BOOL:
        name = name if empty else {"sum": "max", "prod": "min"}.get(name, name)
        bits = x.astype(np.uint8)
        result: Array = Array(make(name, [bits.node], shape, bits.dtype, axes=axes)) != 0
    else:
        result = Array(make(name, [x.node], shape, x.dtype, axes=axes)) if axes else x
    if keepdims in (False, np._NoValue):
        return result
    return result.reshape(tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def matmul(a: object, b: object) -> Array:
    """`a @ b` as NumPy has it: stacks of matrices, vectors on either side."""
    a, b = lifted(a), lifted(b)
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        note = "the last axis of the first is the last but one of the second"
        raise GraphError("E1042", f"matmul: shapes {a.shape} and {b.shape} do not fit", note)
    m, n = "m" * (a.ndim > 1), "n" * (b.ndim > 1)
    product: Array = FUNCTIONS[np.einsum](f"...{m}k,...k{n}->...{m}{n}", a, b)
    return product
