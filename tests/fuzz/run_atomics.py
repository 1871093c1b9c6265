"""A child of test_valid_programs.py: random atomic operations on machine code and in the oracle, against a model.

python -m tests.fuzz.run_atomics FIRST COUNT        exits with 1 and prints the program when a place is not what the model says
"""

import resource
import sys

import numpy as np

import slangrad as spy
from tests.fuzz.atomic_programs import CONTAINERS, ELEMENTS, generate

MEMORY = 4 << 30
THREADS = {"interpreter": 20, "1": 40, "16": 70, "64": 150}


def outcome(kind: str, text: str, count: int) -> tuple[list[int], bool]:
    """What is in each place, and whether an index was out of range."""
    lanes = 16 if kind == "interpreter" else int(kind)
    backend = "interpreter" if kind == "interpreter" else "cpu"
    device = spy.create_device(backend=backend, options=spy.Options(lanes=lanes))
    module = spy.Module.load_from_source(device, "program", text)
    tensors = [spy.Tensor.zeros(device, (ELEMENTS,), module.S0) for _ in range(2)]
    size = tensors[0].storage.to_numpy().nbytes
    memory = [device.create_buffer(data=np.zeros(size, np.uint8)) for _ in range(2)]
    given = dict(zip(CONTAINERS, (*tensors, memory[0], memory[1].device_address), strict=True))
    found = spy.Tensor.zeros(device, (count,), "double")
    module.start(i=0, **given)
    try:
        module.run(i=np.arange(THREADS[kind], dtype=np.int32), **given)
        outside = False
    except IndexError:
        outside = True
    module.finish(i=0, found=found, **given)
    return [int(x) for x in found.to_numpy()], outside


def main(first: int, count: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in range(first, first + count):
        program = generate(seed)
        for kind in ("interpreter", ("1", "16", "64")[seed % 3]):
            expected = program.expected(THREADS[kind])
            try:
                found = outcome(kind, program.text, len(program.places))
            except Exception as error:
                print(f"seed {seed}, {kind}: {type(error).__name__}: {error}\n{program.text}")
                return 1
            if found != expected:
                pairs = zip(program.places, found[0], expected[0], strict=True)
                wrong = [(path, x, wanted) for path, x, wanted in pairs if x != wanted]
                print(f"seed {seed}, {kind}: {wrong}, reported {found[1]}, not {expected[1]}\n{program.text}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
