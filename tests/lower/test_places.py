"""Places that are written: a whole variable gets a new value, of which a part is replaced."""

from tests.lower.lowering import lines, printed


def test_a_swizzle():
    """Both components are read before one is written."""
    text = """
        float3 f(float3 v) { v.zx = v.xy; return v; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %v: f32x3) -> (no_diff f32x3) {
          %0 = get %v {index=0}
          %1 = get %v {index=1}
          %2 = set %v, %0 {index=2}
          %3 = set %2, %1 {index=0}
          yield %3
        }
    """)


def test_an_element_in_a_field():
    text = """
        struct S { float a[3]; int n; }
        S f(S s, int i) { s.a[i] = 2; return s; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %s: struct "S", no_diff %i: i32) -> (no_diff struct "S") {
          %0 = const 2.0 : f32
          %1 = get %s {index=0}
          %2 = set_index %1, %i, %0 {check=true}
          %3 = set %s, %2 {index=0}
          yield %3
        }
    """)


def test_an_element_that_is_known():
    text = """
        float f(float a[3]) { a[1] = 2; return a[1]; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %a: [3 x f32]) -> (no_diff f32) {
          %0 = const 2.0 : f32
          yield %0
        }
    """)


def test_a_component_of_a_row_of_a_matrix():
    text = """
        float2x2 f(float2x2 m, float x) { m[1].x += x; return m; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %m: f32x2x2, no_diff %x: f32) -> (no_diff f32x2x2) {
          %0 = get %m {index=1}
          %1 = get %0 {index=0}
          %2 = add %1, %x
          %3 = set %0, %2 {index=0}
          %4 = set %m, %3 {index=1}
          yield %4
        }
    """)


def test_a_property():
    text = """
        struct S
        {
            float x;
            property float y { get { return x * 2; } set { x = newValue / 2; } }
        }
        float f(S s) { s.y += 1; return s.x; }
    """
    assert printed(text, "f", "S.y.set") == lines("""
        func @f(no_diff %s: struct "S") -> (no_diff f32) {
          %0 = call @S.y.get %s : f32
          %1 = const 1.0 : f32
          %2 = add %0, %1
          %3 = call @S.y.set %s, %2 : struct "S"
          %4 = get %3 {index=0}
          yield %4
        }
        func @S.y.set(inout no_diff %this: struct "S", no_diff %newValue: f32) -> () {
          %0 = const 2.0 : f32
          %1 = div %newValue, %0
          %2 = set %this, %1 {index=0}
          yield %2
        }
    """)


def test_a_subscript():
    text = """
        struct S
        {
            float a, b;
            __subscript(int i) -> float { get { return i == 0 ? a : b; } set { b = newValue; } }
        }
        float f(S s) { s[1] = 4; return s[0]; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %s: struct "S") -> (no_diff f32) {
          %0 = const 1 : i32
          %1 = const 4.0 : f32
          %2 = call @S.__subscript.set %s, %0, %1 : struct "S"
          %3 = const 0 : i32
          %4 = call @S.__subscript.get %2, %3 : f32
          yield %4
        }
    """)


def test_inout_and_out_are_results():
    text = """
        void g(inout int a, out int b, int c) { a += c; b = a; }
        int f(int x) { int y; g(x, y, 3); return x * y; }
    """
    assert printed(text, "f", "g") == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 3 : i32
          %1, %2 = call @g %x, %0 : i32, i32
          %3 = mul %1, %2
          yield %3
        }
        func @g(inout no_diff %a: i32, out no_diff %b: i32, no_diff %c: i32) -> () {
          %0 = add %a, %c
          yield %0, %0
        }
    """)


def test_an_argument_that_is_a_part():
    text = """
        void g(inout float x) { x = 2; }
        float3 f(float3 v) { g(v.y); return v; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %v: f32x3) -> (no_diff f32x3) {
          %0 = get %v {index=1}
          %1 = call @g %0 : f32
          %2 = set %v, %1 {index=1}
          yield %2
        }
    """)


def test_the_object_of_a_mutating_method():
    text = """
        struct S { float k; [mutating] void up() { k += 1; } float at(float x) { return k * x; } }
        float f(S s) { s.up(); return s.at(3); }
    """
    assert printed(text, "f", "S.up", "S.at") == lines("""
        func @f(no_diff %s: struct "S") -> (no_diff f32) {
          %0 = call @S.up %s : struct "S"
          %1 = const 3.0 : f32
          %2 = call @S.at %0, %1 : f32
          yield %2
        }
        func @S.up(inout no_diff %this: struct "S") -> () {
          %0 = get %this {index=0}
          %1 = const 1.0 : f32
          %2 = add %0, %1
          %3 = set %this, %2 {index=0}
          yield %3
        }
        func @S.at(no_diff %this: struct "S", no_diff %x: f32) -> (no_diff f32) {
          %0 = get %this {index=0}
          %1 = mul %0, %x
          yield %1
        }
    """)


def test_a_write_into_a_buffer():
    text = """
        void f(RWStructuredBuffer<float> b, int i) { b[i] = 3; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %b: struct "RWStructuredBuffer<float>", no_diff %i: i32) -> () {
          %0 = const 3.0 : f32
          call @"RWStructuredBuffer<float>.__subscript.set" %b, %i, %0
          yield
        }
    """)
