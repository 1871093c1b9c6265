"""Graphs as operations of PyTorch's autograd.

    y = f(x)  with x.requires_grad        y.backward() runs the plan of the gradient, which is a graph, too

A job is a function of arrays. Its derivatives are functions of arrays, so there is no end of orders.
"""

from __future__ import annotations

import numpy as np
import torch

import slangrad as spy
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.trees import PyTree, filled, tree_map
from slangrad.graph.ir.values import ArrayValue, Operand, is_array
from slangrad.graph.trace import CallArguments, Function, Jitted, is_result, pullback, pushforward, results_in
from slangrad.torch_jobs import Outputs, Tensors, TorchJob, apply, is_seen


class GraphJob(TorchJob):
    """A function of arrays that gives a list of arrays. `floats`: which of these have derivatives."""

    def __init__(self, function: Function, count: int, like: Jitted) -> None:
        self.function = Jitted(function, like.device, **like.settings)
        self.kept = tuple(range(count))
        self.floats: list[bool] = []
        self._derived: dict[object, GraphJob] = {}

    def run(self, tensors: Tensors) -> Outputs:
        results = tuple(self.function.run(CallArguments(tuple(tensors), {})))
        self.floats = [result.is_floating_point() for result in results]
        return results

    def carries(self, i: int) -> bool:
        return True

    def cotangents(self, cotangents: Tensors) -> Tensors:
        return [cotangent for cotangent, is_float in zip(cotangents, self.floats, strict=True) if is_float]

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> GraphJob:
        count, function = len(kept), self.function.function

        def gradients(*xs: Array) -> list[Array]:
            return pullback(function, xs[:count], wanted, xs[count:])

        return self._derivative(("reverse", wanted), gradients, count + sum(self.floats))

    def tangents(self, kept: Tensors, directions: dict[int, torch.Tensor]) -> Outputs:
        count, along, function = len(kept), tuple(directions), self.function.function

        def tangents(*xs: Array) -> list[Array]:
            return pushforward(function, xs[:count], along, xs[count:])

        job = self._derivative(("tangents", along), tangents, count + len(along))
        slopes = iter(apply(job, (*kept, *directions.values())))
        return tuple(next(slopes) if is_float else None for is_float in self.floats)

    def _derivative(self, key: object, function: Function, count: int) -> GraphJob:
        if key not in self._derived:
            self._derived[key] = GraphJob(function, count, self.function)
        return self._derived[key]


class _Entry:
    """The job of calls with arguments of one form, and the form of its results."""

    def __init__(self, jitted: Jitted, call: CallArguments) -> None:
        form = tree_map(lambda leaf: ... if is_array(leaf) else leaf, call.tree)

        def flat(*xs: Array) -> list[Operand]:
            args, kwargs = filled(form, iter(xs), lambda leaf: leaf is ...)
            self.result = jitted.function(*args, **kwargs)
            return results_in(self.result)

        self.job = GraphJob(flat, len(call.arrays), jitted)


def called(jitted: Jitted, call: CallArguments) -> PyTree:
    """A call with tensors of torch among its arguments, followed by autograd if one of these is."""
    tensors = [_as_torch(array) for array in call.arrays]
    if not is_seen(tensors):
        return jitted.run(call)
    entry = jitted.jobs.of(call.key, lambda: _Entry(jitted, call))
    outputs = iter(apply(entry.job, tensors))
    return filled(entry.result, outputs, is_result)


def _as_torch(value: ArrayValue) -> torch.Tensor:
    """Arrays beside the tensors are copied, because autograd would not notice changes of them."""
    if isinstance(value, spy.Tensor):
        return value.to_torch().clone()
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray | np.generic) else value
