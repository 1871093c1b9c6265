"""Checks of memory and numbers: put in, moved out of loops, decided before the launch."""
