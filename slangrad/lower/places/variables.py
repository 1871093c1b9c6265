"""Variables whose address is taken: each is memory of its thread, all others are values.

    int x = 1; int* p = &x;        %x = variable : ptr<i32>     store %x, 1     %p = %x

`opt/simplify/variables.py` makes values of those whose uses are all known, after inlining.
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model.types import PointerType
from slangrad.check.names.places import value_type
from slangrad.ir.data.types import Type, innermost, pointer
from slangrad.ir.ops.core import Attributes, Value
from slangrad.lower.model.flow import THIS, Key, declaration_of
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import LocalPlace, MemoryPlace
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def addressed_variables(body: ast.SyntaxNode) -> set[Key]:
    """The variables of a checked body, parameters and `this` among them, whose address is taken in it."""
    forms = (node.ref for node in walk(body) if isinstance(node, ast.Expression))
    roots = (root_of_place(form.place) for form in forms if isinstance(form, checked.AddressOf))
    return {key for key in roots if key is not None}


def root_of_place(place: ast.Expression | checked.ThisValue | None, is_followed: bool = False) -> Key | None:
    """The variable that a place is a part of; None where a pointer or a call leads there, unless these are
    followed."""
    while place is not None:
        if isinstance(place, checked.ThisValue):
            return THIS if place.captured is None else place.captured
        if not is_followed and _is_behind_pointer(place):
            return None
        form = place.ref
        if isinstance(form, checked.Local):
            return form.declaration
        if isinstance(form, checked.ThisValue):
            return THIS if form.captured is None else form.captured
        if isinstance(place, ast.Paren):
            place = place.inner
        elif isinstance(form, checked.Expansion):
            place = form.pattern
        elif (
            isinstance(form, checked.FunctionCall) and is_followed
        ):  # a subscript or method that gives a place
            place = form.this
        else:
            place = getattr(form, "base", None)
    return None


def _is_behind_pointer(place: ast.Expression) -> bool:
    if place.conversion is not None and place.conversion.kind == "dereference":
        return True
    base = getattr(place.ref, "base", None)
    if not isinstance(place.ref, checked.Element) or not isinstance(base, ast.Expression):
        return False
    return isinstance(value_type(base), PointerType)


def open_variable(f: Frame, key: Key, t: Type) -> None:
    """The declaration of a variable: memory for it, if it needs any."""
    declaration = declaration_of(key)
    if declaration in f.addressed:
        constant = isinstance(declaration, ast.Declaration) and getattr(
            f.program.info(declaration), "no_diff", False
        )
        attributes: Attributes = {"no_diff": True} if constant else {}
        home = f.emit("variable", type=pointer(f.lowering.types.memory(t)), **attributes)
        home.hint = getattr(declaration, "name", "") or THIS
        _check_bits(f, home.hint, t)
        f.homes[key] = home


def _check_bits(f: Frame, name: str, t: Type) -> None:
    """In memory a value of an interface type is bits, which have no derivative."""
    inner = innermost(t)
    if f.differentiable and f.lowering.types.holds_interfaces(t) and inner in f.lowering.ir.differentials:
        reason = f"'{name}' has an address and interface values, which are bits in memory"
        f.lost_derivative(reason, "leave out the address, or put the interface values elsewhere")


def begin_variable(f: Frame, key: Key, value: Value) -> None:
    """The first value of a variable."""
    if declaration_of(key) in f.addressed:
        MemoryPlace(f.homes[key]).set(f, value)
    else:
        f.variables[key] = value


def declare(f: Frame, key: Key, value: Value) -> None:
    """Both at once."""
    open_variable(f, key, value.type)
    begin_variable(f, key, value)


def begin_body(f: Frame, body: ast.SyntaxNode) -> None:
    """Parameters that were entered as values, and whose address is taken in the body, go to memory."""
    f.addressed = addressed_variables(body) | {declaration_of(key) for key in f.lent}
    for key in [key for key in f.variables if declaration_of(key) in f.addressed]:
        with f.at(getattr(declaration_of(key), "span", None)):
            declare(f, key, f.variables.pop(key))


def place_of_variable(f: Frame, key: Key, no_diff: bool = False) -> Place:
    if key in f.lent:
        lent = f.lent[key]
        return MemoryPlace(lent.pointer, lent.guard, lent.cut or no_diff)
    if key in f.homes and key not in f.variables:
        return MemoryPlace(f.homes[key], cut=no_diff)
    return LocalPlace(key, f.variables[key].type, no_diff)


def held(f: Frame, key: Key) -> Value:
    """What a variable holds."""
    return place_of_variable(f, key).read(f)
