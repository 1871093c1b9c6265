"""Calls inside of PyTorch's models: copied, saved, compiled, run again from checkpoints, in batches."""

import copy
import io

import pytest

import slangrad as spy

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

TEXT = """
[Differentiable] float cube(float x, float w) { return x * x * x * w; }
[Differentiable] void scale(inout float x, float w) { x = x * w; }
"""


@pytest.fixture(scope="module")
def module():
    return spy.Module.load_from_source(spy.create_device(backend="cpu"), "models", TEXT)


class Model(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.cube = module, module.cube
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        return self.cube(x, self.weight)


X = torch.tensor([1.0, 2.0, 3.0])


def test_copies_call_the_same_functions(module):
    model = Model(module)
    copied = copy.deepcopy(model)
    assert copied.cube is model.cube and copied.module is module
    with torch.no_grad():
        copied.weight.mul_(2)
    assert copied(X).tolist() == [2, 32, 162]
    assert model(X).tolist() == [1, 16, 81]
    assert copy.copy(module.device) is module.device
    model.load_state_dict(copied.state_dict())
    assert model(X).tolist() == [2, 32, 162]
    assert torch.func.functional_call(model, {"weight": torch.ones(3)}, (X,)).tolist() == [1, 8, 27]


def test_functions_are_not_saved(module):
    with pytest.raises(
        TypeError, match=r"cannot pickle a slangrad (Function|Module), which belongs to this process"
    ):
        torch.save(Model(module), io.BytesIO())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_run_operations_in_place_again(module, reentrant):
    def scaled(x):
        y = x.clone()
        module.scale(y, x)
        return y

    x = X.clone().requires_grad_()
    checkpoint(scaled, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_compiled_models_call_between_graphs(module, recwarn):
    x = X.clone().requires_grad_()
    compiled = torch.compile(lambda x: own.cube(x * 2, 1.0).sum() + 1, backend="eager")
    own = spy.Module.load_from_source(module.device, "compiled", TEXT)
    y = compiled(x)
    y.backward()
    assert not [each for each in recwarn if "Dynamo" in str(each.message)]
    assert y.item() == 8 + 64 + 216 + 1
    assert x.grad.tolist() == [24, 96, 216]


def test_what_has_no_memory_is_refused(module):
    x = X.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = torch.eye(3) @ X
        with pytest.raises(
            spy.ResolveException, match=r"torch\.bfloat16 tensor of 1 dimension does not fit 'float'"
        ):
            module.cube(hidden, 1.0)
        assert module.cube(hidden.float(), 1.0).tolist() == [1, 8, 27]
    with pytest.raises(spy.CallError, match=r"has no memory of its own[^$]*torch\.func\.vmap works"):
        torch.autograd.grad(module.cube(x, 1.0), x, torch.eye(3), is_grads_batched=True)
    jacobian = torch.func.vmap(lambda v: torch.func.vjp(lambda x: module.cube(x, 1.0), X)[1](v)[0])(
        torch.eye(3)
    )
    assert jacobian.tolist() == [[3, 0, 0], [0, 12, 0], [0, 0, 27]]
