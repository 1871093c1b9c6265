"""Flat IR to LLVM text to machine code."""
