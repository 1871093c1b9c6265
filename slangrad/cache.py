"""Compiled kernels on disk: their keys, and their entries.

    key = kernel_key(options, "cpu", text, module_keys)     all that the machine code depends on, as a digest
    found = find_kernel(options, "cpu", key)                a StoredKernel, ready to be launched, or None
    entry = kernel_entry(image, arguments, used)            `image` comes from the pipeline: CompiledKernel.image
    keep_kernel(options, key, entry)                        workers send such bytes, too: stored_kernel("cpu", entry)

Calls and kernels of users share this. The key of a call covers the kernel's text, that of an entry point its name
and place. Both cover the keys of all visible modules (`Module.key` of the checker: texts and imports). `extra` is
JSON that the caller stores with a kernel. Settings that disable the store (`verify`, `dump`, a target without code)
give the key "", which never has an entry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from slangrad.backends import backend_of
from slangrad.base.disk.identity import compiler_identity
from slangrad.base.disk.store import Json, content_key
from slangrad.base.options import Options, store_of
from slangrad.ir.data.type_data import type_data, type_from
from slangrad.ir.data.types import Struct
from slangrad.runtime.device import Kernel
from slangrad.runtime.image import Image

FORMAT = 1


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel, the struct in its argument block, the arguments that it reads, and the JSON stored with it."""

    kernel: Kernel
    arguments: Struct
    used: frozenset[str]
    extra: Json


def kernel_key(options: Options, target: str, *parts: object) -> str:
    """The key of a kernel or of anything else that depends on settings, compiler and machine."""
    if options.verify or options.dump or store_of(options).problem:
        return ""
    environment = environment_key(target)
    if not environment:
        return ""
    return content_key(environment, settings_text(options), *parts)


def find_kernel(options: Options, target: str, key: str) -> StoredKernel | None:
    """The kernel that `keep_kernel` has kept, ready to be launched; None if there is none."""
    if not key:
        return None
    store = store_of(options)
    data = store.get(key)
    if data is None:
        store.misses += 1
        return None
    store.hits += 1
    return stored_kernel(target, data)


def stored_kernel(target: str, entry: bytes) -> StoredKernel:
    """The kernel that `kernel_entry` has written."""
    load = backend_of(target).load
    assert load is not None
    kernel, about = load(entry)
    arguments = type_from(about["arguments"])
    assert isinstance(arguments, Struct)
    return StoredKernel(kernel, arguments, frozenset(about["used"]), about["extra"])


def kernel_entry(image: Image | None, arguments: Struct, used: Iterable[str], extra: object = None) -> bytes:
    """A kernel as bytes; none without machine code."""
    if image is None:
        return b""
    about = {"arguments": type_data(arguments), "used": sorted(used), "extra": extra}
    return image.to_bytes(about)


def keep_kernel(options: Options, key: str, entry: bytes) -> None:
    """Keep a kernel, unless there is no key or no machine code."""
    if key and entry:
        store_of(options).put(key, entry)


def keep_ready(options: Options, target: str, kernel: Kernel) -> None:
    """Keep all that the target's device needs of a kernel besides its entry, if that can be made on this machine."""
    ready = backend_of(target).ready
    if ready is not None:
        ready(options, kernel)


# --- Dependencies of machine code besides its source --------------------------------------------------


@cache
def environment_key(target: str) -> str:
    """This version of the compiler, and the identity of the target; "" if its code is not kept."""
    identity = backend_of(target).identity
    return (
        ""
        if identity is None
        else content_key(FORMAT, sys.byteorder, compiler_identity(), target, identity())
    )


def settings_text(options: Options) -> str:
    """The settings that machine code depends on."""
    chosen = (sorted(options.disable_warnings), sorted(options.warnings_as_errors))
    none: frozenset[str] = frozenset()  # sets have no order; the folder of kernels is left out
    bare = replace(
        options, disable_warnings=none, warnings_as_errors=none, synchronous=False, target="", also=()
    )
    return repr((replace(bare, threads=0, processes=0, verify=False, dump=(), progress=True), chosen))
