"""The order in which a stage of a pipeline runs its micro-batches: one forward, one backward.

    stage 0    F0 F1 F2 B0 F3 B1 F4 B2 ...        as many forward sweeps ahead as there are stages behind it
    stage 1       F0 F1 B0 F2 B1 F3 ...
    stage 2          FB0 FB1 FB2 ...

A stage holds the values of at most as many micro-batches as there are stages from it to the last.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from slangrad.graph.ir.node import Node
from slangrad.graph.workers.stages.pieces import (
    AFTER,
    BEFORE,
    GIVEN,
    MICROBATCH,
    Key,
    Message,
    StagePiece,
    StagePieces,
)

AHEAD = 2  # turns whose messages are requested before they run


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[tuple[bool, int]]:
    """Whether each turn is a backward sweep, and of which micro-batch."""
    ahead = min(microbatches, stages - stage)
    turns = [(False, i) for i in range(ahead)]
    for i in range(microbatches):
        turns.append((True, i))
        if i + ahead < microbatches:
            turns.append((False, i + ahead))
    return turns


class Turn(NamedTuple):
    """A piece that a stage runs, for a micro-batch or once. A piece that is no piece, at the end of a part, waits for
    the messages that later parts read."""

    key: Key
    microbatch: int | None


class StageSchedule:
    """The turns of a stage in a step. `arrivals`: the messages for which a piece waits; `sent`: those that go when it
    has run; `last`: of values of a micro-batch the last piece that reads them."""

    def __init__(self, pieces: StagePieces, stage: int, microbatches: int) -> None:
        self.stage = stage
        self._pieces = pieces
        self._ahead = min(microbatches, pieces.stages - stage)
        self.sent: dict[Key, list[Message]] = {}
        for message in sorted(pieces.messages.values(), key=lambda message: message.tag):
            if message.source.stage == stage:
                self.sent.setdefault(message.source, []).append(message)
        self.keys = sorted(key for key in pieces.pieces if key.stage == stage)
        self.turns = self._turns(microbatches)
        self.arrivals = self._arrivals()
        self.last: dict[Node, Key] = {}
        for key in self.keys:
            if key.part == MICROBATCH:
                piece = pieces.pieces[key]
                self.last |= dict.fromkeys((*piece.targets, *piece.boundary), key)

    def _turns(self, microbatches: int) -> list[Turn]:
        keys = sorted({*self.keys, *(key for key in self.sent if key.level == GIVEN)})
        ends = [Key(part, 3 * self._pieces.stages + len(keys), self.stage) for part in range(3)]
        turns = [Turn(key, None) for key in keys if key.part == BEFORE] + [Turn(ends[BEFORE], None)]
        for is_backward, i in one_forward_one_backward(self.stage, self._pieces.stages, microbatches):
            for key in keys:
                if key.part == MICROBATCH and is_backward == (key.level >= self._pieces.stages):
                    turns.append(Turn(key, i))
        return [*turns, *(Turn(key, None) for key in keys if key.part == AFTER), Turn(ends[AFTER], None)]

    def _arrivals(self) -> dict[Key, list[Message]]:
        """A stage waits for all messages of a piece at the first read of one of them. So messages between two stages
        arrive in the order in which they are sent. It waits for messages of a later part at the end of their own
        part."""
        left = {
            message.node: message for message in self._pieces.messages.values() if message.to == self.stage
        }
        arrivals: dict[Key, list[Message]] = {}
        for key in dict.fromkeys(turn.key for turn in self.turns):
            piece = self._pieces.pieces.get(key)
            nodes = [] if key.level == GIVEN else list(left)  # an available value needs no message
            if piece is not None:
                nodes = [x for x in piece.boundary if x in left]
            sources = {left[x].source for x in nodes if left[x].source.part == key.part}
            ready = [message for message in left.values() if message.source in sources]
            left = {node: message for node, message in left.items() if message.source not in sources}
            arrivals[key] = sorted(ready, key=lambda message: message.tag)
        return arrivals

    def most_alive(self) -> int:
        """Bytes of the values that wait between turns, when these are most: with those that are requested ahead, and
        those that are on their way to other stages."""
        alive = most = 0
        held: dict[int | None, dict[Node, None]] = {}
        sent = {message.node for messages in self.sent.values() for message in messages}
        on_their_way: Counter[Node] = Counter()
        for at, (key, i) in enumerate(self.turns):
            values = held.setdefault(i, {})
            piece = self._pieces.pieces.get(key, StagePiece())
            fresh = [(i, node) for node in piece.targets if node not in piece.places]
            for turn in self.turns[at : at + AHEAD]:
                fresh += [(turn.microbatch, message.node) for message in self.arrivals[turn.key]]
            for microbatch, node in fresh:
                alive += 0 if node in held.setdefault(microbatch, {}) else node.nbytes
                held[microbatch][node] = None
            most = max(most, alive)
            for node in [node for node in values if i is not None and self.last.get(node) == key]:
                del values[node]
                if node in sent and on_their_way[node] <= self._ahead:
                    on_their_way[node] += 1
                else:
                    alive -= node.nbytes
        return most
