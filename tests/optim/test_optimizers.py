"""`spy.optim`: steps compared with the formulas in float64."""

import pickle

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor
from slangrad.optim import SGD, Adam, AdamW

F, D = np.float32, np.float64
DTYPES = [(np.float16, 3e-3), (F, 1e-6), (D, 1e-13)]


def parameter(device, values, numbers, dtype=None):
    return Tensor.from_numpy(device, np.asarray(values, numbers), dtype=dtype).with_grads()


def sgd(w, g, state, t, lr=0.1, momentum=0.0, decay=0.0, nesterov=False):
    g = g + decay * w
    if momentum:
        state["v"] = momentum * state.get("v", 0) + g
        g = g + momentum * state["v"] if nesterov else state["v"]
    return w - lr * g


def adam(w, g, state, t, lr=0.1, betas=(0.9, 0.999), eps=1e-8, decay=0.0, decoupled=False):
    start = w * (1 - lr * decay) if decoupled else w
    g = g if decoupled else g + decay * w
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    state["s"] = betas[1] * state.get("s", 0) + (1 - betas[1]) * g * g
    m, s = state["m"] / (1 - betas[0] ** t), state["s"] / (1 - betas[1] ** t)
    return start - lr * m / (np.sqrt(s) + eps)


CASES = [
    (lambda p: SGD(p, lr=0.1), sgd, {}),
    (lambda p: SGD(p, lr=0.1, weight_decay=0.5), sgd, {"decay": 0.5}),
    (lambda p: SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), sgd, {"momentum": 0.9, "decay": 0.1}),
    (lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True), sgd, {"momentum": 0.9, "nesterov": True}),
    (lambda p: Adam(p, lr=0.1), adam, {}),
    (lambda p: Adam(p, lr=0.1, betas=(0.5, 0.75), eps=0.1, weight_decay=0.5), adam,
     {"betas": (0.5, 0.75), "eps": 0.1, "decay": 0.5}),
    (lambda p: AdamW(p, lr=0.1, weight_decay=0.5), adam, {"decay": 0.5, "decoupled": True}),
]  # fmt: skip


@pytest.mark.parametrize("dtype, tolerance", DTYPES)
@pytest.mark.parametrize("make, formula, settings", CASES)
def test_steps_follow_the_formulas(device, make, formula, settings, dtype, tolerance):
    random = np.random.default_rng(5)
    values, state = random.normal(size=7).astype(dtype), {}
    w = parameter(device, values, dtype)
    optimizer, expected = make([w]), values.astype(D)
    for t in range(1, 4):
        g = random.normal(size=7).astype(dtype)
        optimizer.zero_grad()
        w.grad.copy_from_numpy(g)
        optimizer.step()
        expected = formula(expected, g.astype(D), state, t, **settings)
        assert np.allclose(w.to_numpy(), expected, rtol=tolerance * 8, atol=tolerance * 8)
    assert optimizer.steps == 3


@pytest.mark.parametrize("make", [lambda p: SGD(p, lr=0.5, momentum=0.5), lambda p: Adam(p, lr=0.5)])
def test_vectors_matrices_arrays_and_views(device, make):
    random = np.random.default_rng(6)
    whole = Tensor.from_numpy(device, random.normal(size=(6, 4)).astype(F)).with_grads()
    other = whole.to_numpy()
    vectors = parameter(device, random.normal(size=(5, 3)), F, dtype="float3")
    matrices = parameter(device, random.normal(size=(2, 2, 2)), D, dtype="double2x2")
    empty = parameter(device, np.zeros((0, 3)), F)
    one = parameter(device, [2.0], np.float16)
    parameters = [whole[1::2, 1:3], vectors, matrices, empty, one]
    gradients = [random.normal(size=each.to_numpy().shape) for each in parameters]
    flat = [parameter(device, each.to_numpy().ravel(), each.to_numpy().dtype) for each in parameters]
    own = [g.astype(p.to_numpy().dtype) for g, p in zip(gradients, parameters)]
    first, second = make(parameters), make(flat)
    for _ in range(2):
        first.step(own)
        second.step([g.ravel() for g in own])
    for a, b in zip(parameters, flat):
        assert a.to_numpy().ravel().tolist() == b.to_numpy().tolist()
    now = whole.to_numpy()
    now[1::2, 1:3] = other[1::2, 1:3] = 0
    assert now.tolist() == other.tolist()


