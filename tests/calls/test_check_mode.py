"""Check mode: gradients are compared with differences, numbers that are not finite are told where they arise."""

import warnings

import numpy as np
import pytest

import slangrad as spy
from slangrad import BoundsError, GradientError, NotFiniteError, Tensor
from tests.calls.tensors import tensor

F, D = np.float32, np.float64

WRONG = """
    [BackwardDerivative(back)]
    {0} square({0} x) {{ return x * x; }}
    void back(inout DifferentialPair<{0}> x, {0} d) {{ x = diffPair(x.p, 3 * x.p * d); }}
    [Differentiable] {0} f({0} s, {0} x) {{ return s * square(x); }}
    [Differentiable] {0} good({0} s, {0} x) {{ return s * sin(x); }}
"""


@pytest.mark.parametrize("dtype, name", [(np.float16, "half"), (F, "float"), (D, "double")])
def test_wrong_gradients_are_told_and_right_ones_pass(device, load, dtype, name):
    module = load(WRONG.format(name))
    s, x = tensor(device, [1, 2], dtype).with_grads(), tensor(device, [0.5, 0.75], dtype).with_grads()
    with device.check_mode():
        module.good.bwds(s, x)
        assert np.allclose(x.grad.to_numpy(), [1, 2] * np.cos(x.to_numpy()), rtol=1e-2)
        x.grad.clear()
        with pytest.raises(
            GradientError, match=r"the derivative by 'x' of 'f' .*finite differences disagree"
        ) as caught:
            module.f.bwds(s, x)
        assert caught.value.code == "E1031"
        assert x.grad.to_numpy().tolist() == [0, 0]
        with pytest.raises(GradientError, match="'x' of 'f'"):
            module.f.bwds(2.0, spy.diffPair(0.5))
    with device.check_mode(rtol=0.9):
        module.f.bwds(s, x)
    with device.check_mode(gradients=False):
        module.f.bwds(s, x)
    module.f.bwds(s, x)
    assert x.grad.to_numpy().tolist() == [4.5, 13.5]


def test_cotangents_outputs_fields_and_slices(device, load):
    module = load("""
        struct P : IDifferentiable { float a; float2 v; int n; }
        [Differentiable] float2 f(P p, float k) { return p.v * p.a * p.n * k; }
        [Differentiable] void g(int i, ITensor<float, 1> x, IWTensor<float, 1> y, out float z, inout float w)
        {
            y[i] = x[i] * x[0] * w;
            z = x[i] * 3;
            w = w * w;
        }
    """)
    random = np.random.default_rng(0)

    def own(*shape):
        made = tensor(device, random.normal(size=shape)).with_grads()
        made.grad.copy_from_numpy(random.normal(size=shape).astype(F))
        return made

    with device.check_mode():
        p = {"a": own(5), "v": own(5, 2), "n": 2}
        module.f.bwds(p, 2.0, own(5, 2))
        module.f.bwds(p, spy.diffPair(2.0), _result=spy.diffPair(spy.float2(0), spy.float2(1, -1)))
        module.f.bwds(p, 2.0)
        w = own(5)
        w = w.with_grads(grad_in=w.grad, grad_out=own(5).detach())
        module.g.bwds(spy.grid((5,)), own(5), own(5), own(5), w)
        module.g.bwds(spy.grid((5,)), own(5, 2)[:, 1], own(5), own(5), w)


def test_values_outside_of_functions_and_objects(device, load):
    module = load("""
        uniform float gain;
        [Differentiable] float f(float x) { return gain * x * x; }
        struct Line : IDifferentiable
        {
            float slope;
            [Differentiable] float at(float x) { return slope * x; }
        }
    """)
    x, slope = tensor(device, [1, 2]).with_grads(), tensor(device, [3]).with_grads()

    class Held:
        def get_this(self):
            return {"slope": slope}

    with device.check_mode():
        for gain in (3.0, 5.0):
            x.grad.clear()
            module.f.set(gain=gain).bwds(x)
            assert x.grad.to_numpy().tolist() == [2 * gain, 4 * gain]
        module.Line.at.bwds(Held(), x)
    assert slope.grad.to_numpy().tolist() == [3]


