"""From a bound call to a kernel: its text, the pipeline, and the places of its arguments.

In: a BoundCall and how its streams move.   Out: `Compiled`: what a device launches and how its arguments are
packed.

Errors that the compiler finds in the generated page name the Python argument they are about. The compiler
itself is loaded when the first kernel is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.call.bind import BoundCall
from slangrad.call.kernel_source import ENTRY, KernelText, write_kernel
from slangrad.call.packing import Packer, packer_of
from slangrad.check import checked
from slangrad.check.declref import DeclRef
from slangrad.marshal.errors import SlangCompileError
from slangrad.runtime.device import Kernel
from slangrad.syntax import ast
from slangrad.syntax.walk import walk


@dataclass(slots=True)
class Compiled:
    kernel: Kernel
    packer: Packer
    used: frozenset[str]
    text: str
    stages: Any


@dataclass(slots=True)
class CompiledEntry:
    """A kernel that the user wrote; `parameters`: under which names its variables are arguments."""

    kernel: Kernel
    packer: Packer
    used: frozenset[str]
    parameters: Mapping[Any, str]
    stages: Any


class KernelCompiler:
    """The compiler of one program and target. `lock` is held by whoever asks or changes the program."""

    __slots__ = ("_compiled", "_entries", "lock", "options", "program", "target")

    def __init__(self, program: Any, options: Options, target: str) -> None:
        self.program = program
        self.options = options
        self.target = target
        self.lock = threading.RLock()
        self._compiled: dict[Hashable, Compiled] = {}
        self._entries: dict[Hashable, CompiledEntry] = {}

    def compile(self, call: BoundCall, classes: dict[str, str], alone: frozenset[str]) -> Compiled:
        """The kernel of a call; calls whose kernels read the same share it."""
        with self.lock:
            written = write_kernel(call, classes, alone)
            modules = tuple(self.program.modules[name] for name in call.function.imports())
            key = (written.text, modules)
            if key not in self._compiled:
                self._compiled[key] = self._compile(call, written)
            return self._compiled[key]

    def compile_entry(self, entry: DeclRef) -> CompiledEntry:
        """The kernel of a function of the program that is an entry point itself."""
        with self.lock:
            if entry.key not in self._entries:
                made = self._run_on_entry(entry)
                packer = packer_of(made.arguments)
                self._entries[entry.key] = CompiledEntry(
                    made.kernel, packer, made.used, made.parameters, made
                )
            return self._entries[entry.key]

    def _run_on_entry(self, entry: DeclRef) -> Any:
        from slangrad import pipeline  # noqa: PLC0415  a warm start needs neither parser nor LLVM

        return pipeline.compile_entry_point(self.program, entry, self.options, self.target)

    def _compile(self, call: BoundCall, written: KernelText) -> Compiled:
        name = f"kernel {len(self._compiled) + 1} of {call.function.name}"
        if "kernel" in self.options.dump:
            print(f"// {name}\n{written.text}")
        made = self._run_pipeline(SourceFile(name, written.text), written)
        self._check_callee(call, name)
        return Compiled(made.kernel, packer_of(made.arguments), made.used, written.text, made)

    def _check_callee(self, call: BoundCall, name: str) -> None:
        """The kernel must call the function that was resolved from the Python arguments."""
        wanted = call.function.candidate.view.declaration
        found = [each for each in _called(self.program.modules[name].declaration) if each.name == wanted.name]
        if found and wanted not in found:
            message = (
                f"the call of '{wanted.name}' means another overload in Slang than for the Python arguments"
            )
            details = [str(call.function.candidate), f"{found[0].span.location}: {found[0].name}"]
            raise SlangCompileError("E1016", message, details, "give the overloads different names")

    def _run_pipeline(self, source: SourceFile, written: KernelText) -> Any:
        from slangrad import pipeline  # noqa: PLC0415  a warm start needs neither parser nor LLVM

        try:
            return pipeline.compile_kernel(self.program, source, ENTRY, self.options, self.target)
        except CompileError as error:
            raise _explained(error, source.name, written) from error


def _called(page: ast.Module) -> Iterator[Any]:
    """The declarations of all functions that a checked text calls."""
    for node in walk(page):
        form = node.ref if isinstance(node, ast.Call) else None
        if isinstance(form, checked.Call):
            target = form.function
            while isinstance(target, checked.Derivative):
                target = target.function
            yield target.declaration


def _explained(error: CompileError, name: str, written: KernelText) -> SlangCompileError:
    """The compiler's errors, and whose argument each is about."""
    details = []
    for each in error.diagnostics:
        label = _label_of(each, name, written)
        details.append(f"argument '{label}': {each}" if label else str(each))
    in_page = any(each.span is not None and each.span.source.name == name for each in error.diagnostics)
    shown = ["in the generated kernel:", *written.text.splitlines()] if in_page else []
    return SlangCompileError("E1016", "Slang compilation error: the kernel of the call", [*details, *shown])


def _label_of(diagnostic: Diagnostic, name: str, written: KernelText) -> str:
    if diagnostic.span is None or diagnostic.span.source.name != name:
        return ""
    return written.labels.get(diagnostic.span.line, "")
