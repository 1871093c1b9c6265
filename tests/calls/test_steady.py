"""Calls repeat without growing."""

import gc

import numpy as np

import slangrad as spy
from slangrad import Tensor
from slangrad.runtime.memory import HOST_MEMORY

F = np.float32


def test_many_calls_do_not_grow_memory():
    device = spy.create_device(backend="cpu")
    module = spy.Module.load_from_source(
        device,
        "steady",
        """
        [Differentiable] float poly(float a, float x) { return a * x * x; }
        void write(float x, out float y) { y = x; }
    """,
    )
    x = Tensor.from_numpy(device, np.arange(4, dtype=F)).with_grads()
    ref, pair = spy.floatRef(), spy.diffPair(2.0)

    def once():
        module.poly(2, x)
        module.poly(2, np.arange(4, dtype=F), _result="numpy")
        module.poly(2.0, 3.0)
        module.poly.bwds(pair, x)
        module.write(2.0, ref)

    for _ in range(20):
        once()
    gc.collect()
    gc.disable()
    try:
        objects, memory = len(gc.get_objects()), HOST_MEMORY.in_use
        for _ in range(2_000):
            once()
        assert len(gc.get_objects()) - objects < 50
        assert HOST_MEMORY.in_use == memory
    finally:
        gc.enable()


def test_layouts_that_are_kept_are_bounded(load):
    module = load("float kept(float x) { return x; }")
    for size in range(1, 400):
        assert module.kept(np.ones(size, F), _result="numpy").sum() == size
    (entry,) = module.kept._caller._plans.values()
    assert len(entry.plan._geometries) <= 256
