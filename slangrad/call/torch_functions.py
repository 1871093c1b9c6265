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
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import BACKWARD, HIGHER, TANGENT
from slangrad.marshal.torch_memory import TorchCurve
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

    def tangents(self, kept: Tensors, directions: dict[int, Any]) -> tuple[Any, ...]:
        """Those of the outputs, where the inputs have these; None where there are none."""
        raise CallError("E1007", f"{_FORWARD} second derivatives of a call", (), _BACKWARD)


_FORWARD = "forward-mode derivatives of PyTorch do not go through"
_BACKWARD = "torch.autograd.grad(..., create_graph=True) has derivatives of any order"


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

    @staticmethod
    def jvp(ctx: Any, _: None, *given: Any) -> Any:
        job = ctx.job
        if job.changed:
            note = "let the call make its result"
            raise CallError("E1007", f"{_FORWARD} outputs that are given", (), note)
        directions = {
            i: each for i, each in enumerate(given) if each is not None and i in job.kept and job.carries(i)
        }
        return job.tangents(ctx.saved_tensors, directions)


class Transformable(torch.autograd.Function):  # type: ignore[misc]
    """The same in the form that the transforms of torch.func ask for; it takes longer."""

    @staticmethod
    def forward(job: Job, *tensors: Any) -> tuple[Any, ...]:
        return job.run(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        job, *tensors = inputs
        _remember(ctx, job, tensors, output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], job: Job, *tensors: Any) -> tuple[Any, Any]:
        """One call for each part of the batch."""
        if job.changed:
            message = "torch.vmap: outputs that are given cannot be parts of a batch"
            raise CallError("E1007", message, (), "let the call make its result")
        rows = []
        for at in range(info.batch_size):
            dims = in_dims[1:]
            own = [each if dim is None else each.select(dim, at) for each, dim in zip(tensors, dims)]
            rows.append(apply(job, own))
        outputs = tuple(torch.stack(column) for column in zip(*rows))
        return outputs, (0,) * len(outputs)

    backward = Operation.backward
    jvp = Operation.jvp


def _remember(ctx: Any, job: Job, tensors: Tensors, outputs: Tensors) -> None:
    kept = [tensors[i] for i in job.kept]
    ctx.job = job
    ctx.save_for_backward(*kept)
    if forward_ad._current_level >= 0 or transforms_are_active():
        ctx.save_for_forward(*kept)
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

    def tangents(self, kept: Tensors, directions: dict[int, Any]) -> tuple[Any, ...]:
        if not self.site.result_carries:
            return (None,)
        job = Tangent(self.site, self.constants, self.threads, tuple(directions))
        return apply(job, (*kept, *directions.values()))

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
        gradients: dict[int, Any] = dict.fromkeys(self.wanted)
        count = len(site.kept)
        inputs = [self._input(i, tensor, gradients) for i, tensor in zip(site.kept, tensors)]
        values, result = with_cotangents(site, self.constants, inputs, tensors[count:])
        return values, result, tuple(gradients.values())

    def _input(self, i: int, tensor: Any, gradients: dict[int, Any]) -> Any:
        """An input, with zeros to add its gradient to if it is wanted or its type has a place for it."""
        slot = self.site.slots[i]
        if i not in gradients and not slot.is_paired:
            return tensor
        gradient = _zeros(tensor)
        if i in gradients:
            gradients[i] = gradient
        return DiffPair(tensor, gradient)

    def carries(self, i: int) -> bool:
        kept = self.site.kept
        return self.site.slots[kept[i]].carries if i < len(kept) else True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        if any(self.site.slots[i].is_paired or self.site.slots[i].is_plain for i in self._touched()):
            return Curved(self.site, self.constants, self.threads, self.wanted, wanted)

        def bound() -> Any:
            values, result, _ = self._values(kept)
            return self.site.bind(BACKWARD, values, result)

        site, arrange = reverse_site(self.site, self.wanted, bound)
        return Reverse(site, arrange(self.constants), self.threads, wanted)

    def tangents(self, kept: Tensors, directions: dict[int, Any]) -> tuple[Any, ...]:
        """The gradient's own derivative by the inputs, and what the tangents of cotangents give."""
        count = len(self.site.kept)
        own = {self.site.kept[i]: each for i, each in directions.items() if i < count}
        found = [torch.zeros_like(kept[self.site.kept.index(i)]) for i in self.wanted]
        if own:
            job = Curved(self.site, self.constants, self.threads, tuple(own), self._places())
            found = [a + b for a, b in zip(found, apply(job, (*kept, *own.values())))]
        if any(i >= count for i in directions):
            moved = [directions.get(count + i, torch.zeros_like(each)) for i, each in enumerate(kept[count:])]
            found = [a + b for a, b in zip(found, apply(self, (*kept[:count], *moved)))]
        return tuple(found)

    def _places(self) -> tuple[int, ...]:
        """What is wanted, as numbers of inputs."""
        return tuple(self.site.kept.index(i) for i in self.wanted)

    def _touched(self) -> list[int]:
        """Slots that may be bound to types with places for gradients."""
        slots = self.site.slots
        return [i for i, slot in enumerate(slots) if i in self.wanted or slot.is_paired]

    def cotangents(self, given: Tensors) -> Tensors:
        return given


