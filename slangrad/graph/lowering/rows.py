"""Kernels of rows: reductions along the last axis, and maps that read them at the same row.

    m = max(x, 1);  s = sum(exp(x - m), 1);  p = exp(x - m) / s          one kernel, a wave of 32 lanes for each row

Each stage is a loop over the row, which stays in the first cache. A costly value that several stages need is kept by
its lane, and so are rows that no other kernel reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import slangrad as spy
from slangrad.graph.ir.layout import StridedLayout, dense
from slangrad.graph.ir.node import Node
from slangrad.graph.ir.ops import OPS
from slangrad.graph.ir.types import type_of
from slangrad.graph.lowering.emit import (
    WRITERS,
    Text,
    arrays_of_numbers,
    block,
    kernel_of,
    parameters_of,
    pointers_to,
)
from slangrad.graph.lowering.reductions import begun, combined, sum_type
from slangrad.graph.lowering.steps import Holder, MemoryPart, PlanStep
from slangrad.graph.rewriting.fuse import ArrayRead, Fusion, Group, Views

WAVE = 32
COSTLY = 8  # operations of a value that is not computed again
COMBINED = {
    "sum": "WaveActiveSum",
    "prod": "WaveActiveProduct",
    "max": "WaveActiveMax",
    "min": "WaveActiveMin",
}
Key = tuple[Node, Views]


class _Row:
    """The text of one kernel. `values`: variables of the results of earlier stages."""

    def __init__(self, fusion: Fusion, group: Group) -> None:
        self.fusion, self.group, self.n = fusion, group, group.shape[-1]
        self.values: dict[Node, str] = {}
        self.kept: dict[Key, str] = {}
        self.lines: list[str] = []
        self.arrays: dict[tuple[Node, StridedLayout], str] = {}
        self.numbers: list[int] = []
        self.whole: dict[ArrayRead, str] = {}
        self.read: dict[Holder, int] = {}  # the last stage that reads it
        self.shared = self._shared()

    def _shared(self) -> set[Key]:
        """Costly values of elements that more than one stage computes."""
        uses: Counter[Key] = Counter()
        for stage in self.group.stages:
            if stage.shape == self.group.shape:
                text = self._text(stage)
                uses.update(
                    key for key in text.names if OPS[key[0].op].flops >= COSTLY and key[0].op != "slang"
                )
        return {key for key, count in uses.items() if count > 1}

    def _text(self, stage: Group) -> Text:
        text = Text(self.fusion, stage)
        for root in stage.roots:
            text.of(root.inputs[0] if stage.kind == "reduce" else root)
        return text

    # --- stages

    def stage(self, stage: Group) -> None:
        is_row = stage.shape == self.group.shape
        text = Text(self.fusion, stage, names=dict(self.kept) if is_row else {})
        for leaf in (leaf for leaf in stage.leaves if leaf.whole):
            text.leaves[leaf] = self.whole.setdefault(leaf, f"w{len(self.whole)}")
        values = [text.of(root.inputs[0] if stage.kind == "reduce" else root) for root in stage.roots]
        self.read |= dict.fromkeys((leaf.node for leaf in text.leaves), self.group.stages.index(stage))
        loads = [
            f"{type_of(leaf.node.dtype)} {name} = {self._place(leaf, is_row)};"
            for leaf, name in text.leaves.items()
            if not leaf.whole
        ]
        body = [*loads, *text.lines]
        if stage.kind == "reduce":
            self._reduced(stage.roots[0], body, values[0], text)
            return
        if is_row:
            body += self._keep(text)
        for root, value in zip(stage.roots, values, strict=True):
            body += self._stored(root, value, is_row)
        self.lines += self._loop(body) if is_row else ["{", *(f"    {line}" for line in body), "}"]

    def _reduced(self, root: Node, body: list[str], value: str, text: Text) -> None:
        kind, total = type_of(sum_type(root)), f"s{len(self.values)}"
        self.lines.append(begun(root, total))
        self.lines += self._loop([*body, *self._keep(text), combined(root, value, total)])
        whole = f"{COMBINED[root.op]}({total})"
        if root.op in ("max", "min"):
            whole = f"WaveActiveAnyTrue({total} != {total}) ? {kind}(0) / {kind}(0) : {whole}"
        self.lines.append(f"{type_of(root.dtype)} {total}_row = {type_of(root.dtype)}({whole});")
        self.values[root] = f"{total}_row"
        if root in self.group.roots:
            self.lines.append(
                f"if (lane == 0) {self._address(root, dense(root.shape), False)} = {total}_row;"
            )

    def _stored(self, root: Node, value: str, is_row: bool) -> list[str]:
        place = self._address(root, dense(root.shape), is_row) if root in self.group.roots else ""
        if not is_row:
            name = self.values[root] = f"s{len(self.values)}_row"
            self.lines.append(f"{type_of(root.dtype)} {name};")
            return [f"{name} = {value};", *([f"if (lane == 0) {place} = {name};"] if place else [])]
        if place:
            self.values[root] = place
            return [f"{place} = {value};"]
        held = [] if (root, ()) in self.kept else [self._held((root, ()), value)]
        self.values[root] = self.kept[root, ()]
        return held

    def _keep(self, text: Text) -> list[str]:
        """Values that later stages need, too."""
        new = [key for key in text.names if key in self.shared and key not in self.kept]
        return [self._held(key, text.names[key]) for key in new]

    def _held(self, key: Key, value: str) -> str:
        name, kind = f"c{len(self.kept)}", type_of(key[0].dtype)
        self.lines.insert(0, f"{kind} {name}[{-(-self.n // WAVE)}];")
        self.kept[key] = f"{name}[k]"
        return f"{name}[k] = {value};"

    def _loop(self, body: Sequence[str]) -> list[str]:
        """Over the row: whole waves, and the rest of it."""
        full, rest = divmod(self.n, WAVE)
        lines = []
        if full:
            lines += block(f"for (int k = 0; k < {full}; k++)", [f"int j = k * {WAVE} + lane;", *body])
        if rest:
            lines += block(f"if (lane < {rest})", [f"int k = {full}, j = {full * WAVE} + lane;", *body])
        return lines

    # --- memory

    def _place(self, leaf: ArrayRead, is_row: bool) -> str:
        *kept, step = leaf.layout.strides
        if leaf.node.op == "count" and is_row and step == 1 and not any(kept) and not leaf.layout.offset:
            return f"{type_of(leaf.node.dtype)}(j)"
        return self.values.get(leaf.node) or self._address(leaf.node, leaf.layout, is_row)

    def _address(self, node: Node, at: StridedLayout, is_row: bool) -> str:
        name = self.arrays.get((node, at))
        kept, rank = self.group.shape[:-1], len(self.group.shape) - 1
        if name is None:
            name = self.arrays[node, at] = f"a{len(self.arrays)}"
            steps = [step for n, step in zip(kept, at.strides[:rank], strict=True) if n > 1]
            self.numbers.append(steps[-1] if steps else 0)
        step = at.strides[rank] if is_row else 0
        along = {0: "", 1: " + j"}.get(step, f" + j * {step}")
        return f"{name}[i * n[{name[1:]}]{along}]"


def _rows(fusion: Fusion, group: Group) -> list[PlanStep]:
    if not prod(group.shape):
        return []
    row = _Row(fusion, group)
    for stage in group.stages:
        row.stage(stage)
    places = {name: MemoryPart(node, at) for (node, at), name in row.arrays.items()}
    written = {part.holder: name for name, part in places.items() if part.layout == dense(part.holder.shape)}
    outputs = {written[root]: places[written[root]] for root in group.roots}
    inputs = {name: part for name, part in places.items() if name not in outputs}
    grid = spy.grid((prod(group.shape[:-1]), WAVE))
    numbers, lines = arrays_of_numbers(row.numbers, row.lines)
    arguments = {"int thread[2]": grid, **numbers, **parameters_of(row.whole), **pointers_to(inputs)}
    # All lanes of a wave work on one row. The text marks this, so the compiler computes shared values once.
    head = ["int i = WaveReadLaneFirst(thread[0]), lane = WaveGetLaneIndex(), at[2] = { i, 0 };"]
    kernel = kernel_of("rows", arguments, head + lines, pointers_to(outputs))
    stage_of: dict[Holder, int] = {
        root: i for i, stage in enumerate(group.stages) if stage.shape == group.shape for root in stage.roots
    }  # all lanes read what lane 0 writes for a row
    pairs = (
        (output, name)
        for output, to in outputs.items()
        for name, part in inputs.items()
        if to.fits_over(part) and row.read[part.holder] <= stage_of.get(to.holder, -1)
    )
    return [replace(kernel, group=(1, WAVE), replaces=tuple(pairs))]


WRITERS["rows"] = _rows
