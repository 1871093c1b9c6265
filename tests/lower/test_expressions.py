"""What is computed in which order: the IR of expressions."""

from tests.lower.lowering import lines, printed


def test_and_whose_right_side_may_run():
    """Without effects nothing is gained by a branch."""
    text = """
        bool f(bool a, bool b) { return a && b; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %a: bool, no_diff %b: bool) -> (no_diff bool) {
          %0 = and %a, %b
          yield %0
        }
    """)


def test_and_whose_right_side_must_wait():
    text = """
        bool g(int x) { return x > 1; }
        bool f(int x) { return x > 0 && g(x); }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff bool) {
          %0 = const false : bool
          %1 = const 0 : i32
          %2 = less %1, %x
          %3 = if %2 : bool {
            %4 = call @g %x : bool
            yield %4
          } {
            yield %0
          }
          yield %3
        }
    """)


def test_or_whose_right_side_changes_something():
    text = """
        bool f(inout int x)
        {
            return x > 3 || x++ > 1;
        }
    """
    assert printed(text) == lines("""
        func @f(inout no_diff %x: i32) -> (no_diff bool) {
          %0 = const 3 : i32
          %1 = less %0, %x
          %2, %3 = if %1 : bool, i32 {
            %4 = const true : bool
            yield %4, %x
          } {
            %5 = const 1 : i32
            %6 = add %x, %5
            %7 = less %5, %x
            yield %7, %6
          }
          yield %2, %3
        }
    """)


def test_a_choice_of_values():
    text = """
        int f(bool c, int a, int b) { return c ? a : b; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %c: bool, no_diff %a: i32, no_diff %b: i32) -> (no_diff i32) {
          %0 = select %c, %a, %b
          yield %0
        }
    """)


def test_a_choice_of_calls():
    text = """
        int g(int x) { return x; }
        int f(bool c) { return c ? g(1) : g(2); }
    """
    assert printed(text) == lines("""
        func @f(no_diff %c: bool) -> (no_diff i32) {
          %0 = if %c : i32 {
            %1 = const 1 : i32
            %2 = call @g %1 : i32
            yield %2
          } {
            %3 = const 2 : i32
            %4 = call @g %3 : i32
            yield %4
          }
          yield %0
        }
    """)


def test_a_vector_of_choices():
    text = """
        float2 f(bool2 c, float2 a, float2 b) { return select(c, a, b); }
    """
    assert printed(text) == lines("""
        func @f(no_diff %c: boolx2, no_diff %a: f32x2, no_diff %b: f32x2) -> (no_diff f32x2) {
          %0 = select %c, %a, %b
          yield %0
        }
    """)


def test_conversions():
    text = """
        double f(int a, float b, uint8_t c) { return a + b + c; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %a: i32, no_diff %b: f32, no_diff %c: u8) -> (no_diff f64) {
          %0 = convert %a : f32
          %1 = add %0, %b
          %2 = convert %c : f32
          %3 = add %1, %2
          %4 = convert %3 : f64
          yield %4
        }
    """)


def test_vectors_and_numbers():
    text = """
        float3 f(float3 v, float s) { return v * s + 1; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %v: f32x3, no_diff %s: f32) -> (no_diff f32x3) {
          %0 = splat %s : f32x3
          %1 = mul %v, %0
          %2 = const 1.0 : f32x3
          %3 = add %1, %2
          yield %3
        }
    """)


def test_comparisons_are_less_and_equal():
    text = """
        bool f(int a, int b) { return a > b ? a >= b : a != b; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %a: i32, no_diff %b: i32) -> (no_diff bool) {
          %0 = less %b, %a
          %1 = if %0 : bool {
            %2 = less_equal %b, %a
            yield %2
          } {
            %3 = not_equal %a, %b
            yield %3
          }
          yield %1
        }
    """)


def test_increments():
    text = """
        int f(int x) { int y = x++; int z = ++x; return x * y * z; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 1 : i32
          %1 = add %x, %0
          %z = add %1, %0
          %2 = mul %z, %x
          %3 = mul %2, %z
          yield %3
        }
    """)


def test_enums_are_their_numbers():
    text = """
        enum E { A = 1, B }
        int f(E e) { return e == E.B ? int(e) : 0; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %e: i32) -> (no_diff i32) {
          %0 = const 0 : i32
          %1 = const 2 : i32
          %2 = equal %e, %1
          %3 = select %2, %e, %0
          yield %3
        }
    """)


def test_constants_outside_of_functions():
    text = """
        static const float c[2] = { 1, 2 };
        static const int N = 3;
        float f(int i) { return c[i] * N; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %i: i32) -> (no_diff f32) {
          %0 = const 1.0 : f32
          %1 = const 2.0 : f32
          %2 = make %0, %1 : [2 x f32]
          %3 = index %2, %i {check=true}
          %4 = const 3.0 : f32
          %5 = mul %3, %4
          yield %5
        }
    """)


def test_initializer_lists():
    text = """
        struct S { int a; float2 b; float c = 4; }
        S f(int x) { return { x, { 2, 3 } }; }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff struct "S") {
          %0 = const 2.0 : f32
          %1 = const 3.0 : f32
          %2 = make %0, %1 : f32x2
          %3 = const 4.0 : f32
          %4 = make %x, %2, %3 : struct "S"
          yield %4
        }
    """)


def test_an_empty_initializer_list():
    text = """
        struct S { int a = 4; float b; }
        S f() { return {}; }
    """
    assert printed(text) == lines("""
        func @f() -> (no_diff struct "S") {
          %0 = const 4 : i32
          %1 = const 0.0 : f32
          %2 = make %0, %1 : struct "S"
          yield %2
        }
    """)


def test_printf_keeps_its_format():
    text = r"""
        void f(int x) { printf("%d, %f\n", x, 1.5); }
    """
    assert printed(text) == lines(r"""
        func @f(no_diff %x: i32) -> () {
          %0 = const 1.5 : f32
          print %x, %0 {format="%d, %f\n"}
          yield
        }
    """)
