"""Derivatives of arrays, vectors and structs: dynamic indices, updates in place, elements on tapes."""

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import walk
from tests.autodiff.calculus import check, derivative, differentiated, parse

A = (0.5, -0.3, 0.8, 1.1)

PRODUCT = """
func @f(%a: [4 x f64], %i: i32, %j: i32) -> (f64) {
  %x = index %a, %i
  %y = index %a, %j
  %r = mul %x, %y
  yield %r
}
"""


@pytest.mark.parametrize(("i", "j"), [(1, 3), (2, 2), (0, 7), (-1, 2)])
def test_product_of_elements(i, j):
    check(parse(PRODUCT), "f", (A, i, j), order=2)


def test_product_of_an_element_with_itself_has_the_whole_derivative():
    assert derivative(parse(PRODUCT), "f", "vjp", (A, 2, 2, 1.0)) == ((0.0, 0.0, 1.6, 0.0),)


IN_PLACE = """
func @f(%a: [4 x f64], %x: f64, %n: i32) -> (f64) {
  %zero = const 0 : i32
  %r = for %n, %a : [4 x f64] (%i: i32, %b: [4 x f64]) {
    %e = index %b, %i
    %s = sin %e
    %p = mul %s, %x
    %first = index %b, %zero
    %q = add %p, %first
    %c = set_index %b, %i, %q
    yield %c
  }
  %u = get %r {index=0}
  %v = get %r {index=1}
  %w = get %r {index=3}
  %y = mul %u, %v
  %z = mul %y, %w
  yield %z
}
"""


@pytest.mark.parametrize("n", [0, 2, 4, 6])
def test_elements_overwritten_in_a_loop(n):
    check(parse(IN_PLACE), "f", (A, 0.7, n), order=2)


SCATTER = """
func @f(%a: [4 x f64], %k: [3 x i32], %n: i32, %m: i32) -> (f64) {
  %three = const 3 : i32
  %r = for %n, %a : [4 x f64] (%i: i32, %b: [4 x f64]) {
    %d = for %m, %b : [4 x f64] (%j: i32, %c: [4 x f64]) {
      %from = index %k, %j
      %to = add %from, %i
      %wrapped = rem %to, %three
      %x = index %c, %from
      %y = index %c, %wrapped
      %p = mul %x, %y
      %s = sin %p
      %g = set_index %c, %wrapped, %s
      %h = add_index %g, %from, %x
      yield %h
    }
    yield %d
  }
  %u = get %r {index=0}
  %v = get %r {index=1}
  %w = get %r {index=2}
  %y = mul %u, %v
  %z = add %y, %w
  yield %z
}
"""


@pytest.mark.parametrize("trips", [(1, 3), (3, 3), (2, 5)])
def test_scatter_with_repeated_indices(trips):
    check(parse(SCATTER), "f", (A, (1, 0, 1), *trips), order=2)


OLD_VERSION = """
func @f(%a: [4 x f64], %b: [12 x f64], %i: i32) -> (f64) {
  %x = index %a, %i
  %y = mul %x, %x
  %c = set_index %a, %i, %y
  %d = set_index %b, %i, %y
  %u = index %a, %i
  %v = index %c, %i
  %w = index %b, %i
  %z = index %d, %i
  %p = mul %u, %v
  %q = mul %w, %z
  %r = add %p, %q
  yield %r
}
"""


@pytest.mark.parametrize("i", [0, 3, 5])
def test_a_copy_keeps_the_old_elements(i):
    b = tuple(0.1 * k - 0.4 for k in range(12))
    check(parse(OLD_VERSION), "f", (A, b, i), order=2)


ARMS = """
func @f(%a: [4 x f64], %i: i32, %x: f64) -> (f64) {
  %old = index %a, %i
  %c = less %x, %old
  %b = if %c : [4 x f64] {
    %y = mul %old, %x
    %s = set_index %a, %i, %y
    yield %s
  } {
    yield %a
  }
  %u = get %b {index=1}
  %v = get %b {index=2}
  %r = mul %u, %v
  %o = get %a {index=1}
  %z = mul %r, %o
  yield %z
}
"""


