"""Products of matrices by libraries: NumPy's, and torch's where the program has loaded it.

Threads of OpenBLAS wait busily for the next product, and take the processors from kernels. So it gets one thread, and
rows are divided among threads of ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from slangrad.graph.ir.layout import joined
from slangrad.graph.ir.ops import letters_in

NUMPY, TORCH = "numpy", "torch"
MATMUL: Callable[..., None] = np.matmul
Run = Callable[[], None]
Setter = tuple[Callable[[int], object], Callable[[], int]]
LEAST_FOR_THREADS = 1 << 21  # operations
SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")


def libraries() -> list[str]:
    return [NUMPY, TORCH] if "torch" in sys.modules else [NUMPY]


def product(
    letters: str, library: str, threads: int, after_torch: Run
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], Run]:
    """A product by a library. It takes operands and a result with axes of these letters, and gives the call that
    computes it. `after_torch` is called behind products of torch's."""
    (left, right), out = letters_in(letters)
    batch = [c for c in out if c in left and c in right]
    rows = [c for c in out if c in left and c not in right]
    columns = [c for c in out if c in right and c not in left]
    summed = [c for c in left if c in right and c not in out]
    matmul = (
        partial(_by_torch, after=after_torch) if library == TORCH else partial(_by_numpy, threads=threads)
    )

    def ordered(x: np.ndarray, names: str, *order: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Axes in the order batch and `order`, and the same as matrices. These are a copy where axes do not lie one
        behind the other, and where torch would have to read backwards."""
        x = x.transpose([names.index(c) for c in (*batch, *order[0], *order[1])])
        n, m = len(batch), len(batch) + len(order[0])
        is_refused = library == TORCH and any(step < 0 for step in x.strides)
        return x, (x.copy() if is_refused else x).reshape(
            (*x.shape[:n], prod(x.shape[n:m]), prod(x.shape[m:]))
        )

    def bound(a: np.ndarray, b: np.ndarray, result: np.ndarray) -> Run:
        views = (
            ordered(a, left, rows, summed),
            ordered(b, right, summed, columns),
            ordered(result, out, rows, columns),
        )
        (_, x), (_, y), (_, to) = views
        multiply = matmul(x, y, to)
        copies = [
            None if np.may_share_memory(*pair) else (pair[0], pair[1].reshape(pair[0].shape))
            for pair in views
        ]
        if not any(copies):
            return multiply
        *read, written = copies

        def run() -> None:
            for x, copy in filter(None, read):
                copy[...] = x
            multiply()
            if written:
                written[0][...] = written[1]

        return run

    return bound


def _by_torch(x: np.ndarray, y: np.ndarray, out: np.ndarray, after: Run) -> Run:
    """One product, one stack of products, or a loop over stacks: torch.matmul copies operands of which two batch axes
    are no single one."""
    torch = sys.modules["torch"]
    sizes, strides = joined(out.shape[:-2], [array.strides[:-2] for array in (x, y, out)])
    stacks = [
        np.lib.stride_tricks.as_strided(array, (*sizes, *array.shape[-2:]), (*steps, *array.strides[-2:]))
        for array, steps in zip((x, y, out), strides, strict=True)
    ]
    if not sizes:
        return _torch_call(torch.mm, stacks, after)
    if len(sizes) == 1:
        return _torch_call(torch.bmm, stacks, after)
    longest = max(range(len(sizes)), key=lambda i: (sizes[i], i))
    others = [n for i, n in enumerate(sizes) if i != longest]
    moved = [np.moveaxis(array, longest, -3) for array in stacks]
    calls = [_torch_call(torch.bmm, [x[i] for x in moved], after) for i in np.ndindex(*others)]

    def run() -> None:
        for call in calls:
            call()

    return run


def _torch_call(function: Callable[..., None], arrays: Sequence[np.ndarray], after: Run) -> Run:
    a, b, out = map(sys.modules["torch"].from_numpy, arrays)

    def run() -> None:
        function(a, b, out=out)
        after()

    return run


def _by_numpy(x: np.ndarray, y: np.ndarray, out: np.ndarray, threads: int) -> Run:
    """Blocks of the first axis, or of rows where there are no other ones."""
    setter = _setter()
    parts = 1 if threads < 2 or setter is None or out.size * x.shape[-1] < LEAST_FOR_THREADS else threads
    ends = np.linspace(0, len(out), parts + 1).astype(int)
    blocks = [slice(a, b) for a, b in pairwise(ends) if a < b]
    first, *others = (partial(MATMUL, x[i], y[i] if out.ndim > 2 else y, out=out[i]) for i in blocks)

    def run() -> None:
        with _one_thread(setter):
            others_run = [_helpers(os.getpid(), threads).submit(block) for block in others]
            first()
            for pending in others_run:
                pending.result()

    return run


@cache
def _helpers(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: they do not survive a fork."""
    return ThreadPoolExecutor(threads - 1, "slangrad-product")


@contextmanager
def _one_thread(setter: Setter | None) -> Iterator[None]:
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
def _setter() -> Setter | None:
    """The function that sets the number of OpenBLAS's threads; None if NumPy has another library."""
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text()
        for path in {line.split()[-1] for line in maps.splitlines() if "openblas" in line}:
            library = ctypes.CDLL(path)
            for name in SETTERS:
                if hasattr(library, name):
                    return getattr(library, name), getattr(library, name.replace("_set_", "_get_"))
    return None
