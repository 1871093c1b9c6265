"""Enums as arguments and results of every kind of call, with the integer types they are stored as."""

import enum
import pickle

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor, ValueRef
from slangrad.marshal.errors import CallError, NameNotFound

TEXT = """
import "slangpy";
enum Color { Red, Green = 5, Blue }
enum Other { X }
namespace inner { enum E { U, V } }
struct S { Color c; float x; Color more[2]; }
int of(Color c) { return int(c); }
int in_namespace(inner::E c) { return int(c); }
Color next(Color c) { return c == Color.Red ? Color.Green : Color.Red; }
int of_struct(S s) { return int(s.c) + 100 * int(s.more[1]); }
S made(Color c) { S s; s.c = c; s.x = 1; s.more[0] = c; s.more[1] = Color.Red; return s; }
void change(inout Color c) { c = Color.Blue; }
int overloaded(int i) { return 1; }
int overloaded(Color c) { return 2; }
int of_array(Color c[2]) { return int(c[0]) + 10 * int(c[1]); }
int of_tensor(ITensor<Color, 1> t) { return int(t[1]); }
int of_buffer(StructuredBuffer<Color> t) { return int(t[1]); }
void fill(RWTensor<Color, 1> t) { t[0] = Color.Blue; }
T same<T>(T x) { return x; }
int of_value<let c : Color>() { return int(c); }
[Differentiable] double power(double x, Color c) { return c == Color.Green ? x * x : x; }
uniform Color outside;
int with_outside(int x) { return x + int(outside); }
void launched(uint3 dispatchThreadID, Color c, S s, RWTensor<int, 1> r)
{ if (dispatchThreadID.x == 0) r[0] = int(c) + int(s.c); }
"""
NUMBERS = np.array([0, 5, 6], np.int32)


class Python(enum.IntEnum):
    GREEN = 5


@pytest.fixture
def m(device):
    return spy.Module.load_from_source(device, "enums", TEXT)


def test_the_values_of_an_enum(m):
    green = m.Color.Green
    assert isinstance(green, int) and green == 5 and (green.name, green.enum) == ("Green", "Color")
    assert repr(green) == str(green) == f"{green}" == "Color.Green" and f"{green:d}" == "5"
    assert m.Color["Green"] is green and m.Color(5) is green
    assert repr(m.Color(7)) == "Color(7)" and m.Color(7).name is None
    assert list(map(int, m.Color)) == [0, 5, 6] and len(m.Color) == 3
    assert "Red" in m.Color and 5 in m.Color and 1 not in m.Color and "red" not in m.Color
    assert (
        pickle.loads(pickle.dumps(green)) == green
        and repr(pickle.loads(pickle.dumps(green))) == "Color.Green"
    )
    assert repr(m.Color) == "Enum(Color: Red = 0, Green = 5, Blue = 6)"


def test_unknown_enumerators(m):
    with pytest.raises(
        NameNotFound, match=r"Enum 'Color' has no enumerator named 'Gren'\nnote: did you mean 'Green'"
    ):
        _ = m.Color.Gren
    with pytest.raises(NameNotFound, match=r"there are|its members are Red, Green, Blue"):
        _ = m.Color["zzz"]
    with pytest.raises(CallError, match="cannot hold this number"):
        m.Color(2**31)
    for odd in (1.5, "Green", None):
        with pytest.raises(CallError):
            m.Color(odd)


def test_arguments(device, m):
    for value in (m.Color.Green, 5, np.int64(5), np.uint8(5), Python.GREEN, m.Color(5)):
        assert m.of(value) == 5
    assert m.of(7) == 7  # as in Slang, an enum may hold any number of its type
    assert (m.in_namespace(m["inner::E"].V), m.in_namespace(1)) == (1, 1)
    rows = [NUMBERS, NUMBERS.astype(np.int64), NUMBERS.astype(np.uint8), Tensor.from_numpy(device, NUMBERS)]
    rows.append([m.Color.Red, 5, m.Color.Blue])
    for value in rows:
        assert m.of(value).to_numpy().tolist() == [0, 5, 6]
    assert m.of.map(c=(0,))(NUMBERS).to_numpy().tolist() == [0, 5, 6]
    assert (m.of_array([5, m.Color.Blue]), m.of_array([NUMBERS, 1]).to_numpy().tolist()) == (65, [10, 15, 16])
    assert m.of_array(np.array([[5, 6], [0, 1]], np.int32)).to_numpy().tolist() == [65, 10]
    assert m.of.bind_call(m.Color.Green)() == 5


def test_results(device, m):
    assert repr(m.next(0)) == "Color.Green" and m.next(m.Color.Green) == 0
    assert m.next(NUMBERS).to_numpy().tolist() == [5, 0, 0]
    assert m.next(NUMBERS, _result="numpy").tolist() == [5, 0, 0]
    into = Tensor.zeros(device, (3,), m.Color)
    m.next(NUMBERS, _result=into)
    assert into.to_numpy().tolist() == [5, 0, 0]
    made = m.made(5)
    assert repr(made) == "{'c': Color.Green, 'x': 1.0, 'more': [Color.Green, Color.Red]}"
    assert m.of_struct(made) == 5
    assert m.of_struct(m.made(NUMBERS)).to_numpy().tolist() == [0, 5, 6]
    reference = ValueRef(m.Color.Red)
    m.change(reference)
    assert repr(reference.value) == "Color.Blue"
    assert repr(m.same(m.Color.Green)) == "Color.Green"


