"""Kernels that users write: compiled, given their parameters by name, launched over groups of threads."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Options
from slangrad.llvm.machine.target import LANES
from slangrad.marshal.errors import CallError

F = np.float32


def floats(buffer):
    return buffer.to_numpy().view(F).tolist()


def test_a_kernel(device, kernel):
    scaled = kernel("""
        RWStructuredBuffer<float> data;
        uniform float factor;

        [shader("compute")] [numthreads(4, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, uniform float add) { data[id.x] = data[id.x] * factor + add; }
    """)
    data = device.create_buffer(data=np.arange(8, dtype=F))
    scaled.dispatch(thread_count=[8, 1, 1], vars={"data": data, "factor": 2}, add=0.5)
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


TUPLES = """
    struct Settings { Tuple<int, float> pair; int count; }
    ConstantBuffer<Settings> settings;
    ConstantBuffer<Tuple<Texture2D<float>, SamplerState>> image;
    RWStructuredBuffer<float> result;

    [shader("compute")] [numthreads(1, 1, 1)]
    void main()
    {
        result[0] = settings.pair._0;
        result[1] = settings.pair._1;
        result[2] = settings.count;
        result[3] = image._0.SampleLevel(image._1, float2(0.5), 0);
    }
"""


def test_tuples(device, kernel):
    read = kernel(TUPLES)
    texture = device.create_texture(format=spy.Format.r32_float, width=2, data=np.array([[1, 4]], F))
    smooth = device.create_sampler()

    def run(settings, image):
        result = device.create_buffer(data=np.zeros(4, F))
        read.dispatch([1, 1, 1], vars={"settings": settings, "image": image, "result": result})
        return floats(result)

    assert run({"pair": (3, 2.5), "count": 5}, (texture, smooth)) == [3, 2.5, 5, 2.5]
    assert run({"pair": {"_1": 2.5}, "count": 5}, {"_0": texture, "_1": smooth}) == [0, 2.5, 5, 2.5]
    for pair, message in (
        ((1,), r"E1019.*settings.pair.*\n.*2 elements are needed, not 1"),
        ((1.5, 2), r"E1019.*'settings.pair._0' of type 'int' cannot be float 1.5"),
        (7, r"E1019.*settings.pair.*cannot be int 7"),
    ):
        with pytest.raises(CallError, match=message):
            run({"pair": pair, "count": 5}, (texture, smooth))
    with pytest.raises(CallError, match=r"E1019.*'image._0' of type 'Texture2D<float>' cannot be Sampler"):
        run({"pair": (1, 2)}, (smooth, texture))


def test_a_field_behind_one_that_cannot_be_set(device):
    text = """
        interface IShape { float area(); }
        struct Square : IShape { float side; float area() { return side * side + 1; } }
        struct Settings { IShape shape; int count; }
        ConstantBuffer<Settings> settings;
        RWStructuredBuffer<float> result;

        [shader("compute")] [numthreads(1, 1, 1)]
        void main() { result[0] = settings.shape.area(); result[1] = settings.count; }
    """
    module = device.load_module_from_source("behind_a_value_of_an_interface", text)
    entry = module.entry_point("main", [spy.TypeConformance("IShape", "Square")])
    read = device.create_compute_kernel(device.link_program([module], [entry]))
    result = device.create_buffer(data=np.zeros(2, F))
    read.dispatch([1, 1, 1], vars={"settings": {"count": 5}, "result": result})
    assert floats(result) == [1, 5]  # the count lay in the place of the value of the interface
    with pytest.raises(
        CallError,
        match=r"E1019.*'settings.shape' of type 'IShape' cannot be dict\n.*cannot be set from Python",
    ):
        read.dispatch([1, 1, 1], vars={"settings": {"shape": {"side": 1}, "count": 5}, "result": result})


def test_three_dimensions_and_rounding_up(device, kernel):
    data = device.create_buffer(data=np.zeros((6, 4, 8, 4), np.uint32))
    kernel(GROUPS).dispatch(thread_count=spy.uint3(5, 3, 4), vars={"data": data})
    found = data.to_numpy().view(np.uint32).reshape(6, 4, 8, 4)
    z, y, x = np.indices((6, 4, 8))
    assert (found[..., 0] == x + 100 * y + 10000 * z).all()
    assert (found[..., 1] == x // 4 + 100 * (y // 2) + 10000 * (z // 3)).all()
    assert (found[..., 2] == x % 4 + 100 * (y % 2) + 10000 * (z % 3)).all()
    assert (found[..., 3] == x % 4 + 4 * (y % 2) + 8 * (z % 3)).all()


@pytest.mark.parametrize("lanes", LANES)
def test_ids_at_every_number_of_lanes(lanes):
    device = spy.Device(options=Options(lanes=lanes, verify=True))
    module = device.load_module_from_source("groups", GROUPS)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    data = device.create_buffer(data=np.zeros((6, 4, 8, 4), np.uint32))
    kernel.dispatch([7, 4, 6], {"data": data})
    found = data.to_numpy().view(np.uint32).reshape(6, 4, 8, 4)
    z, y, x = np.indices((6, 4, 8))
    assert (found[..., 0] == x + 100 * y + 10000 * z).all()
    assert (found[..., 1] == x // 4 + 100 * (y // 2) + 10000 * (z // 3)).all()
    assert (found[..., 2] == x % 4 + 100 * (y % 2) + 10000 * (z % 3)).all()
    assert (found[..., 3] == x % 4 + 4 * (y % 2) + 8 * (z % 3)).all()


def test_many_threads_on_all_processors(device, kernel):
    count = kernel("""
        RWStructuredBuffer<uint> data;
        [shader("compute")] [numthreads(3, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, uint3 group : SV_GroupID) { data[id.x + 9000 * id.y] = group.x * 3 + id.y; }
    """)
    size = 9000 if device.backend == "cpu" else 90
    data = device.create_buffer(data=np.zeros((5, 9000), np.uint32))
    count.dispatch([size, 5, 1], {"data": data})
    found = data.to_numpy().view(np.uint32).reshape(5, 9000)[:, :size]
    y, x = np.indices((5, size))
    assert (found == x // 3 * 3 + y).all()


def test_no_threads(device, kernel):
    data = device.create_buffer(data=np.zeros(4, np.uint32))
    kernel(GROUPS).dispatch(thread_count=[0, 1, 1], vars={"data": data})
    with pytest.raises(CallError, match="thread_count: 'many' is not up to three whole numbers"):
        kernel(GROUPS).dispatch(thread_count="many", vars={"data": data})
    with pytest.raises(CallError, match="must be between 0 and 2\\^32"):
        kernel(GROUPS).dispatch(thread_count=[-1, 1, 1], vars={"data": data})


def test_recorded_launches_run_when_they_are_submitted(device, kernel):
    add = kernel("""
        RWStructuredBuffer<int> data;
        uniform int amount;

        [shader("compute")] [numthreads(1, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID) { data[id.x] += amount * int(id.x + 1); }
    """)
    data = device.create_buffer(data=np.zeros(3, np.int32))
    copy = device.create_buffer(size=12)
    encoder = device.create_command_encoder()
    add.dispatch([3, 1, 1], {"data": data, "amount": 1}, command_encoder=encoder)
    encoder.copy_buffer(copy, 4, data, 0, 8)
    encoder.clear_buffer(copy, (0, 4))
    add.dispatch([2, 1, 1], {"data": data, "amount": 10}, command_encoder=encoder)
    encoder.upload_buffer_data(data, 8, np.array([7], np.int32))
    commands = encoder.finish()
    assert data.to_numpy().view(np.int32).tolist() == [0, 0, 0]
    number = device.submit_command_buffer(commands)
    assert device.is_submit_finished(number)
    assert data.to_numpy().view(np.int32).tolist() == [11, 22, 7]
    assert copy.to_numpy().view(np.int32).tolist() == [0, 1, 2]
    with pytest.raises(CallError, match="Command encoder is finished"):
        encoder.finish()


def test_a_compute_pass_with_a_cursor(device, kernel):
    gather = kernel("""
        struct Item { float2 at; int3 counts[2]; }
        uniform Item item;
        cbuffer Scales { float scale; float3x2 turn; }
        RWStructuredBuffer<float> data;

        [shader("compute")] [numthreads(1, 1, 1)]
        void main(uniform float last)
        {
            data[0] = item.at.y * scale;
            data[1] = item.counts[1].z;
            data[2] = turn[2].x;
            data[3] = last;
        }
    """)
    data = device.create_buffer(data=np.zeros(4, F))
    encoder = device.create_command_encoder()
    with encoder.begin_compute_pass() as compute:
        cursor = spy.ShaderCursor(compute.bind_pipeline(gather.pipeline))
        cursor["data"] = data
        cursor.item.at = spy.float2(1, 2)
        cursor["item"]["counts"][1] = [4, 5, 6]
        cursor.Scales.write({"scale": 10})
        cursor.Scales.turn.set_data(np.arange(6, dtype=F))
        with pytest.raises(CallError, match="parameter 'last' of type 'float' has no value"):
            compute.dispatch([1, 1, 1])
        cursor.find_entry_point(0).write({"last": 0.5})
        compute.dispatch([1, 1, 1])
        assert cursor.has_field("item") and not cursor.has_field("items")
        assert cursor.item.counts.has_element(1) and not cursor.item.counts.has_element(2)
        with pytest.raises(CallError, match="did you mean 'item'"):
            cursor["items"] = 1
        with pytest.raises(AttributeError):
            cursor.nothing  # noqa: B018
        with pytest.raises(IndexError, match=r"'item.counts' has no element 2"):
            cursor.item.counts[2]
    device.submit_command_buffer(encoder.finish())
    assert floats(data) == [20, 6, 4, 0.5]


def test_addresses_that_were_never_written(device, kernel):
    read = kernel("""
        struct Pair { int count; float* values; }
        uniform Pair pair;
        RWStructuredBuffer<float> data;
        [shader("compute")] [numthreads(1, 1, 1)] void main() { data[0] = pair.values[pair.count]; }
    """)
    data = device.create_buffer(data=np.zeros(1, F))
    compute = device.create_command_encoder().begin_compute_pass()
    cursor = spy.ShaderCursor(compute.bind_pipeline(read.pipeline))
    cursor.data, cursor.pair.count = data, 0
    with pytest.raises(CallError, match="parameter 'pair' has no value: an address in it was not set"):
        compute.dispatch([1, 1, 1])
    cursor.pair.values = spy.Tensor.from_numpy(device, np.array([3], F))
    compute.dispatch([1, 1, 1])
    with pytest.raises(CallError, match=r"parameter 'pair.values' of type 'float\*' has no value"):
        read.dispatch([1, 1, 1], {"data": data, "pair": {"count": 0}})


def test_only_addresses_that_the_kernel_reads_need_a_value(device, kernel):
    read = kernel("""
        struct Part { RWStructuredBuffer<float> unread; float scale; StructuredBuffer<float> read; }
        struct All { Part a; Part[2] parts; ParameterBlock<Part> b; RWStructuredBuffer<float> into; }
        ParameterBlock<All> all;
        [shader("compute")] [numthreads(1, 1, 1)]
        void main() { all.into[0] = all.a.scale * all.b.read[0] + all.parts[1].read[0]; }
    """)
    into, values = device.create_buffer(data=np.zeros(1, F)), device.create_buffer(data=np.array([5], F))
    encoder = device.create_command_encoder()
    with encoder.begin_compute_pass() as compute:
        cursor = spy.ShaderCursor(compute.bind_pipeline(read.pipeline))
        cursor.all.a.scale, cursor.all.b.read, cursor.all.into = 2.0, values, into
        with pytest.raises(CallError, match="parameter 'all' has no value: an address in it was not set"):
            compute.dispatch([1, 1, 1])
        cursor.all.parts[1].read = values
        compute.dispatch([1, 1, 1])
    device.submit_command_buffer(encoder.finish())
    assert floats(into) == [15]


def test_commands_that_cannot_be(device):
    encoder = device.create_command_encoder()
    small, large = device.create_buffer(size=8), device.create_buffer(size=16)
    with pytest.raises(RuntimeError, match="dst: bytes 4 to 12 are not in a buffer of 8"):
        encoder.copy_buffer(small, 4, large, 0, 8)
    with pytest.raises(RuntimeError, match="upload would exceed the size of the destination buffer"):
        encoder.upload_buffer_data(small, 0, np.zeros(3, F))
    with pytest.raises(CallError, match="src: int is no buffer"):
        encoder.copy_buffer(small, 0, 3, 0, 8)
    compute = encoder.begin_compute_pass()
    with pytest.raises(CallError, match="no pipeline is bound"):
        compute.dispatch([1, 1, 1])
    with pytest.raises(CallError, match="a compute pass of the command encoder is open"):
        encoder.finish()
    compute.end()
    other = spy.create_device(backend=device.backend)
    with pytest.raises(CallError, match="the buffer belongs to another device"):
        encoder.clear_buffer(other.create_buffer(size=4))
    with pytest.raises(CallError, match="the command buffer belongs to another device"):
        other.submit_command_buffer(encoder.finish())
