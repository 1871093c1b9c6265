"""Which types a value of an interface type can have.

IShape  ->  (Circle, Square)      IShape.Item, an associated type  ->  (Circle.Item, Square.Item)

These are the types that the program converts to the interface, in the order of discovery. A type found after the
interface got its form makes lowering begin again, with all types found so far.
"""

from __future__ import annotations

from itertools import count

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import Span
from slangrad.check.conforming import Conformance, conforming_types
from slangrad.check.model import types as checked
from slangrad.check.model.declref import GenericKey
from slangrad.check.modules import CheckedProgram
from slangrad.syntax import ast

Types = tuple[checked.Type, ...]


class Alternatives:
    """Facts about interface values in one program; kept while lowering begins again."""

    def __init__(
        self, program: CheckedProgram, root: ast.Declaration, conformances: tuple[Conformance, ...]
    ) -> None:
        self.program, self.root = program, root
        self._numbers: dict[checked.Type, dict[checked.Type, int]] = {}
        self.grew = False
        self.opened: dict[
            ast.Declaration, GenericKey
        ] = {}  # functions that are made for each type of a value
        self._lacking: dict[checked.Type, Span | None] = {}
        self._known: dict[checked.Type, dict[checked.Type, Span | None]] = {}
        self._answers: dict[checked.Type, Types] = {}  # valid until lowering begins again
        for conformance in conformances:
            self.add(conformance.interface, conformance.type)
            ids = self._numbers.setdefault(conformance.interface, {})
            if conformance.id >= 0:
                ids[conformance.type] = conformance.id

    def begin(self) -> None:
        self.grew = False
        self._answers.clear()
        self._lacking.clear()

    def lacks(self, t: checked.Type, span: Span | None) -> None:
        """A value without any known type is used; one may be found later. A call says more than the kernel's head."""
        if t not in self._lacking or self._lacking[t] is self.root.span:
            self._lacking[t] = span

    def report(self, reporter: Reporter) -> None:
        """At the end of lowering: report interfaces without any type."""
        note = "convert a value to it, or give a type that conforms when linking"
        for t, span in self._lacking.items():
            reporter.error("E0701", f"no type of a value of '{t}' is known", span, note)

    def add(self, interface: checked.Type, t: checked.Type, span: Span | None = None) -> None:
        """A value of type `t` becomes one of the interface."""
        types = self._known.setdefault(interface, {})
        if t not in types:
            types[t] = span
            self.grew |= interface in self._answers

    def open(self, interface: checked.Type) -> None:
        """A value can have any type that was given when linking, else any type of the program that conforms, as its
        type comes from outside."""
        interface = checked.projection_root(interface)
        assert isinstance(interface, checked.InterfaceType)
        if interface in self._numbers:
            return
        for t in self.plain(interface):
            self.add(interface, t)

    def plain(self, interface: checked.InterfaceType) -> Types:
        """The types of the program that conform and have no generic parameters."""
        return conforming_types(self.program, self.program.module_of(self.root), interface)

    def open_function(self, declared: ast.Declaration, key: GenericKey) -> None:
        """A generic function needs the type of its argument."""
        self.opened[declared] = key
        self.grew = True

    def of(self, t: checked.Type) -> Types:
        """The types that a value of a dynamic type can have, by their numbers."""
        if isinstance(t, checked.Projection):
            bases = self.of(t.base)
            return tuple(self.program.associated(base, t.interface, t.declaration) for base in bases)
        if t not in self._answers:
            self._answers[t] = tuple(self._known.get(t, ()))
        return self._answers[t]

    def ids(self, t: checked.Type) -> tuple[int, ...]:
        """The ids of these types in memory: those that were given, then the ones that follow."""
        linked = self._numbers.get(checked.projection_root(t), {})
        free = count(max(linked.values(), default=-1) + 1)
        return tuple(
            linked[alternative] if alternative in linked else next(free) for alternative in self.of(t)
        )


def is_tangent(t: checked.Type) -> bool:
    """Whether a dynamic type is the Differential of another one: a sum, so a value of it has a part for each type."""
    return isinstance(t, checked.Projection) and (
        t.declaration.name == "Differential" and t.interface.declaration.name == "IDifferentiable"
    )
