"""All tests check the IR after each pass, take no kernels from a disk, and can be interrupted."""

import os
import signal

os.environ.setdefault("SLANGRAD_VERIFY", "1")
os.environ.setdefault("SLANGRAD_CACHE", "off")

# Shells start what runs in the background with SIGINT ignored; tests and the processes they start send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
