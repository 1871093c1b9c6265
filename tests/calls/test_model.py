"""Calls of any shapes, strides, dtypes and mappings, beside a model of them in NumPy.

What a parameter consumes are the last dimensions of its argument. The others go to dimensions of the call: where a map says, else to
the last ones. Sizes of one, and dimensions that an argument does not have, are repeated.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import Tensor

TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "uint8_t": np.uint8,
    "int64_t": np.int64,
    "half": np.float16,
}
PROGRAM = """
    {t} mix({t} a, vector<{t}, 3> v, {t} m[2]) {{ return {t}(a + v.x + 2 * v.y + 3 * v.z + 4 * m[0] + 5 * m[1]); }}
    void put({t} a, vector<{t}, 3> v, {t} m[2], out {t} sum, out vector<{t}, 2> both)
    {{
        sum = mix(a, v, m);
        both = vector<{t}, 2>(a, sum);
    }}
"""
CONSUMED = ((), (3,), (2,))


@cache
def _module(name):
    return spy.Module.load_from_source(_device(), f"model_{name}", PROGRAM.format(t=name))


@cache
def _device():
    return spy.create_device(backend="cpu")


@dataclass
class Argument:
    array: np.ndarray
    mapping: tuple | None
    kind: str

    def given(self):
        """What the call gets: the array, or a view of a tensor that lies in the same way."""
        if self.kind == "numpy":
            return self.array
        return Tensor.from_dlpack(_device(), self.array)


def in_call(argument, consumed, dims):
    """The model: the argument with a dimension for each of the call, and those that are consumed."""
    rank = argument.array.ndim - len(consumed)
    places = argument.mapping if argument.mapping is not None else tuple(range(dims - rank, dims))
    order = sorted(range(rank), key=lambda i: places[i])
    array = argument.array.transpose(*order, *range(rank, argument.array.ndim))
    sizes = [1] * dims
    for i in order:
        sizes[places[i]] = argument.array.shape[i]
    return array.reshape(*sizes, *consumed)


@st.composite
def arrays(draw, dtype, shape):
    """Values with any strides: steps of any sign, dimensions in any order in memory."""
    steps = [draw(st.sampled_from([1, 1, -1, 2])) for _ in shape]
    order = draw(st.permutations(range(len(shape))))
    whole = [shape[i] * abs(steps[i]) for i in order]
    memory = (np.arange(int(np.prod(whole))) % 5).astype(dtype).reshape(whole)
    view = memory.transpose(*np.argsort(order)) if shape else memory
    return view[tuple(slice(None, None, step) for step in steps)]


@st.composite
def calls(draw):
    name = draw(st.sampled_from(sorted(TYPES)))
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3))
    arguments = []
    for consumed in CONSUMED:
        rank = draw(st.integers(0 if consumed else 1, len(shape)))
        explicit = draw(st.booleans())
        places = (
            draw(st.permutations(range(len(shape))))[:rank]
            if explicit
            else range(len(shape) - rank, len(shape))
        )
        sizes = [draw(st.sampled_from([1, shape[place]])) for place in places]
        array = draw(arrays(TYPES[name], (*sizes, *consumed)))
        kind = draw(st.sampled_from(["numpy", "tensor"]))
        arguments.append(Argument(array, tuple(places) if explicit else None, kind))
    return name, arguments


def _dims(arguments):
    """As many as an argument has, or as a map speaks of."""
    found = [0]
    for argument, consumed in zip(arguments, CONSUMED):
        rank = argument.array.ndim - len(consumed)
        found.append(rank if argument.mapping is None else max(argument.mapping, default=-1) + 1)
    return max(found)


@settings(max_examples=12, deadline=None)
@given(calls())
def test_calls_are_what_numpy_says(call):
    name, arguments = call
    dims = _dims(arguments)
    a, v, m = (in_call(argument, consumed, dims) for argument, consumed in zip(arguments, CONSUMED))
    v, m = np.moveaxis(v, -1, 0), np.moveaxis(m, -1, 0)
    wanted = a + v[0] + 2 * v[1] + 3 * v[2] + 4 * m[0] + 5 * m[1]
    module = _module(name)
    maps = {
        parameter: argument.mapping
        for parameter, argument in zip("avm", arguments)
        if argument.mapping is not None
    }
    given_ones = [argument.given() for argument in arguments]
    found = module.mix.map(**maps)(*given_ones, _result="numpy")
    assert found.dtype == TYPES[name] and found.shape == wanted.shape
    assert np.array_equal(found, wanted)

    sums = np.zeros(wanted.shape[::-1], TYPES[name]).T
    both = Tensor.zeros(_device(), (*wanted.shape, 2), name)
    module.put.map(**maps)(*given_ones, sums, both[::-1])
    assert np.array_equal(sums, wanted)
    assert np.array_equal(both.to_numpy()[::-1, ..., 0], np.broadcast_to(a, wanted.shape))
    assert np.array_equal(both.to_numpy()[::-1, ..., 1], wanted)
