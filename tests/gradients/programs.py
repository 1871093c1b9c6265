"""Programs whose derivatives are checked: one for each statement and shape of control flow, in double.

Each is `double f(double x, double y)`, smooth near the points of `points()` (which keep away from the kinks of their
branches), and text that goes before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Program:
    name: str
    body: str
    before: str = ""

    @property
    def text(self) -> str:
        return f"{self.before}\n[Differentiable]\ndouble f(double x, double y)\n{{\n{self.body}\n}}\n"


def points(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in (0.3, 1.6) and (0.4, 1.4)."""
    k = np.arange(count)
    return 0.3 + 1.3 * ((0.137 + 0.618033988 * k) % 1), 0.4 + ((0.411 + 0.754877666 * k) % 1)


STRUCT = """
struct Ray : IDifferentiable
{
    double origin;
    double slope;
    no_diff double weight;

    [Differentiable] double at(double t) { return origin + slope * t * weight; }
    [Differentiable] [mutating] void bend(double by) { slope = slope * by + origin; }
}
"""

DEEP = """
[Differentiable] double deep(double x, double y, int n) { return n == 0 ? x : sin(deep(x * y, y, n - 1)) + x * n; }
"""

TWICE = """
[Differentiable]
double twice(double x, double y, int n)
{
    if (n < 2)
        return n == 0 ? x * y : cos(x);
    double left = twice(x * 0.75lf, y, n - 1);
    return left * y + twice(left, y * 0.5lf, n - 2) * left;
}
"""

IN_LOOPS = """
[Differentiable]
double branches(double x, double y, int n)
{
    double sum = x;
    for (int i = 0; i < n; i++)
    {
        if (i == 2)
            continue;
        double below = branches(sum * y, x, i);
        sum += below * 0.25lf;
        if (sum > 50.0lf)
            break;
    }
    return sum;
}
"""

THROUGH_OTHERS = """
[Differentiable] void turn(inout double a[3], double s, int n)
{
    if (n == 0)
        return;
    a[n % 3] = a[(n + 1) % 3] * s + a[n % 3];
    double t = mixed(a, s * 0.5lf, n - 1);
    a[0] += t * s;
}
[Differentiable] double mixed(inout double a[3], double s, int n)
{
    if (n > 1)
        turn(a, a[1], n / 2);
    a[2] *= s;
    turn(a, s, n > 0 ? n - 1 : 0);
    return a[0] * a[2];
}
"""