@pytest.mark.parametrize("i", [1, 2, 9])
@pytest.mark.parametrize("x", [-0.9, 0.4])
def test_an_array_written_in_one_arm(i, x):
    check(parse(ARMS), "f", (A, i, x), order=2)


MATRIX = """
func @f(%m: f64x2x3, %v: f64x3, %i: i32) -> (f64x2) {
  %row = index %m, %i
  %p = mul %row, %v
  %x = index %p, %i
  %col = get %p {index=2}
  %w = splat %x : f64x3
  %q = mul %w, %v
  %n = set %m, %q {index=0}
  %big = splat %col : f64x2x3
  %o = mul %n, %big
  %a = get %o {index=0}
  %b = get %o {index=1}
  %s = shuffle %a {indices=(2, 0)} : f64x2
  %t = shuffle %b {indices=(1, 1)} : f64x2
  %r = mul %s, %t
  %k = set_index %r, %i, %x
  yield %k
}
"""


@pytest.mark.parametrize("i", [0, 1, 2])
def test_vectors_and_matrices(i):
    check(parse(MATRIX), "f", (((0.4, -0.2, 0.9), (1.1, 0.6, -0.7)), (0.3, 0.8, -0.5), i), order=2)


STRUCTS = """
struct "Point" { x: f64, id: i32, way: f64x2, tags: [2 x i32] }
struct "Point.D" { way: f64x2, x: f64 }
struct "Scene" { points: [3 x struct "Point"], scale: f64, fixed: f64 }
struct "Scene.D" { points: [3 x struct "Point.D"], scale: f64 }
differential struct "Point" : struct "Point.D" (0 -> 1, 2 -> 0)
differential struct "Scene" : struct "Scene.D" (0 -> 0, 1 -> 1)

func @f(%s: struct "Scene", %n: i32, out %t: struct "Scene") -> (f64) {
  %zero = const 0.0 : f64
  %sum, %t.1 = for %n, %zero, %s : f64, struct "Scene" (%i: i32, %acc: f64, %now: struct "Scene") {
    %points = get %now {index=0}
    %scale = get %now {index=1}
    %p = index %points, %i
    %x = get %p {index=0}
    %w = get %p {index=2}
    %wx = get %w {index=0}
    %a = mul %x, %wx
    %b = mul %a, %scale
    %id = get %p {index=1}
    %way = make %b, %x : f64x2
    %tags = get %p {index=3}
    %q = make %a, %id, %way, %tags : struct "Point"
    %r = set %q, %b {index=0}
    %changed = set_index %points, %i, %r
    %next = set %now, %changed {index=0}
    %sine = sin %b
    %acc.1 = add %acc, %sine
    yield %acc.1, %next
  }
  %fixed = get %t.1 {index=2}
  %y = mul %sum, %fixed
  yield %y, %t.1
}
"""

POINT = (0.7, 3, (0.4, -0.6), (1, 2))
SCENE = ((POINT, (0.2, 1, (0.9, 0.1), (0, 0)), (-0.5, 2, (0.3, 0.8), (5, 6))), 1.5, 2.0)


@pytest.mark.parametrize("n", [0, 2, 3, 4])
def test_structs(n):
    check(parse(STRUCTS), "f", (SCENE, n), order=2)


TWO_ALIKE = """
struct "P" { x: f64, y: f64 }
differential struct "P" : struct "P" (0 -> 0, 1 -> 1)

func @f(inout %p: struct "P", inout %q: struct "P", %n: i32) -> () {
  %p.1, %q.1 = for %n, %p, %q : struct "P", struct "P" (%i: i32, %a: struct "P", %b: struct "P") {
    %ax = get %a {index=0}
    %by = get %b {index=1}
    %m = mul %ax, %by
    %s = sin %m
    %a.1 = set %a, %s {index=1}
    %b.1 = set %b, %m {index=0}
    yield %b.1, %a.1
  }
  yield %p.1, %q.1
}
"""


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_two_parameters_of_one_type_are_not_mixed_up(n):
    check(parse(TWO_ALIKE), "f", ((0.5, 0.9), (1.3, -0.4), n), order=2)


