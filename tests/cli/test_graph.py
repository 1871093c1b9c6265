"""`slangrad graph plan`: the time of a step of a file on workers that are not there."""

import pytest

STEP = """
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x):
    return (np.tanh(x @ graph.shard(p["w"], None, "model"))).mean()

def step():
    p = {"w": np.zeros((6, 8), np.float32)}
    return graph.train(loss, spy.optim.SGD(p, lr=0.1)), (np.zeros((4, 6), np.float32),)

again, batch = step()
number = 3
"""


@pytest.mark.parametrize("name", ["step", "again"])
def test_plan(slangrad, write, name):
    write("training.py", STEP)
    code, shown, errors = slangrad("graph", "plan", f"training.py:{name}", "--mesh", "data=128,model=8")
    assert (code, errors) == (0, "")
    assert shown.startswith("1024 workers (data=128, model=8)  ")
    assert "all_reduce over data" in shown and "critical path: " in shown


def test_links_and_a_timeline(slangrad, write, tmp_path):
    write("training.py", STEP.replace('"model"', "None"))
    write("links.json", LINKS)
    words = "--workers", "16", "--workers-per-host", "16", "--links", "links.json", "--timeline"
    for name, start in (("step.svg", "<svg"), ("step.html", "<!DOCTYPE"), ("step.json", '{"traceEvents": [')):
        code, shown, errors = slangrad("graph", "plan", "training.py:step", *words, name)
        assert (code, errors) == (0, "")
        assert "all_reduce over data" in shown and " 8 s" in shown  # 2 * 4 rounds of a second
        assert (tmp_path / name).read_text().startswith(start)


def test_the_best_of_data_and_stages(slangrad, write):
    text = STEP.replace('"model"', "None").replace("np.zeros((6, 8)", "np.zeros((6, 4096)")
    write("training.py", text)
    code, shown, errors = slangrad("graph", "plan", "training.py:step", "--workers", "4", "--mesh", "auto")
    assert (code, errors) == (0, "")
    head, *rows = shown.split("\n\n")[0].splitlines()
    assert head.split() == ["mesh", "a", "step", "memory", "of", "a", "worker"]
    assert [row.split("  ")[0] for row in rows] == ["data=4", "data=2, stages=2", "data=1, stages=4"]
    best = shown.split("\n\n")[1]
    assert best.startswith("4 workers (") and "a step" in best


COST = '{"alpha": 1.0, "rate": 1e30}'
COSTS = f'{{"all_reduce": {COST}, "all_gather": {COST}, "all_to_all": {COST}, "send": {COST}}}'
MACHINE = '{"rate": 1e10, "bandwidth": 1e10, "launch": 1e-6}'
LINKS = (
    f'{{"host": {COSTS}, "network": {COSTS}, "workers_per_host": 2, "overlap": 0.5, "machine": {MACHINE}}}'
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("other.py:step", "--workers", "2"), "there is no file 'other.py'"),
        (("other.py", "--workers", "2"), "expected FILE:step, as in other.py:step"),
        (("training.py", "--workers", "2"), "expected FILE:step"),
        (("training.py:number", "--workers", "2"), "'number' must be a step of graph.train"),
        (("training.py:step",), "--workers or --mesh"),
        (("training.py:step", "--mesh", "data"), "expected data=128,model=8"),
        (("training.py:step", "--mesh", "data=2,data=4"), "axes of different names"),
        (("training.py:step", "--mesh", "seed=2"), "axes of different names, but for workers, links"),
        (("training.py:step", "--workers", "3", "--mesh", "data=2"), "these are not 3 workers"),
        (("training.py:step", "--workers", "2"), "the mesh has no axis 'model'"),
        (("training.py:step", "--workers", "2", "--mesh", "auto"), "the mesh has no axis 'model'"),
        (("training.py:step", "--workers", "64", "--mesh", "auto"), "the mesh has no axis 'model'"),
        (("training.py:step", "--workers", "2", "--links", "training.py"), "not a file of links"),
    ],
)
def test_errors(slangrad, write, words, message):
    write("training.py", STEP)
    code, shown, errors = slangrad("graph", "plan", *words)
    assert (code, shown) == (1, "")
    assert message in errors
