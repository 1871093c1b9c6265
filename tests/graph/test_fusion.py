"""Fusion: fewer bytes, the same numbers."""

from collections.abc import Collection
from itertools import pairwise

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.layout import dense
from slangrad.graph.ir.node import new_input
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.lowering.steps import MemoryPart, ProductStep
from slangrad.graph.planning.memory import arena, lifetimes
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.planning.schedule import Schedule
from slangrad.graph.rewriting.fuse import Fusion, Group

UNARY = [np.tanh, np.sin, np.negative, np.square, lambda x: np.exp(-x * x), lambda x: x * 0.5 + 1, abs]
BINARY = [np.add, np.subtract, np.multiply, np.maximum, lambda x, y: np.where(x > y, x, 2 * y), np.hypot]


def random_program(seed: int):
    """A function of three arrays whose values are reshaped, moved, reduced, joined, multiplied and read more than
    once."""

    def run(a, b, c):
        rng = np.random.default_rng(seed)
        made = [a, b, c]
        for _ in range(14):
            x, y = made[rng.integers(len(made))], made[rng.integers(len(made))]
            match rng.integers(10):
                case 0 | 1:
                    made.append(UNARY[rng.integers(len(UNARY))](x))
                case 2 | 3:
                    made.append(BINARY[rng.integers(len(BINARY))](x, y))
                case 4:
                    made.append(
                        x
                        - getattr(x, ["sum", "max", "min", "mean"][rng.integers(4)])(
                            rng.integers(2), keepdims=True
                        )
                    )
                case 5:
                    made.append(x.T + y)
                case 6:
                    made.append(
                        np.concatenate([x[3:, ::-1], y[:3]]) * x.reshape(3, 12).swapaxes(0, 1).reshape(6, 6)
                    )
                case 7:
                    made.append(np.tanh(x @ y.T))
                case 8:
                    chain = (x * y[:1] / 6) @ (y @ x) + (x @ y) * y[:, :1]
                    made.append(
                        np.tanh(np.concatenate([chain[3:], (x @ y + x @ made[0])[:3].T.reshape(3, 6)]))
                    )
                case _:
                    made.append(
                        np.take_along_axis(x, np.argsort(np.arange(36) % 7).reshape(6, 6) % 6, 1)
                        + x[rng.integers(6)]
                    )
        return made[-1], made[-2].sum(1), made[-3]

    return run


def plans(function, arrays, device, fused: bool):
    nodes = [new_input(each.shape, each.dtype) for each in arrays]
    outputs = [each.node for each in function(*map(Array, nodes))]
    plan = Plan(outputs, nodes, device, PlanOptions(fused=fused))
    return plan, [each.to_numpy() for each in plan.run([as_tensor(device, each) for each in arrays])]


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, (6, 6)) for _ in range(3)]
    function, device = random_program(seed), spy.default_device()
    fused, found = plans(function, arrays, device, True)
    plain, expected = plans(function, arrays, device, False)
    for got, same, want in zip(found, expected, function(*arrays), strict=True):
        np.testing.assert_allclose(got, same, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)
    assert len(fused.fusion.groups) <= len(plain.fusion.groups)
    assert fused.fusion.after.bytes <= plain.fusion.after.bytes


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_random_programs(seed: int) -> None:
    check(seed)


def test_the_lecture_s_example() -> None:
    """E = D + (A + B) * C: 3 operations for 5 accesses instead of 9."""
    fused = graph.jit(lambda a, b, c, d: d + (a + b) * c)
    arrays = [np.full((8, 8), i, np.float32) for i in range(4)]
    found = fused.explain(*arrays).plan.fusion
    assert [len(group.roots) for group in found.groups] == [1]
    assert (found.before.flops, found.before.accesses) == (3 * 64, 9 * 64)
    assert (found.after.flops, found.after.accesses, found.after.bytes) == (3 * 64, 5 * 64, 20 * 64)
    assert "0.333 -> 0.6" in str(fused.explain(*arrays))


