"""Torch tensors as arguments and results: what kernels see of them, and what comes back."""

import subprocess
import sys

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

torch = pytest.importorskip("torch")

TEXT = """
import slangpy;
float twice(float x) { return 2 * x; }
float plus(float a, float b) { return a + b; }
float3 scaled(float3 v, float s) { return v * s; }
float2x3 same(float2x3 m) { return m; }
float total(float values[5]) { float sum = 0; for (int i = 0; i < 5; i++) sum += values[i]; return sum; }
void split(float x, out float half, out int whole) { half = x / 2; whole = int(x); }
struct Point { float x; float y; };
float dot(Point p, Point q) { return p.x * q.x + p.y * q.y; }
Point flipped(Point p) { Point q; q.x = p.y; q.y = p.x; return q; }
float element(int i, Tensor<float, 1> t) { return t[i]; }
void copy(Tensor<float, 1> from, RWTensor<float, 1> to) { for (int i = 0; i < from.shape[0]; i++) to[i] = from[i]; }
float sum_of(StructuredBuffer<float> values) { float sum = 0; for (int i = 0; i < 3; i++) sum += values[i]; return sum; }
float width(float3 v) { return 3; }
float width(float4 v) { return 4; }
"""


@pytest.fixture
def module(load):
    return load(TEXT)


TYPES = [
    ("int8_t", torch.int8),
    ("int16_t", torch.int16),
    ("int", torch.int32),
    ("int64_t", torch.int64),
    ("uint8_t", torch.uint8),
    ("uint16_t", torch.uint16),
    ("uint", torch.uint32),
    ("uint64_t", torch.uint64),
    ("half", torch.float16),
    ("float", torch.float32),
    ("double", torch.float64),
]


@pytest.mark.parametrize(("name", "dtype"), TYPES)
def test_dtypes(load, name, dtype):
    f = load(f"{name} f({name} x) {{ return x + x; }}").f
    made = f(torch.tensor([1, 2, 60], dtype=dtype))
    assert made.dtype is dtype
    assert made.tolist() == [2, 4, 120]


def test_bools(load):
    made = load("bool flip(bool x) { return !x; }").flip(torch.tensor([True, False]))
    assert made.dtype is torch.bool
    assert made.tolist() == [False, True]


def test_the_result_has_the_shape_of_the_call_and_of_the_type(module):
    v, s = torch.arange(12.0).reshape(4, 3), torch.tensor([1.0, 2, 3, 4])
    made = module.scaled(v, s)
    assert made.shape == (4, 3)
    assert torch.equal(made, v * s[:, None])
    assert torch.equal(module.scaled(v[0], s[1]), 2 * v[0])
    assert module.scaled(v[0], s[1]).shape == (3,)
    m = torch.arange(12.0).reshape(2, 2, 3)
    assert torch.equal(module.same(m), m)
    single = module.twice(torch.tensor(1.5))
    assert single.shape == ()
    assert single.item() == 3


# fmt: off
VIEWS = {
    "whole":      lambda t: t,
    "transposed": lambda t: t.t(),
    "rows":       lambda t: t[1:5:2],
    "columns":    lambda t: t[:, ::3],
    "offset":     lambda t: t[2:, 1:],
    "expanded":   lambda t: t[:1].expand(4, 6),
    "column":     lambda t: t[:, :1].expand(6, 5),
    "diagonal":   lambda t: t.diagonal(),
    "permuted":   lambda t: t.reshape(2, 3, 6).permute(2, 0, 1),
    "empty":      lambda t: t[:0],
    "single":     lambda t: t[3, 3],
}
# fmt: on


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_used_as_they_lie(module, name):
    view = VIEWS[name](torch.arange(36.0).reshape(6, 6))
    made = module.twice(view)
    assert made.shape == view.shape
    assert torch.equal(made, 2 * view)


@pytest.mark.parametrize("name", ["whole", "transposed", "rows", "columns", "offset", "diagonal", "permuted"])
def test_views_are_filled_in_place(module, name):
    whole, expected = torch.zeros(6, 6), torch.zeros(6, 6)
    target = VIEWS[name](whole)
    x = torch.arange(float(target.numel())).reshape(target.shape)
    made = module.twice(x, _result=target)
    assert made is target
    VIEWS[name](expected)[...] = 2 * x
    assert torch.equal(whole, expected)


def test_elements_with_gaps_are_copied(module):
    v = torch.randn(3, 5).t()
    assert torch.equal(module.scaled(v, torch.ones(5)), v)
    target = torch.zeros(3, 5)
    module.scaled(v, torch.ones(5), _result=target.t())
    assert torch.equal(target, v.t())
    wide = torch.randn(4, 6)
    assert torch.equal(module.scaled(wide[:, ::2], torch.ones(4)), wide[:, ::2])


