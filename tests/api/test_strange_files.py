"""What stands where a file should be, and files that modules of others have no business with."""

import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import slangrad as spy
from slangrad.base.disk.store import Store
from slangrad.base.disk.whole_files import read_whole
from slangrad.base.module_file import PackedModule, to_bytes
from slangrad.base.options import Options

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
SECRET = "root:x:0:0 secret"


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """A hang ends with a TimeoutError."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make(kind: str, path: Path) -> None:
    """Something that is no file."""
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a socket":
        here = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.chdir(here)


KINDS = ("a FIFO", "a socket", "a device", "a folder")


def error_of(device: spy.Device, text: str) -> str:
    with pytest.raises(spy.CompileError) as caught:
        spy.Module.load_from_source(device, "asks", text)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_where_a_source_should_be(tmp_path: Path, kind: str) -> None:
    for name in ("m.slang", "h.h", "p.slang-module"):
        make(kind, tmp_path / name)
    device = spy.create_device(include_paths=[tmp_path])
    for name in ("m.slang", "p.slang-module"):
        with pytest.raises(spy.CompileError) as caught:
            spy.Module.load_from_file(device, name)
        where = f"E0327]: '{name}' cannot be read: {tmp_path / name}: it is {kind}, and a file is needed"
        assert where in str(caught.value)
        assert f"it is {kind}" in error_of(device, f'import "{name}";')
    shown = error_of(device, 'int a;\n#include "h.h"\n')
    assert f"E0107]: 'h.h' cannot be read: {tmp_path / 'h.h'}: it is {kind}" in shown
    assert "--> asks:2:10" in shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_file_becomes_something_else(tmp_path: Path, kind: str) -> None:
    """Hot reload keeps what was loaded."""
    (tmp_path / "m.slang").write_text("float f(float x) { return 2 * x; }")
    device = spy.create_device(include_paths=[tmp_path])
    module = spy.Module.load_from_file(device, "m")
    (tmp_path / "m.slang").unlink()
    make(kind, tmp_path / "m.slang")
    with pytest.warns(spy.ReloadWarning, match="error"):
        device.hot_reload_check()
    assert module.f(1.0) == 2


def test_a_folder_is_passed_over_where_a_file_follows(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "m.slang").mkdir()
    (tmp_path / "second" / "m.slang").write_text("int f() { return 2; }")
    device = spy.create_device(include_paths=[tmp_path / "first", tmp_path / "second"])
    assert spy.Module.load_from_file(device, "m.slang").f() == 2


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_where_an_entry_of_the_cache_should_be(tmp_path: Path, kind: str) -> None:
    store = Store(str(tmp_path / "cache"))
    key = "a" * 40
    store.put(key, b"kept")
    assert store.get(key) == b"kept"
    entry = Path(store._path(key))
    entry.unlink()
    make(kind, entry)
    assert store.get(key) is None
    store.put(key, b"kept")
    assert store.get(key) == (None if kind == "a folder" else b"kept")
    store.clear()
    assert store.usage().entries == (1 if kind == "a folder" else 0)


def test_an_entry_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "cache"), limit=1 << 20)
    key = "b" * 40
    store.put(key, b"kept")
    with open(store._path(key), "r+b") as entry:
        entry.truncate(1 << 40)  # no room is taken for it
    assert store.get(key) is None


def test_a_source_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "m.slang").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="more than 1 MiB") as caught:
        read_whole(tmp_path / "m.slang", 1 << 20)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_in_the_folder_of_precompiled_modules(tmp_path: Path, kind: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "m.slang").write_text("int f() { return 2; }")
    cache = tmp_path / "cache"
    options = {"include_paths": [tmp_path / "src"], "module_cache_path": cache}
    spy.Module.load_from_file(spy.create_device(**options), "m")
    (compiled,) = cache.rglob("m.slang-module")
    compiled.unlink()
    make(kind, compiled)
    module = spy.Module.load_from_file(spy.create_device(**options), "m")  # the source is there
    assert module.f() == 2
    (tmp_path / "src" / "m.slang").unlink()
    device = spy.create_device(**options)
    if kind in ("a folder", "a device"):
        return
    assert compiled.is_file()  # it was made anew in the place of the other
    assert spy.Module.load_from_file(device, "m").f() == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_is_not_written_over_what_is_no_file(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "m.slang-module"
    make(kind, target)
    module = spy.create_device().load_module_from_source("m", "int f() { return 2; }")
    with pytest.raises(OSError, match=f"it is {kind}, and a file is needed"):
        module.write_to_file(target)
    assert not target.is_file() and [each.name for each in tmp_path.iterdir()] == [target.name]


# --- What modules may have read -----------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's program, a library beside it, and a file that no module of others may see."""
    for folder in ("program/shaders", "library/inner", "common"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "common" / "two.h").write_text("static const int TWO = 2;")
    monkeypatch.chdir(tmp_path / "program")
    return tmp_path


ASKING = {
    "absolute include": '#include "{world}/secret.txt"',
    "include by ..": '#include "../secret.txt"',
    "include by a link": '#include "link.txt"',
    "import": 'import "{world}/secret.txt";',
    "import by ..": 'import "../secret.txt";',
    "part": '__include "../secret.txt";',
    "here": '#include "private.txt"',
    "import here": 'import "private.txt";',
}


