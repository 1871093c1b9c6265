"""The Slang functions that slangrad's peers on a CPU and on a GPU have in common, and the parameters of W3."""

from pathlib import Path

import numpy as np

FOLDERS = [Path(__file__).parent, Path(__file__).parent.parent / "examples" / "mlp"]  # of the programs of W3


def functions(a, b, c, steps, step):
    """`a`, `b`, `c`: of the polynomial of W1. `steps`, `step`: of the relaxation, how many and how long."""
    return f"""
[Differentiable]
float polynomial(float x)
{{
    return {a} * x * x + {b} * x + {c};
}}

[Differentiable]
float wave(float x)
{{
    return sin(x) * exp(-x * x) + log(1 + x * x);
}}

[Differentiable]
float term(DiffTensor<float, 1> table, int index, no_diff float weight)
{{
    return table[index] * weight;
}}

[Differentiable]
float relax(float p)
{{
    float x = 1;
    for (int i = 0; i < {steps}; i++)
        x = x - {step} * (x * x * x - p);
    return x;
}}
"""


class Parameters:
    """Of the network of W3 and their gradients, in two buffers: a row of a layer's table is its weights and then its
    bias. `layers`: weights and biases of each."""

    def __init__(self, device, layers, dtype=np.float32):
        tables = [np.column_stack(layer) for layer in layers]
        self._shapes = [table.shape for table in tables]
        self._dtype = np.dtype(dtype)
        first = np.concatenate([table.ravel() for table in tables]).astype(dtype)
        self.values = device.create_buffer(data=first)
        self.gradients = device.create_buffer(data=np.zeros_like(first))
        self.count = len(first)
        self.argument = {"values": self.values, "gradients": self.gradients}

    def layers_in(self, buffer):
        """Weights and biases of each layer, in one of the two buffers."""
        numbers, layers = buffer.to_numpy().view(self._dtype), []
        for shape in self._shapes:
            table, numbers = np.split(numbers, [np.prod(shape)])
            table = table.reshape(shape)
            layers.append((table[:, :-1], table[:, -1]))
        return layers