def test_nothing_is_copied(module):
    x = torch.zeros(3)
    address = x.data_ptr()
    module.twice(torch.ones(3), _result=x)
    assert x.data_ptr() == address
    assert x.tolist() == [2, 2, 2]


def test_outputs(module):
    half, whole = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    assert module.split(torch.tensor([1.0, 5, 7]), half, whole) is None
    assert half.tolist() == [0.5, 2.5, 3.5]
    assert whole.tolist() == [1, 5, 7]


def test_dicts_and_lists(load, module):
    p = {"x": torch.tensor([1.0, 2]), "y": torch.tensor(3.0)}
    assert module.dot(p, {"x": 2.0, "y": torch.ones(2)}).tolist() == [5, 7]
    assert module.dot({"x": torch.tensor(1.0), "y": 0}, {"x": 2.0, "y": 1.0}).shape == ()
    f = load("float f(float x[3]) { return x[0] + 10 * x[1] + 100 * x[2]; }").f
    made = f([torch.tensor([1.0, 2]), torch.tensor(3.0), 4.0])
    assert made.tolist() == [431, 432]


def test_arrays_and_whole_tensors(module):
    x = torch.arange(10.0)
    assert module.total(x.reshape(2, 5)).tolist() == [10, 35]
    assert module.element(spy.grid((5,)), x[1::2]).tolist() == [1, 3, 5, 7, 9]
    rows = module.element(spy.grid((2,)), x.reshape(2, 5))
    assert rows.tolist() == [0, 6]
    target = torch.zeros(20)
    module.copy(x, target[::2])
    assert torch.equal(target[::2], x)
    assert target[1::2].sum() == 0
    assert module.sum_of(x[2:]).item() == 9
    with pytest.raises(spy.CallError, match="gaps"):
        module.sum_of(x[::2])


def test_overloads_are_told_apart_by_sizes(module):
    assert module.width(torch.zeros(5, 3)).tolist() == [3] * 5
    assert module.width(torch.zeros(7, 4)).tolist() == [4] * 7
    with pytest.raises(
        spy.ResolveException, match=r"does not match slang type 'float4', whose sizes \(4,\) come last"
    ):
        module.width(torch.zeros(5, 5))


def test_other_arguments_beside_torch(module, device):
    x = torch.tensor([1.0, 2, 3])
    array = np.array([10, 20, 30], np.float32)
    made = module.plus(x, array)
    assert isinstance(made, torch.Tensor)
    assert made.tolist() == [11, 22, 33]
    assert module.plus(Tensor.from_numpy(device, array), x).tolist() == [11, 22, 33]
    assert module.plus(x, 0.5).tolist() == [1.5, 2.5, 3.5]
    assert isinstance(module.plus(x, array, _result="numpy"), np.ndarray)
    assert isinstance(module.plus(x, array, _result="tensor"), Tensor)
    target = Tensor.zeros(device, (3,), "float")
    assert module.plus(x, x, _result=target) is target
    assert target.to_numpy().tolist() == [2, 4, 6]
    filled = np.zeros(3, np.float32)
    module.plus(x, x, _result=filled)
    assert filled.tolist() == [2, 4, 6]
    single = spy.floatRef()
    assert module.plus(x[0], x[1], _result=single) == 3


def test_a_torch_result_can_be_asked_for(module):
    assert torch.equal(module.twice(np.ones(3, np.float32), _result="torch"), torch.full((3,), 2.0))
    assert module.twice.return_type(torch.Tensor)(2.0).item() == 4


def test_structs_have_no_torch_tensor(module):
    with pytest.raises(spy.CallError, match="a torch tensor cannot hold results of type 'Point'"):
        module.flipped({"x": torch.ones(3), "y": 2.0})
    made = module.flipped({"x": torch.ones(3), "y": 2.0}, _result="tensor")
    assert made.to_numpy(structured=True)["x"].tolist() == [2, 2, 2]


def test_maps(module):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(module.twice.map((1, 0))(x), 2 * x.t())
    a, b = torch.arange(4.0), torch.arange(3.0)
    assert torch.equal(module.plus.map((0,), (1,))(a, b), a[:, None] + b)


def test_inputs_that_overlap_an_output_are_read_first(module):
    x = torch.arange(6.0)
    module.twice(x[:-1], _result=x[1:])
    assert x.tolist() == [0, 0, 2, 4, 6, 8]


def test_a_torch_tensor_stands_for_itself_in_subclasses(module):
    class Mine(torch.Tensor):
        pass

    x = torch.tensor([1.0, 2])
    assert module.twice(torch.nn.Parameter(x, requires_grad=False)).tolist() == [2, 4]
    assert module.twice(x.as_subclass(Mine)).tolist() == [2, 4]


