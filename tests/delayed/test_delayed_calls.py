"""Adds that wait for the end of the launch in functions that stay functions: as if these were inlined."""

import numpy as np
import pytest

from slangrad.base.options import INLINE, KEEP
from tests.delayed.launching import compiled, oracle, run

F = np.float32
LANES = (1, 4, 16)
THREADS = 2000

HEAD = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* g, uniform uint n)
"""

PROGRAMS = {
    "the same function for parts of one array": """
        struct Layer { float* g; int size; Layer after() { return { g + size, size }; } }
        void add(float* at, float v) { InterlockedAdd(*at, v); }
        void rows(Layer layer, float v)
        {
            for (int i = 0; i < 3; i++)
            {
                let row = layer.g + i * 4;
                for (int j = 0; j < 3; j++) add(row + j, v * j);
                add(row + 3, v);
            }
        }
        %s { Layer first = { g, 12 }; rows(first, x[id.x]); rows(first.after(), 1); if (x[id.x] > 0) rows(first, 2); }
    """,
    "a table that lanes reach at places of their own": """
        void add(float* g, int i, float v) { if (i >= 0 && i < 300) InterlockedAdd(g[i], v); }
        void two(float* g, int i, float v) { add(g, i, v); add(g, i + 7, v); }
        %s { two(g, int(id.x * 37 %% 290), x[id.x]); if (id.x > 50) two(g, int(x[id.x]) + 100, 1); }
    """,
    "one function for few elements and for many, of several types": """
        void add(float* g, uint count, uint i, float v) { InterlockedAdd(g[i %% count], v); }
        void add_all(float* g, uint i, half v)
        {
            add(g, 2, 1, v);
            add(g + 8, 900, i * 7, v);
            InterlockedAdd(((half*)(g + 950))[3], v);
            InterlockedAdd(((uint*)(g + 960))[i %% 8], i);
        }
        %s { add_all(g, id.x, half(x[id.x])); add_all(g, id.x + 3, half(id.x %% 2)); }
    """,
    "elements that belong to one thread": """
        void add(float* g, uint i, float v) { InterlockedAdd(g[i], v); }
        void pair(float* g, uint i, float v) { add(g, 2 * i, v); add(g, 2 * i + 1, 1); }
        %s { if (id.x < n) pair(g, id.x, x[id.x]); }
    """,
    "elements that are read elsewhere": """
        void add(float* g, float v) { InterlockedAdd(g[1], v); }
        float at(float* g) { return g[2]; }
        %s { add(g, at(x) + x[id.x]); add(g + 1, at(g + 4)); }
    """,
}


def arguments(exact: bool) -> dict[str, object]:
    """Whole numbers of few bits, whose sums are exact in any order, or any."""
    draw = np.random.default_rng(1)
    x = draw.integers(-8, 9, THREADS + 100) if exact else draw.uniform(-8, 8, THREADS + 100)
    return {"x": x.astype(F), "g": np.zeros(2 * THREADS, F), "n": THREADS - 30}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_add_the_same(name: str) -> None:
    text = PROGRAMS[name] % HEAD
    expected = oracle(text, arguments(True), THREADS).arrays["g"]
    for lanes in LANES:
        inlined = run(text, arguments(True), THREADS, lanes, calls=INLINE)
        assert inlined.waited
        for workers in (1, 2):
            kept = run(text, arguments(True), THREADS, lanes, workers, calls=KEEP)
            assert kept.waited
            np.testing.assert_array_equal(kept.arrays["g"].view("u4"), expected.view("u4"))
        any_numbers = [
            run(text, arguments(False), THREADS, lanes, calls=c).arrays["g"] for c in (INLINE, KEEP)
        ]
        np.testing.assert_array_equal(*any_numbers)


def test_weights_that_are_gradients_at_the_same_time() -> None:
    text = PROGRAMS["elements that are read elsewhere"] % HEAD
    memory = np.arange(THREADS + 100, dtype=F)
    shared = {"x": memory, "g": memory, "n": 0}
    kept = run(text, shared, 300, calls=KEEP)
    assert not kept.waited
    np.testing.assert_array_equal(kept.arrays["g"], oracle(text, shared, 300).arrays["g"])


UNKNOWN = {
    "what was there before is used": """
        float add(float* g) { float old; InterlockedAdd(*g, 1, old); return old; }
        %s { x[id.x] = add(g + id.x %% 3); }
    """,
    "something is printed": """
        void add(float* g) { InterlockedAdd(*g, 1); printf("here"); }
        %s { add(g + id.x %% 3); }
    """,
    "an address that threads load": """
        void add(float** g, uint i) { InterlockedAdd(*g[i], 1); }
        %s { add((float**)g, id.x); }
    """,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_calls_of_which_too_little_is_known(name: str) -> None:
    assert compiled(UNKNOWN[name] % HEAD, calls=KEEP).text("delayed").startswith("// no float add")


def test_paths_of_calls_are_followed_up_to_a_number() -> None:
    def doubling(depth: int) -> str:
        text = "void f0(float* g, int i) { InterlockedAdd(g[i], 1); }\n"
        for k in range(1, depth):
            text += f"void f{k}(float* g, int i) {{ f{k - 1}(g, i); f{k - 1}(g, i + {1 << k}); }}\n"
        return text + HEAD + f"{{ f{depth - 1}(g, 0); }}"

    few = run(doubling(5), arguments(True), THREADS, calls=KEEP)
    assert few.waited
    assert set(few.arrays["g"][:32]) == {0, THREADS} and few.arrays["g"].sum() == 16 * THREADS
    assert compiled(doubling(9), calls=KEEP).text("delayed").startswith("// no float add")


def test_calls_with_blocks_of_the_same_kinds_share_code() -> None:
    text = PROGRAMS["the same function for parts of one array"] % HEAD
    lines = compiled(text, calls=KEEP).text("delayed").splitlines()
    made = [line.split("@")[1].split("(")[0] for line in lines if line.startswith("func @")]
    assert made == ["add.delayed.0", "rows.delayed.1", "Layer.after.delayed.2", "main", "plan", "reduce"]
