"""From a bound call to a kernel: its text, the pipeline, and the places of its arguments.

In: a BoundCall and how its streams move.   Out: `Compiled`: what a device launches and how its arguments are
packed.

Errors that the compiler finds in the generated page name the Python argument they are about. The compiler
itself is loaded when the first kernel is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.cache import find_kernel, keep_kernel, kernel_key
from slangrad.call.bind import BoundCall
from slangrad.call.compiled import PIPELINE, Compiled
from slangrad.call.kernel_source import ENTRY, KernelText, write_kernel
from slangrad.call.packing import Packer, packer_of
from slangrad.check.conforming import Conformance
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.marshal.errors import CallCompileError
from slangrad.runtime.device import Kernel
from slangrad.syntax import ast
from slangrad.syntax.walk import walk

Place = tuple[str, int, str]


@dataclass(slots=True)
class CompiledEntry:
    """A kernel that the user wrote; `argument_of`: under which name a variable is an argument, None if it is none.
    `read`: at which bytes of an argument it reads, None where that is not known."""

    kernel: Kernel
    packer: Packer
    used: frozenset[str]
    arguments: Mapping[Place, str]
    read: Mapping[str, Collection[int] | None]
    is_cached: bool

    def argument_of(self, declared: ast.Declaration) -> str | None:
        return self.arguments.get(place_of(declared))


class KernelCompiler:
    """The compiler of one program and target. `lock` is held by whoever asks or changes the program."""

    __slots__ = ("_compiled", "_entries", "_newest", "lock", "options", "program", "target")

    def __init__(self, program: Any, options: Options, target: str, lock: Any) -> None:
        self.program = program
        self.options = options
        self.target = target
        self.lock = lock
        self._compiled: dict[Hashable, Compiled] = {}
        self._newest: tuple[KernelText, Any] | None = None
        self._entries: dict[Hashable, CompiledEntry] = {}

    def _disk_key(self, *parts: object) -> str:
        return kernel_key(self.options, self.target, *parts)

    # --- kernels of calls ---

    def compile(self, call: BoundCall, classes: dict[str, str], alone: frozenset[str]) -> Compiled:
        """The kernel of a call; calls whose kernels read the same share it."""
        with self.lock:
            written = write_kernel(call, classes, alone)
            modules = tuple(self.program.modules[name] for name in call.function.imports())
            key = (written.text, modules)
            if key not in self._compiled:
                for each in modules:
                    self.program.require_closed(each, call.function.candidate.view.declaration)
                on_disk = self._disk_key("call", written.text, [each.key for each in modules])
                self._compiled[key] = self._find(on_disk, call, written) or self._compile(
                    on_disk, call, written
                )
            return self._compiled[key]

    def _find(self, key: str, call: BoundCall, written: KernelText) -> Compiled | None:
        found = find_kernel(self.options, self.target, key)
        if found is None:
            return None
        packer = packer_of(found.arguments)
        return Compiled(
            found.kernel, packer, found.used, key, lambda: self._stages(call, written), lambda: written.text
        )

    def _compile(self, key: str, call: BoundCall, written: KernelText) -> Compiled:
        made = self._stages(call, written)
        keep_kernel(self.options, key, made.image, made.arguments, made.used)
        packer = packer_of(made.arguments)
        return Compiled(
            made.kernel, packer, made.used, key, lambda: self._stages(call, written), lambda: written.text
        )

    def _stages(self, call: BoundCall, written: KernelText) -> Any:
        """What the pipeline makes on the way. All IR of a kernel is in it, so only the newest is kept."""
        if self._newest is None or self._newest[0] is not written:
            self._newest = written, self._make(call, written)
        return self._newest[1]

    def _make(self, call: BoundCall, written: KernelText) -> Any:
        kind = "checked kernel" if self.options.check else "kernel"
        name = f"{kind} {len(self._compiled) + 1} of {call.function.name}"
        if "kernel" in self.options.dump:
            print(f"// {name}\n{written.text}")
        made = self._run_pipeline(SourceFile(name, written.text, is_page=True), written, call.conformances)
        self._check_callee(call, name)
        return made

    # --- kernels of users ---

    def compile_entry(self, entry: DeclRef, conformances: tuple[Conformance, ...] = ()) -> CompiledEntry:
        """The kernel of a function of the program that is an entry point itself."""
        with self.lock:
            known = (*entry.key, *map(str, conformances))
            if known not in self._entries:
                module = self.program.module_of(entry.declaration)
                self.program.require_closed(module, entry.declaration)
                key = self._entry_key(entry, conformances)
                self._entries[known] = self._find_entry(key) or self._make_entry(key, entry, conformances)
            return self._entries[known]

    def _entry_key(self, entry: DeclRef, conformances: tuple[Conformance, ...]) -> str:
        """Instances of generic functions are not kept on disk, nor what is linked with types."""
        if entry.substitution or conformances:
            return ""
        module = self.program.module_of(entry.declaration)
        return self._disk_key("entry", place_of(entry.declaration), module.key)

    def _find_entry(self, key: str) -> CompiledEntry | None:
        found = find_kernel(self.options, self.target, key)
        if found is None:
            return None
        named, read = found.extra
        arguments = {(file, start, name): argument for file, start, name, argument in named}
        return CompiledEntry(found.kernel, packer_of(found.arguments), found.used, arguments, read, True)

    def _make_entry(self, key: str, entry: DeclRef, conformances: tuple[Conformance, ...]) -> CompiledEntry:
        made = PIPELINE.compile_entry_point(self.program, entry, self.options, self.target, conformances)
        arguments = {place_of(declared): argument for declared, argument in made.parameters.items()}
        extra = [[[*place, argument] for place, argument in arguments.items()], made.read]
        keep_kernel(self.options, key, made.image, made.arguments, made.used, extra)
        return CompiledEntry(made.kernel, packer_of(made.arguments), made.used, arguments, made.read, False)

    def _check_callee(self, call: BoundCall, name: str) -> None:
        """The kernel must call the function that was resolved from the Python arguments."""
        wanted = call.function.candidate.view.declaration
        found = [each for each in _called(self.program.modules[name].declaration) if each.name == wanted.name]
        if found and wanted not in found:
            message = (
                f"the call of '{wanted.name}' means another overload in Slang than for the Python arguments"
            )
            details = [str(call.function.candidate), f"{found[0].span.location}: {found[0].name}"]
            raise CallCompileError("E1016", message, details, "give the overloads different names")

    def _run_pipeline(
        self, source: SourceFile, written: KernelText, conformances: tuple[Conformance, ...]
    ) -> Any:
        try:
            return PIPELINE.compile_kernel(
                self.program, source, ENTRY, self.options, self.target, conformances
            )
        except CompileError as error:
            raise _explained(error, source.name, written) from error


def place_of(declared: Any) -> Place:
    """What names a declaration of a program in another process."""
    return declared.span.source.name, declared.span.start, getattr(declared, "name", "")


def _called(page: ast.Module) -> Iterator[Any]:
    """The declarations of all functions that a checked text calls."""
    for node in walk(page):
        form = node.ref if isinstance(node, ast.Call) else None
        if isinstance(form, checked.Call):
            target = form.function
            while isinstance(target, checked.Derivative):
                target = target.function
            yield target.declaration


def _explained(error: CompileError, name: str, written: KernelText) -> CallCompileError:
    """The compiler's errors; where they are in the generated kernel, also whose argument each is about."""
    in_page = any(each.span is None or each.span.source.name == name for each in error.diagnostics)
    if not in_page:
        return _explained_alone(error)
    details = []
    for each in error.diagnostics:
        label = _label_of(each, name, written)
        details.append(f"argument '{label}': {each}" if label else str(each))
    shown = ["in the generated kernel:", *written.text.splitlines()]
    return CallCompileError("E1016", "Slang compilation error: the kernel of the call", [*details, *shown])


def _explained_alone(error: CompileError) -> CallCompileError:
    """Errors in the text of the user, as they are."""
    errors = [each for each in error.diagnostics if each.is_error]
    code = errors[0].code
    message = str(CompileError(errors)).removeprefix(f"error[{code}]: ")
    return CallCompileError(code, message, note="Slang compilation error: found when the call was compiled")


def _label_of(diagnostic: Diagnostic, name: str, written: KernelText) -> str:
    if diagnostic.span is None or diagnostic.span.source.name != name:
        return ""
    return written.labels.get(diagnostic.span.line, "")
