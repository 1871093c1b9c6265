"""While modules are loaded, nobody looks for garbage; afterwards it is as the user has set it."""

import gc
from collections.abc import Iterator

import pytest

from slangrad.base.process.forks import loading


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def test_the_collector_rests() -> None:
    with loading():
        with loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_a_module_that_cannot_be_loaded() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with loading():
        pass
    assert not gc.isenabled()
