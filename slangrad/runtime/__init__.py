"""Devices: memory, kernels, launches. Takes bytes and addresses; knows nothing of the compiler."""
