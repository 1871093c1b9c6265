"""The function under construction for all folders of `lower`: its frame, its places, the program around it.

In: nothing.   Out: `Frame`, the first argument of all lowering functions; `Place`; `Lowering`.

Lower files call the abstract methods, and `bodies.body.Body` and `instances.instances.Instances` implement them, so
files import each other in one direction only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Options
from slangrad.base.source import Span
from slangrad.check.generics.substitution import argument_of
from slangrad.check.model import checked as forms
from slangrad.check.model import types as checked
from slangrad.check.model.declref import Bindings, DeclRef, Substitution
from slangrad.check.model.packs import Entry, element_parameter, spliced
from slangrad.check.model.values import Pack
from slangrad.check.modules import CheckedProgram
from slangrad.check.names.scopes import Scope
from slangrad.ir.data.types import U32, Struct, Type
from slangrad.ir.ops import core
from slangrad.ir.ops.core import Attributes, Value
from slangrad.lower.model.addresses import GuardedAddress
from slangrad.lower.model.alternatives import Alternatives
from slangrad.lower.model.flow import Key, SSABuilder, Variables
from slangrad.lower.model.outside import LaunchParameters, Statics, UniqueNames
from slangrad.lower.model.signatures import Signature
from slangrad.lower.model.type_map import IRTypeMap
from slangrad.syntax import ast


class Place(ABC):
    """A place that can be read and, unless it is a temporary, written."""

    type: Type

    def get(self, f: Frame) -> Value:
        """Its value; without derivative if its declaration has none."""
        value = self.read(f)
        return f.detached(value) if f.differentiable and self.is_cut(f) else value

    @abstractmethod
    def read(self, f: Frame) -> Value:
        """Its value with derivative in any case."""

    @abstractmethod
    def set(self, f: Frame, value: Value) -> None:
        """Write it."""

    def is_cut(self, f: Frame) -> bool:
        """A `no_diff` variable or field, a part of a struct that is not differentiable, or a part of one."""
        return False

    def address(self, f: Frame) -> GuardedAddress | None:
        """The address of the place; None for places in values."""
        return None

    def peek(self, f: Frame) -> Value:
        """The current value, without a report of an index out of range, because writing it back reports."""
        return self.read(f)

    def for_update(self, f: Frame) -> Place:
        """The place for reading it and then writing it: its indices are computed and checked once."""
        return self

    def for_atomics(self, f: Frame) -> Place:
        """The place for atomic operations: the memory itself, if reading and writing go through accessors.
        `NoPlace` where there is none."""
        return self

    def is_own(self) -> bool:
        """Whether no other thread reaches it: a variable of the thread, a value, or a part of these."""
        return False

    def for_parts(self, f: Frame) -> Place:
        """The place for reading and writing its parts: its indices are computed once."""
        return self

    def field(self, f: Frame, name: str) -> Place:
        assert isinstance(self.type, Struct), self.type
        return self.component(f, self.type.index(name))

    @abstractmethod
    def component(self, f: Frame, index: int | Value) -> Place:
        """A part, by its number or at an index that is known at run time."""


Again = Callable[["Frame", "Place | None", Iterator[Value]], Place]  # puts a place together, around an object


@dataclass(frozen=True, slots=True)
class ReturnedPlace:
    """A place of a `return` in a `ref` accessor: the types of its values, and how it is put together of them."""

    types: tuple[Type, ...]
    again: Again


@dataclass(frozen=True, slots=True)
class Referring:
    """The function that a `ref` accessor became."""

    signature: Signature
    forms: tuple[ReturnedPlace, ...]

    @property
    def descriptor(self) -> tuple[Type, ...]:
        """Its results besides changed parameters: which form, if there are several, and the values of each."""
        which = (U32,) if len(self.forms) > 1 else ()
        return (*which, *(t for form in self.forms for t in form.types))


@dataclass(frozen=True, slots=True)
class Acted:
    """The parameters of a function, `this` among them, that it does atomic operations on, or takes the address of."""

    atomically: frozenset[Key] = frozenset()
    by_address: frozenset[Key] = frozenset()


class Lowering(ABC):
    """One program being lowered: the state that its functions share."""

    def __init__(
        self, program: CheckedProgram, options: Options, reporter: Reporter, alternatives: Alternatives
    ) -> None:
        self.program, self.options, self.reporter = program, options, reporter
        self.alternatives = alternatives
        self.ir = core.Program()
        self.unique = UniqueNames()  # of functions and variables
        self.types = IRTypeMap(
            program, self.ir, reporter, lambda reference: self.function(reference).name, alternatives
        )
        self.tangents = self.types.tangents
        self.parameters = LaunchParameters()
        self.statics = Statics(program, self.unique)
        self.memory_free: dict[tuple[object, ...], bool] = {}  # functions, see bodies/purity.py
        self.acting: dict[tuple[object, ...], Acted] = {}  # functions, see calls/lending.py
        self.asked_by: dict[str, tuple[DeclRef, str | None]] = {}  # an instance, and its requester
        self.asked_at: dict[str, Span | None] = {}  # and where
        self.rounds = 0  # of all $for
        self.is_precise = False  # whether a variable or function is `precise`

    @abstractmethod
    def function(self, reference: DeclRef, caller: Frame | None = None) -> Signature:
        """The signature of a function with concrete type arguments; its body is lowered later."""

    @abstractmethod
    def signature(self, reference: DeclRef, caller: Frame | None = None) -> Signature:
        """The same, without a request for its body."""

    @abstractmethod
    def lent(self, reference: DeclRef, lent_types: tuple[Type | None, ...], caller: Frame) -> Signature:
        """The function with some of its parameters as memory of the caller: what is passed for each of these."""

    @abstractmethod
    def referring(self, reference: DeclRef) -> Referring:
        """The function of a `ref` accessor, which returns a descriptor of the place."""

    @abstractmethod
    def derivative(
        self, mode: str, of: Signature, shape: checked.FunctionType, span: Span | None
    ) -> Signature:
        """A function with the calling conventions of `fwd_diff(f)` or `bwd_diff(f)` around a request."""


class Frame(SSABuilder, ABC):
    """One function being lowered."""

    def __init__(
        self,
        lowering: Lowering,
        name: str,
        declared: ast.Declaration,
        substitution: Substitution,
        differentiable: bool,
    ) -> None:
        super().__init__(declared.span)
        self.lowering = lowering
        self.name = name  # of the function being made
        self.declared = declared
        self.program = lowering.program
        self.substitution = substitution
        self.differentiable = differentiable
        # Of each load, store and atomic: the library checks bounds before it follows its own pointers.
        self.access: Attributes = {"trusted": True} if declared.span.source.is_library else {}
        self.addressed: set[Key] = set()  # variables that live in memory, see places/variables.py
        self.homes: Variables = {}  # where they do
        self.lent: dict[
            Key, GuardedAddress
        ] = {}  # parameters that are memory of the caller, see calls/lending.py
        self.exits: list[object] = []  # the loops and switches around this point, see exits.py
        # `return` in what gives a place, see instances/referring.py, and what it sets then.
        self.refers: Callable[[ast.Expression], None] | None = None
        self.descriptor: list[Key] = []
        self.index = 0  # of the element for which an `expand` is being lowered
        self._expanding: list[ast.Declaration] = []

    # --- types, references, errors

    @property
    def scope(self) -> Scope:
        """The scope of names in attributes."""
        return self.program.scope_of(self.declared)

    def concrete(self, t: checked.Type) -> checked.Type:
        return self.program.substitute(t, self.substitution)

    def type(self, t: checked.Type, span: Span | None = None) -> Type:
        return self.lowering.types.of(self.concrete(t), span or self.b.span)

    def resolve(self, reference: DeclRef) -> DeclRef:
        return self.program.resolve(reference, self.substitution)

    @contextmanager
    def elsewhere(self, declared: ast.Declaration, substitution: Substitution) -> Iterator[bool]:
        """The initializer or default of a declaration is lowered here, seen through a substitution; not
        allowed while it is being lowered already."""
        allowed = declared not in self._expanding
        if not allowed:
            self.error("E0321", f"the value of '{declared.name}' depends on itself", declared.span)
        outer, self.substitution = self.substitution, substitution
        self._expanding.append(declared)
        try:
            yield allowed
        finally:
            self._expanding.pop()
            self.substitution = outer

    def pack(self, parameter: Pack) -> tuple[Entry, ...]:
        """The entries of a pack."""
        argument = argument_of(self.program, parameter, self.substitution)
        assert isinstance(argument, tuple)
        return spliced(argument)

    @contextmanager
    def element(self, packs: tuple[Pack, ...], index: int) -> Iterator[None]:
        """A context for lowering code for one element of packs."""
        outer = self.index, self.substitution
        elements: Bindings = {element_parameter(pack): self.pack(pack)[index] for pack in packs}
        self.index, self.substitution = index, {**self.substitution, **elements}
        try:
            yield
        finally:
            self.index, self.substitution = outer

    def error(self, code: str, message: str, span: Span | None, note: str | None = None) -> None:
        self.lowering.reporter.error(code, message, span, note)

    def lost_derivative(self, reason: str, note: str) -> None:
        """An error (E0505) where only the types of a call show that a derivative gets lost."""
        message = f"{reason}, so the derivative of '{self.declared.name}' would be lost here"
        self.error("E0505", message, self.b.span, note)

    # --- Questions

    @abstractmethod
    def value(self, node: ast.Expression) -> Value:
        """The value of an expression after the conversion that its place asks for."""

    @abstractmethod
    def effect(self, node: ast.Expression) -> None:
        """Run an expression whose value is not used; it may be void."""

    @abstractmethod
    def place(self, node: forms.Base) -> Place:
        """The place of an expression's value; a temporary for a value without one."""

    @abstractmethod
    def part(self, part: forms.Part) -> Value:
        """The value of a part of an initializer list, which may be a list itself."""

    @abstractmethod
    def parts(self, part: forms.Part) -> Iterable[Value]:
        """The same, where an `expand` is several."""

    @abstractmethod
    def statement(self, node: ast.Statement) -> None:
        """Run a statement."""
