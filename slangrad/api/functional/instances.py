"""Values of a struct whose methods are called like an object's: as one tensor, or a container for each field.

particles = InstanceTensor(module.Particle, (1000,))
particles.construct(position=float2(10, 10), velocity=rand_float(-1, 1))       the constructor, 1000 times
particles.step(0.1)                                                            a method, 1000 times

lights = pack(module, {"_type": "Lights", "positions": tensor, "gain": 2.0})   an argument that is converted once

InstanceList(module.Particle, {"position": tensor, "velocity": float2(0, 1)})
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from slangrad.api.functional.function import Function
from slangrad.api.functional.struct import Struct
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.records import TYPE_KEY
from slangrad.marshal.registry import key_of, marshal_of, register, unwrap
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.shape import Shape
from slangrad.tensors.tensor import Tensor

if TYPE_CHECKING:
    from slangrad.api.functional.module import Module

_OWN = ("_data", "_struct")


class InstanceList:
    """Values of a struct, with methods: `particles.step(0.1)` calls `Particle.step` for all of them. `data` is a
    container of structs, or a dict with a value or container for each field; fields are attributes then."""

    def __init__(self, struct: Struct, data: object = None) -> None:
        self._struct = struct
        self._data: HostValue = {} if data is None else data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._struct.name})"

    def set_data(self, data: object) -> None:
        """Other data from now on."""
        self._data = data

    def get_this(self) -> HostValue:
        """The argument of a call for the instances."""
        if isinstance(self._data, dict):
            return {TYPE_KEY: self._struct.spelled, **self._data}
        return self._data

    def update_this(self, value: object) -> None:
        """Calls write to the containers themselves."""

    def construct(self, *args: object, **kwargs: object) -> HostValue:
        """Call the constructor for all instances."""
        self._struct.constructor()(*args, **kwargs, _result=self)

    def pack(self) -> PackedArg:
        """The instances put together once, for many calls."""
        return pack(self._struct.module, self)

    def _has_field(self, name: str) -> bool:
        return isinstance(self._data, dict) and name in self._struct.fields

    def __getattr__(self, name: str) -> HostValue:
        """A field's data, or a method of all instances."""
        if name.startswith("__") or name in _OWN:
            raise AttributeError(name)
        if self._has_field(name):
            return self._data.get(name)
        member = self._struct[name]
        return member.bind(self) if isinstance(member, Function) else member

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _OWN and self._has_field(name):
            self._data[name] = value
        else:
            super().__setattr__(name, value)


class InstanceTensor(InstanceList):
    """Instances in one tensor of a shape. Without `data` a new tensor is made, which is not initialized."""

    def __init__(self, struct: Struct, shape: object, data: Tensor | None = None) -> None:
        super().__init__(struct, Tensor.empty(struct.module.device, shape, struct) if data is None else data)

    @classmethod
    def from_result(cls, module: Module, result: object) -> InstanceTensor:
        """The result of a call, which has dimensions, as instances. CallError (E1011) for a single value."""
        if not isinstance(result, Tensor):
            message = f"a call without dimensions returns {type(result).__name__}, which is no {cls.__name__}"
            raise CallError("E1011", message, (), "leave return_type out")
        return cls(module.require_struct(str(result.dtype)), result.shape, result)

    @property
    def tensor(self) -> Tensor:
        """The tensor with the values."""
        tensor: Tensor = self._data
        return tensor

    @property
    def shape(self) -> Shape:
        """The tensor's shape."""
        return self.tensor.shape

    def to_numpy(self) -> AnyArray:
        """A copy: the shape, then the bytes of a struct."""
        return self.tensor.to_numpy()

    def copy_from_numpy(self, data: AnyArray) -> None:
        """Overwrite all structs; see `Tensor.copy_from_numpy`."""
        self.tensor.copy_from_numpy(data)


class InstanceDifferentiableBuffer(InstanceTensor):
    """Instances in one tensor with gradients, to which `bwds` of their methods adds; made if missing."""

    def __init__(self, struct: Struct, shape: object, data: Tensor | None = None) -> None:
        tensor = Tensor.empty(struct.module.device, shape, struct).with_grads() if data is None else data
        super().__init__(struct, shape, tensor)

    @property
    def buffer(self) -> Tensor:
        """The tensor with the values; its `grad` has the gradients."""
        return self.tensor


class PackedArg:
    """An argument for many calls. `python_object` is the original value."""

    __slots__ = ("_key", "_packed", "module", "python_object")

    def __init__(self, module: Module, value: object) -> None:
        self.module = module
        self.python_object = value
        self._packed = unwrap(value, held=False)
        # Not the key of the bare value: its plan reads the value, and not this wrapper.
        self._key: Hashable = (PackedArg, key_of(self._packed))

    @property
    def key(self) -> Hashable:
        """The part of the value on which the kernel of a call depends."""
        return self._key

    def get_this(self) -> HostValue:
        """The packed argument of a call."""
        return self._packed

    def __repr__(self) -> str:
        return f"PackedArg({self.python_object!r})"


def pack(module: Module, value: object) -> PackedArg:
    """An argument of functions of the module; a packed one is returned as it is."""
    return value if isinstance(value, PackedArg) else PackedArg(module, value)


register(PackedArg, lambda packed: (PackedArg, packed.key), lambda packed: marshal_of(packed.get_this()))
