"""Devices for tests of calls: each test runs compiled and interpreted."""

from itertools import count

import pytest

import slangrad as spy

_numbers = count(1)


@pytest.fixture(scope="session", params=["cpu", "interpreter"])
def device(request):
    return spy.create_device(backend=request.param)


@pytest.fixture
def load(device):
    """Module from Slang text."""

    def load_module(text, **options):
        return spy.Module.load_from_source(device, f"test_{next(_numbers)}", text, options or None)

    return load_module
