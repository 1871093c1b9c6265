"""Lines that kernels print on a GPU: a buffer in pinned memory, which the host reads when it waits.

struct Prints { i64 used, room, lost; i64 words[room]; };
struct Line { i32 site, size; i32 x, y; i32 z, kernel; i64 values[size - 3]; };      size in words

PrintBuffer(driver).take(kernels, write)       write(site, values) for each line, in the order of threads
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import numpy as np

from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.cuda.image import CudaKernel
from slangrad.runtime.device import MemoryRegion, RegionItems
from slangrad.runtime.reports import FORMATS, Printed, print_site, write_text

ROOM = 1 << 19  # words: 4 MiB
USED, FIELD_ROOM, LOST, WORDS = range(4)  # fields, in words
HEADER = 3  # words of a line before its values
WORD = np.dtype(np.int64)

Key = tuple[int, int, int]
Line = tuple[Key, int, int, list[int]]  # the thread as z, y, x; kernel; site; values


class PrintBuffer:
    """`address`: where kernels find it."""

    def __init__(self, driver: Driver) -> None:
        self.address = driver.pinned((WORDS + ROOM) * WORD.itemsize)
        region = MemoryRegion(self.address, (WORDS + ROOM,), (WORD.itemsize,), WORD)
        self._words = np.asarray(RegionItems(region, self))
        self._words[:] = 0
        self._words[FIELD_ROOM] = ROOM

    def take(self, kernels: Mapping[int, CudaKernel], printed: Printed) -> None:
        """Write all lines, and begin anew. No kernel that prints is running."""
        lines, lost = self._lines(), int(self._words[LOST])
        self._words[WORDS : WORDS + min(int(self._words[USED]), ROOM)] = 0
        self._words[USED] = self._words[LOST] = 0
        for _, kernel, number, words in lines:
            site = kernels[kernel].sites[number]
            print_site(site, FORMATS.format_of(site.text).decode(words), printed)
        if lost:
            write_text(f"({lost} more lines were printed than fit into the buffer of the GPU)\n")

    def _lines(self) -> list[Line]:
        """Sorted by threads. A thread prints in the order of its lines in the buffer. What had no room is not written,
        and its first word is zero."""
        end = min(int(self._words[USED]), ROOM)
        words = self._words[WORDS : WORDS + end].tolist()
        lines, at = list[Line](), 0
        while at < end and words[at]:
            site, size = _halves(words[at])
            (x, y), (z, kernel) = _halves(words[at + 1]), _halves(words[at + 2])
            lines.append(((z, y, x), kernel, site, words[at + HEADER : at + size]))
            at += size
        return sorted(lines, key=itemgetter(0))


def _halves(word: int) -> tuple[int, int]:
    """The lower 32 bits and the upper ones."""
    return word & 0xFFFFFFFF, word >> 32 & 0xFFFFFFFF
