"""The values of a program before it runs: types, numbers as kernels compute them, and layout in memory."""
