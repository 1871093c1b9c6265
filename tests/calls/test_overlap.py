"""Overlapping memory of one call."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import slangrad as spy
from slangrad import Tensor
from slangrad.call.plans.overlap import TouchedRegion, _interleaved, find_conflicts, pairs_of
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import lattice_of


def region(label, place, size=16, writes=False, adds=False, strides=(4,), injective=True):
    return TouchedRegion(label, place, 0, size, writes, adds, strides, injective)


def conflicts(values, *regions):
    return find_conflicts(pairs_of(regions), values)


def test_inputs_may_overlap():
    assert pairs_of([region("x", 0), region("y", 1)]) == []


def test_separate_memory_is_no_conflict():
    assert conflicts([0, 16], region("x", 0), region("y", 1, writes=True)) is None


def test_in_place_is_fine():
    assert conflicts([0, 0], region("x", 0), region("y", 1, writes=True)) is None


def test_a_shifted_input_is_copied():
    x = region("x", 0)
    found = conflicts([0, 4], x, region("y", 1, writes=True))
    assert found.copies == [x]


def test_an_input_with_other_strides_is_copied():
    x = region("x", 0, strides=(0,), injective=False)
    assert conflicts([0, 0], x, region("y", 1, writes=True)).copies == [x]


def test_two_outputs_are_refused():
    with pytest.raises(CallError, match="'y' and 'z' overlap") as caught:
        conflicts([0, 0], region("y", 0, writes=True), region("z", 1, writes=True))
    assert caught.value.code == "E1008"


def test_gradients_of_one_buffer_are_shared():
    assert conflicts([0, 4], region("x", 0, adds=True), region("y", 1, adds=True)).shared


def test_the_same_gradient_element_of_one_thread_is_not_shared():
    assert conflicts([0, 0], region("x", 0, adds=True), region("y", 1, adds=True)) is None


def test_whole_tensors_may_overlap_in_what_they_write():
    first = region("x", 0, writes=True, strides=None)
    second = region("y", 1, writes=True, strides=None)
    assert pairs_of([first, second]) == []


def test_a_whole_input_is_copied():
    whole = region("t", 0, strides=None)
    assert conflicts([0, 0], whole, region("y", 1, writes=True)).copies == [whole]


def test_a_cotangent_must_not_lie_where_gradients_are_added():
    taken = TouchedRegion("y", 0, 0, 16, False, False, (4,), True, takes=True)
    with pytest.raises(CallError, match="separate buffers") as caught:
        conflicts([0, 0], taken, region("x", 1, adds=True))
    assert caught.value.code == "E1007"


SQUARE = """
    [Differentiable] float f(float x) { return x * x; }
    [Differentiable] void g(int i, ITensor<float, 1> x, IWTensor<float, 1> y) { y[i] = x[i] * x[i]; }
    [Differentiable] float h(float x, float y) { return x * y; }
"""


def test_an_input_that_the_call_has_overwritten(device, load):
    module = load(SQUARE)
    x = Tensor.from_numpy(device, np.array([1, 2, 3, 4], np.float32))
    ones = Tensor.ones(device, (4,), "float")
    module.f(x, _result=x)
    assert x.to_numpy().tolist() == [1, 4, 9, 16]
    input, output = x.with_grads(), x.with_grads(grad_in=ones)
    message = "'x' and '{}' overlap in memory: the call has written '{}'"
    with pytest.raises(CallError, match=message.format("_result", "_result")) as caught:
        module.f.bwds(input, _result=output)
    assert caught.value.code == "E1008"
    with pytest.raises(CallError, match=message.format("y", "y")):
        module.g.bwds(spy.grid((4,)), input, output)
    with pytest.raises(CallError, match="overlap"):
        module.f.bwds(input[:3], _result=output[1:])
    module.f.bwds(input[:2], _result=output[2:])
    module.f.bwds(input[::2], _result=output[1::2])
    assert input.grad.to_numpy().tolist() == [2 + 2, 8, 18, 0]
    module.h.bwds(input, x, _result=Tensor.zeros_like(x).with_grads(grad_in=ones))


def test_one_buffer_of_gradients_for_two_arguments(device, load):
    module = load(SQUARE)
    a = Tensor.from_numpy(device, np.array([1, 2, 3], np.float32))
    b = Tensor.from_numpy(device, np.array([4, 5, 6], np.float32))
    shared = Tensor.zeros(device, (3,), "float")
    module.h.bwds(a.with_grads(grad_out=shared), b.with_grads(grad_out=shared))
    assert shared.to_numpy().tolist() == [5, 7, 9]
    own = a.with_grads(grad_out=a)
    module.h.bwds(own, b)
    assert a.to_numpy().tolist() == [5, 7, 9]


BUFFERS = """
    struct Row { Tensor<float, 1> x; int k; }
    struct Goal { RWTensor<float, 1> y; Tensor<float, 1> x; }
    float first(StructuredBuffer<float> b, float x) { return b[3] + x; }
    void scale(StructuredBuffer<float> b, RWStructuredBuffer<float> c, int i) { c[i] = b[3 - i]; }
    float both(RWStructuredBuffer<float> b, float x, int i) { b[i] = 7; return x; }
    float pick(Row row) { return row.x[row.k]; }
    void move(Goal goal) { goal.y[0] = goal.x[0]; }
    float at(float* p, int i) { return p[i]; }
    [Differentiable] float times(float x, no_diff RWStructuredBuffer<float> b) { return x * b[0]; }
    [Differentiable] void swing(inout float x) { x = x * x; }
