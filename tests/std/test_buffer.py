"""Buffers in NumPy's memory: elements, bounds, bytes, atomic operations."""

from __future__ import annotations

import numpy as np
import pytest

from slangrad.ir.oracle.interpret import Recorded
from slangrad.ir.oracle.memory import Datum
from tests.std.programs import call, differentiated, lowered

Array = np.ndarray


def buffer(array: Array) -> Datum:
    """The fields of a structured buffer."""
    return array.ctypes.data, len(array)


def raw(array: Array) -> Datum:
    """The fields of a byte-address buffer."""
    return array.ctypes.data, array.nbytes


def test_structured_buffers() -> None:
    program = lowered("""
        struct Particle { float3 position; int kind; }
        float get(StructuredBuffer<float> b, int i) { return b[i] + b.Load(i); }
        int kind(RWStructuredBuffer<Particle> b, uint i) { return b[i].kind; }
        void move(RWStructuredBuffer<Particle> b, uint i) { b[i].position.y += 1; b[i].kind = 9; }
        void put(RWStructuredBuffer<float> b, int i, float x) { b[i] = x; b[i] *= 2; b[i]++; }
        uint2 size(RWStructuredBuffer<Particle> b) { uint n, stride; b.GetDimensions(n, stride); return uint2(n, stride); }
    """)
    a = np.array([1, 2, 4], np.float32)
    particle = np.dtype([("position", np.float32, 3), ("kind", np.int32)])
    particles = np.array([((1, 2, 3), 4), ((5, 6, 7), 8)], dtype=particle)
    assert call(program, "get", buffer(a), 2) == 8.0
    assert call(program, "kind", buffer(particles), 1) == 8
    call(program, "move", buffer(particles), 1)
    assert particles["kind"].tolist() == [4, 9]
    assert particles["position"].tolist() == [[1, 2, 3], [5, 7, 7]]
    call(program, "put", buffer(a), 1, 5.0)
    assert a.tolist() == [1, 11, 4]
    assert call(program, "size", buffer(particles)) == (2, 16)


def test_outside() -> None:
    program = lowered("""
        float get(RWStructuredBuffer<float> b, int i) { return b[i]; }
        float get64(StructuredBuffer<float> b, uint64_t i) { return b[i]; }
        void put(RWStructuredBuffer<float> b, int i) { b[i] = 5; }
        void put_part(RWStructuredBuffer<float2> b, int i) { b[i].y = 5; }
        uint add(RWStructuredBuffer<uint> b, int i) { uint old; InterlockedAdd(b[i], 5, old); return old; }
    """)
    a, b, c = np.ones(3, np.float32), np.ones((3, 2), np.float32), np.ones(3, np.uint32)
    for i in (3, -1):
        for name, array, result in (("get", a, 0.0), ("put", a, ()), ("put_part", b, ()), ("add", c, 0)):
            reports = Recorded()
            assert call(program, name, buffer(array), i, reports=reports) == result
            assert reports.bounds == [(i, 3)]
    assert call(program, "get64", buffer(a), 1 << 40) == 0.0
    assert a.tolist() == [1, 1, 1] and b.tolist() == [[1, 1]] * 3 and c.tolist() == [1, 1, 1]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_indices_of_all_widths(kind: str, bits: int) -> None:
    program = lowered(f"""
        float get(StructuredBuffer<float> b, {kind}{bits}_t i) {{ return b[i] + 10 * b.Load(i); }}
        void put(RWStructuredBuffer<float> b, {kind}{bits}_t i) {{ b[i] *= 3; b.Store(i, b.Load(i) + 1); }}
    """)
    a = np.array([1, 2, 4], np.float32)
    assert call(program, "get", buffer(a), 2) == 44.0
    call(program, "put", buffer(a), 1)
    assert a.tolist() == [1, 7, 4]
    reports = Recorded()
    assert call(program, "get", buffer(a), 100, reports=reports) == 0.0
    assert reports.bounds == [(100, 3), (100, 3)]


def test_bytes() -> None:
    program = lowered("""
        uint a(ByteAddressBuffer b, uint at) { return b.Load(at); }
        float3 c(ByteAddressBuffer b, uint at) { return b.Load<float3>(at); }
        uint4 d(RWByteAddressBuffer b, uint at) { return b.Load4(at); }
        void e(RWByteAddressBuffer b, uint at) { b.Store(at, 7); b.Store2(at + 4, uint2(8, 9)); b.Store<float>(at + 12, 1); }
        uint f(RWByteAddressBuffer b, uint at) { uint old; b.InterlockedAdd(at, 5, old); return old; }
        float g(RWByteAddressBuffer b, uint at) { float old; b.InterlockedAddF32(at, 0.5, old); return old; }
        uint h(RWByteAddressBuffer b, uint at) { uint n; b.GetDimensions(n); return n; }
        int i(RWByteAddressBuffer b, uint at) { int old; b.InterlockedMax(at, -2, old); return old; }
        uint j(RWByteAddressBuffer b, uint at) { uint old; b.InterlockedCompareExchange(at, 7, 70, old); return old; }
    """)
    words, floats = np.arange(6, dtype=np.uint32), np.array([1, 2, 3, 4], np.float32)
    assert call(program, "a", raw(words), 8) == 2
    assert call(program, "c", raw(floats), 4) == (2.0, 3.0, 4.0)
    assert call(program, "c", raw(floats), 8) == (0.0, 0.0, 0.0)
    assert call(program, "d", raw(words), 4) == (1, 2, 3, 4)
    call(program, "e", raw(words), 4)
    assert words.tolist() == [0, 7, 8, 9, 0x3F800000, 5]
    assert call(program, "f", raw(words), 4) == 7 and words[1] == 12
    assert call(program, "g", raw(floats), 4) == 2.0 and floats[1] == 2.5
    assert call(program, "h", raw(words), 0) == 24
    signed = np.array([-7], np.int32)
    assert call(program, "i", raw(signed), 0) == -7 and signed[0] == -2
    words[0] = 7
    assert call(program, "j", raw(words), 0) == 7 and words[0] == 70
    assert call(program, "f", raw(words), 24) == 0


