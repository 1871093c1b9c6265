"""Evaluate a polynomial on an array and take its gradient: the shortest complete program.

Prints the values of 2x^2 + 8x - 1 at 1, 2, 3, 4 three times (the result asked for in three ways), then the
derivative 4x + 8, then twice that, because gradients accumulate over calls.
"""

from pathlib import Path

import numpy as np

import slangrad as spy
from slangrad import Tensor

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "polynomial.slang"))

# A tensor with gradients attached, which are zero.
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32)).with_grads()

# Ask for a tensor as the result ...
result: spy.Tensor = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
print(result.to_numpy())

# ... or give one to fill ...
result = spy.Tensor.empty(device, (4,), "float")
module.polynomial(a=2, b=8, c=-1, x=x, _result=result)
print(result.to_numpy())

# ... or say which container to return.
result = module.polynomial.return_type(Tensor)(a=2, b=8, c=-1, x=x)
print(result.to_numpy())

# The cotangent of the result is one everywhere; the backward call adds to the gradient of x.
result = result.with_grads()
result.grad.copy_from_numpy(np.ones(4, dtype=np.float32))
module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
print(x.grad.to_numpy())

module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
print(x.grad.to_numpy())
