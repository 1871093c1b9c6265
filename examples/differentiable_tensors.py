"""Functions of whole tensors, and their gradients.

A filter reads neighbors, an image is squared in place, a read has a derivative written by hand, and matrices are
multiplied, with gradients that NumPy has as well.
"""

from pathlib import Path

import numpy as np

import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "differentiable_tensors.slang"))


def learnable(values):
    """A tensor whose gradients are zero."""
    return spy.Tensor.from_numpy(device, np.float32(values)).with_grads()


def with_cotangent(tensor, values):
    """The tensor, with the gradient of something that is computed from it."""
    tensor = tensor.with_grads()
    tensor.grad.copy_from_numpy(np.broadcast_to(np.float32(values), tensor.shape).copy())
    return tensor


# --- Neighbors: one call for each element, each with the number of its element and both tensors whole.
rough = learnable([0, 8, 0, 0, 4])
result = spy.Tensor.empty(device, rough.shape, "float")
module.smooth(spy.grid(rough.shape), rough, result)
print("smooth:", result.to_numpy())
module.smooth.bwds(spy.grid(rough.shape), rough, with_cotangent(result, [1, 0, 0, 0, 0]))
print("what the first element depends on:", rough.grad.to_numpy())

# --- In place: a gradient comes in, another one goes out, and they are kept apart. Derivatives are taken at the
# values that the image has, so the backward call gets the image as it was before.
pixels = np.float32([[1, 2], [3, 4]])
image = spy.Tensor.from_numpy(device, pixels)
module.squareInPlace(spy.grid(image.shape), image)
print("squared:", image.to_numpy().ravel())
comes, goes = spy.Tensor.ones(device, image.shape, "float"), spy.Tensor.zeros(device, image.shape, "float")
image = spy.Tensor.from_numpy(device, pixels).with_grads(grad_in=comes, grad_out=goes)
module.squareInPlace.bwds(spy.grid(image.shape), image)
print("its gradient:", goes.to_numpy().ravel())

# --- A derivative by hand: the factors 0.5 and -4 are the gradients, of which the second is cut.
values = learnable([10, 20])
scaled = module.scaledRead(spy.grid((2,)), values, np.float32([0.5, -4]), _result="tensor")
print("scaled:", scaled.to_numpy())
module.scaledRead.bwds(spy.grid((2,)), values, np.float32([0.5, -4]), _result=with_cotangent(scaled, 1))
print("clipped gradient:", values.grad.to_numpy())

# Types without `I` have gradients in every call, so a tensor without them does not fit.
try:
    module.scaledRead(spy.grid((2,)), spy.Tensor.zeros(device, (2,), "float"), 1.0, _result="tensor")
except ValueError as error:
    print("refused:", "values" in str(error))

# --- Matrices: the gradient of each factor is a product, of the cotangent and the other factor.
random = np.random.default_rng(0)
a, b, ct = (random.normal(size=shape).astype(np.float32) for shape in ((3, 5), (5, 4), (3, 4)))
left, right, result = learnable(a), learnable(b), spy.Tensor.empty(device, ct.shape, "float")
module.product(spy.grid(ct.shape), left, right, result)
module.product.bwds(spy.grid(ct.shape), left, right, with_cotangent(result, ct))
print("product:", np.allclose(result.to_numpy(), a @ b, atol=1e-5))
print("left:", np.allclose(left.grad.to_numpy(), ct @ b.T, atol=1e-5))
print("right:", np.allclose(right.grad.to_numpy(), a.T @ ct, atol=1e-5))
