"""Types of Python that a user teaches to calls, in the words of SlangPy."""
