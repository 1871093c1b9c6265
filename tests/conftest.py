"""All tests check the IR after each pass, and take no kernels from a disk."""

import os

os.environ.setdefault("SLANGRAD_VERIFY", "1")
os.environ.setdefault("SLANGRAD_CACHE", "off")
