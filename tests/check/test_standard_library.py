"""Every body of the standard library checks, not only those that some program needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slangrad.base.compiling import compiling
from slangrad.base.diagnostics import Reporter
from slangrad.base.options import store_of
from slangrad.check.bodies import bodies
from slangrad.check.derivatives import derivative_attributes
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts import standard
from slangrad.check.texts.files import STD
from slangrad.check.texts.standard import ON_REQUEST
from slangrad.syntax import ast
from tests.check.programs import check, type_of


def test_the_library_is_correct() -> None:
    program = CheckedProgram()
    program.reporter = Reporter()
    with compiling():
        for file in [each for each in program.scopes if isinstance(each, ast.ModuleDeclaration)]:
            bodies.check_members(program, file)
        while program.later:
            program.later.pop(0)()
    assert [str(each) for each in program.reporter.diagnostics] == []


@pytest.mark.parametrize("name", sorted(ON_REQUEST))
def test_parts_that_are_imported(name: str) -> None:
    assert (STD / f"{name}.slang").is_file()
    program = CheckedProgram()
    module = program.load_module(name)
    for declaration in module.declaration.members:
        if isinstance(declaration, ast.FunctionDeclaration):
            program.check_body(declaration)
    assert module.path is not None and Path(module.path).name == f"{name}.slang"


def declared_in(declaration: ast.Declaration) -> Iterator[ast.Declaration]:
    for each in getattr(declaration, "members", ()):
        yield each
        yield from declared_in(each)


def test_the_library_has_nothing_that_is_passed_over() -> None:
    """Bit fields, structs that inherit, and derivatives of others in files that do not speak of them."""
    program = CheckedProgram()
    files = [each for each in program.scopes if isinstance(each, ast.ModuleDeclaration)]
    files += standard.parts(standard.NAMES, store_of(program.options))
    structs = [
        each for file in files for each in declared_in(file) if isinstance(each, ast.StructDeclaration)
    ]
    fields = [each for struct in structs for each in struct.members if isinstance(each, ast.Variable)]
    assert len(structs) > 50 and fields and all(each.bits is None for each in fields)
    for struct in structs:
        assert not {base.span.text.partition("<")[0] for base in struct.bases} & {
            each.name for each in structs
        }
    before = {name: list(noted) for name, noted in program.derivative_functions.items()}
    assert {"length", "normalize"} <= before.keys()
    for file in files:
        if not derivative_attributes.are_named_in(file.source):
            derivative_attributes.note_derivatives(program, file.members)
    assert program.derivative_functions == before


def test_bodies_of_the_library_wait_until_they_are_needed() -> None:
    module = check("float f(float3 x) { return length(x); }")
    assert type_of(module, "length(x)") == "float"


def test_the_library_s_types_have_their_usual_names() -> None:
    text = """
        void f(RWStructuredBuffer<float3> b, StructuredBuffer<int> c, Atomic<uint>* a, Tensor<float, 2> t)
        {
            b[0].x; c[1]; a.add(1); t[0, 1]; b[1] = b[0] + 1;
        }"""
    module = check(text)
    assert [type_of(module, each) for each in ("b[0].x", "c[1]", "a.add(1)", "t[0, 1]")] == [
        "float",
        "int",
        "uint",
        "float",
    ]
