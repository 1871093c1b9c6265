"""bind_call: a call whose arguments are bound once."""

import gc
import threading

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor
from slangrad.call.repeated import RepeatedCall

F = np.float32
SCALE = "[Differentiable] float scale(float a, float x) { return a * x * x; }"


def test_what_tensors_hold_may_change(load) -> None:  # type: ignore[no-untyped-def]
    module = load(SCALE)
    x = Tensor.from_numpy(module.device, F([1, 2, 3]))
    y = Tensor.zeros(module.device, (3,), "float")
    call = module.scale.bind_call(2, x, _result=y)
    assert isinstance(call, RepeatedCall)
    assert call.is_launch
    assert y.to_numpy().tolist() == [0, 0, 0]
    assert call() is y
    assert y.to_numpy().tolist() == [2, 8, 18]
    x.copy_from_numpy(F([3, 2, 1]))
    call()
    assert y.to_numpy().tolist() == [18, 8, 2]


def test_gradients_add_up(load) -> None:  # type: ignore[no-untyped-def]
    module = load(SCALE)
    x = Tensor.from_numpy(module.device, F([1, 2, 3])).with_grads()
    y = Tensor.zeros(module.device, (3,), "float").with_grads()
    y.grad.copy_from_numpy(F([1, 1, 2]))
    call = module.scale.bwds.bind_call(2, x, _result=y)
    call()
    call()
    assert x.grad.to_numpy().tolist() == [8, 16, 48]


def test_arrays_and_numbers(load) -> None:  # type: ignore[no-untyped-def]
    """An array is read when the call runs; a list is what it was."""
    module = load("float sum(float[2] a, float x) { return a[0] + a[1] + x; }")
    x, y, a = F([1, 2]), np.zeros(2, F), [10, 20]
    call = module.sum.bind_call(a, x, _result=y)
    a[0], x[0] = 1000, 5
    assert call() is y
    assert y.tolist() == [35, 32]


def test_rebinding_exchanges_a_pointer_whatever_the_order_of_arguments(load) -> None:  # type: ignore[no-untyped-def]
    """Names in another order than the parameters', and lists beside tensors."""
    module = load("float sum(float[2] a, float x, float y) { return a[0] + a[1] * x + y; }")
    x, y, z = (Tensor.from_numpy(module.device, F(each)) for each in ([1, 2], [10, 20], [100, 200]))
    to = Tensor.zeros(module.device, (2,), "float")
    call = module.sum.bind_call(y=y, x=x, a=[5, 3], _result=to)
    launch = call._launch
    call.rebind(x=z)
    call()
    assert to.to_numpy().tolist() == [315, 625]
    call.rebind(y=x)
    call()
    assert to.to_numpy().tolist() == [306, 607]
    assert launch is not None and call._launch is launch
    call.rebind(a=[0, 1])
    call()
    assert to.to_numpy().tolist() == [101, 202]


def test_results_in_the_place_of_an_input_are_a_launch(load) -> None:  # type: ignore[no-untyped-def]
    """Each thread reads and writes an element of its own; shifted by one element, a copy is made first."""
    module = load(SCALE)
    x = Tensor.from_numpy(module.device, F([1, 2, 3, 4]))
    call = module.scale.bind_call(2, x, _result=x)
    assert call.is_launch
    call()
    assert x.to_numpy().tolist() == [2, 8, 18, 32]
    shifted = module.scale.bind_call(1, x.view((3,)), _result=x.view((3,), offset=1))
    assert not shifted.is_launch
    shifted()
    assert x.to_numpy().tolist() == [2, 4, 64, 324]


@pytest.mark.parametrize("result", [None, "numpy", spy.floatRef()])
def test_calls_with_more_to_do(load, result) -> None:  # type: ignore[no-untyped-def]
    """A result is made, or read back, in every run."""
    module = load(SCALE)
    x = F([3]) if result == "numpy" else 3.0
    call = module.scale.bind_call(2, x, _result=result)
    assert isinstance(call, RepeatedCall)
    assert not call.is_launch
    assert np.all(call() == 18)
    assert np.all(call() == 18)


