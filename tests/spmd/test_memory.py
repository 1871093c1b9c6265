"""How lanes reach memory: the oracle's results, and the kind of access that was chosen."""

from collections import Counter
from functools import partial
from threading import Thread

import numpy as np
import pytest

from slangrad.base.options import Options
from slangrad.ir.data.types import Lanes
from slangrad.ir.ops.core import Program, walk
from slangrad.runtime.cpu import CpuDevice
from slangrad.spmd.widen import widen
from tests.llvm.machine import (
    ALL_FEATURES,
    KERNEL,
    argument_block,
    assert_like_oracle,
    compile_kernel,
    options_for,
    oracle,
    run,
)
from tests.spmd import kernels

HEAD = """
struct "Float3" { x: f32, y: f32, z: f32 }
struct "Arguments" { n: u32, s: i32, base: u32, x: ptr<f32, global>, i: ptr<u32, global>, y: ptr<f32, global>,
  c: ptr<u32, global>, v: ptr<struct "Float3", global>,
  h: ptr<f16, global>, b: ptr<bool, global>, d: ptr<i64, global> }
arguments struct "Arguments"
func @kernel() -> () {kernel=true} {
  %t = thread_id {axis=0} : u32
  %n_at = parameter {name="n"} : ptr<u32, constant>
  %n = load %n_at : u32
  %s_at = parameter {name="s"} : ptr<i32, constant>
  %s = load %s_at : i32
  %base_at = parameter {name="base"} : ptr<u32, constant>
  %base = load %base_at : u32
  %x_in = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %xs = load %x_in : ptr<f32, global>
  %i_in = parameter {name="i"} : ptr<ptr<u32, global>, constant>
  %is = load %i_in : ptr<u32, global>
  %y_in = parameter {name="y"} : ptr<ptr<f32, global>, constant>
  %ys = load %y_in : ptr<f32, global>
  %c_in = parameter {name="c"} : ptr<ptr<u32, global>, constant>
  %cs = load %c_in : ptr<u32, global>
  %v_in = parameter {name="v"} : ptr<ptr<struct "Float3", global>, constant>
  %vs = load %v_in : ptr<struct "Float3", global>
  %h_in = parameter {name="h"} : ptr<ptr<f16, global>, constant>
  %hs = load %h_in : ptr<f16, global>
  %b_in = parameter {name="b"} : ptr<ptr<bool, global>, constant>
  %bs = load %b_in : ptr<bool, global>
  %d_in = parameter {name="d"} : ptr<ptr<i64, global>, constant>
  %ds = load %d_in : ptr<i64, global>
  %x_at = offset %xs, %t
  %x = load %x_at : f32
  %i_at = offset %is, %t
  %i = load %i_at : u32
  %y_at = offset %ys, %t
  %c_at = offset %cs, %t
  %1 = const 1 : u32
  %2 = const 2 : u32
  %3 = const 3 : u32
  %7 = const 7 : u32
  %10 = const 10 : u32
  %zero = const 0.0 : f32
  %positive = less %zero, %x
"""
ROOM = 200


program_of = partial(kernels.program_of, head=HEAD)


def arguments(count: int, **changed: object) -> dict[str, object]:
    rng = np.random.default_rng(count)
    return {
        "n": 11,
        "s": 1,
        "base": 0,
        "x": rng.uniform(-2, 2, ROOM).astype(np.float32),
        "i": rng.integers(0, 40, ROOM).astype(np.uint32),
        "y": rng.uniform(-2, 2, ROOM).astype(np.float32),
        "c": rng.integers(0, 99, ROOM).astype(np.uint32),
        "v": rng.uniform(-2, 2, 3 * ROOM).astype(np.float32),
        "h": rng.uniform(-2, 2, ROOM).astype(np.float16),
        "b": rng.integers(0, 2, ROOM).astype(bool),
        "d": rng.integers(-99, 99, ROOM).astype(np.int64),
    } | changed


