"""The first values of static variables: functions without parameters, numbered in the order in which they run.

static int count = start();    func @"count.initial"() {initializes="count", order=0} { %r = call @start  yield %r }
"""

from __future__ import annotations

from slangrad.check.model.declref import DeclRef
from slangrad.ir.ops.core import Function, FunctionAttributes, Region
from slangrad.lower.bodies.body import FunctionBody
from slangrad.lower.model.frame import Lowering
from slangrad.lower.places.defaults import field_default
from slangrad.syntax import ast


class Initializers:
    """Those that were lowered."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._initializers: list[tuple[Function, ast.Variable]] = []

    def lower_next(self) -> bool:
        """Lower one that waits; whether there was one."""
        waiting = self._lowering.statics.waiting
        if not waiting:
            return False
        name, resolved = waiting.pop()
        function = _initial(self._lowering, name, resolved)
        self._initializers.append((self._lowering.ir.add(function), resolved.declaration))
        return True

    def number(self) -> None:
        """Modules after those that they import, then as they are written."""
        modules = self._lowering.program.modules.values()
        sources = [part.span.source for module in modules for part in module.files]
        places = {id(source): i for i, source in reversed(list(enumerate(sources)))}

        def place(initializer: tuple[Function, ast.Variable]) -> tuple[int, int]:
            span = initializer[1].span
            return places.get(id(span.source), -1), span.start

        for order, (function, _) in enumerate(sorted(self._initializers, key=place)):
            function.attributes["order"] = order


def _initial(lowering: Lowering, name: str, resolved: DeclRef) -> Function:
    declared: ast.Variable = resolved.declaration
    f = FunctionBody(lowering, f"{name}.initial", declared, resolved.substitution, False)
    value = field_default(f, resolved)
    attributes: FunctionAttributes = {"initializes": name, "order": 0}
    region = Region((), f.b.ops, (value,))
    return Function(f.name, (), value.type, region, False, attributes=attributes, span=declared.span)
