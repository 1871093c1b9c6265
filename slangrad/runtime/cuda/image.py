"""A kernel for a GPU as bytes: PTX, and the data that a launch needs.

    image = CudaImage("k", 16, ptx, "sm_90", sites)
    data = image.to_bytes();  CudaImage.from_bytes(data).kernel()   ->   CudaKernel

The device makes machine code of the PTX when the kernel is first launched, and keeps it on the disk by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from slangrad.runtime.cuda.launch import LoadedKernel
from slangrad.runtime.device import Grid, Kernel
from slangrad.runtime.image import packed_image, unpacked_image
from slangrad.runtime.reports import Site

ENTRY, FINISH = b"kernel", b"finish"
PRINTS, ARENA, MEMORY = "prints", "arena", "memory"


@dataclass(frozen=True, slots=True)
class CudaImage:
    """`synchronous`: each launch is waited for, and raises what the kernel reported. `group`: the threads of a block,
    None where any size will do. `shared`: bytes of shared memory that a launch states. `needs`: what the device has
    ready for it: PRINTS, ARENA, MEMORY. `lanes`: how many neighbors a thread of the GPU runs. `frame`: the bytes of the
    arena that each thread has from the start. `sums`: of a kernel whose few blocks do not depend on the grid. They are
    the bytes of partial sums that each block leaves, and how many sums `finish` makes of them, each by a wave. `about`:
    extra JSON that is stored with it."""

    name: str
    argument_size: int
    code: bytes
    architecture: str
    sites: tuple[Site, ...] = ()
    synchronous: bool = False
    group: Grid | None = None
    shared: int = 0
    needs: frozenset[str] = frozenset()
    lanes: int = 1
    frame: int = 0
    sums: tuple[int, int] | None = None
    about: object = None

    def __repr__(self) -> str:
        return f"CudaImage({self.name}, {len(self.code)} bytes)"

    def kernel(self) -> CudaKernel:
        return CudaKernel(name=self.name, argument_size=self.argument_size, sites=self.sites, image=self)

    def to_bytes(self, about: object = None) -> bytes:
        kept = {field.name: getattr(self, field.name) for field in fields(self)} | {"about": about}
        del kept["code"]
        kept["needs"] = sorted(self.needs)
        return packed_image(kept, self.sites, self.code)

    @staticmethod
    def from_bytes(data: bytes) -> CudaImage:
        kept = unpacked_image(data)
        kept["group"] = kept["group"] and tuple(kept["group"])
        kept["sums"] = kept["sums"] and tuple(kept["sums"])
        kept["needs"] = frozenset(kept["needs"])
        return CudaImage(**kept)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class CudaKernel(Kernel):
    """`loaded`: the kernel on each device that has launched it."""

    image: CudaImage
    loaded: dict[object, LoadedKernel] = field(default_factory=dict)