def write_library(world: Path, asking: str, precompiled: bool) -> None:
    """`import evil` finds it in the folder `library`."""
    text = asking.format(world=world) + "\nint f() { return 2; }"
    (world / "library" / "link.txt").symlink_to(world / "secret.txt")
    (world / "program" / "private.txt").write_text(SECRET)
    if precompiled:
        data = to_bytes(PackedModule((("evil.slang", text),), {}, (), ()))
        (world / "library" / "evil.slang-module").write_bytes(data)
    else:
        (world / "library" / "evil.slang").write_text(text)


@pytest.mark.parametrize("precompiled", [True, False])
@pytest.mark.parametrize("asking", ASKING.values(), ids=ASKING)
def test_modules_of_others_show_no_other_files(world: Path, asking: str, precompiled: bool) -> None:
    write_library(world, asking, precompiled)
    device = spy.create_device(include_paths=["../library"])
    shown = error_of(device, "import evil; int g() { return f(); }")
    assert SECRET not in shown and SECRET.split(":")[0] + ":" not in shown
    assert "cannot be read: it lies outside of the folder of '../library/evil.slang" in shown
    assert "add the folder of the file to include_paths" in shown
    assert ":1:" in shown  # the line of the module that asks


def test_what_modules_of_others_may_ask_for(world: Path) -> None:
    """Files of their own folder, of include paths, and of folders of those that they were asked for by."""
    (world / "library" / "good.slang").write_text(
        '#include "inner/deep.h"\n#include <two.h>\nimport beside; import "inner/below"; int f() { return TWO + DEEP + beside() + below(); }'
    )
    (world / "library" / "beside.slang").write_text("int beside() { return 100; }")
    (world / "library" / "inner" / "deep.h").write_text("static const int DEEP = 10;")
    (world / "library" / "inner" / "below.slang").write_text(
        '#include "../more.h"\nint below() { return MORE; }'
    )
    (world / "library" / "more.h").write_text("static const int MORE = 1000;")
    device = spy.create_device(include_paths=["../library", "../common"])
    for name in ("good", "inner/below", "beside"):
        device.load_module(name).write_to_file(f"../library/{name}.slang-module")
    text = "import good; int g() { return f(); }"
    assert spy.Module.load_from_source(device, "user", text).g() == 1112
    for name in ("good", "inner/below", "beside", "more", "inner/deep"):
        (world / "library" / name).with_suffix(".slang").unlink(missing_ok=True)
        (world / "library" / name).with_suffix(".h").unlink(missing_ok=True)
    device = spy.create_device(include_paths=["../library"])
    assert spy.Module.load_from_source(device, "user", text).g() == 1112


def test_a_program_of_the_user_may_ask_for_any_file(world: Path) -> None:
    """Sources that the user loads, and those beside them, go up to folders beside theirs."""
    (world / "program" / "shaders" / "main.slang").write_text(
        '#include "../../common/two.h"\nimport near; int f() { return TWO * near(); }'
    )
    (world / "program" / "shaders" / "near.slang").write_text(
        f'#include "{world}/common/two.h"\nimport "../../common/far"; int near() {{ return TWO * far(); }}'
    )
    (world / "common" / "far.slang").write_text('#include "../common/three.h"\nint far() { return THREE; }')
    (world / "common" / "three.h").write_text("static const int THREE = 3;")
    assert spy.Module.load_from_file(spy.create_device(), "shaders/main.slang").f() == 12
    device = spy.create_device(include_paths=["shaders"])
    assert spy.Module.load_from_file(device, "main").f() == 12
    text = '#include "../common/two.h"\nimport "shaders/main"; int g() { return TWO * f(); }'
    assert spy.Module.load_from_source(spy.create_device(), "user", text).g() == 24


def test_a_library_that_is_a_farm_of_links(world: Path) -> None:
    """Its files lie elsewhere, all in one folder."""
    (world / "common" / "linked.slang").write_text('#include "two.h"\nint f() { return TWO; }')
    for name in ("linked.slang", "two.h"):
        (world / "library" / name).symlink_to(world / "common" / name)
    device = spy.create_device(include_paths=["../library"])
    assert spy.Module.load_from_source(device, "user", "import linked; int g() { return f(); }").g() == 2


def test_the_same_from_a_warm_start(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is refused again; what was found is found."""
    monkeypatch.setenv("SLANGRAD_VERIFY", "0")
    options = Options(store=Store(str(world / "cache")))
    (world / "library" / "lib.slang").write_text('#include "two.h"\nint f() { return TWO; }')
    text = "import lib; int g() { return f(); }"
    paths = {"include_paths": ["../library", "../common"]}
    for _ in range(2):
        device = spy.create_device(options=options, **paths)
        assert spy.Module.load_from_source(device, "user", text).g() == 2
    (world / "library" / "lib.slang").write_text('#include "../secret.txt"\nint f() { return 2; }')
    for _ in range(2):
        with pytest.raises(spy.CompileError, match="lies outside"):
            spy.Module.load_from_source(spy.create_device(options=options, **paths), "user", text)
