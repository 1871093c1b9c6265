"""Slang text of groups.

    e = d + (a + b) * c          float map_3f(float v0, float v1, float v2, float v3) { return v3 + (v0 + v1) * v2; }

A map is a function of numbers, called over tensors: views are the strides of its arguments, so there is no index text.
Other files beside this one enter the kernels of their operators into WRITERS and TEMPLATES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np

import slangrad as spy
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import StridedLayout, dense, sliced
from slangrad.graph.ir.node import Node, Shape
from slangrad.graph.ir.ops import OPS, behind_views, is_view, kind_of
from slangrad.graph.ir.types import type_of
from slangrad.graph.lowering.steps import (
    ClearStep,
    Exchange,
    KernelStep,
    MemoryPart,
    PlanStep,
    RepeatStep,
)
from slangrad.graph.rewriting.fuse import ArrayRead, Fusion, Group, Views

SUFFIXES = {"float16": "h", "float32": "f", "float64": "lf", "int64": "ll", "uint32": "u", "uint64": "ull"}
LITERAL = re.compile(  # a number as `literal` writes it: its type and its value
    r"\b(half|float|double|uint|int64_t|uint64_t)\((-?[\d.]+(?:e[+-]?\d+)?)(?:h|f|lf|u|ll|ull)\)"
)
KERNELS = {  # of templates, each after those that it imports
    name: (Path(__file__).parents[1] / "kernels" / f"{name}.slang").read_text()
    for name in ("graph_prelude", "graph_products", "graph_convolutions", "graph_attention")
}
IMPORTS: dict[str, tuple[str, ...]] = {  # of kinds of kernels, beside the prelude
    "product": ("graph_products",),
    "pack": ("graph_products",),
    "convolution": ("graph_products", "graph_convolutions"),
    "transform": ("graph_products", "graph_convolutions"),
    "attention": ("graph_attention",),
}
RESULT = "_result"
MOST_AXES = 8  # that a Tensor has a list of indices for
MOST_NUMBERS = 16  # of an array that a thread has in registers; longer ones are copied by a loop


V = TypeVar("V")


def cleared(part: MemoryPart) -> ClearStep:
    return ClearStep(writes={RESULT: part})


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
    leaves: dict[ArrayRead, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[tuple[Node, Views], str] = field(default_factory=dict)
    calls: dict[tuple[object, ...], str] = field(default_factory=dict)

    def of(self, node: Node, views: Views = ()) -> str:
        """The variable of a value as views show it. What it reads comes first, as chains may be long."""
        left = [(node, views)]
        while left:
            reads = [] if left[-1] in self.names else self._reads(*left[-1])
            missing = [read for read in reads if read not in self.names]
            if missing:
                left += missing[::-1]
                continue
            key = left.pop()
            if key not in self.names:
                self.names[key] = self._expression(*key, [self.names[read] for read in reads])
        return self.names[node, views]

    def _reads(self, node: Node, views: Views) -> list[tuple[Node, Views]]:
        """The values that are variables before this one is."""
        if is_view(node):
            return [(node.inputs[0], (node, *views))]
        if self._is_root(node, views):
            if views:
                return [(node, ())]
        elif self._is_leaf(node):
            return []
        return [(x, views) for x in (node.inputs[1:] if kind_of(node) == "gather" else node.inputs)]

    def _is_root(self, node: Node, views: Views) -> bool:
        """Whether views show a result of this function as it is: `y[None][0]` is `y`."""
        if node not in self.group.roots:
            return False
        if all(view.shape == node.shape for view in views):
            return True
        at = self.fusion.layout(node, views)
        return at.shape == node.shape and at.is_dense

    def _is_leaf(self, node: Node) -> bool:
        return node in self.fusion.stored or kind_of(node) == "source" or node.op == "count"

    def _expression(self, node: Node, views: Views, inputs: list[str]) -> str:
        if node.op == "constant":
            return literal(node)
        is_root = self._is_root(node, views)
        if is_view(node) or (is_root and views):
            return inputs[0]
        if self._is_leaf(node) and not is_root:
            return self._leaf(ArrayRead(node, self.fusion.layout(node, views)))
        if node.op == "slang":
            return self._called(node, inputs)
        gathers = kind_of(node) == "gather"
        kind = type_of(node.dtype)
        text = self._gathered(node, *inputs) if gathers else OPS[node.op].slang.format(*inputs, T=kind)
        return self.variable(kind, text)

    def _leaf(self, leaf: ArrayRead) -> str:
        return self.leaves.setdefault(leaf, f"{'w' if leaf.whole else 'v'}{len(self.leaves)}")

    def variable(self, kind: str, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {text};")
        return name

    def arrays(self, layouts: Sequence[StridedLayout]) -> dict[str, MemoryPart]:
        """Parameters for all arrays, each as `name`s of some layout, of which `loads` reads one element."""
        pairs = zip(self.leaves.items(), layouts, strict=True)
        return {
            f"{tensor_of(leaf.node, at.shape)} {name}s": MemoryPart(leaf.node, at)
            for (leaf, name), at in pairs
        }

    def loads(self, place: str) -> list[str]:
        return [
            f"{type_of(leaf.node.dtype)} {name} = {name}s[{place}];" for leaf, name in self.leaves.items()
        ]

    def _gathered(self, node: Node, at: str) -> str:
        data, index = node.inputs
        whole, axis = self._leaf(self.fusion.whole(data)), node.attributes["axis"]
        at = self.variable("int", _from_zero(at, index, data.shape[axis]))
        return f"{whole}[{', '.join(at if i == axis else f'at[{i}]' for i in range(len(node.shape)))}]"

    def _called(self, node: Node, inputs: list[str]) -> str:
        function = node.attributes["function"]
        key = function.called, tuple(inputs)
        if key not in self.calls:
            self.calls[key] = f"t{len(self.lines)}"
            self.lines += function.lines(self.calls[key], tuple(inputs))
        return f"{self.calls[key]}{function.member}"


def _from_zero(at: str, index: Node, count: int) -> str:
    """An index from 0 on; a negative one counts from the end. Those of 64 bits are not cut off."""
    if index.dtype.itemsize == 8:
        return f"place_in(int64_t({at}), {count}ll)"
    return f"int({at} < 0 ? {at} + {count} : {at})" if index.dtype.kind == "i" else f"int({at})"


# --- one group


def steps_of(fusion: Fusion, group: Group) -> list[PlanStep]:
    """The kernels of a group."""
    node = group.roots[0].inputs[0] if group.kind == "loop" else group.inner or group.roots[0]
    return TEMPLATES.get(node.op, WRITERS[group.kind])(fusion, group)


def _map(fusion: Fusion, group: Group) -> list[PlanStep]:
    if not prod(group.shape):
        return []
    text = Text(fusion, group)
    return [function_of(text, [(text.of(root), stored(root)) for root in group.roots], group.shape)]


def function_of(text: Text, results: Sequence[tuple[str, MemoryPart]], shape: Shape) -> KernelStep:
    """A function of the numbers of one element, called over arrays. `results`: values, and the places that they get."""
    arguments = parameters_of(text.leaves)
    if not arguments:  # all is constant
        arguments = index_of(shape or (1,))
    elif any(leaf.whole for leaf in text.leaves):
        arguments = index_of(shape) | arguments
    kinds = [type_of(part.holder.dtype) for _, part in results]
    if len(results) == 1:
        ((value, part),) = results
        lines = [*text.lines, f"return {value};"]
        kernel = kernel_of("map", arguments, lines, {RESULT: part}, kinds[0])
        kernel.copies = value in text.leaves.values()
        return over_inputs(kernel, text.leaves)
    outputs = {
        f"out {kind} r{i}": part for i, (kind, (_, part)) in enumerate(zip(kinds, results, strict=True))
    }
    lines = [*text.lines, *(f"r{i} = {value};" for i, (value, _) in enumerate(results))]
    return over_inputs(kernel_of("map", arguments, lines, outputs), text.leaves)


def over_inputs(kernel: KernelStep, leaves: Mapping[ArrayRead, str]) -> KernelStep:
    """A map, whose outputs may take the places of inputs that it reads by element."""
    elements = [name for leaf, name in leaves.items() if not leaf.whole]
    kernel.replaces = tuple(
        (output, name)
        for output, part in kernel.writes.items()
        for name in elements
        if part.fits_over(kernel.reads[name])
    )
    return kernel


def parameters_of(leaves: Mapping[ArrayRead, str]) -> dict[str, object]:
    """Parameters for numbers of arrays, and for arrays that are read at any place."""
    parameters: dict[str, object] = {}
    for leaf, name in leaves.items():
        kind = tensor_of(leaf.node, leaf.layout.shape) if leaf.whole else type_of(leaf.node.dtype)
        parameters[f"{kind} {name}"] = MemoryPart(leaf.node, leaf.layout)
    return parameters


def tensor_of(node: Node, shape: Shape, access: str = "I") -> str:
    """The type of an array that is read at indices, over the axes of `shape`. GraphError (E1040) for more than 8."""
    if len(shape) > MOST_AXES:
        message = f"{node.op}: an array of {len(shape)} axes, {shape}, is read at places"
        raise GraphError("E1040", message, f"x.reshape: join axes, to {MOST_AXES} at most", node.place)
    return f"{access}Tensor<{type_of(node.dtype)}, {len(shape)}>"


def index_of(grid: Shape) -> dict[str, object]:
    """The parameter for the index of a thread."""
    return {f"int at[{len(grid)}]": spy.grid(grid)}


def kernel_of(
    kind: str,
    arguments: Mapping[str, object],
    lines: Sequence[str],
    outputs: Mapping[str, MemoryPart],
    returns: str = "void",
) -> KernelStep:
    """A function of these lines. `arguments`, memory and values, and `outputs`: by the declarations of parameters."""
    declared = [*arguments, *(key for key in outputs if key != RESULT)]
    rest = f"({', '.join(declared)})\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    name = f"{kind}_{sha1((returns + rest).encode()).hexdigest()[:10]}"
    named = _named(arguments)
    reads = {key: value for key, value in named.items() if isinstance(value, MemoryPart)}
    values = {key: value for key, value in named.items() if key not in reads}
    text = f"{returns} {name}{rest}"
    whole = tuple(_named({key: None for key in declared if key.startswith("uint64_t*")}))
    kernel = KernelStep(name, text, values, whole=whole, reads=reads, writes=_named(outputs))
    kernel.templates += IMPORTS.get(kind, ())
    return kernel


def _named(parameters: Mapping[str, V]) -> dict[str, V]:
    """By names, which end declarations."""
    return {declaration.split()[-1].partition("[")[0]: value for declaration, value in parameters.items()}


def template_of(
    kind: str,
    grid: Shape,
    numbers: Sequence[int],
    inputs: Mapping[str, MemoryPart],
    lines: Sequence[str],
    outputs: Mapping[str, MemoryPart],
) -> KernelStep:
    """A function of the index of a thread, numbers `n`, and pointers to arrays, by the names of these."""
    arrays, lines = arrays_of_numbers(numbers, lines)
    first = index_of(grid) | arrays
    return kernel_of(kind, first | pointers_to(inputs), lines, pointers_to(outputs))


def arrays_of_numbers(numbers: Sequence[int], lines: Sequence[str]) -> tuple[dict[str, object], list[str]]:
    """Parameters for numbers, and lines that read them as `n[k]`. Numbers behind the first `MOST_NUMBERS` are other
    arrays."""
    starts = range(0, len(numbers), MOST_NUMBERS)
    lots = {f"n{start or ''}": list(numbers[start : start + MOST_NUMBERS]) for start in starts}
    names = list(lots)

    def place(index: re.Match[str]) -> str:
        lot, k = divmod(int(index[1]), MOST_NUMBERS)
        return f"{names[lot]}[{k}]"

    arrays: dict[str, object] = {f"int {name}[{len(lot)}]": lot for name, lot in lots.items()}
    return arrays, [re.sub(r"\bn\[(\d+)\]", place, line) for line in lines]


def pointers_to(parts: Mapping[str, MemoryPart]) -> dict[str, MemoryPart]:
    return {f"{type_of(part.holder.dtype)}* {name}": start_of(part) for name, part in parts.items()}


def _parts(fusion: Fusion, group: Group) -> list[PlanStep]:
    """A buffer that several kernels fill."""
    (root,) = group.roots
    whole, steps, start = stored(root), list[PlanStep](), 0
    if root.op == "place":
        steps.append(cleared(whole))
    for source in root.inputs:
        if root.op == "place":
            to = sliced(whole.layout, source.shape, root.attributes["starts"], root.attributes["steps"])
        else:
            starts = tuple(start if i == root.attributes["axis"] else 0 for i in range(len(root.shape)))
            to = sliced(whole.layout, source.shape, starts, (1,) * len(root.shape))
            start += source.shape[root.attributes["axis"]]
        if source.size and behind_views(source)[0] not in fusion.placed:
            text = Text(fusion, group)
            steps.append(function_of(text, [(text.of(source), MemoryPart(root, to))], source.shape))
    return steps


def _all_reduce(fusion: Fusion, group: Group) -> list[PlanStep]:
    (root,) = group.roots
    whole = MemoryPart(root, dense(root.shape))
    return [*_parts(fusion, group), Exchange(root.attributes["collective"], writes={RESULT: whole})]


def _exchange(fusion: Fusion, group: Group) -> list[PlanStep]:
    (root,) = group.roots
    reads, writes = {"given": seen(fusion, root.inputs[0])}, {RESULT: stored(root)}
    return [Exchange(root.attributes["collective"], reads=reads, writes=writes)]


def _scatter(fusion: Fusion, group: Group) -> list[PlanStep]:
    (root,) = group.roots
    added, index = root.inputs
    if not added.size:
        return [cleared(stored(root))]
    text, axis, rank = Text(fusion, group), root.attributes["axis"], len(root.shape)
    value, at = text.of(added), text.of(index)
    place = _from_zero(at, index, root.shape[axis])
    indices = ", ".join(place if i == axis else f"at[{i}]" for i in range(rank))
    lines = [*text.lines, f"InterlockedAdd(sums[{indices}], {value});"]
    outputs = {f"{tensor_of(root, root.shape, 'RW')} sums": stored(root)}
    arguments = index_of(added.shape) | parameters_of(text.leaves)
    return [cleared(stored(root)), kernel_of("scatter", arguments, lines, outputs)]


def _running(fusion: Fusion, group: Group) -> list[PlanStep]:
    """A thread for each row along an axis."""
    (root,) = group.roots
    (x,) = root.inputs
    (axis,) = root.attributes["axes"]
    if not root.size:
        return []
    text = Text(fusion, group)
    value, rank = text.of(x), len(x.shape)
    outer = [i for i in range(rank) if i != axis]
    place = ", ".join("j" if i == axis else f"at[{outer.index(i)}]" for i in range(rank))
    grid = tuple(x.shape[i] for i in outer) or (1,)
    arguments = index_of(grid) | text.arrays([leaf.layout for leaf in text.leaves])
    kind, body = type_of(x.dtype), [*text.loads(place), *text.lines]
    if root.op == "cumsum":
        body += [f"sum += {value};", f"sums[{place}] = sum;"]
        start = "-0.0" if x.dtype.kind == "f" else "0"  # to which a first element of -0.0 is added
        lines = [f"{kind} sum = {kind}({start});", *loop_of("j", "0", str(x.shape[axis]), "1", body)]
        return [
            kernel_of(
                "running", arguments, lines, {f"{tensor_of(root, root.shape, 'RW')} sums": stored(root)}
            )
        ]
    better = f"{value} {'>' if root.op == 'argmax' else '<'} best || ({value} != {value} && best == best)"
    body.append(f"if (j == 0 || {better}) {{ best = {value}; place = j; }}")
    loop = loop_of("j", "0", str(x.shape[axis]), "1", body)
    lines = [f"{kind} best = {kind}(0);", "int64_t place = 0;", *loop, "return place;"]
    return [kernel_of("running", arguments, lines, {RESULT: stored(root)}, "int64_t")]


def loop_of(name: str, start: str, stop: str, step: str, body: Sequence[str]) -> list[str]:
    return block(f"for (int {name} = {start}; {name} < {stop}; {name} += {step})", body)


def block(head: str, body: Sequence[str]) -> list[str]:
    return [head, "{", *(f"    {line}" for line in body), "}"]


def _repeat(fusion: Fusion, group: Group) -> list[PlanStep]:
    node = group.roots[0].inputs[0]
    outputs = {str(root.attributes["index"]): stored(root) for root in group.roots}
    inputs = {str(i): seen(fusion, x) for i, x in enumerate(node.inputs)}
    return [RepeatStep(node.attributes["loop"], reads=inputs, writes=outputs)]


def stored(node: Node) -> MemoryPart:
    """A result, without gaps."""
    return MemoryPart(node, dense(node.shape))


def seen(fusion: Fusion, node: Node) -> MemoryPart:
    """An operand, as views show it."""
    base, views = behind_views(node)
    return MemoryPart(base, fusion.layout(base, views))


def start_of(part: MemoryPart, moved: int = 0) -> MemoryPart:
    """Its first element, or one `moved` elements behind it: the place that a pointer gets."""
    return MemoryPart(part.holder, StridedLayout((1,), (1,), part.layout.offset + moved))


Writer = Callable[[Fusion, Group], list[PlanStep]]
TEMPLATES: dict[str, Writer] = {"all_reduce": _all_reduce}  # of operators that have kernels of their own
WRITERS: dict[str, Writer] = {  # of kinds
    "map": _map,
    "part": _parts,
    "running": _running,
    "scatter": _scatter,
    "loop": _repeat,
    "exchange": _exchange,
}
