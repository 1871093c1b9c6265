"""Flat IR as LLVM text for NVIDIA GPUs: one GPU thread for each thread of the program."""
