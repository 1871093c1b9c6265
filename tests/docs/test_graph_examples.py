"""The programs of examples/graph, at the quick size: they learn, and draw a picture. The page on many workers runs
data_parallel.py."""

import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

FOLDER = Path(__file__).parent.parent.parent / "examples" / "graph"
LEARNED = {"digits": 0.8, "sorting": 0.7}  # of 1, the share of digits that are right


@pytest.mark.sampled(1)
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
