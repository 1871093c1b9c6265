"""All tests check the IR after each pass (with `Options` of their own, too), take no kernels from a disk, and can be
interrupted.

    SLANGRAD_CALLS=keep pytest tests/gradients --one-in 8     a sample of tests, with all functions kept

Tests of calls run compiled and interpreted: `device` is one of each, `load` the module of a text. With `-m cuda` they
run on a GPU, or with SLANGRAD_FAKE_GPU=1 on a driver that interprets kernels (tests/runtime/fake_cuda.py).
"""

import gc
import os
import signal
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import settings

import slangrad as spy
from slangrad.base.options import Options
from tests.runtime.fake_cuda import fake_gpu

os.environ.setdefault("SLANGRAD_VERIFY", "1")
os.environ.setdefault("SLANGRAD_CACHE", "off")

# Processes that tests start import the package: the first one leaves its byte code to the others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Shells start what runs in the background with SIGINT ignored; tests and the processes they start send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same draws in every run; `--hypothesis-profile=default` draws others.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="run one test in N, the same ones each time"
    )


# Before pytest chooses tests by their marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    cases = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("sampled"):
            cases[item.parent.nodeid, item.originalname, *marker.args].append(item)
    for (*_, count), matrix in cases.items():
        for item in sorted(matrix, key=lambda item: crc32(item.nodeid.encode()))[count:]:
            item.add_marker("deep")
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


# What a CUDA device refuses so far, by a part of its error: tests of it are skipped there, and counted.
NOT_ON_CUDA = (
    "the host cannot reach this device's memory",
    "inside of a list for a device that",
    "this PyTorch does not have the GPU",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except Exception as error:
        refused = next((part for part in NOT_ON_CUDA if part in str(error)), None)
        if item.get_closest_marker("cuda") and refused:
            pytest.skip(f"not on CUDA: {refused}")
        raise


# A kernel that the driver stops ends the GPU for its process: a worker of xdist ends with the test and the next one has
# a GPU again; without xdist the run ends.
LOST = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    if call.excinfo is not None and "E1051" in str(call.excinfo.value):
        LOST.append(item.nodeid)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    if nodeid not in LOST:
        return
    if os.environ.get("PYTEST_XDIST_WORKER"):
        os._exit(1)
    pytest.exit(f"{nodeid}: the GPU is lost")


@pytest.fixture(scope="session")
def gpu():
    """A CUDA device whose calls raise what their kernels report."""
    options = replace(Options.from_environment(), synchronous=True)
    with ExitStack() as stack:
        if os.environ.get("SLANGRAD_FAKE_GPU"):
            stack.enter_context(fake_gpu())
        try:
            made = spy.create_device("cuda", options=options)
        except spy.CallError as error:
            pytest.skip(str(error))
        yield made


@pytest.fixture(scope="session", params=["cpu", "interpreter", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    if request.param == "cuda":
        return request.getfixturevalue("gpu")
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


@pytest.fixture
def kernel(device):
    """The kernel `main` of a text; options are those of its session."""

    def make(text, name="main", **options):
        session = device.create_slang_session(compiler_options=options) if options else device.slang_session
        module = session.load_module_from_source(f"kernel_{hash(text)}", text)
        return device.create_compute_kernel(session.link_program([module], [module.entry_point(name)]))

    return make
