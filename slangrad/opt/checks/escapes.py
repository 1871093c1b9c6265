"""Pointers that provably outlive their variables are refused.

int* f() { int x = 1; return &x; }           a result of a function leads to a variable of it
void g() { int x = 1; buffer[0] = &x; }      so does a value that it stores outside of the thread
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Span
from slangrad.ir.analyses.addresses import leads_to_variables
from slangrad.ir.ops.core import Function, Value, walk


def refuse_escapes(functions: Iterable[Function]) -> None:
    """Raise where pointers to variables of functions leave these."""
    errors = [
        error
        for function in functions
        if any(op.name == "variable" for op in walk(function.region))
        for error in _errors(function)
    ]
    if errors:
        raise CompileError(errors)


def _errors(function: Function) -> Iterator[Diagnostic]:
    leading = leads_to_variables(function.region)

    def error(value: Value, event: str, span: Span | None) -> Diagnostic:
        variable = leading[value]
        message = f"a pointer to '{variable.hint}' {event}"
        note = "let it point to a variable of the caller, or to an element of a buffer"
        place = span or function.region.makers[variable].span
        return Diagnostic("E0705", message, place and place.outside_library, note)

    for op in walk(function.region):
        if op.name == "write_static" and op.operands[0] in leading:
            yield error(op.operands[0], "is stored where it outlives it", op.span)
        if op.name == "store" and op.operands[1] in leading and op.operands[0] not in leading:
            yield error(op.operands[1], "is stored where it outlives it", op.span)
    for value in function.region.yields:
        if value in leading:
            yield error(value, f"leaves '{function.name}', where it ends", None)
