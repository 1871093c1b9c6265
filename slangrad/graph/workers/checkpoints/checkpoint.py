"""Checkpoints of a training step: written while steps go on, complete or not there, read by any number of workers.

run/step-00000200                  complete: it got this name when all workers had written
run/incomplete-00000300-4f2a91c0   being written, or left over; it is never read

A save copies the numbers that this worker has, and a thread writes them. Workers that hold the same
tensor write a part of it each.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import ref

import numpy as np

import slangrad as spy
from slangrad.base.lazy import LazyModule
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import DType, Shape
from slangrad.graph.ir.values import numpy_type
from slangrad.graph.workers.connections.faults import WorkerLost
from slangrad.graph.workers.meshes.mesh import Mesh, check_torch
from slangrad.graph.workers.meshes.specs import Spec, parts
from slangrad.graph.workers.parameters import WorkerParameters, starts_of

if TYPE_CHECKING:
    from slangrad.graph.train import Step
    from slangrad.graph.workers.checkpoints.storage import TensorBox

About = dict[str, Any]  # of JSON
Forms = dict[str, tuple[Shape, DType]]
R = TypeVar("R")

STORAGE = LazyModule("slangrad.graph.workers.checkpoints.storage")
COMPLETE, INCOMPLETE = "step-", "incomplete-"
FOLDER = "a folder with room, which all workers can write"
SHARED = "use a folder on a disk that all workers share"
MODEL = "the parameters and the optimizer of that run, or another folder"
LATE = 2.0  # seconds
DIVIDED = 1 << 20  # bytes from which the holders of a tensor divide it, instead of taking turns


def checkpoint(step: Step, folder: str | Path, every: int = 100, keep: int = 3) -> int:
    """Save the state of training to a folder at each so many steps, and go on from the newest checkpoint there.

        step = graph.train(loss, optimizer, mesh=graph.mesh("data"))
        start = graph.checkpoint(step, "run", every=100)
        for i in range(start, 1000):
            print(step(*batch(i)))
        step.wait()

    Returns the number of steps made so far: 0 where the folder has no checkpoint. Loading sets parameters, and the
    optimizer's state, settings (such as lr) and number of steps. All workers call this, with a folder that all see;
    the mesh, `partition` and number of workers may be others than those that saved.

    A step after which it saves waits until the save before has ended and numbers are copied; they are written while
    the next steps run. The `keep` newest checkpoints stay. Each has its name only when it is complete, so that one
    that was not finished is never loaded. `step.wait()` returns when the last save is on the disk, as the end of
    the program does. torch.distributed.checkpoint writes the files, for one worker, too. It unpickles what it
    reads: load only folders that you trust.

    GraphError (E1049) where the folder cannot be used, or where workers have folders of their own under this path. Also
    where the newest checkpoint is damaged, or that of other parameters or another optimizer; then nothing is loaded. A
    save that fails is a GraphError of `step.wait()` on a worker that saw it. Else it is one of a later step, before
    this is made, and all workers raise it before the same step. GraphError (E1043) without a step. ImportError without
    torch. WorkerLost where another worker is gone.
    """
    if not hasattr(step, "checkpoints"):
        message = f"checkpoint: a step, not a {type(step).__name__}, has a state to save"
        raise GraphError("E1043", message, "graph.checkpoint(graph.train(loss, optimizer), folder)")
    for name, value in (("every", every), ("keep", keep)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise GraphError("E1049", f"checkpoint: {name}={value!r} is no integer from 1 on", f"{name}=10")
    step.wait()
    step.checkpoints = None
    checkpoints = Checkpoints(step, Path(folder).absolute(), every, keep)
    checkpoints.resume()
    step.checkpoints = checkpoints
    return step.optimizer.steps


class Checkpoints:
    """The checkpoints of a step in a folder."""

    def __init__(self, step: Step, folder: Path, every: int, keep: int) -> None:
        self._held: WorkerParameters = step._held
        self._optimizer: spy.optim.Optimizer = step.optimizer
        self._mesh: Mesh = step.mesh
        self.folder, self.every, self.keep = folder, every, keep
        if self._mesh.watch is not None:
            self._mesh.watch.meet(f"checkpoint with every={every}, keep={keep}")
        self._group: Any = None  # of PyTorch, which is loaded later
        try:
            self._group = self._watched(lambda: STORAGE.group_of(self._mesh))
        except ImportError as error:
            raise ImportError(f"checkpoints need torch: pip install 'slangrad[torch]' ({error})") from error
        except WorkerLost:
            raise
        except RuntimeError as error:
            raise self._lost(error) from error
        check_torch("checkpoint")
        self._writing: Thread | None = None
        self._failed: tuple[int, Exception] | None = None  # of this worker
        self.agreed = 0  # the step whose checkpoint was not written, as all workers know
        self._token = ""

    # --- reading

    def resume(self) -> None:
        """Load the newest checkpoint, if there is one."""
        mark = self.folder / f"{INCOMPLETE}{0:08}-{uuid4().hex}"
        try:
            (newest, self._token, mark_of_first), *_ = self._together(lambda: self._opened(mark), FOLDER)
            self._together(lambda: self._see(mark_of_first), SHARED)
        finally:
            shutil.rmtree(mark, ignore_errors=True)
        if newest is not None:
            self._load(self.folder / newest)
        atexit.register(_at_exit, ref(self))

    def _opened(self, mark: Path) -> tuple[str | None, str, str]:
        """The newest checkpoint, a name for the files of this run, and that of a mark that now is in the folder. All
        take those of worker 0."""
        self.folder.mkdir(parents=True, exist_ok=True)
        mark.mkdir()
        complete = _steps_in(self.folder, COMPLETE)
        return max(complete, key=complete.__getitem__, default=None), uuid4().hex[:8], mark.name

    def _see(self, mark: str) -> None:
        """FileNotFoundError where worker 0 has put its mark into another folder. One of a network shows it late."""
        end = time.monotonic() + LATE
        while not (self.folder / mark).exists():
            if time.monotonic() > end:
                raise FileNotFoundError(f"this folder is not that of worker 0, which put {mark} into its own")
            time.sleep(LATE / 20)

    def _load(self, path: Path) -> None:
        older = f"without the folder {path.name}, the checkpoint before it is loaded, if there is one"
        about, forms = self._together(lambda: self._read(path), older)[0]
        try:
            self._check(about, forms)
            pieces = self._wanted(forms)
            self._watched(lambda: STORAGE.load(pieces, path, self._group))
            self._take(about, pieces)
        except (STORAGE.StorageError, RuntimeError, ValueError, TypeError, LookupError) as error:
            raise self._explained(f"{path}: {error}", error, MODEL) from error

    def _read(self, path: Path) -> tuple[About, Forms]:
        """The content of a checkpoint, its files compared with their sums: each worker reads some."""
        STORAGE.check(path, self._mesh.rank, self._mesh.workers)
        about = json.loads((path / STORAGE.ABOUT).read_text())
        return about, STORAGE.forms(path)

    def _check(self, about: About, forms: Forms) -> None:
        """ValueError where the optimizer or its parameters are others than those here."""
        kind = type(self._optimizer).__name__
        if about["kind"] != kind:
            raise ValueError(f"that of the optimizer {about['kind']}, not {kind}")
        held = zip(self._optimizer.names, self._held.shapes, self._held.tensors, strict=True)
        wanted = {name: (shape, numpy_type(tensor)) for name, shape, tensor in held}
        stored = {_name(key): form for key, form in forms.items() if _slot(key) == "parameter"}
        wrong = [f"{name} is missing" for name in wanted.keys() - stored.keys()]
        wrong += [f"{name} is no parameter here" for name in stored.keys() - wanted.keys()]
        for name in wanted.keys() & stored.keys():
            form, stored_form = (f"{dtype}{list(shape)}" for shape, dtype in (wanted[name], stored[name]))
            wrong += [f"{name} is {stored_form}, not {form}"] if form != stored_form else []
        if wrong:
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise ValueError(", ".join(sorted(wrong)[:5]) + more)

    def _wanted(self, forms: Forms) -> dict[str, TensorBox]:
        """The part of each tensor that this worker holds, to be filled."""
        place, boxes = {name: i for i, name in enumerate(self._optimizer.names)}, {}
        for key, (shape, dtype) in forms.items():
            i = place[_name(key)]
            if not self._held.owns(i):
                continue
            spec = (self._held.specs if _slot(key) == "parameter" else self._held.cuts)[i]
            empty = np.empty(spec.local(shape, self._mesh.cuts), dtype)
            boxes[key] = STORAGE.TensorBox(shape, starts_of(spec, shape, self._mesh), empty)
        return boxes

    def _take(self, about: About, pieces: Mapping[str, TensorBox]) -> None:
        """Go on from the loaded state; the optimizer first checks whether it fits."""
        names = self._optimizer.names
        state: list[dict[str, np.ndarray]] = [{} for _ in names]
        shapes = [part.numbers.shape for part, _ in self._optimizer.advance(is_planned=True)]
        for key, piece in pieces.items():
            if _slot(key) != "parameter":
                i = names.index(_name(key))
                state[i][_slot(key)] = piece.array.reshape(shapes[i])
        settings = {name: tuple(x) if isinstance(x, list) else x for name, x in about["settings"].items()}
        self._optimizer.load_state_dict({**about, "settings": settings, "state": state})
        for i, (name, tensor) in enumerate(zip(names, self._held.tensors, strict=True)):
            if self._held.owns(i):
                tensor[...] = pieces[f"parameter/{name}"].array

    # --- writing

    def save_if_due(self) -> None:
        """After a step: begin to write, if it is time."""
        steps = self._optimizer.steps
        if steps % self.every:
            return
        self._await(self._writing)
        content = steps, self._about(), self._copies()
        self._writing = Thread(target=self._write, args=content, daemon=True)
        self._writing.start()

    @property
    def failed_step(self) -> int:
        """The step whose checkpoint this worker has not written, 0 for none."""
        return 0 if self._failed is None else self._failed[0]

    def raise_failure(self) -> None:
        """Before a step: the error of a save that has ended. Workers see its end at different steps, and raise it
        before the same one: otherwise those that catch it would make different steps together."""
        if self._mesh.all_workers is None:
            self._raise_failed()
        elif self.agreed:
            if self._failed is None:  # this worker may learn it later
                self._await(self._writing)
            self._raise_failed()

    def wait(self) -> None:
        """Return when the last save has ended."""
        self._await(self._writing)
        self._raise_failed()

    def _raise_failed(self) -> None:
        failed, agreed = self._failed, self.agreed
        self._failed, self.agreed = None, 0
        if failed is not None or agreed:
            steps, error = failed or (agreed, STORAGE.StorageError("see the error of another worker"))
            message = f"the checkpoint of step {steps} in {self.folder} was not written: {error}"
            raise self._explained(message, error, FOLDER) from error

    def _await(self, thread: Thread | None) -> None:
        """Return when it has ended. WorkerLost where another worker is gone or hangs, for which it would wait."""
        watch = self._mesh.watch
        if thread is not None and watch is not None:
            watch.until_ended(thread, "checkpoint", self._interrupt)
        elif thread is not None:
            thread.join()

    def _interrupt(self) -> None:
        STORAGE.interrupt(self._group)

    def _about(self) -> str:
        optimizer = self._optimizer
        settings = {name: getattr(optimizer, name) for name in optimizer.settings}
        try:
            return json.dumps(
                {"kind": type(optimizer).__name__, "settings": settings, "steps": optimizer.steps}
            )
        except TypeError as error:
            message = f"settings of {optimizer!r} cannot be saved: {error}"
            raise GraphError("E1049", message, "numbers and tuples of numbers as settings") from None

    def _copies(self) -> dict[str, TensorBox]:
        """The numbers that this worker writes."""
        held, boxes = self._held, {}
        for i, (name, state) in enumerate(zip(self._optimizer.names, self._optimizer.state, strict=True)):
            if not held.owns(i):
                continue
            kept = {f"{slot}/{name}": (numbers, held.cuts[i]) for slot, numbers in state.items()}
            for key, (tensor, spec) in {
                f"parameter/{name}": (held.tensors[i], held.specs[i]),
                **kept,
            }.items():
                piece = self._copy(tensor, held.shapes[i], spec, i)
                if piece is not None:
                    boxes[key] = piece
        return boxes

    def _copy(self, tensor: spy.Tensor, shape: Shape, spec: Spec, turn: int) -> TensorBox | None:
        """The part of a local tensor that this worker writes; its other holders write the rest."""
        mesh = self._mesh
        held_by = mesh.cuts if self._held.is_staged else mesh.several
        others = tuple(name for name in held_by if name not in spec.used)
        place, holders = mesh.place(others), parts(others, mesh.sizes)
        local, starts = spec.local(shape, mesh.cuts), list(starts_of(spec, shape, mesh))
        if holders == 1 or prod(local) * numpy_type(tensor).itemsize < DIVIDED:
            part = tensor if turn % holders == place else None
        else:
            axis = max(range(len(local)), key=local.__getitem__)
            first, end = (local[axis] * k // holders for k in (place, place + 1))
            starts[axis] += first
            local = (*local[:axis], end - first, *local[axis + 1 :])
            part = tensor[(slice(None),) * axis + (slice(first, end),)] if end > first else None
        return (
            None if part is None else STORAGE.TensorBox(shape, tuple(starts), part.to_numpy().reshape(local))
        )

    def _write(self, steps: int, about: str, pieces: Mapping[str, TensorBox]) -> None:
        """Write a checkpoint; this runs in a thread."""
        fresh = self.folder / f"{INCOMPLETE}{steps:08}-{self._token}"

        def complete() -> None:
            STORAGE.write(fresh / STORAGE.ABOUT, about)
            target = self.folder / f"{COMPLETE}{steps:08}"
            if target.exists():
                self._remove(target)
            os.rename(fresh, target)
            self._forget(steps)

        try:
            STORAGE.save(pieces, fresh, complete, self._group)
        except Exception as error:
            self._failed = steps, error

    def _forget(self, steps: int) -> None:
        """Remove old checkpoints, and incomplete ones of earlier runs."""
        complete = _steps_in(self.folder, COMPLETE)
        for name in sorted(complete, key=complete.__getitem__)[: -self.keep]:
            self._remove(self.folder / name)
        for name, begun in _steps_in(self.folder, INCOMPLETE).items():
            if begun <= steps:
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def _remove(self, path: Path) -> None:
        """A checkpoint of which a part is gone has no name of a complete one."""
        gone = path.with_name(f"{INCOMPLETE}{path.name.removeprefix(COMPLETE)}-{uuid4().hex[:8]}")
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _together(self, action: Callable[[], R], note: str) -> list[R]:
        """The results of all workers. GraphError with the note on all where one fails."""
        try:
            results: list[R] = self._watched(lambda: STORAGE.gathered(action, self._group))
        except (STORAGE.StorageError, RuntimeError) as error:
            raise self._explained(f"checkpoints in {self.folder}: {error}", error, note) from error
        return results

    def _watched(self, action: Callable[[], R]) -> R:
        """The result of an action that waits for other workers."""
        watch = self._mesh.watch
        return action() if watch is None else watch.result_of(action, "checkpoint", self._interrupt)

    def _explained(self, message: str, error: Exception, note: str) -> Exception:
        """WorkerLost where torch.distributed reports missing workers."""
        is_own = isinstance(error, spy.CallError)
        if self._group is not None and isinstance(error, RuntimeError) and not is_own:
            return self._lost(error)
        return GraphError("E1049", message, note)

    def _lost(self, error: Exception) -> Exception:
        assert self._mesh.watch is not None  # only other workers are lost
        return self._mesh.watch.lost("checkpoint", error)


def _at_exit(checkpoints: ref[Checkpoints]) -> None:
    """The end of the program shows the error of the last save."""
    alive = checkpoints()
    if alive is not None:
        alive.wait()


def _steps_in(folder: Path, prefix: str) -> dict[str, int]:
    """The folders of checkpoints, with their number of steps."""
    suffixes = {
        path.name: path.name.removeprefix(prefix).partition("-")[0] for path in folder.glob(f"{prefix}*")
    }
    return {name: int(steps) for name, steps in suffixes.items() if steps.isdecimal()}


def _slot(key: str) -> str:
    """ "mean" of "mean/'w1'"; "parameter" of a parameter."""
    return key.partition("/")[0]


def _name(key: str) -> str:
    return key.partition("/")[2]
