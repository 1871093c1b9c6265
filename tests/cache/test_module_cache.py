"""A folder that devices fill with precompiled modules of what they read."""

from pathlib import Path

import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

MAIN = '#include "given.h"\nimport sub.part;\nfloat f() { return GIVEN * part(); }'
PART = "public float part() { return 2; }"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "sub").mkdir(parents=True)
    (folder / "main.slang").write_text(MAIN)
    (folder / "given.h").write_text("#define GIVEN 3")
    (folder / "sub/part.slang").write_text(PART)
    return folder


def device_for(sources: Path, **options: object) -> spy.Device:
    cache = sources.parent / "modules"
    return spy.create_device(
        module_cache_path=cache, compiler_options={"include_paths": [sources]}, **options
    )


def modules(sources: Path) -> dict[str, Path]:
    """The files by their places in the folder that mirrors the include path."""
    found = (sources.parent / "modules").glob("*/0/**/*.slang-module")
    return {"/".join(each.parts[each.parts.index("0") + 1 :]): each for each in found}


def test_a_cache_is_filled_and_kept_up_to_date(sources: Path) -> None:
    device_for(sources).load_module("main")
    files = modules(sources)
    assert sorted(files) == ["main.slang-module", "sub/part.slang-module"]
    assert PART in files["sub/part.slang-module"].read_text()
    written = {name: each.stat().st_mtime_ns for name, each in files.items()}
    device = device_for(sources)
    device.load_module("main")
    assert {name: each.stat().st_mtime_ns for name, each in files.items()} == written

    (sources / "given.h").write_text("#define GIVEN 5")
    device.hot_reload_check()
    device.load_module("main")
    assert "#define GIVEN 5" in files["main.slang-module"].read_text()
    assert files["sub/part.slang-module"].stat().st_mtime_ns == written["sub/part.slang-module"]


def test_what_has_no_source_any_more_comes_from_the_cache(sources: Path) -> None:
    assert spy.Module.load_from_file(device_for(sources), "main").f() == 6
    for name in ("main.slang", "given.h"):
        (sources / name).unlink()
    (sources / "sub/part.slang").write_text(PART.replace("2", "4"))
    assert spy.Module.load_from_file(device_for(sources), "main").f() == 12
    with pytest.raises(spy.CompileError, match="there is no module 'main'"):
        spy.create_device(include_paths=[sources]).load_module("main")


def test_modules_that_are_known_are_written_without_being_parsed(sources: Path, tmp_path: Path) -> None:
    """The user's folder of kernels knows the module; the folder of modules was removed."""
    shared = {"shader_cache_path": tmp_path / "kernels"}
    spy.Module.load_from_file(device_for(sources, **shared), "main")
    before = {name: each.read_bytes() for name, each in modules(sources).items()}
    for each in modules(sources).values():
        each.unlink()
    device = device_for(sources, **shared)
    spy.Module.load_from_file(device, "main")
    assert not device.slang_session.is_parsed
    assert {name: each.read_bytes() for name, each in modules(sources).items()} == before


def test_sessions_with_other_macros_do_not_meet(sources: Path) -> None:
    cache = sources.parent / "modules"
    device = spy.create_device()
    for value in ("1", "2"):
        chosen = {"include_paths": [sources], "defines": {"N": value}}
        device.create_slang_session(chosen, cache_path=cache).load_module("main")
    found = [each.read_text() for each in cache.rglob("main.slang-module")]
    assert sorted(each.partition("macro 1 1\n")[2][:4] for each in found) == ["N\n1\n", "N\n2\n"]


def test_a_damaged_file_is_replaced(sources: Path) -> None:
    device_for(sources).load_module("main")
    file = modules(sources)["main.slang-module"]
    whole = file.read_bytes()
    file.write_bytes(whole[:40])
    device_for(sources).load_module("main")
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CallError, match="the folder of the module cache cannot be made"):
        spy.create_device(module_cache_path=tmp_path / "file")
