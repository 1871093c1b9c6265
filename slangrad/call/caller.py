"""All calls of one function: from arguments to a key, and from the key to a plan.

In: settings (of `map`, `set`, `bwds`, ...), positional and keyword arguments.   Out: the result of the call.

    caller.call(settings, (2, 8, -1, x), {})   ->   key (..., int, int, int, (Tensor, f32, 1))  ->  CallPlan.run

The first call of a key builds the plan; every other one looks it up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from slangrad.base.lazy import LazyModule
from slangrad.base.process.warn import warn
from slangrad.call.binding.call_request import RESULT, THREADS, CallRequest, CallSettings, gathered
from slangrad.call.binding.launchable import Launchable
from slangrad.call.idle import is_idle, only_numbers
from slangrad.call.plan_store import PlanKernels, PlanStore
from slangrad.call.plans.launches import FixedLaunch
from slangrad.call.plans.packing import Compiled
from slangrad.call.plans.plan import CallPlan
from slangrad.marshal.composed import results
from slangrad.marshal.errors import CallCompileError, CallError, ending, endless
from slangrad.marshal.host.records import as_fields
from slangrad.marshal.protocol.patterns import open_dimensions
from slangrad.marshal.protocol.roles import BACKWARD, REVERSE
from slangrad.marshal.registry import KEYS, Wrappers, holds_objects, is_struct, marshal_of, unwrap, update
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.call.binding.bind import Binding
    from slangrad.call.binding.binding import Binder
    from slangrad.call.binding.call_request import CheckMode
    from slangrad.call.binding.program import CallCandidate
    from slangrad.call.gradient_check import BackwardCheck
    from slangrad.call.sessions import Session, SessionGeneration

TORCH_CALLS = LazyModule("slangrad.call.pytorch.torch_calls")
GRADIENT_CHECK = LazyModule("slangrad.call.gradient_check")
PROTOCOL = "__slangrad_call__"


class AnswersCalls(Exception):
    """An argument that answers calls itself: `value.__slangrad_call__(function, args, kwargs)`."""

    def __init__(self, value: HostValue) -> None:
        self.value = value


class Caller:
    """The calls of the functions of one name, with the plans of all signatures met so far, in one generation of their
    session."""

    # fmt: off
    __slots__ = ("__weakref__", "_binder", "_counted", "_device", "_make_binder", "_module", "_plans", "_session",
                 "_store", "_strict", "generation", "name", "others")
    # fmt: on

    def __init__(
        self,
        name: str,
        make_binder: Callable[[], Binder],
        generation: SessionGeneration,
        store: PlanStore,
        strict: bool = False,
        module: object = None,
    ) -> None:
        self.name = name
        self._make_binder = make_binder
        self._binder: Binder | None = None
        self.generation = generation
        self._session = generation.session
        self._device = generation.session.device
        self._store = store
        self._strict = strict
        self._module = module
        self.others: Sequence[Caller] = ()  # the same function for other targets
        self._counted = -1  # how many sizes of arrays choose generic arguments; negative: not known yet
        self._plans: dict[Hashable, _PlanEntry] = {}  # those of each check mode, which is a part of the key

    @property
    def binder(self) -> Binder:
        """The binder of the functions; it needs the checker."""
        if self._binder is None:
            with self._session.lock:
                self._binder = self._binder or self._make_binder()
        return self._binder

    @property
    def session(self) -> Session:
        return self._session

    @property
    def checking(self) -> CheckMode | None:
        """The check mode of calls that begin now. Another thread may change it at any time, so a call reads it
        once."""
        return self._device.checking

    @property
    def candidates(self) -> tuple[CallCandidate, ...]:
        return self.binder.candidates

    # --- every call ---

    def call(self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]) -> HostValue:
        """Run the function over the arguments."""
        try:
            entry, values, count, threads = self._find(self._device.checking, settings, args, kwargs)
            if entry.is_special:
                return self._call_specially(entry, settings, values, threads)
            filled = values[count] if entry.returns_given else None
            returned = entry.plan.run(values, threads)
        except CallError as error:
            raise self._named(error) from error.__cause__
        return _shown(filled) if entry.returns_given else returned

    def _named(self, error: CallError) -> CallError:
        """The error with the call in which it arose; errors of the compiler show the kernel."""
        if not isinstance(error, CallCompileError):
            error.about("call", f"function '{self.name}'")
        return error

    def call_without_comparison(
        self,
        checking: CheckMode,
        settings: CallSettings,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> HostValue:
        """A call in check mode whose gradients are not compared."""
        entry, values, count, threads = self._find(checking, settings, args, kwargs)
        returned = entry.plan.run(list(values), threads)
        return _shown(values[count]) if entry.returns_given else returned

    def compile(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Compiled:
        """The kernel of such a call, which is not run; values outside of functions need not be set."""
        try:
            entry, values, _, threads = self._find(self.checking, settings, args, kwargs)
            return entry.plan.compile([unwrap(value) for value in values], threads)
        except CallError as error:
            raise self._named(error) from error.__cause__

    def unfilled_result(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> HostValue:
        """The result that such a call would make, without its values."""
        try:
            entry, values, _, threads = self._find(self.checking, settings, args, kwargs)
            return entry.plan.unfilled_result([unwrap(value) for value in values], threads)
        except CallError as error:
            raise self._named(error) from error.__cause__

    def bound(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Launchable:
        """How the arguments of such a call are bound."""
        return self._find(self.checking, settings, args, kwargs)[0].plan.call

    def fixed(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[FixedLaunch | None, object]:
        """A call that is checked and compiled now: its launch, None if it needs more than a launch, and its
        result."""
        launch = None
        try:
            entry, values, count, threads = self._find(self.checking, settings, args, dict(kwargs))
            entry.check_idle(self.name)
            if entry.is_special or settings.sources:
                self.compile(settings, args, dict(kwargs))
            else:
                launch = entry.plan.fixed(values, threads)
        except CallError as error:
            raise self._named(error) from error.__cause__
        return launch, _shown(values[count]) if entry.returns_given else None

    def later(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Callable[[], None]:
        """Check and compile a call now that is run later, with the numbers, lists and dicts of now."""
        args, kwargs = copied(args), copied(kwargs)
        self._check_idle(settings, args, dict(kwargs))
        self.compile(settings, args, dict(kwargs))

        def run() -> None:
            self.call(settings, args, dict(kwargs))

        return run

    def _check_idle(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        try:
            self._find(self.checking, settings, args, kwargs)[0].check_idle(self.name)
        except CallError as error:
            raise self._named(error) from error.__cause__

    def plan_of(
        self,
        checking: CheckMode | None,
        settings: CallSettings,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> CallPlan:
        """The plan of such calls in a check mode, or outside of it."""
        return self._find(checking, settings, args, kwargs)[0].plan

    def _find(
        self,
        checking: CheckMode | None,
        settings: CallSettings,
        args: tuple[HostValue, ...],
        kwargs: dict[str, HostValue],
    ) -> tuple[_PlanEntry, list[object], int, int | None]:
        """The plan of a call, its values, and how many of these are arguments."""
        threads = kwargs.pop(THREADS, None) if kwargs else None
        if threads is not None:
            _check_count(threads)
        result = kwargs.pop(RESULT, settings.result) if kwargs else settings.result
        values = [*args, *kwargs.values()] if kwargs else list(args)
        count = len(values)
        kind: object = result
        result_key: Hashable = result
        if isinstance(result, type):
            result_key = result, results.kind_of(result)
        elif result is not None and not isinstance(result, str):
            values.append(result)
            kind = result_key = True
        names: tuple[str, ...] = ()
        if settings.sources:
            outside = gathered(settings.sources)
            names = tuple(outside)
            values += outside.values()
        try:
            value_keys = [KEYS[type(value)](value) for value in values]
            key = (
                checking,
                settings.key,
                names,
                len(args),
                *kwargs,
                result_key,
                threads is None,
                *value_keys,
            )
        except RecursionError:
            raise endless() from None
        entry = self._plans.get(key if self._counted <= 0 else self._with_sizes(key, values))
        if entry is None:
            with self._session.lock:
                settings = replace(settings, sources=(), globals=names)
                request = self._request(settings, len(args), tuple(kwargs), values, kind, count)
                entry = self._enter(key, request, values, kind, checking, threads)
        return entry, values, count, threads

    def _call_specially(
        self, entry: _PlanEntry, settings: CallSettings, values: list[object], threads: int | None
    ) -> object:
        """The same with torch tensors, and with wrappers of other values, which get the results."""
        if entry.torch is None or not any(getattr(argument, "requires_grad", False) for argument in values):
            entry.check_idle(self.name)
        if entry.check is not None:
            entry.check(settings, [unwrap(value) for value in values])
        run = entry.plan.run if entry.torch is None else entry.torch.run
        updates: Wrappers = []
        plain = [unwrap(value, updates) for value in values] if entry.holds_objects else list(values)
        returned = run(plain, threads)
        update(updates)
        if entry.returns_given:
            return _shown(values[entry.result_at])
        return returned if entry.wrap is None or returned is None else entry.wrap(self._module, returned)

    # --- once for each key ---

    def _enter(
        self,
        key: tuple[Hashable, ...],
        request: CallRequest,
        values: list[object],
        kind: object,
        checking: CheckMode | None,
        threads: int | None,
    ) -> _PlanEntry:
        if key in self._plans:
            return self._plans[key]
        settings = request.settings
        kept = self._kept(request, key, checking)
        if self._counted < 0 and kept.call is None:  # else an earlier process has bound the call
            self._counted = counted_dimensions(self.candidates)
        if self._counted > 0:
            key = self._with_sizes(key, values)
            if key in self._plans:
                return self._plans[key]
            kept = self._kept(request, key, checking)
        others = [] if checking is not None else [other.kernels_ahead(request, key) for other in self.others]
        plan = self._make_plan(request, kept, checking, others)
        _check_threads(threads, plan.call)
        returned = -1 if settings.mode in REVERSE else request.result_at
        torch = None
        if request.result_kind == results.TORCH or any(marshal.is_torch for marshal in request.marshals):
            torch = TORCH_CALLS.TorchEntry(self, settings, request, plan, [unwrap(value) for value in values])
        check = None
        compares = checking is not None and checking.gradients and settings.mode == BACKWARD
        if compares and torch is None and threads is None:
            check = GRADIENT_CHECK.BackwardCheck(self, checking, request, plan.call)
        wrap = results.wrap_of(kind)
        entry = _PlanEntry(plan, any(map(holds_objects, values)), returned, torch, check, wrap)
        if is_idle(settings.mode, plan.call.leaves, lambda: self.binder.types):
            entry.refuse(lambda: self.binder.idle(request), only_numbers(settings.mode, request.marshals))
        self._plans[key] = entry
        return entry

    def _request(
        self,
        settings: CallSettings,
        positional: int,
        names: tuple[str, ...],
        values: list[object],
        kind: object,
        count: int,
    ) -> CallRequest:
        """The request of a call. With a torch tensor among its values and no setting for results, its result is
        one, too."""
        for value in values:
            if hasattr(type(value), PROTOCOL):
                raise AnswersCalls(value)
        marshals = [marshal_of(unwrap(value)) for value in values]
        result_kind = "" if kind is None or kind is True else results.kind_of(kind) or ""
        if kind is None and any(marshal.is_torch for marshal in marshals):
            result_kind = results.TORCH
        at = count if kind is True else -1
        return CallRequest(settings, positional, names, marshals, result_kind, at, count + (kind is True))

    def bind(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object], result: object
    ) -> Binding:
        """The bound call of such arguments, for texts of other functions around it."""
        filled = [] if result is None else [result]
        outside = gathered(settings.sources)
        values = [*args, *kwargs.values(), *filled, *outside.values()]
        settings = replace(settings, sources=(), globals=tuple(outside))
        kind = True if filled else None
        count = len(args) + len(kwargs)
        with self._session.lock:
            return self.binder.bind(self._request(settings, len(args), tuple(kwargs), values, kind, count))

    def instead_of(
        self, settings: CallSettings, index: int, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> str:
        """How the parameter of one of the values has to be declared to carry a derivative."""
        return self.binder.instead_of(self.bind(settings, args, kwargs, None), index)

    def inspected(
        self, settings: CallSettings, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> InspectedCall:
        """Such a call with its kernel and description; the kernel is compiled, and not run."""
        entry, values, count, threads = self._find(self.checking, settings, args, dict(kwargs))
        names = tuple(name for name in kwargs if name not in (THREADS, RESULT))
        result = kwargs.get(RESULT, settings.result)
        kind = True if result is not None and not isinstance(result, (str, type)) else result
        outside = tuple(gathered(settings.sources))
        named = replace(settings, sources=(), globals=outside)
        with self._session.lock:
            request = self._request(named, len(args), names, values, kind, count)
            bound = self.binder.bind(request)
        plain = [unwrap(value) for value in values]
        return InspectedCall(entry.plan, bound, len(args), names, plain, threads)

    def _with_sizes(self, key: tuple[Hashable, ...], values: list[object]) -> tuple[Hashable, ...]:
        return (*key, *(sizes_of(unwrap(value), self._counted) for value in values))

    def _kept(
        self, request: CallRequest, key: tuple[Hashable, ...], checking: CheckMode | None
    ) -> _StoredCall:
        """A call that an earlier process has bound; in check mode there are none."""
        if checking is not None:
            return _StoredCall("", None)
        on_disk = self._store.key(request.settings, key[2:], self._strict)
        return _StoredCall(on_disk, self._store.find(on_disk))

    def kernels_ahead(self, request: CallRequest, key: tuple[Hashable, ...]) -> PlanKernels:
        """The kernels of such a call for this target. Its plan is on disk from now on."""
        on_disk, call = self._kept(request, key, None)
        kernels = PlanKernels(on_disk, self.generation, lambda: self.binder.bind(request))
        if call is None:
            self._store.keep(on_disk, kernels.bound.launchable)
        return kernels

    def _make_plan(
        self,
        request: CallRequest,
        kept: _StoredCall,
        checking: CheckMode | None,
        others: Sequence[PlanKernels],
    ) -> CallPlan:
        """A plan from the disk, or a new one."""
        if checking is not None:
            bound = PlanKernels("", self.generation.checked, lambda: self.binder.bind(request))
            for leaf in bound.bound.leaves:
                leaf.guard()
            return CallPlan(bound.bound.launchable, bound.compile, self._device, self._strict, in_order=True)
        on_disk, call = kept
        kernels = PlanKernels(on_disk, self.generation, lambda: self.binder.bind(request), others)
        if call is None:
            call = kernels.bound.launchable
            self._store.keep(on_disk, call)
        return CallPlan(call, kernels.compile, self._device, self._strict)


class _StoredCall(NamedTuple):
    """The key of a bound call in the store, and the call if it is there."""

    on_disk: str
    call: Launchable | None


@dataclass(slots=True)
class InspectedCall:
    """A call that is not run: its plan, the binding of its values, the names of keyword arguments."""

    plan: CallPlan
    bound: Binding
    positional: int
    names: tuple[str, ...]
    values: list[object]
    threads: int | None


class _Runs(Protocol):
    """A TorchEntry, without PyTorch."""

    def run(self, values: list[object], threads: int | None) -> HostValue: ...


@dataclass(slots=True)
class _PlanEntry:
    """A plan, and the work of the caller around it."""

    plan: CallPlan
    holds_objects: bool
    result_at: int
    torch: _Runs | None = None  # the calls of this signature, where torch tensors are among the values
    check: BackwardCheck | None = None  # the comparison of its gradients, in check mode
    wrap: results.Wrap | None = None
    is_special: bool = False
    returns_given: bool = False
    idle: Callable[[], CallError] | None = None  # the error of a derivative without effect
    is_told: bool = False  # that is a warning

    def __post_init__(self) -> None:
        self.returns_given = self.result_at >= 0
        special = (self.torch, self.check, self.wrap)
        self.is_special = self.holds_objects or any(extra is not None for extra in special)

    def refuse(self, error: Callable[[], CallError], is_told: bool) -> None:
        """Calls raise this, or warn; the plan can be looked at."""
        self.idle, self.is_told, self.is_special = error, is_told, True

    def check_idle(self, name: str) -> None:
        if self.idle is None:
            return
        error = self.idle()
        if not self.is_told:
            raise error
        reason = ": ".join([error.message, "; ".join(error.details) or error.note or ""])
        warn(f"function '{name}': {reason}")


@ending
def copied(value: HostValue) -> HostValue:
    """Deep copies of lists, tuples, dicts and dataclasses; dataclasses become dicts."""
    if is_struct(value):
        value = as_fields(value)
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    return {name: copied(inner) for name, inner in value.items()} if type(value) is dict else value


def _shown(result: object) -> object:
    """The return value of a call with a given result: of a ValueRef or pair its value."""
    return result.value if hasattr(result, "value") else result


def _check_count(threads: object) -> None:
    if not isinstance(threads, int) or threads <= 0:
        raise CallError("E1014", f"_thread_count must be a positive int, not {threads!r}")


def _check_threads(threads: int | None, call: Launchable) -> None:
    call_dims = call.call_dims
    if threads is None and not call_dims:
        for leaf in call.leaves:
            leaf.require_shape()
    if threads is not None and call_dims:
        message = f"_thread_count needs a call without dimensions, this one has {call_dims}"
        raise CallError("E1014", message, (), "pass all arguments whole, or leave _thread_count out")


def counted_dimensions(candidates: Iterable[CallCandidate]) -> int:
    """The most dimensions of a parameter that leaves a size open."""
    parameters = (parameter.type for candidate in candidates for parameter in candidate.parameters)
    return max(map(open_dimensions, parameters), default=0)


def sizes_of(value: object, count: int) -> Hashable:
    """The last sizes of a value, and of the values in a list or dict; of a pair those of the primal."""
    value = getattr(value, "primal", value)
    if isinstance(value, list):
        return tuple(sizes_of(inner, count) for inner in value)
    if isinstance(value, dict):
        return tuple(sizes_of(inner, count) for inner in value.values())
    shape = getattr(value, "shape", None)
    return tuple(int(size) for size in shape[-count:]) if isinstance(shape, tuple) else None
