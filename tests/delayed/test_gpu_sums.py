"""Sums of all threads on a GPU, without one: forms in IR against the kernel as it was written, and their PTX."""

import random
import re
from collections import Counter
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest

from slangrad.ir.data.types import pointer_of
from slangrad.ir.ops.core import walk
from slangrad.ir.oracle import interpret
from slangrad.llvm.machine import nvptx
from slangrad.opt.delayed.delayed_adds import delay_few_sums
from slangrad.opt.delayed.gpu_sums import sum_many_threads
from slangrad.targets import cuda
from tests.delayed.gpu_sums import HEAD, assert_sums_like_oracle, run, run_sums, summed
from tests.ir.parse_text import parse_program
from tests.llvm.gpu_threads import assert_like_oracle
from tests.llvm.machine import oracle

F = np.float32
TOTAL = (
    HEAD
    + "uniform float* x, uniform float* total, uniform uint n) { if (id.x < n) InterlockedAdd(*total, x[id.x]); }"
)
TABLES = (
    HEAD
    + """uniform float* x, uniform float* w, uniform double* d, uniform half* h, uniform float* sum, uniform uint n)
{
    if (id.x >= n) return;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 9; j++)
            InterlockedAdd(w[i * 9 + j], x[id.x] * j + i);
    if (x[id.x] > 0)
        InterlockedAdd(sum[3], x[id.x]);
    else
        for (int i = 0; i < 3; i++) __atomic_add(d[i], double(x[id.x]) - i);
    half old;
    InterlockedAddF16Emulated(h + 1, half(1), old);
}
"""
)


