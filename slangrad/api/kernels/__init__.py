"""Kernels that users write: programs, parameters by name, launches, commands."""
