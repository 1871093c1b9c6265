"""Modules that were loaded in an earlier process, found again without parsing them.

    index.find("polynomial")        ->  FoundModule, if its text, all that it includes and imports, macros and
                                        settings are as they were; else None
    ModuleFacts(module key).get("function", "scale")   ->   the stored facts about a name

Files are searched for as the compiler does, so a new file that comes first in a search path is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slangrad.base.disk.store import Json, Store
from slangrad.base.module_file import CIRCLE, FILE, MODULE, Lookup, Macros, Origin
from slangrad.base.options import Options, store_of
from slangrad.base.source import SourceFile
from slangrad.cache import kernel_key
from slangrad.check.texts.files import UNREADABLE, Files

if TYPE_CHECKING:
    from slangrad.check.checked_module import CheckedModule

UNKNOWN = object()


@dataclass(slots=True, frozen=True)
class FoundModule:
    """`key` is that of the checked module."""

    key: str
    origin: Origin


class ModuleIndex:
    """The modules of a session, as long as none of them had to be parsed."""

    def __init__(self, files: Files, defines: Mapping[str, str], options: Options, target: str) -> None:
        self._files = files
        self._defines = tuple(sorted(defines.items()))
        self._options = options
        self._target = target
        self._known: dict[str, FoundModule] = {}
        self._open: set[str] = set()  # the modules whose lookups are being compared

    def find(self, name: str, importer: Path | None = None) -> FoundModule | None:
        """The module of a name or path."""
        module = self._known.get(name)
        if module is not None:
            return module
        try:
            file = self._files.module(name, importer)
        except UNREADABLE:
            return None
        if file is None:
            return None
        source, path = file
        key = name if path is None else str(path)
        return self._enter(name, self._known.get(key) or self.of_text(key, source, path))

    def of_text(self, name: str, source: SourceFile, path: Path | None) -> FoundModule | None:
        """The module of a text."""
        file_macros = self._files.macros(path)
        macros = self._defines if file_macros is None else file_macros
        data = store_of(self._options).get(self._key(source, macros))
        if data is None:
            return None
        key, also, lookups = json.loads(data)
        requests, texts = tuple(Lookup(*lookup) for lookup in lookups), dict[str, SourceFile]()
        if not self._are_same(name, requests, texts):
            return None
        self._keep_text(source)
        module = FoundModule(key, Origin(source, path, requests, texts, macros))
        if also:
            self._known.setdefault(also, module)
        return self._enter(name, module)

    def of_precompiled(self, name: str, path: Path, data: bytes) -> FoundModule | None:
        """The module in the bytes of a file."""
        return self.of_text(name, self._files.precompiled.add(path, data), path)

    def _enter(self, name: str, module: FoundModule | None) -> FoundModule | None:
        if module is not None:
            self._known[name] = module
        return module

    def found(self) -> list[Origin]:
        """The origins of the modules that were found so far."""
        return [module.origin for module in self._known.values()]

    def _are_same(self, name: str, requests: Iterable[Lookup], texts: dict[str, SourceFile]) -> bool:
        """Whether all lookups of a module have the same meaning. If not, modules that import it count as not found."""
        known = dict(self._known)
        self._open.add(name)
        same = all(self._is_same(request, texts) for request in requests)
        self._open.discard(name)
        if not same:
            self._known = known
        return same

    def _leads_back(self, name: str, asker: Path | None, digest: str) -> bool:
        """Whether an import in a circle means the module with that text."""
        try:
            file = self._files.module(name, asker)
        except UNREADABLE:
            return False
        if file is None or file[0].digest != digest:
            return False
        path = file[1]
        return (name if path is None else str(path)) in self._open or self.find(name, asker) is not None

    def _is_same(self, request: Lookup, texts: dict[str, SourceFile]) -> bool:
        """Whether a name still has the same meaning; the text is added to `texts`."""
        kind, name, asker, wanted = request
        if kind == MODULE and wanted.startswith(CIRCLE):
            return self._leads_back(name, Path(asker) if asker else None, wanted.removeprefix(CIRCLE))
        if kind == MODULE:
            module = self.find(name, Path(asker) if asker else None)
            return module is not None and module.key == wanted
        try:
            source = self._file(kind, name, asker)
        except UNREADABLE:
            return False
        if source is None or source.digest != wanted:
            return False
        self._keep_text(source)
        texts[wanted] = source
        return True

    def _file(self, kind: str, name: str, asker: str) -> SourceFile | None:
        if kind == FILE:
            file = self._files.part(name, Path(asker) if asker else None)
            return None if file is None else file[0]
        return self._files.included(name, asker)

    def _keep_text(self, source: SourceFile) -> None:
        """If the module has to be parsed, the same text is parsed."""
        self._files.kept[Path(source.name)] = source

    def _key(self, source: SourceFile, macros: Macros) -> str:
        folders = tuple(map(str, self._files.include_paths))
        working_folder = str(Path().absolute())
        inputs = (source.name, source.text, folders, working_folder, macros)
        return kernel_key(self._options, self._target, "module", *inputs)

    def keep(self, module: CheckedModule) -> None:
        """For later processes: a checked module, and those that it imports."""
        for kept in reachable(module):
            origin = kept.origin
            assert origin is not None, "a module of the standard library"
            key = self._key(origin.source, origin.macros)
            if key:
                entry = [kept.key, kept.declaration.module_name or "", origin.requests]
                store_of(self._options).put(key, json.dumps(entry).encode())


class ModuleFacts:
    """Facts about the names of a module, on disk, which hold for all targets of its kernels."""

    def __init__(self, module: str, options: Options, target: str) -> None:
        self._inputs = (options, target, "fact", module)
        self._module = module

    @property
    def _store(self) -> Store:
        return store_of(self._inputs[0])

    def get(self, kind: str, name: str) -> Json:
        """UNKNOWN where nothing is known."""
        data = self._store.get(self._key(kind, name)) if self._module else None
        return UNKNOWN if data is None else json.loads(data)

    def put(self, kind: str, name: str, value: object) -> None:
        options, target, *_ = self._inputs
        for known_target in (target, *options.also) if self._module else ():
            key = self._key(kind, name, known_target)
            if key and self._store.get(key) is None:
                self._store.put(key, json.dumps(value).encode())

    def _key(self, kind: str, name: str, target: str = "") -> str:
        options, own, *inputs = self._inputs
        return kernel_key(options, target or own, *inputs, kind, name)


def reachable(module: CheckedModule) -> list[CheckedModule]:
    """A module and all that it imports, directly or not."""
    seen: list[CheckedModule] = []
    pending = [module]
    while pending:
        next_module = pending.pop(0)
        if next_module not in seen:
            seen.append(next_module)
            pending += next_module.imports
    return seen
