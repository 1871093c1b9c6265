"""Tokens to AST: one file for each part of the grammar."""
