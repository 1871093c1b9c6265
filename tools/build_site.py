"""The documents as pages of HTML, and a reference of all public names from their docstrings.

    python tools/build_site.py --out site    ->    site/index.html, site/docs/gradients.html, ..., site/reference.html

In: README, docs, the manual and what they link to; the menu is what docs/index.md lists, in its order.   Out: a folder
that any browser shows, without a server. Links between documents lead to pages, and a link to a file that is no
document leads to a copy of it.
"""

from __future__ import annotations

import argparse
import html
import re
import shutil
from pathlib import Path
from posixpath import normpath, relpath
from typing import NamedTuple

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from site_reference import reference

ROOT = Path(__file__).parent.parent
CONTENTS = "docs/index.md"
MANUAL = "tests/language/README.md"
REFERENCE = "reference.html"
LEXERS = {"slang": "hlsl", "python": "python", "bash": "bash", "console": "console", "json": "json"}
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def documents() -> list[str]:
    """Paths from the root."""
    patterns = ("*.md", "docs/*.md", "docs/guide/*.md", "tests/language/*.md", "benchmarks/*.md")
    return [path.relative_to(ROOT).as_posix() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def page_of(document: str) -> str:
    return "index.html" if document == "README.md" else document.removesuffix(".md") + ".html"


def title_of(document: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.sub(r"[`*]", "", text.split("\n", 1)[0].lstrip("# "))


# --- The menu -----------------------------------------------------------------------------------------


class Entry(NamedTuple):
    words: str
    page: str
    anchor: str


def menu() -> list[tuple[str, list[Entry]]]:
    """The sections of the contents with the pages that they link to."""
    sections: list[tuple[str, list[Entry]]] = []
    for line in (ROOT / CONTENTS).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append((line.removeprefix("## "), []))
        number = re.match(r"\d\. ", line)
        for words, target, anchor in LINK.findall(line) if sections else ():
            said = (number.group() if number else "") + words[0].upper() + words[1:]
            page = page_of(normpath(f"docs/{target}"))
            sections[-1][1].append(Entry(said, page, anchor))
    by_subject = next(entries for title, entries in sections if title == "By subject")
    by_subject.insert(0, Entry("Reference of all names", REFERENCE, ""))
    return sections


def menu_shown(at: str, headings: list[str]) -> str:
    """The menu beside the page `at`, which is marked and has its headings below it."""
    here = at.rpartition("/")[0] or "."
    marked = page_of(MANUAL) if at.startswith("tests/language/") else at
    parts = [f'<a class="name" href="{relpath("index.html", here)}">slangrad</a>']
    parts.append(
        f'<a{_marked(at == page_of(CONTENTS))} href="{relpath(page_of(CONTENTS), here)}">Contents</a>'
    )
    for title, entries in menu():
        parts.append(f"<h2>{html.escape(title)}</h2>")
        for words, page, anchor in entries:
            is_here = page == marked and not anchor
            parts.append(
                f'<a{_marked(is_here)} href="{relpath(page, here)}{anchor}">{html.escape(words)}</a>'
            )
            if is_here and page == at:
                parts += [
                    f'<a class="within" href="#{_anchor(heading)}">{heading}</a>' for heading in headings
                ]
    return "\n".join(parts)


def _marked(is_here: bool) -> str:
    return ' class="here"' if is_here else ""


# --- Pages --------------------------------------------------------------------------------------------


def framed(title: str, body: str, at: str) -> str:
    """A whole page; `at` is its place in the site."""
    body = re.sub(r"<(h[2-4])>(.*?)</\1>", _with_anchor, body)
    body = re.sub(r"<table>.*?</table>", r'<div class="table">\g<0></div>', body, flags=re.DOTALL)
    headings = [
        re.sub(r"<a .*?</a>", "", heading) for heading in re.findall(r'<h2 id=".*?">(.*?)</h2>', body)
    ]
    headings = [re.sub(r"<[^>]*>", "", heading) for heading in headings]
    style = relpath("site.css", at.rpartition("/")[0] or ".")
    name = title if title == "slangrad" else f"{title} | slangrad"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(name)}</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<aside>
{menu_shown(at, headings)}
</aside>
<main>
{body}
</main>
</body>
</html>
"""


def colored(code: str, language: str, _attributes: str = "") -> str:
    """What stands in a block of code, with colors where the language has any."""
    word = language.split(" ")[0] or "text"
    lexer = LEXERS.get(word)
    if lexer is None:
        return f'<pre class="{word}">{html.escape(code)}</pre>'
    return (
        f'<pre class="{word}">{highlight(code, get_lexer_by_name(lexer), HtmlFormatter(nowrap=True))}</pre>'
    )


def rendered(document: str, pages: set[str]) -> tuple[str, set[str]]:
    """The body of a document's page, and the files that it links to and that are no documents."""
    markdown = MarkdownIt("commonmark", {"html": True, "highlight": colored}).enable("table")
    text = markdown.render((ROOT / document).read_text(encoding="utf-8"))
    folder, files = document.rpartition("/")[0], set()

    def link(match: re.Match[str]) -> str:
        attribute, target, anchor = match.groups()
        path = normpath(f"{folder}/{target}" if folder else target)
        if ":" in target or not target:
            return match.group()
        if path in pages:
            return f'{attribute}="{relpath(page_of(path), relpath(folder or ".", "."))}{anchor or ""}"'
        files.add(path)
        return match.group()

    return re.sub(r'(href|src)="([^"#]*)(#[^"]*)?"', link, text), files


def _with_anchor(match: re.Match[str]) -> str:
    level, words = match.groups()
    name = _anchor(re.sub(r"<[^>]*>", "", words))
    return f'<{level} id="{name}">{words}<a class="mark" href="#{name}">#</a></{level}>'


def _anchor(words: str) -> str:
    """As GitHub names headings."""
    return re.sub(r"[^\w\- ]", "", html.unescape(words).lower()).replace(" ", "-")


def stylesheet() -> str:
    """The site's own rules, and colors of code for light and dark screens."""
    light = HtmlFormatter(style="default").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    plain = [
        "\n".join(line for line in style.splitlines() if line.startswith("pre .")) for style in (light, dark)
    ]
    sheet = (Path(__file__).parent / "site.css").read_text(encoding="utf-8")
    return f"{sheet}\n{plain[0]}\n@media (prefers-color-scheme: dark) {{\n{plain[1]}\n}}\n"


def build(out: Path) -> None:
    """Write the site into a folder."""
    names = documents()
    files: set[str] = set()
    for name in names:
        body, linked = rendered(name, set(names))
        files |= linked
        _write(out / page_of(name), framed(title_of(name), body, page_of(name)))
    _write(out / REFERENCE, framed("Reference", reference(), REFERENCE))
    _write(out / "site.css", stylesheet())
    for name in sorted(files):
        if (ROOT / name).is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, out / name)
        else:
            (out / name).mkdir(parents=True, exist_ok=True)
            for path in filter(Path.is_file, (ROOT / name).iterdir()):
                shutil.copy(path, out / name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("site"))
    build(arguments.parse_args().out)
