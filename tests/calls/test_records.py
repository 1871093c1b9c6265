"""Dataclasses and named tuples are structs, as dicts are; results come as them, and as structured arrays."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
struct Inner : IDifferentiable { float2 a; float b; }
struct Body : IDifferentiable { Inner inner; float mass; no_diff int id; }

[Differentiable] float energy(Body p, float x) { return p.inner.b * p.mass * x * p.inner.a.x; }
Body make(float x)
{
    Body p;
    p.inner.a = float2(x, 2 * x);
    p.inner.b = x;
    p.mass = 3;
    p.id = 4;
    return p;
}
Body[2] two(float x) { return { make(x), make(2 * x) }; }
float number(float x) { return 2 * x; }
void grow(inout Body p) { p.mass += 1; }
float total(Tensor<float, 1> values, int count) { float s = 0; for (int i = 0; i < count; i++) s += values[i]; return s; }
struct Series { Tensor<float, 1> values; int count; }
float total_of(Series s) { return total(s.values, s.count); }
interface IShape { float area(); }
struct Square : IShape { float side; float area() { return side * side; } }
float area(IShape shape) { return shape.area(); }
float3 doubled(float3 v) { return 2 * v; }
uniform Body outside;
float of_outside() { return outside.mass * outside.inner.b; }
void launched(uint3 dispatchThreadID, RWTensor<float, 1> to, Body p) { if (dispatchThreadID.x < 3) to[dispatchThreadID.x] = p.mass * p.inner.b; }
[shader("compute")] [numthreads(1, 1, 1)]
void kernel(uint3 tid : SV_DispatchThreadID, RWStructuredBuffer<float> to, uniform Body p) { to[tid.x] = p.mass * p.inner.b; }
"""


@dataclass
class Inner:
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Body:
    inner: Inner
    mass: Any
    id: int = 1


class Named(NamedTuple):
    inner: Inner
    mass: Any
    id: int = 1


class Square(NamedTuple):
    side: float


Square._type = "Square"  # type: ignore[attr-defined]


class Vector(NamedTuple):
    x: float
    y: float
    z: float


@dataclass
class Series:
    values: Any
    count: int


@dataclass
class Wrapped:
    value: Any
    more: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def module() -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(), "records", SOURCE)


INNER = Inner([2.0, 3.0], 5.0)


@pytest.mark.parametrize("kind", [Body, Named])
def test_arguments(module: spy.Module, kind: Any) -> None:
    body = kind(INNER, 7.0)
    masses = np.array([1, 2, 3], np.float32)
    assert module.energy(body, 1.0) == 70
    assert module.energy(p=body, x=masses).tolist() == [70, 140, 210]
    assert module.energy([body, kind(INNER, 1.0)], 1.0).tolist() == [70, 10]
    assert module.energy(kind(INNER, masses), 1.0).tolist() == [10, 20, 30]
    tensor = spy.Tensor.from_numpy(module.device, masses)
    assert module.energy(kind(Inner([2.0, 3.0], tensor), tensor), 1.0).tolist() == [2, 8, 18]
    assert module.energy({"inner": INNER, "mass": 7.0, "id": 1}, 1.0) == 70
    assert module.energy(spy.pack(module, body), 1.0) == 70
    assert module.of_outside.set(outside=body)() == 35
    assert module.Body(INNER, 1.0, 2) == {"inner": {"a": spy.float2(2, 3), "b": 5}, "mass": 1, "id": 2}


def test_arguments_of_other_kinds(module: spy.Module) -> None:
    assert module.area(Square(3.0)) == 9
    assert module.doubled(Vector(1.0, 2.0, 3.0)) == spy.float3(2, 4, 6)
    values = spy.Tensor.ones(module.device, (5,), "float")
    assert module.total_of(Series(values, 3)) == 3


def test_gradients(module: spy.Module) -> None:
    weights = np.array([1, 2, 3], np.float32)
    for body in (Body(Inner([2.0, 3.0], weights), 7.0), Named(Inner([2.0, 3.0], weights), 7.0)):
        fields = {"inner": {"a": [2.0, 3.0], "b": weights}, "mass": 7.0, "id": 1}
        found, expected = spy.grad(module.energy)(body, 1.0), spy.grad(module.energy)(fields, 1.0)
        assert found["inner"]["b"].tolist() == expected["inner"]["b"].tolist() == [14, 14, 14]
        assert (
            (found["mass"], found["inner"]["a"])
            == (expected["mass"], expected["inner"]["a"])
            == (12, [42, 0])
        )
        spy.check_gradients(module.energy, body, 1.0)
    tangent = Body(Inner([1.0, 0.0], 0.0), 0.0, None)  # type: ignore[arg-type]
    assert spy.jvp(module.energy, (Body(INNER, 7.0), 1.0), (tangent, None)) == (70, 35)
    gradient = spy.diff_pair(7.0)
    module.energy.bwds(Body(INNER, gradient), 1.0)
    assert gradient.grad == 10


