"""`grad`, `value_and_grad`, `jvp`, `vjp`, `hvp`."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor

F, D = np.float32, np.float64

LOSS = """
    [Differentiable] {0} loss({0} x, {0} w) {{ return x * x * x * w * w + sin(w); }}
"""


def tensor(device, values, dtype=D):
    return Tensor.from_numpy(device, np.asarray(values, dtype))


def check_second_order(f, args, directions, rtol=1e-6):
    """hvp against differences of gradients."""
    moving = [i for i, each in enumerate(directions) if each is not None]
    products = spy.hvp(f, args, directions)

    def gradients(t):
        moved = tuple(a if d is None else a + t * d for a, d in zip(args, directions))
        return spy.grad(f, argnums=tuple(moving))(*moved)

    h = 1e-5
    for i, high, low in zip(moving, gradients(h), gradients(-h)):
        assert np.allclose(products[i], (np.asarray(high) - np.asarray(low)) / (2 * h), rtol=rtol, atol=1e-8)


def test_values_and_gradients_are_those_of_the_sum(load):
    f = load(LOSS.format("double")).loss
    x, w = np.array([1.0, 2, 3]), np.array([2.0])
    total = (x**3 * 4 + np.sin(2)).sum()
    dx, dw = 12 * x * x, (4 * x**3 + np.cos(2)).sum()
    value, (gx, gw) = spy.value_and_grad(f, argnums=(0, 1))(x, w)
    assert np.allclose(value, total) and np.allclose(gx, dx) and np.allclose(gw, [dw])
    value, gw = spy.value_and_grad(f, argnums=1, reduction="mean")(x, 2.0)
    assert np.allclose(value, total / 3) and np.allclose(gw, dw / 3)
    values, gx = spy.value_and_grad(f, reduction="none")(x, 2.0)
    assert np.allclose(values.to_numpy(), x**3 * 4 + np.sin(2)) and np.allclose(gx, dx)
    assert spy.value_and_grad(f)(1.0, 2.0) == (4 + np.sin(2), 12)
    assert np.allclose(spy.grad(f, reduction="mean")(x, w), dx / 3)


@pytest.mark.parametrize("dtype, name", [(np.float16, "half"), (F, "float"), (D, "double")])
def test_each_kind_of_value_gives_a_gradient_of_its_kind(device, load, dtype, name):
    f = load(LOSS.format(name)).loss
    x = np.array([1, 2], dtype)
    gradient = spy.grad(f)(x, 1.0)
    assert gradient.dtype == dtype and gradient.tolist() == [3, 12]
    gradient = spy.grad(f)(tensor(device, x, dtype), 1.0)
    assert isinstance(gradient, Tensor) and gradient.to_numpy().tolist() == [3, 12]
    assert spy.grad(f)([1.0, 2.0], 1.0) == [3, 12]
    assert spy.grad(f)(2.0, 1.0) == 12
    assert spy.grad(f)(dtype(2), 1.0) == 12


def test_float64_arrays_for_float_parameters(load):
    f = load(LOSS.format("float")).loss
    gradient = spy.grad(f)(np.array([1.0, 2.0]), 1.0)
    assert gradient.dtype == D and gradient.tolist() == [3, 12]
    with pytest.raises(CallError, match="do not all fit into float32"):
        spy.grad(f)(np.array([0.1]), 1.0)


def test_arguments_by_name(load):
    f = load(LOSS.format("double")).loss
    assert spy.grad(f, argnames="w")(x=2.0, w=1.0) == 16 + np.cos(1)
    assert spy.grad(f, argnames=("x", "w"))(2.0, w=1.0) == {"x": 12, "w": 16 + np.cos(1)}
    assert spy.grad(f, 0, "w")(2.0, w=1.0) == (12, 16 + np.cos(1))
    assert spy.grad(f, -1)(2.0, 1.0) == 16 + np.cos(1)
    with pytest.raises(CallError, match="argnames: there is no argument 'v'") as caught:
        spy.grad(f, argnames="v")(2.0, w=1.0)
    assert caught.value.code == "E1030"
    with pytest.raises(CallError, match="argnums: there is no positional argument 2"):
        spy.grad(f, 2)(2.0, 1.0)


def test_dicts_lists_and_host_vectors(device, load):
    module = load("""
        struct P : IDifferentiable { double x; double2 v; int n; }
        [Differentiable] double f(P p, double a[3]) { return p.x * p.v.x * p.v.y * p.v.y * p.n * a[0] * a[2]; }
        [Differentiable] double squared(double x) { return x * x; }
    """)
    gp, ga = spy.grad(module.f, (0, 1))({"x": 2.0, "v": spy.double2(3, 5), "n": 2}, [1.0, 10.0, 2.0])
    assert gp == {"x": 300.0, "v": spy.double2(200, 240), "n": None}
    assert ga == [600, 0, 300]
    x = tensor(device, [1, 2])
    gradient = spy.grad(module.f)({"x": x, "v": [3.0, 5.0], "n": 2}, [1.0, 10.0, 2.0])
    assert gradient["x"].to_numpy().tolist() == [300, 300] and gradient["v"] == [300, 360]
    assert spy.grad(module.squared)(spy.double3(1, 2, 3)) == spy.double3(2, 4, 6)


ARRAYS = """
    struct S : IDifferentiable {{ double3 v; double w[{0}]; int n; }}
    [Differentiable] double f(double a[{0}][2], S s)
    {{
        double sum = s.v.x * s.v.y;
        for (int i = 0; i < {0}; i++)
            sum += a[i][0] * a[i][0] * a[i][1] * s.w[i] * s.v.z * s.n;
        return sum;
    }}
