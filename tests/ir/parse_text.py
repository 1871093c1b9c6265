"""IR text to IR; the grammar is what `ir/text/printer.py` prints.

    %r = for %n, %x : f32 {reverse=true} (%i: i32, %sum: f32) { ... yield %next }

Types of results come from the table where it gives them. A malformed text is a `TextError` that names the
line; whether the IR makes sense beyond its form is asked by `ir/text/verify.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import cast

from slangrad.ir.data import types as t
from slangrad.ir.data.numbers import Number, wrap
from slangrad.ir.ops.core import (
    Attributes,
    Derivatives,
    Differential,
    Function,
    FunctionAttributes,
    Op,
    Parameter,
    Program,
    Region,
    Value,
)
from slangrad.ir.ops.primitives import CONTROL, PRIMITIVES, REQUESTS
from slangrad.ir.ops.type_rules import RuleError, check_attributes, result_type
from slangrad.ir.text.printer import NUMBERED


class TextError(ValueError):
    """Text that is not IR; the message names the line."""


def parse_program(text: str) -> Program:
    return _Parser(text).program()


def parse_function(text: str) -> Function:
    """The only function of a text (structs may be declared before it)."""
    (function,) = parse_program(text).functions.values()
    return function


_TOKEN = re.compile(
    r"""\s+|//[^\n]*
    |(?P<value>%[\w.]+)
    |(?P<symbol>@(?:"(?:[^"\\]|\\.)*"|[\w.$]+))
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf\b)|nan\b)
    |(?P<name>[A-Za-z_$][\w.$]*)
    |(?P<mark>->|[(){}\[\]<>,:=?])""",
    re.VERBOSE,
)
_CONSTANTS = {"true": True, "false": False}
_VECTOR = re.compile(r"(bool|[iuf]\d+|bf16|e4m3|e5m2)x(\d+)(?:x(\d+)(t?))?\Z")
_OPS = PRIMITIVES.keys() | CONTROL | REQUESTS
_FLAGS = {"in", "out", "inout", "no_diff", "uniform"}


class _Parser:
    """A cursor over tokens `(kind, text, offset)`; values are known by name within a function."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scan(text))
        self._at = 0
        self._structs: dict[str, t.Struct] = {}
        self._values: dict[str, Value] = {}

    def _scan(self, text: str) -> Iterable[tuple[str, str, int]]:
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected {text[position]!r}", position)
            if match.lastgroup is not None:
                yield match.lastgroup, match.group(), position
            position = match.end()
        yield "end", "", position

    def _error(self, message: str, offset: int | None = None) -> TextError:
        offset = self._tokens[self._at][2] if offset is None else offset
        return TextError(f"line {self._text.count(chr(10), 0, offset) + 1}: {message}")

    # --- tokens

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)][1]

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _accept(self, text: str) -> bool:
        if self._peek() != text or self._kind() == "string":
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"expected {text!r}, found {self._peek()!r}")

    def _take(self, kind: str) -> str:
        if self._kind() != kind:
            raise self._error(f"expected a {kind}, found {self._peek()!r}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _take_symbol(self) -> str:
        return _unquote(self._take("symbol")[1:])

    # --- the program

    def program(self) -> Program:
        program = Program()
        while self._kind() != "end":
            word = self._take("name")
            if word == "struct":
                self._struct()
            elif word == "differential":
                self._differential(program)
            elif word == "dual":
                self._dual(program)
            elif word == "trusted":
                self._trusted(program)
            elif word == "arguments":
                program.arguments = self._struct_type()
            elif word == "func":
                program.add(self._function())
            else:
                raise self._error(f"unexpected {word!r}")
        return program

    def _struct(self) -> None:
        name, fields = _unquote(self._take("string")), []
        self._expect("{")
        while not self._accept("}"):
            field = _unquote(self._take("string" if self._kind() == "string" else "name"))
            self._expect(":")
            fields.append((field, self._type()))
            self._accept(",")
        self._structs[name] = t.struct(name, tuple(fields))

    def _struct_type(self) -> t.Struct:
        found = self._type()
        if not isinstance(found, t.Struct):
            raise self._error("expected a struct")
        return found

    def _differential(self, program: Program) -> None:
        primal = self._struct_type()
        self._expect(":")
        tangent = self._type()
        rows: dict[str, list[tuple[int, int]]] = {"->": [], "=": []}
        self._expect("(")
        while not self._accept(")"):
            field = int(self._take("number"))
            sign = "=" if self._accept("=") else "->"
            if sign == "->":
                self._expect("->")
            rows[sign].append((field, int(self._take("number"))))
            self._accept(",")
        functions: dict[str, str | None] = {"zero": None, "add": None}
        while self._peek() in functions:
            word = self._take("name")
            self._expect("=")
            functions[word] = self._take_symbol()
        fields, kept = (tuple(each) for each in rows.values())
        program.differentials[primal] = Differential(tangent, fields, **functions, kept=kept)

    def _dual(self, program: Program) -> None:
        pointer = self._struct_type()
        self._expect(":")
        program.duals[pointer] = self._type()

    def _trusted(self, program: Program) -> None:
        struct = self._struct_type()
        self._expect("(")
        program.trusted[struct] = self._tuple()

    # --- functions

    def _function(self) -> Function:
        self._values = {}
        name, parameters, inputs = self._take_symbol(), [], []
        self._expect("(")
        while not self._accept(")"):
            parameter, value = self._parameter()
            parameters.append(parameter)
            if parameter.direction != "out":
                inputs.append(value)
            self._accept(",")
        self._expect("->")
        self._expect("(")
        differentiable = not self._accept("no_diff")
        returned = None if self._peek() == ")" else self._type()
        self._expect(")")
        derivatives, attributes = self._derivatives(), cast(FunctionAttributes, self._attributes())
        region = self._region(tuple(inputs))
        return Function(name, tuple(parameters), returned, region, differentiable, derivatives, attributes)

    def _parameter(self) -> tuple[Parameter, Value]:
        flags = set()
        while self._peek() in _FLAGS:
            flags.add(self._take("name"))
        value = self._define_typed()
        direction = "out" if "out" in flags else "inout" if "inout" in flags else "in"
        return Parameter(value.hint, value.type, direction, "no_diff" not in flags, "uniform" in flags), value

    def _derivatives(self) -> Derivatives | None:
        if not self._accept("derivatives"):
            return None
        named: dict[str, str] = {}
        self._expect("(")
        while not self._accept(")"):
            word = self._take("name")
            self._expect("=")
            named[word] = self._take_symbol()
            self._accept(",")
        return Derivatives(**named)

    def _define(self, name: str, type: t.Type) -> Value:
        if name in self._values:
            raise self._error(f"{name} is defined twice")
        hint = NUMBERED.sub("", name[1:])
        value = self._values[name] = Value(type, "" if hint.isdigit() else hint)
        return value

    def _define_typed(self) -> Value:
        name = self._take("value")
        self._expect(":")
        return self._define(name, self._type())

    def _region(self, parameters: tuple[Value, ...]) -> Region:
        ops: list[Op] = []
        self._expect("{")
        while not self._accept("yield"):
            ops.append(self._op())
        yields = self._operands()
        self._expect("}")
        return Region(parameters, ops, yields)

    # --- ops

    def _op(self) -> Op:
        names = []
        while self._kind() == "value":
            names.append(self._take("value"))
            self._accept(",")
        if names:
            self._expect("=")
        if self._peek() not in _OPS:
            raise self._error(f"there is no op {self._peek()!r}")
        name = self._take("name")
        sugar = self._sugar(name)
        operands = self._operands()
        attributes = self._checked(name, {**sugar, **self._attributes()})
        types = self._types() if self._accept(":") else self._known_type(name, operands, attributes)
        if len(types) != len(names):
            raise self._error(f"{name} has {len(types)} results, not {len(names)}")
        if name == "const":
            attributes["value"] = self._fitting(attributes["value"], types[0])
        regions = self._regions()
        results = tuple(self._define(n, type) for n, type in zip(names, types, strict=True))
        return Op(name, operands, results, attributes, regions)

    def _sugar(self, name: str) -> dict[str, object]:
        if name == "const":
            return {"value": self._attribute()}
        return {"callee": self._take_symbol()} if name in ("call", *REQUESTS) else {}

    def _checked(self, name: str, attributes: dict[str, object]) -> Attributes:
        try:
            check_attributes(name, attributes)
        except RuleError as error:
            raise self._error(str(error)) from None
        return cast(Attributes, attributes)

    def _fitting(self, value: Number, type: t.Type) -> Number:
        """The number as a constant of the type holds it."""
        scalar = t.scalar_of(type)
        if scalar is None:
            raise self._error(f"{type} has no constant {value}")
        return wrap(scalar, value)

    def _known_type(self, name: str, operands: tuple[Value, ...], attributes: Attributes) -> list[t.Type]:
        made = None if name not in PRIMITIVES else result_type(name, operands, attributes, None)
        return [] if made is None else [made]

    def _regions(self) -> tuple[Region, ...]:
        """The regions of an op; a name defined in one is unknown outside of it and may be used again."""
        regions, outer = [], self._values
        while self._peek() in ("(", "{"):
            self._values = dict(outer)
            parameters: list[Value] = []
            if self._accept("("):
                while not self._accept(")"):
                    parameters.append(self._define_typed())
                    self._accept(",")
            regions.append(self._region(tuple(parameters)))
        self._values = outer
        return tuple(regions)

    def _operands(self) -> tuple[Value, ...]:
        operands: list[Value] = []
        if self._kind() != "value" or self._at_results():
            return ()
        while not operands or self._accept(","):
            name = self._take("value")
            if name not in self._values:
                raise self._error(f"{name} is not defined")
            operands.append(self._values[name])
        return tuple(operands)

    def _at_results(self) -> bool:
        """Whether the values ahead are the results of the next op: a list of values that ends in `=`."""
        ahead = 1
        while self._peek(ahead) == ",":
            ahead += 2
        return self._peek(ahead) == "="

    # --- attributes and types

    def _attributes(self) -> dict[str, object]:
        found: dict[str, object] = {}
        if self._peek() != "{" or self._peek(2) != "=" or self._tokens[self._at + 1][0] != "name":
            return found
        self._expect("{")
        while not self._accept("}"):
            name = self._take("name")
            self._expect("=")
            found[name] = self._attribute()
            self._accept(",")
        return found

    def _attribute(self) -> object:
        if self._kind() == "string":
            return _unquote(self._take("string"))
        if self._kind() == "number":
            return _number(self._take("number"))
        if self._peek() in _CONSTANTS:
            return _CONSTANTS[self._take("name")]
        self._expect("(")
        return self._tuple()

    def _tuple(self) -> tuple[int, ...]:
        found = []
        while not self._accept(")"):
            found.append(int(self._take("number")))
            self._accept(",")
        return tuple(found)

    def _types(self) -> list[t.Type]:
        found = [self._type()]
        while self._accept(","):
            found.append(self._type())
        return found

    def _type(self) -> t.Type:
        if self._accept("["):
            return self._array()
        name = self._take("name")
        if name in t.SCALARS:
            return t.SCALARS[name]
        if name == "struct":
            struct = _unquote(self._take("string"))
            if struct not in self._structs:
                raise self._error(f"there is no struct {struct!r}")
            return self._structs[struct]
        if name in ("ptr", "lanes"):
            return self._element(name)
        match = _VECTOR.match(name)
        if match is None or match[1] not in t.SCALARS:
            raise self._error(f"there is no type {name!r}")
        element, first = t.SCALARS[match[1]], int(match[2])
        if match[3] is None:
            return t.vector(element, first)
        return t.matrix(element, first, int(match[3]), bool(match[4]))

    def _array(self) -> t.Type:
        length = None if self._accept("?") else int(self._take("number"))
        self._expect("x")
        element = self._type()
        self._expect("]")
        return t.array(element, length)

    def _element(self, name: str) -> t.Type:
        self._expect("<")
        element = self._type()
        if name == "ptr":
            self._expect(",")
        made = t.pointer(element, self._take("name")) if name == "ptr" else t.lanes(element)
        self._expect(">")
        return made


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else math.nan if text == "nan" else float(text)


def _unquote(text: str) -> str:
    if not text.startswith('"'):
        return text
    unquoted = json.loads(text)
    assert isinstance(unquoted, str)
    return unquoted
