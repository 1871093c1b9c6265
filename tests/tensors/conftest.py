"""`device`: the CPU device."""

import pytest

from slangrad.runtime.cpu import CpuDevice


@pytest.fixture(scope="session")
def device() -> CpuDevice:
    return CpuDevice()
