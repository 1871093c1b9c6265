"""Graphs of tensors: NumPy code, traced, differentiated, fused into Slang kernels, planned and run.

from slangrad import graph

@graph.jit
def fused(a, b, c, d): return d + (a + b) * c        one kernel
value, dz = graph.value_and_grad(loss)(z, y)
"""

from slangrad.graph import calls  # noqa: F401  (they enter functions of arrays)
from slangrad.graph.arrays import contractions, derived, indexing, random  # noqa: F401  (they enter functions of arrays)
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.convolutions import avg_pool2d, conv2d, max_pool2d
from slangrad.graph.arrays.neural import batch_norm, layer_norm, log_softmax, softmax, stop_gradient
from slangrad.graph.attention import attention
from slangrad.graph.ir.errors import GraphError, TracedValueError
from slangrad.graph.scan import scan
from slangrad.graph.trace import grad, jit, jvp, value_and_grad
from slangrad.graph.train import train
from slangrad.graph.weights import load, save
from slangrad.graph.workers.checkpoints.checkpoint import checkpoint
from slangrad.graph.workers.connections.costs import Links, measure_links
from slangrad.graph.workers.connections.faults import WorkerLost
from slangrad.graph.workers.meshes.mesh import mesh
from slangrad.graph.workers.meshes.specs import shard
from slangrad.graph.workers.simulation.simulate import cluster, simulate

__all__ = [
    "Array", "GraphError", "Links", "TracedValueError", "WorkerLost", "attention", "avg_pool2d", "batch_norm",
    "checkpoint", "cluster", "conv2d", "grad", "jit", "jvp", "layer_norm", "load", "log_softmax", "max_pool2d",
    "measure_links", "mesh", "random", "save", "scan", "shard", "simulate", "softmax", "stop_gradient", "train",
    "value_and_grad",
]  # fmt: skip
