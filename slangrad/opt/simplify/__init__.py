"""Passes that make a function smaller and keep its results: from IR to IR."""
