"""The documents as pages: all of them, with links that lead somewhere, and a reference of all names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import slangrad as spy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, str(ROOT / "tools/build_site.py"), "--out", str(out)], check=True, cwd=ROOT
    )
    return out


def test_every_document_is_a_page(site):
    wanted = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in (site / "docs").glob("*.html")} == wanted
    assert "<h1>slangrad</h1>" in (site / "index.html").read_text()
    assert "<table>" in (site / "docs/errors.html").read_text()


def test_links_lead_somewhere(site):
    broken = []
    for page in site.rglob("*.html"):
        for target, anchor in re.findall(r'(?:href|src)="([^"#:]*)(?:#([^"]*))?"', page.read_text()):
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or (
                anchor and found.suffix == ".html" and f'id="{anchor}"' not in found.read_text()
            ):
                broken.append(f"{page.relative_to(site)}: {target}#{anchor}")
    assert broken == []


def test_the_reference_has_every_name(site):
    text = (site / "reference.html").read_text()
    told = set(re.findall(r'<h3 id="(\w+)">', text))
    assert told == {name for names in spy._HOMES.values() for name in names.split()}
    assert "<b>with_grads</b>(" in text and "<b>bind_call</b>(" in text


def test_the_menu_is_in_the_order_of_the_contents(site):
    menu = re.search(r"<aside>(.*?)</aside>", (site / "docs/gradients.html").read_text(), re.DOTALL)[1]
    pages = [Path(page).name for page in re.findall(r'href="([^"#]+)"', menu)]
    guide = [f"{path.stem}.html" for path in sorted((ROOT / "docs/guide").glob("*.md"))]
    assert pages[2 : 2 + len(guide)] == guide
    assert pages.index("reference.html") < pages.index("api.html") < pages.index("errors.html")
