"""The differentiable functions of the library, found by reflection, and programs that differentiate them.

    ROWS["lerp"]              the domains of its parameters
    overloads("lerp")         lerp(T, T, T), and the same of vector<T, N> and of matrix<T, R, C>
    Text("lerp", "double")    a program: all of them in one function, its gradient, and the derivative of that

Each name of the library is in exactly one of the tables. N, R and C differ, so that mixing them up shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product

from slangrad.check.calls.candidates import Candidate
from slangrad.check.modules import CheckedProgram
from slangrad.check.reflect import FunctionView
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import children

Interval = tuple[float, float]

REAL, INNER, POSITIVE, UNIT = (-2.3, 2.4), (-0.9, 0.85), (0.05, 3.0), (0.05, 0.95)
QUARTER = (-0.4, 0.45)  # between two poles of tan(pi x)
ABOVE_1 = (1.1, 4.0)
DIAGONAL = (3.0, 5.0)

# fmt: off
ROWS: dict[str, tuple[Interval, ...]] = {
    # one number
    **dict.fromkeys(("exp", "exp2", "exp10", "sin", "cos", "atan", "sinh", "cosh", "tanh", "asinh", "expm1", "erf",
                     "erfc", "cbrt", "abs", "fabs", "radians", "degrees", "sinpi", "cospi", "floor", "ceil", "trunc",
                     "round", "rint", "frac", "fract", "saturate", "modf", "sincos", "frexp"), (REAL,)),
    **dict.fromkeys(("asin", "acos", "atanh", "tan", "log1p"),                         (INNER,)),
    **dict.fromkeys(("sqrt", "rsqrt", "rcp", "log", "log2", "log10"),                  (POSITIVE,)),
    "acosh":        (ABOVE_1,),
    "tanpi":        (QUARTER,),
    # two
    **dict.fromkeys(("atan2", "fmod", "min", "max", "fmin", "fmax", "step", "fdim", "copysign", "hypot", "ldexp"),
                    (REAL, REAL)),
    **dict.fromkeys(("pow", "powr"),                                                   (POSITIVE, REAL)),
    # three
    **dict.fromkeys(("fma", "mad", "lerp", "min3", "max3", "fmin3", "fmax3", "median3", "fmedian3"),
                    (REAL, REAL, REAL)),
    "select":       (UNIT, REAL, REAL),
    "clamp":        (REAL, (-1.0, 0.0), (0.1, 1.2)),
    "smoothstep":   ((-1.0, 0.0), (0.5, 1.2), REAL),
    # vectors
    **dict.fromkeys(("dot", "cross", "outerProduct", "mul", "reflect", "distance"),    (REAL, REAL)),
    **dict.fromkeys(("length", "normalize"),                                           (REAL,)),
    "faceforward":  (REAL, REAL, REAL),
    "refract":      (INNER, INNER, (0.3, 0.9)),
    # matrices
    **dict.fromkeys(("transpose", "trace", "determinant", "inverse"),                  (INNER,)),
}
# fmt: on

SPECIAL = frozenset(
    {"diffPair", "detach", "makeTuple", "concat", "unused", "unmodified", "lit"}
)  # with tests of their own

# fmt: off
NOT_DIFFERENTIABLE = frozenset((
    "InterlockedAdd", "InterlockedAddF16Emulated", "InterlockedAddF16x2", "InterlockedAnd",
    "InterlockedCompareExchange", "InterlockedCompareExchangeFloatBitwise", "InterlockedCompareStore",
    "InterlockedCompareStoreFloatBitwise", "InterlockedExchange", "InterlockedMax", "InterlockedMin",
    "InterlockedOr", "InterlockedXor", "WaveActiveAllEqual", "WaveActiveAllTrue", "WaveActiveAnyTrue",
    "WaveActiveBallot", "WaveActiveBitAnd", "WaveActiveBitOr", "WaveActiveBitXor", "WaveActiveCountBits",
    "WaveActiveMax", "WaveActiveMin", "WaveActiveProduct", "WaveActiveSum", "WaveBroadcastLaneAt",
    "WaveGetActiveMask", "WaveGetConvergedMask", "WaveGetLaneCount", "WaveGetLaneEqMask",
    "WaveGetLaneGeMask", "WaveGetLaneGtMask", "WaveGetLaneIndex", "WaveGetLaneLeMask", "WaveGetLaneLtMask",
    "WaveIsFirstLane", "WaveMatch", "WaveMultiPrefixBitAnd", "WaveMultiPrefixBitOr",
    "WaveMultiPrefixBitXor", "WaveMultiPrefixCountBits", "WaveMultiPrefixProduct", "WaveMultiPrefixSum",
    "WavePrefixCountBits", "WavePrefixProduct", "WavePrefixSum", "WaveReadLaneAt", "WaveReadLaneFirst",
    "WaveClusteredRotate", "WaveRotate", "WaveShuffle", "all", "and", "any", "asdouble", "asfloat", "asfloat16", "asint", "asint16",
    "asuint", "asuint16", "bit_cast", "bitfieldExtract", "bitfieldInsert", "countbits", "dot2add",
    "dot4add_i8packed", "dot4add_u8packed", "f16tof32", "f32tof16", "getStringHash", "f32tof16_", "firstbithigh", "firstbitlow",
    "isfinite", "isinf", "isnan", "loadCoherent", "storeCoherent", "makeArrayFromElement", "nextafter", "or", "packHalf2x16",
    "packSnorm2x16", "packSnorm4x8", "packUnorm2x16", "packUnorm4x8", "pack_clamp_s8", "pack_clamp_u8",
    "pack_s8", "pack_u8", "pcg_hash", "philox", "printf", "random_float", "random_normal", "reinterpret",
    "reversebits", "sign", "unpackHalf2x16ToFloat", "unpackSnorm2x16ToFloat", "unpackSnorm4x8ToFloat",
    "unpackHalf2x16ToHalf", "unpackSnorm2x16ToHalf", "unpackSnorm4x8ToHalf", "unpackUnorm2x16ToHalf",
    "unpackUnorm4x8ToHalf", "unpackUnorm2x16ToFloat", "unpackUnorm4x8ToFloat", "unpack_s8s16", "unpack_s8s32", "unpack_u8u16",
    "unpack_u8u32", "updateDiff", "updatePair", "updatePrimal", "wang_hash",
    "CheckAccessFullyMapped", "NonUniformResourceIndex", "workgroupUniformLoad", "operator*", "cudaThreadIdx", "cudaBlockIdx", "cudaBlockDim",
    "AllMemoryBarrier", "AllMemoryBarrierWithGroupSync", "DeviceMemoryBarrier",
    "DeviceMemoryBarrierWithGroupSync", "GroupMemoryBarrier", "GroupMemoryBarrierWithGroupSync",
    "createDynamicObject", "operator!=", "operator<", "operator<=", "operator==", "operator>", "operator>=",
    "AllMemoryBarrierWithWaveMaskSync", "AllMemoryBarrierWithWaveSync", "GroupMemoryBarrierWithWaveMaskSync",
    "GroupMemoryBarrierWithWaveSync", "QuadAll", "QuadAny", "QuadReadAcrossDiagonal", "QuadReadAcrossX",
    "QuadReadAcrossY", "QuadReadLaneAt", "WaveGetActiveMulti", "WaveGetConvergedMulti", "WaveGetNumWaves",
    "WaveGetWaveIndex", "WaveMaskAllEqual", "WaveMaskAllTrue", "WaveMaskAnyTrue", "WaveMaskBallot",
    "WaveMaskBitAnd", "WaveMaskBitOr", "WaveMaskBitXor", "WaveMaskBroadcastLaneAt", "WaveMaskCountBits",
    "WaveMaskIsFirstLane", "WaveMaskMatch", "WaveMaskMax", "WaveMaskMin", "WaveMaskPrefixBitAnd",
    "WaveMaskPrefixBitOr", "WaveMaskPrefixBitXor", "WaveMaskPrefixCountBits", "WaveMaskPrefixMax",
    "WaveMaskPrefixMin", "WaveMaskPrefixProduct", "WaveMaskPrefixSum", "WaveMaskProduct",
    "WaveMaskReadLaneAt", "WaveMaskReadLaneFirst", "WaveMaskShuffle", "WaveMaskSum", "WaveMultiBitAnd",
    "WaveMultiBitOr", "WaveMultiBitXor", "WaveMultiMax", "WaveMultiMin", "WaveMultiPrefixExclusiveBitAnd",
    "WaveMultiPrefixExclusiveBitOr", "WaveMultiPrefixExclusiveBitXor", "WaveMultiPrefixExclusiveMax",
    "WaveMultiPrefixExclusiveMin", "WaveMultiPrefixExclusiveProduct", "WaveMultiPrefixExclusiveSum",
    "WaveMultiPrefixInclusiveBitAnd", "WaveMultiPrefixInclusiveBitOr", "WaveMultiPrefixInclusiveBitXor",
    "WaveMultiPrefixInclusiveMax", "WaveMultiPrefixInclusiveMin", "WaveMultiPrefixInclusiveProduct",
    "WaveMultiPrefixInclusiveSum", "WaveMultiProduct", "WaveMultiSum", "WavePrefixBitAnd", "WavePrefixBitOr",
    "WavePrefixBitXor", "WavePrefixMax", "WavePrefixMin",
))
# fmt: on

ELEMENTWISE = re.compile(r"void|(T|vector<(T|bool|int), N>|matrix<(T|bool|int), R, C>|bool|int)")
SMALL = {"N": "2", "R": "1", "C": "2"}
WIDE = {"N": "3", "R": "2", "C": "4"}  # of functions that mix components


@cache
def library() -> CheckedProgram:
    program = CheckedProgram()
    program.add_source("parts", "// WaveMask: sets of lanes are read for texts that speak of them")
    return program


def modules() -> list[ast.ModuleDeclaration]:
    own = library().modules["parts"].files
    return [each for each in library().scopes if isinstance(each, ast.ModuleDeclaration) and each not in own]


def functions() -> Iterator[FunctionView]:
    """Those that users see."""
    for module in modules():
        for each in module.members:
            if isinstance(each, ast.FunctionDeclaration) and not each.name.startswith("__"):
                yield FunctionView(library(), Candidate(each, {}))


def overloads(name: str) -> list[FunctionView]:
    """The differentiable overloads that take floating-point numbers."""
    return [
        each
        for each in functions()
        if each.name == name and each.info.level != "none" and _takes_floats(each)
    ]


def _takes_floats(function: FunctionView) -> bool:
    parameters = [each for each in function.declaration.generics if isinstance(each, ast.TypeParameter)]
    bounds = {
        each.name for parameter in parameters for each in parameter.bounds if isinstance(each, ast.Name)
    }
    return not bounds & {"__BuiltinIntegerType", "__BuiltinLogicalType"}


def is_of_scalars(function: FunctionView) -> bool:
    return all("<" not in str(each.type) for each in function.parameters)


# --- Types as text: the leaves of each -----------------------------------------------------------------


def concrete(function: FunctionView, kind: str) -> list[tuple[str, str]]:
    """(direction, type) of the parameters, then ("result", type), generic parameters filled in."""
    signature = [(each.direction, str(each.type)) for each in function.parameters]
    signature.append(("result", str(function.result)))
    sizes = SMALL if all(ELEMENTWISE.fullmatch(t) for _, t in signature) else WIDE
    return [(direction, _filled(t, {"T": kind, **sizes})) for direction, t in signature]


def _filled(t: str, values: dict[str, str]) -> str:
    return re.sub(r"\b[TNRC]\b", lambda found: values[found[0]], t)


def leaves(t: str) -> list[str]:
    """The ways to the components: ["[0][0]", "[0][1]"] of matrix<double, 1, 2>."""
    sizes = [int(each) for each in re.findall(r"\b\d+\b", t)]
    return ["".join(f"[{i}]" for i in way) for way in product(*(range(size) for size in sizes))]


def _is_diagonal(t: str, way: str) -> bool:
    """In square matrices, which have inverses that way."""
    found = re.fullmatch(r"matrix<\w+, (\d), \1>", t)
    return found is not None and way[1] == way[4]


def element(t: str) -> str:
    found = re.fullmatch(r"(?:vector|matrix)<(\w+), .*>|(\w+)", t)
    assert found, t
    return found[1] or found[2]


# --- Programs ------------------------------------------------------------------------------------------


class Text:
    """One function `f` over an array of numbers that calls each overload once, and the domain of each number."""

    def __init__(self, name: str, kind: str) -> None:
        self.kind = kind
        self.domains: list[Interval] = []
        self.scalars: list[int] = []  # which of the numbers are parameters of an overload of scalars
        self.lines: list[str] = []
        for function in overloads(name):
            self._call(function, iter(ROWS[name]))

    def _call(self, function: FunctionView, domains: Iterator[Interval]) -> None:
        first, arguments, outputs = len(self.domains), [], []
        for direction, t in concrete(function, self.kind):
            if direction == "in":
                arguments.append(self._argument(t, domains))
            else:
                outputs.append((f"r{len(self.lines)}_{len(outputs)}", t))
        if is_of_scalars(function) and not self.scalars:
            self.scalars = list(range(first, len(self.domains)))
        declared = [f"{t} {name};" for name, t in outputs if t != "void"]
        assigned = "" if outputs[-1][1] == "void" else f"{outputs[-1][0]} = "
        call = f"{assigned}{function.name}({', '.join([*arguments, *(name for name, _ in outputs[:-1])])});"
        self.lines.append(" ".join([*declared, call, *self._sums(outputs)]))

    def _argument(self, t: str, domains: Iterator[Interval]) -> str:
        if element(t) == "int":
            return f"{t}({', '.join('3' for _ in leaves(t))})"
        domain, numbers = next(domains), []
        for way in leaves(t):
            numbers.append(f"a[{len(self.domains)}]" + (" > 0.5" if element(t) == "bool" else ""))
            self.domains.append(DIAGONAL if _is_diagonal(t, way) else domain)
        return f"{t}({', '.join(numbers)})"

    def _sums(self, outputs: list[tuple[str, str]]) -> Iterator[str]:
        """Each leaf of the results has a weight of its own, which is its cotangent."""
        for name, t in outputs:
            for i, way in enumerate(leaves(t)):
                if element(t) == self.kind:
                    yield f"s += {self.kind}({0.5 + 0.25 * i}) * {name}{way};"

    def __str__(self) -> str:
        body, size, t = "\n    ".join(self.lines), len(self.domains), self.kind
        return f"""
