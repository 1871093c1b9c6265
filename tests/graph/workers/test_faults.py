"""Workers that die, stop, end, loop or run another program: all others say which worker it is, within seconds."""

from __future__ import annotations

import json
import random
import socket
from dataclasses import dataclass
from typing import Any

import pytest

from tests.graph.workers.processes import End, Starter

# Steps without kernels: a comparison of plans, and a sum over all workers.
PROGRAM = """
import json, os, signal, subprocess, sys, threading, time
import numpy as np
from slangrad import graph
mesh = graph.mesh("data", timeout={timeout})
rank, last = mesh.rank, mesh.workers - 1
sums = mesh.collective("all_reduce", "data")

def step(plan="a plan", size=1000):
    mesh.watch.begin(plan)
    x = np.ones(size)
    sums.start(None, x).wait()
    assert (x == mesh.workers).all()

def now(what):
    print(json.dumps({{what: time.time()}}), flush=True)

def end(number):  # kill or stop
    now("began")
    os.kill(os.getpid(), number)

def work():
    {before}
    step()
    if rank == {who}:
        {event}
    while True:
        step()

try:
    work()
except graph.WorkerLost as error:
    now("raised")
    said = {{"rank": error.rank, "step": error.step, "collective": error.collective, "message": str(error)}}
    print(json.dumps(said), flush=True)
"""


# The same, where each worker is a stage: a message goes from the first to the last, and back.
MESSAGES = PROGRAM.replace('mesh("data"', 'mesh("stages"').replace(
    """    x = np.ones(size)
    sums.start(None, x).wait()
    assert (x == mesh.workers).all()
""",
    """    x, link = np.full(size, 7.0), mesh.link("stages")
    if rank:
        link.receive(x, rank - 1, 0).wait()
    if rank < last:
        there, back = link.send(x, rank + 1, 0), link.receive(x.copy(), rank + 1, 1)
        there.wait()
        back.wait()
    if rank:
        link.send(x, rank - 1, 1).wait()
    assert (x == 7.0).all()
""",
)


@dataclass(frozen=True)
class Fault:
    """`event`: at one worker after its second step; `seconds`: in which all others know."""

    event: str
    words: str
    workers: int = 2
    who: int | None = None
    seconds: float = 3.0
    timeout: float = 60.0
    goes_on: bool = False  # the worker gets an error, too
    before: str = "step()"
    program: str = PROGRAM


FAULTS = {
    "dead": Fault("end(signal.SIGKILL)", "gone or stopped"),
    "dead, 3": Fault("end(signal.SIGKILL)", "gone or stopped", workers=3),
    "dead, and torchrun ends the others": Fault(
        'subprocess.Popen(["sh", "-c", f"sleep 0.2; kill {pids[0]}"]); end(signal.SIGKILL)',
        "gone or stopped",
        before="pids = np.eye(2, dtype=int)[rank] * os.getpid(); sums.start(None, pids).wait()",
    ),
    "dead with the store": Fault("end(signal.SIGKILL)", "the store of torch.distributed", workers=3, who=0),
    "stopped, 3": Fault("end(signal.SIGSTOP)", "gone or stopped", workers=3, seconds=10.0),
    "ended": Fault('now("began"); return', "ended its program"),
    "in a loop": Fault(
        'now("began")\n        while True: pass',
        "is at step 2, outside of a collective",
        timeout=2.0,
        seconds=6.0,
    ),
    "another plan, 3": Fault(
        'now("began"); step("another")', "run different programs", workers=3, goes_on=True, seconds=4.0
    ),
    "another exchange": Fault(
        'now("began"); mesh.collective("all_gather", "data").start(np.ones(9), np.ones((2, 9))).wait()',
        "run different programs: exchange 3 over data",
        goes_on=True,
        seconds=4.0,
    ),
    "another order": Fault(
        'now("began"); step("b")',  # its exchange fits
        "run different programs: step",
        goes_on=True,
        seconds=4.0,
        before='step("b")',
    ),
    "another number": Fault(
        'now("began"); mesh.watch.begin("a plan", "lr=0.1"); sums.start(None, np.ones(1000)).wait()',
        "run different programs: step",
        goes_on=True,
        seconds=4.0,
    ),
    "a checkpoint of one": Fault(
        'now("began"); mesh.watch.meet("checkpoint")',
        "run different programs: step",
        goes_on=True,
        seconds=4.0,
    ),
    "the first plan, 3": Fault(
        "pass",
        "worker 2 made another plan of the step than workers 0, 1",
        workers=3,
        goes_on=True,
        before='now("began"); step("another" if rank == last else "a plan", 1000 + rank)',
    ),
    "a dead stage, 3": Fault("end(signal.SIGKILL)", "gone or stopped", workers=3, who=1, program=MESSAGES),
    "a stopped stage, 3": Fault(
        "end(signal.SIGSTOP)", "gone or stopped", workers=3, seconds=10.0, program=MESSAGES
    ),
    "a stage that ended": Fault('now("began"); return', "ended its program", program=MESSAGES),
    "a stage in a loop": Fault(
        'now("began")\n        while True: pass',
        "is at step 2, outside of a collective",
        timeout=2.0,
        seconds=6.0,
        program=MESSAGES,
    ),
}
SLACK = 3.0  # seconds, for a machine that has other work


