"""Slang functions that compute a gradient in several ways, so that they can be compared.

In: the name and parameter types of `double f(double x, int n)` and where to look, `0.3, 4`.
Out: text of `f_by_differences`, `f_by_forward`, `f_by_backward`, and of second derivatives in one direction.
"""

from __future__ import annotations

STEP = "1e-5lf"


def gradient_text(name: str, kinds: list[str], point: list[str]) -> str:
    assert len(kinds) == len(point), f"{name} has {len(kinds)} parameters"
    active = [i for i, kind in enumerate(kinds) if kind == "double"]
    here = [f"{value}lf" if i in active else value for i, value in enumerate(point)]
    slope = f"{name}_slope"
    return "\n".join(
        [
            _function(name, "differences", [_difference(name, here, i) for i in active]),
            _function(name, "forward", [_forward(name, here, active, i) for i in active]),
            _backward(name, "backward", name, kinds, here, active),
            _slope(slope, name, kinds, active),
            _function(name, "second_differences", [_difference(slope, here, i) for i in active]),
            _function(name, "second_forward", [_forward(slope, here, active, i) for i in active]),
            _backward(name, "second_backward", slope, kinds, here, active),
        ]
    )


def _function(name: str, way: str, values: list[str]) -> str:
    return f"double[{len(values)}] {name}_by_{way}() {{ return {{ {', '.join(values)} }}; }}\n"


def _difference(name: str, here: list[str], i: int) -> str:
    above, below = (", ".join([*here[:i], f"{here[i]} {sign} {STEP}", *here[i + 1 :]]) for sign in "+-")
    return f"({name}({above}) - {name}({below})) / (2 * {STEP})"


def _forward(name: str, here: list[str], active: list[int], i: int) -> str:
    arguments = [
        f"diffPair({value}, {float(j == i)}lf)" if j in active else value for j, value in enumerate(here)
    ]
    return f"fwd_diff({name})({', '.join(arguments)}).d"


def _backward(name: str, way: str, of: str, kinds: list[str], here: list[str], active: list[int]) -> str:
    pairs = "".join(f"    var p{i} = diffPair({here[i]});\n" for i in active)
    arguments = [f"p{i}" if i in active else value for i, value in enumerate(here)]
    parts = ", ".join(f"p{i}.d" for i in active)
    return (
        f"double[{len(active)}] {name}_by_{way}()\n{{\n{pairs}"
        f"    bwd_diff({of})({', '.join([*arguments, '1.0lf'])});\n    return {{ {parts} }};\n}}\n"
    )


def _slope(slope: str, name: str, kinds: list[str], active: list[int]) -> str:
    """The derivative in the direction (1, 1/2, 1/3, ...)."""
    parameters = ", ".join(f"{kind} x{i}" for i, kind in enumerate(kinds))
    arguments = [
        f"diffPair(x{i}, {1 / (1 + active.index(i))!r}lf)" if i in active else f"x{i}"
        for i in range(len(kinds))
    ]
    body = f"return fwd_diff({name})({', '.join(arguments)}).d;"
    return f"[Differentiable] double {slope}({parameters}) {{ {body} }}\n"