def test_atomic_places() -> None:
    program = lowered("""
        void add(RWStructuredBuffer<Atomic<float>> b, int i, float x) { b[i] += x; b[i].add(x); }
        float swap(RWStructuredBuffer<Atomic<float>> b, int i) { return b[i].exchange(4); }
        void count(Atomic<uint>* p) { p.increment(); p->max(17); }
        int free(RWStructuredBuffer<int> b)
        {
            int old;
            InterlockedMin(b[0], -3, old);
            InterlockedExchange(b[1], 8);
            int found;
            InterlockedCompareExchange(b[2], 3, 30, found);
            return old * 100 + found;
        }
        int local()
        {
            int x = 5, old;
            InterlockedAdd(x, 2, old);
            return x * 10 + old;
        }
        half emulated(half* p) { half old; InterlockedAddF16Emulated(p, 0.5h, old); return old; }
    """)
    a = np.array([1, 2], np.float32)
    call(program, "add", buffer(a), 1, 0.5)
    assert a.tolist() == [1, 3]
    assert call(program, "swap", buffer(a), 1) == 3.0 and a[1] == 4
    n = np.array([3], np.uint32)
    call(program, "count", n.ctypes.data)
    assert n[0] == 17
    b = np.array([1, 2, 3], np.int32)
    assert call(program, "free", buffer(b)) == 103
    assert b.tolist() == [-3, 8, 30]
    assert call(program, "local") == 75
    h = np.array([1.5], np.float16)
    assert call(program, "emulated", h.ctypes.data) == 1.5 and h[0] == 2


def test_atomic_addition_of_any_number() -> None:
    program = lowered("""
        void add<T : IAtomicAddable>(T* p, T value) { T.atomicAdd(p, 1, value); }
        void vectors(float2* p) { add(p, float2(1, 2)); }
        void arrays(int[2]* p) { int value[2] = { 5, 6 }; add(p, value); }
        void bytes(RWByteAddressBuffer b) { float.atomicAdd(b, 8, 0.5); float2.atomicAdd(b, 12, float2(7)); }
    """)
    a, b = np.ones(4, np.float32), np.ones(4, np.int32)
    call(program, "vectors", a.ctypes.data)
    call(program, "arrays", b.ctypes.data)
    assert (a.tolist(), b.tolist()) == ([1, 1, 2, 3], [1, 1, 6, 7])
    call(program, "bytes", raw(a))
    assert a.tolist() == [1, 1, 2.5, 3]


@pytest.mark.parametrize("length", [1, 5, 40])
def test_atomic_addition_of_arrays(length: int) -> None:
    """To all elements, of structs and vectors as well; what was there before is the result."""
    program = lowered(f"""
        struct Part {{ int a; int2 b[{length}]; }}
        Part[3] add(Part[3]* p)
        {{
            Part value[3];
            value[2].a = 5;
            value[1].b[{length - 1}] = int2(6, 7);
            return __atomicAdd(p, value);
        }}
        int before(Part[3]* p) {{ return add(p)[1].b[{length - 1}].y; }}
    """)
    size = 1 + 2 * length
    data = np.arange(3 * size, dtype=np.int32)
    wanted = data.copy()
    wanted[2 * size] += 5
    wanted[2 * size - 2 : 2 * size] += 6, 7
    assert call(program, "before", data.ctypes.data) == 2 * size - 1
    assert data.tolist() == wanted.tolist()


def test_gradients_into_a_buffer() -> None:
    """The tutorial's way: an accessor with a derivative of its own, which adds atomically."""
    program = differentiated("""
        float parameter(int i, RWStructuredBuffer<float> values, RWStructuredBuffer<Atomic<float>> gradients)
        {
            return values[i];
        }
        [BackwardDerivativeOf(parameter)]
        void parameter_backward(
            int i, RWStructuredBuffer<float> values, RWStructuredBuffer<Atomic<float>> gradients, float d)
        {
            gradients[i] += d;
        }
        [Differentiable]
        float square(int i, RWStructuredBuffer<float> values, RWStructuredBuffer<Atomic<float>> gradients)
        {
            float w = parameter(i, values, gradients);
            return w * w;
        }
        void back(RWStructuredBuffer<float> values, RWStructuredBuffer<Atomic<float>> gradients)
        {
            bwd_diff(square)(1, values, gradients, 1.0f);
        }
    """)
    values, gradients = np.array([1, 3], np.float32), np.zeros(2, np.float32)
    call(program, "back", buffer(values), buffer(gradients))
    assert gradients.tolist() == [0, 6]
