"""Derivatives as values."""
