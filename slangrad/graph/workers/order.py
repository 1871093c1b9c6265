"""The order in which a stage of a pipeline runs its micro-batches: one forward, one backward.

    stage 0    F0 F1 F2 B0 F3 B1 F4 B2 ...        as many forward sweeps ahead as there are stages behind it
    stage 1       F0 F1 B0 F2 B1 F3 ...
    stage 2          FB0 FB1 FB2 ...

A stage holds the values of at most as many micro-batches as there are stages from it to the last.
"""

from __future__ import annotations


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[tuple[bool, int]]:
    """Whether each turn is a backward sweep, and of which micro-batch."""
    ahead = min(microbatches, stages - stage)
    made = [(False, i) for i in range(ahead)]
    for i in range(microbatches):
        made.append((True, i))
        if i + ahead < microbatches:
            made.append((False, i + ahead))
    return made
