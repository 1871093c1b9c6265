"""Objects that stand for other values: `get_this`, instances of structs, packed arguments."""

import numpy as np
import pytest
from slangrad.experimental.diffinstancelist import InstanceDifferentiableBuffer

from slangrad import (
    BoundVariableException,
    CallError,
    InstanceList,
    InstanceTensor,
    Tensor,
    ValueRef,
    diffPair,
    float2,
    floatRef,
    pack,
    rand_float,
    register_type,
)

F = np.float32

PARTICLES = """
    struct Particle
    {
        float2 position;
        float2 velocity;
        __init(float2 position, float2 velocity) { this.position = position; this.velocity = velocity; }
        [mutating] void step(float dt) { position += dt * velocity; }
        float speed() { return length(velocity); }
    }
    float2[2] ends(Particle p) { return { p.position, p.position + p.velocity }; }
    float total(float x[2]) { return x[0] + x[1]; }
    float twice(float x) { return 2 * x; }
"""


class Holder:
    """Stands for `data`; notes what it is asked and told."""

    def __init__(self, data):
        self.data, self.asked, self.told = data, 0, []

    def get_this(self):
        self.asked += 1
        return self.data

    def update_this(self, value):
        self.told.append(value)


def test_objects_of_one_class_may_stand_for_different_things(device, load):
    twice = load(PARTICLES).twice
    assert twice(Holder(2.0)) == 4
    assert twice(Holder(np.array([1, 2], F))).to_numpy().tolist() == [2, 4]
    assert twice(Holder(Holder(3))) == 6
    assert twice(Holder(2.0)) == 4


def test_classes_that_inherit_from_such_classes(load):
    class Squared(Holder):
        def get_this(self):
            return super().get_this() ** 2

    twice = load(PARTICLES).twice
    assert (twice(Holder(3.0)), twice(Squared(3.0))) == (6, 18)


def test_objects_are_told_what_became_of_their_values(device, load):
    module = load("void fill(float x, out float y) { y = x + 1; }")
    inner = Holder(Tensor.zeros(device, (2,), "float"))
    outer = Holder(inner)
    module.fill(np.array([1, 2], F), outer)
    assert [each.to_numpy().tolist() for each in (*inner.told, *outer.told)] == [[2, 3], [2, 3]]
    in_dict = Holder({"y": inner})
    load("struct S { float y; } void fill(float x, out S s) { s.y = x; }").fill(np.array([5, 6], F), in_dict)
    assert inner.told[-1].to_numpy().tolist() == [5, 6] and len(in_dict.told) == 1


COUNTER = """
    struct Inner : IDifferentiable { float x; }
    struct Counter : IDifferentiable
    {
        int count;
        float2 at;
        Inner inner;
        [mutating] void add(float2 by) { count++; at += by; inner.x += 0.5; }
        float length() { return sqrt(dot(at, at)); }
    }
    void reset(out Counter c, float x) { c = { 7, float2(x), { x } }; }
    [Differentiable] void grow(inout Counter c, float by) { c.at *= by; }
    float both(Counter c, Tensor<float, 1> x) { return c.at.x + x[0]; }
"""


def test_numbers_of_objects_are_written_back(device, load):
    module = load(COUNTER)

    class Own:
        def __init__(self, **values):
            self.values = values

        def get_this(self):
            return self.values

        def update_this(self, values):
            assert type(values) is dict
            self.values = values

    own = Own(count=1, at=[1, 2], inner={"x": 1.0}, _type="Counter")
    module.Counter.add(own, float2(10, 20))
    assert own.values == {"count": 2, "at": float2(11, 22), "inner": {"x": 1.5}, "_type": "Counter"}
    add = module.Counter.add.bind(own).bind_call([1.0, 1.0])
    add(), add()
    assert (own.values["count"], own.values["at"]) == (4, float2(13, 24))
    module.reset(own, 3.0)
    assert own.values["inner"] == {"x": 3} and module.Counter.length(own) == pytest.approx(18**0.5)
    module.grow.fwds(own, diffPair(2.0, 1.0))
    assert own.values["at"] == float2(6, 6)
    assert module.both(own, Tensor.from_numpy(device, np.array([4], F))) == 10
    encoder = device.create_command_encoder()
    module.Counter.add.append_to(encoder, own, float2(1, 1))
    assert own.values["count"] == 7
    device.submit_command_buffer(encoder.finish())
    assert own.values["count"] == 8
    with pytest.raises(CallError, match="3 calls would read and write the same memory"):
        module.Counter.add(own, np.ones((3, 2), F))
    for nobody_is_told in (own.values, pack(module, own)):
        with pytest.raises(CallError, match="int cannot receive what the function writes"):
            module.Counter.add(nobody_is_told, float2(1, 1))


