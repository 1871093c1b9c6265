"""Values outside of functions: what `set` and `write` say, call by call."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor

F = np.float32

OUTSIDE = """
    struct Curve { float gain; float2 shift; }
    ParameterBlock<Curve> curve;
    uniform int steps;
    StructuredBuffer<float> table;
    float apply(float x) { return x * curve.gain + curve.shift.x + curve.shift.y * steps; }
    float look(int i) { return table[i] * steps; }
"""
CURVE = {"curve": {"gain": 2, "shift": [1, 10]}}


def test_a_callable_is_asked_once_in_each_call(load):
    asked = iter(range(1, 9))
    counted = load(OUTSIDE).apply.set(CURVE).set(lambda: {"steps": next(asked)})
    assert [counted(0.0) for _ in range(3)] == [11, 21, 31]


def test_a_callable_with_a_parameter_is_told_the_function(load):
    module = load(OUTSIDE)
    told = []
    module.apply.set(CURVE).set(lambda function: told.append(function) or {"steps": 1})(0.0)
    assert [(each.name, each.module) for each in told] == [("apply", module)]


def test_a_function_writes_to_a_cursor(device, load):
    module = load(OUTSIDE)

    def fill(cursor, gain, steps=0):
        cursor.write({"curve": {"shift": [1, 10]}})
        cursor.curve.gain = gain
        cursor["steps"] = steps

    assert module.apply.write(fill, 3, steps=2)(1.0) == 3 + 1 + 20
    assert module.apply.write(fill, 3)(np.array([1, 2], F)).to_numpy().tolist() == [4, 7]
    table = Tensor.from_numpy(device, np.array([5, 6], F))
    look = module.look.write(lambda cursor: cursor.find_field("table").write(table)).set(steps=2)
    assert look(np.array([1, 0], np.int32)).to_numpy().tolist() == [12, 10]


def test_later_values_win_field_by_field(load):
    module = load(OUTSIDE)
    changed = (
        module.apply.set(
            CURVE,
        )
        .set(steps=1)
        .set({"curve": {"gain": 5}})
    )
    assert changed(1.0) == 5 + 1 + 10
    assert changed.write(lambda cursor: cursor.curve.write({"shift": [0, 0]}))(1.0) == 5
    assert changed(1.0) == 16


def test_what_a_cursor_knows(load):
    def look(cursor):
        assert cursor.has_field("curve") and not cursor.has_field("curves")
        assert cursor.curve.dereference().has_field("gain") and not hasattr(cursor.curve, "loss")
        assert cursor.is_valid() and not cursor.curve.has_element(0)
        cursor.write(CURVE | {"steps": 0})

    assert load(OUTSIDE).apply.write(look)(1.0) == 3


def test_what_a_cursor_refuses(load):
    apply = load(OUTSIDE).apply
    with pytest.raises(CallError, match="write requires a callable, not int"):
        apply.write(42)
    with pytest.raises(CallError, match="the module has no value or field 'curves'"):
        apply.write(lambda cursor: cursor.find_field("curves"))(1.0)
    with pytest.raises(CallError, match="'curve' has no value or field 'loss'"):
        apply.write(lambda cursor: cursor["curve"].__setitem__("loss", 1))(1.0)
    with pytest.raises(CallError, match="single elements cannot be written in calls"):
        apply.write(lambda cursor: cursor["curve"][0])(1.0)
    with pytest.raises(CallError, match="pass a dict with the values"):
        apply.write(lambda cursor: cursor.write(3))(1.0)
    with pytest.raises(CallError, match="the module's value 'steps' is not set"):
        apply.write(lambda cursor: cursor.write(CURVE))(1.0)


MEMORY = """
    import "slangpy";
    struct Table { float scale; StructuredBuffer<float> values; RWTensor<float, 1> seen; float weights[3]; }
    ParameterBlock<Table> block;
    Table plain;
    StructuredBuffer<float> pair[2];
    uniform float numbers[3];
    uniform float2x3 rows;
    float look(int i) { block.seen[i] = 10 * i; return block.scale * block.values[i] + block.weights[i]; }
    float lookPlain(int i) { return plain.scale * plain.values[i] + plain.weights[i]; }
    float second(int i) { return 10 * pair[0][i] + pair[1][i]; }
    float count(int i) { return numbers[i] + 10 * rows[1][i]; }
