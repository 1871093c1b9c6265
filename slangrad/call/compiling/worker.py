"""A process that compiles kernels for another one (`workers.py`).

In: on standard input, messages: a program, and a kernel of it.   Out: on standard output, kernels.

A message holds texts and names, so the program is parsed and checked anew; modules are looked for where the other
process has found them. If a module has another key than there, its files have changed, and no kernel is made: the
bytes are those of the other process, or none.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable
from queue import SimpleQueue
from typing import IO, Any

from slangrad import pipeline
from slangrad.backends import backend_of
from slangrad.base.options import Options, store_of
from slangrad.base.process.threads import start_thread
from slangrad.base.source import SourceFile
from slangrad.cache import environment_key, kernel_entry
from slangrad.call.binding.module_index import reachable
from slangrad.call.compiling.compile import extra_of, function_at, refuse_other_callee
from slangrad.call.compiling.kernel_source import ENTRY
from slangrad.call.compiling.recipe import Recipe, files_of, options_of, perform
from slangrad.call.compiling.workers import READY, receive, send
from slangrad.check.checked_module import CheckedModule
from slangrad.check.conforming import Conformance
from slangrad.check.modules import CheckedProgram
from slangrad.check.reflect import Reflection
from slangrad.check.texts import standard


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # stray prints must not mix with answers
    messages: SimpleQueue[bytes] = SimpleQueue()
    if start_thread("slangrad messages", _receive_all, sys.stdin.buffer, messages) is None:
        return
    send(answers, READY)
    worker = CompileWorker()
    standard.files(store_of(Options.from_environment()))  # every program has them
    while True:
        send(answers, worker.answer(messages.get()))


def _receive_all(stream: IO[bytes], messages: SimpleQueue[bytes]) -> None:
    """In its own thread: the end of the parent ends a compilation, too."""
    try:
        while True:
            messages.put(receive(stream))
    finally:
        os._exit(0)


class CompileWorker:
    """Keeps the program of the last message, and its modules by their keys."""

    def __init__(self) -> None:
        self._recipe: Recipe | None = None
        self._program_modules: tuple[CheckedProgram, dict[str, CheckedModule]]

    def answer(self, message: bytes) -> bytes:
        """The bytes of a kernel; none where there is an error, which the parent finds itself."""
        try:
            return self._compiled(json.loads(message))
        except Exception:
            return b""

    def _compiled(self, message: Recipe) -> bytes:
        program, modules = self._program(message["program"])
        for name, key in message["imports"]:
            program.modules[name] = modules[key]
        view = Reflection(program, modules[message["seen_from"]])
        conformances = _conformances(view, message["conformances"])
        kernel = options_of(message["options"]), message["program"]["target"], conformances
        if "page" in message:
            name, text = message["page"]
            compiled = pipeline.compile_kernel(program, SourceFile(name, text, is_page=True), ENTRY, *kernel)
            refuse_other_callee(program.modules[name].declaration, message["callee"])
            return kernel_entry(compiled.image, compiled.arguments, compiled.used)
        entry = function_at(view, message["entry"], message["generics"])
        compiled = pipeline.compile_entry_point(program, entry, *kernel)
        return kernel_entry(compiled.image, compiled.arguments, compiled.used, extra_of(compiled))

    def _program(self, recipe: Recipe) -> tuple[CheckedProgram, dict[str, CheckedModule]]:
        if recipe != self._recipe:
            self._recipe = None
            if recipe["environment"] != environment_key(recipe["target"]):
                raise ValueError("another compiler, LLVM or processor")
            os.chdir(recipe["here"])
            options, traits = options_of(recipe["options"]), backend_of(recipe["target"]).traits
            program = CheckedProgram(options, (), recipe["defines"], files_of(recipe), traits)
            modules: list[CheckedModule] = []
            for step, made_of in recipe["steps"]:
                modules.append(perform(program, step, [modules[number] for number in made_of]))
            self._program_modules = (
                program,
                {part.key: part for module in modules for part in reachable(module)},
            )
            self._recipe = recipe
        return self._program_modules


def _conformances(view: Reflection, spelled: Iterable[tuple[str, str, int]]) -> tuple[Conformance, ...]:
    find: Any = view.find_type  # they have been found by the process that asks
    return tuple(Conformance(find(interface), find(kind), number) for interface, kind, number in spelled)
