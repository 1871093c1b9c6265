"""Values outside of functions, as `set` and `write` have said them.

In: sources, in their order: dicts, and callables that each call asks for one.   Out: one dict for the call.

    set(scale=2).set(lambda: {"params": {"k": k}}).write(fill, 3)   ->   {"scale": 2, "params": {"k": ..., ...}}

Later sources win, field by field where both say a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slangrad.marshal.errors import CallError

Values = Mapping[str, Any]
Source = Values | Callable[[], Values]
Tree = dict[str, Any]


def gathered(sources: tuple[Source, ...]) -> Tree:
    """The values of a call. A value that is a callable itself is asked, too."""
    found: Tree = {}
    for source in sources:
        merge(found, _asked(source) if callable(source) else source)
    return {name: value() if callable(value) else value for name, value in found.items()}


def _asked(source: Callable[[], Values]) -> Values:
    found = source()
    if not isinstance(found, Mapping):
        raise CallError("E1013", f"set: the callable gave {type(found).__name__}, and a dict is needed")
    return found


def merge(into: Tree, values: Values) -> None:
    for name, value in values.items():
        known = into.get(name)
        if type(known) is dict and isinstance(value, Mapping):
            into[name] = {**known}
            merge(into[name], value)
        else:
            into[name] = value


def put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    """Set the value at a path of names."""
    for name in reversed(path):
        value = {name: value}
    merge(tree, value)