# fmt: off
BODIES = {
    "neighbors": """
  %u = add %t, %1
  %at = offset %xs, %u
  %v = load %at : f32
  %w = sub %v, %x
  store %y_at, %w""",
    "a constant stride": """
  %u = mul %t, %3
  %w = add %u, %2
  %at = offset %xs, %w
  %v = load %at : f32
  %to = offset %ys, %u
  store %to, %v""",
    "fields of structs": """
  %p = offset %vs, %t
  %px = member %p {index=0}
  %py = member %p {index=1}
  %pz = member %p {index=2}
  %vx = load %px : f32
  %vy = load %py : f32
  %vz = load %pz : f32
  %a = mul %vx, %vy
  %b = add %a, %vz
  store %y_at, %b
  store %py, %a
  if %positive { store %pz, %x yield } { yield }""",
    "gather": """
  %at = offset %xs, %i
  %v = load %at : f32
  store %y_at, %v""",
    "gather in a branch": """
  %r = if %positive : f32 { %at = offset %xs, %i %v = load %at : f32 yield %v } { yield %x }
  store %y_at, %r""",
    "scatter with conflicts": """
  %j = rem %i, %7
  %at = offset %ys, %j
  store %at, %x""",
    "scatter in a branch": """
  if %positive { %j = rem %i, %7 %at = offset %ys, %j store %at, %x yield } { yield }""",
    "one address for all": """
  %at = offset %ys, %n
  %v = load %at : f32
  %u = offset %xs, %n
  %w = load %u : f32
  %q = add %v, %w
  %to = offset %cs, %n
  store %to, %i
  %r = if %positive : f32 { store %at, %x yield %x } { yield %w }
  %last = offset %xs, %7
  store %last, %r""",
    "other types": """
  %h_at = offset %hs, %t
  %h = load %h_at : f16
  %b_at = offset %bs, %t
  %b = load %b_at : bool
  %d_at = offset %ds, %t
  %d = load %d_at : i64
  %h2 = mul %h, %h
  %nb = not %b
  %d2 = add %d, %d
  store %h_at, %h2
  if %positive { store %b_at, %nb store %d_at, %d2 yield } { store %h_at, %h yield }
  %100 = const 100 : u32
  %far = add %i, %100
  %hi = offset %hs, %far
  %hg = load %hi : f16
  %bi = offset %bs, %far
  %bg = load %bi : bool
  %f = convert %hg : f32
  %g = convert %bg : f32
  %fg = add %f, %g
  store %y_at, %fg""",
    "addresses of bytes": """
  %bytes = bitcast %xs : ptr<u8, global>
  %wide = convert %t : i64
  %4 = const 4 : i64
  %distance = mul %wide, %4
  %moved = offset %bytes, %distance
  %at = bitcast %moved : ptr<f32, global>
  %v = load %at : f32
  %number = bitcast %y_at : u64
  %eight = const 8 : u64
  %after = add %number, %eight
  %to = bitcast %after : ptr<f32, global>
  store %to, %v""",
    "signed and narrow indices": """
  %a = convert %t : i32
  %neg = neg %a
  %q = const 120 : i32
  %r = add %neg, %q
  %at = offset %xs, %r
  %v = load %at : f32
  %small = convert %t : u8
  %sat = offset %xs, %small
  %w = load %sat : f32
  %z = add %v, %w
  store %y_at, %z""",
}
# fmt: on


@pytest.mark.parametrize("name", BODIES)
def test_like_the_oracle(name: str) -> None:
    program = program_of(BODIES[name])
    for count in (1, 37):
        assert_like_oracle(program, arguments(count), count)


@pytest.mark.parametrize("name", ["fields of structs", "other types", "scatter in a branch"])
def test_on_other_machines(name: str) -> None:
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(BODIES[name]), arguments(23), 23, lanes=(8, 16), cpus=cpus)


STRIDE_AT_RUN_TIME = """
  %ti = convert %t : i32
  %m = mul %ti, %s
  %at = offset %xs, %m
  %v = load %at : f32
  %to = offset %ys, %m
  %w = add %v, %x
  store %to, %w"""


@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 5])
def test_strides_known_at_run_time(stride: int) -> None:
    """Arrays begin in the middle, for negative strides."""
    body = STRIDE_AT_RUN_TIME.replace("offset %xs", "offset %xmid").replace("offset %ys", "offset %ymid")
    middle = "  %half = const 100 : u32\n  %xmid = offset %xs, %half\n  %ymid = offset %ys, %half\n"
    assert_like_oracle(program_of(middle + body), arguments(19, s=stride), 19)


