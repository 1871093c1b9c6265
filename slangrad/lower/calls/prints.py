"""printf: its format is compared with its arguments at compile time.

printf("%f %d\\n", v.x, n)     ->     print %x, %n {format="%f %d\\n"}
printf("%f\\n", v)             ->     error: there are 3 values and 1 conversion

A vector, matrix or array stands for its components, each with a conversion of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slangrad.base.prints.brace_formats import text_hash
from slangrad.base.prints.formats import Format, FormatConversion, parse_format
from slangrad.check.calls.coerce import stripped
from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.names.places import value_type
from slangrad.ir.data.types import (
    U32,
    Pointer,
    Scalar,
    Type,
)
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame
from slangrad.lower.places import packs
from slangrad.syntax import ast


@dataclass(slots=True, eq=False)
class Shown:
    """A number, the argument that it is or is a part of, and the type of that."""

    value: Value
    node: ast.Expression
    kind: checked_types.Type


_FLOATS = frozenset("fFeEgGaA")


def literal_format(f: Frame, form: checked.FunctionCall, name: str) -> ast.StringLiteral | None:
    """The format, which must stand where it is used."""
    first = form.arguments[0]
    literal = stripped(first) if isinstance(first, ast.Expression) else None
    if isinstance(literal, ast.StringLiteral):
        return literal
    f.error("E9006", f"the format of {name} must be a string literal", f.b.span)
    return None


def number_of_text(f: Frame, text: str) -> Value:
    """A text as a value: its hash, which `getStringHash` gives."""
    return f.b.constant(U32, text_hash(text))


def lower_print(f: Frame, form: checked.FunctionCall) -> None:
    literal = literal_format(f, form, "printf")
    if literal is None:
        return
    nodes = [node for node in form.arguments[1:] if isinstance(node, ast.Expression)]
    values: list[Shown] = []
    for node in nodes:
        for value, kind in given_values(f, node):
            if kind is checked_types.STRING:
                note = "write it into the format"
                f.error("E9006", "a text can only be the format of printf", node.span, note)
                return
            values += [Shown(scalar, node, kind) for scalar in f.scalars(value, structs=True)]
    if _fits(f, literal, values):
        f.b.effect("print", *(shown.value for shown in values), format=literal.value)


def given_values(f: Frame, node: ast.Expression) -> Iterator[tuple[Value, checked_types.Type]]:
    """The value of an argument and its type; of a pack each of them."""
    if not packs.is_pack_value(node):
        yield f.value(node), f.concrete(node.type)
        return
    for part in packs.parts(f, node):
        if isinstance(part, ast.Expression):
            yield f.value(part), f.concrete(value_type(part))
        else:
            yield part.get(f), f.concrete(node.type)


def _fits(f: Frame, literal: ast.StringLiteral, values: list[Shown]) -> bool:
    try:
        wanted = _conversions(parse_format(literal.value))
    except ValueError as failure:
        note = "there are %d %u %x %f %e %g %c and their kin; %% is a percent sign"
        f.error("E0707", str(failure), literal.span, note)
        return False
    if len(wanted) != len(values):
        message = f"the format shows {_counted(len(wanted), 'value')}, and {_counted(len(values), 'is', 'are')} given"
        f.error("E0707", message, f.b.span, "vectors, arrays and structs need a conversion for each number")
        return False
    reasons = [
        (_reason(how, shown.value.type, shown.kind), shown) for how, shown in zip(wanted, values, strict=True)
    ]
    for reason, shown in reasons:
        if reason is not None:
            f.error("E0707", reason[0], shown.node.span, reason[1])
    return all(reason is None for reason, _ in reasons)


def _counted(count: int, singular: str, plural: str = "") -> str:
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def _conversions(parsed: Format) -> list[FormatConversion | None]:
    """One for each value; None for a width or precision given as `*`."""
    pieces = [piece for piece in parsed.pieces if isinstance(piece, FormatConversion)]
    return [conversion for piece in pieces for conversion in (*[None] * piece.stars, piece)]


def _reason(how: FormatConversion | None, t: Type, named: checked_types.Type) -> tuple[str, str] | None:
    """Why a conversion cannot show a value (called `named` in the text), and a conversion that can."""
    if how is not None and how.kind == "s":
        return "'%s' shows texts, which are no values", "write the text into the format"
    if isinstance(t, Pointer):
        return None
    assert isinstance(t, Scalar), t
    shows_float = how is not None and how.kind in _FLOATS
    kind = "*" if how is None else f"%{how.kind}"
    if shows_float and t.kind != "float":
        return f"'{kind}' shows floating-point numbers, not '{named}'", "write '%d', or convert it: float(x)"
    if not shows_float and t.kind == "float":
        return f"'{kind}' shows whole numbers, not '{named}'", "write '%f', or convert it: int(x)"
    if how is not None and how.kind in "diuoxX" and how.bits < t.bits:
        return f"'{kind}' shows {how.bits} of the {t.bits} bits of '{named}'", f"write '%ll{how.kind}'"
    return None
