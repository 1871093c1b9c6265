"""Optimizers over lists of tensors: `SGD`, `Adam`, `AdamW`. A step is one kernel for each tensor, written in Slang."""

from slangrad.missing_names import missing
from slangrad.optim.optimizers import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


def __getattr__(name: str) -> object:
    raise missing("module 'slangrad.optim'", name, __all__)
