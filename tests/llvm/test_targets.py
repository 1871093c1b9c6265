"""Machines: what is known of them, code for machines that are not this one, passes and options."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slangrad.base.options import Limits, Options
from slangrad.ir.ops.core import Program
from slangrad.llvm.cpu import LaneKernel, kernel_module
from slangrad.llvm.machine import native
from slangrad.llvm.machine.cpu_names import check_cpu
from slangrad.llvm.machine.target import TargetMachine
from slangrad.spmd.widen import widen
from tests.ir.parse_text import parse_program
from tests.llvm.machine import KERNEL, module_for, options_for, target_for

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-unknown-linux-gnu"

POLYNOMIAL = """
struct "Arguments" { a: f32, x: ptr<f32, global>, y: ptr<f32, global> }
arguments struct "Arguments"
func @kernel() -> () {kernel=true} {
  %t = thread_id {axis=0} : u32
  %a_at = parameter {name="a"} : ptr<f32, constant>
  %x_in = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %y_in = parameter {name="y"} : ptr<ptr<f32, global>, constant>
  %a = load %a_at : f32
  %xs = load %x_in : ptr<f32, global>
  %ys = load %y_in : ptr<f32, global>
  %x_at = offset %xs, %t
  %y_at = offset %ys, %t
  %x = load %x_at : f32
  %m = mul %a, %x
  %r = add %m, %x
  store %y_at, %r
  yield
}
"""
LOOP = POLYNOMIAL.replace(
    "  store",
    """
  %zero = const 0 : i32
  %one = const 1 : i32
  %s, %n = while %r, %zero : f32, i32 (%u: f32, %i: i32) { %c = less %u, %a yield %c } (%u: f32, %i: i32) {
    %v = mul %u, %u  %j = add %i, %one  yield %v, %j
  }
  store""",
)
EVERYTHING = POLYNOMIAL.replace(
    "  store",
    """
  %h = convert %r : f16
  %h2 = mul %h, %h
  %w = convert %h2 : f64
  %w2 = fma %w, %w, %w
  %w3 = rem %w2, %w
  %i = convert %w3 : i32
  %q = div %i, %i
  %ok = in_bounds %q, %i {site=0}
  %tape = tape_new : ptr<f64, tape>
  tape_store %tape, %i, %w3
  %back = tape_load %tape, %q
  tape_free %tape
  %f = convert %back : f32
  %gather_at = offset %xs, %q
  %old = atomic %gather_at, %f {kind="add"} : f32
  print %old {format="%f", site=1}
  %local = alloc {count=9, zero=true} : ptr<f32, local>
  %at = offset %local, %q
  store %at, %f
  %many = alloc {count=100000} : ptr<f32, local>
  %far = offset %many, %q
  store %far, %f
  store""",
)
KERNELS = {"polynomial": POLYNOMIAL, "loop": LOOP, "everything": EVERYTHING}


def text_for(program: Program, target: TargetMachine) -> str:
    wide = widen(program.functions[KERNEL], target.lanes)
    kernel = LaneKernel(wide.full, wide.masked, wide.lanes, program.arguments)
    return kernel_module(kernel, target, Options(lanes=target.lanes)).text


@pytest.mark.parametrize(
    "cpu, lanes, half, fma, masks",
    [
        ("x86-64-v2", 8, False, False, False),
        ("x86-64-v3", 16, True, True, False),
        ("x86-64-v4", 16, True, True, True),
    ],
)
def test_what_is_known_of_x86(cpu: str, lanes: int, half: bool, fma: bool, masks: bool) -> None:
    target = native.describe_target(X86, cpu)
    assert target.lanes == lanes
    features = target.features
    assert (features.half, features.fma, features.mask_registers, features.masked_stores) == (
        half,
        fma,
        masks,
        masks,
    )


def test_this_machine_is_the_default() -> None:
    target = native.target_of(Options())
    assert target.cpu and target.flags and target.lanes in (8, 16)
    assert native.target_of(Options(cpu="native")) == target
    assert native.target_of(Options(lanes=4)).lanes == 4


def test_machines_that_this_one_is_not() -> None:
    """Running their code would end the process."""
    here = native.target_of(Options())
    if not here.features.mask_registers:
        with pytest.raises(ValueError, match="cannot run code for x86-64-v4"):
            native.target_of(Options(cpu="x86-64-v4"))


def test_lanes_are_powers_of_two() -> None:
    with pytest.raises(ValueError, match="12 lanes"):
        native.target_of(Options(lanes=12))


@pytest.mark.parametrize("name", KERNELS)
def test_code_for_arm(name: str) -> None:
    target = native.describe_target(ARM, "generic")
    assert target.lanes == 8 and target.features.fma and target.features.half
    text = text_for(parse_program(KERNELS[name]), target)
    listing = native.assembly(text, target)
    assert re.search(r"\bfmla\s+v\d+\.4s", listing) and not calls(listing)
    assert native.object_code(text, target)[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "skylake-avx512", "sapphirerapids", "znver5"]
)
def test_code_for_other_x86(cpu: str) -> None:
    """In a child process: an error of LLVM's would end this one."""
    script = f"""
from tests.llvm.test_targets import *
target = native.describe_target(X86, {cpu!r})
for source in KERNELS.values():
    for lanes in (1, 8, 16, 32):
        sized = TargetMachine(target.triple, target.cpu, target.flags, lanes, target.features)
        listing = native.assembly(text_for(parse_program(source), sized), sized)
        assert not calls(listing), calls(listing)
"""
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr[-2000:]


