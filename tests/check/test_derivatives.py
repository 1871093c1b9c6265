"""Differential types, signatures of derivatives, custom derivatives, and derivatives that would be lost."""

from typing import Any

import pytest

from slangrad.check.generics.substitution import identity
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import StructType
from tests.check.programs import check, codes, expression, function, problem, program, type_of


def differential(declarations: str, name: str) -> str:
    """The Differential of a type, `-` when it has none."""
    module = check(f"{declarations}\nvoid test({name} x) {{ x; }}")
    found = program().differential(expression(module, "x").type)
    return "-" if found is None else str(found.type)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float", "float"),
        ("half", "half"),
        ("double", "double"),
        ("int", "-"),
        ("bool3", "-"),
        ("float3", "float3"),
        ("float3x4", "float3x4"),
        ("float[4]", "float[4]"),
        ("int[4]", "-"),
        ("float3[2][3]", "float3[2][3]"),
        ("float*", "-"),
        ("DifferentialPair<float>", "DifferentialPair<float>"),
        ("RWStructuredBuffer<float>", "-"),
    ],
)
def test_differentials_of_builtin_types(name: str, expected: str) -> None:
    assert differential("", name) == expected


def test_a_struct_whose_fields_are_their_own_differentials_is_its_own() -> None:
    assert differential("struct P : IDifferentiable { float x; float3 y; }", "P") == "P"
    assert differential("struct P { float x; }", "P") == "-"


def test_other_structs_get_a_differential_of_the_fields_that_have_one() -> None:
    text = "struct Q : IDifferentiable { float x; int n; no_diff float y; float z[2]; }"
    assert differential(text, "Q") == "Q.Differential"
    module = check(f"{text} void test(Q q) {{ q; }}")
    found = program().differential(expression(module, "q").type)
    assert found is not None and isinstance(found.type, StructType)
    assert [
        (field.declaration.name, None if to is None else to.declaration.name) for field, to in found.fields
    ] == [
        ("x", "x"),
        ("n", None),
        ("y", None),
        ("z", "z"),
    ]
    assert [str(kind) for _, kind in program().fields(found.type)] == ["float", "float[2]"]
    again = program().differential(found.type)
    assert again is not None and again.type is found.type


def test_a_differential_of_a_generic_struct() -> None:
    text = "struct G<T : IDifferentiable, let N : int> : IDifferentiable { T x[N]; int n; }"
    module = check(f"{text} void test(G<float2, 3> g, G<float2, 3>.Differential d) {{ g; d.x; }}")
    found = program().differential(expression(module, "g").type)
    assert found is not None and str(found.type) == "G<float2, 3>.Differential"
    assert type_of(module, "d.x") == "float2[3]"


def test_a_differential_that_the_user_gives() -> None:
    text = """
        struct D : IDifferentiable { float a; }
        struct S : IDifferentiable
        {
            typealias Differential = D;
            [DerivativeMember(Differential.a)] float x;
            static D dzero() { return { 0 }; }
            static D dadd(D x, D y) { return { x.a + y.a }; }
        }
        void test(S s) { s; }"""
    found = program().differential(expression(check(text), "s").type)
    assert found is not None and str(found.type) == "D"
    assert [(a.declaration.name, b.declaration.name) for a, b in found.fields if b is not None] == [
        ("x", "a")
    ]
    assert found.zero is not None and found.add is not None


def test_no_differential_is_an_error() -> None:
    assert codes("struct S {} void f() { S.Differential x; }") == ["E0501"]
    assert codes("struct S {} void f(S s) { diffPair(s); }") == ["E0405"]


# --- Signatures ---------------------------------------------------------------------------------------


def signature(declarations: str, derivative: str) -> str:
    """The header of a derivative, as the error about a wrong call shows it."""
    text = f"{declarations}\nstruct No {{}} void test(No n) {{ {derivative}({', '.join(9 * ['n'])}); }}"
    return problem(text).split("declared as ")[1].rstrip(")") + ")"