def said_by(end: End) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in end.output.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_all_others_know(start: Starter, fault: Fault) -> None:
    who = fault.workers - 1 if fault.who is None else fault.who
    program = fault.program.format(timeout=fault.timeout, who=who, event=fault.event, before=fault.before)
    ends = start(program, fault.workers, 40, None if fault.goes_on else who)
    said = [said_by(end) for end in ends]
    for rank, (end, found) in enumerate(zip(ends, said, strict=True)):
        if rank == who and not fault.goes_on:
            continue
        assert end.code == 0, end.output
        assert found["rank"] == (who if rank != who else 0)
        assert found["step"] >= 1
        assert fault.words in found["message"]
        assert found["raised"] - said[who]["began"] < fault.seconds + SLACK


OTHER_NUMBERS = """
import numpy as np
import slangrad as spy
from slangrad import graph
mesh = graph.mesh("data")
p, scale = [np.full(4, 1.0 + {first})], np.full(4, 1.0 + {captured})
optimizer = spy.optim.SGD(p, lr=0.1 + {rate})
step = graph.train(lambda p, x: ((p[0] * scale - x) ** 2).mean(), optimizer, mesh=mesh)
try:
    step(np.ones((2, 4)))
except graph.WorkerLost as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "first",
            "parameter 0 has other numbers on worker 1 than on worker 0; all workers begin with the same",
        ),
        (
            "captured",
            "a captured array f64[4] at program.py:8 has other numbers on worker 1 than on worker 0; all",
        ),
        ("rate", "lr is 1.1 on worker 1 and 0.1 on worker 0; all workers set the same numbers"),
    ],
)
def test_workers_begin_with_the_same_numbers(start: Starter, name: str, words: str) -> None:
    numbers = {"first": 0, "captured": 0, "rate": 0} | {name: "mesh.rank"}
    for end in start(OTHER_NUMBERS.format(**numbers), 2):
        assert end.code == 0, end.output
        assert f"worker 1 made another plan of the step than worker 0: {words}" in end.output


CHANGED_ARRAYS = """
import numpy as np
import slangrad as spy
from slangrad import graph
mesh, p = graph.mesh("data"), [np.full(4, 1.0)]
arrays = [np.ones(()), np.ones((60, 70, 4)), spy.Tensor.from_numpy(spy.create_device(), np.ones((40, 50, 4)))]

def loss(p, x):
    a, b, c = arrays
    return ((p[0] * a * b * c[0, 0] - x) ** 2).mean()

