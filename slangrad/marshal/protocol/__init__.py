"""The interface between calls and arguments, and its data."""