def tapes(program, name):
    """Element types of the arrays that the loops of a function carry."""
    loops = [op for op in walk(program.functions[name].region) if op.name in ("for", "while")]
    return [r.type.element for op in loops for r in op.results if isinstance(r.type, t.Array)]


def test_tapes_hold_elements_and_never_the_array():
    made, _ = differentiated(parse(IN_PLACE), "f", "vjp")
    loops = [op for op in walk(made.program.functions["f.vjp"].region) if op.name == "for"]
    carried = [r.type for r in loops[0].results if isinstance(r.type, t.Array) and r.type.length is None]
    assert carried == [t.array(t.F64, None)] * 2  # sin needs %e, mul its result
    assert all(element is t.F64 for element in tapes(made.program, "f.vjp"))


def test_the_reverse_loop_adds_to_elements_in_place():
    program = parse("""
    func @f(%a: [4 x f64], %n: i32) -> (f64) {
      %zero = const 0.0 : f64
      %r = for %n, %zero : f64 (%i: i32, %s: f64) {
        %e = index %a, %i
        %p = mul %e, %e
        %t = add %s, %p
        yield %t
      }
      yield %r
    }
    """)
    made, _ = differentiated(program, "f", "vjp")
    forward, backward = [op for op in made.program.functions["f.vjp"].region.ops if op.name == "for"]
    assert [r.type for r in forward.results] == [t.F64]  # %a is only read: nothing is kept
    names = [op.name for op in backward.regions[0].ops]
    assert "add_index" in names and "make" not in names and "for" not in names
    check(program, "f", (A, 4), order=2)


def test_loops_that_only_add_keep_nothing():
    program = parse("""
    func @f(%x: f64, %y: f64, %n: i32) -> (f64) {
      %r = for %n, %x : f64 (%i: i32, %s: f64) {
        %k = convert %i : f64
        %p = mul %y, %k
        %q = add %s, %p
        %t = sub %q, %x
        yield %t
      }
      yield %r
    }
    """)
    made, _ = differentiated(program, "f", "vjp")
    assert made.reports["f.vjp"].stored == ()
    check(program, "f", (0.3, 0.4, 5), order=2)


def test_parts_of_a_struct_that_is_only_read_are_read_again():
    program = parse("""
    struct "Net" { w: [3 x [3 x f64]], b: [3 x f64] }
    differential struct "Net" : struct "Net" (0 -> 0, 1 -> 1)

    func @f(%net: struct "Net", %x: f64) -> (f64) {
      %three = const 3 : u32
      %r = for %three, %x : f64 (%i: u32, %s: f64) {
        %w = get %net {index=0}
        %row = index %w, %i
        %b = get %net {index=1}
        %bi = index %b, %i
        %t = for %three, %bi : f64 (%j: u32, %sum: f64) {
          %e = index %row, %j
          %p = mul %e, %s
          %u = add %sum, %p
          yield %u
        }
        %y = tanh %t
        yield %y
      }
      yield %r
    }
    """)
    made, _ = differentiated(program, "f", "vjp")
    kept = made.reports["f.vjp"].stored
    assert sorted(each.name for each in kept) == ["s", "t"]
    assert all(each.count == 3 and each.bytes_a_thread == 24 for each in kept)
    w = ((0.1, 0.2, 0.3), (-0.4, 0.5, -0.6), (0.7, -0.8, 0.9))
    check(program, "f", ((w, (0.1, 0.2, 0.3)), 0.5), order=2)


LAYERS = """
struct "Net" { w: [2 x [8 x [8 x f64]]], b: [2 x [8 x f64]] }
differential struct "Net" : struct "Net" (0 -> 0, 1 -> 1)

func @f(%net: struct "Net", %x: [8 x f64]) -> ([8 x f64]) {
  %two = const 2 : u32
  %eight = const 8 : u32
  %out = for %two, %x : [8 x f64] (%l: u32, %h: [8 x f64]) {
    %start = zero : [8 x f64]
    %next = for %eight, %start : [8 x f64] (%i: u32, %acc: [8 x f64]) {
      %bs = get %net {index=1}
      %bl = index %bs, %l
      %b = index %bl, %i
      %sum = for %eight, %b : f64 (%j: u32, %s: f64) {
        %ws = get %net {index=0}
        %wl = index %ws, %l
        %row = index %wl, %i
        %w = index %row, %j
        %hj = index %h, %j
        %p = mul %w, %hj
        %t = add %s, %p
        yield %t
      }
      %y = sin %sum
      %acc.1 = set_index %acc, %i, %y
      yield %acc.1
    }
    yield %next
  }
  yield %out
}
"""


