"""Names that SlangPy's programs use and no compiler needs: they stand on the public names, and load when asked for."""
