"""The examples print the numbers that their comments promise, on both devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


PRINTED = {
    "basic_autodiff.py": """\
[ 9. 23. 41. 63.]
[ 9. 23. 41. 63.]
[ 9. 23. 41. 63.]
[12. 16. 20. 24.]
[24. 32. 40. 48.]
""",
    "buffer_gradient.py": """\
[ 2.  4.  6. 16.]
""",
    "differentiable_tensors.py": """\
polynomial: [ 9. 23. 41. 63.]
its gradient: [12. 16. 20. 24.]
in place: [2. 4. 6. 8.]
its gradient: [2. 2. 2. 2.]
activation: [0.      0.15625 0.5     1.     ]
its gradient: [0.    1.125 1.5   0.   ]
refused: True
layer: True
weights: True
bias: True
input: True
""",
    "square.slang": """\
Result: 25.000000
dResult: 6.000000
dL/dx: 6.000000, dL/dy: 8.000000
""",
    "point.slang": """\
dp: 6.000000 8.000000
half: 2.000000 4.000000 6.000000
double: 1.000000 2.000000 3.000000
matrix: 5.000000 0.000000 0.000000 42.000000
vector: 1.000000 28.000000 24.000000
""",
    "custom_derivatives.slang": """\
forward: 25.000000 6.000000
backward: 6.000000 8.000000
through, forward: 52.000000 284.000000
through, backward: 276.000000 8.000000
""",
}


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", PRINTED)
def test_example(name, backend):
    command = [] if name.endswith(".py") else ["-m", "slangrad", "run"]
    done = subprocess.run(
        [sys.executable, *command, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"SLANGRAD_BACKEND": backend},
    )
    assert done.stderr == ""
    assert done.stdout == PRINTED[name]


def test_all_examples_are_tested():
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix == ".py"}
    programs |= {path.name for path in EXAMPLES.glob("*.slang") if "void main()" in path.read_text()}
    assert programs == set(PRINTED)
