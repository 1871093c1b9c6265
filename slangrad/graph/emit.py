"""Slang text of groups.

    e = d + (a + b) * c          float map_3f(float v0, float v1, float v2, float v3) { return v3 + (v0 + v1) * v2; }

A map is a function of numbers, called over tensors: views are the strides of its arguments, so there is no index text.
A reduction is a loop over one block for each thread, and a second function that combines the blocks' results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from math import prod
from typing import Any

import numpy as np

from slangrad.graph.fuse import Fusion, Group, Leaf, Views, joined
from slangrad.graph.layout import Layout, dense, normal, sliced
from slangrad.graph.node import DType, Node, Shape
from slangrad.graph.ops import OPS, behind_views, is_view, kind_of
from slangrad.graph.types import type_of, wide_of

SUFFIXES = {"float16": "h", "float32": "f", "float64": "lf", "int64": "ll", "uint32": "u", "uint64": "ull"}
LANES = 64  # threads that share one row of a reduction
FEW = 4096  # threads of a reduction that keep all cores busy; results do not depend on how many there are


@dataclass(frozen=True, slots=True)
class Temporary:
    """Memory between two kernels of one group."""

    shape: Shape
    dtype: DType
    of: object


@dataclass(frozen=True, slots=True)
class Part:
    """Memory that a kernel reads or writes: all or a part of the memory of a node."""

    holder: Node | Temporary
    layout: Layout


@dataclass(frozen=True, slots=True)
class Grid:
    """The index of a thread."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array of integers, which the kernel gets as it is."""

    values: tuple[int, ...]


Argument = Part | Grid | Numbers


@dataclass(slots=True)
class Kernel:
    """A call of a Slang function that returns its output, or else writes its outputs to its last arguments. `group`:
    the shape of groups of threads, () where only the axes of its grid are to stay as they are. `lanes`: 0 for as many
    as suit it."""

    name: str
    text: str
    arguments: list[Argument]
    outputs: list[Part]
    returns: bool
    group: Shape | None = None
    lanes: int = 0
    names: Sequence[str] = ()  # of its parameters

    @property
    def named(self) -> list[tuple[str, Argument]]:
        """Its arguments and outputs by the names of parameters."""
        names = [*self.names, "_result"] if self.returns else self.names
        return list(zip(names, [*self.arguments, *self.outputs], strict=True))


@dataclass(slots=True)
class Product:
    """A product of matrices, by a library or by Slang."""

    node: Node
    letters: str
    inputs: list[Part]
    output: Part
    library: str = "numpy"


@dataclass(slots=True)
class Clear:
    output: Part


@dataclass(slots=True)
class Repeat:
    """A loop of `scan.py`; `outputs`: its results that are read, by their numbers."""

    loop: Any
    inputs: list[Part]
    outputs: dict[int, Part]


@dataclass(slots=True)
class Exchange:
    """The beginning of a collective; `given` is None where the result lies in its place."""

    collective: Any
    given: Part | None
    output: Part


@dataclass(slots=True)
class Await:
    """The end of a collective, before its result is read or the memory of its input is used again."""

    exchange: Exchange


Step = Kernel | Product | Clear | Repeat | Exchange | Await


def literal(node: Node) -> str:
    """A number in Slang, exactly."""
    value, name = np.frombuffer(node.attributes["value"], node.dtype)[0], node.dtype.name
    kind = type_of(node.dtype)
    if node.dtype.kind == "b":
        return "true" if value else "false"
    if node.dtype.kind == "f" and not np.isfinite(value):
        return f"({kind}({'0' if np.isnan(value) else '-1' if value < 0 else '1'}) / {kind}(0))"
    if node.dtype.kind in "iu":
        if value == np.iinfo(node.dtype).min and value < 0:
            return f"{kind}({int(value) + 1}{SUFFIXES.get(name, '')} - 1)"
        return f"{kind}({int(value)}{SUFFIXES.get(name, '')})"
    digits = repr(float(value)) if name == "float64" else repr(float(str(value)))
    return f"{kind}({digits if '.' in digits or 'e' in digits else digits + '.0'}{SUFFIXES[name]})"


