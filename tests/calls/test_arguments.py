"""Python values as arguments."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import BoundVariableException, CallError, ResolveException, Tensor
from tests.calls.tensors import tensor

F = np.float32


def test_numbers_to_numbers(load):
    module = load("""
        int add(int a, int b) { return a + b; }
        double half_of(double x) { return x / 2; }
        float from_bool(float x) { return x; }
    """)
    assert module.add(5, 10) == 15
    assert module.add(5, False) == 5
    assert module.half_of(3) == 1.5
    assert module.from_bool(True) == 1.0


def test_numpy_scalars_are_numbers(load):
    module = load("float twice(float x) { return 2 * x; }")
    assert module.twice(np.float32(1.5)) == 3.0
    assert module.twice(np.int64(4)) == 8.0


def test_a_number_fills_a_vector(load):
    module = load("float3 same(float3 v) { return v; }")
    assert module.same(2.0) == spy.float3(2, 2, 2)


def test_vectors_and_matrices(load):
    module = load("""
        float3 scale(float3 v, float s) { return v * s; }
        float2x3 make(float2x3 m) { return m * 2; }
    """)
    assert module.scale(spy.float3(1, 2, 3), 2) == spy.float3(2, 4, 6)
    assert module.make(spy.float2x3(1, 2, 3, 4, 5, 6)) == spy.float2x3(2, 4, 6, 8, 10, 12)


def test_a_vector_to_a_number_is_a_call_for_each_component(load):
    module = load("float square(float x) { return x * x; }")
    assert module.square(spy.float3(1, 2, 3)).to_numpy().tolist() == [1, 4, 9]


def test_matrix_rows(load):
    module = load("float total(float3 v) { return v.x + v.y + v.z; }")
    assert module.total(spy.float3x3(1, 2, 3, 4, 5, 6, 7, 8, 9)).to_numpy().tolist() == [6, 15, 24]


def test_a_vector_of_another_element_does_not_fit(load):
    module = load("int add(int a, int b) { return a + b; }")
    with pytest.raises(ResolveException, match="Argument 1 could not be resolved"):
        module.add(5, spy.float3(1, 2, 3))


def test_errors_have_to_be_caught_in_slang(load):
    module = load("""
        [Differentiable] float f(float x) throws int { if (x > 1) throw 3; return x * x; }
        [Differentiable] float g(float x) { do { return try f(x); } catch (e: int) { return e * x; } }
    """)
    with pytest.raises(ResolveException, match="throws errors of type 'int', which have to be caught"):
        module.f(1)
    with pytest.raises(ResolveException, match="throws errors of type 'int'"):
        module.f.bwds(spy.diffPair(1.0), 1.0)
    assert module.g([0.5, 1.0, 2.0]).to_numpy().tolist() == [0.25, 1, 6]


def test_lists_are_arrays_or_many_calls(load):
    module = load("""
        float last(float x[3]) { return x[2]; }
        float square(float x) { return x * x; }
        float2 corner(float2 x[2]) { return x[1]; }
    """)
    assert module.last([3, 4, 5.5]) == 5.5
    assert module.square([1, 2, 3]).to_numpy().tolist() == [1, 4, 9]
    assert module.corner([[1, 2], [3, 4]]) == spy.float2(3, 4)


def test_lists_must_have_the_length_of_the_array(load):
    module = load("float first(float x[3]) { return x[0]; }")
    with pytest.raises(ResolveException, match="a list of 2 elements does not fit"):
        module.first([1, 2])
    with pytest.raises(CallError, match="Elements of nested array must all have equal lengths"):
        module.first([[1, 2], [3]])


POINT = """
    struct Point { float2 at; float weight; int n; }
    float value(Point p) { return (p.at.x + 10 * p.at.y) * p.weight + p.n; }