def numbers(count, seed=1, dtype=F):
    """Whole numbers of few bits: their sums are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, count).astype(dtype)


def tables(count):
    given = {"x": numbers(max(count, 1)), "w": numbers(45, 2), "d": numbers(3, 3, np.float64)}
    return given | {"h": numbers(2, 4, np.float16), "sum": numbers(4, 5), "n": count}


@pytest.mark.parametrize("count", [1, pytest.param(33, marks=pytest.mark.deep), 700])
def test_tables_of_all_types(count):
    assert_sums_like_oracle(TABLES, tables(count), -(-count // 32) * 32)


def test_threads_of_a_gpu():
    text = (
        HEAD
        + """uniform float* x, uniform float* a, uniform double* b)
    { InterlockedAdd(a[0], x[id.x]); if (x[id.x] > 0) { InterlockedAdd(a[2], 1.0f); __atomic_add(b[1], 2.0); } }"""
    )
    arguments = {"x": numbers(300), "a": numbers(3, 2), "b": numbers(2, 3, np.float64)}
    assert_like_oracle(text, arguments, (300, 1, 1), most_blocks=2)


def test_threads_that_add_nothing_leave_memory_as_it_is():
    arguments = {"x": numbers(64), "total": np.full(1, -0.0, F), "n": 0}
    assert_sums_like_oracle(TOTAL, arguments, 64)


def test_nan_and_infinity_are_added():
    for value in (np.nan, np.inf):
        arguments = {"x": np.full(1, value, F), "total": np.ones(1, F), "n": 1}
        assert_sums_like_oracle(TOTAL, arguments, 32)


@pytest.mark.parametrize("grid", [(7, 5, 3), (300, 2, 1), (1, 1, 70)])
def test_threads_along_all_axes(grid):
    text = (
        HEAD
        + """uniform float* x, uniform float* sums, uniform uint width, uniform uint height)
    {
        float value = x[(id.z * height + id.y) * width + id.x];
        InterlockedAdd(sums[0], value);
        InterlockedAdd(sums[1], value * id.y);
        InterlockedAdd(sums[2], value * id.z + id.x);
    }
    """
    )
    count = grid[0] * grid[1] * grid[2]
    arguments = {"x": numbers(count), "sums": numbers(3, 2), "width": grid[0], "height": grid[1]}
    assert_sums_like_oracle(text, arguments, grid, blocks=2)


@pytest.mark.parametrize("start", [-45, -44, -4, 0, 3, 4])
def test_memory_that_is_read_meanwhile(start):
    """Adds wait where no thread reads what they reach; else threads run as they were written."""
    text = (
        HEAD
        + """uniform uint64_t x, uniform uint64_t w)
    { for (int i = 0; i < 45; i++) InterlockedAdd(((float*)w)[i], ((float*)x)[i & 3] + i); }"""
    )
    kernel, found = summed(text), []
    for execute in (
        lambda arguments: run(kernel, arguments, (1, 1, 1)),
        partial(oracle, kernel.flat.program, grid=(1, 1, 1)),
    ):
        memory = numbers(110)
        address = memory.ctypes.data + 200
        execute({"x": address, "w": address + 4 * start})
        found.append(memory.tolist())
    assert found[0] == found[1]


def test_sums_that_share_memory_are_made_at_once():
    text = (
        HEAD
        + """uniform float* a, uniform uint k)
    { InterlockedAdd(a[0], 1.0f); InterlockedAdd(a[k], 0.1f * id.x); }"""
    )
    assert_sums_like_oracle(text, {"a": numbers(2), "k": 0}, 1)
    assert_sums_like_oracle(text, {"a": numbers(2), "k": 1}, 1)


def test_pointers_in_memory_that_the_kernel_writes():
    text = (
        """struct Net { float* sums; float* next; }\n"""
        + HEAD
        + """uniform Net* net, uniform Net* other, uniform float* x)
    {
        InterlockedAdd(net.sums[0], x[id.x]);
        InterlockedAdd(net.sums[1], 1.0f);
        if (x[id.x] > 100) other.sums = x;
    }
    """
    )
    for count in (1, 200):
        sums = numbers(2)
        net = np.array([sums.ctypes.data, 0], np.uint64)
        kernel = summed(text)
        x = numbers(count)
        found = run(kernel, {"net": net, "other": np.zeros(2, np.uint64), "x": x}, (count, 1, 1))
        assert sums.tolist() == [numbers(2)[0] + x.sum(), numbers(2)[1] + count] and not found.reports.bounds


def test_other_adds_and_counters_are_atomics():
    """What cannot wait is as it was, and does not keep the sums from waiting."""
    text = (
        HEAD
        + """uniform float* x, uniform float* total, uniform float* table, uniform int* counter)
    {
        InterlockedAdd(total[0], x[id.x]);
        InterlockedAdd(table[int(x[id.x]) & 7], 2.0f);
        InterlockedMax(counter[0], int(x[id.x]));
        int place;
        InterlockedAdd(counter[1], 1, place);
        float before;
        InterlockedAdd(table[8], 1.0f, before);
        x[id.x] += before * 0 + place * 0;
    }
    """
    )
    arguments = {"x": numbers(300), "total": numbers(1), "table": np.zeros(9, F)}
    assert_sums_like_oracle(text, arguments | {"counter": np.zeros(2, np.int32)}, 300)


@pytest.mark.parametrize(
    "body",
    [
        "float old; InterlockedAdd(y[0], 1.0f, old); y[id.x] = old;",
        "y[id.x] = WaveActiveSum(y[id.x]); InterlockedAdd(y[0], 1.0f);",
        "InterlockedAdd(y[int(y[id.x])], 1.0f);",
        "InterlockedAdd(y[id.x], 1.0f);",
        'InterlockedAdd(y[0], 1.0f); printf("%d\\n", id.x);',
        "y[id.x] = 1; for (int i = 0; i < 2000; i++) InterlockedAdd(y[int(y[i]) + id.y], 1.0f);",
    ],
)
def test_kernels_without_sums(body):
    assert summed(HEAD + f"uniform float* y) {{ {body} }}").sums is None


# --- adds of a wave

LARGE = (
    HEAD
    + """uniform float* x, uniform float* w, uniform half* h, uniform float* total, uniform uint n)
{
    if (id.x >= n) return;
    for (uint i = 0; i < 3; i++)
    {
        InterlockedAdd(w[i * 500 + n % 7], x[id.x]);
        half old;
        for (uint k = 0; k < id.x % 3; k++)
        {
            InterlockedAdd(w[i * 500 + k], 1.0f);
            if (x[id.x] > 0) InterlockedAddF16Emulated(h + 600 * i + k, half(1), old);
        }
    }
    TOTAL
}
"""
)


@pytest.mark.parametrize("total", ["", "InterlockedAdd(*total, x[id.x]);"])
def test_adds_of_a_wave_are_one(total):
    """To tables that are too large for sums of each thread."""
    text = LARGE.replace("TOTAL", total)
    x = numbers(300)
    arguments = {
        "x": x,
        "w": numbers(1100, 2),
        "h": np.zeros(1300, np.float16),
        "total": numbers(1, 3),
        "n": 290,
    }
    assert_sums_like_oracle(text, arguments, 320, blocks=2)
    shuffles = entry(code(text), "kernel").count("shfl.sync")
    of_adds = 9 * (5 + 5)  # nine adds, written out: of all lanes, and of some
    # With all checks, and without those of the launch; there the three adds of one region have six exchanges together.
    expected = of_adds + 31 if total else 2 * of_adds + 6
    assert shuffles == expected


def test_waves_of_threads_of_a_gpu():
    arguments = {"x": numbers(70), "w": numbers(1100, 2), "h": np.zeros(1300, np.float16)}
    assert_like_oracle(LARGE.replace("TOTAL", ""), arguments | {"total": numbers(1), "n": 65}, (70, 1, 1))


BEFORE = """
struct "Arguments" { y: ptr<f32, global>, n: u32 }
arguments struct "Arguments"
func @kernel() -> () {
  %t = thread_id {axis=0} : u32
  %y_at = parameter {name="y"} : ptr<ptr<f32, global>, constant>
  %y = load %y_at : ptr<f32, global>
  %n_at = parameter {name="n"} : ptr<u32, constant>
  %n = load %n_at : u32
  for %n (%i: u32) {
    %p = offset %y, INDEX
    %x = convert %t : f32
    %o = atomic %p, %x {kind="add"} : f32
    yield
  }
  yield
}
"""


SHORT = """
struct "Arguments" { y: ptr<f32, global>, at: ptr<i32, global>, x: ptr<f32, global>, n: i32 }
arguments struct "Arguments"
func @kernel() -> () {
  %t = thread_id {axis=0} : u32
  %y_at = parameter {name="y"} : ptr<ptr<f32, global>, constant>
  %y = load %y_at : ptr<f32, global>
  %at_at = parameter {name="at"} : ptr<ptr<i32, global>, constant>
  %at = load %at_at : ptr<i32, global>
  %x_at = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %x = load %x_at : ptr<f32, global>
  %n_at = parameter {name="n"} : ptr<i32, constant>
  %n = load %n_at : i32
  %p = offset %at, %t
  %i = load %p : i32
  %q = offset %x, %t
  %v = load %q : f32
  %c = in_bounds %i, %n {site=0}
  if %c {
    %place = offset %y, %i
    %o = atomic %place, %v {kind="add"} : f32
    yield
  } {
    yield
  }
  yield
}
"""


@pytest.mark.parametrize(
    ("index", "exchanges"),
    [
        (
            "%i",  # one address for a wave: its sum, by one lane, to a table of the group or to memory
            [*["wave_ballot"] * 2, "wave_reduce", "wave_lane", "shared", "barrier", *["atomic"] * 3],
        ),
        (
            "%n",
            ["alloc", "atomic", "wave_lane", *["wave_read"] * 31, "shared", "barrier"],
        ),  # for all: a sum that waits
        ("%t", None),
    ],
)
def test_forms_in_ir(index, exchanges):
    kernel = parse_program(BEFORE.replace("INDEX", index)).functions["kernel"]
    few = delay_few_sums(kernel)
    if exchanges is None:
        assert few is None
        return
    sums = sum_many_threads(kernel, few.kernel, (), few.plan)
    names = [op.name for op in walk(sums.kernel.region)]
    assert Counter(name for name in names if name in exchanges) == Counter(exchanges)
    assert (sums.row, sums.count, sums.finish is None) == ((4, 1, False) if index == "%n" else (0, 0, True))


# --- tables of a group

HISTOGRAM = (
    HEAD
    + """uniform float* x, uniform int* at, uniform double* d, uniform half* h, uniform float* table, uniform uint n, uniform int size)
{
    if (id.x >= n) return;
    int i = at[id.x];
    if (i >= 0 && i < size)
    {
        InterlockedAdd(table[i], x[id.x]);
        __atomic_add(d[i & 3], double(x[id.x]));
        half old;
        InterlockedAddF16Emulated(h + (i & 15), half(1), old);
    }
}
"""
)


def histogram(count, size, seed=6):
    at = np.random.default_rng(seed).integers(-2, size + 2, max(count, 1)).astype(np.int32)
    given = {"x": numbers(max(count, 1)), "at": at, "d": numbers(4, 3, np.float64), "n": count, "size": size}
    return given | {"h": numbers(16, 4, np.float16), "table": numbers(max(size, 1), 5)}


@pytest.mark.parametrize(
    ("count", "size", "blocks"),
    [
        (0, 5, 1),
        (1, 1, 1),
        (70, 0, 1),
        (700, 3, 1),
        (1500, 17, 2),
        pytest.param(5000, 700, 3, marks=pytest.mark.deep),
    ],
)
def test_tables_of_a_group(count, size, blocks):
    """Three tables of other types, of no element, one, few and many; threads that are alone and in fours."""
    assert_sums_like_oracle(HISTOGRAM, histogram(count, size), -(-count // 32) * 32, blocks)


def places(text, arguments, grid, blocks=1, **settings):
    """How many adds went to shared memory and to memory, and the arrays afterwards."""
    counts, plain = Counter(), interpret.RULES["atomic"]
    kernel = summed(text, **settings)

    def counting(machine, op):
        meaning, space = plain(machine, op), pointer_of(op.operands[0].type).space

        def counted(*operands):
            counts[space] += 1
            return meaning(*operands)

        return counted

    with patch.dict(interpret.RULES, {"atomic": counting}):
        arrays = run(kernel, arguments, grid, blocks).arrays
    return counts, arrays


ONE_TABLE = (
    HEAD
    + """uniform float* x, uniform int* at, uniform float* table, uniform int size)
{ int i = at[id.x]; if (i >= 0 && i < size) InterlockedAdd(table[i], x[id.x]); }"""
)


def one_table(count, size):
    at = np.arange(count, dtype=np.int32) % size
    return {"x": np.ones(count, F), "at": at, "table": np.zeros(size, F), "size": size}


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (640, 7, {"shared": 640, "global": 7}),
        (96, 96, {"shared": 96, "global": 96}),
        (96, 97, {"global": 96}),  # more elements than threads
        (64, 9000, {"global": 64}),
    ],
)
def test_adds_of_a_table_go_to_shared_memory_where_that_pays(count, size, expected):
    arguments = one_table(count, size)
    counts, arrays = places(ONE_TABLE, arguments, (count, 1, 1))
    assert counts == expected
    assert arrays["table"].tolist() == np.bincount(arguments["at"], minlength=size).tolist()


def test_tables_that_the_launch_reads_are_not_delayed():
    """The numbers that are added lie in the table, or just behind it."""
    for start, expected in ((0, {"global": 64}), (7, {"shared": 64, "global": 7})):
        memory = numbers(7 + 64)
        arguments = one_table(64, 7)
        arguments |= {"x": memory.ctypes.data + 4 * start, "table": memory.ctypes.data}
        text = ONE_TABLE.replace("uniform float* x", "uniform uint64_t x").replace(
            "uniform float* table", "uniform uint64_t table"
        )
        text = text.replace("table[i], x[id.x]", "((float*)table)[i], ((float*)x)[id.x]")
        assert places(text, arguments, (64, 1, 1))[0] == expected
        if start:
            expected_table = np.zeros(7)
            np.add.at(expected_table, arguments["at"], memory[7:])
            assert memory[:7].tolist() == (numbers(7 + 64)[:7] + expected_table).tolist()


def test_adds_to_a_table_leave_elements_without_adds_as_they_are():
    arguments = one_table(64, 9)
    arguments["at"] = arguments["at"] % 2
    arguments["x"] = np.where(arguments["at"] == 0, 0, 1).astype(F)
    arguments["table"] = np.full(9, -0.0, F)
    assert_sums_like_oracle(ONE_TABLE, {**arguments, "table": np.zeros(9, F)}, 64)
    found = run_sums(ONE_TABLE, arguments, (64, 1, 1)).arrays["table"]
    assert np.signbit(found).tolist() == [True, False, *[True] * 7]


def test_a_table_beside_sums_in_registers_and_adds_of_a_wave():
    text = (
        HEAD
        + """uniform float* x, uniform int* at, uniform float* table, uniform float* total, uniform float* wide, uniform uint n)
    {
        if (id.x >= n) return;
        InterlockedAdd(total[0], x[id.x]);
        if (at[id.x] >= 0 && at[id.x] < 6) InterlockedAdd(table[at[id.x]], x[id.x]);
        for (uint i = 0; i < 3; i++) InterlockedAdd(wide[i * 700], x[id.x] + i);
    }
    """
    )
    arguments = {"x": numbers(300), "at": numbers(300, 8, np.int32), "table": numbers(6), "total": numbers(1)}
    arguments |= {"wide": numbers(1500), "n": 290}
    assert_sums_like_oracle(text, arguments, 320, blocks=2)


@pytest.mark.parametrize("grid", [(7, 5, 3), (300, 2, 1)])
def test_tables_of_grids_with_rows(grid):
    text = (
        HEAD
        + """uniform float* x, uniform float* table, uniform uint width, uniform uint height)
    {
        uint i = (id.z * height + id.y) * width + id.x;
        InterlockedAdd(table[(id.x + 3 * id.y + id.z) & 7], x[i]);
    }
    """
    )
    count = grid[0] * grid[1] * grid[2]
    arguments = {"x": numbers(count), "table": numbers(8), "width": grid[0], "height": grid[1]}
    assert_sums_like_oracle(text, arguments, grid, blocks=2)


def test_threads_of_a_gpu_fill_a_table():
    assert_like_oracle(HISTOGRAM, histogram(1100, 9), (1100, 1, 1), most_blocks=2)


def test_short_kernels_run_four_threads_side_by_side():
    """All loads stand before the first add, then there is one add of each."""
    program = parse_program(SHORT)
    kernel = program.functions["kernel"]
    few = delay_few_sums(kernel)
    summing = sum_many_threads(kernel, few.kernel, (), few.plan).kernel
    assert summing.attributes["group_size"] == (512, 1, 1)
    loops = [op.regions[0] for op in summing.region.ops if op.name == "for"]
    loads, adds = ["load"] * 8, ["atomic"] * 8
    names = [[op.name for op in walk(loop) if op.name in ("load", "atomic")] for loop in loops]
    assert names == [loads + adds, ["load"] * 2 + ["atomic"] * 2, ["load", "atomic"]]


# --- checks that the launch decides

CHECKED = """
[Differentiable]
float polynomial(DiffTensor<float, 1> q, no_diff float at)
{
    float sum = 0;
    for (int i = 0; i < 2000; i++)
        sum = sum * at + q[i];
    return sum;
}
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uniform DiffTensor<float, 1> q, uniform float* x) { bwd_diff(polynomial)(q, x[id.x], 1); }
"""


def test_checks_of_a_loop_are_decided_at_the_launch():
    kernel = summed(CHECKED)
    (choice,) = [op for op in kernel.sums.kernel.region.ops if op.name == "if" and _checks(op.regions[1])]
    assert not _checks(choice.regions[0])


def _checks(region):
    return any(op.name == "in_bounds" for op in walk(region))


# --- adds of a wave, together

SEVERAL = (
    HEAD
    + """uniform float* x, uniform float* w, uniform half* h, uniform double* d, uniform uint n, uniform uint count)
{
    if (id.x >= n) return;
    float v = x[id.x];
    for (uint i = 0; i < count; i++)
    {
        half old;
        InterlockedAdd(w[5 * i], v);
        InterlockedAdd(w[5 * i + 1], v * 2);
        InterlockedAddF16Emulated(h + 2 * i, half(v), old);
        InterlockedAdd(w[5 * i + 4], v - 1);
        if (v > 0)
            InterlockedAdd(w[5 * i + 2], 1);
        else
        {
            InterlockedAdd(w[5 * i + 3], v);
            InterlockedAdd(w[5 * i + 3], 1);
        }
        InterlockedAddF16Emulated(h + 2 * i + 1, half(1), old);
        __atomic_add(d[i], double(v));
    }
}
"""
)


def several(threads, count):
    given = {
        "x": numbers(max(threads, 1)),
        "w": numbers(5 * count + 1, 2),
        "h": numbers(2 * count + 1, 3, np.float16),
    }
    return given | {"d": numbers(count + 1, 4, np.float64), "n": threads, "count": count}


@pytest.mark.parametrize(("threads", "count"), [(0, 3), (1, 1), (64, 0), (96, 7), (300, 3)])
def test_adds_of_a_wave_in_one_region(threads, count):
    """Several sums at a time where all lanes are on, and one after the other elsewhere; tables that are too large."""
    grid = max(-(-threads // 32) * 32, 32)
    assert_sums_like_oracle(SEVERAL, several(threads, count), grid, blocks=2)


def test_threads_of_a_gpu_add_several_sums_together():
    assert_like_oracle(SEVERAL, several(100, 4), (128, 1, 1), most_blocks=2)


@pytest.mark.parametrize("size", [2, 3, 9, 16, 31, 32])
def test_several_sums_take_few_exchanges(size):
    adds = " ".join(f"InterlockedAdd(w[{size} * i + {k}], x[id.x] * {k});" for k in range(size))
    text = (
        HEAD
        + f"uniform float* x, uniform float* w, uniform uint n) {{ for (uint i = 0; i < n; i++) {{ {adds} }} }}"
    )
    form = next(op.regions[0] for op in summed(text).sums.kernel.region.ops if op.name == "if")
    exchanges, left, bits = 0, size, 5
    while bits:
        exchanges += max((left + 1) // 2, 1)
        left, bits = (left + 1) // 2, bits - 1
    assert sum(op.name == "wave_read" for op in walk(form)) == exchanges
    x = numbers(64)
    assert_sums_like_oracle(text, {"x": x, "w": numbers(2 * size, 2), "n": 2}, 64, blocks=1)


# --- random programs


class Text:
    """A kernel with a guard, branches, loops and adds to several tables."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def value(self, names):
        return self.random.choice(
            ["x[id.x]", "1.0f", "float(id.x % 5)", "-x[id.x]", *(f"float({n})" for n in names)]
        )

    def statement(self, depth, names):
        kind = self.random.randrange(8 if depth else 5)
        if kind < 4:
            return self.add(names)
        if kind == 4:
            return f"y[id.x] += {self.value(names)};"
        if kind == 5:
            condition = self.random.choice(["x[id.x] > 0", "id.x % 3 == 1", "n > 100", "(id.x & 32) != 0"])
            return f"if ({condition}) {{ {self.block(depth - 1, names)} }} else {{ {self.block(depth - 1, names)} }}"
        self.names += 1
        name, count = f"i{self.names}", self.random.choice(["3", "4", "id.x % 4"])
        return (
            f"for (uint {name} = 0; {name} < {count}; {name}++) {{ {self.block(depth - 1, [*names, name])} }}"
        )

    def add(self, names):
        index = str(self.random.randrange(4))
        for name in names:
            index += f" + {self.random.choice([0, 1, 2])} * {name}" if self.random.random() < 0.6 else ""
        table = self.random.choice("abcd")
        if table == "d":
            index = f"({index} + id.x) % 7"
        value = self.value(names)
        return f"__atomic_add({table}[{index}], {'double' if table == 'b' else 'float'}({value}));"

    def block(self, depth, names):
        return " ".join(self.statement(depth, names) for _ in range(self.random.randint(1, 3)))

    def kernel(self):
        parameters = "uniform float* x, uniform float* y, uniform float* a, uniform double* b, uniform float* c, uniform float* d"
        guard = self.random.choice(["if (id.x >= n) return;", ""])
        return f"{HEAD}{parameters}, uniform uint n) {{ {guard} {self.block(3, [])} {self.add([])} a[0].add(1.0f); }}"


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.deep) for n in range(40, 120))]
)
def test_random_programs(seed):
    text = Text(seed).kernel().replace("a[0].add(1.0f);", "__atomic_add(a[0], 1.0f);")
    count = random.Random(seed).choice([1, 31, 33, 100, 300])
    arguments = {name: numbers(40, k) for k, name in enumerate("acd")} | {"b": numbers(40, 9, np.float64)}
    arguments |= {"x": numbers(count, 7), "y": numbers(count, 8), "n": count - count // 3}
    try:
        assert_sums_like_oracle(text, arguments, count, blocks=random.Random(seed).choice([1, 3]))
    except AssertionError as difference:
        raise AssertionError(f"{text}\n{difference}") from None


# --- results


def test_sums_have_the_same_bits_in_every_run_and_are_near():
    x = np.random.default_rng(0).uniform(0, 1, 3000).astype(F)
    arguments = {"x": x, "total": np.zeros(1, F), "n": x.size}
    first, again = (run_sums(TOTAL, arguments, (3008, 1, 1)).arrays["total"] for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first[0] == pytest.approx(x.astype(np.float64).sum(), rel=3e-7)


# --- code


def code(text, **settings):
    widened = cuda.widen_kernel(summed(text, **settings), "sm_90")
    return nvptx.ptx(cuda.write_llvm(widened).module.text, "sm_90")


def entry(text, name):
    """The instructions of one entry."""
    return re.search(rf"\.entry {name}\(.*?\n}}\n", text, re.DOTALL)[0]


def test_sums_are_registers_and_few_instructions():
    text = code(TABLES.replace("id.x >= n", "id.x >= n || n > 99"))
    kernel = entry(text, "kernel")
    assert not re.search(r"\b(ld|st)\.local", kernel)
    assert not re.search(r"\b(atom|red)\.", kernel)  # not even at the end
    assert kernel.count("shfl.sync") == 31 * (2 + 2)  # 47 sums of floats, 3 of doubles in two words each
    assert kernel.count("bar.sync") == 3  # memory of the block is clear; each type is summed up
    assert ".reqntid 128" in kernel and ".reqntid 32" in entry(text, "finish")
