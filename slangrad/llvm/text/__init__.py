"""Flat IR without memory as LLVM text: types, arithmetic, conversions."""
