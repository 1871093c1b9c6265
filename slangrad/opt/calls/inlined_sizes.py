"""The number of ops of functions after inlining; E0791 names the calls that make a function too large.

h: 50 calls of g, g: 8 ops     ->     g: 8, h: 502
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Limits, limit_note
from slangrad.ir.ops.core import Function, Op, Program, walk

SHOWN = 3  # callees that the error names
SHARE = 8  # each of them makes up this part of its caller at least


def check_sizes(
    functions: Iterable[Function], program: Program, keep: Callable[[Function], bool], limits: Limits
) -> None:
    """Refuse a function that would have too many ops; `functions` stand behind those that they call."""
    sizes = _Sizes(program, keep)
    for function in functions:
        if sizes.add(function) > limits.inline_ops:
            raise CompileError([_too_large(function, sizes, limits)])


class _Sizes:
    def __init__(self, program: Program, keep: Callable[[Function], bool]) -> None:
        self.of: dict[str, int] = {}
        self._functions = program.functions
        self._keep = keep

    def add(self, function: Function) -> int:
        size = 0
        for op in walk(function.region):
            size += 1
            if op.name == "call" and self._is_inlined(op):
                size += self.of[op.attributes["callee"]]
        self.of[function.name] = size
        return size

    def _is_inlined(self, call: Op) -> bool:
        return not self._keep(self._functions[call.attributes["callee"]])

    def calls(self, function: Function) -> dict[str, list[Op]]:
        """By their callees, those first that make up most of the function."""
        calls: dict[str, list[Op]] = {}
        for op in walk(function.region):
            if op.name == "call" and self._is_inlined(op):
                calls.setdefault(op.attributes["callee"], []).append(op)
        return dict(sorted(calls.items(), key=lambda item: -len(item[1]) * self.of[item[0]]))

    def heaviest(self, function: Function) -> Iterator[tuple[Function, dict[str, list[Op]]]]:
        """The function, the callee that most of it comes from, and so on, with their calls."""
        while True:
            calls = self.calls(function)
            yield function, calls
            callee, ops = next(iter(calls.items()), ("", []))
            if 2 * len(ops) * self.of.get(callee, 0) < self.of[function.name]:
                return
            function = self._functions[callee]


def _too_large(function: Function, sizes: _Sizes, limits: Limits) -> Diagnostic:
    """The chain's function with the most repeated calls."""
    path = list(sizes.heaviest(function))
    repeated = [len(next(iter(calls.values()), ())) for _, calls in path]
    grown, calls = path[repeated.index(max(repeated)) if max(repeated) > 1 else -1]
    size = sizes.of[grown.name]
    parts = [
        f"{len(ops)} call{'' if len(ops) == 1 else 's'} of '{name}' with {sizes.of[name]}"
        for name, ops in [*calls.items()][:SHOWN]
        if SHARE * len(ops) * sizes.of[name] >= size
    ]
    why = f"by {', by '.join(parts)}" if parts else "by its own statements"
    place = next(iter(calls.values()))[0].span if parts else None
    message = f"'{function.name}' has more than {limits.inline_ops} operations after inlining"
    note = f"'{grown.name}' has {size}, {why}; a call in a loop counts once; {limit_note('inline_ops')}"
    return Diagnostic("E0791", message, place or grown.span, note)
