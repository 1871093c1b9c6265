"""More lanes for loops whose iterations wait for each other; the usual number for all others."""

import pytest

from slangrad.spmd.analyses.width import suitable_lanes
from tests.ir.parse_text import parse_program
from tests.llvm.machine import KERNEL

CHAIN = """
  %r = for %n, %x : f32 (%i: u32, %s: f32) {
    %s2 = mul %s, %s
    %s3 = sub %s2, %x
    yield %s3
  }
  store %at, %r"""
VARYING = CHAIN.replace("for %n,", "for %t,")
WIDE = """
  %a, %b, %c, %d, %e, %f, %g, %h = for %n, %x, %x, %x, %x, %x, %x, %x, %x : f32, f32, f32, f32, f32, f32, f32, f32
      (%i: u32, %s0: f32, %s1: f32, %s2: f32, %s3: f32, %s4: f32, %s5: f32, %s6: f32, %s7: f32) {
    %m0 = mul %s0, %x
    %m1 = mul %s1, %x
    %m2 = mul %s2, %x
    %m3 = mul %s3, %x
    %m4 = mul %s4, %x
    %m5 = mul %s5, %x
    %m6 = mul %s6, %x
    %m7 = mul %s7, %x
    yield %m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7
  }
  store %at, %a"""
STRAIGHT = """
  %r = mul %x, %x
  store %at, %r"""
LOCAL = (
    "  %array = alloc {count=1000} : ptr<f32, local>\n"
    + CHAIN
    + "\n  %place = offset %array, %t\n  store %place, %r"
)


def kernel(body: str):  # type: ignore[no-untyped-def]
    return parse_program(f"""
struct "arguments" {{ data: ptr<f32, global>, n: u32 }}
arguments struct "arguments"
func @kernel() -> () {{kernel=true, group_size=(256, 1, 1)}} {{
  %d0 = parameter {{name="data"}} : ptr<ptr<f32, global>, constant>
  %data = load %d0 : ptr<f32, global>
  %n0 = parameter {{name="n"}} : ptr<u32, constant>
  %n = load %n0 : u32
  %t = thread_id {{axis=0}} : u32
  %at = offset %data, %t
  %x = load %at : f32
{body}
  yield
}}
""").functions[KERNEL]


@pytest.mark.parametrize(
    "body, lanes",
    [(CHAIN, 64), (VARYING, 16), (WIDE, 16), (STRAIGHT, 16), (LOCAL, 16)],
    ids=["a chain", "lanes that leave at different times", "many values", "no loop", "a large local array"],
)
def test_lanes_on_registers_of_32_bytes(body: str, lanes: int) -> None:
    assert suitable_lanes(kernel(body), 16, register_bytes=32, registers=16) == lanes


def test_one_lane_stays_one() -> None:
    assert suitable_lanes(kernel(CHAIN), 1, 16, 16) == 1


def test_more_registers_hold_more_lanes() -> None:
    assert suitable_lanes(kernel(WIDE), 16, register_bytes=64, registers=32) == 16
    assert suitable_lanes(kernel(CHAIN), 16, register_bytes=64, registers=32) == 64


@pytest.mark.parametrize("kind, count, lanes", [("f64", 9_000, 4), ("f64", 100, 16), ("f32", 9_000, 16)])
def test_a_huge_kernel_of_doubles_has_lanes_of_one_register(kind: str, count: int, lanes: int) -> None:
    lines = [f"  %y0 = convert %x : {kind}", *(f"  %y{i + 1} = sqrt %y{i}" for i in range(count))]
    body = "\n".join([*lines, f"  %r = convert %y{count} : f32", "  store %at, %r"])
    assert suitable_lanes(kernel(body), 16, register_bytes=32, registers=16) == lanes
