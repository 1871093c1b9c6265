"""Types and forms of expressions."""

import pytest

from slangrad.check.model import checked
from tests.check.programs import check, codes, conversion_of, expression, type_of


def values(declarations: str, *expressions: str) -> list[str]:
    """The types of expressions over parameters."""
    lines = "\n".join(f"    {each};" for each in expressions)
    module = check(f"void f({declarations})\n{{\n{lines}\n}}")
    return [type_of(module, each) for each in expressions]


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("1", "int"),
        ("0x7FFFFFFF", "int"),
        ("0xFFFFFFFF", "uint"),
        ("2147483648", "int64_t"),
        ("9223372036854775808", "uint64_t"),
        ("1u", "uint"),
        ("1ll", "int64_t"),
        ("1ull", "uint64_t"),
        ("1.0", "float"),
        ("1.0f", "float"),
        ("1.0h", "half"),
        ("1.0lf", "double"),
        ("true", "bool"),
        ("'a'", "int"),
    ],
)
def test_literals(literal: str, expected: str) -> None:
    assert values("", literal) == [expected]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int", "float", "float"),
        ("int", "uint", "uint"),
        ("int", "int64_t", "int64_t"),
        ("uint", "int64_t", "int64_t"),
        ("int64_t", "half", "half"),
        ("half", "float", "float"),
        ("float", "double", "double"),
        ("bool", "bool", "int"),
        ("uint8_t", "uint8_t", "uint8_t"),
        ("float3", "float", "float3"),
        ("int", "float3", "float3"),
        ("int2", "float2", "float2"),
        ("half4", "float4", "float4"),
        ("float2x2", "float", "float2x2"),
        ("int3x3", "float3x3", "float3x3"),
        ("float1", "float3", "float3"),
    ],
)
def test_common_type_of_operands(left: str, right: str, expected: str) -> None:
    assert values(f"{left} a, {right} b", "a + b") == [expected]


def test_both_operands_are_converted_to_the_common_type() -> None:
    module = check("float3 f(int a, float3 b) { return a * b; }")
    assert conversion_of(module, "a") == "splat float3"
    assert conversion_of(module, "b") is None
    form = expression(module, "a * b").ref
    assert isinstance(form, checked.Operator) and form.name == "*"


def test_comparisons_and_logic() -> None:
    text = "float3 v, float x, bool3 m, int i, uint u"
    assert values(text, "v < x", "x == i", "m && m", "!m", "!i", "i && u") == [
        "bool3",
        "bool",
        "bool3",
        "bool3",
        "bool",
        "bool",
    ]


def test_bits_and_shifts_keep_the_type_of_the_left_operand() -> None:
    assert values("uint u, int i, int64_t w", "u >> i", "i << w", "u & 3", "~i", "w | i") == [
        "uint",
        "int",
        "uint",
        "int",
        "int64_t",
    ]


@pytest.mark.parametrize("expression", ["x & 1", "~x", "x << 1", "s + s", "m * v", "v + w", "!s"])
def test_operators_that_do_not_exist(expression: str) -> None:
    text = f"struct S {{}} void f(float x, S s, float3x3 m, float3 v, float2 w) {{ let r = {expression}; }}"
    assert codes(text) == ["E0313"]


def test_swizzles() -> None:
    text = "float4 v, float x, float3x4 m"
    assert values(text, "v.xzy", "v.r", "v.rg", "x.xxx", "m._m12", "m._11_22", "m[1]", "m[1][2]", "v[2]") == [
        "float3",
        "float",
        "float2",
        "float3",
        "float",
        "float2",
        "float4",
        "float",
        "float",
    ]


@pytest.mark.parametrize("text", ["v.q", "v.xr", "v.z", "m._m30", "v.xyxyx"])
def test_swizzles_that_do_not_exist(text: str) -> None:
    assert codes(f"void f(float2 v, float3x3 m) {{ {text}; }}") == ["E0304"]


def test_swizzle_components_of_matrices_count_from_zero() -> None:
    module = check("float2 f(float3x3 m) { return m._12_31; }")
    form = expression(module, "m._12_31").ref
    assert isinstance(form, checked.Swizzle)
    assert form.components == ((0, 1), (2, 0))


def test_pointers() -> None:
    text = "int* p, float2* q, int** pp"
    assert values(text, "*p", "p[2]", "p + 1", "1 + p", "p - p", "p < p", "q->x", "q.y", "**pp", "&p[1]") == [
        "int",
        "int",
        "int*",
        "int*",
        "int64_t",
        "bool",
        "float",
        "float",
        "int",
        "int*",
    ]