@pytest.mark.parametrize(
    ("declaration", "forward", "backward"),
    [
        (
            "float f(float x, int n)",
            "DifferentialPair<float> fwd_diff(f)(DifferentialPair<float> x, no_diff int n)",
            "void bwd_diff(f)(inout DifferentialPair<float> x, no_diff int n, float result_cotangent)",
        ),
        (
            "float3 f(no_diff float x, float3 y)",
            "DifferentialPair<float3> fwd_diff(f)(no_diff float x, DifferentialPair<float3> y)",
            "void bwd_diff(f)(no_diff float x, inout DifferentialPair<float3> y, float3 result_cotangent)",
        ),
        (
            "void f(float x, out float y, inout float z)",
            "void fwd_diff(f)(DifferentialPair<float> x, out DifferentialPair<float> y, "
            "inout DifferentialPair<float> z)",
            "void bwd_diff(f)(inout DifferentialPair<float> x, float y, inout DifferentialPair<float> z)",
        ),
        (
            "int f(float x, out int y, inout int z)",
            "int fwd_diff(f)(DifferentialPair<float> x, no_diff out int y, no_diff inout int z)",
            "void bwd_diff(f)(inout DifferentialPair<float> x, no_diff int z)",
        ),
        (
            "no_diff float f(float x)",
            "float fwd_diff(f)(DifferentialPair<float> x)",
            "void bwd_diff(f)(inout DifferentialPair<float> x)",
        ),
    ],
)
def test_signatures_of_derivatives(declaration: str, forward: str, backward: str) -> None:
    body = f"[Differentiable] {declaration} {{ return {{}}; }}"
    if "void" in declaration:
        body = f"[Differentiable] {declaration} {{ y = x; }}"
    if "out int" in declaration:
        body = f"[Differentiable] {declaration} {{ y = 1; return 1; }}"
    assert signature(body, "fwd_diff(f)") == forward
    assert signature(body, "bwd_diff(f)") == backward


def test_derivatives_nest() -> None:
    text = "[Differentiable] float f(float x) { return x * x; }"
    assert signature(text, "fwd_diff(fwd_diff(f))") == (
        "DifferentialPair<DifferentialPair<float>> fwd_diff(f)(DifferentialPair<DifferentialPair<float>> x)"
    )
    assert signature(text, "bwd_diff(fwd_diff(f))") == (
        "void bwd_diff(f)(inout DifferentialPair<DifferentialPair<float>> x, "
        "DifferentialPair<float> result_cotangent)"
    )
    assert signature(text, "fwd_diff(bwd_diff(f))") == (
        "void fwd_diff(f)(inout DifferentialPair<DifferentialPair<float>> x, "
        "DifferentialPair<float> result_cotangent)"
    )


def test_derivatives_of_generic_functions_infer_from_pairs() -> None:
    text = """
        [Differentiable]
        T f<T : __BuiltinFloatingPointType, let N : int>(vector<T, N> v, T x) { return v[0] * x; }
        void test(DifferentialPair<half3> v, DifferentialPair<half> x)
        {
            bwd_diff(f)(v, x, 1.0h);
            fwd_diff(f)(v, x);
        }"""
    module = check(text)
    form = expression(module, "bwd_diff(f)(v, x, 1.0h)").ref
    assert isinstance(form, checked.FunctionCall) and isinstance(form.function, checked.Derivative)
    assert str(form.function.function) == "f<half, 3>"
    assert type_of(module, "fwd_diff(f)(v, x)") == "DifferentialPair<half>"


def test_derivatives_of_overloaded_functions() -> None:
    text = """
        [Differentiable] float f(float x) { return x; }
        [Differentiable] float f(float3 x) { return x.y; }
        void test(DifferentialPair<float3> x) { bwd_diff(f)(x, 1.0); }"""
    form = expression(check(text), "bwd_diff(f)(x, 1.0)").ref
    assert str(form.function.signature.parameters[0].type) == "DifferentialPair<float3>"


