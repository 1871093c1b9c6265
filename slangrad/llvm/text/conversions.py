"""Conversions between scalars, for one value or W lanes.

    convert(w, f32, i32, "float", "i32", "%1")   ->   call i32 @llvm.fptosi.sat.i32.f32(float %1)

Float to integer saturates and NaN gives 0; all others round once, except that bf16 and floats of 8 bits are made of
a float. Where the machine cannot convert half floats, integer instructions do: LLVM would call functions that are not
linked.
"""

from __future__ import annotations

from struct import pack, unpack

from slangrad.ir.data.small_floats import FORMATS, SmallFormat, bits_of_small
from slangrad.ir.data.types import BF16, E4M3, E5M2, F16, F32, F64, SMALL_FLOATS, Scalar
from slangrad.llvm.text.type_names import scalar_name
from slangrad.llvm.text.writer import Writer

# Below the least normal number a float addition rounds at the last bit of the small one; else integers round.
_BITS_OF_FLOAT = """
    %bits = bitcast {float} %x to {i32}
    %magnitude = and {i32} %bits, [i32 2147483647]
    %sign = lshr {i32} %bits, [i32 shift]
    %sign_bit = and {i32} %sign, [i32 sign]
    %positive = bitcast {i32} %magnitude to {float}
    %aligned = fadd {float} %positive, [float align]
    %small_bits = bitcast {float} %aligned to {i32}
    %small = sub {i32} %small_bits, [i32 align_bits]
    %odd_bit = lshr {i32} %magnitude, [i32 dropped]
    %odd = and {i32} %odd_bit, [i32 1]
    %up = add {i32} %odd, [i32 up]
    %rounded = add {i32} %magnitude, %up
    %normal = lshr {i32} %rounded, [i32 dropped]
    %is_small = icmp ult {i32} %magnitude, [i32 least]
    %finite = select {i1} %is_small, {i32} %small, {i32} %normal
    %is_large = icmp ugt {i32} %magnitude, [i32 greatest]
    %limited = select {i1} %is_large, {i32} [i32 most], {i32} %finite
    %is_nan = icmp ugt {i32} %magnitude, [i32 2139095040]
    %unsigned = select {i1} %is_nan, {i32} [i32 nan], {i32} %limited
    %signed = or {i32} %unsigned, %sign_bit
    %r = trunc {i32} %signed to {bits}
"""
_FLOAT_OF_BITS = """
    %wide = zext {bits} %x to {i32}
    %magnitude = and {i32} %wide, [i32 rest]
    %sign = and {i32} %wide, [i32 sign]
    %sign_bit = shl {i32} %sign, [i32 shift]
    %shifted = shl {i32} %magnitude, [i32 dropped]
    %normal = add {i32} %shifted, [i32 bias]
    %scaled = sitofp {i32} %magnitude to {float}
    %small = fmul {float} %scaled, [float unit]
    %small_bits = bitcast {float} %small to {i32}
    %is_small = icmp ult {i32} %magnitude, [i32 first]
    %finite = select {i1} %is_small, {i32} %small_bits, {i32} %normal
    SPECIAL
    %signed = or {i32} %unsigned, %sign_bit
    %r = bitcast {i32} %signed to {float}
"""
_FLOAT_OF_HALF = _FLOAT_OF_BITS.replace(
    "SPECIAL",
    """
    %special = or {i32} %shifted, [i32 2139095040]
    %is_special = icmp ugt {i32} %magnitude, [i32 31743]
    %unsigned = select {i1} %is_special, {i32} %special, {i32} %finite
""",
)
_FLOAT_OF_E4M3 = _FLOAT_OF_BITS.replace(
    "SPECIAL",
    """
    %is_nan = icmp eq {i32} %magnitude, [i32 127]
    %unsigned = select {i1} %is_nan, {i32} [i32 2143289344], {i32} %finite
""",
)
# One half as float: LLVM loads it into a register that keeps its other lanes, so code would wait for what was there.
_FLOAT_OF_ONE_HALF = """
    %first = insertelement <8 x half> poison, half %x, i64 0
    %halves = shufflevector <8 x half> %first, <8 x half> poison, <8 x i32> zeroinitializer
    %floats = fpext <8 x half> %halves to <8 x float>
    %r = extractelement <8 x float> %floats, i64 0
"""
# Rounded to odd, a float holds enough of the double for the second rounding to come out right.
_FLOAT_TO_ODD = """
    %near = fptrunc {double} %x to {float}
    %back = fpext {float} %near to {double}
    %bits = bitcast {float} %near to {i32}
    %inexact = fcmp one {double} %back, %x
    %last = and {i32} %bits, [i32 1]
    %even = icmp eq {i32} %last, [i32 0]
    %move = and {i1} %inexact, %even
    %size = call {double} @llvm.fabs.{double!}({double} %x)
    %near_size = call {double} @llvm.fabs.{double!}({double} %back)
    %below = fcmp olt {double} %near_size, %size
    %step = select {i1} %below, {i32} [i32 1], {i32} [i32 -1]
    %moved = add {i32} %bits, %step
    %odd = select {i1} %move, {i32} %moved, {i32} %bits
    %r = bitcast {i32} %odd to {float}
"""
# A bf16 is the upper half of a float. A float of 8 bits rounds as a half does; the largest one stands for all beyond.
_BF16_OF_FLOAT = """
    %bits = bitcast {float} %x to {i32}
    %upper = lshr {i32} %bits, [i32 16]
    %odd = and {i32} %upper, [i32 1]
    %up = add {i32} %odd, [i32 32767]
    %rounded = add {i32} %bits, %up
    %finite = lshr {i32} %rounded, [i32 16]
    %quiet = or {i32} %upper, [i32 64]
    %is_nan = fcmp uno {float} %x, [float 0.0]
    %word = select {i1} %is_nan, {i32} %quiet, {i32} %finite
    %r = trunc {i32} %word to {i16}
"""
_FLOAT_OF_BF16 = """
    %wide = zext {i16} %x to {i32}
    %word = shl {i32} %wide, [i32 16]
    %r = bitcast {i32} %word to {float}
"""
_HALF_OF_E5M2 = """
    %wide = zext {i8} %x to {i16}
    %word = shl {i16} %wide, [i16 8]
    %r = bitcast {i16} %word to {half}
"""