@pytest.mark.parametrize("base", [0, 1 << 32 - 1, (1 << 32) - 5, (1 << 32) - 16, (1 << 31) - 3])
def test_indices_that_wrap_within_a_wave(base: int) -> None:
    """u32 indices wrap before they become addresses, even in the middle of a wave."""
    offset = -base & 0xFFFFFFFF
    body = f"""
  %b = add %t, %base
  %back = const {offset - 8 if offset > 8 else 0} : u32
  %u = add %b, %back
  %7s = const 127 : u32
  %w = and %u, %7s
  %at = offset %xs, %w
  %v = load %at : f32
  %g = sub %b, %base
  %gat = offset %xs, %g
  %gv = load %gat : f32
  %r = add %v, %gv
  store %y_at, %r
  %wide = convert %b : i64
  %dat = offset %ds, %t
  store %dat, %wide"""
    assert_like_oracle(program_of(body), arguments(40, base=base), 40)


def test_a_wrapping_index_reads_where_it_wraps_to() -> None:
    body = """
  %u = add %t, %base
  %at = offset %xs, %u
  %ok = less %u, %n
  %r = if %ok : f32 { %v = load %at : f32 yield %v } { yield %zero }
  store %y_at, %r"""
    assert_like_oracle(program_of(body), arguments(16, base=(1 << 32) - 6), 16)


# --- atomics

# fmt: off
ATOMICS = {
    "count": "  %old = atomic %cs, %1 {kind=\"add\"} : u32",
    "count in a branch": "  if %positive { %old = atomic %cs, %i {kind=\"add\"} : u32 yield } { yield }",
    "ticket": """
  %old = atomic %cs, %3 {kind="add"} : u32
  store %i_at, %old""",
    "histogram": """
  %j = rem %i, %7
  %at = offset %cs, %j
  %old = atomic %at, %1 {kind="add"} : u32
  store %i_at, %old""",
    "own element": "  %old = atomic %c_at, %i {kind=\"xor\"} : u32",
    "greatest": """
  %old = atomic %cs, %i {kind="max"} : u32
  %o2 = atomic %is, %i {kind="min"} : u32""",
    "bits": """
  %old = atomic %cs, %i {kind="or"} : u32
  %at = offset %cs, %1
  %o2 = atomic %at, %i {kind="and"} : u32""",
    "exchange": """
  %old = atomic %cs, %t {kind="exchange"} : u32
  store %i_at, %old""",
    "exchange of floats": """
  %old = atomic %ys, %x {kind="exchange"} : f32
  store %x_at, %old""",
    "compare and exchange": """
  %j = rem %i, %7
  %at = offset %cs, %j
  %e = load %at : u32
  %old = atomic %at, %e, %t {kind="compare_exchange"} : u32
  store %i_at, %old""",
    "add floats to one's own": "  %old = atomic %y_at, %x {kind=\"add\"} : f32",
    "add floats to any": """
  %j = rem %i, %7
  %at = offset %ys, %j
  %old = atomic %at, %x {kind="add"} : f32
  store %x_at, %old""",
    "greatest float": """
  %old = atomic %ys, %x {kind="max"} : f32
  %o2 = atomic %hs, %hmin {kind="min"} : f16""",
    "add halves": """
  %h = convert %x : f16
  %at = offset %hs, %i
  %old = atomic %at, %h {kind="add"} : f16""",
    "compare and exchange floats": """
  %j = rem %i, %3
  %at = offset %ys, %j
  %e = load %at : f32
  %old = atomic %at, %e, %x {kind="compare_exchange"} : f32
  store %x_at, %old""",
    "stride at run time": """
  %ti = convert %t : i32
  %m = mul %ti, %s
  %at = offset %cs, %m
  %old = atomic %at, %i {kind="add"} : u32""",
}
# fmt: on


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name: str, exclusive: bool) -> None:
    body = "  %hmin = const 0.25 : f16\n" + ATOMICS[name]
    if "compare and exchange" in name and not exclusive:
        count = 4  # lanes load before any of them exchanges
        assert_like_oracle(program_of(body), arguments(count), 1, lanes=(1, 8))
        return
    if "compare and exchange" in name:
        assert_like_oracle(program_of(body), arguments(1), 1, lanes=(8,), exclusive=True)
        return
    for stride in (1, 0) if "stride" in name else (1,):
        assert_like_oracle(program_of(body), arguments(37, s=stride), 37, exclusive=exclusive)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("stride", [0, 1, 2])