def test_derivatives_of_methods() -> None:
    text = """
        struct S : IDifferentiable { float a; [Differentiable] float f(float x) { return a * x; } }
        struct C { float a; [Differentiable] float g(float x) { return a * x; } }
        void test(DifferentialPair<S> s, DifferentialPair<float> x, S own, C c)
        {
            bwd_diff(S.f)(s, x, 1.0);
            bwd_diff(own.f)(x, 1.0);
            bwd_diff(C.g)(c, x, 1.0);
        }"""
    module = check(text)
    by_type = expression(module, "bwd_diff(S.f)(s, x, 1.0)").ref.function
    assert by_type.signature.parameters[0].name == "this" and by_type.this is None
    by_object = expression(module, "bwd_diff(own.f)(x, 1.0)").ref.function
    assert by_object.signature.parameters[0].name != "this" and by_object.this is not None
    constant_object = expression(module, "bwd_diff(C.g)(c, x, 1.0)").ref.function
    assert str(constant_object.signature.parameters[0]) == "no_diff C this"


def test_pairs() -> None:
    text = """
        void f(DifferentialPair<float3> x)
        {
            x.p; x.v; x.d; x.getPrimal(); x.getDifferential();
            x = { x.p, float3(1) };
            x.d += 1;
            diffPair(1.0h); diffPair(x.p, x.d); diffPair(x);
        }"""
    module = check(text)
    assert [
        type_of(module, each) for each in ("x.p", "x.v", "x.d", "x.getPrimal()", "x.getDifferential()")
    ] == ["float3"] * 5
    assert type_of(module, "diffPair(1.0h)") == "DifferentialPair<half>"
    assert type_of(module, "diffPair(x)") == "DifferentialPair<DifferentialPair<float3>>"


def test_no_diff_keeps_the_type() -> None:
    module = check(
        "float g(float x) { return x; } [Differentiable] float f(float x) { return no_diff g(x); }"
    )
    assert type_of(module, "no_diff g(x)") == "float"


# --- Custom derivatives -------------------------------------------------------------------------------


def seen_from_inside(declaration: Any) -> DeclRef:
    """Generic parameters stand for themselves."""
    return DeclRef(declaration, identity(declaration))


def custom(text: str, name: str = "f") -> str:
    """The custom derivatives of a function, and how differentiable it is."""
    module = check(text)
    declaration = function(module, name)
    found = program().derivatives(seen_from_inside(declaration))
    return f"{program().info(declaration).level} {found.forward} {found.backward} {found.primal_substitute}"


def test_a_derivative_makes_a_function_differentiable() -> None:
    text = """
        float f(float x) { return x; }
        [BackwardDerivativeOf(f)] void f_bwd(inout DifferentialPair<float> x, float d) { x.d = d; }
        [Differentiable] float g(float x) { return f(x); }"""
    assert custom(text) == "backward None f_bwd None"


def test_all_kinds_of_attributes() -> None:
    text = """
        [ForwardDerivative(fwd)] [BackwardDerivative(bwd)] [PrimalSubstitute(other)]
        float f(float x) { return x; }
        DifferentialPair<float> fwd(DifferentialPair<float> x) { return x; }
        void bwd(inout DifferentialPair<float> x, float d) { x.d = d; }
        float other(float x) { return x; }"""
    assert custom(text) == "backward fwd bwd other"


def test_generic_derivatives_of_generic_functions() -> None:
    text = """
        [BackwardDerivative(bwd)] T f<T : IFloat, let N : int>(T x[N]) { return x[0]; }
        void bwd<U : IFloat, let M : int>(inout DifferentialPair<U[M]> x, U.Differential d) {}"""
    assert custom(text) == "backward None bwd<T, N> None"


