"""Arrays in structs as the bytes of other types, at several numbers of lanes."""

from dataclasses import replace

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
    struct W { float w[2 * N]; }
    struct Words { uint w[2 * N]; }
    struct Halves { uint16_t h[4 * N]; }
    struct Rows { float3 v[2 * N]; }
    struct Pairs { uint2 v[3 * N]; }
    struct Doubles { double d[N]; }
    struct Parts { float w[2 * N]; int n[2 * N]; float2 v; }
    struct Others { uint w[2 * N]; float n[2 * N]; uint v[2]; }
    struct Late { uint first; uint16_t rest[4 * N - 4]; uint last; }
    uint words(W p, int k) { return bit_cast<Words>(p).w[k]; }
    uint elements(W p, int k) { return bit_cast<uint[2 * N]>(p)[k]; }
    uint16_t halves(W p, int k) { return bit_cast<Halves>(p).h[k]; }
    float whole(Halves p, int k) { return bit_cast<W>(p).w[k]; }
    uint pairs(Rows p, int k) { return bit_cast<Pairs>(p).v[k].y; }
    uint doubles(W p, int k) { return uint(bit_cast<uint64_t>(bit_cast<Doubles>(p).d[k]) >> 32); }
    uint others(Parts p, int k) { let q = bit_cast<Others>(p); return q.w[k] ^ asuint(q.n[k]) ^ q.v[1]; }
    uint16_t late(W p, int k) { return bit_cast<Late>(p).rest[k]; }
"""


@pytest.mark.parametrize("length", [2, 9, 33])
@pytest.mark.parametrize(("backend", "lanes"), [("interpreter", 0), ("cpu", 1), ("cpu", 4), ("cpu", 16)])
def test_casts(backend, lanes, length):
    options = replace(spy.Options.from_environment(), lanes=lanes, optimize=0)
    device = spy.create_device(backend=backend, options=options)
    module = spy.Module.load_from_source(device, "casts", f"static const int N = {length};\n{SOURCE}")
    draw, k = np.random.default_rng(length), np.arange(length, dtype=np.int32)

    def check(name, kind, values, wanted):
        """One struct for each thread, and one for all."""
        structs = spy.Tensor.zeros(device, values.shape[:1], getattr(module, kind))
        structs.storage.copy_from_numpy(values)
        found = getattr(module, name)(structs, k, _result="numpy")
        assert found.tolist() == wanted.tolist()
        first = spy.Tensor.zeros(device, (1,), getattr(module, kind))
        first.storage.copy_from_numpy(np.repeat(values[-1:], 1, 0))
        assert getattr(module, name)(first, k, _result="numpy").tolist()[-1] == wanted[-1]

    def drawn(count):
        return draw.standard_normal((length, count)).astype(np.float32)

    w = drawn(2 * length)
    check("words", "W", w, w.view(np.uint32)[k, k])
    check("elements", "W", w, w.view(np.uint32)[k, k])
    check("halves", "W", w, w.view(np.uint16)[k, k])
    check("whole", "Halves", w, w[k, k])
    check("doubles", "W", w, w.view(np.uint32)[k, 2 * k + 1])
    check("late", "W", w, w.view(np.uint16)[k, k + 2])
    rows = drawn(6 * length)
    check("pairs", "Rows", rows, rows.view(np.uint32)[k, 2 * k + 1])
    parts = drawn(4 * length + 2)
    bits = parts.view(np.uint32)
    check("others", "Parts", parts, bits[k, k] ^ bits[k, 2 * length + k] ^ bits[:, -1])
