"""Properties and subscripts as places: reading and writing them are calls of their accessors.

a.length = 2        call @set %a, 2      and a = what came back
buffer[i] += x      %p = call @ref %buffer, %i     load, add, store; nothing where %p is null

A property that an interface requires may be a field of the type that conforms.
"""

from __future__ import annotations

from functools import cached_property

from slangrad.check import checked
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Value
from slangrad.ir.types import U64, Type
from slangrad.lower import calls, expressions, globals
from slangrad.lower.frame import Frame
from slangrad.lower.places import Accessed, Memory, Place, Temporary
from slangrad.syntax import ast


def accessed(
    f: Frame,
    reference: DeclRef,
    base: checked.Base | None,
    given: tuple[checked.Argument, ...],
    t: Type,
) -> Place:
    """The place behind a property or subscript."""
    resolved = f.resolve(reference)
    if isinstance(resolved.declaration, ast.Variable):
        return _variable(f, resolved, base)
    owner = None if base is None else expressions.place_of(f, base)
    arguments = [Temporary(calls.argument_value(f, each, resolved)) for each in given]
    access = _Access(f, resolved, owner, arguments)
    has = access.accessors.keys()
    return Accessed(
        t,
        access.read if "get" in has else None,
        access.write if "set" in has else None,
        access.refer if "ref" in has else None,
    )


def _variable(f: Frame, resolved: DeclRef, base: checked.Base | None) -> Place:
    if base is None or f.program.info(resolved.declaration).kind != "field":
        return globals.place_of_global(f, resolved, f.b.span)
    return expressions.place_of(f, base).field(f, resolved.declaration.name)


def call_accessor(f: Frame, resolved: DeclRef, name: str, places: list[Temporary]) -> Value | None:
    """A getter, or a setter with its value last, of the object that comes first."""
    if isinstance(resolved.declaration, ast.Variable):
        field = places[0].field(f, resolved.declaration.name)
        if name == "get":
            return field.get(f)
        field.set(f, places[-1].get(f))
        return None
    access = _Access(f, resolved, places[0], places[1:-1] if name == "set" else places[1:])
    if name == "get":
        return access.read() if "get" in access.accessors else access.refer().get(f)
    access.write(places[-1].get(f))
    return None


class _Access:
    """The accessors of one place, with their arguments; where its memory is is asked once."""

    def __init__(self, f: Frame, resolved: DeclRef, owner: Place | None, arguments: list[Temporary]) -> None:
        self.f, self.resolved, self.owner, self.arguments = f, resolved, owner, arguments
        self.accessors: dict[str, ast.Accessor] = {each.name: each for each in resolved.declaration.accessors}

    def read(self) -> Value:
        value = self._call("get")
        assert value is not None
        return value

    def write(self, value: Value) -> None:
        self._call("set", Temporary(value))

    def refer(self) -> Memory:
        return self._memory

    @cached_property
    def _memory(self) -> Memory:
        pointer = self._call("ref")
        assert pointer is not None
        address = self.f.emit("bitcast", pointer, type=U64)
        return Memory(pointer, self.f.emit("not_equal", address, self.f.b.zero(U64)))

    def _call(self, name: str, *more: Place) -> Value | None:
        accessor = DeclRef(self.accessors[name], self.resolved.substitution)
        info: checked.FunctionInfo = self.f.program.info(accessor.declaration)
        this = [self.owner] if self.owner is not None and info.this_type is not None else []
        return calls.call_function(self.f, accessor, [*this, *self.arguments, *more])
