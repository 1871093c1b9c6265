"""Gradients through loops: everything kept, against states and segments: time and bytes.

    PYTHONPATH=. python benchmarks/long_loops.py [rounds]

Both are timed in turn, on one CPU; times are CPU times, the least of all rounds. Bytes are those of one thread.
"""

import sys
import time

import numpy as np

import slangrad as spy

SOURCE = """
[Differentiable]
float counted(float p, int n)
{
    float x = 1;
    for (int i = 0; i < n; i++)
        x = x - 0.1 * (x * x * x - p);
    return x;
}

[Differentiable]
float ended(float p, int n)
{
    float x = 1;
    int i = 0;
    while (i < n && x < 100)
    {
        x = x - 0.1 * (x * x * x - p);
        i++;
    }
    return x;
}

[Differentiable]
float nested(float p, int n)
{
    float x = 1;
    for (int i = 0; i < n / 16; i++)
    {
        float y = x;
        for (int j = 0; j < 16; j++)
            y = y - 0.1 * (y * y * y - p);
        x = 0.5 * (sin(y) + p);
    }
    return x;
}
"""
CASES = [(name, n, 1 << 21) for name in ("counted", "ended", "nested") for n in (64, 1024, 100_000)]


def prepared(trips, name, n, count):
    device = spy.create_device(options=spy.Options(segment_trips=trips, threads=1))
    module = spy.Module.load_from_source(device, "loops", SOURCE)
    size = max(16, count // n)
    p = spy.Tensor.from_numpy(device, np.linspace(0.1, 2, size, dtype=np.float32)).with_grads()
    x = spy.Tensor.empty(device, (size,), spy.float32).with_grads()
    x.grad.copy_from_numpy(np.ones(size, np.float32))
    f = getattr(module, name)

    def run():
        p.grad.clear()
        f.bwds(p, n, _result=x)

    run()
    return run, p.grad.to_numpy(), kept(device.explain(f.bwds, p, n, _result=x), n, trips)


def kept(explanation, n, trips):
    """Bytes that a thread keeps at most."""
    often = -(-n // trips) if trips else n
    return sum(value.bytes * (often if value.count is None else value.count) for value in explanation.stored)


def timed(run, repeats=8):
    """The least CPU time of some runs on this thread: others may take the CPU for longer than a run takes."""
    taken = []
    for _ in range(repeats):
        start = time.thread_time()
        run()
        taken.append(time.thread_time() - start)
    return min(taken)


def main(rounds=9):
    print("| loop | iterations | all kept | in segments | ratio | bytes, all kept | bytes, in segments |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, n, count in CASES:
        runs = [prepared(trips, name, n, count) for trips in (0, 256)]
        np.testing.assert_allclose(runs[0][1], runs[1][1], rtol=1e-4)
        times = np.array([[timed(run) for run, *_ in runs] for _ in range(rounds)])
        whole, cut = 1e3 * times.min(0)
        many, few = (run[2] if name != "nested" else "-" for run in runs)
        print(
            f"| {name} | {n} | {whole:.2f} ms | {cut:.2f} ms | {cut / whole:.2f} | {many} | {few} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
