"""Devices for tests of calls: each test runs compiled and interpreted."""

import pytest

import slangrad as spy


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


@pytest.fixture
def kernel(device):
    """The kernel `main` of a text; options are those of its session."""

    def make(text, name="main", **options):
        session = device.create_slang_session(compiler_options=options) if options else device.slang_session
        module = session.load_module_from_source(f"kernel_{hash(text)}", text)
        return device.create_compute_kernel(session.link_program([module], [module.entry_point(name)]))

    return make
