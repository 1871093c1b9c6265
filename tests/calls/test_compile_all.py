"""Kernels that are compiled together: what calls find afterwards, what workers answer, and how they end."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad import pipeline
from slangrad.api.functional.together import prepared
from slangrad.call.compiling import compile as compiling
from slangrad.call.compiling import together, workers
from slangrad.call.compiling.worker import CompileWorker
from slangrad.marshal.errors import CallCompileError, CallError
from slangrad.runtime import processors

ROOT = str(Path(spy.__file__).parent.parent)
FOLDERS = os.pathsep.join([ROOT, *sys.path])  # where other processes find the same packages
TEXT = """
import shapes;

[Differentiable] float area(float x, no_diff float scale) { return x * x * scale * unit; }
T twice<T : IArithmetic>(T x) { return x + x; }
float first(int i) { float a[3] = { 1, 2, 3 }; return a[i]; }
float size(IShape shape) { return shape.size(); }
void put(uint3 dispatchThreadID, RWTensor<float, 1> x) { x[dispatchThreadID.x] = unit; }

[shader("compute")] [numthreads(32, 1, 1)]
void clear(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<float> x) { x[id.x] = OPEN; }

[shader("compute")] [numthreads(32, 1, 1)]
void fill<S : IShape, let N : int>(uint3 id : SV_DispatchThreadID, RWStructuredBuffer<S> x, RWStructuredBuffer<float> y)
{
    y[id.x] = x[id.x].size() * N;
}
"""
SHAPES = """
interface IShape { float size(); }
struct Square : IShape { float a; float size() { return a * a; } }
struct Circle : IShape { float r; float size() { return 3 * r * r; } }
static const float unit = 2;
float doubled(float x) { return x * unit; }
"""


class Example:
    """A program with files, macros, linked modules, generics and conformances, and calls of all kinds."""

    def __init__(self, folder, **options):
        (folder / "shapes.slang").write_text(SHAPES)
        self.device = device = spy.create_device(
            include_paths=[folder], defines={"OPEN": "3.5f"}, options=spy.Options(**options)
        )
        self.module = module = spy.Module.load_from_source(device, "example", TEXT)
        linked = spy.Module.load_from_source(
            device, "open", "extern static const int N; float times(float x) { return x * N; }"
        )
        self.times = linked.times.constants({"N": 4})
        self.beside = module.area.prelude("static const float beside = 1;")
        self.x = spy.Tensor.from_numpy(device, np.arange(1, 65, dtype=np.float32)).with_grads()
        self.flat = spy.Tensor.zeros(device, (64,), "float")
        own = module.device_module
        fill = own.entry_point("fill").specialize(
            [spy.SpecializationArg.from_type("Circle"), spy.SpecializationArg.from_expr("7")]
        )
        self.programs = [device.link_program([own], [each]) for each in (own.entry_point("clear"), fill)]
        file = spy.Module.load_from_file(device, "shapes.slang")
        data = device.load_module_from_source("half", "float halved(float x) { return x / 2; }").serialize()
        precompiled = spy.Module(
            device.load_module_from_ir_blob("halves", data, folder / "halves.slang-module")
        )
        square = {"_type": "Square", "a": 3.0}
        self.calls = [
            partial(module.area.bwds, self.x, 2.0),
            partial(module.area, self.x, 2.0, _result="numpy"),
            partial(module["twice<int>"], 3),
            partial(module.first, 7),
            partial(module.size.type_conformances([("IShape", "Square", 5)]), square),
            partial(module.put.dispatch, [64, 1, 1], x=self.flat),
            partial(self.times, self.x),
            partial(self.beside, self.x, 1.0),
            partial(file.doubled, 4.0),
            partial(precompiled.halved, 4.0),
            *self.programs,
        ]

    def results(self):
        """What the calls compute."""
        first, *others, clear, _ = self.calls[3:]
        with pytest.raises(spy.BoundsError) as caught:
            first()
        found = [str(caught.value), *(call() for call in (*self.calls[:3], *others))]
        self.device.create_compute_kernel(clear).dispatch([64, 1, 1], x=self.flat.storage)
        found += [self.x.grad, self.flat]
        return [each.to_numpy().tolist() if isinstance(each, spy.Tensor) else str(each) for each in found]


def test_workers_make_the_same_bytes(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(compiling, "keep_kernel", lambda options, key, entry: kept.append(entry))
    calls = [prepared(each) for each in Example(tmp_path).calls]
    jobs = [together._missing(each) for each in calls]
    together._write_messages(jobs)
    worker = CompileWorker()
    for prepare, job in zip(calls, jobs, strict=True):
        answer = worker.answer(job.message)
        prepare()
        assert answer and answer == kept[-1]
    assert len(kept) == len(calls)


def leave_to_workers(monkeypatch):
    """This process takes no jobs."""
    monkeypatch.setattr(together, "next_job", lambda jobs: None)


def no_compilation(*given):
    raise AssertionError("a kernel is compiled that was to be there")


def test_calls_find_what_workers_have_made(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(compiling, "keep_kernel", lambda options, key, entry: kept.append(entry))
    example = Example(tmp_path, processes=1)
    example.module.compile_all(example.calls)
    wanted, made_here = example.results(), kept[:]
    kept.clear()
    example = Example(tmp_path, processes=3)
    with monkeypatch.context() as patch:
        leave_to_workers(patch)
        patch.setattr(pipeline, "_compile", no_compilation)
        example.module.compile_all(example.calls)
        assert example.results() == wanted
        example.module.compile_all(example.calls)
    assert kept == made_here and len(kept) == len(example.calls)
    assert not workers._running


def test_a_worker_may_start_ahead(tmp_path, monkeypatch):
    """It gets ready before there are jobs, takes them, and ends with the block if there are none."""
    example = Example(tmp_path, processes=2)
    with spy.Module.compile_worker(example.module.device):
        (ahead,) = workers._running
        with monkeypatch.context() as patch:
            leave_to_workers(patch)
            patch.setattr(pipeline, "_compile", no_compilation)
            example.module.compile_all(example.calls)
        assert ahead.returncode is not None and not workers._running
    with spy.Module.compile_worker(example.module.device):
        (ahead,) = workers._running
    assert ahead.returncode is not None and ahead.stdin.closed and not workers._running | {*workers._ahead}
    with spy.Module.compile_worker(spy.create_device(options=spy.Options(processes=1))):
        assert not workers._running
    monkeypatch.setattr(workers, "_started", no_room)
    with spy.Module.compile_worker(example.module.device):
        assert not workers._running


def no_room():
    raise OSError("no process")


SMALL = (
    "float f(float x) { return x + 1; }  float g(float x) { return x * 2; }  float h(float x) { return -x; }"
)


def small(**options):
    device = spy.create_device(options=spy.Options(**options))
    module = spy.Module.load_from_source(device, "small", SMALL)
    return module, [partial(module.f, 1.0), partial(module.g, 1.0), partial(module.h, 1.0)]


HELLO = "import sys, time; from slangrad.call.compiling.workers import *; send(sys.stdout.buffer, READY); "


@pytest.mark.parametrize(
    "program",
    [
        "import no_such_module",
        "from slangrad.call.compiling.workers import *; send(__import__('sys').stdout.buffer, b'another program')",
        HELLO + "receive(sys.stdin.buffer); sys.stdout.buffer.write(b'123')",
        HELLO + "receive(sys.stdin.buffer); send(sys.stdout.buffer, b'')",
        HELLO + "receive(sys.stdin.buffer); time.sleep(100)",
    ],
)
def test_what_workers_do_not_bring_is_compiled_here(monkeypatch, program):
    began = []

    def late(jobs):
        """This process begins when the worker has a job, or is gone."""
        while jobs and not began:
            (process,) = workers._running
            if len(jobs) < 3 or process.poll() is not None or "another" in program:
                began.append(process)
        return next_job(jobs)

    next_job = together.next_job
    monkeypatch.setattr(together, "next_job", late)
    monkeypatch.setattr(together, "PATIENCE", 0.1)
    monkeypatch.setattr(workers, "COMMAND", ("-c", program))
    module, calls = small(processes=2)
    module.compile_all(calls)
    assert [call() for call in calls] == [2, 2, -1]
    assert began[0].returncode is not None and began[0].stdin.closed and began[0].stdout.closed


def test_it_compiles_alone_where_there_is_nothing_to_share(monkeypatch):
    monkeypatch.setattr(workers.CompileWorkers, "__enter__", no_compilation)
    module, calls = small(processes=1)
    module.compile_all(calls)
    monkeypatch.setattr(pipeline, "_compile", no_compilation)
    module.compile_all(calls)
    assert [call() for call in calls] == [2, 2, -1]
    module.compile_all([])
    monkeypatch.undo()
    module, calls = small(processes=8)
    monkeypatch.setattr(workers.CompileWorkers, "__enter__", no_compilation)
    module.compile_all([calls[0]] * 3)


def test_errors_are_those_of_the_calls(monkeypatch):
    text = """
        float deep<let N : int>(float x) { return deep<N + 1>(x) + 1; }
        float fine(float x) { return x; }
        float first(float x)
        {
            return deep<0>(x);
        }
        float second(float x) { return deep<5>(x); }
    """
    module = spy.Module.load_from_source(spy.create_device(options=spy.Options(processes=2)), "wrong", text)
    calls = [partial(module.first, 1.0), partial(module.second, 1.0), partial(module.fine, 1.0)]
    with pytest.raises(CallError, match="No parameter named 'y'"):
        module.compile_all([*calls, partial(module.fine, y=1.0)])
    with pytest.raises(CallCompileError) as alone:
        calls[0]()
    with pytest.raises(CallCompileError) as caught:
        module.compile_all(calls)
    assert str(caught.value) == str(alone.value)
    assert "wrong:2:" in str(caught.value)
    monkeypatch.setattr(pipeline, "_compile", no_compilation)
    assert calls[2]() == 1


def test_values_of_a_call_may_be_made_by_calls():
    def asked():
        try:
            return {"offset": module.inner(2.0)}
        except Exception:
            raise AssertionError("a kernel that is missing concerns nobody else") from None

    text = "uniform float offset; float inner(float x) { return x * x; } float outer(float x) { return x + offset; }"
    module = spy.Module.load_from_source(spy.create_device(), "asked", text)
    call = partial(module.outer.set(asked), 1.0)
    module.compile_all([call, call])
    assert call() == 5


def test_no_calls():
    module, calls = small()
    for wrong in (module.f, module, lambda: 1, partial(print, 1), partial(module.f.map, 1)):
        with pytest.raises(CallError, match=r"compile_all: .* is no call of a function"):
            module.compile_all([*calls, wrong])


def test_frames():
    stream = io.BytesIO()
    for each in (b"", b"abc"):
        workers.send(stream, each)
    whole = stream.getvalue()
    stream.seek(0)
    assert [workers.receive(stream), workers.receive(stream)] == [b"", b"abc"]
    for broken in (b"", whole[:-1], whole[8:12], b"\xff" * 16):
        with pytest.raises(EOFError):
            stream = io.BytesIO(broken)
            workers.receive(stream), workers.receive(stream)


@pytest.fixture
def worker():
    """A worker that has said what compiles there."""
    command = [sys.executable, *workers.COMMAND]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": FOLDERS}, **pipes) as process:
        assert workers.receive(process.stdout) == workers.READY
        yield process
        process.kill()


def test_a_worker_ends_with_its_input(worker):
    worker.send_signal(signal.SIGINT)
    _, calls = small()
    job = together._missing(prepared(calls[0]))
    together._write_messages([job])
    workers.send(worker.stdin, job.message.replace(b"x + 1", b"x + 5"))  # files have changed: another key
    assert workers.receive(worker.stdout) == b""
    workers.send(worker.stdin, job.message.replace(b'"environment": "', b'"environment": "another compiler'))
    assert workers.receive(worker.stdout) == b""
    workers.send(worker.stdin, job.message)
    assert workers.receive(worker.stdout)
    long = json.loads(job.message)
    long["page"][1] = long["page"][1].replace(
        "{\n", "{\n    float y = 1;" + 20_000 * " y = y * 1.01 + sin(y);", 1
    )
    assert len(long["page"][1]) > 400_000
    workers.send(worker.stdin, json.dumps(long).encode())
    time.sleep(0.5)
    worker.stdin.close()
    assert worker.wait(timeout=10) == 0


SCRIPT = """
from functools import partial
import slangrad as spy
from slangrad import pipeline
from slangrad.call.compiling import together, workers

