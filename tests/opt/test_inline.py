"""Inlining: nested calls, functions with their own derivatives, limits."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Limits
from slangrad.ir.text.printer import print_function
from slangrad.opt.calls.inline import inline
from tests.ir.parse_text import parse_program

PROGRAM = """
func @main(%x: f32) -> (f32) { %y = call @twice %x : f32 %z = call @special %y : f32 yield %z }
func @twice(%x: f32) -> (f32) { %a = call @square %x : f32 %b = call @square %a : f32 yield %b }
func @square(%x: f32) -> (f32) { %r = mul %x, %x yield %r }
func @special(%x: f32) -> (f32) derivatives(jvp=@special_jvp) { %r = call @square %x : f32 yield %r }
func @special_jvp(%x: f32, %d: f32) -> (f32) { yield %d }
func @unused(%x: f32) -> (f32) { yield %x }
"""


def test_functions_with_their_own_derivatives_stay_calls():
    program = inline(parse_program(PROGRAM))
    assert print_function(program.functions["main"]) == (
        "func @main(%x: f32) -> (f32) {\n"
        "  %r = mul %x, %x\n"
        "  %r.1 = mul %r, %r\n"
        "  %z = call @special %r.1 : f32\n"
        "  yield %z\n"
        "}\n"
    )
    assert "call" not in print_function(program.functions["special"])


def test_everything():
    program = inline(parse_program(PROGRAM), everything=True)
    assert all("call" not in print_function(f) for f in program.functions.values())


def test_too_large():
    with pytest.raises(CompileError, match="'twice' has more than 3 operations"):
        inline(parse_program(PROGRAM), limits=Limits(inline_ops=3))


def test_recursion_was_refused_before():
    with pytest.raises(AssertionError, match="f is recursive"):
        inline(parse_program("func @f(%x: f32) -> (f32) { %y = call @f %x : f32 yield %y }"))
