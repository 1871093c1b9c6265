"""Functions of functions: gradients, tangents, cotangents and products of the Hessian, as values that are returned."""
