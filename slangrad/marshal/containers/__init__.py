"""Arguments whose memory the kernel uses directly: arrays, tensors, buffers, single values."""
