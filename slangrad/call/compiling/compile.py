"""From a bound call to a kernel: its text, the pipeline, and the places of its arguments.

In: a Binding and how its streams move.   Out: `Compiled`: the kernel, and the packing of its arguments.

Errors that the compiler finds in the generated page name the Python argument they are about. The compiler
itself is loaded when the first kernel is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

from slangrad.base.diagnostics import CompileError, CompileWarning, Diagnostic
from slangrad.base.options import Options
from slangrad.base.process.warn import warn
from slangrad.base.source import SourceFile
from slangrad.cache import (
    StoredKernel,
    find_kernel,
    keep_kernel,
    keep_ready,
    kernel_entry,
    kernel_key,
    stored_kernel,
)
from slangrad.call.binding.bind import Binding
from slangrad.call.compiling.kernel_source import ENTRY, KernelText, write_kernel
from slangrad.call.compiling.recipe import Recipe, recipe_of_options
from slangrad.call.compiling.together import CompileJob, MissingKernel, is_gathering
from slangrad.call.plans.packing import PIPELINE, BlockPacker, Compiled, packer_of
from slangrad.check.conforming import Conformance
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef, visible_parameters
from slangrad.marshal.errors import CallCompileError
from slangrad.marshal.protocol.spelling import spell, spell_argument
from slangrad.runtime.device import Kernel
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

if TYPE_CHECKING:
    from slangrad.check.checked_module import CheckedModule
    from slangrad.check.modules import CheckedProgram
    from slangrad.check.reflect import Reflection
    from slangrad.pipeline import CompiledKernel

Place = tuple[str, int, str]
FindRecipe = Callable[["Iterable[CheckedModule]"], Recipe | None]


@dataclass(slots=True)
class CompiledEntry:
    """A kernel that the user wrote. `argument_of`: the argument's name of a variable, None if it is no argument.
    `read`: at which bytes of an argument it reads, None if unknown."""

    kernel: Kernel
    packer: BlockPacker
    used: frozenset[str]
    arguments: Mapping[Place, str]
    read: Mapping[str, Collection[int] | None]
    is_cached: bool

    def argument_of(self, declared: ast.Declaration) -> str | None:
        return self.arguments.get(place_of(declared))


class KernelCompiler:
    """The compiler of one program and target. All reads and changes of the program hold `lock`. `recipe` returns
    how modules of the program are made."""

    # fmt: off
    __slots__ = ("_answers", "_compiled", "_entries", "_newest", "_numbers", "lock", "options", "program", "recipe",
                 "target")
    # fmt: on

    def __init__(
        self, program: CheckedProgram, options: Options, target: str, lock: RLock, recipe: FindRecipe
    ) -> None:
        self.program = program
        self.options = options
        self.target = target
        self.lock = lock
        self.recipe = recipe
        self._answers: dict[Hashable, bytes] = {}
        self._compiled: dict[Hashable, Compiled] = {}
        self._numbers: dict[Hashable, int] = {}
        self._newest: tuple[KernelText, CompiledKernel] | None = None
        self._entries: dict[Hashable, CompiledEntry] = {}

    def _disk_key(self, *parts: object) -> str:
        return kernel_key(self.options, self.target, *parts)

    def take(self, key: Hashable, answer: bytes) -> None:
        """Keep a kernel that a worker has made for the next request, unless another thread has compiled it."""
        with self.lock:
            if key not in self._compiled and key not in self._entries:
                self._answers[key] = answer

    def _stored(self, key: Hashable, on_disk: str) -> StoredKernel | None:
        answer = self._answers.pop(key, b"")
        if not answer:
            return find_kernel(self.options, self.target, on_disk)
        keep_kernel(self.options, on_disk, answer)
        return stored_kernel(self.target, answer)

    def _refer(
        self,
        key: Hashable,
        modules: Sequence[CheckedModule],
        seen_from: CheckedModule,
        kernel: Mapping[str, object],
    ) -> None:
        """Raise MissingKernel in a thread that gathers missing kernels: it compiles them later, perhaps by a
        worker."""
        if is_gathering():
            imports = [
                (name, module.key) for name, module in self.program.modules.items() if module in modules
            ]
            common = {
                "options": recipe_of_options(self.options),
                "imports": imports,
                "seen_from": seen_from.key,
            }
            raise MissingKernel(CompileJob(self, key, modules, {**kernel, **common}))

    # --- kernels of calls ---

    def compile(self, call: Binding, classes: dict[str, str], alone: frozenset[str]) -> Compiled:
        """The kernel of a call; calls whose kernels read the same share it."""
        with self.lock:
            written = write_kernel(call, classes, alone)
            modules = tuple(self.program.modules[name] for name in call.function.imports())
            key = (written.text, modules)
            if key not in self._compiled:
                for module in modules:
                    self.program.require_closed(module, call.function.candidate.view.declaration)
                self._compiled[key] = self._make_call(key, modules, call, written)
            return self._compiled[key]

    def _make_call(
        self, key: Hashable, modules: Sequence[CheckedModule], call: Binding, written: KernelText
    ) -> Compiled:
        on_disk = self._disk_key("call", written.text, [module.key for module in modules])
        name = self._name_of(key, call)
        stored = self._stored(key, on_disk)

        def stages() -> CompiledKernel:
            return self._stages(call, name, written)

        if stored is None:
            callee, types = place_of(call.function.candidate.view.declaration), spelled(call.conformances)
            kernel = {"page": [name, written.text], "callee": callee, "conformances": types}
            self._refer(key, modules, modules[0], kernel)
            compiled = stages()
            keep_kernel(
                self.options, on_disk, kernel_entry(compiled.image, compiled.arguments, compiled.used)
            )
            # The kernel is None where no device launches the target's code.
            stored = StoredKernel(compiled.kernel, compiled.arguments, compiled.used, None)  # type: ignore[arg-type]
        packer = packer_of(stored.arguments)
        return Compiled(stored.kernel, packer, stored.used, on_disk, stages, lambda: written.text)

    def _name_of(self, key: Hashable, call: Binding) -> str:
        kind = "checked kernel" if self.options.check else "kernel"
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        return f"{kind} {number} of {call.function.name}"

    def _stages(self, call: Binding, name: str, written: KernelText) -> CompiledKernel:
        """The compiled kernel with all of its stages. They hold all IR, so only the newest is kept."""
        if self._newest is None or self._newest[0] is not written:
            self._newest = written, self._make(call, name, written)
        return self._newest[1]

    def _make(self, call: Binding, name: str, written: KernelText) -> CompiledKernel:
        if "kernel" in self.options.dump:
            print(f"// {name}\n{written.text}")
        compiled = self._run_pipeline(
            SourceFile(name, written.text, is_page=True), written, call.conformances
        )
        view = call.function.candidate.view
        refuse_other_callee(
            self.program.modules[name].declaration, place_of(view.declaration), str(call.function.candidate)
        )
        return compiled

    # --- kernels of users ---

    def compile_entry(self, entry: DeclRef, conformances: tuple[Conformance, ...] = ()) -> CompiledEntry:
        """The kernel of a function of the program that is an entry point itself."""
        with self.lock:
            entry_key = (*entry.key, *map(str, conformances))
            if entry_key not in self._entries:
                module = self.program.module_of(entry.declaration)
                self.program.require_closed(module, entry.declaration)
                self._entries[entry_key] = self._make_entry(entry_key, module, entry, conformances)
            return self._entries[entry_key]

    def keep_entry(self, view: Reflection, entry: DeclRef) -> None:
        """Have an entry point of another target's program on disk, for this target; `view` is its module here. A
        CompileWarning where the target has no kernel for it."""
        generics = [spell_argument(generic) for generic in entry.arguments]
        try:
            same = self.compile_entry(function_at(view, place_of(entry.declaration), generics))
            keep_ready(self.options, self.target, same.kernel)
        except CompileError as error:
            warn(f"no kernel is kept for {self.target}: {error}", CompileWarning)

    def _make_entry(
        self,
        entry_key: Hashable,
        module: CheckedModule,
        entry: DeclRef,
        conformances: tuple[Conformance, ...],
    ) -> CompiledEntry:
        """The entry point, compiled or loaded. A kernel with type conformances is not kept on disk."""
        place, generics = (
            place_of(entry.declaration),
            [spell_argument(generic) for generic in entry.arguments],
        )
        key = "" if conformances else self._disk_key("entry", place, generics, module.key)
        is_cached = entry_key not in self._answers
        stored = self._stored(entry_key, key)
        if stored is None:
            kernel = {"entry": place, "generics": generics, "conformances": spelled(conformances)}
            self._refer(entry_key, [module], module, kernel)
            compiled = PIPELINE.compile_entry_point(
                self.program, entry, self.options, self.target, conformances
            )
            extra = extra_of(compiled)
            keep_kernel(
                self.options, key, kernel_entry(compiled.image, compiled.arguments, compiled.used, extra)
            )
            stored, is_cached = StoredKernel(compiled.kernel, compiled.arguments, compiled.used, extra), False
        named, read = stored.extra
        arguments = {(file, start, name): argument for file, start, name, argument in named}
        return CompiledEntry(
            stored.kernel, packer_of(stored.arguments), stored.used, arguments, read, is_cached
        )

    def _run_pipeline(
        self, source: SourceFile, written: KernelText, conformances: tuple[Conformance, ...]
    ) -> CompiledKernel:
        try:
            compiled: CompiledKernel = PIPELINE.compile_kernel(
                self.program, source, ENTRY, self.options, self.target, conformances
            )
            return compiled
        except CompileError as error:
            raise _explained(error, source.name, written) from error


def extra_of(compiled: CompiledKernel) -> list[object]:
    """The data of a CompiledEntry besides its kernel, as JSON."""
    arguments = [[*place_of(declared), argument] for declared, argument in compiled.parameters.items()]
    return [arguments, dict(sorted(compiled.read.items()))]


def spelled(conformances: Iterable[Conformance]) -> list[tuple[str, str, int]]:
    return [
        (spell(conformance.interface), spell(conformance.type), conformance.id)
        for conformance in conformances
    ]


def refuse_other_callee(page: ast.ModuleDeclaration, wanted: Sequence[object], shown: str = "") -> None:
    """The kernel must call the function that was resolved from the Python arguments."""
    name = wanted[-1]
    functions = [function for function in _called(page) if function.name == name]
    if functions and not any(place_of(function) == tuple(wanted) for function in functions):
        message = f"the call of '{name}' means another overload in Slang than for the Python arguments"
        details = [shown, f"{functions[0].span.location}: {functions[0].name}"]
        raise CallCompileError("E1016", message, details, "give the overloads different names")


def place_of(declared: ast.Declaration) -> Place:
    """The place of a declaration, which names it in another process."""
    return declared.span.source.name, declared.span.start, getattr(declared, "name", "")


def function_at(view: Reflection, place: Sequence[object], generics: Sequence[str]) -> DeclRef:
    """The function at a place of a module, with generic arguments as they are spelled. Both are known to be there."""
    nodes = (
        node for part in view.module.files for node in walk(part) if isinstance(node, ast.FunctionDeclaration)
    )
    function = next(node for node in nodes if place_of(node) == tuple(place))
    arguments: Any = (  # types that are found
        int(generic) if generic.isdecimal() else view.find_type(generic) for generic in generics
    )
    return DeclRef(function, dict(zip(visible_parameters(function), arguments, strict=True)))


def _called(page: ast.ModuleDeclaration) -> Iterator[ast.Declaration]:
    """The declarations of all functions that a checked text calls."""
    for node in walk(page):
        form = node.ref if isinstance(node, ast.Call) else None
        if isinstance(form, checked.FunctionCall):
            target = form.function
            while isinstance(target, checked.Derivative):
                target = target.function
            yield target.declaration


def _explained(error: CompileError, name: str, written: KernelText) -> CallCompileError:
    """The compiler's errors; those in the generated kernel also name their argument."""
    in_page = any(
        diagnostic.span is None or diagnostic.span.source.name == name for diagnostic in error.diagnostics
    )
    if not in_page:
        return CallCompileError.of(error)
    details = []
    for diagnostic in error.diagnostics:
        label = _label_of(diagnostic, name, written)
        details.append(f"argument '{label}': {diagnostic}" if label else str(diagnostic))
    shown = ["in the generated kernel:", *written.text.splitlines()]
    return CallCompileError("E1016", "Slang compilation error: the kernel of the call", [*details, *shown])


def _label_of(diagnostic: Diagnostic, name: str, written: KernelText) -> str:
    if diagnostic.span is None or diagnostic.span.source.name != name:
        return ""
    return written.labels.get(diagnostic.span.line, "")
