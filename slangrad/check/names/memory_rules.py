"""Rules for memory of a declaration, a type or a place: `types.Stored`.

column_major float3x3 m;                       "columns"
StructuredBuffer<S, Std140DataLayout> b;       elements are Stored(S, "std140")
&b[0].m                                        a pointer to Stored(float3x3, "std140 columns")
"""

from __future__ import annotations

from slangrad.check.generics.bounds import bounds_of
from slangrad.check.generics.substitution import keeps_rules
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.packs import Entry
from slangrad.check.model.types import (
    ERROR,
    LAYOUTS,
    LIKE_C,
    ORDERS,
    Nominal,
    ParameterType,
    PointerType,
    Stored,
    StructType,
    Type,
    has_layout,
    join_rules,
    stored,
    unstored,
)
from slangrad.check.names.places import value_type
from slangrad.syntax import ast

LAYOUT = "IBufferDataLayout"
KEEPING_VALUES = ("DifferentialPair", "Optional")  # of which only values are stored


def order_of(checker: Checker, modifier: str) -> str:
    """The rule for matrices of a modifier, "" if it is the default."""
    return ORDERS[modifier] if modifier == "column_major" or checker.options.column_major else ""


def as_usual(checker: Checker, node: ast.SyntaxNode, kind: Type) -> Type:
    """A type for memory, with the default rule for its matrices: that of the option, in a program's own text.
    Matrices in the library's tensors, and those that a call passes, are stored by rows."""
    source = node.span.source
    if not checker.options.column_major or source.is_library or source.is_page:
        return kind
    return stored(kind, ORDERS["column_major"])


# --- Arguments of generic types -------------------------------------------------------------------------


def with_layout(
    checker: Checker, node: ast.Expression, declaration: ast.Declaration, arguments: list[Entry]
) -> list[Entry]:
    """The arguments of a generic type without the layout of memory, which becomes rules of the first argument."""
    first = arguments[0] if arguments else None
    if keeps_rules(declaration) and isinstance(first, Type):
        kind = _laid_out(checker, node, as_usual(checker, node, first), arguments[1:])
        return [kind, *(argument for argument in arguments[1:] if not is_layout(argument))]
    if any(isinstance(argument, Stored) for argument in arguments):
        if declaration.name not in KEEPING_VALUES or not declaration.span.source.is_library:
            message = f"an argument of '{declaration.name}' cannot say how memory is laid out"
            checker.error("E9004", message, node.span, "say it where the field is declared")
        return [unstored(argument) if isinstance(argument, Type) else argument for argument in arguments]
    return arguments


def pointed(checker: Checker, node: ast.Expression, arguments: list[Entry]) -> Type:
    """The pointee of `Ptr<T, ...>`."""
    assert isinstance(arguments[0], Type)
    return as_usual(checker, node, _laid_out(checker, node, arguments[0], arguments[1:]))


def _laid_out(checker: Checker, node: ast.Expression, kind: Type, behind: list[Entry]) -> Type:
    """A type by the rules of the layouts that stand behind it."""
    for argument in behind:
        if isinstance(argument, Type) and is_layout(argument):
            check_layout(checker, node, argument)
            kind = stored(kind, "", argument)
    return kind


def is_layout(argument: Entry) -> bool:
    """Whether an argument is a layout of memory, or a parameter that may be one."""
    if isinstance(argument, ParameterType):
        return True
    if not isinstance(argument, StructType) or not argument.declaration.span.source.is_library:
        return False
    return argument.declaration.name in (*LAYOUTS, *LIKE_C)


def check_layout(checker: Checker, node: ast.Expression, kind: Type) -> None:
    """Report a type that is no layout of memory."""
    if isinstance(kind, ParameterType):
        if not any(bound.declaration is checker.standard(LAYOUT) for bound in bounds_of(checker, kind)):
            checker.error(
                "E0402", f"'{kind}' may be no layout of memory", node.span, f"write '{kind} : {LAYOUT}'"
            )
    elif not is_layout(kind) and kind is not ERROR:
        checker.error("E0402", f"'{kind}' is no layout of memory", node.span, f"for example {LIKE_C[1]}")


# --- Places ---------------------------------------------------------------------------------------------


def in_memory(checker: Checker, kind: Type, place: checked.Base) -> Type:
    """The type of values of a place, by its rules for memory: that of the pointee of its address."""
    return stored(kind, *_rules_of_place(checker, place))


Rules = tuple[str, ParameterType | None]  # and a layout that is a generic parameter
DEFAULT: Rules = ("", None)


def _rules_of_place(checker: Checker, place: checked.Base) -> Rules:
    form = getattr(place, "ref", place)
    if isinstance(place, ast.Expression) and place.conversion and place.conversion.kind == "dereference":
        return _rules_behind(place.type)
    if isinstance(place, ast.Paren):
        return _rules_of_place(checker, place.inner)
    if isinstance(form, checked.Dereference):
        return _rules_behind(value_type(form.pointer))
    if isinstance(form, checked.Element):
        behind = value_type(form.base)
        return (
            _rules_behind(behind) if isinstance(behind, PointerType) else _rules_of_place(checker, form.base)
        )
    if isinstance(form, checked.Field):
        rules_of_field: str = checker.info(form.reference.declaration).rules
        around, layout = _rules_of_place(checker, form.base)
        return join_rules(rules_of_field, " ".join(filter(has_layout, around.split()))), layout
    if isinstance(form, (checked.Swizzle, checked.TupleElement)):
        return _rules_of_place(checker, form.base)
    if isinstance(form, checked.SubscriptAccess):
        return _rules_of_elements(form)
    if isinstance(form, checked.Global):
        return checker.info(form.reference.declaration).rules, None
    return DEFAULT


def _rules_behind(kind: Type) -> Rules:
    return _rules(kind.element) if isinstance(kind, PointerType) else DEFAULT


def _rules_of_elements(form: checked.SubscriptAccess) -> Rules:
    kind = value_type(form.base) if form.base is not None else None
    keeps = isinstance(kind, Nominal) and keeps_rules(kind.declaration)
    return _rules(kind.inner) if keeps and isinstance(kind, Nominal) else DEFAULT


def _rules(kind: Type) -> Rules:
    return (kind.rules, kind.layout) if isinstance(kind, Stored) else DEFAULT
