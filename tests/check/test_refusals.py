"""Features that are not supported: a program may mention them, and a function that uses them is an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.check.checked_module import CheckedModule
from slangrad.check.diagnose import check_files
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.lower.program import lower_functions, lower_program
from slangrad.syntax import ast
from tests.check.programs import check, problem, program

TEXT = """
RaytracingAccelerationStructure scene;
typealias Query = RayQuery<0>;
struct Hit { float distance; Query query; }
struct Ray : RayDesc { float y; }
enum Flags : RAY_FLAG { A, B }
struct Default { float x = abort("a default"); }
struct Methods
{
    property float refused { get { abort("a property"); return 1; } }
    Query query() { return {}; }
    float allowed() { return 3; }
}
interface IShape { float area(); }
struct Square : IShape { float area() { return 1; } }
static int counter = clock();
static const int N = clock();
ParameterBlock<Hit> block;
extension RayQuery<0> : IShape { float area() { return 1; } }

float allowed(float x) { return 2 * x; }
float method() { Methods m; return m.allowed(); }
float other(float x) { __target_switch { case spirv: return clock(); default: return x; } }

float stop(float x) { if (x > 5) abort("no"); return x; }    // refused: abort
float calls_it(float x) { return stop(x); }                  // refused at: stop
float local(float x) { Query query; return x; }              // refused at: typealias
float both() { Query query; query.TraceInline(scene); return 0; }    // refused at: Acceleration, typealias
float field() { Hit hit; hit.distance = 1; return hit.distance; }    // refused at: typealias
float base() { Ray ray; ray.y = 1; return ray.y; }           // refused at: struct Ray
float parameter(Hit hit) { return hit.distance; }            // refused at: typealias
float tests(IShape shape) { return shape is Query ? 1 : 0; } // refused at: typealias
float variable() { return counter; }                         // refused at: counter = clock
float constant() { return N; }                               // refused at: N = clock
Query result() { return {}; }                                // refused at: typealias
float uses_result() { let query = result(); return 1; }      // refused at: typealias
float drops_result() { result(); return 1; }                 // refused at: typealias
T generic<T>(T x) { return x; }
float argument(float x) { generic<Query>({}); return x; }    // refused at: typealias
float size<T>() { return sizeof(T); }
float size_of_fields() { return size<Hit>(); }               // refused at: typealias
float size_of_bases() { return size<Ray>(); }                // refused at: struct Ray
float optional(float x, RayDesc ray = {}) { return x; }      // refused: RayDesc
float without_it(float x) { return optional(x); }            // refused at: optional(float
float value(float x = abort("a value")) { return x; }        // refused: abort
float value_of_it() { return value(); }                      // refused at: value(float
float of_field() { Default d; return d.x; }                  // refused at: struct Default
float of_list() { Default d = {}; return d.x; }              // refused at: struct Default
[Differentiable] float d(float x) { if (x > 9) abort("d"); return x * x; }    // refused: abort
float derivative(float x) { return fwd_diff(d)(diffPair(x, 1.0)).d; }         // refused at: float d(
float lambda(float x) { let f = (float y) => { abort("f"); return y; }; return f(x); }    // refused: abort
float property_() { Methods m; return m.refused; }           // refused at: property float
float method_() { Methods m; m.query(); return 1; }          // refused at: typealias
int case_() { return int(Flags.B); }                         // refused at: enum Flags
float deferred() { defer abort("end"); return 1; }           // refused: abort
float of_block() { return block.distance; }                  // refused at: typealias
"""


@pytest.fixture(scope="module")
def module() -> CheckedModule:
    return check(TEXT)


def refusals_of(module: CheckedModule, name: str) -> list[Diagnostic]:
    (function,) = (member for member in module.members if member.name == name)
    assert isinstance(function, ast.FunctionDeclaration)
    try:
        lower_functions(program(), [DeclRef(function, {})], Options())
    except CompileError as error:
        return list(error.diagnostics)
    return []


def expectations() -> Iterator[tuple[str, list[int]]]:
    """The functions of the text that are refused, and the lines of the errors."""
    lines = TEXT.split("\n")
    for number, line in enumerate(lines, 1):
        code, _, expected = line.partition("// refused")
        if expected.startswith(" at: "):
            words = expected.removeprefix(" at: ").split(", ")
            first = [next(i for i, text in enumerate(lines, 1) if word in text) for word in words]
            yield code.split("(")[0].split()[-1], first
        elif expected:
            yield code.split("(")[0].split()[-1], [number]


@pytest.mark.parametrize(("name", "lines"), list(expectations()), ids=lambda value: str(value))
def test_functions_that_use_them(module: CheckedModule, name: str, lines: list[int]) -> None:
    refusals = refusals_of(module, name)
    assert {refusal.code for refusal in refusals} <= {"E9002", "E9011"}
    places = [refusal.span for refusal in refusals]
    assert [span.source.line_column(span.start)[0] for span in places if span is not None] == lines


@pytest.mark.parametrize("name", ["allowed", "method", "other"])
def test_functions_that_do_not(module: CheckedModule, name: str) -> None:
    assert refusals_of(module, name) == []


def test_kernels() -> None:
    module = check(
        """[shader("compute")] [numthreads(1, 1, 1)] void f(uniform RayDesc ray) {}
        [shader("compute")] [numthreads(1, 1, 1)] void g() {}"""
    )
    first, second = module.members
    with pytest.raises(CompileError, match=r"E9002.*'RayDesc' is not supported"):
        lower_program(program(), DeclRef(first, {}), Options())
    assert lower_program(program(), DeclRef(second, {}), Options())[1] == "g"


def test_together_with_errors_they_are_errors() -> None:
    text = "float f(RayDesc ray) { return ray.Origin.x; } float g() { return undefined; }"
    with pytest.raises(CompileError) as error:
        check(text)
    assert [diagnostic.code for diagnostic in error.value.diagnostics] == ["E9002", "E0301"]
    assert error.value.diagnostics[0] not in program().refusals.diagnostics.values()


def test_the_size_of_one_is_needed_at_once() -> None:
    assert problem("struct S { RayDesc ray; } int f() { return sizeof(S); }").startswith("E9002: 'RayDesc'")
    assert check("int f() { return 1; }").members  # the program can be used as before


def test_no_warnings_about_functions_that_use_them() -> None:
    check("float f(float x) { float y; clock(y); return x + y; }")
    assert program().reporter.diagnostics == []


def test_an_import_of_a_module_that_mentions_them() -> None:
    own = CheckedProgram()
    own.add_source("rays", "public float f(RayDesc ray) { return 1; } public float g() { return 2; }")
    module = own.add_source("user", "import rays; float h() { return g(); } float i() { return f({}); }")
    h, i = (DeclRef(member, {}) for member in module.members if isinstance(member, ast.FunctionDeclaration))
    lower_functions(own, [h], Options())
    with pytest.raises(CompileError, match=r"(?s)'RayDesc' is not supported.*rays:1:16"):
        lower_functions(own, [i], Options())


def test_editors_show_them_as_warnings(tmp_path: Path) -> None:
    (tmp_path / "a.slang").write_text("float f() { abort(); return 1; }\n")
    (diagnostic,) = check_files([tmp_path / "a.slang"], [], Options())
    assert (diagnostic.code, diagnostic.severity) == ("E9011", "warning")
