"""Train the network of this folder on points of the unit square, with kernels that users write.

    python train.py                 half, Adam
    python train.py float descent   float, plain gradient descent

Parameters, gradients and the optimizer's state are plain buffers; the network holds addresses in them. Each
step launches one kernel over the points, which adds to the gradients, and one over the parameters, which takes
them away.
"""

import sys
from pathlib import Path

import numpy as np

import slangrad as spy

FOLDER = Path(__file__).parent
LAYERS = ((4, 16), (16, 4))  # inputs, outputs
COUNT = sum((inputs + 1) * outputs for inputs, outputs in LAYERS)
STATE = np.dtype([("mean", np.float32), ("variance", np.float32), ("iteration", np.int32)])


class Kernels:
    """The kernels for one number type, compiled when they are first launched."""

    def __init__(self, dtype, **settings):
        defines = {"MLP_FLOAT": "1"} if dtype == np.float32 else {}
        self.dtype = np.dtype(dtype)
        self.device = spy.create_device(include_paths=[FOLDER], defines=defines, **settings)
        self.learn = self._kernel("learnGradient")
        self.descend = self._kernel("adjustParameters")
        self.adam = self._kernel("adjustParametersAdam")

    def _kernel(self, name):
        return self.device.create_compute_kernel(self.device.load_program("kernels.slang", [name]))


class Training:
    """A network with random parameters, and what it learns from."""

    def __init__(self, kernels, seed):
        self.kernels, device = kernels, kernels.device
        self.parameters = device.create_buffer(data=first_parameters(seed).astype(kernels.dtype))
        self.gradients = device.create_buffer(data=np.zeros(COUNT, kernels.dtype))
        self.states = device.create_buffer(data=np.zeros(COUNT, STATE).view(np.uint8))
        self.network = device.create_buffer(data=self._addresses())
        self.largest = device.create_buffer(data=np.zeros(1, np.uint32))

    def _addresses(self):
        """weights, weightsGrad, biases, biasesGrad of each layer."""
        found, at = [], 0
        for inputs, outputs in LAYERS:
            for size in (inputs * outputs, outputs):
                found += [each.device_address + at for each in (self.parameters, self.gradients)]
                at += size * self.kernels.dtype.itemsize
        return np.array(found, np.uint64)

    def learn(self, points):
        """Add to the gradients; the largest loss of all points."""
        self.largest.copy_from_numpy(np.zeros(1, np.uint32))
        self.kernels.learn.dispatch(
            thread_count=[len(points), 1, 1],
            network=self.network,
            lossBuffer=self.largest,
            inputs=self.kernels.device.create_buffer(data=np.ascontiguousarray(points, np.float32)),
            count=len(points),
        )
        return float(self.largest.to_numpy().view(np.float32)[0])

    def adjust(self, optimizer):
        """One step of "descent" or "adam"."""
        arguments = {"params": self.parameters, "gradients": self.gradients, "count": COUNT}
        if optimizer == "descent":
            self.kernels.descend.dispatch([COUNT, 1, 1], **arguments)
        else:
            self.kernels.adam.dispatch([COUNT, 1, 1], states=self.states, **arguments)


def first_parameters(seed):
    """Of each layer its weights, then its biases: between -1 and 1, over the root of the number of inputs."""
    random = np.random.default_rng(seed)
    sizes = [(inputs + 1) * outputs for inputs, outputs in LAYERS]
    scales = [1 / np.sqrt(inputs) for inputs, _ in LAYERS]
    return np.concatenate([s * random.uniform(-1, 1, n) for s, n in zip(scales, sizes, strict=True)])


def steps_to(training, points, optimizer, wanted, most):
    """How many steps bring the largest loss below `wanted`; None where `most` are too few."""
    for step in range(1, most + 1):
        if training.learn(points) < wanted:
            return step
        training.adjust(optimizer)
    return None


def main(*arguments):
    dtype = np.float32 if "float" in arguments else np.float16
    optimizer = "descent" if "descent" in arguments else "adam"
    kernels = Kernels(dtype)
    count = 16 if optimizer == "descent" else 256  # without Adam, the steps of many points are too long
    for seed in range(5):
        points = np.random.default_rng(100 + seed).uniform(0, 1, (count, 2))
        steps = steps_to(Training(kernels, seed), points, optimizer, wanted=0.02, most=2000)
        print(f"seed {seed}: the loss of all {count} points is below 0.02 after {steps} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