[Differentiable] {t} f({t} a[{size}])
{{
    {t} s = {t}(0);
    {body}
    return s;
}}

[Differentiable] {t}[{size}] gradient({t} a[{size}])
{{
    var pair = diffPair(a);
    bwd_diff(f)(pair, {t}(1));
    return pair.d;
}}

void run({t} a[{size}], {t} v[{size}], out {t} y, out {t} g[{size}], out {t} dy, out {t} dg[{size}])
{{
    y = f(a);
    g = gradient(a);
    dy = fwd_diff(f)(diffPair(a, v)).d;
    dg = fwd_diff(gradient)(diffPair(a, v)).d;
}}
"""


# --- Methods -------------------------------------------------------------------------------------------

# With tests in test_methods.py; `get` and `set` are those of `[]`, too.
# fmt: off
METHODS = frozenset((
    "toFloat", "scale", "getPrimal", "getDifferential", "operator()",
    "load", "load_once", "load_uniform", "store", "get", "getv", "set", "setv", "sample",
    "loadOnce", "storeOnce",  # of views: tests/calls/test_tensor_views.py
    "add",  # of tensors made of tensors: tests/pytorch/test_autograd.py
))
# fmt: on


def _functions_of(owner: ast.Declaration) -> Iterator[ast.Declaration]:
    """Its functions and accessors, whose bodies are not looked into."""
    for each in children(owner):
        if isinstance(each, (ast.FunctionDeclaration, ast.Accessor)):
            yield each
        elif isinstance(each, ast.Declaration):
            yield from _functions_of(each)


def methods() -> set[str]:
    """The names of differentiable methods and accessors that users see."""
    types = (
        each
        for module in modules()
        for each in module.members
        if not isinstance(each, ast.FunctionDeclaration)
    )
    found = (node for each in types for node in _functions_of(each))
    names = {each.name for each in found if library().info(each).level != "none"}
    return {each for each in names if not each.startswith("_")}
