"""Calls with torch tensors: PyTorch gets the tensors that they read and write, and their derivatives.

    module.poly(2.0, x)   with x.requires_grad   ->   a tensor whose backward() runs the kernel of poly.bwds

In: a plan, and where torch tensors are among its values (their *slots*).   Out: the call, which autograd records if
it records one of its tensors. Changed tensors get a new version, so that autograd notices.

Only this file and those beside it of its name load PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.autograd.graph import increment_version

from slangrad.base.process.warn import warn
from slangrad.call.binding.call_request import CallRequest, CallSettings
from slangrad.call.binding.launchable import LeafSource, ValuePlace, found_at
from slangrad.call.plans.overlap import both_changed, share
from slangrad.call.plans.plan import CallPlan
from slangrad.call.pytorch.torch_functions import ForwardJob
from slangrad.call.pytorch.torch_sites import TorchSite, TorchSlot, changing_places, constants_of
from slangrad.marshal.composed import results
from slangrad.marshal.containers.memory import memory_of_torch
from slangrad.marshal.containers.values import DiffPair
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.marshal.protocol.roles import REVERSE, TANGENT
from slangrad.runtime.device import MemoryRegion
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.torch_types import leave_out_of_graphs
from slangrad.torch_jobs import apply, is_seen, transforms_are_active

if TYPE_CHECKING:
    from slangrad.call.caller import Caller

Find = Callable[[list[object]], HostValue]


class TorchEntry:
    """The calls of one signature that has torch tensors."""

    def __init__(
        self,
        caller: Caller,
        settings: CallSettings,
        request: CallRequest,
        plan: CallPlan,
        values: list[object],
    ) -> None:
        leave_out_of_graphs()
        self._plan = plan
        self._mode = settings.mode
        slots, self._changed = _slots_of(plan, values)
        created = plan.call.leaves[-1] if plan.call.created is not None else None
        carries = created is not None and created.carries
        self._loses = _losing_output(plan, values, created, request.result_kind)
        halves = tuple([half for slot in slots for half in slot.halves])
        site = self._site = TorchSite(caller, settings, request, halves, created is not None, carries)
        site.sinks, site.cells = _sinks_of(plan, site), _cells_of(plan)
        site.nest((*site.sinks, *site.cells))
        self._changing = changing_places(plan, site)
        self._finders = [_finder(slot) for slot in halves]
        self._watched = [
            find for slot, find in zip(halves, self._finders) if slot.writes or slot.carries or slot.is_lost
        ]

        self._suspects = any(slot.writes or slot.is_lost for slot in slots)
        # A call without outputs has no derivative to record.
        gives = site.created or self._loses or any(slot.writes for slot in slots)
        self._records = settings.mode not in REVERSE and bool(self._watched) and gives

    def run(self, values: list[object], threads: int | None = None) -> HostValue:
        """Run the plan, as an operation of autograd if a tensor needs it."""
        if self._records and is_seen([find(values) for find in self._watched]):
            return self._record(values, threads)
        changed = [find(values) for find in self._changed]
        returned = self._plan.run(values, threads)
        for tensor in changed:
            increment_version(tensor)
        return returned

    def _record(self, values: list[object], threads: int | None) -> object:
        """The call as an operation of PyTorch."""
        tensors = [find(values) for find in self._finders]
        site = self._site
        self._check(tensors)
        constants = constants_of(site, values, self._changing)
        job = ForwardJob(site, constants, threads, self._plan, values)
        outputs = apply(job, [self._seen(i, tensor) for i, tensor in enumerate(tensors)])
        job.values = []
        for i, output in zip(site.outputs, outputs[site.created :]):
            _assign(tensors[i], output, site.befores[i] is not None)
        for slot, tensor in zip(site.slots, tensors):
            if slot.reads and slot.writes:
                increment_version(tensor)
        return outputs[0] if site.created else None

    def _seen(self, i: int, tensor: torch.Tensor) -> object:
        """The tensor for autograd: a copy of one that will be overwritten. The old contents of an output do not
        enter its new value."""
        if self._site.slots[i].is_output:
            return tensor.detach()
        return tensor.clone() if i in self._site.overwritten else tensor

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        if self._mode == TANGENT:
            message = "fwds is no operation that autograd records"
            raise CallError("E1007", message, (), "use torch.func.jvp(f, ...), or call under torch.no_grad()")
        if self._loses:
            message = f"'{self._loses}' has values that autograd cannot record"
            note = "let the call make a torch tensor or fill one, pass x.detach(), or use torch.no_grad()"
            raise CallError("E1011", message, (), note)
        for i, (slot, tensor) in enumerate(zip(self._site.slots, tensors) if self._suspects else ()):
            if slot.reads and slot.writes and tensor.requires_grad:
                raise _in_place(slot, _READ_AND_WRITTEN.format(slot.label))
            if slot.is_output:
                self._check_output(i, slot, tensor, tensors)
            if slot.is_lost and tensor.requires_grad:
                message = (
                    f"argument '{slot.label}' requires grad, and its parameter's type takes no gradients"
                )
                warn(f"{message}: pass {slot.label}.detach() if it is constant")

    def _check_output(
        self, i: int, slot: TorchSlot, tensor: torch.Tensor, tensors: Sequence[torch.Tensor]
    ) -> None:
        before = self._site.befores[i]
        partly = before is None and (slot.is_paired or slot.is_plain)
        if partly and tensor.requires_grad and not tensor.is_leaf:
            raise _in_place(
                slot, "a function that writes some elements needs an output that depends on nothing"
            )
        if transforms_are_active():
            return
        if before is not None and torch.is_grad_enabled():
            _check_leaf(slot, tensor)
        others = [k for k in self._site.kept if k not in self._site.overwritten]
        for k in others:
            if _share_storage(tensor, tensors[k]):
                raise _in_place(
                    slot, f"'{self._site.slots[k].label}' is the same memory: pass a clone() of it"
                )
        for k in self._site.outputs:
            if (
                k < i
                and _share_storage(tensor, tensors[k])
                and share(_places_of(tensor), _places_of(tensors[k]))
            ):
                raise both_changed(self._site.slots[k].label, slot.label)


def _check_leaf(slot: TorchSlot, tensor: torch.Tensor) -> None:
    """PyTorch's own rule for operations in place, before anything is changed."""
    base = tensor._base if tensor._is_view() else tensor
    if base.requires_grad and base.is_leaf:
        kind = "a leaf Variable" if base is tensor else "a view of a leaf Variable"
        message = (
            f"argument '{slot.label}': {kind} that requires grad is being used in an in-place operation."
        )
        raise CallError("E1008", message, (), f"pass {slot.label}.clone(), or call under torch.no_grad()")


