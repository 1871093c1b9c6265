"""Checked AST to IR: the only layer that knows both."""
