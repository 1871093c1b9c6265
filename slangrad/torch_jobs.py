"""Operations of PyTorch's autograd that slangrad computes: jobs, which know how their derivatives are jobs.

    apply(job, tensors)      the outputs; autograd, dual levels and the transforms of torch.func follow them

Calls of Slang functions are jobs (`call/pytorch/torch_functions.py`), and so are graphs (`graph/torch_bridge.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx as Context

Tensors = Sequence[torch.Tensor]  # torch tensors; None where there is no derivative
Outputs = tuple[torch.Tensor | None, ...]
Dims = tuple[int | None, ...]
transforms_are_active: Callable[[], bool] = torch._C._are_functorch_transforms_active


class Batch(Protocol):
    """What torch.func.vmap says of a batch."""

    batch_size: int


class TorchJob(ABC):
    """An operation on tensors, none of which it changes. `kept`: those that its derivative needs."""

    kept: tuple[int, ...]

    @abstractmethod
    def run(self, tensors: Tensors) -> Outputs:
        """The outputs."""

    @abstractmethod
    def carries(self, i: int) -> bool:
        """Whether a derivative passes through input i."""

    @abstractmethod
    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        """The gradients of these inputs, from the inputs that are kept and the cotangents."""

    def cotangents(self, given: Tensors) -> Tensors:
        """Of the cotangents of all outputs those that mean something."""
        return given

    def gradients(self, wanted: tuple[int, ...], kept: Tensors, cotangents: Tensors) -> Outputs:
        """Those of the inputs `wanted`."""
        return apply(self.reverse(wanted, kept), (*kept, *cotangents))

    @abstractmethod
    def tangents(self, kept: Tensors, directions: dict[int, object]) -> Outputs:
        """Those of the outputs, where the inputs have these; None where there are none."""


class TorchOperation(torch.autograd.Function):  # type: ignore[misc]
    """A job as autograd sees it."""

    @staticmethod
    def forward(ctx: object, job: TorchJob, *tensors: object) -> Outputs:
        outputs = _run(job, tensors)
        _remember(ctx, job, tensors, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Context, *given: torch.Tensor) -> Outputs:
        job, needs = ctx.job, ctx.needs_input_grad[1:]
        wanted = tuple([i for i in job.kept if needs[i] and job.carries(i)])
        gradients: list[object] = [None] * len(needs)
        if wanted:
            found = job.gradients(wanted, ctx.saved_tensors, job.cotangents(given))
            for i, gradient in zip(wanted, found):
                gradients[i] = gradient
        return (None, *gradients)

    @staticmethod
    def jvp(ctx: Context, _: None, *given: torch.Tensor | None) -> Outputs:
        job = ctx.job
        directions = {
            i: each for i, each in enumerate(given) if each is not None and i in job.kept and job.carries(i)
        }
        found: Outputs = job.tangents(ctx.saved_tensors, directions)
        return found


class Transformable(torch.autograd.Function):  # type: ignore[misc]
    """The same in the form that the transforms of torch.func ask for; it takes longer."""

    @staticmethod
    def forward(job: TorchJob, *tensors: object) -> Outputs:
        return _run(job, tensors)

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[torch.Tensor, ...], output: Tensors) -> None:
        job, *tensors = inputs
        _remember(ctx, job, tensors, output)

    @staticmethod
    def vmap(info: Batch, in_dims: Dims, job: TorchJob, *tensors: torch.Tensor) -> tuple[Tensors, Dims]:
        """One call for each part of the batch."""
        rows = []
        for at in range(info.batch_size):
            dims = in_dims[1:]
            own = [each if dim is None else each.select(dim, at) for each, dim in zip(tensors, dims)]
            rows.append(apply(job, own))
        outputs = tuple(torch.stack(column) for column in zip(*rows))
        return outputs, (0,) * len(outputs)

    backward = TorchOperation.backward
    jvp = TorchOperation.jvp


def _run(job: TorchJob, tensors: Tensors) -> Outputs:
    """Zeros that PyTorch makes for forward mode have no memory."""
    return job.run([zeros(each) if each._is_zerotensor() else each for each in tensors])


def _remember(ctx: Context, job: TorchJob, tensors: Tensors, outputs: Tensors) -> None:
    kept = [tensors[i] for i in job.kept]
    ctx.job = job
    ctx.save_for_backward(*kept)
    if forward_ad._current_level >= 0 or transforms_are_active():
        ctx.save_for_forward(*kept)
    ctx.mark_non_differentiable(*[each for each in outputs if not each.is_floating_point()])


def is_seen(tensors: Tensors) -> bool:
    """Whether autograd, a dual level or a transform of torch.func follows one of the tensors."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return forward_ad._current_level >= 0 or transforms_are_active()


def apply(job: TorchJob, tensors: Tensors) -> Outputs:
    """The outputs of a job, followed by autograd if one of its inputs is."""
    found: Outputs
    if transforms_are_active():
        found = Transformable.apply(job, *tensors)
    else:
        found = TorchOperation.apply(job, *tensors) if is_seen(tensors) else _run(job, tensors)
    return found


@dataclass(slots=True)
class Sum(TorchJob):
    """Each of the first `count` inputs plus one of the others. Inside of a forward mode PyTorch's own sum would be
    hidden from an outer one."""

    count: int

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(2 * self.count))

    def run(self, tensors: Tensors) -> Outputs:
        return tuple(a + b for a, b in zip(tensors[: self.count], tensors[self.count :]))

    def carries(self, i: int) -> bool:
        return True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        raise AssertionError("gradients are the cotangents themselves")

    def gradients(self, wanted: tuple[int, ...], kept: Tensors, cotangents: Tensors) -> Outputs:
        return tuple(cotangents[i % self.count] for i in wanted)

    def tangents(self, kept: Tensors, directions: dict[int, object]) -> Outputs:
        given = [directions.get(i, torch.zeros_like(each)) for i, each in enumerate(kept)]
        return apply(self, given)


def zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Dense zeros of the tensor's shape."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype)
