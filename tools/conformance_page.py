"""The page about Slang's own tests: counts for each folder, and what does not pass, put together by reason.

In: outcomes by folder and test.   Out: the part of docs/conformance.md between its two marks.

    | folder | tests | pass | refused | fail | cannot be expressed |
    | E9001: textures are not supported | 23 | `texture-simple`, ... |

Only what was measured is written; what it means stands around the marks.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

START, END = "<!-- measured by tools/conformance.py -->", "<!-- end -->"
Outcomes = dict[str, dict[str, str]]


def write_page(page: Path, report: dict[str, Outcomes], said: str) -> None:
    """Replace what stands between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} has no '{START}' and '{END}'")
    made = "\n\n".join([said, counts(report), *(failures(folder, of) for folder, of in report.items())])
    page.write_text(f"{before}{START}\n\n{made}\n\n{END}{after}", encoding="utf-8")


def counts(report: dict[str, Outcomes]) -> str:
    """A row for each folder and one for all."""
    rows = [(folder, Counter(each["status"] for each in of.values())) for folder, of in report.items()]
    total: Counter[str] = sum((each for _, each in rows), Counter())
    lines = ["| folder | tests | pass | refused | fail | cannot be expressed |", "|---|---|---|---|---|---|"]
    for name, found in [*rows, ("all", total)]:
        passed, refused, unsupported = found["pass"], found["refused"], found["unsupported"]
        failed = found.total() - passed - refused - unsupported
        lines.append(f"| {name} | {found.total()} | {passed} | {refused} | {failed} | {unsupported} |")
    return "\n".join(lines)


def failures(folder: str, outcomes: Outcomes) -> str:
    """The tests that do not pass, by reason; the most frequent one first."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, each in outcomes.items():
        if each["status"] not in ("pass", "unsupported"):
            by_reason[shortened(each)].append(name.removeprefix(f"{folder}/").removesuffix(".slang"))
    lines = [f"### {folder}", "", "| reason | | tests |", "|---|---|---|"]
    for reason, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = ", ".join(f"`{each}`" for each in sorted(names))
        lines.append(f"| {reason} | {len(names)} | {listed} |")
    return "\n".join(lines) if by_reason else f"### {folder}\n\nAll pass."


def shortened(outcome: dict[str, str]) -> str:
    """The first line of a reason without places and paths, fit for a table."""
    first = next(iter(outcome["reason"].splitlines()), "")
    found = re.search(r"error\[(E\d+)\]: (.*)", outcome["reason"])
    text = f"{found[1]}: {found[2]}" if found else f"{outcome['status'].replace('_', ' ')}: {first}"
    text = re.sub(r"lambda at [^']*", "a lambda", text)
    text = re.sub(r"(/\S+)+/(\S+)", r"\2", text).replace("|", "\\|").replace("<", "\\<")
    return text if len(text) <= 110 else text[:107] + "..."
