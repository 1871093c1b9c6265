"""print of sgl.device.print: a format with braces, whose line the host fetches.

print("{}: {:.3}", i, v)     ->     print %i, %x, %y, %z {format: what is shown how}
print("{}")                  ->     error: the format shows 1 values, and 0 are given

Without `create_device(enable_print=True)` it computes its arguments and prints nothing. `set_print_enabled` sets a
static variable, like those of programs.
"""

from __future__ import annotations

from slangrad.base.prints.brace_formats import Argument, Placeholder, encode, pieces_of
from slangrad.check.calls.coerce import stripped
from slangrad.check.model import checked
from slangrad.ir.data.types import BOOL, Array, Matrix, Scalar, Struct, Type, Vector
from slangrad.ir.ops.core import Value
from slangrad.lower.calls.prints import given_values, literal_format
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

SILENT = "print silent"  # a static variable, which is false until it is written
TEXT = "PrintableString"
HASHED = (TEXT, "String")
_KINDS = {"signed": "i", "unsigned": "u", "float": "f"}


def lower_print(f: Frame, form: checked.FunctionCall) -> None:
    literal = literal_format(f, form, "print")
    if literal is None:
        return
    texts: dict[int, str] = {}
    arguments: list[Argument] = []
    values: list[Value] = []
    for node in form.arguments[1:]:
        if not isinstance(node, ast.Expression):
            continue
        text = _text_of(node)
        if text is not None:
            texts[len(arguments)] = text
            arguments.append(Argument("text", (0,)))
            continue
        for value, kind in given_values(f, node):
            argument = Argument("hash") if str(kind) in HASHED else _argument(value.type)
            if argument is None:
                note = "print its fields"
                f.error(
                    "E0707",
                    f"print shows numbers, vectors, matrices and arrays, not '{kind}'",
                    node.span,
                    note,
                )
                return
            arguments.append(argument)
            values += f.scalars(value, structs=True)
    try:
        encoded = _encoded(literal.value, arguments, texts, _texts_of(f, arguments))
    except ValueError as failure:
        f.error("E0707", str(failure), literal.span, "{} shows a value, {:.3} with 3 digits, {{ is a brace")
        return
    if not f.lowering.options.prints:
        return

    def write() -> None:
        f.b.effect("print", *values, format=encoded)

    f.branch(f.emit("read_static", type=BOOL, name=SILENT), tuple, write)


def lower_set_prints(f: Frame, enabled: Value) -> None:
    f.b.effect("write_static", f.emit("not", enabled, type=BOOL), name=SILENT)


def _texts_of(f: Frame, arguments: list[Argument]) -> list[str]:
    """All texts that a number of one can mean: those of the program."""
    if all(argument.kind != "hash" for argument in arguments):
        return []
    parts = [part for module in dict.fromkeys(f.program.modules.values()) for part in module.files]
    nodes = (node for part in parts for node in walk(part))
    return sorted({node.value for node in nodes if isinstance(node, ast.StringLiteral)})


def _encoded(text: str, arguments: list[Argument], texts: dict[int, str], texts_of_program: list[str]) -> str:
    """Texts that stand in the call become a part of the format."""
    pieces = pieces_of(text)
    encode(pieces, arguments)
    numbers = [i for i in range(len(arguments)) if i not in texts]
    moved: list[str | Placeholder] = []
    for piece in pieces:
        if isinstance(piece, str):
            moved.append(piece)
        elif piece.argument in texts:
            moved.append(format(texts[piece.argument], piece.spec))
        else:
            moved.append(Placeholder(numbers.index(piece.argument), piece.spec))
    return encode(moved, [arguments[i] for i in numbers], texts_of_program)


def _text_of(node: ast.Expression) -> str | None:
    """The text of a literal, by itself or as a PrintableString."""
    node = stripped(node)
    if isinstance(node, ast.Call) and len(node.arguments) == 1 and str(node.type) == TEXT:
        return _text_of(node.arguments[0])
    return node.value if isinstance(node, ast.StringLiteral) else None


def _argument(t: Type) -> Argument | None:
    if isinstance(t, Scalar):
        return Argument(f"{_KINDS[t.kind]}{t.bits}" if t.kind in _KINDS else "bool")
    inner: Type | None = None
    sizes: tuple[int, ...] = ()
    if isinstance(t, Vector):
        inner, sizes = t.element, (t.length,)
    elif isinstance(t, Matrix):
        inner, sizes = t.element, (t.rows, t.columns)
    elif isinstance(t, Array) and t.length is not None:
        inner, sizes = t.element, (t.length,)
    if inner is None or isinstance(inner, Struct):
        return None
    element = _argument(inner)
    return None if element is None else Argument(element.kind, (*sizes, *element.shape))