def test_methods_of_one_object(device, load):
    Particle = load(PARTICLES).Particle
    this = Holder(Tensor.zeros(device, (3,), Particle))
    step = Particle.step.bind(this)
    this.data.copy_from_numpy(
        np.frombuffer(np.array([[0, 0, 1, 2]] * 3, F).tobytes(), np.uint8).reshape(3, 16)
    )
    step(0.5)
    step(dt=np.array([0, 1, 2], F))
    assert this.data.to_numpy().view(F)[:, :2].tolist() == [[0.5, 1], [1.5, 3], [2.5, 5]]
    assert Particle.speed.bind(this).return_type("numpy")().tolist() == pytest.approx([5**0.5] * 3)


def test_instances_in_one_tensor(device, load):
    module = load(PARTICLES)
    particles = InstanceTensor(module.Particle, (4,))
    particles.construct(position=float2(10, 20), velocity=rand_float(-1, 1))
    before = particles.to_numpy().view(F).copy()
    particles.step(dt=0.5)
    after = particles.tensor.to_numpy().view(F)
    assert before[:, :2].tolist() == [[10, 20]] * 4 and len({*before[:, 2]}) == 4
    assert np.allclose(after[:, :2], before[:, :2] + 0.5 * before[:, 2:])
    ends = InstanceTensor(module["float2[2]"], particles.shape)
    assert module.ends(particles, _result=ends) is ends
    assert np.allclose(ends.to_numpy()[:, 1], after[:, :2] + after[:, 2:])
    particles.copy_from_numpy(np.zeros((4, 16), np.uint8))
    assert particles.speed().to_numpy().tolist() == [0] * 4


def test_instances_with_gradients(device, load):
    module = load("""
        struct Body : IDifferentiable
        {
            float2 at;
            float speed;
            __init(float2 at, float speed) { this.at = at; this.speed = speed; }
            [Differentiable] float next(float dt) { return at.x * at.y + speed * speed * dt; }
        }
    """)
    bodies = InstanceDifferentiableBuffer(module.Body, shape=(3,))
    x, dt = np.array([1, 2, 3], F), Tensor.from_numpy(device, np.array([4, 5, 6], F)).with_grads()
    bodies.construct(at=float2(2, 3), speed=x)
    found = bodies.next(dt=dt, _result="tensor").with_grads()
    assert found.to_numpy().tolist() == (6 + x * x * dt.to_numpy()).tolist()
    found.grad.copy_from_numpy(np.ones(3, F))
    bodies.next.bwds(dt=dt, _result=found)
    wanted = np.stack([np.full(3, 3), np.full(3, 2), 2 * x * dt.to_numpy()], axis=1)
    assert bodies.buffer.grad.to_numpy().view(F).tolist() == wanted.tolist()
    assert dt.grad.to_numpy().tolist() == (x * x).tolist()


def test_instances_with_a_container_for_each_field(device, load):
    module = load(PARTICLES)
    position = Tensor.zeros(device, (2,), "float2")
    particles = InstanceList(module.Particle, {"position": position, "velocity": ValueRef(float2(0, 0))})
    particles.construct(float2(1, 2), float2(3, 4))
    with pytest.raises(
        CallError, match=r"argument '_this\.velocity': 2 calls would read and write the same memory"
    ):
        particles.step(1.0)
    particles.velocity = particles.velocity.value
    particles.step(1.0)
    assert particles.position is position and position.to_numpy().tolist() == [[4, 6], [4, 6]]
    particles.velocity = float2(10, 0)
    particles.step(np.array([1, 2], F))
    assert position.to_numpy().tolist() == [[14, 6], [24, 6]]
    zeros = InstanceTensor(module.float2, (2,), Tensor.zeros(device, (2,), "float2"))
    nested = InstanceList(module.Particle, {"position": zeros, "velocity": float2(1, 1)})
    nested.step(2.0)
    assert nested.position.to_numpy().tolist() == [[2, 2], [2, 2]]
    with pytest.raises(AttributeError, match="'Particle' has no method or sub-type named 'stop'"):
        particles.stop()


