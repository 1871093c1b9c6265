"""`slangrad dump`: a function on its way to machine code, stage by stage, in color.

    // after stage 'lowered'
    func @polynomial(%a: f32, ...

In: a compiled example call (example.py).   Out: text, colored where it goes to a terminal.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

from slangrad import Device, Function, Module
from slangrad.base.options import Options
from slangrad.cli import dump_html
from slangrad.cli.example import example_arguments
from slangrad.explanation import costs_table
from slangrad.llvm import native
from slangrad.pipeline import CompiledKernel, compile_entry_point

LEXERS = {"kernel": "hlsl", "ast": "text", "asm": "gas"}
DEFAULT = "clean"


def compile_function(device: Device, path: str, name: str, mode: str, uniform: list[str]) -> CompiledKernel:
    """A kernel of the file, or the kernel of an example call of a function."""
    entries = {each.name: each for each in device.load_module(path).entry_points}
    if name not in entries:
        return compile_example(load_function(device, path, name), mode, uniform)
    if mode != "call" or uniform:
        raise ValueError(f"error: '{name}' is a kernel: --fwd, --bwd and --uniform are for functions")
    compiler = device.slang_session.compiler
    return compile_entry_point(compiler.program, entries[name].reference, compiler.options, compiler.target)


def load_function(device: Device, path: str, name: str) -> Function:
    """A function of a file. Modules are looked for beside the file, too."""
    try:
        return Module.load_from_file(device, path).require_function(name)
    except AttributeError as missing:
        raise ValueError(str(missing)) from None


def write_page(path: Path, compiled: CompiledKernel, name: str, mode: str) -> None:
    title = {"call": name, "fwds": f"fwd_diff({name})", "bwds": f"bwd_diff({name})"}[mode]
    machine = native.target_of(Options.from_environment())
    columns = dump_html.write_page(path, compiled, title, f"{machine.cpu}, {machine.lanes} lanes")
    print(f"{path}: {columns} columns")


def compile_example(function: Function, mode: str, uniform: list[str]) -> CompiledKernel:
    """The kernel of an example call of the function; mode is "call", "fwds" or "bwds"."""
    arguments = example_arguments(function, mode, uniform)
    chosen = {"call": function, "fwds": function.fwds, "bwds": function.bwds}[mode]
    compiled: CompiledKernel = chosen.compile(**arguments)
    return compiled


def chosen_stages(compiled: CompiledKernel, after: str, everything: bool) -> tuple[str, ...]:
    """All stages, one, or without a wish the code before it is taken apart."""
    if after and after not in compiled.stages:
        raise ValueError(f"error: there is no stage '{after}'; stages are: {', '.join(compiled.stages)}")
    return compiled.stages if everything else (after or DEFAULT,)


def show(console: Console, compiled: CompiledKernel, stages: tuple[str, ...], times: bool) -> None:
    for stage in stages:
        show_text(console, f"// after stage '{stage}'", "hlsl")
        show_text(console, compiled.text(stage).rstrip() + "\n", LEXERS.get(stage, "llvm"))
    if times:
        print(costs_table(compiled.costs))


def show_text(console: Console, text: str, lexer: str) -> None:
    """Not through the console where that would break long lines."""
    if console.is_terminal:
        console.print(Syntax(text, lexer, background_color="default", word_wrap=True))
    else:
        console.file.write(text + "\n")