def test_gradients_that_get_lost_are_told(device, load):
    module = load("""
        float fetch(RWStructuredBuffer<float> b, int i) { return b[i]; }
        [Differentiable] float f(float x, RWStructuredBuffer<float> b) { return x * no_diff fetch(b, 0); }
        [Differentiable] float g(float x) { return x * detach(x); }
    """)
    x = tensor(device, [1, 2]).with_grads()
    with device.check_mode():
        with pytest.raises(GradientError, match="'x' of 'g'"):
            module.g.bwds(x)
        with pytest.warns(UserWarning, match="bwds of 'f' is not compared, as 'b' is no tensor"):
            module.f.bwds(x, tensor(device, [3]))


NUMBERS = """
    [Differentiable] float f(float x, float w)
    {
        float y = x * w;
        if (x > 0)
            y += log(x);
        return y / w;
    }
    float3 g(float3 v) { return normalize(v) / v.x; }
    float later(ITensor<float, 1> x, int i)
    {
        float sum = 0;
        for (int k = 0; k < 3; k++)
            sum += x[k + i];
        return sum;
    }
    [Differentiable] float angle(float x) { return asin(x); }
"""


def told(call):
    with pytest.raises(NotFiniteError) as caught:
        call()
    return caught.value


def test_the_first_number_that_is_not_finite(device, load):
    module = load(NUMBERS)
    with device.check_mode():
        x, w = np.ones((4, 3), F), np.array([1, 2, 0], F)
        assert module.f(-x, w[:2].repeat(2)[:3]).to_numpy().tolist() == [[-1] * 3] * 4
        error = told(lambda: module.f(x, w))
        assert error.call == (0, 2) and error.code == "E0906" and error.location.endswith(":7:16")
        assert "a NaN in call (0, 2)" in str(error) and "return y / w;" in str(error)
        error = told(lambda: module.f(3e38, 2.0))
        assert "an infinity" in str(error) and error.location.endswith(":4:19") and error.call == ()
        v = np.ones((5, 3), F)
        v[3, 0] = 0
        assert told(lambda: module.g(v)).call == (3,)
        t = tensor(device, [1, 1, 1, np.inf, 1, 1])
        error = told(lambda: module.later(t, spy.grid((3,))))
        assert error.call in ((1,), (2,)) and "an infinity" in str(error)
    assert np.isnan(module.f(x, w).to_numpy()[0, 2])


def test_gradients_that_are_not_finite(device, load):
    module = load(NUMBERS)
    x = tensor(device, [0.4, 0.1, 1, 0.9]).with_grads()
    with device.check_mode():
        error = told(lambda: module.angle.bwds(x))
    assert error.call == (2,) and "asin(x)" in str(error)


def test_other_errors_and_results_are_the_same(device, load):
    module = load("""
        float f(int i, ITensor<float, 1> x) { return x[i]; }
        void both(float x, out float y, inout float z) { y = 2 * x; z += x; }
        int count(int x) { return x + 1; }
    """)
    with device.check_mode():
        with pytest.raises(BoundsError, match="index 7"):
            module.f(7, tensor(device, [1, 2]))
        assert module.count(np.arange(3, dtype=np.int32)).to_numpy().tolist() == [1, 2, 3]
        y, z = spy.floatRef(), spy.floatRef(1)
        module.both(3.0, y, z)
        assert (y.value, z.value) == (6, 4)


POINTERS = """
    struct Cell { float a; float b[3]; }
    float read(float* p, int i) { return p[i]; }
    float field(Cell* c, int i, int k) { return c[i].b[k] + c->a; }
    void write(int i, float* p) { *(p + i) = 5; }
    void add(int i, float* p) { InterlockedAdd(p[i], 1.0); }
    [Differentiable] float scaled(float x, no_diff float* p, int i) { return x * p[i]; }
    float walked(float* p, int n) { float sum = 0; for (int i = 0; i < n; i++) { sum += *p; p = p + 1; } return sum; }
    double wide(double* p, int bytes) { return *(double*)((uint8_t*)p + bytes); }
"""


