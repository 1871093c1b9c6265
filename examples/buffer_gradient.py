"""A gradient by the content of a buffer, from a function that reads it and has a derivative written by hand.

Four measurements of a landscape; prints in which direction, and how much, each of its heights is wrong.
"""

from pathlib import Path

import numpy as np

import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "buffer_gradient.slang"))

heights = spy.Tensor.from_numpy(device, np.float32([0, 2, 4, 0]))
gradients = spy.Tensor.zeros(device, heights.shape, "float")
learn = module.learn.set(heights=heights.storage, heightGradients=gradients.storage)

# The second and the third measurement are at the same place, and both add to the same two gradients.
learn(place=np.float32([0.5, 1.5, 1.5, 2.25]), measured=np.float32([0, 1, 4, 3]))
print(gradients.to_numpy())