"""


@pytest.fixture
def x(device):
    return Tensor.from_numpy(device, np.array([1, 2, 3, 4], np.float32))


def test_structured_buffers_are_read_before_memory_is_written(device, load, x):
    module = load(BUFFERS)
    module.first(x, x, _result=x)
    assert x.to_numpy().tolist() == [5, 6, 7, 8]
    module.first(x.storage, 1.0, _result=x[2:3])
    assert x.to_numpy().tolist() == [5, 6, 9, 8]
    module.scale(x, x, spy.grid((4,)))
    assert x.to_numpy().tolist() == [8, 9, 6, 5]
    module.at(x.storage, spy.grid((4,)), _result=x)  # the function's own business
    assert x.to_numpy().tolist() == [8, 9, 6, 5]


def test_a_buffer_that_is_written_is_no_result(device, load, x):
    module = load(BUFFERS)
    with pytest.raises(CallError, match="'b' and '_result' overlap in memory, and the call changes both"):
        module.both(x.storage, 1.0, spy.grid((4,)), _result=x)
    found = module.both(x.storage, x, spy.grid((4,)), _result="numpy")
    assert found.tolist() == [1, 2, 3, 4] and x.to_numpy().tolist() == [7, 7, 7, 7]


def test_gradients_are_not_added_to_a_buffer_that_is_written(device, load, x):
    module = load(BUFFERS)
    out = Tensor.empty(device, (4,), "float").with_grads(Tensor.ones(device, (4,), "float"))
    own = x.with_grads()
    with pytest.raises(CallError, match="'x' and 'b' overlap in memory, and the call changes both"):
        module.times.bwds(own, own.grad.storage, _result=out)
    module.times.bwds(own, x.storage, _result=out)
    assert own.grad.to_numpy().tolist() == [1, 1, 1, 1]


def test_what_lists_lead_to_is_not_written(device, load, x):
    module = load(BUFFERS)
    rows = [{"x": x, "k": 3 - i} for i in range(4)]
    assert module.pick(rows).to_numpy().tolist() == [4, 3, 2, 1]
    with pytest.raises(
        CallError, match=r"'_result' and 'row\[0\].*' overlap in memory, .* changes '_result'"
    ):
        module.pick(rows, _result=x)
    y = Tensor.zeros(device, (4,), "float")
    module.pick(rows, _result=y)
    assert y.to_numpy().tolist() == [4, 3, 2, 1]
    module.move([{"y": y[:1], "x": x[1:]}, {"y": y[1:], "x": x[2:]}])
    assert y.to_numpy().tolist() == [2, 3, 2, 1]
    with pytest.raises(CallError, match=r"'goal\[1\].x' and 'goal\[0\].y' overlap in memory"):
        module.move([{"y": y[:1], "x": x}, {"y": y[1:], "x": y[:1]}])


def test_derivatives_are_taken_at_the_values_of_the_call(device, load, x):
    """A primal that was overwritten on purpose is a new one, a value read and written is that before the function."""
    square, swing = load(SQUARE).f, load(BUFFERS).swing
    out = Tensor.empty(device, (4,), "float").with_grads(Tensor.ones(device, (4,), "float"))
    own = x.with_grads()
    square(own, _result=out)
    own.copy_from_numpy(np.array([5, 6, 7, 8], np.float32))
    square.bwds(own, _result=out)
    assert own.grad.to_numpy().tolist() == [10, 12, 14, 16]
    before = x.copy()
    both = {"grad_in": Tensor.ones(device, (4,), "float"), "grad_out": Tensor.zeros(device, (4,), "float")}
    swing(x)
    swing.bwds(before.with_grads(**both))
    assert both["grad_out"].to_numpy().tolist() == (2 * before.to_numpy()).tolist()


def test_an_output_without_gradients_has_overwritten_too(device, load, x):
    module = load(
        SQUARE
        + """
        [Differentiable] void two(int i, ITensor<float, 1> x, IWTensor<float, 1> y, no_diff IWTensor<float, 1> z)
        { y[i] = x[i] * x[i]; z[i] = detach(x[i]); }
    """
    )
    y = x.copy().with_grads(Tensor.ones(device, (4,), "float"))
    with pytest.raises(CallError, match="'x' and 'z' overlap in memory: the call has written 'z'"):
        module.two.bwds(spy.grid((4,)), x.with_grads(), y, x)


STEPS = st.none() | st.integers(-4, 4).filter(bool)
VIEWS = st.tuples(
    *[st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6), STEPS)] * 3
)


def bytes_of(view):
    """The addresses of all bytes of an array's items."""
    starts = np.zeros(view.shape, np.int64)
    for dim, stride in enumerate(view.strides):
        starts += (
            np.arange(view.shape[dim]).reshape([-1 if i == dim else 1 for i in range(view.ndim)]) * stride
        )
    return {view.ctypes.data + start + i for start in starts.ravel().tolist() for i in range(view.itemsize)}


