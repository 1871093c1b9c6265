"""Find functions that call themselves, directly or through others, and let machine.py make loops of them.

In: the functions of a program, as lowering made them.   Out: the same functions, none of which calls itself.

A function that needs its own derivative is refused: `bwd_diff(f)` within f.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.base.diagnostics import Reporter
from slangrad.ir.ops.core import Function, Op, Program, walk
from slangrad.ir.ops.primitives import REQUESTS
from slangrad.lower.recursion.machine import without_recursion


def remove_recursion(program: Program, limit: int, reporter: Reporter) -> None:
    """`limit`: how many calls may be inside each other at run time."""
    uses = {name: _uses(program, f) for name, f in program.functions.items()}
    for members in _cycles({name: list(callees) for name, callees in uses.items()}):
        if _refused(program, members, uses, reporter):
            continue
        group = {name: program.functions[name] for name in members}
        program.functions.update({name: without_recursion(f, group, limit) for name, f in group.items()})


Uses = dict[str, Op]


def _uses(program: Program, f: Function) -> Uses:
    """The functions that a function calls or differentiates, with the first place of each; derivatives before
    calls."""
    uses: Uses = {}
    for op in walk(f.region):
        if op.name in REQUESTS or op.name == "call":
            callee = _used(program, op)
            if callee not in uses or op.name in REQUESTS:
                uses[callee] = op
    return uses


def _used(program: Program, op: Op) -> str:
    """The function that a call or a request needs: a derivative by hand, where there is one."""
    callee = op.attributes["callee"]
    derivatives = program.functions[callee].derivatives if callee in program.functions else None
    if derivatives is None or op.name == "call":
        return callee
    return (derivatives.jvp if op.name == "jvp" else derivatives.vjp) or callee


def _refused(program: Program, members: list[str], uses: dict[str, Uses], reporter: Reporter) -> bool:
    edges = [(callee, op) for name in members for callee, op in uses[name].items() if callee in members]
    request = next(((callee, op) for callee, op in edges if op.name in REQUESTS), None)
    if request is not None:
        callee, op = request
        message = f"'{callee}' needs its own derivative, directly or through others"
        reporter.error("E9008", message, op.span, "differentiate it from outside")
        return True
    with_derivative = next(
        (name for name in members if program.functions[name].derivatives is not None), None
    )
    if with_derivative is not None and len(members) > 1:
        message = f"'{with_derivative}' has a derivative of its own, and calls itself through others"
        note = f"let '{with_derivative}' call itself directly, or leave its derivative to the compiler"
        reporter.error("E9008", message, program.functions[with_derivative].span, note)
        return True
    return False


def _cycles(callees: dict[str, list[str]]) -> Iterable[list[str]]:
    """The groups of functions that reach each other, by Tarjan's algorithm without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for start in callees:
        pending = [] if start in number else [(start, iter(callees[start]))]
        while pending:
            name, rest = pending[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                path.append(name)
                on_path.add(name)
            callee = next((candidate for candidate in rest if candidate in callees), None)
            if callee is None:
                pending.pop()
                if pending:
                    outer = pending[-1][0]
                    lowest[outer] = min(lowest[outer], lowest[name])
                if lowest[name] == number[name]:
                    group = path[path.index(name) :]
                    del path[-len(group) :]
                    on_path.difference_update(group)
                    if len(group) > 1 or name in callees[name]:
                        yield group
            elif callee not in number:
                pending.append((callee, iter(callees[callee])))
            elif callee in on_path:
                lowest[name] = min(lowest[name], number[callee])
