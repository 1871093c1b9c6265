"""Several kernels compiled at once: by this process, and by workers where processors are idle.

    compile_together([prepare, ...], options)     each `prepare()` asks for the kernel of one call

First every call is prepared, so errors about arguments come before any kernel is compiled. Then this process
compiles one kernel after the other, those first that only it can compile. Workers (`workers.py`) take others as
soon as they are up, so nothing waits for one to start. Their kernels are used when the call is prepared again. A
kernel without an answer is compiled here, so all errors arise in this process.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slangrad.base.lazy import LazyModule
from slangrad.base.options import Options
from slangrad.base.progress import shown
from slangrad.runtime.processors import idle_processors

if TYPE_CHECKING:
    from slangrad.call.compiling.compile import KernelCompiler
    from slangrad.call.compiling.recipe import Recipe
    from slangrad.check.checked_module import CheckedModule

WORKERS = LazyModule("slangrad.call.compiling.workers")
Prepare = Callable[[], object]
PATIENCE = 60.0  # seconds that this process waits for a worker when it has nothing else to do
_own = threading.local()  # whether this thread gathers


@dataclass(slots=True, eq=False)
class CompileJob:
    """A kernel to be compiled, for calls with their numbers. `request` has all data for a worker but the program,
    which has `modules`. `message` has both, and is empty if only this process can compile it. `answer`: the kernel,
    empty if the worker has failed."""

    compiler: KernelCompiler
    key: Hashable
    modules: Sequence[CheckedModule]
    request: dict[str, object]
    message: bytes = b""
    answer: bytes = b""
    calls: list[tuple[int, Prepare]] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def finish(self, answer: bytes) -> None:
        self.answer = answer
        self.done.set()


class MissingKernel(BaseException):
    """A kernel is not there, and is not to be compiled yet. No code of users between here and the call catches it."""

    def __init__(self, job: CompileJob) -> None:
        super().__init__()
        self.job = job


def is_gathering() -> bool:
    """Whether a missing kernel raises `MissingKernel` in this thread, instead of being compiled."""
    return getattr(_own, "gathers", False)


def compile_together(calls: Sequence[Prepare], options: Options) -> None:
    """The kernels of all calls. Raises as these do; of several errors in compiling that of the first call."""
    jobs: dict[tuple[KernelCompiler, Hashable], CompileJob] = {}
    for number, prepare in enumerate(calls):
        job = _missing(prepare)
        if job is not None:
            jobs.setdefault((job.compiler, job.key), job).calls.append((number, prepare))
    errors: dict[int, Exception] = {}
    _run(list(jobs.values()), options, errors)
    if errors:
        raise errors[min(errors)]


def worker_ahead(options: Options) -> AbstractContextManager[None]:
    """A context in which a worker is up as soon as there are kernels for it."""
    return WORKERS.worker_ahead() if _processes(options) > 1 else nullcontext()


def _processes(options: Options) -> int:
    """How many may compile at once."""
    return 1 if options.dump else options.processes or idle_processors()


def _missing(prepare: Prepare) -> CompileJob | None:
    _own.gathers = True
    try:
        prepare()
    except MissingKernel as missing:
        return missing.job
    finally:
        _own.gathers = False
    return None


def _run(jobs: list[CompileJob], options: Options, errors: dict[int, Exception]) -> None:
    several = len(jobs) > 1
    count = min(_processes(options), len(jobs)) - 1 if several else 0
    if count > 0:
        _write_messages(jobs)
    private, shared = deque[CompileJob](), deque[CompileJob]()
    for waiting in jobs:
        (shared if waiting.message else private).append(waiting)
    unfinished, count = dict.fromkeys(shared), min(count, len(shared))
    team = WORKERS.CompileWorkers(shared, count) if count > 0 else nullcontext()
    with shown(f"{len(jobs)} kernels", options.progress and several) as progress, team:
        ready = 0
        while job := next_job(private) or next_job(shared):
            unfinished.pop(job, None)
            _finish(job, errors)
            ready += 1
            progress.detail = f"{ready} ready"
        for job in unfinished:
            job.done.wait(PATIENCE)
            _finish(job, errors)


def next_job(jobs: deque[CompileJob]) -> CompileJob | None:
    """None where there is none; all processes take from the same end."""
    try:
        return jobs.popleft()
    except IndexError:
        return None


def _finish(job: CompileJob, errors: dict[int, Exception]) -> None:
    """Prepare the call again, which compiles the kernel if it has no answer."""
    if job.answer:
        job.compiler.take(job.key, job.answer)
    for number, prepare in job.calls:
        try:
            prepare()
        except Exception as error:
            errors[number] = error


def _write_messages(jobs: list[CompileJob]) -> None:
    """Write messages for jobs that a worker can compile. Each message lists the modules that all kernels of the
    program need, so a worker makes the program once."""
    modules: dict[Callable[[Iterable[CheckedModule]], Recipe | None], list[CheckedModule]] = {}
    for job in jobs:
        modules.setdefault(job.compiler.recipe, []).extend(job.modules)
    recipes = {recipe: recipe(needed) for recipe, needed in modules.items()}
    for job in jobs:
        recipe = recipes[job.compiler.recipe]
        if recipe is not None:
            job.message = json.dumps({**job.request, "program": recipe}).encode()
