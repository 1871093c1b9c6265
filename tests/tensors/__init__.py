"""Buffers and tensors."""
