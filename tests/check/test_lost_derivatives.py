"""Derivatives that would be lost where they are stored, or that come from memory."""

import pytest

from tests.check.programs import codes, problem

TYPES = """
struct Plain
{
    float x;
    [Differentiable] [mutating] void add(float by) { x += detach(by); }
}
struct Part : IDifferentiable
{
    float x;
    no_diff float k;
    property float twice
    {
        [Differentiable] get { return 2 * x; }
        set { x = newValue / 2; }
    }
    property float half_of
    {
        [Differentiable] get { return x / 2; }
        [Differentiable] set { x = newValue * 2; }
    }
}
struct Open<T> : IDifferentiable { T x; int n; float k; }
float plain(float x) { return x; }
[Differentiable] void square(float x, out float y) { y = x * x; }
[Differentiable] void reset(float x, out Plain p) { p = { detach(x) }; }
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Plain p; p.x = x; return 0;", "'Plain' has no derivative"),
        ("Plain p[2]; p[1].x += x; return 0;", "'Plain' has no derivative"),
        ("Part p = {}; p.k = x; return 0;", "'k' is no_diff"),
        ("Part p = {}; p.twice = x; return 0;", "the setter of 'twice' is not differentiable"),
        ("Plain p; square(x, p.x); return 0;", "'Plain' has no derivative"),
        ("Plain p; square(1, p.x); return 0;", "'Plain' has no derivative"),
        ("Open<float> p; p.x = x; return 0;", "'x' has no derivative for all instances of 'Open'"),
    ],
)
def test_places_that_hold_no_derivative(body: str, reason: str) -> None:
    found = problem(f"{TYPES}[Differentiable] float f(float x) {{ {body} }}")
    assert found.startswith(f"E0505: {reason}, so the derivative of 'f' would be lost here")


@pytest.mark.parametrize(
    "body",
    [
        "Plain p; p.x = detach(x); return x;",
        "Plain p; p.x = 2; return x;",
        "Plain p; p.x = no_diff plain(x); return x;",
        "Plain p; p.x = plain(x); return x;",
        "Plain p; p.add(x); return p.x * x;",
        "Plain p; reset(x, p); return p.x * x;",
        "Part p = {}; p.x = x; p.half_of = x; p.half_of *= x; return p.x;",
        "float2 v; v.x = x; v[1] = x; return v.y;",
        "float a[3]; square(x, a[1]); return a[1];",
        "no_diff float y; y = x; return y * x;",
        "Open<float> p; p.x = 1; p.k = x; return p.k;",
        "Open<float> p; p.x = detach(x); return p.x;",
    ],
)
def test_places_that_hold_what_is_stored(body: str) -> None:
    assert codes(f"{TYPES}[Differentiable] float f(float x) {{ {body} }}") == []


def test_each_place_is_reported() -> None:
    text = "[Differentiable] void f(float x, no_diff out Plain p, float* q) { p.x = x; q[0] = x; q[1] = x; }"
    assert codes(TYPES + text) == ["E0505", "E0505", "E0505"]


def test_objects_that_hold_no_derivative() -> None:
    methods = """
        struct Sum { float s; [Differentiable] [mutating] void add(float x) { s += x; } }
        struct Mean : IDifferentiable
        {
            float s;
            [Differentiable] [NoDiffThis] [mutating] void add(float x) { s += x; }
            [Differentiable] [mutating] void multiply(float x) { s *= x; }
        }"""
    assert codes(methods) == ["E0505", "E0505"]


def test_whole_objects_that_go_out() -> None:
    assert codes(f"{TYPES} [Differentiable] void f(float x, out Plain p) {{ p = {{ x }}; }}") == ["E0505"]
    assert codes("struct S { float x; [Differentiable] [mutating] void f(float y) { this = { y }; } }") == [
        "E0505"
    ]


def test_tensors_take_derivatives() -> None:
    text = "[Differentiable] void f(int i, float x, IRWDiffTensor<float, 1> t) { t[i] = x; t.store({ i }, t[i] * x); }"
    assert codes(text) == []
    assert codes("[Differentiable] void f(int i, float x, RWStructuredBuffer<float> t) { t[i] = x; }") == [
        "E0505"
    ]


def test_derivatives_that_come_from_memory() -> None:
    get = "[Differentiable] float f(int i, IDiffTensor<float, 1> t)"
    assert codes(f"{TYPES} {get} {{ return plain(t[i]); }}") == ["E0505"]
    assert codes(f"{TYPES} {get} {{ return plain(t.load({{ i }})); }}") == ["E0505"]
    assert codes(f"{TYPES} {get} {{ return no_diff plain(t[i]); }}") == []
    assert codes(f"{TYPES} {get} {{ return t[i] * plain(i); }}") == []
    constant = "[Differentiable] no_diff float one() { return 1; }"
    assert codes(f"{TYPES} {constant} [Differentiable] float f(float x) {{ return x * plain(one()); }}") == []


def test_the_hints() -> None:
    start = f"{TYPES}[Differentiable] void f(float x, no_diff out Plain p)"
    assert problem(f"{start} {{ p.x = x; }}").endswith(
        "(put 'detach(...)' around what is stored if this is meant)"
    )
    assert problem(f"{start} {{ square(x, p.x); }}").endswith(
        "(pass a variable, and store detach(...) of it if this is meant)"
    )


MEMORY = """
groupshared float total[4];
static float lasting;
RWStructuredBuffer<float> buffer;
RWByteAddressBuffer bytes;
struct Cell { float* p; [mutating] void put(float x) { *p = x; } }
struct Slot { RWStructuredBuffer<float> b; property float first { get { return b[0]; } set { b[0] = newValue; } } }
void into_shared(float x) { total[0] = x; }
void into_static(float x) { if (x > 0) lasting += x; }
void through(float* p, float x) { p[1] = x; }
void further(float x) { into_shared(2 * x); }
void assign(inout float p, float x) { p = x; }
void by_setter(Slot s, float x) { s.first = x; }
void vectors(RWStructuredBuffer<float3> v, float x) { v[0].yz = x; }
void count(float x) { if (x > 0) InterlockedAdd(counter[0], 1); }
RWStructuredBuffer<int> counter;
void whole(float x) { counter[0] = int(x); }
void show(float x) { printf("%g", x); }
float plain(float x) { float y[2]; y[0] = x; return y[0]; }
[Differentiable] void kept(float x) { into_shared(detach(x)); }
"""


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("into_shared(x)", "into_shared"),
        ("into_static(x * x)", "into_static"),
        ("through(q, x)", "through"),
        ("further(x)", "further"),
        ("assign(buffer[1], x)", "assign"),
        ("assign(*q, x)", "assign"),
        ("cell.put(x)", "put"),
        ("by_setter(slot, x)", "by_setter"),
        ("vectors(v, x)", "vectors"),
        ("bytes.Store(0, x)", "Store"),
        ("InterlockedAdd(buffer[0], x)", "InterlockedAdd"),
    ],
)
def test_what_functions_without_a_derivative_store(call: str, name: str) -> None:
    parameters = "float x, float* q, Cell cell, Slot slot, RWStructuredBuffer<float3> v"
    found = problem(f"{MEMORY}[Differentiable] float f({parameters}) {{ {call}; return x; }}")
    reason = f"'{name}' stores in memory, which has no derivative"
    assert found.startswith(f"E0505: {reason}, so the derivative of 'f' would be lost here")
    assert codes(f"{MEMORY}float f({parameters}) {{ {call}; return x; }}") == []


@pytest.mark.parametrize(
    "call",
    [
        "into_shared(detach(x))",
        "no_diff into_shared(x)",
        "into_shared(2)",
        "count(x)",
        "whole(x)",
        "show(x)",
        "kept(x)",
        "float y; assign(y, 2); unused(y)",
        "float y = no_diff plain(x); unused(y)",
        "InterlockedAdd(counter[0], 1)",
    ],
)
def test_what_stores_nothing_that_has_a_derivative(call: str) -> None:
    assert codes(f"{MEMORY}[Differentiable] float f(float x) {{ {call}; return x; }}") == []


PLACE = """
struct Place : IDifferentiablePtrType
{
    typealias Differential = Place;
    float* data;
    RWStructuredBuffer<float> more;
    int at;
    float* address() { return data + at; }
    int next() { return at + 1; }
}
float read(Place p) { return p.data[0]; }
[BackwardDerivative(get_bwd)] float get(Place p) { return p.data[p.at]; }
void get_bwd(DifferentialPtrPair<Place> p, float d) { p.d.data[p.d.at] += d; }
"""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("p.data[1]", "memory behind a pointer is read without its derivative"),
        ("*p.data", "memory behind a pointer is read without its derivative"),
        ("*(p.data + p.at)", "memory behind a pointer is read without its derivative"),
        ("*p.address()", "memory behind a pointer is read without its derivative"),
        ("p.more[1]", "'[]' is not differentiable"),
        ("read(p)", "'read' is not differentiable"),
    ],
)
def test_what_types_of_pointers_lead_to(value: str, reason: str) -> None:
    text = f"{PLACE}[Differentiable] float f(Place p, float x) {{ return x * {value}; }}"
    assert problem(text).startswith(f"E0505: {reason}, so the derivative of 'f' would be lost here")
    local = (
        f"{PLACE}[Differentiable] float f(Place p, float x) {{ Place q = p; let y = {value}; return x * y; }}"
    )
    assert problem(local.replace("* p", "* q")).startswith(f"E0505: {reason}")


@pytest.mark.parametrize(
    "body",
    [
        "return x * get(p);",
        "return x * no_diff(p.data[1]);",
        "return x * detach(p.data[1]);",
        "return x * p.next() * p.at;",
        "return x * other[1];",
        "float y = p.data[1]; return x;",
    ],
)
def test_pointers_whose_derivatives_are_followed_or_not_wanted(body: str) -> None:
    assert codes(f"{PLACE}[Differentiable] float f(Place p, float* other, float x) {{ {body} }}") == []
    free = "[Differentiable] float f(no_diff Place p, float x) { return x * p.data[1] * read(p); }"
    assert codes(PLACE + free) == []


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("return asfloat(asuint(x) & 0x7FFFFFFFu);", "asuint"),
        ("uint b = asuint(x); b &= 0x7FFFFFFFu; float y = asfloat(b); return y;", "asuint"),
        ("int3 b = asint(float3(x)); return asfloat(b.zyx).x;", "asint"),
        ("return bit_cast<float>(bit_cast<uint>(x) | 0x80000000u);", "bit_cast"),
        ("uint lo; uint hi; asuint(double(x), lo, hi); return float(asdouble(lo, hi >> 1));", "asuint"),
        ("return f16tof32(f32tof16(x));", "f32tof16"),
    ],
)
def test_bits_that_become_a_number_again(body: str, name: str) -> None:
    found = problem(f"[Differentiable] float f(float x) {{ {body} }}")
    assert found.startswith(
        f"E0505: '{name}' is not differentiable, so the derivative of 'f' would be lost here"
    )
    assert codes(f"[Differentiable] float f(no_diff float x) {{ {body} }}") == []


@pytest.mark.parametrize(
    "body",
    [
        "uint h = asuint(x); h ^= h >> 16; return t[h & 7] * x + float(h) * 0.1 + (h & 1) * x;",
        "uint h = asuint(x); return h > 5 ? x : 2 * x;",
        "return x * random(asuint(x));",
        "return x * count(x);",
        "float3 v = count(x); return x * v.y * powi(x, count(x));",
        "return asfloat(asuint(detach(x)) & 0x7FFFFFFFu) * x;",
    ],
)
def test_whole_numbers_have_no_derivative_to_lose(body: str) -> None:
    functions = """
    float random(uint seed) { return asfloat(0x3F800000u | (seed >> 9)) - 1; }
    int count(float x) { return int(x); }
    [Differentiable] float powi(float x, int n) { float y = 1; for (int i = 0; i < n; i++) y *= x; return y; }
    """
    assert codes(f"{functions}[Differentiable] float f(float x, float t[8]) {{ {body} }}") == []


IN_LISTS = """
struct Plain { float a; }
struct Open<T> : IDifferentiable { T x; int n; }
struct Half : IDifferentiable { no_diff float w; float x; }
struct Around : IDifferentiable { Half half; }
static Plain kept;
[Differentiable] float first(Open<float> o) { return o.x; }
[Differentiable] float weight(Half h) { return h.w; }
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Open<float> o = { x, 1 }; return o.x;", "'x' has no derivative for all instances of 'Open'"),
        ("return Open<float>(x, 1).x;", "'x' has no derivative for all instances of 'Open'"),
        ("Open<float> o[1] = { { x, 1 } }; return o[0].x;", "'x' has no derivative for all instances"),
        ("return first({ x, 1 });", "'x' has no derivative for all instances of 'Open'"),
        ("Half h = { x, x }; return h.w;", "'w' is no_diff"),
        ("Half h; h = { x, x }; return h.w;", "'w' is no_diff"),
        ("return weight(Half(x, 1));", "'w' is no_diff"),
        ("Around a = { { x, 1 } }; return a.half.w;", "'w' is no_diff"),
        ("Plain p = { x }; let f = (float y) => p.a * y; return f(2);", "'Plain' has no derivative"),
        ("kept = { x }; return kept.a;", "a 'Plain' is stored in memory, which has no derivative"),
        ("return bit_cast<Plain>(x).a;", "'bit_cast' is not differentiable"),
    ],
)
def test_what_is_given_in_lists_captured_or_kept(body: str, reason: str) -> None:
    found = problem(f"{IN_LISTS}[Differentiable] float f(float x) {{ {body} }}")
    assert found.startswith(f"E0505: {reason}")
    assert codes(f"{IN_LISTS}[Differentiable] float f(no_diff float x) {{ {body} }}") == []


def test_lists_of_what_has_derivatives_lose_none() -> None:
    body = "Half h = { detach(x), x }; Open<float> o = { detach(x), 1 }; return h.x * h.w * o.x;"
    assert codes(f"{IN_LISTS}[Differentiable] float f(float x) {{ {body} }}") == []
