"""The calls of one function across reloads of its text, and a call that is run again and again.

    step = module.step.bind_call(x, v, _result=x)       checked, compiled and packed now
    for _ in range(1000):
        step()                                          a launch, and no more
    step.rebind(v=w)                                    other memory: a pointer is exchanged

A `Caller` belongs to one generation of its session. When that has expired, the session looks at its files, and the
next call has a caller of the newest generation. Copies of a function share this.

The contents of tensors and arrays may change between the runs of a repeated call. Numbers, lists, dicts and
addresses are those of the binding. If a call needs more than a launch (it makes a result, reads values back,
copies, updates wrappers), every run is an ordinary call. After a reload it is bound anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from slangrad.call.binding.call_request import RESULT, CallSettings
from slangrad.call.caller import Caller, copied
from slangrad.call.plans.launches import FixedLaunch
from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.tensor import Tensor

if TYPE_CHECKING:
    from slangrad.call.sessions import Session


class RenewedCaller:
    """The caller of a function, which is renewed after a reload. `now` is the newest one, and may have expired; code
    that calls often reads `now.generation.expired` itself."""

    __slots__ = ("_make", "_session", "now")

    # `make` takes the session's generation.
    def __init__(self, session: Session, make: Callable[[Any], Caller]) -> None:
        self._session = session
        self._make = make
        self.now = self._newest()

    def current(self) -> Caller:
        return self.renewed() if self.now.generation.expired else self.now

    def renewed(self) -> Caller:
        """The caller of the newest generation, after a look at files that have changed."""
        self._session.refresh()
        with self._session.lock:
            if self.now.generation is not self._session.generation:
                self.now = self._newest()
            return self.now

    def _newest(self) -> Caller:
        generation = self._session.generation
        caller = self._make(generation)
        caller.others = [self._make(other) for other in generation.others]
        return caller


class RepeatedCall:
    """`call()` runs it and returns the result of the call."""

    __slots__ = ("_calls", "_generation", "_inputs", "_kept", "_launch", "_names", "_result", "_run")

    def __init__(
        self,
        calls: RenewedCaller,
        settings: CallSettings,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self._calls = calls
        result = {RESULT: kwargs.pop(RESULT)} if RESULT in kwargs else {}
        self._inputs = settings, copied(args), copied({**kwargs, **result})  # in the order of a plan's values
        self._kept: dict[int, list[object]] = {}
        self._launch: FixedLaunch | None = None
        self._names: dict[str, int] = {}
        self._result: object = None
        self._run: Callable[[], object] = self._call
        self._bind()

    def __repr__(self) -> str:
        return f"RepeatedCall({self._calls.now.name})"

    @property
    def is_launch(self) -> bool:
        """Whether a run is a launch and nothing else."""
        return self._run != self._call

    def _bind(self) -> None:
        caller = self._calls.current()
        settings, args, kwargs = self._inputs
        launch, result = caller.fixed(settings, args, dict(kwargs))
        self._launch, self._kept, self._result, self._run = launch, {}, None, self._call
        if launch is not None:
            self._kept = {i: _memory_of(value) for i, value in enumerate(launch.values)}
            self._result = result
            self._prepare(launch)
        self._generation = caller.generation

    def _prepare(self, launch: FixedLaunch) -> None:
        runtime = self._calls.now.session.device.runtime
        self._run = runtime.prepare(launch.kernel, launch.arguments, launch.grid)

    def rebind(self, /, **values: object) -> None:
        """Run with other values from now on, by the names of the parameters, `_result` among them. For a tensor of the
        same type, shape and strides that is the exchange of a pointer; other values are bound anew.

        CallError (E1001) for a name that the call has no value for; else as `bind_call` raises.
        """
        settings, args, kwargs = self._inputs
        if not self._names:
            first = self._calls.current().candidates[0].parameters[: len(args)] if args else ()
            self._names = {
                name: i for i, name in enumerate([*(parameter.name for parameter in first), *kwargs])
            }
        names = self._names
        unknown = values.keys() - names
        if unknown:
            message = f"rebind: the call of '{self._calls.now.name}' has no value named {', '.join(sorted(unknown))}"
            raise CallError("E1001", message, (), f"it has {', '.join(names)}")
        arguments = [*args, *kwargs.values()]
        for name, value in values.items():
            arguments[names[name]] = copied(value)
        self._inputs = (
            settings,
            tuple(arguments[: len(args)]),
            dict(zip(kwargs, arguments[len(args) :], strict=True)),
        )
        launch = self._launch
        if launch is None or self._generation.expired or not self._exchange(launch, names, values):
            self._bind()

    def _exchange(self, launch: FixedLaunch, names: dict[str, int], values: dict[str, object]) -> bool:
        moved = {names[name]: value for name, value in values.items()}
        if not all(launch.move(i, value) for i, value in moved.items()) or not launch.check():
            return False
        places = map(launch.plan.place_of, moved)
        self._kept |= {i: _memory_of(launch.values[i]) for i in places if i is not None}
        if RESULT in self._inputs[2]:
            self._result = self._inputs[2][RESULT]
        self._prepare(launch)
        return True

    def _call(self) -> object:
        settings, args, kwargs = self._inputs
        return self._calls.current().call(settings, args, dict(kwargs))

    def __call__(self) -> HostValue:
        if self._generation.expired:
            self._bind()
        runtime = self._calls.now.session.device.runtime
        if runtime.recording is not None:
            runtime.keep_recorded(self._kept)
        returned = self._run()
        return self._result if returned is None else returned


NUMBERS = (int, float, bool)


class SameCall:
    """The launch of the last call of a function, for further calls with the same objects: numbers, and Tensors whose
    memory is that of then. It keeps no Tensor alive.

        same.prepared                                           a launch, None before one is worth it
        same.ready(caller, args, result)                        the same where it fits a call, else None
        same.follow(caller, settings, args, result)             after an ordinary call

    The second call in a row with the same objects prepares the launch, which is replaced as a whole, since threads may
    use it at a time. To prepare takes as long as a call, so the next launch needs twice as many calls in a row.
    """

    __slots__ = ("_needed", "_repeats", "_seen", "prepared")

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()  # the caller and the addresses of the objects of the last call
        self._repeats = 0  # since then
        self._needed = 1
        self.prepared: ReadyLaunch | None = None

    def ready(self, caller: Caller, args: tuple[object, ...], result: object) -> ReadyLaunch | None:
        """The launch of a call outside of check mode with the same objects. `result` is None if none is given."""
        ready = self.prepared
        if ready is None or ready.caller is not caller or ready.changes != Tensor.changes:
            return None
        finders = ready.finders
        if len(finders) != len(args) + 1 or finders[-1]() is not result or caller.checking is not None:
            return None
        for find, value in zip(finders, args):
            if find() is not value:
                return None
        return ready

    def follow(
        self, caller: Caller, settings: CallSettings, args: tuple[object, ...], result: object
    ) -> None:
        """Prepare the launch of a call that has just been made, if it had the objects of the one before."""
        seen = (caller, *map(id, args), id(result))
        if seen != self._seen:
            self._seen, self._repeats = seen, 0
            return
        self._repeats += 1
        if self._repeats < self._needed:
            return
        self._repeats, self._needed = 0, 2 * self._needed
        if (
            caller.checking is None
            and settings.result is None
            and not settings.sources
            and _may_stay(args, result)
        ):
            changes = Tensor.changes
            launch, returned = caller.fixed(settings, args, {} if result is None else {RESULT: result})
            if launch is not None and (returned is None or returned is result):
                run = caller.session.device.runtime.prepare(launch.kernel, launch.arguments, launch.grid)
                finders = [*map(_finder, args), _finder(result)]
                self.prepared = ReadyLaunch(caller, changes, finders, run, returned is not None)


class ReadyLaunch(NamedTuple):
    """A launch, the functions that find its objects, and the number of changes of Tensors at that time. `returns`:
    whether the call returns the given result."""

    caller: Caller
    changes: int
    finders: list[Callable[[], object]]
    run: Callable[[], None]
    returns: bool


def _may_stay(args: tuple[object, ...], result: object) -> bool:
    """Whether objects tell by themselves that a call is the same."""
    keeps_result = result is None or type(result) is Tensor
    return keeps_result and all(type(value) is Tensor or type(value) in NUMBERS for value in args)


def _finder(value: HostValue) -> Callable[[], object]:
    return ref(value) if type(value) is Tensor else lambda: value


def _memory_of(value: object) -> list[object]:
    """A value, and its current memory: a tensor may be pointed elsewhere."""
    parts = (getattr(value, name, None) for name in ("storage", "grad_in", "grad_out"))
    return [value, *(getattr(part, "storage", part) for part in parts if part is not None)]
