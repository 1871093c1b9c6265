"""The IR as text. All but the spans is printed.

    struct "Point" { x: f32, y: f32 }
    func @length(%p: struct "Point", no_diff %n: i32) -> (f32) {cost=3} {
      %x = get %p {index=0}
      %r = for %n, %x : f32 (%i: i32, %sum: f32) { ... yield %next }
      yield %r
    }

A value is named after its hint, made unique in its function, or numbered. Types follow `:` where the table
does not give them. Tests write IR in this form, too; they have a parser for it (`tests/ir/parse_text.py`).
`program_lines` gives the same text in lines, each with the place that its op came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from slangrad.base.source import Line, Span, text_of
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import (
    Derivatives,
    Differential,
    Function,
    Op,
    Parameter,
    Program,
    Region,
    Value,
    walk,
)
from slangrad.ir.ops.primitives import GIVEN, PRIMITIVES, REQUESTS

NUMBERED = re.compile(r"(\.\d+)+\Z")  # what makes a name unique: %x.1
_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w.$]*\Z")


def print_program(program: Program) -> str:
    """Structs in order of use, what is said of them, the argument block, functions."""
    return text_of(program_lines(program))


def program_lines(program: Program) -> list[Line]:
    parts = [_print_struct(s) for s in _structs(program)]
    parts += [_print_differential(s, d) for s, d in program.differentials.items()]
    parts += [f"dual {s} : {half}\n" for s, half in program.duals.items()]
    parts += [f"trusted {s} {_attribute(fields)}\n" for s, fields in program.trusted.items()]
    if program.arguments is not None:
        parts.append(f"arguments {program.arguments}\n")
    lines = [Line(line) for part in parts for line in part.split("\n")]
    return lines + [line for f in program.functions.values() for line in function_lines(f)]


def print_function(function: Function) -> str:
    return text_of(function_lines(function))


def function_lines(function: Function) -> list[Line]:
    """The last one is empty."""
    return _Printer().function(function)


def print_op(op: Op) -> str:
    """One op with its regions, for messages; values are numbered within the op."""
    return text_of(_Printer().op(op, ""))


class _Printer:
    """Gives names to the values of one function in the order in which they are printed."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._used: dict[str, int] = {}
        self._unnamed = 0

    def function(self, f: Function) -> list[Line]:
        inputs = iter(f.region.parameters)
        parameters = [self._parameter(p, inputs) for p in f.parameters]
        flag = "" if f.return_differentiable else "no_diff "
        returned = "" if f.return_type is None else f"{flag}{f.return_type}"
        head = f"func {_symbol(f.name)}({', '.join(parameters)}) -> ({returned})"
        head += f"{_print_derivatives(f.derivatives)}{_attributes(f.attributes)} {{"
        return [Line(head, f.span), *self._body(f.region, "  ", f.span), Line("}"), Line("")]

    def _parameter(self, p: Parameter, inputs: Iterator[Value]) -> str:
        name = self._new_name(p.name) if p.direction == "out" else self._define(next(inputs), p.name)
        words = ["" if p.direction == "in" else p.direction, "" if p.differentiable else "no_diff"]
        words += ["uniform" if p.uniform else "", f"%{name}: {p.type}"]
        return " ".join(filter(None, words))

    def op(self, op: Op, indent: str) -> list[Line]:
        operands = self._uses(op.operands)
        results = ", ".join("%" + self._define(r) for r in op.results)
        attributes = dict(op.attributes)
        words = [f"{results} =" if results else "", op.name, _sugar(op, attributes), operands]
        head = indent + " ".join(filter(None, words)) + _attributes(attributes)
        if op.results and _is_typed(op.name):
            head += " : " + ", ".join(str(r.type) for r in op.results)
        lines = [Line(head, op.span)]
        for region in op.regions:
            lines[-1] = replace(lines[-1], text=lines[-1].text + self._region_head(region))
            lines += [*self._body(region, indent + "  ", op.span), Line(indent + "}", op.span)]
        return lines

    def _region_head(self, region: Region) -> str:
        if not region.parameters:
            return " {"
        return " (" + ", ".join(f"%{self._define(p)}: {p.type}" for p in region.parameters) + ") {"

    def _body(self, region: Region, indent: str, span: Span | None) -> list[Line]:
        lines = [line for op in region.ops for line in self.op(op, indent)]
        return [*lines, Line(f"{indent}yield {self._uses(region.yields)}".rstrip(), span)]

    def _uses(self, values: Iterable[Value]) -> str:
        return ", ".join("%" + (self._names.get(v) or self._define(v)) for v in values)

    def _define(self, value: Value, hint: str = "") -> str:
        name = self._names[value] = self._new_name(hint or value.hint)
        return name

    def _new_name(self, hint: str) -> str:
        hint = NUMBERED.sub("", re.sub(r"[^\w.]", "_", hint))
        if not hint or hint.isdigit():
            self._unnamed += 1
            return str(self._unnamed - 1)
        count = self._used[hint] = self._used.get(hint, 0) + 1
        return hint if count == 1 else f"{hint}.{count - 1}"


