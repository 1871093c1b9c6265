"""Kernels from the disk do what they did, and are made anew whenever anything about them is another."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.runtime import object_code
from slangrad.runtime.cpu import NativeKernel
from slangrad.runtime.image import KernelImage

POLYNOMIAL = """
[Differentiable]
float polynomial(float a, float x) { return a * x * x + 3 * x; }
"""
POINTS = np.array([1, 2, 3, 4, 5], np.float32)


def gradient(text: str = POLYNOMIAL, **settings: object) -> list[float]:
    device = spy.create_device(**settings)
    module = spy.Module.load_from_source(device, "m", text)
    x = spy.Tensor.from_numpy(device, POINTS).with_grads()
    module.polynomial.bwds(2.0, x)
    return x.grad.to_numpy().tolist()


WANTED = (4 * POINTS + 3).tolist()


def test_a_second_device_takes_the_kernel_from_the_disk(compilations: list[str]) -> None:
    assert gradient() == WANTED
    assert len(compilations) == 1
    assert gradient() == WANTED
    assert len(compilations) == 1


def test_another_text_is_another_kernel(compilations: list[str]) -> None:
    assert gradient() == WANTED
    assert gradient(POLYNOMIAL.replace("3 * x", "5 * x")) == (4 * POINTS + 5).tolist()
    assert len(compilations) == 2


def test_llvm_loads_kernels_from_the_disk_where_our_loader_does_not_serve(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gradient() == WANTED
    monkeypatch.setattr(object_code, "is_loadable_here", lambda: False)
    assert gradient() == WANTED
    assert len(compilations) == 1


def test_no_kernel_of_the_interpreter_is_kept(folder: Path) -> None:
    assert gradient(backend="interpreter") == WANTED
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.parametrize(
    "setting", [{"lanes": 4}, {"contraction": False}, {"optimize": 1}, {"cpu": "x86-64"}]
)
def test_other_settings_are_another_kernel(compilations: list[str], setting: dict[str, object]) -> None:
    assert gradient() == WANTED
    assert gradient(options=spy.Options(**setting)) == WANTED
    assert gradient(options=spy.Options(**setting)) == WANTED
    assert len(compilations) == 2


@pytest.mark.parametrize("setting", [{"threads": 1}, {"progress": False}])
def test_some_settings_are_not_of_the_kernel(compilations: list[str], setting: dict[str, object]) -> None:
    assert gradient(options=spy.Options(threads=2)) == gradient(options=spy.Options(**setting)) == WANTED
    assert len(compilations) == 1


def test_defines_are_part_of_the_key(compilations: list[str]) -> None:
    text = POLYNOMIAL.replace("3 * x", "N * x")
    assert gradient(text, defines={"N": "3"}) == WANTED
    assert gradient(text, defines={"N": "4"}) == (4 * POINTS + 4).tolist()
    assert len(compilations) == 2


def test_imported_and_included_texts_are_part_of_the_key(tmp_path: Path, compilations: list[str]) -> None:
    (tmp_path / "deep.slang").write_text("static const float three = 3;")
    (tmp_path / "constants.slang").write_text("__exported import deep;")
    (tmp_path / "macros.h").write_text("#define TIMES(a, b) (a * b)\n")
    text = '#include "macros.h"\nimport constants;\n' + POLYNOMIAL.replace("3 * x", "TIMES(three, x)")
    assert gradient(text, include_paths=[tmp_path]) == WANTED
    assert gradient(text, include_paths=[tmp_path]) == WANTED
    assert len(compilations) == 1
    (tmp_path / "deep.slang").write_text("static const float three = 7;")
    assert gradient(text, include_paths=[tmp_path]) == (4 * POINTS + 7).tolist()
    (tmp_path / "macros.h").write_text("#define TIMES(a, b) (a * b * 2)\n")
    assert gradient(text, include_paths=[tmp_path]) == (4 * POINTS + 14).tolist()
    assert len(compilations) == 3


@pytest.mark.parametrize("size", [0, 10, 60, 300])
def test_damaged_entries_are_made_again(folder: Path, compilations: list[str], size: int) -> None:
    assert gradient() == WANTED
    for file in (each for each in folder.rglob("*") if each.is_file()):
        file.write_bytes(file.read_bytes()[:size])
    assert gradient() == WANTED
    assert gradient() == WANTED
    assert len(compilations) == 2


def test_nothing_is_kept_where_nothing_may_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compilations: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path / "file" / "inside"))
    assert gradient() == gradient() == WANTED
    monkeypatch.setenv("SLANGRAD_CACHE", "off")
    assert gradient() == gradient() == WANTED
    assert len(compilations) == 4


def test_checks_between_passes_are_not_skipped(compilations: list[str]) -> None:
    options = spy.Options(verify=True)
    assert gradient(options=options) == gradient(options=options) == WANTED
    assert len(compilations) == 2


def test_a_kernel_from_the_disk_reports_the_same_places() -> None:
    text = "float pick(int i)\n{\n    float values[3] = { 1, 2, 3 };\n    return values[i];\n}\n"
    shown = []
    for _ in range(2):
        module = spy.Module.load_from_source(spy.create_device(), "places", text)
        with pytest.raises(spy.BoundsError) as caught:
            module.pick(7)
        shown.append(str(caught.value))
    assert shown[0] == shown[1]
    assert "places:4" in shown[0] and "return values[i];" in shown[0]


def test_a_kernel_from_the_disk_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'void tell(int i) { printf("i is %d\\n", i); }'
    for _ in range(2):
        spy.Module.load_from_source(spy.create_device(), "m", text).tell(np.arange(3, dtype=np.int32))
    assert capsys.readouterr().out == "i is 0\ni is 1\ni is 2\n" * 2


def test_stages_of_a_kernel_from_the_disk_can_still_be_asked_for() -> None:
    for _ in range(2):
        module = spy.Module.load_from_source(spy.create_device(), "m", POLYNOMIAL)
        assert module.polynomial(2.0, 3.0) == 27
        assert "fmul" in module.polynomial.compile(2.0, 3.0).text("llvm")


def test_kernels_of_users_come_from_the_disk(compilations: list[str]) -> None:
    text = """
    RWStructuredBuffer<float> target;
    [shader("compute")] [numthreads(8, 1, 1)]
    void main(uint3 at : SV_DispatchThreadID, uniform float factor) { target[at.x] += factor * at.x; }
    """
    for _ in range(2):
        device = spy.create_device()
        module = device.load_module_from_source("user", text)
        kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
        values = spy.Tensor.from_numpy(device, np.ones(8, np.float32))
        kernel.dispatch([8, 1, 1], vars={"target": values.storage}, factor=2.0)
        assert values.to_numpy().tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    assert len(compilations) == 1


def test_each_instance_of_an_entry_point_is_kept(compilations: list[str]) -> None:
    text = """
        interface INumber { static float get(); }
        struct One : INumber { static float get() { return 1; } }
        struct Two : INumber { static float get() { return 2; } }
        [shader("compute")] [numthreads(4, 1, 1)]
        void main<T : INumber, let N : int>(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<float> x)
        {
            x[id.x] = T.get() * N;
        }
    """
    for count in (3, 3):
        device = spy.create_device()
        module = device.load_module_from_source("instances", text)
        buffer = device.create_buffer(element_count=4, struct_size=4)
        for name, number in (("One", 1), ("Two", 1), ("Two", 3)):
            arguments = [spy.SpecializationArg.from_type(name), spy.SpecializationArg.from_expr(str(number))]
            program = device.link_program([module], [module.entry_point("main").specialize(arguments)])
            device.create_compute_kernel(program).dispatch([4, 1, 1], x=buffer)
            wanted = number * ("One", "Two").index(name) + number
            assert buffer.to_numpy().view(np.float32).tolist() == [wanted] * 4
        assert len(compilations) == count


def test_an_image_has_all_fields_of_a_kernel() -> None:
    """But for addresses, which are made when the code is loaded, and what follows from these."""
    mine = {each.name for each in fields(KernelImage)} - {"functions", "about"}
    theirs = {each.name for each in fields(NativeKernel) if each.init} - {
        "entry",
        "drain",
        "share",
        "reduce",
        "plan",
        "fallback",
    }
    assert mine == theirs


PROGRAM = """
import json, sys
import numpy as np
import slangrad as spy
device = spy.create_device()
module = spy.Module.load_from_source(device, "m", sys.argv[1])
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4, 5], np.float32)).with_grads()
module.polynomial.bwds(2.0, x)
print(json.dumps([x.grad.to_numpy().tolist(), "llvmlite" in sys.modules]))
"""


def test_processes_share_kernels_and_may_fill_the_cache_at_once(folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, POLYNOMIAL]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) for _ in range(2)]
    assert [json.loads(each.communicate()[0])[0] for each in both] == [WANTED, WANTED]
    later = subprocess.run(command, capture_output=True, check=True, env=os.environ)
    assert json.loads(later.stdout) == [WANTED, False]


@pytest.mark.parametrize("option", ["shader_cache_path", "module_cache_path"])
def test_a_device_may_have_a_folder_of_its_own(compilations: list[str], tmp_path: Path, option: str) -> None:
    """What the user's folder has is not looked for there, and what it counts is of this device."""
    assert gradient() == WANTED
    seen = []
    for _ in range(2):
        device = spy.create_device(**{option: tmp_path})
        before = device.shader_cache_stats
        module = spy.Module.load_from_source(device, "m", POLYNOMIAL)
        x = spy.Tensor.from_numpy(device, POINTS).with_grads()
        module.polynomial.bwds(2.0, x)
        assert x.grad.to_numpy().tolist() == WANTED
        after = device.shader_cache_stats
        seen.append(
            (before.entry_count, before.hit_count + before.miss_count, after.hit_count, after.miss_count)
        )
        assert after.entry_count > 0
    assert len(compilations) == 2
    assert seen[0] == (0, 0, 0, 1)
    assert seen[1] == (after.entry_count, 0, 1, 0)


def test_a_folder_without_room_keeps_nothing(tmp_path: Path) -> None:
    assert gradient(shader_cache_path=tmp_path, shader_cache_size=0) == WANTED
    assert spy.create_device(shader_cache_path=tmp_path).shader_cache_stats.entry_count == 0
