"""Pipelines: layers on several stages, micro-batches, the pieces of a step and the order in which they run."""
