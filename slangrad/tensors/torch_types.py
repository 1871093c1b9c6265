"""PyTorch's dtypes and tensors, known without loading PyTorch: it is there once somebody has a tensor of it.

element_of(torch.float32)  ->  f32      element_of(torch.bfloat16)  ->  None      dtype_of(f32)  ->  torch.float32
is_torch_type(type(x))     ->  whether x is a torch tensor, of a subclass too
"""

from __future__ import annotations

import sys
from typing import Any

from slangrad.base.late import Late
from slangrad.ir.types import Scalar
from slangrad.tensors.element_types import SCALARS_BY_NAME, numpy_layout

TORCH = Late("torch")
PREFIX = "torch."

_elements: dict[Any, Scalar | None] = {}
_dtypes: dict[Scalar, Any] = {}


def is_torch_type(kind: type) -> bool:
    """Whether objects of a type are torch tensors. While nobody has loaded PyTorch, none are."""
    torch = sys.modules.get("torch")
    base = getattr(torch, "Tensor", None)  # absent while PyTorch is being loaded
    return isinstance(base, type) and issubclass(kind, base)


def element_of(dtype: Any) -> Scalar | None:
    """The type of elements of a dtype; None where Slang has none."""
    try:
        return _elements[dtype]
    except KeyError:
        found = _elements[dtype] = SCALARS_BY_NAME.get(str(dtype).removeprefix(PREFIX))
        return found


def dtype_of(scalar: Scalar) -> Any:
    """The dtype of a scalar; AttributeError where this PyTorch has none (uint16 and wider came with 2.3)."""
    found = _dtypes.get(scalar)
    if found is None:
        found = _dtypes[scalar] = getattr(TORCH, numpy_layout(scalar)[0].name)
    return found