def _constants(t: Scalar, form: SmallFormat, most: int) -> dict[str, str]:
    """Of the templates between floats and bits: numbers beyond `form.greatest` get the bits `most`."""
    dropped = 23 - form.fraction
    least_unit = form.least_exponent - form.fraction
    words = {
        "shift": 32 - t.bits,
        "sign": 1 << (t.bits - 1),
        "rest": (1 << (t.bits - 1)) - 1,
        "bias": (127 - form.bias) << 23,
        "first": 1 << form.fraction,
        "align_bits": (least_unit + 23 + 127) << 23,
        "align": 2.0 ** (least_unit + 23),
        "unit": f"0x{(least_unit + 1023) << 52:016X}",
        "dropped": dropped,
        "up": (1 << (dropped - 1)) - 1 - ((127 - form.bias) << 23),
        "least": (form.least_exponent + 127) << 23,
        "greatest": unpack("<I", pack("<f", form.greatest))[0],
        "most": most,
        "nan": form.nan,
    }
    return {name: str(word) for name, word in words.items()}


_CONSTANTS = {
    F16: _constants(F16, SmallFormat(10, 15, 65519.99609375, 0x7E00), most=0x7C00),  # the next is infinite
    **{t: _constants(t, FORMATS[t], bits_of_small(t, FORMATS[t].greatest)) for t in (E4M3, E5M2)},
}


def _of_bits(w: Writer, template: str, t: Scalar, type_name: str, x: str) -> str:
    types = {**_CONSTANTS[t], "T": type_name, "bits": like(type_name, f"i{t.bits}")}
    return w.expand(template, types, {"x": x})


