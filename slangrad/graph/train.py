"""`train`: a loss and an optimizer as one plan: value, gradients and update.

step = graph.train(loss, spy.optim.Adam(p, lr=1e-3))
for x, y in batches: print(step(x, y))          loss(p, x, y), and p is moved
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import slangrad as spy
from slangrad.graph.array import Array
from slangrad.graph.calls import results_of
from slangrad.graph.errors import GraphError
from slangrad.graph.explain import Explanation
from slangrad.graph.gradient import compute_gradient
from slangrad.graph.node import Node, new_input
from slangrad.graph.plan import Plan
from slangrad.graph.trace import (
    Call,
    Plans,
    inputs_of,
    layouts_of,
    name_of,
    scalar_of,
    settings_of,
    tracing,
)
from slangrad.graph.trees import tree_map
from slangrad.graph.values import as_tensor


class Step:
    """`step(*batch)` makes one step and returns the loss before it, a NumPy number; `step.explain(*batch)` shows its
    plan."""

    def __init__(
        self,
        loss: Callable[..., Any],
        optimizer: spy.optim.Optimizer,
        memory: str | int | None = None,
        consistent: str | None = None,
    ) -> None:
        self.loss = loss
        self.settings = settings_of(memory, consistent)
        self.optimizer = optimizer
        self._plans = Plans[_Planned](name_of(loss))

    def __repr__(self) -> str:
        return f"graph.train({name_of(self.loss)}, {self.optimizer!r})"

    def __call__(self, *batch: Any) -> Any:
        call, updates = Call(*batch), self.optimizer.advance()
        loss = self._planned(call, updates).run(call, updates)
        self.optimizer.count()
        return loss

    def explain(self, *batch: Any, dot: bool = False) -> Any:
        """The plan of such a batch, as of `jit`; nothing is run."""
        made = Explanation(self._planned(Call(*batch), self.optimizer.advance()).plan)
        return made.dot if dot else made

    def _planned(self, call: Call, updates: Sequence[Any]) -> _Planned:
        flags = tuple(each for _, update in updates for each in update.settings if isinstance(each, bool))
        key = call.key, flags, len(updates[0][1].settings)
        return self._plans.of(key, lambda: _Planned(self, call, updates))


class _Planned:
    """The inputs of the plan: parameters, the batch, state, numbers among the settings."""

    def __init__(self, step: Step, call: Call, updates: Sequence[Any]) -> None:
        numbers = [part.numbers for part, _ in updates]
        if len(numbers) != len(step.optimizer.parameters):
            raise GraphError(
                "E1043", "train: parameters are tensors of numbers", "take structs apart into several tensors"
            )
        parameters, given = inputs_of(numbers, "parameter"), inputs_of(call.arrays, "batch")
        wrt = map(Array, parameters)
        model = tree_map(lambda leaf: next(wrt), step.optimizer.tree)
        with tracing():
            loss = step.loss(model, *call.of(given))
        output = scalar_of(loss, step.loss)
        gradients = compute_gradient(output, parameters)
        state = _state_of(updates)
        states = inputs_of(state, "state")
        kept: dict[Node, Node] = {}
        settings = new_input((len(updates[0][1].settings),), np.dtype(np.float64), "settings")
        left = iter(states)
        for (_, update), parameter, gradient in zip(updates, parameters, gradients, strict=True):
            own = [next(left) for _ in update.state]
            kept |= _updated(update, parameter, gradient, own, Array(settings))
        inputs = [*parameters, *given, *states]
        layouts = layouts_of(inputs, [*numbers, *call.arrays, *state])
        self._device = numbers[0].device
        self.plan = Plan(
            [output, *kept], [*inputs, settings], self._device, layouts, in_place=kept, **step.settings
        )
        self._parameters = numbers
        self._settings = np.zeros(settings.shape)

    def run(self, call: Call, updates: Sequence[Any]) -> Any:
        self._settings[...] = updates[0][1].settings  # memory that stays, so no call is bound anew
        arrays = (
            as_tensor(self._device, each) for each in (*call.arrays, *_state_of(updates), self._settings)
        )
        return self.plan.run([*self._parameters, *arrays])[0].host_view()[0]


def _state_of(updates: Sequence[Any]) -> list[Any]:
    return [tensor for _, update in updates for tensor in update.state]


def _updated(
    update: Any, parameter: Node, gradient: Node, state: Sequence[Node], settings: Array
) -> dict[Node, Node]:
    """New values, and the inputs whose memory they take: the optimizer's own function, as an operator."""
    declared = [each.type.name for each in update.function.parameters][2 + len(state) :]
    values = [
        value
        if isinstance(value, bool)
        else settings[k].astype(np.float32 if kind == "float" else np.float64)
        for k, (value, kind) in enumerate(zip(update.settings, declared, strict=True))
    ]
    made = results_of(update.function, [*map(Array, [parameter, gradient, *state]), *values])
    return {made[i].node: node for i, node in zip(sorted(made), [parameter, *state], strict=True)}


def train(
    loss: Callable[..., Any],
    optimizer: spy.optim.Optimizer,
    memory: str | int | None = None,
    *,
    consistent: str | None = None,
) -> Step:
    """A function that makes one step of an optimizer: `loss(parameters, *batch)`, its gradient and the update are one
    plan. `parameters` have the form in which the optimizer got them; they are changed in place.
    `memory` and `consistent`: as in `jit`.

    GraphError (E1045) where the loss is not one number, (E1043) for parameters that hold structs. ValueError for
    another value of `consistent`.
    """
    return Step(loss, optimizer, memory, consistent)
