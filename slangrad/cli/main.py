"""The command `slangrad`: what it takes and what it prints. The work is done by the public API and the pipeline.

    slangrad run square.slang          slangrad check *.slang          slangrad dump poly.slang f --bwd --all
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import slangrad
from slangrad import pipeline
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.cli import doctor, stages

app = typer.Typer(
    help="Slang functions with gradients, on any CPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Includes = Annotated[list[Path], typer.Option("--include", "-I", help="A folder to look for modules and includes in.")]
File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A Slang file.")]


def fail(error: Exception) -> typer.Exit:
    """The error on standard error, and exit code 1."""
    Console(stderr=True, highlight=False).print(str(error), style="red", markup=False)
    return typer.Exit(1)


@app.command()
def run(
    file: File,
    entry: Annotated[str, typer.Option(help="The function to run; it takes no parameters.")] = "main",
    include: Includes = [],  # noqa: B006 (typer copies it)
) -> None:
    """Run a function of a file, and print what it prints and returns."""
    try:
        device = slangrad.create_device(include_paths=[file.parent, *include])
        function = slangrad.Module.load_from_file(device, str(file)).require_function(entry)
        result = function()
    except (ValueError, RuntimeError, IndexError, MemoryError) as error:
        raise fail(error) from None
    if result is not None:
        print(result)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="Slang files.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a diagnostic, for editors.")] = False,
    include: Includes = [],  # noqa: B006
) -> None:
    """Report the errors and warnings of files. The exit code is 1 if there are errors."""
    found = [each for file in files for each in pipeline.check_file(file, [file.parent, *include])]
    for each in found:
        print(json.dumps(described(each)) if as_json else f"{each}\n")
    errors = sum(each.severity == "error" for each in found)
    if not as_json:
        print(f"{len(files)} files, {errors} errors, {len(found) - errors} warnings")
    raise typer.Exit(1 if errors else 0)


def described(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic for editors; lines and columns count from one, ends are exclusive."""
    span = diagnostic.span
    place: dict[str, Any] = {}
    if span is not None:
        line, column = span.source.line_column(span.start)
        end_line, end_column = span.source.line_column(span.end)
        place = {"file": span.source.name, "line": line, "column": column, "endLine": end_line, "endColumn": end_column}
    return {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "note": diagnostic.note,
        **place,
    }


@app.command()
def dump(
    file: File,
    function: Annotated[str, typer.Argument(help="A function of the file.")],
    after: Annotated[str, typer.Option(help="Show the program after this stage only.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show every stage.")] = False,
    forward: Annotated[bool, typer.Option("--fwd", help="The forward-mode derivative.")] = False,
    backward: Annotated[bool, typer.Option("--bwd", help="The reverse-mode derivative.")] = False,
    times: Annotated[bool, typer.Option("--times", help="What each stage took.")] = False,
    include: Includes = [],  # noqa: B006
) -> None:
    """Show a function on its way from text to machine code: kernel, AST, IR, derivative, lanes, LLVM, assembly.

    The function is called as from Python with a tensor for each parameter.
    """
    try:
        mode = "bwds" if backward else "fwds" if forward else "call"
        compiled = stages.compile_example(file, function, mode, [file.parent, *include])
        stages.show(compiled, after, everything, times)
    except (CompileError, ValueError) as error:
        raise fail(error) from None


@app.command(name="doctor")
def examine() -> None:
    """Tell what this machine offers: CPU features, lanes, threads, LLVM, devices."""
    if not doctor.report(Console(file=sys.stdout, highlight=False)):
        raise typer.Exit(1)
