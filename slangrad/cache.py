"""Compiled kernels on disk: what they are found by, and what is kept of them.

    key = kernel_key(options, "cpu", text, module_keys)     all that the machine code depends on, as a digest
    found = find_kernel(options, key, load)                 a StoredKernel, ready to be launched, or None
    entry = kernel_entry(image, arguments, used)            `image` comes from the pipeline: CompiledKernel.image
    keep_kernel(options, key, entry)                        workers send such bytes, too: stored_kernel(entry, load)

Calls and kernels of users share this: for a call the key is of the kernel's text, for an entry point of its name
and place; both with the keys of all modules that are seen (`Module.key` of the checker: texts and imports).
`extra` is whatever the caller wants back, as JSON has it. Settings under which nothing is kept (`verify`, `dump`,
the interpreter) give the key "": nothing is found by it and nothing is kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slangrad.base.identity import compiler_identity
from slangrad.base.options import Options, store_of
from slangrad.base.store import content_key
from slangrad.base.traits import TRAITS
from slangrad.ir.type_data import type_data, type_from
from slangrad.ir.types import Struct
from slangrad.runtime.cpu import NativeKernel
from slangrad.runtime.image import KernelImage, Load
from slangrad.runtime.processors import processor_identity

FORMAT = 1


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel, the struct that its argument block holds, the arguments that it reads, and what was kept with it."""

    kernel: NativeKernel
    arguments: Struct
    used: frozenset[str]
    extra: Any


def kernel_key(options: Options, target: str, *parts: object) -> str:
    """The key of a kernel or of anything else that depends on settings, compiler and machine."""
    if not TRAITS[target].is_stored or options.verify or options.dump or store_of(options).problem:
        return ""
    return content_key(environment_key(), _settings(options), *parts)


def find_kernel(options: Options, key: str, load: Load) -> StoredKernel | None:
    """What `keep_kernel` has kept; `load` brings machine code into memory."""
    if not key:
        return None
    store = store_of(options)
    data = store.get(key)
    if data is None:
        store.misses += 1
        return None
    store.hits += 1
    return stored_kernel(data, load)


def stored_kernel(entry: bytes, load: Load) -> StoredKernel:
    """The kernel that `kernel_entry` has written."""
    image = KernelImage.from_bytes(entry)
    arguments = type_from(image.about["arguments"])
    assert isinstance(arguments, Struct)
    return StoredKernel(image.kernel(load), arguments, frozenset(image.about["used"]), image.about["extra"])


def kernel_entry(
    image: KernelImage | None, arguments: Struct, used: Iterable[str], extra: Any = None
) -> bytes:
    """A kernel as bytes; none without machine code."""
    if image is None:
        return b""
    about = {"arguments": type_data(arguments), "used": sorted(used), "extra": extra}
    return replace(image, about=about).to_bytes()


def keep_kernel(options: Options, key: str, entry: bytes) -> None:
    """Keep a kernel, unless there is no key or no machine code."""
    if key and entry:
        store_of(options).put(key, entry)


# --- What machine code depends on besides its source --------------------------------------------------


@cache
def environment_key() -> str:
    """This version of the compiler, of LLVM, and this processor."""
    return content_key(FORMAT, sys.byteorder, compiler_identity(), llvm_identity(), processor_identity())


@cache
def llvm_identity() -> str:
    """Version and library of llvmlite, which is not imported for this."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return ""
    return content_key(*_stamps(Path(spec.origin).parent))


def _stamps(package: Path) -> Iterator[tuple[str, int, int]]:
    """Of the file with the version, and of the library, whatever it is called here."""
    for folder in (package, package / "binding"):
        with os.scandir(folder) as entries:
            for each in sorted(entries, key=lambda entry: entry.name):
                if each.name == "_version.py" or "llvmlite" in each.name:
                    known = each.stat()
                    yield each.name, known.st_size, known.st_mtime_ns


def _settings(options: Options) -> str:
    """What was chosen, without what machine code does not depend on."""
    chosen = (sorted(options.disable_warnings), sorted(options.warnings_as_errors))
    none: frozenset[str] = frozenset()  # sets have no order; where kernels are kept is not shown
    bare = replace(options, disable_warnings=none, warnings_as_errors=none)
    return repr((replace(bare, threads=0, processes=0, verify=False, dump=(), progress=True), chosen))
