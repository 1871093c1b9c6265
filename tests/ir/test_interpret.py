"""The oracle: arithmetic with the table's rules, control flow, memory, tapes, kernels, reports."""

import ctypes
import math

import numpy as np
import pytest

from slangrad.ir.oracle.interpret import KernelLaunch, Recorded, evaluate, run_kernel
from slangrad.ir.oracle.memory import Tape
from tests.ir.parse_text import parse_program


def run(text, *inputs, name=None, reports=None):
    program = parse_program(text)
    return evaluate(program, name or next(iter(program.functions)), inputs, reports=reports)


def binary(op, type, x, y, result=None):
    text = f"func @f(%x: {type}, %y: {type}) -> ({result or type}) {{ %r = {op} %x, %y yield %r }}"
    return run(text, x, y)[0]


def unary(op, type, x):
    return run(f"func @f(%x: {type}) -> ({type}) {{ %r = {op} %x yield %r }}", x)[0]


@pytest.mark.parametrize(
    ("op", "type", "x", "y", "expected"),
    [
        ("add", "i8", 127, 1, -128),
        ("sub", "u16", 0, 1, 65535),
        ("mul", "i32", 1 << 30, 6, -(1 << 31)),
        ("mul", "u64", (1 << 64) - 1, 2, (1 << 64) - 2),
        ("div", "i32", -7, 2, -3),
        ("div", "i32", -(1 << 31), -1, -(1 << 31)),
        ("div", "i32", 5, 0, 0),
        ("rem", "i32", -7, 2, -1),
        ("rem", "u32", 7, 0, 0),
        ("shl", "u8", 1, 9, 2),
        ("shr", "i32", -8, 1, -4),
        ("shr", "u32", 8, 33, 4),
        ("xor", "i16", -1, 5, -6),
        ("add", "f32", 1.0, 1e-8, 1.0),
        ("add", "f64", 1.0, 1e-15, 1.000000000000001),
        ("add", "f16", 2048.0, 1.0, 2048.0),
        ("mul", "f32", 1e30, 1e30, math.inf),
        ("mul", "f16", 300.0, 300.0, math.inf),
        ("div", "f32", 1.0, -0.0, -math.inf),
        ("rem", "f32", -5.5, 2.0, -1.5),
        ("min", "f32", math.nan, 2.0, 2.0),
        ("max", "f32", 1.0, math.nan, 1.0),
        ("pow", "f64", 2.0, 10.0, 1024.0),
    ],
)
def test_binary(op, type, x, y, expected):
    assert binary(op, type, x, y) == expected


def test_unary_and_domains():
    assert unary("sqrt", "f32", 2.0) == float(np.float32(math.sqrt(2.0)))
    assert math.isnan(unary("sqrt", "f32", -1.0))
    assert unary("log", "f32", 0.0) == -math.inf
    assert unary("exp", "f32", 1000.0) == math.inf
    assert math.copysign(1, unary("ceil", "f32", -0.5)) == -1
    assert unary("round", "f32", 2.5) == 2.0
    assert unary("not", "u8", 1) == 254
    assert unary("not", "bool", True) is False
    assert unary("reverse_bits", "u8", 1) == 128
    assert unary("leading_zeros", "i32", 1) == 31


def test_fma_rounds_once():
    text = "func @f(%x: f32, %y: f32, %z: f32) -> (f32) { %r = fma %x, %y, %z yield %r }"
    x = float(np.float32(1 + 2**-23))
    assert run(text, x, x, -1.0) == (float(np.float32(2**-22 + 2**-46)),)


def test_comparison_is_componentwise():
    assert binary("less", "f32x3", (1.0, 2.0, math.nan), (2.0, 2.0, 2.0), "boolx3") == (True, False, False)
    assert binary("not_equal", "f32x2", (1.0, math.nan), (1.0, math.nan), "boolx2") == (False, True)
    x, y = ((1.0, 2.0), (3.0, 4.0)), ((2.0, 2.0), (0.5, 2.0))
    assert binary("mul", "f32x2x2", x, y) == ((2.0, 4.0), (1.5, 8.0))


