"""Pieces of tensors on disk, by torch.distributed.checkpoint: each worker writes those that it has, and reads any.

__0_0.distcp           the pieces of worker 0
.metadata              which numbers are in which file
about.json             data that the caller writes last
__0_0.distcp.crc32     a sum by which damage is found, and one of each other file
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from slangrad.graph.ir.node import DType, Shape
from slangrad.graph.workers.meshes.mesh import Mesh

R = TypeVar("R")
Processes: TypeAlias = "dist.ProcessGroup | None"
ABOUT, SUM = "about.json", ".crc32"
BLOCK = 1 << 20
warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # one worker needs no other


class StorageError(Exception):
    """The failure of one worker to write or read, raised on all."""


@dataclass(frozen=True, slots=True)
class TensorBox:
    """A box of a tensor of `shape`: `array` holds the numbers from `starts` on."""

    shape: Shape
    starts: tuple[int, ...]
    array: np.ndarray

    @property
    def chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(torch.Size(self.starts), torch.Size(self.array.shape))


def group_of(mesh: Mesh) -> dist.ProcessGroup | None:
    """A group of all workers for checkpoints alone, so that they do not come between the collectives of steps; None
    for one worker. Each worker calls this."""
    if not mesh.links:
        return None
    timeout = next(iter(mesh.links.values())).watch.timeout
    return dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))


def interrupt(group: Processes) -> None:
    """End all exchanges of a group by an error. Others no longer take part in them. gloo ends them when a message is
    late, so this waits for a message that no worker sends."""
    if group is not None:
        next_place = (dist.get_rank(group) + 1) % dist.get_world_size(group)
        message = dist.irecv(torch.empty(1), dist.get_global_rank(group, next_place), group)
        with suppress(RuntimeError):
            message.wait(timedelta(milliseconds=1))


def gathered(action: Callable[[], R], group: Processes) -> list[R]:
    """The result of an action on each worker. StorageError on all where it fails on one."""
    outcome = list[R](), ""
    try:
        outcome = [action()], ""
    except Exception as error:
        outcome = [], str(error) or repr(error)
    outcomes = [outcome]
    if group is not None:
        outcomes = [outcome] * dist.get_world_size(group)
        dist.all_gather_object(outcomes, outcome, group)
    for rank, (_, failure) in enumerate(outcomes):
        if failure:
            raise StorageError(_said(rank, failure, group))
    return [result for results, _ in outcomes for result in results]


def save(pieces: Mapping[str, TensorBox], path: Path, complete: Callable[[], None], group: Processes) -> None:
    """Write to a folder; worker 0 calls `complete` when all have written. Returns when it has."""
    _reported(
        lambda: dcp.save(
            dict(pieces),
            storage_writer=_Writer(path, complete),
            planner=_SavePlanner(),
            process_group=group,
            no_dist=group is None,
        ),
        group,
    )


def load(pieces: Mapping[str, TensorBox], path: Path, group: Processes) -> None:
    """Fill the arrays of pieces, whatever pieces were written."""
    reader = dcp.FileSystemReader(path)
    _reported(
        lambda: dcp.load(
            dict(pieces),
            storage_reader=reader,
            planner=_LoadPlanner(),
            process_group=group,
            no_dist=group is None,
        ),
        group,
    )


def forms(path: Path) -> dict[str, tuple[Shape, DType]]:
    """Shape and dtype of each tensor in a folder."""
    tensors = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    return {
        key: (tuple(tensor.size), torch.empty(0, dtype=tensor.properties.dtype).numpy().dtype)
        for key, tensor in tensors.items()
    }


def check(path: Path, share: int, shares: int) -> None:
    """Compare sums of a part of the files. OSError, or ValueError, for the first that is missing or damaged."""
    files = [
        file for file in path.glob("*.distcp*") if file.stat().st_size
    ]  # a worker without numbers has no sum
    names = {file.name.removesuffix(SUM) for file in files}
    for file in (path / name for name in (ABOUT, ".metadata", *sorted(names)[share::shares])):
        if file.with_name(file.name + SUM).read_text() != _sum(file):
            raise ValueError(f"{file} is damaged")


def write(path: Path, text: str) -> None:
    """A file that is on the disk when this returns, and its sum."""
    _write(path, text)
    seal(path)


def seal(path: Path) -> None:
    """Write the sum of a file."""
    _write(path.with_name(path.name + SUM), _sum(path))


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sum(path: Path) -> str:
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            checksum = zlib.crc32(block, checksum)
    return f"{checksum:08x}"


def _reported(action: Callable[[], object], group: Processes) -> None:
    """StorageError with the first failure of a worker."""
    try:
        action()
    except CheckpointException as error:
        rank, (cause, _) = next(iter(error.failures.items()))
        raise StorageError(_said(rank, cause, group)) from error


def _said(rank: int, error: object, group: Processes) -> str:
    return str(error) if group is None else f"worker {rank}: {error}"


class _Writer(dcp.FileSystemWriter):  # type: ignore[misc]
    def __init__(self, path: Path, complete: Callable[[], None]) -> None:
        super().__init__(path)
        self._complete = complete

    def write_data(self, plan: SavePlan, planner: dcp.SavePlanner) -> torch.futures.Future:
        written = super().write_data(plan, planner)
        written.wait()
        for name in {entry.storage_data.relative_path for entry in written.value()}:
            seal(self.path / name)
        return written

    def finish(self, metadata: object, results: object) -> None:
        super().finish(metadata, results)
        seal(self.path / ".metadata")
        self._complete()


class _SavePlanner(dcp.DefaultSavePlanner):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan([_item(key, piece) for key, piece in self.state_dict.items()])
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        return torch.from_numpy(self.state_dict[index.fqn].array)


def _item(key: str, piece: TensorBox) -> WriteItem:
    properties = TensorProperties.create_from_tensor(torch.from_numpy(piece.array))
    data = TensorWriteData(piece.chunk, properties, torch.Size(piece.shape))
    return WriteItem(MetadataIndex(key, piece.chunk.offsets), WriteItemType.SHARD, tensor_data=data)


class _LoadPlanner(dcp.DefaultLoadPlanner):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self,
        state_dict: Mapping[str, TensorBox],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        self.state_dict, self.metadata = state_dict, metadata

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        stored = self.metadata.state_dict_metadata
        wanted = [entry for entry in self.state_dict.items() if entry[1].array.size]
        return LoadPlan(
            [
                item
                for key, piece in wanted
                for item in create_read_items_for_chunk_list(key, stored[key], [piece.chunk])
            ]
        )

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        return torch.from_numpy(np.asarray(self.state_dict[index.fqn].array))
