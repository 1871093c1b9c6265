"""Arithmetic that takes more than a template.

    rem of floats       x - y * trunc(x / y) in doubles where the quotient is small enough, else integers
    fma of floats       without the instruction: in doubles, rounded to odd before the last rounding
    fma of doubles      without the instruction: in integers of 128 bits

No function of a C library is called: not all loaders link one, and some of them round twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slangrad.ir.data.types import F16, F32, F64
from slangrad.llvm.text.conversions import convert, like
from slangrad.llvm.text.writer import Writer, phi

# |x| = m * 2^e for integers m < 2^53 and e >= -1074; `scale` is the way back, for what a double holds or
# exceeds.
_DECODE = """
define internal i64 @mantissa(double %x) nounwind {
  %bits = bitcast double %x to i64
  %fraction = and i64 %bits, 4503599627370495
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %normal = icmp ne i64 %exponent, 0
  %implicit = select i1 %normal, i64 4503599627370496, i64 0
  %m = or i64 %fraction, %implicit
  ret i64 %m
}
define internal i64 @exponent(double %x) nounwind {
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %biased = and i64 %shifted, 2047
  %exponent = call i64 @llvm.umax.i64(i64 %biased, i64 1)
  %e = sub i64 %exponent, 1075
  ret i64 %e
}
define internal double @scale(i64 %m, i64 %e) nounwind {
  %low = call i64 @llvm.smax.i64(i64 %e, i64 -2000)
  %limited = call i64 @llvm.smin.i64(i64 %low, i64 2000)
  %half = ashr i64 %limited, 1
  %rest = sub i64 %limited, %half
  %half_biased = add i64 %half, 1023
  %rest_biased = add i64 %rest, 1023
  %half_bits = shl i64 %half_biased, 52
  %rest_bits = shl i64 %rest_biased, 52
  %half_power = bitcast i64 %half_bits to double
  %rest_power = bitcast i64 %rest_bits to double
  %value = uitofp i64 %m to double
  %once = fmul double %value, %half_power
  %r = fmul double %once, %rest_power
  ret double %r
}
"""

# Long division, 11 bits at a time.
_REMAINDER = """
define internal double @remainder(double %x, double %y) nounwind {
  %ax = call double @llvm.fabs.f64(double %x)
  %ay = call double @llvm.fabs.f64(double %y)
  %zero = fcmp ueq double %ay, 0.0
  %infinite = fcmp ueq double %ax, 0x7FF0000000000000
  %none = or i1 %zero, %infinite
  br i1 %none, label %invalid, label %valid
invalid:
  ret double 0x7FF8000000000000
valid:
  %small = fcmp olt double %ax, %ay
  br i1 %small, label %whole, label %divide
whole:
  ret double %x
divide:
  %mx = call i64 @mantissa(double %ax)
  %my = call i64 @mantissa(double %ay)
  %ex = call i64 @exponent(double %ax)
  %ey = call i64 @exponent(double %ay)
  %distance = sub i64 %ex, %ey
  %first = urem i64 %mx, %my
  br label %loop
loop:
  %r = phi i64 [ %first, %divide ], [ %r_next, %step ]
  %n = phi i64 [ %distance, %divide ], [ %n_next, %step ]
  %more = icmp sgt i64 %n, 0
  br i1 %more, label %step, label %done
step:
  %count = call i64 @llvm.smin.i64(i64 %n, i64 11)
  %shifted = shl i64 %r, %count
  %r_next = urem i64 %shifted, %my
  %n_next = sub i64 %n, %count
  br label %loop
done:
  %magnitude = call double @scale(i64 %r, i64 %ey)
  %signed = call double @llvm.copysign.f64(double %magnitude, double %x)
  ret double %signed
}
"""

# Both terms with their highest bit at 125. The smaller one is shifted down, and its lost bits set the last bit.
_FMA = """
define internal double @fused(double %x, double %y, double %z) nounwind {
  %product = fmul double %x, %y
  %plain = fadd double %product, %z
  %ax = call double @llvm.fabs.f64(double %x)
  %ay = call double @llvm.fabs.f64(double %y)
  %az = call double @llvm.fabs.f64(double %z)
  %xf = fcmp olt double %ax, 0x7FF0000000000000
  %yf = fcmp olt double %ay, 0x7FF0000000000000
  %zf = fcmp olt double %az, 0x7FF0000000000000
  %xn = fcmp one double %x, 0.0
  %yn = fcmp one double %y, 0.0
  %f1 = and i1 %xf, %yf
  %f2 = and i1 %f1, %zf
  %n1 = and i1 %xn, %yn
  %ordinary = and i1 %f2, %n1
  br i1 %ordinary, label %finite, label %simple
simple:
  %z_only = xor i1 %f1, %f2
  %special = select i1 %z_only, double %z, double %plain
  ret double %special
finite:
  %z_is_zero = fcmp oeq double %z, 0.0
  br i1 %z_is_zero, label %multiply, label %exact
multiply:
  ret double %product
exact:
  %mx = call i64 @mantissa(double %x)
  %my = call i64 @mantissa(double %y)
  %mz = call i64 @mantissa(double %z)
  %ex = call i64 @exponent(double %x)
  %ey = call i64 @exponent(double %y)
  %ez = call i64 @exponent(double %z)
  %wx = zext i64 %mx to i128
  %wy = zext i64 %my to i128
  %wz = zext i64 %mz to i128
  %p = mul i128 %wx, %wy
  %ep = add i64 %ex, %ey
  %p_zeros = call i128 @llvm.ctlz.i128(i128 %p, i1 true)
  %z_zeros = call i128 @llvm.ctlz.i128(i128 %wz, i1 true)
  %p_shift = sub i128 %p_zeros, 2
  %z_shift = sub i128 %z_zeros, 2
  %p_top = shl i128 %p, %p_shift
  %z_top = shl i128 %wz, %z_shift
  %p_shift64 = trunc i128 %p_shift to i64
  %z_shift64 = trunc i128 %z_shift to i64
  %p_low = sub i64 %ep, %p_shift64
  %z_low = sub i64 %ez, %z_shift64
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %zb = bitcast double %z to i64
  %pb = xor i64 %xb, %yb
  %p_negative = icmp slt i64 %pb, 0
  %z_negative = icmp slt i64 %zb, 0
  %p_larger = icmp sge i64 %p_low, %z_low
  %a = select i1 %p_larger, i128 %p_top, i128 %z_top
  %b = select i1 %p_larger, i128 %z_top, i128 %p_top
  %e = select i1 %p_larger, i64 %p_low, i64 %z_low
  %e_small = select i1 %p_larger, i64 %z_low, i64 %p_low
  %a_negative = select i1 %p_larger, i1 %p_negative, i1 %z_negative
  %distance = sub i64 %e, %e_small
  %limited = call i64 @llvm.umin.i64(i64 %distance, i64 127)
  %shift = zext i64 %limited to i128
  %kept = lshr i128 %b, %shift
  %again = shl i128 %kept, %shift
  %lost = icmp ne i128 %again, %b
  %sticky = zext i1 %lost to i128
  %b_near = or i128 %kept, %sticky
  %opposite = xor i1 %p_negative, %z_negative
  %b_minus = sub i128 0, %b_near
  %b_signed = select i1 %opposite, i128 %b_minus, i128 %b_near
  %sum = add i128 %a, %b_signed
  %is_zero = icmp eq i128 %sum, 0
  br i1 %is_zero, label %zero, label %round
zero:
  ret double 0.0
round:
  %turned = icmp slt i128 %sum, 0
  %minus_sum = sub i128 0, %sum
  %s = select i1 %turned, i128 %minus_sum, i128 %sum
  %negative = xor i1 %turned, %a_negative
  %s_zeros = call i128 @llvm.ctlz.i128(i128 %s, i1 true)
  %s_zeros64 = trunc i128 %s_zeros to i64
  %extra = sub i64 75, %s_zeros64
  %to_least = sub i64 -1074, %e
  %drop = call i64 @llvm.smax.i64(i64 %extra, i64 %to_least)
  %drops = icmp sgt i64 %drop, 0
  br i1 %drops, label %cut, label %short
short:
  %s_short = trunc i128 %s to i64
  %short_value = call double @scale(i64 %s_short, i64 %e)
  %short_minus = fneg double %short_value
  %short_signed = select i1 %negative, double %short_minus, double %short_value
  ret double %short_signed
cut:
  %drop_limited = call i64 @llvm.smin.i64(i64 %drop, i64 127)
  %drop128 = zext i64 %drop_limited to i128
  %q128 = lshr i128 %s, %drop128
  %q_again = shl i128 %q128, %drop128
  %rest = sub i128 %s, %q_again
  %before = sub i128 %drop128, 1
  %half = shl i128 1, %before
  %q = trunc i128 %q128 to i64
  %more = icmp ugt i128 %rest, %half
  %tie = icmp eq i128 %rest, %half
  %last = trunc i64 %q to i1
  %tie_up = and i1 %tie, %last
  %nearest = or i1 %more, %tie_up
  %reaches = icmp sle i64 %drop, 127
  %up = and i1 %nearest, %reaches
  %one = zext i1 %up to i64
  %rounded = add i64 %q, %one
  %e_result = add i64 %e, %drop
  %value = call double @scale(i64 %rounded, i64 %e_result)
  %minus = fneg double %value
  %signed = select i1 %negative, double %minus, double %value
  ret double %signed
}
"""

_FUNCTIONS = {"remainder": _DECODE + _REMAINDER, "fused": _DECODE + _FMA}

# All in doubles that hold floats: products of 29 and 24 bits are exact, and so are the differences.
_SMALL_REMAINDER = """
    %whole = call {T} @llvm.trunc.{T!}({T} %q)
    %product = fmul {T} %whole, %y
    %rest = fsub {T} %x, %product
    %sign = fmul {T} %rest, %x
    %beyond = fcmp olt {T} %sign, [T 0.0]
    %back = call {T} @llvm.copysign.{T!}({T} %y, {T} %x)
    %fixed = fadd {T} %rest, %back
    %near = select {i1} %beyond, {T} %fixed, {T} %rest
    %signed = call {T} @llvm.copysign.{T!}({T} %near, {T} %x)
    %size = call {T} @llvm.fabs.{T!}({T} %y)
    %unlimited = fcmp oeq {T} %size, [T 0x7FF0000000000000]
    %r = select {i1} %unlimited, {T} %x, {T} %signed
