"""Workers that die, hang, or run another program: an error on all others.

dead                     its connections break, and there are no more signs of it
stopped                  no sign for 8 seconds, while another worker waits for it
ended                    its last sign says so; others must not wait for it
another program          plans are compared when they are first run; steps and exchanges are counted with checksums
failed within a step     it publishes its error, because its next exchanges would not be those of the others
stepping at its end      a thread that steps gets an error when the program ends, and so do the others
in an endless loop       it gives signs, so others wait until their time is over

The first worker that finds out publishes it, so that all name the same one.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from ctypes import py_object, pythonapi
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from weakref import ref
from zlib import crc32

from slangrad.base.process.threads import start_thread
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.workers.connections.differences import (
    SAME_CALLS,
    SAME_ROWS,
    STEP,
    PlanPart,
    call_part,
    decoded,
    difference_text,
    encoded,
    steps_part,
)
from slangrad.graph.workers.connections.heartbeat import BEAT, Heartbeat, Sign

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.store import StoreConnection

CHECK = 0.05  # seconds between two looks at the signs of others
SILENT, CUT = 8.0, 1.5  # seconds without a sign: a process that is lost; the same where a connection broke
GRACE = 1.0  # seconds in which data of another worker may still arrive
FOUND = 3.0  # seconds to find out which worker is lost
PAUSE = 0.01  # seconds in which a thread of torch.distributed drops a tensor
REMEMBERED = 4096  # events of each sequence
COMPARISON = "the comparison of "
R = TypeVar("R")
T = TypeVar("T")
CHECK_THESE = (
    "they share the loss function, Slang modules and their paths, shapes and numbers of the batch, settings, "
    "the learning rate, captured arrays, and first parameters"
)


class WorkerLost(RuntimeError):
    """Another worker is gone, hangs, or runs another program. `rank`: which, -1 where that is not known; `step`: the
    one that this worker was at, the first is 1; `collective`: the one that did not end."""

    def __init__(self, message: str, rank: int, step: int, collective: str) -> None:
        super().__init__(message)
        self.rank, self.step, self.collective = rank, step, collective

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self.args, self.rank, self.step, self.collective)


class Verdict(NamedTuple):
    """The workers that are lost, or that do not fit each other, and why."""

    ranks: tuple[int, ...]
    reason: str

    def rank_for(self, rank: int) -> int:
        return next((other for other in self.ranks if other != rank), -1)


class Unsettled(Protocol):
    """A collective of a GPU; its `settle` returns when it has ended."""

    def settle(self) -> None: ...


class Watch:
    """The state of the other workers. `connection`: to the store, for this object alone; `holder`: the worker whose
    process holds the store, -1 without one. `timeout`: seconds that it waits for the others."""

    def __init__(
        self, connection: StoreConnection, rank: int, workers: int, holder: int, timeout: float
    ) -> None:
        self.rank, self.timeout = rank, timeout
        self.step = 0
        self.at = self.call = self.left = ""
        self._process = os.getpid()
        self._done: dict[str, tuple[int, int]] = {}
        self._past: dict[str, list[tuple[int, int]]] = {}
        self._agreed: set[str] = set()
        self._numbers = Counter[str]()
        self._apart: float | None = None  # when a difference was seen first
        self._failed: Verdict | None = None  # this worker
        self._calling = set[threading.Thread]()  # threads in calls of torch.distributed
        self._lent = set[ref[object]]()  # tensors that threads of torch.distributed have
        self._open = set[object]()  # works of torch.distributed that have not ended
        self.unsettled: list[Unsettled] = []  # collectives of GPUs that the host has not waited for
        self._ending: threading.Thread | None = None  # the one that ends the program
        self._heart = Heartbeat(connection, rank, workers, holder, self._sign)
        late = self._heart.meet()
        if late:
            self.at = "graph.mesh"
            reason = f"did not come to graph.mesh within {timeout:g} s"
            raise self._error(Verdict(tuple(late), f"{_named(late)} {reason}"), "graph.mesh")
        atexit.register(self._leave)

    def begin(self, plan: str, numbers: str = "", batch: str = "") -> None:
        """This worker begins a step. WorkerLost where others have another plan, or other numbers that are those of all
        workers, such as the learning rate. `batch`: the types of its arrays."""
        self._refuse_child()
        self._refuse_end("between steps")
        self.call = STEP + batch
        verdict = self._known() or self._apart_from()  # a step may end before one looks at others
        if verdict is not None:
            raise self._error(verdict, "between steps")
        self.step += 1
        self._note("steps", f"{plan} {numbers}")
        self.agree(plan)

    def leave_before(self, error: BaseException) -> None:
        """This worker leaves a step before it has begun. Others may leave it by the same error. From now on workers
        that did not make other steps than this one."""
        self.left = _named_error(error)
        self._note("steps", f"left by {self.left}")

    def fail(self, error: BaseException) -> None:
        """This worker leaves a step before its end. From now on all get WorkerLost: exchanges of its next step would
        meet those of this one."""
        if isinstance(error, WorkerLost):
            return
        reason = f"worker {self.rank} left step {self.step} by {_named_error(error)}"
        self._failed = Verdict((self.rank,), reason)
        self._heart.publish(json.dumps(self._failed))

    def meet(self, name: str) -> None:
        """This worker begins an event of all workers, and waits for nothing else before this. WorkerLost where others
        begin another one, or have made other steps before it."""
        self.call = call = f"{name} after {self.step} step{'s' * (self.step != 1)}"
        parts = [call_part(call), steps_part(self.history)]
        self.agree(f"{call}, {self.history}", parts=lambda: parts)

    @property
    def history(self) -> str:
        """The steps and calls up to now: equal on workers that made the same."""
        count, checksum = self._done.get("steps", (0, 0))
        return f"{count} events with checksum {checksum:08x}"

    @property
    def checksum(self) -> int:
        """That of `history`: 32 bits."""
        return self._done.get("steps", (0, 0))[1]

    def number(self, kind: str) -> int:
        """The next number of the objects of a kind that all workers make in the same order, from 1 on."""
        self._numbers[kind] += 1
        return self._numbers[kind]

    def note(self, collective: str, over: str) -> None:
        """This worker begins a collective over an axis."""
        self._note(over, collective)

    def until(self, ends_within: Callable[[float], bool], collective: str) -> None:
        """Return when it has ended. WorkerLost where another worker is gone, hangs, is late, or runs another program.
        `ends_within`: waits that many seconds at most, and says whether it has ended. It sleeps meanwhile: looks at
        short intervals take the processor from the threads of the collective."""
        self.at = collective
        last = time.monotonic()
        waited = unheard = 0.0
        looks = self._heart.looks
        with self.calling():
            while not ends_within(CHECK):
                now = time.monotonic()
                passed = min(now - last, BEAT)  # where this process stood still, others did not
                waited, last = waited + passed, now
                unheard = 0.0 if self._heart.looks != looks else unheard + passed
                looks = self._heart.looks
                self._refuse_end(collective)
                self._check(collective, waited, unheard)
        self.at = ""

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Around calls of torch.distributed. A thread that returned from one after the end of the program would abort
        it. So the end waits, and a thread that the program does not wait for gets WorkerLost."""
        thread = threading.current_thread()
        self._calling.add(thread)
        try:
            self._refuse_end(self.at or "a step")
            yield
        finally:
            self._calling.discard(thread)

    def lend(self, tensor: T) -> T:
        """A tensor for a collective. A thread of torch.distributed drops it some time after the collective has ended.
        It needs the interpreter for this, and aborts the process without one: the end of the program waits for it."""
        self._lent.add(ref(tensor, self._lent.discard))
        return tensor

    def opened(self, work: object) -> None:
        """A collective has begun. If it never ends, its tensors are never dropped, as above."""
        self._open.add(work)

    def closed(self, work: object) -> None:
        """It has ended."""
        self._open.discard(work)

    def settle(self) -> None:
        """Return when all collectives of GPUs have ended that streams wait for. A read of their results would wait
        without an end where another worker is lost. Errors as by `until`."""
        pending, self.unsettled = self.unsettled, []
        for collective in pending:
            collective.settle()

    def result_of(
        self, action: Callable[[], R], collective: str, interrupt: Callable[[], None] = lambda: None
    ) -> R:
        """The result of an action that waits for other workers, and that no timeout ends soon. A thread runs it, so
        that this worker can check whether the others live. Errors as by `until`, and those of the action."""
        future: Future[R] = Future()

        def run() -> None:
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

        thread = start_thread(f"slangrad-{collective}", run)
        if thread is None:
            run()
        else:
            self.until_ended(thread, collective, interrupt)
        return future.result()

    def until_ended(self, thread: threading.Thread, collective: str, interrupt: Callable[[], None]) -> None:
        """Return when a thread that waits for other workers has ended. Errors as by `until`; then `interrupt` ends the
        waiting of the thread. One that returned after the end of the program would abort it."""
        try:
            self.until(partial(_has_ended, thread), collective)
        except WorkerLost:
            interrupt()
            thread.join(FOUND)
            raise

    def lost(self, collective: str, cause: Exception) -> WorkerLost:
        """The error for a collective that failed. It takes some seconds to find out which worker is lost."""
        with _without_end():
            self.at = collective
            heart, end = self._heart, time.monotonic() + FOUND
            heart.see_all()
            looks = heart.looks
            verdict = None
            while verdict is None and time.monotonic() < end:
                time.sleep(CHECK)
                if heart.looks > looks or heart.broken:
                    verdict = self._known() or self._apart_from() or self._gone(0, CUT)
            return self._error(verdict or self._late(collective, str(cause)), collective)

    def agree(
        self, text: str, numbers: str = "", parts: Callable[[], Sequence[PlanPart]] = lambda: ()
    ) -> None:
        """Return when all workers have come here with the same text, once, and with the same numbers then. WorkerLost,
        with their ranks and the first of `parts` that differs, where others have other ones."""
        self._refuse_child()
        self._refuse_end(self.call)
        if text in self._agreed:
            return
        name, key = f"plan {len(self._agreed) + 1}", text
        text = f"{text} {numbers}"
        self._note("steps", text)  # others may begin a step meanwhile, and wait for it in vain
        vote = self._heart.vote(name, text)
        self.until(vote.has_ended.wait, COMPARISON + name)
        most = Counter(vote.texts.values()).most_common(2)
        if len(most) == 1:
            self._agreed.add(key)
            return
        usual = most[0][0] if most[0][1] > most[1][1] else vote.texts[0]
        odd = [rank for rank, sent in vote.texts.items() if sent != usual]
        usually = [rank for rank, sent in vote.texts.items() if sent == usual]
        difference = self._difference(name, odd[0], usually[0], parts) or CHECK_THESE
        reason = f"{_named(odd)} made another plan of the step than {_named(usually)}: {difference}"
        raise self._error(Verdict((*odd, *usually), reason), COMPARISON + name)

    def _difference(self, name: str, odd: int, usual: int, parts: Callable[[], Sequence[PlanPart]]) -> str:
        """The first part that two workers do not have in common, on all workers."""
        pair = sorted((odd, usual))
        sent = encoded(parts()) if self.rank in pair else ""
        vote = self._heart.vote(f"parts of {name}", sent, pair)
        self.until(vote.has_ended.wait, COMPARISON + name)
        return difference_text(decoded(vote.texts[odd]), decoded(vote.texts[usual]), odd, usual)

    # --- findings

    def _check(self, collective: str, waited: float, unheard: float) -> None:
        """WorkerLost if a lost worker is known by now."""
        verdict = self._known(f"no answer for {SILENT:g} s" if unheard > SILENT else None)
        if verdict is None:
            verdict = self._apart_from() or self._gone(waited, SILENT)
        if verdict is None and waited > self.timeout:
            verdict = self._late(collective, f"no result within {self.timeout:g} s")
        if verdict is not None:
            raise self._error(verdict, collective)

    def _known(self, unheard: str | None = None) -> Verdict | None:
        """The verdict of another worker, or that the store is gone."""
        heart, why = self._heart, self._heart.broken or unheard
        if heart.verdict:
            ranks, reason = json.loads(heart.verdict)
            return Verdict(tuple(ranks), reason)
        if self._failed is not None:
            return self._failed
        if why is None:
            return None
        silent_store = f"the store of torch.distributed does not answer ({str(why).splitlines()[0]})"
        if heart.holder in (-1, self.rank):
            return Verdict((), f"{silent_store}: its launcher is gone")
        return Verdict((heart.holder,), f"worker {heart.holder} is gone: {silent_store}, which was there")

    def _gone(self, waited: float, silent: float) -> Verdict | None:
        """A worker that has ended, or that gives no signs. `waited`: no more data will arrive."""
        for rank, seen in list(self._heart.seen.items()):
            if seen.sign.has_ended and (not waited or waited > GRACE):
                return Verdict((rank,), f"worker {rank} has ended its program, {seen.sign.place}")
        if not self._heart.seen:  # no look so far
            return None
        rank = max(self._heart.seen, key=self._heart.silence)
        silence, place = self._heart.silence(rank), self._heart.seen[rank].sign.place
        if silence < silent:
            return None
        return Verdict(
            (rank,),
            f"worker {rank} is gone or stopped: no sign of it for {silence:.1f} s; it was last seen {place}",
        )

    def _apart_from(self) -> Verdict | None:
        """Workers whose steps or exchanges are not this one's."""
        apart = {
            rank: how
            for rank, seen in list(self._heart.seen.items())
            if not (
                self.at.startswith(COMPARISON) and seen.sign.at == self.at
            )  # which will name the difference
            and (how := self._differs(rank))
        }
        if not apart:
            return None
        if self._apart is None:
            self._apart = self._heart.time
            self._heart.see_all()
        if self._heart.time - self._apart < GRACE:  # others are read, too; a comparison of plans says more
            return None
        alike = [other for other in range(self._heart.workers) if other not in apart]
        first, second = sorted((list(apart), alike), key=len)
        signs = {self.rank: self._sign(), **{rank: seen.sign for rank, seen in self._heart.seen.items()}}
        sign, other = signs[first[0]], signs[second[0]]
        event = next(iter(apart.values()))
        reason = f"{_named(first)} and {_named(second)} run different programs: {event} is not the same"
        if sign.call == other.call:
            words, advice = (sign.place, other.place), CHECK_THESE
        else:
            are_steps = sign.call.startswith(STEP) and other.call.startswith(STEP)
            words, advice = (f"at {sign.call}", f"at {other.call}"), SAME_ROWS if are_steps else SAME_CALLS
        reason += f"; worker {first[0]} is {words[0]}, worker {second[0]} is {words[1]}: {advice}"
        return Verdict((*first, *second), reason)

    def _differs(self, rank: int) -> str:
        """The first event that is seen to differ, "" where there is none."""
        for name, (count, checksum) in self._heart.seen[rank].sign.done.items():
            own = self._past[name][count % REMEMBERED] if name in self._past else (0, 0)
            if own[0] == count and own[1] != checksum:
                return f"step {self.step}" if name == "steps" else f"exchange {count} over {name}"
        return ""

    def _late(self, collective: str, why: str) -> Verdict:
        """The workers that are at another place of the program."""
        self._heart.see_all()
        looks = self._heart.looks
        end = time.monotonic() + FOUND
        while self._heart.looks < looks + 2 and time.monotonic() < end:
            time.sleep(CHECK)
        places = {rank: seen.sign for rank, seen in sorted(self._heart.seen.items())}
        ranks = [rank for rank, sign in places.items() if (sign.step, sign.at) != (self.step, collective)]
        other_places = ", ".join(f"worker {rank} is {places[rank].place}" for rank in ranks[:8])
        return Verdict(tuple(ranks), f"{why}: {other_places or 'all others wait, too'}")

    def _error(self, verdict: Verdict, collective: str) -> WorkerLost:
        """The error, after its verdict was published to the others."""
        if not self._heart.verdict:
            self._heart.publish(json.dumps(verdict))
        place = f"this is worker {self.rank}, step {self.step}, {collective}"
        return WorkerLost(f"{verdict.reason} ({place})", verdict.rank_for(self.rank), self.step, collective)

    # --- this worker

    def _refuse_child(self) -> None:
        """GraphError (E1048) in a child of a fork: it has the connections of this worker, and no heartbeat."""
        if os.getpid() != self._process:
            message = f"a process that worker {self.rank} has forked is no worker"
            raise GraphError("E1048", message, "steps and meshes in the process that torchrun started")

    def _refuse_end(self, collective: str) -> None:
        """WorkerLost in each thread but the one that ends the program."""
        if self._ending not in (None, threading.current_thread()):
            reason = (
                f"worker {self.rank} has ended its program, but not its thread that steps: join the thread"
            )
            raise self._error(Verdict((self.rank,), reason), collective)

    def close(self) -> None:
        """Other threads leave their calls of torch.distributed, and make no more."""
        self._ending = threading.current_thread()
        end = time.monotonic() + FOUND
        for thread in self._calling - {self._ending}:
            thread.join(max(0.0, end - time.monotonic()))

    def _leave(self) -> None:
        """At the end of the program; that of a child of a fork is another one."""
        if os.getpid() != self._process:
            return
        self.close()
        for work in self._open:
            pythonapi.Py_IncRef(py_object(work))
        end = time.monotonic() + GRACE
        while self._lent and not self._open and time.monotonic() < end:
            time.sleep(PAUSE)
        time.sleep(PAUSE)  # those of collectives that the program began itself
        self._heart.leave()

    def _sign(self) -> Sign:
        return Sign(0, self.step, self.at, False, dict(self._done), self.call, self.left)

    def _note(self, sequence: str, event: str) -> None:
        count, checksum = self._done.get(sequence, (0, 0))
        now = count + 1, crc32(event.encode(), checksum)
        past = self._past.setdefault(sequence, [(0, 0)] * REMEMBERED)
        past[now[0] % REMEMBERED] = now
        self._done[sequence] = now


def _named_error(error: BaseException) -> str:
    """Its type and the first line of its text."""
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")


def _has_ended(thread: threading.Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()


@contextmanager
def _without_end() -> Iterator[None]:
    """`torchrun` ends all workers a tenth of a second after one of them, by SIGTERM, and 30 s later by SIGKILL. This
    one says first why it ends."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _named(ranks: list[int]) -> str:
    numbers = ", ".join(map(str, ranks[:8])) + ", ..." * (len(ranks) > 8)
    return f"worker {numbers}" if len(ranks) == 1 else f"workers {numbers}"
