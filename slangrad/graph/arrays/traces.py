"""Traces under way. The arrays that one makes are gone when its function has returned.

with tracing() as trace:
    result = f(x)           def f(x): kept.append(x * 2); return x
trace.refuse_kept(result)   GraphError: x * 2 is kept, and later calls do not run this line
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import TYPE_CHECKING
from weakref import ref

from slangrad import CallError
from slangrad.graph.ir.errors import LAST_REFUSAL, GraphError, TracedValueError, refusal_behind, refused
from slangrad.graph.ir.node import Node

if TYPE_CHECKING:
    from slangrad.graph.arrays.array import Array

RETURN = "return it: a call gives its results, and keeps nothing else"


@dataclass(slots=True)
class Trace:
    """The arrays that a trace has made, as long as they live."""

    arrays: list[ref[Array]] = field(default_factory=list)

    def refuse_kept(self, allowed: Collection[object] = ()) -> None:
        """GraphError (E1041) for an array that lives and is none of those allowed: a list, an object, a closure or a
        generator has it. Cycles of references are no reason."""
        if self._kept(allowed) is None:
            return
        gc.collect()
        node = self._kept(allowed)
        if node is not None:
            message = f"a traced array {node!r} is kept after its function has returned"
            raise GraphError("E1041", message, RETURN, node.place)

    def _kept(self, allowed: Collection[object]) -> Node | None:
        known = set(map(id, allowed))
        living = (array for array in (reference() for reference in self.arrays) if array is not None)
        return next((array.node for array in living if id(array) not in known), None)


class _Traces(local):
    """The innermost trace of this thread."""

    trace: Trace | None = None

    def note(self, array: Array) -> None:
        if self.trace is not None:
            self.trace.arrays.append(ref(array))


TRACES = _Traces()


@contextmanager
def tracing() -> Iterator[Trace]:
    """A context for tracing: called functions are parts of the traced one, also if their arguments are not traced.
    TracedValueError for an error of NumPy, torch or Python that is due to a traced array."""
    outer, trace = TRACES.trace, Trace()
    TRACES.trace = trace
    try:
        yield trace
    except CallError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        refusal = refusal_behind(error)
        if refusal is None:
            raise
        raise refusal from None
    finally:
        TRACES.trace = outer
        LAST_REFUSAL.error = None


def unknown_value(fact: str, node: Node, instead: str) -> TracedValueError:
    """The error for code that needs a value of a traced array, while it is traced or later."""
    if TRACES.trace is None:
        origin = f" made at {node.place}" if node.place else ""
        message = f"{fact} of a traced array {node!r}{origin} is not known: its function has returned"
        return refused("E1041", message, RETURN)
    return refused("E1041", f"{fact} of a traced array {node!r} is not known yet", instead)
