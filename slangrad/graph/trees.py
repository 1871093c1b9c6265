"""Arguments as trees: dicts, lists, tuples and dataclasses of arrays and of other values.

{"w": array, "layers": [array, 3]}     arrays  [array, array]     structure  {"w": *, "layers": [*, 3]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

from slangrad.graph.values import is_array


def parts_of(tree: Any) -> Iterable[tuple[Any, Any]] | None:
    """The parts of a tree in order, with their keys; None of a leaf."""
    if isinstance(tree, dict):
        return tree.items()
    if isinstance(tree, list | tuple):
        return zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True)
    if is_dataclass(tree) and not isinstance(tree, type):
        return [(f.name, getattr(tree, f.name)) for f in fields(tree) if f.init]
    return None


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with each leaf changed."""
    parts = parts_of(tree)
    if parts is None:
        return change(tree)
    changed = {key: tree_map(change, part) for key, part in parts}
    if isinstance(tree, dict):
        made = copy(tree)
        dict.update(made, changed)
        return made
    if isinstance(tree, list | tuple):
        return type(tree)(**changed) if hasattr(tree, "_fields") else type(tree)(changed.values())
    return replace(tree, **changed)


def leaves(tree: Any, wanted: Callable[[Any], bool] = lambda leaf: True) -> list[Any]:
    """The leaves in order, all or some of them."""
    parts = parts_of(tree)
    if parts is None:
        return [tree] if wanted(tree) else []
    return [leaf for _, part in parts for leaf in leaves(part, wanted)]


def filled(tree: Any, values: Iterator[Any], replaced: Callable[[Any], bool]) -> Any:
    """The tree with new values in place of some leaves, in order."""
    return tree_map(lambda leaf: next(values) if replaced(leaf) else leaf, tree)


def structure(tree: Any, arrays: list[Any]) -> Any:
    """A value that is equal for trees of the same form and the same values beside arrays; these are appended to
    `arrays`."""
    if is_array(tree):
        arrays.append(tree)
        return "*"
    parts = parts_of(tree)
    if parts is None:
        return _exact(tree)
    return type(tree), tuple([(_exact(key), structure(part, arrays)) for key, part in parts])


def _exact(value: Any) -> Any:
    """A value that is equal for equal values of one type. 0.0 == -0.0 and 1 == True, and NaN is not NaN."""
    if type(value) in (tuple, frozenset):
        return type(value), type(value)(map(_exact, value))
    return type(value), value.hex() if type(value) is float else value