def test_what_is_kept_is_chosen_by_cost() -> None:
    """A cheap value is computed twice; one that costs more than its memory is stored."""

    def cheap(x, y):
        z = x + 1
        return z * y, (z * y[:1]).sum(1)

    def dear(x, y):
        z = x
        for _ in range(30):
            z = np.sin(np.tanh(z))
        return z * y, (z * y[:1]).sum(1)

    arrays = [np.ones((64, 64), np.float32)] * 2
    assert len(graph.jit(cheap).explain(*arrays).plan.fusion.groups) == 2
    stored = graph.jit(dear).explain(*arrays).plan.fusion
    assert any(leaf.node in stored.stored for group in stored.groups for leaf in group.leaves)


def test_many_inputs() -> None:
    """More than one fused kernel may read: what is written that way stays legal, and is not fused further."""
    arrays = list(np.arange(120.0).reshape(30, 4))
    names = [f"x{i}" for i in range(30)]
    text = f"float total({', '.join(f'float {n}' for n in names)}) {{ return {' + '.join(names)}; }}"
    total = spy.Module.load_from_source(spy.default_device(), "total_of_thirty", text).total

    def run(xs):
        doubled = [x * 2 for x in xs]
        return (
            np.stack(doubled, 1),
            np.concatenate(xs),
            total(*[x.astype(np.float32) for x in doubled]),
            sum(xs),
        )

    stacked, joined, added, summed = graph.jit(run)(arrays)
    np.testing.assert_array_equal(stacked, np.stack(arrays, 1) * 2)
    np.testing.assert_array_equal(joined, np.concatenate(arrays))
    np.testing.assert_array_equal(added, 2 * sum(arrays))
    np.testing.assert_array_equal(summed, sum(arrays))


def test_sums_do_not_depend_on_the_number_of_threads() -> None:
    x = np.random.default_rng(4).standard_normal((3, 40_000)).astype(np.float32)
    made = []
    for threads in (1, 2):
        device = spy.Device(options=spy.Options(threads=threads))
        made.append(graph.jit(lambda x: (x.sum(), x.sum(1), (x * x).sum(0)), device=device)(x))
    for one, two in zip(*made, strict=True):
        np.testing.assert_array_equal(one, two)


