"""Operations of PyTorch's autograd that slangrad computes: jobs, whose derivatives are jobs as well.

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
    """The data of torch.func.vmap about a batch."""

    batch_size: int


class TorchJob(ABC):
    """An operation on tensors, none of which it changes. `kept`: those that its derivative needs."""

    kept: tuple[int, ...]

    @abstractmethod
    def run(self, tensors: Tensors) -> Outputs:
        """The outputs."""

    @abstractmethod
    def carries(self, i: int) -> bool:
        """Whether a derivative passes from the outputs to input i."""

    @abstractmethod
    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        """The gradients of these inputs, from the inputs that are kept and the cotangents."""

    def cotangents(self, gradients: Tensors) -> Tensors:
        """The cotangents of the outputs that carry derivatives."""
        return gradients

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
    def backward(ctx: Context, *output_gradients: torch.Tensor) -> Outputs:
        job, needs = ctx.job, ctx.needs_input_grad[1:]
        wanted = tuple([i for i, is_needed in enumerate(needs) if is_needed and job.carries(i)])
        gradients: list[object] = [None] * len(needs)
        if wanted:
            input_gradients = job.gradients(wanted, ctx.saved_tensors, job.cotangents(output_gradients))
            for i, gradient in zip(wanted, input_gradients):
                gradients[i] = gradient
        return (None, *gradients)

    @staticmethod
    def jvp(ctx: Context, _: None, *tangents: torch.Tensor | None) -> Outputs:
        job = ctx.job
        directions = {
            i: tangent for i, tangent in enumerate(tangents) if tangent is not None and job.carries(i)
        }
        outputs: Outputs = job.tangents(ctx.saved_tensors, directions)
        return outputs


class Transformable(torch.autograd.Function):  # type: ignore[misc]
    """The same in the slower form that the transforms of torch.func need."""

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
            row = [tensor if dim is None else tensor.select(dim, at) for tensor, dim in zip(tensors, dims)]
            rows.append(apply(job, row))
        outputs = tuple(torch.stack(column) for column in zip(*rows))
        return outputs, (0,) * len(outputs)

    backward = TorchOperation.backward
    jvp = TorchOperation.jvp


def _run(job: TorchJob, tensors: Tensors) -> Outputs:
    """Zeros that PyTorch makes for forward mode have no memory."""
    return job.run([zeros(tensor) if tensor._is_zerotensor() else tensor for tensor in tensors])


def _remember(ctx: Context, job: TorchJob, tensors: Tensors, outputs: Tensors) -> None:
    kept = [tensors[i] for i in job.kept]
    ctx.job = job
    ctx.save_for_backward(*kept)
    if forward_ad._current_level >= 0 or transforms_are_active():
        ctx.save_for_forward(*kept)
    ctx.mark_non_differentiable(*[output for output in outputs if not output.is_floating_point()])


def is_seen(tensors: Tensors) -> bool:
    """Whether autograd, a dual level or a transform of torch.func follows one of the tensors."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return forward_ad._current_level >= 0 or transforms_are_active()


def is_followed(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a tangent, or belongs to a transform of torch.func."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def apply(job: TorchJob, tensors: Tensors) -> Outputs:
    """The outputs of a job, followed by autograd if one of its inputs is."""
    outputs: Outputs
    if transforms_are_active():
        outputs = Transformable.apply(job, *tensors)
    else:
        outputs = TorchOperation.apply(job, *tensors) if is_seen(tensors) else _run(job, tensors)
    return outputs


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
        moved = [directions.get(i, torch.zeros_like(term)) for i, term in enumerate(kept)]
        return apply(self, moved)


def zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Dense zeros of the tensor's shape."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
