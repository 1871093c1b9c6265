"""Blocks of SPIR-V, as far as their instructions compute with numbers: `spirv_asm { ... }`.

    %two = OpConstant $$int 2;                  int %two = (int)2;
    result : $$int = OpIMul $n %two             int %result = (int)n * (int)%two;  return %result;
    OpStore &r %two;                            r = %two;

In: the block.   Out: the statements that are meant. A block that is a value is a call of a lambda with them.
An instruction takes numbers of one type, so the types of its operands are compared after the check. Instructions that
are not in the tables are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from slangrad.base.options import Limits
from slangrad.base.source import Span
from slangrad.check.model.types import ERROR, VOID, MatrixType, ScalarType, Type, VectorType
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.lexing.lexer import tokenize
from slangrad.syntax.lexing.numbers import read_integer
from slangrad.syntax.parsing.cursor import GivenUp, Unparsable
from slangrad.syntax.parsing.declarations import DeclarationParser

LANGUAGE = 2025
RESULT = "%result"
# fmt: off
# The operator, and the kind of all operands: float, int of any sign, signed, unsigned or bool.
_BINARY = {
    "OpIAdd": ("+", "i"), "OpISub": ("-", "i"), "OpIMul": ("*", "i"),
    "OpSDiv": ("/", "s"), "OpSRem": ("%", "s"), "OpUDiv": ("/", "u"), "OpUMod": ("%", "u"),
    "OpFAdd": ("+", "f"), "OpFSub": ("-", "f"), "OpFMul": ("*", "f"), "OpFDiv": ("/", "f"), "OpFRem": ("%", "f"),
    "OpBitwiseAnd": ("&", "i"), "OpBitwiseOr": ("|", "i"), "OpBitwiseXor": ("^", "i"),
}
_COMPARISONS = {
    "OpIEqual": ("==", "i"), "OpINotEqual": ("!=", "i"), "OpFOrdEqual": ("==", "f"), "OpFUnordNotEqual": ("!=", "f"),
    **{f"Op{letter}{name}": (sign, kind)
       for letter, kind in (("S", "s"), ("U", "u"), ("FOrd", "f"))
       for name, sign in (("LessThan", "<"), ("LessThanEqual", "<="),
                          ("GreaterThan", ">"), ("GreaterThanEqual", ">="))},
}
_UNARY = {"OpSNegate": ("-", "i"), "OpNot": ("~", "i"), "OpFNegate": ("-", "f"), "OpLogicalNot": ("!", "b")}
_CONVERSIONS = {
    "OpConvertSToF": ("s", "f"), "OpConvertUToF": ("u", "f"), "OpConvertFToS": ("f", "s"), "OpConvertFToU": ("f", "u"),
    "OpFConvert": ("f", "f"), "OpSConvert": ("s", "s"), "OpUConvert": ("u", "u"),
}
_CALLS = {"OpSelect": ("select", "bxx"), "OpDot": ("dot", "ff")}
_GLSL = {                                     # the instructions of `OpExtInst ... glsl450`
    **{name: (name.lower(), "f") for name in (
        "Floor", "Ceil", "Trunc", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh",
        "Exp", "Log", "Exp2", "Log2", "Sqrt", "Length", "Normalize", "Degrees", "Radians")},
    "FAbs": ("abs", "f"), "Fract": ("frac", "f"), "InverseSqrt": ("rsqrt", "f"), "RoundEven": ("round", "f"),
    "Pow": ("pow", "ff"), "Atan2": ("atan2", "ff"), "FMin": ("min", "ff"), "FMax": ("max", "ff"),
    "Step": ("step", "ff"), "Distance": ("distance", "ff"), "Cross": ("cross", "ff"), "Reflect": ("reflect", "ff"),
    "FMix": ("lerp", "fff"), "FClamp": ("clamp", "fff"), "SmoothStep": ("smoothstep", "fff"), "Fma": ("fma", "fff"),
    "SAbs": ("abs", "s"), "SMin": ("min", "ss"), "SMax": ("max", "ss"), "SClamp": ("clamp", "sss"),
    "UMin": ("min", "uu"), "UMax": ("max", "uu"), "UClamp": ("clamp", "uuu"),
}
_WITHOUT_EFFECT = ("OpNop", "OpName", "OpCapability", "OpExtension")
_SEMANTICS = {"None": 0, "Relaxed": 0, "Acquire": 2, "Release": 4, "AcquireRelease": 8, "SequentiallyConsistent": 16,
              "UniformMemory": 0x40, "SubgroupMemory": 0x80, "WorkgroupMemory": 0x100, "CrossWorkgroupMemory": 0x200,
              "AtomicCounterMemory": 0x400, "ImageMemory": 0x800}
_SCOPES = {"CrossDevice": 0, "Device": 1, "Workgroup": 2, "Subgroup": 3, "Invocation": 4, "QueueFamily": 5}
_NUMBERS = {**{f"MemorySemantics{name}": value for name, value in _SEMANTICS.items()},
            **{f"Scope{name}": value for name, value in _SCOPES.items()}}
_KINDS: dict[str, tuple[str, Callable[[ScalarType], bool]]] = {
    "f": ("floats", lambda t: t.is_float),          "i": ("whole numbers", lambda t: t.is_integer),
    "s": ("signed numbers", lambda t: t.kind == "int"), "u": ("unsigned numbers", lambda t: t.kind == "uint"),
    "b": ("bools", lambda t: t.kind == "bool"),
}
# fmt: on


class _Refused(Exception):
    """An instruction outside of the tables; (message, its place)."""


@dataclass
class _Operand:
    """`form`: "%" an id, "$" a value, "&" a variable, "$$" a type, "word" a name or a number or a text."""

    form: str
    span: Span
    node: ast.Expression | None = None
    word: str = ""


Check = Callable[[Scope, Type], None]  # of operands, given the type of the result


@dataclass
class Instructions:
    """The statements of a block, and the comparisons of types that follow their check."""

    owner: ast.Declaration
    statements: list[ast.Statement] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)  # of the library; they are called by "%" and the name
    has_result: bool = False
    checks: list[Check] = field(default_factory=list)  # of the instruction that is being read
    _checks: list[tuple[ast.Variable | None, list[Check]]] = field(default_factory=list)

    def add(self, statement: ast.Statement, variable: ast.Variable | None = None) -> None:
        self.statements.append(statement)
        self._checks.append((variable, self.checks))
        self.checks = []

    def compare(self, scope: Scope) -> None:
        """Refuse operands of other types than the instructions take."""
        for variable, checks in self._checks:
            kind = VOID if variable is None else scope.checker.info(variable).type
            for check in checks if kind is not ERROR else ():
                check(scope, kind)


def block_of(scope: Scope, node: ast.AssemblyBlock, owner: ast.Declaration) -> Instructions | None:
    """The statements of a block in a function; None after an error."""
    span, checker = node.span, scope.checker
    tokens = [
        token
        for token in tokenize(span.source)
        if span.start <= token.start < span.end or token.kind == "end"
    ]
    if len(tokens) < 4 or tokens[0].text != "spirv_asm" or tokens[-2].text != "}":
        checker.error("E9003", "assembly in a macro is not supported", span, "write it in a function")
        return None
    module = ast.ModuleDeclaration(span, span.source.name, span, span.source, [], None, 0)
    parser = DeclarationParser(tokens[2:], checker.reporter, Limits(), module, LANGUAGE)
    block = Instructions(owner)
    try:
        while not parser.at("}"):
            if block.has_result:
                message = "the instruction with the result must be the last one"
                raise parser.error("E0201", message)
            _instruction(block, parser)
            if not parser.at("}"):
                parser.expect(";", "after an instruction")
    except (Unparsable, GivenUp):
        return None
    except _Refused as error:
        message, place = error.args
        note = (
            "instructions that compute with numbers are supported, such as OpIAdd, OpFMul, OpLoad and OpStore"
        )
        checker.error("E9003", message, place, note)
        return None
    return block


def inside(scope: Scope, block: Instructions) -> Scope:
    """The scope of the statements, which has the library's functions by names that programs cannot have."""
    names = Scope(scope.checker, scope)
    names.names = {f"%{name}": list(scope.checker.library[name]) for name in block.functions}
    return names


