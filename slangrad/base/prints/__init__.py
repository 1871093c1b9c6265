"""Formats of prints: from a format and values to a line of text."""