@given(VIEWS, VIEWS, st.sampled_from([np.uint8, np.float32]))
@example((slice(None),) * 3, (slice(None),) * 3, np.uint8)
def test_what_is_interleaved_has_no_byte_in_common(first, second, dtype):
    memory = np.zeros((4, 3, 6), dtype)
    a, b = memory[first], memory[second]
    if a.size == 0 or b.size == 0:
        return
    made = [lattice_of(each.itemsize, each.shape, each.strides) for each in (a, b)]
    if _interleaved(*made, b.ctypes.data - a.ctypes.data):
        assert not bytes_of(a) & bytes_of(b)


def test_columns_are_found_to_be_interleaved():
    memory = np.zeros((5, 6), np.float32)
    for a, b in (
        (memory[:, 0], memory[:, 1]), (memory[:, :3], memory[:, 3:]), (memory[::-1, 2:4], memory[:, 4]),
        (memory[::2], memory[1::2]), (memory[:, ::2], memory[:, 1::2]), (memory[:, 2::-1], memory[:, 5:2:-1]),
    ):  # fmt: skip
        made = [lattice_of(4, each.shape, each.strides) for each in (a, b)]
        assert _interleaved(*made, b.ctypes.data - a.ctypes.data)
        assert _interleaved(*made[::-1], a.ctypes.data - b.ctypes.data)
        assert not _interleaved(made[0], made[0], 0)


def test_columns_of_one_tensor(device, load):
    """Columns are memory of their own: as outputs, as what is read and written, as gradients."""
    module = load("""
        void both(float x, out float a, out float b) { a = x; b = 2 * x; }
        float next(float x) { return x + 1; }
        [Differentiable] float product(float a, float b) { return a * b; }
        void copy(ITensor<float, 1> source, IRWTensor<float, 1> target, int i) { target[i] = source[i]; }
    """)
    x = spy.Tensor.zeros(device, (4, 3), "float")
    module.both(np.arange(4, dtype=np.float32), x[:, 0], x[::-1, 2])
    assert x.to_numpy().tolist() == [[0, 0, 6], [1, 0, 4], [2, 0, 2], [3, 0, 0]]
    module.next(x[:, 2], _result=x[:, 1])
    assert x.to_numpy()[:, 1].tolist() == [7, 5, 3, 1]
    module.copy(x[:, 1], x[:, 0], spy.grid((4,)))
    assert x.to_numpy()[:, 0].tolist() == [7, 5, 3, 1]
    x = x.with_grads()
    module.product.bwds(x[:, 0], x[:, 2])
    assert np.array_equal(x.grad.to_numpy(), x.to_numpy()[:, ::-1] * [1, 0, 1])
    rows = spy.Tensor.zeros(device, (4, 2), "float")
    module.both(np.arange(2, dtype=np.float32), rows[::2], rows[1::2])
    assert rows.to_numpy().tolist() == [[0, 1], [0, 2], [0, 1], [0, 2]]
    with pytest.raises(CallError, match="'a' and 'b' overlap"):
        module.both(1.0, x[:, :2].detach(), x[:, 1:].detach())


def test_outputs_that_are_copied_may_not_overlap(load):
    """Arrays that kernels cannot write as they lie are brought back afterwards: one would lie over the other."""
    module = load("void f(float x, out float a, out float b) { a = x; b = 10 * x; }")
    x, raw = np.arange(4, dtype=np.float32), np.zeros(33, np.uint8)
    first, second = raw[1:17].view(np.float32), raw[9:25].view(np.float32)
    with pytest.raises(CallError, match="'a' and 'b' overlap in memory, and the call changes both") as caught:
        module.f(x, first, second)
    assert caught.value.code == "E1008"
    apart = raw[17:33].view(np.float32)
    module.f(x, first, apart)
    assert first.tolist() == [0, 1, 2, 3] and apart.tolist() == [0, 10, 20, 30]
