"""Traced arrays: NumPy's functions of them, their gradients, and captured arrays."""
