"""Call a function on an array and ask for its gradient: the shortest complete program, and its variants.

Prints the distances in which cars of 10, 20 and 30 m/s stop, three times, because a result can be asked for in
three ways. Then it prints how many meters each additional m/s costs, the same once more after a second call (gradients
add up), and how many meters a slower reaction costs all three cars together.
"""

from pathlib import Path

import numpy as np

import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, str(Path(__file__).parent / "stopping.slang"))
stopping_distance = module.stoppingDistance

# One call for each speed; the other arguments are the same in all calls. Gradients begin at zero.
speed = spy.Tensor.from_numpy(device, np.float32([10, 20, 30])).with_grads()

# The call makes a tensor for its results,
meters = stopping_distance(speed, reaction=1, braking=8, _result="tensor")
print(meters.to_numpy())

# or fills one that is there,
there = spy.Tensor.empty(device, speed.shape, "float")
stopping_distance(speed, reaction=1, braking=8, _result=there)
print(there.to_numpy())

# or returns a NumPy array.
print(stopping_distance.return_type(np.ndarray)(speed, reaction=1, braking=8))

# The backward call takes the cotangents of the results: here ones.
meters = meters.with_grads()
meters.grad.copy_from_numpy(np.ones(3, np.float32))
stopping_distance.bwds(speed, reaction=1, braking=8, _result=meters)
print(speed.grad.to_numpy())

# A second call adds to the gradients. Clear them where that is not wanted: speed.grad.clear()
stopping_distance.bwds(speed, reaction=1, braking=8, _result=meters)
print(speed.grad.to_numpy())

# An argument that is the same in all calls gets the sum of its derivatives.
reaction = spy.Tensor.from_numpy(device, np.float32([1])).with_grads()
stopping_distance.bwds(speed, reaction=reaction, braking=8, _result=meters)
print(reaction.grad.to_numpy())
