"""Names that SlangPy's programs use and the compiler does not: they use the public names, and load on first use."""
