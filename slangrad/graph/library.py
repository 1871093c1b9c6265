"""Products of matrices by libraries: NumPy's, and torch's where the program has loaded it.

Threads of OpenBLAS wait busily for the next product, and take the processors from kernels. So it gets one thread, and
rows are divided among threads of ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from slangrad.graph.ops import letters_in

NUMPY, TORCH = "numpy", "torch"
MATMUL: Any = np.matmul
LEAST_FOR_THREADS = 1 << 21  # operations
SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")


def libraries() -> list[str]:
    return [NUMPY, TORCH] if "torch" in sys.modules else [NUMPY]


def product(letters: str, library: str, threads: int) -> Callable[[Any, Any, Any], None]:
    """A product by a library, for operands and a result with axes of these letters."""
    (left, right), out = letters_in(letters)
    batch = [c for c in out if c in left and c in right]
    rows = [c for c in out if c in left and c not in right]
    columns = [c for c in out if c in right and c not in left]
    summed = [c for c in left if c in right and c not in out]
    matmul = _by_torch if library == TORCH else _by_numpy

    def matrices(x: Any, names: str, first: list[str], second: list[str]) -> Any:
        """Axes in the order batch, first, second; those of a kind as one."""
        x = x.transpose([names.index(c) for c in (*batch, *first, *second)])
        n, m = len(batch), len(batch) + len(first)
        return x.reshape((*x.shape[:n], prod(x.shape[n:m]), prod(x.shape[m:])))

    def run(a: Any, b: Any, result: Any) -> None:
        x, y = matrices(a, left, rows, summed), matrices(b, right, summed, columns)
        sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
        into = result.transpose([out.index(c) for c in (*batch, *rows, *columns)])
        made = into.reshape((*x.shape[:-1], y.shape[-1]))
        matmul(x, y, made, threads)
        if not np.shares_memory(made, into):
            into[...] = made.reshape([sizes[c] for c in (*batch, *rows, *columns)])

    return run


def _by_torch(x: Any, y: Any, out: Any, threads: int) -> None:
    torch = sys.modules["torch"]
    torch.matmul(torch.from_numpy(x), torch.from_numpy(y), out=torch.from_numpy(out))


def _by_numpy(x: Any, y: Any, out: Any, threads: int) -> None:
    """Blocks of the first axis, or of rows where there are no other ones."""
    setter = _setter()
    if threads < 2 or setter is None or out.size * x.shape[-1] < LEAST_FOR_THREADS:
        with _one_thread(setter):
            np.matmul(x, y, out=out)
        return
    ends = np.linspace(0, len(out), threads + 1).astype(int)
    blocks = [slice(a, b) for a, b in pairwise(ends) if a < b]
    pairs = [(x[block], y[block] if out.ndim > 2 else y) for block in blocks]
    with _one_thread(setter):
        others = [
            _helpers(os.getpid(), threads).submit(MATMUL, *pair, out=out[block])
            for pair, block in zip(pairs[1:], blocks[1:], strict=True)
        ]
        MATMUL(*pairs[0], out=out[blocks[0]])
        for each in others:
            each.result()


@cache
def _helpers(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: they do not survive a fork."""
    return ThreadPoolExecutor(threads - 1, "slangrad-product")


@contextmanager
def _one_thread(setter: Any) -> Iterator[None]:
    if setter is None:
        yield
        return
    put, get = setter
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


@cache
def _setter() -> Any:
    """How OpenBLAS is told how many threads it has; None where NumPy has another library."""
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text()
        for path in {line.split()[-1] for line in maps.splitlines() if "openblas" in line}:
            library = ctypes.CDLL(path)
            for name in SETTERS:
                if hasattr(library, name):
                    return getattr(library, name), getattr(library, name.replace("_set_", "_get_"))
    return None
