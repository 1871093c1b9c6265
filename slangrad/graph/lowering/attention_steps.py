"""Kernels of attention without a matrix of scores: the templates of `kernels/graph_attention.slang`."""

from __future__ import annotations

from dataclasses import replace

from slangrad.graph.ir.layout import dense, joined
from slangrad.graph.ir.types import type_of
from slangrad.graph.lowering.emit import TEMPLATES, seen, template_of
from slangrad.graph.lowering.products import HAS_512
from slangrad.graph.lowering.steps import MemoryPart, PlanStep, TemporaryMemory
from slangrad.graph.rewriting.fuse import Fusion, Group

LANES = 64  # queries of a block
KEYS = 4  # of a step


def _attend(fusion: Fusion, group: Group) -> list[PlanStep]:
    node = group.roots[0].inputs[0]
    form, (q, _, v) = node.attributes["streamed"], node.inputs[:3]
    read = {root.attributes["index"]: root for root in group.roots}
    shapes = form.shapes(*node.inputs[:3])
    if not shapes[0][-2]:
        return []
    holders = [read.get(i) or TemporaryMemory(shape, v.dtype, (node, i)) for i, shape in enumerate(shapes)]
    outputs = [MemoryPart(holder, dense(shape)) for holder, shape in zip(holders, shapes, strict=True)]
    parts, batch = [*(seen(fusion, x) for x in node.inputs), *outputs], q.shape[:-2]
    rank, kind, lines = len(batch), type_of(v.dtype), shapes[0][-2]
    sizes, steps = joined(list(batch), [list(part.layout.strides[:rank]) for part in parts])
    outer, others = len(sizes), node.inputs[0 if form.name == "attend_by_key" else 1].shape[-2]
    numbers = [lines, others]
    numbers += [n for part in parts for n in (*part.layout.strides[rank:], 0)[:2]]
    numbers += [step for row in steps for step in row]
    text = [
        f"Matrix<{kind}> m{i} = {{ "
        + " + ".join([f"p{i}", *(f"at[{a}] * n[{2 + 2 * len(parts) + i * outer + a}]" for a in range(outer))])
        + f", n[{2 + 2 * i}], n[{3 + 2 * i}] }};"
        for i in range(len(parts))
    ]
    generic = f"{kind}, {q.shape[-1]}, {v.shape[-1]}, {KEYS}, {int(form.causal)}"
    matrices = ", ".join(f"m{i}" for i in range(len(parts)))
    text.append(
        f"{form.name}<{generic}>(at[{outer}], at[{outer + 1}], n[0], n[1], {kind}({form.scale!r}lf), {matrices});"
    )
    named = [(f"p{i}", part) for i, part in enumerate(parts)]
    inputs, places = dict(named[: -len(outputs)]), dict(named[-len(outputs) :])
    grid, lanes = (*sizes, -(-lines // LANES), LANES), (128 if HAS_512 else 64) // v.dtype.itemsize
    return [replace(template_of("attention", grid, numbers, inputs, text, places), lanes=lanes)]


TEMPLATES["attend"] = _attend
