"""Kernels of raw programs."""

import pytest


@pytest.fixture
def kernel(device):
    """The kernel `main` of a text; options are those of its session."""

    def make(text, name="main", **options):
        session = device.create_slang_session(compiler_options=options) if options else device.slang_session
        module = session.load_module_from_source(f"kernel_{hash(text)}", text)
        return device.create_compute_kernel(session.link_program([module], [module.entry_point(name)]))

    return make
