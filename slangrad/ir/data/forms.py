"""Forms in memory of types that differ there from their values: matrices by columns, and layouts of GPUs.

    float3x2, by columns             ->   f32x2x3t                        three rows in values, two columns in memory
    float3x2, Std140                 ->   form { rows: [3 x form { value: f32x2 } of 16 bytes] }
    struct { bool b; float3 v; }     ->   form { b: form { word: u32 }, v: f32x3 } at 0, 16; 32 bytes

In: forms of the parts, and rules.   Out: the form of the whole. A type that is the same in memory is its own form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.ir.data.layout import composite, layout_of, round_up
from slangrad.ir.data.types import (
    BOOL,
    U32,
    Array,
    Matrix,
    MemoryForm,
    Struct,
    Type,
    Vector,
    array,
    form,
    matrix,
    scalar_of,
    value_of,
    vector,
    with_scalar,
)

NATURAL, SCALAR, STD140, STD430 = "natural", "scalar", "std140", "std430"
# The one field of a form that is no struct's.
WORDS, VALUE, ROWS, COLUMNS = "word", "value", "rows", "columns"
LEAST = 16  # bytes that elements of arrays, and structs, are multiples of in std140


@dataclass(frozen=True, slots=True)
class Rules:
    """`layout`: of structs and arrays, NATURAL as C has them. `columns`: matrices lie column by column."""

    layout: str = NATURAL
    columns: bool = False

    @property
    def is_std(self) -> bool:
        return self.layout in (STD140, STD430)


def rules_from(text: str) -> Rules:
    """From the checker's words: a layout, an order of matrices."""
    words = text.split()
    layout = next((word for word in words if word not in ("rows", "columns")), NATURAL)
    return Rules(layout, "columns" in words)


def without_room(t: Type) -> Type:
    """The content of a form that only adds room before the next element."""
    while isinstance(t, MemoryForm) and t.fields and value_of(t.fields[0][1]) is t.value:
        t = t.fields[0][1]
    return t


def part_of(t: Type) -> str:
    """The name of a form's one field, "" for structs and other types."""
    has_one = isinstance(t, MemoryForm) and (not isinstance(t.value, Struct) or without_room(t) is not t)
    return t.fields[0][0] if isinstance(t, MemoryForm) and has_one else ""


def lies_by_columns(t: Type) -> bool:
    """Whether the form of a matrix has columns."""
    t = without_room(t)
    return part_of(t) == COLUMNS or (isinstance(t, Matrix) and t.transposed)


def word_form() -> Type:
    """Of a truth value by rules other than C's."""
    return number_form(BOOL, Rules(SCALAR))


def number_form(t: Type, rules: Rules) -> Type:
    """Of a scalar or vector: a truth value is a word where layouts are no C's."""
    if scalar_of(t) is not BOOL or rules.layout == NATURAL:
        return t
    words = with_scalar(t, U32)
    size = layout_of(words).size
    return form(f"{t} in words", ((WORDS, words),), t, size, 4, (0,))


def matrix_form(t: Matrix, rules: Rules) -> Type:
    line = vector(t.element, t.rows if rules.columns else t.columns)
    count = t.columns if rules.columns else t.rows
    line_form = element_form(number_form(line, rules), rules) if rules.is_std else number_form(line, rules)
    if line_form is line:
        return matrix(t.element, t.columns, t.rows, True) if rules.columns else t
    name, lines = COLUMNS if rules.columns else ROWS, array(line_form, count)
    whole = layout_of(lines)
    offset = alignment_of(lines, rules)
    return form(f"{t} by {name}, {rules.layout}", ((name, lines),), t, whole.size, offset, (0,))


def array_form(element: Type, length: int | None, rules: Rules) -> Type:
    return array(element_form(element, rules), length)


def element_form(t: Type, rules: Rules) -> Type:
    """An element of an array, or a pointee: as large as the distance to the next one."""
    if rules.layout == NATURAL:
        return t
    alignment, size = alignment_of(t, rules), layout_of(t).size
    stride = round_up(size, max(alignment, LEAST) if rules.layout == STD140 else alignment)
    if stride == size:
        return t
    return form(f"{t} in {stride} bytes", ((VALUE, t),), value_of(t), stride, alignment, (0,))


def struct_form(value: Struct, parts: Sequence[Type], rules: Rules, name: str) -> Struct:
    """Of a struct whose fields have these forms."""
    fields = tuple((field, part) for (field, _), part in zip(value.fields, parts, strict=True))
    if rules.layout == NATURAL:
        if fields == value.fields:
            return value
        natural = composite([layout_of(part) for part in parts])
        return form(name, fields, value, natural.size, natural.alignment, tuple(natural.offsets))
    offsets, end, most = [], 0, LEAST if rules.layout == STD140 else 1
    for part in parts:
        alignment = alignment_of(part, rules)
        offsets.append(round_up(end, alignment))
        end, most = offsets[-1] + layout_of(part).size, max(most, alignment)
    size = end if rules.layout == SCALAR else round_up(end, most)
    whole = form(name, fields, value, size, most, tuple(offsets))
    return value if layout_of(value) == layout_of(whole) and fields == value.fields else whole


def alignment_of(t: Type, rules: Rules) -> int:
    """The alignment by the rules; that of a vector is not its scalar's."""
    if rules.is_std and isinstance(t, Vector):
        return layout_of(t.element).size * (1, 2, 4, 4)[t.length - 1]
    if rules.is_std and isinstance(t, Array):
        return max(alignment_of(t.element, rules), LEAST if rules.layout == STD140 else 1)
    if rules.is_std and part_of(t) == WORDS:
        assert isinstance(t, MemoryForm)
        return alignment_of(t.fields[0][1], rules)
    return layout_of(t).alignment
