"""Traced arrays: NumPy's functions of them, their gradients, and arrays from outside."""