_READ_AND_WRITTEN = (
    "a tensor that is read and written as memory has no history: let the function take the element that it changes as "
    "an 'inout' parameter, which autograd records; or read '{0}' as an ITensor and write an output of its own; or pass "
    "{0}.detach() if it is constant"
)


def _in_place(slot: TorchSlot, note: str) -> CallError:
    message = f"argument '{slot.label}': In-place operations not supported for torch autograd."
    return CallError("E1008", message, (), note)


def _share_storage(first: torch.Tensor, second: torch.Tensor) -> bool:
    memory, other = (tensor_of_pair.untyped_storage().data_ptr() for tensor_of_pair in (first, second))
    return bool(memory == other != 0)


def _places_of(tensor: torch.Tensor) -> AnyArray:
    """The addresses of the numbers, which are never read."""
    memory = memory_of_torch(tensor)
    region = MemoryRegion(memory.address, memory.shape, memory.strides, np.dtype(f"V{memory.item_size}"))
    return region.places()


def _assign(tensor: torch.Tensor, output: object, goes_in: bool) -> None:
    """Copy an output of the call into the tensor that was given for it; autograd records that."""
    if not goes_in and tensor.requires_grad and tensor.is_leaf:
        tensor.requires_grad_(False)  # the old contents are overwritten; the new ones have a history
    tensor.copy_(output)


def _slots_of(plan: CallPlan, values: list[object]) -> tuple[list[TorchSlot], list[Find]]:
    """The slots of torch tensors, and finders of all tensors that the call changes."""
    slots: list[TorchSlot] = []
    changed: list[Find] = []
    for leaf, source in plan.call.passed:
        find = _finder(source)
        value = find(values)
        if isinstance(value, torch.Tensor):
            slots.append(_slot_of(leaf, source.value_index, source.path))
            changed += [find] if slots[-1].writes else []
        elif isinstance(value, DiffPair) and isinstance(value.primal, torch.Tensor):
            changed += [_part(find, "primal")] if leaf.role.writes else []
            changed += [_part(find, "grad")] if leaf.role.gives else []
    return slots, changed


def _cells_of(plan: CallPlan) -> tuple[LeafSource, ...]:
    """Single values that the call writes for Python."""
    return tuple(source for leaf, source in plan.call.passed if leaf.is_cell and leaf.role.writes)


def _sinks_of(plan: CallPlan, site: TorchSite) -> tuple[LeafSource, ...]:
    """Outputs of the call without a derivative: a call of the derivative computes them again, and gets other memory
    for them."""
    sinks = []
    for leaf, source in plan.call.passed:
        if not leaf.is_cell and leaf.content is not None:
            lasting = leaf.role.reads or not leaf.carries or leaf.is_plain_whole
            own_slots = [
                slot
                for slot in site.slots
                if slot.value_index == source.value_index and slot.path == source.path
            ]
            followed = any(slot.is_output and slot.carries for slot in own_slots)
            if leaf.role.writes and (not followed if own_slots else lasting):
                sinks.append(source)
    return tuple(sinks)


def _slot_of(leaf: Leaf, index: int, path: tuple[object, ...]) -> TorchSlot:
    plain, is_memory = leaf.is_whole and not leaf.has_place, leaf.content is None
    reads = leaf.role.reads or is_memory
    return TorchSlot(
        index, path, leaf.label, reads, leaf.may_write, leaf.carries, plain, leaf.has_place, is_memory
    )


def _finder(place: ValuePlace) -> Find:
    return (lambda values: found_at(values, place)) if place.path else itemgetter(place.value_index)


def _part(find: Find, name: str) -> Find:
    return lambda values: getattr(find(values), name)


def _losing_output(plan: CallPlan, values: list[object], created: Leaf | None, kind: str) -> str:
    """The label of an output that is no torch tensor although a derivative could pass there; of cells only values
    are taken, as with `item()`."""
    if created is not None and created.carries and kind != results.TORCH:
        return created.label
    for leaf, source in plan.call.passed:
        carries = leaf.role.writes and leaf.carries and not leaf.is_plain_whole
        if not carries or leaf.is_cell or leaf.content is None:
            continue
        if not isinstance(found_at(values, source), torch.Tensor):
            return leaf.label
    return ""
