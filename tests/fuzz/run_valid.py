"""A child of test_valid_programs.py: random programs on machine code of the CPU and in the oracle, bit for bit.

python -m tests.fuzz.run_valid FIRST COUNT [LENGTH] [cuda]

It exits with 1 and prints the program when two results differ. With a length, programs have so many declarations. With
`cuda` a GPU stands in place of the oracle, or with SLANGRAD_FAKE_GPU=1 a driver that interprets kernels.
"""

import os
import resource
import sys
from contextlib import nullcontext

os.environ["SLANGRAD_CONTRACTION"] = "0"
os.environ["SLANGRAD_SYNCHRONOUS"] = "1"

import numpy as np

import slangrad as spy
from tests.fuzz.long_programs import generate_long
from tests.fuzz.programs import generate
from tests.runtime.fake_cuda import fake_gpu

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
    tensor = spy.Tensor.zeros(device, (len(X),), "float")
    try:
        module.f(X, Y, N, _result=tensor)
        reported = ""
    except IndexError:
        reported = "index out of range"
    result = tensor.to_numpy()
    result[np.isnan(result)] = np.nan
    return result.tobytes(), reported


def main(first: int, count: int, length: int = 0, other: str = "interpreter") -> int:
    if other != "cuda":  # whose driver reserves addresses for all memory of the GPU
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with fake_gpu() if os.environ.get("SLANGRAD_FAKE_GPU") else nullcontext():
        return compare(first, count, length, other)


def compare(first: int, count: int, length: int, other: str) -> int:
    for seed in range(first, first + count):
        text = generate_long(seed, length) if length else generate(seed)
        try:
            machine, expected = outcome("cpu", text), outcome(other, text)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}\n{text}")
            return 1
        if machine != expected:
            print(f"seed {seed}: cpu {np.frombuffer(machine[0], np.float32)} {machine[1]}")
            print(f"{other} {np.frombuffer(expected[0], np.float32)} {expected[1]}\n{text}")
            return 1
    return 0


if __name__ == "__main__":
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    sys.exit(main(*map(int, numbers), **({"other": "cuda"} if "cuda" in sys.argv else {})))
