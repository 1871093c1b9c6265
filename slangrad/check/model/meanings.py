"""The meaning of a name or a value before its context decides.

In: `Foo`, `Foo<4>`, `ns::f`, `object.method`.   Out: one Meaning.
In: the literal `1` where a `half` may be wanted.   Out: a Coercion, whose cost is compared with others.

A call picks one candidate of an OverloadMeaning, a place for a value takes a ValueMeaning, a type position a
TypeMeaning. Candidates have the facts that do not depend on the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from slangrad.base.records import record
from slangrad.check.model.checked import Base, Conversion
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.types import GenericArgument, Type
from slangrad.syntax import ast


@record
class Meaning:
    """The base class."""


@record
class ValueMeaning(Meaning):
    """A value; the node's slots are filled."""

    type: Type


@record
class TypeMeaning(Meaning):
    type: Type
    discriminator: Base | None = None  # of `object.Item`: the object, if only it has its type


@record
class PackMeaning(Meaning):
    """Several types, one for each element of a tuple type."""

    types: tuple[Type, ...]


@record
class GenericMeaning(Meaning):
    """A generic struct, interface or alias without its arguments; `name` of a builtin one such as
    `vector`.
    """

    declaration: ast.GenericDeclaration | None
    substitution: Bindings
    builtin: str = ""


@record
class NamespaceMeaning(Meaning):
    """All parts of a namespace; `declarations` are Namespace nodes or enclosing module scopes."""

    declarations: list[ast.Namespace]


@record
class Candidate:
    """A candidate of a call."""

    declaration: Any  # as in a DeclRef
    substitution: Bindings  # of the generics around it
    this: Base | None = None  # the object that a method is called on
    through_type: bool = False  # named as `Type.method`
    explicit: tuple[GenericArgument, ...] = ()  # generic arguments that are written
    distance: int = 0  # scopes between the call and the declaration
    mode: str = ""  # "forward" or "backward": its derivative is meant
    inner: Candidate | None = None  # of a derivative: what is differentiated
    discriminator: Base | None = None  # of `object.Item.f`: the object

    @property
    def reference(self) -> DeclRef:
        return DeclRef(self.declaration, self.substitution)


@record
class OverloadMeaning(Meaning):
    """One or more functions of one name."""

    name: str
    candidates: list[Candidate] = field(default_factory=list)


@record
class ErrorMeaning(Meaning):
    """Already reported."""


FAILED = ErrorMeaning()


# --- Conversions --------------------------------------------------------------------------------------


@record
class Coercion:
    """The conversion of an expression to `target`, and its cost. `conversion` is None between identical types;
    `apply` writes the form of an initializer list.
    """

    target: Type
    cost: int
    conversion: Conversion | None = None
    warning: str | None = None
    apply: Callable[[], None] | None = None
