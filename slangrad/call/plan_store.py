"""Plans on disk: a call of an earlier process needs neither the parser nor the checker.

    key = store.key(settings, (1, float, (Tensor, f32, 1), ...), strict)     "" where nothing is kept
    store.find(key)  ->  Launchable, or None          store.keep(key, launchable)

The key holds all that a plan depends on: the texts of the module and of its imports, the function, settings, and the
key of the arguments. Each call may add a kernel to its plan. `PlanKernels` finds a kernel by the way in which
streams move, and binds the call anew for a missing one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.diagnostics import CompileWarning
from slangrad.base.options import Options, store_of
from slangrad.base.process.warn import warn
from slangrad.cache import find_kernel, keep_ready, kernel_key
from slangrad.call.binding.call_request import CallSettings
from slangrad.call.binding.launchable import Launchable, LeafSource
from slangrad.call.plans.packing import Compiled, packer_of
from slangrad.ir.data import types as ir
from slangrad.ir.data.type_data import type_data
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.saved import Unsaved, restored, saved
from slangrad.tensors.elements.element_types import dtype_text

if TYPE_CHECKING:
    from slangrad.call.binding.bind import Binding
    from slangrad.call.sessions import Kept

KNOWN_PACKAGES = ("builtins", "numpy", "slangrad")


class PlanStore:
    """The plans of one function of a module. `module` is the key of its texts; without one nothing is kept."""

    def __init__(
        self, module: str, function: str, options: Options, target: str, types: ProgramTypes
    ) -> None:
        self._module = module
        self._function = function
        self._options = options
        self._target = target
        self._types = types

    def key(self, settings: CallSettings, arguments: tuple[Hashable, ...], strict: bool) -> str:
        if not self._module:
            return ""
        try:
            parts = [stable(settings.map_positional), stable(settings.map_named), stable(arguments)]
        except Unsaved:
            return ""
        shaped = (settings.globals, settings.group, settings.conformances, settings.lanes)
        inputs = (settings.mode, settings.order, *shaped, strict, *parts)
        return kernel_key(self._options, self._target, "plan", self._module, self._function, *inputs)

    def find(self, key: str) -> Launchable | None:
        data = store_of(self._options).get(key) if key else None
        if data is None:
            return None
        name, dims, leaves, sources, created, group = json.loads(data)
        types = self._types
        return Launchable(
            name,
            dims,
            [restored(leaf, types) for leaf in leaves],
            [LeafSource(index, tuple(path)) for index, path in sources],
            restored(created, types),
            None if group is None else tuple(group),
        )

    def keep(self, key: str, call: Launchable) -> None:
        if not key:
            return
        try:
            leaves = [saved(leaf, self._types) for leaf in call.leaves]
            created = saved(call.created, self._types)
        except Unsaved:
            return
        sources = [(source.value_index, source.path) for source in call.sources]
        parts = [call.name, call.call_dims, leaves, sources, created, call.group]
        data = json.dumps(parts, separators=(",", ":"))
        store_of(self._options).put(key, data.encode())


def stable(part: object) -> object:
    """A part of a key in a form that is the same in every process; `Unsaved` if it has none."""
    if part is None or isinstance(part, (str, bool, int, float)):
        return part
    if isinstance(part, (tuple, list)):
        return ("list", *map(stable, part))
    if isinstance(part, dict):
        return ("dict", *((name, stable(value)) for name, value in part.items()))
    if isinstance(part, Enum):
        return (stable(type(part)), str(part.value))
    if isinstance(part, type) and part.__module__.split(".")[0] in KNOWN_PACKAGES:
        return (part.__module__, part.__qualname__)
    if isinstance(part, np.dtype):
        return ("dtype", str(part.descr) if part.names else dtype_text(part))
    if isinstance(part, ir.Type):
        return ("type", json.dumps(type_data(part)))
    raise Unsaved(f"{part!r} has no form that another process knows")


class PlanKernels:
    """The kernels of one plan. `bind` makes the bound call, which is needed for kernels that are not there yet.
    `others`: those of the same plan for other targets, which are kept on disk with these."""

    __slots__ = ("_bind", "_bound", "_key", "_others", "_session")

    def __init__(
        self, key: str, session: Kept, bind: Callable[[], Binding], others: Sequence[PlanKernels] = ()
    ) -> None:
        self._others = others
        self._key = key
        self._session = session
        self._bind: Callable[[], Binding] | None = bind
        self._bound: Binding | None = None

    @property
    def bound(self) -> Binding:
        if self._bind is not None:
            with self._session.lock:
                self._bound = self._bound or self._bind()
                self._bind = None
        assert self._bound is not None
        return self._bound

    def compile(self, letters: dict[str, str], alone: frozenset[str]) -> Compiled:
        """The kernel for streams that move so; see `CompileFor`."""
        stored = self._find(letters, alone) if self._bound is None else None
        compiled = stored or self._compile(letters, alone)
        for other in self._others:
            other.keep(letters, alone)
        return compiled

    def keep(self, letters: dict[str, str], alone: frozenset[str]) -> None:
        """Have the kernel on disk, ready for its device. A CompileWarning where the target has none for it."""
        options, target = self._session.settings, self._session.target
        try:
            keep_ready(options, target, self.compile(letters, alone).kernel)
        except CallError as error:
            warn(f"no kernel is kept for {target}: {error}", CompileWarning)

    def _compile(self, letters: dict[str, str], alone: frozenset[str]) -> Compiled:
        with self._session.lock:
            bound = self.bound
            compiled = self._session.compiler.compile(bound, letters, alone)
        if self._key and compiled.key:
            store_of(self._session.settings).put(self._link(letters, alone), compiled.key.encode())
        return compiled

    def _link(self, letters: dict[str, str], alone: frozenset[str]) -> str:
        options = self._session.settings
        inputs = (tuple(letters.items()), tuple(sorted(alone)))
        return kernel_key(options, self._session.target, "kernel of a plan", self._key, *inputs)

    def _find(self, letters: dict[str, str], alone: frozenset[str]) -> Compiled | None:
        """A kernel that an earlier process has made for this plan."""
        if not self._key:
            return None
        options = self._session.settings
        key = (store_of(options).get(self._link(letters, alone)) or b"").decode()
        with self._session.lock:
            loaded = self._session.kernels
            if key not in loaded:
                stored = find_kernel(options, self._session.target, key)
                if stored is None:
                    return None
                packer = packer_of(stored.arguments)
                stages = lambda: self._compile(letters, alone).stages
                text = lambda: self._compile(letters, alone).text
                loaded[key] = Compiled(stored.kernel, packer, stored.used, key, stages, text)
            return loaded[key]
