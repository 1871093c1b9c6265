"""Bodies of functions: expressions and statements."""
