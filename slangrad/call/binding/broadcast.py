"""The call shape: which dimension of an argument runs along which dimension of the call.

In: for each argument its sizes and, perhaps, an explicit map.   Out: mappings and the shape of the call.

    a: (4, 3)   b: (3,)                 D = 2, a -> (0, 1), b -> (1,), call shape (4, 3)
    a: (4,)     b: (3,)  map (0,) (1,)  D = 2, call shape (4, 3): an outer product

Arguments without a map are aligned to the right; a dimension of size 1 repeats, and so does one that an
argument does not have. Sizes below zero are unknown and adapt. `geometry.py` deals with memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Shape

UNKNOWN = -1


@dataclass(slots=True, frozen=True)
class Mapped:
    """One argument in a call: its sizes and, for each, the dimension of the call."""

    name: str
    sizes: Shape
    dims: Shape
    described: str = ""


def align_right(count: int, call_dims: int) -> Shape:
    """The last `count` dimensions of the call."""
    assert count <= call_dims, (count, call_dims)
    return tuple(range(call_dims - count, call_dims))


def call_dimensions(counts: Sequence[int], maps: Sequence[Shape | None]) -> int:
    """D: the largest number of dimensions that an argument brings or that a map names."""
    by_map = [max(dims) + 1 for dims in maps if dims]
    return max([*counts, *by_map], default=0)


def call_shape(call_dims: int, arguments: Sequence[Mapped], strict: bool = False) -> Shape:
    """The common shape; a CallError shows all arguments when there is none."""
    sizes = [1] * call_dims
    is_known = [False] * call_dims
    for argument in arguments:
        if strict:
            _check_strict(argument, call_dims)
        for size, dim in zip(argument.sizes, argument.dims):
            if size == UNKNOWN:
                continue
            is_known[dim] = True
            if size == 1 or size == sizes[dim]:
                continue
            if sizes[dim] != 1:
                raise _mismatch(argument, size, dim, sizes[dim], arguments)
            sizes[dim] = size
    if strict:
        _check_sizes(sizes, arguments)
    _check_known(is_known, arguments)
    return tuple(sizes)


def _mismatch(argument: Mapped, size: int, dim: int, wanted: int, arguments: Sequence[Mapped]) -> CallError:
    message = (
        f"Shape mismatch for argument '{argument.name}' between value ({size}) and call ({wanted}) "
        f"in call dimension {dim}"
    )
    note = "sizes of one call dimension must be equal or 1; map() chooses other dimensions"
    return CallError("E1005", message, table(arguments), note)


def table(arguments: Sequence[Mapped]) -> list[str]:
    """One line an argument: its name, its kind, its sizes, and their call dimensions."""
    rows = [("argument", "value", "sizes", "call dimensions")]
    rows += [
        (argument.name, argument.described, str(argument.sizes), str(argument.dims)) for argument in arguments
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _check_strict(argument: Mapped, call_dims: int) -> None:
    if 0 < len(argument.sizes) < call_dims and argument.dims == align_right(len(argument.sizes), call_dims):
        message = (
            f"Strict broadcasting is enabled and argument '{argument.name}' has {len(argument.sizes)} "
            f"dimensions where the call has {call_dims}"
        )
        raise CallError("E1005", message, (), "map() says where its dimensions go")


def _check_sizes(sizes: Sequence[int], arguments: Sequence[Mapped]) -> None:
    for argument in arguments:
        for size, dim in zip(argument.sizes, argument.dims):
            if size == 1 and sizes[dim] != 1:
                message = (
                    f"Strict broadcasting is enabled and argument '{argument.name}' has size 1 "
                    f"where the call has {sizes[dim]} (call dimension {dim})"
                )
                raise CallError("E1005", message)


def _check_known(is_known: Sequence[bool], arguments: Sequence[Mapped]) -> None:
    unknown = [dim for dim, has_size in enumerate(is_known) if not has_size]
    if unknown and any(dim in argument.dims for argument in arguments for dim in unknown):
        message = f"No argument gives the size of call dimension {unknown[0]}"
        raise CallError(
            "E1005", message, table(arguments), "give the grid a shape, or pass an output of that shape"
        )
