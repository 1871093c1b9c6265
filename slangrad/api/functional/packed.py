"""Arguments that are put together once and passed often.

    lights = pack(module, {"_type": "Lights", "positions": tensor, "gain": 2.0})
    for frame in range(100):
        module.shade(lights, frame, _result=image)

Objects with `get_this()` are asked when the argument is packed, lists and dicts are copied then. Memory of tensors and
arrays is not: calls see what is in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from slangrad.marshal.registry import key_of, marshal_of, register, unwrap

if TYPE_CHECKING:
    from slangrad.api.functional.module import Module


class PackedArg:
    """An argument for many calls. `python_object` is what was packed."""

    __slots__ = ("_key", "_packed", "module", "python_object")

    def __init__(self, module: Module, value: Any) -> None:
        self.module = module
        self.python_object = value
        self._packed = unwrap(value, held=False)
        self._key: Hashable = key_of(self._packed)

    @property
    def key(self) -> Hashable:
        return self._key

    def get_this(self) -> Any:
        """What stands for the argument in a call."""
        return self._packed

    def __repr__(self) -> str:
        return f"PackedArg({self.python_object!r})"


def pack(module: Module, value: Any) -> PackedArg:
    """An argument of functions of the module; one that is packed already is itself."""
    return value if isinstance(value, PackedArg) else PackedArg(module, value)


register(PackedArg, lambda packed: (PackedArg, packed.key), lambda packed: marshal_of(packed.get_this()))