@dataclass(slots=True)
class Tangent(Job):
    """The tangent of the result of a call, at its inputs, in the directions of the slots `given`."""

    site: Site
    constants: list[Any]
    threads: int | None
    given: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(len(self.site.kept) + len(self.given)))

    def run(self, tensors: Tensors) -> tuple[Any, ...]:
        count = len(self.site.kept)
        directions = dict(zip(self.given, tensors[count:]))
        return tuple(tangents_of(self.site, self.constants, self.threads, tensors[:count], directions, ()))

    def carries(self, i: int) -> bool:
        return True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        raise CallError("E1007", "forward-mode derivatives of a call have no derivative", (), _BACKWARD)

    def cotangents(self, given: Tensors) -> Tensors:
        return given


@dataclass(slots=True)
class Curved(Job):
    """The derivative of Reverse through whole tensors: `given` are the slots whose gradients it gave, the inputs those
    of Reverse and the cotangents of its outputs.

    With v for these: the derivatives by inputs are those of the gradient in the direction v, because second derivatives
    are symmetric; those by cotangents are the tangents of the outputs in the direction v.
    """

    site: Site
    constants: list[Any]
    threads: int | None
    given: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(len(self.site.kept) + self.site.cotangent_count + len(self.given)))

    def run(self, tensors: Tensors) -> tuple[Any, ...]:
        count = len(self.site.kept)
        end = count + self.site.cotangent_count
        directions = dict(zip(self.given, tensors[end:]))
        found: dict[int, Any] = {}
        if any(i < count for i in self.wanted):
            found |= self._curve(tensors[:count], tensors[count:end], directions)
        if any(i >= count for i in self.wanted):
            site, cotangents = self.site, tensors[count + self.site.result_carries : end]
            made = tangents_of(site, self.constants, self.threads, tensors[:count], directions, cotangents)
            found |= enumerate(made, count)
        return tuple(found[i] for i in self.wanted)

    def _curve(self, kept: Tensors, cotangents: Tensors, directions: dict[int, Any]) -> dict[int, Any]:
        """Derivatives of the gradient, by inputs of Reverse."""
        found: dict[int, Any] = {}
        inputs: list[Any] = []
        for at, (i, tensor) in enumerate(zip(self.site.kept, kept)):
            if i not in directions and at not in self.wanted:
                inputs.append(tensor)
                continue
            found[at] = _zeros(tensor)
            inputs.append(TorchCurve(tensor, directions.get(i, found[at].clone()), found[at]))
        values, result = with_cotangents(self.site, self.constants, inputs, cotangents)
        key = self.given, self.wanted
        self.site.run(HIGHER, key, values, result, self.threads)
        return found

    def carries(self, i: int) -> bool:
        return True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> Job:
        labels = [self.site.slots[i].label for i in self.given]
        message = f"third derivatives do not go through whole tensors (here: {', '.join(labels)})"
        raise CallError("E1007", message, (), "pass values (float[N], float3, ...) in place of whole tensors")

    def cotangents(self, given: Tensors) -> Tensors:
        return given


def tangents_of(
    site: Site,
    constants: list[Any],
    threads: int | None,
    kept: Tensors,
    directions: dict[int, Any],
    outputs: Tensors,
) -> list[Any]:
    """Tangents of the result that a call makes, and of outputs that are like these."""
    inputs = [DiffPair(each, directions[i]) if i in directions else each for i, each in zip(site.kept, kept)]
    values = with_inputs(site, constants, inputs)
    filled = [DiffPair(torch.empty_like(each), torch.empty_like(each)) for each in outputs]
    for slot, pair in zip(site.carrying_outputs, filled):
        put(values, slot, pair)
    made = site.run(TANGENT, tuple(directions), values, None, threads)
    return [each.grad for each in ([made, *filled] if site.result_carries else filled)]


def with_inputs(site: Site, constants: list[Any], inputs: Tensors) -> list[Any]:
    """The values of a call of a derivative with these inputs that were kept, and places for what it writes besides."""
    values = site.opened(constants)
    for i, each in zip(site.kept, inputs):
        put(values, site.slots[i], each)
    for place in site.sinks:
        put(values, place, copied(found_at(values, place)))
    return values


def with_cotangents(
    site: Site, constants: list[Any], inputs: Tensors, cotangents: Tensors
) -> tuple[list[Any], Any]:
    """The same with the derivatives of outputs; apart from them that of a result that the call makes."""
    values, given = with_inputs(site, constants, inputs), iter(cotangents)
    result = _as_cotangent(next(given), False) if site.result_carries else None
    for slot in site.carrying_outputs:
        put(values, slot, _as_cotangent(next(given), slot.is_plain or slot.is_paired))
    for place in site.cells:
        put(values, place, _without_cotangent(found_at(values, place)))
    return values, result


def _zeros(tensor: Any) -> Any:
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _as_cotangent(tensor: Any, needs_memory: bool) -> DiffPair:
    """An output in a backward call; what takes its place itself is not touched, if its type does not say so."""
    return DiffPair(torch.empty(tensor.shape, dtype=tensor.dtype) if needs_memory else tensor, tensor)


def _without_cotangent(cell: Any) -> DiffPair:
    """A single value that the call wrote for Python: no derivative comes back from there."""
    return DiffPair(cell.value)
