"""All calls of one function: from arguments to a key, and from the key to a plan.

In: settings (what `map`, `set`, `bwds`, ... said), positional and keyword arguments.   Out: what the call
returns.

    caller.call(settings, (2, 8, -1, x), {})   ->   key (..., int, int, int, (Tensor, f32, 1))  ->  Plan.run

The first call of a key builds the plan; every other one looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slangrad.call import mapping
from slangrad.call.bind import RESULT, BoundCall, bind_call
from slangrad.call.compile import Compiled, KernelCompiler
from slangrad.call.plan import Plan
from slangrad.call.program import Candidate, ModuleTypes
from slangrad.call.resolve import Arguments, resolve
from slangrad.marshal import results
from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import BACKWARD, PRIMAL, Leaf, Marshal, Role, Spot
from slangrad.marshal.registry import holds_objects, key_of, marshal_of, unwrap, update

THREADS = "_thread_count"
NO_RESULT: tuple[Hashable, ...] = ("",)


@dataclass(slots=True, frozen=True)
class Settings:
    """What was said about a function before the call. `key` stands for all but the values of `globals`."""

    mode: str = PRIMAL
    map_positional: tuple[Any, ...] = ()
    map_named: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    globals: Mapping[str, Any] = field(default_factory=dict)
    key: Hashable = ()


def settings_key(settings: Settings) -> Hashable:
    return (
        settings.mode,
        repr(settings.map_positional),
        repr(sorted(settings.map_named.items())),
        tuple(settings.globals),
    )


@dataclass(slots=True)
class _Request:
    """The arguments of one call, sorted: `values` are the positional ones, those by name, the result to fill,
    and values of globals."""

    settings: Settings
    positional: int
    names: tuple[str, ...]
    values: list[Any]
    result_kind: str
    result_at: int
    globals_at: int


class Caller:
    """The calls of the functions of one name, with the plans of all signatures met so far."""

    __slots__ = ("_compiler", "_device", "_imports", "_name", "_plans", "_strict", "_types", "candidates")

    def __init__(
        self,
        name: str,
        candidates: Sequence[Candidate],
        types: ModuleTypes,
        compiler: KernelCompiler,
        device: Any,
        imports: Callable[[], tuple[str, ...]],
        strict: bool = False,
    ) -> None:
        self._name = name
        self.candidates = tuple(candidates)
        self._types = types
        self._compiler = compiler
        self._device = device
        self._imports = imports
        self._strict = strict
        self._plans: dict[Hashable, _Entry] = {}

    # --- every call ---

    def call(self, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function over the arguments."""
        entry, values, count, threads = self._find(settings, args, kwargs)
        if entry.holds_objects:
            return self._call_with_objects(entry, values, threads)
        given = values[count] if entry.returns_given else None
        made = entry.plan.run(values, threads)
        return _shown(given) if entry.returns_given else made

    def compile(self, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled:
        """The kernel of such a call, which is not run; values outside of functions need not be set."""
        entry, values, _, threads = self._find(settings, args, kwargs)
        return entry.plan.compile([unwrap(value) for value in values], threads)

    def _find(
        self, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_Entry, list[Any], int, int | None]:
        """The plan of a call, its values, and how many of these are arguments."""
        threads = kwargs.pop(THREADS, None) if kwargs else None
        if threads is not None:
            _check_count(threads)
        result = kwargs.pop(RESULT, settings.result) if kwargs else settings.result
        values = [*args, *kwargs.values()] if kwargs else list(args)
        count = len(values)
        kind: Any = result
        if result is not None and not isinstance(result, (str, type)):
            values.append(result)
            kind = True
        if settings.globals:
            values += [value() if callable(value) else value for value in settings.globals.values()]
        key = (settings.key, len(args), *kwargs, kind, threads is None, *map(key_of, values))
        entry = self._plans.get(key)
        if entry is None:
            with self._compiler.lock:
                entry = self._enter(key, settings, args, kwargs, values, kind, count, threads)
        return entry, values, count, threads

    def _call_with_objects(self, entry: _Entry, values: list[Any], threads: int | None) -> Any:
        """The same with objects that stand for other values, which are told what became of these."""
        unwrapped = [unwrap(value) for value in values]
        made = entry.plan.run(list(unwrapped), threads)
        for value, new in zip(values, unwrapped):
            update(value, new)
        return _shown(values[entry.result_at]) if entry.returns_given else made

    # --- once for each key ---

    def _enter(
        self,
        key: Hashable,
        settings: Settings,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        values: list[Any],
        kind: Any,
        count: int,
        threads: int | None,
    ) -> _Entry:
        if key in self._plans:
            return self._plans[key]
        plain = [unwrap(value) for value in values]
        result_kind = "" if kind is None or kind is True else results.kind_of(kind) or ""
        request = _Request(
            settings, len(args), tuple(kwargs), plain, result_kind, count if kind is True else -1,
            count + (kind is True),
        )  # fmt: skip
        call = self._bind(request)
        _check_threads(threads, call)
        plan = Plan(call, self._compiler, self._device, self._strict)
        returned = -1 if settings.mode == BACKWARD else request.result_at
        entry = _Entry(plan, any(map(holds_objects, values)), returned)
        self._plans[key] = entry
        return entry

    def _bind(self, request: _Request) -> BoundCall:
        settings = request.settings
        marshals = [marshal_of(value) for value in request.values]
        arguments = self._arguments(request, marshals)
        wanted = self._wanted(request, arguments, marshals)
        function, given = resolve(
            self._name, self.candidates, arguments, self._types, settings.mode, self._imports
        )
        taken = self._types.global_names()
        set_values = [
            (self._bind_global(name, marshals[at]), at)
            for at, name in enumerate(settings.globals, request.globals_at)
        ]
        call = bind_call(settings.mode, function, given, wanted, self._types, taken, set_values)
        _check_cotangent(call)
        return call

    def _arguments(self, request: _Request, marshals: list[Marshal]) -> Arguments:
        """Marshals by position and by name, under the maps of the settings."""
        settings, count = request.settings, request.positional
        mapping.check_count(settings.map_positional, count + len(request.names))
        mapping.check_names(settings.map_named, (*request.names, *self._parameter_names()))
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

    def _map_at(self, position: int, maps: list[Any], settings: Settings) -> Any:
        """The map of a positional argument, which may have been given by name."""
        if maps[position] is not None:
            return maps[position]
        if settings.map_named and len(self.candidates) == 1:
            parameters = self.candidates[0].parameters
            if position < len(parameters):
                return settings.map_named.get(parameters[position].name)
        return None

    def _parameter_names(self) -> set[str]:
        return {parameter.name for each in self.candidates for parameter in each.parameters}

    def _wanted(self, request: _Request, arguments: Arguments, marshals: list[Marshal]) -> results.Wanted:
        if request.result_at >= 0:
            return results.Wanted("", marshals[request.result_at], request.result_at)
        if request.settings.mode != BACKWARD:
            return results.Wanted(request.result_kind)
        if self._has_extra(arguments):
            index, marshal = arguments.positional.pop()
            return results.Wanted("", marshal, index)
        return results.Wanted()

    def _has_extra(self, arguments: Arguments) -> bool:
        """In `bwds` one positional argument too many is the result."""
        count = len(arguments.positional) + len(arguments.named)
        return bool(arguments.positional) and all(
            each.returns and count == len(each.parameters) + 1 for each in self.candidates
        )

    def _bind_global(self, name: str, marshal: Marshal) -> Leaf:
        """A module-level value is a leaf that the kernel's header does not declare."""
        t = self._types.global_type(name)
        if t is None:
            known = ", ".join(sorted(self._types.global_names())) or "none"
            raise CallError(
                "E1013", f"set: the module has no global value '{name}'", (), f"there are {known}"
            )
        ways = [way for way in marshal.ways(t, self._types, PRIMAL) if way.dims == 0]
        if not ways:
            raise CallError("E1013", f"set: '{name}' of type '{t}': {marshal.reason(t, self._types)}")
        spot = Spot(name, name, Role(reads=True), PRIMAL, self._types, lambda wanted: wanted)
        node = marshal.bind(ways[0], spot)
        if not isinstance(node, Leaf):
            raise CallError("E1013", f"set: '{name}': a dict that holds containers cannot be set", (), None)
        node.declared = False
        return node


@dataclass(slots=True)
class _Entry:
    """A plan, and what the caller must do around it."""

    plan: Plan
    holds_objects: bool
    result_at: int

    @property
    def returns_given(self) -> bool:
        return self.result_at >= 0


def _shown(result: Any) -> Any:
    """What a call with a given result returns: of a ValueRef or pair its value."""
    return result.value if hasattr(result, "value") else result


def _check_count(threads: Any) -> None:
    if not isinstance(threads, int) or threads <= 0:
        raise CallError("E1014", f"_thread_count must be a positive int, not {threads!r}")


def _check_threads(threads: int | None, call: BoundCall) -> None:
    if threads is not None and call.call_dims:
        message = f"_thread_count needs a call without dimensions, this one has {call.call_dims}"
        raise CallError("E1014", message, (), "pass all arguments whole, or leave _thread_count out")


def _check_cotangent(call: BoundCall) -> None:
    """A number as `_result` of `bwds` holds no gradient, which is fine only where nothing asks for one."""
    result = call.result
    if call.mode != BACKWARD or result is None or not call.result_differentiable:
        return
    takes = any(leaf.role.takes for _, leaf in result.leaves())
    if not takes and any(leaf.role.gives for leaf in call.leaves):
        message = f"argument '{RESULT}': {result.described} holds no gradient, and bwds reads one from it"
        note = "leave _result out for a cotangent of ones, or pass diffPair(d=...) or a Tensor with gradients"
        raise CallError("E1007", message, (), note)