@pytest.mark.parametrize(
    ("source", "target", "x", "expected"),
    [
        ("f32", "i32", 3.99, 3),
        ("f32", "i32", 1e20, (1 << 31) - 1),
        ("f32", "u8", -5.0, 0),
        ("f64", "i32", math.nan, 0),
        ("i32", "u8", 300, 44),
        ("i32", "f16", 70000, math.inf),
        ("f64", "f32", 0.1, 0.10000000149011612),
        ("i64", "bool", 2, True),
        ("bool", "f32", True, 1.0),
    ],
)
def test_convert(source, target, x, expected):
    text = f"func @f(%x: {source}) -> ({target}) {{ %r = convert %x : {target} yield %r }}"
    assert run(text, x) == (expected,)


def test_bitcast():
    assert run("func @f(%x: f32) -> (u32) { %r = bitcast %x : u32 yield %r }", 1.0) == (0x3F800000,)
    text = "func @f(%x: ptr<f32, global>) -> (u64) { %r = bitcast %x : u64 yield %r }"
    assert run(text, 1 << 47) == (1 << 47,)


MOVEMENT = """
struct "S" { v: f32x2, a: [3 x i32] }
func @f(%s: struct "S", %x: f32) -> (struct "S") {
  %v = get %s {index=0}
  %w = set %v, %x {index=1}
  %t = set %s, %w {index=0}
  yield %t
}
func @swizzle(%v: f32x3) -> (f32x2) { %r = shuffle %v {indices=(2, 0)} : f32x2 yield %r }
func @splat(%x: f32) -> (f32x2x2) { %r = splat %x : f32x2x2 yield %r }
func @choose(%c: boolx2, %x: f32x2, %y: f32x2) -> (f32x2) { %r = select %c, %x, %y yield %r }
func @row(%m: f32x2x3, %i: i32) -> (f32x3) { %r = index %m, %i yield %r }
func @constant() -> (f32x2) { %r = const 0.1 : f32x2 yield %r }
"""


def test_movement():
    assert run(MOVEMENT, ((1.0, 2.0), (1, 2, 3)), 9.0) == (((1.0, 9.0), (1, 2, 3)),)
    assert run(MOVEMENT, (1.0, 2.0, 3.0), name="swizzle") == ((3.0, 1.0),)
    assert run(MOVEMENT, 4.0, name="splat") == (((4.0, 4.0), (4.0, 4.0)),)
    assert run(MOVEMENT, (True, False), (1.0, 2.0), (3.0, 4.0), name="choose") == ((1.0, 4.0),)
    assert run(MOVEMENT, ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), 1, name="row") == ((4.0, 5.0, 6.0),)
    assert run(MOVEMENT, name="constant") == ((0.10000000149011612, 0.10000000149011612),)


