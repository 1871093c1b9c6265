"""Protocols of sessions and devices, as calls use them. Their classes are in `api`, a higher layer.

A session has a newest generation: the objects that it derived from its texts since the last reload.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING, Protocol

from slangrad.base.options import Options
from slangrad.runtime.device import Device

if TYPE_CHECKING:
    from slangrad.call.binding.call_request import CheckMode
    from slangrad.call.binding.program import ModuleTypes
    from slangrad.call.compiling.compile import KernelCompiler
    from slangrad.call.plans.packing import Compiled
    from slangrad.check.reflect import Reflection


class HostDevice(Protocol):
    """The user's device of a session. `checking` is None outside of check mode."""

    runtime: Device
    checking: CheckMode | None


class Kept(Protocol):
    """Kernels, and their compiler."""

    kernels: dict[str, Compiled]
    settings: Options
    target: str
    lock: RLock

    @property
    def compiler(self) -> KernelCompiler: ...


class PageModule(Protocol):
    """A text as a module of its generation."""

    key: str

    @property
    def view(self) -> Reflection: ...
    @property
    def all_types(self) -> ModuleTypes: ...
    def imports(self) -> tuple[str, ...]: ...


class SessionGeneration(Kept, Protocol):
    """`checked`: the same program for calls in check mode. `others`: the same texts for other targets."""

    expired: bool

    @property
    def session(self) -> Session: ...
    @property
    def checked(self) -> Kept: ...
    @property
    def others(self) -> Sequence[SessionGeneration]: ...
    def page(self, name: str, text: str) -> PageModule: ...


class Session(Protocol):
    """A space of modules with one set of options."""

    lock: RLock

    @property
    def device(self) -> HostDevice: ...
    @property
    def generation(self) -> SessionGeneration: ...
    def refresh(self) -> None: ...
