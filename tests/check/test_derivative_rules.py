"""What derivatives have to be: of methods that satisfy an interface, of types, of functions in pairs."""

import pytest

from tests.check.programs import check, codes, problem

INTERFACE = """
interface I
{
    [Differentiable] float f(float x);
    [ForwardDifferentiable] float g(float x) { return x; }
    [Differentiable] property float p { get; }
    [Differentiable] __subscript(int i) -> float { get; }
}
"""
REST = "[Differentiable] property float p { get { return 1; } } __subscript(int i) -> float { [Differentiable] get { return 1; } }"


@pytest.mark.parametrize(
    "f",
    [
        "[Differentiable] float f(float x) { return x; }",
        "[TreatAsDifferentiable] float f(float x) { return x; }",
        "[BackwardDerivative(h)] float f(float x) { return x; } void h(inout DifferentialPair<float> x, float d) {}",
    ],
)
def test_methods_that_satisfy_a_differentiable_requirement(f: str) -> None:
    assert codes(f"{INTERFACE} struct S : I {{ {f} {REST} }}") == []


@pytest.mark.parametrize(
    ("members", "name"),
    [
        (f"float f(float x) {{ return x; }} {REST}", "f"),
        (f"[ForwardDifferentiable] float f(float x) {{ return x; }} {REST}", "f"),
        (f"[Differentiable] float f(float x) {{ return x; }} float g(float x) {{ return 1; }} {REST}", "g"),
        ("[Differentiable] float f(float x) { return x; }" + REST.replace("[Differentiable] p", "p"), "p"),
        ("[Differentiable] float f(float x) { return x; }" + REST.replace("[Differentiable] g", "g"), "[]"),
    ],
)
def test_methods_that_lack_the_derivative_that_is_required(members: str, name: str) -> None:
    found = problem(f"{INTERFACE} struct S : I {{ {members} }}")
    assert found.startswith(f"E0411: '{name}' must be differentiable, because 'I' requires it")


def test_what_the_library_treats_as_differentiable_need_not_be() -> None:
    text = """
        struct Angle : IDifferentiable
        {
            float a;
            static Angle dzero() { return { 0 }; }
            static Angle dadd(Angle x, Angle y) { return { x.a + y.a }; }
        }"""
    assert codes(text) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("float a; float b;", []),
        ("float a; no_diff float c; int n;", []),
        ("float a; float c;", ["E0507"]),
        ("float c; float2 d;", ["E0507", "E0507"]),
        ("[DerivativeMember(D.b)] float c;", []),
        ("float a; [DerivativeMember(D.b)] int n;", ["E0501"]),
        ("float a; [DerivativeMember(D.z)] float c;", ["E0507", "E0304"]),
    ],
)
def test_fields_of_a_differential_that_is_given(fields: str, expected: list[str]) -> None:
    given = "struct D : IDifferentiable { float a; float b; }"
    text = f"{given} struct S : IDifferentiable {{ typealias Differential = D; {fields} }}"
    assert sorted(codes(text)) == sorted(expected)


def test_a_differential_is_its_own_differential() -> None:
    start = "struct D : IDifferentiable { typealias Differential = float; }"
    found = problem(f"{start} struct S : IDifferentiable {{ typealias Differential = D; float x; }}")
    assert found == (
        "E0507: 'D' cannot be the Differential of 'S', because its own Differential is 'float' "
        "(write 'typealias Differential = D;' in 'D')"
    )


def test_values_and_pointers_have_derivatives_of_different_kinds() -> None:
    text = """
        struct S : IDifferentiable, IDifferentiablePtrType { typealias Differential = S; }"""
    assert problem(text) == "E0413: 'S' cannot conform to both IDifferentiable and IDifferentiablePtrType"


def test_a_member_that_is_none() -> None:
    text = "struct D : IDifferentiable { float x; } [DerivativeMember(D.x)] float y;"
    assert problem(text) == "E0208: [DerivativeMember] belongs before a field"


def test_requirements_have_no_derivatives() -> None:
    forward = "DifferentialPair<float> h(DifferentialPair<float> x);"
    text = f"interface J {{ [Differentiable] float f(float x); [ForwardDerivativeOf(f)] {forward} }}"
    assert problem(text).startswith("E0504: 'f' is required by an interface, so it is what satisfies it")
    text = f"float f(float x) {{ return x; }} interface J {{ [ForwardDerivativeOf(f)] {forward} }}"
    assert problem(text).startswith("E0504: 'h' is required by an interface, so it cannot be the derivative")
    text = "interface J { [TreatAsDifferentiable] float f(float x); }"
    assert problem(text).startswith("E0208: [TreatAsDifferentiable] belongs before the function")


def test_derivatives_of_static_functions_are_static() -> None:
    text = """
        struct S
        {
            [ForwardDerivative(h)] static float f(float x) { return x; }
            DifferentialPair<float> h(DifferentialPair<float> x) { return x; }
        }"""
    assert problem(text) == "E0504: 'h' must be static, because 'f' has no 'this'"


def test_generic_parameters_that_the_function_does_not_tell() -> None:
    text = """
        [BackwardDerivative(h)] float f(float x) { return x; }
        void h<T : IDifferentiable>(inout DifferentialPair<float> x, float d) {}"""
    assert codes(text) == ["E0504"]
    check(text.replace("DifferentialPair<float> x", "DifferentialPair<T> x"))


def test_primal_substitutes_of_differentiable_functions_are_differentiable() -> None:
    text = "[Differentiable] float f(float x) { return x; } [PrimalSubstituteOf(f)] float g(float x) { return x; }"
    assert problem(text) == "E0504: 'g' must be differentiable to stand for 'f', which is"
    check(text.replace("[Primal", "[Differentiable] [Primal"))


def test_no_diff_without_a_derivative() -> None:
    assert codes("float f(float x) { return no_diff abs(x); }") == ["E0508"]
    check("[Differentiable] float f(float x) { return no_diff abs(x); }")
    check("[TreatAsDifferentiable] float f(float x) { return no_diff abs(x); }")
