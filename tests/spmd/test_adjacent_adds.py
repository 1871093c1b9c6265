"""Adds to elements that follow each other, which a lane makes as one: which ones, and that it does not show."""

from collections import Counter

import numpy as np
import pytest

from slangrad.ir.ops.core import Program, walk
from slangrad.spmd.widen import widen
from tests.llvm.machine import ALL_FEATURES, KERNEL, assert_like_oracle
from tests.spmd import kernels

HEAD = """
struct "Arguments" {{ t: ptr<{number}, global>, x: ptr<{number}, global>, i: ptr<i32, global> }}
arguments struct "Arguments"
func @kernel() -> () {{kernel=true}} {{
  %thread = thread_id {{axis=0}} : u32
  %t_in = parameter {{name="t"}} : ptr<ptr<{number}, global>, constant>
  %x_in = parameter {{name="x"}} : ptr<ptr<{number}, global>, constant>
  %i_in = parameter {{name="i"}} : ptr<ptr<i32, global>, constant>
  %t = load %t_in : ptr<{number}, global>
  %xs = load %x_in : ptr<{number}, global>
  %is = load %i_in : ptr<i32, global>
  %x_at = offset %xs, %thread
  %x = load %x_at : {number}
  %i_at = offset %is, %thread
  %i32 = load %i_at : i32
  %i = convert %i32 : i64
  %step = const {step} : i64
  %row = mul %i, %step
  %row32 = convert %row : i32
  %two = const 2.0 : {number}
  %v0 = mul %x, %two
  %v1 = add %x, %two
  %v2 = mul %v0, %v1
"""
COUNT = 37  # of threads


def add(place: int, value: int | str = 0, name: str = "", row: str = "%row") -> str:
    """An add of a value `place` elements behind the start of a row."""
    name = name or str(place)
    attributes = '{kind="add", alone=true} : {number}'
    return f"""
  %c{name} = const {place} : i64
  %n{name} = add {row}, %c{name}
  %p{name} = offset %t, %n{name}
  %o{name} = atomic %p{name}, %v{value} {attributes}"""


def adds(*places: int) -> str:
    return "".join(add(place, place % 3) for place in places)


def below(limit: float, body: str, name: str) -> str:
    """In the lanes whose x is below a limit."""
    limited = f"\n  %limit{name} = const {limit} : {{number}}\n  %is{name} = less %x, %limit{name}\n"
    return limited + f"  if %is{name} {{" + body + "\n  yield } { yield }"


# 2^40 times a row, which is 0, as a sum of so many terms.
DOUBLED = "  %zero = const 0 : i64\n  %d0 = mul %i, %zero" + "".join(
    f"\n  %d{k + 1} = add %d{k}, %d{k}" for k in range(40)
)

# The text, how far rows are apart, and how many adds of each lane become one.
CASES = {
    "one": (adds(0), 4, []),
    "two": (adds(0, 1), 4, [2]),
    "three": (adds(0, 1, 2), 3, [3]),
    "four": (adds(0, 1, 2, 3), 4, [4]),
    "ten": (adds(*range(10)), 10, [4, 4, 2]),
    "behind a gap": (adds(0, 1, 3, 4, 5), 6, [2, 3]),
    "in another order": (adds(1, 0), 2, []),
    "twice": (adds(0, 1) + add(0, 0, "again") + add(1, 1, "again1"), 2, [2, 2]),
    "of rows that overlap": (adds(0, 1, 2, 3), 2, [2, 2]),
    "of rows that overlap everywhere": (adds(0, 1), 1, []),
    "behind a load": (add(0) + "\n  %y = load %x_at : {number}" + add(1), 4, []),
    "in some lanes": (below(1.0, adds(0, 1, 2, 3), "a"), 4, [4]),
    "in few lanes": (below(1.0, below(-2.0, adds(0, 1), "b"), "a"), 2, [2]),
    "whose old values are used": (adds(0, 1) + "\n  %old = add %o0, %o1\n  store %x_at, %old", 2, []),
    "at indices of 32 bits": (adds(0, 1).replace("i64", "i32").replace("%row", "%row32"), 2, []),
    "at indices of many terms": (DOUBLED + adds(0, 1).replace("%row", "%d40"), 2, []),
    "at a place for all lanes": (adds(0, 1).replace("%row", "%step"), 4, []),
}


def program_of(name: str, number: str = "f32") -> Program:
    body, step, _ = CASES[name]
    return kernels.program_of(body.replace("{number}", number), head=HEAD.format(number=number, step=step))


def arguments(number: str) -> dict[str, np.ndarray]:
    """Whole numbers, whose sums are exact in any order."""
    rng, dtype = np.random.default_rng(5), {"f32": np.float32, "f64": np.float64}[number]
    table = rng.integers(-9, 9, 12 * 10 + 10).astype(dtype)
    return {
        "t": table,
        "x": rng.integers(-4, 5, COUNT).astype(dtype),
        "i": rng.integers(0, 12, COUNT, np.int32),
    }


@pytest.mark.parametrize("name", CASES)
def test_like_the_oracle(name: str) -> None:
    assert_like_oracle(program_of(name), arguments("f32"), COUNT)


@pytest.mark.parametrize("name", ["three", "ten", "in some lanes"])
def test_on_other_machines_and_of_doubles(name: str) -> None:
    assert_like_oracle(program_of(name, "f64"), arguments("f64"), COUNT)
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(name), arguments("f32"), 23, lanes=(8, 16), cpus=cpus)


@pytest.mark.parametrize("name", CASES)
def test_which_adds_become_one(name: str) -> None:
    full = widen(program_of(name).functions[KERNEL], 8).full
    assert full is not None
    ops = list(walk(full.region))
    assert [len(op.operands) - 2 for op in ops if op.name == "add_records"] == CASES[name][2]
    alone = CASES[name][0].count("atomic") - sum(CASES[name][2])
    assert alone == 0 or Counter(op.name for op in ops)["store"] >= alone