def test_packed_arguments(device, load):
    module = load(PARTICLES)
    assert module.twice(pack(module, 21)) == 42
    assert module.twice(21) == module.twice(pack(module, 21)) == 42  # the bare value has a plan of its own
    values = [1.0, 2.0]
    packed = pack(module, values)
    assert pack(module, packed) is packed and packed.python_object is values
    values[0] = 100.0
    assert module.total(packed) == 3
    assert module.twice(packed).to_numpy().tolist() == [2, 4]
    x = Tensor.zeros(device, (2,), "float2")
    particle = InstanceList(module.Particle, {"position": x, "velocity": float2(1, 2)}).pack()
    module.Particle.step(particle, 2.0)
    assert x.to_numpy().tolist() == [[2, 4], [2, 4]]
    assert repr(pack(module, 2)) == "PackedArg(2)"


def test_a_packed_argument_is_asked_once(load):
    module = load(PARTICLES)
    holder = Holder(4.0)
    packed = pack(module, holder)
    holder.data = 5.0
    assert [module.twice(packed), module.twice(packed), holder.asked] == [8, 8, 1]


def test_references_in_instances(load):
    module = load("struct S { float a; [mutating] void grow(float by) { a += by; } }")
    one = InstanceList(module.S, {"a": floatRef(1)})
    one.grow(4.0)
    assert one.a.value == 5


def test_classes_that_calls_are_taught(load):
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    class Named(Point):
        pass

    module = load(
        "struct P { float x; float y; } float f(P p) { return p.x * p.y; } void g(out P p) { p = { 5, 6 }; }"
    )
    with pytest.raises(BoundVariableException, match="Unsupported type") as caught:
        module.f(Point(1, 2))
    assert "register_type() what it stands for" in str(caught.value)
    register_type(Point, lambda point: {"x": point.x, "y": point.y})
    assert module.f(Point(2, 3)) == 6
    assert module.f([Point(2, 3), Named(4, 5)]).to_numpy().tolist() == [6, 20]
    assert module.f(Named(2, np.array([1, 2], F))).to_numpy().tolist() == [2, 4]
    told = []
    register_type(
        Named, lambda named: {"x": floatRef(named.x), "y": floatRef(named.y)}, lambda *each: told.append(each)
    )
    named = Named(0, 0)
    module.g(named)
    assert told[0][0] is named and [told[0][1][name].value for name in "xy"] == [5, 6]
    assert module.f(Point(2, 3)) == 6


@pytest.mark.parametrize("kind", [dict, object, int, float2, Tensor])
def test_classes_that_calls_know_by_themselves(kind):
    with pytest.raises(CallError, match="register_type: calls know values of"):
        register_type(kind, lambda value: 1.0)


def test_results_as_objects_of_any_class(device, load):
    module = load(
        "struct P { float x; float sum() { return 10 + x; } } P make(float x) { return { x }; } int two() { return 2; } void nothing() {}"
    )

    class Box:
        def __init__(self, value):
            self.value = value

    assert module.two.return_type(Box)().value == 2
    assert module.make.return_type(Box)(3.0).value == {"x": 3}
    assert module.two.map().return_type(Box)(_result="numpy").shape == ()
    assert module.nothing.return_type(Box)() is None
    particles = module.make.return_type(InstanceTensor)(np.array([1, 2], F))
    assert isinstance(particles, InstanceTensor) and particles.sum().to_numpy().tolist() == [11, 12]
    with pytest.raises(CallError, match="a call without dimensions returns dict, which is no InstanceTensor"):
        module.make.return_type(InstanceTensor)(1.0)