@pytest.mark.parametrize(
    ("i", "read", "written", "added"),
    [
        (1, 2.0, (1.0, 9.0, 3.0), (1.0, 11.0, 3.0)),
        (-1, 0.0, (1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
        (3, 0.0, (1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
    ],
)
def test_indices_are_total_and_reported(i, read, written, added):
    text = """
    func @f(%a: [3 x f32], %i: i32, %v: f32, out %b: [3 x f32], out %c: [3 x f32]) -> (f32) {
      %r = index %a, %i {check=true}
      %w = set_index %a, %i, %v
      %s = add_index %a, %i, %v
      yield %r, %w, %s
    }"""
    reports = Recorded()
    assert run(text, (1.0, 2.0, 3.0), i, 9.0, reports=reports) == (read, written, added)
    assert reports.bounds == ([] if i == 1 else [(i, 3)])


def test_add_index_reaches_into_aggregates():
    text = """
    struct "S" { v: f32x2, x: f32 }
    func @f(%a: [2 x struct "S"], %i: i32, %v: struct "S") -> ([2 x struct "S"]) {
      %r = add_index %a, %i, %v
      yield %r
    }"""
    one = ((1.0, 2.0), 3.0)
    assert run(text, (one, one), 1, one) == ((one, ((2.0, 4.0), 6.0)),)


def test_tapes_are_values():
    text = """
    func @f(%n: i32, %i: i32, out %old: f32) -> (f32) {
      %big = const 100.0 : f32
      %t = zero : [? x f32]
      %full = for %n, %t : [? x f32] (%k: i32, %u: [? x f32]) {
        %x = convert %k : f32
        %w = set_index %u, %k, %x
        yield %w
      }
      %more = set_index %full, %i, %big
      %new = index %more, %i
      %before = index %full, %i
      yield %new, %before
    }"""
    assert run(text, 5, 3) == (100.0, 3.0)
    assert run(text, 5, 77) == (100.0, 0.0)
    assert run(text, 5, -1) == (0.0, 0.0)


def test_versions_of_a_tape_stay_what_they_were():
    empty = Tape()
    one = empty.put(0, 1.0)
    two = one.put(1, 2.0)
    other = one.put(0, 5.0)
    assert [v.at(0) for v in (empty, one, two, other)] == [None, 1.0, 1.0, 5.0]
    assert [v.at(1) for v in (other, two, one, empty)] == [None, 2.0, None, None]
    assert two.items() == {0: 1.0, 1: 2.0}
    assert other.items() == {0: 5.0}


def test_if_for_while_call():
    text = """
    func @clamp(%x: i32, %limit: i32) -> (i32) {
      %more = less %limit, %x
      %r = if %more : i32 { yield %limit } { yield %x }
      yield %r
    }
    func @sum(%n: i32, %limit: i32, out %last: i32) -> (i32) {
      %zero = const 0 : i32
      %s, %l = for %n, %zero, %zero {reverse=true} : i32, i32 (%i: i32, %acc: i32, %seen: i32) {
        %c = call @clamp %i, %limit : i32
        %t = add %acc, %c
        yield %t, %i
      }
      yield %s, %l
    }
    func @collatz(%n: i32) -> (i32) {
      %zero = const 0 : i32
      %one = const 1 : i32
      %two = const 2 : i32
      %three = const 3 : i32
      %steps, %end = while %zero, %n : i32, i32 (%k: i32, %m: i32) {
        %go = less %one, %m
        yield %go
      } (%j: i32, %x: i32) {
        %odd = rem %x, %two
        %is_odd = equal %odd, %one
        %next = if %is_odd : i32 {
          %a = mul %x, %three
          %b = add %a, %one
          yield %b
        } {
          %h = div %x, %two
          yield %h
        }
        %k1 = add %j, %one
        yield %k1, %next
      }
      yield %steps
    }"""
    assert run(text, 10, 4, name="sum") == (0 + 1 + 2 + 3 + 4 * 6, 0)
    assert run(text, -3, 4, name="sum") == (0, 0)
    assert run(text, 27, name="collatz") == (111,)


KERNEL = """
struct "Item" { h: f16, v: f32x2, on: bool }
struct "Block" { scale: f32, items: ptr<struct "Item", global>, total: ptr<i32, global> }
arguments struct "Block"
func @kernel() -> () {kernel=true} {
  %p = parameter {name="scale"} : ptr<f32, constant>
  %scale = load %p : f32
  %q = parameter {name="items"} : ptr<ptr<struct "Item", global>, constant>
  %items = load %q : ptr<struct "Item", global>
  %id = thread_id {axis=0} : u32
  %item = offset %items, %id
  %va = member %item {index=1}
  %y = member %va {index=1}
  %old = load %y : f32
  %new = mul %old, %scale
  store %y, %new
  %ha = member %item {index=0}
  %h = load %ha : f16
  %two = const 2.0 : f16
  %h2 = mul %h, %two
  store %ha, %h2
  %on = member %item {index=2}
  %was = load %on : bool
  %not = not %was
  store %on, %not
  %t = parameter {name="total"} : ptr<ptr<i32, global>, constant>
  %total = load %t : ptr<i32, global>
  %five = const 5 : i32
  %before = atomic %total, %five {kind="add"} : i32
  print %id, %new {format="%u %f"}
  yield
}
"""


def test_kernel_uses_the_memory_of_the_argument_block():
    item = np.dtype([("h", "f2"), ("v", "f4", 2), ("on", "?")], align=True)
    items = np.zeros(3, item)
    items["h"], items["v"], items["on"] = [1, 2, 3], [[1, 10], [2, 20], [3, 30]], [True, False, True]
    total = np.zeros(1, np.int32)
    block = np.array([(0.5, items.ctypes.data, total.ctypes.data)], np.dtype("f4,u8,u8", align=True))
    reports = Recorded()
    run_kernel(parse_program(KERNEL), "kernel", KernelLaunch(block.ctypes.data, (3, 1, 1)), reports)
    assert items["v"].tolist() == [[1, 5], [2, 10], [3, 15]]
    assert items["h"].tolist() == [2, 4, 6]
    assert items["on"].tolist() == [False, True, False]
    assert total.tolist() == [15]
    assert reports.prints == [("%u %f", (0, 5.0)), ("%u %f", (1, 10.0)), ("%u %f", (2, 15.0))]


def test_atomics():
    text = """
    func @f(%p: ptr<u32, global>, %a: u32, %b: u32, out %y: u32) -> (u32) {
      %x = atomic %p, %a {kind="max"} : u32
      %z = atomic %p, %a, %b {kind="compare_exchange"} : u32
      yield %x, %z
    }"""
    cell = ctypes.c_uint32(7)
    assert run(text, ctypes.addressof(cell), 9, 4) == (7, 9)
    assert cell.value == 4


def test_bounds_of_buffers_are_reported():
    text = "func @f(%i: i32, %n: u32) -> (bool) { %r = in_bounds %i, %n yield %r }"
    reports = Recorded()
    assert run(text, 3, 4, reports=reports) == (True,)
    assert reports.bounds == []
    assert run(text, -1, 4, reports=reports) == (False,)
    assert reports.bounds == [(-1, 4)]


def test_local_memory():
    text = """
    func @f(%i: i32, %x: f32, out %zero: f32) -> (f32) {
      %p = alloc {count=4, zero=true} : ptr<f32, local>
      %q = offset %p, %i
      store %q, %x
      %y = load %q : f32
      %z = load %p : f32
      yield %y, %z
    }"""
    assert run(text, 2, 1.5) == (1.5, 0.0)
    assert run(text, 0, 1.5) == (1.5, 1.5)


def test_tapes_as_memory():
    text = """
    func @f(%i: i32, %x: f32, out %copied: f32, out %empty: f32) -> (f32) {
      %t = tape_new : ptr<f32, tape>
      tape_store %t, %i, %x
      %c = tape_copy %t
      tape_add %t, %i, %x
      %y = tape_load %t, %i
      %z = tape_load %c, %i
      %null = zero : ptr<f32, tape>
      %e = tape_load %null, %i
      yield %y, %z, %e
    }"""
    assert run(text, 9, 1.5) == (3.0, 1.5, 0.0)


def test_null_pointers_are_caught():
    with pytest.raises(AssertionError, match="address 0"):
        run("func @f(%p: ptr<f32, global>) -> (f32) { %x = load %p : f32 yield %x }", 0)


def test_tapes_that_begin_with_one_zero_share_nothing() -> None:
    empty = Tape()
    first, second = empty.put(0, 1.0), empty.put(0, 2.0)
    for i in range(1, 2000):
        first, second = first.put(i, 1.0), second.put(i, 2.0)
    assert (empty.items(), first.at(1999), second.at(0)) == ({}, 1.0, 2.0)
    assert first._elements is not second._elements
