"""Backends that tests run on. Those on a GPU have the mark `cuda` (tests/conftest.py)."""

import pytest

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
COMPILED = ["cpu", CUDA]
ALL = ["cpu", "interpreter", CUDA]