"""
_IS_SMALL = """
    %size = call {T} @llvm.fabs.{T!}({T} %q)
    %r = fcmp olt {T} %size, [T 0x41C0000000000000]
"""

# The error of the sum decides to which side the last bit leans.
_FLOAT_FMA = """
    %product = fmul {T} %x, %y
    %sum = fadd {T} %product, %z
    %z_part = fsub {T} %sum, %product
    %p_part = fsub {T} %sum, %z_part
    %p_error = fsub {T} %product, %p_part
    %z_error = fsub {T} %z, %z_part
    %error = fadd {T} %p_error, %z_error
    %bits = bitcast {T} %sum to {i64}
    %last = and {i64} %bits, [i64 1]
    %even = icmp eq {i64} %last, [i64 0]
    %inexact = fcmp one {T} %error, [T 0.0]
    %move = and {i1} %inexact, %even
    %error_up = fcmp ogt {T} %error, [T 0.0]
    %sum_up = fcmp ogt {T} %sum, [T 0.0]
    %inwards = xor {i1} %error_up, %sum_up
    %step = select {i1} %inwards, {i64} [i64 -1], {i64} [i64 1]
    %moved = add {i64} %bits, %step
    %odd = select {i1} %move, {i64} %moved, {i64} %bits
    %r = bitcast {i64} %odd to {T}
