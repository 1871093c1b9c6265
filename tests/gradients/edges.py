"""The examples in the table of docs/gradients.md, "Derivatives at edges": the table is the tests.

`pow(0, 0.5) = 0: 0, 0`        Edge("pow", (0.0, 0.5), 0.0, (0.0, 0.0)), for each type
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
SECTION = "## Derivatives at edges"
EXAMPLE = re.compile(r"`(\w+)\(([^)]*)\) = ([^:`]+)(?:: ([^`]+))?`")
TYPES = {"half": np.float16, "float": np.float32, "double": np.float64}

# How a name of the table is called where it is not a function of numbers by that name.
CALLS = {
    "div": "{0} / {1}",
    "length2": "length(vector<{T}, 2>({0}, {1}))",
    "distance2": "distance(vector<{T}, 2>({0}, 0), vector<{T}, 2>({1}, 0))",
    "normalize2": "normalize(vector<{T}, 2>({0}, {1})).x",
}


@dataclass(frozen=True)
class Edge:
    """`value` is None where the table leaves it open, `slopes` where the value is NaN."""

    function: str
    operands: tuple[float, ...]
    value: float | None
    slopes: tuple[float, ...] | None


def rows() -> list[str]:
    """The examples in each row of the table."""
    section = PAGE.read_text(encoding="utf-8").split(SECTION)[1].split("\n## ")[0]
    return [line.split("|")[3] for line in section.splitlines() if line.startswith("| `")]


def edges(kind: str) -> list[Edge]:
    """All examples, their numbers those of a type."""
    return [_edge(found, TYPES[kind]) for row in rows() for found in EXAMPLE.findall(row)]


def _edge(found: tuple[str, str, str, str], kind: type[np.floating]) -> Edge:
    name, operands, value, slopes = found
    return Edge(
        name,
        _numbers(operands, kind),
        None if value == "any" else _numbers(value, kind)[0],
        None if not slopes else _numbers(slopes, kind),
    )


def _numbers(text: str, kind: type[np.floating]) -> tuple[float, ...]:
    tiny, most = float(np.finfo(kind).smallest_normal), float(np.finfo(kind).max)
    names = {
        "tiny": tiny,
        "max": most,
        "sqrt_tiny": math.sqrt(tiny),
        "half_of_rsqrt_tiny": 0.5 / math.sqrt(tiny),
        "log_tiny": math.log(tiny),
        "log2": math.log(2),
        "log10": math.log(10),
        "sqrt": math.sqrt,
        "inf": math.inf,
        "nan": math.nan,
        "pi": math.pi,
    }
    return tuple(eval(text, {}, names)) if "," in text else (eval(text, {}, names),)


def functions(kind: str) -> dict[str, int]:
    """Each function of the table and how many operands it has."""
    return {edge.function: len(edge.operands) for edge in edges(kind)}


def program(kind: str) -> str:
    """`run(which, x, y, z)`: the value of function number `which`, its slopes in reverse mode and in forward mode."""
    parts, cases = [], []
    for number, (name, count) in enumerate(functions(kind).items()):
        names = "xyz"[:count]
        given = ", ".join(f"T {each}" for each in names)
        call = CALLS.get(name, f"{name}({', '.join(names)})").format(*names, T=kind)
        parts.append(f"[Differentiable] T f{number}({given}) {{ return {call}; }}")
        cases.append(f"    case {number}:\n    {{\n{_case(number, names)}\n        break;\n    }}")
    return HEAD.format(T=kind) + "\n".join(parts) + BODY.replace("CASES", "\n".join(cases))


def _case(number: int, names: str) -> str:
    lines = [f"value = f{number}({', '.join(names)});"]
    lines += [f"var p{each} = diffPair({each});" for each in names]
    lines.append(f"bwd_diff(f{number})({', '.join('p' + each for each in names)}, one);")
    for i, by in enumerate(names):
        lines.append(f"reverse[{i}] = p{by}.d;")
        pairs = ", ".join(f"diffPair({each}, {'one' if each == by else 'nothing'})" for each in names)
        lines.append(f"forward[{i}] = fwd_diff(f{number})({pairs}).d;")
    return "\n".join("        " + line for line in lines)


HEAD = "typealias T = {T};\n"
BODY = """

void run(int which, T x, T y, T z, T one, T nothing, out T value, out vector<T, 3> reverse, out vector<T, 3> forward)
{
    value = 0;
    reverse = vector<T, 3>(0);
    forward = vector<T, 3>(0);
    switch (which)
    {
CASES
    }
}
"""
