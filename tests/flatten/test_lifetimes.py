"""Which versions of an array share memory, and which are versions of one another."""

import pytest

from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.lifetimes import Lifetimes
from slangrad.flatten.versions import ArrayVersions
from slangrad.ir.ops.core import Function, Program, walk
from tests.ir.outcomes import assert_same, outcome
from tests.ir.parse_text import parse_function

HEAD = (
    "func @f(%n: u32, %i: u32, %c: bool, %x: f32) -> (f32) {  %a = make %x, %x, %x : [3 x f32]  %y = neg %x"
)
ONE = "%u = index %{}, %i  yield %u }}"
TWO = "%u = index %{}, %i  %v = index %{}, %i  %s = add %u, %v  yield %s }}"
LOOP = "%r = for %n, %a : [3 x f32] (%j: u32, %p: [3 x f32]) { %q = set_index %p, %j, %y  yield %q } "
ARM = "%r = if %c : [3 x f32] { %q = set_index %a, %i, %y  yield %q } { yield %a } "

# fmt: off
CASES = {
    #                                      text                                                       origins                     classes
    "a chain":                            ("%b = set_index %a, %i, %y  %d = set_index %b, %n, %x " + ONE.format("d"),
                                           {"b": "a", "d": "b"},                                      ["a b d"]),
    "the old one is used":                ("%b = set_index %a, %i, %y " + TWO.format("a", "b"),
                                           {},                                                        ["a b"]),
    "two of one, the last in place":      ("%b = set_index %a, %i, %y  %d = set_index %a, %n, %x " + TWO.format("b", "d"),
                                           {"d": "a"},                                                ["a b d"]),
    "two of one zero":                    ("%z = zero : [3 x f32]  %b = set_index %z, %i, %y  %d = set_index %z, %n, %x "
                                           + TWO.format("b", "d"),
                                           {},                                                        ["a", "b", "d"]),
    "a loop":                             (LOOP + ONE.format("r"),
                                           {"p": "a", "q": "p", "r": "p"},                            ["a p q r"]),
    "a loop, the start is used":          (LOOP + TWO.format("a", "r"),
                                           {"q": "p", "r": "p"},                                      ["a p q r"]),
    "a loop that changes one from outside": (
        "%r = for %n, %x : f32 (%j: u32, %p: f32) { %b = set_index %a, %j, %p  %w = index %b, %i  yield %w } yield %r }",
                                           {},                                                        ["a b"]),
    "a loop that swaps":                  (
        """%b = make %y, %x, %y : [3 x f32]
           %r, %t = for %n, %a, %b : [3 x f32], [3 x f32] (%j: u32, %p: [3 x f32], %o: [3 x f32]) { yield %o, %p }
        """ + TWO.format("r", "t"),
                                           {"p": "a", "r": "p", "o": "b", "t": "o"},                  ["a b o p r t"]),
    "an arm":                             (ARM + ONE.format("r"),
                                           {"q": "a", "r": "a"},                                      ["a q r"]),
    "an arm, the old one is used":        (ARM + TWO.format("r", "a"),
                                           {},                                                        ["a q r"]),
    "one of two":                         ("%b = make %y, %x, %y : [3 x f32]  %r = if %c : [3 x f32] { yield %b } { yield %a } "
                                           + ONE.format("r"),
                                           {},                                                        ["a b r"]),
}
# fmt: on
INPUTS = [(n, i, c, 1.5) for n in (0, 1, 2) for i in (0, 2) for c in (True, False)]


def arrays(function: Function) -> list:
    """The versions of arrays but for zeros."""
    regions = [region for op in walk(function.region) for region in op.regions]
    made = [r for op in walk(function.region) if op.name != "zero" for r in op.results]
    values = (*made, *(p for region in regions for p in region.parameters))
    return [value for value in values if str(value.type) == "[3 x f32]"]


@pytest.mark.parametrize("text, origins, classes", CASES.values(), ids=CASES)
def test_versions(text, origins, classes):
    function = parse_function(HEAD + text)
    lifetimes, versions = Lifetimes(function), ArrayVersions(function)
    assert {one.hint: other.hint for one, other in lifetimes.origin.items()} == origins
    members: dict[object, list[str]] = {}
    for value in arrays(function):
        members.setdefault(versions.find(value), []).append(value.hint)
    assert sorted(" ".join(sorted(each)) for each in members.values()) == classes


@pytest.mark.parametrize("text, origins, classes", CASES.values(), ids=CASES)
def test_versions_in_memory_stay_what_they_were(text, origins, classes):
    function = parse_function(HEAD + text)
    flat = flatten_arrays(function)
    assert not arrays(flat)
    for row in INPUTS:
        assert_same(*(outcome(Program({"f": each}), "f", row) for each in (function, flat)))