def test_pointers_stay_in_their_buffers(device, load):
    module = load(POINTERS)
    p = tensor(device, [1, 2, 3, 4])
    inside = p.storage
    i = np.arange(4, dtype=np.int32)
    with device.check_mode():
        assert module.read(inside, i).to_numpy().tolist() == [1, 2, 3, 4]
        with pytest.raises(
            spy.PointerError, match="byte 16 of its buffer, where the last that fits begins at 12"
        ) as told:
            module.read(inside, i + 1)
        assert told.value.code == "E0907" and told.value.offset == 16 and "p[i]" in str(told.value)
        with pytest.raises(spy.PointerError, match="byte -4"):
            module.read(p, -1)
        with pytest.raises(spy.PointerError, match=r"byte 8 .*begins at 4"):
            module.read(p[1:3], 2)
        for name in ("write", "add"):
            with pytest.raises(spy.PointerError):
                module[name](i + 2, inside)
        assert p.to_numpy().tolist() == [1, 2, 6, 6]
        with pytest.raises(
            spy.PointerError, match="byte 1 of its buffer, which is too small for one element"
        ):
            module.wide(np.zeros(0), 1)
        cells = Tensor.zeros(device, (2,), module.Cell)
        assert module.field(cells, 1, 2) == 0
        with pytest.raises(spy.PointerError):
            module.field(cells, 2, 0)
        x = tensor(device, [1, 2]).with_grads()
        with pytest.warns(UserWarning, match="bwds of 'scaled' is not compared"):
            module.scaled.bwds(x, p, 3)
        assert x.grad.to_numpy().tolist() == [6, 6]
        with pytest.raises(spy.PointerError):
            module.scaled.bwds(x, p, 4)
        assert module.walked(p, 4) == 15


FOLLOWED = """
    struct Cell { float* p; int n; }
    float walked(float* p, int n) { float sum = 0; for (int i = 0; i < n; i++) { sum += *p; p = p + 1; } return sum; }
    float behind(Cell* c, int i, int k) { return c[i].p[k]; }
    float numbered(uint64_t p) { return *(float*)p; }
    float constant(uint64_t p) { return ConstBufferPointer<float>(p)[1]; }
    float coherent(Cell* c, int i) { return loadCoherent<4, MemoryScope.Device>(c[i].p + 3); }
    float own(int k) { float a[4] = { 1, 2, 3, 4 }; float* p = &a[0]; for (int i = 0; i < k; i++) p++; return *p; }
    float either(int k, float* q) { float a = 5; float* p = &a; for (int i = 0; i < k; i++) p = p == &a ? q : &a; return *p; }
    float deep(int n, float* p) { float x = n; if (n > 0) deep(n - 1, &x); *p += x; return x; }
    float sum(int n) { float r = 0; deep(n, &r); return r; }
    float chain(int n, float* p) { float x = p[n]; float* q = &x; return n > 0 ? *q + chain(n - 1, p) : q[0]; }
    float past(int n, int k) { float x = n; return n > 0 ? past(n - 1, k) + deep(0, &x) : *(&x + k); }

    RWStructuredBuffer<float> y;
    [shader("compute")] [numthreads(4, 1, 1)]
    void follow(uint3 id : SV_DispatchThreadID, uniform Cell* cells, uniform int k)
    {
        float a[2] = { 1, 2 };
        float* p = cells[id.x].p;
        if (id.x == 1)
            p = &a[0];
        y[id.x] = p[k] + 1 / (float(id.x) - 5);
    }
"""


