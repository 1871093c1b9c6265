"""What the parameters of kernels take, and what they say about everything else."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import BufferUsage
from slangrad.marshal.errors import CallError

F = np.float32

ALL = """
    enum Color : uint { Red, Green, Blue }
    struct Inner { half h; bool b; float3 v[2]; Color color; }
    struct Outer { int64_t big; Inner inner; uint8_t small; double d; float2x3 m; }
    ConstantBuffer<Outer> outer;
    ParameterBlock<Inner> block;
    cbuffer Frame { uint time; int2 mouse; }
    uniform int numbers[3];
    RWStructuredBuffer<double> data;

    [shader("compute")] [numthreads(1, 1, 1)]
    void main(uniform Outer local, uniform bool flag)
    {
        data[0] = double(outer.big);
        data[1] = outer.inner.h;
        data[2] = outer.inner.b ? 1 : 0;
        data[3] = outer.inner.v[1].y;
        data[4] = outer.small;
        data[5] = outer.d;
        data[6] = outer.m[1][2];
        data[7] = block.v[0].z;
        data[8] = time;
        data[9] = mouse.y;
        data[10] = numbers[2];
        data[11] = local.inner.v[1].x;
        data[12] = flag ? 1 : 0;
        data[13] = uint(outer.inner.color);
    }
