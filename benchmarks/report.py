"""Results as markdown, and the tables of README.md.

In: what run.py and compile_time.py write as JSON. Out: tables; columns that no row fills are left out. A table of
the README stands between `<!-- table NAME -->` and `<!-- end NAME -->`, where NAME is a workload (W1), a workload and
the reference if that is no C (W5a/slangrad@1), `cold`, `compile` or `machine`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, base_variant

Row = dict[str, Any]
Columns = dict[str, Callable[[Row], str]]
C_PEERS = ("c", "cavx2")


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if value * scale < 1000:
            return f"{value * scale:.3g} {unit}" if value * scale < 100 else f"{value * scale:.0f} {unit}"
    return f"{value:.2f} s"


def number(value: float | None) -> str:
    if not value:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def scientific(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


# fmt: off
TIMINGS: Columns = {
    "variant":    lambda row: row["variant"],
    "peer":       lambda row: row["peer"],
    "median":     lambda row: seconds(row["median"]),
    "min":        lambda row: seconds(row.get("min")),
    "ratio":      lambda row: number(row.get("ratio")),
    "ns/item":    lambda row: number(row.get("ns_per_item")),
    "GB/s":       lambda row: number(row.get("gigabytes_per_second")),
    "GFLOP/s":    lambda row: number(row.get("gigaflops")),
    "cores":      lambda row: number(row.get("cores")),
    "first call": lambda row: seconds(row.get("first_call")),
    "error":      lambda row: scientific(row.get("error")),
}
STARTS: Columns = {
    "peer":                lambda row: row["peer"],
    "caches empty":        lambda row: seconds(row["empty"]),
    "caches full":         lambda row: seconds(row.get("full")),
    "of these the import": lambda row: seconds(row.get("imported")),
}
IMPORTS: Columns = {
    "python -c":    lambda row: f"`{row['statement']}`",
    "whole process": lambda row: seconds(row["seconds"]),
    "beyond NumPy": lambda row: seconds(row.get("beyond")),
}
COMPILERS = ("slangrad", "before", "slangpy")
COMPILING: Columns = {
    "program":          lambda row: row["program"],
    "CPU s":            lambda row: cpu(row["slangrad"]),
    "library not kept": lambda row: cpu(row["slangrad"], "bare"),
    "before":           lambda row: cpu(row.get("before")),
    "wall s":           lambda row: cpu(row["slangrad"], "wall"),
    "operations":       lambda row: whole(row["slangrad"].get("operations")),
    "peak MiB":         lambda row: whole(row["slangrad"].get("peak")),
    "SlangPy":          lambda row: cpu(row.get("slangpy")),
}
RATIOS: Columns = {
    "workload": lambda row: row["workload"],
    "variant":  lambda row: row["variant"],
    "ratio":    lambda row: f"{row['median']:.3f}",
    "95 %":     lambda row: f"{row['low']:.3f} to {row['high']:.3f}",
    "rounds":   lambda row: str(row["rounds"]),
}
# fmt: on


def ratios(rows: list[Row]) -> str:
    """The table of a comparison with another commit."""
    skipped = [f"- {row['workload']} {row['variant']}: {row['skip']}\n" for row in rows if row["skip"]]
    table = markdown(RATIOS, [row for row in rows if not row["skip"]])
    return table + ("\n" + "".join(skipped) if skipped else "")


def markdown(columns: Columns, rows: Iterable[Row]) -> str:
    """A table of the columns that at least one row fills."""
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    filled = [any(line[i] for line in cells) for i in range(len(columns))]
    lines = [[text for text, keep in zip(line, filled) if keep] for line in ([*columns], *cells)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def section_of(result: Row) -> str:
    """The name of a workload's table."""
    reference = result["reference"]
    return result["workload"] if reference in C_PEERS else f"{result['workload']}/{reference}"


def timings(result: Row) -> str:
    """The table of one workload, fastest first in each variant, and who is missing."""
    order = list(WORKLOADS[result["workload"]].cost)
    rows = [row for row in result["rows"] if "skip" not in row]
    rows.sort(key=lambda row: (order.index(base_variant(row["variant"])), row["median"]))
    said = f"ratio: time over the time of {result['reference'] or 'nobody'} in the same round"
    if result.get("disturbed"):
        said += f"; {result['disturbed']:.0%} of the timings had others on the CPUs"
    return f"{said}\n\n{markdown(TIMINGS, rows)}{missing(result['rows'])}"


