"""Optimizers over lists of tensors: `SGD`, `Adam`, `AdamW`. A step is one kernel for each tensor, written in Slang."""

from slangrad.optim.optimizers import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
