"""Tapes as LLVM text: which functions a kernel brings along, where memory grows, and what stands for missing memory."""

import re

import pytest

from slangrad.llvm.memory.tapes import LARGEST_ELEMENT, ON_STACK, UNREAD
from tests.ir.parse_text import parse_program
from tests.llvm.machine import module_for, options_for

HEAD = """
func @kernel() -> () {kernel=true} {
  %zero = const 0 : i32
  %v = const 1.5 : f32
  %t = tape_new : ptr<f32, tape>
"""
HELPERS = ("take", "give", "grow", "free_tape", "reserve")

# fmt: off
CASES = {
    #                    body                                                        helpers that the kernel itself calls
    "never used":       ("",                                                          ["take"]),
    "written":          ("tape_store %t, %zero, %v",                                  ["take", "grow"]),
    "added to":         ("tape_add %t, %zero, %v",                                    ["take", "grow"]),
    "read":             ("%r = tape_load %t, %zero",                                  ["take"]),
    "freed":            ("tape_store %t, %zero, %v  tape_free %t",                    ["take", "grow", "free_tape"]),
    "copied":           ("%c = tape_copy %t",                                         ["take", "take", "grow"]),
}
# fmt: on


def text_of(body: str, lanes: int = 1) -> str:
    return module_for(parse_program(f"{HEAD}{body} yield }}"), options_for(lanes=lanes)).text


def entry_of(text: str) -> str:
    """The function of the kernel, without those that it brings along."""
    return text[text.index("@entry(") :].split("\n}\n")[0]


@pytest.mark.parametrize("body, helpers", CASES.values(), ids=CASES)
def test_functions_that_are_called(body: str, helpers: list[str]) -> None:
    text = text_of(body)
    called = re.findall(rf"call \w+ @({'|'.join(HELPERS)})\(", entry_of(text))
    assert called == helpers
    assert all(f"@{name}(" in text for name in called)


@pytest.mark.parametrize("first, flags", [("", 0), (" {written_first=true}", UNREAD)])
def test_a_header_without_memory_is_on_the_stack(first: str, flags: int) -> None:
    text = entry_of(text_of(f"%u = tape_new{first} : ptr<f32, tape>"))
    assert f"i64 {flags | ON_STACK}, i64 {flags}" in text


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_a_row_has_an_element_of_each_lane(lanes: int) -> None:
    """Four bytes for each lane; reads of no memory find a row of zeros, writes go to a row that is never read."""
    read, written = (
        entry_of(text_of(body, lanes)) for body in ("%r = tape_load %t, %zero", CASES["written"][0])
    )
    assert f"getelementptr [{4 * lanes} x i8]" in read and f"getelementptr [{4 * lanes} x i8]" in written
    assert f"@zeros{LARGEST_ELEMENT * lanes}" in read
    assert f"alloca i8, i64 {LARGEST_ELEMENT * lanes}, align 64" in written
    assert f"i64 {4 * lanes}, i1 true)" in written  # the row that `grow` gets, whose old memory it may free


def test_an_index_is_compared_as_it_is() -> None:
    """A negative index is large where it is read; no element is there."""
    text = entry_of(text_of("%m = const -1 : i32  %r = tape_load %t, %m"))
    assert re.search(r"icmp ult i64 %v\d+, %v\d+", text) and "sext i32 -1 to i64" in text
