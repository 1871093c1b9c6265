"""Arguments with memory that the kernel uses as it lies: arrays, tensors, buffers, single values."""
