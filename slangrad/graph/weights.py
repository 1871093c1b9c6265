"""Weights on disk, in the format of safetensors: one file for a tree of arrays.

graph.save("model.safetensors", p)                {"layers": [{"w": array}]}: a tensor named "layers.0.w"
p = graph.load("model.safetensors", like=p)       the same form and types, or one error that says what differs
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import slangrad as spy
from slangrad.base.disk.whole_files import open_file, write_output
from slangrad.base.lazy import LazyModule
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.trees import PyTree, all_leaves, filled, hidden_in, leaves, parts_of
from slangrad.graph.ir.errors import GraphError, TracedValueError
from slangrad.graph.ir.values import ArrayValue, is_array, is_torch

SAFETENSORS = LazyModule("safetensors")
SAFETENSORS_OF_NUMPY = LazyModule("safetensors.numpy")


def save(path: str | Path, tree: object) -> None:
    """Write the arrays of a tree (dicts, lists, tuples, dataclasses) to a file, as a whole or not at all.

    A name is the way to its array, joined by points. Values beside arrays are left out. GraphError (E1046) without
    the library safetensors, for keys that are no names, for arrays that a file cannot hold and those in sets,
    iterators and objects. Traced arrays are E1041. OSError where the file cannot be written.
    """
    write = _library("save")
    _check_leaves(path, tree)
    named = list(_named(tree))
    if len({name for name, _ in named}) < len(named):
        raise GraphError("E1046", f"{path}: two arrays would have one name", "1 and '1' are one name")
    try:
        data = write({name: np.array(_host(leaf), order="C") for name, leaf in named})
    except (SAFETENSORS.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise GraphError("E1046", f"{path} cannot hold these arrays: {error}") from None
    write_output(Path(path), data)


def load(path: str | Path, like: PyTree = None) -> PyTree:
    """The arrays of a file, in the form of `like`: its arrays replaced by those of the file, in NumPy's, Tensor's or
    torch's form as they are there. Without `like`: NumPy's arrays in dicts; names 0, 1, 2, ... make a list.

    GraphError (E1046) without the library safetensors, for a damaged file, and where names, shapes or dtypes are not
    those of `like`. OSError where there is no file.
    """
    read = _library("load_file")
    open_file(path).close()
    try:
        arrays = read(path)
    except (SAFETENSORS.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise GraphError("E1046", f"{path} is damaged, or not of NumPy's types: {error}") from None
    if like is None:
        return _nested(arrays)
    wanted = dict(_named(like))
    wrong = [f"{name} is missing" for name in wanted.keys() - arrays.keys()]
    wrong += [f"{name} is not asked for" for name in arrays.keys() - wanted.keys()]
    for name in wanted.keys() & arrays.keys():
        forms = [f"{x.dtype.newbyteorder('=')}{list(x.shape)}" for x in (arrays[name], _host(wanted[name]))]
        wrong += [f"{name} is {forms[0]}, not {forms[1]}"] if forms[0] != forms[1] else []
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise GraphError("E1046", f"{path}: {', '.join(sorted(wrong)[:5])}{more}")
    pairs = zip(leaves(like, is_array), wanted, strict=True)
    return filled(like, (_in_form_of(leaf, arrays[name]) for leaf, name in pairs), is_array)


def _library(name: str) -> Any:  # a function of safetensors
    try:
        return getattr(SAFETENSORS_OF_NUMPY, name)
    except ImportError:
        raise GraphError("E1046", "weights need safetensors", "pip install 'slangrad[safetensors]'") from None


def _check_leaves(path: str | Path, tree: object) -> None:
    """Raise errors for arrays that would be left out, and for those that lose a part."""
    for leaf in all_leaves(tree):
        if isinstance(leaf, Array):
            advice = "return it, and save the result"
            raise TracedValueError("E1041", f"{path}: a traced array has no numbers yet", advice)
        if isinstance(leaf, np.ma.MaskedArray):
            raise GraphError("E1046", f"{path} cannot hold the mask of an array", "np.ma.filled(x) has none")
        if not is_array(leaf) and (isinstance(leaf, Iterator) or any(map(is_array, hidden_in(leaf)))):
            advice = "dicts, lists, tuples and dataclasses of arrays"
            raise GraphError("E1046", f"{path}: arrays in a {type(leaf).__name__} would be left out", advice)


def _named(tree: object, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ArrayValue]]:
    """Arrays in the order of `leaves`, with their names."""
    parts = parts_of(tree)
    if parts is None:
        if is_array(tree):
            yield ".".join(way) or "value", tree
        return
    for key, value in parts:
        if not isinstance(key, str | int) or str(key) in ("", "__metadata__") or "." in str(key):
            note = "texts without points, other than __metadata__"
            raise GraphError("E1046", f"{key!r} is no name of an array", note)
        yield from _named(value, (*way, str(key)))


def _nested(arrays: dict[str, np.ndarray]) -> object:
    """Dicts by the parts of names."""
    tree: dict[str, object] = {}
    for name, value in arrays.items():
        *way, last = name.split(".")
        at = tree
        for part in way:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                raise GraphError("E1046", f"'{name}' is within another array", "give load a tree with `like`")
            at = inner
        at[last] = value
    return _listed(tree)


def _listed(tree: object) -> object:
    if not isinstance(tree, dict):
        return tree
    children = {key: _listed(value) for key, value in tree.items()}
    numbers = [str(i) for i in range(len(children))]
    return [children[i] for i in numbers] if children and children.keys() == set(numbers) else children


def _host(leaf: ArrayValue) -> np.ndarray | np.generic:
    if isinstance(leaf, spy.Tensor):
        return leaf.to_numpy()
    return leaf.detach().cpu().numpy() if is_torch(leaf) else leaf


def _in_form_of(leaf: ArrayValue, value: np.ndarray) -> ArrayValue:
    if isinstance(leaf, spy.Tensor):
        return spy.Tensor.from_numpy(leaf.device, value, dtype=leaf.dtype)
    if is_torch(leaf):
        return leaf.new_tensor(value).requires_grad_(leaf.requires_grad)
    return value[()] if isinstance(leaf, np.generic) else value
