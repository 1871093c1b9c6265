"""All tests check the IR after each pass, take no kernels from a disk, and can be interrupted.

Tests of calls run compiled and interpreted: `device` is one of each, `load` the module of a text.
"""

import os
import signal

import pytest
from hypothesis import settings

import slangrad as spy

os.environ.setdefault("SLANGRAD_VERIFY", "1")
os.environ.setdefault("SLANGRAD_CACHE", "off")

# Shells start what runs in the background with SIGINT ignored; tests and the processes they start send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same draws in every run; `--hypothesis-profile=default` draws others.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session", params=["cpu", "interpreter"])
def device(request):
    return spy.create_device(backend=request.param)


@pytest.fixture(scope="session")
def modules():
    return {}


@pytest.fixture
def load(device, modules):
    """The module of a Slang text, loaded once."""

    def load_module(text, **options):
        key = (device, text, *options)
        if key not in modules:
            name = f"test_{len(modules)}"
            modules[key] = spy.Module.load_from_source(device, name, text, options or None)
        return modules[key]

    return load_module