def missing(rows: Iterable[Row]) -> str:
    """A line for each reason why something was not measured."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "skip" in row:
            reasons.setdefault((row["peer"], row["skip"]), []).append(row.get("variant", ""))
    lines = []
    for (peer, reason), variants in reasons.items():
        of = f" ({', '.join(variants)})" if any(variants) else ""
        lines.append(f"- {peer}{of}: {reason}\n")
    return "\n" + "".join(lines) if lines else ""


def title(result: Row) -> str:
    return f"{section_of(result)}: {WORKLOADS[result['workload']].title}"


def starts(cold: Row) -> str:
    """The tables of the cold start."""
    peers = [row for row in cold["peers"] if "skip" not in row]
    peers.sort(key=lambda row: row["empty"])
    imports = [row for row in cold["imports"] if "skip" not in row]
    numpy = next((row["seconds"] for row in imports if row["statement"] == "import numpy"), None)
    for row in imports:
        if numpy and "slangrad" in row["statement"] and row["seconds"] > numpy:
            row["beyond"] = row["seconds"] - numpy
    tables = [markdown(STARTS, peers) + missing(cold["peers"]), markdown(IMPORTS, imports)]
    return "\n".join(table for table, rows in zip(tables, (cold["peers"], imports)) if rows)


def compile_times(run: Row) -> str:
    """The table of compile_time.py, and why something is missing."""
    said = f"CPU seconds from text to first result; programs end at {run['limit']:g} s"
    rows = [
        {"peer": peer, **row[peer]} | {"variant": row["program"]}
        for row in run["compile"]
        for peer in COMPILERS
        if peer in row
    ]
    failed = [row | {"skip": row["failed"]} for row in rows if "failed" in row]
    return f"{said}\n\n{markdown(COMPILING, run['compile'])}{missing(failed)}"


def cpu(answer: Row | None, key: str = "seconds") -> str:
    """Of one program: seconds, or that it took longer than the limit."""
    if answer is None or "failed" in answer:
        return ""
    if "over" in answer:
        return f"> {answer['over']:g}" if key == "seconds" else ""
    return "" if answer.get(key) is None else f"{answer[key]:.2f}"


def versions(results: list[Row]) -> list[str]:
    """What the peers say of themselves, each once."""
    infos = {
        row["peer"].split("@")[0]: row["info"]
        for result in results
        for row in result["rows"]
        if row.get("info")
    }
    return [
        f"{peer}: {', '.join(f'{key} {value}' for key, value in info.items() if value)}"
        for peer, info in infos.items()
    ]


def machine(runs: list[Row]) -> str:
    """Where, when and with what the tables were made, and the commands."""
    here, results = runs[0]["machine"], [result for run in runs for result in run["workloads"]]
    lines = [
        f"- {here['cpu']}, {here['cpus']} CPUs, {here['date']}",
        f"- Python {here['python']}, NumPy {here['numpy']}, {here['system']}",
        *(f"- {line}" for line in versions(results)),
        *(f"- `{run['command']}`" for run in runs),
    ]
    return "\n".join(lines) + "\n"


def sections(runs: list[Row]) -> dict[str, str]:
    """Everything that can stand between the README's markers."""
    others = [run for run in runs if "compile" not in run]
    parts = {"machine": machine(others)} if others else {}
    for run in runs:
        if "compile" in run:
            parts["compile"] = compile_times(run)
    for run in others:
        parts |= {section_of(result): timings(result) for result in run["workloads"]}
        if run.get("cold"):
            parts["cold"] = starts(run["cold"])
    return parts


def update_readme(readme: Path, runs: list[Row]) -> tuple[list[str], list[str]]:
    """Replaces the README's tables by those of the runs; returns the names with and without a place there."""
    text, replaced, homeless = readme.read_text(), [], []
    for name, table in sections(runs).items():
        place = re.compile(
            rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL
        )
        text, count = place.subn(lambda match, table=table: f"{match[1]}\n{table}\n{match[2]}", text)
        (replaced if count else homeless).append(name)
    readme.write_text(text)
    return replaced, homeless
