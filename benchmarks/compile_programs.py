"""Programs whose compilation is timed: their Slang texts, and the call that is the first result of each.

PROGRAMS["chain of 11, gradient"]      Program(text, function="f10", parameters=("float",), backward=True)
kernel_of(program)                     the same call as a kernel, for who takes kernels only
"""

from __future__ import annotations

import random
from dataclasses import dataclass

VALUES = 16  # calls at once
ENTRY = "benchmark"


@dataclass(frozen=True)
class Program:
    """`parameters`: the types of the function's, "float" and others of one value for each call. `sizes`: numbers in a
    type that is no number; one value of it is for all calls."""

    text: str
    function: str
    parameters: tuple[str, ...]
    backward: bool = False
    sizes: tuple[tuple[str, int], ...] = ()

    def size(self, kind: str) -> int:
        """How many numbers a value of the type has."""
        return dict(self.sizes).get(kind, 1)

    def differential(self, kind: str) -> str:
        return f"{kind}.Differential" if self.size(kind) > 1 else kind

    @property
    def takes_tensors(self) -> bool:
        return any(kind.startswith("ITensor") for kind in self.parameters)


def chain(count: int, backward: bool) -> Program:
    """Functions that each call the one before twice."""
    lines = ["[Differentiable] float f0(float x) { return sin(x) * x; }"]
    for i in range(1, count):
        calls = f"f{i - 1}(x * 0.9) + f{i - 1}(x * 1.1)"
        lines.append(f"[Differentiable] float f{i}(float x) {{ return {calls}; }}")
    return Program("\n".join(lines), f"f{count - 1}", ("float",), backward)


def weighted_sum(kind: str, element: str, declared: str = "") -> Program:
    """A gradient for many numbers, in an array or in a tensor."""
    text = f"""{declared}
[Differentiable]
float f({kind} weights, float x)
{{
    float sum = 0;
    for (int i = 0; i < {WEIGHTS}; i++)
        sum += {element} * x;
    return sum * sum;
}}
"""
    return Program(text, "f", (kind, "float"), backward=True, sizes=((kind, WEIGHTS),))


WEIGHTS = 4096
HIDDEN = 64
NETWORK = f"""
struct First : IDifferentiable {{ float w[{HIDDEN}][4]; float b[{HIDDEN}]; }}
struct Second : IDifferentiable {{ float w[{HIDDEN}][{HIDDEN}]; float b[{HIDDEN}]; }}
struct Last : IDifferentiable {{ float w[{HIDDEN}]; float b; }}
struct Network : IDifferentiable {{ First first; Second second; Last last; }}

[Differentiable]
float f(Network network, float4 x)
{{
    float a[{HIDDEN}];
    for (int i = 0; i < {HIDDEN}; i++)
    {{
        float sum = network.first.b[i];
        for (int j = 0; j < 4; j++)
            sum += network.first.w[i][j] * x[j];
        a[i] = max(sum, 0.1 * sum);
    }}
    float b[{HIDDEN}];
    for (int i = 0; i < {HIDDEN}; i++)
    {{
        float sum = network.second.b[i];
        for (int j = 0; j < {HIDDEN}; j++)
            sum += network.second.w[i][j] * a[j];
        b[i] = max(sum, 0.1 * sum);
    }}
    float y = network.last.b;
    for (int i = 0; i < {HIDDEN}; i++)
        y += network.last.w[i] * b[i];
    return y;
}}
"""
NETWORK_SIZE = HIDDEN * 4 + HIDDEN + HIDDEN * HIDDEN + HIDDEN + HIDDEN + 1


def statements(count: int) -> Program:
    body = "    x = x * 1.01 + sin(x);\n" * count
    return Program(f"float f(float x)\n{{\n{body}    return x;\n}}\n", "f", ("float",))