OWN = {
    "drain",
    *("entry", "reserve", "take", "give", "grow", "free_tape", "clear", "poll"),
    *("remainder", "fused", "mantissa", "exponent", "scale"),
}


def calls(listing: str) -> set[str]:
    """Functions that are called and not ours; there must be none, as nobody links them."""
    called = set(re.findall(r"^\s+(?:callq|jmp|bl)\s+\.?L?(\w+)(?:\$local|@PLT)?$", listing, re.MULTILINE))
    return {name for name in called if not name.startswith("BB")} - OWN


def test_contraction_is_an_option() -> None:
    program = parse_program(POLYNOMIAL)
    target = target_for("x86-64-v3")
    fused = native.assembly(module_for(program, options_for("x86-64-v3", 8, contraction=True)).text, target)
    exact = native.assembly(module_for(program, options_for("x86-64-v3", 8, contraction=False)).text, target)
    assert "vfmadd" in fused and "vfmadd" not in exact


def test_what_waves_share_is_computed_once() -> None:
    """Loads of arguments and their splats stand before the loop over waves."""
    text = module_for(parse_program(POLYNOMIAL), options_for("", 8)).text
    before = text.split("waves")[0]
    assert before.count("!invariant.load") == 3 and before.count("shufflevector") == 1


def test_text_that_llvm_refuses() -> None:
    with pytest.raises(native.BackEndError, match="LLVM refused"):
        native.object_code("define void @f() {", target_for(""))


def test_large_locals_are_not_on_the_stack() -> None:
    program = parse_program(EVERYTHING)
    wide = widen(program.functions[KERNEL], 8)
    kernel = LaneKernel(wide.full, wide.masked, 8, program.arguments)
    small = kernel_module(kernel, target_for(""), Options(lanes=8))
    large = kernel_module(kernel, target_for(""), Options(lanes=8, limits=Limits(local_bytes=1 << 20)))
    assert "%locals = call ptr @reserve" in small.text and "%locals" not in large.text


def test_an_unknown_cpu_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"no CPU 'haswel' \(SLANGRAD_CPU\): did you mean 'haswell'\? .*znver3"
    ):
        check_cpu("haswel", "x86_64-unknown-linux-gnu")
    with pytest.raises(ValueError, match="no CPU 'x86-64-v9'"):
        check_cpu("x86-64-v9", "x86_64-unknown-linux-gnu")
    check_cpu("x86-64-v3", "x86_64-unknown-linux-gnu")
    check_cpu("haswell", "x86_64-unknown-linux-gnu")
    check_cpu("cortex-a72", "aarch64-unknown-linux-gnu")


def test_halves_are_added_as_they_are_where_a_machine_can() -> None:
    program = parse_program(POLYNOMIAL.replace("f32", "f16"))
    for cpu, arithmetic in (("sapphirerapids", True), ("skylake-avx512", False)):
        target = native.describe_target(X86, cpu, lanes=16)
        assert target.features.half_arithmetic == arithmetic
        listing = native.assembly(text_for(program, target), target)
        assert ("vmulph" in listing) == arithmetic and ("vcvtph2ps" in listing) != arithmetic
        assert "vfmadd" not in listing  # each operation rounds
