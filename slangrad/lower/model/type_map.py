"""Checked types, concrete ones, to IR types.

    float3 -> f32x3     Foo<float, 4> -> struct "Foo<float, 4>"    int[4] -> [4 x i32]    enum -> its integer

Types of one name from different places stay different. tangent_types.py has the derivatives of structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from slangrad.abi import SCALARS, interface_words
from slangrad.base.diagnostics import CompileError, Reporter
from slangrad.base.options import limit_note
from slangrad.base.source import Span
from slangrad.check.conforming import any_value_size
from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.data import types
from slangrad.ir.data.forms import Rules, rules_from
from slangrad.ir.data.layout import (
    HEADER,
    OPEN_SIZE,
    Layout,
    any_value_composite,
    any_value_layout,
    layout_of,
    round_up,
)
from slangrad.ir.ops import core
from slangrad.lower.model.alternatives import Alternatives, Types, is_tangent
from slangrad.lower.model.memory_forms import KernelMemoryForms
from slangrad.lower.model.outside import UniqueNames
from slangrad.lower.model.tangent_types import TangentTypes, captured_types
from slangrad.lower.model.unlowerable import Unlowerable


class Circle(Unlowerable):
    """A struct that is being made is needed as a value."""


class IRTypeMap:
    """`function` makes a function instance and gives its name."""

    def __init__(
        self,
        program: CheckedProgram,
        ir: core.Program,
        reporter: Reporter,
        function: Callable[[DeclRef], str],
        alternatives: Alternatives,
    ) -> None:
        self.program, self.ir, self.reporter = program, ir, reporter
        self._alternatives = alternatives
        self._unique = UniqueNames()
        self.tangents = TangentTypes(program, ir, self.map, self.of, self._unique, function)
        self.dynamics: dict[types.Type, checked.Type] = {}  # the forms of interface values
        self._forms: dict[checked.Type, types.Struct] = {}  # of interface values in memory
        self._interfaces: dict[types.Type, checked.Type] = {}  # the inverse
        self._sizing: set[checked.Type] = set()
        self._memory = KernelMemoryForms(ir, self._words_of, self._unique)
        self._known: dict[checked.Type, types.Type] = {}
        self._making: dict[checked.Type, None] = {}
        self._opened: dict[checked.Type, dict[Rules, types.OpenForm]] = {}  # pointees in what is being made
        self._parts: dict[types.Type, int] = {}  # of structs

    def of(self, t: checked.Type, span: Span | None = None) -> types.Type:
        """The IR type; raises CompileError for a type without one."""
        if t is checked.ERROR:
            self.program.refusals.raise_at(span)
        try:
            return self.map(t)
        except Unlowerable as reason:
            self.reporter.error(reason.code, str(reason), span, reason.note)
            raise CompileError(self.reporter.diagnostics) from reason

    def map(self, t: checked.Type) -> types.Type:
        lowered = SCALARS.get(t) or self._known.get(t)
        if lowered is None:
            lowered = self._known[t] = self._make_once(t)
            if isinstance(lowered, types.Struct) and lowered not in self.ir.differentials:
                self.tangents.enter(t, lowered)
            self._close(t, lowered)
            if not self._making:
                for pointee in list(self._opened):
                    self.map(pointee)
        return lowered

    def _close(self, t: checked.Type, lowered: types.Type) -> None:
        """Give the forms that pointers inside of a struct lead to the fields of the struct."""
        for rules, opened in self._opened.pop(t, {}).items():
            assert isinstance(lowered, types.Struct), lowered
            self._memory.close(opened, lowered, rules)

    def _make_once(self, t: checked.Type) -> types.Type:
        if isinstance(t, checked.PointerType):  # which may lead to a struct that is being made
            return self._make(t)
        if t in self._making:
            inside = list(self._making)[list(self._making).index(t) :]
            interface = next(filter(checked.is_dynamic, inside), None)
            if interface is not None:
                message = f"a value of the interface type '{interface}' would contain itself"
                raise Circle(message, "E9007", "hold a pointer to it, or its index")
            raise Circle(f"'{t}' contains itself", "E9007")
        self._making[t] = None
        try:
            return self._make(t)
        finally:
            del self._making[t]

    def _make(self, t: checked.Type) -> types.Type:
        if isinstance(t, checked.VectorType):
            return types.vector(self._scalar(t.element), self._components(t, t.count))
        if isinstance(t, checked.MatrixType):
            self._components(t, t.rows, t.columns)
            return types.matrix(
                self._scalar(t.element), _known_size(t.rows, t, 1), _known_size(t.columns, t, 1)
            )
        if isinstance(t, checked.ArrayType):
            return self._array(t)
        if isinstance(t, checked.PointerType):
            return types.pointer(self._pointed(t.element))
        if isinstance(t, checked.EnumType):
            self.program.refusals.require_bases(t.declaration)
            return self.map(self.program.tag_type(t))
        if t is checked.NULL:
            return types.pointer(types.U8)
        if t is checked.STRING:
            return types.U32  # the text's hash
        if t is checked.ERROR:
            self.program.refusals.raise_at(None)
        if t in (checked.NONE, checked.VOID):
            return types.struct(f"{t}_t", ())
        if isinstance(t, (checked.StructType, checked.LambdaType, checked.Tuple)):
            return self._struct(t)
        if checked.is_dynamic(t):
            return self._dynamic(t)
        raise Unlowerable(f"a value of type '{t}' cannot be computed with")

    def _pointed(self, stored: checked.Type) -> types.Type:
        t, rules = checked.unstored(stored), rules_from(checked.rules_of(stored))
        if t is checked.VOID:
            return types.U8
        if isinstance(t, checked.InterfaceType):  # whose types may contain such a pointer
            self._alternatives.open(t)
            return self._words(t)
        if not isinstance(t, checked.StructType):
            return self._memory.behind(self.map(t), rules)
        if t not in self._making and t not in self._opened:
            try:
                return self._memory.behind(self.map(t), rules)
            except Circle:  # it contains a struct that is being made
                pass
        opened = self._opened.setdefault(t, {})
        if rules not in opened:
            opened[rules] = self._memory.open(self._unique(f"{t} in memory"))
        return opened[rules]

    def _dynamic(self, t: checked.Type) -> types.Type:
        """The number of the type that a value has, and a field for each type that it can have."""
        fields = [(f"is{i}", self.map(alternative)) for i, alternative in enumerate(self.alternatives(t))]
        number = [] if is_tangent(t) else [("type", types.U32)]
        lowered = types.struct(self._name(t), (*number, *fields))
        if number:
            self.dynamics[lowered] = t
        return lowered

    def alternatives(self, t: checked.Type) -> Types:
        """The types that a value of an interface type can have."""
        return self._alternatives.of(t)

    # --- interface values in memory

    def open(self, t: types.Type) -> None:
        """Values of an interface type come from outside."""
        self._alternatives.open(self.dynamics[t])

    def ids(self, t: types.Type) -> tuple[int, ...]:
        return self._alternatives.ids(self.dynamics[t])

    def memory(self, t: types.Type, rules: str = "") -> types.Type:
        """The form of a type in memory, by the rules of the checker; the type itself if both are the same."""
        return self._memory.of(t, rules_from(rules))

    def value(self, t: types.Type) -> types.Type:
        """The type of values, by its form in memory."""
        if isinstance(t, types.Array):
            return types.array(self.value(t.element), t.length)
        of = self._interfaces.get(t)
        if of is None:
            return types.value_of(t)
        lowered = self.of(of)
        self.memory(lowered)  # which checks whether all of its types have room there
        return lowered

    def holds_interfaces(self, t: types.Type) -> bool:
        """Whether there are values of interface types in a type."""
        return self._memory.holds_words(self.memory(t))

    def _words_of(self, t: types.Type) -> types.Type | None:
        if t not in self.dynamics or not isinstance(t, types.Struct):
            return None
        self.open(t)
        if not t.fields[1:]:
            self._alternatives.lacks(self.dynamics[t], self._alternatives.root.span)
        words = self._words(self.dynamics[t])
        self._check_fits(t, layout_of(words).size - HEADER)
        return words

    def _words(self, of: checked.Type) -> types.Struct:
        """An interface value in memory."""
        if of not in self._forms:
            size = self._any_size(of)
            words = self._forms[of] = interface_words(self._unique(f"{of} in memory"), size)
            self._interfaces[words] = of
        return self._forms[of]

    def _any_size(self, of: checked.Type) -> int:
        """The bytes that the types behind an interface may take: by the attribute, or by the largest type without
        generic parameters, or 16 without such types. So all kernels and the host agree."""
        if not isinstance(of, checked.InterfaceType):
            return round_up(
                max((self._behind(alternative).size for alternative in self.alternatives(of)), default=0), 4
            )
        size = any_value_size(self.program, of)
        if size is None:
            if of in self._sizing:
                message = f"a value of the interface type '{of}' would contain itself"
                self.reporter.error("E9007", message, self._alternatives.root.span)
                return 0
            self._sizing.add(of)
            sizes = (self._behind(alternative).size for alternative in self._alternatives.plain(of))
            size = max(sizes, default=OPEN_SIZE)
            self._sizing.discard(of)
        return round_up(size, 4)

    def _behind(self, t: checked.Type) -> Layout:
        """The layout of a value behind the header; pointees are not part of it."""
        if isinstance(t, checked.PointerType):
            return any_value_layout(types.pointer(types.U8))
        if isinstance(t, checked.InterfaceType):
            return any_value_layout(self._words(t))
        if isinstance(t, checked.StructType):
            return any_value_composite([self._behind(kind) for _, kind in self.program.fields(t)])
        return self.any_layout(self.map(t))

    def _check_fits(self, t: types.Struct, size: int) -> None:
        of, parts = self.dynamics[t], [self.any_layout(part).size for _, part in t.fields[1:]]
        largest = round_up(max(parts, default=0), 4)
        if size < largest:
            name = self.alternatives(of)[parts.index(max(parts))]
            span, room = self._alternatives.root.span, f"the {size} of '{of}'"
            code, note = "E0715", f"[anyValueSize({largest})] gives it room"
            if isinstance(of, checked.InterfaceType) and any_value_size(self.program, of) is None:
                code, span, note = "E9007", of.declaration.span, f"{note}, before the interface"
                room = f"the {size} that '{of}' has for its types without generic parameters"
            message = f"'{name}' takes {max(parts)} bytes, more than {room}"
            self.reporter.error(code, message, span, note)

    def any_layout(self, t: types.Type) -> Layout:
        """The layout of a value behind the header of an interface value."""
        return any_value_layout(self.memory(t))

    def _scalar(self, t: checked.Type) -> types.Scalar:
        element = self.map(t)
        if not isinstance(element, types.Scalar):
            raise Unlowerable(f"a vector or matrix of '{t}' is not supported")
        return element

    def _components(self, t: checked.Type, *sizes: object) -> int:
        """How many components a vector or matrix has."""
        count, limit = (
            prod(_known_size(size, t, 1) for size in sizes),
            self.program.options.limits.vector_components,
        )
        if count > limit:
            note = f"an array holds more; {limit_note('vector_components')}"
            raise Unlowerable(f"'{t}' has {count} components, more than the limit of {limit}", "E0710", note)
        return count

    def _struct(self, t: checked.StructType | checked.LambdaType | checked.Tuple) -> types.Type:
        lowered = types.struct(self._name(t), tuple(self._fields(t)))
        self._memory.declare(lowered, self._rules_of_fields(t))
        trusted = tuple(self._trusted_fields(t))
        if trusted:
            self.ir.trusted[lowered] = trusted
        limit = self.program.options.limits.type_parts
        parts = self._parts[lowered] = sum(map(self._parts_of, (field for _, field in lowered.fields)))
        if parts > limit:
            message = f"'{t}' is made of {parts} parts, more than the limit of {limit}"
            raise Unlowerable(message, "E0710", limit_note("type_parts"))
        return lowered

    def _parts_of(self, t: types.Type) -> int:
        """The number of scalars and arrays of scalars of a type."""
        if isinstance(t, types.Array):
            return self._parts_of(t.element)
        if isinstance(t, types.Matrix):
            return t.rows * t.columns
        if isinstance(t, types.Vector):
            return t.length
        return self._parts.get(t) or (len(t.fields) if isinstance(t, types.Struct) else 1)

    def _array(self, t: checked.ArrayType) -> types.Type:
        element, count = self.map(t.element), _known_size(t.count, t, 0)
        limit = self.program.options.limits.array_bytes
        size = count * layout_of(element).size
        if size > limit:
            message = f"an array of {size} bytes is larger than the limit of {limit}"
            raise Unlowerable(message, "E0710", limit_note("array_bytes"))
        return types.array(element, count)

    def _name(self, t: checked.Type) -> str:
        """A readable name, with a number behind it if another type has it already."""
        if t.weight > checked.HEAVIEST:
            raise Unlowerable("the arguments of a generic type are nested too deeply", "E0702")
        return self._unique(str(t))

    def _fields(
        self, t: checked.StructType | checked.LambdaType | checked.Tuple
    ) -> Iterator[tuple[str, types.Type]]:
        if isinstance(t, checked.Tuple):
            for i, kind in enumerate(t.elements):
                yield f"_{i}", self.map(kind)
        elif isinstance(t, checked.StructType):
            self.program.refusals.require_bases(t.declaration)
            for reference, kind in self.program.fields(t):
                if kind is checked.ERROR:
                    self.program.refusals.raise_at(reference.declaration.span)
                yield reference.declaration.name, self.map(kind)
        else:
            captures = self.program.info(t.declaration).captures
            for i, (captured, kind) in enumerate(zip(captures, captured_types(self.program, t), strict=True)):
                yield f"{captured.name}{i}", self.map(kind)

    def _trusted_fields(self, t: checked.Type) -> Iterator[int]:
        fields = self.program.fields(t) if isinstance(t, checked.StructType) else ()
        for i, (reference, _) in enumerate(fields):
            if reference.declaration.attribute("trusted") is not None:
                yield i

    def _rules_of_fields(self, t: checked.Type) -> dict[int, str]:
        if not isinstance(t, checked.StructType):
            return {}
        rules_by_field = (
            self.program.info(reference.declaration).rules for reference, _ in self.program.fields(t)
        )
        return {i: rules for i, rules in enumerate(rules_by_field) if rules}


def _known_size(size: object, t: checked.Type, least: int) -> int:
    if not isinstance(size, int):
        raise Unlowerable(f"the size of '{t}' is not known when compiling")
    if size < least:
        raise Unlowerable(f"'{t}' has a size below {least}")
    return size