def test_structs_tensors_and_buffers(device, m):
    assert m.of_struct({"c": m.Color.Green, "x": 1.0, "more": [0, 5]}) == 505
    assert m.of_struct({"c": NUMBERS, "x": 1.0, "more": [0, 1]}).to_numpy().tolist() == [100, 105, 106]
    tensor = Tensor.from_numpy(device, NUMBERS)
    assert (m.of_tensor(NUMBERS), m.of_tensor(tensor), m.of_buffer(tensor)) == (5, 5, 5)
    m.fill(tensor)
    assert tensor.to_numpy().tolist() == [6, 5, 6]
    assert m["of_value<Color.Green>"]() == 5
    assert m.with_outside.set(outside=m.Color.Green)(1) == 6


def test_an_enum_is_preferred_where_it_is_given(device, m):
    assert (m.overloaded(5), m.overloaded(m.Color.Green), m.overloaded(m.Other.X)) == (1, 2, 1)
    numbers = [NUMBERS, NUMBERS.astype(np.int64), spy.Tensor.from_numpy(device, NUMBERS)]
    assert [m.overloaded(each).to_numpy().tolist() for each in numbers] == [[1, 1, 1]] * 3


def test_kernels(device, m):
    into = Tensor.zeros(device, (1,), "int")
    fields = {"c": m.Color.Blue, "x": 1.0, "more": [0, 0]}
    m.launched.dispatch((1, 1, 1), c=m.Color.Green, s=fields, r=into)
    assert into.to_numpy().tolist() == [11]
    m.launched.dispatch((1, 1, 1), c=1, s=fields, r=into)
    assert into.to_numpy().tolist() == [7]
    with pytest.raises(CallError, match="'c' of type 'Color' cannot be"):
        m.launched.dispatch((1, 1, 1), c=m.Other.X, s=fields, r=into)


def test_gradients(device, m):
    x = Tensor.from_numpy(device, np.full(3, 3.0)).with_grads()
    m.power.bwds(x, m.Color.Green)
    m.power.bwds(x, NUMBERS)
    assert x.grad.to_numpy().tolist() == [7, 12, 7]
    assert spy.grad(m.power)(3.0, m.Color.Green) == 6
    assert m.power.fwds(spy.diffPair(3.0, 1.0), m.Color.Green).grad == 6
    spy.check_gradients(m.power, 3.0, m.Color.Green)


def test_what_is_no_value_of_an_enum(m):
    rows = [
        (m.Other.X, "a value of the enum 'Other' does not fit 'Color'"),
        (True, "a Python bool does not fit the enum 'Color'"),
        (1.0, "a Python float does not fit the enum 'Color'"),
        ("Green", "pass a number or an enum"),
        (np.ones(2, np.float32), "does not fit"),
        (range(3), "range does not fit 'Color'"),
    ]
    for value, message in rows:
        with pytest.raises(CallError, match=message):
            m.of(value)


TYPES = {"int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "uint16_t": np.uint16, "int": np.int32}
TYPES |= {"uint": np.uint32, "int64_t": np.int64, "uint64_t": np.uint64}


def test_stored_types(device):
    lines = []
    for i, name in enumerate(TYPES):
        low = 0 if name.startswith("u") else -3
        lines.append(f"enum E{i} : {name} {{ Low = {low}, High = 100 }}")
        lines.append(f"struct S{i} {{ E{i} e; float x; E{i} f; }}")
        lines.append(f"int64_t of{i}(E{i} e) {{ return int64_t(e); }}")
        lines.append(f"E{i} turned(E{i} e) {{ return e == E{i}.Low ? E{i}.High : E{i}.Low; }}")
        lines.append(f"S{i} packed(E{i} e) {{ S{i} s; s.e = e; s.x = 2; s.f = turned(e); return s; }}")
    m = spy.Module.load_from_source(device, "stored_enums", "\n".join(lines))
    for i, dtype in enumerate(TYPES.values()):
        kind = m[f"E{i}"]
        assert repr(m.packed(kind.Low)) == f"{{'e': E{i}.Low, 'x': 2.0, 'f': E{i}.High}}"
        array = np.array([kind.High, kind.Low], dtype)
        turned = m.turned(array).to_numpy()
        assert turned.dtype == dtype and turned.tolist() == array[::-1].tolist()
        assert Tensor.zeros(device, (2,), kind).to_numpy().dtype == dtype
        limits = np.iinfo(dtype)
        for beyond in (limits.min - 1, limits.max + 1):
            with pytest.raises(CallError, match=r"does not fit|cannot hold") as caught:
                m[f"of{i}"](int(beyond))
            assert caught.value.code == "E1010"
