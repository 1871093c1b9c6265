"""Tensors in pickles, copies of them, and how notebooks show them.

pickle.loads(pickle.dumps(tensor))     the same values and gradients, on the current device, without gaps
copy.deepcopy(tensor)                  on the tensor's own device
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import NamedTuple

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.type_data import Data
from slangrad.tensors.elements.conversion import AnyArray

CURRENT = LazyModule("slangrad.api.devices.current")
MOST_SHOWN = 8


class Saved(NamedTuple):
    """The data of a tensor in a pickle; `shared`: one gradient serves as both."""

    element: Data
    array: AnyArray
    shape: tuple[int, ...]
    usage: int
    memory_type: str
    grad_in: Saved | None
    grad_out: Saved | None
    shared: bool


def restored(make: Callable[[object, Saved], object], saved: Saved) -> object:
    """A tensor on the device that is current; CallError if none is."""
    return make(CURRENT.current_device(), saved)


def html_of(title: str, array: AnyArray, rank: int) -> str:
    """A title, and a table of an array of up to two dimensions (of `rank` ones, the others are an element's)."""
    head = f"<div><code>{escape(title)}</code>"
    if rank > 2 or array.size == 0:
        return f"{head}<pre>{escape(np.array2string(array, threshold=200))}</pre></div>"
    rows = array if rank == 2 else array.reshape(1, *array.shape) if rank else array.reshape(1, 1)
    places = [_places(size) for size in rows.shape[:2]]
    lines = [
        "<tr>" + "".join(f"<td>{_cell(rows, i, j)}</td>" for j in places[1]) + "</tr>" for i in places[0]
    ]
    return f"{head}<table>{''.join(lines)}</table></div>"


def _places(size: int) -> list[int | None]:
    """All indices, or the first and last ones around a gap."""
    if size <= MOST_SHOWN:
        return list(range(size))
    half = MOST_SHOWN // 2
    return [*range(half), None, *range(size - half, size)]


def _cell(rows: AnyArray, i: int | None, j: int | None) -> str:
    return "&hellip;" if i is None or j is None else escape(str(rows[i, j]))