def test_construction() -> None:
    text = "float3 a, float2 b, int i, float3x3 m"
    assert values(
        text,
        "float4(a, 1)",
        "float4(b, b)",
        "float4(i)",
        "int3(a)",
        "float3x3(a, a, a)",
        "float2x2(m)",
        "vector<half, 2>(1, 2)",
        "(uint)i",
        "(float2)a",
        "float[2](1, 2)",
    ) == ["float4", "float4", "float4", "int3", "float3x3", "float2x2", "half2", "uint", "float2", "float[2]"]


def test_wrong_number_of_components() -> None:
    assert codes("float3 f(float2 a) { return float3(a); }") == ["E0312"]
    assert codes("float3 f(float2 a) { return float3(a, a); }") == ["E0312"]


def test_truncation_is_a_warning() -> None:
    module = check("float2 f(float3 v) { return v; }")
    assert conversion_of(module, "v") == "truncate float2"
    assert codes("float2 f(float3 v) { return v; }") == ["E0310"]
    assert codes("float2 f(float3 v) { return (float2)v; }") == []


def test_conditional() -> None:
    text = "bool c, int i, float x, float3 v, bool3 m"
    assert values(text, "c ? i : x", "c ? x : v", "m ? v : v", "i ? x : 1") == [
        "float",
        "float3",
        "float3",
        "float",
    ]
    module = check("float3 f(bool3 m, float3 v) { return m ? v : 0; }")
    form = expression(module, "m ? v : 0").ref
    assert isinstance(form, checked.Operator) and form.name == "?:"


def test_compound_assignment_converts_back_and_forth() -> None:
    module = check("void f(int i) { i += 1.5; i++; }")
    form = expression(module, "i += 1.5").ref
    assert isinstance(form, checked.Update)
    assert form.load is not None and str(form.load.target) == "float"
    assert form.store is not None and str(form.store.target) == "int"


def test_enums() -> None:
    text = """
        enum Color { Red, Green = 5, Blue }
        enum class Small : uint8_t { A = 1, B = A << 2 }
        [Flags] enum Rights { Read, Write, Run }
        void f(Color c, Rights r)
        {
            Color.Blue; Color::Green; Red;
            int(c); c == Color.Red; r | Rights.Run; int x = c;
            int a[Small.B]; a;
        }"""
    module = check(text)
    assert expression(module, "Color.Blue").ref.value == 6
    assert expression(module, "Color::Green").ref.value == 5
    assert expression(module, "Red").ref.value == 0
    assert expression(module, "Rights.Run").ref.value == 4
    assert type_of(module, "r | Rights.Run") == "Rights"
    assert type_of(module, "c == Color.Red") == "bool"
    assert type_of(module, "a") == "int[4]"


def test_constants_are_folded() -> None:
    text = """
        static const int N = 4;
        static const int M = N * 2 + (N > 3 ? 1 : 0);
        struct S { static const uint K = M % 5; }
        float f(float a[M]) { return a[S.K] + sizeof(float3); }"""
    module = check(text)
    assert type_of(module, "a") == "float[9]"
    assert expression(module, "S.K").ref.value == 4
    assert expression(module, "sizeof(float3)").ref.value == 12


def test_a_constant_index_out_of_range() -> None:
    assert codes("float f(float3 v) { return v[3]; }") == ["E0320"]
    assert codes("float f(float a[2]) { return a[-1]; }") == ["E0320"]


def test_lambdas_capture_and_infer_their_result() -> None:
    module = check("float f(float k) { let g = (float x, int n) => x * k + n; return g(2, 3); }")
    function = expression(module, "(float x, int n) => x * k + n").ref.function
    assert [each.name for each in function.checked.captures] == ["k"]
    assert str(function.checked.result) == "float"
    assert type_of(module, "g(2, 3)") == "float"


def test_properties_and_subscripts() -> None:
    text = """
        struct S
        {
            float x;
            property float twice { get { return x * 2; } set(v) { x = v / 2; } }
            __subscript(int i, int j) -> float { get { return x; } set { x = newValue; } }
        }
        void f(S s) { s.twice = 1; s[1, 2] += s.twice; }"""
    module = check(text)
    assert isinstance(expression(module, "s.twice").ref, checked.PropertyAccess)
    assert isinstance(expression(module, "s[1, 2]").ref, checked.SubscriptAccess)


def test_this_is_understood_in_methods() -> None:
    module = check("struct S { float x; float f() { return x + this.x; } }")
    form = expression(module, "x").ref
    assert isinstance(form, checked.Field) and isinstance(form.base, checked.ThisValue)


def test_default_and_named_arguments() -> None:
    text = "float g(float a, float b = 2, int c = 3) { return a; } float f() { return g(1, c: 4); }"
    form = expression(check(text), "g(1, c: 4)").ref
    assert isinstance(form, checked.FunctionCall)
    assert isinstance(form.arguments[1], checked.Default)
    assert form.arguments[2].span.text == "4"
