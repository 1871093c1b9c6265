"""Choosing among overloads, inferring generic arguments, and saying why a call does not work."""

import pytest

from slangrad.check.model import checked
from tests.check.programs import check, codes, expression, problem, type_of


def called(text: str, call: str) -> str:
    """The function that a call means, with its generic arguments."""
    form = expression(check(text), call).ref
    assert isinstance(form, checked.FunctionCall)
    return str(form.function)


def chosen(declarations: str, call: str) -> str:
    """The header of the overload that is chosen."""
    module = check(f"{declarations}\nvoid test() {{ {call}; }}")
    form = expression(module, call).ref
    assert isinstance(form, checked.FunctionCall)
    declaration = form.function.declaration
    return declaration.span.text.split(")")[0] + ")"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f(1)", "int f(int x)"),
        ("f(1u)", "uint f(uint x)"),
        ("f(1.0)", "float f(float x)"),
        ("f(1.0h)", "float f(float x)"),
        ("f(int8_t(1))", "int f(int x)"),
        ("f(float2(1))", "float2 f(float2 x)"),
    ],
)
def test_the_cheapest_conversion_wins(call: str, expected: str) -> None:
    overloads = """
        int f(int x) { return 1; }
        uint f(uint x) { return 1; }
        float f(float x) { return 1; }
        float2 f(float2 x) { return x; }"""
    assert chosen(overloads, call) == expected


def test_fewer_defaults_win() -> None:
    overloads = "int f(int x) { return 1; } int f(int x, int y = 2) { return 2; }"
    assert chosen(overloads, "f(1)") == "int f(int x)"


def test_not_generic_wins_over_generic() -> None:
    overloads = "float f(float x) { return x; } T f<T>(T x) { return x; }"
    assert chosen(overloads, "f(1.0)") == "float f(float x)"
    assert chosen(overloads, "f(1)") == "T f<T>(T x)"


def test_the_more_special_generic_wins() -> None:
    overloads = "T f<T>(T x) { return x; } vector<T, N> f<T, let N : int>(vector<T, N> x) { return x; }"
    assert chosen(overloads, "f(float3(1))").startswith("vector<T, N> f<T, let N : int>(vector<T, N> x)")


def test_users_may_overload_functions_of_the_library() -> None:
    text = """
        struct Interval { float low; float high; }
        Interval abs(Interval x) { return x; }
        void f(Interval x) { abs(x); abs(-1.0); }"""
    module = check(text)
    assert type_of(module, "abs(x)") == "Interval"
    assert type_of(module, "abs(-1.0)") == "float"


def test_a_function_of_the_same_signature_as_the_library_s_is_nearer() -> None:
    module = check("float sqrt(float x) { return 1; } float f(float x) { return sqrt(x); }")
    form = expression(module, "sqrt(x)").ref
    assert form.function.declaration.span.source.name == module.name


def test_methods_may_call_functions_of_their_name() -> None:
    text = """
        struct S
        {
            float3 v;
            float length() { return length(v); }
            float f() { return length() + length(v); }
        }"""
    module = check(text)
    assert type_of(module, "length(v)") == "float"
    assert type_of(module, "length()") == "float"


def test_a_definition_stands_for_its_forward_declaration() -> None:
    module = check("float g(float x); float f(float x) { return g(x); } float g(float x) { return x; }")
    assert expression(module, "g(x)").ref.function.declaration.body is not None


# --- Generic arguments --------------------------------------------------------------------------------


def test_types_and_values_are_inferred() -> None:
    text = """
        T first<T, let N : int>(T x[N]) { return x[0]; }
        T second<T, int N>(vector<T, N> x, T y) { return y; }
        void f(float a[5], float3 v) { first(a); second(v, 1); }"""
    assert called(text, "first(a)") == "first<float, 5>"
    assert called(text, "second(v, 1)") == "second<float, 3>"


def test_one_parameter_for_several_arguments_takes_their_common_type() -> None:
    text = (
        "T larger<T : IArithmetic>(T a, T b) { return a; } void f(half h) { larger(1, 2.5); larger(h, 1); }"
    )
    assert called(text, "larger(1, 2.5)") == "larger<float>"
    assert called(text, "larger(h, 1)") == "larger<half>"


def test_partial_explicit_arguments() -> None:
    text = """
        struct Vec<int N> { float data[N]; }
        Vec<M> product<int M, int N>(Vec<N> x, float* matrix) { Vec<M> y; return y; }
        void f(Vec<4> x, float* m) { product<16>(x, m); }"""
    module = check(text)
    assert type_of(module, "product<16>(x, m)") == "Vec<16>"
    assert str(expression(module, "product<16>(x, m)").ref.function) == "product<16, 4>"


