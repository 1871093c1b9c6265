"""`slangrad dump`: a function on its way to machine code, stage by stage, in color.

The function is called with an example: a tensor of four elements for a parameter that takes values, a tensor of the
parameter's own rank for one that takes a tensor.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import slangrad
from slangrad.pipeline import CompiledKernel

LEXERS = {"kernel": "hlsl", "ast": "text", "llvm": "llvm", "asm": "gas"}


def compile_example(file: Path, name: str, mode: str, include: list[Path]) -> CompiledKernel:
    """The kernel of an example call of the function; mode is "call", "fwds" or "bwds"."""
    device = slangrad.create_device(include_paths=include)
    module = slangrad.Module.load_from_file(device, str(file))
    function = module.require_function(name)
    chosen = function if mode == "call" else getattr(function, mode)
    return chosen.compile_example()


def show(compiled: CompiledKernel, after: str, everything: bool, times: bool) -> None:
    """Print the stages asked for: all of them, one, or without a wish the kernel and the code before lanes."""
    if after and after not in compiled.stages:
        raise ValueError(f"there is no stage '{after}'; stages are: {', '.join(compiled.stages)}")
    console = Console()
    wanted = compiled.stages if everything else (after or "clean",)
    for stage in wanted:
        console.rule(f"[bold]{stage}", align="left")
        text = compiled.text(stage)
        if console.is_terminal:
            console.print(Syntax(text, LEXERS.get(stage, "llvm"), background_color="default", word_wrap=True))
        else:
            print(text)
    if times:
        console.print(_times(compiled))


def _times(compiled: CompiledKernel) -> Table:
    table = Table("stage", "ms", box=None)
    for stage, milliseconds in compiled.milliseconds.items():
        table.add_row(stage, f"{milliseconds:.1f}")
    table.add_row("sum", f"{sum(compiled.milliseconds.values()):.1f}")
    return table
