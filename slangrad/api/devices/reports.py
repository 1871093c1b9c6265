"""Reports of a device about its memory and about compilations.

print(device.memory_report())
device.report_heaps()[0].total_allocated
program.get_compilation_report()["compile_time"]          seconds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.base.disk.store import Store

if TYPE_CHECKING:
    from slangrad.api.kernels.pipeline import ComputePipeline
    from slangrad.runtime.device import Device

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class HeapReport:
    """Memory of tensors and buffers, in bytes: `total_allocated` is taken from the system, of which `total_mem_usage`
    is in use by `num_allocations` blocks; the rest is kept for others.
    """

    label: str
    num_pages: int
    total_allocated: int
    total_mem_usage: int
    num_allocations: int


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory of a device, in bytes. `in_use`: of tensors, buffers and launches, in `blocks` pieces; `peak`: the most
    that was in use at a time. `launches`: the part that kernels have besides their arguments. `cached`: freed, and kept
    for others. `free` and `total`: of the GPU, by all processes; None on the CPU."""

    in_use: int
    peak: int
    blocks: int
    launches: int
    cached: int
    free: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        rows = [
            ("in use", self.in_use, f"in {self.blocks} blocks"),
            ("at most", self.peak, ""),
            ("of launches", self.launches, ""),
            ("cached", self.cached, ""),
        ]
        if self.free is not None and self.total is not None:
            rows.append(("free", self.free, f"of {self.total / MIB:,.1f} MiB"))
        return "\n".join(f"{name:12}{size / MIB:12,.1f} MiB  {note}".rstrip() for name, size, note in rows)


@dataclass(frozen=True, slots=True)
class ShaderCacheStats:
    """Entries in the folder (kernels, facts about modules and calls), and how often a lookup of a kernel hit or
    missed."""

    entry_count: int
    hit_count: int
    miss_count: int


def cache_stats(store: Store) -> ShaderCacheStats:
    return ShaderCacheStats(store.usage().entries, store.hits, store.misses)


def heap_reports(device: Device) -> list[HeapReport]:
    """All devices of the CPU share one heap."""
    memory, label = device.memory, "host" if device.reaches_host else device.name
    used, cached, blocks = memory.in_use, memory.cached, memory.blocks
    return [HeapReport(label, blocks, used + cached, used, blocks)]


def memory_report(device: Device) -> MemoryReport:
    memory, launches = device.memory, device.memory_beside_launches()
    free, total = device.memory_of_gpu() or (None, None)
    return MemoryReport(memory.in_use, memory.peak, memory.blocks, launches, memory.cached, free, total)


def program_report(
    label: str, entry_points: list[str], pipelines: list[ComputePipeline]
) -> dict[str, object]:
    """Times of the pipelines of a program, in seconds; nothing is compiled for one that the cache has."""
    compiling = sum(pipeline.seconds for pipeline in pipelines if not pipeline.compiled.is_cached)
    times = {
        "create_time": sum(pipeline.seconds for pipeline in pipelines),
        "compile_time": compiling,
        "compile_slang_time": compiling,
        "compile_downstream_time": 0.0,
    }
    entries = [_of_pipeline(pipeline) for pipeline in pipelines]
    named = [{"name": name, **times, **_between(pipelines), **_cached(pipelines)} for name in entry_points]
    return {
        "label": label,
        "alive": True,
        **times,
        "create_pipeline_time": times["create_time"] - compiling,
        "entry_point_reports": named,
        "pipeline_reports": entries,
    }


def _of_pipeline(pipeline: ComputePipeline) -> dict[str, object]:
    alone = [pipeline]
    return {"type": "compute", "create_time": pipeline.seconds, **_between(alone), **_cached(alone)}


def _between(pipelines: list[ComputePipeline]) -> dict[str, float]:
    start = min((pipeline.began for pipeline in pipelines), default=0.0)
    end = max((pipeline.began + pipeline.seconds for pipeline in pipelines), default=0.0)
    return {"start_time": start, "end_time": end}


def _cached(pipelines: list[ComputePipeline]) -> dict[str, object]:
    return {
        "is_cached": bool(pipelines) and all(pipeline.compiled.is_cached for pipeline in pipelines),
        "cache_size": 0,
    }
