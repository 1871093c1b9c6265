"""Structs in memory by the names of their fields, as kernels see them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import BufferCursor, float3

PROGRAM = """
struct Inner { float2 uv; uint8_t kind; }

struct Particle
{
    half weight;
    float3 position;
    Inner inner;
    bool2 flags;
    int16_t count;
    float2x3 turn;
    int ids[3];
    Inner parts[2];
    float* next;
    double time;
    int64_t big;
}

Particle copy(Particle p) { return p; }
float2 uv(Particle p) { return p.inner.uv + p.parts[1].uv; }
void fill(inout Particle p, int i)
{
    p.position = float3(i, i + 1, i + 2);
    p.ids[2] = -i;
    p.parts[1].kind = uint8_t(i);
    p.big = int64_t(i) << 40;
}
"""
VALUE = {
    "weight": 0.5,
    "position": float3(1, 2, 3),
    "inner": {"uv": spy.float2(4, 5), "kind": 6},
    "flags": spy.bool2(True, False),
    "count": -7,
    "turn": spy.float2x3(range(6)),
    "ids": [1, 2, 3],
    "parts": [{"uv": spy.float2(1, 2), "kind": 3}, {"uv": spy.float2(4, 5), "kind": 6}],
    "next": 0,
    "time": 0.1,
    "big": 1 << 40,
}


@pytest.fixture
def module(load):
    return load(PROGRAM)


def test_kernels_see_what_is_written(device, module):
    particles = spy.Tensor.zeros(device, (3,), module.Particle)
    cursor = particles.cursor()
    cursor[1] = VALUE
    cursor[-1].write(VALUE)
    assert cursor[1].read() == VALUE
    cursor[2].inner.uv = [6, 7]
    cursor[2]["parts"][1]["uv"].x = 100
    assert not particles.to_numpy().any()
    cursor.apply()
    assert module.uv(particles).to_numpy().tolist() == [[0, 0], [8, 10], [106, 12]]
    assert module.copy(particles).cursor()[1].read() == VALUE


def test_cursors_see_what_kernels_write(device, module):
    particles = spy.Tensor.zeros(device, (4,), module.Particle)
    cursor = particles.cursor()
    assert not cursor.is_loaded
    assert cursor[3].big.read() == 0
    assert cursor.is_loaded
    module.fill(particles, spy.grid((4,)))
    assert cursor[3].big.read() == 0
    cursor.load()
    assert [each.big.read() for each in cursor] == [i << 40 for i in range(4)]
    assert [each.ids[2].read() for each in cursor] == [0, -1, -2, -3]
    assert [each["parts"][-1].kind.read() for each in cursor] == [0, 1, 2, 3]
    assert cursor[2].position.read() == float3(2, 3, 4)
    assert cursor[2].position.z.read() == 4
    assert cursor[2].position[1].read() == 3


def test_views_of_tensors(device, module):
    particles = spy.Tensor.zeros(device, (4, 3), module.Particle)
    view = particles[::-2, 1:]
    cursor = view.cursor()
    assert len(cursor) == view.element_count == 4
    for i, element in enumerate(cursor):
        element.count = i + 1
    cursor.apply()
    found = [[each.count.read() for each in row.cursor()] for row in particles]
    assert found == [[0, 0, 0], [0, 3, 4], [0, 0, 0], [0, 1, 2]]
    some = particles.cursor(start=4, count=2)
    assert [each.count.read() for each in some] == [3, 4]
    some[1].count = 9
    some.apply()
    assert particles[1, 2].cursor()[0].count.read() == 9
    assert view.T.cursor(1, 2)[0].count.read() == 3
    with pytest.raises(RuntimeError, match="elements 10 to 13 are not in a tensor of 12"):
        particles.cursor(10, 3)


def test_elements_that_are_no_structs(device, module):
    vectors = spy.Tensor.from_numpy(device, np.arange(6, dtype=np.float32).reshape(2, 3), dtype="float3")
    cursor = vectors.cursor()
    assert cursor[1].read() == float3(3, 4, 5)
    cursor[0].y = 10
    cursor[1] = 7
    cursor.apply()
    assert vectors.to_numpy().tolist() == [[0, 10, 2], [7, 7, 7]]
    numbers = spy.Tensor.zeros(device, (3,), "int").cursor()
    numbers[2] = 5
    assert [each.read() for each in numbers] == [0, 0, 5]


def test_buffers(device, module):
    particle = module.Particle
    buffer = device.create_buffer(element_count=5, struct_type=particle, data=None)
    buffer.clear()
    cursor = BufferCursor(particle, buffer)
    assert (cursor.element_count, cursor.size, cursor.resource) == (5, buffer.size, buffer)
    assert cursor.element_size == cursor.element_stride == buffer.struct_size
    cursor[4].count = 4
    cursor.apply()
    stride = buffer.struct_size
    part = BufferCursor(particle, buffer, 2 * stride, 3 * stride)
    assert (len(part), part[1].count.read()) == (2, 4)
    with pytest.raises(RuntimeError, match="are not in a buffer of"):
        BufferCursor(particle, buffer, 2 * stride, 4 * stride)
    for wrong in ((), (particle,), (particle, buffer, 1, 2, 3, 4)):
        with pytest.raises(TypeError, match="BufferCursor takes"):
            BufferCursor(*wrong)
    with pytest.raises(TypeError, match="buffer_resource: expected a Buffer, not int"):
        BufferCursor(particle, 3)


def test_memory_of_its_own(device, module):
    cursor = BufferCursor(spy.DeviceType.cpu, module.Particle, 2)
    assert cursor.is_loaded
    assert cursor.resource is None
    cursor[1] = VALUE
    other = BufferCursor(device_type="cpu", element_layout=module.Particle, size=2)
    other.copy_from_numpy(cursor.to_numpy())
    assert other[1].read() == VALUE
    assert other[0].read()["ids"] == [0, 0, 0]
    element = cursor[1]
    del cursor
    element.count = 5
    assert element.count.read() == 5


def test_only_what_was_written_goes_back(device, module):
    """Without `load_before_write` the rest is what it is when the copy goes back."""
    buffer = device.create_buffer(data=np.arange(8, dtype=np.int32))
    cursor = BufferCursor("int", buffer, False)
    cursor[2] = 20
    assert not cursor.is_loaded
    buffer.copy_from_numpy(np.arange(100, 108, dtype=np.int32))
    cursor.apply()
    assert buffer.to_numpy().view(np.int32).tolist() == [100, 101, 20, *range(103, 108)]
    cursor = BufferCursor("int", buffer, load_before_write=False)
    cursor[0] = -1
    assert [cursor[0].read(), cursor[1].read()] == [-1, 101]
    cursor = BufferCursor("int2", buffer, load_before_write=False)
    cursor.write_from_numpy(np.zeros((4, 1), np.int32))
    cursor.apply()
    assert buffer.to_numpy().view(np.int32).tolist() == [0, 101, 0, 103, 0, 105, 0, 107]


def test_pointers(device, module):
    numbers = spy.Tensor.from_numpy(device, np.arange(4, dtype=np.float32))
    cursor = BufferCursor("cpu", module.Particle, 1)
    place = cursor[0].next
    for value, address in (
        (numbers, numbers.storage.device_address),
        (numbers[2:], numbers.storage.device_address + 8),
        (numbers.storage, numbers.storage.device_address),
        (12345, 12345),
        (None, 0),
    ):
        place.write(value)
        assert place.read() == address
    with pytest.raises(RuntimeError, match=r"'.*next': str is no address"):
        place.write("x")


class Stands:
    def __init__(self, value):
        self.value = value

    def get_this(self):
        return self.value


class StandsForItself:
    def get_this(self):
        return self


def test_objects_that_stand_for_values(module):
    element = BufferCursor("cpu", module.Particle, 1)[0]
    element.inner = Stands(Stands({"_type": "Inner", "kind": 3}))
    element.parts = [Stands({"kind": 1}), {"kind": 2}]
    element.count = Stands(4)
    element.position = Stands([1, 2, 3])
    assert (element.inner.kind.read(), element.parts[1].kind.read(), element.count.read()) == (3, 2, 4)
    assert element.position.read() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="Expected dict with the fields of Inner, not StandsForItself"):
        element.parts = [StandsForItself(), StandsForItself()]


def test_fields_that_are_left_out_stay(module):
    element = BufferCursor("cpu", module.Particle, 1)[0]
    element.write(VALUE)
    element.write({"inner": {"kind": 9}})
    assert element.read() == VALUE | {"inner": {"uv": spy.float2(4, 5), "kind": 9}}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", 40000, "40000 is not from -32768 to 32767"),
        ("count", 1.5, r"1.5 is no int16"),
        ("count", "x", "str is no value of int16_t"),
        ("flags", [2, 0], r"takes truth values, not 2"),
        ("position", [1, 2], "2 numbers are no value of float3"),
        ("position", np.zeros((3, 1, 1)), r"an array of shape \(3, 1, 1\) is no value of float3"),
        ("position", spy.float2(1), r"an array of shape \(2,\) is no value of float3"),
        ("position", np.array([0.1, 0, 0]), "float64 values do not all fit into float32: 0.1 does not"),
        ("ids", [1, 2], r"sequence is the wrong length: 2 elements for int\[3\]"),
        ("ids", 3, "Expected list with 3 elements, not int"),
        ("inner", {"kinds": 1}, "has no field 'kinds'\nnote: did you mean 'kind'"),
        ("inner", [1, 2], "Expected dict with the fields of Inner"),
    ],
)
def test_what_does_not_fit(module, field, value, message):
    element = BufferCursor("cpu", module.Particle, 1)[0]
    with pytest.raises(RuntimeError, match=message):
        element[field] = value
    with pytest.raises(ValueError, match=message):
        setattr(element, field, value)
    assert not element.read()["count"]


def test_places_that_are_not_there(module):
    cursor = BufferCursor("cpu", module.Particle, 2)
    element = cursor[0]
    assert element.is_valid()
    assert not element.find_field("mass").is_valid()
    assert not cursor.find_element(2).is_valid()
    assert not element.ids.find_element(3).is_valid()
    assert (element.has_field("ids"), element.has_field("id"), element.ids.has_element(2)) == (
        True,
        False,
        True,
    )
    assert not hasattr(element, "mass")
    assert {"position", "read"} <= set(dir(element))
    for wrong in (lambda: cursor[2], lambda: cursor[-3], lambda: element.ids[3]):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(RuntimeError, match="has no field 'mass'"):
        element["mass"]
    for use in (
        lambda place: place.read(),
        lambda place: place.write(1),
        lambda place: place.set_data(np.zeros(1)),
    ):
        with pytest.raises(RuntimeError, match=r"there is no '\[0\].mass'"):
            use(element.find_field("mass"))
    with pytest.raises(RuntimeError, match="has no field 'mass'"):
        element.mass = 1


def test_other_types_at_the_same_place(module):
    element = BufferCursor("cpu", "uint4", 1)[0]
    element.x.reinterpret("uint16_t[2]").write([55, 67])
    assert element.x.read() == 55 + (67 << 16)
    element.reinterpret("float4").z = 1.0
    assert element.z.read() == 0x3F800000
    element.y.set_data(np.array([1, 2], np.uint16))
    assert element.y.read() == 1 + (2 << 16)
    with pytest.raises(RuntimeError, match="double4 takes more bytes than there are"):
        element.reinterpret("double4")
    with pytest.raises(RuntimeError, match="takes 4 bytes, not 8"):
        element.w.set_data(np.zeros(8, np.uint8))


def test_columns(device, module):
    particles = spy.Tensor.zeros(device, (3,), module.Particle)
    cursor = particles.cursor()
    ids = np.arange(9).reshape(3, 3)
    cursor.write_from_numpy(
        {"position": ids.astype(np.float32), "ids": ids, "inner": {"kind": np.array([1, 2, 3])}}
    )
    cursor.write_from_numpy({"turn": np.arange(18.0).reshape(3, 2, 3)})
    assert cursor[1].read()["ids"] == [3, 4, 5]
    assert cursor[2].position.read() == float3(6, 7, 8)
    assert cursor[2].turn.read() == spy.float2x3(range(12, 18))
    assert [each.inner.kind.read() for each in cursor] == [1, 2, 3]
    cursor.apply()
    assert module.uv(particles).shape == (3,)
    again = spy.Tensor.zeros(device, (3,), module.Particle).cursor()
    again.write_from_numpy(particles.to_numpy())
    assert again[1].read() == cursor[1].read()
    for data, message in (
        ({"ids": np.zeros((2, 3))}, r"First dimension of ndarray \(2, 3\) does not match the 3 elements"),
        ({"ids": np.zeros((3, 4))}, r"an array of shape \(3, 4\) has no int\[3\] for each element"),
        ({"ids": np.full((3, 3), 0.5)}, "float64 values do not all fit into int32"),
        ({"id": np.zeros(3)}, "has no field 'id'"),
        ([1, 2, 3], "Expected dict of arrays for the fields of Particle"),
        ({"ids": [1, 2, 3]}, "expected a NumPy array, not list"),
    ):
        with pytest.raises(RuntimeError, match=message):
            cursor.write_from_numpy(data)
    with pytest.raises(RuntimeError, match="has no float3 for each element"):
        cursor.write_from_numpy({"position": np.zeros((3, 2))}, unchecked_copy=False)


KINDS = ["bool", "int8_t", "int16_t", "int", "int64_t", "uint8_t", "uint16_t", "uint", "uint64_t", "half", "float", "double"]  # fmt: skip


@settings(max_examples=40)
@given(st.data())
def test_random_types(data):
    """What is written is read again, and lies where NumPy's dtype of the type says."""
    kind = data.draw(st.sampled_from(KINDS))
    form = data.draw(st.sampled_from(["", "1", "2", "3", "4", "2x2", "3x4", "[3]", "2[2]", "[2][3]"]))
    tensor = spy.Tensor.zeros(spy.create_device(), (3,), kind + form)
    shape = tensor.to_numpy().shape
    limits = {"bool": (0, 1)}.get(kind, (0 if kind[0] == "u" else -100, 100))
    array = np.array(
        data.draw(st.lists(st.integers(*limits), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    )
    array = array.reshape(shape)
    cursor = tensor.cursor()
    for i in range(3):
        cursor[i] = array[i].tolist()
    cursor.apply()
    assert np.array_equal(tensor.to_numpy(), array)
    again = tensor.cursor()
    again.write_from_numpy(array[::-1].copy())
    for i in range(3):
        assert np.array_equal(np.array(again[2 - i].read()), array[i])


def test_layouts(device, module):
    kinds = spy.TypeReflection.Kind
    layout = module.Particle.buffer_layout
    assert (layout.kind, layout.size, layout.stride, layout.alignment) == (kinds.struct, 120, 120, 8)
    assert layout.reflection.size == module.Particle.layout.size
    assert {name: each.offset for name, each in layout.fields.items()} == dict(
        zip(VALUE, module.Particle.layout.offsets)
    )
    assert [each.kind for each in layout.fields.values()] == [
        kinds.scalar, kinds.vector, kinds.struct, kinds.vector, kinds.scalar, kinds.matrix, kinds.array, kinds.array,
        kinds.pointer, kinds.scalar, kinds.scalar,
    ]  # fmt: skip
    turn, ids = layout.fields["turn"], layout.fields["ids"]
    assert (turn.row_count, turn.col_count, turn.element_type_layout.full_name) == (2, 3, "float3")
    assert (ids.element_count, ids.element_type_layout.full_name, ids.row_count) == (3, "int", 0)
    assert turn.scalar_type is spy.TypeReflection.ScalarType.float32
    cursor = spy.Tensor.zeros(device, (1,), spy.float3).cursor()
    assert (cursor.element_type_layout.kind, cursor.element_type.col_count) == (kinds.vector, 3)
    assert BufferCursor("cpu", "float2x3", 1).element_type.row_count == 2
    assert BufferCursor("cpu", module.Particle, 1).element_type_layout == layout
    assert str(spy.Tensor.zeros(device, (1,), spy.float3).dtype) == "float3"