def helpers(seed: int, count: int, backward: bool = False) -> Program:
    """Functions with loops that call earlier ones, drawn from a seed. Values stay between -2 and 2."""
    draw = random.Random(seed)
    parts = ["[Differentiable] float h0(float x, float y) { return x / (1 + x * x + y * y); }"]
    for i in range(1, count):
        lines = [f"[Differentiable] float h{i}(float x, float y)", "{", "    float s = x;"]
        lines += [f"    for (int i = 0; i < {draw.randint(2, 6)}; i++)", "    {"]
        for _ in range(draw.randint(2, 3)):
            callee = f"h{draw.randrange(max(0, i - 2), i)}"
            outside = draw.choice(("s * 0.5 + {}", "sin(s) * {}", "{} - y * 0.25", "max(s, {}) * 0.9"))
            value = outside.format(f"{callee}(s * {draw.randint(1, 9) / 8}, y + {draw.randint(0, 4) / 4})")
            lines.append(
                f"        s = {draw.choice(('', f's > {draw.randint(-4, 4) / 4} ? s * 0.5 : '))}{value};"
            )
        lines += ["    }", f"    return s / (1 + abs(s)) + {draw.choice(('y', 'x'))} * 0.125;", "}"]
        parts += lines
    return Program("\n".join(parts), f"h{count - 1}", ("float", "float"), backward)


FIRST = Program("float f(float x)\n{\n    return x * x + 1;\n}", "f", ("float",))
# Runs before the programs where the standard library may be kept: another one, so that nothing else of theirs is.
WARM_UP = Program("[Differentiable] float g(float x) { return sin(x) * x; }", "g", ("float",), backward=True)

STRUCT = f"struct Weights : IDifferentiable {{ float w[{WEIGHTS}]; }}"
RANDOM = 5, 12  # 165,483 operations with everything inlined

CHECKED = """\
struct Ball
{
    float3 center;
    float radius;
    float distance(float3 p) { return length(p - center) - radius; }
}

[Differentiable]
float soft(float x, float k)
{
    return x > k ? x : x * x / k;
}

float total(StructuredBuffer<float> values, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += soft(values[i], 0.5);
    return sum;
}
"""

PROGRAMS = {
    "first kernel, 3 lines": FIRST,
    "chain of 11 functions, each twice, gradient": chain(11, backward=True),
    "chain of 14 functions, each twice, gradient": chain(14, backward=True),
    "chain of 12 functions, each twice": chain(12, backward=False),
    f"struct of {WEIGHTS} floats by value, gradient": weighted_sum("Weights", "weights.w[i]", STRUCT),
    f"tensor of {WEIGHTS} floats, gradient": weighted_sum("ITensor<float, 1>", "weights[i]"),
    f"network 4, {HIDDEN}, {HIDDEN}, 1 of structs, gradient": Program(
        NETWORK, "f", ("Network", "float4"), backward=True, sizes=(("Network", NETWORK_SIZE),)
    ),
    "random program of 118 lines": helpers(*RANDOM),
    "random program of 118 lines, gradient": helpers(*RANDOM, backward=True),
    "1,000 statements": statements(1_000),
    "10,000 statements": statements(10_000),
}


def kernel_of(program: Program) -> str:
    """The function called by each of VALUES threads: buffers `x0`, `x1`, ... of arguments, and `out0`, ... of what it
    gives, one for each gradient or the result alone."""
    kinds = list(enumerate(program.parameters))
    outputs = [(i, program.differential(kind)) for i, kind in kinds] if program.backward else [(0, "float")]
    buffers = [f"RWStructuredBuffer<{kind}> x{i}" for i, kind in kinds]
    buffers += [f"RWStructuredBuffer<{kind}> out{i}" for i, kind in outputs]
    values = [f"x{i}[{'0' if program.size(kind) > 1 else 'id.x'}]" for i, kind in kinds]
    if program.backward:
        lines = [f"var p{i} = diffPair({value});" for i, value in enumerate(values)]
        pairs = "".join(f"p{i}, " for i, _ in kinds)
        lines.append(f"bwd_diff({program.function})({pairs}1.0f);")
        lines += [f"out{i}[id.x] = p{i}.d;" for i, _ in kinds]
    else:
        lines = [f"out0[id.x] = {program.function}({', '.join(values)});"]
    head = f'[shader("compute")] [numthreads({VALUES}, 1, 1)]\nvoid {ENTRY}'
    body = "\n    ".join(lines)
    return (
        f"{program.text}\n{head}(uint3 id : SV_DispatchThreadID, {', '.join(buffers)})\n{{\n    {body}\n}}\n"
    )
