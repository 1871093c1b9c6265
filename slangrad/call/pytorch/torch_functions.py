"""Calls and their derivatives as operations of PyTorch's autograd, to any order.

    ForwardJob of f:   x      ->  y                 backward is ReverseJob of f
    ReverseJob of f:   x, ct  ->  gradients of x    backward is ReverseJob of g, the Slang function that computes these

Kernels sum gradients over the calls that share an element. `g` is written for the first second derivative
(torch_derivatives.py); before that, ReverseJob runs the kernel of `f.bwds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from slangrad.call.binding.launchable import found_at
from slangrad.call.plans.plan import CallPlan
from slangrad.call.pytorch.torch_derivatives import reverse_site
from slangrad.call.pytorch.torch_sites import TorchSite, put
from slangrad.marshal.containers.memory import TorchCurve
from slangrad.marshal.containers.values import DiffPair, snapshot
from slangrad.marshal.protocol.roles import BACKWARD, TANGENT
from slangrad.tensors.elements.conversion import HostValue
from slangrad.torch_jobs import Outputs, Sum, Tensors, TorchJob, apply, zeros

if TYPE_CHECKING:
    from slangrad.call.binding.bind import Binding

Form = tuple[torch.Size, torch.dtype, torch.device]


@dataclass(slots=True)
class ForwardJob(TorchJob):
    """A call itself. Its tensors are those of the slots. Its outputs are the result that it makes, then the values
    to copy to the caller's outputs. `values` are its arguments, and are dropped after the call. `forms`: shapes,
    types and devices of the outputs that carry derivatives."""

    site: TorchSite
    constants: list[object]
    threads: int | None
    plan: CallPlan
    values: list[HostValue]
    forms: tuple[Form, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.site.kept

    def run(self, tensors: Tensors) -> Outputs:
        values = self.site.opened(self.values)
        for slot, tensor in zip(self.site.slots, tensors):
            put(values, slot, tensor)
        filled = [self._to_fill(i, tensors) for i in self.site.outputs]
        for i, tensor in zip(self.site.outputs, filled):
            put(values, self.site.slots[i], tensor)
        returned = self.plan.run(values, self.threads)
        outputs = (returned, *filled) if self.site.created else tuple(filled)
        self.forms = tuple(
            [(output.shape, output.dtype, output.device) for output in self.cotangents(outputs)]
        )
        return outputs

    def _to_fill(self, i: int, tensors: Tensors) -> object:
        """Memory for an output, with its old contents unless all of it is overwritten."""
        slot, before = self.site.slots[i], self.site.befores[i]
        if before is None and not (slot.is_paired or slot.is_plain):
            return _empty(tensors[i])
        return tensors[i if before is None else before].clone(memory_format=torch.contiguous_format)

    def carries(self, i: int) -> bool:
        slot = self.site.slots[i]
        return slot.carries and not slot.writes

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        return ReverseJob(self.site, self.constants, self.threads, wanted)

    def tangents(self, kept: Tensors, directions: dict[int, object]) -> Outputs:
        job = Tangent(self.site, self.constants, self.threads, tuple(directions), self.forms)
        moved = iter(apply(job, (*kept, *directions.values())) if self.forms else ())
        return tuple([next(moved) if carries else None for carries in self._flags()])

    def cotangents(self, outputs: Tensors) -> Tensors:
        return [output for output, carries in zip(outputs, self._flags()) if carries]

    def _flags(self) -> list[bool]:
        """Which of the outputs carry derivatives."""
        flags = [self.site.result_carries] if self.site.created else []
        return flags + [self.site.slots[i].carries for i in self.site.outputs]


@dataclass(slots=True)
class ReverseJob(TorchJob):
    """Gradients of the slots `wanted`, at the kept inputs of a call and cotangents of its outputs."""

    site: TorchSite
    constants: list[object]
    threads: int | None
    wanted: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(len(self.site.kept) + self.site.cotangent_count))

    def run(self, tensors: Tensors) -> Outputs:
        values, result, gradients = self._values(tensors)
        self.site.run(BACKWARD, self.wanted, values, result, self.threads)
        return gradients

    def _values(
        self, tensors: Tensors, paired: Sequence[int] = ()
    ) -> tuple[list[object], object, tuple[object, ...]]:
        """The values of the backward call, a result if it needs one, and the places of gradients. `paired`: slots
        that always get such a place."""
        site = self.site
        gradients: dict[int, object] = dict.fromkeys(self.wanted)
        count = len(site.kept)
        paired = [
            *paired,
            *site.overwritten,
            *(i for i, slot in enumerate(site.slots) if slot.is_paired),
        ]
        inputs = [self._input(i, tensor, gradients, i in paired) for i, tensor in zip(site.kept, tensors)]
        values, result = with_cotangents(site, self.constants, inputs, tensors[count:])
        return values, result, tuple(gradients.values())

    def _input(self, i: int, tensor: object, gradients: dict[int, object], paired: bool) -> object:
        """An input, with zeros to add its gradient to if it is wanted or its type has a place for it."""
        if i not in gradients and not paired:
            return tensor
        gradient = zeros(tensor)
        if i in gradients:
            gradients[i] = gradient
        return DiffPair(tensor, gradient)

    def carries(self, i: int) -> bool:
        kept = self.site.kept
        return self.site.slots[kept[i]].carries if i < len(kept) else True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        def bound() -> Binding:
            whole = [i for i, slot in enumerate(self.site.slots) if slot.is_plain and slot.carries]
            values, result, _ = self._values(kept, whole)
            return self.site.bind(BACKWARD, values, result)

        site, arrange = reverse_site(self.site, self.wanted, bound)
        return ReverseJob(site, arrange(self.constants), self.threads, wanted)

    def tangents(self, kept: Tensors, directions: dict[int, object]) -> Outputs:
        """The derivative of the gradient by the inputs, plus the part of the cotangents' tangents. Second
        derivatives are symmetric, so the tangent of the gradient along v is the gradient of <gradient, v>."""
        count = len(self.site.kept)
        input_directions = {self.site.kept[i]: direction for i, direction in directions.items() if i < count}
        moved_gradients: Tensors = ()
        if input_directions:
            job = ReverseJob(self.site, self.constants, self.threads, tuple(input_directions))
            moved_gradients = job.gradients(self._places(), kept, tuple(input_directions.values()))
        if any(i >= count for i in directions):
            moved = [
                directions.get(count + i, torch.zeros_like(kept_cotangent))
                for i, kept_cotangent in enumerate(kept[count:])
            ]
            by_cotangents = apply(self, (*kept[:count], *moved))
            moved_gradients = (
                apply(Sum(len(by_cotangents)), (*moved_gradients, *by_cotangents))
                if input_directions
                else by_cotangents
            )
        return tuple(moved_gradients)

    def _places(self) -> tuple[int, ...]:
        """The inputs by which derivatives are wanted, as numbers."""
        return tuple(self.site.kept.index(i) for i in self.wanted)


@dataclass(slots=True)
class Tangent(TorchJob):
    """The tangent of the result of a call, at its inputs, in the directions of the slots `direction_slots`."""

    site: TorchSite
    constants: list[object]
    threads: int | None
    direction_slots: tuple[int, ...]
    forms: tuple[Form, ...]

    @property
    def kept(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(range(len(self.site.kept) + len(self.direction_slots)))

    def run(self, tensors: Tensors) -> Outputs:
        count = len(self.site.kept)
        directions = dict(zip(self.direction_slots, tensors[count:]))
        return tuple(
            tangents_of(self.site, self.constants, self.threads, tensors[:count], directions, self.forms)
        )

    def carries(self, i: int) -> bool:
        return True

    def reverse(self, wanted: tuple[int, ...], kept: Tensors) -> TorchJob:
        raise AssertionError("gradients are those of ReverseJob")

    def gradients(self, wanted: tuple[int, ...], kept: Tensors, cotangents: Tensors) -> Outputs:
        """With u for the cotangents, v for the directions, g = ReverseJob(x, u): those of <u, J(x) v> = <g, v>."""
        count = len(self.site.kept)
        inputs, directions = kept[:count], kept[count:]
        gradients: dict[int, HostValue] = {}
        job, points = self._reverse(), (*inputs, *cotangents)
        if any(i >= count for i in wanted):
            gradients |= enumerate(apply(job, points), count)
        of_inputs = tuple(i for i in wanted if i < count)
        if of_inputs:
            gradients |= zip(of_inputs, job.gradients(of_inputs, points, directions))
        return tuple(gradients[i] for i in wanted)

    def tangents(self, kept: Tensors, directions: dict[int, object]) -> Outputs:
        """The tangent of J(x) v is J(x) dv plus a second derivative of the outputs. That one is the derivative by u
        of the gradients by x of <u, J(x) v>, which are linear in u."""
        count = len(self.site.kept)
        inputs, kept_directions = kept[:count], kept[count:]
        input_directions = {i: direction for i, direction in directions.items() if i < count}
        moved_tangents: Tensors = ()
        if input_directions:
            points = (*inputs, *map(_zeros_of, self.forms))
            job, point = self._reverse().reverse(tuple(input_directions), points), (*points, *kept_directions)
            moved_tangents = job.gradients(
                tuple(range(count, len(points))), point, tuple(input_directions.values())
            )
        if any(i >= count for i in directions):
            moved = [
                directions.get(count + i, torch.zeros_like(kept_direction))
                for i, kept_direction in enumerate(kept_directions)
            ]
            by_directions = apply(self, (*inputs, *moved))
            moved_tangents = (
                apply(Sum(len(by_directions)), (*moved_tangents, *by_directions))
                if input_directions
                else by_directions
            )
        return tuple(moved_tangents)

    def _reverse(self) -> ReverseJob:
        return ReverseJob(self.site, self.constants, self.threads, self.direction_slots)


def tangents_of(
    site: TorchSite,
    constants: list[object],
    threads: int | None,
    kept: Tensors,
    directions: dict[int, object],
    forms: Sequence[Form],
) -> list[HostValue]:
    """Tangents of the outputs of a call, which have these forms: of the result that it makes, then of those given."""
    inputs = [
        DiffPair(tensor, directions[i]) if i in directions else tensor for i, tensor in zip(site.kept, kept)
    ]
    values, filled = with_inputs(site, constants, inputs), []
    for i, form in zip(site.carrying_outputs, forms[site.result_carries :]):
        slot = site.slots[i]
        held = None if site.befores[i] is None else found_at(values, slot)
        filled.append(_as_tangent(held, form))
        put(values, slot, filled[-1])
    returned = site.run(TANGENT, tuple(directions), values, None, threads)
    return [pair.grad for pair in ([returned, *filled] if site.result_carries else filled)]


def _as_tangent(held: HostValue, form: Form) -> DiffPair:
    """An output in forward mode, with what it holds before, a tensor or a pair with its tangent."""
    if held is None:
        return DiffPair(_zeros_of(form), _zeros_of(form))
    primal, tangent = (
        (held.primal, held.grad) if isinstance(held, DiffPair) else (held, torch.zeros_like(held))
    )
    return DiffPair(*(half.clone(memory_format=torch.contiguous_format) for half in (primal, tangent)))


def with_inputs(site: TorchSite, constants: list[object], inputs: Tensors) -> list[HostValue]:
    """The values of a call of a derivative with these kept inputs, and places for its other outputs."""
    values = site.opened(constants)
    for i, tensor in zip(site.kept, inputs):
        put(values, site.slots[i], tensor)
    for place in site.sinks:
        put(values, place, snapshot(found_at(values, place)))
    return values


def with_cotangents(
    site: TorchSite, constants: list[object], inputs: Tensors, cotangents: Tensors
) -> tuple[list[HostValue], HostValue]:
    """The same with the derivatives of outputs; apart from them that of a result that the call makes."""
    values, remaining = with_inputs(site, constants, inputs), iter(cotangents)
    result = _as_cotangent(next(remaining), False) if site.result_carries else None
    for i in site.carrying_outputs:
        slot, cotangent = site.slots[i], next(remaining)
        if site.befores[i] is None:
            put(values, slot, _as_cotangent(cotangent, slot.is_plain or slot.is_paired))
        else:
            held = found_at(values, slot)
            put(values, slot, TorchCurve(held.primal, cotangent, held.grad))
    for place in site.cells:
        put(values, place, _without_cotangent(found_at(values, place)))
    return values, result


def _as_cotangent(tensor: torch.Tensor, needs_memory: bool) -> DiffPair:
    """An output in a backward call. The tensor in its place is not written, unless its type says so."""
    return DiffPair(_empty(tensor) if needs_memory else tensor, tensor)


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    """Dense memory for such numbers."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _zeros_of(form: Form) -> torch.Tensor:
    shape, dtype, device = form
    return torch.zeros(shape, dtype=dtype, device=device)


def _without_cotangent(cell: HostValue) -> DiffPair:
    """A single value that the call wrote for Python: no derivative comes back from there."""
    return DiffPair(cell.value)
