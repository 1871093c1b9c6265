"""Calls from several Python threads."""

import threading

import numpy as np

import slangrad as spy
from slangrad import Tensor

F = np.float32

TEXT = """
    [Differentiable] float poly(float a, float x) { return a * x * x; }
    void split(float x, out float whole, out float rest) { whole = floor(x); rest = x - whole; }
"""


def test_threads_share_plans_and_compile_once(load):
    module = load(TEXT)
    failures = []

    def work(number):
        try:
            for i in range(50):
                x = np.full(10 + number, i, F)
                assert (module.poly(number, x, _result="numpy") == number * i * i).all()
                whole, rest = spy.floatRef(), spy.floatRef()
                module.split(i + 0.25, whole, rest)
                assert (whole.value, rest.value) == (i, 0.25)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    (plan,) = [entry.plan for key, entry in module.poly._caller._plans.items()]
    assert len(plan._kernels) == 1


def test_kernels_that_read_the_same_are_compiled_once(device, load):
    module = load(TEXT)
    x = Tensor.zeros(device, (3,), "float")
    before = len(device.slang_session.compiler._compiled)
    module.poly(a=3, x=x)
    module.poly(x=x, a=3.0)
    module.poly(True, x)
    assert len(device.slang_session.compiler._compiled) <= before + 1