def test_negated_bits(module):
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg()
    assert module.twice(x).tolist() == [-4, 8]


def test_what_has_no_place_is_refused(module):
    x = torch.ones(3)
    for refused, match, note in (
        (x.to("meta"), "'x'.* on the device 'meta' cannot be used", r"x\.cpu\(\)"),
        (
            x.to(torch.float8_e8m0fnu),
            "'x': tensors of dtype torch.float8_e8m0fnu have no Slang type",
            "torch.float32",
        ),
        (x.to(torch.complex64), "tensors of dtype torch.complex64", "view_as_real"),
        (x.to_sparse(), "layout torch.sparse_coo has no strides", r"to_dense\(\)"),
        (x.double(), "torch.float64 tensor of 1 dimension does not fit 'float'", r"\.to\(torch.float32\)"),
        (x.int(), "torch.int32 tensor of 1 dimension does not fit 'float'", r"\.to\(torch.float32\)"),
    ):
        with pytest.raises(ValueError, match=f"(?s){match}.*{note}"):
            module.twice(refused)
    with pytest.raises(ValueError, match="Shape mismatch"):
        module.plus(torch.ones(3), torch.ones(4))
    with pytest.raises(spy.ResolveException, match="too few"):
        module.scaled(torch.tensor(1.0), 2.0)
    with pytest.raises(spy.CallError, match=r"does not match the expected shape \(5,\)"):
        module.total(torch.ones(2, 6))
    with pytest.raises(ValueError, match="overlap in memory"):
        module.split(x, x, x.view(torch.int32))


def test_a_tensor_without_memory_is_refused(module):
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (3,), dtype=torch.float32)

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError

    with pytest.raises((ValueError, RuntimeError), match=r"memory|storage"):
        module.twice(Wrapped())


def test_what_a_call_writes_has_another_version(module):
    x, y = torch.ones(3), torch.zeros(3)
    module.twice(x, _result=y)
    assert (x._version, y._version) == (0, 1)
    half, whole = torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    module.split(x, half, whole)
    assert (half._version, whole._version) == (1, 1)


def test_pairs_in_bwds(load):
    f = load("[Differentiable] float3 f(float3 v, float s) { return v * s * s; }").f
    v, s = torch.arange(-5.0, 10).reshape(5, 3) / 8, torch.tensor(2.0)  # every sum of these is exact
    pair, scale = spy.diff_pair(v, torch.zeros(5, 3)), spy.diff_pair(s)
    y = f(v, s)
    f.bwds(pair, scale, _result=spy.diff_pair(y, torch.ones(5, 3)))
    assert torch.equal(pair.grad, torch.full((5, 3), 4.0))
    assert torch.equal(scale.grad, (v * 4).sum())
    f.bwds(pair, s, _result=spy.diff_pair(None, torch.ones(5, 3)))
    assert torch.equal(pair.grad, torch.full((5, 3), 8.0))
    assert pair.grad._version == 2
    assert torch.equal(f(pair, s), y)
    with pytest.raises(ValueError, match=r"diff_pair: a gradient of torch\.float32"):
        f.bwds(spy.diff_pair(v, torch.zeros(3)), s)
    with pytest.raises(ValueError, match="the gradient of a torch tensor is a float"):
        f.bwds(spy.diff_pair(v, 1.0), s)


def test_pairs_in_fwds(load):
    f = load("[Differentiable] double f(double x, double y) { return x * x * y; }").f
    x, y = torch.tensor([1.0, 2], dtype=torch.float64), torch.tensor([3.0], dtype=torch.float64)
    made = f.fwds(spy.diff_pair(x, torch.ones_like(x)), y)
    assert made.primal.tolist() == [3, 12]
    assert made.grad.tolist() == [6, 12]
    target = spy.diff_pair(torch.zeros_like(x))
    f.fwds(x, spy.diff_pair(y, torch.ones_like(y)), _result=target)
    assert target.grad.tolist() == [1, 4]


def test_torch_is_loaded_by_nobody_but_its_user():
    program = """
import sys
import numpy as np
import slangrad as spy
device = spy.create_device()
module = spy.Module.load_from_source(device, "alone", "[Differentiable] float f(float x) { return x * x; }")
assert module.f(np.ones(3, np.float32), _result="numpy").sum() == 3
x = spy.Tensor.from_numpy(device, np.ones(3, np.float32)).with_grads()
module.f.bwds(x)
assert module.f(2.0) == 4
assert "torch" not in sys.modules
import torch
assert module.f(torch.ones(3)).sum() == 3
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
