"""Passes that make a function smaller and leave what it computes: from IR to IR."""