def test_memory_is_kept(load) -> None:  # type: ignore[no-untyped-def]
    """Also that of a tensor which was pointed elsewhere."""
    module = load(SCALE)
    x, y = (Tensor.from_numpy(module.device, F([1, 2, 3])) for _ in range(2))
    call = module.scale.bind_call(1, x, _result=y)
    x.point_to(Tensor.from_numpy(module.device, F([5, 5, 5])))
    gc.collect()
    junk = [Tensor.from_numpy(module.device, F([9, 9, 9])) for _ in range(10)]
    call()
    assert y.to_numpy().tolist() == [1, 4, 9]
    assert len(junk) == 10


def test_memory_inside_of_dicts_is_kept(load) -> None:  # type: ignore[no-untyped-def]
    module = load("struct P { float a; } float get(P p) { return p.a; }")
    x, y = (Tensor.from_numpy(module.device, F([1, 2, 3])) for _ in range(2))
    call = module.get.bind_call({"a": x}, _result=y)
    assert isinstance(call, RepeatedCall)
    assert call.is_launch
    x.point_to(Tensor.from_numpy(module.device, F([5, 5, 5])))
    junk = [Tensor.from_numpy(module.device, F([9, 9, 9])) for _ in range(10)]
    call()
    assert y.to_numpy().tolist() == [1, 2, 3]
    assert len(junk) == 10


def test_inputs_that_are_outputs(load) -> None:  # type: ignore[no-untyped-def]
    """Shifted views overlap, so every run copies what it must read."""
    module = load(SCALE)
    x = Tensor.from_numpy(module.device, F([1, 2, 3, 4]))
    same = module.scale.bind_call(1, x, _result=x)
    same()
    assert x.to_numpy().tolist() == [1, 4, 9, 16]
    shifted = module.scale.bind_call(1, x[:-1], _result=x[1:])
    assert isinstance(shifted, RepeatedCall)
    assert not shifted.is_launch
    shifted()
    assert x.to_numpy().tolist() == [1, 1, 16, 81]


def test_methods_and_empty_calls(load) -> None:  # type: ignore[no-untyped-def]
    module = load("struct S { float a; float get(float x) { return a * x; } }")
    y = np.zeros(3, F)
    module.S.get.bind({"a": 4}).bind_call(F([1, 2, 3]), _result=y)()
    assert y.tolist() == [4, 8, 12]
    empty = np.zeros(0, F)
    assert module.S.get.bind_call({"a": 4}, F([]), _result=empty)() is empty


def test_errors_come_when_it_is_bound(load) -> None:  # type: ignore[no-untyped-def]
    module = load(SCALE)
    with pytest.raises(spy.CallError, match="Too many arguments"):
        module.scale.bind_call(1, 2, 3)
    with pytest.raises(spy.CallError, match="Shape mismatch"):
        module.scale.bind_call(F([1, 2]), F([1, 2, 3]), _result=np.zeros(3, F))


PICK = "float pick(StructuredBuffer<float> values, int i) { return values[i]; }"


def test_an_error_is_raised_in_each_run_and_never_later(load) -> None:  # type: ignore[no-untyped-def]
    module = load(PICK)
    values = Tensor.from_numpy(module.device, F([7, 8])).storage
    y = Tensor.zeros(module.device, (3,), "float")
    inside = module.pick.bind_call(values, np.array([0, 1, 0], np.int32), _result=y)
    outside = module.pick.bind_call(values, np.array([0, 2, 1], np.int32), _result=y)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 2 is out of range"):
            outside()
        assert y.to_numpy().tolist() == [7, 0, 8]
        assert inside() is y
        assert y.to_numpy().tolist() == [7, 8, 7]


