"""Arguments as trees: dicts, lists, tuples and dataclasses of arrays and of other values.

{"w": array, "layers": [array, 3]}     arrays  [array, array]     structure  {"w": *, "layers": [*, 3]}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

import slangrad as spy


def is_array(value: Any) -> bool:
    """Whether a value is traced: a Tensor, a torch tensor, an array or a number of NumPy's."""
    if isinstance(value, np.ndarray | np.generic | spy.Tensor):
        return True
    return is_torch(value)


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with each leaf changed."""
    if isinstance(tree, dict):
        made = copy(tree)
        for key in tree:
            made[key] = tree_map(change, tree[key])
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(change, each) for each in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(tree_map(change, each) for each in tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(
            tree, **{f.name: tree_map(change, getattr(tree, f.name)) for f in fields(tree) if f.init}
        )
    return change(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def arrays_in(tree: Any) -> list[Any]:
    """The leaves that are traced, in order."""
    return [each for each in leaves(tree) if is_array(each)]


def filled(tree: Any, values: Iterator[Any], replaced: Callable[[Any], bool]) -> Any:
    """The tree with new values in place of some leaves, in order."""
    return tree_map(lambda leaf: next(values) if replaced(leaf) else leaf, tree)


def structure(tree: Any) -> Any:
    """A value that is equal for trees of the same form and the same values beside arrays; it can be hashed."""
    if isinstance(tree, dict):
        return type(tree), tuple((structure(key), structure(value)) for key, value in tree.items())
    if isinstance(tree, list | tuple):
        return type(tree), tuple(map(structure, tree))
    if is_dataclass(tree) and not isinstance(tree, type):
        return type(tree), tuple(structure(getattr(tree, f.name)) for f in fields(tree))
    if is_array(tree):
        return "*"
    if isinstance(tree, frozenset):
        return type(tree), frozenset(map(structure, tree))
    return type(tree), tree.hex() if type(tree) is float else tree  # 0.0 == -0.0, and NaN is not NaN
