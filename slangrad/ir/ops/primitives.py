# ruff: noqa: E501  (a table)
"""THE TABLE: the type rule, effect, meaning, derivative and cost of each op that is not control flow.

    row("mul", SAME, lambda t, x, y: x * y, lambda x, y, r: (y, x), 1)

`primal` computes on plain Python numbers (folding and the oracle; `numbers.py` wraps the result to its type,
so an int may overflow here and a float has more digits). It gets the operands' scalar type first. `partials`
gives d result / d operand, one each, as formulas (see `formula.py`); plain numbers 0 and 1 cost nothing.
Both modes of differentiation, the gradient tests and constant folding read these rows. Vectors and matrices
use them componentwise. Movement and memory ops have no primal here: they have no arithmetic, and their
transposes are rows of `autodiff/sweeps/transposes.py`. Ops that only targets make are rows of `target_ops.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.data import numbers as n
from slangrad.ir.ops import formula as f

# Type rules; `type_rules.py` applies them.
SAME = "all operands and the result have one type"
COMPARE = "operands have one type; the result is bool of that shape"
SELECT = "bool (scalar or of the shape), then two operands of one type, which is the result's"
SHIFT = "the operands and the result have one integer type"
GIVEN = "the result's type is stated where the op is made"
COMPONENT = "get: the type of component `index`"
FIRST = "the type of the first operand"
ELEMENT = "the element type of the first operand"
POINTEE = "what the first operand points to"
MEMBER = "pointer to component `index` of what the first operand points to"
TRUTH = "bool"
NOTHING = "no result"

# Where the derivative of an op is defined.
CONSTANT = "the derivative is zero"
NOT_DIFFERENTIABLE = "no operand or result that could carry a derivative"
LINEAR = "moves values: the tangent is the same op on tangents; transposed in autodiff/sweeps/transposes.py"

# Effects besides computing results; only pure ops move, merge or vanish.
PURE, READ, WRITE = "pure", "read", "write"

Primal = Callable[..., n.Number]
Partials = Callable[..., tuple[f.Partial, ...]]


@dataclass(frozen=True, slots=True)
class Primitive:
    name: str
    rule: str
    primal: Primal | None
    partials: Partials | str
    cost: int  # of recomputing it, in simple instructions; a load from a tape costs 4
    effect: str = PURE
    kinds: str = "bsuf"  # operand scalars it takes: bool, signed, unsigned, float; "*" for anything
    says: str = (
        ""  # its attributes; those with a "?" may be absent. Their types are those of `Attributes` in core.py
    )


PRIMITIVES: dict[str, Primitive] = {}


def row(
    name: str,
    rule: str,
    primal: Primal | None,
    partials: Partials | str,
    cost: int,
    effect: str = PURE,
    kinds: str = "bsuf",
    says: str = "",
) -> None:
    assert name not in PRIMITIVES and (
        callable(partials) or partials in (CONSTANT, NOT_DIFFERENTIABLE, LINEAR)
    )
    PRIMITIVES[name] = Primitive(name, rule, primal, partials, cost, effect, kinds, says)


LN2, LN10 = math.log(2.0), math.log(10.0)
HUGE = 2.0**30  # its square is a float still, and 1 is nothing beside it in any type
ERF_SLOPE = 2.0 / math.sqrt(math.pi)  # of erf at 0

# fmt: off
# --- arithmetic. Integers wrap; x / 0 = x % 0 = 0, MIN / -1 = MIN, MIN % -1 = 0; float `rem` is C's fmod.
row("add",           SAME,    lambda t, x, y: x + y,       lambda x, y, r: (1, 1),                      1, kinds="suf")
row("sub",           SAME,    lambda t, x, y: x - y,       lambda x, y, r: (1, -1),                     1, kinds="suf")
row("mul",           SAME,    lambda t, x, y: x * y,       lambda x, y, r: (y, x),                      1, kinds="suf")
row("div",           SAME,    n.divide,                    lambda x, y, r: (1 / y, -r / y),             8, kinds="suf")
row("rem",           SAME,    n.remainder,                 lambda x, y, r: (1, -f.round((x - r) / y)),       12, kinds="suf")
row("neg",           SAME,    lambda t, x: -x,             lambda x, r: (-1,),                          1, kinds="suf")
row("fma",           SAME,    n.fused_multiply_add,        lambda x, y, z, r: (y, x, 1),                1, kinds="f")
# Zero where an operand is, be the other infinite or NaN: a derivative that a mask took away stays away. With
# `masks_only` that matters only where a mask may have made the zero. opt/simplify/products.py makes it `mul` and
# what else it takes.
row("scale",         SAME,    n.scale,                     lambda x, y, r: (y, x),                      1, kinds="f", says="masks_only?")
# min and max: a NaN loses against a number; min(x, y) is x if x < y, else y. At a tie the derivative splits in
# half, as in Slang.
row("min",           SAME,    n.minimum,                   f.taken,                                    1, kinds="suf")
row("max",           SAME,    n.maximum,                   f.taken,                                    1, kinds="suf")
row("abs",           SAME,    lambda t, x: abs(x),         lambda x, r: (f.sign(x),),                   1, kinds="sf")
# --- rounding. `round` takes ties to even.
row("floor",         SAME,    n.to_integral(math.floor),   CONSTANT,                                    1, kinds="f")
row("ceil",          SAME,    n.to_integral(math.ceil),    CONSTANT,                                    1, kinds="f")
row("round",         SAME,    n.to_integral(round),        CONSTANT,                                    1, kinds="f")
row("trunc",         SAME,    n.to_integral(math.trunc),   CONSTANT,                                    1, kinds="f")
# --- maths; derivatives at edges are a table of docs/gradients.md. Below the smallest normal number that of sqrt is
# cut off.
row("sqrt",          SAME,    n.real(math.sqrt),           lambda x, r: (0.5 / f.where(r < n.least_root, n.least_root, r),), 8, kinds="f")
row("exp",           SAME,    n.real(math.exp),            lambda x, r: (r,),                          16, kinds="f")
row("exp2",          SAME,    n.real(math.exp2),           lambda x, r: (r * LN2,),                    16, kinds="f")
row("log",           SAME,    n.logarithm(math.log),       lambda x, r: (1 / x,),                      16, kinds="f")
row("log2",          SAME,    n.logarithm(math.log2),      lambda x, r: (1 / LN2 / x,),                16, kinds="f")
row("log10",         SAME,    n.logarithm(math.log10),     lambda x, r: (1 / LN10 / x,),               16, kinds="f")
row("pow",           SAME,    n.power,                     f.slopes_of_pow,                           40, kinds="f")
row("sin",           SAME,    n.real(math.sin),            lambda x, r: (f.cos(x),),                   16, kinds="f")
row("cos",           SAME,    n.real(math.cos),            lambda x, r: (-f.sin(x),),                  16, kinds="f")
row("tan",           SAME,    n.real(math.tan),            lambda x, r: (1 + r * r,),                  24, kinds="f")
row("asin",          SAME,    n.real(math.asin),           lambda x, r: (1 / f.sqrt((1 - x) * (x + 1)),), 24, kinds="f")
row("acos",          SAME,    n.real(math.acos),           lambda x, r: (-1 / f.sqrt((1 - x) * (x + 1)),), 24, kinds="f")
row("atan",          SAME,    n.real(math.atan),           lambda x, r: (1 / (1 + x * x),),            24, kinds="f")
row("atan2",         SAME,    n.real(math.atan2),          lambda y, x, r: f.by_angle(y, x),          30, kinds="f")
row("sinh",          SAME,    n.real(math.sinh),           lambda x, r: (f.cosh(x),),                  24, kinds="f")
row("cosh",          SAME,    n.real(math.cosh),           lambda x, r: (f.sinh(x),),                  24, kinds="f")
row("tanh",          SAME,    n.real(math.tanh),           lambda x, r: (f.slope_of_tanh(x),),         24, kinds="f")
row("asinh",         SAME,    n.real(math.asinh),          lambda x, r: (1 / f.where(f.abs(x) < HUGE, f.sqrt(x * x + 1), f.abs(x)),), 24, kinds="f")
row("acosh",         SAME,    n.real(math.acosh),          lambda x, r: (1 / f.where(x < HUGE, f.sqrt((x - 1) * (x + 1)), x),), 24, kinds="f")
row("atanh",         SAME,    n.inverse_tanh,              lambda x, r: (1 / ((1 - x) * (x + 1)),),    24, kinds="f")
row("expm1",         SAME,    n.real(math.expm1),          lambda x, r: (f.exp(x),),                  20, kinds="f")
row("log1p",         SAME,    n.logarithm_of_sum,          lambda x, r: (1 / (1 + x),),               20, kinds="f")
row("erf",           SAME,    n.real(math.erf),            lambda x, r: (f.bell(x) * ERF_SLOPE,),     24, kinds="f")
row("erfc",          SAME,    n.real(math.erfc),           lambda x, r: (f.bell(x) * -ERF_SLOPE,),    30, kinds="f")
row("sinpi",         SAME,    n.sine_of_half_turns,        lambda x, r: (f.cospi(x) * math.pi,),      20, kinds="f")
row("cospi",         SAME,    n.cosine_of_half_turns,      lambda x, r: (f.sinpi(x) * -math.pi,),     20, kinds="f")
row("tanpi",         SAME,    n.tangent_of_half_turns,     lambda x, r: ((1 + r * r) * math.pi,),     24, kinds="f")
# --- comparison: false when an operand is NaN, but for not_equal.
row("less",          COMPARE, lambda t, x, y: x < y,       NOT_DIFFERENTIABLE,                          1, kinds="suf")
row("less_equal",    COMPARE, lambda t, x, y: x <= y,      NOT_DIFFERENTIABLE,                          1, kinds="suf")
row("equal",         COMPARE, lambda t, x, y: x == y,      NOT_DIFFERENTIABLE,                          1)
row("not_equal",     COMPARE, lambda t, x, y: x != y,      NOT_DIFFERENTIABLE,                          1)
# --- logic and bits. Shift counts are taken modulo the width; `shr` of a signed number keeps its sign.
row("and",           SAME,    lambda t, x, y: x & y,       NOT_DIFFERENTIABLE,                          1, kinds="bsu")
row("or",            SAME,    lambda t, x, y: x | y,       NOT_DIFFERENTIABLE,                          1, kinds="bsu")
row("xor",           SAME,    lambda t, x, y: x ^ y,       NOT_DIFFERENTIABLE,                          1, kinds="bsu")
row("not",           SAME,    n.invert,                    NOT_DIFFERENTIABLE,                          1, kinds="bsu")
row("shl",           SHIFT,   lambda t, x, y: x << y % t.bits, NOT_DIFFERENTIABLE,                      1, kinds="su")
row("shr",           SHIFT,   lambda t, x, y: x >> y % t.bits, NOT_DIFFERENTIABLE,                      1, kinds="su")
row("popcount",      SAME,    n.population,                NOT_DIFFERENTIABLE,                          2, kinds="su")
row("leading_zeros", SAME,    n.leading_zeros,             NOT_DIFFERENTIABLE,                          2, kinds="su")
row("trailing_zeros", SAME,   n.trailing_zeros,            NOT_DIFFERENTIABLE,                          2, kinds="su")
row("reverse_bits",  SAME,    n.reverse_bits,              NOT_DIFFERENTIABLE,                          4, kinds="su")
# --- choice and conversion. `convert` saturates from float to integer (NaN gives 0); `bitcast` keeps the bits;
# pointers, too.
row("select",        SELECT,  None,                        LINEAR,                                      1, kinds="*", says="stored?")
row("convert",       GIVEN,   None,                        LINEAR,                                      1)
row("bitcast",       GIVEN,   None,                        CONSTANT,                                    1, kinds="*")
row("detach",        SAME,    None,                        CONSTANT,                                    0, kinds="*")
# --- constants: `const` is a scalar (splatted when the type is a vector or matrix); `zero` is any type's. In an
# array `zero{written_first}` and its versions no element is read before it is written, so its memory need not be
# cleared.
row("const",         GIVEN,   None,                        CONSTANT,                                    0, kinds="*", says="value")
row("zero",          GIVEN,   None,                        CONSTANT,                                    0, kinds="*", says="written_first?")
# --- movement: aggregates are values. index, set_index and add_index are total: out of range they read zero and
# drop the write. With the attribute `check` they also report it at run time.
row("make",          GIVEN,   None,                        LINEAR,                                      0, kinds="*")
row("get",           COMPONENT, None,                      LINEAR,                                      0, kinds="*", says="index")
row("set",           FIRST,   None,                        LINEAR,                                      0, kinds="*", says="index")
row("splat",         GIVEN,   None,                        LINEAR,                                      0, kinds="*")
row("shuffle",       GIVEN,   None,                        LINEAR,                                      0, kinds="*", says="indices")
row("index",         ELEMENT, None,                        LINEAR,                                      4, kinds="*", says="check?")
row("set_index",     FIRST,   None,                        LINEAR,                                      8, kinds="*", says="check?")
row("add_index",     FIRST,   None,                        LINEAR,                                      8, kinds="*", says="check?")
# --- memory. A load's derivative is zero: accessors that carry one have a custom derivative in std. `load`, `store`
# and `atomic` of the library are `trusted`: where they follow its own pointers (Program.trusted), a check of bounds
# stands before. `alloc{count, zero}` is memory of the thread for `count` elements, anew each time it is executed;
# undefined unless `zero`.
row("alloc",         GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, WRITE, kinds="*", says="count? zero? written_first?")
# `variable` is memory of the thread for one value. It is the same memory in each execution of the op with the same
# operand, which is the depth of recursion. Other threads may get its address, but must not use it when the thread
# is done.
row("variable",      GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, WRITE, kinds="*", says="no_diff? count?")
row("offset",        FIRST,   None,                        NOT_DIFFERENTIABLE,                          1, kinds="*")
row("member",        MEMBER,  None,                        NOT_DIFFERENTIABLE,                          0, kinds="*", says="index")
row("load",          GIVEN,   None,                        CONSTANT,                                    4, READ, kinds="*", says="trusted?")
row("store",         NOTHING, None,                        CONSTANT,                                    4, WRITE, kinds="*", says="trusted?")
# `read_static{name}` and `write_static{name} %v`: a variable of the thread that lives as long as it. No derivative
# passes through it.
row("read_static",   GIVEN,   None,                        CONSTANT,                                    4, READ, kinds="*", says="name")
row("write_static",  NOTHING, None,                        CONSTANT,                                    4, WRITE, kinds="*", says="name")
# `atomic{kind} %p, %value` gives what was there before; compare_exchange takes the expected value before the new one.
# With `alone`, no other thread of the machine reaches the address at the time.
row("atomic",        GIVEN,   None,                        CONSTANT,                                   20, WRITE, kinds="*", says="kind alone? own? table? trusted? uniform?")
# --- tapes after flattening: a growable array of scalars or pointers behind a handle `ptr<T, tape>`. An element is
# zero until it is written; elements of a `tape_new{written_first}` are never read before. Handle 0 reads zero
# everywhere and is never written. Written indices are not negative. Memory is freed by `tape_free` or when the
# thread is done.
row("tape_new",      GIVEN,   None,                        NOT_DIFFERENTIABLE,                          4, WRITE, kinds="*", says="written_first?")
row("tape_copy",     FIRST,   None,                        NOT_DIFFERENTIABLE,                        100, WRITE, kinds="*")
row("tape_free",     NOTHING, None,                        NOT_DIFFERENTIABLE,                          4, WRITE, kinds="*")
row("tape_store",    NOTHING, None,                        NOT_DIFFERENTIABLE,                          8, WRITE, kinds="*")
row("tape_add",      NOTHING, None,                        NOT_DIFFERENTIABLE,                          8, WRITE, kinds="*")
row("tape_load",     POINTEE, None,                        NOT_DIFFERENTIABLE,                          4, READ, kinds="*")
# --- threads, the launch's parameters (`parameter{name}` is the address of one in the argument block), run-time
# reports
row("parameter",     GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, kinds="*", says="name")
row("thread_id",     GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, kinds="*", says="axis")
row("in_bounds",     TRUTH,   None,                        NOT_DIFFERENTIABLE,                          2, WRITE, kinds="su", says="text? site?")
# `is_memory{bytes} %p`: whether so many bytes behind an address are within memory that the host knows.
row("is_memory",     TRUTH,   None,                        NOT_DIFFERENTIABLE,                         50, READ, kinds="*", says="bytes")
row("print",         NOTHING, None,                        CONSTANT,                                   50, WRITE, kinds="*", says="format site?")
# --- groups: `shared{name}` is the address of memory that the threads of a group share, zero when the group begins.
# At a `barrier` threads wait for all of their group; a `fence` orders what one thread does to memory.
row("shared",        GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, kinds="*", says="name")
row("barrier",       NOTHING, None,                        NOT_DIFFERENTIABLE,                         50, WRITE, kinds="*")
row("fence",         NOTHING, None,                        NOT_DIFFERENTIABLE,                         20, WRITE, kinds="*")
# --- waves: what the lanes that are on at this place tell each other. WRITE, as the place decides who is on: they stay
# where they are. `wave_reduce{kind}` combines lanes as `lane_reduce` does, lanes that are off adding nothing;
# `wave_scan{kind}` those before this one, in order. `wave_ballot` has a bit for each lane. `wave_read %x, %lane`
# gives a lane's value, zero when it is off. `wave_lane` is the lane's number.
row("wave_reduce",   FIRST,   None,                        CONSTANT,                                   10, WRITE, kinds="sufb", says="kind")
row("wave_scan",     FIRST,   None,                        CONSTANT,                                   50, WRITE, kinds="sufb", says="kind")
row("wave_ballot",   GIVEN,   None,                        NOT_DIFFERENTIABLE,                          2, WRITE, kinds="b")
row("wave_read",     FIRST,   None,                        CONSTANT,                                   10, WRITE, kinds="*")
row("wave_lane",     GIVEN,   None,                        NOT_DIFFERENTIABLE,                          0, kinds="*")
# fmt: on

# Maths whose primal is Python's, and the library's where it runs (flatten/math_functions.py): results may differ in
# the last bits, so constants of these are not folded.
INEXACT = frozenset({
    "exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "expm1", "log1p", "erf", "erfc", "sinpi", "cospi", "tanpi",
})  # fmt: skip

CONTROL = frozenset({"if", "for", "while", "call"})
REQUESTS = frozenset({"jvp", "vjp"})
CONTROL_SAYS = {
    "if": "arms?",
    "for": "reverse? unroll? max_trips? segmented? at_most?",
    "while": "unroll? max_trips? segmented? at_most?",
    "call": "callee effect?",
    **dict.fromkeys(REQUESTS, "callee"),
}
STATICS = frozenset({"read_static", "write_static"})
# Static variables that a kernel has before all others.
GROUP_SIZE = "group size"  # threads of a group in x, y and z
QUAD_ROW = "quad row"  # lanes from one row of a quad to the next
WAVES = frozenset({"wave_reduce", "wave_scan", "wave_ballot", "wave_read", "wave_lane"})
WAVE_KINDS = dict.fromkeys(("wave_reduce", "wave_scan"), ("add", "mul", "min", "max", "and", "or", "xor"))
ATOMIC_KINDS = ("add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange")
