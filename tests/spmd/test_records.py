"""Structs in memory: which loads and stores are made together, and that it does not show."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from slangrad.ir.data.types import F32, F64, I32, array, matrix, struct, vector
from slangrad.ir.ops.core import walk
from slangrad.spmd.records import components_of
from slangrad.spmd.widen import widen
from tests.llvm.machine import ALL_FEATURES, KERNEL, assert_like_oracle
from tests.spmd import kernels

HEAD = """
struct "Mixed" { a: f32, b: i32, c: f32 }
struct "Arguments" { v: ptr<f32x3, global>, w: ptr<f32x3, global>, m: ptr<struct "Mixed", global>, i: ptr<u32, global> }
arguments struct "Arguments"
func @kernel() -> () {kernel=true} {
  %t = thread_id {axis=0} : u32
  %v_in = parameter {name="v"} : ptr<ptr<f32x3, global>, constant>
  %w_in = parameter {name="w"} : ptr<ptr<f32x3, global>, constant>
  %m_in = parameter {name="m"} : ptr<ptr<struct "Mixed", global>, constant>
  %i_in = parameter {name="i"} : ptr<ptr<u32, global>, constant>
  %vs = load %v_in : ptr<f32x3, global>
  %ws = load %w_in : ptr<f32x3, global>
  %ms = load %m_in : ptr<struct "Mixed", global>
  %is = load %i_in : ptr<u32, global>
  %v = offset %vs, %t
  %w = offset %ws, %t
  %m = offset %ms, %t
  %vx = member %v {index=0}
  %vy = member %v {index=1}
  %vz = member %v {index=2}
  %wx = member %w {index=0}
  %wy = member %w {index=1}
  %wz = member %w {index=2}
"""
LOADS = "  %x = load %vx : f32\n  %y = load %vy : f32\n  %z = load %vz : f32\n"
STORES = "  store %wx, %y\n  store %wz, %x\n  store %wy, %z\n"

BODIES = {
    "all components": LOADS + STORES,
    "in a branch": LOADS
    + "  %c = less %x, %y\n  if %c {"
    + STORES
    + "  yield } {"
    + STORES.replace("%wx, %y", "%wx, %z")
    + "  yield }",
    "a load after a store": "  %x = load %vx : f32\n  store %vy, %x\n  %y = load %vy : f32\n  store %wx, %y",
    "some components": "  %y = load %vy : f32\n  store %wx, %y",
    "a load between stores": "  %x = load %vx : f32\n  store %wx, %x\n  %old = load %wy : f32\n"
    "  store %wy, %x\n  store %wz, %old",
    "twice the same": LOADS + "  store %wx, %x\n  store %wx, %y\n  store %wy, %x\n  store %wz, %z",
    "mixed types": """
  %ma = member %m {index=0}
  %mb = member %m {index=1}
  %mc = member %m {index=2}
  %a = load %ma : f32
  %b = load %mb : i32
  %c = load %mc : f32
  %b2 = add %b, %b
  store %ma, %c
  store %mb, %b2
  store %mc, %a""",
    "of one's own choice": """
  %i_at = offset %is, %t
  %i = load %i_at : u32
  %p = offset %vs, %i
  %px = member %p {index=0}
  %py = member %p {index=1}
  %x = load %px : f32
  %y = load %py : f32
  store %wx, %y
  store %wy, %x""",
}


program_of = partial(kernels.program_of, head=HEAD)


def arguments(count: int) -> dict[str, object]:
    rng = np.random.default_rng(count)
    return {
        "v": rng.uniform(-2, 2, 3 * count).astype(np.float32),
        "w": rng.uniform(-2, 2, 3 * count).astype(np.float32),
        "m": rng.integers(0, 1 << 30, 3 * count).astype(np.int32),
        "i": rng.integers(0, count, count).astype(np.uint32),
    }


@pytest.mark.parametrize("name", BODIES)
def test_like_the_oracle(name: str) -> None:
    for count in (1, 37):
        assert_like_oracle(program_of(BODIES[name]), arguments(count), count)


@pytest.mark.parametrize("name", ["in a branch", "mixed types"])
def test_on_other_machines(name: str) -> None:
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(BODIES[name]), arguments(23), 23, lanes=(8, 16), cpus=cpus)


@pytest.mark.parametrize(
    "name, loads, stores",
    [
        ("all components", 1, 1),
        ("a load after a store", 2, 0),
        ("some components", 1, 0),
        ("a load between stores", 2, 0),
        ("twice the same", 1, 1),
        ("mixed types", 1, 1),
        ("of one's own choice", 0, 0),
    ],
)
def test_what_is_joined(name: str, loads: int, stores: int) -> None:
    full = widen(program_of(BODIES[name]).functions[KERNEL], 8).full
    assert full is not None
    found = Counter(op.name for op in walk(full.region))
    assert (found["load_record"], found["store_record"]) == (loads, stores)


def test_what_is_a_record() -> None:
    assert components_of(vector(F32, 3)) == (F32, F32, F32)
    assert components_of(struct("Pair", (("a", F32), ("b", I32)))) == (F32, I32)
    assert components_of(matrix(F32, 2, 2)) == (F32,) * 4
    assert components_of(struct("Gap", (("a", F32), ("b", F64)))) is None
    assert components_of(array(F32, 1)) is None
    assert components_of(array(F32, 5)) is None