"""


def test_dicts_are_structs(load):
    module = load(POINT)
    assert module.value({"at": spy.float2(1, 2), "weight": 2.0, "n": 3}) == 45


def test_what_a_dict_leaves_out_is_told(load):
    module = load(POINT)
    with pytest.raises(CallError, match="the dict lacks the field 'n' of 'Point'"):
        module.value({"at": spy.float2(1, 2), "weight": 1.0})


def test_fields_of_a_dict_may_be_containers(device, load):
    module = load(POINT)
    found = module.value({"at": spy.float2(1, 2), "weight": tensor(device, [1, 2, 3]), "n": 1})
    assert found.to_numpy().tolist() == [22, 43, 64]
    found = module.value(
        {"at": tensor(device, [[1, 0], [0, 1]]), "weight": tensor(device, [[1], [2]]), "n": 0}
    )
    assert found.to_numpy().tolist() == [[1, 10], [2, 20]]


def test_an_unknown_field_is_named(load):
    module = load(POINT)
    with pytest.raises(CallError, match="Slang type 'Point' has no field 'mass'"):
        module.value({"mass": 1.0})


def test_a_dict_may_name_its_type(load):
    module = load("""
        struct Box<T> { T inside; }
        float open<T : __BuiltinFloatingPointType>(Box<T> box) { return float(box.inside); }
    """)
    assert module.open({"_type": "Box<float>", "inside": 4}) == 4.0
    with pytest.raises(ResolveException, match="there is no type named 'Nope'"):
        module.open({"_type": "Nope", "inside": 4})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "Half",
            "'Half' does not conform to 'IShape': it lacks static int sides\\(\\); it lacks float size\\(\\)",
        ),
        ("Late", "'Late' does not conform to 'IShape': declare it as 'struct Late : IShape'"),
        (None, "a dict does not fit 'IShape': add the key '_type' with the name of a type"),
    ],
)
@pytest.mark.parametrize("name", ["seen", "inferred"])
def test_a_type_that_does_not_conform_is_told_what_it_lacks(load, kind, message, name):
    module = load("""
        interface ISized { float size(); }
        interface IShape : ISized { static int sides(); }
        struct Square : IShape { float x; float size() { return x; } static int sides() { return 4; } }
        struct Late { float x; float size() { return x; } static int sides() { return 4; } }
        struct Half { float x; }
        float seen(IShape s) { return s.size(); }
        float inferred<T : IShape>(T s) { return s.size() * T::sides(); }
    """)
    function = module[name]
    assert function({"_type": "Square", "x": 2}) == (2 if name == "seen" else 8)
    given = {"x": 1} if kind is None else {"_type": kind, "x": 1}
    expected = message.replace("IShape", "T") if kind is None and name == "inferred" else message
    with pytest.raises(ResolveException, match=expected):
        function(given)


def test_a_dict_of_components_is_a_vector(device, load):
    module = load("float total(float3 v) { return v.x + v.y + v.z; }")
    found = module.total({"x": tensor(device, [1, 2]), "y": 10.0, "z": 100.0})
    assert found.to_numpy().tolist() == [111, 112]


def test_lists_of_dicts_are_many_calls(load):
    module = load(POINT)
    points = [{"at": [1.0, 0.0], "weight": 1.0, "n": 0}, {"at": [0.0, 1.0], "weight": 2.0, "n": 5}]
    assert module.value(points).to_numpy().tolist() == [1, 25]


def test_trailing_dimensions_make_vectors_matrices_and_arrays(device, load):
    module = load("""
        float total(float3 v) { return v.x + v.y + v.z; }
        float trace(float2x2 m) { return m[0][0] + m[1][1]; }
        float span(float x[3]) { return x[2] - x[0]; }
    """)
    rows = np.arange(12, dtype=F).reshape(4, 3)
    assert module.total(rows).to_numpy().tolist() == [3, 12, 21, 30]
    assert module.total(tensor(device, rows)).to_numpy().tolist() == [3, 12, 21, 30]
    assert module.span(tensor(device, rows)).to_numpy().tolist() == [2, 2, 2, 2]
    assert module.trace(np.arange(8, dtype=F).reshape(2, 2, 2)).to_numpy().tolist() == [3, 11]


def test_the_last_dimension_must_fit(device, load):
    module = load("float total(float3 v) { return v.x + v.y + v.z; }")
    for values in (np.zeros((4, 2), F), tensor(device, np.zeros((4, 2)))):
        with pytest.raises(
            CallError, match=r"in shape \(4, 2\) the end, \(2,\), does not match the expected shape \(3,\)"
        ):
            module.total(values)


def test_element_types_must_agree(device, load):
    module = load("float total(float3 v) { return v.x + v.y + v.z; }")
    with pytest.raises(ResolveException, match="Argument 0 could not be resolved"):
        module.total(Tensor.zeros(device, (10,), "float4"))
    with pytest.raises(ResolveException, match="Argument 0 could not be resolved"):
        module.total(Tensor.zeros(device, (10, 3), "int"))


def test_numpy_values_are_converted_when_none_changes(load):
    module = load("""
        float twice(float x) { return 2 * x; }
        int same(int x) { return x; }
    """)
    assert module.twice(np.arange(3)).to_numpy().tolist() == [0, 2, 4]
    assert module.same(np.arange(3)).to_numpy().tolist() == [0, 1, 2]
    assert module.twice(np.array([0.5, 1.5])).to_numpy().tolist() == [1, 3]


def test_a_conversion_that_changes_values_names_astype(load):
    module = load("float twice(float x) { return 2 * x; } int same(int x) { return x; }")
    with pytest.raises(CallError, match="astype") as caught:
        module.twice(np.array([0.1]))
    assert caught.value.code == "E1010"
    assert "argument 'x'" in str(caught.value)
    with pytest.raises(CallError, match="astype"):
        module.same(np.array([1 << 40]))


def test_arrays_in_any_memory_order(load):
    module = load("float same(float x) { return x; } float first(float2 v) { return v.x + 10 * v.y; }")
    values = np.arange(12, dtype=F).reshape(3, 4)
    for view in (values.T, values[::2], values[:, ::-1], values[1:, 1:3]):
        assert module.same(view).to_numpy().tolist() == view.tolist()
    pairs = np.arange(8, dtype=F).reshape(2, 4).T
    assert module.first(pairs).to_numpy().tolist() == [40, 51, 62, 73]


def test_arrays_in_another_byte_order_are_converted(load):
    module = load("float same(float x) { return x; }")
    assert module.same(np.array([1, 2], ">f4")).to_numpy().tolist() == [1, 2]


def test_unaligned_arrays(load):
    module = load("float same(float x) { return x; }")
    raw = np.zeros(9, np.uint8)
    view = raw[1:].view(F)
    view[:] = [3, 4]
    assert module.same(view).to_numpy().tolist() == [3, 4]


def test_structured_arrays_are_structs(load):
    module = load("struct P { float x; int n; } float value(P p) { return p.x + p.n; }")
    points = np.array([(0.5, 1), (1.5, 2)], dtype=[("x", F), ("n", np.int32)])
    assert module.value(points).to_numpy().tolist() == [1.5, 3.5]


def test_tensors_of_structs(load):
    module = load("""
        struct P { float2 at; int n; }
        P make(float x) { P p; p.at = float2(x, 2 * x); p.n = 7; return p; }
        float value(P p) { return p.at.x + p.at.y + p.n; }
    """)
    points = module.make(np.arange(3, dtype=F))
    assert points.shape == (3,)
    assert points.dtype.name == "P"
    assert module.value(points).to_numpy().tolist() == [7, 10, 13]


@pytest.mark.parametrize("value", ["text", (1, 2), {1, 2}, None, object()])
def test_unsupported_types(load, value):
    module = load("float same(float x) { return x; }")
    with pytest.raises(BoundVariableException, match="argument 'x': Unsupported type"):
        module.same(value)


def test_numbers_that_do_not_fit(load):
    module = load("uint same(uint x) { return x; } int8_t small(int8_t x) { return x; }")
    with pytest.raises(CallError, match="argument 'x': -1 does not fit into 'uint'"):
        module.same(-1)
    with pytest.raises(CallError, match="argument 'x': 300 does not fit into 'int8_t'"):
        module.small(300)
    assert module.same(7) == 7


def test_a_float_to_an_int_is_refused(load):
    module = load("int same(int x) { return x; }")
    with pytest.raises(ResolveException, match=r"use int\(x\)"):
        module.same(2.5)


def test_objects_stand_for_what_they_return(load):
    class Particle:
        def __init__(self):
            self.seen = None

        def get_this(self):
            return {"x": 2.0, "y": [3.0, 4.0]}

        def update_this(self, value):
            self.seen = value

    module = load("""
        struct P { float x; float y[2]; }
        float value(P p) { return p.x + p.y[0] * p.y[1]; }
    """)
    particle = Particle()
    assert module.value(particle) == 14
    assert particle.seen == {"x": 2.0, "y": [3.0, 4.0]}


def test_objects_inside_of_containers(device, load):
    class Values:
        def get_this(self):
            return tensor(device, [1, 2, 3])

    module = load("struct P { float x; float y; } float value(P p) { return p.x * p.y; }")
    assert module.value({"x": Values(), "y": 10.0}).to_numpy().tolist() == [10, 20, 30]


def test_half_and_double(load):
    module = load("half twice(half x) { return x * half(2); } double third(double x) { return x / 3; }")
    assert module.twice(1.5) == 3.0
    assert module.twice(np.array([0.5, 1], np.float16)).to_numpy().dtype == np.float16
    assert module.third(np.array([1.0])).to_numpy()[0] == 1 / 3


def test_an_unsupported_value_teaches_nothing(device, load):
    module = load("float3 twice(float3 x) { return 2 * x; }")

    class Own(spy.float3):
        pass

    for _ in range(2):
        with pytest.raises(BoundVariableException, match="Unsupported type <class 'object'>"):
            module.twice(object())
    assert module.twice(Own(1, 2, 3)) == spy.float3(2, 4, 6)


def test_what_to_declare_in_place_of_a_texture(load, device):
    module = load("void f(RWTexture2D<float4> t) {}")
    with pytest.raises(ResolveException, match=r"pass a Texture, .*, or declare it as IRWTensor<float4, 2>"):
        module.f(Tensor.zeros(device, (2, 2), "float4"))


def test_arrays_without_dimensions_are_numbers(load):
    module = load(
        """
        float twice(float x) { return 2 * x; }
        float3 scale(float3 v, float s) { return v * s; }
        void triple(float x, out float y) { y = 3 * x; }
        """
    )
    two = np.array(2.0, np.float32)
    assert (module.twice(two), module.twice(np.array(3))) == (4.0, 6.0)
    assert module.scale(np.ones((2, 3), np.float32), two, _result="numpy").tolist() == [[2, 2, 2]] * 2
    filled = np.zeros((), np.float32)
    module.triple(two, filled)
    assert filled == 6
    assert module.twice(filled, _result=filled) is filled and filled == 12
    with pytest.raises(CallError, match=r"0\.1 does not"):
        module.twice(np.array(0.1))
