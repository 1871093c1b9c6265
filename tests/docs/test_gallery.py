"""Each example of the gallery, as its command runs it at the quick size: what it fits comes near, and a picture is drawn."""

import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent.parent
GALLERY = ROOT / "examples" / "gallery"
NEARER = {
    "polynomial": 10,
    "ray_marcher": 3,
    "splatting": 10,
    "cloth": 10,
    "hash_grid": 10,
    "paths": 10,
    "distances": 10,
    "textured": 100,
    "mip_texture": 20,
}
DEEP = {"paths", "distances", "textured", "mip_texture"}  # `.ci/run` runs all of them


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name in DEEP)) for name in NEARER]
)
def test_the_loss_falls(name, tmp_path, monkeypatch, capsys):
    program = GALLERY / f"{name}.py"
    monkeypatch.syspath_prepend(str(GALLERY))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(program), "--quick"])
    example = runpy.run_path(str(program), run_name="__main__")
    shown = re.findall(r"step +(\d+)/(\d+)   loss (\S+) ", capsys.readouterr().out)
    (first, steps, start), *_, (last, _, end) = shown
    assert (int(first), int(last), int(steps)) == (1, int(steps), example["QUICK"]["steps"])
    assert float(start) > NEARER[name] * float(end) > 0
    with Image.open(f"{name}.png") as picture:
        assert picture.width == 1000


def test_all_examples_are_shown():
    programs = {path.stem for path in GALLERY.glob("*.py")} - {"show"}
    assert programs == set(NEARER)
    readme = (ROOT / "README.md").read_text()
    for name in programs:
        assert f"](examples/gallery/{name}.slang)" in readme
        assert f"`python examples/gallery/{name}.py`" in readme
        assert f"](docs/{name}.png)" in readme
        assert (ROOT / f"docs/{name}.png").stat().st_size < 150_000
