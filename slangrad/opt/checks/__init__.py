"""Checks of memory and numbers: inserted, moved out of loops, decided before the launch."""