def test_loops_that_keep_values_run_many_times(load) -> None:  # type: ignore[no-untyped-def]
    """They reserve memory while they run, which each run gives back."""
    module = load(
        "[Differentiable] float grow(float x) { float y = x; while (y < 100) y = y * x + 0.5; return y; }"
    )
    x = Tensor.from_numpy(module.device, F([2, 3])).with_grads()
    y = Tensor.zeros(module.device, (2,), "float").with_grads()
    y.grad.copy_from_numpy(F([1, 1]))
    module.grow.bwds(x, _result=y)
    once = x.grad.to_numpy()
    call = module.grow.bwds.bind_call(x, _result=y)
    for _ in range(3):
        call()
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * once, rtol=1e-6)


def test_threads_run_one_bound_call_at_a_time_or_together(load) -> None:  # type: ignore[no-untyped-def]
    module = load(SCALE)
    x = Tensor.from_numpy(module.device, F([1, 2, 3]))
    results = [Tensor.zeros(module.device, (3,), "float") for _ in range(2)]
    calls = [module.scale.bind_call(i + 1, x, _result=result) for i, result in enumerate(results)]
    wrong = []

    def work(i: int) -> None:
        for _ in range(300):
            calls[i % 2]()
            if results[i % 2].to_numpy().tolist() != [i % 2 + 1, 4 * (i % 2 + 1), 9 * (i % 2 + 1)]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_closed_device_refuses_it() -> None:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "closed", SCALE)
    x = Tensor.zeros(device, (3,), "float")
    call = module.scale.bind_call(2, x, _result=Tensor.zeros(device, (3,), "float"))
    device.close()
    with pytest.raises(RuntimeError, match="E1023"):
        call()


def test_other_memory(load) -> None:  # type: ignore[no-untyped-def]
    """Pointers are exchanged where type and layout are the same; all else is bound anew."""
    module = load(SCALE + "void fill(int at, float* to, int[2] n) { to[at] = n[0] + n[1] * at; }")
    x, y = Tensor.from_numpy(module.device, F([1, 2, 3])), Tensor.zeros(module.device, (3,), "float")
    call = module.scale.bind_call(2, x=x, _result=y)
    other, to = Tensor.from_numpy(module.device, F([4, 5, 6])), Tensor.zeros(module.device, (3,), "float")
    launch = call._launch
    call.rebind(x=other)
    assert call() is y
    assert y.to_numpy().tolist() == [32, 50, 72]
    call.rebind(_result=to, x=x)
    assert call._launch is launch
    assert call() is to
    assert (to.to_numpy().tolist(), y.to_numpy().tolist()) == ([2, 8, 18], [32, 50, 72])
    call.rebind(a=3, x=Tensor.from_numpy(module.device, F([1, 2])), _result=None)
    assert call().to_numpy().tolist() == [3, 12]
    with pytest.raises(CallError, match="no value named b"):
        call.rebind(b=1)
    filled = module.fill.bind_call(spy.grid((3,)), y, [1, 2])
    filled.rebind(to=to)
    filled()
    assert to.to_numpy().tolist() == [1, 3, 5]


def test_memory_that_overlaps_is_not_just_exchanged(load) -> None:  # type: ignore[no-untyped-def]
    """The call reads all before it writes; and what it is bound to lives."""
    module = load(SCALE)
    memory = Tensor.from_numpy(module.device, F([1, 2, 3, 4]))
    call = module.scale.bind_call(1, Tensor.zeros(module.device, (3,), "float"), _result=memory[1:])
    call.rebind(x=memory[:-1])
    call()
    assert memory.to_numpy().tolist() == [1, 1, 4, 9]
    call.rebind(x=Tensor.from_numpy(module.device, F([5, 6, 7])))
    gc.collect()
    call()
    assert memory.to_numpy().tolist() == [1, 25, 36, 49]
