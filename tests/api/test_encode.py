"""Values of random types are the same, and the same bytes, whatever way they go into memory and out of it."""

import random
from itertools import count

import numpy as np
import pytest

import slangrad as spy
from slangrad.ir.data import types as ir
from slangrad.marshal.host.encode import decode, encode, memory_format
from slangrad.marshal.host.vectors import matrix_class, vector_class
from slangrad.tensors.elements.element_types import NUMPY_TYPES, structured_dtype
from tests.test_abi import LAYOUTS, ORDERS, SCALARS

NUMBERS = count()


def declarations(rng, amount):
    """Structs of which each may hold those before it; their names and text."""
    names, lines = [], ["enum Color : uint8_t { red = 1, green = 5 }"]
    for i in range(amount):
        fields = " ".join(field(rng, names, k) for k in range(rng.randint(2, 6)))
        names.append(f"S{i}")
        lines.append(f"struct S{i} {{ {fields} }}")
    return names, lines


def field(rng, names, k):
    kind, order = rng.choice(SCALARS), ""
    choice = rng.randrange(7)
    if choice in (1, 2):
        kind = f"{kind}{rng.randint(1, 4)}"
    elif choice in (3, 4):
        order, kind = rng.choice(ORDERS), f"{kind}{rng.randint(2, 4)}x{rng.randint(2, 4)}"
    elif choice == 5 and names:
        kind = rng.choice(names)
    elif choice == 6:
        kind = "Color"
    sizes = "".join(f"[{rng.randint(1, 3)}]" for _ in range(rng.choice((0, 0, 1, 2))))
    return f"{order}{kind} f{k}{sizes};"


def number(rng, t):
    """A number that its type holds exactly, often one at the ends of its range."""
    if t is ir.BOOL:
        return rng.random() < 0.5
    if ir.is_float(t):
        return float(NUMPY_TYPES[t].type(rng.choice((0.0, -0.5, 1024.25, rng.uniform(-9, 9)))))
    lowest, highest = int(np.iinfo(NUMPY_TYPES[t]).min), int(np.iinfo(NUMPY_TYPES[t]).max)
    return rng.choice((lowest, highest, 0, 1, rng.randint(lowest, highest)))


def value(rng, t):
    """A value as `decode` gives it, by the type that is computed with."""
    t = ir.value_of(t)
    if isinstance(t, ir.Struct):
        return {name: value(rng, part) for name, part in t.fields}
    if isinstance(t, ir.Array):
        return [value(rng, t.element) for _ in range(t.length)]
    if isinstance(t, ir.Vector):
        return vector_class(t.element, t.length)([number(rng, t.element) for _ in range(t.length)])
    if isinstance(t, ir.Matrix):
        return matrix_class(t.element, t.rows, t.columns)(
            [number(rng, t.element) for _ in range(t.rows * t.columns)]
        )
    return number(rng, t)


def as_lists(v):
    """The same without host vectors: lists of numbers."""
    if isinstance(v, dict):
        return {name: as_lists(each) for name, each in v.items()}
    if isinstance(v, list):
        return [as_lists(each) for each in v]
    return v.to_numpy().tolist() if hasattr(v, "to_numpy") else v


def as_record(t, v):
    """The value as an element of a structured array whose dtype is that of the type."""
    record = np.zeros((), structured_dtype(t))

    def fill(target, t, v):
        for name, part in t.fields:
            if isinstance(ir.value_of(part), ir.Struct):
                fill(target[name], part, v[name])
            elif structured_dtype(part).base.names is None:
                target[name] = as_lists(v[name])
            else:
                for at, each in leaves(v[name]):
                    fill(target[name][at], innermost(part), each)

    fill(record, t, v)
    return record


def innermost(t):
    return innermost(t.element) if isinstance(t, ir.Array) else t


def leaves(v):
    """What nested lists hold, with their indices."""
    if not isinstance(v, list):
        return [((), v)]
    return [((i, *at), each) for i, part in enumerate(v) for at, each in leaves(part)]


def holds_columns(t):
    return ir.contains(t, lambda part: isinstance(part, ir.Matrix) and part.transposed)


def kernel(module, name):
    program = module.device.link_program([module.device_module], [module.device_module.entry_point(name)])
    return module.device.create_compute_kernel(program)


@pytest.mark.parametrize("seed", range(2))
def test_all_ways_agree(device, seed):
    """Calls, cursors, parameters, buffers and structured arrays."""
    rng = random.Random(seed)
    names, lines = declarations(rng, 3)
    for name in names:
        lines.append(f"{name} same{name}({name} v) {{ return v; }}")
        lines.append(
            f'[shader("compute")] [numthreads(1, 1, 1)] '
            f"void put{name}(uniform {name} v, RWStructuredBuffer<{name}> to) {{ to[0] = v; }}"
        )
    module = spy.Module.load_from_source(device, f"encode{next(NUMBERS)}", "\n".join(lines))
    for name in names:
        t = getattr(module, name).ir_type
        v = value(rng, t)
        size = memory_format(t).size
        data = memory_format(t).pack(*encode(t, v, "v"))
        assert decode(t, data) == v
        assert memory_format(t).pack(*encode(t, as_lists(v), "v")) == data
        same = getattr(module, f"same{name}")
        assert same(v) == v
        tensor = spy.Tensor.zeros(device, (2,), getattr(module, name))
        cursor = tensor.cursor()
        cursor[1] = as_lists(v)
        assert cursor[1].read() == v
        assert cursor.to_numpy()[size:].tobytes() == data
        cursor.apply()
        assert same(tensor).cursor()[1].read() == v
        assert same([v, v]).cursor()[1].read() == v
        made = kernel(module, f"put{name}")
        for given in (v, as_lists(v)):
            buffer = device.create_buffer(data=np.zeros(size, np.uint8))
            made.dispatch([1, 1, 1], v=given, to=buffer)
            assert decode(t, buffer.to_numpy()) == v
        if not holds_columns(t):
            record = as_record(t, v)
            assert record.tobytes() == data
            again = spy.Tensor.from_numpy(device, np.array([record, record]), dtype=getattr(module, name))
            assert again.cursor()[1].read() == v


