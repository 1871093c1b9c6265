"""Warnings point at the user's line."""

import types
import warnings

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.process.warn import warn


def place_of(text: str, **names: object) -> tuple[str, int]:
    """Where the one warning of a program points."""
    module = types.ModuleType("user_program")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(compile(text, "user_program.py", "exec"), vars(module) | names)
    assert len(told) == 1, [str(each.message) for each in told]
    return told[0].filename, told[0].lineno


def test_warnings_of_the_package_point_at_the_program() -> None:
    device = spy.create_device()
    names = {"spy": spy, "np": np, "device": device}
    source = "#warning careful\nint f() { return 1; }"
    load = f"\n\nspy.Module.load_from_source(device, 'warned', {source!r})"
    assert place_of(load, **names) == ("user_program.py", 3)
    old = "def make():\n    return spy.Tensor.numpy(device, np.ones(3))\nmake()"
    assert place_of(old, **names) == ("user_program.py", 2)
    source = "[Differentiable] float f(Tensor<float, 1> x, float y) { return x[0] * y; }"
    module = spy.Module.load_from_source(device, "takes", source)
    names |= {"module": module, "x": spy.Tensor.ones(device, (3,), "float").with_grads()}
    assert place_of("f = module.f.bwds\n\n\nf(x, x)", **names) == ("user_program.py", 4)


def test_a_warning_is_shown_once_for_a_line() -> None:
    program = compile("for _ in range(3):\n    warn('again', DeprecationWarning)", "user.py", "exec")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        exec(program, {"warn": warn, "__name__": "user"})
    assert [(each.filename, each.lineno, each.category) for each in told] == [
        ("user.py", 2, DeprecationWarning)
    ]


def test_frames_of_pytorch_are_passed_over() -> None:
    inner = {"warn": warn, "__name__": "torch.autograd"}
    exec("def apply():\n    warn('deep')", inner)
    with pytest.warns(UserWarning, match="deep") as told:
        inner["apply"]()
    assert told[0].filename == __file__
