"""What calls return and write."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor

F = np.float32


def test_values_of_a_call_without_dimensions(load):
    module = load("""
        struct P { int x; float2 at; }
        bool large(float x) { return x > 2; }
        P make(int x) { P p; p.x = x; p.at = float2(1, 2); return p; }
        float[2] pair(float x) { float r[2]; r[0] = x; r[1] = -x; return r; }
        uint64_t big() { return 1ull << 40; }
        void nothing(float x) {}
    """)
    assert module.large(3.0) is True
    assert module.make(4) == {"x": 4, "at": spy.float2(1, 2)}
    assert module.pair(1.5) == [1.5, -1.5]
    assert module.big() == 1 << 40
    assert module.nothing(1.0) is None


def test_results_by_kind(device, load):
    module = load("float3 along(float x) { return float3(x, 0, 1); }")
    x = np.arange(2, dtype=F)
    made = module.along(x)
    assert isinstance(made, Tensor)
    assert made.shape == (2,)
    assert made.dtype.name == "float3"
    array = module.along(x, _result="numpy")
    assert isinstance(array, np.ndarray)
    assert array.tolist() == [[0, 0, 1], [1, 0, 1]]
    assert module.along.return_type(np.ndarray)(x).tolist() == array.tolist()
    assert module.along.return_type(Tensor)(x).to_numpy().tolist() == array.tolist()
    assert module.along.return_type("tensor")(1.0).shape == (1,)


def test_numpy_results_have_the_dtype_of_the_function(load):
    module = load("bool large(float x) { return x > 1; } half down(float x) { return half(x); }")
    assert module.large(np.arange(3, dtype=F), _result="numpy").dtype == np.bool_
    assert module.down(np.arange(3, dtype=F), _result="numpy").dtype == np.float16


def test_results_into_what_is_given(device, load):
    module = load("float square(float x) { return x * x; }")
    x = np.arange(4, dtype=F)
    tensor = Tensor.zeros(device, (4,), "float")
    assert module.square(x, _result=tensor) is tensor
    assert tensor.to_numpy().tolist() == [0, 1, 4, 9]
    array = np.zeros((2, 4), F)
    assert module.square(x, _result=array) is array
    assert array.tolist() == [[0, 1, 4, 9]] * 2
    ref = spy.floatRef()
    assert module.square(3.0, _result=ref) == 9.0
    assert ref.value == 9.0


def test_a_given_result_can_define_the_call(device, load):
    module = load("float same(float x) { return x; }")
    result = Tensor.zeros(device, (16,), "float")
    module.same(spy.rand_float(5, 6), _result=result)
    values = result.to_numpy()
    assert ((values >= 5) & (values < 6)).all()
    assert len(set(values.tolist())) == 16


def test_a_smaller_output_is_written_many_times(load):
    module = load("int same(int x) { return x; }")
    ref = spy.intRef()
    module.same(np.full(20, 7, np.int32), _result=ref)
    assert ref.value == 7


def test_unknown_results(load):
    module = load("struct S { int x; } float same(float x) { return x; } S make(int x) { return { x }; }")
    with pytest.raises(CallError, match="Unknown return type 'foo'"):
        module.same(1.0, _result="foo")
    with pytest.raises(CallError, match="Unknown return type 'foo'"):
        module.same.return_type("foo")
    with pytest.raises(CallError, match="a torch tensor cannot hold results of type 'S'"):
        module.make(np.arange(3, dtype=np.int32), _result="torch")


def test_results_must_fit(device, load):
    module = load("float same(float x) { return x; }")
    with pytest.raises(CallError, match="cannot hold results of type 'float'"):
        module.same(1.0, _result=Tensor.zeros(device, (1,), "int"))
    with pytest.raises(CallError, match="cannot receive values"):
        module.same(1.0, _result=np.zeros(1, np.int32))
    with pytest.raises(CallError, match="read-only"):
        read_only = np.zeros(1, F)
        read_only.flags.writeable = False
        module.same(1.0, _result=read_only)


def test_out_and_inout_parameters(device, load):
    module = load("""
        void add(int a, int b, out int c) { c = a + b; }
        void grow(inout int x) { x += 10; }
        void stretch(inout float3 v) { v *= 2; }
    """)
    c = spy.intRef()
    module.add(5, 10, c)
    assert c.value == 15
    out = Tensor.zeros(device, (3,), "int")
    module.add(np.arange(3, dtype=np.int32), 10, out)
    assert out.to_numpy().tolist() == [10, 11, 12]
    values = np.arange(3, dtype=np.int32)
    module.grow(values)
    assert values.tolist() == [10, 11, 12]
    v = spy.ValueRef(spy.float3(1, 2, 3))
    module.stretch(v)
    assert v.value == spy.float3(2, 4, 6)


def test_outputs_with_gaps_in_their_elements(load):
    module = load("void stretch(inout float3 v) { v *= 2; }")
    values = np.arange(12, dtype=F).reshape(3, 4).T
    wanted = (2 * values).tolist()
    module.stretch(values)
    assert values.tolist() == wanted


def test_struct_outputs(device, load):
    module = load("""
        struct P { int x; float y; }
        void step(inout P p) { p.x += 1; p.y *= 2; }
    """)
    ref = spy.ValueRef({"x": 5, "y": 1.5})
    module.step(ref)
    assert ref.value == {"x": 6, "y": 3.0}
    x = np.arange(3, dtype=np.int32)
    y = Tensor.from_numpy(device, np.ones(3, F))
    module.step({"x": x, "y": y})
    assert x.tolist() == [1, 2, 3]
    assert y.to_numpy().tolist() == [2, 2, 2]


def test_plain_values_beside_containers_stay(device, load):
    module = load("""
        struct P { float2 at; float2 speed; [mutating] void step(float t) { at += t * speed; } }
        P make(float x) { P p; p.at = float2(x, x); p.speed = float2(9, 9); return p; }
    """)
    at = Tensor.zeros(device, (2,), "float2")
    points = {"at": at, "speed": spy.float2(1, 2)}
    module.P.step(points, 0.5)
    assert at.to_numpy().tolist() == [[0.5, 1], [0.5, 1]]
    module.make(np.array([3, 4], F), _result=points)
    assert at.to_numpy().tolist() == [[3, 3], [4, 4]]
    assert points["speed"] == spy.float2(1, 2)
    with pytest.raises(CallError, match="cannot receive"):
        module.P.step({"at": spy.float2(0, 0), "speed": spy.float2(1, 2)}, 0.5)


def test_a_number_cannot_receive_an_output(load):
    module = load("void add(int a, out int c) { c = a; }")
    with pytest.raises(CallError, match="argument 'c': int cannot receive") as caught:
        module.add(1, 2)
    assert "ValueRef" in str(caught.value)


def test_an_inout_value_that_calls_share_is_refused(load):
    module = load("void count(float x, inout int n) { n += 1; }")
    with pytest.raises(CallError, match="4 calls would read and write the same memory") as caught:
        module.count(np.zeros(4, F), spy.intRef())
    assert caught.value.code == "E1008"
    n = spy.intRef(1)
    module.count(1.0, n)
    assert n.value == 2


def test_overlapping_memory(load):
    module = load(
        "float next(float x) { return x + 1; } void both(float x, out float a, out float b) { a = b = x; }"
    )
    values = np.arange(6, dtype=F)
    module.next(values, _result=values)
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    module.next(values[:-1], _result=values[1:])
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    module.next(values[::-1], _result=values)
    assert values.tolist() == [7, 6, 5, 4, 3, 2]
    module.next(values[:1], _result=values)
    assert values.tolist() == [8] * 6
    with pytest.raises(CallError, match="'a' and 'b' overlap") as caught:
        module.both(1.0, values, values)
    assert caught.value.code == "E1008"


def test_an_input_tensor_that_is_also_the_output(device, load):
    module = load("float shifted(int i, ITensor<float, 1> t) { return t[(i + 1) % 5]; }")
    t = Tensor.from_numpy(device, np.arange(5, dtype=F))
    module.shifted(spy.grid((5,)), t, _result=t)
    assert t.to_numpy().tolist() == [1, 2, 3, 4, 0]


def test_empty_calls(load):
    module = load("float3 same(float3 v) { return v; }")
    made = module.same(np.zeros((0, 3), F))
    assert made.shape == (0,)
    assert module.same(np.zeros((4, 0, 3), F), _result="numpy").shape == (4, 0, 3)


def test_results_in_containers_of_wider_numbers(device, load):
    module = load(
        "int i(int x) { return x; } uint2 u(int x) { return uint2(x, 1); } float f(float x) { return x; } bool b(int x) { return x > 1; }"
    )
    x = np.array([1, 2], np.int32)
    for function, dtype in (
        ("i", "float"),
        ("i", "uint"),
        ("i", "double"),
        ("i", "int64_t"),
        ("b", "int"),
        ("b", "float"),
    ):
        found = Tensor.zeros(device, (2,), dtype)
        module[function](x, _result=found)
        assert found.to_numpy().tolist() == ([1, 2] if function == "i" else [0, 1])
    array = np.zeros((2, 2))
    assert module.u(x, _result=array) is array and array.tolist() == [[1, 1], [2, 1]]
    for function, dtype in (("f", "int"), ("f", "half"), ("i", "int16_t"), ("i", "bool")):
        with pytest.raises(CallError, match="cannot hold results of type"):
            module[function](1, _result=Tensor.zeros(device, (2,), dtype))


def test_wider_results_take_no_cotangents(device, load):
    module = load("[Differentiable] float f(float x) { return x * x; }")
    wide = Tensor.zeros(device, (2,), "double").with_grads()
    module.f(np.ones(2, np.float32), _result=wide)
    assert wide.to_numpy().tolist() == [1, 1]
    with pytest.raises(CallError, match="cannot hold results of type 'float'"):
        module.f.bwds(Tensor.zeros(device, (2,), "float").with_grads(), _result=wide)


TUPLES = """
    namespace inner { struct Pair { float a; int b; } }
    struct Whole { Tuple<float2, int> pair; float rest; }
    Tuple<float, int> parts(float x) { return makeTuple(x, int(x)); }
    Tuple<float, Tuple<int, inner::Pair>> nested(float x) { return makeTuple(x, makeTuple(3, inner::Pair(x, 4))); }
    Whole whole(float x) { return Whole(makeTuple(float2(x, 1), 3), 7); }
    float first(Tuple<float, int> pair) { return pair._0 + pair._1; }
    Tuple<> nothing(float x) { return Tuple<>(); }
"""


def test_tuples_are_results(load):
    module = load(TUPLES)
    assert module.parts(2.5) == {"_0": 2.5, "_1": 2}
    assert module.nested(1.5) == {"_0": 1.5, "_1": {"_0": 3, "_1": {"a": 1.5, "b": 4}}}
    assert module.whole(2.0) == {"pair": {"_0": spy.float2(2, 1), "_1": 3}, "rest": 7}
    table = module.parts(np.array([1, 2.5], F), _result="numpy")
    assert table.dtype.names == ("_0", "_1") and table.tolist() == [(1, 1), (2.5, 2)]
    pairs = module.parts(np.array([1, 2.5], F))
    assert module.first(pairs, _result="numpy").tolist() == [2, 4.5]
    with pytest.raises(CallError, match=r"E1011.*values of type '\(\)' cannot be returned"):
        module.nothing(1.0)
