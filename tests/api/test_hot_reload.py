"""Files that change while a program runs: the next call uses the new text, whatever holds on to the old one."""

import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy

F = np.float32

MAIN = """
import part;
#include "given.h"

struct Pair { float a; float b; }

[Differentiable]
float f(float x) { return scaled(x) * x + GIVEN; }
float first(Pair p) { return p.a; }

[shader("compute")]
[numthreads(4, 1, 1)]
void fill(uint3 at : SV_DispatchThreadID, uniform float by, RWStructuredBuffer<float> into)
{
    into[at.x] = by * scaled(at.x);
}

void whole(uint3 dispatchThreadID, RWStructuredBuffer<float> into)
{
    if (dispatchThreadID.x < 4)
        into[dispatchThreadID.x] = scaled(1);
}
"""
PART = "[Differentiable] public float scaled(float x) { return 2 * x; }"


class Files:
    """The files of a program, and the device that has loaded it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("main.slang", MAIN)
        self.write("part.slang", PART)
        self.write("given.h", "#define GIVEN 1")
        self.device = spy.create_device(include_paths=[folder])
        self.module = spy.Module.load_from_file(self.device, "main.slang")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        """Change a file and look."""
        text = (self.folder / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))
        self.device.hot_reload_check()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.device.close()


@pytest.mark.parametrize(
    ("name", "old", "new", "result"),
    [
        ("main.slang", "* x +", "+ x +", 3 * 2 + 3 + 1),
        ("part.slang", "2 * x", "5 * x", 5 * 9 + 1),
        ("given.h", "1", "7", 2 * 9 + 7),
    ],
)
def test_a_file_an_import_and_an_include(files: Files, name: str, old: str, new: str, result: float) -> None:
    function = files.module.f
    assert function(3.0) == 19
    files.change(name, old, new)
    assert function(3.0) == files.module.f(3.0) == result


def test_what_was_made_before_goes_on(files: Files) -> None:
    module, device = files.module, files.device
    x = spy.Tensor.from_numpy(device, np.array([1, 2, 3], F)).with_grads()
    y = spy.Tensor.zeros(device, (3,), "float").with_grads()
    bound = module.f.bind_call(x, _result=y)
    backward = module.f.bwds
    pair, first = module.Pair, module.first
    data = np.array([(1, 2), (3, 4)], [("a", F), ("b", F)])
    pairs = spy.Tensor.from_numpy(device, data, dtype=pair)
    program = device.load_program("main.slang", ["fill"])
    kernel, pipeline = device.create_compute_kernel(program), device.create_compute_pipeline(program)
    buffer = spy.Tensor.zeros(device, (4,), "float")

    def results() -> list[list[float]]:
        found = [[*module.f(x).to_numpy()]]
        bound()
        found.append([*y.to_numpy()])
        x.grad.clear()
        y.grad.copy_from_numpy(np.ones(3, F))
        backward(x, _result=y)
        found.append([*x.grad.to_numpy()])
        found.append([*first(pairs).to_numpy()])
        kernel.dispatch([4, 1, 1], by=1.0, into=buffer.storage)
        found.append([*buffer.to_numpy()])
        encoder = device.create_command_encoder()
        with encoder.begin_compute_pass() as compute:
            entry = spy.ShaderCursor(compute.bind_pipeline(pipeline)).find_entry_point(0)
            entry.by, entry.into = 10.0, buffer.storage
            compute.dispatch([4, 1, 1])
        device.submit_command_buffer(encoder.finish())
        found.append([*buffer.to_numpy()])
        module.whole.dispatch([4, 1, 1], into=buffer.storage)
        return [*found, [*buffer.to_numpy()]]

    def expected(k: float) -> list[list[float]]:
        values = [k + 1, 4 * k + 1, 9 * k + 1]
        filled = [0, k, 2 * k, 3 * k]
        return [
            values,
            values,
            [2 * k, 4 * k, 6 * k],
            [1, 3],
            filled,
            [10 * each for each in filled],
            [k] * 4,
        ]

    assert results() == expected(2)
    files.change("part.slang", "2 * x", "3 * x")
    assert results() == expected(3)
    assert module.Pair is pair
    assert first(pairs[1:]).to_numpy().tolist() == [3]


def test_names_that_come_and_go(files: Files) -> None:
    module = files.module
    first = module.first
    assert module.find_function("second") is None
    files.change("main.slang", "float first(Pair p) { return p.a; }", "float second(Pair p) { return p.b; }")
    assert module.second({"a": 1.0, "b": 2.0}) == 2
    assert module.find_function("first") is None
    with pytest.raises(ValueError, match=r"(?s)E1012.*Could not find function 'first'"):
        first({"a": 1.0, "b": 2.0})


def test_a_struct_whose_layout_changed(files: Files) -> None:
    module = files.module
    old = spy.Tensor.zeros(files.device, (2,), module.Pair)
    pair = module.Pair
    assert module.first(old).to_numpy().tolist() == [0, 0]
    files.change("main.slang", "float a; float b;", "float c; float a; float b;")
    with pytest.raises(
        ValueError, match=r"its 'Pair' is \{ float a; float b; \}, and the module's is \{ float c;"
    ):
        module.first(old)
    assert pair.layout.size == 12
    assert list(pair.fields) == ["c", "a", "b"]
    data = np.array([(1, 2, 3), (4, 5, 6)], [("c", F), ("a", F), ("b", F)])
    assert module.first(spy.Tensor.from_numpy(files.device, data, dtype=pair)).to_numpy().tolist() == [2, 5]


def test_a_type_that_is_gone_is_named(files: Files) -> None:
    pair = files.module.Pair
    files.change("main.slang", "Pair", "Couple")
    with pytest.raises(spy.CallError, match="has no type 'Pair' any more"):
        _ = pair.fields
    assert files.module.Couple.layout.size == 8


def test_broken_text_is_reported_and_what_was_loaded_goes_on(files: Files) -> None:
    events: list[spy.ShaderHotReloadEvent] = []
    number = files.device.register_shader_hot_reload_callback(events.append)
    assert files.module.f(3.0) == 19
    with pytest.warns(spy.ReloadWarning, match=r"(?s)E0301.*part\.slang:1:\d+.*\^"):
        files.change("part.slang", "2 * x", "2 * y")
    assert files.module.f(3.0) == 19
    (error,) = events[-1].errors
    assert isinstance(error, spy.SlangCompileError)
    assert "'y' is not declared" in str(error)
    files.device.hot_reload_check()  # nothing has changed since
    assert len(events) == 1
    files.change("part.slang", "2 * y", "4 * x")
    assert files.module.f(3.0) == 37
    assert events[-1].errors == ()
    assert events[-1].device is files.device
    with pytest.warns(spy.ReloadWarning):
        files.change("main.slang", "import part;", "import")  # the part is not read any more
    files.device.hot_reload_check()
    assert len(events) == 3
    files.change("main.slang", "import\n", "import part;\n")
    assert (len(events), files.module.f(3.0)) == (4, 37)
    files.device.unregister_shader_hot_reload_callback(number)
    files.device.reload_all_programs()
    assert len(events) == 4


def test_a_file_that_is_deleted_and_comes_back(files: Files) -> None:
    assert files.module.f(3.0) == 19
    (files.folder / "part.slang").unlink()
    with pytest.warns(spy.ReloadWarning, match="there is no module 'part'"):
        files.device.hot_reload_check()
    assert files.module.f(3.0) == 19
    files.write("part.slang", PART.replace("2", "6"))
    files.device.hot_reload_check()
    assert files.module.f(3.0) == 55


def test_a_file_that_is_saved_as_it_was_reloads_nothing(files: Files) -> None:
    files.module.f(3.0)
    before = files.device.slang_session.generation
    os.utime(files.folder / "part.slang", ns=(1, 1))
    files.device.hot_reload_check()
    assert files.device.slang_session.generation is before
    files.device.reload_all_programs()
    assert files.device.slang_session.generation is not before
    assert files.module.f(3.0) == 19


def test_a_thread_notices_and_ends_with_the_device(files: Files) -> None:
    def watchers() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "slangrad hot reload"]

    assert files.module.f(3.0) == 19
    assert len(watchers()) == 1
    files.device.set_hot_reload_delay(10)
    files.write("part.slang", PART.replace("2", "3"))
    end = time.monotonic() + 20
    while files.module.f(3.0) == 19 and time.monotonic() < end:
        time.sleep(0.01)
    assert files.module.f(3.0) == 28
    others = [each for each in spy.Device.get_created_devices() if each is not files.device]
    files.device.close()
    if not any(each.hot_reload.is_watching for each in others):
        while watchers() and time.monotonic() < end:
            time.sleep(0.01)
        assert not watchers()


def test_without_hot_reload_only_a_request_reloads(tmp_path: Path) -> None:
    (tmp_path / "m.slang").write_text("int f() { return 1; }")
    with spy.create_device(include_paths=[tmp_path], enable_hot_reload=False) as device:
        module = spy.Module.load_from_file(device, "m")
        assert not device.hot_reload.is_watching
        assert module.f() == 1
        (tmp_path / "m.slang").write_text("int f() { return 20; }")
        assert module.f() == 1
        device.reload_all_programs()
        assert module.f() == 20


def test_modules_that_were_linked_or_have_a_prelude(tmp_path: Path) -> None:
    (tmp_path / "open.slang").write_text("extern static const int N; int f(int x) { return N * x; }")
    device = spy.create_device(include_paths=[tmp_path])
    module = spy.Module.load_from_file(device, "open")
    five = module.f.constants({"N": 5})
    six = module.f.prelude("export static const int N = 6;")
    assert (five(1), six(1)) == (5, 6)
    (tmp_path / "open.slang").write_text("extern static const int N; int f(int x) { return N * x + 1; }")
    device.hot_reload_check()
    assert (five(1), six(1)) == (6, 7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_notices_changes_of_its_own(files: Files) -> None:
    assert files.module.f(3.0) == 19
    files.device.set_hot_reload_delay(10)
    child = os.fork()
    if child == 0:
        try:
            files.write("part.slang", PART.replace("2", "3"))
            end = time.monotonic() + 20
            while files.module.f(3.0) == 19 and time.monotonic() < end:
                time.sleep(0.01)
            os._exit(0 if files.module.f(3.0) == 28 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_autograd_goes_back_the_way_it_came(tmp_path: Path) -> None:
    """A reload between a call and its backward: the gradient is that of the text that was called."""
    torch = pytest.importorskip("torch")
    (tmp_path / "m.slang").write_text("[Differentiable] float f(float x) { return x * x; }")
    device = spy.create_device(include_paths=[tmp_path])
    module = spy.Module.load_from_file(device, "m")
    x = torch.tensor([3.0], requires_grad=True)
    y = module.f(x)
    (tmp_path / "m.slang").write_text("[Differentiable] float f(float x) { return 5 * x; }")
    device.hot_reload_check()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y.backward()
    assert x.grad.item() == 6
    x.grad = None
    module.f(x).backward()
    assert x.grad.item() == 5