"""


def test_plain_values_of_all_types(device, kernel):
    data = device.create_buffer(data=np.zeros(14))
    inner = {"h": 0.5, "b": True, "v": [[1, 2, 3], spy.float3(4, 5, 6)], "color": 2}
    outer = {
        "big": 1 << 40,
        "inner": inner,
        "small": 200,
        "d": 0.1,
        "m": np.arange(6, dtype=F).reshape(2, 3),
    }
    values = {
        "outer": outer,
        "block": {"v": np.arange(6, dtype=F).reshape(2, 3)},
        "Frame": {"time": np.uint32(7), "mouse": (8, -9)},
        "numbers": np.array([10, 11, 12]),
        "data": data,
    }
    kernel(ALL).dispatch(
        [1, 1, 1], values, local={"inner": {"v": np.arange(6, dtype=F)}}, flag=np.bool_(True)
    )
    found = data.to_numpy().view(np.float64).tolist()
    assert found == [1 << 40, 0.5, 1, 5, 200, 0.1, 5, 2, 7, -9, 12, 3, 1, 2]


BUFFERS = """
    struct Item { float a; int b; }
    StructuredBuffer<Item> items;
    RWStructuredBuffer<float4> wide;
    ByteAddressBuffer raw;
    RWByteAddressBuffer written;
    struct Both { StructuredBuffer<float> first; float* second; }
    uniform Both both[2];

    [shader("compute")] [numthreads(1, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<int> result)
    {
        result[0] = items[1].b;
        wide[1] = 7;
        result[1] = int(raw.Load(4));
        written.Store(0, 5u);
        result[2] = int(both[1].first[0] + both[0].second[1]);
        uint count, stride;
        items.GetDimensions(count, stride);
        result[3] = int(count * 100 + stride);
    }
"""


def test_buffers_of_all_kinds(device, kernel):
    items = np.array([(0.5, 1), (1.5, 2), (2.5, 3)], [("a", F), ("b", np.int32)])
    numbers = spy.Tensor.from_numpy(device, np.arange(4, dtype=F))
    result = device.create_buffer(data=np.zeros(4, np.int32))
    wide = spy.Tensor.zeros(device, (2, 4), "float")
    written = device.create_buffer(data=np.zeros(1, np.uint32))
    values = {
        "items": device.create_buffer(data=items, struct_size=8, usage=BufferUsage.shader_resource),
        "wide": wide,
        "raw": device.create_buffer(data=np.array([1, 20], np.uint32)),
        "written": written,
        "both": [
            {"first": numbers, "second": numbers.storage.device_address},
            {"first": numbers[2:], "second": None},
        ],
    }
    kernel(BUFFERS).dispatch([1, 1, 1], values, result=result)
    assert result.to_numpy().view(np.int32).tolist() == [2, 20, 3, 308]
    assert wide.to_numpy().tolist() == [[0, 0, 0, 0], [7, 7, 7, 7]]
    assert written.to_numpy().view(np.uint32).tolist() == [5]


SMALL = """
    struct Pair { float2 a; int n; }
    uniform Pair pair;
    uniform float scale;
    uniform float* address;
    RWStructuredBuffer<float4> data;
    [shader("compute")] [numthreads(1, 1, 1)]
    void main(uniform uint count) { data[0] = pair.a.x * scale + pair.n + count + address[0]; }
"""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scal", 1, r"kernel 'main' has no parameter 'scal'\nnote: did you mean 'scale'\?"),
        ("count", 1, "'count' is passed as a keyword"),
        ("scale", "x", "parameter 'scale' of type 'float' cannot be str"),
        ("scale", [1], "parameter 'scale' of type 'float' cannot be list of 1 elements"),
        ("scale", 1e60, "'scale': 1e\\+60 does not fit into 'float'"),
        ("pair", 3, "parameter 'pair' of type 'Pair' cannot be int 3"),
        ("pair", {"a": [1, 2, 3]}, "parameter 'pair.a' of type 'float2' cannot be list of 3 elements"),
        ("pair", {"a": [1, "y"]}, r"parameter 'pair.a\[1\]' of type 'float' cannot be str"),
        ("pair", {"n": 0.5}, "parameter 'pair.n' of type 'int' cannot be float 0.5"),
        ("pair", {"n": 1 << 31}, "'pair': 2147483648 does not fit into 'int'"),
        ("pair", {"b": 1}, "'pair' of type 'Pair' has no field 'b'"),
        ("pair", {"a": np.zeros(3, F)}, r"NumPy array of float32 with shape \(3,\)\nnote: an array of shape \(2,\)"),
        ("pair", {"a": np.array([0.1, 0.2])}, "pair.a: float64 values do not all fit into float32"),
        ("address", 0.5, r"parameter 'address' of type 'float\*' cannot be float 0.5"),
        ("address", "double", r"'float\*' cannot be Tensor of double with shape \(2,\)"),
        ("data", "short", "one element takes 16 bytes, the buffer has 8"),
        ("data", "read-only", "is written, and the Buffer of 64 bytes is read-only"),
        ("data", "foreign", "parameter 'data': the Buffer of 64 bytes belongs to another device"),
        ("data", "typed", "the buffer was made for elements of type double"),
        ("data", "gaps", r"the tensor has gaps: pass tensor.copy\(\)"),
        ("data", np.zeros(4, F), "pass a Buffer, as device.create_buffer"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(device, kernel, name, value, message):
    made = {
        "double": lambda: spy.Tensor.zeros(device, (2,), "double"),
        "short": lambda: device.create_buffer(size=8),
        "read-only": lambda: device.create_buffer(size=64, usage=BufferUsage.shader_resource),
        "foreign": lambda: spy.create_device(backend=device.backend).create_buffer(size=64),
        "typed": lambda: device.create_buffer(element_count=4, struct_type="double"),
        "gaps": lambda: spy.Tensor.zeros(device, (4, 8), "float")[:, :4],
    }
    values = {
        "pair": {"a": [1, 2], "n": 3},
        "scale": 2,
        "address": device.create_buffer(data=np.zeros(2, F)),
        "data": device.create_buffer(size=64),
    }
    values[name] = made[value]() if isinstance(value, str) and value in made else value
    with pytest.raises((CallError, ValueError), match=message):
        kernel(SMALL).dispatch([1, 1, 1], values, count=1)


def test_missing_parameters(device, kernel):
    small = kernel(SMALL)
    values = {"pair": {}, "scale": 1, "address": 0}
    with pytest.raises(CallError, match="parameter 'data' of type 'RWStructuredBuffer<float4>' has no value"):
        small.dispatch([1, 1, 1], values, count=1)
    with pytest.raises(CallError, match="parameter 'count' of type 'uint' has no value"):
        small.dispatch([1, 1, 1], {**values, "data": device.create_buffer(size=64)})
    with pytest.raises(CallError, match=r"parameters: kernel 'main' has no parameter 'counts'"):
        small.dispatch([1, 1, 1], values, counts=1)


def test_what_a_kernel_does_not_read_is_checked_but_may_be_missing(device, kernel):
    lazy = kernel("""
        uniform float unused;
        RWStructuredBuffer<float> seen;
        void write(RWStructuredBuffer<float> into, RWStructuredBuffer<float> not_used) { into[0] = 1; }
        uniform float3 also;
        RWStructuredBuffer<float> data;
        [shader("compute")] [numthreads(1, 1, 1)] void main() { write(data, seen); }
    """)
    data = device.create_buffer(data=np.zeros(1, F))
    lazy.dispatch([1, 1, 1], {"data": data, "unused": 2})
    assert data.to_numpy().view(F).tolist() == [1]
    with pytest.raises(CallError, match="parameter 'also' of type 'float3' cannot be int 1"):
        lazy.dispatch([1, 1, 1], {"data": data, "also": 1})


def test_blocks_keep_values_by_themselves(device, kernel):
    made = kernel(SHARED)
    data = device.create_buffer(data=np.zeros(2, F))
    block = device.create_shader_object(made.reflection["springs"])
    cursor = spy.ShaderCursor(block)
    cursor.first.length = 2.0
    cursor["first"]["ends"] = [[1, 2], [3, 4]]
    cursor.last = {"length": 5, "ends": np.zeros((2, 2), F)}
    cursor.last.ends = np.full((2, 2), 7, F)
    cursor.data = data
    made.dispatch([1, 1, 1], {"springs": block})
    assert data.to_numpy().view(F).tolist() == [6, 12]
    cursor.first.length = 3.0
    made.dispatch([1, 1, 1], {"springs": block})
    assert data.to_numpy().view(F).tolist() == [7, 12]
    with pytest.raises(
        CallError, match=r"(?s)E1017.*'ParameterBlock<Springs>' has no field 'frist'.*did you mean 'first'"
    ):
        cursor.find_field("frist")
    with pytest.raises(CallError, match=r"E1019.*have no fields"):
        device.create_shader_object(made.reflection["springs"]["data"])
    cursor.first.length = "long"
    with pytest.raises(CallError, match=r"E1019.*'springs.first.length' of type 'float' cannot be str"):
        made.dispatch([1, 1, 1], {"springs": block})


def test_elements_of_blocks_one_by_one(device, kernel):
    made = kernel("""
        struct Light { float3 color; int2 at[3]; float2x2 turn; }
        struct Scene { Light lights[2]; RWStructuredBuffer<float> data; }
        ParameterBlock<Scene> scene;

        [shader("compute")] [numthreads(1, 1, 1)]
        void main()
        {
            Light first = scene.lights[0], second = scene.lights[1];
            scene.data[0] = first.color.y + 10 * second.color.x;
            scene.data[1] = second.at[2].y + 10 * second.at[0].x + 100 * first.at[1].x;
            scene.data[2] = second.turn[1][0] + 10 * second.turn[0][1];
        }
    """)
    data = device.create_buffer(data=np.zeros(3, F))
    block = device.create_shader_object(made.reflection["scene"])
    cursor = spy.ShaderCursor(block)
    cursor.data = data
    second = cursor.lights[1]
    cursor.lights[0].color = spy.float3(1, 2, 3)
    second.color[0] = 4
    second.at[2] = [5, 6]
    second.at[0][0] = 7
    second.turn = np.array([[1, 2], [3, 4]], F)
    second.turn[1][0] = 9
    made.dispatch([1, 1, 1], {"scene": block})
    assert data.to_numpy().view(F).tolist() == [42, 76, 29]
    cursor.lights = [{"color": [1, 1, 1], "at": np.full((3, 2), 2)}, {"color": spy.float3(5)}]
    cursor.lights[0].at[1][0] = 3
    made.dispatch([1, 1, 1], {"scene": block})
    assert data.to_numpy().view(F).tolist() == [51, 300, 0]
    assert cursor.lights.has_element(1) and not cursor.lights.has_element(2)
    with pytest.raises(IndexError, match="has no element 3"):
        second.at[3]
    cursor.lights[1].at = "far"
    with pytest.raises(CallError, match=r"'scene.lights\[1\].at' of type 'int2\[3\]' cannot be str"):
        made.dispatch([1, 1, 1], {"scene": block})


SHARED = """
    struct Spring { float length; float2 ends[2]; }
    struct Springs { Spring first; Spring last; RWStructuredBuffer<float> data; }
    ParameterBlock<Springs> springs;

    [shader("compute")] [numthreads(1, 1, 1)]
    void main()
    {
        springs.data[0] = springs.first.length + springs.first.ends[1].y;
        springs.data[1] = springs.last.length + springs.last.ends[0].x;
    }
"""
