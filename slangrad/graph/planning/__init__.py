"""Kernels to a plan: order, memory, recomputation."""
