"""What the compiler warns of reaches those who load a module."""

import warnings

import numpy as np
import pytest

import slangrad as spy

UNKNOWN = "[Unheard] float same(float x) { return x; }"
TWICE = "#warning careful\n[Unheard] int f() { return 1; }"


def loaded(text: str, **options: object) -> list[str]:
    """The first lines of all warnings."""
    device = spy.create_device(options=spy.Options(), compiler_options=options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        spy.Module.load_from_source(device, "warned", text)
    assert all(each.category is spy.CompileWarning for each in told)
    return [str(each.message).splitlines()[0] for each in told]


def test_loading_warns() -> None:
    """Once: not when the same text is loaded again, and not when it is called."""
    device = spy.create_device()
    with pytest.warns(spy.CompileWarning, match=r"warning\[E0328\].*'Unheard'(?s:.*)warned:1:2"):
        module = spy.Module.load_from_source(device, "warned", UNKNOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert spy.Module.load_from_source(device, "warned", UNKNOWN).same(2.0) == 2
        assert module.same(np.ones(3, np.float32), _result="numpy").tolist() == [1, 1, 1]


def test_imported_modules_warn(tmp_path) -> None:
    (tmp_path / "inner.slang").write_text(UNKNOWN)
    device = spy.create_device(include_paths=[tmp_path])
    with pytest.warns(spy.CompileWarning, match="inner.slang:1:2"):
        spy.Module.load_from_source(device, "outer", "import inner;")


def test_warnings_are_chosen_by_code() -> None:
    assert [each.split("]")[0] for each in loaded(TWICE)] == ["warning[E0112", "warning[E0328"]
    assert [each.split("]")[0] for each in loaded(TWICE, disable_warnings=["E0112"])] == ["warning[E0328"]
    with pytest.raises(spy.CompileError, match=r"error\[E0328\]"):
        loaded(TWICE, warnings_as_errors=["E0328"])


def test_an_error_stays_one(tmp_path, monkeypatch) -> None:
    """When the module is asked for again, and when an earlier process that only warned has kept it."""
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "unheard.slang").write_text(UNKNOWN)
    with pytest.warns(spy.CompileWarning):
        spy.create_device(include_paths=[tmp_path]).load_module("unheard")
    strict = {"warnings_as_errors": ["E0328"]}
    device = spy.create_device(include_paths=[tmp_path], compiler_options=strict)
    for _ in range(2):
        with pytest.raises(spy.CompileError, match="E0328"):
            device.load_module("unheard")


def test_a_module_with_errors_keeps_them(tmp_path) -> None:
    """The second to ask for it is told too."""
    (tmp_path / "broken.slang").write_text("int f() { return missing; }")
    device = spy.create_device(include_paths=[tmp_path])
    for _ in range(2):
        with pytest.raises(spy.CompileError, match="missing"):
            device.load_module("broken")