def _is_typed(name: str) -> bool:
    return name not in PRIMITIVES or PRIMITIVES[name].rule == GIVEN


def _sugar(op: Op, attributes: dict[str, object]) -> str:
    """Attributes that are written without braces, removed from `attributes`: the number of a `const`, a callee."""
    if op.name == "const":
        return _constant(op.results[0].type, attributes.pop("value"))
    if op.name in ("call", *REQUESTS):
        return _symbol(str(attributes.pop("callee")))
    return ""


def _constant(type: t.Type, value: object) -> str:
    """The shortest text that gives the number back in its type: 0.1 for the f32 nearest to 0.1."""
    scalar = t.scalar_of(type)
    if isinstance(value, float) and scalar is t.F32:
        return str(np.float32(value))
    return str(np.float16(value)) if isinstance(value, float) and scalar is t.F16 else _attribute(value)


def _symbol(name: str) -> str:
    return "@" + (name if _PLAIN_NAME.match(name) else json.dumps(name))


def _attributes(attributes: Mapping[str, object]) -> str:
    return " {" + ", ".join(f"{k}={_attribute(v)}" for k, v in attributes.items()) + "}" if attributes else ""


def _attribute(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(str, value)) + ")"
    return repr(value) if isinstance(value, (int, float)) else str(value)


def _print_derivatives(d: Derivatives | None) -> str:
    if d is None:
        return ""
    named = {"jvp": d.jvp, "vjp": d.vjp, "primal_substitute": d.primal_substitute, "applied": d.applied}
    return " derivatives(" + ", ".join(f"{k}={_symbol(v)}" for k, v in named.items() if v is not None) + ")"


def _print_struct(s: t.Struct) -> str:
    fields = ", ".join(f"{_field(name)}: {field}" for name, field in s.fields)
    return f"{s} {{ {fields} }}\n" if fields else f"{s} {{}}\n"


def _field(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else json.dumps(name)


def _print_differential(s: t.Struct, d: Differential) -> str:
    rows = [f"{primal} -> {tangent}" for primal, tangent in d.fields]
    fields = ", ".join((*rows, *(f"{primal} = {tangent}" for primal, tangent in d.kept)))
    named = (("zero", d.zero), ("add", d.add))
    functions = "".join(f" {word}={_symbol(name)}" for word, name in named if name)
    return f"differential {s} : {d.type} ({fields}){functions}\n"


def _structs(program: Program) -> list[t.Struct]:
    """All structs that the text mentions, inner ones first."""
    types: dict[t.Type, None] = {}
    for s, d in program.differentials.items():
        _collect(s, types)
        _collect(d.type, types)
    for s, half in program.duals.items():
        _collect(s, types)
        _collect(half, types)
    for s in program.trusted:
        _collect(s, types)
    if program.arguments is not None:
        _collect(program.arguments, types)
    for function in program.functions.values():
        for mentioned in _types_in(function):
            _collect(mentioned, types)
    structs = [s for s in types if isinstance(s, t.Struct)]
    names = [s.name for s in structs]
    assert len(set(names)) == len(names), f"two structs have one name: {sorted(names)}"
    return structs


def _types_in(function: Function) -> Iterable[t.Type]:
    yield from (p.type for p in function.parameters)
    yield from function.result_types
    for op in walk(function.region):
        yield from (r.type for r in op.results)
        yield from (p.type for region in op.regions for p in region.parameters)


def _collect(mentioned: t.Type, types: dict[t.Type, None]) -> None:
    if mentioned in types:
        return
    if isinstance(mentioned, t.OpenForm):  # before the pointers to it that it contains
        types[mentioned] = None
    inner = [field for _, field in mentioned.fields] if isinstance(mentioned, t.Struct) else []
    if isinstance(mentioned, (t.Array, t.Pointer, t.Lanes)):
        inner = [mentioned.element]
    for part in inner:
        _collect(part, types)
    types[mentioned] = None
