"""Calls from Python: arguments, shapes, results, derivatives."""
