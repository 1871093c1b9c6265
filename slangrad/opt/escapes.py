"""Pointers to variables that outlive them are refused, where that can be seen.

    int* f() { int x = 1; return &x; }           a result of a function leads to a variable of it
    void g() { int x = 1; buffer[0] = &x; }      so does what it stores in memory of others

A pointer is followed through values of all kinds, variables that hold pointers, and calls: what a call gives may be any
pointer that it was given. Numbers made of addresses are not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Span
from slangrad.ir.control import carried, merged
from slangrad.ir.core import Function, Op, Region, Value, walk
from slangrad.ir.types import Array, Pointer, Struct, Type


def refuse_escapes(functions: Iterable[Function]) -> None:
    """Raise where pointers to variables of functions leave these."""
    found = [
        error
        for function in functions
        if any(op.name == "variable" for op in walk(function.region))
        for error in _Escapes(function).errors()
    ]
    if found:
        raise CompileError(found)


def holds_pointers(t: Type) -> bool:
    if isinstance(t, Array):
        return holds_pointers(t.element)
    return isinstance(t, Pointer) or (isinstance(t, Struct) and any(holds_pointers(p) for _, p in t.fields))


def _of_user(span: Span | None) -> Span | None:
    """Where the user's text calls what the library does."""
    while span is not None and span.source.is_library and span.caller is not None:
        span = span.caller
    return span


class _Escapes:
    """`leads`: values that may lead to a variable of the function, and to which. A fixpoint: it only grows."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._leads: dict[Value, Value] = {}
        self._stored: Value | None = None  # what a pointer in a variable may lead to
        size = -1
        while size != len(self._leads) + (self._stored is not None):
            size = len(self._leads) + (self._stored is not None)
            self._region(function.region)

    def errors(self) -> Iterator[Diagnostic]:
        for op in walk(self._function.region):
            if op.name == "write_static" and op.operands[0] in self._leads:
                yield self._error(op.operands[0], "is stored where it outlives it", op.span)
            if op.name == "store" and op.operands[1] in self._leads and op.operands[0] not in self._leads:
                yield self._error(op.operands[1], "is stored where it outlives it", op.span)
        for value in self._function.region.yields:
            if value in self._leads:
                yield self._error(value, f"leaves '{self._function.name}', where it ends", None)

    def _error(self, value: Value, what: str, span: Span | None) -> Diagnostic:
        variable = self._leads[value]
        made = self._function.region.makers[variable]
        message = f"a pointer to '{variable.hint}' {what}"
        note = "let it point to a variable of the caller, or to an element of a buffer"
        return Diagnostic("E0705", message, _of_user(span or made.span), note)

    # --- where addresses go

    def _region(self, region: Region) -> None:
        for op in region.ops:
            if op.name == "variable":
                self._leads[op.results[0]] = op.results[0]
            elif op.regions:
                self._control(op)
            elif op.name == "load":
                self._pass(op.operands[:1] if self._stored is not None else (), op.results)
            else:
                self._pass(op.operands, op.results)
                self._store(op)

    def _store(self, op: Op) -> None:
        """A call may store a pointer that it is given in another variable that it is given."""
        known = [v for v in op.operands if v in self._leads]
        into = [v for v in known if isinstance(v.type, Pointer) and holds_pointers(v.type.element)]
        if op.name in ("store", "call") and into and (op.name == "call" or op.operands[1] in self._leads):
            self._stored = self._stored or self._leads[known[-1]]

    def _control(self, op: Op) -> None:
        for each in carried(op):
            self._pass((each.start,), each.inside)
        for region in op.regions:
            self._region(region)
        for each in carried(op):
            self._pass((each.yielded, each.start), (each.result,))
            self._pass((each.yielded,), each.inside)
        for result, *arms in merged(op) if op.name == "if" else ():
            self._pass(arms, (result,))

    def _pass(self, sources: Iterable[Value], results: Iterable[Value]) -> None:
        found = next((self._leads[v] for v in sources if v in self._leads), None)
        if found is None:
            return
        for result in results:
            if holds_pointers(result.type):
                self._leads.setdefault(result, found)
