"""More random programs than a test has time for, at all widths and levels, on all cores.

python -m tests.gradients.run_random_programs FIRST COUNT        exits with 1 and prints the seeds whose derivatives are wrong

One in four is of mixed precision.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context

import numpy as np

import slangrad as spy
from slangrad.base.options import CALLS
from tests.gradients.random_programs import generate, in_doubles
from tests.gradients.test_random_programs import Run, Vector, check, check_mixed

SHAPES = ((), (2,), (2,), (4,))
POINTS = 8


def wrong(seed: int) -> str:
    """What is wrong with the derivatives of a program; nothing where all is right."""
    os.environ["SLANGRAD_OPTIMIZE"] = str(seed % 3)
    os.environ["SLANGRAD_LANES"] = str((1, 4, 8, 16, 32)[seed % 5])
    os.environ["SLANGRAD_CALLS"] = CALLS[seed // 4 % len(CALLS)]
    device = spy.create_device()

    def compiled(name: str, text: str) -> Run:
        module = spy.Module.load_from_source(device, name, text)

        def run(x: float, y: float, n: int) -> list[Vector]:
            out = [spy.Tensor.from_numpy(device, np.zeros((1, *shape))) for shape in SHAPES]
            module.run(np.array([x]), np.array([y]), np.array([n], dtype=np.int32), *out)
            return [each.to_numpy()[0] for each in out]

        return run

    try:
        if seed % 4 == 3:
            text = generate(seed, mixed=True)
            check_mixed(compiled("program", text), compiled("exact", in_doubles(text)), POINTS, seed)
        else:
            check(compiled("program", generate(seed)), POINTS, seed)
    except Exception as error:
        return f"{seed}: {type(error).__name__}: {error}"
    return ""


def main(first: int, count: int) -> int:
    found = 0
    # A worker keeps what it compiled, so it makes room for a new one after some programs.
    with get_context("spawn").Pool(maxtasksperchild=20) as workers:
        for each in workers.imap_unordered(wrong, range(first, first + count)):
            if each:
                found += 1
                print(each, flush=True)
    print(f"{count} programs, {found} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
