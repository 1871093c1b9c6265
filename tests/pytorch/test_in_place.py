"""Parameters that go in and out: what a call overwrites, as an operation in place of autograd."""

import threading

import numpy as np
import pytest

import slangrad as spy

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

TEXT = """
import slangpy;
[Differentiable] void grow(inout double x, double y) { x = x * x * y; }
[Differentiable] void grow(inout float x, float y) { x = x * x * y; }
[Differentiable] double all(inout double x, double y, out double z) { x = x * x * y; z = x * y; return x + z * z; }
[Differentiable] void turn(inout double3 v, double s) { v = v * v.zxy * s; }
[Differentiable] void swap(inout double a, inout double b) { let t = a; a = b * b; b = t * b; }
[Differentiable] void mix(inout double a[3], int i) { a[i] = a[2] * a[i]; a[2] *= a[0]; }
struct Body : IDifferentiable
{
    double3 x; double3 v;
    [Differentiable] [mutating] void step(double dt) { v = v - dt * x; x = x + dt * v * v; }
};
[Differentiable] void step(inout Body body, double dt) { body.step(dt); }
"""


@pytest.fixture(scope="module")
def module():
    return spy.Module.load_from_source(spy.create_device(backend="cpu"), "in_place", TEXT)


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(shape, dtype=torch.float64, generator=generator) + 0.5
    return made.requires_grad_()


def grown(m, x, y):
    x = x.clone()
    m.grow(x, y)
    return x


def grow_and_give(m, x, y):
    m.grow(x, y)
    return x


def part(m, x, y):
    x = x.clone()
    m.grow(x.t()[::2], y)
    return x


def all_at_once(m, x, y):
    x, z = x.clone(), torch.empty(4, dtype=torch.float64)
    made = m.all(x, y, z)
    return x, made, z


def vectors(m, v, s):
    v = v.clone()
    m.turn(v, s)
    return v


def columns(m, a):
    a = a.clone()
    m.swap(a[:, 0], a[:, 1])
    return a


def twice(m, x, y):
    x = x.clone()
    m.grow(x, y)
    m.grow(x, y)
    return x


def arrays(m, x):
    x = x.clone()
    m.mix(x, 1)
    return x


def fields(m, x, v, dt):
    x, v = x.clone(), v.clone()
    m.step({"x": x, "v": v}, dt)
    return x, v


def method(m, x, v, dt):
    x, v = x.clone(), v.clone()
    m.Body.step({"x": x, "v": v}, dt)
    return x, v


# fmt: off
CALLS = {
    "elements":      (grown,       [(4,), (4,)]),
    "broadcast":     (grown,       [(4,), ()]),
    "nothing":       (grown,       [(0,), ()]),
    "one":           (grown,       [(1,), (1,)]),
    "no dimensions": (grown,       [(), ()]),
    "a view":        (part,        [(3, 4), ()]),
    "with results":  (all_at_once, [(4,), (4,)]),
    "vectors":       (vectors,     [(4, 3), (4,)]),
    "two columns":   (columns,     [(4, 2)]),
    "two calls":     (twice,       [(3,), (3,)]),
    "arrays":        (arrays,      [(2, 3)]),
    "fields":        (fields,      [(2, 3), (2, 3), ()]),
    "methods":       (method,      [(2, 3), (2, 3), (2,)]),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_gradients(module, name):
    call, shapes = CALLS[name]
    inputs = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    f = lambda *given: call(module, *given)
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradgradcheck(f, inputs, fast_mode=True)


def test_single_precision_is_that_of_torch(module):
    x, y = numbers(50).detach().float().requires_grad_(), numbers(50, seed=1).detach().float()
    found, wanted = x * 1, x * 1
    module.grow(found, y)
    wanted = wanted * wanted * y
    assert torch.equal(found, wanted)
    for each in (found, wanted):
        each.square().sum().backward(retain_graph=True)
    assert torch.allclose(x.grad, 2 * torch.autograd.grad(wanted.square().sum(), x)[0], rtol=1e-6)


def test_what_it_was_before_is_kept(module):
    x, y = numbers(3), numbers(3, seed=1)
    z = x * 1
    module.grow(z, y)
    with torch.no_grad():
        z.add_(1)  # its value before the call counts, and that was copied
    gradients = torch.autograd.grad(z.sum(), (x, y))
    assert torch.allclose(gradients[0], (2 * x * y).detach())
    assert torch.allclose(gradients[1], (x * x).detach())


def test_a_constant_gets_a_history(module):
    x, y = torch.full((3,), 2.0, dtype=torch.float64), numbers(3)
    module.grow(x, y)
    assert x._version == 1 and not x.is_leaf
    x.sum().backward()
    assert y.grad.tolist() == [4, 4, 4]


def test_versions_tell_what_was_overwritten(module):
    x, y = numbers(3), numbers(3, seed=1)
    z = x * 1
    saved = z.sin()
    module.grow(z, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    z, factor = x * 1, y * 1
    module.grow(z, factor)
    factor.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_leaves_are_not_changed_where_gradients_are_recorded(module):
    x, y = numbers(3), numbers(3, seed=1)
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        module.grow(x, y)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
        module.grow(x[:2], y[:2])
    assert torch.equal(x.detach(), before) and x._version == 0
    with torch.no_grad():
        module.grow(x, y)
    assert torch.allclose(x.detach(), before * before * y.detach())
    assert x.is_leaf and x.requires_grad


def test_memory_that_is_shared_is_refused(module):
    x, y = numbers(3) * 1, numbers(3, seed=1)
    for given in ((x, x), (x[:2], x[1:])):
        with pytest.raises(spy.CallError, match="'y' is the same memory"):
            module.grow(*given)
        with pytest.raises(spy.CallError, match="'a' and 'b' overlap in memory"):
            module.swap(*given)
    for given in (numbers() * 1, numbers(1) * 1):
        with pytest.raises(spy.CallError, match="3 calls would read and write the same memory"):
            module.grow(given, y)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        module.grow((numbers() * 1).expand(3), y)
    first, second = (numbers(3, 2) * 1).unbind(1)
    with pytest.raises(RuntimeError, match="do not allow the output views to be modified inplace"):
        module.swap(first, second)
    with pytest.raises(spy.CallError, match="'a' has values that autograd cannot record"):
        module.swap(np.ones(3), x)


def test_transforms(module):
    x, y = numbers(3).detach(), numbers(3, seed=1).detach()
    total = lambda x: grown(module, x, y).sum()
    assert torch.allclose(torch.func.grad(total)(x), 2 * x * y)
    value, tangent = torch.func.jvp(lambda x: grown(module, x, y), (x,), (y,))
    assert torch.allclose(value, x * x * y) and torch.allclose(tangent, 2 * x * y * y)
    rows = torch.stack([x, y])
    torch.func.vmap(lambda row: grow_and_give(module, row, y))(rows)
    assert torch.allclose(rows, torch.stack([x * x * y, y * y * y]))


def test_many_threads(module):
    inputs = [numbers(20, seed=i) for i in range(6)]
    found = [[] for _ in inputs]

    def work(i):
        for _ in range(10):
            x = inputs[i] * 1
            module.grow(x, 2.0)
            found[i].append(torch.autograd.grad(x.sum(), inputs[i])[0])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(len(row) == 10 for row in found)
    assert all(torch.equal(each, 4 * x.detach()) for x, row in zip(inputs, found) for each in row)
