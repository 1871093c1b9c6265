"""slangrad: a Slang compiler with automatic differentiation, called from Python on arrays."""

__version__ = "0.1.0"
