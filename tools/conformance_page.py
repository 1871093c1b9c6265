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
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page} has no '{START}' and '{END}'")
    measured = "\n\n".join([said, counts(report), *(failures(folder, of) for folder, of in report.items())])
    page.write_text(f"{before}{START}\n\n{measured}\n\n{END}{after}", encoding="utf-8")


def counts(report: dict[str, Outcomes]) -> str:
    """A row for each folder and one for all."""
    rows = [(folder, Counter(outcome["status"] for outcome in of.values())) for folder, of in report.items()]
    total: Counter[str] = sum((row for _, row in rows), Counter())
    lines = ["| folder | tests | pass | refused | fail | cannot be expressed |", "|---|---|---|---|---|---|"]
    for name, statuses in [*rows, ("all", total)]:
        passed, refused, unsupported = statuses["pass"], statuses["refused"], statuses["unsupported"]
        failed = statuses.total() - passed - refused - unsupported
        lines.append(f"| {name} | {statuses.total()} | {passed} | {refused} | {failed} | {unsupported} |")
    return "\n".join(lines)


def failures(folder: str, outcomes: Outcomes) -> str:
    """The tests that do not pass, by reason; the most frequent one first."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, outcome in outcomes.items():
        if outcome["status"] not in ("pass", "unsupported"):
            by_reason[shortened(outcome)].append(name.removeprefix(f"{folder}/").removesuffix(".slang"))
    lines = [f"### {folder}", "", "| reason | | tests |", "|---|---|---|"]
    for reason, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = ", ".join(f"`{listed_name}`" for listed_name in sorted(names))
        lines.append(f"| {reason} | {len(names)} | {listed} |")
    return "\n".join(lines) if by_reason else f"### {folder}\n\nAll pass."


def shortened(outcome: dict[str, str]) -> str:
    """The first line of a reason without places and paths, fit for a table."""
    first = next(iter(outcome["reason"].splitlines()), "")
    match = re.search(r"error\[(E\d+)\]: (.*)", outcome["reason"])
    text = f"{match[1]}: {match[2]}" if match else f"{outcome['status'].replace('_', ' ')}: {first}"
    text = re.sub(r"lambda at [^']*", "a lambda", text)
    text = re.sub(r"(/\S+)+/(\S+)", r"\2", text).replace("|", "\\|").replace("<", "\\<")
    return text if len(text) <= 110 else text[:107] + "..."
