"""Bit casts, counting, exponents, neighbors of numbers."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from tests.std.programs import call, lowered


def test_bits_as_other_types() -> None:
    program = lowered("""
        int a(float x) { return asint(x); }
        uint b(float x) { return asuint(x); }
        float c(uint x) { return asfloat(x); }
        uint2 d(float2 x) { return asuint(x); }
        uint2 e(double x) { uint low, high; asuint(x, low, high); return uint2(low, high); }
        double g(uint low, uint high) { return asdouble(low, high); }
        uint16_t h(half x) { return asuint16(x); }
        float i(uint x) { return f16tof32(x); }
        uint2 j(float2 x) { return f32tof16(x); }
        uint64_t k(double x) { return bit_cast<uint64_t>(x); }
        float2x2 l(uint2x2 x) { return asfloat(x); }
    """)
    one = 0x3F800000
    assert call(program, "a", -1.0) == one - 2**31
    assert call(program, "b", 1.0) == one
    assert call(program, "c", one) == 1.0
    assert call(program, "d", (1.0, -0.0)) == (one, 0x80000000)
    assert call(program, "e", math.pi) == struct.unpack("<II", struct.pack("<d", math.pi))
    assert call(program, "g", *struct.unpack("<II", struct.pack("<d", math.pi))) == math.pi
    assert call(program, "h", 1.0) == 0x3C00
    assert call(program, "i", 0x12343C00) == 1.0
    assert call(program, "j", (1.0, -2.0)) == (0x3C00, 0xC000)
    assert call(program, "k", 1.0) == 0x3FF0000000000000
    assert call(program, "l", ((one, 0), (0, one))) == ((1.0, 0.0), (0.0, 1.0))


NONE = 0xFFFFFFFF


def test_counting() -> None:
    program = lowered("""
        uint ones(uint x) { return countbits(x); }
        uint ones64(uint64_t x) { return countbits(x); }
        uint3 ones3(uint3 x) { return countbits(x); }
        uint low(uint x) { return firstbitlow(x); }
        uint high(uint x) { return firstbithigh(x); }
        uint highest(int x) { return firstbithigh(x); }
        uint high8(uint8_t x) { return firstbithigh(x); }
        uint2 lows(uint2 x) { return firstbitlow(x); }
        int2 highs(int2 x) { return firstbithigh(x); }
        uint turned(uint x) { return reversebits(x); }
    """)
    assert [call(program, "ones", x) for x in (0, 0xF0F0, NONE)] == [0, 8, 32]
    assert call(program, "ones64", 1 << 63 | 1) == 2
    assert call(program, "ones3", (1, 3, 7)) == (1, 2, 3)
    assert [call(program, "low", x) for x in (0, 1, 8, 1 << 31)] == [NONE, 0, 3, 31]
    assert [call(program, "high", x) for x in (0, 1, 8, NONE)] == [NONE, 0, 3, 31]
    assert [call(program, "highest", x) for x in (0, 8, -1, -2, -9)] == [NONE, 3, NONE, 0, 3]
    assert [call(program, "high8", x) for x in (0, 1, 255)] == [NONE, 0, 7]
    assert call(program, "lows", (12, 0)) == (2, NONE)
    assert call(program, "highs", (-1, 5)) == (-1, 2)
    assert call(program, "turned", 1) == 1 << 31


def test_fields_of_bits() -> None:
    program = lowered("""
        uint get(uint x, int offset, int count) { return bitfieldExtract(x, offset, count); }
        int get_signed(int x, int offset, int count) { return bitfieldExtract(x, offset, count); }
        uint set(uint x, uint y, int offset, int count) { return bitfieldInsert(x, y, offset, count); }
        uint2 set2(uint2 x, uint2 y) { return bitfieldInsert(x, y, 8, 8); }
    """)
    assert [call(program, "get", 0xABCD1234, *p) for p in ((8, 8), (0, 32), (4, 0))] == [0x12, 0xABCD1234, 0]
    assert [call(program, "get_signed", 0xF0, 4, n) for n in (4, 5)] == [-1, 15]
    assert call(program, "set", NONE, 0x12, 8, 8) == 0xFFFF12FF
    assert call(program, "set", 5, 0x12345678, 0, 32) == 0x12345678
    assert call(program, "set2", (0, NONE), (0x1AB, 0)) == (0xAB00, 0xFFFF00FF)


@pytest.mark.parametrize(("number", "smallest", "next_of_one"), [
    ("double", 5e-324, 1 + 2**-52), ("float", 2.0**-149, 1 + 2**-23), ("half", 2.0**-24, 1 + 2**-10),
])  # fmt: skip
def test_neighbors(number: str, smallest: float, next_of_one: float) -> None:
    program = lowered(f"{number} f({number} x, {number} y) {{ return nextafter(x, y); }}")
    assert call(program, "f", 1.0, 2.0) == next_of_one
    assert call(program, "f", -1.0, -2.0) == -next_of_one
    assert call(program, "f", next_of_one, -3.0) == 1.0
    assert [call(program, "f", 0.0, y) for y in (1.0, -1.0)] == [smallest, -smallest]
    assert call(program, "f", -smallest, 1.0) == 0.0
    assert call(program, "f", 2.5, 2.5) == 2.5
    assert math.isnan(call(program, "f", math.nan, 1.0))  # type: ignore[arg-type]
    assert call(program, "f", math.inf, math.inf) == math.inf


def test_packed_bytes() -> None:
    program = lowered("""
        uint4 a(uint x) { return unpack_u8u32(x); }
        int4 b(uint x) { return unpack_s8s32(x); }
        uint c(int4 x) { return pack_clamp_s8(x); }
        uint d(float4 x) { return packUnorm4x8(x); }
        float4 e(uint x) { return unpackSnorm4x8ToFloat(x); }
        uint g(float2 x) { return packSnorm2x16(x); }
        float2 h(uint x) { return unpackHalf2x16ToFloat(x); }
        int i(uint x, uint y) { return dot4add_i8packed(x, y, 10); }
        float4 j(uint x) { return unpackUnorm4x8ToHalf(x); }
        float2 k(uint x) { return unpackSnorm2x16ToHalf(x); }
        uint l(float2 x) { return packHalf2x16(half2(x)) ^ packHalf2x16(x) ^ packUnorm2x16(half2(x)); }
        float2 m(uint x) { return unpackHalf2x16ToHalf(x); }
    """)
    assert call(program, "a", 0x04FF0201) == (1, 2, 255, 4)
    assert call(program, "b", 0x80FF0201) == (1, 2, -1, -128)
    assert call(program, "c", (-300, -1, 2, 300)) == 0x7F02FF80
    assert call(program, "d", (0.0, 1.0, 2.0, 0.5)) == 0x80FFFF00
    assert call(program, "e", 0x007F8081) == (-1.0, -1.0, 1.0, 0.0)
    assert call(program, "g", (-1.0, 1.0)) == 0x7FFF8001
    assert call(program, "h", 0xC0003C00) == (1.0, -2.0)
    assert call(program, "i", 0x0102FF03, 0x01010101) == 10 + 1 + 2 - 1 + 3
    assert call(program, "j", 0x80FFFF00) == (0.0, 1.0, 1.0, float(np.float16(128 / 255)))
    assert call(program, "k", 0x7FFF8001) == (-1.0, 1.0)
    assert call(program, "l", (0.0, 1.0)) == 0xFFFF0000
    assert call(program, "m", 0xC0003C00) == (1.0, -2.0)
