"""The CUDA device: NVIDIA GPUs through the driver that is installed with them."""
