"""Spans are for people: machine code is the same whatever places its ops came from.

Kernels lose all spans when they are lowered, and are compiled on. The numbers of the places that report stand in the code
and tell copies of a place from each other by its span, so here all places have one number.
"""

from __future__ import annotations

import random
import runpy
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad import pipeline
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.base.traits import CPU
from slangrad.check.model import types as checked
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import Function, Op, Region, walk
from slangrad.ir.text.printer import print_program
from slangrad.pipeline import COMMON, CompiledKernel, flat_kernel
from slangrad.sites import Sites
from slangrad.stages import check, lower
from slangrad.syntax import ast
from slangrad.targets import cpu
from slangrad.unit import CompileRequest, Unit
from tests.flat import through
from tests.gradients.programs import PROGRAMS
from tests.gradients.test_programs import DERIVATIVES, points
from tests.language.manual import Block, Library, blocks_of, files_of

ROOT = Path(__file__).parents[2]
POINTERS = """
    float at(float* p, int i) { return p[i]; }
    float coherent(float* p, int i) { return loadCoherent<4, MemoryScope.Device>(p + i); }
    float constant(uint64_t p, int i) { return ConstBufferPointer<float>(p)[i]; }
    float element(RWStructuredBuffer<float> b, int i) { float* p = &b[i]; return *p; }
    float guarded(RWStructuredBuffer<float> b, int i) { float* p = &b[i]; return p != nullptr ? *p : 0; }
    float added(RWStructuredBuffer<float> b, int i) { InterlockedAdd(b[i], 1.0f); return b[0]; }
"""
WRITTEN = cpu.TARGET.tail[:3]  # up to LLVM text
NUMBERS = (
    checked.FLOAT,
    checked.DOUBLE,
    checked.INT,
    checked.UINT,
    checked.BOOL,
    checked.HALF,
    checked.INT64,
)


def without_spans(function: Function) -> Function:
    return replace(function, region=_bare(function.region), span=None)


def _bare(region: Region) -> Region:
    return replace(region, ops=[_bare_op(op) for op in region.ops])


def _bare_op(op: Op) -> Op:
    return replace(op, regions=tuple(map(_bare, op.regions)), span=None)


def written(unit: Unit) -> list[str]:
    """The kernel as flat IR and as LLVM text."""
    flat = flat_kernel(through(COMMON[2:], unit))
    return [*print_program(flat.program).splitlines(), *through(WRITTEN, flat).module.text.splitlines()]


def compare(request: CompileRequest) -> None:
    unit = lower(request)
    bare = {name: without_spans(f) for name, f in unit.program.functions.items()}
    assert any(op.span for op in walk(unit.function.region))
    assert not any(op.span for f in bare.values() for op in walk(f.region))
    made = written(replace(unit, program=replace(unit.program, functions=bare)))
    wanted = written(unit)
    different = next((pair for pair in zip_longest(wanted, made) if pair[0] != pair[1]), None)
    assert different is None, f"{unit.name} of {request.source.name}"  # without a comparison of all lines


@pytest.fixture(autouse=True)
def one_site(monkeypatch):
    monkeypatch.setattr(Sites, "number", lambda self, op: 0)


@pytest.fixture
def compared(monkeypatch) -> list[str]:
    """The names of the kernels that calls compiled, each of which was compared."""
    names, compile_one = [], pipeline._compile

    def compile_and_compare(request: CompileRequest) -> CompiledKernel:
        known = check(request)
        compare(known)
        names.append(request.source.name)
        return compile_one(known)

    monkeypatch.setattr(pipeline, "_compile", compile_and_compare)
    return names


# --- Kernels --------------------------------------------------------------------------------------------


def sample(things, count: int):
    return random.Random(5).sample(list(things), count)


@pytest.mark.parametrize("program", sample(PROGRAMS, 5), ids=lambda p: p.name)
@pytest.mark.parametrize("checks", [False, True], ids=["plain", "checks"])
def test_calls_and_their_derivatives(program, checks, compared):
    device = spy.create_device(options=replace(spy.Options.from_environment(), check=checks))
    module, (x, y) = spy.Module.load_from_source(device, program.name, program.text + DERIVATIVES), points(3)
    tx, ty = (spy.Tensor.from_numpy(device, each).with_grads() for each in (x, y))
    result = spy.Tensor.from_numpy(device, np.zeros(x.shape)).with_grads()
    module.f(tx, y, _result=result)
    module.vjp_x(x, 0.5)
    module.second_reverse(x, y)
    with device.check_mode(gradients=False) if checks else device:
        module.f.bwds(tx, ty, _result=result)
    assert len(compared) == 4


@pytest.mark.parametrize("checks", [False, True], ids=["plain", "checks"])
def test_pointers(checks, compared):
    device = spy.create_device(options=replace(spy.Options.from_environment(), check=checks))
    module = spy.Module.load_from_source(device, "pointers", POINTERS)
    memory = device.create_buffer(data=np.zeros(4, np.float32))
    for name in ("at", "coherent", "constant"):
        assert module[name](memory.device_address, 1) == 0
    for name in ("element", "guarded", "added"):
        assert module[name](memory, 1) == 0
    assert len(compared) == 6


@pytest.mark.parametrize("name", ["basic_autodiff", "buffer_gradient", "differentiable_tensors"])
def test_examples(name, compared):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert compared


def kernels_of(program: CheckedProgram, block: Block, options: Options) -> Iterator[CompileRequest]:
    """The kernels of a block of the manual, and one around each function that needs no arguments."""
    (file, *others) = files_of(block)
    for each in others:
        program.files.texts[each.name] = SourceFile(each.name, each.text)
    module = program.add_source(file.name, file.text)
    functions = [each for each in module.declaration.members if isinstance(each, ast.FunctionDeclaration)]
    calls = [
        f for f in functions if not f.parameters and program.info(f).result in NUMBERS and not f.generics
    ]
    text = file.text + "".join(
        f'[shader("compute")] [numthreads(1, 1, 1)] '
        f"void kernel_{f.name}(RWStructuredBuffer<{program.info(f).result}> out) {{ out[0] = {f.name}(); }}\n"
        for f in calls
    )
    module = program.add_source(f"{file.name}_kernels", text)
    for each in module.declaration.members:
        if isinstance(each, ast.FunctionDeclaration) and each.attribute("shader") is not None:
            yield CompileRequest(program, each.span.source, each.name, options, CPU, each, by_hand=True)


BLOCKS = [
    block
    for path in sorted((ROOT / "tests/language").glob("*.md"))
    for block in blocks_of(path)
    if not {"error", "type"} & {each.kind for file in files_of(block) for each in file.expectations}
]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


@pytest.mark.parametrize("block", sample(BLOCKS, 40), ids=lambda block: f"{block.path.stem}:{block.line}")
def test_blocks_of_the_manual(library, block):
    for checks in (False, True):
        for request in kernels_of(library.program(), block, Options(check=checks)):
            compare(request)
