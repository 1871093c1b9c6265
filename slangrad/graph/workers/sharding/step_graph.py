"""The graph of a training step of all workers, before it is cut: the loss, and the update of each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slangrad.graph.ir.node import Node
from slangrad.graph.workers.meshes.specs import Spec


@dataclass(slots=True)
class TrainedVariable:
    """A parameter, its optimizer's `states`, and `updates`: for each of these inputs the new value. `specs` and `cuts`:
    those that its memory and its state may have, all where there are none."""

    parameter: Node
    states: Sequence[Node]
    updates: Mapping[Node, Node]
    specs: Sequence[Spec] = ()
    cuts: Sequence[Spec] = ()

    @property
    def as_cut(self) -> Node:
        """The input as which the update is cut."""
        return self.states[0] if self.states else self.parameter


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The loss and the updates. `kept`: for each update the input whose memory it takes. The last of `inputs` are the
    settings. `names`: of parameters."""

    outputs: list[Node]
    inputs: list[Node]
    batch: list[Node]
    kept: dict[Node, Node]
    variables: list[TrainedVariable]
    names: list[str]
