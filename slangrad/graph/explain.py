"""What a plan runs, for people: groups, bytes, operations for each byte, the Slang text of each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.graph.emit import Kernel, Product, Repeat
from slangrad.graph.node import type_text

if TYPE_CHECKING:
    from slangrad.graph.plan import Plan


class Explanation:
    """`str()` is the text."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        fusion = self.plan.fusion
        before, after = fusion.before, fusion.after
        nodes = sum(1 for node in fusion.order if node.inputs)
        kernels = "1 kernel" if len(fusion.groups) == 1 else f"{len(fusion.groups)} kernels"
        lines = [
            f"{kernels} for {nodes} nodes; {after.accesses} accesses instead of {before.accesses}",
            f"operations for each byte: {before.intensity:.3g} -> {after.intensity:.3g}, "
            f"for each access: {_ratio(before.flops, before.accesses)} -> {_ratio(after.flops, after.accesses)}",
            f"memory between kernels: {self.plan.peak} bytes",
            "",
            str(self.plan),
        ]
        for group, steps in zip(fusion.groups, self.plan.by_group, strict=True):
            work = group.work
            stored = ", ".join(type_text(root) for root in group.roots)
            lines.append(
                f"--- {group.kind} over {group.shape}: {stored}; {work.flops} operations, {work.bytes} bytes"
            )
            lines += [each.text for each in steps if isinstance(each, Kernel)]
            lines += [
                f"{each.loop}\n{Explanation(self.plan.bodies[each.loop])}"
                for each in steps
                if isinstance(each, Repeat)
            ]
            lines += [f"{each.library}  {each.letters}" for each in steps if isinstance(each, Product)]
        return "\n".join(lines)


def _ratio(a: int, b: int) -> str:
    return f"{a / b:.3g}" if b else "0"
