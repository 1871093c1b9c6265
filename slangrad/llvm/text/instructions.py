"""THE SECOND TABLE: each primitive as LLVM instructions, for each kind of scalar.

    row("add", "su", "%r = add {T} %x, %y")

`T` is the type of the operands; writer.py explains templates. Kinds are b(ool), s(igned), u(nsigned),
f(loat and double), h(alf). A half without its own row is computed as float and rounded. For + - * / and sqrt that
is the correctly rounded half, which machines with HALF_ARITHMETIC compute directly. The same text serves a scalar
and W lanes, x86 and Arm.
"""

from __future__ import annotations

CPU: dict[tuple[str, str], str] = {}
HALF_ARITHMETIC = frozenset(
    ("add", "sub", "mul", "div", "sqrt", "min", "max", "less", "less_equal", "equal", "not_equal")
)


def row(name: str, kinds: str, template: str) -> None:
    for kind in kinds:
        assert (name, kind) not in CPU
        CPU[name, kind] = template


# --- arithmetic
row("add", "su", "%r = add {T} %x, %y")
row("add", "f", "%r = fadd{contract} {T} %x, %y")
row("sub", "su", "%r = sub {T} %x, %y")
row("sub", "f", "%r = fsub{contract} {T} %x, %y")
row("mul", "su", "%r = mul {T} %x, %y")
row("mul", "f", "%r = fmul{contract} {T} %x, %y")
row("div", "f", "%r = fdiv{approximate} {T} %x, %y")
row("neg", "su", "%r = sub {T} [T 0], %x")
row("neg", "f", "%r = fneg {T} %x")
row(
    "neg",
    "h",
    "%b = bitcast {T} %x to {i16} \n %n = xor {i16} %b, [i16 -32768] \n %r = bitcast {i16} %n to {T}",
)

# x / 0 is 0, MIN / -1 is MIN: operands that would trap are divided by one.
_SAFE_SIGNED = """
    %zero = icmp eq {T} %y, [T 0]
    %minus = icmp eq {T} %y, [T -1]
    %least = icmp eq {T} %x, [T LEAST]
    %overflow = and {i1} %minus, %least
    %unsafe = or {i1} %zero, %overflow
    %safe = select {i1} %unsafe, {T} [T 1], {T} %y
"""
_SAFE_UNSIGNED = """
    %zero = icmp eq {T} %y, [T 0]
    %safe = select {i1} %zero, {T} [T 1], {T} %y
"""
row("div", "s", _SAFE_SIGNED + "%q = sdiv {T} %x, %safe \n %r = select {i1} %zero, {T} [T 0], {T} %q")
row("div", "u", _SAFE_UNSIGNED + "%q = udiv {T} %x, %safe \n %r = select {i1} %zero, {T} [T 0], {T} %q")
row("rem", "s", _SAFE_SIGNED + "%r = srem {T} %x, %safe")
row("rem", "u", _SAFE_UNSIGNED + "%r = urem {T} %x, %safe")

# Lanes of at most 32 bits, which no machine divides: as floats that are wide enough for the quotient to be
# exact.
LANES: dict[tuple[str, str], str] = {}
for _kind, _safe, _to, _from in (("s", _SAFE_SIGNED, "si", "sitofp"), ("u", _SAFE_UNSIGNED, "ui", "uitofp")):
    _QUOTIENT = f"""{_safe}
        %xf = {_from} {{T}} %x to {{FLOAT}}
        %yf = {_from} {{T}} %safe to {{FLOAT}}
        %qf = fdiv {{FLOAT}} %xf, %yf
        %q = fpto{_to} {{FLOAT}} %qf to {{T}}
    """
    LANES["div", _kind] = _QUOTIENT + "%r = select {i1} %zero, {T} [T 0], {T} %q"
    LANES["rem", _kind] = _QUOTIENT + "%p = mul {T} %q, %safe \n %r = sub {T} %x, %p"

# A NaN loses against a number; at a tie the second operand is taken, as the table says.
row("min", "s", "%r = call {T} @llvm.smin.{T!}({T} %x, {T} %y)")
row("min", "u", "%r = call {T} @llvm.umin.{T!}({T} %x, {T} %y)")
row("max", "s", "%r = call {T} @llvm.smax.{T!}({T} %x, {T} %y)")
row("max", "u", "%r = call {T} @llvm.umax.{T!}({T} %x, {T} %y)")
_PREFER = """
    %less = fcmp olt {T} LOW, HIGH
    %chosen = select {i1} %less, {T} %x, {T} %y
    %number = fcmp ord {T} %y, [T 0.0]
    %r = select {i1} %number, {T} %chosen, {T} %x
"""
row("min", "f", _PREFER.replace("LOW", "%x").replace("HIGH", "%y"))
row("max", "f", _PREFER.replace("LOW", "%y").replace("HIGH", "%x"))
row("abs", "s", "%r = call {T} @llvm.abs.{T!}({T} %x, i1 false)")
row("abs", "f", "%r = call {T} @llvm.fabs.{T!}({T} %x)")
row(
    "abs",
    "h",
    "%b = bitcast {T} %x to {i16} \n %n = and {i16} %b, [i16 32767] \n %r = bitcast {i16} %n to {T}",
)

# --- rounding, roots
row("floor", "f", "%r = call {T} @llvm.floor.{T!}({T} %x)")
row("ceil", "f", "%r = call {T} @llvm.ceil.{T!}({T} %x)")
row("round", "f", "%r = call {T} @llvm.roundeven.{T!}({T} %x)")
row("trunc", "f", "%r = call {T} @llvm.trunc.{T!}({T} %x)")
row("sqrt", "f", "%r = call{approximate} {T} @llvm.sqrt.{T!}({T} %x)")

# --- comparison
row("less", "s", "%r = icmp slt {T} %x, %y")
row("less", "u", "%r = icmp ult {T} %x, %y")
row("less", "f", "%r = fcmp olt {T} %x, %y")
row("less_equal", "s", "%r = icmp sle {T} %x, %y")
row("less_equal", "u", "%r = icmp ule {T} %x, %y")
row("less_equal", "f", "%r = fcmp ole {T} %x, %y")
row("equal", "bsu", "%r = icmp eq {T} %x, %y")
row("equal", "f", "%r = fcmp oeq {T} %x, %y")
row("not_equal", "bsu", "%r = icmp ne {T} %x, %y")
row("not_equal", "f", "%r = fcmp une {T} %x, %y")

# --- logic and bits
row("and", "bsu", "%r = and {T} %x, %y")
row("or", "bsu", "%r = or {T} %x, %y")
row("xor", "bsu", "%r = xor {T} %x, %y")
row("not", "bsu", "%r = xor {T} %x, [T -1]")
row("shl", "su", "%count = and {T} %y, [T MASK] \n %r = shl {T} %x, %count")
row("shr", "s", "%count = and {T} %y, [T MASK] \n %r = ashr {T} %x, %count")
row("shr", "u", "%count = and {T} %y, [T MASK] \n %r = lshr {T} %x, %count")
row("popcount", "su", "%r = call {T} @llvm.ctpop.{T!}({T} %x)")
row("leading_zeros", "su", "%r = call {T} @llvm.ctlz.{T!}({T} %x, i1 false)")
row("trailing_zeros", "su", "%r = call {T} @llvm.cttz.{T!}({T} %x, i1 false)")
row("reverse_bits", "su", "%r = call {T} @llvm.bitreverse.{T!}({T} %x)")