def test_sums_of_floats_have_one_order(exclusive: bool, stride: int) -> None:
    """Lanes are added to each other first where they share an address: not the oracle's order, but always the
    same.
    """
    body = """
  %ti = convert %t : i32
  %m = mul %ti, %s
  %at = offset %ys, %m
  %old = atomic %at, %x {kind="add"} : f32
  %to = offset %ys, %n
  %o2 = atomic %to, %x {kind="add"} : f32"""
    program, given = program_of(body), arguments(50, s=stride)
    expected, _ = oracle(program, given, (50, 1, 1))
    results = []
    for lanes in (8, 16):
        compiled = compile_kernel(program, options_for("", lanes), exclusive=exclusive)
        found = [run(compiled, program, given, (50, 1, 1)).arrays["y"] for _ in range(2)]
        assert np.array_equal(found[0], found[1])
        np.testing.assert_allclose(found[0], expected.arrays["y"], rtol=1e-5, atol=1e-5)
        results.append(found[0])


def test_threads_add_at_the_same_time() -> None:
    """Many chunks on two threads: nothing is lost."""
    program = program_of("""
  %j = rem %t, %7
  %at = offset %cs, %j
  %old = atomic %at, %1 {kind="add"} : u32
  %to = offset %ds, %j
  %one = const 1 : i64
  %o2 = atomic %to, %one {kind="add"} : i64
  %fone = const 1.0 : f32
  %fat = offset %ys, %j
  %o3 = atomic %fat, %fone {kind="add"} : f32""").functions[KERNEL]
    count = 70_000
    given = arguments(1, x=np.zeros(count, np.float32), i=np.zeros(count, np.uint32))
    given |= {"c": np.zeros(7, np.uint32), "d": np.zeros(7, np.int64), "y": np.zeros(7, np.float32)}
    whole = Program({KERNEL: program}, {}, program_of("").arguments)
    found = run(compile_kernel(whole, options_for()), whole, given, (count, 1, 1))
    assert found.arrays["c"].tolist() == [10_000] * 7
    assert found.arrays["d"].tolist() == [10_000] * 7
    assert found.arrays["y"].tolist() == [10_000.0] * 7


