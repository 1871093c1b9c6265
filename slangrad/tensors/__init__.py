"""Typed storage: buffers and strided tensors over device memory."""
