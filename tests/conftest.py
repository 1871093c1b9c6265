"""All tests check the IR after each pass."""

import os

os.environ.setdefault("SLANGRAD_VERIFY", "1")
