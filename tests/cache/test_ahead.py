"""Kernels for a GPU that are compiled without one: by a program on the processors, and by the command."""

from dataclasses import replace
from stat import S_IRWXU
from unittest.mock import patch

import numpy as np
import pytest
from typer.testing import CliRunner

import slangrad as spy
from slangrad import graph, pipeline
from slangrad.backends import cpu_identity
from slangrad.base.diagnostics import CompileWarning
from slangrad.base.disk import identity
from slangrad.base.disk.store import Store
from slangrad.base.options import Options
from slangrad.cache import settings_text
from slangrad.cli.main import app
from slangrad.runtime.cuda import machine_code
from slangrad.runtime.cuda.image import CudaImage
from slangrad.runtime.cuda.machine_code import ahead_key, keep_ahead
from tests.runtime.fake_cuda import Result, fake_gpu

TEXT = """
[Differentiable] float poly(float x, float y) { return x * x * y; }
"""
KERNEL = """
[shader("compute")] [numthreads(32, 1, 1)]
void twice(uint3 t : SV_DispatchThreadID, RWTensor<float, 1> x) { if (t.x < x.shape[0]) x[t.x] = 2 * x[t.x]; }
"""
TARGET = "cuda:sm_90"


@pytest.fixture
def ptxas(tmp_path, monkeypatch):
    """A stand-in, whose machine code is the PTX itself, as on the fake GPU."""
    program = tmp_path / "ptxas"
    program.write_text('#!/bin/sh\n[ "$1" = "-arch=sm_90" ] && cp "$4" "$3"\n')
    program.chmod(S_IRWXU)
    monkeypatch.setattr(machine_code, "ptxas", lambda: str(program))


@pytest.fixture
def options(tmp_path):
    store = Store(str(tmp_path / "kernels"))
    return replace(Options.from_environment(), store=store, verify=False, dump=())


def refused(*arguments):
    raise AssertionError("it is compiled")


def kernel_of(device):
    program = device.link_program(
        [loaded := device.load_module_from_source("ahead_kernel", KERNEL)], [loaded.entry_point("twice")]
    )
    return device.create_compute_kernel(program)


def test_a_program_on_the_processors_fills_the_cache_of_a_gpu(options, ptxas, tmp_path):
    def run(device):
        module = spy.Module.load_from_source(device, "ahead", TEXT)
        x = spy.Tensor.from_numpy(device, np.arange(5, dtype=np.float32)).with_grads()
        y = module.poly(x, 3).with_grads(spy.Tensor.ones(device, (5,), "float"))
        module.poly.bwds(x, 3, _result=y)
        kernel = kernel_of(device)
        kernel.dispatch((5, 1, 1), x=y)
        return [y.to_numpy().tolist(), x.grad.to_numpy().tolist()]

    with fake_gpu() as driver:
        expected = run(spy.create_device("cpu", options=replace(options, also=(TARGET,))))
        assert expected == [[0, 6, 24, 54, 96], [0, 6, 12, 18, 24]]
        (tmp_path / "kernels").rename(tmp_path / "moved")
        moved = replace(options, store=Store(str(tmp_path / "moved")))
        gpu = spy.create_device("cuda", options=moved)
        with (
            patch.object(pipeline, "compile_kernel", refused),
            patch.object(pipeline, "compile_entry_point", refused),
        ):
            assert run(gpu) == expected
        assert not driver.linked
        module = spy.Module.load_from_source(gpu, "ahead", TEXT)
        numbers = spy.Tensor.from_numpy(gpu, np.float32([[1, 2], [3, 4]]))[:, 1]
        assert module.poly(numbers, numbers).to_numpy().tolist() == [8, 64]  # not among the calls
        assert len(driver.linked) == 1


def test_texts_that_import_each_other_by_name(options, ptxas):
    """The second text finds the first, although no call asked for the first one's kernels."""
    first = "public float twice(float x) { return 2 * x; }"
    second = 'import "ahead_first"; float f(float x) { return twice(x) + 1; }'

    def run(device):
        device.load_module_from_source("ahead_first", first)
        module = spy.Module.load_from_source(device, "ahead_second", second)
        return module.f(spy.Tensor.ones(device, (3,), "float")).to_numpy().tolist()

    with fake_gpu() as driver:
        assert run(spy.create_device("cpu", options=replace(options, also=(TARGET,)))) == [3, 3, 3]
        with patch.object(pipeline, "compile_kernel", refused):
            assert run(spy.create_device("cuda", options=options)) == [3, 3, 3]
        assert not driver.linked


