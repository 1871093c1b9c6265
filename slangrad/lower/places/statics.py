"""Static variables that can be written: one copy for each thread of a launch, which begins with the launch.

static int count = start();    func @"count.initial"() {initializes="count", order=0} { %r = call @start  yield %r }
count += 1;                    %c = read_static {name="count"}    write_static %c1 {name="count"}

One in a generic has a copy for each instance. In a function the initializer runs when control first comes there,
unless it is a literal. `opt/statics.py` makes values of them once all is inlined; oracles keep them by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.ir.core import Attribute, Function, Region, Value
from slangrad.ir.types import BOOL, Type
from slangrad.lower.bodies import expressions
from slangrad.lower.model.frame import Frame
from slangrad.lower.places import closures
from slangrad.lower.places.places import Place
from slangrad.syntax import ast

if TYPE_CHECKING:
    from slangrad.lower.instances.instances import Lowering


class Statics:
    """The static variables that were met, and the functions that give their first values."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, ...], str] = {}
        self._waiting: list[tuple[str, DeclRef]] = []
        self._made: list[tuple[Function, ast.Variable]] = []

    def name_of(self, lowering: Lowering, resolved: DeclRef) -> str:
        found = self._names.get(resolved.key)
        if found is None:
            found = self._names[resolved.key] = lowering.unique(f"static {resolved}")
            if not _is_initialized_late(lowering, resolved.declaration):
                self._waiting.append((found, resolved))
        return found

    def name_of_shared(self, lowering: Lowering, resolved: DeclRef) -> str:
        """Of memory that a group shares, which has no first value."""
        if resolved.key not in self._names:
            self._names[resolved.key] = lowering.unique(f"shared {resolved}")
        return self._names[resolved.key]

    def lower_next(self, lowering: Lowering) -> bool:
        """Lower one initializer that waits; whether there was one."""
        if not self._waiting:
            return False
        name, resolved = self._waiting.pop()
        made = _initial(lowering, name, resolved)
        self._made.append((lowering.ir.add(made), resolved.declaration))
        return True

    def finish(self, lowering: Lowering) -> None:
        """Number the initializers: modules after those that they import, then as they are written."""
        sources = [part.span.source for module in lowering.program.modules.values() for part in module.files]
        places = {id(source): i for i, source in reversed(list(enumerate(sources)))}

        def place(made: tuple[Function, ast.Variable]) -> tuple[int, int]:
            span = made[1].span
            return places.get(id(span.source), -1), span.start

        for order, (function, _) in enumerate(sorted(self._made, key=place)):
            function.attributes["order"] = order


@dataclass(slots=True)
class Static(Place):
    """A static variable as a place. It carries no derivative."""

    name: str
    type: Type

    def read(self, f: Frame) -> Value:
        return f.emit("read_static", type=self.type, name=self.name)

    def set(self, f: Frame, value: Value) -> None:
        f.b.effect("write_static", value, name=self.name)


def place_of_static(f: Frame, resolved: DeclRef, t: Type) -> Place:
    return Static(f.lowering.statics.name_of(f.lowering, resolved), t)


def declare(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> None:
    """Control comes to the declaration of a static variable of a function."""
    resolved = DeclRef(declared, f.substitution)
    name = f.lowering.statics.name_of(f.lowering, resolved)
    if not _is_initialized_late(f.lowering, declared):
        return
    begun = Static(f"{name} begun", BOOL)

    def begin() -> tuple[Value, ...]:
        Static(name, f.type(info.type, declared.span)).set(f, _first_value(f, declared, info))
        begun.set(f, f.true())
        return ()

    f.branch(begun.get(f), tuple, begin)


def _is_initialized_late(lowering: Lowering, declared: ast.Variable) -> bool:
    info: checked.VariableInfo = lowering.program.info(declared)
    given = declared.initializer
    return is_in_function(info, declared) and given is not None and not isinstance(given, LITERALS)


LITERALS = (ast.IntLiteral, ast.FloatLiteral, ast.BoolLiteral)


def is_in_function(info: checked.VariableInfo, declared: ast.Variable) -> bool:
    is_member = isinstance(declared.parent, (ast.Struct, ast.Extension, ast.Interface, ast.Enum))
    return info.kind == "static" and not is_member


def _first_value(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> Value:
    if declared.initializer is not None:
        return expressions.lower(f, declared.initializer)
    if info.initial is not None:
        return expressions.lower_part(f, info.initial)
    return f.b.zero(f.type(info.type, declared.span))


def _initial(lowering: Lowering, name: str, resolved: DeclRef) -> Function:
    declared: ast.Variable = resolved.declaration
    f = Frame(lowering, f"{name}.initial", declared, resolved.substitution, False)
    value = closures.field_default(f, resolved)
    attributes: dict[str, Attribute] = {"initializes": name, "order": 0}
    region = Region((), f.b.ops, (value,))
    return Function(f.name, (), value.type, region, False, attributes=attributes, span=declared.span)