print("begin")
text = "float f(float x) { return x; } float g(float x) { return -x; }"
module = spy.Module.load_from_source(spy.create_device(), "small", text)
together.next_job = pipeline._compile = lambda *given: None  # this process compiles nothing
module.compile_all([partial(module.f, 1.0), partial(module.g, 1.0)])
print(module.f(1.0), module.g(1.0))
"""
SETTINGS = os.environ | {"PYTHONPATH": FOLDERS, "SLANGRAD_PROCESSES": "2", "SLANGRAD_VERIFY": "0"}


@pytest.mark.parametrize("is_file", [True, False])
def test_scripts_need_no_main_guard(tmp_path, is_file):
    """Neither does standard input. Nothing that lies in the current folder is run."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "json.py").write_text("raise SystemExit")
    command, text, folder = ("../script.py", None, "here") if is_file else ("-", SCRIPT, ".")
    done = subprocess.run(
        [sys.executable, command],
        cwd=tmp_path / folder,
        env=SETTINGS,
        input=text,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("begin\n1.0 -1.0\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_worker_ends_with_its_parent_even_if_a_child_of_that_goes_on():
    program = """
        import os, time, warnings
        from collections import deque
        from slangrad.call.compiling.workers import CompileWorkers, _running

        warnings.simplefilter("ignore")
        with CompileWorkers(deque(), 1):
            child = os.fork()
            if child == 0:
                assert not _running
                time.sleep(60)
                os._exit(0)
            print(child, *(each.pid for each in _running), flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, env=SETTINGS, stdout=subprocess.PIPE, text=True) as parent:
        child, worker = map(int, parent.stdout.readline().split())
        time.sleep(0.1)
        parent.kill()
        parent.wait()
        end = time.monotonic() + 20
        try:
            while is_running(worker):
                assert time.monotonic() < end
                time.sleep(0.02)
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


def is_running(number):
    """Whether there is such a process; one that has ended and that nobody has asked for is none."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True).stdout
    return bool(told.strip()) and not told.strip().startswith("Z")


@pytest.mark.parametrize(("load", "idle"), [(0.2, 4), (1.0, 4), (2.0, 3), (3.9, 1), (40.0, 1)])
def test_idle_processors(monkeypatch, load, idle):
    """This process is one of those that make the load."""
    monkeypatch.setattr(processors, "available_processors", lambda: 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (2 * load, 0, 0), raising=False)
    assert processors.idle_processors() == idle
    monkeypatch.delattr(os, "getloadavg")
    assert processors.idle_processors() == 4
