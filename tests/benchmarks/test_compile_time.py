"""The benchmark of compiling: its programs, the limit, the table. No time is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    import compile_programs as programs
    import compile_worker as worker
    import report
finally:
    sys.path.pop(0)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(ROOT / "benchmarks" / "compile_time.py"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def test_a_program_is_compiled(tmp_path: Path) -> None:
    saved = tmp_path / "compile.json"
    done = run("--programs", "first", "--json", str(saved))
    assert done.returncode == 0, done.stderr
    assert "| program | CPU s | library not kept | operations | peak MiB |" in done.stdout
    (row,) = json.loads(saved.read_text())["compile"]
    assert row["program"] == "first kernel, 3 lines"
    measured = row["slangrad"]
    assert measured["seconds"] > 0 and measured["bare"] > 0 and measured["peak"] > 20
    assert 20 < measured["operations"] < 500


def test_a_program_that_takes_longer_is_ended(tmp_path: Path) -> None:
    saved = tmp_path / "compile.json"
    done = run("--programs", "network", "--limit", "0.1", "--json", str(saved))
    assert done.returncode == 0, done.stderr
    assert "| network 4, 64, 64, 1 of structs, gradient | > 0.1 |" in done.stdout
    (row,) = json.loads(saved.read_text())["compile"]
    assert row["slangrad"]["over"] == 0.1 and row["slangrad"]["peak"] > 5


def test_the_command_is_timed_as_a_whole() -> None:
    done = run("--programs", "check")
    assert done.returncode == 0, done.stderr
    assert "| program | CPU s | wall s |\n| --- | --- | --- |\n| slangrad check, 20 lines |" in done.stdout
    assert len(programs.CHECKED.splitlines()) == 20


def test_errors_of_the_command_line() -> None:
    for words, said in (
        (["--programs", "nothing"], "first kernel, 3 lines; "),
        (["--against", "no-such"], "no-such"),
    ):
        done = run(*words)
        assert done.returncode == 2
        assert said in done.stderr


SMALL = {
    "chain": programs.chain(3, backward=True),
    "chain without derivatives": programs.chain(3, backward=False),
    "statements": programs.statements(3),
    "helpers": programs.helpers(4, 4),
    "gradient of helpers": programs.helpers(4, 4, backward=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_kernel_computes_what_the_call_does(name: str) -> None:
    program = SMALL[name]
    device = spy.create_device()
    inputs = [worker.numbers((programs.VALUES,)) for _ in program.parameters]
    module = spy.Module.load_from_source(device, "program", program.text)
    given = [worker.argument(spy, module, kind, program) for kind in program.parameters]
    function = module.require_function(program.function)
    if program.backward:
        function.bwds(*given)
        wanted = [each.grad.to_numpy() for each in given]
    else:
        wanted = [function(*given).to_numpy()]
    buffers = {f"x{i}": worker.buffer(spy, device, 1, each) for i, each in enumerate(inputs)}
    for i in range(len(wanted)):
        buffers[f"out{i}"] = worker.buffer(spy, device, 1, np.zeros(programs.VALUES, np.float32))
    kernel_module = device.load_module_from_source("kernel", programs.kernel_of(program))
    linked = device.link_program([kernel_module], [kernel_module.entry_point(programs.ENTRY)])
    device.create_compute_kernel(linked).dispatch(thread_count=[programs.VALUES, 1, 1], **buffers)
    for i, each in enumerate(wanted):
        assert np.isfinite(each).all() and each.any()
        np.testing.assert_allclose(buffers[f"out{i}"].to_numpy().view(np.float32), each, rtol=1e-5)


def test_the_random_program_is_the_same_everywhere() -> None:
    text = programs.PROGRAMS["random program of 118 lines"].text
    assert len(text.splitlines()) == 118
    assert text.count("for (int") == 11


def test_statements_are_counted() -> None:
    assert programs.PROGRAMS["1,000 statements"].text.count("sin(x)") == 1_000
    assert programs.PROGRAMS["10,000 statements"].text.count("sin(x)") == 10_000


def test_the_table() -> None:
    rows = [
        {
            "program": "one",
            "slangrad": {"seconds": 1.25, "bare": 2.5, "peak": 1234.5, "operations": 56789},
            "before": {"over": 60.0, "peak": 1.0},
            "slangpy": {"seconds": 0.5, "peak": 1.0},
        },
        {"program": "two", "slangrad": {"failed": "OSError: no"}, "slangpy": {"failed": "ImportError: none"}},
    ]
    assert report.compile_times({"limit": 60.0, "compile": rows}) == (
        "CPU seconds from text to first result; programs end at 60 s\n\n"
        "| program | CPU s | library not kept | before | operations | peak MiB | SlangPy |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| one | 1.25 | 2.50 | > 60 | 56,789 | 1,234 | 0.50 |\n"
        "| two |  |  |  |  |  |  |\n\n"
        "- slangrad (two): OSError: no\n"
        "- slangpy (two): ImportError: none\n"
    )


def test_the_readme_has_a_place_for_it(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(
        "<!-- table compile -->\nold\n<!-- end compile -->\n<!-- table machine -->\n<!-- end machine -->\n"
    )
    row = {"program": "one", "slangrad": {"seconds": 1.0}}
    saved = tmp_path / "compile.json"
    saved.write_text(json.dumps({"command": "", "machine": {}, "limit": 60.0, "compile": [row]}))
    replaced, homeless = report.update_readme(readme, [json.loads(saved.read_text())])
    assert (replaced, homeless) == (["compile"], [])  # and what was said of other tables stays
    assert "| one | 1.00 |" in readme.read_text()
    real = (ROOT / "benchmarks" / "README.md").read_text()
    assert real.count("<!-- table compile -->\n") == real.count("<!-- end compile -->\n") == 1