"""

_VECTOR = re.compile(r"<(\d+) x (\w+)>")


def remainder(w: Writer, type_name: str, xs: list[str]) -> str:
    """C's fmod: exact, with the sign of x."""
    if "double" in type_name:
        return _each_lane(w, "remainder", type_name, xs)
    wide_type = like(type_name, "double")
    x, y = (convert(w, F32, F64, type_name, wide_type, v) for v in xs)
    vector = _VECTOR.fullmatch(type_name)
    if vector is None:
        wide = _each_lane(w, "remainder", wide_type, [x, y])
    else:
        wide = _vector_remainder(w, wide_type, int(vector[1]), x, y)
    return convert(w, F64, F32, wide_type, type_name, wide)


def _vector_remainder(w: Writer, wide_type: str, lanes: int, x: str, y: str) -> str:
    types = {"T": wide_type}
    q = w.expand("%r = fdiv {T} %x, %y", types, {"x": x, "y": y})
    small = w.expand(_IS_SMALL, types, {"q": q})
    near = w.expand(_SMALL_REMAINDER, types, {"x": x, "y": y, "q": q})
    bits = w.value(f"bitcast <{lanes} x i1> {small} to i{lanes}")
    slow, done = w.labels("far", "remainder")
    before = w.label
    w.branch(w.value(f"icmp eq i{lanes} {bits}, -1"), done, slow)
    w.block(slow)
    far = _each_lane(w, "remainder", wide_type, [x, y])
    w.jump(done)
    w.block(done)
    result = w.name()
    w.lines.append(phi(result, wide_type, [(near, before), (far, slow)]))
    return result