"""


@pytest.fixture
def table(device):
    values = device.create_buffer(data=np.array([5, 6, 7], F), struct_size=4)
    seen = Tensor.zeros(device, (3,), "float")
    return {"scale": 2, "values": values, "seen": seen, "weights": np.array([1, 2, 3], F)}


def test_structs_with_memory_in_them(load, table):
    module, at = load(MEMORY), np.arange(3, dtype=np.int32)
    assert module.look.set(block=table)(at, _result="numpy").tolist() == [11, 14, 17]
    assert table["seen"].to_numpy().tolist() == [0, 10, 20]
    assert module.lookPlain.set({"plain": {**table, "weights": [0, 0, 1]}})(at, _result="numpy").tolist() == [
        10,
        12,
        15,
    ]

    def fill(cursor):
        cursor.block.write(table)
        cursor.block.scale = 3

    assert module.look.write(fill)(2) == 24


def test_what_is_set_is_looked_at_in_each_call(device, load, table):
    look = load(MEMORY).look.set(lambda: {"block": table})
    assert look(0) == 11
    table["weights"][0] = 100
    table["values"] = device.create_buffer(data=np.array([1, 2, 3, 4], F), struct_size=4)
    table["scale"] = 4.0
    assert (look(0), look(2)) == (104, 15)


def test_arrays_of_buffers(device, load):
    first, second = (
        device.create_buffer(data=np.array(each, F), struct_size=4) for each in ([1, 2], [3, 4, 5])
    )
    assert load(MEMORY).second.set(pair=[first, second])(
        np.arange(2, dtype=np.int32), _result="numpy"
    ).tolist() == [13, 24]


def test_arrays_are_values(device, load):
    count = load(MEMORY).count
    numbers, rows = np.array([1, 2, 3], F), np.arange(6, dtype=F).reshape(2, 3)
    at = np.arange(3, dtype=np.int32)
    wanted = [31, 42, 53]
    assert count.set(numbers=numbers, rows=rows)(at, _result="numpy").tolist() == wanted
    assert (
        count.set(numbers=numbers.astype(np.float64), rows=rows.astype(int))(at, _result="numpy").tolist()
        == wanted
    )
    tensor = Tensor.from_numpy(device, rows.T.copy()).T
    assert count.set(numbers=numbers[::-1][::-1], rows=tensor)(at, _result="numpy").tolist() == wanted
    with pytest.raises(
        CallError, match=r"in shape \(4,\) the end, \(4,\), does not match the expected shape \(3,\)"
    ):
        count.set(numbers=np.zeros(4, F), rows=rows)(at)
    with pytest.raises(CallError, match=r"0\.1 does not"):
        count.set(numbers=np.array([0.1, 0, 0]), rows=rows)(at)


def test_what_structs_with_memory_cannot_hold(device, load, table):
    look = load(MEMORY).look
    with pytest.raises(CallError, match=r"block.*field 'scale'"):
        look.set(block={**table, "scale": table["values"]})(0)
    other = spy.create_device(backend=device.backend)
    with pytest.raises(CallError, match="lies on another device"):
        look.set(block={**table, "seen": Tensor.zeros(other, (3,), "float")})(0)
    x = table["seen"]
    x.copy_from_numpy(np.array([2, 1, 0], F))
    double = load(MEMORY + "float both(float x) { block.seen[2 - int(x)] = -1; return x; }").both
    assert double.set(block=table)(x, _result="numpy").tolist() == [2, 1, 0]  # inputs are read before