step, x = graph.train(loss, spy.optim.SGD(p, lr=0.1), mesh=mesh), np.ones((2, 60, 70, 4))
for factor in (1, 2, 2 + mesh.rank):
    if isinstance(array := arrays[{index}], spy.Tensor):
        array.copy_from_numpy(factor * array.to_numpy())
    else:
        array *= factor
    try:
        step(x)
    except graph.WorkerLost as error:
        print(factor, error)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("index", range(3))
def test_captured_arrays_are_compared_in_each_step(start: Starter, index: int) -> None:
    """Where all workers change one, it is the same again."""
    types = "f64[]", "f64[60,70,4]", "f64[4]"
    line = f"a captured array {types[index]} at program.py:10 has other numbers on worker 1 than on worker 0"
    for rank, end in enumerate(start(CHANGED_ARRAYS.format(index=index), 2)):
        assert end.code == 0, end.output
        assert end.output.startswith(f"{2 + rank} worker 1 made another plan") and line in end.output


def test_workers_with_the_same_numbers_agree(start: Starter) -> None:
    for end in start(OTHER_NUMBERS.format(first=0, captured=0, rate=0), 2):
        assert (end.code, end.output) == (0, "")


FAILING = """
import numpy as np
import slangrad as spy
from slangrad import graph
mesh, x = graph.mesh("data"), np.ones((2, 4))

def loss(p, x, i):
    return ((p[0][i] + x.mean() - x) ** 2).mean()  # the mean is an exchange before the index is read

step = graph.train(loss, spy.optim.SGD([np.ones((4, 4))], lr=0.1), mesh=mesh)
step(x, np.array([0, 1]))
for i in (9 * mesh.rank, 1, 2):
    try:
        step(x, np.array([0, i]))
    except (spy.BoundsError, graph.WorkerLost) as error:
        print(type(error).__name__, getattr(error, "rank", ""), str(error).splitlines()[0])
"""


def test_a_worker_that_fails_within_a_step_makes_no_other(start: Starter) -> None:
    """Its next exchange would have met another one of the other worker."""
    first, second = start(FAILING, 2, 40)
    assert first.code == second.code == 0, first.output + second.output
    said = "worker 1 left step 2 by BoundsError: error[E0901]: index 9 is out of range"
    lost = [line for line in first.output.splitlines() if line.startswith(f"WorkerLost 1 {said}")]
    assert len(lost) == 3, first.output
    found = [line.split(" (")[0] for line in second.output.splitlines() if "Error" in line]
    assert found[0].startswith("BoundsError") and len(found) == 3, second.output
    assert all(line.startswith(f"WorkerLost -1 {said}") for line in found[1:])


