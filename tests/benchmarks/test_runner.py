"""The benchmark runner: tables, errors of its command line, the README's tables. No time is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = [sys.executable, str(ROOT / "benchmarks" / "run.py")]
ONCE = ["--rounds", "1", "--max-rounds", "1", "--patience", "0"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([*RUNNER, *arguments], capture_output=True, text=True, env=environment, check=False)


def test_a_workload_is_timed_and_checked(tmp_path: Path) -> None:
    saved = tmp_path / "results.json"
    done = run("--workloads", "W8", "--peers", "cavx2,slangrad", *ONCE, "--json", str(saved))
    assert done.returncode == 0, done.stderr
    assert "### W8" in done.stdout
    assert "| variant | peer | median | min | ratio |" in done.stdout
    assert "| fwd | slangrad | " in done.stdout and "| bwd | slangrad | " in done.stdout

    (result,) = json.loads(saved.read_text())["workloads"]
    rows = {row["variant"]: row for row in result["rows"] if row["peer"] == "slangrad"}
    assert set(rows) == {"fwd", "bwd", "fwd/bound", "bwd/bound", "fwd/numpy"}
    for row in rows.values():
        assert row["error"] < 1e-6
        assert row["ratio"] is not None


@pytest.mark.deep
def test_this_checkout_is_compared_with_another(tmp_path: Path) -> None:
    saved = tmp_path / "ratios.json"
    only_once = ["--rounds", "1", "--patience", "0", "--json", str(saved)]
    done = run("--against", str(ROOT), "--workloads", "W8", *only_once)
    assert done.returncode == 0, done.stderr
    assert "| W8 | bwd/bound | " in done.stdout and "| cold | warm start | " in done.stdout
    for row in json.loads(saved.read_text())["ratios"]:
        assert 0 < row["low"] <= row["median"] <= row["high"]

    unknown = run("--against", "no-such-commit", "--workloads", "W8")
    assert unknown.returncode == 2
    assert "no-such-commit" in unknown.stderr


def test_the_interval_of_a_median() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from against import interval  # noqa: PLC0415
    finally:
        sys.path.pop(0)
    # Table of the sign test: of 20 values, the 6th and the 15th; of 10, the 2nd and the 9th; of 3 there is none.
    assert interval([*range(20, 0, -1)]) == (6, 15)
    assert interval([*range(1, 11)]) == (2, 9)
    assert interval([3, 1, 2]) == (1, 3)


def test_a_peer_may_live_elsewhere_and_on_fewer_cpus(tmp_path: Path) -> None:
    (tmp_path / "peer_mine.py").write_text(
        "import os\n"
        "import numpy as np\n"
        "import workloads as w\n"
        "INFO = {'version': np.__version__, 'cpus': len(os.sched_getaffinity(0))}\n"
        "def W1(d):\n"
        "    x, s = d['x'], {}\n"
        "    def fwd():\n"
        "        s['y'] = w.A * x * x + w.B * x + w.C + 1\n"
        "    return {'fwd': (fwd, lambda: s), 'bwd': (lambda: 1 / 0, lambda: s)}\n"
    )
    (tmp_path / "peer_idle.py").write_text("CANNOT = {'W8': 'too busy'}\n")
    (tmp_path / "peer_broken.py").write_text("import no_such_library\n")
    saved = tmp_path / "results.json"
    peers = ["--peer-path", str(tmp_path), "--peers", "idle,broken,mine@1", "--threads", "1"]
    done = run("--workloads", "W8", *peers, *ONCE, "--json", str(saved))
    assert done.returncode == 0, done.stderr
    assert "- mine@1 (bwd): ZeroDivisionError: division by zero\n" in done.stdout
    assert "- idle (fwd, bwd): too busy\n" in done.stdout
    assert "- broken (fwd, bwd): ModuleNotFoundError: No module named 'no_such_library'\n" in done.stdout

    (result,) = json.loads(saved.read_text())["workloads"]
    assert result["reference"] == "mine@1"
    row = next(row for row in result["rows"] if row["peer"] == "mine@1" and row["variant"] == "fwd")
    assert row["info"]["cpus"] == 1
    assert row["ratio"] == 1
    assert row["error"] > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--peers", "nobody"], "unknown peer nobody; there are c"),
        (["--workloads", "W99,W1"], "unknown workload W99; there are W1, W2"),
        (["--peers", "slangrad@0"], "slangrad@0: after @ comes a number of CPUs, 1 to"),
        (["--peers", "slangrad@many"], "slangrad@many: after @ comes a number of CPUs, 1 to"),
        (["--peers", "slangrad", "--ref", "c"], "--ref c: not among the peers slangrad"),
        (["--peers", "slangrad", "--threads", "0"], "--threads: there are 1 to"),
        (["--peer-path", "/nowhere"], "--peer-path /nowhere: no such folder"),
    ],
)
def test_errors_of_the_command_line(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not done.stdout


def test_tables_of_the_readme_are_replaced(tmp_path: Path) -> None:
    row = {"peer": "slangrad", "variant": "fwd", "info": {"version": "0.1"}, "median": 4.1e-6, "ratio": 2.0}
    result = {"workload": "W8", "reference": "slangrad@1", "disturbed": 0.25, "rows": [row]}
    here = {
        "cpu": "Abacus",
        "cpus": 2,
        "date": "2026-01-01",
        "python": "3.12",
        "numpy": "2.0",
        "system": "Linux",
    }
    cold = {
        "peers": [
            {"peer": "slangrad", "empty": 0.9, "full": 0.2, "imported": 0.15},
            {"peer": "c", "skip": "no gcc"},
        ],
        "imports": [
            {"statement": "import numpy", "seconds": 0.1},
            {"statement": "import slangrad", "seconds": 0.15},
        ],
    }
    saved, readme = tmp_path / "results.json", tmp_path / "README.md"
    saved.write_text(json.dumps({"command": "run", "machine": here, "cold": cold, "workloads": [result]}))
    readme.write_text(
        "before\n<!-- table W8 -->\nkept\n<!-- end W8 -->\n"
        "<!-- table W8/slangrad@1 -->\nold\n<!-- end W8/slangrad@1 -->\n"
        "<!-- table cold -->\n<!-- end cold -->\nafter\n"
    )
    done = run("--update-readme", str(saved), "--readme", str(readme))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "replaced: W8/slangrad@1, cold\nno place for: machine\n"
    assert readme.read_text() == (
        "before\n<!-- table W8 -->\nkept\n<!-- end W8 -->\n"
        "<!-- table W8/slangrad@1 -->\n\n"
        "ratio: time over the time of slangrad@1 in the same round; 25% of the timings had others on the CPUs\n\n"
        "| variant | peer | median | ratio |\n| --- | --- | --- | --- |\n| fwd | slangrad | 4.1 us | 2 |\n\n"
        "<!-- end W8/slangrad@1 -->\n"
        "<!-- table cold -->\n\n"
        "| peer | caches empty | caches full | of these the import |\n| --- | --- | --- | --- |\n"
        "| slangrad | 900 ms | 200 ms | 150 ms |\n\n- c: no gcc\n\n"
        "| python -c | whole process | beyond NumPy |\n| --- | --- | --- |\n"
        "| `import numpy` | 100 ms |  |\n| `import slangrad` | 150 ms | 50 ms |\n\n"
        "<!-- end cold -->\nafter\n"
    )


def test_the_readme_has_a_place_for_every_workload() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    names = ["W1", "W2", "W3", "W4", "W5a", "W5b", "W6", "W7c", "W8", "W5a/slangrad@1", "cold", "machine"]
    for name in names:
        assert readme.count(f"<!-- table {name} -->\n") == readme.count(f"<!-- end {name} -->\n") == 1, name
