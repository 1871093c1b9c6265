"""Several threads of the program in one of a GPU, without one: the text of the kernel on this processor, where accesses
that are not aligned end the process, against the oracle."""

import numpy as np
import pytest

from slangrad.base.options import Options
from slangrad.targets import cuda
from slangrad.unit import FlatKernel
from tests.ir.parse_text import parse_program
from tests.llvm.gpu_threads import assert_flat_like_oracle
from tests.llvm.machine import KERNEL

HEAD = """
struct "arguments" { a: ptr<A, global>, b: ptr<f32, global>, width: u32, height: u32 }
arguments struct "arguments"
func @kernel() -> () {kernel=true, group_size=(32, 1, 1)} {
  %1 = parameter {name="a"} : ptr<ptr<A, global>, constant>
  %a = load %1 : ptr<A, global>
  %2 = parameter {name="b"} : ptr<ptr<f32, global>, constant>
  %b = load %2 : ptr<f32, global>
  %3 = parameter {name="width"} : ptr<u32, constant>
  %width = load %3 : u32
  %4 = parameter {name="height"} : ptr<u32, constant>
  %height = load %4 : u32
  %t = thread_id {axis=0} : u32
  %one = const 1 : u32
  %two = const 2.0 : f32
"""
TAIL = "\n  yield\n}\n"
LOADED = """
  %at = offset %a, %t
  %x = load %at : A
  %out = offset %b, %t
"""
PRODUCT = f"""{LOADED}
  %y = load %out : f32
  %xx = mul %x, %x
  %sum = add %y, %xx
  store %out, %sum
"""


def flat(body, element="f32"):
    program = parse_program((HEAD + body + TAIL).replace("A,", f"{element},").replace(": A", f": {element}"))
    options = Options(contraction=False)
    return FlatKernel("kernel", program.functions[KERNEL], (), program.arguments, None, (), options)


def lanes_of(kernel):
    return cuda.write_llvm(cuda.widen_kernel(cuda.find_sums(kernel), "sm_90")).module.lanes


def numbers(count, dtype=np.float32):
    return np.random.default_rng(count).integers(-9, 9, count).astype(dtype)


def assert_equal(kernel, a, b, grid, width=1, height=1):
    assert_flat_like_oracle(kernel, {"a": a, "b": b, "width": width, "height": height}, grid)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 127, 128, 1023, 1024, 1025, 2047])
def test_rows_end_anywhere(count):
    kernel = flat(PRODUCT)
    assert lanes_of(kernel) == 4
    assert_equal(kernel, numbers(count), numbers(count), (count, 1, 1))


@pytest.mark.parametrize("shifts", [(1, 0), (0, 3), (2, 2), (4, 8)])
def test_memory_that_is_not_aligned(shifts):
    """Each array is used from some element on; four elements are 16 bytes."""
    names = {"%a,": "%a_from,", "%b,": "%b_from,"}
    body = PRODUCT
    for name, moved in names.items():
        body = body.replace(name, moved)
    body = f"  %a_from = offset %a, %width\n  %b_from = offset %b, %height\n{body}"
    assert_equal(flat(body), numbers(264), numbers(264), (256, 1, 1), *shifts)


ROWS = """
  %u = thread_id {axis=1} : u32
  %v = thread_id {axis=2} : u32
  %planes = mul %v, %height
  %row = add %planes, %u
  %before = mul %row, %width
  %a_row = offset %a, %before
  %b_row = offset %b, %before
  %at = offset %a_row, %t
  %x = load %at : A
  %number = convert %row : f32
  %product = mul %x, %number
  %column = convert %t : f32
  %sum = add %product, %column
  %out = offset %b_row, %t
  store %out, %sum
"""


@pytest.mark.parametrize("width", [3, 4, 6, 8, 40])
def test_rows_along_other_axes(width):
    """Where rows have a length that is no multiple of four, some are aligned and some are not."""
    kernel = flat(ROWS)
    assert lanes_of(kernel) == 4
    assert_equal(kernel, numbers(width * 15), numbers(width * 15), (width, 5, 3), width, 5)


@pytest.mark.parametrize(
    "element, dtype, lanes",
    [("f64", np.float64, 2), ("i32", np.int32, 4), ("i16", np.int16, 4), ("u8", np.uint8, 4)],
)
def test_elements_of_other_sizes(element, dtype, lanes):
    """The widest decide: 16 bytes are loaded at once, or four elements."""
    body = f"{LOADED}  %f = convert %x : f32\n  %r = mul %f, %two\n  store %out, %r"
    kernel = flat(body, element)
    assert lanes_of(kernel) == lanes
    for count in (64, 67):
        assert_equal(kernel, numbers(count, dtype), numbers(count), (count, 1, 1))


def test_branches_without_memory():
    body = f"""{LOADED}
  %large = less %two, %x
  %r, %n = if %large : f32, u32 {{
    %square = mul %x, %x
    %cube = mul %square, %x
    yield %cube, %one
  }} {{
    yield %x, %t
  }}
  %number = convert %n : f32
  %sum = add %r, %number
  store %out, %sum"""
    kernel = flat(body)
    assert lanes_of(kernel) == 4
    assert_equal(kernel, numbers(256), numbers(256), (256, 1, 1))


def test_values_of_all_threads():
    kernel = flat("  %x = load %a : A\n  %out = offset %b, %t\n  store %out, %x")
    assert lanes_of(kernel) == 4
    assert_equal(kernel, numbers(2), numbers(64), (64, 1, 1))


@pytest.mark.parametrize(
    "body",
    [
        "  %i = mul %t, %width\n  %at = offset %a, %i\n  %x = load %at : A\n  %out = offset %b, %t\n  store %out, %x",
        f"{LOADED}  store %b, %x",
        f"{LOADED}  %some = less %x, %two\n  if %some {{\n    store %out, %x\n    yield\n  }} {{\n    yield\n  }}",
        f'{LOADED}  %old = atomic %out, %x {{kind="add"}} : f32',
        f"{LOADED}  %s = for %t, %x : f32 (%i: u32, %p: f32) {{\n    %q = mul %p, %two\n    yield %q\n  }}\n  store %out, %s",
        f"{LOADED}  %ok = in_bounds %t, %width {{site=0}}\n  store %out, %x",
        "  %u = add %t, %one\n  %at = offset %a, %u\n  %x = load %at : A\n  %out = offset %b, %t\n  store %out, %x",
        "  store %b, %two",
    ],
    ids=["a stride", "one place", "a branch", "an atomic", "a loop", "a check", "a wrap", "no rows"],
)
def test_kernels_of_one_thread(body):
    """Where memory is not reached in one piece, or threads may go different ways in it."""
    assert lanes_of(flat(body)) == 1


@pytest.mark.parametrize("live, lanes", [(15, 4), (30, 2), (90, 1)])
def test_many_values_at_once(live, lanes):
    values = "".join(f"  %c{i} = const {i}.5 : f32\n  %y{i} = mul %x, %c{i}\n" for i in range(live))
    total = "".join(f"  %s{i + 1} = add %s{i}, %y{i}\n" for i in range(live))
    assert lanes_of(flat(f"{LOADED}{values}  %s0 = add %x, %x\n{total}  store %out, %s{live}")) == lanes
