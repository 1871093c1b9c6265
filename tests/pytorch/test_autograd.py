"""Calls as operations of torch.autograd: gradients, what is refused, and the engine's own rules."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

TEXT = """
import slangpy;
[Differentiable] double poly(double a, double x) { return a * x * x + sin(x); }
[Differentiable] double3 scaled(double3 v, double s) { return v * exp(s); }
[Differentiable] double2 products(double2x2 m, double x[3]) { return mul(m, double2(x[0] * x[1], x[2])); }
[Differentiable] double loop(double x, int n) { double y = x; for (int i = 0; i < n; i++) y = sin(y) * x; return y; }
[Differentiable] double fixed(double x, no_diff double k) { return x * k * k; }
[Differentiable] void split(double x, double y, out double sum, out int whole, out double product)
{
    sum = x + y;
    whole = int(x);
    product = x * y;
}
struct Line : IDifferentiable { double k; double m[2]; no_diff double unit; [Differentiable] double at(double x) { return unit * (k * x + m[0] * m[1]); } };
[Differentiable] double along(Line line, double x) { return line.at(x); }
[Differentiable] double row(int i, ITensor<double, 1> w, double x) { return w[i] * w[i] * x; }
[Differentiable] double strict(int i, IDiffTensor<double, 1> w, IDiffTensor<double, 1> u) { return w[i] * u[i] * u[i]; }
[Differentiable] double either<T : ITensor<double, 1>>(int i, T w, double x) { return w[i] * w[i] * x; }
[Differentiable] double named(int i, DiffTensor<double, 1> w) { return w[i] * w[i]; }
[Differentiable] double same_type<T : ITensor<double, 1>>(int i, T w, T u) { return w[i] * w[i] * u[i]; }
[Differentiable] void stored(int i, IDiffTensor<double, 1> w, IWDiffTensor<double, 1> y) { y[i] = w[i] * w[i]; }
[Differentiable] double plain(int i, Tensor<double, 1> w, double x) { return w[i] * x; }
[Differentiable] double counted(double x, RWTensor<double, 1> sink) { sink[0] = sink[0] + 1; return x * x; }
[Differentiable] double from_buffer(double x, StructuredBuffer<double> k) { return x * k[0]; }
[Differentiable] void marked(double x, inout int times, out double y) { y = x * times; times = times + 1; }
double opaque(double x) { return x * x; }
uniform double factor;
[Differentiable] double with_global(double x) { return x * factor; }
"""


@pytest.fixture(scope="session")
def device():
    return spy.create_device(backend="cpu")


@pytest.fixture
def module(load):
    return load(TEXT)


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5
    return made.requires_grad_()


def split(module, x, y):
    shape = torch.broadcast_shapes(x.shape, y.shape)
    total, product = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    module.split(x, y, total, torch.zeros(shape, dtype=torch.int32), product)
    return total, product


# fmt: off
CALLS = {
    "one value each":      (lambda m, a, x: m.poly(a, x),                      [(4,), (4,)]),
    "broadcast":           (lambda m, a, x: m.poly(a, x),                      [(), (3, 4)]),
    "outer":               (lambda m, a, x: m.poly(a, x),                      [(3, 1), (1, 4)]),
    "no dimensions":       (lambda m, a, x: m.poly(a, x),                      [(), ()]),
    "one tensor twice":    (lambda m, a, x: m.poly(a, a) + x,                  [(4,), ()]),
    "views":               (lambda m, a, x: m.poly(a[::2], x.t()),             [(6,), (3, 2)]),
    "expanded":            (lambda m, a, x: m.poly(a.expand(4, 3), x),         [(3,), (4, 3)]),
    "mapped":              (lambda m, a, x: m.poly.map((0,), (1,))(a, x),      [(2,), (3,)]),
    "by name":             (lambda m, a, x: m.poly(x=x, a=a),                  [(2,), (2,)]),
    "a number":            (lambda m, x: m.poly(2.0, x),                       [(4,)]),
    "vectors":             (lambda m, v, s: m.scaled(v, s),                    [(4, 3), (4,)]),
    "vectors transposed":  (lambda m, v, s: m.scaled(v.t(), s),                [(3, 4), ()]),
    "matrices and arrays": (lambda m, a, x: m.products(a, x),                  [(2, 2, 2), (3,)]),
    "loops":               (lambda m, x: m.loop(x, 4),                         [(3,)]),
    "no_diff":             (lambda m, x: m.fixed(x, 3.0),                      [(3,)]),
    "outputs":             (split,                                             [(4,), ()]),
    "structs":             (lambda m, k, a, x: m.along({"k": k, "m": [a, 2.0], "unit": 2.0}, x), [(3,), (), (3,)]),
    "a row":               (lambda m, w, x: m.row(spy.grid((3,)), w, x),       [(3,), (3,)]),
    "rows":                (lambda m, w, x: m.row(spy.grid((2,)), w, x),       [(2, 3), (2,)]),
    "strict tensors":      (lambda m, w, u: m.strict(spy.grid((3,)), w, u),    [(3,), (3,)]),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_gradients(module, name):
    call, shapes = CALLS[name]
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert gradcheck(lambda *given: call(module, *given), inputs)


ONCE = {
    "one value each",
    "no dimensions",
    "one tensor twice",
    "expanded",
    "by name",
    "a number",
    "vectors",
    "no_diff",
}


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ONCE])
def test_gradients_of_gradients(module, name):
    call, shapes = CALLS[name]
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert gradgradcheck(lambda *given: call(module, *given), inputs, fast_mode=True)


@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize("name", ["broadcast", "a row", "strict tensors", "structs"])
def test_gradients_of_gradients_beside_constants(module, name, constant):
    call, shapes = CALLS[name]
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    inputs[constant].requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradgradcheck(lambda *given: call(module, *given), inputs, fast_mode=True)


def test_gradients_of_gradients_beside_what_is_no_torch_tensor(module, device):
    x, array = numbers(3), np.array([1.0, 2, 3])
    assert gradgradcheck(lambda x: module.poly(array, x), [x])
    assert gradgradcheck(lambda x: module.poly(Tensor.from_numpy(device, array), x), [x])
    assert gradgradcheck(lambda x: module.with_global.set(factor=2.0)(x) * x, [x])
    assert gradgradcheck(lambda x: module.counted(x, torch.zeros(1, dtype=torch.float64)), [numbers()])


def test_any_order(load):
    fifth = load("[Differentiable] double fifth(double x) { return x * x * x * x * x; }").fifth
    x = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    y, found = fifth(x), []
    for _ in range(5):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        found.append(y.item())
    assert found == [25.3125, 67.5, 135.0, 180.0, 120.0]


def test_any_order_through_whole_tensors(module):
    w, u = numbers(3), numbers(3, seed=1)
    grid = spy.grid((3,))

    def stored(w):
        y = torch.zeros(4, dtype=torch.float64)  # of which one element is not written
        module.stored(grid, w, y)
        return y[:3]

    pairs = (
        (
            module.strict(grid, w, u),
            w * u * u,
            (w, u, w),
        ),  # no derivative is lost from one tensor to the other
        (module.row(grid, w, u), w * w * u, (u, w)),
        (module.either(grid, w, u), w * w * u, (w, u)),
        (stored(w) * u, w * w * u, (w, w)),
    )
    for own, theirs, places in pairs:
        for place in places:
            own, theirs = (
                torch.autograd.grad(each.square().sum(), place, create_graph=True)[0]
                for each in (own, theirs)
            )
            assert torch.allclose(own, theirs, rtol=1e-10)


def test_types_that_say_where_gradients_go_have_first_derivatives(module):
    w = numbers(3)
    (gradient,) = torch.autograd.grad(module.named(spy.grid((3,)), w).sum(), w, create_graph=True)
    assert torch.allclose(gradient, 2 * w)
    with pytest.raises(spy.CallError, match=r"argument 'w': gradients of a 'DiffTensor<double, 1>' have no"):
        gradient.sum().backward()
    y = module.same_type(spy.grid((3,)), w, numbers(3, seed=1)).sum()
    (gradient,) = torch.autograd.grad(y, w, create_graph=True)
    with pytest.raises(spy.CallError, match="gradients of two tensors of one type 'T' have no derivative"):
        gradient.sum().backward()


def test_whole_tensors_that_are_written(module):
    def stored(w):
        y = torch.zeros(3, dtype=torch.float64)
        module.stored(spy.grid((3,)), w, y)
        return y

    assert gradcheck(stored, [numbers(3)])


def test_results_that_are_given(module):
    def filled(x):
        whole = torch.zeros(6, dtype=torch.float64)
        module.poly(2.0, x, _result=whole[::2])
        return whole

    assert gradcheck(filled, [numbers(3)])
    x, y = numbers(3), torch.zeros(3, dtype=torch.float64)
    assert module.poly(2.0, x, _result=y) is y
    assert y.grad_fn is not None


def test_an_output_that_requires_grad_becomes_what_was_computed(module):
    x, y = numbers(3), numbers(3)
    module.poly(0.0, x, _result=y)
    y.sum().backward()
    assert torch.allclose(x.grad, x.detach().cos())
    assert not y.is_leaf
    w, z = numbers(3), numbers(3)
    module.stored(spy.grid((3,)), w, z)
    z.sum().backward()
    assert torch.allclose(w.grad, 2 * w.detach())


def test_only_what_needs_a_gradient_gets_one(module):
    a, x = numbers(3), numbers(3).detach()
    module.poly(a, x).sum().backward()
    assert torch.allclose(a.grad, x * x)
    assert x.grad is None
    y = module.poly(numbers(3), numbers(3))
    b = numbers(3)
    (gradient,) = torch.autograd.grad(module.poly(b, y.detach()).sum(), b)
    assert torch.allclose(gradient, (y * y).detach())


def test_no_diff_parameters_are_constants(module):
    x, k = numbers(3), numbers(3, seed=1)
    y = module.fixed(x, k)
    assert torch.autograd.grad(y.sum(), (x, k), allow_unused=True)[1] is None
    assert not module.fixed(x.detach(), k).requires_grad
    line = {"k": numbers(3), "m": [1.0, 2.0], "unit": numbers(3, seed=1)}
    module.along(line, 2.0).sum().backward()
    assert torch.allclose(line["k"].grad, 2 * line["unit"].detach())
    assert line["unit"].grad is None


def test_outputs_without_a_derivative(module):
    x, y = numbers(3), numbers(3, seed=1)
    total, product = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    whole = torch.zeros(3, dtype=torch.int32)
    module.split(x, y, total, whole, product)
    assert (total.requires_grad, whole.requires_grad, product.requires_grad) == (True, False, True)
    product.sum().backward()  # nothing comes back from the other outputs
    assert torch.equal(x.grad, y.detach())


def test_modes_without_recording(module):
    x = numbers(3)
    with torch.no_grad():
        assert not module.poly(1.0, x).requires_grad
    with torch.inference_mode():
        y = module.poly(1.0, x)
        module.poly(1.0, x, _result=y)
    assert y.is_inference()
    assert not module.poly(1.0, x.detach()).requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        module.poly(y, x)


def test_gradients_add_up_and_graphs_can_be_kept(module):
    x = numbers(3)
    y = module.poly(2.0, x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert torch.allclose(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_what_is_overwritten_after_the_call_is_noticed(module):
    x = numbers(3)
    kept = x * 1
    y = module.poly(2.0, kept)
    kept.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    kept = x * 1
    y = kept.sin()
    with torch.no_grad():
        module.opaque(x, _result=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_constants_are_as_they_were_at_the_call(module, device):
    x, array = numbers(3), np.array([1.0, 2, 3])
    tensor, line = Tensor.from_numpy(device, np.array([1.0, 2, 3])), {"k": 2.0, "m": [1.0, 2.0], "unit": 1.0}
    results = [module.fixed(x, array), module.fixed(x, tensor), module.along(line, x)]
    array[:] = 100
    tensor.clear()
    line["k"] = 100.0
    gradients = [torch.autograd.grad(each.sum(), x)[0].tolist() for each in results]
    assert gradients == [[1, 4, 9], [1, 4, 9], [2, 2, 2]]


def test_values_outside_of_functions(module):
    x, setting = numbers(3), {"factor": 3.0}
    y = module.with_global.set(lambda: setting)(x)
    setting["factor"] = 100.0
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_memory_that_is_read_and_written_has_no_history(load):
    module = load("""
        [Differentiable] void squared(int i, RWTensor<double, 1> t) { t[i] = t[i] * t[i]; }
        [Differentiable] void square(inout double t) { t = t * t; }
    """)
    x, i = numbers(3), torch.arange(3, dtype=torch.int32)
    with pytest.raises(spy.CallError, match=r"(?s)E1008.*'t'.*'inout' parameter.*ITensor.*t\.detach\(\)"):
        module.squared(i, x.clone())
    detached = x.detach().clone()
    module.squared(i, detached)
    y = x.clone()
    module.square(y)
    assert y.tolist() == detached.tolist()
    y.sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()

    def in_place(x):
        y = x.clone()
        module.square(y)
        return y

    assert torch.autograd.gradcheck(in_place, x)


def test_what_cannot_be_followed_is_refused(module, device):
    x = numbers(3)
    with pytest.raises(spy.CallError, match="In-place operations not supported for torch autograd"):
        module.counted(2.0, x)
    for target in (Tensor.zeros(device, (3,), "double"), np.zeros(3), "numpy", "tensor"):
        with pytest.raises(spy.CallError, match="'_result' has values that autograd cannot record"):
            module.poly(1.0, x, _result=target)
    with pytest.raises(spy.CallError, match="'product' has values that autograd cannot record"):
        module.split(
            x, 1.0, torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int32), np.zeros(3)
        )
    with pytest.raises(spy.CallError, match="fwds is no operation that autograd records"):
        module.poly.fwds(1.0, x)
    for target in (x, x[:2]):
        with pytest.raises(spy.CallError, match="In-place operations not supported for torch autograd"):
            module.poly(1.0, x[: len(target)], _result=target)
    assert x.requires_grad


def test_a_function_without_a_derivative_says_so_in_backward(module):
    y = module.opaque(numbers(3))
    with pytest.raises(spy.ResolveException, match="Function is not differentiable"):
        y.sum().backward()


def test_gradients_that_a_type_cannot_take_are_warned_of(module):
    w, x = numbers(3), numbers(3, seed=1)
    y = module.plain(spy.grid((3,)), w, x)
    with pytest.warns(UserWarning, match="'w' has gradients, and a parameter of type"):
        y.sum().backward()
    assert torch.equal(x.grad, w.detach())
    with pytest.warns(UserWarning, match="'k' requires grad, and its parameter's type takes no gradients"):
        module.from_buffer(x, w)


def test_what_the_function_adds_up_is_added_once(module, device):
    x = numbers()
    for sink in (torch.zeros(1, dtype=torch.float64), Tensor.zeros(device, (1,), "double")):
        y = module.counted(x, sink)
        y.backward(retain_graph=True)
        y.backward()
        assert float(sink.numpy()[0] if isinstance(sink, torch.Tensor) else sink.to_numpy()[0]) == 1
    assert torch.allclose(x.grad, 8 * x.detach())


def test_numbers_that_go_in_and_out_are_read_as_they_were(module):
    x, y = numbers(3), torch.zeros(3, dtype=torch.float64)
    times = torch.tensor([1, 2, 3], dtype=torch.int32)
    module.marked(x, times, y)
    assert times.tolist() == [2, 3, 4]
    assert times._version == 1
    y.sum().backward()
    assert x.grad.tolist() == [1, 2, 3]


def test_single_values_are_taken_out(module):
    x, total, product = numbers(), spy.ValueRef(0.0), torch.zeros((), dtype=torch.float64)
    module.split(x, 3.0, total, spy.intRef(), product)
    product.backward()
    assert x.grad.item() == 3
    assert total.value == x.item() + 3


def test_parameters_and_optimizers(module):
    weight = torch.nn.Parameter(torch.tensor([0.2, 0.3], dtype=torch.float64))
    target = torch.tensor([1.0, 2.0], dtype=torch.float64)
    optimizer = torch.optim.SGD([weight], lr=0.2)
    for _ in range(40):
        optimizer.zero_grad()
        loss = (module.fixed(weight, 1.0) - target).square().sum()
        loss.backward()
        optimizer.step()
    assert torch.allclose(weight.detach(), target)


def test_checkpoints_and_hooks(module):
    x, seen = numbers(3), []
    y = torch.utils.checkpoint.checkpoint(lambda x: module.poly(2.0, x).sin(), x, use_reentrant=False)
    y.register_hook(lambda gradient: seen.append(gradient.shape))
    y.sum().backward()
    assert seen == [(3,)]
    again = x.detach().requires_grad_()
    module.poly(2.0, again).sin().sum().backward()
    assert torch.equal(x.grad, again.grad)


def test_many_threads(module):
    inputs = [numbers(50, seed=i) for i in range(8)]
    expected = [torch.autograd.grad(module.poly(2.0, x).sum(), x)[0] for x in inputs]
    found = [[] for _ in inputs]

    def work(i):
        for _ in range(10):
            (gradient,) = torch.autograd.grad(module.poly(2.0, inputs[i]).sum(), inputs[i])
            found[i].append(gradient)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(torch.equal(each, wanted) for row, wanted in zip(found, expected) for each in row)
    assert all(len(row) == 10 for row in found)


def test_nothing_is_kept_after_backward(module):
    x = numbers(3)
    for _ in range(3):
        module.poly(2.0, x).sum().backward()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        module.poly(2.0, x).sum().backward()
    gc.collect()
    assert len(gc.get_objects()) - before < 20
    hidden = x * 1
    kept = weakref.ref(hidden)
    module.poly(2.0, hidden).sum().backward()
    gc.disable()
    try:
        del hidden
        assert kept() is None
    finally:
        gc.enable()
