"""Functions with derivatives of the user's own, in each form and from either side: the programs of test_programs.py."""

from __future__ import annotations

from tests.gradients.programs import Program

CUBED = """
double cubed(double x) { return x * x * x; }
"""

LINE = """
struct Line : IDifferentiable
{
    double k;
    double at(double x) { return k * x * x; }
}
"""

VECTOR = """
struct Vec<T : __BuiltinArithmeticType> : IDifferentiable
{
    typedef Vec<T> Differential;
    T a;
    T b;
    T square() { return a * a + b * b; }
}
"""

GRID = """
struct Grid : IDifferentiable
{
    double2 values;
    __subscript(int i) -> double
    {
        get { return values[i]; }
        set { values[i] = newValue; }
    }
    property double norm { get { return dot(values, values); } }
}
"""

CUSTOM_PROGRAMS = (
    Program(
        "extension",
        "return cubed(x * y) + cubed(y);",
        CUBED
        + """
[Differentiable] __func_extension fwd_diff(cubed)(DifferentialPair<double> x) -> DifferentialPair<double>
{
    return diffPair(cubed(x.p), 3.0lf * x.p * x.p * x.d);
}
[Differentiable] __func_extension bwd_diff(cubed)(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3.0lf * x.p * x.p * d); }
""",
    ),
    Program(
        "from_the_derivative",
        "double s = y; if (x > 0.7lf) s = cubed(x); return s * cubed(s);",
        CUBED
        + """
[ForwardDerivativeOf(cubed)] [Differentiable]
DifferentialPair<double> cubed_fwd(DifferentialPair<double> x) { return { cubed(x.p), 3.0lf * x.p * x.p * x.d }; }
[BackwardDerivativeOf(cubed)] [Differentiable]
void cubed_bwd(inout DifferentialPair<double> x, double d) { x.d += 3.0lf * x.p * x.p * d; }
""",
    ),
    Program(
        "backward_alone",
        "return cubed(x) * y;",
        CUBED
        + "[BackwardDerivativeOf(cubed)] [Differentiable] void b(inout DifferentialPair<double> x, double d) { x.d = 3.0lf * x.p * x.p * d; }",
    ),
    Program(
        "forward_alone",
        "return cubed(x) * y;",
        CUBED
        + "[ForwardDerivativeOf(cubed)] [Differentiable] DifferentialPair<double> b(DifferentialPair<double> x) { return { cubed(x.p), 3.0lf * x.p * x.p * x.d }; }",
    ),
    Program(
        "generic",
        "return square(x) * y + square(double2(x, y)).y;",
        """
[BackwardDerivative(square_bwd)]
T square<T : IFloat>(T x) where T.Differential == T { return x * x; }
[Differentiable] void square_bwd<T : IFloat>(inout DifferentialPair<T> x, T.Differential d) where T.Differential == T
{
    x = diffPair(x.p, x.p * d + x.p * d);
}
""",
    ),
    Program(
        "generic_result",
        "return pair<Couple, 3>(x).a * y + pair<Couple, 2>(y).b;",
        """
interface IPair : IDifferentiable { __constraint Differential : IPair; [Differentiable] __init(double a, double b); [Differentiable] double get(int i); }
struct Couple : IPair
{
    typealias Differential = Couple;
    double a, b;
    [Differentiable] __init(double a, double b) { this.a = a; this.b = b; }
    [Differentiable] double get(int i) { return i == 0 ? a : b; }
}
// Of Out the derivative has only `Out.Differential`: its parameters are those of the function, one by one.
[BackwardDerivative(pair_bwd)]
Out pair<Out : IPair, let N : int>(double x) { return Out(double(N) * x, x * x); }
[Differentiable] void pair_bwd<Out : IPair, let N : int>(inout DifferentialPair<double> x, Out.Differential d)
{
    x = diffPair(x.p, d.get(0) * double(N) + 2 * x.p * d.get(1));
}
""",
    ),
    Program(
        "instance",
        "return square(x) * y + square(square(y));",
        """
T square<T : IArithmetic>(T x) { return x * x; }
[Differentiable] __func_extension<T : IFloat> bwd_diff(square<T>)(inout DifferentialPair<T> x, T d) where T.Differential == T
{
    x = diffPair(x.p, T(2.0) * x.p * d);
}
[Differentiable] __func_extension fwd_diff(square<double>)(DifferentialPair<double> x) -> DifferentialPair<double>
{
    return diffPair(square(x.p), 2.0lf * x.p * x.d);
}
""",
    ),
    Program(
        "instance_of_a_struct",
        "Vec<double> v = { x, x * y }; return v.square() * y;",
        VECTOR
        + """
[Differentiable] __func_extension<T : __BuiltinFloatingPointType>
bwd_diff(Vec<T>::square)(inout DifferentialPair<Vec<T>> self, T d) where T.Differential == T
{
    self = diffPair(self.p, Vec<T>(T(2) * self.p.a * d, T(2) * self.p.b * d));
}
""",
    ),
    Program(
        "method",
        "Line l = { y }; return l.at(x) + l.at(y);",
        LINE
        + """
extension Line
{
    [BackwardDerivativeOf(at)] [Differentiable]
    static void at_bwd(inout DifferentialPair<Line> line, inout DifferentialPair<double> x, double d)
    {
        Line.Differential dLine = { x.p * x.p * d };
        x = diffPair(x.p, 2.0lf * line.p.k * x.p * d);
        line = diffPair(line.p, dLine);
    }
}
""",
    ),
    Program(
        "static_method",
        "return Mine.cubed(x) + Mine.cubed(y * x);",
        """
struct Mine
{
    [BackwardDerivative(cubed_bwd)] static double cubed(double x) { return x * x * x; }
    [Differentiable] static void cubed_bwd(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3.0lf * x.p * x.p * d); }
}
""",
    ),
    Program(
        "requirement",
        "Cube c = { 2.0lf }; return applied(c, x) * y;",
        """
interface IShape { [Differentiable] double at(double x); }
struct Cube : IShape
{
    double k;
    [BackwardDerivative(at_bwd)] double at(double x) { return k * x * x * x; }
    [Differentiable] void at_bwd(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3.0lf * k * x.p * x.p * d); }
}
[Differentiable] double applied<S : IShape>(no_diff S s, double x) { return s.at(x) + s.at(x * x); }
""",
    ),
    Program(
        "subscript",
        "Grid g = { double2(x, y) }; g[1] = g[0] * g[1]; return g[1] * g[0] + g[1];",
        GRID
        + """
[Differentiable] __func_extension bwd_diff(Grid::__subscript::get)(inout DifferentialPair<Grid> self, int i, double d)
{
    double2 made = double2(0.0lf);
    made[i] = d;
    self = diffPair(self.p, Grid(made));
}
[Differentiable] __func_extension bwd_diff(Grid::__subscript::set)(inout DifferentialPair<Grid> self, int i, inout DifferentialPair<double> value)
{
    double2 left = self.d.values;
    value = diffPair(value.p, left[i]);
    left[i] = 0.0lf;
    self = diffPair(self.p, Grid(left));
}
""",
    ),
    Program(
        "property",
        "Grid g = { double2(x, y) }; return g.norm * x;",
        GRID
        + """
[BackwardDerivativeOf(Grid.norm.get)] [Differentiable]
void norm_bwd(inout DifferentialPair<Grid> self, double d) { self = diffPair(self.p, Grid(2.0lf * d * self.p.values)); }
""",
    ),
    Program(
        "context",
        "double s = x; for (int i = 0; i < 3; i++) s = cubed(s) * 0.25lf + y; return s;",
        CUBED
        + """
struct Context
{
    double square;
    [Differentiable] void operator()(out double dx, double d) { dx = 3.0lf * square * d; }
}
[Differentiable] __func_extension __apply(cubed)(double x) -> Tuple<double, Context> { return makeTuple(cubed(x), Context(x * x)); }
""",
    ),
    Program(
        "context_of_a_method",
        "Line l = { y }; return l.at(x) * l.at(y);",
        LINE
        + """
struct Context
{
    double k;
    double x;
    [Differentiable] void operator()(out Line dLine, out double dx, double d) { dLine = { x * x * d }; dx = 2.0lf * k * x * d; }
}
[Differentiable] __func_extension __apply(Line::at)(double x) -> Tuple<double, Context> { return makeTuple(k * x * x, Context(k, x)); }
""",
    ),
    Program(
        "context_of_what_is_written",
        "double b; double a = x; step(a, 3, b); if (a < 1.0lf) step(a, 2, b); return a * y + b;",
        """
void step(inout double a, int n, out double b) { b = n * a; a = a * a; }
struct Context { double a; int n; [Differentiable] void operator()(inout double da, double db) { da = 2.0lf * a * da + n * db; } }
[Differentiable] __func_extension __apply(step)(inout double a, int n, out double b) -> Context
{
    Context made = { a, n };
    step(a, n, b);
    return made;
}
""",
    ),
    Program(
        "substitute",
        "return hard(x) * y + hard(x * y);",
        "[PrimalSubstitute(soft)] double hard(double x) { return x * x; } [Differentiable] double soft(double x) { return x * x; }",
    ),
    Program(
        "substitute_of",
        "return hard(x) * y + hard(x * y);",
        "double hard(double x) { return x * x; } [PrimalSubstituteOf(hard)] [Differentiable] double soft(double x) { return x * x; }",
    ),
    Program(
        "own_differential",
        "Angle a = { x, y, 3 }; Angle b = turned(a, y); return b.value * a.other + turned(b, x).value;",
        """
struct Angle : IDifferentiable
{
    typealias Differential = Slope;
    [DerivativeMember(Differential.rate)] double value;
    double other;
    int turns;
    static Slope dzero() { return { 0.0lf, 0.0lf }; }
    [Differentiable] static Slope dadd(Slope a, Slope b) { return { a.rate + b.rate, a.other + b.other }; }
}
struct Slope : IDifferentiable { double rate; double other; }
[Differentiable] Angle turned(Angle a, double by) { a.value = a.value * by + a.other; a.turns++; return a; }
""",
    ),
    Program(
        "unbounded_generic",
        "Both<double> b = { x, y }; return same(x) * chosen(b, true) + chosen(b, false);",
        """
struct Both<T> { T first; T second; }
extension<T : IDifferentiable> Both<T> : IDifferentiable {}
[Differentiable] T same<T>(T x) { return x; }
[Differentiable] T chosen<T>(Both<T> b, bool first) { return first ? b.first : b.second; }
""",
    ),
)
