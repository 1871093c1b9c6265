"""[branch] and [flatten]: whether lanes that differ compute one arm or both."""

import numpy as np
import pytest

from tests.delayed.launching import LANES, compiled, oracle, run

TEXT = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* y)
{
    float v = x[id.x], r = 0;
    HINT
    if (v > 0)
        r = EXPRESSION;
    else
        r = -v;
    y[id.x] = r;
}
"""
CHEAP, DEAR = "v * v + 1", "v" + "".join(f" + sqrt(v + {i}) / (v + {i + 1})" for i in range(2, 8))


def text(hint, expression):
    return TEXT.replace("HINT", hint).replace("EXPRESSION", expression)


def branches(source):
    """In the code for waves of which all lanes are on."""
    lanes = compiled(source, lanes=8).text("lanes")
    return lanes[: lanes.index("func", 5)].count("if %")


@pytest.mark.parametrize(
    ("hint", "expression", "count"),
    [("", CHEAP, 0), ("[branch]", CHEAP, 2), ("[flatten]", CHEAP, 0), ("", DEAR, 2), ("[flatten]", DEAR, 0)],
)
def test_arms(hint, expression, count):
    source = text(hint, expression)
    assert branches(source) == count
    arguments = {
        "x": np.random.default_rng(0).uniform(-2, 2, 128).astype(np.float32),
        "y": np.zeros(128, np.float32),
    }
    expected = oracle(source, arguments, 128).arrays["y"]
    for lanes in LANES:
        assert (run(source, arguments, 128, lanes).arrays["y"] == expected).all()


def test_arms_with_effects_are_never_flattened():
    source = text("[flatten]", CHEAP).replace("r = v * v + 1;", "x[id.x] = 5;")
    x = np.array([1, -1] * 32, np.float32)
    outcome = run(source, {"x": x, "y": np.zeros(64, np.float32)}, 64)
    assert outcome.arrays["x"].tolist() == [5, -1] * 32