# --- Instructions -------------------------------------------------------------------------------------


def _instruction(block: Instructions, parser: DeclarationParser) -> None:
    """`Op $$T %id a b`, `%id = Op $$T a b` or `%id : $$T = Op a b`."""
    first, kind, target = _operand(parser), None, None
    if parser.accept(":"):
        kind = _operand(parser)
        if not parser.at("="):
            raise parser.error("E0201", f"expected '=' after the type, found {parser.token.shown()}")
    code = first
    if parser.accept("="):
        target, code = first, _operand(parser)
    operands = []
    while parser.kind not in ("}", ";", "end"):
        operands.append(_operand(parser))
        while parser.accept("|"):
            _operand(parser)
    if code.word in _EFFECTS:
        _EFFECTS[code.word](block, code, operands)
    elif code.word in _VALUES:
        kind = _taken(code, operands) if kind is None else kind
        target = _taken(code, operands) if target is None else target
        _result(block, code, kind, target, operands)
    elif code.word not in _WITHOUT_EFFECT:
        raise _Refused(f"the instruction '{code.word or code.span.text}' is not supported", code.span)


def _result(
    block: Instructions, code: _Operand, kind: _Operand, target: _Operand, operands: list[_Operand]
) -> None:
    """The variable with the result of an instruction."""
    if kind.form != "$$" or kind.node is None:
        raise _Refused(f"'{kind.span.text}' is not supported as the type of a result", kind.span)
    if target.form != "%":
        raise _Refused(f"'{target.span.text}' is no name of a result", target.span)
    value = _VALUES[code.word](block, code, kind.node, operands)
    block.checks.append(partial(_require_type, code.word, value))
    written = duplicate(kind.node)
    variable = ast.Variable(code.span, target.word, target.span, "", written, value, [], None)
    variable.parent = block.owner
    block.add(ast.DeclarationStatement(code.span, [variable]), variable)
    block.has_result = target.word == RESULT


