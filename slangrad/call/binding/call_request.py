"""A call before its function is resolved: settings, and a marshal for each value.

Values outside of functions come from `set` and `write`: later ones win, field by field.

f.map(x=(0,)).bwds(2.0, x=t)   ->   CallRequest(mode bwds, one positional argument, names ("x",), two marshals)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.marshal import Marshal
from slangrad.marshal.protocol.roles import PRIMAL
from slangrad.tensors.elements.conversion import HostValue

RESULT, THREADS, APPEND = CALL_WORDS = (
    "_result",
    "_thread_count",
    "_append_to",
)  # keywords of every call
Named = tuple[str, str, int]  # an interface, a type that values of it can have, its id


@dataclass(slots=True, frozen=True)
class CallSettings:
    """The settings of a function before its calls. `key` covers all but `sources` and `globals`.

    `sources` are the sources of values outside of functions, `globals` the names that they gave in this call. `group`:
    the shape of groups of calls.
    """

    mode: str = PRIMAL
    map_positional: tuple[object, ...] = ()
    map_named: Mapping[str, object] = field(default_factory=dict)
    result: HostValue = None
    order: int = 1  # in `hvp`: of the derivatives
    sources: tuple[GlobalSource, ...] = ()
    globals: tuple[str, ...] = ()
    group: tuple[int, ...] | None = None
    conformances: tuple[Named, ...] = ()  # types behind interfaces
    lanes: int = 0  # 0: as many as suit the kernel
    key: Hashable = ()


@dataclass(slots=True, frozen=True)
class CheckMode:
    """`gradients`: compare each `bwds`, with these tolerances (`rtol` None: as the type of the numbers has it)."""

    gradients: bool = True
    rtol: float | None = None
    atol: float = 0.0


def settings_key(settings: CallSettings) -> Hashable:
    return (
        settings.mode,
        settings.order,
        repr(settings.map_positional),
        repr(sorted(settings.map_named.items())),
        settings.group,
        settings.conformances,
        settings.lanes,
    )


@dataclass(slots=True)
class CallRequest:
    """The arguments of one call, sorted: `marshals` are those of the positional ones, of those by name, of the result
    to fill, and of values of globals. It holds no values."""

    settings: CallSettings
    positional: int
    names: tuple[str, ...]
    marshals: list[Marshal]
    result_kind: str
    result_at: int
    globals_at: int


Values = Mapping[str, HostValue]
GlobalSource = Values | Callable[[], Values]
Tree = dict[str, HostValue]


def gathered(sources: tuple[GlobalSource, ...]) -> Tree:
    """The values of a call. A value that is a callable itself is called, too."""
    tree: Tree = {}
    for source in sources:
        merge(tree, _values_of(source) if callable(source) else source)
    return {name: value() if callable(value) else value for name, value in tree.items()}


def _values_of(source: Callable[[], Values]) -> Values:
    values = source()
    if not isinstance(values, Mapping):
        raise CallError("E1013", f"set: the callable gave {type(values).__name__}, and a dict is needed")
    return values


def merge(into: Tree, values: Values) -> None:
    for name, value in values.items():
        inner = into.get(name)
        if type(inner) is dict and isinstance(value, Mapping):
            into[name] = {**inner}
            merge(into[name], value)
        else:
            into[name] = value


def put(tree: Tree, path: tuple[str, ...], value: HostValue) -> None:
    """Set the value at a path of names."""
    for name in reversed(path):
        value = {name: value}
    merge(tree, value)