def test_gradients_of_a_loss(device, load):
    module = load("""
        [Differentiable] float loss(float x, float wanted, float slope, float start)
        {
            float error = slope * x + start - wanted;
            return error * error;
        }
    """)
    x = np.linspace(-1, 1, 9, dtype=F)
    slope, start = parameter(device, [0], F), parameter(device, [0], F)
    optimizer = Adam({"slope": slope, "start": start}, lr=0.1)
    for step in range(200):
        optimizer.zero_grad()
        module.loss.bwds(x, 3 * x + F(0.5), slope, start)
        optimizer.step()
        optimizer.lr = 0.1 if step < 100 else 0.02
    assert np.allclose([slope.to_numpy(), start.to_numpy()], [[3], [0.5]], atol=1e-2)
    plain = Tensor.from_numpy(device, np.zeros(1, F))
    descent = SGD([plain], lr=0.02)
    for _ in range(50):
        descent.step([spy.grad(module.loss, argnums=2)(x, 3 * x, plain, 0.0)])
    assert np.allclose(plain.to_numpy(), 3, atol=1e-2)


@pytest.mark.parametrize("make", [lambda p: SGD(p, lr=0.5, momentum=0.5), lambda p: AdamW(p, lr=0.5)])
def test_state_goes_on(device, make):
    values, g = np.array([[1, 2], [3, 4]], F), [np.array([[1, -1], [2, 0.5]], F)]
    tensors = [parameter(device, values, F) for _ in range(2)]
    first, second = make([tensors[0]]), make([tensors[1]])
    first.step(g)
    tensors[1].copy_from_numpy(tensors[0].to_numpy())
    kept = pickle.loads(pickle.dumps(first.state_dict()))
    second.load_state_dict(kept)
    first.step(g)
    second.step(g)
    assert tensors[0].to_numpy().tolist() == tensors[1].to_numpy().tolist()
    assert second.steps == 2
    first.lr = 0.25
    assert first.state_dict()["settings"]["lr"] == 0.25


def test_state_that_does_not_fit_is_refused(device):
    w = parameter(device, [1, 2], F)
    one, other = Adam([w]), SGD([w], momentum=0.5)
    one.step([np.ones(2, F)])
    with pytest.raises(CallError, match="the state is that of 'SGD', not Adam"):
        one.load_state_dict(other.state_dict())
    with pytest.raises(CallError, match=r"mean of parameter 0 has shape \(2,\), not \(3,\)"):
        Adam([parameter(device, [1, 2, 3], F)]).load_state_dict(one.state_dict())
    with pytest.raises(CallError, match="state of 1 parameters for 2"):
        Adam([w, parameter(device, [1], F)]).load_state_dict(one.state_dict())
    bad = one.state_dict()
    bad["settings"]["lr"] = -1
    with pytest.raises(CallError, match="lr: -1"):
        one.load_state_dict(bad)
    assert one.lr == 0.001


def test_gradients_belong_to_parameters_of_their_names():
    p = {"a": np.zeros(2), "b": [np.zeros(2), np.zeros(2)]}
    SGD(p, lr=np.float32(0.5)).step({"b": [np.full(2, 4.0), np.full(2, 6.0)], "a": np.full(2, 2.0)})
    assert [p["a"].tolist(), *map(np.ndarray.tolist, p["b"])] == [[-1, -1], [-2, -2], [-3, -3]]


@pytest.mark.parametrize("numbers", [np.float16, F, D])
@pytest.mark.parametrize("make, formula, settings", CASES)
def test_arrays_of_no_dimensions(device, make, formula, settings, numbers):
    number, row = np.array(2.0, numbers), np.array([2.0], numbers)
    first, second = make({"w": number}), make({"w": row})
    for gradient in (1.0, -0.25, 3.0):
        first.step({"w": np.array(gradient, numbers)})
        second.step({"w": np.array([gradient], numbers)})
    assert number.shape == () and number == row[0] != 2.0
    again = make({"w": np.array(2.0, numbers)})
    again.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert [{k: v.to_numpy().tolist() for k, v in each.items()} for each in again.state] == [
        {k: v.to_numpy().tolist() for k, v in each.items()} for each in first.state
    ]


def test_tensors_of_torch_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(CallError, match=r"'w': expected a Tensor or an array, not a torch[\s\S]*numpy\(\)"):
        SGD({"w": torch.ones(3, requires_grad=True)})


