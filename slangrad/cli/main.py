"""The command `slangrad`: its arguments and output. The work is done by the public API and the pipeline.

    slangrad run square.slang          slangrad check *.slang          slangrad dump poly.slang f --bwd --all

The exit code is 1 when a program is wrong or fails, 2 when the command itself is not understood. Each command loads
its own modules: `check` needs no pipeline, so it shows an error before LLVM is loaded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import slangrad
from slangrad.base.diagnostics import Diagnostic
from slangrad.base.disk.store import Store
from slangrad.base.lazy import LazyModule
from slangrad.base.options import Options

CONSOLE = LazyModule("rich.console")
DIAGNOSE = LazyModule("slangrad.check.diagnose")
COMPILE = LazyModule("slangrad.cli.compile")
DOCTOR = LazyModule("slangrad.cli.doctor")
STAGES = LazyModule("slangrad.cli.stages")
GRAPH = LazyModule("slangrad.cli.graph")
KERNELS = LazyModule("slangrad.cli.kernels")
TRAIN_MLP = LazyModule("slangrad.cli.train_mlp")
TRAIN_MLP_SHOW = LazyModule("slangrad.cli.train_mlp_show")

app = typer.Typer(
    help="Slang functions with gradients, on any CPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(help="A Slang file.")]
Includes = Annotated[list[Path], typer.Option("--include", "-I", help="A folder to look for modules in.")]


def failures() -> tuple[type[BaseException], ...]:
    """Exceptions of wrong programs, arguments and settings; others are bugs of the compiler and show a
    traceback."""
    kernel = (slangrad.KernelAssertionError, slangrad.KernelRecursionError, slangrad.KernelTypeError)
    return (ValueError, IndexError, MemoryError, OSError, *kernel)


@contextmanager
def failures_shown() -> Iterator[None]:
    """A failure goes to standard error, and the exit code is 1."""
    try:
        yield
    except failures() as failure:
        sys.stdout.flush()
        CONSOLE.Console(stderr=True, highlight=False, soft_wrap=True).print(
            str(failure), style="red", markup=False
        )
        raise typer.Exit(1) from None


def located(file: Path, include: list[Path]) -> Path:
    """The path of the file itself, not of one with the same name in the search folders."""
    if not file.is_file():
        raise ValueError(f"error: there is no file '{file}'")
    hidden = any((folder / file).is_file() for folder in include)
    return file.absolute() if hidden else file


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"slangrad {slangrad.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Slang functions with gradients, on any CPU."""


