"""Functions that read and write whole tensors, and their gradients.

Four parts: a polynomial through tensors, an update in place, a derivative written by hand, a linear layer.
"""

from pathlib import Path

import numpy as np

import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "differentiable_tensors.slang"))

# --- A polynomial: x is read (its gradient accumulates), result is written (its gradient is read).
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32))
x = x.with_grads(zero=True)
result = spy.Tensor.empty(device, x.shape, spy.float32)

module.polynomial(idx=spy.grid(x.shape), a=2, b=8, c=-1, x=x, result=result)
print("polynomial:", result.to_numpy())

result = result.with_grads()
result.grad.copy_from_numpy(np.ones(4, dtype=np.float32))
module.polynomial.bwds(idx=spy.grid(x.shape), a=2, b=8, c=-1, x=x, result=result)
print("its gradient:", x.grad.to_numpy())

# --- In place: the gradient that comes in and the one that goes out need separate buffers.
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32))
x = x.with_grads(
    grad_in=spy.Tensor.ones(device, shape=(4,), dtype=float),
    grad_out=spy.Tensor.zeros(device, shape=(4,), dtype=float),
)
module.process_inplace(idx=spy.grid(x.shape), data=x)
print("in place:", x.to_numpy())
module.process_inplace.bwds(idx=spy.grid(x.shape), data=x)
print("its gradient:", x.grad_out.to_numpy())

# --- A concrete DiffTensor has its gradients bound in every call, so it must have some.
data = np.array([-1, 0.25, 0.5, 2], dtype=np.float32)
x = spy.Tensor.from_numpy(device, data).with_grads()
y = module.custom_activation(idx=spy.grid(x.shape), input=x, _result="tensor")
print("activation:", y.to_numpy())
y = y.with_grads()
y.grad.copy_from_numpy(np.ones(4, dtype=np.float32))
module.custom_activation.bwds(idx=spy.grid(x.shape), input=x, _result=y)
print("its gradient:", x.grad.to_numpy())

try:
    module.custom_activation(
        idx=spy.grid(x.shape), input=spy.Tensor.from_numpy(device, data), _result="tensor"
    )
except ValueError as error:
    print("refused:", "input" in str(error))

# --- A linear layer: the gradients of weights, bias and input are NumPy's.
random = np.random.default_rng(0)
out_features, in_features = 3, 5
weight_init = random.normal(size=(out_features, in_features)).astype(np.float32)
bias_init = random.normal(size=out_features).astype(np.float32)
batch_data = random.normal(size=in_features).astype(np.float32)

weights = spy.Tensor.from_numpy(device, weight_init).with_grads(zero=True)
bias = spy.Tensor.from_numpy(device, bias_init).with_grads(zero=True)
x = spy.Tensor.from_numpy(device, batch_data).with_grads(zero=True)
y = spy.Tensor.empty(device, shape=(out_features,), dtype=float).with_grads()

module.linear_layer(spy.grid(shape=(out_features,)), weights, bias, x, y)
print("layer:", np.allclose(y.to_numpy(), weight_init @ batch_data + bias_init, atol=1e-5))

loss_gradients = (2 * y.to_numpy()).astype(np.float32)
y.grad.copy_from_numpy(loss_gradients)
module.linear_layer.bwds(spy.grid(shape=(out_features,)), weights, bias, x, y)
print("weights:", np.allclose(weights.grad.to_numpy(), np.outer(loss_gradients, batch_data), atol=1e-5))
print("bias:", np.allclose(bias.grad.to_numpy(), loss_gradients, atol=1e-5))
print("input:", np.allclose(x.grad.to_numpy(), weight_init.T @ loss_gradients, atol=1e-5))
