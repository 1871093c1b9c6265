"""Calls, expressions that become calls, and the places that functions return."""
