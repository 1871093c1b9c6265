"""W3 in half against float: the network of examples/mlp, both in turn: the ratio of their times.

    PYTHONPATH=.:benchmarks:<folder of workloads.py> python benchmarks/half_network.py [rounds]

Gradients of 2^20 samples overflow in half, so nothing is compared with the reference here.
"""

import sys
import time

import numpy as np
import peer_slangrad
import workloads as w


def main(rounds=9):
    d, n = w.w3_data(), w.W3_SIZES["2^20"]
    steps = [peer_slangrad.Training(d, "2^20", n, dtype).step for dtype in (np.float32, np.float16)]
    taken = [[], []]
    for _ in range(rounds + 1):  # the first one warms up
        for times, step in zip(taken, steps, strict=True):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    floats, halves = (np.array(times[1:]) for times in taken)
    print(f"float {floats.min() * 1e3:.1f} ms, half {halves.min() * 1e3:.1f} ms, smallest of {rounds}")
    ratios = (
        f"{np.median(halves / floats):.2f} (median of rounds), {halves.min() / floats.min():.2f} (smallest)"
    )
    print(f"half / float: {ratios}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
