"""Derivatives through the whole system: forward mode = reverse mode = finite differences, and once nested."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import slangrad as spy
from tests.backends import COMPILED
from tests.gradients.custom_programs import CUSTOM_PROGRAMS
from tests.gradients.programs import PROGRAMS, REPRESENTATIVE, Program, points

STEP = 1e-6

DERIVATIVES = """
double2 jvp(double x, double y)
{
    let along_x = fwd_diff(f)(diffPair(x, 1.0lf), diffPair(y, 0.0lf)).d;
    let along_y = fwd_diff(f)(diffPair(x, 0.0lf), diffPair(y, 1.0lf)).d;
    return double2(along_x, along_y);
}

[Differentiable]
double vjp_x(double x, double y)
{
    var px = diffPair(x, 0.0lf);
    var py = diffPair(y, 0.0lf);
    bwd_diff(f)(px, py, 1.0lf);
    return px.d;
}

double second_forward(double x, double y) { return fwd_diff(vjp_x)(diffPair(x, 1.0lf), diffPair(y, 0.5lf)).d; }

double2 second_reverse(double x, double y)
{
    var px = diffPair(x, 0.0lf);
    var py = diffPair(y, 0.0lf);
    bwd_diff(vjp_x)(px, py, 1.0lf);
    return double2(px.d, py.d);
}
"""


@cache
def default(backend: str = "cpu") -> spy.Device:
    return spy.create_device(backend=backend)


@cache
def exact(backend: str = "cpu", lanes: int = 0, cpu: str = "") -> spy.Device:
    """A device whose results are those of each operation, bit for bit."""
    options = replace(spy.Options.from_environment(), lanes=lanes, cpu=cpu, contraction=False)
    return spy.create_device(backend=backend, options=options)


@cache
def load(device: spy.Device, program: Program) -> spy.Module:
    return spy.Module.load_from_source(device, program.name, program.text + DERIVATIVES)


def reverse(
    device: spy.Device, module: spy.Module, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    tx = spy.Tensor.from_numpy(device, x).with_grads()
    ty = spy.Tensor.from_numpy(device, y).with_grads()
    result = spy.Tensor.from_numpy(device, np.zeros(x.shape)).with_grads()
    result.grad.copy_from_numpy(np.ones(x.shape))
    module.f.bwds(tx, ty, _result=result)
    return tx.grad.to_numpy(), ty.grad.to_numpy()


@pytest.mark.sampled(30)
@pytest.mark.parametrize("program", (*PROGRAMS, *CUSTOM_PROGRAMS), ids=lambda p: p.name)
@pytest.mark.parametrize("backend", COMPILED)
def test_modes_agree(program: Program, backend: str) -> None:
    device = default(backend)
    module, (x, y) = load(device, program), points(37)
    call = lambda name, x, y: getattr(module, name)(x, y, _result="numpy")
    gx, gy = reverse(device, module, x, y)
    np.testing.assert_allclose(call("jvp", x, y), np.stack([gx, gy], -1), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(call("vjp_x", x, y), gx, rtol=1e-12, atol=1e-12)
    if program.name != "no_derivative":  # finite differences do not know what is not to be followed
        np.testing.assert_allclose(
            (call("f", x + STEP, y) - call("f", x - STEP, y)) / (2 * STEP), gx, rtol=2e-6, atol=2e-7
        )
        np.testing.assert_allclose(
            (call("f", x, y + STEP) - call("f", x, y - STEP)) / (2 * STEP), gy, rtol=2e-6, atol=2e-7
        )


@pytest.mark.sampled(20)
@pytest.mark.parametrize("program", (*PROGRAMS, *CUSTOM_PROGRAMS), ids=lambda p: p.name)
@pytest.mark.parametrize("backend", COMPILED)
def test_second_derivatives(program: Program, backend: str) -> None:
    module, (x, y) = load(default(backend), program), points(11)
    call = lambda name, x, y: getattr(module, name)(x, y, _result="numpy")
    forward = call("second_forward", x, y)
    both = call("second_reverse", x, y)
    np.testing.assert_allclose(both[..., 0] + 0.5 * both[..., 1], forward, rtol=1e-10, atol=1e-10)
    slope = (call("vjp_x", x + STEP, y + STEP / 2) - call("vjp_x", x - STEP, y - STEP / 2)) / (2 * STEP)
    np.testing.assert_allclose(slope, forward, rtol=5e-6, atol=1e-6)


@cache
def oracle_gradients(program: Program, size: int) -> tuple[np.ndarray, np.ndarray]:
    oracle = exact("interpreter")
    return reverse(oracle, load(oracle, program), *points(size))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name in REPRESENTATIVE], ids=lambda p: p.name)
def test_lanes_agree_with_the_oracle(program: Program, lanes: int) -> None:
    machine = exact(lanes=lanes)
    found = reverse(machine, load(machine, program), *points(19))
    for a, b in zip(found, oracle_gradients(program, 19), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("program", CUSTOM_PROGRAMS, ids=lambda p: p.name)
def test_custom_derivatives_agree_with_the_oracle(program: Program) -> None:
    machine = exact()
    found = reverse(machine, load(machine, program), *points(5))
    for a, b in zip(found, oracle_gradients(program, 5), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [0, 1, 3, 255, 257, 5001])
@pytest.mark.parametrize("backend", COMPILED)
def test_sizes(size: int, backend: str) -> None:
    device = default(backend)
    module, (x, y) = load(device, PROGRAMS[0]), points(size)
    gx, gy = reverse(device, module, x, y)
    np.testing.assert_allclose(gx, 2 * x * y + np.cos(x) / y + y * np.exp(-x * y), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gy, x * x - np.sin(x) / y**2 + x * np.exp(-x * y), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("backend", COMPILED)
def test_strided_views(backend: str) -> None:
    device = default(backend)
    module, (x, y) = load(device, PROGRAMS[0]), points(60)
    whole_x = spy.Tensor.from_numpy(device, x.reshape(6, 10)).with_grads()
    whole_y = spy.Tensor.from_numpy(device, y.reshape(6, 10)).with_grads()
    result = spy.Tensor.from_numpy(device, np.zeros((3, 5))).with_grads()
    result.grad.copy_from_numpy(np.ones((3, 5)))
    module.f.bwds(whole_x[::2, 1::2], whole_y[1::2, ::2], _result=result)
    px, py = x.reshape(6, 10)[::2, 1::2], y.reshape(6, 10)[1::2, ::2]
    wanted = np.zeros((6, 10))
    wanted[::2, 1::2] = 2 * px * py + np.cos(px) / py + py * np.exp(-px * py)
    np.testing.assert_allclose(whole_x.grad.to_numpy(), wanted, rtol=1e-13, atol=1e-15)
    assert np.count_nonzero(whole_y.grad.to_numpy()) == 15


@pytest.mark.parametrize("threads", ["1", "2"])
def test_gradients_sum_over_broadcast_dimensions(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_THREADS", threads)
    device = spy.create_device()
    module = load(device, PROGRAMS[0])
    x, y = points(700)[0].reshape(100, 7), points(7)[1]
    tx, ty = (spy.Tensor.from_numpy(device, v).with_grads() for v in (x, y))
    result = spy.Tensor.from_numpy(device, np.zeros((100, 7))).with_grads()
    result.grad.copy_from_numpy(np.ones((100, 7)))
    module.f.bwds(tx, ty, _result=result)
    wanted = (x * x - np.sin(x) / y**2 + x * np.exp(-x * y)).sum(0)
    np.testing.assert_allclose(ty.grad.to_numpy(), wanted, rtol=1e-12)
    again = spy.Tensor.from_numpy(device, y).with_grads()
    module.f.bwds(tx, again, _result=result)
    np.testing.assert_array_equal(again.grad.to_numpy(), ty.grad.to_numpy())
