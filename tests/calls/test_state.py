"""Nothing of a process depends on options, on the program that came first, or on the other threads."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import slangrad as spy
from slangrad import GradientError, NotFiniteError, Tensor
from slangrad.base.options import Options
from slangrad.base.process.threads import WeakBag
from slangrad.check.model import types
from slangrad.check.model.types import FLOAT, Type
from slangrad.math_library import MathLibrary
from slangrad.optim import SGD

F = np.float32


def in_threads(*works):
    """Run functions at the same time. The first error of one of them is raised."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


@pytest.fixture
def short_turns():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_calls_are_in_check_mode_or_not_while_another_thread_switches(device, load, short_turns):
    module = load("""
        [Differentiable] float inverse(float x) { return 1 / x; }
        [BackwardDerivative(back)] float wrong(float x) { return x * x; }
        void back(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 7 * d); }
    """)
    with device.check_mode(), pytest.raises(NotFiniteError):
        module.inverse(0.0)
    module.inverse(0.0)
    x = Tensor.from_numpy(device, np.ones(4, F)).with_grads()
    done = threading.Event()
    inverses, gradients = [], []

    def switch():
        for _ in range(100):
            with device.check_mode():
                pass
            with device.check_mode(rtol=100.0):
                pass
        done.set()

    def call():
        while not done.is_set():
            try:
                inverses.append(module.inverse(0.0))
            except NotFiniteError:
                inverses.append(None)

    def differentiate():
        while not done.is_set():
            x.grad.clear()
            try:
                module.wrong.bwds(x)
                gradients.append(x.grad.to_numpy().tolist())
            except GradientError:
                assert x.grad.to_numpy().tolist() == [0, 0, 0, 0]

    in_threads(switch, call, differentiate)
    assert set(inverses) <= {None, np.inf}
    assert all(each == [7, 7, 7, 7] for each in gradients)
    assert module.inverse(0.0) == np.inf
    assert device.checking is None


def test_check_modes_of_several_threads_end_in_any_order(device, load):
    module = load("[Differentiable] float inverse(float x) { return 1 / x; }")
    first, second = device.check_mode(), device.check_mode(rtol=0.5)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert device.checking.rtol == 0.5
    with pytest.raises(NotFiniteError):
        module.inverse(0.0)
    second.__exit__(None, None, None)
    assert device.checking is None
    assert module.inverse(0.0) == np.inf


def test_equal_check_modes_end_each_for_itself(device):
    first, between, last = device.check_mode(), device.check_mode(rtol=0.5), device.check_mode()
    for context in (first, between, last):
        context.__enter__()
    last.__exit__(None, None, None)
    assert device.checking.rtol == 0.5
    between.__exit__(None, None, None)
    assert device.checking.rtol is None
    first.__exit__(None, None, None)
    assert device.checking is None


def test_kernels_of_both_modes_are_made_once(device):
    text = """
        [shader("compute")] [numthreads(1, 1, 1)]
        void main(uint3 at : SV_DispatchThreadID, RWStructuredBuffer<float> data) { data[0] = 1 / data[0]; }
    """
    module = device.load_module_from_source("inverse", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    buffer = device.create_buffer(data=np.zeros(1, F))
    for _ in range(3):
        with device.check_mode(), pytest.raises(NotFiniteError):
            kernel.dispatch([1, 1, 1], data=device.create_buffer(data=np.zeros(1, F)))
        kernel.dispatch([1, 1, 1], data=buffer)
    assert kernel._twin._twin is kernel
    assert len(list(kernel.program.pipelines)) == 2


OPTIONS = {
    "reported": Options(bounds_checks=True, lanes=4),
    "silent": Options(bounds_checks=False, lanes=8),
    "by columns": Options(column_major=True),
    "without contraction": Options(contraction=False),
}
TEXT = """
    float read(ITensor<float, 1> x, int i) { return x[i]; }
    float entry(float2x3* m) { return ((float*)m)[1]; }
    float fused(float a, float b) { return a * b - (a * b); }
    float sine(float x) { return sin(x); }
"""


def results_with(name):
    device = spy.Device(options=OPTIONS[name])
    module = spy.Module.load_from_source(device, "state", TEXT)
    x = Tensor.from_numpy(device, np.arange(4, dtype=F))
    try:
        read = module.read(x, 9)
    except spy.BoundsError:
        read = "refused"
    return read, module.fused(1.1, 1.3), module.sine(2.0), device.slang_session.settings


def test_sessions_of_different_options_do_not_share_what_they_make(short_turns):
    together = {}

    def work(name):
        together[name] = results_with(name)

    in_threads(*(lambda name=name: work(name) for name in OPTIONS))
    for name in reversed(OPTIONS):
        assert together[name] == results_with(name)
    assert together["reported"][0] == "refused"
    assert together["silent"][0] != "refused"


def test_maths_functions_are_those_of_options_and_target():
    def keys():
        return set(MathLibrary.compiled)

    before = keys()
    options = Options(threads=77)
    for backend in ("interpreter", "cpu"):
        device = spy.Device(backend=backend, options=options)
        assert spy.Module.load_from_source(device, "sine", TEXT).sine(2.0) == pytest.approx(np.sin(F(2)))
    assert keys() - before == {(options, "interpreter"), (options, "cpu")}


def test_deep_programs_leave_the_recursion_limit_as_it_was(load):
    limit = sys.getrecursionlimit()
    seen = []
    deep = " + ".join(["x"] * 1500)

    def compile(number):
        module = load(f"float f(float x) {{ return {deep} + {number}; }}")
        assert module.f(1.0) == 1500 + number
        seen.append(sys.getrecursionlimit())

    in_threads(lambda: compile(1), lambda: compile(2))
    assert sys.getrecursionlimit() == limit
    with pytest.raises(spy.SlangCompileError):
        load("float f(float x) { return y; }").f(1.0)
    assert sys.getrecursionlimit() == limit


def test_types_made_by_two_threads_at_a_time_are_one():
    barrier = threading.Barrier(2)

    class SlowType(Type):
        def __init__(self, element):
            barrier.wait()  # both threads have found that there is none

    made = []
    in_threads(*[lambda: made.append(types._intern(SlowType, FLOAT))] * 2)
    assert made[0] is made[1]


def test_objects_can_be_added_while_another_thread_lists_them(short_turns):
    class Held:
        pass

    bag, held, done = WeakBag(), [], threading.Event()

    def add():
        for _ in range(5_000):
            held.append(Held())
            bag.add(held[-1])
        done.set()

    def iterate():
        while not done.is_set():
            assert all(isinstance(each, Held) for each in bag)

    in_threads(add, iterate)
    assert len(list(bag)) == len(held)
    bag.discard(held[0])
    del held[1:]
    gc.collect()
    assert not bag


def test_devices_whose_tensors_were_optimized_are_not_kept():
    device = spy.create_device()
    x = Tensor.from_numpy(device, np.ones(4, F)).with_grads()
    optimizer = SGD([x], lr=0.5)
    x.grad.copy_from_numpy(np.ones(4, F))
    optimizer.step()
    assert x.to_numpy().tolist() == [0.5, 0.5, 0.5, 0.5]
    known = weakref.ref(device)
    del device, x, optimizer
    gc.collect()
    assert known() is None
