"""Per-process singletons, like functions and modules of Python: a copy is the object itself.

copy.deepcopy(model)   # a torch module that holds a Slang function: both call the same function
"""

from __future__ import annotations

from typing import NoReturn, Self


class Unique:
    """A base of them. TypeError for pickling."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        message = f"cannot pickle a slangrad {type(self).__name__}, which belongs to this process: "
        raise TypeError(
            message + "save the data (state_dict() of a torch module), and load the Slang module again"
        )