def _operand(parser: DeclarationParser) -> _Operand:
    token = parser.advance()
    if token.kind == "$" and parser.accept("$"):
        node = parser.parse_type()
        return _Operand("$$", node.span, node)
    if token.kind in ("$", "&"):
        node = parser.parse_postfix()
        return _Operand(token.kind, node.span, node)
    if token.kind == "%":
        token = parser.advance()
        return _Operand("%", token.span, None, f"%{token.text}")
    if token.kind == "name" and token.text == "result":
        return _Operand("%", token.span, None, RESULT)
    if token.kind == "name" and parser.at("("):
        raise _Refused(f"'{token.text}(...)' is not supported", token.span)
    if token.kind in ("name", "integer", "string"):
        return _Operand("word", token.span, None, token.text)
    raise parser.error("E0201", f"{token.shown()} is no operand of an instruction", token.span)


def _taken(code: _Operand, operands: list[_Operand]) -> _Operand:
    if not operands:
        raise _Refused(f"'{code.word}' needs more operands", code.span)
    return operands.pop(0)


# --- Operands as expressions --------------------------------------------------------------------------


def _value(operand: _Operand) -> ast.Expression:
    if operand.form == "%":
        return ast.Name(operand.span, operand.word)
    if operand.form != "$" or operand.node is None:
        raise _Refused(f"'{operand.span.text}' is no value", operand.span)
    return operand.node


def _place(operand: _Operand) -> ast.Expression:
    if operand.form != "&" or operand.node is None:
        raise _Refused(f"'{operand.span.text}' is no address of a variable", operand.span)
    return operand.node


