"""Kernels that users write: compiled, given their parameters by name, launched over groups of threads."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

F = np.float32


@pytest.fixture
def kernel(device):
    """The kernel `main` of a text."""

    def make(text, name="main", **options):
        session = device.create_slang_session(compiler_options=options) if options else device.slang_session
        module = session.load_module_from_source(f"kernel_{abs(hash(text))}", text)
        return device.create_compute_kernel(session.link_program([module], [module.entry_point(name)]))

    return make


def floats(buffer):
    return buffer.to_numpy().view(F).tolist()


def test_a_kernel(device, kernel):
    scale = kernel("""
        RWStructuredBuffer<float> data;
        uniform float factor;

        [shader("compute")] [numthreads(4, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, uniform float add) { data[id.x] = data[id.x] * factor + add; }
    """)
    data = device.create_buffer(data=np.arange(8, dtype=F))
    scale.dispatch(thread_count=[8, 1, 1], vars={"data": data, "factor": 2}, add=0.5)
    assert floats(data) == [0.5, 2.5, 4.5, 6.5, 8.5, 10.5, 12.5, 14.5]


def test_pointers(device, kernel):
    add = kernel("""
        struct Pair { float* first; float* second; }
        uniform float* result;
        uniform Pair pair;

        [shader("compute")] [numthreads(1, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID) { result[id.x] = pair.first[id.x] + pair.second[id.x]; }
    """)
    first = device.create_buffer(data=np.array([1, 2, 3], F))
    second = spy.Tensor.from_numpy(device, np.array([10, 20, 30, 40], F))
    result = device.create_buffer(size=12)
    pair = {"first": first.device_address, "second": second}
    add.dispatch(thread_count=[3, 1, 1], vars={"result": result, "pair": pair})
    assert floats(result) == [11, 22, 33]
    add.dispatch([2, 1, 1], {"result": result, "pair": {"first": first.device_address + 4, "second": second}})
    assert floats(result) == [12, 23, 33]


GROUPS = """
    RWStructuredBuffer<uint> data;

    [shader("compute")] [numthreads(4, 2, 3)]
    void main(uint3 id : SV_DispatchThreadID, uint3 group : SV_GroupID, uint3 inside : SV_GroupThreadID,
        uint flat : SV_GroupIndex)
    {
        uint at = 4 * (id.x + 8 * (id.y + 4 * id.z));
        data[at] = id.x + 100 * id.y + 10000 * id.z;
        data[at + 1] = group.x + 100 * group.y + 10000 * group.z;
        data[at + 2] = inside.x + 100 * inside.y + 10000 * inside.z;
        data[at + 3] = flat;
    }
"""


def test_three_dimensions_and_rounding_up(device, kernel):
    data = device.create_buffer(data=np.zeros((6, 4, 8, 4), np.uint32))
    kernel(GROUPS).dispatch(thread_count=spy.uint3(5, 3, 4), vars={"data": data})
    found = data.to_numpy().view(np.uint32).reshape(6, 4, 8, 4)
    z, y, x = np.indices((6, 4, 8))
    assert (found[..., 0] == x + 100 * y + 10000 * z).all()
    assert (found[..., 1] == x // 4 + 100 * (y // 2) + 10000 * (z // 3)).all()
    assert (found[..., 2] == x % 4 + 100 * (y % 2) + 10000 * (z % 3)).all()
    assert (found[..., 3] == x % 4 + 4 * (y % 2) + 8 * (z % 3)).all()


def test_no_threads(device, kernel):
    data = device.create_buffer(data=np.zeros(4, np.uint32))
    kernel(GROUPS).dispatch(thread_count=[0, 1, 1], vars={"data": data})
    with pytest.raises(CallError, match="thread_count: 'many' is not up to three whole numbers"):
        kernel(GROUPS).dispatch(thread_count="many", vars={"data": data})
    with pytest.raises(CallError, match="must be between 0 and 2\\^32"):
        kernel(GROUPS).dispatch(thread_count=[-1, 1, 1], vars={"data": data})
