"""All tests check the IR after each pass (with `Options` of their own, too), take no kernels from a disk, and can be
interrupted.

    SLANGRAD_CALLS=keep pytest tests/gradients --one-in 8     a sample of tests, with all functions kept

Tests of calls run compiled and interpreted: `device` is one of each, `load` the module of a text.
"""

import gc
import os
import signal
from zlib import crc32

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


def pytest_addoption(parser):
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="run one test in N, the same ones each time"
    )


def pytest_collection_modifyitems(config, items):
    n = config.getoption("--one-in")
    items[:] = [item for item in items if crc32(item.nodeid.encode()) % n == 0]


# A full collection walks over all that lives: PyTorch's modules, thousands of test items, the programs that session
# fixtures keep. What is there before the tests, and after each file, is not walked over again, and the rest less often.
def pytest_collection_finish(session):
    gc.set_threshold(10_000, 10, 10)
    _freeze()


@pytest.fixture(scope="module", autouse=True)
def frozen():
    yield
    _freeze()


def _freeze():
    gc.collect()
    gc.freeze()


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
