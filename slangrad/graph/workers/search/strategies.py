"""The ways to shard each part of a graph, and their costs.

A cluster is a node that leads, and nodes that follow it: maps and views that have the cuts of their
inputs, at no cost.
A strategy is a cut for each node of a cluster:

    x @ w, transposed        rows of x; columns of w; both whole; the sum over k, partial
    a parameter              the spec of its memory, and that of the optimizer's state and of the update
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.node import Node
from slangrad.graph.ir.ops import base_of, is_view, kind_of
from slangrad.graph.rewriting.fuse import flops_of
from slangrad.graph.workers.meshes.specs import MICRO, Spec
from slangrad.graph.workers.sharding.index_maps import IndexMap, index_map_of
from slangrad.graph.workers.sharding.propagate import (
    Choice,
    Sharding,
    Through,
    input_specs,
    is_legal,
    output_spec,
)
from slangrad.graph.workers.sharding.step_graph import TrainedVariable

Wants = frozenset[Spec]


@dataclass(slots=True)
class Strategy:
    """`specs` of results and `choices` of nodes; `wants`: the specs in which nodes are read. `seconds` of arithmetic;
    bytes that are `held` between steps."""

    specs: dict[Node, Spec]
    choices: dict[Node, Choice] = field(default_factory=dict)
    wants: dict[Node, Wants] = field(default_factory=dict)
    seconds: float = 0.0
    held: int = 0


@dataclass(slots=True)
class NodeCluster:
    nodes: list[Node]
    strategies: list[Strategy]


@dataclass(frozen=True, slots=True)
class CutAxes:
    """The `sizes` of all axes of the mesh, with that of micro-batches, and those that are `open` to choose for. Along
    the others nodes are cut as they are in `settled`, which decides for micro-batches, too."""

    sizes: Mapping[str, int]
    open: Collection[str]
    settled: Sharding | None = None


class NodeClusters:
    """The nodes of a graph in topological `order` but those in `free`, which each worker computes from numbers
    alone, in full or the part that is read. `fixed`: specs of inputs and of nodes `shard`."""

    def __init__(
        self,
        order: Sequence[Node],
        fixed: Mapping[Node, Spec],
        variables: Sequence[TrainedVariable],
        axes: CutAxes,
        machine: MachineRates,
    ) -> None:
        self.settled, self.sizes, self._open = axes.settled, axes.sizes, axes.open
        self._fixed, self._machine = fixed, machine
        self.clusters: list[NodeCluster] = []
        self.of: dict[Node, int] = {}
        self.free: set[Node] = set()
        self.stored: set[int] = set()  # clusters of variables
        self.updates = {new: (old, v) for v in variables for old, new in v.updates.items()}
        variable_of = {node: v for v in variables for node in (v.parameter, *v.states)}
        for node in order:
            variable = variable_of.get(node)
            if variable is not None:
                if node not in self.of:
                    self.stored.add(len(self.clusters))
                    self._add(NodeCluster([variable.parameter, *variable.states], self._stored(variable)))
            elif node in self.updates:
                self._update(node, *self.updates[node])
            elif self._is_free(node):
                self.free.add(node)
            elif not self._follows(node):
                self._add(NodeCluster([node], self._leading(node)))

    def _add(self, cluster: NodeCluster) -> None:
        self.of |= dict.fromkeys(cluster.nodes, len(self.clusters))
        self.clusters.append(cluster)

    def _is_free(self, node: Node) -> bool:
        return node not in self._fixed and self.free.issuperset(node.inputs)

    def is_micro(self, node: Node) -> bool:
        """Whether a node is one of a micro-batch, not of all of them."""
        return self.settled is not None and MICRO in self.settled.specs[node].used

    # --- strategies of those that lead

    def _leading(self, node: Node) -> list[Strategy]:
        if node in self._fixed:
            spec = self._fixed[node]
            return [Strategy({node: spec}, {node: {}}, {x: frozenset([spec]) for x in node.inputs})]
        index_map = index_map_of(node)
        return [self._strategy(node, index_map, choice) for choice in self._choices(node, index_map)]

    def _choices(self, node: Node, index_map: IndexMap) -> Iterator[Choice]:
        """All legal choices; the first cuts nothing that is open."""
        base = self.settled.choices[node] if self.settled else {}
        factors = sorted({f for axes in (*index_map.inputs, index_map.output) for f in axes if f is not None})
        sets = (
            [(i,) for i in index_map.linear]
            if index_map.exclusive
            else [index_map.linear]
            if index_map.linear
            else []
        )
        # Of a value that all workers compute there are no parts.
        sums = [terms for terms in sets if self.free.isdisjoint(node.inputs[i] for i in terms)]
        through = [
            Through(terms) for terms in sums if node.nbytes <= sum(node.inputs[i].nbytes for i in terms)
        ]
        options = [
            [None, *factors, *through] if name in self._open else [base.get(name)] for name in self.sizes
        ]
        for picked in product(*options):
            choice = {name: cut for name, cut in zip(self.sizes, picked, strict=True) if cut is not None}
            if is_legal(node, index_map, choice, self.sizes):
                yield choice

    def _strategy(self, node: Node, index_map: IndexMap, choice: Choice) -> Strategy:
        strategy = Strategy({})
        self._join(strategy, node, index_map, choice)
        return strategy

    def _join(self, strategy: Strategy, node: Node, index_map: IndexMap, choice: Choice) -> None:
        """Add a node to a strategy."""
        needs = input_specs(index_map, choice)
        strategy.specs[node], strategy.choices[node] = output_spec(index_map, choice), choice
        for x, spec in zip(node.inputs, needs, strict=True):
            if x not in self.free:
                strategy.wants[x] = strategy.wants.get(x, frozenset()) | {spec}
        strategy.seconds += self._seconds(node, choice, needs, strategy.specs[node])

    def _seconds(self, node: Node, choice: Choice, needs: Sequence[Spec], spec: Spec) -> float:
        """The seconds of arithmetic of one worker, for all micro-batches. Maps are computed where they are read: they
        move no bytes."""
        if is_view(node) or kind_of(node) == "result":
            return 0.0
        seen = [] if kind_of(node) == "map" else [*zip(node.inputs, needs, strict=True), (node, spec)]
        moved = sum(cut.size(x.shape, self.sizes) * x.dtype.itemsize for x, cut in seen)
        flops = flops_of(node)
        for name, factor in choice.items():
            if not isinstance(factor, Through):
                flops //= self.sizes[name]
        times = self.sizes[MICRO] if MICRO in choice else 1
        return times * max(flops / self._machine.rate, moved / self._machine.bandwidth)

    def _stored(self, variable: TrainedVariable) -> list[Strategy]:
        """A parameter is cut as its state is, or along some of these axes of the mesh."""
        parameter, strategies = variable.parameter, []
        any_axis = IndexMap((), tuple(range(len(parameter.shape))))
        legal = self._choices(variable.as_cut, any_axis)
        cuts = variable.cuts or [output_spec(any_axis, choice) for choice in legal]
        for cut in cuts:
            kept = product(*([names[:n] for n in range(len(names), -1, -1)] for names in cut.axes))
            for spec in map(Spec, kept) if variable.states else [cut]:
                if variable.specs and spec not in variable.specs:
                    continue
                specs = {parameter: spec, **dict.fromkeys(variable.states, cut)}
                held = sum(s.size(x.shape, self.sizes) * x.dtype.itemsize for x, s in specs.items())
                strategies.append(Strategy(specs, {node: s.cut for node, s in specs.items()}, held=held))
        return strategies

    # --- those that follow

    def _update(self, node: Node, old: Node, variable: TrainedVariable) -> None:
        """A new value: it is computed as the state is cut, and stored as the old one."""
        at = self.of[node] = self.of[old]
        index_map = index_map_of(node)
        for strategy in self.clusters[at].strategies:
            self._join(strategy, node, index_map, strategy.specs[variable.as_cut].cut)
            strategy.wants[node] = strategy.wants.get(node, frozenset()) | {strategy.specs[old]}
        self.clusters[at].nodes.append(node)

    def _follows(self, node: Node) -> bool:
        """Whether a node keeps all cuts of one of its inputs, in each strategy. If so, it joins the cluster of that
        input."""
        if node in self._fixed or kind_of(node) not in _FOLLOWERS:
            return False
        index_map = index_map_of(node)
        order = sorted(range(len(node.inputs)), key=lambda i: (-base_of(node.inputs[i]).nbytes, i))
        for i in order:
            x = node.inputs[i]
            if x in self.free or (not is_view(node) and base_of(x).size < node.size):
                continue
            cluster = self.clusters[self.of[x]]
            choices = [self._followed(node, index_map, i, strategy) for strategy in cluster.strategies]
            if all(choice is not None for choice in choices):
                for strategy, choice in zip(cluster.strategies, choices, strict=True):
                    self._join(strategy, node, index_map, choice)  # type: ignore[arg-type]
                cluster.nodes.append(node)
                self.of[node] = self.of[x]
                return True
        return False

    def _followed(self, node: Node, index_map: IndexMap, i: int, strategy: Strategy) -> Choice | None:
        """The choice that keeps the cuts of input i; None where there is none."""
        if kind_of(node) == "result":
            return strategy.choices[node.inputs[0]]
        spec = strategy.specs[node.inputs[i]]
        partial = dict(spec.partial)
        choice: dict[str, int | Through] = {}
        for name in self.sizes:
            if name in partial:
                if partial[name] != "sum" or not is_view(node) or node.nbytes > node.inputs[i].nbytes:
                    return None
                choice[name] = Through((i,))
            elif name in spec.cut:
                factor = index_map.inputs[i][spec.cut[name]]
                if factor is None:
                    return None
                choice[name] = factor
        if self.settled and choice.get(MICRO) != self.settled.choices[node].get(MICRO):
            return None
        return choice if is_legal(node, index_map, choice, self.sizes) else None


_FOLLOWERS = ("map", "view", "reduce", "result", "part")
