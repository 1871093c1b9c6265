"""Instructions of `spirv_asm` blocks against NumPy: the functions of `OpExtInst ... glsl450`."""

from __future__ import annotations

import math

import numpy as np

import slangrad as spy
from slangrad.check.bodies.spirv import _GLSL

X, Y, Z = 0.625, 0.75, 0.875
# fmt: off
FLOATS = {  # of x = 0.625, y = 0.75, z = 0.875
    "Floor": 0, "Ceil": 1, "Trunc": 0, "RoundEven": 1, "Fract": X, "FAbs": X, "Sqrt": X**0.5, "InverseSqrt": X**-0.5,
    "Sin": math.sin(X), "Cos": math.cos(X), "Tan": math.tan(X), "Asin": math.asin(X), "Acos": math.acos(X),
    "Atan": math.atan(X), "Sinh": math.sinh(X), "Cosh": math.cosh(X), "Tanh": math.tanh(X), "Exp": math.exp(X),
    "Log": math.log(X), "Exp2": 2**X, "Log2": math.log2(X), "Degrees": math.degrees(X), "Radians": math.radians(X),
    "Pow": X**Y, "Atan2": math.atan2(X, Y), "FMin": X, "FMax": Y, "Step": 1, "FMix": X + (Y - X) * Z,
    "FClamp": Y, "SmoothStep": 1, "Fma": X * Y + Z,
}
SIGNED = {"SAbs": 5, "SMin": -5, "SMax": 3, "SClamp": 3}                       # of -5, 3 and 4
UNSIGNED = {"UMin": 3, "UMax": 2**32 - 5, "UClamp": 4}                         # of 2**32 - 5, 3 and 4
VECTORS = {"Length": 3, "Distance": 5**0.5, "Normalize": 1 / 3, "Cross": 2 * 0 - 2 * 2, "Reflect": 1 - 2 * 6 * 2}
# fmt: on


def test_functions_of_glsl450():
    """Vectors are (1, 2, 2) and (2, 2, 0); the first components of their results are compared."""
    operands = {"f": "$x $y $z", "s": "$i $j $k", "u": "$u $v $w"}
    lines = []
    for name in (*FLOATS, *SIGNED, *UNSIGNED):
        kinds = _GLSL[name].operands
        used = " ".join(operands[kinds[0]].split()[: len(kinds)])
        written = {"f": "float", "s": "int", "u": "uint"}[kinds[0]]
        lines.append(f"spirv_asm {{ result : $${written} = OpExtInst glsl450 {name} {used} }}")
    for name in VECTORS:
        used, kind = ("$a", "$b")[: len(_GLSL[name].operands)], "float3"
        if name in ("Length", "Distance"):
            kind = "float"
        lines.append(f"(spirv_asm {{ result : $${kind} = OpExtInst glsl450 {name} {' '.join(used)} }}).x")
    body = "\n".join(f"    o[{place}] = {line};" for place, line in enumerate(lines))
    source = f"""
    [shader("compute")] [numthreads(1, 1, 1)]
    void main(RWStructuredBuffer<double> o, float x, float y, float z, float3 a, float3 b)
    {{
    int i = -5, j = 3, k = 4;
    uint u = uint(i), v = 3, w = 4;
{body}
    }}
    """
    device = spy.create_device()
    module = device.load_module_from_source("glsl450", source)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    output = device.create_buffer(data=np.zeros(len(lines)))
    values = {"x": X, "y": Y, "z": Z, "a": spy.float3(1, 2, 2), "b": spy.float3(2, 2, 0)}
    kernel.dispatch([1, 1, 1], o=output, **values)
    expected = [*FLOATS.values(), *SIGNED.values(), *UNSIGNED.values(), *VECTORS.values()]
    assert {*FLOATS, *SIGNED, *UNSIGNED, *VECTORS} == {*_GLSL}
    for line, value, wanted in zip(lines, output.to_numpy().view(np.float64), expected):
        assert np.isclose(value, wanted, rtol=2e-6, atol=0), (line, value, wanted)
