"""Damaged text, and generated valid programs."""