def test_a_derivative_chooses_the_overload_that_it_fits() -> None:
    text = """
        float f(float x) { return x; }
        float f(float2 x) { return x.x; }
        [BackwardDerivativeOf(f)] void bwd(inout DifferentialPair<float2> x, float d) {}"""
    assert custom(text) == "backward None None None"
    module = check(text)
    second = [each for each in module.declaration.members if each.name == "f"][1]
    assert str(program().derivatives(seen_from_inside(second)).backward) == "bwd"


def test_derivatives_of_methods_whose_object_has_none_are_methods() -> None:
    text = """
        struct Layer<let N : int>
        {
            float* weights;
            [BackwardDerivative(eval_bwd)] float eval(float x[N]) { return x[0] * weights[0]; }
            void eval_bwd(inout DifferentialPair<float[N]> x, float d) {}
        }"""
    assert codes(text) == []


def test_derivatives_of_methods_whose_object_has_one_are_static() -> None:
    text = """
        struct S : IDifferentiable
        {
            float a;
            [BackwardDerivative(bwd)] float f(float x) { return a * x; }
            METHOD
        }"""
    static = "static void bwd(inout DifferentialPair<S> s, inout DifferentialPair<float> x, float d) {}"
    member = "void bwd(inout DifferentialPair<float> x, float d) {}"
    assert codes(text.replace("METHOD", static)) == []
    assert codes(text.replace("METHOD", member)) == ["E0504"]
    assert codes(text.replace("METHOD", member).replace("[Back", "[NoDiffThis] [Back")) == []


def test_a_wrong_signature_shows_the_expected_one() -> None:
    text = """
        [BackwardDerivative(bwd)] float f(float x, int n) { return x; }
        void bwd(float x, float d) {}"""
    assert problem(text) == (
        "E0504: 'bwd' has not the signature of a backward derivative of 'f' (expected "
        "void bwd(inout DifferentialPair<float> x, no_diff int n, float result_cotangent)\n"
        "        but it is void bwd(float x, float d))"
    )


def test_derivatives_of_nothing() -> None:
    assert codes("[BackwardDerivativeOf(nothing)] void f() {}") == ["E0504"]
    assert codes("[ForwardDerivative(nothing)] float f(float x) { return x; }") == ["E0504"]
    assert problem("float f(float x) { return x; } void g() { fwd_diff(f)(diffPair(1.0)); }") == (
        "E0503: 'f' is not differentiable, so fwd_diff cannot be taken of it "
        "(mark it: [Differentiable] before 'f')"
    )
    assert codes("void g() { bwd_diff(3); bwd_diff(float); bwd_diff(x); }") == ["E0502", "E0502", "E0301"]


# --- Lost derivatives ---------------------------------------------------------------------------------

WITHOUT = """
struct P { float a; }
struct I { int n; }
struct Q : IDifferentiable { P p; float b; }
[Differentiable] float read(P p) { return p.a; }
[Differentiable] P make(float x) { P p = { x }; return p; }
P found(float x) { P p = { x }; return p; }
void find(float x, out P p) { p.a = x; }
"""

PLAIN = "float plain(float x) { return x * x; } bool big(float x) { return x > 2; }\n"


@pytest.mark.parametrize(
    "body",
    [
        "return plain(x);",
        "float y = plain(x); return y;",
        "float y = x; y = plain(y) + 1; return y;",
        "float a[2]; a[0] = plain(x); return a[1];",
        "float y = 0; for (int i = 0; i < 3; i++) y += plain(x + i); return y;",
        "return plain(plain(3) * x);",
        "float2 v = { plain(x), 1 }; return v.y;",
    ],
)
def test_a_call_that_loses_a_derivative(body: str) -> None:
    text = f"{PLAIN}[Differentiable] float f(float x) {{ {body} }}"
    assert codes(text) == ["E0505"]


