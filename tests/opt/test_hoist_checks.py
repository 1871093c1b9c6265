"""Checks of pointers that leave loops, those that stay, and those that are asked once."""

from slangrad.opt.checks.hoist_checks import hoist_checks
from slangrad.opt.simplify.hoist import hoist
from tests.ir.golden import assert_becomes

CHECK = """
        %w = load %p : ptr<f32, global>
        %k = bitcast %w : u64
        %ok = in_bounds %k, %far {text="pointer"}
"""


def test_a_pointer_that_a_loop_loads_is_loaded_before_it():
    before = f"""
    func @f(%p: ptr<ptr<f32, global>, global>, %n: i32, %far: u64) -> (i32) {{
      %zero = const 0 : i32
      %r = for %n, %zero : i32 (%i: i32, %a: i32) {{{CHECK}
        %x = convert %ok : i32
        %b = add %a, %x
        yield %b
      }}
      yield %r
    }}"""
    after = f"""
    func @f(%p: ptr<ptr<f32, global>, global>, %n: i32, %far: u64) -> (i32) {{
      %zero = const 0 : i32
      %turns = less %zero, %n
      %there = if %turns : bool {{{CHECK}
        yield %ok
      }} {{
        %no = const false : bool
        yield %no
      }}
      %x = convert %there : i32
      %r = for %n, %zero : i32 (%i: i32, %a: i32) {{
        %b = add %a, %x
        yield %b
      }}
      yield %r
    }}"""
    assert_becomes(lambda function: hoist(hoist_checks(function)), before, after)


def test_a_loop_that_surely_turns_needs_no_branch():
    before = f"""
    func @f(%p: ptr<ptr<f32, global>, global>, %far: u64) -> (i32) {{
      %zero = const 0 : i32
      %n = const 4 : i32
      %r = for %n, %zero : i32 (%i: i32, %a: i32) {{{CHECK}
        %x = select %ok, %i, %a
        yield %x
      }}
      yield %r
    }}"""
    after = f"""
    func @f(%p: ptr<ptr<f32, global>, global>, %far: u64) -> (i32) {{
      %zero = const 0 : i32
      %n = const 4 : i32
{CHECK}
      %r = for %n, %zero : i32 (%i: i32, %a: i32) {{
        %x = select %ok, %i, %a
        yield %x
      }}
      yield %r
    }}"""
    assert_becomes(hoist_checks, before, after)


def test_what_a_loop_may_write_is_loaded_in_it():
    text = f"""
    func @f(%p: ptr<ptr<f32, global>, global>, %q: ptr<i32, global>, %n: i32, %far: u64) -> (i32) {{
      %zero = const 0 : i32
      %r = for %n, %zero : i32 (%i: i32, %a: i32) {{{CHECK}
        %x = select %ok, %i, %a
        store %q, %x
        yield %x
      }}
      yield %r
    }}"""
    assert_becomes(hoist_checks, text, text)


def test_a_check_is_asked_once():
    before = """
    func @f(%k: u64, %far: u64, %c: bool) -> (bool) {
      %x = in_bounds %k, %far {text="pointer"}
      %z = if %c : bool {
        %y = in_bounds %k, %far {text="pointer"}
        yield %y
      } {
        yield %c
      }
      yield %z
    }"""
    after = """
    func @f(%k: u64, %far: u64, %c: bool) -> (bool) {
      %x = in_bounds %k, %far {text="pointer"}
      %z = if %c : bool {
        yield %x
      } {
        yield %c
      }
      yield %z
    }"""
    assert_becomes(hoist_checks, before, after)
