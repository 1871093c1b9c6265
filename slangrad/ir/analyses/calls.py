"""The call graph of a program."""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.ops.core import Function, Program, walk

CALL = ("call",)


def called(function: Function, ops: Iterable[str] = CALL) -> list[str]:
    """The functions that ops of these names name, each once, in order."""
    wanted = frozenset(ops)
    return list(dict.fromkeys(op.attributes["callee"] for op in walk(function.region) if op.name in wanted))


def callees_first(program: Program, roots: Iterable[str], ops: Iterable[str] = CALL) -> list[Function]:
    """The roots and all functions that they call, callees first."""
    order: dict[str, Function] = {}
    entered: set[str] = set()
    stack = list(reversed(list(roots)))
    while stack:
        name = stack[-1]
        function = program.functions[name]
        if name in entered or name in order:
            stack.pop()
            order.setdefault(name, function)
            continue
        entered.add(name)
        for callee in called(function, ops):
            assert callee not in entered or callee in order, f"{callee} is recursive"
            stack.append(callee)
    return list(order.values())