@pytest.mark.parametrize(
    "make, code, message",
    [
        (lambda w: SGD(w), "E1032", "expected a list of tensors, not Tensor"),
        (lambda w: SGD([]), "E1032", "there are none"),
        (lambda w: SGD(["w"]), "E1032", "parameter 0: expected a Tensor, not str"),
        (lambda w: SGD([np.ones(3, np.int32)]), "E1032", "parameter 0: an array of int32 with shape"),
        (lambda w: SGD([np.ones((2, 0))]), "E1032", r"an array of float64 with shape \(2, 0\)"),
        (
            lambda w: SGD({"w": w}).step({"v": np.ones(3, F)}),
            "E1032",
            "gradients are named 'v' and parameters 'w'",
        ),
        (lambda w: SGD([w, w]), "E1008", "parameter 0 and parameter 1 overlap in memory"),
        (lambda w: SGD([w[:2], w[1:]]), "E1008", "parameter 0 and parameter 1 overlap"),
        (lambda w: SGD([w], lr=-1), "E1032", "lr: -1 is no number of at least 0"),
        (lambda w: SGD([w], nesterov=True), "E1032", "nesterov: it needs momentum"),
        (lambda w: Adam([w], betas=(0.9, 1.0)), "E1032", "betas: 1.0 is no number of at least 0 and below 1"),
        (lambda w: Adam([w.detach()]).step(), "E1007", "parameter 0 has no gradient"),
        (lambda w: Adam([w]).step([]), "E1032", "there are 0 gradients for 1 parameters"),
        (
            lambda w: Adam([w]).step([np.ones(2, F)]),
            "E1032",
            r"the gradient of parameter 0 is float \(2,\), not float",
        ),
        (lambda w: Adam([w]).step([3.0]), "E1032", "expected a Tensor, not float"),
    ],
)
def test_what_is_refused(device, make, code, message):
    with pytest.raises(CallError, match=message) as caught:
        make(parameter(device, [1, 2, 3], F))
    assert caught.value.code == code


STRUCTS = """
    struct Leg : IDifferentiable { half2 ends; no_diff float age; }
    struct Body : IDifferentiable { float3 at; int name; double mass; Leg legs[2]; }
    struct Shift : IDifferentiable { float shift; }
    struct Other : IDifferentiable
    {
        typealias Differential = Shift;
        [DerivativeMember(Differential.shift)] float x;
        static Shift dzero() { return { 0 }; }
        static Shift dadd(Shift a, Shift b) { return { a.shift + b.shift }; }
    }
    [Differentiable] double energy(Body b)
    {
        return dot(b.at, b.at) * b.mass + b.legs[0].ends.x * b.legs[1].ends.y;
    }
"""


@pytest.mark.parametrize("make, formula, settings", CASES[2:6:2])
def test_fields_of_structs_move_like_tensors_of_their_own(device, load, make, formula, settings):
    module = load(STRUCTS)
    b = Tensor.zeros(device, (2, 3), module.Body).with_grads()
    values = b.to_numpy(structured=True)
    random = np.random.default_rng(2)
    for field in (values["at"], values["mass"], values["legs"]["ends"], values["legs"]["age"]):
        field[...] = random.normal(size=field.shape)
    values["name"] = np.arange(6).reshape(2, 3)
    b.copy_from_numpy(values)
    b, optimizer = b[:, ::2], None
    b = b.with_grads()
    optimizer, state = make({"body": b}), [{}, {}, {}]
    at, mass, ends = (
        values["at"][:, ::2].astype(D),
        values["mass"][:, ::2],
        values["legs"]["ends"][:, ::2].astype(D),
    )
    for t in range(1, 4):
        ends_slope = np.zeros_like(ends)
        ends_slope[:, :, 0, 0], ends_slope[:, :, 1, 1] = ends[:, :, 1, 1], ends[:, :, 0, 0]
        slopes = [2 * at * mass[..., None], (at * at).sum(-1), ends_slope]
        optimizer.zero_grad()
        module.energy.bwds(b)
        optimizer.step()
        at, mass, ends = (formula(w, g, s, t, **settings) for w, g, s in zip((at, mass, ends), slopes, state))
    found = b.to_numpy(structured=True)
    np.testing.assert_allclose(found["at"], at, rtol=2e-3)
    np.testing.assert_allclose(found["mass"], mass, rtol=2e-3)
    np.testing.assert_allclose(found["legs"]["ends"], ends, rtol=2e-2, atol=2e-3)
    assert found["name"].tolist() == values["name"][:, ::2].tolist()
    assert found["legs"]["age"].tolist() == values["legs"]["age"][:, ::2].tolist()
    kept = pickle.loads(pickle.dumps(optimizer.state_dict()))
    again = make([b])
    again.load_state_dict(kept)
    assert {name: each.tolist() for name, each in again.state_dict()["state"][0].items()} == {
        name: each.tolist() for name, each in kept["state"][0].items()
    }
    assert {name.partition(".")[2] for name in kept["state"][0]} == {"at", "mass", "legs.ends"}


def test_a_differential_of_other_fields_is_refused(device, load):
    w = Tensor.zeros(device, (2,), load(STRUCTS).Other).with_grads()
    with pytest.raises(
        CallError, match="the Differential of 'Other' has a field 'shift', which the type has not"
    ):
        SGD([w]).step()


def test_parameters_of_other_types_are_refused(device, load):
    module = load("struct P { int x; }")
    for dtype, name in (("int", "int"), (module.P, "P")):
        with pytest.raises(CallError, match=f"elements of type '{name}' hold no floating-point numbers"):
            SGD([Tensor.zeros(device, (2,), dtype)])