def test_python_threads_add_at_the_same_time() -> None:
    """Kernels that rely on nobody else adding floats wait for each other."""
    body = '  %one = const 1.0 : f32\n  %old = atomic %ys, %one {kind="add"} : f32'
    program = program_of(body)
    kernel = compile_kernel(program, options_for(), exclusive=True).kernel
    count = 4_000_000  # of which only the sum is seen: loads that nobody uses vanish
    data, arrays = argument_block(program, arguments(1) | {"y": np.zeros(1, np.float32)})
    device = CpuDevice(Options(threads=1))
    threads = [Thread(target=device.launch, args=(kernel, data, (count, 1, 1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert arrays["y"].tolist() == [4.0 * count]


# --- local arrays

# fmt: off
LOCALS = {
    "uniform indices": """
  %a = alloc {count=4} : ptr<f32, local>
  %a1 = offset %a, %1
  %a2 = offset %a, %2
  store %a1, %x
  store %a2, %zero
  if %positive { store %a2, %x yield } { yield }
  %v = load %a1 : f32
  %w = load %a2 : f32
  %s2 = sub %v, %w
  store %y_at, %s2""",
    "varying indices": """
  %a = alloc {count=8, zero=true} : ptr<f32, local>
  %j = rem %i, %7
  %at = offset %a, %j
  store %at, %x
  %k = rem %t, %7
  %from = offset %a, %k
  %v = load %from : f32
  if %positive { %at2 = offset %a, %k store %at2, %v yield } { yield }
  %last = offset %a, %3
  %w = load %last : f32
  %r = add %v, %w
  store %y_at, %r""",
    "indices of a stride": """
  %a = alloc {count=64, zero=true} : ptr<f32, local>
  %at = offset %a, %t
  store %at, %x
  %same = load %at : f32
  %5 = const 5 : u32
  %a5 = offset %a, %5
  %v = load %a5 : f32
  %r = add %v, %same
  store %y_at, %r""",
    "a table that all lanes share": """
  %a = alloc {count=3} : ptr<f32, local>
  %c0 = const 0.5 : f32
  %c1 = const 1.5 : f32
  %c2 = convert %n : f32
  %a1 = offset %a, %1
  %a2 = offset %a, %2
  store %a, %c0
  store %a1, %c1
  store %a2, %c2
  %j = rem %i, %3
  %at = offset %a, %j
  %v = load %at : f32
  %w = load %a2 : f32
  %r = add %v, %w
  store %y_at, %r""",
    "loops": """
  %a = alloc {count=10, zero=true} : ptr<f32, local>
  for %10 (%q: u32) { %at = offset %a, %q %f = convert %q : f32 %g = mul %f, %x store %at, %g yield }
  %m = rem %i, %10
  for %m (%q: u32) { %at = offset %a, %q %f = load %at : f32 %g = mul %f, %x store %at, %g yield }
  %r = for %10, %zero {reverse=true} : f32 (%q: u32, %u: f32) {
    %at = offset %a, %q %f = load %at : f32 %g = add %f, %u yield %g
  }
  store %y_at, %r""",
    "new in each iteration": """
  %m = rem %i, %10
  %r = for %m, %zero : f32 (%q: u32, %u: f32) {
    %a = alloc {count=2, zero=true} : ptr<f32, local>
    %at = offset %a, %1
    %old = load %at : f32
    %s3 = add %u, %x
    store %at, %s3
    %new = load %at : f32
    %w = add %new, %old
    yield %w
  }
  store %y_at, %r""",
    "truth values": """
  %a = alloc {count=4, zero=true} : ptr<bool, local>
  %a1 = offset %a, %1
  if %positive { store %a1, %positive yield } { yield }
  %j = rem %i, %2
  %at = offset %a, %j
  %v = load %at : bool
  %f = convert %v : f32
  store %y_at, %f""",
    "large": """
  %a = alloc {count=9000, zero=true} : ptr<f32, local>
  %b = alloc {count=6000} : ptr<f32, local>
  %8999 = const 8999 : u32
  %far = offset %a, %8999
  store %far, %x
  %bi = offset %b, %i
  store %bi, %x
  %v = load %bi : f32
  %w = load %far : f32
  %ai = offset %a, %i
  %z = load %ai : f32
  %r = add %v, %w
  %r2 = add %r, %z
  store %y_at, %r2""",
}
# fmt: on


@pytest.mark.parametrize("name", LOCALS)
def test_local_memory(name: str) -> None:
    program = program_of(LOCALS[name])
    assert_like_oracle(program, arguments(37), 37)


@pytest.mark.parametrize("name", ["varying indices", "loops"])
def test_local_memory_on_other_machines(name: str) -> None:
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(LOCALS[name]), arguments(23), 23, lanes=(8, 16), cpus=cpus)


# --- which access was chosen


def accesses(body: str) -> Counter[str]:
    """What loads and stores became, those that each kernel has included."""
    full = widen(program_of(body).functions[KERNEL], 8).full
    assert full is not None
    found: Counter[str] = Counter()
    for op in walk(full.region):
        if op.name in ("load", "store"):
            many = isinstance(op.operands[0].type, Lanes)
            value = op.operands[1] if op.name == "store" else op.results[0]
            kind = "scattered" if many else "consecutive" if isinstance(value.type, Lanes) else "scalar"
            found[f"{kind} {op.name}"] += 1
    return found


BASE = accesses("")


@pytest.mark.parametrize(
    "name, expected",
    [
        ("addresses of bytes", {"consecutive load": 1, "consecutive store": 1}),
        ("gather", {"scattered load": 1, "consecutive store": 1}),
        ("scatter with conflicts", {"scattered store": 1}),
        ("a constant stride", {"scattered load": 1, "scattered store": 1}),
        ("neighbors", {"consecutive load": 1, "scattered load": 1, "consecutive store": 1}),
    ],
)
def test_kinds_of_access(name: str, expected: dict[str, int]) -> None:
    """A neighbor's index may wrap, so there is a slow path, too."""
    assert accesses(BODIES[name]) - BASE == Counter(expected)


def test_thread_numbers_need_no_guard() -> None:
    assert BASE["scattered load"] == 0 and BASE["consecutive load"] == 2


def test_shared_tables_are_scalar() -> None:
    found = accesses(LOCALS["a table that all lanes share"]) - BASE
    assert found["scalar store"] == 3 and found["scattered load"] == 1 and found["scalar load"] == 1


def test_private_arrays_are_interleaved() -> None:
    found = accesses(LOCALS["uniform indices"]) - BASE
    assert found["scattered load"] == 0 and found["scattered store"] == 0
