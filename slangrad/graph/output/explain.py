"""Plans for people: kernels, bytes, operations for each byte, Slang text; as text, as HTML, as a picture.

print(f.explain(x))      f.explain(x).save("plan.html")      f.explain(x, dot=True)
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from slangrad.graph.ir.cost import Work
from slangrad.graph.ir.node import type_text
from slangrad.graph.lowering.emit import RESULT
from slangrad.graph.lowering.steps import Exchange, KernelStep, PlanStep, ProductStep, RepeatStep
from slangrad.graph.output.picture import boxes_of, dot, svg
from slangrad.graph.rewriting.fuse import Group

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan

STYLE = """<style>
.slangrad-plan { font-family: sans-serif; color: #111827; } .slangrad-plan pre { background: #f3f4f6; padding: 8px; }
.slangrad-plan td, .slangrad-plan th { padding: 2px 12px; text-align: right; } .slangrad-plan div { overflow-x: auto; }
</style>"""


class PlanExplanation:
    """`str()` is the text; notebooks show HTML with a picture of the graph. `workers`: text about exchanges with
    others, and about shards."""

    def __init__(self, plan: Plan, workers: str = "") -> None:
        self.plan = plan
        self.workers = workers

    def __repr__(self) -> str:
        return str(self)

    @property
    def dot(self) -> str:
        """The picture as text for Graphviz."""
        return dot(boxes_of(self.plan))

    def save(self, path: str | Path) -> None:
        """Write one file of HTML, which needs no other."""
        page = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/><title>{self._title}</title></head>\n'
        Path(path).write_text(f"{page}<body>\n{self._repr_html_()}\n</body></html>\n", encoding="utf-8")

    # --- text

    @property
    def _title(self) -> str:
        groups, nodes = self.plan.fusion.groups, sum(1 for node in self.plan.fusion.order if node.inputs)
        return f"{len(groups)} kernel{'s' * (len(groups) != 1)} for {nodes} nodes"

    def __str__(self) -> str:
        before, after = self.plan.fusion.before, self.plan.fusion.after
        lines = [
            f"{self._title}; {after.accesses} accesses instead of {before.accesses}",
            f"operations for each byte: {before.intensity:.3g} -> {after.intensity:.3g}, "
            f"for each access: {_ratio(before)} -> {_ratio(after)}",
            f"bytes: {before.bytes} -> {after.bytes}; memory between kernels: {self._memory}",
            "",
            *([self.workers, ""] if self.workers else []),
            str(self.plan),
        ]
        lines += [f"--- {self._copies}", *map(self._text, self.plan.copies)] if self.plan.copies else []
        for group, steps in self._kernels():
            lines += [f"--- {self._headline(group)}", *map(self._text, steps)]
        return "\n".join(lines)

    @property
    def _copies(self) -> str:
        """The headline of those that micro-batches make once a step."""
        count = len(dict.fromkeys(part.holder for step in self.plan.copies for part in step.writes.values()))
        copies = f"{count} cop{'y' if count == 1 else 'ies'} of weights in another order"
        return f"{copies}, once a step: {self.plan.copied_bytes} bytes"

    @property
    def _memory(self) -> str:
        """The most bytes, the limit, and the values that are computed again for it."""
        plan = self.plan
        if plan.limit is None:
            return f"{plan.peak} bytes"
        roots = [type_text(root) for task in plan.again for root in plan.fusion.groups[task.number].roots]
        counts = ", ".join(f"{roots.count(root)} x {root}" for root in dict.fromkeys(roots))
        return f"{plan.peak} bytes of {plan.limit} allowed; computed again: {counts or 'nothing'}"

    def _kernels(self) -> list[tuple[Group, list[PlanStep]]]:
        return list(zip(self.plan.fusion.groups, self.plan.by_group, strict=True))

    def _headline(self, group: Group) -> str:
        work, stored = group.work, ", ".join(type_text(root) for root in group.roots)
        counts = f"{work.flops} operations, {work.bytes} bytes, {work.intensity:.3g} operations for each byte"
        return f"{group.kind} over {group.shape}: {stored}; {counts}"

    def _text(self, step: PlanStep) -> str:
        if isinstance(step, KernelStep):
            return step.text
        if isinstance(step, RepeatStep):
            return f"{step.loop}\n{PlanExplanation(self.plan.bodies[step.loop])}"
        if isinstance(step, Exchange):
            return f"{step.collective.name} {step.collective}: {step.writes[RESULT].layout.shape}"
        return f"{step.library}  {step.letters}" if isinstance(step, ProductStep) else "zeros"

    # --- HTML

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Callable[[Work], str]]] = [
            ("operations", lambda work: f"{work.flops}"),
            ("accesses", lambda work: f"{work.accesses}"),
            ("bytes", lambda work: f"{work.bytes}"),
            ("operations for each byte", lambda work: f"{work.intensity:.3g}"),
            ("operations for each access", _ratio),
        ]
        sides = self.plan.fusion.before, self.plan.fusion.after
        cells = ["".join(f"<td>{show(side)}</td>" for side in sides) for _, show in rows]
        table = "".join(f"<tr><th>{name}</th>{row}</tr>" for (name, _), row in zip(rows, cells, strict=True))
        parts = [
            f'{STYLE}\n<div class="slangrad-plan"><h3>{self._title}</h3>',
            f"<table><tr><th></th><th>before fusion</th><th>after</th></tr>{table}</table>",
            f"<p>memory between kernels: {self._memory}</p>",
            *([f"<pre>{escape(self.workers)}</pre>"] if self.workers else []),
            f"<div>{svg(boxes_of(self.plan))}</div>",
        ]
        if self.plan.copies:
            parts.append(_folded(self._copies, "\n".join(map(self._text, self.plan.copies))))
        for i, (group, steps) in enumerate(self._kernels(), 1):
            parts.append(_folded(f"{i}: {self._headline(group)}", "\n".join(map(self._text, steps))))
        return "\n".join([*parts, _folded("all nodes", str(self.plan)), "</div>"])


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _ratio(work: Work) -> str:
    return f"{work.flops / work.accesses:.3g}" if work.accesses else "0"
