"""Handles of resources: `DescriptorHandle<T>` stands for a T, and is followed as a pointer is.

In: DescriptorHandle<Texture2D<float>>.   Out: Texture2D<float>, and the conversion to it: a call of `__resource`.
"""

from __future__ import annotations

from slangrad.check.generics.substitution import own_substitution
from slangrad.check.interfaces.lookup import declared
from slangrad.check.model.checked import Conversion
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import UINT, UINT64, StructType, Type, vector


def handled(checker: Checker, kind: Type) -> Type | None:
    """T of DescriptorHandle<T>; None for other types."""
    if not isinstance(kind, StructType) or kind.declaration is not checker.standard("DescriptorHandle"):
        return None
    inner: Type = kind.inner
    return inner


def resource_of_handle(checker: Checker, kind: Type) -> Conversion | None:
    """The conversion of a handle to its resource; None for other types."""
    inner = handled(checker, kind)
    return None if inner is None else _by_method(checker, kind, "__resource", inner)


def numbers_of_handle(checker: Checker, kind: Type, target: Type) -> Conversion | None:
    """The conversion of a handle to the numbers that a handle can be made of again; None for other targets."""
    names = {vector(UINT, 2): "__words", UINT64: "__bits"}
    return _by_method(checker, kind, names[target], target) if target in names else None


def _by_method(checker: Checker, kind: Type, name: str, target: Type) -> Conversion:
    assert isinstance(kind, StructType)
    (method,) = declared(checker, kind.declaration, name)
    return Conversion("call", target, DeclRef(method, own_substitution(kind)))