def _number(operand: _Operand) -> int:
    if operand.word in _NUMBERS:
        return _NUMBERS[operand.word]
    if operand.form != "word" or not operand.word[:1].isdigit():
        raise _Refused(f"'{operand.span.text}' is no whole number", operand.span)
    return read_integer(operand.word)[0]


def _values(
    block: Instructions, code: _Operand, kinds: str, operands: list[_Operand]
) -> list[ast.Expression]:
    """Operands that must be of these kinds."""
    if len(operands) != len(kinds):
        raise _Refused(f"'{code.word}' takes {len(kinds)} operands here, not {len(operands)}", code.span)
    nodes = [_value(operand) for operand in operands]
    block.checks += [partial(_require_kind, code.word, node, kind) for node, kind in zip(nodes, kinds)]
    return nodes


# --- Rules: an instruction with a result to its expression ---------------------------------------------

Rule = Callable[[Instructions, _Operand, ast.Expression, list[_Operand]], ast.Expression]


def _binary(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    operator, letter = _BINARY[code.word]
    left, right = (
        _as_type(block, code, kind, node, letter) for node in _values(block, code, 2 * letter, operands)
    )
    return ast.Binary(code.span, operator, left, right)


def _unary(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    operator, letter = _UNARY[code.word]
    (node,) = _values(block, code, letter, operands)
    return ast.Unary(code.span, operator, _as_type(block, code, kind, node, letter))


def _as_type(
    block: Instructions, code: _Operand, kind: ast.Expression, node: ast.Expression, letter: str
) -> ast.Expression:
    """Convert an integer operand to the type of the result, which has the same number of bits."""
    if letter != "i":
        return node
    block.checks.append(partial(_require_bits, code.word, node))
    return ast.Cast(node.span, duplicate(kind), node)


def _compare(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    operator, letter = _COMPARISONS[code.word]
    left, right = _values(block, code, 2 * letter, operands)
    block.checks.append(partial(_require_equal, code.word, left, right))
    return ast.Binary(code.span, operator, left, right)


def _convert(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    source, target = _CONVERSIONS[code.word]
    (node,) = _values(block, code, source, operands)
    block.checks.append(partial(_require_result, code.word, node, target))
    return ast.Cast(code.span, duplicate(kind), node)


def _call(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    row = _CALLS.get(code.word)
    if row is None:  # OpExtInst
        library, name = _taken(code, operands), _taken(code, operands)
        row = _GLSL.get(name.word) if library.word == "glsl450" else None
        if row is None:
            raise _Refused(f"the instruction '{library.word} {name.word}' is not supported", name.span)
    function, kinds = row
    nodes = _values(block, code, kinds, operands)
    first, *others = (node for node, letter in zip(nodes, kinds) if letter != "b")
    block.checks += [partial(_require_equal, code.word, first, other) for other in others]
    block.functions.add(function)
    return ast.Call(code.span, ast.Name(code.span, f"%{function}"), nodes)


def _constant(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    """The literal of a float would be its bits, so constants are whole numbers."""
    literal = ast.IntLiteral(code.span, _number(_taken(code, operands)), "")
    block.checks.append(partial(_require_result, code.word, literal, "i"))
    return ast.Cast(code.span, duplicate(kind), literal)


def _copy(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    return _value(_taken(code, operands))


def _load(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    return _place(_taken(code, operands))


def _extract(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    node = _value(_taken(code, operands))
    for index in operands:
        node = ast.Index(code.span, node, [ast.IntLiteral(index.span, _number(index), "")])
    return node


def _construct(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    nodes = [_value(operand) for operand in operands]
    block.checks += [partial(_require_component, code.word, node) for node in nodes]
    return ast.Call(code.span, duplicate(kind), nodes)


def _undefined(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    return ast.Cast(code.span, duplicate(kind), ast.InitializerList(code.span, []))


def _truncate(
    block: Instructions, code: _Operand, kind: ast.Expression, operands: list[_Operand]
) -> ast.Expression:
    """`__truncate $$T %id $$S %value`: the first components."""
    _taken(code, operands)
    node = _value(_taken(code, operands))
    block.checks.append(partial(_require_component, code.word, node))
    return ast.Cast(code.span, duplicate(kind), node)


_VALUES: dict[str, Rule] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_CONVERSIONS, _convert),
    **dict.fromkeys((*_CALLS, "OpExtInst"), _call),
    "OpConstant": _constant,
    "OpCopyObject": _copy,
    "OpLoad": _load,
    "OpCompositeExtract": _extract,
    "OpCompositeConstruct": _construct,
    "OpUndef": _undefined,
    "__truncate": _truncate,
}


def _store(block: Instructions, code: _Operand, operands: list[_Operand]) -> None:
    place, node = _place(_taken(code, operands)), _value(_taken(code, operands))
    block.checks.append(partial(_require_equal, code.word, place, node))
    assign = ast.Assign(code.span, "=", place, node)
    block.add(ast.ExpressionStatement(code.span, assign))


def _fence(block: Instructions, code: _Operand, operands: list[_Operand]) -> None:
    """The barrier of all memory is at least that of a smaller scope and of fewer kinds of memory."""
    block.functions.add("AllMemoryBarrier")
    call = ast.Call(code.span, ast.Name(code.span, "%AllMemoryBarrier"), [])
    block.add(ast.ExpressionStatement(code.span, call))


_EFFECTS = {"OpStore": _store, "OpMemoryBarrier": _fence}


# --- Types, after the check ---------------------------------------------------------------------------


def _shape(kind: Type) -> tuple[Type, tuple[object, ...]]:
    """The type of the components, and how many there are."""
    if isinstance(kind, VectorType):
        return kind.element, (kind.count,)
    return (kind.element, (kind.rows, kind.columns)) if isinstance(kind, MatrixType) else (kind, ())


def _refuse(scope: Scope, code: str, node: ast.Expression, reason: str) -> None:
    if node.type is not ERROR:
        scope.checker.error("E9003", f"'{code}' with '{node.type}' is not supported: {reason}", node.span)


def _is_of(kind: Type, letter: str) -> bool:
    """Whether the components are of a kind. A type parameter may be one of floats, or of whole numbers."""
    component, _ = _shape(kind)
    if isinstance(component, ScalarType):
        return _KINDS[letter][1](component)
    return letter in "fi" and kind.abstract


def _require_kind(code: str, node: ast.Expression, letter: str, scope: Scope, wanted: Type) -> None:
    if letter in _KINDS and not _is_of(node.type, letter):
        _refuse(scope, code, node, f"it takes {_KINDS[letter][0]}")


def _require_result(code: str, node: ast.Expression, letter: str, scope: Scope, wanted: Type) -> None:
    if not _is_of(wanted, letter):
        _refuse(scope, code, node, f"the result is a '{wanted}'")


def _require_bits(code: str, node: ast.Expression, scope: Scope, wanted: Type) -> None:
    (component, count), (other, wanted_count) = _shape(node.type), _shape(wanted)
    alike = (
        (component, other)
        if component == other
        else (getattr(component, "bits", 0), getattr(other, "bits", 1))
    )
    if count != wanted_count or alike[0] != alike[1]:
        _refuse(scope, code, node, f"the result is a '{wanted}'")


def _require_equal(
    code: str, left: ast.Expression, right: ast.Expression, scope: Scope, wanted: Type
) -> None:
    if left.type != right.type and left.type is not ERROR:
        _refuse(scope, code, right, f"the other operand is a '{left.type}'")


def _require_component(code: str, node: ast.Expression, scope: Scope, wanted: Type) -> None:
    if _shape(node.type)[0] != _shape(wanted)[0]:
        _refuse(scope, code, node, f"the result is a '{wanted}'")


def _require_type(code: str, value: ast.Expression, scope: Scope, wanted: Type) -> None:
    if value.type != wanted:
        _refuse(scope, code, value, f"the result is a '{wanted}'")
