"""Shows the texts of the kernels of calls as they are made: printed, or written to files.

    set_print_generated_shaders(True)       or SLANGPY_PRINT_GENERATED_SHADERS=1
    set_dump_generated_shaders(True)        or SLANGPY_DUMP_GENERATED_SHADERS=1      .temp/polynomial_ab12cd34.slang
    set_dump_slang_intermediates(True)      or SLANGPY_DUMP_SLANG_INTERMEDIATES=1    one file for each stage, too

Kernels from the disk are shown as well. Names and variables are SlangPy's; SLANGRAD_DUMP prints stages.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from slangrad.call.plans.packing import Compiled

FOLDER = ".temp"
RULE = "=" * 80


def _is_set(name: str) -> bool:
    return os.environ.get(f"SLANGPY_{name}", "").strip().lower() in ("1", "true")


class _Showing:
    """Switches: which texts of kernels are shown, and how."""

    def __init__(self) -> None:
        self.prints = _is_set("PRINT_GENERATED_SHADERS")
        self.writes = _is_set("DUMP_GENERATED_SHADERS")
        self.writes_stages = _is_set("DUMP_SLANG_INTERMEDIATES")
        self.is_on = self.prints or self.writes or self.writes_stages

    def change(self, name: str, value: bool) -> None:
        setattr(self, name, bool(value))
        self.is_on = self.prints or self.writes or self.writes_stages


SHOWING = _Showing()


def set_print_generated_shaders(value: bool) -> None:
    """Whether the text of each kernel of a call is printed when the call is met for the first time."""
    SHOWING.change("prints", value)


def set_dump_generated_shaders(value: bool) -> None:
    """Whether it is written to a file of the folder `.temp`."""
    SHOWING.change("writes", value)


def set_dump_slang_intermediates(value: bool) -> None:
    """Whether the program after each stage of the compiler is written there."""
    SHOWING.change("writes_stages", value)


def show_kernel(name: str, compiled: Compiled) -> None:
    """Show the kernel of a call of a function of that name."""
    text = compiled.text
    if SHOWING.prints:
        print(f"{RULE}\nGENERATED SHADER: {name}\n{RULE}\n{text}\n{RULE}\nEND SHADER: {name}\n{RULE}")
    if not (SHOWING.writes or SHOWING.writes_stages):
        return
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)
    stem = f"{plain}_{sha256(text.encode()).hexdigest()[:8]}"
    (folder / f"{stem}.slang").write_text(text)
    if SHOWING.writes_stages:
        stages = compiled.stages
        for stage in stages.stages:
            (folder / f"{stem}.{stage}.txt").write_text(stages.text(stage))
