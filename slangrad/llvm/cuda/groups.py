"""Groups of threads that run together: a group is a block of the GPU, `shared` is its shared memory.

    shared{name="sums"}      the address of a part of @shared, which begins as zero
    barrier                  barrier.sync of all threads of the block
    fence                    fence.sc.gpu

Shared memory is static up to 48 KB and dynamic beyond: then the launch states its size. Threads of a group at the edge
that are outside of the grid have ended when others come to a barrier, so these do not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slangrad.ir.data.layout import layout_of, round_up
from slangrad.ir.data.types import pointer_of
from slangrad.ir.ops.core import Op
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.writer import Writer, counted_loop

MOST_THREADS = 1024  # of a block
STATIC_BYTES = 48 << 10  # that a kernel may have without asking for them
ALIGNMENT = 16
SHARED = "@shared"


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Where the variables of a group lie, by name, and how many bytes they take."""

    places: dict[str, int] = field(default_factory=dict)
    size: int = 0

    @staticmethod
    def of(ops: Iterable[Op]) -> SharedMemory:
        places, end = dict[str, int](), 0
        for op in ops:
            if op.name == "shared" and op.attributes["name"] not in places:
                places[op.attributes["name"]] = end
                size = layout_of(pointer_of(op.results[0].type).element).size
                end = round_up(end + size, ALIGNMENT)
        return SharedMemory(places, end)

    @property
    def dynamic_size(self) -> int:
        """The bytes that the launch has to state."""
        return self.size if self.size > STATIC_BYTES else 0

    @property
    def text(self) -> str:
        if self.dynamic_size:
            return f"{SHARED} = external addrspace(3) global [0 x i8], align {ALIGNMENT}"
        return f"{SHARED} = internal addrspace(3) global [{self.size} x i8] undef, align {ALIGNMENT}"

    @property
    def addresses(self) -> dict[str, str]:
        """Constants, by name."""
        places = {
            name: f"getelementptr (i8, ptr addrspace(3) {SHARED}, i64 {place})"
            for name, place in self.places.items()
        }
        return {name: f"addrspacecast (ptr addrspace(3) {place} to ptr)" for name, place in places.items()}


def clear(w: Writer, memory: SharedMemory, thread: str, threads: int) -> None:
    """All threads of the block together, `thread` being the number of each; then they wait."""
    with counted_loop(w, thread, str(memory.size // 4), threads, "i32") as index:
        place = w.value(f"getelementptr i32, ptr addrspace(3) {SHARED}, i32 {index}")
        w.line(f"store i32 0, ptr addrspace(3) {place}, align 4")
    wait(w)


def wait(w: Writer) -> None:
    w.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")


def _shared(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], e.environment.shared[op.attributes["name"]])


def _barrier(e: RegionEmitter, op: Op) -> None:
    wait(e.w)


def _fence(e: RegionEmitter, op: Op) -> None:
    e.w.line('fence syncscope("device") seq_cst')


RULES: dict[str, Rule] = {"shared": _shared, "barrier": _barrier, "fence": _fence}
