"""Functions of host vectors, matrices and quaternions."""