@pytest.mark.parametrize(
    "body",
    [
        "return no_diff plain(x) * x;",
        "return plain(3) * x;",
        "if (big(x)) return 1; return x;",
        "float unused = plain(x); return x;",
        "return plain(detach(x)) * x;",
        "int n = (int)plain(x); return n * x;",
    ],
)
def test_calls_that_lose_nothing(body: str) -> None:
    text = f"{PLAIN}[Differentiable] float f(float x) {{ {body} }}"
    assert codes(text) == []


@pytest.mark.parametrize(
    "body",
    [
        "P p; p.a = x * x; return p.a;",
        "P p = { x * x }; return read(p);",
        "P p[2]; p[1].a = x; return p[0].a;",
        "let t = makeTuple(x * x, 3); return t._0;",
        "return make(x).a;",
    ],
)
def test_a_type_that_loses_a_derivative(body: str) -> None:
    assert codes(f"{WITHOUT}[Differentiable] float f(float x) {{ {body} }}") == ["E0505"]


@pytest.mark.parametrize(
    "body",
    [
        "P p = { detach(x) }; return p.a * x;",
        "P p = { 3 }; return p.a * x;",
        "P p = no_diff found(x); return p.a * x;",
        "P p = found(3); return p.a * x;",
        "P p; find(detach(x), p); return p.a * x;",
        "P p = found(x); return x;",
        "Q q = { { 3 }, x }; return q.p.a * q.b;",
        "P p = { x }; return x;",
        "I i = { (int)x }; return i.n * x;",
    ],
)
def test_types_that_lose_nothing(body: str) -> None:
    assert codes(f"{WITHOUT}[Differentiable] float f(float x) {{ {body} }}") == []


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("P p = found(x); return p.a * x;", "found"),
        ("return found(x).a;", "found"),
        ("P p; find(x, p); return p.a * x;", "find"),
        ("P p[2]; find(x, p[1]); return p[0].a;", "find"),
    ],
)
def test_a_constant_that_a_function_makes_of_what_has_a_derivative_is_a_warning(body: str, name: str) -> None:
    text = f"{WITHOUT}[Differentiable] float f(float x) {{ {body} }}"
    note = f"mark '{name}' as [Differentiable], or write 'no_diff {name}(...)' if this is meant"
    message = f"E0505: '{name}' is not differentiable, so the derivative of 'f' would be lost here ({note})"
    assert problem(text) == message


