"""What loops of lanes carry: scalars where live lanes agree, and copies for lanes that have left."""

from slangrad.ir.data.types import Lanes
from slangrad.ir.ops.core import Op, walk
from slangrad.spmd.widen import widen
from tests.llvm.machine import KERNEL
from tests.spmd import test_control_flow, test_tapes


def loop_in(program, name: str) -> Op:  # type: ignore[no-untyped-def]
    full = widen(program.functions[KERNEL], 8).full
    assert full is not None
    return next(op for op in walk(full.region) if op.name == name)


def test_a_counter_stays_scalar_while_lanes_are_live() -> None:
    """The count of the lanes that have left is a copy in lanes; it is followed by the mask."""
    loop = loop_in(test_control_flow.program_of(test_control_flow.BODIES["while"]), "while")
    kinds = [isinstance(r.type, Lanes) for r in loop.results]
    assert kinds == [True, False, True, True]


def test_lanes_of_a_reverse_loop_begin_at_different_times() -> None:
    """So a running count is not the same in them."""
    body = """
  %r = for %k, %0 {reverse=true} : i32 (%i: i32, %n2: i32) { %m = add %n2, %1 yield %m }
  store %z_at, %r"""
    (count,) = loop_in(test_control_flow.program_of(body), "for").results
    assert isinstance(count.type, Lanes)


def test_tapes_of_a_while_loop_are_used_row_by_row() -> None:
    program = test_tapes.program_of(test_tapes.BODIES["a while loop"])
    full = widen(program.functions[KERNEL], 8).full
    assert full is not None
    names = [op.name for op in walk(full.region)]
    assert names.count("tape_address") == 2 and "tape_reserve" not in names


def test_tapes_with_indices_of_lanes_are_gathered() -> None:
    program = test_tapes.program_of(test_tapes.BODIES["indices of one's own"])
    full = widen(program.functions[KERNEL], 8).full
    assert full is not None
    names = [op.name for op in walk(full.region)]
    assert names.count("tape_reserve") == 2 and "while" not in names
