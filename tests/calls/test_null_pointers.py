"""Null pointers that are read or written raise; nothing ends the process. Each program runs in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = '''
import numpy as np
import slangrad as spy

TEXT = """
struct Node { float v; uint64_t next; };
struct In { float* p; uint64_t k; };
struct Pair { float3 a; float3 b; };
groupshared float shared_numbers[64];

float at(float* p, int i) { return p[i]; }
float constant(float* p, int i) { return i > 0 ? p[2] : 0; }
float later(float* p, int i) { return p[i + (1 << 24)]; }
float sum(float* p, int n) { float s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
float walked(float* p, int n) { float s = 0; for (int i = 0; i < n; i++) { s += *p; p++; } return s; }
float fields(Pair* p, int i) { Pair* q = p + i; return q->a.x * q->b.z + (*q).a.y; }
float number(uint64_t p, int i) { return ((float*)p)[i]; }
float buffer_pointer(uint64_t p, int i) { return ConstBufferPointer<float>.fromUInt(p)[i]; }
float coherent(float* p, int i) { return loadCoherent<4, MemoryScope.Device>(p + i); }
float optional(float* p, int i) { Optional<float*> o = none; if (i >= 0) o = p; return coherent(o.value, i); }
float vector_of(float* p, int i) { return CoopVec<float, 4>.load(p)[i & 3]; }
float got(uint64_t p, int i) { return ConstBufferPointer<float>((float*)p).get() + i; }
float many(float* p, int i) { float s = 0; for (int k = 0; k < 100; k++) s += p[k & i]; return s; }
int added(int* p, int i) { int before; InterlockedAdd(p[i], 1, before); return before; }
void put(int i, float* p) { p[i] = 1; }
void sent(int i, float* p) { InterlockedAdd(p[i], 1.0f); }
float deep(float* p, int n) { return n > 0 ? deep(p, n - 1) + p[n] : *p; }
[Differentiable] float scaled(float x, no_diff float* p, int i) { return x * p[i]; }

float chain(Node* p) { float s = 0; while (p != nullptr) { s += p->v; p = (Node*)p->next; } return s; }
float three(Node* p) { float s = 0; for (int i = 0; i < 3; i++) { s += p->v; p = (Node*)p->next; } return s; }
float behind(In* c, int i) { return c[i].p[0]; }
float behind_all(In* c, int i, int n) { float s = 0; for (int k = 0; k < n; k++) s += c[i].p[k]; return s; }
float twice(In* c, int n) { float s = 0; for (int k = 0; k < 3; k++) for (int i = 0; i < n; i++) s += c->p[i]; return s; }
float guarded(float* p, int i) { return p != nullptr ? p[i] : -1; }
float local(int n) { float x = n; float* p = n > 0 ? &x : nullptr; return *p; }
float element(RWStructuredBuffer<float> b, int i) { float* p = &b[i]; return *p; }

[shader("compute")] [numthreads(64, 1, 1)]
void group(uint3 id : SV_DispatchThreadID, uint3 own : SV_GroupThreadID, uniform float* x, uniform float* y)
{
    shared_numbers[own.x] = x[id.x];
    GroupMemoryBarrierWithGroupSync();
    y[id.x] = shared_numbers[63 - own.x];
}
"""
F, U = np.float32, np.uint64

def null(call, message="a null pointer is read or written", offset=0):
    try:
        call()
    except spy.PointerError as error:
        assert message in str(error) and error.code == "E0907" and error.offset == offset, str(error)
        assert error.location.startswith("m:"), error.location
    else:
        raise SystemExit("a null pointer was followed")
'''

BY_PARAMETER = """
device = spy.create_device(backend=BACKEND, options=spy.Options(lanes=LANES))
m = spy.Module.load_from_source(device, "m", TEXT)
t = spy.Tensor.from_numpy(device, np.arange(100, dtype=F))
i = np.arange(40, dtype=np.int32) % 5
for name in ("at", "constant", "later", "sum", "walked", "fields", "number", "buffer_pointer", "got", "many", "added", "deep", "coherent"):
    for each in (i, 3):
        null(lambda: m[name](0, each))
        null(lambda: m[name](24, each), "leads to address 0x18, where there is no memory", 24)
        null(lambda: m[name](2 ** 64 - 8, each), "leads to address 0xfffffffffffffff8", 2 ** 64 - 8)
for name in ("put", "sent"):
    null(lambda: m[name](i, 0))
    null(lambda: m[name](3, 0))
assert m.at(t.storage, i).to_numpy().tolist() == i.tolist()
assert m.sum(t.storage, 4) == 6 and m.many(t.storage, 0) == 0 and m.deep(t.storage, 3) == 6
x = spy.Tensor.from_numpy(device, np.ones(10, F)).with_grads()
null(lambda: m.scaled.bwds(x, 0, 3))
m.scaled.bwds(x, t.storage, 3)
assert x.grad.to_numpy().tolist() == [3] * 10
program = device.load_module_from_source("m", TEXT)
kernel = device.create_compute_kernel(device.link_program([program], [program.entry_point("group")]))
y = device.create_buffer(size=512)
null(lambda: kernel.dispatch([128, 1, 1], x=0, y=y))
null(lambda: kernel.dispatch([128, 1, 1], x=y, y=0))
print("done")
"""

FROM_MEMORY = """
device = spy.create_device(backend=BACKEND, options=spy.Options(lanes=LANES))
m = spy.Module.load_from_source(device, "m", TEXT)
t = spy.Tensor.from_numpy(device, np.arange(100, dtype=F))
a = t.storage.device_address
i = np.arange(40, dtype=np.int32)
null(lambda: m.at(np.array([a, 0, a], U), 1))
assert m.at(np.array([a, a + 4, a], U), 1).to_numpy().tolist() == [1, 2, 1]
for name in ("coherent", "optional", "vector_of"):  # the library follows what the program gives it
    null(lambda: m[name](np.array([a, 0, a], U), 1))
    assert m[name](np.array([a, a + 4], U), 1).to_numpy().tolist() == [1, 2]
cells = device.create_buffer(data=np.array([[a, 0], [0, 0], [a + 8, 0]], U))
assert m.behind(cells, 0) == 0 and m.behind(cells, 2) == 2 and m.behind_all(cells, 2, 3) == 2 + 3 + 4
assert m.behind(cells, np.array([0, 2, 0])).to_numpy().tolist() == [0, 2, 0]
assert m.twice(cells, 3) == 9 and m.twice(cells, np.arange(4)).to_numpy().tolist() == [0, 0, 3, 9]
for each in (1, i % 3):
    null(lambda: m.behind(cells, each))
    null(lambda: m.behind_all(cells, each, 5))
    null(lambda: m.behind_all(cells, each, i % 4))
assert m.behind_all(cells, 1, 0) == 0  # a loop that does not turn follows nothing
assert m.behind_all(cells, i % 3, np.where(i % 3 == 1, 0, 2)).to_numpy()[:3].tolist() == [1, 0, 5]
nothing = device.create_buffer(data=np.zeros((4, 2), U))
null(lambda: m.twice(nothing, 3))
null(lambda: m.twice(nothing, np.arange(40)))
assert m.twice(nothing, 0) == 0
nodes = np.zeros((3, 2), U)
held = device.create_buffer(data=nodes)
nodes[:, 0] = np.ones(3, F).view(np.uint32)
nodes[:2, 1] = held.device_address + 16 * np.arange(1, 3)
held.copy_from_numpy(nodes)
at = np.concatenate([held.device_address + 16 * np.arange(3).astype(U), np.zeros(1, U)])
assert m.chain(at).to_numpy().tolist() == [3, 2, 1, 0] and m.three(int(at[0])) == 3
null(lambda: m.three(at))
null(lambda: m.three(int(at[1])))
assert m.guarded(0, 1) == -1 and m.guarded(np.array([a, 0], U), 1).to_numpy().tolist() == [1, -1]
assert m.local(1) == 1
null(lambda: m.local(0))
null(lambda: m.local(i))
assert m.element(t.storage, 5) == 5
try:
    m.element(t.storage, 100)
except spy.BoundsError:
    print("done")
"""


def run(program: str, backend: str = "cpu", lanes: int = 0) -> str:
    settings = f"BACKEND, LANES = {backend!r}, {lanes}\n"
    command = [sys.executable, "-c", settings + PRELUDE + textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


DEVICES = [("cpu", 0), ("interpreter", 0), *(pytest.param("cpu", n, marks=pytest.mark.deep) for n in (1, 4))]


@pytest.mark.parametrize(("backend", "lanes"), DEVICES)
@pytest.mark.parametrize("program", [BY_PARAMETER, FROM_MEMORY], ids=["parameters", "memory"])
def test_a_null_pointer_raises(program: str, backend: str, lanes: int) -> None:
    assert run(program, backend, lanes) == "done\n"


def test_check_mode_finds_them_too() -> None:
    program = """
        device = spy.create_device(options=spy.Options(check=True))
        m = spy.Module.load_from_source(device, "m", TEXT)
        cells = device.create_buffer(data=np.zeros((3, 2), U))
        for call in (lambda: m.at(0, 1), lambda: m.behind(cells, 1), lambda: m.added(0, 1), lambda: m.got(0, 1)):
            try:
                call()
                raise SystemExit("a null pointer was followed")
            except spy.PointerError:
                pass
        print("done")
        """
    assert run(program) == "done\n"
