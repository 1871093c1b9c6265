"""Slang's own tests, run by slangrad: compute tests whose output buffer is compared with what Slang expects.

    git clone https://github.com/shader-slang/slang
    python tools/conformance.py slang/tests autodiff compute --json report.json --page docs/conformance.md

Tests run in processes of their own, which a crash ends. The table counts files; what is not `pass` or
`unsupported` is listed below it with the first line of its reason. `unsupported` are tests that this tool
cannot express, `refused` those with something that Slang has and slangrad does not: errors whose codes begin with E9.
Exit code 1 when a test fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the checkout, where slangrad is not installed

import expectations
from conformance_page import write_page
from conformance_worker import Worker, serve
from slang_inputs import Unsupported
from slang_tests import Case, directives_of, read_case, read_text
from slang_values import Launch

import slangrad as spy

STATUSES = (
    "pass",
    "refused",
    "mismatch",
    "compile_error",
    "runtime_error",
    "crash",
    "timeout",
    "unsupported",
)
NO_FAILURES = ("pass", "refused", "unsupported")


class Failed(Exception):
    """The test does not pass; (status, reason)."""


def outcome(path: Path) -> dict[str, str]:
    """Status and reason of one test, in this process."""
    try:
        run(read_case(path))
    except Unsupported as error:
        return {"status": "unsupported", "reason": str(error)}
    except Failed as error:
        status, reason = error.args
        return {"status": status, "reason": reason}
    return {"status": "pass", "reason": ""}


def run(case: Case) -> None:
    device = spy.create_device()
    try:
        program, kernel = compile_case(device, case)
    except Exception as error:
        raise Failed("refused" if is_refusal(error) else "compile_error", str(error)) from error
    try:
        launch = Launch(device, program, kernel, case.inputs.implied(case.source))
        outputs = launch.run(case.inputs.values, case.groups)
    except Unsupported:
        raise
    except Exception as error:
        raise Failed("refused" if is_refusal(error) else "runtime_error", str(error)) from error
    text = "".join(expectations.written(data, scalar if case.is_typed else "") for data, scalar in outputs)
    if case.prefix:
        difference = expectations.against_checks(text, case.source, case.prefix)
    else:
        difference = expectations.against_lines(text, case.expected)
    if difference:
        raise Failed("mismatch", difference)


def is_refusal(error: Exception) -> bool:
    """Whether a compiler says that it knows what is written, and does not support it."""
    diagnostics = error.diagnostics if isinstance(error, spy.CompileError) else ()
    codes = [diagnostic.code for diagnostic in diagnostics if diagnostic.is_error] or [
        getattr(error, "code", "")
    ]
    return any(code.startswith("E9") for code in codes)


def compile_case(device: Any, case: Case) -> tuple[Any, Any]:
    """The linked program and its kernel."""
    options = {
        "include_paths": [case.path.parent],
        "defines": {"__HLSL__": "1"} | case.defines,
        "matrix_layout": getattr(spy.SlangMatrixLayout, case.matrix_layout),
    }
    session = device.create_slang_session(compiler_options=options)
    module = session.load_module_from_source("main", case.source, case.path)
    conformances = [spy.TypeConformance(*row) for row in case.inputs.implied(case.source)]
    entry = module.entry_point(case.entry, conformances)
    if case.inputs.arguments:
        entry = entry.specialize([spy.SpecializationArg.from_type(name) for name in case.inputs.arguments])
    program = session.link_program([module], [entry])
    return program, device.create_compute_kernel(program)


def outcomes_of(tests: Path, files: list[Path], workers: list[Worker]) -> dict[str, dict[str, str]]:
    """The outcome of each file, by its name in `tests`; they are told on stderr one by one."""
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def run_one(file: Path) -> dict[str, str]:
        worker = free.get()
        try:
            return worker.outcome(file)
        finally:
            free.put(worker)

    outcomes = {}
    with ThreadPoolExecutor(len(workers)) as pool:
        for file, outcome in zip(files, pool.map(run_one, files)):
            name = str(file.relative_to(tests))
            outcomes[name] = outcome
            print(f"  {outcome['status']}: {name}", file=sys.stderr, flush=True)
    return outcomes


def found_in(tests: Path, folder: str) -> list[Path]:
    """The folder's files with an enabled compute test."""
    top = tests / folder
    files = [top] if top.is_file() else sorted(top.rglob("*.slang"))
    return [file for file in files if directives_of(read_text(file))]


def table(report: dict[str, dict[str, dict[str, str]]]) -> str:
    """Counts of each status in each folder, and the failures."""
    used = [
        status
        for status in STATUSES
        if any(status == outcome["status"] for of in report.values() for outcome in of.values())
    ]
    lines = ["| folder | tests | " + " | ".join(used) + " |", "|" + " --- |" * (len(used) + 2)]
    failures = []
    for folder, outcomes in report.items():
        counts = Counter(outcome["status"] for outcome in outcomes.values())
        lines.append(
            f"| {folder} | {len(outcomes)} | " + " | ".join(str(counts[status]) for status in used) + " |"
        )
        for name, outcome in outcomes.items():
            if outcome["status"] not in ("pass", "unsupported"):
                reason = next(iter(outcome["reason"].splitlines()), "")
                failures.append(f"- {name}: {outcome['status']}: {reason}"[:200])
    return "\n".join([*lines, "", *failures]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", type=Path, help="the folder tests of a checkout of Slang")
    parser.add_argument("folders", nargs="*", help="folders or files in it (default: autodiff)")
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a test")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    parser.add_argument("--page", type=Path, help="put counts and failures there, between the page's marks")
    parser.add_argument("--version", help="of Slang, for the page (default: the commit of the checkout)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve(outcome)
        return
    folders = arguments.folders or ["autodiff"]
    for folder in folders:
        if not (arguments.tests / folder).exists():
            parser.error(f"no '{folder}' in {arguments.tests}")
    version = arguments.version or commit_of(arguments.tests)
    if arguments.page and not version:
        parser.error(f"{arguments.tests} is no git checkout: --version tells the page which Slang it is from")
    report = {}
    command = [sys.executable, __file__, str(arguments.tests), "--worker"]
    workers = [Worker(command, arguments.timeout) for _ in range(max(1, arguments.jobs))]
    for folder in folders:
        report[folder] = outcomes_of(arguments.tests, found_in(arguments.tests, folder), workers)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    for worker in workers:
        worker.end()
    print(table(report), end="")
    if arguments.page:
        command = f"python tools/conformance.py SLANG/tests {' '.join(folders)} --page {arguments.page}"
        write_page(arguments.page, report, f"{date.today():%d %B %Y}, tests of Slang {version}: `{command}`")
    statuses = {outcome["status"] for of in report.values() for outcome in of.values()}
    sys.exit(1 if statuses - set(NO_FAILURES) else 0)


def commit_of(tests: Path) -> str:
    """The commit of a checkout; "" for a folder that is none."""
    command = ["git", "-C", str(tests), "log", "-1", "--format=%h"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # there is no git
        return ""


if __name__ == "__main__":
    main()