@dataclass
class Network:
    weights: spy.Tensor
    bias: spy.Tensor


def test_optimizers(module: spy.Module) -> None:
    ones = spy.Tensor.ones(module.device, (3,), "float")
    network = Network(ones.with_grads(), ones.copy().with_grads())
    optimizer = spy.optim.SGD(network, lr=1.0)
    optimizer.step(Network(np.ones(3, np.float32), np.full(3, 2, np.float32)))  # type: ignore[arg-type]
    assert (network.weights.tolist(), network.bias.tolist()) == ([0, 0, 0], [-1, -1, -1])


def test_launches(module: spy.Module) -> None:
    to = spy.Tensor.zeros(module.device, (3,), "float")
    module.launched.dispatch((3, 1, 1), to=to, p=Body(INNER, 7.0))
    assert to.tolist() == [35, 35, 35]
    kernel = module.device.create_compute_kernel(module.device.load_program("records", ["kernel"]))
    kernel.dispatch([3, 1, 1], to=to.storage, p=Named(INNER, 2.0))
    assert to.tolist() == [10, 10, 10]


def test_commands_keep_the_numbers_of_now(module: spy.Module) -> None:
    inner, result = Inner([2.0, 3.0], 5.0), spy.Tensor.zeros(module.device, (1,), "float")
    encoder = module.device.create_command_encoder()
    module.energy(Body(inner, 7.0), 1.0, _result=result, _append_to=encoder)
    inner.b = 0.0
    module.device.submit_command_buffer(encoder.finish())
    assert result.item() == 70


def test_elements_of_tensors(module: spy.Module) -> None:
    bodies = spy.Tensor.zeros(module.device, (3,), module.Body)
    bodies[0] = Body(INNER, 7.0)
    bodies[1:] = [Named(INNER, 8.0), Body(INNER, 9.0)]
    assert [each["mass"] for each in bodies] == [7, 8, 9]
    bodies.fill(Named(INNER, 1.0, 6))
    assert bodies.tolist() == [{"inner": {"a": [2, 3], "b": 5}, "mass": 1, "id": 6}] * 3


def test_errors_are_those_of_dicts(module: spy.Module) -> None:
    def refusal(call: Any, value: Any) -> str:
        with pytest.raises(spy.CallError) as told:
            call(value)
        return str(told.value)

    energy = lambda value: module.energy(value, 1.0)
    unknown = refusal(energy, Inner(1, 2))
    assert unknown == refusal(energy, {"a": 1, "b": 2})
    assert "Slang type 'Body' has no field 'a'; its fields are inner, mass, id" in unknown
    fields = {"inner": {"a": [2.0, 3.0], "b": 5.0}, "mass": 7.0, "id": 1}
    assert refusal(module.grow, Body(INNER, 7.0)) == refusal(module.grow, fields)
    assert "Unsupported type <class 'tuple'>" in refusal(energy, (1, 2))


def test_results(module: spy.Module) -> None:
    x = np.arange(3, dtype=np.float32)
    for kind in (Body, Named):
        found = module.make(2.0, _result=kind)
        assert type(found) is kind
        assert (found.mass, found.id) == (3, 4)
        many = module.make.return_type(kind)(x)
        assert many.mass.tolist() == [3, 3, 3]
    found = module.make(2.0, _result=Body)
    assert module.energy(found, 1.0) == 12
    assert module.make(2.0, _result=Wrapped).value["mass"] == 3
    assert module.number(2.0, _result=Wrapped) == Wrapped(4)
    with pytest.raises(
        spy.CallError, match=r"E1011.*fields inner, mass, id makes no Inner(?s:.*)its fields are a, b"
    ):
        module.make(2.0, _result=Inner)


def test_structured_arrays(module: spy.Module) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = module.make(x, _result="numpy")
    assert found.shape == (2, 3)
    assert found["inner"]["a"].tolist() == np.stack([x, 2 * x], -1).tolist()
    assert found.dtype == module.make(x).to_numpy(structured=True).dtype
    assert module.energy(found, 1.0).tolist() == (3 * x * x).tolist()
    assert module.make.return_type(np.ndarray)(2.0)["id"] == 4
    pairs = module.two(x, _result="numpy")
    assert pairs.shape == (2, 3, 2)
    assert pairs["inner"]["b"][1, 2].tolist() == [5, 10]
    given = np.zeros((3, 2), found.dtype)
    module.make(x.T, _result=given)
    assert np.array_equal(given, found.T)


@dataclass
class Taught:
    number: float


def test_what_was_taught_comes_first(module: spy.Module) -> None:
    """A class that calls know in another way stays that, before and after its first use as a struct."""
    with pytest.raises(spy.CallError):
        module.number(Taught(2.0))
    spy.register_type(Taught, lambda value: value.number)
    assert module.number(Taught(2.0)) == 4

    @dataclass
    class Object:
        number: float

        def get_this(self) -> float:
            return self.number

    assert module.number(Object(3.0)) == 6
