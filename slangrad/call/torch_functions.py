"""Calls and their derivatives as operations of PyTorch's autograd, to any order.

    Forward of f:   x      ->  y                 backward is Reverse of f
    Reverse of f:   x, ct  ->  gradients of x    backward is Reverse of g, the Slang function that computes these

Kernels sum gradients over the calls that share an element. `g` is written when a second derivative is asked for
(torch_derivatives.py); before that, Reverse runs what `f.bwds` runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from slangrad.call.plan import Plan
from slangrad.call.torch_derivatives import reverse_site
from slangrad.call.torch_sites import Site, copied, found_at, put
from slangrad.marshal.marshal import BACKWARD
from slangrad.marshal.values import DiffPair

Tensors = Sequence[Any]
transforms_are_active: Callable[[], bool] = torch._C._are_functorch_transforms_active


class Job(ABC):
    """An operation on tensors. `kept`: those that its derivative needs; `changed`: those that it writes."""

    kept: tuple[int, ...]
    changed: tuple[int, ...] = ()

    @abstractmethod
    def run(self, tensors: Tensors) -> tuple[Any, ...]:
        """The outputs."""

    @abstractmethod
    def carries(self, i: int) -> bool:
        """Whether a derivative passes through input i."""

    @abstractmethod
    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        """The gradients of these inputs, from the inputs that are kept and the cotangents."""

    @abstractmethod
    def cotangents(self, given: Tensors) -> Tensors:
        """Of the cotangents of all outputs those that mean something."""


class Operation(torch.autograd.Function):  # type: ignore[misc]
    """What autograd sees of a job."""

    @staticmethod
    def forward(ctx: Any, job: Job, *tensors: Any) -> tuple[Any, ...]:
        outputs = job.run(tensors)
        _remember(ctx, job, tensors, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *given: Any) -> tuple[Any, ...]:
        job, needs = ctx.job, ctx.needs_input_grad[1:]
        wanted = tuple([i for i in job.kept if needs[i] and job.carries(i)])
        gradients: list[Any] = [None] * len(needs)
        if wanted:
            kept = ctx.saved_tensors
            tensors = (*kept, *job.cotangents(given))
            for i, gradient in zip(wanted, apply(job.reverse(wanted, kept), tensors)):
                gradients[i] = gradient
        return (None, *gradients)


class Transformable(torch.autograd.Function):  # type: ignore[misc]
    """The same in the form that the transforms of torch.func ask for; it takes longer."""

    @staticmethod
    def forward(job: Job, *tensors: Any) -> tuple[Any, ...]:
        return job.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        job, *tensors = inputs
        _remember(ctx, job, tensors, output)

    backward = Operation.backward


def _remember(ctx: Any, job: Job, tensors: Tensors, outputs: Tensors) -> None:
    ctx.job = job
    ctx.save_for_backward(*[tensors[i] for i in job.kept])
    if job.changed:
        ctx.mark_dirty(*[tensors[i] for i in job.changed])
    ctx.mark_non_differentiable(*[each for each in outputs if not each.is_floating_point()])


def is_seen(tensors: Tensors) -> bool:
    """Whether autograd, a dual level or a transform of torch.func follows one of the tensors."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return forward_ad._current_level >= 0 or transforms_are_active()


def apply(job: Job, tensors: Tensors) -> tuple[Any, ...]:
    """The outputs of a job, followed by autograd if one of its inputs is."""
    found: tuple[Any, ...]
    if transforms_are_active():
        found = Transformable.apply(job, *tensors)
    else:
        found = Operation.apply(job, *tensors) if is_seen(tensors) else job.run(tensors)
    return found


@dataclass(slots=True)
class Forward(Job):
    """A call itself. Its tensors are those of the slots, its outputs the result that it makes, then what it fills.
    `values` are what it was called with, and are dropped once it is done."""

    site: Site
    constants: list[Any]
    threads: int | None
    plan: Plan
    values: list[Any]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.site.kept

    @property
    def changed(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.site.outputs

    def run(self, tensors: Tensors) -> tuple[Any, ...]:
        values = self.site.opened(self.values)
        for slot, tensor in zip(self.site.slots, tensors):
            put(values, slot, tensor)
        made = self.plan.run(values, self.threads)
        outputs = [tensors[i] for i in self.site.outputs]
        return (made, *outputs) if self.site.created else tuple(outputs)

    def carries(self, i: int) -> bool:
        return self.site.slots[i].carries

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        return Reverse(self.site, self.constants, self.threads, wanted)

    def cotangents(self, given: Tensors) -> Tensors:
        flags = [self.site.result_carries] if self.site.created else []
        flags += [self.site.slots[i].carries for i in self.site.outputs]
        return [each for each, carries in zip(given, flags) if carries]


@dataclass(slots=True)
class Reverse(Job):
    """Gradients of the slots `wanted`, at the kept inputs of a call and cotangents of its outputs."""

    site: Site
    constants: list[Any]
    threads: int | None
    wanted: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(len(self.site.kept) + self.site.cotangent_count))

    def run(self, tensors: Tensors) -> tuple[Any, ...]:
        values, result, gradients = self._values(tensors)
        self.site.run(BACKWARD, self.wanted, values, result, self.threads)
        return gradients

    def _values(self, tensors: Tensors) -> tuple[list[Any], Any, tuple[Any, ...]]:
        """The values of the backward call, a result if it needs one, and where gradients will be."""
        site = self.site
        values = site.opened(self.constants)
        gradients: dict[int, Any] = dict.fromkeys(self.wanted)
        for i, tensor in zip(site.kept, tensors):
            put(values, site.slots[i], self._input(i, tensor, gradients))
        given = iter(tensors[len(site.kept) :])
        result = _as_cotangent(next(given), False) if site.result_carries else None
        for slot in site.carrying_outputs:
            put(values, slot, _as_cotangent(next(given), slot.is_plain or slot.is_paired))
        for place in site.sinks:
            put(values, place, copied(found_at(values, place)))
        for place in site.cells:
            put(values, place, _without_cotangent(found_at(values, place)))
        return values, result, tuple(gradients.values())

    def _input(self, i: int, tensor: Any, gradients: dict[int, Any]) -> Any:
        """An input, with zeros to add its gradient to if it is wanted or its type has a place for it."""
        slot = self.site.slots[i]
        if i not in gradients and not slot.is_paired:
            return tensor
        gradient = torch.zeros(tensor.shape, dtype=tensor.dtype)
        if i in gradients:
            gradients[i] = gradient
        return DiffPair(tensor, gradient)

    def carries(self, i: int) -> bool:
        kept = self.site.kept
        return self.site.slots[kept[i]].carries if i < len(kept) else True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        def bound() -> Any:
            values, result, _ = self._values(kept)
            return self.site.bind(BACKWARD, values, result)

        site, arrange = reverse_site(self.site, self.wanted, bound)
        return Reverse(site, arrange(self.constants), self.threads, wanted)

    def cotangents(self, given: Tensors) -> Tensors:
        return given


def _as_cotangent(tensor: Any, needs_memory: bool) -> DiffPair:
    """An output in a backward call; what takes its place itself is not touched, if its type does not say so."""
    return DiffPair(torch.empty(tensor.shape, dtype=tensor.dtype) if needs_memory else tensor, tensor)


def _without_cotangent(cell: Any) -> DiffPair:
    """A single value that the call wrote for Python: no derivative comes back from there."""
    return DiffPair(cell.value)