@dataclass(slots=True)
class Text:
    """Expressions of one function: a variable for each value. `index`: how a whole array is read there."""

    fusion: Fusion
    group: Group
    leaves: dict[Leaf, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[tuple[Node, Views], str] = field(default_factory=dict)

    def of(self, node: Node, views: Views = ()) -> str:
        """The variable of a value as views show it. What it reads comes first, as chains may be long."""
        left = [(node, views)]
        while left:
            reads = [] if left[-1] in self.names else self._reads(*left[-1])
            missing = [each for each in reads if each not in self.names]
            if missing:
                left += missing[::-1]
                continue
            key = left.pop()
            if key not in self.names:
                self.names[key] = self._made(*key, [self.names[each] for each in reads])
        return self.names[node, views]

    def _reads(self, node: Node, views: Views) -> list[tuple[Node, Views]]:
        """The values that are variables before this one is."""
        if is_view(node):
            return [(node.inputs[0], (node, *views))]
        if node in self.group.roots and all(each.shape == node.shape for each in views):
            if views:
                return [(node, ())]
        elif self._is_leaf(node):
            return []
        return [(each, views) for each in (node.inputs[1:] if kind_of(node) == "gather" else node.inputs)]

    def _is_leaf(self, node: Node) -> bool:
        return node in self.fusion.stored or kind_of(node) == "source" or node.op == "count"

    def _made(self, node: Node, views: Views, inputs: list[str]) -> str:
        if node.op == "constant":
            return literal(node)
        is_root = node in self.group.roots and all(each.shape == node.shape for each in views)
        if is_view(node) or (is_root and views):
            return inputs[0]
        if self._is_leaf(node) and not is_root:
            return self._leaf(Leaf(node, self.fusion.layout(node, views)))
        if node.op == "slang":
            return self._called(node, inputs)
        gathers = kind_of(node) == "gather"
        kind = type_of(node.dtype)
        text = self._gathered(node, *inputs) if gathers else OPS[node.op].slang.format(*inputs, T=kind)
        return self.variable(kind, text)

    def _leaf(self, leaf: Leaf) -> str:
        return self.leaves.setdefault(leaf, f"{'w' if leaf.whole else 'v'}{len(self.leaves)}")

    def variable(self, kind: str, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {text};")
        return name

    def _gathered(self, node: Node, at: str) -> str:
        data, index = node.inputs
        whole, axis = self._leaf(self.fusion.whole(data)), node.attributes["axis"]
        at = self.variable("int", _from_zero(at, index, data.shape[axis]))
        return f"{whole}[{', '.join(at if i == axis else f'at[{i}]' for i in range(len(node.shape)))}]"

    def _called(self, node: Node, inputs: list[str]) -> str:
        function = node.attributes["function"]
        key: Any = (function.key, tuple(inputs))
        if key not in self.names:
            self.names[key] = f"t{len(self.lines)}"
            self.lines += function.lines(self.names[key], tuple(inputs))
        return f"{self.names[key]}{function.member}"


def _from_zero(at: str, index: Node, count: int) -> str:
    """An index from 0 on; a negative one counts from the end."""
    return f"int({at} < 0 ? {at} + {count} : {at})" if index.dtype.kind == "i" else f"int({at})"


# --- one group


def steps_of(fusion: Fusion, group: Group) -> list[Step]:
    """The kernels of a group."""
    node = group.roots[0].inputs[0] if group.kind == "loop" else group.inner or group.roots[0]
    return TEMPLATES.get(node.op, WRITERS[group.kind])(fusion, group)


def _map(fusion: Fusion, group: Group) -> list[Step]:
    if not prod(group.shape):
        return []
    text = Text(fusion, group)
    results = [(root, text.of(root)) for root in group.roots]
    outputs = [Part(root, dense(root.shape)) for root in group.roots]
    return [function_of(text, results, outputs, group.shape)]


def function_of(text: Text, results: Sequence[tuple[Node, str]], outputs: list[Part], shape: Shape) -> Kernel:
    """A function of the numbers of one element, called over arrays."""
    gathers = any(leaf.whole for leaf in text.leaves)
    parameters = [f"int at[{len(shape)}]"] if gathers else []
    arguments: list[Argument] = [Grid(shape)] if gathers else []
    for leaf, name in text.leaves.items():
        kind = type_of(leaf.node.dtype)
        parameters.append(
            f"ITensor<{kind}, {len(leaf.layout.shape)}> {name}" if leaf.whole else f"{kind} {name}"
        )
        arguments.append(Part(leaf.node, leaf.layout))
    if not arguments:  # all is constant
        parameters, arguments = [f"int at[{max(1, len(shape))}]"], [Grid(shape or (1,))]
    returns = len(results) == 1
    head = type_of(results[0][0].dtype) if returns else "void"
    if returns:
        lines = [*text.lines, f"return {results[0][1]};"]
    else:
        parameters += [f"out {type_of(node.dtype)} r{i}" for i, (node, _) in enumerate(results)]
        lines = [*text.lines, *(f"r{i} = {name};" for i, (_, name) in enumerate(results))]
    return kernel_of("map", head, parameters, lines, arguments, outputs, returns)


def kernel_of(
    kind: str,
    head: str,
    parameters: list[str],
    lines: list[str],
    arguments: list[Argument],
    outputs: list[Part],
    returns: bool,
) -> Kernel:
    rest = f"({', '.join(parameters)})\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    name = f"{kind}_{sha1((head + rest).encode()).hexdigest()[:10]}"
    names = [each.split()[-1].partition("[")[0] for each in parameters]
    return Kernel(name, f"{head} {name}{rest}", arguments, outputs, returns, names=names)


def _parts(fusion: Fusion, group: Group) -> list[Step]:
    """A buffer that several kernels fill."""
    (root,) = group.roots
    whole, steps, start = dense(root.shape), list[Step](), 0
    if root.op == "place":
        steps.append(Clear(Part(root, whole)))
    for each in root.inputs:
        if root.op == "place":
            to = sliced(whole, each.shape, root.attributes["starts"], root.attributes["steps"])
        else:
            starts = tuple(start if i == root.attributes["axis"] else 0 for i in range(len(root.shape)))
            to = sliced(whole, each.shape, starts, (1,) * len(root.shape))
            start += each.shape[root.attributes["axis"]]
        if each.size:
            text = Text(fusion, group)
            steps.append(function_of(text, [(each, text.of(each))], [Part(root, to)], each.shape))
    return steps


def _all_reduce(fusion: Fusion, group: Group) -> list[Step]:
    (root,) = group.roots
    whole = Part(root, dense(root.shape))
    return [*_parts(fusion, group), Exchange(root.attributes["collective"], None, whole)]


def _exchange(fusion: Fusion, group: Group) -> list[Step]:
    (root,) = group.roots
    given = seen(fusion, root.inputs[0])
    return [Exchange(root.attributes["collective"], given, Part(root, dense(root.shape)))]


def _scatter(fusion: Fusion, group: Group) -> list[Step]:
    (root,) = group.roots
    given, index = root.inputs
    steps: list[Step] = [Clear(Part(root, dense(root.shape)))]
    if not given.size:
        return steps
    text, axis, rank = Text(fusion, group), root.attributes["axis"], len(root.shape)
    value, at = text.of(given), text.of(index)
    place = _from_zero(at, index, root.shape[axis])
    kind = type_of(root.dtype)
    taken = [f"{type_of(leaf.node.dtype)} {name}" for leaf, name in text.leaves.items()]
    parameters = [f"int at[{rank}]", *taken]
    where = ", ".join(place if i == axis else f"at[{i}]" for i in range(rank))
    lines = [*text.lines, f"InterlockedAdd(sums[{where}], {value});"]
    arguments: list[Argument] = [
        Grid(given.shape),
        *(Part(leaf.node, leaf.layout) for leaf in text.leaves),
    ]
    parameters.append(f"RWTensor<{kind}, {rank}> sums")
    output = Part(root, dense(root.shape))
    return [*steps, kernel_of("scatter", "void", parameters, lines, arguments, [output], False)]


def _scan(fusion: Fusion, group: Group) -> list[Step]:
    """A thread for each row along an axis."""
    (root,) = group.roots
    (x,) = root.inputs
    (axis,) = root.attributes["axes"]
    if not root.size:
        return []
    text = Text(fusion, group)
    value, rank = text.of(x), len(x.shape)
    outer = [i for i in range(rank) if i != axis]
    index = ", ".join("j" if i == axis else f"at[{outer.index(i)}]" for i in range(rank))
    grid = tuple(x.shape[i] for i in outer) or (1,)
    parameters = [
        f"int at[{len(grid)}]",
        *(f"ITensor<{type_of(leaf.node.dtype)}, {rank}> {name}s" for leaf, name in text.leaves.items()),
    ]
    arguments: list[Argument] = [Grid(grid), *(Part(leaf.node, leaf.layout) for leaf in text.leaves)]
    loads = [f"{type_of(leaf.node.dtype)} {name} = {name}s[{index}];" for leaf, name in text.leaves.items()]
    kind, n = type_of(x.dtype), x.shape[axis]
    output = Part(root, dense(root.shape))
    if root.op == "cumsum":
        body = [*loads, *text.lines, f"sum += {value};", f"sums[{index}] = sum;"]
        lines = [f"{kind} sum = {kind}(0);", *_loop("j", "0", str(n), "1", body)]
        parameters.append(f"RWTensor<{kind}, {rank}> sums")
        return [kernel_of("scan", "void", parameters, lines, arguments, [output], False)]
    better = f"{value} {'>' if root.op == 'argmax' else '<'} best || ({value} != {value} && best == best)"
    body = [*loads, *text.lines, f"if (j == 0 || {better}) {{ best = {value}; place = j; }}"]
    loop = _loop("j", "0", str(n), "1", body)
    lines = [f"{kind} best = {kind}(0);", "int64_t place = 0;", *loop, "return place;"]
    return [kernel_of("scan", "int64_t", parameters, lines, arguments, [output], True)]


def _loop(name: str, start: str, stop: str, step: str, body: Sequence[str]) -> list[str]:
    head = f"for (int {name} = {start}; {name} < {stop}; {name} += {step})"
    return [head, "{", *(f"    {line}" for line in body), "}"]


def _repeat(fusion: Fusion, group: Group) -> list[Step]:
    node = group.roots[0].inputs[0]
    outputs = {root.attributes["index"]: Part(root, dense(root.shape)) for root in group.roots}
    return [Repeat(node.attributes["loop"], [seen(fusion, each) for each in node.inputs], outputs)]


def seen(fusion: Fusion, node: Node) -> Part:
    """An operand, as views show it."""
    base, views = behind_views(node)
    return Part(base, fusion.layout(base, views))


def start_of(part: Part, moved: int = 0) -> Part:
    """Its first element, or one `moved` elements behind it: the place that a pointer gets."""
    return Part(part.holder, Layout((1,), (1,), part.layout.offset + moved))


# --- reductions


@dataclass(frozen=True, slots=True)
class Space:
    """The loops of a reduction: axes that are kept and axes that are reduced, neighbors in memory joined. `layouts`: of
    each array, over both."""

    kept: Shape
    reduced: Shape
    layouts: tuple[Layout, ...]


def space_of(shape: Shape, axes: Shape, layouts: Sequence[Layout]) -> Space:
    order = [i for i in range(len(shape)) if i not in axes], list(axes)
    (kept, strides), (gone, more) = (
        joined([shape[i] for i in axes], [[each.strides[i] for i in axes] for each in layouts])
        for axes in order
    )
    gone, more = (gone, more) if gone else ([1], [[0] for _ in layouts])
    made = (
        normal(Layout((*kept, *gone), (*a, *b), each.offset))
        for each, a, b in zip(layouts, strides, more, strict=True)
    )
    return Space(tuple(kept), tuple(gone), tuple(made))


def _reduce(fusion: Fusion, group: Group) -> list[Step]:
    """Blocks of the reduced axes, then the blocks' results."""
    (root,) = group.roots
    (x,) = root.inputs
    text = Text(fusion, group)
    value = text.of(x)
    if not x.size:
        return [_filled(root)]
    space = space_of(x.shape, root.attributes["axes"], [leaf.layout for leaf in text.leaves])
    inner = space.reduced[-1] >= 2 * LANES and _runs_along_rows(space, list(text.leaves))
    lanes = LANES if inner else 1
    results = prod(space.kept)
    most = space.reduced[0] // (lanes if len(space.reduced) == 1 else 1) // 8
    wanted = max(1, min(most, -(-FEW // (results * lanes))))
    block = -(-space.reduced[0] // wanted)
    if len(space.reduced) == 1:
        block = -(-block // lanes) * lanes
    chunks = -(-space.reduced[0] // block)
    wide = wide_of(root.dtype) if root.op in ("sum", "prod") else root.dtype
    kind = type_of(wide)
    grid = (*space.kept, chunks, lanes) if inner else (chunks, *space.kept)
    if chunks * lanes == 1:
        target = Part(root, normal(Layout(grid, (0, *dense(space.kept).strides))))
        return [_blocks(text, root, value, space, inner, grid, block, kind, type_of(root.dtype), target)]
    partial = Temporary((results, chunks * lanes), wide, root)
    across = Layout(grid, (1, *(step * chunks for step in dense(space.kept).strides)))
    to = Part(partial, normal(dense(grid) if inner else across))
    first = _blocks(text, root, value, space, inner, grid, block, kind, kind, to)
    return [first, _folded(root, partial, kind)]


def _runs_along_rows(space: Space, leaves: Sequence[Leaf]) -> bool:
    """Whether most of the memory that is read lies along the last reduced axis."""
    along = across = 0
    for at, leaf in zip(space.layouts, leaves, strict=True):
        along += leaf.node.nbytes * (at.strides[-1] == 1)
        across += leaf.node.nbytes * (bool(space.kept) and at.strides[len(space.kept) - 1] == 1)
    return along >= across


def _start(root: Node, kind: str) -> str:
    return OPS[root.op].start.format(T=kind)


def _combine(root: Node, kind: str, value: str) -> str:
    return f"sum = {OPS[root.op].slang.format('sum', f'{kind}({value})', T=kind)};"


def _blocks(
    text: Text,
    root: Node,
    value: str,
    space: Space,
    inner: bool,
    grid: Shape,
    block: int,
    kind: str,
    result: str,
    to: Part,
) -> Kernel:
    rank, kept = len(space.kept) + len(space.reduced), len(space.kept)
    places = [f"at[{i}]" if inner else f"at[{i + 1}]" for i in range(kept)] + [
        f"j{i}" for i in range(len(space.reduced))
    ]
    chunk, lane = (f"at[{kept}]", f"at[{kept + 1}]") if inner else ("at[0]", "0")
    parameters, arguments, loads = [f"int at[{len(grid)}]"], list[Argument]([Grid(grid)]), []
    for (leaf, name), layout in zip(text.leaves.items(), space.layouts, strict=True):
        element = type_of(leaf.node.dtype)
        arguments.append(Part(leaf.node, layout))
        parameters.append(f"ITensor<{element}, {rank}> {name}s")
        loads.append(f"{element} {name} = {name}s[{', '.join(places)}];")
    body = [*loads, *text.lines, _combine(root, kind, value)]
    last = len(space.reduced) - 1
    for i in range(last, -1, -1):
        start, stop, step = "0", str(space.reduced[i]), "1"
        if i == 0:
            start, stop = f"{chunk} * {block}", f"min({space.reduced[0]}, ({chunk} + 1) * {block})"
        if i == last and inner:
            start, step = f"{start} + {lane}" if i == 0 else lane, str(LANES)
        body = _loop(f"j{i}", start, stop, step, body)
    lines = [f"{kind} sum = {_start(root, kind)};", *body, f"return {result}(sum);"]
    return kernel_of("reduce", result, parameters, lines, arguments, [to], True)


def _folded(root: Node, partial: Temporary, kind: str) -> Kernel:
    results, count = partial.shape
    body = [_combine(root, kind, "parts[at[0], j]")]
    lines = [f"{kind} sum = {_start(root, kind)};", *_loop("j", "0", str(count), "1", body)]
    lines.append(f"return {type_of(root.dtype)}(sum);")
    parameters = ["int at[1]", f"ITensor<{kind}, 2> parts"]
    arguments: list[Argument] = [Grid((results,)), Part(partial, dense(partial.shape))]
    to = Part(root, dense((results,)))
    return kernel_of("fold", type_of(root.dtype), parameters, lines, arguments, [to], True)


def _filled(root: Node) -> Kernel:
    """The sum of no elements."""
    kind = type_of(root.dtype)
    shape, lines = (max(1, root.size),), [f"return {_start(root, kind)};"]
    return kernel_of("fill", kind, ["int at[1]"], lines, [Grid(shape)], [Part(root, dense(shape))], True)


Writer = Callable[[Fusion, Group], list[Step]]
TEMPLATES: dict[str, Writer] = {"all_reduce": _all_reduce}  # of operators that have kernels of their own
WRITERS: dict[str, Writer] = {  # of kinds
    "map": _map,
    "part": _parts,
    "reduce": _reduce,
    "scan": _scan,
    "scatter": _scatter,
    "loop": _repeat,
    "exchange": _exchange,
}
