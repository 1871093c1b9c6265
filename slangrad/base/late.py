"""Modules that are loaded when something of them is first used.

    FRONT = Late("slangrad.call.front")        nothing is loaded yet
    FRONT.Binder(...)                          now it is

A program whose kernels are on the disk already needs neither parser, checker nor LLVM, and does not pay for
loading them. Who may load what late stands in a table of tests/test_layers.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    """Stands for a module; its names are the module's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found
