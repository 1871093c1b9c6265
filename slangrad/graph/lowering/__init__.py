"""Groups to Slang kernels, or to calls of a library."""