def test_layers():
    w = tuple(
        tuple(tuple(0.03 * (layer + i - j) - 0.1 for j in range(8)) for i in range(8)) for layer in range(2)
    )
    b = tuple(tuple(0.1 * (i - layer) for i in range(8)) for layer in range(2))
    check(parse(LAYERS), "f", ((w, b), tuple(0.2 * i - 0.5 for i in range(8))))


def test_an_array_that_inner_loops_read_over_and_over_is_kept_once():
    made, _ = differentiated(parse(LAYERS), "f", "vjp")
    kept = made.reports["f.vjp"].stored
    assert [(each.name, each.type, each.count) for each in kept] == [
        ("h", "[8 x f64]", 2),
        ("sum", "f64", 16),
    ]


def test_parts_of_an_array_have_no_cotangents_of_their_own():
    """The reverse loops carry cotangents of the net and of the layers, but none of rows and matrices."""
    made, _ = differentiated(parse(LAYERS), "f", "vjp")
    loops = [op for op in walk(made.program.functions["f.vjp"].region) if op.attributes.get("reverse")]
    carried = {str(r.type) for op in loops for r in op.results}
    assert carried == {'struct "Net"', "[8 x f64]", "f64"}
    names = [op.name for op in walk(loops[-1].regions[0])]
    assert names.count("add_index") == 2 and "for" not in names


STEP = """
func @f(%x: [16 x f64], %y: [16 x f64], %n: i32) -> (f64) {
  %2 = const 2 : i32
  %h = const 0.5 : f64
  %both = make %x, %y : [2 x [16 x f64]]
  %r = for %n, %both : [2 x [16 x f64]] (%i: i32, %m: [2 x [16 x f64]]) {
    %v = get %m {index=0}
    %a = index %v, %i
    %b = mul %a, %a
    %v.1 = set_index %v, %i, %b
    %m.1 = set %m, %v.1 {index=0}
    %c = index %v.1, %n
    %d = mul %c, %h
    %p = get %m.1 {index=1}
    %e = index %p, %i
    %g = sin %e
    %k = mul %g, %d
    %p.1 = set_index %p, %i, %k
    %m.2 = set %m.1, %p.1 {index=1}
    yield %m.2
  }
  %s = get %r {index=0}
  %q = get %r {index=1}
  %u = index %s, %2
  %w = index %q, %2
  %t = mul %u, %w
  yield %t
}
"""


def test_cotangents_of_elements_wait_for_that_of_the_array():
    """No array is made for them alone, and no two are added, which would be a loop."""
    program = parse(STEP)
    made, _ = differentiated(program, "f", "vjp")
    names = [op.name for op in walk(made.program.functions["f.vjp"].region)]
    assert names.count("for") == 2
    numbers = tuple(0.1 * i for i in range(16))
    for n in (0, 3, 15):
        check(program, "f", (numbers, numbers[::-1], n), order=2)


def test_two_cotangents_of_one_tape_are_refused():
    text = """
    func @f(%x: f64, %n: i32) -> (f64) {
      %empty = zero : [? x f64]
      %zero = const 0 : i32
      %t = set_index %empty, %n, %x
      %a = for %n, %t : [? x f64] (%i: i32, %b: [? x f64]) {
        %c = set_index %b, %i, %x
        yield %c
      }
      %d = for %n, %t : [? x f64] (%i: i32, %e: [? x f64]) {
        %g = index %e, %zero
        %h = sin %g
        %k = set_index %e, %i, %h
        yield %k
      }
      %p = index %a, %n
      %q = index %d, %n
      %r = mul %p, %q
      yield %r
    }"""
    with pytest.raises(CompileError, match=r"E9008.*two loops of unknown length"):
        derivative(parse(text), "f", "vjp", (0.5, 3, 1.0))
