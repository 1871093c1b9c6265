"""What autodiff is told about functions: custom derivatives, differential types, what carries a derivative."""

from slangrad.ir.data.types import F32, struct
from slangrad.ir.ops.core import Derivatives
from tests.lower.lowering import lower

CUSTOM = """
    [BackwardDerivative(g_bwd)] [ForwardDerivative(g_fwd)]
    float g(float x) { return x; }
    void g_bwd(inout DifferentialPair<float> x, float d) { x.d = d; }
    DifferentialPair<float> g_fwd(DifferentialPair<float> x) { return x; }
    [PrimalSubstitute(smooth)] float hard(float x) { return floor(x); }
    [Differentiable] float smooth(float x) { return x; }
    float outside(float x) { return x; }
    [BackwardDerivativeOf(outside)] void outside_bwd(inout DifferentialPair<float> x, float d) {}
    float given(float x) { return x; }
    __func_extension fwd_diff(given)(DifferentialPair<float> x) -> DifferentialPair<float> { return x; }
    [Differentiable] float f(float x) { return g(x) + hard(x) + outside(x) + given(x) + smooth(x); }
"""


def test_custom_derivatives_are_named_by_their_function():
    program = lower(CUSTOM)
    found = {
        name: function.derivatives for name, function in program.functions.items() if function.derivatives
    }
    assert found == {
        "g": Derivatives(jvp="g_fwd", vjp="g_bwd", primal_substitute=None),
        "hard": Derivatives(jvp=None, vjp=None, primal_substitute="smooth"),
        "outside": Derivatives(jvp=None, vjp="outside_bwd", primal_substitute=None),
        "given": Derivatives(jvp="fwd_diff(given)", vjp=None, primal_substitute=None),
    }
    assert {"g_fwd", "g_bwd", "outside_bwd", "fwd_diff(given)"} <= set(program.functions)


def test_parameters_say_what_carries_a_derivative():
    program = lower("""
        [Differentiable] float f(float x, no_diff float k, int n, inout float2 v, out float y)
        {
            y = x * k;
            v *= n;
            return y;
        }""")
    parameters = [(p.name, p.direction, p.differentiable) for p in program.functions["f"].parameters]
    assert parameters == [
        ("x", "in", True),
        ("k", "in", False),
        ("n", "in", False),
        ("v", "inout", True),
        ("y", "out", True),
    ]


def test_a_struct_is_tied_to_its_tangent_by_fields():
    program = lower("""
        struct P : IDifferentiable { float x; int n; float y; }
        [Differentiable] float f(P p) { return p.x * p.y * p.n; }""")
    (kind,) = [each for each in program.differentials if str(each) == 'struct "P"']
    row = program.differentials[kind]
    assert row.type is struct("P.Differential", (("x", F32), ("y", F32)))
    assert row.fields == ((0, 0), (2, 1))


def test_hints_on_functions_and_loops():
    program = lower("""
        [PreferRecompute] [Differentiable] float g(float x) { return exp(x); }
        [PreferCheckpoint] [Differentiable] float h(float x) { return exp(x); }
        [Differentiable] float f(float x, int n)
        {
            [MaxIters(8)] for (int i = 0; i < n; i++)
                x = g(x);
            [ForceUnroll] for (int i = 0; i < 3; i++)
                x = h(x);
            return x;
        }""")
    loops = [op.attributes for op in program.functions["f"].region.ops if op.name == "for"]
    assert program.functions["g"].attributes == {"prefer": "recompute"}
    assert program.functions["h"].attributes == {"prefer": "checkpoint"}
    assert loops == [{"max_trips": 8}, {"unroll": True}]


def test_methods_pass_their_object_first():
    program = lower("""
        struct Line : IDifferentiable { float a; [Differentiable] float at(float x) { return a * x; } }
        [Differentiable] float f(float a, float x) { Line l = { a }; return l.at(x); }""")
    assert [(p.name, p.direction) for p in program.functions["Line.at"].parameters] == [
        ("this", "in"),
        ("x", "in"),
    ]


def test_instances_are_made_once():
    program = lower("""
        float g<T : __BuiltinFloatingPointType, let N : int>(T x) { return float(x) * N; }
        float h(float x) { return g<float, 2>(x) + g<float, 3>(x); }
        float f(float x) { return h(x) + g<float, 2>(x) + g<double, 2>(double(x)); }""")
    assert sorted(program.functions) == ["f", "g<double, 2>", "g<float, 2>", "g<float, 3>", "h"]
