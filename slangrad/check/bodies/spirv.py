"""Blocks of SPIR-V, as far as their instructions compute with numbers: `spirv_asm { ... }`.

    %two = OpConstant $$int 2;                  int %two = (int)2;
    result : $$int = OpIMul $n %two             int %result = (int)n * (int)%two;  return %result;
    OpStore &r %two;                            r = %two;

In: the block.   Out: the statements that are meant. A block that is a value is a call of a lambda with them.
The tables give each opcode its operands, the rule of their types, and its expression. The types are compared after the
check. Instructions that are not in the tables are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from slangrad.base.options import Limits
from slangrad.base.source import Span
from slangrad.check.model.types import ERROR, VOID, ScalarType, Type, element_of, extents_of
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
_KINDS: dict[str, tuple[str, Callable[[ScalarType], bool]]] = {
    "f": ("floats", lambda t: t.is_float),          "i": ("whole numbers", lambda t: t.is_integer),
    "s": ("signed numbers", lambda t: t.kind == "int"), "u": ("unsigned numbers", lambda t: t.kind == "uint"),
    "b": ("bools", lambda t: t.kind == "bool"),
}
# fmt: on


class _Opcode(NamedTuple):
    """`operands`: letters of _KINDS, x (any value), & (a variable), n (a number), - (ignored); * repeats the last one.

    `rule` of their types: bits (integers of the result's size), equal (one type), component (the result's), or a letter
    of the result's kind.
    """

    operands: str
    rule: str
    write: str  # a name in _WRITERS
    name: str = ""  # the operator or the function


class _Refused(Exception):
    """An instruction outside of the tables; (message, its place)."""


class _Operand(NamedTuple):
    """`form`: "%" an id, "$" a value, "&" a variable, "$$" a type, "word" a name or a number or a text."""

    form: str
    span: Span
    node: ast.Expression | None = None
    word: str = ""


@dataclass
class _Instruction:
    code: _Operand
    opcode: _Opcode
    kind: ast.Expression | None  # the type of the result
    nodes: list[ast.Expression]
    value: ast.Expression | None = None
    variable: ast.Variable | None = None  # with the result

    @property
    def span(self) -> Span:
        return self.code.span

    def written_type(self) -> ast.Expression:
        assert self.kind is not None
        return duplicate(self.kind)


@dataclass
class Instructions:
    """The statements of a block, and the comparisons of types that follow their check."""

    owner: ast.Declaration
    statements: list[ast.Statement] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)  # of the library; they are called by "%" and the name
    has_result: bool = False
    _instructions: list[_Instruction] = field(default_factory=list)

    def add(self, statement: ast.Statement, instruction: _Instruction) -> None:
        self.statements.append(statement)
        self._instructions.append(instruction)

    def compare(self, scope: Scope) -> None:
        """Refuse operands of other types than the instructions take."""
        for instruction in self._instructions:
            variable = instruction.variable
            kind = VOID if variable is None else scope.checker.info(variable).type
            if kind is not ERROR:
                _compare(scope, instruction, kind)


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
        instruction = _read(block, code, _EFFECTS[code.word], None, operands)
        assert instruction.value is not None
        block.add(ast.ExpressionStatement(code.span, instruction.value), instruction)
    elif code.word in _VALUES:
        kind = _first(code, operands) if kind is None else kind
        target = _first(code, operands) if target is None else target
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
    opcode = _VALUES[code.word]
    if code.word == "OpExtInst":
        library, name = _first(code, operands), _first(code, operands)
        if library.word != "glsl450" or name.word not in _GLSL:
            raise _Refused(f"the instruction '{library.word} {name.word}' is not supported", name.span)
        opcode = _GLSL[name.word]
    instruction = _read(block, code, opcode, kind.node, operands)
    written = duplicate(kind.node)
    variable = ast.Variable(code.span, target.word, target.span, "", written, instruction.value, [], None)
    variable.parent, instruction.variable = block.owner, variable
    block.add(ast.DeclarationStatement(code.span, [variable]), instruction)
    block.has_result = target.word == RESULT


def _read(
    block: Instructions,
    code: _Operand,
    opcode: _Opcode,
    kind: ast.Expression | None,
    operands: list[_Operand],
) -> _Instruction:
    letters, repeated, _ = opcode.operands.partition("*")
    if repeated:
        letters = letters[:-1] + letters[-1] * (len(operands) - len(letters) + 1)
    if len(letters) != len(operands):
        message = f"'{code.word}' takes {len(letters)} operands here, not {len(operands)}"
        raise _Refused(message, code.span)
    nodes = [_node(operand, letter) for operand, letter in zip(operands, letters) if letter != "-"]
    opcode = opcode._replace(operands=letters.replace("-", ""))
    instruction = _Instruction(code, opcode, kind, nodes)
    instruction.value = _WRITERS[opcode.write](instruction)
    if opcode.write == "call":
        block.functions.add(opcode.name)
    return instruction


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


def _first(code: _Operand, operands: list[_Operand]) -> _Operand:
    if not operands:
        raise _Refused(f"'{code.word}' needs more operands", code.span)
    return operands.pop(0)


def _node(operand: _Operand, letter: str) -> ast.Expression:
    """An operand as an expression."""
    if letter == "n":
        return ast.IntLiteral(operand.span, _number(operand), "")
    if letter == "&":
        if operand.form != "&" or operand.node is None:
            raise _Refused(f"'{operand.span.text}' is no address of a variable", operand.span)
        return operand.node
    if operand.form == "%":
        return ast.Name(operand.span, operand.word)
    if operand.form != "$" or operand.node is None:
        raise _Refused(f"'{operand.span.text}' is no value", operand.span)
    return operand.node


def _number(operand: _Operand) -> int:
    if operand.word in _NUMBERS:
        return _NUMBERS[operand.word]
    if operand.form != "word" or not operand.word[:1].isdigit():
        raise _Refused(f"'{operand.span.text}' is no whole number", operand.span)
    return read_integer(operand.word)[0]


# --- Expressions --------------------------------------------------------------------------------------


def _operator(i: _Instruction) -> ast.Expression:
    nodes = i.nodes
    if i.opcode.rule == "bits":  # signed and unsigned operands may be mixed
        nodes = [ast.Cast(node.span, i.written_type(), node) for node in nodes]
    if len(nodes) == 1:
        return ast.Unary(i.span, i.opcode.name, nodes[0])
    return ast.Binary(i.span, i.opcode.name, *nodes)


# fmt: off
_WRITERS: dict[str, Callable[[_Instruction], ast.Expression]] = {
    "operator": _operator,
    "call": lambda i: ast.Call(i.span, ast.Name(i.span, f"%{i.opcode.name}"), i.nodes),
    "cast": lambda i: ast.Cast(i.span, i.written_type(), i.nodes[0]),
    "same": lambda i: i.nodes[0],
    "extract": lambda i: reduce(lambda node, index: ast.Index(i.span, node, [index]), i.nodes),
    "construct": lambda i: ast.Call(i.span, i.written_type(), i.nodes),
    "undefined": lambda i: ast.Cast(i.span, i.written_type(), ast.InitializerList(i.span, [])),
    "store": lambda i: ast.Assign(i.span, "=", *i.nodes),
}
_GLSL = {                                     # the instructions of `OpExtInst ... glsl450`
    name: _Opcode(operands, "equal", "call", function or name.lower())
    for operands, function, names in (
        ("f", "", "Floor Ceil Trunc Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Exp Log Exp2 Log2 Sqrt Length Normalize "
                  "Degrees Radians"),
        ("f", "abs", "FAbs"), ("f", "frac", "Fract"), ("f", "rsqrt", "InverseSqrt"), ("f", "round", "RoundEven"),
        ("ff", "", "Pow Atan2 Step Distance Cross Reflect"), ("ff", "min", "FMin"), ("ff", "max", "FMax"),
        ("fff", "", "SmoothStep Fma"), ("fff", "lerp", "FMix"), ("fff", "clamp", "FClamp"),
        ("s", "abs", "SAbs"), ("ss", "min", "SMin"), ("ss", "max", "SMax"), ("sss", "clamp", "SClamp"),
        ("uu", "min", "UMin"), ("uu", "max", "UMax"), ("uuu", "clamp", "UClamp"),
    )
    for name in names.split()
}
_COMPARISONS = {"LessThan": "<", "LessThanEqual": "<=", "GreaterThan": ">", "GreaterThanEqual": ">="}
_VALUES = {
    **{f"Op{name}": _Opcode(2 * kind, "bits" if kind == "i" else "", "operator", operator) for kind, operator, name in (
        ("i", "+", "IAdd"), ("i", "-", "ISub"), ("i", "*", "IMul"), ("s", "/", "SDiv"), ("s", "%", "SRem"),
        ("u", "/", "UDiv"), ("u", "%", "UMod"), ("f", "+", "FAdd"), ("f", "-", "FSub"), ("f", "*", "FMul"),
        ("f", "/", "FDiv"), ("f", "%", "FRem"),
        ("i", "&", "BitwiseAnd"), ("i", "|", "BitwiseOr"), ("i", "^", "BitwiseXor"))},
    **{f"Op{prefix}{name}": _Opcode(2 * kind, "equal", "operator", operator)
       for kind, prefix, operators in (
           ("i", "I", {"Equal": "==", "NotEqual": "!="}), ("f", "F", {"OrdEqual": "==", "UnordNotEqual": "!="}),
           ("s", "S", _COMPARISONS), ("u", "U", _COMPARISONS), ("f", "FOrd", _COMPARISONS))
       for name, operator in operators.items()},
    "OpSNegate": _Opcode("i", "bits", "operator", "-"),   "OpNot": _Opcode("i", "bits", "operator", "~"),
    "OpFNegate": _Opcode("f", "", "operator", "-"),       "OpLogicalNot": _Opcode("b", "", "operator", "!"),
    **{f"Op{name}": _Opcode(source, target, "cast") for source, target, name in (
        ("s", "f", "ConvertSToF"), ("u", "f", "ConvertUToF"), ("f", "s", "ConvertFToS"), ("f", "u", "ConvertFToU"),
        ("f", "f", "FConvert"), ("s", "s", "SConvert"), ("u", "u", "UConvert"))},
    "OpSelect": _Opcode("bxx", "equal", "call", "select"), "OpDot": _Opcode("ff", "equal", "call", "dot"),
    "OpExtInst": _Opcode("", "", "call"),         # its name is an operand
    "OpConstant": _Opcode("n", "i", "cast"),      # the literal of a float would be its bits
    "OpCopyObject": _Opcode("x", "", "same"),               "OpLoad": _Opcode("&-*", "", "same"),
    "OpCompositeExtract": _Opcode("xn*", "", "extract"),    "OpUndef": _Opcode("", "", "undefined"),
    "OpCompositeConstruct": _Opcode("x*", "component", "construct"),
    "__truncate": _Opcode("-x", "component", "cast"),       # $$T %id $$S %value: the first components
}
_EFFECTS = {
    "OpStore": _Opcode("&x-*", "equal", "store"),
    "OpMemoryBarrier": _Opcode("-*", "", "call", "AllMemoryBarrier"),   # it may be of a smaller scope and less memory
}
_WITHOUT_EFFECT = ("OpNop", "OpName", "OpCapability", "OpExtension")
_SEMANTICS = {"None": 0, "Relaxed": 0, "Acquire": 2, "Release": 4, "AcquireRelease": 8, "SequentiallyConsistent": 16,
              "UniformMemory": 0x40, "SubgroupMemory": 0x80, "WorkgroupMemory": 0x100, "CrossWorkgroupMemory": 0x200,
              "AtomicCounterMemory": 0x400, "ImageMemory": 0x800}
_SCOPES = {"CrossDevice": 0, "Device": 1, "Workgroup": 2, "Subgroup": 3, "Invocation": 4, "QueueFamily": 5}
_NUMBERS = {**{f"MemorySemantics{name}": value for name, value in _SEMANTICS.items()},
            **{f"Scope{name}": value for name, value in _SCOPES.items()}}
# fmt: on


# --- Types, after the check ---------------------------------------------------------------------------


def _is_of(kind: Type, letter: str) -> bool:
    """Whether the components are of a kind. A type parameter may be one of floats, or of whole numbers."""
    component = element_of(kind)
    if isinstance(component, ScalarType):
        return _KINDS[letter][1](component)
    return letter in "fi" and kind.abstract


def _has_bits(kind: Type, wanted: Type) -> bool:
    component, other = element_of(kind), element_of(wanted)
    if component != other and getattr(component, "bits", 0) != getattr(other, "bits", 1):
        return False
    return extents_of(kind) == extents_of(wanted)


def _compare(scope: Scope, instruction: _Instruction, wanted: Type) -> None:
    """Compare the types of the operands and of the value; `wanted` is the type of the result."""
    opcode = instruction.opcode
    pairs = list(zip(instruction.nodes, opcode.operands))
    first = next((node.type for node, letter in pairs if letter != "b"), ERROR)

    def require(fits: bool, node: ast.Expression, reason: str = f"the result is a '{wanted}'") -> None:
        if not fits and node.type is not ERROR:
            message = f"'{instruction.code.word}' with '{node.type}' is not supported: {reason}"
            scope.checker.error("E9003", message, node.span)

    for node, letter in pairs:
        if letter in _KINDS:
            require(_is_of(node.type, letter), node, f"it takes {_KINDS[letter][0]}")
        if opcode.rule == "equal" and letter != "b" and first is not ERROR:
            require(node.type == first, node, f"the other operand is a '{first}'")
        elif opcode.rule == "bits":
            require(_has_bits(node.type, wanted), node)
        elif opcode.rule == "component":
            require(element_of(node.type) == element_of(wanted), node)
        elif opcode.rule in _KINDS:
            require(_is_of(wanted, opcode.rule), node)
    if instruction.variable is not None and instruction.value is not None:
        require(instruction.value.type == wanted, instruction.value)
