"""Every differentiable function of cooperative vectors in double: forward mode = reverse mode = finite differences, and
the same for the gradient.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import slangrad as spy
from slangrad.check.modules import CheckedProgram
from slangrad.syntax import ast

# fmt: off
CALLS = {
    **{name: f"{name}(x)" for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "atan")},
    **{name: f"{name}(x, y)" for name in ("min", "max", "step")},
    **{name: f"{name}(x, y, z)" for name in ("clamp", "fma")},
    **{f"operator{sign}": f"x {sign} y" for sign in "+-/%"},
    "operator*":  "x * y + x * a.y + b.z * y - (-z)",
    "__init":     "V(a.x, b.y, c.z) * V(a.y) + V(CoopVec<float, 3>(CoopVec<double, 3>(0.5)))",
    "replicate":  "V.replicate(a.x) * y",
    "fill":       "filled(x, b.x)",
    "copyFrom":   "copied(x)",
    "get":        "V(x[2], y[int(a.x)], z[0])",
    "set":        "exchanged(x, b.y)",
    **{name: f"x.{name}(y)" for name in ("add", "sub", "mul", "div", "mod")},
    "neg":        "x.neg() * y",
    "__mul_p_d":  "__mul_p_d(x, y)",
}
# fmt: on
PARTS = {"__converted"}  # in all conversions

PROGRAM = """
typealias V = CoopVec<double, 3>;
[Differentiable] V filled(V v, double by) { let old = v; v.fill(by); return v * old; }
[Differentiable] V copied(V v) { V w; w.copyFrom(v * v); return w; }
[Differentiable] V exchanged(V v, double by) { v[1] = by * v[2]; v[2] *= v[1]; return v; }

[Differentiable]
double f(double3 a, double3 b, double3 c)
{
    V x = V(a.x, a.y, a.z);
    V y = V(b.x, b.y, b.z);
    V z = V(c.x, c.y, c.z);
    V r = CALL;
    return r[0] * r[0] + 2 * r[1] * r[2] - r[2] * a.x;
}

[Differentiable]
double slope(double3 a, double3 b, double3 c)
{
    var p = diffPair(a);
    var q = diffPair(b);
    var r = diffPair(c);
    bwd_diff(f)(p, q, r, 1.0);
    return dot(p.d, double3(1, 2, 3)) + dot(q.d, double3(-2, 1, 0.5)) + dot(r.d, double3(0.3, 2, -1));
}
"""


@cache
def device() -> spy.Device:
    return spy.create_device()


@pytest.mark.sampled(8)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str) -> None:
    module = spy.Module.load_from_source(device(), "vectors", PROGRAM.replace("CALL", CALLS[name]))
    numbers = np.random.default_rng(3).uniform(0.2, 0.9, (3, 3))
    arguments = [spy.double3(*each) for each in numbers]
    spy.check_gradients(module.f, *arguments, rtol=1e-6, atol=1e-8)
    spy.check_gradients(module.slope, *arguments, rtol=1e-6, atol=1e-8)


def test_each_function_has_a_row() -> None:
    """A new function fails here until CALLS says how it is called."""
    library = CheckedProgram()
    library.add_source("vectors", "// CoopVec")
    files = [
        each
        for each in library.scopes
        if isinstance(each, ast.ModuleDeclaration) and each.source.name.startswith("std/cooperative")
    ]
    found = [member for each in files for member in each.members]
    found += [
        inner
        for each in found
        if isinstance(each, (ast.StructDeclaration, ast.Extension))
        for inner in each.members
    ]
    found += [one for each in found if isinstance(each, ast.Subscript) for one in each.accessors]
    functions = (ast.FunctionDeclaration, ast.Constructor, ast.Accessor)
    differentiable = {
        each.name for each in found if isinstance(each, functions) and each.attribute("Differentiable")
    }
    assert differentiable == CALLS.keys() | PARTS
