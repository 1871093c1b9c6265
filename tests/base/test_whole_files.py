"""Files that processes write at once: whoever reads meanwhile finds one of them, and all of it."""

import subprocess
import sys
from pathlib import Path

WRITER = """
import sys
from pathlib import Path
from slangrad.base.disk.whole_files import write_whole
for _ in range(60):
    write_whole(Path(sys.argv[1]), sys.argv[2].encode() * 50_000)
"""


def test_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 50_000)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), letter]) for letter in "bc"]
    seen = set()
    while any(each.poll() is None for each in writers):
        data = path.read_bytes()
        assert len(data) == 50_000
        seen |= set(data)
    assert [each.wait() for each in writers] == [0, 0]
    assert seen <= set(b"abc")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