PROGRAMS = (
    Program("straight", "return x * x * y + sin(x) / y - exp(-x * y);"),
    Program("branch", "if (x < y) return x * x * y; else return sin(x) * y;"),
    Program(
        "early_return", "if (x > 1.2) return x * y; double z = x * x; if (z < y) return z + y; return z * y;"
    ),
    Program("ternary", "return x < y ? sqrt(y - x + 1.0lf) * x : log(x + y) * y;"),
    Program("where_nan", "return x > 5.0lf ? log(x - 5.0lf) : x * y;"),
    Program(
        "switch",
        """
    double s = x;
    switch (int(x * 4.0lf) & 3)
    {
    case 0: s = s * y;
    case 1: s = s * s + y; break;
    default: s = sin(s); break;
    case 2: s = s + y * y; break;
    }
    return s * x;""",
    ),
    Program("for_loop", "double s = x; for (int i = 0; i < 5; i++) s = sin(s) * y + s; return s;"),
    Program(
        "run_time_bound",
        "int n = int(x * 6.0lf); double s = 1.0lf; for (int i = 0; i < n; i++) s = s * x + y / (s + 1.0lf); return s;",
    ),
    Program("while_loop", "double s = x; while (s < 4.0lf) s = s * 1.5lf + y * s; return s;"),
    Program(
        "while_condition",
        "double s = x; int n = 0; while (s < 6.0lf && n < 7 || n < 2) { s = s + s * y; n++; } return s * x;",
    ),
    Program(
        "do_loop", "double s = x; int n = 0; do { s = s * y + x; n++; } while (n < 4 && s < 3.0lf); return s;"
    ),
    Program(
        "break_reverses",
        "double s = x; while (true) { s = s * s * 0.5lf + y; if (s > 2.0lf) break; s = s + x; } return s;",
    ),
    Program(
        "continue_skips",
        "double s = x; for (int i = 0; i < 8; i++) { if ((i & 1) == 0) continue; s = s * y + cos(s) * double(i); } return s;",
    ),
    Program(
        "return_in_loop",
        "double s = x; for (int i = 0; i < 9; i++) { s = s * 1.3lf + y; if (s > 5.0lf) return s * s; } return s;",
    ),
    Program(
        "labels",
        """
    double s = x;
    outer: for (int i = 0; i < 4; i++)
    {
        for (int j = 0; j < 5; j++)
        {
            if (j > i) continue outer;
            if (s > 3.0lf) break outer;
            s = s + y * s * 0.25lf;
        }
    }
    return s;""",
    ),
    Program(
        "nested_trips",
        "double s = x; for (int i = 0; i < 9; i++) for (int j = 0; j < 2; j++) s = tanh(s) + y * 0.125lf; return s;",
    ),
    Program(
        "inner_varies",
        """
    double s = x;
    for (int i = 0; i < 4; i++)
    {
        int n = (i * 3 + int(y * 4.0lf)) % 5;
        for (int j = 0; j < n; j++)
            s = sin(s) * y + x;
        s = s * s;
    }
    return s;""",
    ),
    Program(
        "loop_in_branch_in_loop",
        """
    double s = x;
    for (int i = 0; i < 3; i++)
    {
        if (s < 1.1lf) { int k = 0; while (k < i + 1) { s = s * y + 0.3lf; k++; } }
        else s = sqrt(s) * x;
    }
    return s;""",
    ),
    Program("recursion", "return deep(x, y, int(x * 6.0lf));", DEEP),
    Program("recursion_twice", "return twice(x, y, int(x * 5.0lf));", TWICE),
    Program("recursion_in_loops", "return branches(x, y, int(y * 4.0lf));", IN_LOOPS),
    Program(
        "recursion_through_others",
        "double a[3] = { x, y, x * y }; turn(a, y, int(x * 4.0lf)); return a[0] + a[1] * a[2];",
        THROUGH_OTHERS,
    ),
    Program(
        "array_elements",
        """
    double a[4] = { x, y, x * y, 1.0lf };
    for (int i = 0; i < 4; i++)
        a[i] = sin(a[i]) * y + a[(i + 1) & 3];
    return a[0] * a[1] + a[2] * a[3];""",
    ),
    Program(
        "same_element_twice",
        "double a[3] = { x, y, x + y }; int i = int(x * 2.0lf) % 3; int j = i; return a[i] * a[j] * y;",
    ),
    Program(
        "histogram",
        """
    double a[5];
    for (int i = 0; i < 5; i++) a[i] = 0.0lf;
    for (int i = 0; i < 7; i++) a[(i * i) % 5] += x * double(i) + y;
    double s = 0.0lf;
    for (int i = 0; i < 5; i++) s += a[i] * a[i];
    return s;""",
    ),
    Program(
        "vectors",
        "double3 v = double3(x, y, x * y); v.xy = v.yx * v.z; return dot(v, normalize(v + 1.0lf)) * length(v);",
    ),
    Program(
        "vector_index",
        "double3 v = double3(x, y, 2.0lf); v[int(x * 2.0lf) % 3] = v[int(y * 2.0lf) % 3] * x; return v.x * v.y + v.z;",
    ),
    Program(
        "matrices",
        "double2x2 m = double2x2(x, y, 1.0lf, x * y); double2 v = mul(m, double2(y, x)); return determinant(m) + dot(v, m[1]);",
    ),
    Program("structs", "Ray r = { x, y, 2.0lf }; r.bend(x * y); return r.at(y) * r.slope;", STRUCT),
    Program(
        "inout_parameters",
        "double a = x; double b; step(a, b, y); step(b, a, x); return a * b;",
        "[Differentiable] void step(inout double a, out double b, double c) { b = a * c; a = a + b * b; if (a > 3.0lf) a = sqrt(a); }",
    ),
    Program(
        "generic",
        "return power<4>(x) + power<2, double>(y) * poly(x, y);",
        """
[Differentiable] T power<let N : int, T : __BuiltinFloatingPointType>(T x) { T r = T(1.0); for (int i = 0; i < N; i++) r = r * x; return r; }
[Differentiable] T poly<T : __BuiltinFloatingPointType>(T a, T b) { return a * b + a; }
""",
    ),
    Program(
        "custom",
        "double s = x; for (int i = 0; i < 3; i++) s = cubed(s) * 0.25lf + y; return s;",
        """
[BackwardDerivative(cubed_bwd)] [ForwardDerivative(cubed_fwd)]
double cubed(double x) { return x * x * x; }
[Differentiable] void cubed_bwd(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3.0lf * x.p * x.p * d); }
[Differentiable] DifferentialPair<double> cubed_fwd(DifferentialPair<double> x) { return diffPair(cubed(x.p), 3.0lf * x.p * x.p * x.d); }
""",
    ),
    Program(
        "derivative_inside",
        "var p = diffPair(x, 0.0lf); bwd_diff(inner)(p, y); return p.d * x;",
        "[Differentiable] double inner(double x) { return sin(x) * x * x; }",
    ),
    Program(
        "no_derivative",
        "return x * detached(y) + no_diff detached(x) * y;",
        "double detached(no_diff double x) { return 2.0lf; }",
    ),
    Program(
        "masses",
        """
    Masses m = Masses(x, y);
    m.move(y);
    return m.at[1] * m.speed[2] + m.at[8];
    """,
        """
struct Masses : IDifferentiable
{
    double at[9];
    double speed[9];
    [Differentiable] __init(double x, double y)
    {
        for (int i = 0; i < 9; i++) { at[i] = sin(x * i); speed[i] = y; }
    }
    [Differentiable] [mutating] void move(double y)
    {
        for (int i = 0; i < 9; i++)
        {
            speed[i] += 0.1lf * (at[(i + 1) % 9] - y * at[(i + 5) % 9]);
            at[i] += 0.2lf * speed[i];
        }
    }
}
""",
    ),
    Program("lambda", "let scaled = (double t) => t * y; return scaled(x) * scaled(2.0lf);"),
)

# Run at several numbers of lanes and in the oracle.
REPRESENTATIVE = (
    "branch", "while_condition", "inner_varies", "array_elements", "structs",
    "recursion_twice", "recursion_in_loops", "recursion_through_others",
)  # fmt: skip
