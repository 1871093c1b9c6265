"""Modules and values that are loaded or computed on first use.

    FRONT = LazyModule("slangrad.call.front")        nothing is loaded yet
    FRONT.Binder(...)                          now it is

A program whose kernels are already on disk loads neither parser, checker nor LLVM. A table in tests/test_layers.py
lists the modules that may load others late.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

from slangrad.base.process.forks import loading

Value = TypeVar("Value")


class LazyModule:
    """Stands for a module; its names are the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:  # as the module has it
        with loading():
            value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


def loaded_torch() -> Any:  # a module that is not imported here
    """PyTorch, if the program has loaded it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "cuda") else None  # which it lacks while it is being loaded


class lazy_property(Generic[Value]):
    """A property that is computed once. That of `functools` has a lock for all objects of a class in Python 3.11: two
    threads that hold sessions' locks could wait for each other. Here both compute, and one of the values stays."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:  # of an object of the owner
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Value:
        value = self._compute(instance)
        kept: Value = instance.__dict__.setdefault(self._name, value)
        return kept