@app.command()
def run(
    file: File,
    entry: Annotated[str, typer.Option(help="The function to run; it takes no parameters.")] = "main",
    include: Includes = [],  # noqa: B006 (typer copies it)
) -> None:
    """Run a function of a file, and print what it prints and returns."""
    with failures_shown():
        device = slangrad.create_device(include_paths=include)
        result = STAGES.load_function(device, str(located(file, include)), entry)()
    if result is not None:
        print(result)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Slang files.")],
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each, for editors.")] = False,
    include: Includes = [],  # noqa: B006
) -> None:
    """Report the errors and warnings of files. The exit code is 1 if there are errors."""
    with failures_shown():
        existing = [located(file, include) for file in files if file.is_file()]
        diagnostics = DIAGNOSE.check_files(existing, include, Options.from_environment())
    missing = [Diagnostic("E0327", f"there is no file '{file}'") for file in files if not file.is_file()]
    diagnostics = (*missing, *diagnostics)
    for diagnostic in diagnostics:
        print(json.dumps(described(diagnostic)) if as_json else f"{diagnostic}\n")
    errors = sum(diagnostic.is_error for diagnostic in diagnostics)
    if not as_json:
        counts = (len(files), "file"), (errors, "error"), (len(diagnostics) - errors, "warning")
        print(", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts))
    raise typer.Exit(1 if errors else 0)


def described(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic for editors; lines and columns count from one, ends are exclusive."""
    span = diagnostic.span
    place: dict[str, object] = {}
    if span is not None:
        line, column = span.source.line_column(span.start)
        end_line, end_column = span.source.line_column(span.end)
        place = {
            "file": span.source.name,
            "line": line,
            "column": column,
            "endLine": end_line,
            "endColumn": end_column,
        }
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "note": diagnostic.note,
        **place,
    }


@app.command(name="compile")
def compile_modules(
    files: Annotated[list[Path], typer.Argument(help="Slang files.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A folder, or a file .slang-module for a single module."),
    ] = None,
    macros: Annotated[list[str], typer.Option("--define", "-D", help="A macro, NAME or NAME=VALUE.")] = [],  # noqa: B006
    imports: Annotated[bool, typer.Option("--imports", help="Compile what they import, too.")] = False,
    target: Annotated[
        str, typer.Option(help='Compile kernels to a cache instead: "cuda:sm_90", "cpu". No GPU is needed.')
    ] = "",
    include: Includes = [],  # noqa: B006
) -> None:
    r"""Compile files to modules that programs import without the sources: a.slang to a.slang-module.

    With --target, compile their kernels, functions marked \[shader("compute")], into the folder --out of compiled
    kernels, by default that of SLANGRAD_CACHE. The folder can be moved to another machine.
    """
    with failures_shown():
        sources = [located(file, include) for file in files]
        if target:
            for line in KERNELS.keep_kernels(sources, target, out, include, COMPILE.macros_of(macros)):
                print(line)
            return
        written, warnings = COMPILE.write_modules(sources, out, include, COMPILE.macros_of(macros), imports)
    for warning in warnings:
        print(f"{warning}\n", file=sys.stderr)
    for path in written:
        print(path)


@app.command()
def dump(
    file: File,
    function: Annotated[str, typer.Argument(help='A function of the file: "f", "f<float>", "Type.method".')],
    after: Annotated[str, typer.Option(help="Show the program after this stage only.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show every stage.")] = False,
    forward: Annotated[bool, typer.Option("--fwd", help="The forward-mode derivative.")] = False,
    backward: Annotated[bool, typer.Option("--bwd", help="The reverse-mode derivative.")] = False,
    times: Annotated[
        bool, typer.Option("--times", help="The time of each stage, and the size of the program after it.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="The values that the reverse-mode derivative stores, with reasons."),
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write all stages side by side to a page.")] = None,
    uniform: Annotated[list[str], typer.Option(help="A parameter with one value for all calls.")] = [],  # noqa: B006
    target: Annotated[str, typer.Option(help='Whose code is made: "cuda:sm_90". No GPU is needed.')] = "",
    include: Includes = [],  # noqa: B006
) -> None:
    r"""Show a function on its way from text to machine code: kernel, AST, IR, derivative, lanes, assembly.

    It is called as from Python, with a tensor for each parameter, or a number for those named by --uniform. Kernels,
    functions marked \[shader("compute")], are shown as they are.
    """
    with failures_shown():
        mode = mode_of(forward, backward or report)
        if html is not None and (after or everything):
            raise ValueError("error: --html shows all stages: leave out --after and --all")
        options = replace(Options.from_environment(), target=target)
        device = slangrad.create_device(include_paths=include, options=options)
        compiled = STAGES.compile_function(device, str(located(file, include)), function, mode, uniform)
        chosen = STAGES.chosen_stages(compiled, after, everything)
        if report:
            print(compiled.explanation if times else compiled.explanation.sweeps)
            return
        if html is not None:
            STAGES.write_page(html, compiled, function, mode)
    STAGES.show(CONSOLE.Console(highlight=False), compiled, chosen if html is None else (), times)


def mode_of(forward: bool, backward: bool) -> str:
    if forward and backward:
        raise ValueError("error: choose one of --fwd and --bwd")
    return "bwds" if backward else "fwds" if forward else "call"


class Precision(StrEnum):
    half = "half"
    float = "float"


class OptimizerName(StrEnum):
    adam = "adam"
    gd = "gd"


@app.command()
def train_mlp(
    steps: Annotated[int | None, typer.Option(min=1, help="How many; 3000.")] = None,
    precision: Annotated[Precision, typer.Option(help="Of all numbers of the network.")] = Precision.half,
    optimizer: Annotated[
        OptimizerName, typer.Option(help="Adam, or plain gradient descent.")
    ] = OptimizerName.adam,
    points: Annotated[
        int | None, typer.Option(min=1, max=1 << 24, help="Of each step; 1024, or 8 with gd.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of first parameters and points.")] = 0,
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")] = Path("mlp.png"),
) -> None:
    """Train a network of 148 parameters in Slang to be four functions at once, and draw what it has learned.

    Ctrl-C ends it early, with what it has learned so far.
    """
    steps, points = steps or TRAIN_MLP.STEPS, points or TRAIN_MLP.POINTS[optimizer]
    settings = TRAIN_MLP.TrainingSettings(precision.value, optimizer.value, steps, points, seed)
    with failures_shown():
        TRAIN_MLP_SHOW.run(CONSOLE.Console(highlight=False), settings, out)


cache_commands = typer.Typer(help="The cache of compiled kernels.", no_args_is_help=True)
app.add_typer(cache_commands, name="cache")


@cache_commands.command()
def info() -> None:
    """Tell where compiled kernels are kept, and how much there is."""
    with failures_shown():
        print(DOCTOR.described_cache(Store.of_environment().usage()))


@cache_commands.command()
def clear() -> None:
    """Remove all compiled kernels. They are made again when they are needed."""
    with failures_shown():
        count = Store.of_environment().clear()
    print(f"{count} {'entry' if count == 1 else 'entries'} removed")


graph_commands = typer.Typer(help="Training steps of slangrad.graph.", no_args_is_help=True)
app.add_typer(graph_commands, name="graph")


@graph_commands.callback()
def graph() -> None:
    """Training steps of slangrad.graph."""


@graph_commands.command()
def plan(
    target: Annotated[str, typer.Argument(metavar="FILE:STEP", help="A Python file, and a name in it.")],
    workers: Annotated[int | None, typer.Option(min=1, help="How many there are.")] = None,
    mesh: Annotated[
        str,
        typer.Option(
            help="Their axes: data=128,model=8; all on data by default; auto: the best of data and stages."
        ),
    ] = "",
    links: Annotated[Path | None, typer.Option(help="A file that graph.measure_links().save wrote.")] = None,
    workers_per_host: Annotated[int | None, typer.Option(min=1, help="Neighbors on one host.")] = None,
    timeline: Annotated[
        Path | None, typer.Option(help="Write a picture, .svg or .html, or a trace, .json.")
    ] = None,
) -> None:
    """Tell how long a training step takes on workers that are not there, and what it waits for.

    STEP is a step of graph.train, beside a tuple "batch" with the arrays that one worker passes, or a function that
    returns the step and such a tuple.
    """
    with failures_shown():
        lines, simulation = GRAPH.simulated(target, workers, links, mesh, workers_per_host)
        if timeline is not None:
            simulation.save(timeline)
    print(*lines, simulation, sep="\n")


@app.command(name="doctor")
def examine() -> None:
    """Tell what this machine offers: CPU features, lanes, threads, LLVM, devices."""
    with failures_shown():
        works = DOCTOR.report(CONSOLE.Console(highlight=False))
    raise typer.Exit(0 if works else 1)