def test_constants_are_operands_of_products() -> None:
    x = np.arange(12.0).reshape(3, 4)
    found = graph.jit(lambda x: (np.ones_like(x) @ x.T, x.mT @ np.full_like(x, 2), (x.T + 1).mT))(x)
    for got, want in zip(found, (np.ones_like(x) @ x.T, x.mT @ np.full_like(x, 2), x + 1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_results_of_one_shape_are_one_kernel() -> None:
    both = graph.jit(lambda x, y: (x * y, x + y, (x * y) ** 2)).explain(*[np.ones((5, 3))] * 2).plan
    assert [len(group.roots) for group in both.fusion.groups] == [3]


def test_strides() -> None:
    assert dense((1, 2, 3, 4)).strides == (0, 12, 4, 1)
    assert list(spy.Tensor.zeros(spy.default_device(), (1, 2, 3, 4), "float").strides) == [24, 12, 4, 1]


def test_views_of_arguments_are_not_copied() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    views = (x.transpose(2, 0, 1), x[:, ::-1, 1:3], np.broadcast_to(x[0, 0], (3, 4)), np.float64(3))
    found = graph.jit(lambda a, b, c, d: (a * 2, b.T + d, c.sum(0), d))
    for got, want in zip(found(*views), found.function(*views), strict=True):
        np.testing.assert_array_equal(got, want)
    plan = found.explain(*views).plan
    assert [group.kind for group in plan.fusion.groups] == ["map", "map", "reduce", "map"]
    assert not any(
        "[" in step.text for step in plan.steps if step.name.startswith("map")
    )  # views are strides


def random_steps(seed: int) -> list[ProductStep]:
    """Products of two of the last six results."""
    rng = np.random.default_rng(seed)
    nodes = [new_input((int(rng.integers(8, 64)), 64), np.dtype(float)) for _ in range(60)]
    parts = [MemoryPart(each, dense(each.shape)) for each in nodes]
    return [
        ProductStep(
            "",
            reads={j: parts[j] for j in rng.integers(max(0, i - 6), i, 2)} if i else {},
            writes={0: parts[i]},
        )
        for i in range(len(nodes))
    ]


def test_the_arena_is_hardly_larger_than_what_is_alive() -> None:
    """Intervals that are given places one after another need a little more than what is alive at once."""
    ratios = []
    for seed in range(12):
        steps = random_steps(seed)
        found = arena(steps, set())
        lives = {step.writes[0].holder: (i, i) for i, step in enumerate(steps)}
        for i, step in enumerate(steps):
            lives |= {part.holder: (lives[part.holder][0], i) for part in step.reads.values()}
        spans = [(found.offsets[n], found.offsets[n] + n.nbytes, *lives[n]) for n in lives]
        for i, (start, end, first, last) in enumerate(spans):
            assert not any(
                start < other_end and other < end and first <= other_last and other_first <= last
                for other, other_end, other_first, other_last in spans[:i]
            )
        ratios.append(found.size / lifetimes(steps, set()).live)
    assert max(ratios) <= 1.05
    assert np.mean(ratios) <= 1.01


def test_kernels_that_free_memory_run_as_soon_as_they_can() -> None:
    """A deep network: what a layer's gradient reads is free before that of the layer below is made."""

    def loss(ws, x):
        for w in ws:
            x = np.tanh(x @ w)
        return (x * x).sum()

    ws, x = [np.eye(16)] * 8, np.ones((64, 16))
    plan = graph.jit(graph.grad(loss)).explain(ws, x).plan
    kept, one = 7 * x.nbytes, x.nbytes
    assert plan.peak <= kept + 3 * one


def joined_by_all_pairs(self: Fusion) -> list[Group]:
    """`Fusion._joined`, where each group is compared with all before it."""
    groups = [self._groups[node] for node in self.order if node in self._groups]
    made_by = {root: i for i, group in enumerate(groups) for root in group.roots}
    merged: list[Group | None] = list(groups)
    for i, group in enumerate(groups):
        first = max((made_by[node] for node in group.reads if node in made_by), default=0)
        for j in range(first, i) if group.kind == "map" else ():
            into = merged[j]
            if into is not None and self._may_join(into, group):
                self._join(into, group)
                merged[i] = None
                made_by.update(dict.fromkeys(group.roots, j))
                break
    return [group for group in merged if group is not None]


def freeing_by_all(self: Schedule, ready: Collection[int]) -> int:
    """`Schedule._freeing`, where the bytes of each kernel that may run are counted for each choice."""
    i = min(ready, key=lambda i: (self._change(i), i))
    return i if self._change(i) < 0 else min(ready)


def many_results(a, b, c):
    arrays = [k * np.sin(x) for k in range(40) for x in (a, b, c)]
    return [x * arrays[7 * k % 120] + y.sum(k % 2) for k, (x, y) in enumerate(pairwise(arrays))]


def test_indexes_find_the_groups_and_the_order_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    arrays = [rng.uniform(-1, 1, (6, 6)) for _ in range(3)]
    programs = [*map(random_program, range(40)), many_results]
    chosen: list[list[list[tuple[tuple[str, ...], int]]]] = []
    for by_all in (False, True):
        if by_all:
            monkeypatch.setattr(Fusion, "_joined", joined_by_all_pairs)
            monkeypatch.setattr(Schedule, "_freeing", freeing_by_all)
        chosen.append([])
        for program in programs:
            nodes = [new_input(each.shape, each.dtype) for each in arrays]
            made = Plan([each.node for each in program(*map(Array, nodes))], nodes, spy.default_device())
            groups = made.fusion.groups
            schedule = Schedule(groups, set(made.outputs), {})
            order = schedule._ordered(schedule._freeing)[1]
            chosen[-1].append([(tuple(root.op for root in groups[i].roots), i) for i in order])
    assert chosen[0] == chosen[1]
    assert any(order != sorted(order) for order in ([i for _, i in each] for each in chosen[0]))


def test_updates_are_in_place_when_nothing_else_reads_what_they_overwrite() -> None:
    p = [np.eye(4), np.eye(4) * 2]
    step = graph.train(lambda p, x: ((x @ p[0]) @ p[1]).sum(), spy.optim.SGD(p, lr=0.5))
    x = np.ones((3, 4))
    g = [x.T @ np.ones((3, 4)) @ p[1].T, (x @ p[0]).T @ np.ones((3, 4))]
    wanted = [a - 0.5 * b for a, b in zip(p, g, strict=True)]
    plan = step.explain(x).plan
    step(x)
    assert not plan._copied
    for a, b in zip(p, wanted, strict=True):
        np.testing.assert_allclose(a, b)


def test_a_map_that_ends_a_product_and_is_read_by_a_map() -> None:
    def net(a, w):
        for _ in range(4):
            a = np.tanh(a @ w) + np.sin(a)
        return a.sum()

    a = np.random.default_rng(3).standard_normal((40, 40))
    h, along = 1e-6, np.cos(np.arange(1600.0)).reshape(40, 40)
    difference = (net(a + h * along, a / 8) - net(a - h * along, a / 8)) / (2 * h)
    np.testing.assert_allclose((graph.grad(net)(a, a / 8) * along).sum(), difference, rtol=1e-6)


def test_long_chains_of_maps() -> None:
    def run(a, count):
        for i in range(count):
            a = np.sin(a) + 0.1 * i
        return a

    a = np.linspace(0, 1, 4)
    np.testing.assert_allclose(graph.jit(lambda a: run(a, 1000))(a), run(a, 1000), rtol=1e-12)
    found, slope = graph.grad(lambda a: run(a, 120).sum())(a), np.ones(4)
    for i in range(120):
        slope = slope * np.cos(run(a, i))
    np.testing.assert_allclose(found, slope, rtol=1e-9)


def largest(x):
    return np.take_along_axis(x, np.expand_dims(x.argmax(0), 0), 0)


@pytest.mark.parametrize("program", [
    lambda x, y: (a := largest(x), np.broadcast_to(a.reshape(()), (1,)) * y[:1]),
    lambda x, y: (a := np.exp(x[:1]), a[0][None] * y[:1], np.broadcast_to(a[0], (1,)) * y[1:2]),
    lambda x, y: (a := largest(x), a[None, :, None][0, :, 0] * y[:1]),
    lambda x, y: (a := np.sin(x), a.reshape(1, 5)[:, None][0, 0] * y),
])  # fmt: skip
def test_results_that_maps_read_through_views_of_other_shapes(program) -> None:
    """Kernels with both results use the variable: its memory is not written yet."""
    x, y = np.random.default_rng(0).normal(size=(2, 5))
    for result, expected in zip(graph.jit(program)(x, y), program(x, y), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-14)


def test_maps_after_a_product_are_in_its_last_lines() -> None:
    """The text of the epilogue has them: no kernel of their own, and no memory for the product."""

    def layer(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        result: np.ndarray = np.tanh(x @ w + b) * 0.5
        return result

    rng = np.random.default_rng(3)
    x, w, b = (rng.normal(size=shape) for shape in ((37, 41), (41, 29), (29,)))
    jitted = graph.jit(layer, consistent="bits")
    np.testing.assert_allclose(np.asarray(jitted(x, w, b)), layer(x, w, b), rtol=1e-13)
    text = str(jitted.explain(x, w, b))
    assert text.startswith("1 kernel for 6 nodes") and "memory between kernels: 0 bytes" in text
    store = text.split("(int i, int j, double sum)")[1].split("}")[0]
    values = [line.split(" = ")[1] for line in store.splitlines() if " = " in line]
    assert values == [
        "double(sum);",
        "v1s[i * v1s_line + j];",
        "v0 + v1;",
        "tanh(t0);",
        "t1 * double(0.5lf);",
        "t2;",
    ]
