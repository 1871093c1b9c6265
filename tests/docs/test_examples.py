"""The examples print the numbers that their comments promise, on both devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


PRINTED = {
    "basic_autodiff.py": """\
[16.25 45.   86.25]
[16.25 45.   86.25]
[16.25 45.   86.25]
[2.25 3.5  4.75]
[4.5 7.  9.5]
[60.]
""",
    "buffer_gradient.py": """\
[1. 2. 1. 0.]
""",
    "differentiable_tensors.py": """\
smooth: [2. 4. 2. 1. 3.]
what the first element depends on: [0.75 0.25 0.   0.   0.  ]
squared: [ 1.  4.  9. 16.]
its gradient: [2. 4. 6. 8.]
scaled: [  5. -80.]
clipped gradient: [ 0.5 -1. ]
refused: True
product: True
left: True
right: True
""",
    "two_modes.slang": """\
2 and 6 ohm make 1.500000 ohm; a quarter more of both makes 0.375000 ohm more
each ohm more of the first counts 0.562500, of the second 0.062500
both say the same: 0.375000 is 0.375000
""",
    "own_types.slang": """\
by size: 60.000000 40.000000 30.000000, by density: 240.000000
two halves: 1.000000 3.000000
four doubles: 1.000000 2.000000 3.000000 4.000000
matrix: 1.000000 2.000000 2.000000 4.000000
vector: 6.000000 13.000000
""",
    "custom_derivatives.slang": """\
root: 4.000000, its change: 1.000000
influence: 2.000000
combined: 19.000000, its change: 3.000000
influence: 3.000000
""",
}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("interpreter", marks=pytest.mark.deep)])
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
