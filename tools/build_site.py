"""The documents as pages of HTML, and a reference of all public names from their docstrings.

    python tools/build_site.py --out site    ->    site/index.html, site/docs/gradients.html, ..., site/reference.html

In: README, docs, the manual and what they link to.   Out: a folder that any browser shows, without a server. Links
between documents lead to pages, and a link to a file that is no document leads to a copy of it.
"""

from __future__ import annotations

import argparse
import html
import inspect
import re
import shutil
from pathlib import Path
from posixpath import normpath, relpath

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

import slangrad

ROOT = Path(__file__).parent.parent
LEXERS = {"slang": "hlsl", "python": "python", "bash": "bash", "console": "console"}
FIRST = (
    "README.md",
    "docs/index.md",
    "docs/api.md",
    "docs/calls.md",
    "docs/tensors.md",
    "docs/gradients.md",
)
STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: #222 }
pre { background: #f6f8fa; padding: .7rem; overflow-x: auto; border-radius: 4px }
code { font-size: .9em } table { border-collapse: collapse } td, th { border: 1px solid #ddd; padding: .2rem .5rem }
nav { font-size: .9em; border-bottom: 1px solid #ddd; padding-bottom: .5rem } nav a { margin-right: .8rem }
img { max-width: 100% } h3 code { font-weight: normal }
"""


def documents() -> list[str]:
    """Paths from the root, in the order in which one reads."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("tests/language/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]
    names = [path.relative_to(ROOT).as_posix() for path in sorted(found)]
    return [*FIRST, *(name for name in names if name not in FIRST)]


def page_of(document: str) -> str:
    return "index.html" if document == "README.md" else document.removesuffix(".md") + ".html"


def title_of(document: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.sub(r"[`*]", "", text.split("\n", 1)[0].lstrip("# "))


def framed(title: str, body: str, at: str) -> str:
    """A whole page; `at` is its place in the site."""
    here = at.rpartition("/")[0] or "."
    shown = [*(name for name in documents() if not name.startswith("tests/")), "tests/language/README.md"]
    links = [(relpath(page_of(name), here), title_of(name)) for name in shown]
    links.insert(1, (relpath("reference.html", here), "Reference"))
    bar = " ".join(f'<a href="{target}">{html.escape(name)}</a>' for target, name in links)
    style = STYLE + HtmlFormatter().get_style_defs()
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>'
    return f"<!doctype html>\n<html><head>{head}</head><body><nav>{bar}</nav>\n{body}</body></html>\n"


def colored(code: str, language: str, _attributes: str = "") -> str:
    """What stands in a block of code, with colors where the language has any."""
    lexer = LEXERS.get(language.split(" ")[0])
    if lexer is None:
        return f"<pre>{html.escape(code)}</pre>"
    return f"<pre>{highlight(code, get_lexer_by_name(lexer), HtmlFormatter(nowrap=True))}</pre>"


def rendered(document: str, known: set[str]) -> tuple[str, set[str]]:
    """The body of a document's page, and the files that it links to and that are no documents."""
    markdown = MarkdownIt("commonmark", {"html": True, "highlight": colored}).enable("table")
    text = markdown.render((ROOT / document).read_text(encoding="utf-8"))
    folder, files = document.rpartition("/")[0], set()

    def link(found: re.Match[str]) -> str:
        attribute, target, anchor = found.groups()
        path = normpath(f"{folder}/{target}" if folder else target)
        if ":" in target or not target:
            return found.group()
        if path in known:
            return f'{attribute}="{relpath(page_of(path), relpath(folder or ".", "."))}{anchor or ""}"'
        files.add(path)
        return found.group()

    text = re.sub(r'(href|src)="([^"#]*)(#[^"]*)?"', link, text)
    return re.sub(r"<(h[2-4])>(.*?)</\1>", _with_anchor, text), files


def _with_anchor(found: re.Match[str]) -> str:
    level, words = found.groups()
    plain = re.sub(r"<[^>]*>", "", html.unescape(words)).lower()
    name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
    return f'<{level} id="{name}">{words}</{level}>'


# --- The reference ------------------------------------------------------------------------------------


def reference() -> str:
    """All public names with their signatures and docstrings, those of one home together."""
    parts = [
        "<h1>Reference</h1>",
        "<p>All names of <code>import slangrad as spy</code>, from their docstrings.</p>",
    ]
    for home, names in slangrad._HOMES.items():
        parts.append(f"<h2>{html.escape(home)}</h2>")
        parts += [_entry(name, getattr(slangrad, name)) for name in sorted(names.split())]
    return "\n".join(parts)


def _entry(name: str, value: object) -> str:
    lines = [f'<h3 id="{name}"><code>{html.escape(name + _signature(value))}</code></h3>', _prose(value)]
    if inspect.isclass(value):
        for member, of in sorted(vars(value).items()):
            plain = of.__func__ if isinstance(of, (staticmethod, classmethod)) else of
            is_told = inspect.isfunction(plain) or isinstance(plain, property)
            if is_told and not member.startswith("_") and inspect.getdoc(plain):
                shown = member + ("" if isinstance(plain, property) else _signature(plain))
                lines.append(
                    f"<p><code>{html.escape(shown)}</code></p><blockquote>{_prose(plain)}</blockquote>"
                )
    return "\n".join(lines)


def _signature(value: object) -> str:
    try:
        return str(inspect.signature(value)) if callable(value) else ""  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def _prose(value: object) -> str:
    own = inspect.isclass(value) or callable(value) or isinstance(value, property)
    return MarkdownIt().render(inspect.getdoc(value) or "") if own else ""


def build(out: Path) -> None:
    """Write the site into a folder."""
    names = documents()
    files: set[str] = set()
    for name in names:
        body, linked = rendered(name, set(names))
        files |= linked
        _write(out / page_of(name), framed(title_of(name), body, page_of(name)))
    _write(out / "reference.html", framed("Reference", reference(), "reference.html"))
    for name in sorted(files):
        if (ROOT / name).is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, out / name)
        else:
            (out / name).mkdir(parents=True, exist_ok=True)
            for each in (path for path in (ROOT / name).iterdir() if path.is_file()):
                shutil.copy(each, out / name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--out", type=Path, default=Path("site"))
    build(arguments.parse_args().out)
