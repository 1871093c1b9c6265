"""Devices: memory, kernels, launches. Takes bytes and addresses, and depends on no compiler."""
