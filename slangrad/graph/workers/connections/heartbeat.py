"""Signs of life: a thread of each worker publishes its progress in torch.distributed's store.

sign of worker 1        [17, 3, "all_reduce over data", false, {"steps": [3, 911], "data": [3, 4711]}]

It is written every half second, and two neighbors read it, so the store's work grows with the number of workers alone.
Only the thread reads the store: if the store does not answer, this worker goes on.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from slangrad.base.process.threads import start_thread

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.store import StoreConnection

BEAT = 0.5  # seconds between two signs
ASKING = 0.01  # seconds between two looks while an answer is waited for
LEAVING = 1.0  # seconds for which the holder of the store stays for others that end, too


class Sign(NamedTuple):
    """`beat`: a number that grows; `step`: the current step of the worker; `at`: the collective that it waits for.
    `done`: for each sequence of events their number, and a checksum of them. `call`: of the program, the last one that
    all workers make together. `left`: the last error by which it left a step before it began."""

    beat: int
    step: int
    at: str
    has_ended: bool
    done: Mapping[str, Sequence[int]]
    call: str = ""
    left: str = ""

    @property
    def place(self) -> str:
        place = f"at step {self.step}, {f'in {self.at}' if self.at else 'outside of a collective'}"
        return f"{place}, after {self.left}" if self.left else place


@dataclass(frozen=True, slots=True)
class ReceivedSign:
    """A sign, and when it came: the seconds that this process was running by then."""

    sign: Sign
    since: float


class Vote:
    """A text of each worker, or of those of some `ranks`. `texts`: of all by their ranks, when it has ended."""

    def __init__(self, name: str, text: str, ranks: Sequence[int]) -> None:
        self.name, self.text, self.ranks = name, text, ranks
        self.texts: dict[int, str] = {}
        self.has_ended = Event()

    @property
    def equal(self) -> str:
        """The key of the number of workers with this text."""
        return f"{self.name}={sha1(self.text.encode()).hexdigest()}"


class Heartbeat:
    """`connection`: to the store, which the thread has for itself; `holder`: the worker whose process holds the
    store, -1 where that is none; `sign`: makes this worker's. `verdict`: the first that a worker published, "" before.
    `broken`: the error of a store that is gone. `looks`: how often the thread has read the store."""

    def __init__(
        self,
        connection: StoreConnection,
        rank: int,
        workers: int,
        holder: int,
        sign: Callable[[], Sign],
    ) -> None:
        self._connection, self._store, self._sign = connection, connection.store, sign
        self.rank, self.workers, self.holder = rank, workers, holder
        self.others = [other for other in range(workers) if other != rank]
        self._neighbors = sorted({(rank + 1) % workers, (rank - 1) % workers})
        self.seen: dict[int, ReceivedSign] = {}
        self.verdict = ""
        self.broken: Exception | None = None
        self.looks = 0
        self.sees_all = False
        self.time = 0.0
        self._last = time.monotonic()
        self._orders: deque[Callable[[], object]] = deque()
        self._vote: Vote | None = None
        self._leaves: float | None = None
        self._wake = Event()

    def meet(self) -> list[int]:
        """Begin when all workers are here. The ranks of those that did not come within the store's timeout."""
        self._store.set(_sign_of(self.rank), json.dumps(self._sign()))
        if self.rank == 0:
            self._store.set("verdict", "")
        try:
            self._store.wait([*map(_sign_of, range(self.workers)), "verdict"])
        except RuntimeError:
            late = [other for other in self.others if not self._store.check([_sign_of(other)])]
            if late:
                return late
            raise
        self._thread = start_thread("slangrad-heartbeat", self._serve)
        if self._thread is None:
            raise RuntimeError("the system has no room for the thread that tells other workers of this one")
        return []

    def see_all(self) -> None:
        """Read the signs of all workers from now on."""
        self.sees_all = True
        self._wake.set()

    def publish(self, verdict: str) -> None:
        """Publish a verdict to all workers; the first one stays."""
        self._orders.append(partial(self._store.compare_set, "verdict", "", verdict))
        self._wake.set()

    def vote(self, name: str, text: str, ranks: Sequence[int] | None = None) -> Vote:
        """The texts of all workers, or of some of them, on all; that of others is not read."""
        vote = Vote(name, text, range(self.workers) if ranks is None else ranks)
        self._orders.append(partial(self._cast, vote))
        self._wake.set()
        return vote

    def silence(self, rank: int) -> float:
        """The seconds for which there was no sign of a worker."""
        return self.time - self.seen[rank].since if rank in self.seen else 0.0

    def leave(self) -> None:
        """Publish that this worker ends, and end the thread: also in a call that the store does not answer."""
        self._leaves = time.monotonic()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2 * LEAVING)
            if self._thread.is_alive():
                self._connection.shut()
                self._thread.join(LEAVING)

    # --- the thread

    def _serve(self) -> None:
        try:
            while True:
                leaves = self._leaves
                while self._orders:
                    self._orders.popleft()()
                self._look()
                if leaves is not None and self._may_leave(leaves):
                    return
                is_asking = self._vote is not None or leaves is not None
                self._wake.wait(ASKING if is_asking else BEAT)
                self._wake.clear()
        except RuntimeError as error:
            self.broken = error

    def _look(self) -> None:
        self._store.set(
            _sign_of(self.rank),
            json.dumps(self._sign()._replace(beat=self.looks, has_ended=self._leaves is not None)),
        )
        ranks = self.others if self.sees_all else self._neighbors
        *signs, verdict = self._store.multi_get([*map(_sign_of, ranks), "verdict"])
        now = time.monotonic()
        self.time += min(now - self._last, 2 * BEAT)  # where this process stood still, others did not
        self._last = now
        for rank, text in zip(ranks, signs, strict=True):
            sign = Sign(*json.loads(text))
            if rank not in self.seen or self.seen[rank].sign != sign:
                self.seen[rank] = ReceivedSign(sign, self.time)
        self.verdict = verdict.decode()
        if self._vote is not None:
            self._count(self._vote)
        self.looks += 1

    def _cast(self, vote: Vote) -> None:
        if self.rank in vote.ranks:
            self._store.set(f"{vote.name}/{self.rank}", vote.text)
            self._store.add(vote.equal, 1)
            self._store.add(vote.name, 1)
        self._vote = vote

    def _count(self, vote: Vote) -> None:
        """If all agree, two reads are enough."""
        if self._store.add(vote.name, 0) < len(vote.ranks):
            return
        texts = [vote.text.encode()] * len(vote.ranks)
        if self._store.add(vote.equal, 0) < len(vote.ranks):
            texts = self._store.multi_get([f"{vote.name}/{rank}" for rank in vote.ranks])
        self._vote = None
        vote.texts = {rank: text.decode() for rank, text in zip(vote.ranks, texts, strict=True)}
        vote.has_ended.set()

    def _may_leave(self, since: float) -> bool:
        """The worker whose process holds the store waits a little, so that others can read why it ends."""
        if self.rank != self.holder or time.monotonic() - since > LEAVING:
            return True
        self.sees_all = True
        return all(rank in self.seen and self.seen[rank].sign.has_ended for rank in self.others)


def _sign_of(rank: int) -> str:
    return f"sign{rank}"
