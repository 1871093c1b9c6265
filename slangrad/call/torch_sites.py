"""Where a function is called with torch tensors, without these: what the calls of its derivatives start from.

    f(2.0, {"x": t})   ->   a Site with the slot (argument 1, path ("x",)), constants [2.0, {"x": None}]

A site is the same for all calls of a signature; constants are those of one call. A call of a derivative fills
the slots with other things: tensors, pairs of a tensor and its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from slangrad.call.plan import Plan
from slangrad.call.request import RESULT, Request, Settings, settings_key
from slangrad.marshal import results
from slangrad.marshal.buffers import BufferLeaf
from slangrad.marshal.marshal import Leaf
from slangrad.marshal.values import DiffPair, ValueRef
from slangrad.marshal.whole import WholeTensor
from slangrad.tensors.tensor import Tensor
from slangrad.tensors.torch_types import is_torch_type

THREADS = "_thread_count"


class Place(NamedTuple):
    """In which of the given values something is, and by which keys inside of it."""

    given: int
    path: tuple[Any, ...]


class Slot(NamedTuple):
    """A place of a torch tensor: in which of the given values, by which keys inside of it; what the call does there.

    `carries`: a derivative can pass. `is_plain`: a whole tensor or buffer whose type, as bound, has no place for
    gradients; `is_paired`: one whose type has. `is_lost`: gradients never pass, whatever is given.
    """

    given: int
    path: tuple[Any, ...]
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


class Site:
    """A function and how it is called: `names` of the arguments by name, `created`: whether it makes its result."""

    def __init__(
        self,
        caller: Any,
        settings: Settings,
        request: Request,
        slots: tuple[Slot, ...],
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
        self.sinks: tuple[Place, ...] = ()
        self.cells: tuple[Place, ...] = ()
        self.kept = tuple(i for i, slot in enumerate(slots) if not slot.writes)
        self.outputs = tuple(i for i, slot in enumerate(slots) if slot.is_output)
        self.followers: dict[Any, Any] = {}  # sites of derivatives, by what they are asked for

    @property
    def cotangent_count(self) -> int:
        return self.result_carries + sum(self.slots[i].carries for i in self.outputs)

    def call(self, mode: str, values: list[Any], result: Any, threads: int | None) -> Any:
        """Call the function in another mode with these values; `result` stands for one that the call makes."""
        settings, args, kwargs = self.arguments(mode, values)
        if self.result_at >= 0:
            result = values[self.result_at]
        if result is not None:
            kwargs[RESULT] = result
        if threads is not None:
            kwargs[THREADS] = threads
        return self.caller.call(settings, args, kwargs)

    def bind(self, mode: str, values: list[Any], result: Any) -> Any:
        """How the function would be called so."""
        settings, args, kwargs = self.arguments(mode, values)
        result = values[self.result_at] if self.result_at >= 0 else result
        return self.caller.bind(settings, args, kwargs, result)

    def arguments(self, mode: str, values: list[Any]) -> tuple[Settings, tuple[Any, ...], dict[str, Any]]:
        """Values as the arguments of a call; those of globals are as they were when the values were taken."""
        count = self.positional + len(self.names)
        held = dict(zip(self.settings.globals, values[self.globals_at :]))
        settings = replace(self.settings, mode=mode, result=None, given=(held,) if held else ())
        settings = replace(settings, key=settings_key(settings)) if mode != self.settings.mode else settings
        return (
            settings,
            tuple(values[: self.positional]),
            dict(zip(self.names, values[self.positional : count])),
        )


def found_at(values: list[Any], place: Place | Slot) -> Any:
    found = values[place.given]
    for step in place.path:
        found = found[step]
    return found


def filled(constants: Sequence[Any], slots: Iterable[Place | Slot], fillings: Iterable[Any]) -> list[Any]:
    """Constants with the slots filled."""
    made = list(constants)
    opened: set[int] = set()
    for slot, each in zip(slots, fillings):
        if not slot.path:
            made[slot.given] = each
            continue
        if slot.given not in opened:
            opened.add(slot.given)
            made[slot.given] = _reopened(made[slot.given])
        inside = made[slot.given]
        for step in slot.path[:-1]:
            inside = inside[step]
        inside[slot.path[-1]] = each
    return made


def _reopened(value: Any) -> Any:
    """Dicts and lists as new ones, with the same things in them."""
    if isinstance(value, Mapping):
        return {name: _reopened(each) for name, each in value.items()}
    return [_reopened(each) for each in value] if isinstance(value, list) else value


def constants_of(site: Site, values: list[Any], plan: Plan) -> list[Any]:
    """The values of a call without its torch tensors. What somebody may overwrite before the derivative is asked for
    is copied: PyTorch knows when its own tensors change, and nobody when others do."""
    made = [_reopened(value) for value in values]
    made = filled(made, site.slots, [_standing(slot, found_at(values, slot)) for slot in site.slots])
    for leaf, source in zip(plan.call.leaves, plan.call.sources):
        if source.given == results.CREATED or isinstance(leaf, BufferLeaf) or not leaf.role.reads:
            continue
        place = Place(source.given, source.path)
        made = filled(made, [place], [copied(found_at(made, place))])
    return made


def _standing(slot: Slot, tensor: Any) -> Any:
    """What is kept in a slot: of what is read and written, as it was; of what only takes numbers without derivatives,
    something of that shape."""
    if not slot.writes or (slot.is_output and slot.carries):
        return None
    own = tensor.detach()
    return own.clone() if slot.reads else own.new_empty(()).expand(own.shape)


def copied(value: Any) -> Any:
    if is_torch_type(type(value)):
        return value.contiguous() if 0 in value.stride() else value.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tensor):
        made = Tensor.empty_like(value)
        made.memory()[...] = value.memory()
        return made
    if isinstance(value, ValueRef):
        return ValueRef(value.value)
    return DiffPair(value.primal, value.grad, value.needs_grad) if isinstance(value, DiffPair) else value


def is_plain_whole(leaf: Leaf) -> bool:
    """Whether a whole tensor is bound to a type without places for gradients."""
    return isinstance(leaf, WholeTensor) and leaf.family.fields[0][0] == ""
