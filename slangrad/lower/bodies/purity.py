"""Whether an expression gives the same value each time: what the bound of a counted loop must be.

n - 1, size.x, this.count, tensor.shape[0], max(a, b)     yes, while nothing assigns to n, size, this, ...
buffer[i], p.count behind a pointer, next(inout state)    no: memory may change, or something is changed

Functions are looked into, so that `for (int i = 0; i < list.getCount(); i++)` has a bound that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.model.types import Pointer
from slangrad.check.names.places import value_type
from slangrad.ir.primitives import PRIMITIVES, PURE
from slangrad.lower.model.flow import THIS, Key
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast
from slangrad.syntax.walk import walk

EFFECTS = ("atomic", "load", "print")  # intrinsics that touch memory besides those the table says so of


def stays(f: Frame, node: Any, moved: set[Key]) -> bool:
    """Whether the value of an expression, or `this`, does not change while only `moved` is assigned to."""
    if isinstance(node, checked.ThisValue):
        return THIS not in moved | f.addressed
    if isinstance(node, checked.Default):
        return True
    if node.conversion is not None and not _keeps(f, node.conversion, f.substitution):
        return False
    if node.ref is None:
        return isinstance(node, LITERALS) or (
            isinstance(node, INERT) and all(stays(f, each, moved) for each in _operands(node))
        )
    rule = FORMS.get(type(node.ref))
    return rule is not None and rule(f, node.ref, moved)


LITERALS = (ast.IntLiteral, ast.BoolLiteral, ast.CharLiteral, ast.FloatLiteral)
INERT = (ast.Paren, ast.Conditional, ast.NoDiff)


def _operands(node: ast.Expression) -> Iterable[ast.Expression]:
    if isinstance(node, ast.Conditional):
        return node.condition, node.then, node.otherwise
    return (node.inner if isinstance(node, ast.Paren) else node.operand,)  # type: ignore[attr-defined]


def _keeps(f: Frame, conversion: checked.Conversion, seen: Substitution) -> bool:
    if conversion.function is not None:
        return is_memory_free(f, f.program.resolve(conversion.function, seen))
    return conversion.kind not in ("dereference", "stated")


def _part(f: Frame, form: Any, moved: set[Key]) -> bool:
    return stays(f, form.base, moved)


def _element(f: Frame, form: checked.Element, moved: set[Key]) -> bool:
    return not _is_pointer(form.base) and stays(f, form.base, moved) and stays(f, form.index, moved)


def _call(f: Frame, form: checked.Call, moved: set[Key]) -> bool:
    if isinstance(form.function, checked.Derivative):
        return False
    reference = f.resolve(form.function)
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    writes = info.mutating and not isinstance(reference.declaration, ast.Constructor)
    if writes or any(f.program.info(each).direction not in ("in", "constref") for each in info.parameters):
        return False
    given = [*([] if form.this is None else [form.this]), *form.arguments]
    return is_memory_free(f, reference) and all(stays(f, each, moved) for each in given)


def _accessed(f: Frame, form: Any, moved: set[Key]) -> bool:
    reference = f.resolve(form.reference)
    given = [*([] if form.base is None else [form.base]), *getattr(form, "arguments", ())]
    return _accessors_are_memory_free(f, reference) and all(stays(f, each, moved) for each in given)


def _local(f: Frame, form: checked.Local, moved: set[Key]) -> bool:
    return form.declaration not in moved | f.addressed


def _global(f: Frame, form: checked.Global, moved: set[Key]) -> bool:
    return not _is_written(f, form, f.substitution)


def _operator(f: Frame, form: checked.Operator, moved: set[Key]) -> bool:
    return all(stays(f, each, moved) for each in form.operands)


FORMS: dict[type, Callable[[Frame, Any, set[Key]], bool]] = {
    checked.Constant: lambda f, form, moved: True,
    checked.Global: _global,
    checked.Local: _local,
    checked.ThisValue: lambda f, form, moved: THIS not in moved | f.addressed,
    checked.Field: _part,
    checked.TupleElement: _part,
    checked.Swizzle: _part,
    checked.Element: _element,
    checked.Property: _accessed,
    checked.Subscript: _accessed,
    checked.Call: _call,
    checked.Operator: _operator,
    checked.Convert: lambda f, form, moved: stays(f, form.operand, moved),
}

# --- Functions ----------------------------------------------------------------------------------------


def is_memory_free(f: Frame, reference: DeclRef) -> bool:
    """Whether a function neither reads nor writes memory, prints nor reports, nor what it calls."""
    known = f.lowering.memory_free
    if reference.key not in known:
        known[reference.key] = True  # a recursive call adds nothing
        known[reference.key] = _is_memory_free(f, reference)
    return known[reference.key]


def _is_memory_free(f: Frame, reference: DeclRef) -> bool:
    declared = reference.declaration
    info: checked.FunctionInfo = f.program.info(declared)
    if info.intrinsic is not None:
        name = info.intrinsic.partition(".")[0]
        return name not in EFFECTS and (name not in PRIMITIVES or PRIMITIVES[name].effect == PURE)
    if declared.body is None:
        return False
    f.program.check_body(declared)
    nodes = (node for node in walk(declared.body) if isinstance(node, ast.Expression))
    return all(_touches_nothing(f, node, reference.substitution) for node in nodes)


def _touches_nothing(f: Frame, node: ast.Expression, seen: Substitution) -> bool:
    form = node.ref
    if node.conversion is not None and not _keeps(f, node.conversion, seen):
        return False
    if isinstance(form, (checked.Dereference, checked.AddressOf, checked.FunctionValue)):
        return False
    if isinstance(form, checked.Element):
        return not _is_pointer(form.base)
    if isinstance(form, checked.Global):
        return not _is_written(f, form, seen)
    if isinstance(form, checked.Call):
        function = form.function
        return isinstance(function, DeclRef) and is_memory_free(f, f.program.resolve(function, seen))
    if isinstance(form, (checked.Property, checked.Subscript)):
        return _accessors_are_memory_free(f, f.program.resolve(form.reference, seen))
    if isinstance(form, checked.Update) and form.function is not None:
        return is_memory_free(f, f.program.resolve(form.function, seen))
    return True


def _accessors_are_memory_free(f: Frame, reference: DeclRef) -> bool:
    accessors = getattr(reference.declaration, "accessors", ())
    return all(is_memory_free(f, DeclRef(each, reference.substitution)) for each in accessors)


def _is_written(f: Frame, form: checked.Global, seen: Substitution) -> bool:
    """Whether it is a variable that a kernel can change."""
    declared = f.program.resolve(form.reference, seen).declaration
    lasting = declared.has("static") or declared.has("groupshared")
    return lasting and bool(f.program.info(declared).mutable)


def _is_pointer(base: checked.Base) -> bool:
    return not isinstance(base, checked.ThisValue) and isinstance(value_type(base), Pointer)
