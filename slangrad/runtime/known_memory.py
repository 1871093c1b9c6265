"""Which memory there is: what kernels of check mode compare addresses with.

In: nothing; blocks are found among the objects of the process, so that without check mode nobody keeps a list.
Out: a table { i64 count; { i64 start, end; } ranges[count] } in the order of the addresses.
"""

from __future__ import annotations

import gc
from bisect import bisect_right

import numpy as np

from slangrad.runtime.memory import Block


class KnownMemory:
    """All blocks that are alive, as of now; memory that touches is one range only where blocks overlap."""

    def __init__(self) -> None:
        blocks = (each for each in gc.get_objects() if type(each) is Block)
        found = sorted((each.address, each.address + each.wanted) for each in blocks if each.wanted)
        ranges: list[tuple[int, int]] = []
        for start, end in found:
            if ranges and start < ranges[-1][1]:
                ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
            else:
                ranges.append((start, end))
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]
        self._table = np.array([len(ranges), *(place for each in ranges for place in each)], np.int64)

    @property
    def address(self) -> int:
        """Where the table is, as long as this object lives."""
        found: int = self._table.ctypes.data
        return found

    def holds(self, address: int, size: int) -> bool:
        """Whether so many bytes are within a block."""
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address + size <= self._ends[at]