def test_pointers_lead_to_memory_that_is_alive(device, load):
    module = load(FOLLOWED)
    p = tensor(device, [1, 2, 3, 4])
    address = p.storage.device_address
    cells = device.create_buffer(data=np.array([[address, 0], [address, 0]], np.int64))
    holes = device.create_buffer(data=np.array([[address + 4, 0]], np.int64))
    with device.check_mode():
        assert module.walked(p, 4) == 10 and module.walked(np.ones(4, F), 4) == 4
        assert module.behind(cells, 1, 3) == 4 and module.numbered(address + 4) == 2
        assert module.constant(address) == 2 and module.coherent(cells, 1) == 4
        assert module.own(3) == 4 and module.sum(4) == 10
        assert [module.either(k, np.full(1, 7, F)) for k in (0, 1)] == [5, 7]
        for call in (
            lambda: module.walked(p, 5),
            lambda: module.behind(cells, 1, 4),
            lambda: module.numbered(0),
            lambda: module.constant(address + 12),
            lambda: module.coherent(holes, 0),
            lambda: module.own(4),
            lambda: module.chain(2, 0),
            lambda: module.past(3, 1 << 20),
            lambda: module.walked(address + 4, 4),
        ):
            with pytest.raises(
                spy.PointerError, match="leads to no memory of a buffer, a tensor or a variable"
            ):
                call()
        for call in (lambda: module.behind(cells, 2, 0), lambda: module.chain(np.arange(9), p)):
            with pytest.raises(spy.PointerError, match=r"byte \d+ of its buffer"):
                call()
        assert module.chain(np.arange(4), address).to_numpy().tolist() == [1, 3, 6, 10]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_kernels_are_checked(backend):
    device = spy.create_device(backend=backend)
    module = device.load_module_from_source("followed", FOLLOWED)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("follow")]))
    y, p = device.create_buffer(size=32), device.create_buffer(data=np.array([5, 6], F))
    cells = device.create_buffer(data=np.array([[p.device_address, 0]] * 8, np.int64))
    run = lambda threads, k: kernel.dispatch([threads, 1, 1], vars={"y": y}, cells=cells, k=k)
    wanted = np.array([5, 1, 5, 5], F) + 1 / (np.arange(4, dtype=F) - 5)
    for _ in range(2):
        run(8, 1)  # an infinity, and nobody looks
        with device.check_mode():
            run(4, 0)
            assert y.to_numpy().view(F)[:4].tolist() == wanted.tolist()
            with pytest.raises(NotFiniteError, match=r"an infinity in thread \(5, 0, 0\)"):
                run(8, 0)
            with pytest.raises(spy.PointerError, match="leads to no memory"):
                run(4, 2)
    del p
    with device.check_mode(), pytest.raises(spy.PointerError):
        run(4, 0)


def test_modes_nest_and_end(device, load):
    f = load("float f(float x) { return 1 / x; }").f
    assert f(0.0) == np.inf
    with device.check_mode():
        with device.check_mode(gradients=False), pytest.raises(NotFiniteError):
            f(0.0)
        with pytest.raises(NotFiniteError):
            f(0.0)
        inside = spy.Module.load_from_source(device, "loaded_inside", "float f(float x) { return 2 / x; }").f
        with pytest.raises(NotFiniteError):
            inside(0.0)
    assert f(0.0) == np.inf and inside(0.0) == np.inf


def test_the_option_checks_kernels_as_well():
    device = spy.create_device(options=spy.Options(check=True))
    module = spy.Module.load_from_source(
        device, "dispatched", "void main(uint3 dispatchThreadID, RWStructuredBuffer<float> x) "
        "{ uint i = dispatchThreadID.x; if (i < 4) x[i] = 1 / x[i]; }"
    )  # fmt: skip
    with pytest.raises(NotFiniteError) as caught:
        module.main.dispatch([4, 1, 1], x=tensor(device, [1, 2, 0, 3]).storage)
    assert caught.value.thread == (2, 0, 0)
    assert spy.Options.from_environment({"SLANGRAD_CHECK": "1"}).check
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not spy.Options.from_environment({}).check
