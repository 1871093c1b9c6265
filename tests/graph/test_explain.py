"""What is said about plans: texts that can be parsed, and are the same each time."""

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph

W, X = np.ones((8, 5), np.float32), np.ones((16, 8), np.float32)


def network(w: Any, x: Any) -> Any:
    return (graph.softmax(np.tanh(x @ w)) * 2).sum(0), x - x.mean(1, keepdims=True), x < 1


class Tags(HTMLParser):
    """Opened tags that are not closed, texts of each tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.texts.setdefault(tag, [])
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]].append(data)


def explain(**settings: Any) -> Any:
    return graph.jit(network).explain(W, X, **settings)


@pytest.fixture(scope="module")
def explained() -> Any:
    return explain()


def test_the_text_has_counts_and_kernels(explained: Any) -> None:
    text, fusion = str(explained), explained.plan.fusion
    assert f"{len(fusion.groups)} kernels for" in text
    assert (
        f"bytes: {fusion.before.bytes} -> {fusion.after.bytes}; memory between kernels: {explained.plan.peak}"
        in text
    )
    assert text.count("operations for each byte") == 1 + len(fusion.groups)
    assert "tanh" in text
    assert "test_explain.py:" in text


def test_the_page_needs_no_other_file(explained: Any, tmp_path: Any) -> None:
    explained.save(tmp_path / "plan.html")
    tags = Tags((tmp_path / "plan.html").read_text())
    assert not tags.open
    assert len(tags.texts["pre"]) == len(explained.plan.fusion.groups) + 1
    assert f"{explained.plan.fusion.after.bytes}" in tags.texts["td"]
    assert any("tanh(" in each for each in tags.texts["pre"])


def test_the_picture_shows_kernels_and_shapes(explained: Any) -> None:
    page = explained._repr_html_()
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    texts = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    boxes = [
        [float(each.attrib[name]) for name in ("x", "y", "width", "height")]
        for each in picture.iter("{http://www.w3.org/2000/svg}rect")
    ]
    for number, group in enumerate(explained.plan.fusion.groups, 1):
        assert any(each.startswith(f"{number}: {group.kind} ") for each in texts)
    assert {"f32[16,8]", "f32[8,5]", "f32[5]", "bool[16,8]"} <= set(texts)
    assert any(each.startswith("less ") for each in texts)
    assert len(boxes) == 2 + len(explained.plan.fusion.groups) + 3
    for i, (x, y, width, height) in enumerate(boxes):
        assert 0 <= x <= float(picture.attrib["width"]) - width
        assert 0 <= y <= float(picture.attrib["height"]) - height
        for a, b, c, d in boxes[:i]:
            assert x >= a + c or a >= x + width or y >= b + d or b >= y + height


def test_graphviz_text(explained: Any) -> None:
    text = explain(dot=True)
    assert text == explained.dot
    boxes = re.findall(r'^    (b\d+) \[label="[^"]*", fillcolor="#[0-9a-f]{6}"\];$', text, re.MULTILINE)
    arrows = re.findall(r'^    (b\d+) -> (b\d+) \[label="\w+\[[\d,]*\]"\];$', text, re.MULTILINE)
    assert len(boxes) + len(arrows) + 3 == len(text.splitlines())
    assert {each for pair in arrows for each in pair} == set(boxes)
    assert all(int(a[1:]) < int(b[1:]) for a, b in arrows)


def test_equal_plans_have_equal_texts(explained: Any) -> None:
    again = explain()
    assert str(again) == str(explained)
    assert again._repr_html_() == explained._repr_html_()


def test_steps_of_training() -> None:
    step = graph.train(lambda p, x: ((x @ p[0]) ** 2).mean(), spy.optim.SGD([W.copy()], lr=0.1))
    assert "result 2" in step.explain(X, dot=True)
    assert "input parameter0" in step.explain(X, dot=True)


def test_constants_are_shown_as_numbers():
    text = str(graph.jit(lambda x: (x + 0.1) * np.nan).explain(np.ones(3, np.float32)))
    assert "constant value=0.1 " in text
    assert "constant value=0000c07f" in text  # of NaN its bits, of which there are many


def test_explanations_compile_nothing_where_products_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_TUNE", "0")
    modules: list[Any] = []
    monkeypatch.setattr(spy.Module, "load_from_source", lambda *args: modules.append(args))
    w = np.ones((512, 512), np.float32)
    text = str(graph.jit(lambda x: np.tanh(x @ w)).explain(w))
    assert "product" in text and not modules
