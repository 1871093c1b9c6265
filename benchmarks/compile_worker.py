"""One program in a process of its own, from its text to its first result.

    python compile_worker.py slangrad "1,000 statements"     {"seconds": 2.1, "peak": 231.5, "operations": 2104}

`seconds` are CPU seconds of the process and of those that it starts, without imports; `peak` is the most memory that
one of them had, in MiB; `operations` those of slangrad's IR after inlining. Programs are those of compile_programs.py,
and examples of the gallery, of which what is compiled is timed alone. {"failed": why} if it does not end well.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import resource
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from compile_programs import ENTRY, PROGRAMS, VALUES, WARM_UP, Program, kernel_of

HERE = Path(__file__).resolve().parent
GALLERY = HERE.parent / "examples" / "gallery"
USED = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


def cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, USED))


def peak() -> float:
    """MiB; Linux counts in KiB."""
    return max(usage.ru_maxrss for usage in map(resource.getrusage, USED)) / 1024


# --- slangrad ---------------------------------------------------------------------------------------------


def run_slangrad(program: Program) -> dict[str, Any]:
    spy = importlib.import_module("slangrad")
    device = spy.create_device()
    start = cpu_seconds()
    module = spy.Module.load_from_source(device, "program", program.text)
    function = module.require_function(program.function)
    call = function.bwds if program.backward else function
    values = [argument(spy, module, kind, program) for kind in program.parameters]
    result = call(*values)
    first = np.asarray((values[0].grad if program.backward else result).to_numpy())
    answer = {"seconds": cpu_seconds() - start, "peak": peak()}
    assert first.size, "there is no result"
    return answer | {"operations": operations(call.compile(*values))}


def argument(spy: Any, module: Any, kind: str, program: Program) -> Any:
    count = program.size(kind)
    if kind.startswith("ITensor"):
        tensor = spy.Tensor.from_numpy(module.device, numbers((count,)))
    elif count > 1:
        tensor = spy.Tensor.zeros(module.device, (1,), getattr(module, kind))
    else:
        tensor = spy.Tensor.from_numpy(module.device, numbers((VALUES, *components(kind))), dtype=kind)
    return tensor.with_grads() if program.backward else tensor


def components(kind: str) -> tuple[int, ...]:
    return (int(kind[-1]),) if kind[-1].isdigit() else ()


def numbers(shape: tuple[int, ...]) -> Any:
    return np.linspace(0.1, 0.9, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def operations(compiled: Any) -> int | None:
    """None from a slangrad that does not count them."""
    return compiled.costs["inlined"].operations if hasattr(compiled, "costs") else None


def run_gallery(name: str) -> dict[str, Any]:
    """An example at its quick size: the seconds in the compiler, and the operations of the largest kernel."""
    pipeline = importlib.import_module("slangrad.pipeline")
    checker = importlib.import_module("slangrad.check.modules").Program
    watch = Stopwatch()
    for name_inside in ("compile_kernel", "compile_entry_point"):
        watch.put_around(pipeline, name_inside)
    for name_inside in ("__init__", "load_module", "add_source", "add_precompiled"):
        watch.put_around(checker, name_inside)
    sys.path.insert(0, str(GALLERY))
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [f"{name}.py", "--quick", "--out", f"{folder}/picture.png"]
        runpy.run_path(str(GALLERY / f"{name}.py"), run_name="__main__")
    kernels = [operations(result) for result in watch.results if hasattr(result, "costs")]
    largest = max((count for count in kernels if count is not None), default=None)
    return {"seconds": watch.seconds, "peak": peak(), "operations": largest}


class Stopwatch:
    """CPU seconds inside of functions, and what these gave."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.results: list[Any] = []
        self._is_running = False

    def put_around(self, owner: Any, name: str) -> None:
        setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
                return function(*args, **kwargs)
            self._is_running, start = True, cpu_seconds()
            try:
                result = function(*args, **kwargs)
            finally:
                self._is_running = False
                self.seconds += cpu_seconds() - start
            self.results.append(result)
            return result

        return timed


# --- SlangPy ----------------------------------------------------------------------------------------------


def run_slangpy(program: Program) -> dict[str, Any]:
    """Its CPU device does not take calls of functions (version 0.43), so this is a kernel."""
    spy = importlib.import_module("slangpy")
    if program.takes_tensors:
        raise NotImplementedError("tensors need calls of functions, which its CPU device refuses")
    device = spy.create_device(type=spy.DeviceType.cpu)
    start = cpu_seconds()
    module = device.load_module_from_source("program", kernel_of(program))
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point(ENTRY)]))
    buffers = {}
    for i, kind in enumerate(program.parameters):
        width = components(kind)[0] if components(kind) else program.size(kind)
        count = VALUES if program.size(kind) == 1 else 1
        buffers[f"x{i}"] = buffer(spy, device, width, numbers((count * width,)))
        if program.backward or i == 0:
            out_width = width if program.backward else 1
            buffers[f"out{i}"] = buffer(spy, device, out_width, np.zeros(VALUES * out_width, np.float32))
    kernel.dispatch(thread_count=[VALUES, 1, 1], **buffers)
    first = buffers["out0"].to_numpy()
    answer = {"seconds": cpu_seconds() - start, "peak": peak()}
    assert first.any(), "there is no result"
    return answer


def buffer(spy: Any, device: Any, width: int, data: Any) -> Any:
    usage = spy.BufferUsage.unordered_access | spy.BufferUsage.shader_resource
    return device.create_buffer(
        element_count=len(data) // width, struct_size=4 * width, usage=usage, data=data
    )


# --- One of these ---------------------------------------------------------------------------------------


def answer_of(peer: str, name: str) -> dict[str, Any]:
    if name.startswith("gallery: "):
        return run_gallery(name.removeprefix("gallery: "))
    program = WARM_UP if name == "warm-up" else PROGRAMS[name]
    return {"slangrad": run_slangrad, "slangpy": run_slangpy}[peer](program)


def main() -> None:
    """Stdout for the answer; whatever libraries and examples print goes to stderr."""
    sys.path.append(str(HERE.parent))  # an installed package wins
    with os.fdopen(os.dup(1), "w") as stdout:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                answer = answer_of(*sys.argv[1:])
            except Exception as error:
                text = next(iter(str(error).splitlines()), "")
                answer = {"failed": f"{type(error).__name__}: {text}"[:200]}
        stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
