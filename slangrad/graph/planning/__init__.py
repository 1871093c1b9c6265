"""Kernels to a plan: order, memory, what is computed again."""