def test_a_sum_in_a_parameter_is_solved() -> None:
    text = "int size<let N : int>(float x[N + 1]) { return N; } void f(float a[4]) { size(a); }"
    assert called(text, "size(a)") == "size<3>"


def test_bounds_infer_the_arguments_of_interfaces() -> None:
    text = """
        interface ISource<T> { T get(); }
        struct S : ISource<float3> { float3 get() { return 1; } }
        T read<T, X : ISource<T>>(X x) { return x.get(); }
        void f(S s) { read(s); }"""
    assert called(text, "read(s)") == "read<float3, S>"


def test_equalities_infer() -> None:
    text = """
        interface IBox { associatedtype Item; Item get(); }
        struct B : IBox { typealias Item = half; half get() { return 1; } }
        U open<T : IBox, U>(T box) where T.Item == U { return box.get(); }
        void f(B b) { open(b); }"""
    assert called(text, "open(b)") == "open<B, half>"


def test_defaults_of_generic_parameters() -> None:
    text = """
        struct Box<T = float, let N : int = 3> { T data[N]; }
        T make<T : IFloat = half>() { return T(1.0); }
        void f(Box<int> a, Box<> b) { make(); a.data; b.data; }"""
    module = check(text)
    assert type_of(module, "make()") == "half"
    assert type_of(module, "a.data") == "int[3]"
    assert type_of(module, "b.data") == "float[3]"


def test_recursion_with_other_arguments() -> None:
    text = "int f<let N : int>(float x[N]) { float y[N + 1]; return f(y); }"
    assert called(text, "f(y)") == "f<N + 1>"


def test_bool_parameters() -> None:
    text = "int pick<let B : bool>() { return B ? 1 : 2; } int f() { return pick<true>() + pick<(1 > 2)>(); }"
    assert called(text, "pick<true>()") == "pick<1>"
    assert called(text, "pick<(1 > 2)>()") == "pick<0>"


def test_a_generic_struct_is_inferred_from_its_constructor() -> None:
    text = "struct P<T> { T a; T b; } void f() { P(1.0, 2.0); }"
    assert type_of(check(text), "P(1.0, 2.0)") == "P<float>"


def test_lambdas_as_arguments() -> None:
    text = """
        float apply<F : IFunc<float, float>>(F f, float x) { return f(x); }
        float test(float k) { return apply((float x) => x * k, 2.0); }"""
    module = check(text)
    assert type_of(module, "apply((float x) => x * k, 2.0)") == "float"


def test_interfaces_as_parameters_are_generic() -> None:
    text = """
        interface IShape { float area(); }
        struct Square : IShape { float side; float area() { return side * side; } }
        float twice(IShape shape) { return 2 * shape.area(); }
        void f(Square s) { twice(s); }"""
    assert called(text, "twice(s)") == "twice<Square>"


# --- Errors -------------------------------------------------------------------------------------------


def test_the_only_candidate_says_what_is_wrong() -> None:
    assert problem("float g(float x) { return x; } void f() { g(1, 2); }") == (
        "E0405: cannot call 'g': it takes 1 argument, not 2 (it is declared as float g(float x))"
    )
    assert problem("struct S {} float g(float x) { return x; } void f(S s) { g(s); }") == (
        "E0405: cannot call 'g': argument 1 must be 'float', not 'S' (it is declared as float g(float x))"
    )


def test_several_candidates_say_each_why() -> None:
    text = (
        "struct S {} float g(float x) { return x; } float g(float x, S y) { return x; } void f(S s) { g(s); }"
    )
    assert problem(text) == (
        "E0405: no overload of 'g' takes (S) (float g(float x): argument 1 must be 'float', not 'S'\n"
        "        float g(float x, S y): it takes 2 arguments, not 1)"
    )


def test_an_ambiguous_call() -> None:
    text = "void g(int x, float y) {} void g(float x, int y) {} void f() { g(1, 1); }"
    assert problem(text) == (
        "E0406: the call of 'g' with (int, int) is ambiguous "
        "(candidates: void g(int x, float y)\n        void g(float x, int y))"
    )


def test_a_bound_that_is_not_met() -> None:
    text = "interface I {} T g<T : I>(T x) { return x; } void f() { g(1); }"
    assert (
        problem(text)
        == "E0405: cannot call 'g': 'int' does not conform to 'I' (it is declared as T g<T>(T x))"
    )


