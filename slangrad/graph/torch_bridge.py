"""Graphs as operations of PyTorch's autograd.

    y = f(x)  with x.requires_grad        y.backward() runs the plan of the gradient, which is a graph, too

A job is a graph whose inputs are torch tensors. Its derivatives are graphs, so there is no end of orders. Captured
arrays are inputs, too: autograd keeps their numbers of the call, or raises an error if they were changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

import slangrad as spy
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.gradient import add_all, compute_gradient, compute_tangent
from slangrad.graph.arrays.trees import PyTree, filled
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, new_input, substituted, topological_order
from slangrad.graph.ir.values import ArrayValue, is_torch
from slangrad.graph.trace import CallArguments, Jitted, is_result, traced
from slangrad.torch_jobs import Outputs, Tensors, TorchJob, apply, is_seen


def from_numpy(array: np.ndarray) -> ArrayValue:
    """A torch tensor over the memory of an array."""
    tensor: ArrayValue = torch.from_numpy(array)
    return tensor


class GraphJob(TorchJob):
    """A graph, with the settings of `like` for its plans. `kept`: the inputs that its gradients read."""

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node], like: Jitted) -> None:
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._function = Jitted(self._applied, like.device, **like.settings)
        self._is_float = [output.dtype.kind == "f" for output in outputs]
        self._derived: dict[object, GraphJob] = {}

    def _applied(self, *xs: Array) -> list[Array]:
        values = dict(zip(self._inputs, (x.node for x in xs), strict=True))
        return [Array(output) for output in substituted(self._outputs, values)]

    def run(self, tensors: Tensors) -> Outputs:
        return tuple(self._function.run(CallArguments(tuple(tensors), {})))

    def carries(self, i: int) -> bool:
        return bool(self._inputs[i].dtype.kind == "f")

    @cached_property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        """A graph without a derivative keeps all: its error is that of `reverse`."""
        try:
            gradients, _ = self._gradients(range(len(self._inputs)))
        except GraphError:
            return tuple(range(len(self._inputs)))
        read = set(topological_order(*gradients))
        return tuple([i for i, node in enumerate(self._inputs) if node in read])

    def cotangents(self, cotangents: Tensors) -> Tensors:
        return [cotangent for cotangent, is_float in zip(cotangents, self._is_float, strict=True) if is_float]

    @property
    def _floats(self) -> list[Node]:
        return [output for output, is_float in zip(self._outputs, self._is_float, strict=True) if is_float]

    @property
    def _read(self) -> list[Node]:
        return [self._inputs[i] for i in self.kept]

    def _gradients(self, wanted: Sequence[int]) -> tuple[list[Node], list[Node]]:
        """The gradients of some inputs, and the inputs for cotangents of outputs of floats."""
        seeds = [new_input(output.shape, output.dtype, "cotangent") for output in self._floats]
        products = [(Array(y) * Array(seed)).sum() for y, seed in zip(self._floats, seeds, strict=True)]
        if not products:
            return [], []
        return compute_gradient(add_all(products).node, [self._inputs[i] for i in wanted]), seeds

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> GraphJob:
        key = "reverse", wanted
        if key not in self._derived:
            gradients, seeds = self._gradients(wanted)
            self._derived[key] = GraphJob([*self._read, *seeds], gradients, self._function)
        return self._derived[key]

    def tangents(self, kept: Tensors, directions: dict[int, torch.Tensor]) -> Outputs:
        key = "tangents", *directions
        if key not in self._derived:
            at = [self._inputs[i] for i in directions]
            along = [new_input(x.shape, x.dtype, "tangent") for x in at]
            slopes = [compute_tangent(output, at, along) for output in self._floats]
            self._derived[key] = GraphJob([*self._read, *along], slopes, self._function)
        moved = iter(apply(self._derived[key], (*kept, *directions.values())))
        return tuple(next(moved) if is_float else None for is_float in self._is_float)


class _Entry:
    """The job of calls with arguments of one form, and the form of its results."""

    def __init__(self, jitted: Jitted, call: CallArguments) -> None:
        self.result, inputs, outputs = traced(jitted.function, call)
        nodes = [node for node in topological_order(*outputs) if node.op == "captured"]
        fresh = [new_input(node.shape, node.dtype, "captured") for node in nodes]
        self._captured = [node.attributes["captured"] for node in nodes]
        outputs = substituted(outputs, dict(zip(nodes, fresh, strict=True)))
        self.job = GraphJob([*inputs, *fresh], outputs, jitted)

    def tensors(self, call: CallArguments) -> list[torch.Tensor]:
        """The inputs of the job. Arrays beside torch tensors are copied where a derivative needs their numbers, because
        autograd would not notice changes of them."""
        values, kept = [*call.arrays, *(captured.value for captured in self._captured)], set(self.job.kept)
        return [_as_torch(value, i in kept) for i, value in enumerate(values)]


def called(jitted: Jitted, call: CallArguments) -> PyTree:
    """A call with tensors of torch among its arguments, followed by autograd if one of these is."""
    if not is_seen([array for array in call.arrays if is_torch(array)]):
        return jitted.run(call)
    entry = jitted.jobs.of(call.key, lambda: _Entry(jitted, call))
    outputs = iter(apply(entry.job, entry.tensors(call)))
    return filled(entry.result, outputs, is_result)


def _as_torch(value: ArrayValue, is_copied: bool) -> torch.Tensor:
    if is_torch(value):
        return value
    if isinstance(value, spy.Tensor):
        tensor = value.to_torch()
        return tensor.clone() if is_copied else tensor
    array = np.asarray(value)
    is_lent = not is_copied and array.flags.writeable and min(array.strides, default=0) >= 0
    return torch.from_numpy(array if is_lent else np.array(array))
