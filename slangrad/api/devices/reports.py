"""Reports of a device about its memory and about compilations.

device.report_heaps()[0].total_allocated
program.get_compilation_report()["compile_time"]          seconds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.base.disk.store import Store
from slangrad.runtime.memory import HOST_MEMORY

if TYPE_CHECKING:
    from slangrad.api.kernels.kernel import ComputePipeline


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
class ShaderCacheStats:
    """Entries in the folder (kernels, facts about modules and calls), and how often a lookup of a kernel hit or
    missed."""

    entry_count: int
    hit_count: int
    miss_count: int


def cache_stats(store: Store) -> ShaderCacheStats:
    return ShaderCacheStats(store.usage().entries, store.hits, store.misses)


def heap_reports() -> list[HeapReport]:
    """All devices share one heap."""
    used, cached, blocks = HOST_MEMORY.in_use, HOST_MEMORY.cached, HOST_MEMORY.blocks
    return [HeapReport("host", blocks, used + cached, used, blocks)]


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
