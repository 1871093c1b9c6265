"""Digests, and what `platform` says of the process."""

import sys
from hashlib import sha1
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad import platform


def test_digests_of_bytes_and_texts() -> None:
    assert spy.SHA1().hex_digest() == sha1(b"").hexdigest()
    assert spy.SHA1("größer").digest() == sha1("größer".encode()).digest()
    digest = spy.SHA1(b"a")
    assert digest.hex_digest() == sha1(b"a").hexdigest()
    assert digest.update("b" * 100).update(bytes(range(256))) is digest
    assert digest.digest() == sha1(b"a" + b"b" * 100 + bytes(range(256))).digest()
    assert spy.SHA1(np.arange(3).tobytes()).digest() == sha1(np.arange(3)).digest()
    with pytest.raises(TypeError):
        spy.SHA1(3)


def test_folders_and_files() -> None:
    assert platform.executable_path() == Path(sys.executable)
    assert platform.executable_directory() / platform.executable_name() == platform.executable_path()
    assert platform.home_directory() == platform.app_data_directory().parent == Path.home()
    assert (platform.runtime_directory() / "platform.py").exists()
    assert platform.project_directory() / "slangrad" == platform.runtime_directory()
    assert platform.display_scale_factor() == 1 and spy.platform is platform
    with pytest.raises(AttributeError, match="no 'open_file_dialog': there are no windows"):
        platform.open_file_dialog()


@pytest.mark.skipif(sys.platform == "win32", reason="memory_stats raises there")
def test_memory() -> None:
    assert platform.page_size % 4096 == 0
    before = platform.memory_stats()
    held = np.ones(2**23)
    after = platform.memory_stats()
    assert 2**20 < before.rss <= before.peak_rss
    assert after.rss > before.rss + held.nbytes // 2
    assert after.peak_rss >= max(after.rss, before.peak_rss)