BOX = """
    struct Box<T>
    {
        T value; int n;
        [Differentiable] T get() { return value; }
        [Differentiable] [mutating] void put(T x) { value = x; }
        property T p { [Differentiable] get { return value; } }
    }
    [Differentiable] T through<T>(T x) { Box<T> b; b.value = x; return b.value; }
    [Differentiable] T put<T>(T x) { Box<T> b; b.put(x); return b.get(); }
    T plain<T>(T x) { return x; }
    [Differentiable] T call<T>(T x, int n) { return n > 0 ? call(plain(x), n - 1) : x; }
    [Differentiable] T half<T, U>(T x, U y) { Box<U> b; b.put(y); return x; }
    interface IShape { float area(); }
    struct Disc : IShape, IDifferentiable { float r; [Differentiable] float area() { return r * r; } }
    [Differentiable] T same<T : IShape>(T x) { Box<int> b; b.put(3); T a[2]; a[1] = x; return a[1]; }
    [Differentiable] T element<T, A : IRWArray<T>>(A values, T other) { values[1] = other; return values[0]; }
    [Differentiable] T marked<T>(no_diff T k, T x) { Box<T> b; b.put(k); return x; }
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return through(x);", "'Box<T>' has no derivative, so the derivative of 'through' would be lost here where 'T' is 'float'"),
        ("return put(x);", "'Box<T>' has no derivative, so the derivative of 'put' would be lost here where 'T' is 'float'"),
        ("return put(float2(x, 1)).x;", "'Box<T>' has no derivative, so the derivative of 'put' would be lost here where 'T' is 'float2'"),
        ("Box<float> b; b.put(x); return b.p;", "'Box<T>' has no derivative, so the derivative of 'put' would be lost here where 'T' is 'float'"),
        ("return call(x, 3);", "'plain' is not differentiable, so the derivative of 'call' would be lost here where 'T' is 'float'"),
        ("return half(x, x);", "'Box<T>' has no derivative, so the derivative of 'put' would be lost here where 'T' is 'float'"),
    ],
)  # fmt: skip
def test_losing_in_an_instance_of_a_generic_function_is_a_warning(body: str, message: str) -> None:
    found = problem(f"{BOX}[Differentiable] float f(float x) {{ {body} }}")
    assert found.startswith(f"E0505: {message} (")


@pytest.mark.parametrize(
    "body",
    [
        "return x * through(3);",
        "return x * through(2.0);",
        "return half(x, 3);",
        "Box<int> b; b.put(3); return x * b.get();",
        "return same(Disc(x)).r;",
        "return marked(x, x);",
        "float values[2] = { x, x }; return element(values, x);",
        "return call(no_diff through(x), 1) * x;",
    ],
)
def test_instances_that_lose_nothing(body: str) -> None:
    assert codes(f"{BOX}[Differentiable] float f(float x) {{ {body} }}") == []


def test_parameters_without_a_derivative() -> None:
    assert (
        codes(f"{PLAIN}[Differentiable] float f(no_diff float x, float y) {{ return plain(x) * y; }}") == []
    )
    assert codes(f"{PLAIN}[Differentiable] float f(int n, float y) {{ return plain(n) * y; }}") == []


def test_losing_through_out_parameters_and_methods() -> None:
    text = """
        void split(float x, out float y) { y = x; }
        struct P : IDifferentiable
        {
            float a;
            float get() { return a; }
            property float b { get { return a; } }
        }
        [Differentiable] void f(float x, out float y) { split(x, y); }
        [Differentiable] float g(P p) { return p.get(); }
        [Differentiable] float h(P p) { return p.b; }"""
    assert codes(text) == ["E0505", "E0505", "E0505"]


def test_the_error_says_what_to_do() -> None:
    assert problem(f"{PLAIN}[Differentiable] float f(float x) {{ return plain(x); }}") == (
        "E0505: 'plain' is not differentiable, so the derivative of 'f' would be lost here "
        "(mark 'plain' as [Differentiable], or write 'no_diff plain(...)' if this is meant)"
    )


def test_tensors_without_gradients_are_told() -> None:
    text = """
        import slangpy;
        [Differentiable] float loss(ITensor<float, 1> w, no_diff ITensor<float, 1> c) { return w[0] * c[0]; }
        void step(%s<float, 1> w) { bwd_diff(loss)(w, w, 1.0); }
    """
    note = "pass a DiffTensor<float, 1>, or write 'no_diff' before the parameter 'w' if it is constant"
    assert problem(text % "Tensor") == (
        f"E0506: a 'Tensor<float, 1>' has no gradients, so that of 'w' is lost here ({note})"
    )
    assert problem(text % "ITensor") == (
        f"E0506: only in a 'bwds' call 'w' has gradients; in others that of 'w' is lost here ({note})"
    )
    for kind in ("DiffTensor", "IDiffTensor", "PrimalTensor"):
        assert codes(text % kind) == []


def test_losing_behind_an_interface_is_a_warning() -> None:
    text = """
        interface IPlain { [Differentiable] float at(float x); }
        struct S : IPlain, IDifferentiable { float k; [Differentiable] float at(float x) { return k * x; } }
        [Differentiable] float f(float x) { IPlain p = %s(S(x)); return p.at(x); }"""
    note = (
        "let it conform to IDifferentiable, or put 'detach(...)' around what is stored in it if this is meant"
    )
    message = f"E0505: 'IPlain' has no derivative, so the derivative of 'f' would be lost here ({note})"
    assert problem(text % "") == message
    assert codes(text % "detach") == []
