"""Programs with the words of other languages, and slips that every newcomer makes: each error says what to write."""

import pytest

import slangrad as spy

# A program, the first error's code, and what its note says.
MISTAKES = [
    ("float f(float x) { return x ** 2; }", "E0313", "pow(x, y)"),
    ("float f(float x) { return x ^ 2; }", "E0313", "pow(x, y)"),
    ("bool f(bool a, bool b) { return a and b; }", "E0201", "'&&'"),
    ("bool f(bool a, bool b) { return a or b; }", "E0201", "'||'"),
    ("bool f(bool a) { return not a; }", "E0201", "'!'"),
    ("# hello\nfloat f(float x) { return x; }", "E0105", "'//'"),
    ("#inclde <a>\nfloat f(float x) { return x; }", "E0105", "#include"),
    ("float f(float x) { auto y = x; return y; }", "E0301", "'var y = x;'"),
    ("template<typename T> T f(T x) { return x; }", "E0207", "T f<T"),
    ("__global__ void f(float x) { }", "E0201", '[shader("compute")]'),
    ("float f(float x) { return np.sin(x); }", "E0301", "no prefix"),
    ("float f(float x) { return x if x > 0 else 0; }", "E0201", "condition ? a : b"),
    ("float f(float x) { if (x > 0) { x = 1; } elif (x < 0) { x = 2; } return x; }", "E0201", "else if"),
    ("def f(x): return x", "E0201", "float f(float x)"),
    ("float f(float x) { goto end; end: return x; }", "E0201", "'goto'"),
    ("float f(float& x) { return 1; }", "E0410", "inout float x"),
    ("float f(float x) { return True ? x : 0; }", "E0301", "'true'"),
    ("T f<T>(T x) { return x + x; }", "E0313", "'T : IArithmetic'"),
    ("bool f<T>(T x) { return x < x; }", "E0313", "'T : IComparable'"),
    ("T f<T>(T x) { return x & x; }", "E0313", "'T : IInteger'"),
]


@pytest.fixture(scope="module")
def device():
    return spy.create_device(backend="interpreter")


@pytest.mark.parametrize("text, code, note", MISTAKES, ids=[text[:40] for text, _, _ in MISTAKES])
def test_an_error_says_what_to_write(device, text, code, note):
    with pytest.raises(spy.CompileError) as raised:
        spy.Module.load_from_source(device, "mistake", text)
    first = raised.value.diagnostics[0]
    assert first.code == code
    assert note in (first.note or "")


def test_words_of_other_languages_may_be_names(device):
    text = """
    float auto(float np) { float math = np; float def = math + 1; return def; }
    float elif(float x) { return auto(x); }
    """
    module = spy.Module.load_from_source(device, "names", text)
    assert module["elif"](1.0) == 2.0


def test_sizes_that_do_not_fit_are_said_alone(device):
    text = "float4 f(float3x3 m, float4 v) { return mul(m, v); }"
    with pytest.raises(spy.CompileError) as raised:
        spy.Module.load_from_source(device, "sizes", text)
    (error,) = raised.value.diagnostics
    assert error.note == (
        "vector<T, R> mul<T, R, C>(matrix<T, R, C> x, vector<T, C> y): 'C' would be both 3 and 4"
    )


def test_errors_stand_in_the_order_of_the_text(device):
    text = "float f(float x) { return zz; }\nfloat g(float x) { return x }\nfloat h(float x) { return yy; }"
    with pytest.raises(spy.CompileError) as raised:
        spy.Module.load_from_source(device, "order", text)
    assert [each.code for each in raised.value.diagnostics] == ["E0301", "E0201", "E0301"]


GENERIC = """
interface IAct { static float f(float x); }
struct Relu : IAct { static float f(float x) { return max(x, 0.0); } }
struct Layer<int I, int O, A : IAct> { float w[I * O]; }
float act<A : IAct>(float x) { return A.f(x); }
"""


@pytest.mark.parametrize(
    "name, message, note",
    [
        ("Layer", "has the generic 'Layer', which needs arguments", "write module['Layer<I, O, A>'] with"),
        (
            "Layer<2,4>",
            "arguments for <I, O, A>: 3, not 2",
            "for example Layer<1, 1, A> with a type A : IAct",
        ),
        ("Layer<2,4,Foo>", "'Foo' is not declared", ""),
        ("act<Foo>", "'Foo' is not declared", ""),
        ("Lyer<2,4,Relu>", "'Lyer' is not declared", "did you mean 'Layer'?"),
        ("Lyer", "has no function or type named 'Lyer'", "did you mean 'Layer'?"),
        ("act<Relu", "has no function or type named 'act<Relu'", "there are act, IAct, Relu, Layer"),
    ],
)
def test_a_generic_name_says_its_parameters(device, name, message, note):
    module = spy.Module.load_from_source(device, "generic", GENERIC)
    with pytest.raises(AttributeError) as raised:
        module[name]
    assert message in str(raised.value)
    assert note in str(raised.value)


def warnings_of(device, text):
    with pytest.warns(spy.CompileWarning) as found:
        spy.Module.load_from_source(device, "warned", text)
    return [str(each.message).splitlines()[0] for each in found]


def test_a_variable_that_is_never_set_is_warned_of(device):
    text = "float f(float x) { float y; return x + y; } float g(float x) { float3 v; return v.x; }"
    assert warnings_of(device, text) == [
        "warning[E0331]: 'y' has no value here, so it is zero",
        "warning[E0331]: 'v' has no value here, so it is zero",
    ]


def test_a_quotient_of_whole_numbers_is_warned_of_where_it_becomes_a_float(device):
    found = warnings_of(
        device, "float f(float x) { return x * (1 / 2) + -7 / 2; } float3 g(float3 v) { return v + 3 / 4; }"
    )
    assert found == [
        "warning[E0332]: 1 / 2 of whole numbers is 0",
        "warning[E0332]: -7 / 2 of whole numbers is -3",
        "warning[E0332]: 3 / 4 of whole numbers is 0",
    ]


def test_a_parameter_of_interface_type_is_named_as_it_is_written(device):
    text = "interface IAct { float f(); } float f(ITensor<float, 1> t, IAct a, float x[]) { return t.y + a.z + x; }"
    with pytest.raises(spy.CompileError) as raised:
        spy.Module.load_from_source(device, "implied", text)
    assert [each.message for each in raised.value.diagnostics] == [
        "'ITensor<float, 1>' has no member 'y'",
        "'IAct' has no member 'z'",
    ]


SET = """
void give(out float x) { x = 1; }
float a(float x) { float y; if (x > 0) y = 1; return y; }
float b(float x) { float y; give(y); return y; }
float c(float x) { float3 y; y.x = 1; return y.x; }
float d(float x) { float y; float* p = &y; *p = 3; return y; }
float e(float x) { float3x3 y; y[0][1] = 1; return y[0][1]; }
float f(float x) { float y; y++; return y; }
float g(float x) { float s, c; sincos(x, s, c); return s + c; }
float h(float x) { int i; for (i = 0; i < 3; i++) x += i; return x; }
float i(float x) { float y; (y) = 3; float z; return y; }
int j(int x) { int q = 7 / 2; return q + 1 / 2; }
float k(float x) { return 6 / 2; }
"""


def test_what_is_set_somewhere_and_whole_quotients_are_not_warned_of(device, recwarn):
    spy.Module.load_from_source(device, "quiet", SET)
    assert [str(each.message) for each in recwarn] == []
