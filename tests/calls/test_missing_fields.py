"""A dict that lacks a field: the struct's own value, or an error with the field's name; never a silent zero."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor, ValueRef, diffPair
from slangrad.marshal.errors import CallError

TEXT = """
struct P : IDifferentiable { float a; float b = 2.0; }
struct S : IDifferentiable { float a; float b; }
struct Inner { float c = 3.0; int k = 4; }
struct N { P p; S s; Inner i; }
struct Made { float a; float b = 2.0; __init() { a = 7; b = 9; } }
[Differentiable] float p(P s) { return s.a + 10 * s.b; }
[Differentiable] float s(S s) { return s.a + 10 * s.b; }
float n(N n) { return n.p.a + 10 * n.p.b + 100 * n.s.a + 1000 * n.s.b + 10000 * n.i.c; }
float made(Made s) { return s.a + 10 * s.b; }
void fill(out S s) { s.a = 1; s.b = 2; }
void change(inout S s) { s.a += s.b; }
float of_vector(float3 v) { return v.x + v.y; }
float of_array(P ps[2]) { return ps[0].b + ps[1].b; }
int overloaded(S s) { return 1; }
int overloaded(Inner s) { return 2; }
uniform S given;
float of_given(float x) { return given.b * x; }
"""
X = np.arange(3, dtype=np.float32)


@pytest.fixture
def module(device):
    return spy.Module.load_from_source(device, "missing_fields", TEXT)


def test_fields_with_a_value_of_their_own(module):
    assert module.p({"a": 1.0}) == 21
    assert module.p({"a": X}).to_numpy().tolist() == [20, 21, 22]
    assert module.n({"p": {"a": 1.0}, "s": {"a": 1.0, "b": 1.0}}) == 31121
    assert module.n({"p": {"a": X}, "s": {"a": 1.0, "b": 1.0}}).to_numpy().tolist() == [31120, 31121, 31122]
    assert module.of_array([{"a": 1.0}, {"a": 1.0, "b": 5.0}]) == 7
    assert module.made({"a": 1.0}) == 91  # its constructor, as Slang's {} calls it
    assert module.overloaded({"c": 1.0}) == 2


def test_gradients_beside_such_fields(module):
    pair = diffPair(1.0)
    module.p.bwds({"a": pair})
    assert pair.grad == 1
    assert module.p.fwds({"a": diffPair(1.0, 2.0)}).grad == 2
    assert spy.grad(module.p)({"a": 1.0}) == {"a": 1}


def test_missing_fields_are_named(device, module):
    tensor = Tensor.zeros(device, (2,), "float").with_grads()
    rows = [
        (module.s, {"a": 1.0}, "argument 's': the dict lacks the field 'b' of 'S'"),
        (module.s, {"a": X}, "the dict lacks the field 'b' of 'S'"),
        (module.s, {"a": tensor}, "the dict lacks the field 'b' of 'S'"),
        (module.s, {}, "the dict lacks the fields 'a', 'b' of 'S'"),
        (module.s, {"a": 1.0, "_type": "S"}, "the dict lacks the field 'b' of 'S'"),
        (module.s, [{"a": 1.0, "b": 2.0}, {"a": 1.0}], "the dict lacks the field 'b' of 'S'"),
        (module.s, ValueRef({"a": 1.0}), "the dict lacks the field 'b' of 'S'"),
        (module.p, [{"a": 1.0}], "the dict lacks the field 'b' of 'P'"),
        (module.p, {"b": 1.0}, "the dict lacks the field 'a' of 'P'"),
        (module.n, {"p": {"a": 1.0}, "s": {"a": 1.0}}, "argument 'n.s': the dict lacks the field 'b' of 'S'"),
        (module.n, {"p": {"a": 1.0}}, "the dict lacks the field 's' of 'N'"),
        (module.change, {"a": tensor}, "the dict lacks the field 'b' of 'S'"),
        (module.of_vector, {"x": 1.0}, "the dict lacks the fields 'y', 'z' of 'float3'"),
        (
            module.of_array,
            [{"a": 1.0}, {"b": 1.0}],
            r"argument 'ps\[1\]': the dict lacks the field 'a' of 'P'",
        ),
        (module.overloaded, {"a": 1.0}, "the dict lacks the field 'b' of 'S'"),
    ]
    for function, value, message in rows:
        with pytest.raises(CallError, match=message) as caught:
            function(value)
        assert caught.value.code == "E1001"
    with pytest.raises(CallError, match="the dict lacks the field 'b' of 'S'"):
        module.s.bwds({"a": tensor})
    with pytest.raises(CallError, match="'given': the dict lacks the field 'b' of 'S'"):
        module.of_given.set(given={"a": 1.0})(1.0)


def test_outputs_may_be_taken_in_part(device, module):
    a = Tensor.zeros(device, (2,), "float")
    module.fill({"a": a})
    assert a.to_numpy().tolist() == [1, 1]


def test_the_value_of_a_field_is_no_tangent(module):
    """Where a part has no derivative it is zero, though the type's fields begin with something else."""
    assert module.p.fwds({"a": diffPair(1.0, 1.0), "b": 5.0}).grad == 1
    assert spy.jvp(module.p, ({"a": 1.0, "b": 5.0},), ({"a": 1.0, "b": 0.0},))[1] == 1
