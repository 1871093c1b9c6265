"""Checked types, concrete ones, to IR types.

    float3 -> f32x3      Foo<float, 4> -> struct "Foo<float, 4>"      int[4] -> [4 x i32]      enum -> its integer

Enters the derivative type of each struct that has one into `Program.differentials`.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import Span
from slangrad.check import types as checked
from slangrad.check.modules import Program as CheckedProgram
from slangrad.ir import core, types

SCALARS: dict[checked.Type, types.Scalar] = {
    checked.BOOL: types.BOOL,
    checked.INT8: types.I8,
    checked.INT16: types.I16,
    checked.INT: types.I32,
    checked.INT64: types.I64,
    checked.UINT8: types.U8,
    checked.UINT16: types.U16,
    checked.UINT: types.U32,
    checked.UINT64: types.U64,
    checked.HALF: types.F16,
    checked.FLOAT: types.F32,
    checked.DOUBLE: types.F64,
}


class Unlowerable(Exception):
    """A type that has no IR form; caught where a span is known."""


class TypeMap:
    def __init__(self, program: CheckedProgram, ir: core.Program, reporter: Reporter) -> None:
        self.program, self.ir, self.reporter = program, ir, reporter
        self._known: dict[checked.Type, types.Type] = {}

    def of(self, t: checked.Type, span: Span | None = None) -> types.Type:
        """The IR type; an error and `i32` when there is none."""
        try:
            return self.map(t)
        except Unlowerable as reason:
            self.reporter.error("E0701", str(reason), span)
            return types.I32

    def map(self, t: checked.Type) -> types.Type:
        found = SCALARS.get(t) or self._known.get(t)
        if found is None:
            found = self._known[t] = self._make(t)
            if isinstance(t, checked.StructType) and isinstance(found, types.Struct):
                self._enter_differential(t, found)
        return found

    def _make(self, t: checked.Type) -> types.Type:
        if isinstance(t, checked.Vector):
            return types.vector(self._scalar(t.element), _known_size(t.count, t))
        if isinstance(t, checked.Matrix):
            return types.matrix(self._scalar(t.element), _known_size(t.rows, t), _known_size(t.columns, t))
        if isinstance(t, checked.Array):
            return types.array(self.map(t.element), _known_size(t.count, t))
        if isinstance(t, checked.Pointer):
            return types.pointer(self.map(t.element) if t.element is not checked.VOID else types.U8)
        if isinstance(t, checked.EnumType):
            return self.map(self.program.tag_type(t))
        if isinstance(t, checked.Tuple):
            return types.struct(str(t), tuple((f"_{i}", self.map(e)) for i, e in enumerate(t.elements)))
        if isinstance(t, (checked.StructType, checked.LambdaType)):
            return self._struct(t)
        if t is checked.NULL:
            return types.pointer(types.U8)
        if t in (checked.NONE, checked.STRING):
            return types.struct(str(t), ())
        raise Unlowerable(_reason(t))

    def _scalar(self, t: checked.Type) -> types.Scalar:
        element = self.map(t)
        if not isinstance(element, types.Scalar):
            raise Unlowerable(f"a vector or matrix of '{t}' is not supported")
        return element

    def _struct(self, t: checked.StructType | checked.LambdaType) -> types.Type:
        if isinstance(t, checked.LambdaType):
            return types.struct(str(t), tuple(self._captures(t)))
        fields = self.program.fields(t)
        return types.struct(str(t), tuple((each.declaration.name, self.map(kind)) for each, kind in fields))

    def _captures(self, t: checked.LambdaType) -> Iterator[tuple[str, types.Type]]:
        reference = self.program.call_operator(t)
        for i, captured in enumerate(self.program.info(t.declaration).captures):
            kind = self.program.substitute(self.program.info(captured).type, reference.substitution)
            yield f"{captured.name}{i}", self.map(kind)

    def _enter_differential(self, t: checked.StructType, lowered: types.Struct) -> None:
        info = self.program.differential(t)
        if info is None or lowered in self.ir.differentials:
            return
        tangent = lowered if info.type is t else self.map(info.type)
        assert isinstance(tangent, types.Struct), f"the differential of {t} is {tangent}"
        fields = tuple(
            (lowered.index(primal.declaration.name), tangent.index(own.declaration.name))
            for primal, own in info.fields
            if own is not None
        )
        self.ir.differentials[lowered] = core.Differential(tangent, fields)


def _known_size(size: object, t: checked.Type) -> int:
    if not isinstance(size, int):
        raise Unlowerable(f"the size of '{t}' is not known when compiling")
    if size < 0:
        raise Unlowerable(f"'{t}' has a negative size")
    return size


def _reason(t: checked.Type) -> str:
    if isinstance(t, checked.InterfaceType):
        return (
            f"a value of interface type '{t}' whose own type is known only at run time is not supported; "
            f"make the function generic: T : {t}"
        )
    return f"a value of type '{t}' cannot be computed with"