OTHER_PLANS = """
import time
import numpy as np
import slangrad as spy
from slangrad import graph
mesh = graph.mesh("data")
odd = mesh.rank == 2
time.sleep(3 * (mesh.rank == 1))

def loss(p, x):
    return {loss}

optimizer = spy.optim.SGD({{"w": np.full(8 if {shape} else 4, 0.5)}}, lr=0.1)
step = graph.train(loss, optimizer, memory="1 MiB" if {memory} else None, mesh=mesh)
try:
    if {call}:
        graph.measure_links()
    step(np.ones((3 if {rows} else 2, 1)))
except graph.WorkerLost as error:
    print(error)
"""
SAME = {"loss": '(p["w"] * x).mean()', "shape": False, "memory": False, "call": False, "rows": False}
PLANS = {
    "loss": (
        '((np.sin if odd else np.cos)(p["w"]) * x).mean()',
        "operator %1 is f64[4] = sin %0 at program.py:11 on worker 2 and f64[4] = cos %0 at program.py:11 on worker 0",
    ),
    "shape": (
        "odd",
        "parameter 'w' is f64[8] on worker 2 and f64[4] on worker 0; all workers make the same model",
    ),
    "memory": (
        "odd",
        "memory is 1048576 on worker 2 and None on worker 0; all workers pass the same settings",
    ),
    "rows": ("odd", "array 0 of all workers' batch is f64[9,1] on worker 2 and f64[6,1] on worker 0"),
    "call": ("odd", "the next call is measure_links after 0 steps on worker 2 and a step on worker 0"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_the_error_names_the_first_difference_of_two_plans(start: Starter, name: str) -> None:
    """The second of three workers comes late: the others wait for it before they compare their parts."""
    event, words = PLANS[name]
    program = OTHER_PLANS.format(**{**SAME, name: event})
    for end in start(program, 3):
        assert end.code == 0 and words in end.output, end.output


OTHER_LOOPS = """
import numpy as np
import slangrad as spy
from slangrad import graph
mesh = graph.mesh("data")
if mesh.rank == 0:
    evaluate = graph.jit(lambda x: x * 0.75)  # the same number, in another line
    evaluate(np.ones(4))

def loss(p, x):
    return graph.scan(lambda h, _: (h * {factor}, None), p[0] * x * 0.75, length=2)[0].mean()

step = graph.train(loss, spy.optim.SGD([np.ones(4)], lr=0.1), mesh=mesh)
try:
    step(np.ones((2, 4)))
except graph.WorkerLost as error:
    print(error)
"""


def test_programs_are_compared_by_what_they_compute(start: Starter) -> None:
    for end in start(OTHER_LOOPS.format(factor="(1.0 + mesh.rank)"), 2):
        assert end.code == 0 and "made another plan of the step" in end.output, end.output
        assert "of a loop is f64[] = constant value=2.0 at program.py:11 on worker 1" in end.output, (
            end.output
        )
    for end in start(OTHER_LOOPS.format(factor="0.5"), 2):
        assert (end.code, end.output) == (0, "")


@pytest.mark.deep
@pytest.mark.parametrize("text", [PROGRAM, MESSAGES], ids=["sums", "stages"])
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_any_moment(start: Starter, seed: int, text: str) -> None:
    draw = random.Random(seed)
    workers, who = draw.choice([(2, 1), (2, 0), (3, 0), (3, 1), (3, 2)])
    event = f"threading.Timer({draw.uniform(0, 2)}, end, [signal.SIGKILL]).start()"
    ends = start(text.format(timeout=60, who=who, event=event, before="step()"), workers, 40)
    began = said_by(ends[who])["began"]
    for rank, end in enumerate(ends):
        if rank != who:
            found = said_by(end)
            assert (end.code, found["rank"]) == (0, who), end.output
            assert found["raised"] - began < 3.0 + SLACK


LEAVES = """
import os, signal, threading, time
from slangrad import graph
from torch.distributed.distributed_c10d import _get_default_store
mesh = graph.mesh("data")
if mesh.rank == 0:
    _get_default_store().wait(["the other has its mesh"])
    os.kill(os.getpid(), signal.SIGSTOP)
_get_default_store().set("the other has its mesh", "1")
time.sleep(1.5)  # a call of the store waits by now
(thread,) = (x for x in threading.enumerate() if x.name == "slangrad-heartbeat")
mesh.watch._leave()
print(thread.is_alive())
"""


def test_the_thread_ends_before_its_program(start: Starter) -> None:
    """Also in a call of a store whose process stands still."""
    end = start(LEAVES, 2, 40, hangs=0)[1]
    assert end.code == 0 and end.output.endswith("False\n"), end.output  # behind a warning of torch


LENDS = """
import threading, time
import torch
from slangrad import graph
mesh = graph.mesh("data")
held = [mesh.watch.lend(torch.ones(1))]

def let_go():
    time.sleep(0.3)
    held.clear()
    print("let go", flush=True)

threading.Thread(target=let_go, daemon=True).start()
mesh.watch._leave()
print("left")
"""


def test_a_program_ends_after_its_collectives(start: Starter) -> None:
    """A thread of gloo that drops a tensor after the end of the interpreter aborts the process."""
    assert [end.output.split("\n")[-3:-1] for end in start(LENDS, 2, 40)] == [["let go", "left"]] * 2


# --- meshes that cannot be

MESH = """
import sys
from slangrad import graph
{before}
try:
    mesh = graph.mesh("data", timeout=5)
    mesh = graph.mesh("data", timeout={timeout})
    again = graph.mesh(data=1, model=2)
    print(mesh, mesh.rank, mesh.watch is again.watch, mesh.watch.timeout)
except (graph.GraphError, graph.WorkerLost) as error:
    print(type(error).__name__, error)
"""


def meshes(start: Starter, before: str = "", workers: int = 2, **environment: str) -> list[str]:
    ends = start(MESH.format(before=before, timeout=7), workers, 40, **environment)
    assert [end.code for end in ends] == [0] * workers, ends
    return [end.output for end in ends]


@pytest.mark.parametrize("before", ["", "import torch.distributed as d; d.init_process_group('gloo')"])
def test_meshes_of_a_program_watch_together(start: Starter, before: str) -> None:
    assert meshes(start, before) == [f"graph.mesh(data=2) {rank} True 300.0\n" for rank in range(2)]


TWO_MESHES = """
import time
import numpy as np
from slangrad import graph
for size, mesh in enumerate((graph.mesh(data=2, stages=2), graph.mesh(stages=2, data=2))):
    mesh.collective("all_reduce", "data").start(None, np.ones(1 + size)).wait()
for _ in range(2):
    time.sleep(1.5)
    mesh.watch.begin("a plan")
"""


def test_stages_of_two_meshes_are_others(start: Starter) -> None:
    assert [(end.code, end.output) for end in start(TWO_MESHES, 4)] == [(0, "")] * 4


@pytest.mark.parametrize(
    ("before", "environment", "words"),
    [
        ("sys.modules['torch.distributed'] = None", {}, "torch is not installed"),
        ("import os; del os.environ['RANK']", {}, "RANK expected, but not set"),
        ("", {"MASTER_PORT": "taken"}, "EADDRINUSE"),
        ("import torch; torch.__version__ = '2.7.1'", {}, "need torch 2.8, and this is 2.7.1"),
        ("import torch.distributed as d; d.init_process_group('cuda:gloo')", {}, "no backend for CPUs"),
    ],
)
def test_meshes_that_cannot_be(start: Starter, before: str, environment: dict[str, str], words: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        given = {name: value.replace("taken", port) for name, value in environment.items()}
        is_alone = "MASTER_PORT" in given
        before = f"{before}\nif int(__import__('os').environ['RANK']): sys.exit()" if is_alone else before
        assert words in meshes(start, before, **given)[0]


def test_a_worker_that_makes_no_mesh(start: Starter) -> None:
    before = "import torch.distributed as d; d.init_process_group('gloo')\nif d.get_rank(): sys.exit()"
    assert "WorkerLost worker 1 did not come to graph.mesh within 5 s" in meshes(start, before)[0]


OTHER_SLANG = """
import numpy as np
import slangrad as spy
from slangrad import graph
mesh = graph.mesh("data")
text = f"[Differentiable] double bump(double x) {{{{ return x * x + {number}; }}}}"
bump = spy.Module.load_from_source(spy.default_device(), "bumps", text).bump
step = graph.train(lambda p, x: (bump(p[0]) - x).mean(), spy.optim.SGD([np.ones(4)], lr=0.1), mesh=mesh)
try:
    step(np.ones((2, 4)))
except graph.WorkerLost as error:
    print(error)
"""


def test_slang_modules_are_compared_by_their_text(start: Starter) -> None:
    for end in start(OTHER_SLANG.format(number="{mesh.rank}.0"), 2):
        assert end.code == 0 and "made another plan of the step" in end.output, end.output
        assert "the Slang function is bump_" in end.output, end.output
    for end in start(OTHER_SLANG.format(number="1.0"), 2):
        assert (end.code, end.output) == (0, "")
