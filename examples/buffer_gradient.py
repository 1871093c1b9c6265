"""Gradients into a buffer: a custom derivative of the function that reads it.

Prints 2w for the weights 1, 2, 3, 4; the last one is visited twice.
"""

from pathlib import Path

import numpy as np

import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "buffer_gradient.slang"))

weights = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32))
gradients = spy.Tensor.zeros(device, shape=(4,), dtype=spy.float32)
visited = np.array([0, 1, 2, 3, 3], dtype=np.int32)

module.gradient.set(paramBuffer=weights.storage, gradBuffer=gradients.storage)(visited)
print(gradients.to_numpy())
