"""From a Python value to its key and its marshal.

In: any value.   Out: `key_of(value)`, in every call; `marshal_of(value)`, once for each key.

    3.0 -> float      Tensor -> (Tensor, element type, rank, gradients)      [1, 2] -> (list, (int, int))

Objects with `get_this()` are replaced by its result; `unwrap` replaces them inside of lists and dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.marshal.composed.scalars import EnumMarshal, HostArrayMarshal, NumberMarshal, UnsupportedMarshal
from slangrad.marshal.composed.structs import DictMarshal, Held, ListMarshal
from slangrad.marshal.containers.arrays import (
    ArrayMarshal,
    TensorMarshal,
    TorchMarshal,
    curve_marshal,
    key_of_torch,
    pair_marshal,
)
from slangrad.marshal.containers.buffers import BufferMarshal
from slangrad.marshal.containers.memory import TorchCurve, is_texture_type
from slangrad.marshal.containers.values import DiffPair, DiffPairMarshal, ValueRef, ValueRefMarshal
from slangrad.marshal.errors import CallError, ending
from slangrad.marshal.host.records import TYPE_KEY, as_fields, reader_of
from slangrad.marshal.host.vectors import HostArray
from slangrad.marshal.protocol.marshal import Marshal
from slangrad.marshal.simple import indices
from slangrad.marshal.simple.enums import EnumValue
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.torch_types import is_torch_type
from slangrad.tensors.tensor import Tensor

TEXTURES = LazyModule("slangrad.marshal.containers.textures")
RECORD = "record"
Key = Callable[[HostValue], Hashable]
Maker = Callable[[HostValue], Marshal]
Launched = Callable[[HostValue, HostValue], HostValue]


def _key_of_tensor(tensor: Tensor) -> Hashable:
    grad_in, grad_out = tensor._grad_in, tensor._grad_out
    if grad_in is None and grad_out is None:
        return Tensor, tensor.element_type, len(tensor.shape), tensor.storage.usage
    grads = (grad_in is not None, grad_out is not None, grad_in is grad_out)
    return Tensor, tensor.element_type, len(tensor.shape), tensor.storage.usage, grads


def _key_of_array(array: AnyArray) -> Hashable:
    return np.ndarray, array.dtype, array.ndim, array.flags.writeable


def _key_of_list(values: list[object]) -> Hashable:
    return list, tuple(map(key_of, values))


def _key_of_dict(values: dict[str, object]) -> Hashable:
    return dict, tuple(
        (name, value if name == TYPE_KEY and type(value) is str else key_of(value))
        for name, value in values.items()
    )


def _key_of_pair(pair: DiffPair) -> Hashable:
    primal_key = key_of(pair.primal)
    if KEYS.get(type(pair.primal)) is key_of_torch:
        return DiffPair, primal_key, key_of(pair.grad)
    return DiffPair, primal_key, pair.needs_grad


def _make_pair(pair: DiffPair) -> Marshal:
    if KEYS.get(type(pair.primal)) is key_of_torch:
        return pair_marshal(pair)
    return DiffPairMarshal(marshal_of(pair.primal), pair.needs_grad)


def _key_of_held(held: Held) -> Hashable:
    return Held, _key_of_dict(held)


def _key_of_type(value: object) -> Hashable:
    return (type(value),)


def _key_of_object(value: object) -> Hashable:
    read = _reader_of(type(value))
    assert read is not None
    return type(value), key_of(read(value))


def _key_of_record(value: object) -> Hashable:
    """Not that of a dict, which need not be replaced; the class does not matter."""
    return RECORD, _key_of_dict(as_fields(value))


def is_struct(value: object) -> bool:
    """Whether a value is a struct because of its fields, and has no replacement."""
    kind: type = type(value)
    read = None if kind in _PLAIN else _reader_of(kind)
    return read is not None and read is reader_of(kind)


def _key_of_number(value: np.generic) -> Hashable:
    return (_python_kind(value),)


_PYTHON_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}


def _python_kind(value: np.generic) -> type:
    return _PYTHON_KINDS[value.dtype.kind]


def _make_dict(values: dict[str, object]) -> Marshal:
    odd = [name for name in values if not isinstance(name, str)]
    if odd:
        raise CallError("E1001", f"dict: the key {odd[0]!r} is no name of a field")
    children = {name: marshal_of(value) for name, value in values.items() if name != TYPE_KEY}
    named = values.get(TYPE_KEY)
    return DictMarshal(children, named if isinstance(named, str) else None, is_held=type(values) is Held)


class Keys(dict[type, Key]):
    """Functions that return the key of a value, by its type; a kernel depends on the keys of its arguments. A type
    is entered on first use."""

    def __missing__(self, kind: type) -> Key:
        return _enter(kind)


# fmt: off
KEYS = Keys({
    bool:       lambda value: bool,
    int:        lambda value: int,
    EnumValue:  lambda value: (EnumValue, value.enum),
    float:      lambda value: float,
    Tensor:     _key_of_tensor,
    np.ndarray: _key_of_array,
    list:       _key_of_list,
    dict:       _key_of_dict,
    Held:       _key_of_held,
    ValueRef:   lambda ref: (ValueRef, None if ref.value is None else key_of(ref.value)),
    DiffPair:   _key_of_pair,
    TorchCurve: lambda curve: (TorchCurve, key_of_torch(curve.primal)),
    Buffer:     lambda buffer: (Buffer, buffer.element_type, buffer.writable),
    **indices.KEYS,
})
_MAKERS: dict[type, Maker] = {
    bool:       lambda value: NumberMarshal(bool),
    int:        lambda value: NumberMarshal(int),
    EnumValue:  EnumMarshal,
    float:      lambda value: NumberMarshal(float),
    Tensor:     TensorMarshal,
    np.ndarray: lambda array: ArrayMarshal(array.dtype, array.shape, array.flags.writeable),
    list:       lambda values: ListMarshal([marshal_of(value) for value in values]),
    dict:       _make_dict,
    Held:       _make_dict,
    ValueRef:   lambda ref: ValueRefMarshal(None if ref.value is None else marshal_of(ref.value)),
    DiffPair:   _make_pair,
    TorchCurve: curve_marshal,
    Buffer:     BufferMarshal,
    **indices.MAKERS,
}
# fmt: on
assert KEYS.keys() == _MAKERS.keys(), KEYS.keys() ^ _MAKERS.keys()


def key_of(value: object) -> Hashable:
    """The key of a value, on which the kernel of a call depends. Equal keys mean that a plan fits."""
    return KEYS[type(value)](value)


def marshal_of(value: object) -> Marshal:
    key_of(value)
    maker = _MAKERS.get(type(value))
    return UnsupportedMarshal(type(value)) if maker is None else maker(value)


def _enter(kind: type) -> Key:
    """Enter a type on first use; an unsupported type is not entered, because it may be registered later."""
    read = _reader_of(kind)
    if read is not None:
        KEYS[kind] = _key_of_record if read is reader_of(kind) else _key_of_object
        return KEYS[kind]
    for base in kind.__mro__:
        if base in _MAKERS and base is not bool:
            KEYS[kind], _MAKERS[kind] = KEYS[base], _MAKERS[base]
            return KEYS[kind]
    if is_torch_type(kind):
        KEYS[kind], _MAKERS[kind] = key_of_torch, TorchMarshal
    elif is_texture_type(kind):
        KEYS[kind], _MAKERS[kind] = TEXTURES.key_of_texture, TEXTURES.TextureMarshal
    elif issubclass(kind, HostArray):
        KEYS[kind] = _key_of_type
        _MAKERS[kind] = lambda value: HostArrayMarshal(kind)
    elif issubclass(kind, (np.bool_, np.integer, np.floating)):
        KEYS[kind] = _key_of_number
        _MAKERS[kind] = lambda value: NumberMarshal(_python_kind(value))
    return KEYS.get(kind, _key_of_type)


def register(kind: type, key: Key, maker: Maker, launched: Launched | None = None) -> None:
    """Register another Python type for calls. `launched`: the argument of a launched kernel, made of the program's
    layout and a value; without it, the value itself.
    """
    _forget_readers(kind)
    KEYS[kind], _MAKERS[kind] = key, maker
    if launched is not None:
        _LAUNCHED[kind] = launched


def unregister(kind: type) -> None:
    """Remove the registration of a type and of its subclasses."""
    _forget_readers(kind)
    _LAUNCHED.pop(kind, None)
    for met in [known_class for known_class in KEYS if issubclass(known_class, kind)]:
        KEYS.pop(met, None)
        _MAKERS.pop(met, None)


def _forget_readers(kind: type) -> None:
    """Drop the readers of a class and of those that inherit from it."""
    for met in [known_class for known_class in _READERS if issubclass(known_class, kind)]:
        if _READERS.pop(met) is not None:
            KEYS.pop(met, None)


def launched_argument(layout: Callable[[], object], value: HostValue) -> HostValue:
    """The argument of a launched kernel for a value: the one that its class is registered with, if there is one.
    `layout` gives the layout of the program.
    """
    base = next((base_class for base_class in type(value).__mro__ if base_class in _LAUNCHED), None)
    return value if base is None else _LAUNCHED[base](layout(), value)


def is_built_in(kind: type) -> bool:
    """Whether calls support values of a type without registration."""
    is_array = issubclass(kind, HostArray) or is_torch_type(kind) or is_texture_type(kind)
    return is_array or any(issubclass(built_in, kind) for built_in in _BUILT_IN)


# --- Wrappers of other values -------------------------------------------------------------------------

_BUILT_IN = frozenset(_MAKERS)
_LAUNCHED: dict[type, Launched] = {}
_PLAIN = frozenset(
    (bool, int, EnumValue, float, Tensor, np.ndarray, ValueRef, DiffPair, Buffer, str, type(None))
)


# By class: the replacement of a value, None if it has none.
_READERS: dict[type, Callable[[HostValue], object] | None] = {}
_WRITERS: dict[type, Callable[[HostValue, object], object]] = {}


def register_type(
    kind: type,
    value_of: Callable[[object], object],
    update: Callable[[object, object], object] | None = None,
) -> None:
    """Register a class of wrappers: calls replace an object of it, or of a subclass, by `value_of(object)`. After a
    call `update(object, value)` runs. CallError (E1001) for a class with built-in support, and for what is no class
    or cannot be called.
    """
    if not isinstance(kind, type) or not callable(value_of):
        raise CallError("E1001", "register_type takes a class and a callable")
    if is_built_in(kind):
        raise CallError("E1001", f"register_type: calls know values of {kind.__name__} by themselves")
    for met in [known_class for known_class in (*_READERS, *KEYS) if issubclass(known_class, kind)]:
        _READERS.pop(met, None)
        KEYS.pop(met, None)
    _READERS[kind] = value_of
    KEYS[kind] = _key_of_object
    _WRITERS.pop(kind, None)
    if update is not None:
        _WRITERS[kind] = update


def _reader_of(kind: type) -> Callable[[HostValue], object] | None:
    if kind not in _READERS:
        taught = next(
            (base_class for base_class in kind.__mro__ if _READERS.get(base_class) is not None), None
        )
        if hasattr(kind, "get_this"):
            _READERS[kind] = _ask
        elif taught is not None:
            _READERS[kind] = _READERS[taught]
            if taught in _WRITERS:
                _WRITERS[kind] = _WRITERS[taught]
        elif any(base in _MAKERS for base in kind.__mro__):
            _READERS[kind] = None
        else:
            _READERS[kind] = reader_of(kind)
    return _READERS[kind]


def _ask(value: HostValue) -> object:
    return value.get_this()


@ending
def holds_objects(value: HostValue) -> bool:
    """Whether a value, or a part of it, is a wrapper."""
    kind = type(value)
    if kind in _PLAIN:
        return False
    if kind is list:
        return any(map(holds_objects, value))
    if kind is dict:
        return any(map(holds_objects, value.values()))
    return _reader_of(kind) is not None


Wrappers = list[tuple[HostValue, HostValue]]


@ending
def unwrap(value: HostValue, wrappers: Wrappers | None = None, held: bool = True) -> HostValue:
    """The value with all wrappers replaced by their values. `wrappers` gets each wrapper with its value, inner ones
    first. `held`: fields of wrappers that are updated may be written.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [unwrap(inner, wrappers, held) for inner in value]
    if kind is dict:
        return {name: unwrap(inner, wrappers, held) for name, inner in value.items()}
    read = _reader_of(kind)
    if read is None:
        return value
    plain = unwrap(read(value), wrappers, held)
    if held and type(plain) is dict and _hears(value):
        plain = Held(plain)
    if wrappers is not None:
        wrappers.append((value, plain))
    return plain


def _hears(value: object) -> bool:
    """Whether an object is updated after a call."""
    return hasattr(value, "update_this") or type(value) in _WRITERS


def update(wrappers: Wrappers) -> None:
    """Update wrappers with their values after the call."""
    for value, plain in wrappers:
        unwrapped = dict(plain) if type(plain) is Held else plain
        if hasattr(value, "update_this"):
            value.update_this(unwrapped)
        elif type(value) in _WRITERS:
            _WRITERS[type(value)](value, unwrapped)
