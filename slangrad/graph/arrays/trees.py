"""Arguments as trees: dicts, lists, tuples and dataclasses of arrays and of other values.

{"w": array, "layers": [array, 3]}     arrays  [array, array]     structure  {"w": *, "layers": [*, 3]}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, ValuesView
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeGuard, TypeVar, cast

from slangrad.graph.ir.values import ArrayValue, is_array

PyTree = Any  # the user decides on its form
L = TypeVar("L")
T = TypeVar("T")


def parts_of(tree: object) -> Iterable[tuple[PyTree, object]] | None:
    """The parts of a tree in order, with their keys, of any type; None of a leaf."""
    if isinstance(tree, dict):
        return tree.items()
    if isinstance(tree, (list, tuple)):
        return zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True)
    if is_dataclass(tree) and not isinstance(tree, type):
        return [(f.name, getattr(tree, f.name)) for f in fields(tree) if f.init]
    return None


def tree_map(change: Callable[[object], object], tree: T) -> T:
    """The tree with each leaf changed."""
    return cast(T, _mapped(change, tree))


def _mapped(change: Callable[[object], object], tree: object) -> object:
    parts = parts_of(tree)
    if parts is None:
        return change(tree)
    changed = {key: _mapped(change, part) for key, part in parts}
    if isinstance(tree, dict):
        replica = copy(tree)
        dict.update(replica, changed)
        return replica
    if isinstance(tree, (list, tuple)):
        return type(tree)(**changed) if hasattr(tree, "_fields") else type(tree)(changed.values())
    assert is_dataclass(tree) and not isinstance(tree, type)
    return replace(tree, **changed)


def leaves(tree: object, wanted: Callable[[object], TypeGuard[L]]) -> list[L]:
    """Some of the leaves, in order."""
    return [leaf for leaf in all_leaves(tree) if wanted(leaf)]


def all_leaves(tree: object) -> list[object]:
    parts = parts_of(tree)
    return [tree] if parts is None else [leaf for _, part in parts for leaf in all_leaves(part)]


def all_keys(tree: object) -> list[object]:
    """The keys of all dicts of a tree."""
    keys = [*tree] if isinstance(tree, dict) else []
    return keys + [key for _, part in parts_of(tree) or () for key in all_keys(part)]


def hidden_in(leaf: object) -> list[object]:
    """The contents of a leaf that is no tree: a set, a mapping, the values of a dict, an object."""
    if isinstance(leaf, Mapping):
        return all_leaves([*leaf.items()])
    if isinstance(leaf, Set | ValuesView | deque):
        return all_leaves([*leaf])
    slots = [getattr(leaf, name, None) for kind in type(leaf).__mro__ for name in _slots_of(kind)]
    return all_leaves([*slots, *getattr(leaf, "__dict__", {}).values()])


def _slots_of(kind: type) -> Iterable[str]:
    slots: str | Iterable[str] = getattr(kind, "__slots__", ())
    return [slots] if isinstance(slots, str) else slots


def leaves_like(tree: object, like: object, wanted: Callable[[object], TypeGuard[L]]) -> list[L]:
    """Some of the leaves of a tree of the form of another one, in the order of that: dicts are equal in any order."""
    parts = parts_of(tree)
    if parts is None:
        return [tree] if wanted(tree) else []
    by_key = dict(parts)
    return [leaf for key, part in parts_of(like) or () for leaf in leaves_like(by_key[key], part, wanted)]


def form_of(tree: object, seen: Callable[[object], object]) -> object:
    """A value that is equal for trees of the same form, and the same leaves as they are seen."""
    parts = parts_of(tree)
    if parts is None:
        return seen(tree)
    kind = next((builtin for builtin in (dict, list) if isinstance(tree, builtin)), type(tree))
    return kind, {key: form_of(part, seen) for key, part in parts}


def filled(tree: T, values: Iterator[object], replaced: Callable[[object], bool]) -> T:
    """The tree with new values in place of some leaves, in order."""
    return tree_map(lambda leaf: next(values) if replaced(leaf) else leaf, tree)


def structure(tree: object, arrays: list[ArrayValue]) -> object:
    """A value that is equal for trees of the same form and the same values beside arrays; these are appended to
    `arrays`."""
    if type(tree) is tuple or type(tree) is list:  # most trees, and each call walks them
        return type(tree), tuple([structure(part, arrays) for part in tree])
    if is_array(tree):
        arrays.append(tree)
        return "*"
    parts = parts_of(tree)
    if parts is None:
        return _exact(tree)
    return type(tree), tuple([(_exact(key), structure(part, arrays)) for key, part in parts])


def _exact(value: object) -> object:
    """A value that is equal for equal values of one type. 0.0 == -0.0 and 1 == True, and NaN is not NaN."""
    if type(value) is tuple or type(value) is frozenset:
        return type(value), type(value)(map(_exact, value))
    return type(value), value.hex() if type(value) is float else value
