"""A child of test_valid_programs.py: random programs on machine code and in the oracle, bit for bit.

python -m tests.fuzz.run_valid FIRST COUNT [LENGTH]    exits with 1 and prints the program when two results differ; with a length,
                                            programs of so many declarations
"""

import os
import resource
import sys

os.environ["SLANGRAD_CONTRACTION"] = "0"

import numpy as np

import slangrad as spy
from tests.fuzz.long_programs import generate_long
from tests.fuzz.programs import generate

MEMORY = 4 << 30

X = np.array(
    [0.5, -1.25, 3.0, 0.0, -0.0, 1e-3, 17.75, 1e30, np.inf, np.nan, -2.5, 4.0, 7.25], dtype=np.float32
)
Y = np.array([2.0, 0.25, -1.0, 0.0, 1.0, -3.5, 0.5, 1e10, 1.0, 2.0, -2.5, 4.0, 0.125], dtype=np.float32)
N = np.array([0, 1, 2, 3, 4, 5, 6, 7, -1, 100, -100, 2**31 - 1, -(2**31)], dtype=np.int32)


def outcome(backend: str, text: str) -> tuple[bytes, str]:
    """The bits of the results, NaNs made equal, and whether an index was out of range."""
    device = spy.create_device(backend=backend)
    module = spy.Module.load_from_source(device, "program", text)
    result = np.zeros(len(X), dtype=np.float32)
    try:
        module.f(X, Y, N, _result=result)
        reported = ""
    except IndexError:
        reported = "index out of range"
    result[np.isnan(result)] = np.nan
    return result.tobytes(), reported


def main(first: int, count: int, length: int = 0) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in range(first, first + count):
        text = generate_long(seed, length) if length else generate(seed)
        try:
            machine, oracle = outcome("cpu", text), outcome("interpreter", text)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}\n{text}")
            return 1
        if machine != oracle:
            print(f"seed {seed}: machine {np.frombuffer(machine[0], np.float32)} {machine[1]}")
            print(f"{'':12} oracle {np.frombuffer(oracle[0], np.float32)} {oracle[1]}\n{text}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
