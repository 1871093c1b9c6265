"""Runs the blocks of the manual.

In: a Slang block of a Markdown file, with expectations in its comments.   Out: a Mismatch where one fails.

    int f() { return 7 / 2; }          // result: 3            the function is run; also 1.5, true (parts)
    int g() { return a[9]; }           // reports: 9 of 4      an index is out of range when the function runs
    void h() { printf("%d", 1); }      // prints: 1
    uint l() { return WaveGetLaneIndex(); }    // wave: 0, 1, 2    run by three threads of a wave
    [shader("compute")] void k(uniform int* p) // launch: 4 -> 0, 1, 2, 3    what p holds after 4 threads
    double p(double x, int n) {...}    // gradient: 0.3, 4     both modes agree with finite differences there
    let v = a.xyz;                     // type: float3
    float y = undefined;               // error: E0301 "undefined"
    // file: shapes.slang              what follows is another file, which the first can import
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slangrad.autodiff.requests import differentiate
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.base.prints.formats import parse_format
from slangrad.base.source import SourceFile
from slangrad.check.checked_module import CheckedModule
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.refusals import Refusals
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts.files import Files
from slangrad.ir.data.numbers import numpy_dtype
from slangrad.ir.data.types import Pointer, Scalar, Type, components
from slangrad.ir.ops import core as ir
from slangrad.ir.oracle.interpret import KernelLaunch, Recorded, evaluate, evaluate_wave, run_kernel
from slangrad.ir.oracle.memory import leaves
from slangrad.ir.text import verify
from slangrad.lower.program import lower_functions, lower_program
from slangrad.opt.calls.inline import inline_into
from slangrad.opt.calls.kept_calls import keep_calls
from slangrad.opt.checks.escapes import refuse_escapes
from slangrad.pipeline import is_kept
from slangrad.stages import inline_settled
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk
from tests.language.gradients import gradient_text

COMMENT = re.compile(r"//\s*(result|wave|launch|reports|prints|gradient|type|error|file):\s*(.*?)\s*$")
TOLERANCE = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-12}


class Mismatch(Exception):
    """A block does something else than its comments say."""


def expect(holds: bool, message: str) -> None:
    if not holds:
        raise Mismatch(message)


@dataclass(frozen=True, slots=True)
class Block:
    """A Slang block; its line is that in the Markdown file."""

    path: Path
    heading: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Expectation:
    kind: str
    text: str
    line: int  # in the file of the block, from 1


@dataclass(slots=True)
class File:
    name: str
    lines: list[str] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def of(self, *kinds: str) -> list[Expectation]:
        return [each for each in self.expectations if each.kind in kinds]


def blocks_of(path: Path) -> Iterator[Block]:
    """The Slang blocks of a Markdown file, each under the heading before it."""
    heading, start = path.stem, 0
    lines: list[str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if lines is not None and line.startswith("```"):
            yield Block(path, heading, start, "\n".join(lines))
            lines = None
        elif lines is not None:
            lines.append(line)
        elif line.startswith("```slang"):
            start, lines = number + 1, []
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def files_of(block: Block) -> list[File]:
    """The main file, then those that follow `// file: name`."""
    files = [File(f"{block.path.stem}_{block.line}")]
    for line in block.text.splitlines():
        found = COMMENT.search(line)
        if found is not None and found[1] == "file":
            files.append(File(found[2].removesuffix(".slang")))
            continue
        files[-1].lines.append(line)
        if found is not None:
            files[-1].expectations.append(Expectation(found[1], found[2], len(files[-1].lines)))
    return files


# --- Programs -----------------------------------------------------------------------------------------


class Library:
    """The standard library, checked once; each block gets a program that knows nothing of the others."""

    def __init__(self) -> None:
        self._program = CheckedProgram(Options(verify=True))
        self._program.add_source(
            "parts",
            "// CoopVec, TextureCube, WaveMask, Handle, ddx, CalculateLevelOfDetail: parts of the library that are read for texts that speak of them",
        )
        self._state = _copied(vars(self._program))

    def program(self) -> CheckedProgram:
        vars(self._program).update(_copied(self._state))
        self._program.files = Files()
        self._program.refusals = Refusals()
        return self._program


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """Containers and the lists in them copied, all else shared."""
    return {
        name: {k: copy(v) if isinstance(v, list) else v for k, v in value.items()}
        if isinstance(value, dict)
        else copy(value)
        if isinstance(value, (list, set))
        else value
        for name, value in state.items()
    }


def run_block(library: Library, block: Block) -> None:
    program = library.program()
    files = files_of(block)
    main = files[0]
    for file in files[1:]:
        program.files.texts[file.name] = SourceFile(file.name, file.text)
    gradients = main.of("gradient")
    try:
        module = program.add_source(main.name, main.text)
        if gradients:
            module = program.add_source(f"{main.name}_gradients", _with_gradients(main, module, program))
        _run_functions(program, module, main)
        _run_kernels(program, module, main)
    except CompileError as error:
        _expect_errors(files, error)
    else:
        expect(not any(file.of("error") for file in files), "no error is reported")
        _expect_types(program, module, main)


def _expect_errors(files: list[File], error: CompileError) -> None:
    """Each error where it is expected, and no others."""
    wanted = {(file.name, e.line): e.text for file in files for e in file.of("error")}
    found: dict[tuple[str, int], str] = {}
    for each in error.diagnostics:
        assert each.span is not None, str(error)
        place = (each.span.source.name, each.span.source.line_column(each.span.start)[0])
        if each.is_error:
            found[place] = found.get(place, "") + f"[{each.code}] {each.message} ({each.note})"
    expect(found.keys() == wanted.keys(), f"expected errors at {sorted(wanted)}:\n{error}")
    for place, text in wanted.items():
        code, _, sentence = text.partition(" ")
        fits = f"[{code}]" in found[place] and sentence.strip('"') in found[place]
        expect(fits, f"expected {text}\n{error}")


def _expect_types(program: CheckedProgram, module: CheckedModule, file: File) -> None:
    for each in file.of("type"):
        kinds = [str(kind) for kind in _types_on_line(program, module, each.line)]
        expect(each.text in kinds[-1:], f"line {each.line} is of type {kinds}, not {each.text}")


def _types_on_line(program: CheckedProgram, module: CheckedModule, line: int) -> Iterator[object]:
    """Of the variable that is declared on a line, or of the outermost expression."""
    for node in walk(module.declaration):
        here = node.span.source.line_column(node.span.start)[0] == line
        if here and isinstance(node, ast.Variable):
            yield program.info(node).type
        elif here and isinstance(node, ast.ExpressionStatement):
            yield node.expression.type


# --- Running ------------------------------------------------------------------------------------------


def _run_functions(program: CheckedProgram, module: CheckedModule, file: File) -> None:
    wanted: dict[ast.FunctionDeclaration, list[Expectation]] = {}
    for each in file.of("result", "reports", "prints"):
        wanted.setdefault(_function_at(module, each.line), []).append(each)
    if wanted:
        references = [DeclRef(each, {}) for each in wanted]
        for function, results in zip(wanted, _evaluate(program, references), strict=True):
            _expect_results(function, wanted[function], *results)
    for each in file.of("wave"):
        _expect_wave(program, _function_at(module, each.line), each.text)
    for each in file.of("gradient"):
        _expect_gradient(program, module, _function_at(module, each.line))


def _expect_wave(program: CheckedProgram, function: ast.FunctionDeclaration, text: str) -> None:
    """The results of as many threads as there are numbers, in order."""
    wanted = [part.strip() for part in text.split(",")]
    lowered, (name,) = lower_functions(program, [DeclRef(function, {})], program.options)
    made = differentiate(lowered, inline_settled).program
    alone = inline_into(made, made.functions[name], lambda _: False)
    (scalar,) = (s for t in alone.result_types for s in _scalars(t))
    found = evaluate_wave(replace(made, functions={**made.functions, name: alone}), name, [()] * len(wanted))
    values = [leaf for results in found for leaf in leaves(results[0])]
    same = all(_is(value, scalar, part) for value, part in zip(values, wanted, strict=True))
    expect(same, f"{function.name}() is {values} in the threads of a wave, not {wanted}")


def _run_kernels(program: CheckedProgram, module: CheckedModule, file: File) -> None:
    """Launch the kernels that tell what they leave in memory; of others only the errors are wanted."""
    expected = {_function_at(module, each.line): each.text for each in file.of("launch")}
    problems: list[Diagnostic] = []
    for each in module.declaration.members:
        if isinstance(each, ast.FunctionDeclaration) and each.attribute("shader") is not None:
            try:
                lowered, name, _ = lower_program(program, DeclRef(each, {}), program.options)
            except CompileError as error:
                problems += error.diagnostics
            else:
                verify.verify(lowered, verify.LOWERED)
                if each in expected:
                    _expect_memory(lowered, name, expected[each], program.options)
    if problems:
        raise CompileError(problems)


def _expect_memory(lowered: ir.Program, name: str, text: str, options: Options) -> None:
    """`threads -> numbers`: the numbers behind the kernel's pointer, which were zero."""
    threads, _, numbers = text.partition("->")
    wanted = [part.strip() for part in numbers.split(",")]
    lowered = keep_calls(lowered, name, options, differentiates=True)
    made = keep_calls(differentiate(lowered, inline_settled).program, name, options)
    kernel = inline_into(made, made.functions[name], is_kept)
    assert made.arguments is not None
    ((_, pointer),) = made.arguments.fields
    assert isinstance(pointer, Pointer) and isinstance(pointer.element, Scalar)
    memory = np.zeros(len(wanted), numpy_dtype(pointer.element))
    block = np.array([memory.ctypes.data], np.uint64)
    groups = [int(part) for part in threads.split("x")] + [1, 1]
    size = kernel.attributes["group_size"]
    assert isinstance(size, tuple)
    x, y, z = (-(-n // g) * g for n, g in zip(groups, size, strict=False))
    launch = KernelLaunch(block.ctypes.data, (x, y, z))
    run_kernel(replace(made, functions={**made.functions, name: kernel}), name, launch)
    same = all(_is(value, pointer.element, part) for value, part in zip(memory.tolist(), wanted, strict=True))
    expect(same, f"kernel {name} leaves {memory.tolist()}, not {wanted}")


def _function_at(module: CheckedModule, line: int) -> ast.FunctionDeclaration:
    for node in module.declaration.members:
        first, last = (node.span.source.line_column(each)[0] for each in (node.span.start, node.span.end))
        if isinstance(node, ast.FunctionDeclaration) and first <= line <= last:
            return node
    raise Mismatch(f"there is no function on line {line}")


def _evaluate(
    program: CheckedProgram, references: list[DeclRef]
) -> Iterator[tuple[list[Any], list[Scalar], Recorded]]:
    lowered, names = lower_functions(program, references, program.options)
    verify.verify(lowered, verify.LOWERED)
    refuse_escapes(lowered.functions.values())
    for name in names:
        lowered = keep_calls(lowered, name, program.options, differentiates=True)
    made = differentiate(lowered, inline_settled).program
    verify.verify(made, verify.DIFFERENTIATED)
    for name in names:
        recorded = Recorded()
        results = evaluate(made, name, (), reports=recorded)
        types = made.functions[name].result_types
        yield [leaf for r in results for leaf in leaves(r)], [s for t in types for s in _scalars(t)], recorded


def _scalars(t: Type) -> Iterable[Scalar]:
    return [t] if isinstance(t, Scalar) else [s for part in components(t) for s in _scalars(part)]


def _expect_results(
    function: ast.FunctionDeclaration,
    wanted: list[Expectation],
    values: list[Any],
    types: list[Scalar],
    recorded: Recorded,
) -> None:
    found = {
        "reports": ", ".join(f"{index} of {extent}" for index, extent in recorded.bounds),
        "prints": "".join(parse_format(text).render(values) for text, values in recorded.prints).strip(),
    }
    for each in wanted:
        if each.kind == "result":
            parts = [part.strip() for part in each.text.split(",")]
            same = len(parts) == len(values) and all(map(_is, values, types, parts))
            expect(same, f"{function.name}() is {values}, not {each.text}")
        else:
            expect(found[each.kind] == each.text, f"{function.name}() {each.kind} {found[each.kind]!r}")
    silent = not recorded.bounds or any(each.kind == "reports" for each in wanted)
    expect(silent, f"{function.name}() reports {found['reports']}")


def _is(value: Any, t: Scalar, text: str) -> bool:
    if text in ("true", "false"):
        return bool(value is (text == "true"))
    if t.kind != "float":
        return not isinstance(value, bool) and bool(value == int(text, 0))
    wanted = float(text)
    if math.isnan(wanted) or math.isnan(value):
        return math.isnan(wanted) and math.isnan(value)
    if wanted == 0 or math.isinf(wanted):
        return bool(value == wanted and math.copysign(1, value) == math.copysign(1, wanted))
    return bool(abs(value - wanted) <= TOLERANCE[str(t)] * abs(wanted))


# --- Gradients ----------------------------------------------------------------------------------------


def _with_gradients(file: File, module: CheckedModule, program: CheckedProgram) -> str:
    """The text with functions behind it that compute each gradient in several ways."""
    text = file.text
    for each in file.of("gradient"):
        function = _function_at(module, each.line)
        kinds = [str(program.info(parameter).type) for parameter in function.parameters]
        text += gradient_text(function.name, kinds, [part.strip() for part in each.text.split(",")])
    return text


def _expect_gradient(
    program: CheckedProgram, module: CheckedModule, function: ast.FunctionDeclaration
) -> None:
    made = [f for f in module.declaration.members if isinstance(f, ast.FunctionDeclaration)]
    wanted = [f for f in made if f.name.startswith(f"{function.name}_by_")]
    results = _evaluate(program, [DeclRef(each, {}) for each in wanted])
    values = {
        each.name.rpartition("_by_")[2]: found for each, (found, _, _) in zip(wanted, results, strict=True)
    }
    for name, found in values.items():
        exact = values["second_differences" if name.startswith("second") else "differences"]
        scale = 1 + max(map(abs, exact))
        near = all(abs(x - y) <= 2e-6 * scale for x, y in zip(found, exact, strict=True))
        expect(near, f"{function.name}: {name} gives {found}, not {exact}")