def test_what_cannot_be_inferred() -> None:
    assert problem("T g<T>() { return T(); } void f() { g(); }").startswith(
        "E0405: cannot call 'g': 'T' cannot be inferred from the arguments"
    )


def test_conflicting_sizes() -> None:
    text = "void g<let N : int>(float a[N], float b[N]) {} void f(float a[2], float b[3]) { g(a, b); }"
    assert "'N' would be both 2 and 3" in problem(text)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("g(1.0)", "argument 1 must be a variable ('inout'): it is a value, not a variable"),
        ("g(i)", "argument 1 must be exactly 'float' ('inout'), not 'int'"),
        ("g(c)", "argument 1 must be a variable ('inout'): 'c' is a constant"),
        ("g(v.xy)", "argument 1 must be exactly 'float' ('inout'), not 'float2'"),
    ],
)
def test_out_and_inout_take_variables_of_their_type(call: str, reason: str) -> None:
    text = f"void g(inout float x) {{}} void f(int i, float3 v) {{ let c = 1.0; {call}; }}"
    assert reason in problem(text)


def test_components_and_elements_are_variables_too() -> None:
    text = """
        void g(inout float x) {}
        void f(float3 v, float a[3], float* p) { g(v.x); g(v[1]); g(a[2]); g(*p); g(p[1]); }"""
    assert codes(text) == []


def test_a_wrong_argument_is_reported_once() -> None:
    assert codes("float g(float x) { return x; } float f() { return g(unknown) + g(g(unknown2)); }") == [
        "E0301",
        "E0301",
    ]


def test_methods_need_an_object_that_may_change() -> None:
    text = """
        struct S { float x; [mutating] void set(float v) { x = v; } void f() { set(1); } }
        void g() { S.set(1); let s = S(); s.set(1); }"""
    assert codes(text) == ["E0315", "E0307", "E0315"]


# --- Parameters that make a function generic, and ties ------------------------------------------------


def test_arrays_without_a_size_and_functions_as_parameters() -> None:
    text = """
        float first(float a[]) { return a[0] + a.getCount(); }
        float apply(functype(float) -> float f, float x) { return f(x); }
        void test(float a[3], float k) { first(a); apply((float x) => x * k, 2.0); }"""
    module = check(text)
    assert str(expression(module, "first(a)").ref.function.arguments) == "(3,)"
    assert type_of(module, "apply((float x) => x * k, 2.0)") == "float"


def test_arrays_and_vectors_are_arrays_for_interfaces() -> None:
    text = """
        T sum<T : IFloat, A : IArray<T>>(A a) { return a[0] + a[1]; }
        void test(float x[3], half2 y) { sum(x); sum(y); }"""
    module = check(text)
    assert type_of(module, "sum(x)") == "float"
    assert type_of(module, "sum(y)") == "half"


def test_the_requirement_of_the_inheriting_interface_is_meant() -> None:
    assert codes("void set<U, T : IRWArray<U>>(inout T a, int i, U value) { a[i] = value; }") == []


def test_more_bounds_are_more_special() -> None:
    text = """
        interface IBase { float get(); }
        interface IDerived : IBase {}
        int f<T>(T x) { return 0; }
        int f<T : IBase>(T x) { return 1; }
        int f<T : IDerived>(T x) { return 2; }
        struct D : IDerived { float get() { return 1; } }
        void test(D d) { f(d); f(1); }"""
    module = check(text)
    assert "IDerived" in expression(module, "f(d)").ref.function.declaration.span.text
    assert "<T>" in expression(module, "f(1)").ref.function.declaration.span.text


def test_a_direct_extension_goes_before_one_of_many_types() -> None:
    text = """
        interface IFoo { int value(); }
        struct S : IFoo { int value() { return 1; } }
        extension S { int more() { return 2; } }
        extension<T : IFoo> T { int more() { return 3; } }
        void test(S s) { s.more(); }"""
    assert codes(text) == []


def test_a_variable_passed_as_inout_decides_a_generic_type() -> None:
    text = "void g<T>(T a, inout T b) { b = a; } void f(uint u, int v) { g(u, v); }"
    assert called(text, "g(u, v)") == "g<int>"


def test_a_scalar_for_a_generic_vector_is_one_component() -> None:
    text = "T g<T, let N : int>(vector<T, N> v) { return v[0]; } void f(float x) { g(x); }"
    assert called(text, "g(x)") == "g<float, 1>"
