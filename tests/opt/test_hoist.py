"""Loop-invariant code, common code of arms, and what must not move."""

from slangrad.ir.text.printer import print_function
from slangrad.opt.simplify.hoist import hoist
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_program


def test_out_of_nested_loops():
    before = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %r = for %n, %x : f32 (%i: i32, %a: f32) {
        %s = sqrt %x
        %fi = convert %i : f32
        %q = for %n, %a : f32 (%j: i32, %b: f32) {
          %t = mul %s, %s
          %u = mul %fi, %t
          %v = add %b, %u
          yield %v
        }
        yield %q
      }
      yield %r
    }"""
    after = """
    func @f(%n: i32, %x: f32) -> (f32) {
      %s = sqrt %x
      %t = mul %s, %s
      %r = for %n, %x : f32 (%i: i32, %a: f32) {
        %fi = convert %i : f32
        %u = mul %fi, %t
        %q = for %n, %a : f32 (%j: i32, %b: f32) {
          %v = add %b, %u
          yield %v
        }
        yield %q
      }
      yield %r
    }"""
    assert_becomes(hoist, before, after)


def test_common_code_of_arms():
    before = """
    func @f(%c: bool, %x: f32) -> (f32) {
      %r = if %c : f32 {
        %s = sqrt %x
        %t = mul %s, %x
        %u = sin %t
        yield %u
      } {
        %k = cos %x
        %s2 = sqrt %x
        %t2 = mul %s2, %x
        %v = add %t2, %k
        yield %v
      }
      yield %r
    }"""
    after = """
    func @f(%c: bool, %x: f32) -> (f32) {
      %s = sqrt %x
      %t = mul %s, %x
      %r = if %c : f32 {
        %u = sin %t
        yield %u
      } {
        %k = cos %x
        %v = add %t, %k
        yield %v
      }
      yield %r
    }"""
    assert_becomes(hoist, before, after)


def test_only_cheap_code_leaves_an_arm_and_a_loop():
    before = """
    func @f(%c: bool, %n: i32, %x: f32) -> (f32) {
      %r = for %n, %x : f32 (%i: i32, %a: f32) {
        %y = if %c : f32 {
          %s = sin %x
          %d = add %x, %x
          %u = mul %s, %d
          yield %u
        } {
          yield %a
        }
        yield %y
      }
      yield %r
    }"""
    after = """
    func @f(%c: bool, %n: i32, %x: f32) -> (f32) {
      %d = add %x, %x
      %r = for %n, %x : f32 (%i: i32, %a: f32) {
        %y = if %c : f32 {
          %s = sin %x
          %u = mul %s, %d
          yield %u
        } {
          yield %a
        }
        yield %y
      }
      yield %r
    }"""
    assert_becomes(hoist, before, after)


def test_reports_and_reads_stay():
    text = """
    func @f(%n: i32, %v: f32x4, %p: ptr<f32, global>) -> (f32) {
      %z = const 0.0 : f32
      %r = for %n, %z : f32 (%i: i32, %a: f32) {
        %x = index %v, %n {check=true}
        %y = load %p : f32
        %s = add %x, %y
        %t = add %s, %a
        yield %t
      }
      yield %r
    }"""
    assert_becomes(hoist, text, text)


def test_loads_from_the_argument_block():
    program = parse_program("""
    struct "B" { x: f32, q: ptr<f32, constant> }
    arguments struct "B"
    func @f(%n: i32, %k: i32) -> (f32) {
      %z = const 0.0 : f32
      %r = for %n, %z : f32 (%i: i32, %a: f32) {
        %px = parameter {name="x"} : ptr<f32, constant>
        %x = load %px : f32
        %far = offset %px, %k
        %y = load %far : f32
        %s = add %x, %a
        %t = add %s, %y
        yield %t
      }
      yield %r
    }""")
    loop_begins = print_function(hoist(program.functions["f"])).split("for")
    assert "%x = load %px" in loop_begins[0]
    assert "%far = offset" in loop_begins[0]
    assert "%y = load %far" in loop_begins[1]
