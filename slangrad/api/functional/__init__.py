"""Modules whose functions and types are called like those of Python."""
