"""A call with torch tensors, without these: calls of its derivatives start from it.

    f(2.0, {"x": t})   ->   a TorchSite with the slot (argument 1, path ("x",)), constants [2.0, {"x": None}]

A site is the same for all calls of a signature; constants are those of one call. A call of a derivative fills
the slots with other things: tensors, pairs of a tensor and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

from slangrad.call.binding.call_request import RESULT, THREADS, CallRequest, CallSettings, settings_key
from slangrad.call.binding.launchable import LeafSource, ValuePlace, found_at
from slangrad.call.plans.plan import CallPlan
from slangrad.marshal.containers.values import snapshot
from slangrad.marshal.simple.plain import mapped
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.call.binding.bind import Binding
    from slangrad.call.caller import Caller

Arguments = tuple[CallSettings, tuple[object, ...], dict[str, object]]
Arrange = Callable[[list[HostValue]], list[HostValue]]  # the constants of another site
ATOMS = (bool, int, float, NoneType)


class TorchSlot(NamedTuple):
    """A place of a torch tensor: the number of the value, the keys inside of it, and how the call uses it.

    `carries`: a derivative can pass. `is_plain`: a whole tensor or buffer whose type, as bound, has no place for
    gradients; `is_paired`: one whose type has. `is_lost`: gradients never pass, whatever is given.
    """

    value_index: int
    path: tuple[object, ...]
    label: str
    reads: bool
    writes: bool
    carries: bool
    is_plain: bool = False
    is_paired: bool = False
    is_lost: bool = False

    @property
    def is_output(self) -> bool:
        return self.writes and not self.reads

    @property
    def halves(self) -> tuple[TorchSlot, ...]:
        """An argument through which derivatives pass both ways is an input and an output, at the same place."""
        if self.reads and self.writes and self.carries and not self.is_plain:
            return self._replace(writes=False), self._replace(reads=False)
        return (self,)


class TorchSite:
    """A function and how it is called. `names`: those of keyword arguments. `created`: whether it makes its result.
    `befores`: for each output the input at its place, None if it is only an output."""

    def __init__(
        self,
        caller: Caller,
        settings: CallSettings,
        request: CallRequest,
        slots: tuple[TorchSlot, ...],
        created: bool,
        carries: bool,
    ) -> None:
        self.caller = caller
        self.settings = settings
        self.positional = request.positional
        self.names = request.names
        self.result_at = request.result_at
        self.globals_at = request.globals_at
        self.slots = slots
        self.created = created
        self.result_carries = created and carries
        self.sinks: tuple[LeafSource, ...] = ()
        self.cells: tuple[LeafSource, ...] = ()
        self.kept = tuple(i for i, slot in enumerate(slots) if not slot.writes)
        self.outputs = tuple(i for i, slot in enumerate(slots) if slot.is_output)
        self.carrying_outputs = tuple(i for i in self.outputs if slots[i].carries)
        inputs = {(slots[i].value_index, slots[i].path): i for i in self.kept}
        self.befores = {i: inputs.get((slots[i].value_index, slots[i].path)) for i in self.outputs}
        self.overwritten = tuple(i for i in self.befores.values() if i is not None)
        # Sites of derivatives, by the slots of their gradients.
        self.followers: dict[object, tuple[TorchSite, Arrange]] = {}
        self._plans: dict[object, CallPlan] = {}
        self.nested = tuple({slot.value_index for slot in slots if slot.path})

    @property
    def cotangent_count(self) -> int:
        return self.result_carries + len(self.carrying_outputs)

    def nest(self, places: Iterable[LeafSource]) -> None:
        """Values inside of these, too, will be replaced."""
        self.nested = tuple({*self.nested, *(source.value_index for source in places if source.path)})

    def run(
        self, mode: str, key: object, values: list[object], result: object, threads: int | None
    ) -> HostValue:
        """Call the function in another mode with these values; `result` stands for one that the call makes. `key`
        selects the plan."""
        checking = self.caller.checking
        kind = mode, key, threads is None, checking
        plan = self._plans.get(kind)
        if plan is None:
            settings, args, kwargs = self.arguments(mode, values)
            filled = values[self.result_at] if self.result_at >= 0 else result
            kwargs |= {} if filled is None else {RESULT: filled}
            kwargs |= {} if threads is None else {THREADS: threads}
            plan = self._plans[kind] = self.caller.plan_of(checking, settings, args, kwargs)
        if result is not None:
            values.insert(self.globals_at, result)
        return plan.run(values, threads)

    def opened(self, constants: list[object]) -> list[HostValue]:
        """Constants as values whose slots can be filled."""
        values = list(constants)
        for index in self.nested:
            values[index] = _reopened(values[index])
        return values

    def bind(self, mode: str, values: list[object], result: object) -> Binding:
        """The plan of such a call."""
        settings, args, kwargs = self.arguments(mode, values)
        result = values[self.result_at] if self.result_at >= 0 else result
        return self.caller.bind(settings, args, kwargs, result)

    def arguments(self, mode: str, values: list[object]) -> Arguments:
        """Values as the arguments of a call; those of globals are as they were when the values were taken."""
        count = self.positional + len(self.names)
        held = dict(zip(self.settings.globals, values[self.globals_at :]))
        globals_held = (held,) if held else ()
        settings = replace(self.settings, mode=mode, result=None, sources=globals_held)
        settings = replace(settings, key=settings_key(settings))
        return (
            settings,
            tuple(values[: self.positional]),
            dict(zip(self.names, values[self.positional : count])),
        )


def put(values: list[HostValue], place: ValuePlace, value: HostValue) -> None:
    """Fill a place, inside of the dicts and lists of `values`."""
    if not place.path:
        values[place.value_index] = value
        return
    inside = values[place.value_index]
    for step in place.path[:-1]:
        inside = inside[step]
    inside[place.path[-1]] = value


def _reopened(value: object) -> object:
    """Dicts and lists as new ones, with the same things in them."""
    return mapped(_reopened, value)


def constants_of(site: TorchSite, values: list[object], places: Iterable[LeafSource]) -> list[HostValue]:
    """The values of a call without its torch tensors. The program may overwrite the values at `places` before it asks
    for the derivative, so they are copied. PyTorch notices changes of its own tensors only."""
    constants = [value if type(value) in ATOMS else _reopened(value) for value in values]
    for slot in site.slots:
        put(constants, slot, None if not slot.writes else _standing(slot, found_at(constants, slot)))
    for place in places:
        put(constants, place, snapshot(found_at(constants, place)))
    return constants


def changing_places(plan: CallPlan, site: TorchSite) -> tuple[LeafSource, ...]:
    """The places from which a call reads values that may change and are no torch tensors."""
    slots = {(slot.value_index, slot.path) for slot in site.slots}
    return tuple(
        source
        for leaf, source in plan.call.passed
        if leaf.content is not None and leaf.role.reads and tuple(source) not in slots
    )


def _standing(slot: TorchSlot, tensor: HostValue) -> object:
    """The tensor to keep for a slot: of an input that is overwritten a copy; of one that only takes numbers without
    derivatives, a tensor of that shape."""
    if slot.is_output and slot.carries:
        return None
    detached = tensor.detach()
    return detached.clone() if slot.reads else detached.new_empty(()).expand(detached.shape)
