"""A compiled kernel as plain bytes: a `NativeKernel` before it has addresses.

    image = KernelImage("k", 16, code, ("entry", "drain"), sites)
    data = image.to_bytes();  KernelImage.from_bytes(data).kernel(load)   ->   NativeKernel

`load` brings object code into memory: `object_code.load_object`, or the compiler's portable loader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from struct import Struct
from typing import Any, Protocol

from slangrad.runtime.cpu import DEFAULT_GRANULARITY, NativeKernel
from slangrad.runtime.object_code import Loaded
from slangrad.runtime.reports import Site

Load = Callable[[bytes, Sequence[str]], Loaded]

_LENGTH = Struct("<I")


class Image(Protocol):
    """A kernel of any target as bytes. `about`: extra JSON that is stored with it."""

    def to_bytes(self, about: object = None) -> bytes: ...


def packed_image(fields: Mapping[str, object], sites: Sequence[Site], code: bytes) -> bytes:
    """The length of a head in JSON, the head, the code."""
    rows = [[site.location, site.excerpt, site.text] for site in sites]
    head = json.dumps({**fields, "sites": rows}, separators=(",", ":")).encode()
    return _LENGTH.pack(len(head)) + head + code


def unpacked_image(data: bytes) -> dict[str, Any]:  # fields of any type
    (length,) = _LENGTH.unpack_from(data)
    fields = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    sites = tuple(Site(*row) for row in fields["sites"])
    return {**fields, "sites": sites, "code": data[_LENGTH.size + length :]}


ENTRY, DRAIN, SHARE, REDUCE, PLAN = "entry", "drain", "share", "reduce", "plan"
FALLBACK, FALLBACK_DRAIN = "fallback", "fallback_drain"
DELAYED = (PLAN, REDUCE, FALLBACK, FALLBACK_DRAIN)  # the other functions of kernels whose adds are delayed
DELAYED_GRANULARITY = 1024  # so that adding up the lanes of accumulators takes little of a chunk's time


@dataclass(frozen=True, slots=True)
class KernelImage:
    """The fields of a `NativeKernel`. `functions`: which of entry, drain, share and reduce it has. `about`: extra JSON
    that is stored with it."""

    name: str
    argument_size: int
    code: bytes
    functions: tuple[str, ...]
    sites: tuple[Site, ...] = ()
    ordered: bool = False
    granularity: int = DEFAULT_GRANULARITY
    group: tuple[int, int, int] = (1, 1, 1)
    follows_memory: bool = False
    about: object = None

    def __repr__(self) -> str:
        return f"KernelImage({self.name}, {len(self.code)} bytes)"

    def kernel(self, load: Load) -> NativeKernel:
        loaded = load(self.code, self.functions)
        address = loaded.addresses
        shared = {name: getattr(self, name) for name in _SHARED}
        entry, drain, reduce = address[ENTRY], address.get(DRAIN, 0), address.get(REDUCE, 0)
        share = address.get(SHARE, 0)
        kernel = NativeKernel(
            entry=entry, drain=drain, share=share, reduce=reduce, code=loaded.code, **shared
        )
        if PLAN not in address:
            return kernel
        first, last = address[FALLBACK], address[FALLBACK_DRAIN]
        fallback = replace(
            kernel, entry=first, drain=last, share=0, reduce=0, ordered=True, granularity=DEFAULT_GRANULARITY
        )
        return replace(kernel, plan=address[PLAN], fallback=fallback)

    def to_bytes(self, about: object = None) -> bytes:
        kept = {name: getattr(self, name) for name in (*_SHARED, "functions")} | {"about": about}
        return packed_image(kept, self.sites, self.code)

    @staticmethod
    def from_bytes(data: bytes) -> KernelImage:
        kept = unpacked_image(data)
        kept["functions"], kept["group"] = tuple(kept["functions"]), tuple(kept["group"])
        return KernelImage(**kept)


# Fields that a kernel takes from its image unchanged.
_SHARED = tuple(
    field.name for field in fields(KernelImage) if field.name not in ("code", "functions", "about")
)
