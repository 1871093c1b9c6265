"""Pointers to variables that outlive them, and those that do not."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.opt.checks.escapes import refuse_escapes
from tests.ir.parse_text import parse_program

HEAD = """
struct "S" {{ p: ptr<f32, local> }}
func @f(%c: bool, %n: i32, %q: ptr<f32, local>, %b: ptr<ptr<f32, local>, global>, %s: struct "S") -> ({returned}) {{
  %x = variable : ptr<f32, local>
"""
POINTER, NOTHING = "ptr<f32, local>", ""
LEAVES, STORED = (
    "a pointer to 'x' leaves 'f', where it ends",
    "a pointer to 'x' is stored where it outlives it",
)

# fmt: off
REFUSED = {
    "a result":                     (POINTER,      "yield %x",                                                  LEAVES),
    "an element of it":             (POINTER,      "%p = offset %x, %n  yield %p",                              LEAVES),
    "one of two":                   (POINTER,      "%p = select %c, %q, %x  yield %p",                          LEAVES),
    "of an arm":                    (POINTER,      f"%p = if %c : {POINTER} {{ yield %x }} {{ yield %q }} yield %p", LEAVES),
    "carried by a loop":            (POINTER,      f"%p = for %n, %q : {POINTER} (%i: i32, %o: {POINTER}) {{ yield %x }} yield %p",
                                                                                                                LEAVES),
    "in a struct":                  ('struct "S"', "%t = set %s, %x {index=0}  yield %t",                       LEAVES),
    "through a variable":           (POINTER,      f"%v = variable : ptr<{POINTER}, local>  store %v, %x  %p = load %v : {POINTER}  yield %p",
                                                                                                                LEAVES),
    "stored in memory of others":   (NOTHING,      "store %b, %x  yield",                                       STORED),
    "a static variable":            (NOTHING,      'write_static %x {name="n"}  yield',                         STORED),
}
ALLOWED = {
    "another's pointer":            (POINTER,      "yield %q"),
    "what is in it":                ("f32",        "%y = load %x : f32  yield %y"),
    "stored in a variable":         (NOTHING,      f"%v = variable : ptr<{POINTER}, local>  store %v, %x  yield"),
    "its address as a number":      ("u64",        "%k = bitcast %x : u64  yield %k"),
    "a number stored":              (NOTHING,      "%y = load %q : f32  store %x, %y  yield"),
}
# fmt: on


@pytest.mark.parametrize("returned, body, message", REFUSED.values(), ids=REFUSED)
def test_refused(returned, body, message):
    program = parse_program(HEAD.format(returned=returned) + body + "}")
    with pytest.raises(CompileError) as caught:
        refuse_escapes(program.functions.values())
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E0705", message)]


@pytest.mark.parametrize("returned, body", ALLOWED.values(), ids=ALLOWED)
def test_allowed(returned, body):
    refuse_escapes(parse_program(HEAD.format(returned=returned) + body + "}").functions.values())