"""


def array_gradients(a, v, w, n):
    a, w = np.array(a), np.array(w)
    x, y = a.T
    ga = np.stack([2 * x * y * w, x * x * w], 1) * v[2] * n
    return ga, np.array([v[1], v[0], (x * x * y * w).sum() * n]), x * x * y * v[2] * n


@pytest.mark.parametrize("length", [1, 3, 300])
def test_lists_are_arrays(capsys, length):
    """Of any length: a list of floats is one value for the kernel."""
    device = spy.Device(backend="interpreter", options=spy.Options(dump=("kernel",)))
    module = spy.Module.load_from_source(device, f"lists_{length}", ARRAYS.format(length))
    a = [[0.5 + i, 2.0 - i] for i in range(length)]
    s = {"v": [2.0, 3.0, 4.0], "w": [1.0 + i for i in range(length)], "n": 2}
    wanted = array_gradients(a, s["v"], s["w"], 2)
    capsys.readouterr()
    ga, gs = spy.grad(module.f, (0, 1))(a, s)
    assert 0 < capsys.readouterr().out.count("uniform") < 12
    assert isinstance(ga[0], list) and isinstance(gs["v"], list) and gs["n"] is None
    assert all(map(np.array_equal, (ga, gs["v"], gs["w"]), wanted))
    da, dw = [[0.5, None]] * length, [1.0] * length
    _y, dy = spy.jvp(module.f, (a, s), (da, {"w": dw}))
    assert dy == pytest.approx(0.5 * wanted[0][:, 0].sum() + wanted[2].sum())


def test_whole_numbers_in_lists_are_constants(load):
    module = load(ARRAYS.format(3))
    a, s = [[1, 2.0], [3.0, 4], [5, 6]], {"v": [2, 3, 4.0], "w": [1.0, 2.0, 3.0], "n": 2}
    ga, gs = spy.grad(module.f, (0, 1))(a, s)
    full = array_gradients(a, s["v"], s["w"], 2)
    assert ga == [[None, full[0][0, 1]], [full[0][1, 0], None], None]
    assert gs["v"] == [None, None, full[1][2]] and gs["w"] == full[2].tolist()


def test_second_derivatives_by_arrays(load):
    module = load(ARRAYS.format(20))
    a, v, w = np.linspace(0, 1, 40).reshape(20, 2), [2.0, 3.0, 4.0], [1.0] * 20
    f = lambda a: array_gradients(a, v, w, 2)[0]
    s = {"v": v, "w": w, "n": 2}
    along = np.cos(a)
    wanted = (f(a + 1e-5 * along) - f(a - 1e-5 * along)) / 2e-5
    (product, _) = spy.hvp(module.f, (a, s), (along, None))
    assert np.allclose(product, wanted)
    (product, gs) = spy.hvp(module.f, (a.tolist(), s), (along.tolist(), {"w": [0.0] * 20}))
    assert np.allclose(product, wanted) and len(gs["w"]) == 20
    with pytest.raises(CallError, match=r"the tangent has shape \(19,\)"):
        spy.hvp(module.f, (a.tolist(), s), (along.tolist()[1:], None))


def test_gradients_of_the_caller_are_left_alone(device, load):
    f = load(LOSS.format("double")).loss
    x, w = tensor(device, [1, 2]).with_grads(), tensor(device, [1, 1]).with_grads()
    gx = spy.grad(f)(x, w)
    assert gx.to_numpy().tolist() == [3, 12]
    assert x.grad.to_numpy().tolist() == [0, 0] == w.grad.to_numpy().tolist()


def test_whole_tensors_and_struct_elements(device, load):
    module = load("""
        struct P : IDifferentiable { double x; double2 v; int n; }
        P make(double x) { P p; p.x = x; p.v = double2(2, 3); p.n = 5; return p; }
        [Differentiable] double f(P p, int i, ITensor<double, 1> t) { return p.x * p.x * p.v.y * p.n * t[i] * t[0]; }
    """)
    p = module.make(np.array([1.0, 2.0]))
    t, i = tensor(device, [7, 11]), spy.grid((2,))
    gp, gt = spy.grad(module.f, (0, 2))(p, i, t)
    assert gp.to_numpy(structured=True)["x"].tolist() == [2 * 15 * 49, 4 * 15 * 77]
    assert gp.to_numpy(structured=True)["v"].tolist() == [[0, 5 * 49], [0, 20 * 77]]
    assert gt.to_numpy().tolist() == [15 * 14 + 60 * 11, 60 * 7]
    _y, dy = spy.jvp(module.f, (p, i, t), (None, None, np.array([0.0, 1.0])))
    assert dy.to_numpy().tolist() == [0, 60 * 7]
    (_, _, product) = spy.hvp(module.f, (p, i, t), (None, None, np.array([0.0, 1.0])))
    assert product.to_numpy().tolist() == [60, 0]


def test_jvp(device, load):
    module = load(
        LOSS.format("double") + "[Differentiable] double3 g(double3 v, int n) { return v * v * n; }"
    )
    x, dx = np.array([1.0, 2]), np.array([1.0, 10])
    y, dy = spy.jvp(module.loss, (x, 1.0), (dx, None))
    assert isinstance(dy, Tensor) and dy.to_numpy().tolist() == [3, 120]
    y, dy = spy.jvp(module.loss.return_type("numpy"), (x, 1.0), (dx, None))
    assert isinstance(y, np.ndarray) and dy.tolist() == [3, 120]
    y, dy = spy.jvp(module.loss.return_type("numpy"), (2.0, 1.0), (1.0, 0.0))
    assert y.shape == () == dy.shape and dy == 12
    assert spy.jvp(module.loss, (2.0,), (1.0,), w=1.0) == (8 + np.sin(1), 12)
    assert spy.jvp(module.g, (spy.double3(1, 2, 3), 2), (spy.double3(1, 0, 1), None))[1] == spy.double3(
        4, 0, 12
    )


def test_vjp_keeps_the_primals(device, load):
    module = load("[Differentiable] double3 g(double3 v, double s) { return v * v * s; }")
    v, s = tensor(device, [[1, 2, 3], [4, 5, 6]]), tensor(device, [1, 2])
    y, pullback = spy.vjp(module.g, v, s)
    assert y.to_numpy().tolist() == [[1, 4, 9], [32, 50, 72]]
    v.clear()
    s.clear()
    for _ in range(2):
        cv, cs = pullback(np.array([[1.0, 0, 0], [0, 1, 0]]))
        assert cv.to_numpy().tolist() == [[2, 0, 0], [0, 20, 0]]
        assert cs.to_numpy().tolist() == [1, 25]
    y, pullback = spy.vjp(module.g.return_type("numpy"), np.ones((2, 3)), 2.0)
    assert pullback(np.ones((2, 3)))[1] == 6
    y, pullback = spy.vjp(module.g, spy.double3(1, 2, 3), 2.0)
    assert pullback(spy.double3(1, 1, 0)) == (spy.double3(4, 8, 0), 5)
    with pytest.raises(
        CallError, match=r"the cotangent: the tangent has shape \(2,\), the argument \(2, 3\)"
    ):
        spy.vjp(module.g, np.ones((2, 3)), 2.0)[1](np.ones(2))


def test_products_of_the_hessian(load):
    f = load(LOSS.format("double")).loss
    random = np.random.default_rng(4)
    x, w = random.normal(size=(4, 3)), random.normal(size=3)
    check_second_order(f, (x, w), (random.normal(size=(4, 3)), random.normal(size=3)))
    check_second_order(f, (x[::2, ::-1], w), (random.normal(size=(2, 3)), None))
    check_second_order(f, (0.5, 0.25), (1.0, -2.0))
    gx, hx = spy.jvp(spy.grad(f), (x, w), (x, None))
    assert np.allclose(gx, 3 * x * x * w * w) and np.allclose(hx, 6 * x * x * w * w)


@pytest.mark.parametrize("size", [0, 1, 33])
def test_products_through_loops_tensors_and_nested_derivatives(load, size):
    module = load("""
        [Differentiable] double inner(double x, double w) { return x * x * x * exp(w); }
        [Differentiable] double f(double x, ITensor<double, 1> w)
        {
            double y = 0;
            for (int i = 0; i < int(w.shape[0]); i++)
            {
                var p = diffPair(x);
                var q = diffPair(w[i]);
                bwd_diff(inner)(p, q, 1.0);
                y += p.d * sin(q.d);
                if (y > 1e6)
                    break;
            }
            return y;
        }
    """)
    random = np.random.default_rng(size)
    x, w = random.normal(size=size), random.normal(size=4) * 0.3
    check_second_order(module.f, (x, w), (random.normal(size=size), random.normal(size=4)), 1e-5)


def test_gradients_of_gradients(load):
    f = load(LOSS.format("double")).loss
    x = np.array([1.0, 2, 3])
    assert np.allclose(spy.grad(spy.grad(f))(x, 2.0), 24 * x)
    assert np.allclose(spy.grad(spy.grad(spy.grad(f)))(x, 2.0), 24)
    assert np.allclose(spy.hvp(f, (x, 2.0), (np.ones(3), None), order=3)[0], 24)
    assert spy.grad(spy.grad(spy.grad(spy.grad(f))))(2.0, 1.0) == 0
    assert np.allclose(spy.grad(spy.grad(f, reduction="mean"))(x, 2.0), 8 * x)
    with pytest.raises(CallError, match="both are by the same arguments"):
        spy.grad(spy.grad(f), argnums=1)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: spy.grad(m.f)(2, 1.0), "argument 0: a value of type int has no gradient"),
        (lambda m: spy.grad(m.f, 1)(2.0, 1.0), "argument 1: a value of type float has no gradient"),
        (lambda m: spy.jvp(m.f, (2.0, 1.0), (None, 1.0)), "carries no derivative, and a tangent is given"),
        (lambda m: spy.jvp(m.f, (2.0, 1.0), (1.0,)), "there are 2 primals and 1 tangents"),
        (lambda m: spy.jvp(m.f, 2.0, 1.0), "primals are a tuple"),
        (
            lambda m: spy.jvp(m.f, (np.ones(3, F), 1.0), (np.ones(2), None)),
            r"has shape \(2,\), the argument \(3,\)",
        ),
        (lambda m: spy.jvp(m.f, (2.0, 1.0), ("x", None)), "the tangent of a number is a number"),
        (lambda m: spy.grad(m.v)(np.ones((2, 3), F)), "returns float3, and gradients are those of a number"),
        (lambda m: spy.value_and_grad(m.nothing)(1.0), "returns nothing"),
        (lambda m: spy.value_and_grad(m.step)(spy.floatRef(1.0)), "'x' of 'step' is read and written"),
        (lambda m: spy.grad(m.f.bwds), "is a derivative already"),
        (lambda m: spy.grad(len), "expected a function of a module"),
        (lambda m: spy.grad(m.f, reduction="product"), "reduction: 'product' is none of"),
        (lambda m: spy.grad(m.f)(1.0, 1.0, _result="numpy"), "leave _result out"),
        (lambda m: spy.hvp(m.f, (1.0, 1.0), (1.0, None), order=1), "order must be 2 or more"),
    ],
)
def test_what_cannot_be_asked(load, call, message):
    module = load("""
        [Differentiable] float f(float x, no_diff float c) { return x * x * c; }
        [Differentiable] float3 v(float3 x) { return x; }
        [Differentiable] void nothing(float x) {}
        [Differentiable] float step(inout float x) { x += 1; return x; }
    """)
    with pytest.raises(CallError, match=message) as caught:
        call(module)
    assert caught.value.code == "E1030"
