"""Options from the environment."""

import gc
import sys

import pytest

from slangrad.base.compiling import compiling
from slangrad.base.options import Limits, Options


def test_defaults_are_the_empty_environment():
    assert Options.from_environment({}) == Options(verify=False)
    assert hash(Options()) == hash(Options(limits=Limits()))


def test_who_tests_verifies_whatever_a_program_chooses(monkeypatch):
    monkeypatch.setenv("SLANGRAD_VERIFY", "1")
    assert Options(lanes=4).verify and Options.from_environment().verify
    assert not Options(lanes=4, verify=False).verify and not Options.from_environment({}).verify
    monkeypatch.delenv("SLANGRAD_VERIFY")
    assert not Options(lanes=4).verify


def test_values():
    options = Options.from_environment(
        {
            "SLANGRAD_LANES": "8",
            "SLANGRAD_CPU": "x86-64-v3",
            "SLANGRAD_BOUNDS_CHECKS": "off",
            "SLANGRAD_VERIFY": "1",
            "SLANGRAD_THREADS": "3",
            "SLANGRAD_RESIDUALS": "store",
            "SLANGRAD_DUMP": "kernel,lanes",
            "SLANGRAD_DISABLE_WARNINGS": "E0112, E0328",
            "SLANGRAD_WARNINGS_AS_ERRORS": "E0506",
        }
    )
    assert (options.lanes, options.cpu, options.bounds_checks) == (8, "x86-64-v3", False)
    assert (options.verify, options.threads, options.dump) == (True, 3, ("kernel", "lanes"))
    assert options.residuals == "store"
    assert (options.disable_warnings, options.warnings_as_errors) == ({"E0112", "E0328"}, {"E0506"})


@pytest.mark.parametrize("name", sorted(set(Options.__dataclass_fields__) - {"limits", "store"}))
def test_each_setting_has_a_variable(name):
    default = getattr(Options(), name)
    text = "keep" if name == "calls" else "recompute"
    other = {bool: str(int(not default)), int: "4", str: text, tuple: "lowered", frozenset: "E0506"}
    options = Options.from_environment({f"SLANGRAD_{name.upper()}": other[type(default)]})
    assert getattr(options, name) != default


@pytest.mark.parametrize(
    ("name", "value"),
    [("LANES", "many"), ("LANES", "-1"), ("VERIFY", "maybe"), ("RESIDUALS", "few"), ("CALLS", "some")],
)
def test_unreadable_values_name_the_variable(name, value):
    with pytest.raises(ValueError, match=f"SLANGRAD_{name}"):
        Options.from_environment({f"SLANGRAD_{name}": value})


def test_compiling_gives_the_limit_back():
    before = sys.getrecursionlimit()

    def depth(n):
        return 0 if n == 0 else 1 + depth(n - 1)

    with compiling(), compiling():
        assert depth(20_000) == 20_000
        assert not gc.isenabled()
    assert sys.getrecursionlimit() == before
    assert gc.isenabled()


def test_compiling_leaves_collection_off_where_the_caller_did():
    gc.disable()
    with compiling():
        pass
    was_on = gc.isenabled()
    gc.enable()
    assert not was_on


@pytest.mark.parametrize("lanes", ["3", "128"])
def test_lanes_are_a_power_of_two(lanes):
    with pytest.raises(ValueError, match="SLANGRAD_LANES must be a power of two up to 64"):
        Options.from_environment({"SLANGRAD_LANES": lanes})
