"""Instances of generics, lambdas, defaults, custom derivatives: which functions there are, and who calls whom."""

from tests.lower.lowering import lines, printed


def test_instances_are_shared():
    text = """
        T g<T : IArithmetic>(T x) { return x + x; }
        float f(float x, int i) { return g(x) + g(x + 1) + g(i); }
    """
    assert printed(text, "f", "g<float>", "g<int>") == lines("""
        func @f(no_diff %x: f32, no_diff %i: i32) -> (no_diff f32) {
          %0 = call @"g<float>" %x : f32
          %1 = const 1.0 : f32
          %2 = add %x, %1
          %3 = call @"g<float>" %2 : f32
          %4 = add %0, %3
          %5 = call @"g<int>" %i : i32
          %6 = convert %5 : f32
          %7 = add %4, %6
          yield %7
        }
        func @"g<float>"(no_diff %x: f32) -> (no_diff f32) {
          %0 = add %x, %x
          yield %0
        }
        func @"g<int>"(no_diff %x: i32) -> (no_diff i32) {
          %0 = add %x, %x
          yield %0
        }
    """)


def test_values_as_generic_arguments():
    text = """
        int g<let N : int>(int a[N]) { return a[N - 1] * N; }
        int f(int a[2], int b[3]) { return g(a) + g(b); }
    """
    assert printed(text, "f", "g<3>") == lines("""
        func @f(no_diff %a: [2 x i32], no_diff %b: [3 x i32]) -> (no_diff i32) {
          %0 = call @"g<2>" %a : i32
          %1 = call @"g<3>" %b : i32
          %2 = add %0, %1
          yield %2
        }
        func @"g<3>"(no_diff %a: [3 x i32]) -> (no_diff i32) {
          %0 = const 3 : i32
          %1 = get %a {index=2}
          %2 = mul %1, %0
          yield %2
        }
    """)


def test_generic_methods_of_generic_structs():
    text = """
        struct Box<T> { T value; U to<U : __BuiltinFloatingPointType>(U x) { return x; } }
        float f(Box<int> b) { return b.to(2.0f); }
    """
    assert printed(text, "f", "Box<int>.to<float>") == lines("""
        func @f(no_diff %b: struct "Box<int>") -> (no_diff f32) {
          %0 = const 2.0 : f32
          %1 = call @"Box<int>.to<float>" %b, %0 : f32
          yield %1
        }
        func @"Box<int>.to<float>"(no_diff %this: struct "Box<int>", no_diff %x: f32) -> (no_diff f32) {
          yield %x
        }
    """)


def test_a_parameter_of_an_interface_type():
    text = """
        interface I { int v(); }
        struct A : I { int v() { return 1; } }
        struct B : I { int v() { return 2; } }
        int g(I i) { return i.v(); }
        int f(A a, B b) { return g(a) + g(b); }
    """
    assert printed(text, "f", "g<B>") == lines("""
        func @f(no_diff %a: struct "A", no_diff %b: struct "B") -> (no_diff i32) {
          %0 = call @"g<A>" %a : i32
          %1 = call @"g<B>" %b : i32
          %2 = add %0, %1
          yield %2
        }
        func @"g<B>"(no_diff %i: struct "B") -> (no_diff i32) {
          %0 = call @B.v %i : i32
          yield %0
        }
    """)


def test_a_default_implementation():
    text = """
        interface I { int v(); int twice() { return v() * 2; } }
        struct A : I { int v() { return 1; } }
        int f(A a) { return a.twice(); }
    """
    assert printed(text, "f", "A.twice") == lines("""
        func @f(no_diff %a: struct "A") -> (no_diff i32) {
          %0 = call @A.twice %a : i32
          yield %0
        }
        func @A.twice(no_diff %this: struct "A") -> (no_diff i32) {
          %0 = call @A.v %this : i32
          %1 = const 2 : i32
          %2 = mul %0, %1
          yield %2
        }
    """)


def test_lambdas_carry_what_they_capture():
    text = """
        int f(int k) { let g = (int x) => x + k; return g(1); }
    """
    assert printed(text, "f", "lambda") == lines("""
        func @f(no_diff %k: i32) -> (no_diff i32) {
          %g = make %k : struct "lambda at test:1:24"
          %0 = const 1 : i32
          %1 = call @lambda %g, %0 : i32
          yield %1
        }
        func @lambda(no_diff %this: struct "lambda at test:1:24", no_diff %x: i32) -> (no_diff i32) {
          %0 = get %this {index=0}
          %1 = add %x, %0
          yield %1
        }
    """)


def test_default_arguments():
    text = """
        int g(int a, int b = 7) { return a + b; }
        int f(int x) { return g(x); }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 7 : i32
          %1 = call @g %x, %0 : i32
          yield %1
        }
    """)


def test_forward_mode_is_a_request_in_a_wrapper():
    text = """
        [Differentiable] float g(float x, int n) { return x * n; }
        float f(float x) { return fwd_diff(g)(diffPair(x, 1.0), 3).d; }
    """
    assert printed(text, "f", "fwd_diff(g)") == lines("""
        func @f(no_diff %x: f32) -> (no_diff f32) {
          %0 = const 1.0 : f32
          %1 = call @"diffPair<float>" %x, %0 : struct "DifferentialPair<float>"
          %2 = const 3 : i32
          %3 = call @"fwd_diff(g)" %1, %2 : struct "DifferentialPair<float>"
          %4 = get %3 {index=1}
          yield %4
        }
        func @"fwd_diff(g)"(%x: struct "DifferentialPair<float>", no_diff %n: i32) -> (struct "DifferentialPair<float>") {
          %0 = get %x {index=0}
          %1 = get %x {index=1}
          %2, %3 = jvp @g %0, %n, %1 : f32, f32
          %4 = make %2, %3 : struct "DifferentialPair<float>"
          yield %4
        }
    """)


def test_reverse_mode_is_a_request_in_a_wrapper():
    text = """
        [Differentiable] float g(float x, inout float y, no_diff float k) { y = y * x; return x * k; }
        void f(inout DifferentialPair<float> x, inout DifferentialPair<float> y) { bwd_diff(g)(x, y, 2.0, 1.0); }
    """
    assert printed(text, "bwd_diff(g)") == lines("""
        func @"bwd_diff(g)"(inout %x: struct "DifferentialPair<float>", inout %y: struct "DifferentialPair<float>", no_diff %k: f32, %result_cotangent: f32) -> () {
          %0 = get %x {index=0}
          %1 = get %y {index=0}
          %2 = get %y {index=1}
          %3, %4 = vjp @g %0, %1, %k, %result_cotangent, %2 : f32, f32
          %5 = make %0, %3 : struct "DifferentialPair<float>"
          %6 = make %1, %4 : struct "DifferentialPair<float>"
          yield %5, %6
        }
    """)


def test_no_diff_calls_are_detached():
    text = """
        float h(float x) { return x; }
        [Differentiable] float f(float x) { return no_diff h(x) * x; }
    """
    assert printed(text) == lines("""
        func @f(%x: f32) -> (f32) {
          %0 = detach %x
          %1 = call @h %0 : f32
          %2 = detach %1
          %3 = detach %2
          %4 = mul %3, %x
          yield %4
        }
    """)
