"""The programs of examples/graph: they learn, and draw a picture; several processes print what one prints."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

FOLDER = Path(__file__).parent.parent.parent / "examples" / "graph"
LEARNED = {"digits": 0.8, "sorting": 0.7}  # of 1, the share of digits that are right


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_learned(name, tmp_path, monkeypatch, capsys):
    if name == "digits":
        pytest.importorskip("sklearn")
    program = FOLDER / f"{name}.py"
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(program), "--quick"])
    runpy.run_path(str(program), run_name="__main__")
    shares = re.findall(r"([\d.]+)%", capsys.readouterr().out)
    assert float(shares[-1]) / 100 > LEARNED[name]
    with Image.open(f"{name}.png") as picture:
        assert picture.width == 1000


def test_two_processes_print_what_one_prints():
    pytest.importorskip("sklearn")
    pytest.importorskip("torch")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    alone, together = (
        subprocess.run(
            [sys.executable, *words, str(FOLDER / "data_parallel.py")],
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            check=True,
            env=os.environ | {"SLANGRAD_THREADS": "1"},
        ).stdout
        for words in ([], torchrun)
    )
    assert together == alone.replace("1 worker", "2 workers")
    assert float(re.search(r"([\d.]+)%", alone)[1]) > 95
