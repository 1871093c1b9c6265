"""Static variables that can be written: one copy for each thread of a launch, which begins with the launch.

static int count = start();    func @"count.initial"() {initializes="count", order=0} { %r = call @start  yield %r }
count += 1;                    %c = read_static {name="count"}    write_static %c1 {name="count"}

One in a generic has a copy for each instance. In a function the initializer runs when control first comes there,
unless it is a literal. `opt/simplify/statics.py` makes values of them once all is inlined; oracles keep them by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.ir.data.types import BOOL, Type
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.model.outside import is_initialized_late
from slangrad.lower.places.defaults import initial_value
from slangrad.lower.places.places import Aggregate
from slangrad.syntax import ast


@dataclass(slots=True)
class Static(Aggregate):
    """A static variable as a place. It carries no derivative."""

    name: str
    type: Type

    def read(self, f: Frame) -> Value:
        return f.emit("read_static", type=self.type, name=self.name)

    def set(self, f: Frame, value: Value) -> None:
        f.b.effect("write_static", value, name=self.name)


def place_of_static(f: Frame, resolved: DeclRef, t: Type) -> Place:
    return Static(f.lowering.statics.name_of(resolved), t)


def declare(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> None:
    """The declaration of a static variable in a function."""
    resolved = DeclRef(declared, f.substitution)
    name = f.lowering.statics.name_of(resolved)
    if not is_initialized_late(f.program, declared):
        return
    begun = Static(f"{name} begun", BOOL)

    def begin() -> None:
        Static(name, f.type(info.type, declared.span)).set(f, initial_value(f, declared, info))
        begun.set(f, f.true())

    f.branch(begun.get(f), tuple, begin)
