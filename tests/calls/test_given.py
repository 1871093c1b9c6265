"""Values outside of functions: what `set` and `write` say, call by call."""

import numpy as np
import pytest

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
