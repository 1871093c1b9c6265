"""From the arguments of a call to a bound call: its function, and the way of each argument into it.

In: the functions of one name, and a request: settings and marshals.   Out: a Binding.

This needs the checker, and is loaded on a plan-cache miss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.call.binding import mapping
from slangrad.call.binding.bind import Binding, bind_call, set_group
from slangrad.call.binding.call_request import RESULT, CallRequest, CallSettings
from slangrad.call.binding.program import CallCandidate, ModuleTypes, conformance_of
from slangrad.call.binding.receivers import declared_instead, idle_call
from slangrad.call.binding.resolve import Arguments, resolve
from slangrad.marshal.composed import results
from slangrad.marshal.composed.rows import global_leaf
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.protocol.marshal import Marshal, Spot
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.marshal.protocol.roles import PRIMAL, REVERSE, Role

CALL_SHAPE = "CallShapeInfo"  # functions of the library about the place of a call (std/call_shape.slang)
MOST_DIMENSIONS = 16


class Binder:
    """The functions of one name, as they are seen from a module."""

    def __init__(
        self,
        name: str,
        candidates: Sequence[CallCandidate],
        types: ModuleTypes,
        imports: Callable[[], tuple[str, ...]],
    ) -> None:
        self._name = name
        self.candidates = tuple(candidates)
        self.types = self._types = types
        self._imports = imports

    def bind(self, request: CallRequest) -> Binding:
        """The one function that takes the arguments, and the way of each into it."""
        settings, marshals = request.settings, request.marshals
        arguments = self._arguments(request, marshals)
        wanted = self._wanted(request, arguments, marshals)
        function, passed = resolve(
            self._name, self.candidates, arguments, self._types, settings.mode, self._imports
        )
        set_values = [
            (self._bind_global(name, marshals[at]), at)
            for at, name in enumerate(settings.globals, request.globals_at)
        ]
        call = bind_call(settings.mode, function, passed, wanted, self._types, set_values)
        call.order = settings.order
        _check_cotangent(call)
        call.conformances = tuple(conformance_of(self._types, named) for named in settings.conformances)
        if self._types.mentions(CALL_SHAPE) or any(leaf.reads_place for leaf in call.leaves):
            call.group = ()
            _check_rank(call)
        call.lanes = settings.lanes
        if settings.group is not None:
            set_group(call, settings.group)
        return call

    def idle(self, request: CallRequest) -> CallError:
        """The error of a derivative without effect."""
        return idle_call(self.bind(request), self._types)

    def instead_of(self, call: Binding, index: int) -> str:
        """How the parameter of a value has to be declared to carry a derivative; empty if its declaration is not
        the cause."""
        return declared_instead(call, index, self._types)

    def _arguments(self, request: CallRequest, marshals: list[Marshal]) -> Arguments:
        """Marshals by position and by name, under the maps of the settings."""
        settings, count = request.settings, request.positional
        mapping.check_count(settings.map_positional, count + len(request.names))
        mapping.check_names(settings.map_named, (*request.names, *self._parameter_names()))
        for candidate in self.candidates:
            parameters = (parameter.name for parameter in candidate.parameters)
            mapping.check_once(settings.map_positional, settings.map_named, parameters)
        maps = [*settings.map_positional, *[None] * (count - len(settings.map_positional))]
        by_position = [
            (i, mapping.apply_map(marshals[i], self._map_at(i, maps, settings), f"{i}", self._types.find_any))
            for i in range(count)
        ]
        named = {
            name: (
                count + i,
                mapping.apply_map(
                    marshals[count + i], settings.map_named.get(name), name, self._types.find_any
                ),
            )
            for i, name in enumerate(request.names)
        }
        return Arguments(by_position, named)

    def _map_at(self, position: int, maps: list[object], settings: CallSettings) -> object:
        """The map of a positional argument, which may have been given by name."""
        if maps[position] is not None:
            return maps[position]
        if settings.map_named and len(self.candidates) == 1:
            parameters = self.candidates[0].parameters
            if position < len(parameters):
                return settings.map_named.get(parameters[position].name)
        return None

    def _parameter_names(self) -> set[str]:
        return {parameter.name for candidate in self.candidates for parameter in candidate.parameters}

    def _wanted(self, request: CallRequest, arguments: Arguments, marshals: list[Marshal]) -> results.Wanted:
        if request.result_at >= 0:
            return results.Wanted("", marshals[request.result_at], request.result_at)
        if request.settings.mode not in REVERSE:
            return results.Wanted(request.result_kind)
        if self._has_extra(arguments):
            index, marshal = arguments.positional.pop()
            return results.Wanted("", marshal, index)
        return results.Wanted()

    def _has_extra(self, arguments: Arguments) -> bool:
        """In `bwds` one positional argument too many is the result."""
        count = len(arguments.positional) + len(arguments.named)
        return bool(arguments.positional) and all(
            candidate.returns and count == len(candidate.parameters) + 1 for candidate in self.candidates
        )

    def _bind_global(self, name: str, marshal: Marshal) -> Leaf:
        """A module-level value is a leaf that the kernel's header does not declare."""
        t = self._types.global_type(name)
        if t is None:
            names = ", ".join(sorted(self._types.global_names())) or "none"
            raise CallError(
                "E1013", f"set: the module has no global value '{name}'", (), f"there are {names}"
            )
        try:
            ways = [way for way in marshal.ways(t, self._types, PRIMAL) if way.dims == 0]
        except BoundVariableException as refused:
            raise CallError(
                "E1013", f"set: '{name}' of type '{t}': {refused.message}", (), refused.note
            ) from None
        if not ways:
            raise CallError("E1013", f"set: '{name}' of type '{t}': {marshal.reason(t, self._types)}")
        spot = Spot(name, name, Role(reads=True), PRIMAL, self._types, lambda wanted: wanted)
        leaf = global_leaf(marshal.bind(ways[0], spot), self._types)
        leaf.declared = False
        return leaf


def _check_rank(call: Binding) -> None:
    if call.call_dims > MOST_DIMENSIONS:
        message = f"{CALL_SHAPE} has room for {MOST_DIMENSIONS} dimensions, the call has {call.call_dims}"
        raise CallError("E1014", message)


def _check_cotangent(call: Binding) -> None:
    """A number as `_result` of `bwds` holds no gradient, which is fine only where nothing asks for one."""
    result = call.result
    if call.mode not in REVERSE or result is None or not call.function.result_differentiable:
        return
    takes = any(leaf.role.takes for _, leaf in result.leaves())
    if not takes and any(leaf.role.gives for leaf in call.leaves):
        message = f"argument '{RESULT}': {result.described} holds no gradient, and bwds reads one from it"
        note = "leave _result out for a cotangent of ones, or pass diffPair(d=...) or a Tensor with gradients"
        raise CallError("E1007", message, (), note)
