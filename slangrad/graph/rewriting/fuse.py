"""Fusion: which nodes are stored in memory, and which are computed at their readers.

    e = d + (a + b) * c        three maps, two of them read once        one kernel: a, b, c, d -> e

A group is one kernel: a stored node, or several, and the nodes that it computes on the way. Fusion is found by cost:
a node is no longer stored where that makes its kernel and those of its readers cheaper together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from slangrad.graph.ir.cost import MachineRates, Work
from slangrad.graph.ir.layout import StridedLayout, dense, joined, reshaped
from slangrad.graph.ir.node import Node, Shape, topological_order
from slangrad.graph.ir.ops import OPS, behind_views, is_view, kind_of, letters_in
from slangrad.graph.rewriting.copies import own_layout

MOST_LEAVES = 24
MOST_OPS = 300
LONGEST_ROW = 8192
MOST_AHEAD = 100  # groups behind a sum of rows that are looked at for its kernel
ADDITIVE = frozenset({"add", "subtract"})
MOST_WAITING, LEAST_WAITING = 4, 4096  # products that a sum adds at once, and the bytes of each
MOST_AFTER_SUM = 40  # operations of a map that ends a product
Views = tuple[Node, ...]
Seen = dict[tuple[Node, Views], None]
JoinKey = tuple[
    "ArrayRead", Shape, frozenset[Node]
]  # a leaf, the shape of a kernel, the collectives that it awaits


@dataclass(frozen=True, slots=True)
class ArrayRead:
    """An array that a group reads, and how. `whole`: at computed indices."""

    node: Node
    layout: StridedLayout
    whole: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """A kernel over `shape`. `roots`: the nodes that it stores. `inner`: a product that it ends with a map.
    `stages`: groups that are computed one after the other for each row."""

    kind: str
    shape: Shape
    roots: list[Node]
    leaves: dict[ArrayRead, None] = field(default_factory=dict)
    flops: int = 0
    ops: int = 0
    inner: Node | None = None
    stages: list[Group] = field(default_factory=list)

    @property
    def reads(self) -> set[Node]:
        return {leaf.node for leaf in self.leaves}

    @property
    def awaits(self) -> set[Node]:
        """The collectives whose results it reads."""
        return {node for node in self.reads if "collective" in node.attributes}

    @property
    def is_collective(self) -> bool:
        """Whether it ends with data of other workers."""
        return self.kind == "exchange" or self.roots[0].op == "all_reduce"

    @property
    def is_large(self) -> bool:
        """Whether it is too much for one kernel. Each part of a buffer has its own kernel."""
        kernels = len(self.roots[0].inputs) if self.kind == "part" else 1
        return len(self.leaves) > MOST_LEAVES * kernels or self.ops > MOST_OPS * kernels

    @property
    def work(self) -> Work:
        counts = [(leaf_count(leaf), leaf.node.dtype.itemsize) for leaf in self.leaves]
        counts += [(root.size, root.dtype.itemsize) for root in self.roots]
        return Work(self.flops, sum(n for n, _ in counts), sum(n * size for n, size in counts))


def total_work(groups: Iterable[Group]) -> Work:
    return sum((group.work for group in groups), Work(0, 0, 0))


def leaf_count(leaf: ArrayRead) -> int:
    """How many elements are read; one that many read counts once."""
    if leaf.node.op == "count":
        return 0
    read = 1
    for n, step in zip(leaf.layout.shape, leaf.layout.strides, strict=True):
        read *= n if step else 1
    return min(read, leaf.node.size)


class NotFusible(Exception):
    """A view that no strides show, or a gather behind a view."""


class Fusion:
    """The groups of a graph. `layouts`: those of inputs and captured arrays."""

    def __init__(
        self,
        outputs: Sequence[Node],
        layouts: dict[Node, StridedLayout],
        machine: MachineRates,
        fused: bool = True,
        choose: Callable[..., str] = lambda node, parts, moved: "slang",
    ) -> None:
        self.outputs = set(outputs)
        self.choose = choose
        self.order = topological_order(*outputs)
        self._layouts = layouts
        self._machine = machine
        self.stored = {n for n in self.order if kind_of(n) not in ("view", "source") and n.op != "count"}
        self._groups: dict[Node, Group] = {}
        self._readers: dict[Node, dict[Node, None]] = {n: {} for n in self.order}
        for node in self.order:
            if node in self.stored and kind_of(node) != "result":
                self._enter(node, self._collected(node))
        self.before = total_work(self._groups.values())
        self.placed: dict[Node, tuple[Node, StridedLayout]] = {}  # arrays that lie in others, and how
        if fused:
            self._fuse()
        groups = self._ended(self._joined()) if fused else list(self._groups.values())
        # Seconds of the kernels by the cost model. Rules compare them; stages of a row are counted one by one, as a
        # rule that moves a map between them saves no kernel.
        self.seconds = sum(map(self.seconds_of, groups))
        self.groups = self._in_rows(groups) if fused else groups

    @property
    def after(self) -> Work:
        return total_work(self.groups)

    # --- groups

    def _enter(self, root: Node, group: Group) -> None:
        old = self._groups.get(root)
        for node in old.reads if old else ():
            self._readers[node].pop(root, None)
        self._groups[root] = group
        for node in group.reads:
            self._readers[node][root] = None

    def _collected(self, root: Node) -> Group:
        """The group of a stored node. A view that no strides show makes the node behind it a stored one."""
        kind = kind_of(root)
        kind = "map" if kind == "gather" else kind
        group = Group(kind, root.shape if kind in ("map", "loop") else root.inputs[0].shape, [root])
        if kind == "loop":
            read = [result for result in self.order if kind_of(result) == "result" and root in result.inputs]
            group.roots = read or [root]  # a part of a graph may end with a loop
        if kind == "part":
            for part in root.inputs:
                self._visit(group, part, (), {}, part.size)
        elif kind == "map":
            self._visit(group, root, (), {}, root.size, is_root=True)
        else:
            seen: Seen = {}
            for part in root.inputs:
                self._visit(group, part, (), seen, part.size)
            group.flops += flops_of(root)
        return group

    def _visit(
        self, group: Group, node: Node, views: Views, seen: Seen, size: int, is_root: bool = False
    ) -> None:
        """The operands of a value, without recursion: chains of maps may be long."""
        left = [(node, views)]
        while left:
            key = node, views = left.pop()
            if key in seen or node.op == "constant":
                continue
            seen[key] = None
            is_first, is_root = is_root, False
            if is_view(node):
                left.append((node.inputs[0], (node, *views)))
            elif (node in self.stored and not is_first) or kind_of(node) == "source" or node.op == "count":
                group.leaves[ArrayRead(node, self.layout(node, views))] = None
            else:
                left += self._computed(group, node, views, size)[::-1]

    def _computed(self, group: Group, node: Node, views: Views, size: int) -> list[tuple[Node, Views]]:
        """The reads of a node that is computed in a group."""
        if group.kind in ("contract", "loop", "exchange"):
            raise NotFusible
        group.flops += OPS[node.op].flops * size
        group.ops += 1
        if kind_of(node) != "gather":
            return [(x, views) for x in node.inputs]
        data, index = node.inputs
        if views or group.kind != "map":
            raise NotFusible
        group.leaves[self.whole(data)] = None
        return [(index, views)]

    def whole(self, data: Node) -> ArrayRead:
        """An array that is read at any place."""
        data, views = behind_views(data)
        if data not in self.stored and kind_of(data) != "source" and data.op != "count":
            raise NotFusible
        return ArrayRead(data, self.layout(data, views), whole=True)

    def layout(self, node: Node, views: Views) -> StridedLayout:
        at: StridedLayout | None = own_layout(node, self._layouts)
        for view in views:
            assert at is not None
            at = at.seen_by(view)
            if at is None:
                raise NotFusible
        assert at is not None
        return at

    # --- which nodes are stored

    def _fuse(self) -> None:
        changed = True
        while changed:
            changed = False
            for node in self.order:
                if node in self.stored and node not in self.outputs and kind_of(node) in ("map", "gather"):
                    changed |= self._try_without(node)

    def _try_without(self, node: Node) -> bool:
        """Compute a node where it is read, if that is legal and costs less."""
        readers = list(self._readers[node])
        if self._accumulates(node, readers):
            return False
        self.stored.discard(node)
        try:
            regrouped = [(root, self._collected(root)) for root in readers]
        except NotFusible:
            self.stored.add(node)
            return False
        before = self.seconds_of(self._groups[node]) + sum(
            self.seconds_of(self._groups[root]) for root in readers
        )
        after = sum(self.seconds_of(group) for _, group in regrouped)
        if after > before or any(group.is_large for _, group in regrouped):
            self.stored.add(node)
            return False
        for root, group in regrouped:
            self._enter(root, group)
        for source in self._groups.pop(node).reads:
            self._readers[source].pop(node, None)
        return True

    def _accumulates(self, node: Node, readers: Sequence[Node]) -> bool:
        """Whether a sum is stored for the sum that reads it, so that fewer terms wait in memory: the products of all
        uses of one weight. If both end a product, this takes no time, since a kernel ends one product only."""
        if node.op not in ADDITIVE or len(readers) != 1 or readers[0].op not in ADDITIVE:
            return False
        terms = [self._waiting(root) for root in (node, *readers)]
        if all(
            any(leaf.layout.is_dense and kind_of(leaf.node) == "contract" for leaf in part) for part in terms
        ):
            return True
        return node.nbytes >= LEAST_WAITING and sum(map(len, terms)) > MOST_WAITING

    def _waiting(self, root: Node) -> list[ArrayRead]:
        """The products and scatters of its size that a sum alone reads: they wait in memory for the last of them."""
        return [
            leaf
            for leaf in self._groups[root].leaves
            if kind_of(leaf.node) in ("contract", "scatter")
            and leaf.node.size == root.size
            and leaf.node not in self.outputs
            and [*self._readers[leaf.node]] == [root]
        ]

    def seconds_of(self, group: Group) -> float:
        work = group.work
        return self._machine.seconds(work.flops, work.bytes)

    # --- kernels with several results

    def _joined(self) -> list[Group]:
        """Groups in order, those of one shape that read the same arrays joined where their order allows it."""
        groups = [self._groups[node] for node in self.order if node in self._groups]
        made_by = {root: i for i, group in enumerate(groups) for root in group.roots}
        merged: list[Group | None] = list(groups)
        reading: dict[
            JoinKey, set[int]
        ] = {}  # the groups that may take another one, by an array that both read
        for i, group in enumerate(groups):
            if group.kind != "map":
                continue
            reads, awaits = group.reads, frozenset(group.awaits)
            makers = {made_by[node] for node in reads if node in made_by}
            keys = [(leaf, group.shape, awaits) for leaf in group.leaves]
            near = makers.union(*(reading.get(key, ()) for key in keys))
            earliest = max(makers, default=0)
            at = i
            for j in sorted(j for j in near if earliest <= j < i):
                into = merged[j]
                if into is not None and self._may_join(into, group):
                    self._join(into, group)
                    merged[i], at = None, j
                    made_by.update(dict.fromkeys(group.roots, j))
                    break
            for key in keys:
                reading.setdefault(key, set()).add(at)
        return [group for group in merged if group is not None]

    def _may_join(self, into: Group, group: Group) -> bool:
        if into.kind != "map" or into.shape != group.shape or len(into.leaves | group.leaves) > MOST_LEAVES:
            return False
        for leaf in group.leaves:
            if leaf.node in into.roots and (leaf.whole or not leaf.layout.is_dense):
                return False
        if into.ops + group.ops > MOST_OPS or into.awaits != group.awaits:
            return False
        return bool(into.leaves.keys() & group.leaves.keys()) or not group.reads.isdisjoint(into.roots)

    def _join(self, into: Group, group: Group) -> None:
        for leaf in group.leaves:
            if leaf.node not in into.roots:
                into.leaves[leaf] = None
        into.roots += group.roots
        into.flops += group.flops
        into.ops += group.ops

    # --- sums of rows, and maps that read them at the same row

    def _in_rows(self, groups: list[Group]) -> list[Group]:
        """Reductions along the last axis, and maps of these rows that read them, as one kernel."""
        i = 0
        while i < len(groups):
            merged = self._with_row(groups, i)
            groups, i = (groups, i + 1) if merged is None else (merged, i)
        return groups

    def _with_row(self, groups: list[Group], i: int) -> list[Group] | None:
        """The groups with all groups that fit into the kernel of one reduction merged into it."""
        start, end = groups[i], i + MOST_AHEAD
        if start.kind != "reduce" or not _is_row(start, start.shape):
            return None
        members, rest, late, roots, after = [start], list[Group](), list[Group](), {*start.roots}, set[Node]()
        for group in groups[i + 1 : end]:
            read = group.reads
            near = not roots.isdisjoint(read) or (group.kind == "reduce" and not start.reads.isdisjoint(read))
            if near and after.isdisjoint(read) and _fits(group, start.shape, roots):
                members.append(group)
                roots.update(group.roots)
            elif not roots.isdisjoint(read) or not after.isdisjoint(read):
                late.append(group)
                after.update(group.roots)
            else:
                rest.append(group)
        if len(members) == 1:
            return None
        read = {node for group in members for node in group.reads}
        at = max((k + 1 for k, group in enumerate(rest) if not read.isdisjoint(group.roots)), default=0)
        return [*groups[:i], *rest[:at], self._row(members, roots), *rest[at:], *late, *groups[end:]]

    def _row(self, members: list[Group], roots: set[Node]) -> Group:
        whole = [
            ArrayRead(leaf.node, leaf.layout, True)
            for g in members
            for leaf in g.leaves
            if leaf.node not in roots
        ]
        kept = [
            root
            for group in members
            for root in group.roots
            if root in self.outputs or not roots.issuperset(self._readers[root])
        ]
        row = Group("rows", members[0].shape, kept, dict.fromkeys(whole))
        row.flops, row.ops = sum(g.flops for g in members), sum(g.ops for g in members)
        row.stages = members
        return row

    # --- products that end with a map

    def _ended(self, groups: list[Group]) -> list[Group]:
        """A map that alone reads a product is computed where a sum is ready."""
        readers: dict[Node, list[Group]] = {}
        for group in groups:
            for node in group.reads:
                readers.setdefault(node, []).append(group)
        gone = set()
        for group in groups:
            root, reading = group.roots[0], readers.get(group.roots[0], [])
            if (
                group.kind == "contract"
                and group.inner is None
                and root not in self.outputs
                and self._may_end(root, reading)
            ):
                (end,) = reading
                end.kind, end.inner, end.flops = "contract", root, end.flops + group.flops
                # Operands are read while results are stored.
                whole = {ArrayRead(leaf.node, leaf.layout, whole=True): None for leaf in group.leaves}
                end.leaves = {leaf: None for leaf in end.leaves if leaf.node is not root} | whole
                gone.add(id(group))
        return [group for group in groups if id(group) not in gone]

    def _may_end(self, root: Node, readers: Sequence[Group]) -> bool:
        if len(readers) != 1 or readers[0].kind != "map" or root.dtype.kind != "f" or not root.size:
            return False
        (end,) = readers
        if end.ops > MOST_AFTER_SUM or prod(end.shape) != root.size:
            return False
        return all(
            not leaf.whole
            and (leaf.node is not root or leaf.layout.is_dense)
            and reshaped(leaf.layout, root.shape) is not None
            for leaf in end.leaves
        )


def flops_of(node: Node) -> int:
    """Operations of a node alone."""
    if node.op == "scan":
        loop = node.attributes["loop"]
        return sum(map(flops_of, topological_order(*loop.outputs))) * int(loop.length)
    if node.op == "attend":
        return node.attributes["streamed"].flops(*node.inputs[:3])
    if node.op == "conv":
        return 2 * node.size * prod(node.inputs[1].shape[1:])
    if node.op != "einsum":
        return OPS[node.op].flops * max([node.size, *(x.size for x in node.inputs)]) * bool(node.inputs)
    return 2 * prod(sizes_of(node).values())


def sizes_of(product: Node) -> dict[str, int]:
    """The size of each letter of an einsum."""
    names, _ = letters_in(product.attributes["letters"])
    return dict(zip("".join(names), (n for x in product.inputs for n in x.shape), strict=True))


def _is_row(group: Group, shape: Shape) -> bool:
    """Whether a group is a sum of rows of this shape, by arrays whose rows are evenly apart."""
    root = group.roots[0]
    last = len(shape) - 1
    if root.attributes["axes"] != (last,) or root.dtype.kind != "f" or not 8 <= shape[-1] <= LONGEST_ROW:
        return False
    return prod(shape[:-1]) > 1 and _even(group, shape)


def _even(group: Group, shape: Shape) -> bool:
    """Whether each array that is read has one step from row to row. A number of each row may be read from any
    place."""
    kept, may_gather = len(shape) - 1, len(shape) == 2 and group.shape != shape
    return all(
        may_gather if leaf.whole else len(joined(shape[:-1], [leaf.layout.strides[:kept]])[0]) < 2
        for leaf in group.leaves
    )


def _fits(group: Group, shape: Shape, roots: set[Node]) -> bool:
    """Whether a group computes on each row of this shape, and reads the results of others at the same row."""
    if group.kind == "reduce":
        if group.shape != shape or not _is_row(group, shape):
            return False
    elif (
        group.kind != "map"
        or group.shape not in (shape, shape[:-1], (*shape[:-1], 1))
        or not _even(group, shape)
    ):
        return False
    along = dense(shape[:-1]).strides
    for leaf in group.leaves:
        if leaf.node in roots:
            is_row = leaf.node.shape == shape
            if leaf.whole:
                return False
            strides, kept = leaf.layout.strides, len(shape) - 1
            if is_row and not (group.shape == shape and leaf.layout.is_dense):
                return False
            if not is_row and (strides[:kept] != along or any(strides[kept:]) or leaf.layout.offset):
                return False
    return True
