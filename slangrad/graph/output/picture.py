"""Pictures of plans: a box for each kernel with its nodes, an arrow for each array that it reads, with type and shape.

    boxes_of(plan)  ->  svg(boxes) for browsers, dot(boxes) for Graphviz

Boxes stand in rows: each below all boxes that it reads. Equal plans give equal texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from slangrad.graph.ir.node import Node, type_text
from slangrad.graph.rewriting.fuse import Fusion, Group

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan

COLORS = {
    "source": "#e5e7eb",
    "map": "#dbeafe",
    "reduce": "#fef3c7",
    "contract": "#dcfce7",
    "result": "#fce7f3",
}
OTHER = "#ede9fe"
MOST_LINES = 12  # of a box
LETTER, SMALL, LINE, GAP = 7, 6, 16, 56  # pixels


@dataclass(slots=True)
class Box:
    """`reads`: places of other boxes in the list, and the label of the arrow."""

    kind: str
    lines: list[str]
    reads: list[tuple[int, str]] = field(default_factory=list)

    @property
    def width(self) -> int:
        return (
            max(LETTER * max(map(len, self.lines)), sum(SMALL * len(label) for _, label in self.reads)) + 16
        )

    @property
    def height(self) -> int:
        return LINE * len(self.lines) + 10

    @property
    def color(self) -> str:
        return COLORS.get(self.kind, OTHER)


def boxes_of(plan: Plan) -> list[Box]:
    """Inputs, kernels and results, each behind the boxes that it reads."""
    boxes: list[Box] = []
    makers: dict[Node, int] = {}
    for i, group in enumerate(plan.fusion.groups):
        nodes = members(plan.fusion, group)
        lines = [f"{node.op}  {node.place}" if node.place else node.op for node in nodes]
        more = [f"... {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
        box = Box(group.kind, [f"{i + 1}: {group.kind} {_sizes(group.shape)}", *lines[:MOST_LINES], *more])
        for node in dict.fromkeys(leaf.node for leaf in group.leaves):
            if node not in makers:
                makers[node] = len(boxes)
                boxes.append(Box("source", [f"{node.op} {node.attributes.get('name', '')}".rstrip()]))
            box.reads.append((makers[node], type_text(node)))
        makers |= dict.fromkeys(group.roots, len(boxes))
        boxes.append(box)
    for i, node in enumerate(plan.outputs):
        boxes.append(
            Box("result", [f"result {i + 1}"], [(makers[node], type_text(node))] if node in makers else [])
        )
    return boxes


def members(fusion: Fusion, group: Group) -> list[Node]:
    """The nodes that a kernel computes, in order; numbers and views that it looks through are left out."""
    inside, left = set[Node](), list(group.roots)
    while left:
        node = left.pop()
        is_own = node in group.roots or node is group.inner or node not in fusion.stored
        if is_own and node.inputs and node not in inside:
            inside.add(node)
            left += node.inputs
    return [node for node in fusion.order if node in inside and node.op not in ("broadcast", "stop_gradient")]


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "number"


def _rows(boxes: list[Box]) -> list[list[int]]:
    """The numbers of boxes, those of a row near the boxes that they read."""
    depth: list[int] = []
    for box in boxes:
        depth.append(max((depth[j] + 1 for j, _ in box.reads), default=0))
    first: dict[int, int] = {}
    for i, box in enumerate(boxes):
        first |= {j: min(depth[i], first.get(j, depth[i])) for j, _ in box.reads}
    rows: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for i, box in enumerate(boxes):  # an input stands above its first reader
        rows[first[i] - 1 if box.kind == "source" and i in first else depth[i]].append(i)
    at: dict[int, float] = {}
    for row in rows:
        row.sort(key=lambda i: sum(at.get(j, 0) for j, _ in boxes[i].reads) / max(1, len(boxes[i].reads)))
        at |= {i: k / len(row) for k, i in enumerate(row)}
    return rows


def svg(boxes: list[Box]) -> str:
    """The picture as an element of HTML."""
    rows = _rows(boxes)
    widths = [sum(boxes[i].width + GAP for i in row) for row in rows]
    places: dict[int, tuple[int, int]] = {}
    y = 10
    for row, width in zip(rows, widths, strict=True):
        x = (max(widths) - width + GAP) // 2
        for i in row:
            places[i] = x, y
            x += boxes[i].width + GAP
        y += max((boxes[i].height for i in row), default=0) + GAP
    size = f'width="{max(widths)}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="11">'
    arrow = '<marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    parts = [head, f'<defs>{arrow}<path d="M0,0 L8,4 L0,8 z" fill="#6b7280"/></marker></defs>']
    for i, box in enumerate(boxes):
        x, y = places[i]
        x += (box.width - sum(SMALL * len(label) for _, label in box.reads)) // 2
        for j, label in box.reads:
            start = places[j][0] + boxes[j].width // 2, places[j][1] + boxes[j].height
            parts.append(_arrow(start, (x, y), label))
            x += SMALL * len(label)
    for i, box in enumerate(boxes):
        x, y = places[i]
        size = f'width="{box.width}" height="{box.height}"'
        shape = f'<rect x="{x}" y="{y}" {size} rx="4" fill="{box.color}" stroke="#9ca3af"/>'
        lines = [
            f'<text x="{x + 8}" y="{y + LINE * k}">{escape(line)}</text>'
            for k, line in enumerate(box.lines, 1)
        ]
        parts += [shape, *lines]
    return "\n".join([*parts, "</svg>"])


def _arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    (x, y), (to_x, to_y) = start, end
    path = f'<path d="M{x},{y} C{x},{y + GAP // 2} {to_x},{to_y - GAP // 2} {to_x},{to_y}" fill="none"'
    text = f'<text x="{to_x + 3}" y="{to_y - 8}" fill="#4b5563" font-size="9">{escape(label)}</text>'
    return f'{path} stroke="#6b7280" marker-end="url(#arrow)"/>{text}'


def dot(boxes: list[Box]) -> str:
    """The picture as text for Graphviz."""
    lines = ["digraph plan {", '    node [shape=box, style=filled, fontname="monospace"];']
    for i, box in enumerate(boxes):
        text = "".join(_quoted(line) + r"\l" for line in box.lines)
        lines.append(f'    b{i} [label="{text}", fillcolor="{box.color}"];')
        lines += [f'    b{j} -> b{i} [label="{_quoted(label)}"];' for j, label in box.reads]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")
