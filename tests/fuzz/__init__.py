"""Damaged text, generated valid programs, short and long ones, and programs that grow."""
