"""Slang types that Python and NumPy types stand for, and the other way round.

slang_to_numpy(layout.find_type_by_name("float3"))          ->   dtype('float32')
numpy_to_slang(np.dtype("f4"), device, None).full_name      ->   "float"
resolve_element_type(layout, int).full_name                 ->   "int"
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from slangrad.api.devices.device import Device
from slangrad.api.functional.module import Module
from slangrad.api.reflection.slang_layout import SlangProgramLayout
from slangrad.check.model import types as checked
from slangrad.marshal.slang_type import SlangType
from slangrad.tensors.element_types import element_type as memory_type
from slangrad.tensors.element_types import numpy_layout

_BUILTIN: WeakKeyDictionary[Device, Module] = WeakKeyDictionary()


def builtin_layout(device: Device) -> SlangProgramLayout:
    """The layout of a program that has the types of the standard library only."""
    if device not in _BUILTIN:
        _BUILTIN[device] = Module.load_from_source(device, "types of the standard library", "")
    return _BUILTIN[device].layout


def resolve_program_layout(
    device: Device, element_type: Any, program_layout: SlangProgramLayout | None
) -> SlangProgramLayout:
    """The layout to look for types in: that given, that of a type, or the standard library's."""
    own = program_layout if program_layout is not None else getattr(element_type, "program", None)
    return builtin_layout(device) if own is None else own


def resolve_element_type(program_layout: SlangProgramLayout, element_type: Any) -> SlangType:
    """The type for a name, a reflected type, a struct of a module, a Python or NumPy type, or a value of one."""
    given = getattr(element_type, "slang_type", element_type)
    if isinstance(given, str):
        return program_layout.require_type_by_name(given)
    found = getattr(given, "checked", None)
    if not isinstance(found, checked.Type):
        found = program_layout.types.find_any(given)
    if found is None:
        raise ValueError(f"Element type could not be resolved: {element_type!r}")
    return program_layout.type_of(found)


def innermost_type(slang_type: SlangType) -> SlangType:
    """What is in all arrays, vectors and containers."""
    inner = slang_type.element_type
    return slang_type if inner is slang_type else innermost_type(inner)


def slang_to_numpy(slang_dtype: SlangType) -> np.dtype[Any] | None:
    """The NumPy type of the numbers in a type; None for what is not made of numbers."""
    inner = innermost_type(slang_dtype)
    lowered = inner.ir_type if isinstance(inner.checked, checked.Scalar) else None
    return None if lowered is None else numpy_layout(lowered)[0]


def numpy_to_slang(
    np_dtype: np.dtype[Any], device: Device, program_layout: SlangProgramLayout | None
) -> SlangType | None:
    """The type of the elements of NumPy arrays, sub-arrays as arrays; None where there is none."""
    layout = builtin_layout(device) if program_layout is None else program_layout
    try:
        found = layout.types.lift(memory_type(np_dtype.base))
    except (TypeError, ValueError):
        return None
    for size in reversed(np_dtype.shape):
        found = None if found is None else checked.array(found, size)
    return None if found is None else layout.type_of(found)
