"""Loops that run for long look whether the launch shall stop."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from tests.delayed.launching import compiled, run

HEAD = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform uint* x, uniform uint n)
"""

ENDLESS = HEAD + "{ uint v = x[id.x]; while (v != 1) v = v * 5u + 2u & ~1u; x[id.x] = v; }"
NESTED = (
    HEAD
    + """
{
    uint v = x[id.x];
    for (uint i = 0; i < 4000000000u; i++)
        for (uint j = 0; j < n; j++)
            v = v * 5u + j;
    x[id.x] = v;
}
"""
)


@pytest.mark.parametrize("text", [ENDLESS, NESTED])
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(("threads", "workers"), [(1, 1), (6400, 2)])
def test_ctrl_c_in_a_loop(text, lanes, threads, workers):
    compiled(text, lanes=lanes)
    presser = threading.Thread(target=signal_in_the_kernel, args=(signal.SIGINT,))
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        run(text, {"x": np.zeros(max(threads, 64), np.uint32), "n": 3}, threads, lanes, workers)
    presser.join()


def signal_in_the_kernel(number):
    """Not before: Python drops what a handler raises while an object is taken away."""
    main, calls = threading.main_thread().ident, {"_take", "_launch_native", "_run_one_chunk"}
    seen = 0
    while seen < 5:
        time.sleep(0.01)
        seen = seen + 1 if sys._current_frames()[main].f_code.co_name in calls else 0
    os.kill(os.getpid(), number)


def test_what_a_handler_raises_is_raised_by_the_launch():
    def handler(number, frame):
        raise OverflowError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    compiled(ENDLESS)
    sender = threading.Thread(target=signal_in_the_kernel, args=(signal.SIGALRM,))
    sender.start()
    try:
        with pytest.raises(OverflowError, match="enough"):
            run(ENDLESS, {"x": np.zeros(64, np.uint32), "n": 0}, 64)
        sender.join()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_returns_lets_the_loop_go_on():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
    text = HEAD + "{ uint v = x[id.x]; for (uint i = 0; i < n; i++) v = v * 5u + i; x[id.x] = v; }"
    compiled(text)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        outcome = run(text, {"x": np.zeros(64, np.uint32), "n": 50_000_000}, 64)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [signal.SIGALRM]
    assert len(set(outcome.arrays["x"].tolist())) == 1 and outcome.arrays["x"][0] != 0


def test_short_loops_do_not_look_up():
    short = HEAD + "{ uint v = x[id.x]; for (uint i = 0; i < 100; i++) v = v * 5u + i; x[id.x] = v; }"
    assert "@poll" not in compiled(short).text("llvm")
    assert "@poll" in compiled(short.replace("100", "n")).text("llvm")
    assert "@poll" in compiled(short.replace("100", "100000")).text("llvm")


def test_launches_go_on_after_an_interrupt():
    compiled(ENDLESS)
    sender = threading.Thread(target=signal_in_the_kernel, args=(signal.SIGINT,))
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        run(ENDLESS, {"x": np.zeros(64, np.uint32), "n": 0}, 64)
    sender.join()
    assert run(ENDLESS, {"x": np.ones(64, np.uint32), "n": 0}, 64).arrays["x"].tolist() == [1] * 64