@pytest.mark.parametrize("seed", range(2))
def test_forms_by_other_rules(device, seed):
    """A kernel copies a value from the layout of C to another one: the host reads it there, and writes the same."""
    rng = random.Random(seed)
    names, lines = declarations(rng, 2)
    rows = [(name, layout) for name in names for layout in LAYOUTS[1:]]
    for i, (name, layout) in enumerate(rows):
        lines.append(
            f'[shader("compute")] [numthreads(1, 1, 1)] void put{i}(uniform {name} v, '
            f"RWStructuredBuffer<{name}, {layout}> to, RWStructuredBuffer<{name}> back) "
            "{ to[1] = v; back[0] = to[0]; }"
        )
    module = spy.Module.load_from_source(device, f"encode{next(NUMBERS)}", "\n".join(lines))
    for i, (name, layout) in enumerate(rows):
        made = kernel(module, f"put{i}")
        t = getattr(module, name).ir_type
        slot = made.pipeline.parameters["to"]
        form = slot.uniform.form.fields[0][1].element
        size, first, second = memory_format(form).size, value(rng, t), value(rng, t)
        start = memory_format(form).pack(*encode(form, first, "first"))
        assert decode(form, start) == first, (lines, name, layout)
        buffer = device.create_buffer(data=np.frombuffer(start + bytes(size), np.uint8).copy())
        back = device.create_buffer(data=np.zeros(memory_format(t).size, np.uint8))
        made.dispatch([1, 1, 1], v=second, to=buffer, back=back)
        assert decode(form, buffer.to_numpy(), size) == second, (lines, name, layout)
        assert decode(t, back.to_numpy()) == first, (lines, name, layout)


def test_arrays_of_numpy_by_columns(device):
    """An array of matrices that lie by columns is written by rows, as one array of NumPy's, in each way."""
    text = """
        struct P { column_major float2x3 turns[2]; }
        [shader("compute")] [numthreads(1, 1, 1)] void put(uniform P v, RWStructuredBuffer<P> to) { to[0] = v; }
    """
    module = spy.Module.load_from_source(device, f"encode{next(NUMBERS)}", text)
    array = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    cursor = spy.Tensor.zeros(device, (2,), module.P).cursor()
    cursor[0].turns = array
    cursor.write_from_numpy({"turns": np.stack([array, array])})
    buffer = device.create_buffer(data=np.zeros(48, np.uint8))
    kernel(module, "put").dispatch([1, 1, 1], v={"turns": array}, to=buffer)
    data = cursor.to_numpy().tobytes()
    assert data == 2 * buffer.to_numpy().tobytes()
    assert data[:48] == array.transpose(0, 2, 1).tobytes()


def test_structs_with_room_behind_them(device):
    """The rules without gaps leave room behind a struct in an array only."""
    text = """
        struct Q { double a; float b; }
        [shader("compute")] [numthreads(1, 1, 1)]
        void sum(StructuredBuffer<Q, ScalarDataLayout> qs, RWStructuredBuffer<double> to) { to[0] = qs[1].a + qs[1].b; }
    """
    module = spy.Module.load_from_source(device, f"encode{next(NUMBERS)}", text)
    made, to = kernel(module, "sum"), device.create_buffer(data=np.zeros(1))
    form = made.pipeline.parameters["qs"].uniform.form.fields[0][1].element
    cursor = spy.BufferCursor("cpu", form, 2)
    cursor[1] = {"a": 1.5, "b": 2}
    cursor[1].b = 3
    made.dispatch([1, 1, 1], qs=device.create_buffer(data=cursor.to_numpy()), to=to)
    assert to.to_numpy().view(np.float64).tolist() == [4.5]
    assert cursor[1].read() == {"a": 1.5, "b": 3}
    cursor.write_from_numpy({"b": np.array([5, 6])})
    assert [each.b.read() for each in cursor] == [5, 6]


def test_structured_arrays_of_other_offsets(device):
    """Fields of NumPy's may lie elsewhere, those of structs in arrays, too."""
    text = "struct In { uint8_t k; double d; } struct Out { In parts[2]; float x; }"
    module = spy.Module.load_from_source(device, f"encode{next(NUMBERS)}", text)
    packed = np.zeros(3, [("parts", [("k", np.uint8), ("d", np.float64)], (2,)), ("x", np.float32)])
    packed["parts"]["d"] = np.arange(6).reshape(3, 2)
    packed["x"] = 7
    tensor = spy.Tensor.from_numpy(device, packed, dtype=module.Out)
    assert tensor.cursor()[2].read() == {"parts": [{"k": 0, "d": 4.0}, {"k": 0, "d": 5.0}], "x": 7.0}
