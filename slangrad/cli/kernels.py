"""`slangrad compile --target`: the kernels of files into a folder of compiled kernels, without their device.

keep_kernels([Path("blur.slang")], "cuda:sm_90", Path("kernels"), [], {})   ->   lines for people, one for each kernel

Kernels of calls depend on arguments, so a program that makes the calls compiles them (`Options.also`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import slangrad
from slangrad.api.kernels.shader import ShaderStage, SlangEntryPoint
from slangrad.backends import backend_of
from slangrad.base.disk.store import DEFAULT_LIMIT, Store
from slangrad.base.options import Options, store_of
from slangrad.cache import keep_ready
from slangrad.pipeline import target_of


def keep_kernels(
    files: Sequence[Path], target: str, out: Path | None, include: Sequence[Path], macros: dict[str, str]
) -> Iterator[str]:
    """A line for each kernel that was kept, or why it was not. ValueError for an unknown target, and where the folder
    cannot be used; CompileError."""
    target_of(target)
    if backend_of(target).identity is None:
        raise ValueError(f"error: kernels of the target '{target}' are not kept on disk")
    options = replace(Options.from_environment(), target=target, verify=False, dump=())
    if out is not None:
        options = replace(options, store=Store(str(out), DEFAULT_LIMIT << 20))
    store = store_of(options)
    if store.problem:
        raise ValueError(f"error: kernels are not kept: {store.problem}")
    device = slangrad.Device("cpu", include_paths=include, defines=macros, options=options)
    count = 0
    for file in files:
        for entry in device.load_module(str(file)).entry_points:
            count += 1
            yield f"{file}: {_kept(device, entry, target)}"
    if not count:
        note = "calls are kept by the program that makes them: SLANGRAD_ALSO in docs/cuda.md"
        raise ValueError(f'error: the files have no functions marked [shader("compute")]\nnote: {note}')


def _kept(device: slangrad.Device, entry: SlangEntryPoint, target: str) -> str:
    """Compile and keep one kernel; a line about it."""
    if entry.stage is not ShaderStage.compute:
        return f"{entry.name}, not kept: it is for the stage '{entry.stage.name}'"
    if entry.declaration.generics:
        return f"{entry.name}, not kept: it is generic, and a program that gives it arguments compiles it"
    compiler = device.slang_session.compiler
    compiled = compiler.compile_entry(entry.reference)
    keep_ready(compiler.options, target, compiled.kernel)
    return f"{entry.name} for {target}"