def fused_multiply_add(w: Writer, type_name: str, xs: list[str]) -> str:
    """x * y + z, rounded once."""
    scalar = type_name.strip("<>").split()[-1]
    if scalar != "half" and w.features.fma:
        template = "%r = call {T} @llvm.fma.{T!}({T} %x, {T} %y, {T} %z)"
        return w.expand(template, {"T": type_name}, dict(zip("xyz", xs)))
    if scalar == "double":
        return _each_lane(w, "fused", type_name, xs)
    narrow, wide_type = F16 if scalar == "half" else F32, like(type_name, "double")
    wide = dict(zip("xyz", (convert(w, narrow, F64, type_name, wide_type, x) for x in xs)))
    if narrow is F32:
        exact = w.expand(_FLOAT_FMA, {"T": wide_type}, wide)
    else:  # a double holds the sum wherever the half's rounding depends on it
        exact = w.expand("%p = fmul {T} %x, %y \n %r = fadd {T} %p, %z", {"T": wide_type}, wide)
    return convert(w, F64, narrow, wide_type, type_name, exact)


def _each_lane(w: Writer, function: str, type_name: str, xs: list[str]) -> str:
    """Call a function of doubles for each lane."""
    w.declarations.add_functions(_FUNCTIONS[function])
    vector = _VECTOR.fullmatch(type_name)
    if vector is None:
        return w.value(f"call double @{function}({', '.join(f'double {x}' for x in xs)})")
    result = "poison"
    for lane in range(int(vector[1])):
        picked = [w.value(f"extractelement {type_name} {x}, i64 {lane}") for x in xs]
        value = w.value(f"call double @{function}({', '.join(f'double {x}' for x in picked)})")
        result = w.value(f"insertelement {type_name} {result}, double {value}, i64 {lane}")
    return result


EXACT: dict[tuple[str, str], Callable[[Writer, str, list[str]], str]] = {
    ("rem", "f"): remainder,
    ("fma", "f"): fused_multiply_add,
    ("fma", "h"): fused_multiply_add,
}
