"""The table of primitives, continued: ops that stages of targets make, legal after these stages only (verify.py).

    SUMS     adds that wait for the end of the launch      of targets that plan them
    LANES    exchange between the lanes of a wave          of targets that widen
    CPU      chunks, groups in a row, tapes in one piece   of the CPU only

A target with ops of its own has a table like these. They compute after differentiation and nothing folds them, so a
row has neither a primal nor partials.
"""

from __future__ import annotations

from slangrad.ir.ops.primitives import FIRST, GIVEN, NOT_DIFFERENTIABLE, NOTHING, PURE, READ, WRITE, row


def dialect(*rows: tuple[str, str, int, str, str, str]) -> frozenset[str]:
    """Rows of name, type rule, cost, effect, kinds of operands and attributes join the table; returns the names."""
    for name, rule, cost, effect, kinds, says in rows:
        row(name, rule, None, NOT_DIFFERENTIABLE, cost, effect, kinds, says)
    return frozenset(name for name, *_ in rows)


# fmt: off
# `launch{field}` is a number of the launch: how many threads there are along an axis, where partial sums lie.
# `planned{index}` is a result of the plan that ran before the launch, `accumulators{block, count}` memory of the wave
# that lives, from zero on, as long as a chunk of threads.
SUMS = dialect(
    ("launch",        GIVEN,   1, PURE,  "*", "field"),
    ("planned",       GIVEN,   0, PURE,  "*", "index"),
    ("accumulators",  GIVEN,   0, PURE,  "*", "block count"),
)
# Behind widening `splat` fills lanes, too, and load and store may take a mask as their last operand. `lane_index`
# is 0, 1, 2, ... over the lanes; `lane_bits` packs truth values into a u64, lane 0 lowest; `lane_reduce{kind}`
# combines all lanes by a primitive, in a fixed order.
LANES = dialect(
    ("lane_index",    GIVEN,   0, PURE,  "*", ""),
    ("lane_get",      GIVEN,   1, PURE,  "*", ""),
    ("lane_set",      FIRST,   1, PURE,  "*", ""),
    ("lane_bits",     GIVEN,   1, PURE,  "b", ""),
    ("lane_reduce",   GIVEN,   4, PURE,  "*", "kind"),
)
# `chunk_thread{which}` is the first or the last thread of a chunk along x, `group_id{axis}` the group that runs as a
# whole (spmd/groups.py). `tape_address{write} %tape, %i` is where lane 0 has element i: when it is to be written there
# is room for it, else what was not written reads zero. Where lanes have indices of their own: `tape_reserve %tape,
# %last` makes room up to an index, elements below `tape_capacity` are behind `tape_elements`.
CPU = dialect(
    ("chunk_thread",  GIVEN,   0, PURE,  "*", "which"),
    ("group_id",      GIVEN,   0, PURE,  "*", "axis"),
    ("tape_address",  GIVEN,   4, WRITE, "*", "write?"),
    ("tape_reserve",  NOTHING, 4, WRITE, "*", ""),
    ("tape_capacity", GIVEN,   4, READ,  "*", ""),
    ("tape_elements", GIVEN,   4, READ,  "*", ""),
)
# fmt: on