def test_kernels_of_graphs_are_among_them(options, ptxas):
    """Maps, sums, products, loops and derivatives."""
    random = np.random.default_rng(5)
    x, w = random.normal(size=(12, 8)).astype(np.float32), random.normal(size=(8, 4)).astype(np.float32)

    def loss(weights, rows):
        return (np.tanh(rows @ weights[0]) ** 2).mean()

    def total(start, rows):
        return graph.scan(lambda state, row: (np.sin(state) + row, None), start, rows)[0]

    def run(device):
        rows, weights = (spy.Tensor.from_numpy(device, array) for array in (x, w))
        start = spy.Tensor.zeros(device, (8,), "float")
        step = graph.train(loss, spy.optim.SGD([weights], lr=0.1))
        losses = [step(rows) for _ in range(2)]
        return [graph.jit(total)(start, rows).to_numpy(), np.array(losses), step.parameters[0].to_numpy()]

    with fake_gpu() as driver:
        expected = run(spy.create_device("cpu", options=replace(options, also=(TARGET,))))
        with patch.object(pipeline, "compile_kernel", refused):
            results = run(spy.create_device("cuda", options=options))
        assert not driver.linked
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)  # float32: sums in another order


def test_the_command_fills_a_cache_that_can_be_moved(options, ptxas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ahead_kernel.slang").write_text(KERNEL)

    def run(folder):
        gpu = spy.create_device("cuda", options=replace(options, store=Store(str(folder))))
        loaded = gpu.load_module("ahead_kernel.slang")
        kernel = gpu.create_compute_kernel(gpu.link_program([loaded], [loaded.entry_point("twice")]))
        y = spy.Tensor.from_numpy(gpu, np.arange(5, dtype=np.float32))
        kernel.dispatch((5, 1, 1), x=y)
        assert y.to_numpy().tolist() == [0, 2, 4, 6, 8]

    with fake_gpu() as driver:
        result = CliRunner().invoke(app, ["compile", "--target", TARGET, "-o", "kept", "ahead_kernel.slang"])
        assert result.exit_code == 0, result.output
        (tmp_path / "kept").rename(tmp_path / "moved")
        with patch.object(pipeline, "compile_entry_point", refused):
            run(tmp_path / "moved")
        assert not driver.linked
        run(tmp_path / "empty")
        assert len(driver.linked) == 1


def test_a_call_that_the_gpu_cannot_run_is_told(options):
    text = """
    groupshared float s[60000];
    [numthreads(4, 1, 1)] void large(uint3 t : SV_DispatchThreadID, uint i : SV_GroupIndex, RWTensor<float, 1> x)
    {
        for (int k = 0; k < 60000; k++) s[k] = i;
        GroupMemoryBarrierWithGroupSync();
        x[t.x] = s[(t.x * 4001) % 60000];
    }
    """
    device = spy.create_device("cpu", options=replace(options, also=(TARGET,)))
    loaded = device.load_module_from_source("too_large", text)
    with pytest.warns(CompileWarning, match=r"no kernel is kept for cuda:sm_90: .*E9003.*groupshared"):
        device.create_compute_kernel(device.link_program([loaded], [loaded.entry_point("large")]))


def test_machine_code_that_a_driver_refuses_is_made_anew(options, ptxas):
    with fake_gpu() as driver:
        device = spy.create_device("cpu", options=replace(options, also=(TARGET,)))
        spy.Module.load_from_source(device, "refused", TEXT).poly(spy.Tensor.ones(device, (3,), "float"), 2)
        load = driver.cuModuleLoadData
        answers = [(Result.CUDA_ERROR_NO_BINARY_FOR_GPU, 0)]
        driver.cuModuleLoadData = lambda image: answers.pop() if answers else load(image)
        gpu = spy.create_device("cuda", options=options)
        module = spy.Module.load_from_source(gpu, "refused", TEXT)
        assert module.poly(spy.Tensor.ones(gpu, (3,), "float"), 2).to_numpy().tolist() == [2, 2, 2]
        assert len(driver.linked) == 1 and not answers


def test_without_ptxas_the_driver_makes_the_code(options, monkeypatch):
    image = CudaImage("k", 8, b"ptx", "sm_90")
    for program in (None, "/bin/false"):
        monkeypatch.setattr(machine_code, "ptxas", lambda program=program: program)
        keep_ahead(options.store, image)
        assert options.store.get(ahead_key(image)) is None


def test_keys_do_not_depend_on_the_machine_that_fills_the_cache(options):
    assert settings_text(replace(options, target=TARGET)) == settings_text(replace(options, also=("cpu",)))
    first = identity._digest(str(identity.PACKAGE), ["/cache.py"])
    assert len(first) == 40 and cpu_identity() == cpu_identity.__wrapped__()
    files = identity._files(str(identity.PACKAGE))
    whole = identity._digest(str(identity.PACKAGE), [name for name, _, _ in files])
    assert identity.compiler_identity() == whole