def convert(w: Writer, source: Scalar, target: Scalar, source_type: str, target_type: str, x: str) -> str:
    """`x`, of type `source` in registers of `source_type`, as a `target`."""
    if source is target:
        return x
    types = {"T": source_type, "R": target_type}
    operands = {"x": x}
    if source is F16:
        wide = extend_half(w, source_type, x)
        return convert(w, F32, target, like(source_type, "float"), target_type, wide)
    if source in SMALL_FLOATS:
        wide = _extend_small(w, source, source_type, x)
        return convert(w, F32, target, like(source_type, "float"), target_type, wide)
    if target in SMALL_FLOATS:
        float_type = like(source_type, "float")
        value = convert(w, source, F32, source_type, float_type, x)
        if target is BF16:
            return w.expand(_BF16_OF_FLOAT, {"T": float_type}, {"x": value})
        return _of_bits(w, _BITS_OF_FLOAT, target, float_type, value)
    if target.kind == "bool":
        return w.expand(_truth(source), types, operands)
    if target is F16:
        return _to_half(w, source, source_type, x)
    return w.expand(_direct(source, target), types, operands)


def _truth(source: Scalar) -> str:
    return "%r = fcmp une {T} %x, [T 0.0]" if source.kind == "float" else "%r = icmp ne {T} %x, [T 0]"


def _direct(source: Scalar, target: Scalar) -> str:
    """One instruction; not for halves and truth values."""
    if source.kind == "float" and target.kind == "float":
        return "%r = fpext {T} %x to {R}" if source.bits < target.bits else "%r = fptrunc {T} %x to {R}"
    if source.kind == "float":
        name = "fptosi" if target.kind == "signed" else "fptoui"
        return f"%r = call {{R}} @llvm.{name}.sat.{{R!}}.{{T!}}({{T}} %x)"
    if target.kind == "float":
        return "%r = sitofp {T} %x to {R}" if source.kind == "signed" else "%r = uitofp {T} %x to {R}"
    if source.bits == target.bits:
        return "%r = bitcast {T} %x to {R}"
    if source.bits > target.bits:
        return "%r = trunc {T} %x to {R}"
    return "%r = sext {T} %x to {R}" if source.kind == "signed" else "%r = zext {T} %x to {R}"


def _to_half(w: Writer, source: Scalar, source_type: str, x: str) -> str:
    """Integers go through the float type that holds them, so that only the last step rounds."""
    between = F32 if source.bits <= 16 or source is F32 else F64
    between_type = like(source_type, scalar_name(between))
    value = convert(w, source, between, source_type, between_type, x)
    if between is F64:
        value = w.expand(_FLOAT_TO_ODD, {"T": between_type}, {"x": value})
    return round_to_half(w, like(source_type, "float"), value)


def extend_half(w: Writer, half_type: str, x: str) -> str:
    """A half as float, exactly."""
    native = _FLOAT_OF_ONE_HALF if half_type == "half" else "%r = fpext {half} %x to {float}"
    if w.features.half:
        return w.expand(native, {"T": half_type}, {"x": x})
    bits = w.expand("%r = bitcast {half} %x to {i16}", {"T": half_type}, {"x": x})
    return _of_bits(w, _FLOAT_OF_HALF, F16, like(half_type, "i16"), bits)


def _extend_small(w: Writer, source: Scalar, type_name: str, x: str) -> str:
    if source is E5M2:  # the upper half of a half
        half = w.expand(_HALF_OF_E5M2, {"T": type_name}, {"x": x})
        return extend_half(w, like(type_name, "half"), half)
    if source is E4M3:
        return _of_bits(w, _FLOAT_OF_E4M3, E4M3, type_name, x)
    return w.expand(_FLOAT_OF_BF16, {"T": type_name}, {"x": x})


def round_to_half(w: Writer, float_type: str, x: str) -> str:
    """A float as half, ties to even."""
    if w.features.half:
        return w.expand("%r = fptrunc {float} %x to {half}", {"T": float_type}, {"x": x})
    bits = _of_bits(w, _BITS_OF_FLOAT, F16, float_type, x)
    return w.expand("%r = bitcast {i16} %x to {half}", {"T": float_type}, {"x": bits})


def like(type_name: str, scalar: str) -> str:
    """`scalar` in as many lanes as `type_name` has."""
    return f"{type_name[: type_name.rindex(' ')]} {scalar}>" if type_name.startswith("<") else scalar
