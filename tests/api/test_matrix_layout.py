"""Matrices by columns, and std140: what the host writes and reads is what kernels see, and the other way round."""

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
struct S { column_major float3x2 m; float x; bool b; float3 v; };
struct P { S s; column_major float2x3 several[2]; };
RWStructuredBuffer<S> plain;
RWStructuredBuffer<S, Std140DataLayout> laid;
StructuredBuffer<column_major float3x2> matrices;
ConstantBuffer<column_major float3x2> matrix;
ConstantBuffer<S, Std140DataLayout> block;
uniform P p;
RWStructuredBuffer<float> found;

[shader("compute")] [numthreads(1, 1, 1)]
void main()
{
    float values[] = {
        plain[1].m[2][0], matrices[1][2][1], matrix[2][0], block.m[1][1], p.s.m[2][1], p.several[1][1][2],
        block.v.z, block.b, laid[1].m[2][1], laid[1].b, laid[1].v.y,
    };
    for (int i = 0; i < 11; i++)
        found[i] = values[i];
    plain[0].m = float3x2(0);
    plain[0].m[1] = float2(8, 9);
    laid[0] = S(float3x2(1, 2, 3, 4, 5, 6), 7, true, float3(8, 9, 10));
    uint count, stride;
    laid.GetDimensions(count, stride);
    found[11] = stride;
}

float entry(S s) { return s.m[2][0] * 10 + s.m[0][1]; }
S filled(float x) { return S(float3x2(1, 2, 3, 4, 5, 6) * x, x, x > 1, float3(x)); }
"""
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
WRITTEN = {"m": ROWS, "x": 3.0, "b": True, "v": [1, 2, 3]}


@pytest.fixture(scope="module")
def program(device):
    module = device.load_module_from_source("matrix_layout", SOURCE)
    return device.link_program([module], [module.entry_point("main")])


def element(program, name):
    found = next(each for each in program.layout.parameters if each.name == name)
    return found.type_layout.element_type_layout


def test_kernels(device, program):
    usage = spy.BufferUsage.unordered_access
    cursors = {}
    for name in ("plain", "laid"):
        layout = element(program, name)
        cursors[name] = spy.BufferCursor(layout, device.create_buffer(size=2 * layout.stride, usage=usage))
        cursors[name][1].write(WRITTEN)
        cursors[name].apply()
    found = device.create_buffer(data=np.zeros(12, np.float32), usage=usage)
    given = {
        **{name: cursor.resource for name, cursor in cursors.items()},
        "matrices": device.create_buffer(data=np.arange(12, dtype=np.float32)),
        "matrix": ROWS,
        "block": WRITTEN,
        "p": {"s": {"m": ROWS}, "several": np.arange(12).reshape(2, 2, 3).tolist()},
        "found": found,
    }
    device.create_compute_kernel(program).dispatch([1, 1, 1], vars=given)
    expected = [4, 11, 4, 3, 5, 11, 3, 1, 5, 1, 2, 64]
    assert found.to_numpy().view(np.float32).tolist() == expected
    for cursor in cursors.values():
        cursor.load()
    assert np.array_equal(cursors["plain"][0].m.read(), [[0, 0], [8, 9], [0, 0]])
    read = cursors["laid"][0].read()
    assert np.array_equal(read["m"], [[1, 2], [3, 4], [5, 6]])
    assert (read["x"], read["b"], list(read["v"])) == (7, True, [8, 9, 10])


def test_reflection(program):
    def places(name):
        layout = element(program, name)
        return [(each.name, each.offset) for each in layout.fields], layout.size

    assert places("plain") == ([("m", 0), ("x", 24), ("b", 28), ("v", 32)], 44)
    assert places("laid") == ([("m", 0), ("x", 32), ("b", 36), ("v", 48)], 64)


def test_rows_of_cursors(device, program):
    cursor = spy.BufferCursor(device.type, element(program, "plain"), 2)
    cursor.write_from_numpy({"m": np.stack([ROWS, ROWS + 6])})
    memory = cursor.to_numpy().view(np.float32).reshape(2, 11)[:, :6]
    assert memory.tolist() == [[0, 2, 4, 1, 3, 5], [6, 8, 10, 7, 9, 11]]
    with pytest.raises(spy.CallError, match="lies by columns"):
        cursor[0].m[1].read()


def test_calls(device):
    module = spy.Module.load_from_source(device, "matrix_layout_calls", SOURCE)
    assert module.entry({"m": ROWS, "x": 0, "b": True, "v": [0, 0, 0]}) == 41
    made = module.filled(2.0)
    assert np.array_equal(made["m"], [[2, 4], [6, 8], [10, 12]])
    assert made["b"] is True


def test_option():
    source = """
    struct S { float3x2 m; row_major float3x2 r; }
    float entry(S s, float3x2 m) { return s.m[2][0] * 100 + s.r[2][0] * 10 + m[0][1]; }
    float read(StructuredBuffer<float3x2> b, StructuredBuffer<row_major float3x2> r, float3x2* p)
    {
        return b[0][2][0] * 100 + r[0][2][0] * 10 + p[0][1][1];
    }
    float3x2 twice(float3x2 m) { return m * 2; }
    """
    device = spy.create_device(compiler_options={"matrix_layout": "column_major"})
    module = spy.Module.load_from_source(device, "all_by_columns", source)
    rows = ROWS.tolist()
    assert module.entry({"m": rows, "r": rows}, rows) == 441
    memory = device.create_buffer(data=np.arange(6, dtype=np.float32))
    assert module.read(memory, memory, memory) == 244
    tensor = spy.Tensor.from_numpy(device, np.stack([ROWS, ROWS + 6]), dtype="float3x2")
    assert np.array_equal(module.twice(tensor).to_numpy(), 2 * np.stack([ROWS, ROWS + 6]))
    assert np.array_equal(module.twice(rows), 2 * ROWS)
    device.close()
