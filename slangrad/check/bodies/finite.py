"""Structs that contain themselves, which have no size.

    struct S { S next; }              struct L<T> { Pair<L<Pair<T>>> next; }

Found before all other checks: a walk over fields would never end if each field had a larger type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slangrad.base.diagnostics import CompileError
from slangrad.check.interfaces.differentiable import field_references, field_type
from slangrad.check.interfaces.lookup import nested
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import ArrayType, StructType, Tuple, Type
from slangrad.check.names.scopes import this_type
from slangrad.syntax import ast

MOST = 1000  # types to visit; endless types are found at their declarations


def require_finite(checker: Checker, members: Iterable[ast.Declaration]) -> None:
    """Raise CompileError if a struct among declarations, or in them, contains itself."""
    structs = [
        declaration for declaration in nested(members) if isinstance(declaration, ast.StructDeclaration)
    ]
    finite: set[Type] = set()
    infinite = {struct: _infinite_field(checker, struct, finite) for struct in _parts_first(checker, structs)}
    for node in structs:
        reference = infinite[node]
        if reference is not None:
            message = f"'{node.name}' contains itself through '{reference.declaration.name}'"
            place = reference.declaration if node.generics else node
            checker.error("E0325", message, place.name_span, "hold its index in a buffer")
    if any(infinite.values()):
        raise CompileError(checker.reporter.diagnostics)


def _parts_first(checker: Checker, structs: list[ast.StructDeclaration]) -> Iterable[ast.StructDeclaration]:
    """Structs, each after the structs in its fields, as far as possible."""
    wanted, entered = set(structs), set[ast.StructDeclaration]()
    for outermost in structs:
        stack = [outermost]
        while stack:
            node = stack[-1]
            if node in entered:
                stack.pop()
                if node in wanted:
                    wanted.discard(node)
                    yield node
                continue
            entered.add(node)
            held = _parts(checker, this_type(checker, node))
            inside = [kind.declaration for kind in held if isinstance(kind, StructType)]
            stack += [kind for kind in inside if kind in wanted and kind not in entered]


def _infinite_field(checker: Checker, node: ast.StructDeclaration, finite: set[Type]) -> DeclRef | None:
    """The field through which a struct contains itself. `finite`: structs without parameters whose parts were all
    visited. None of them contains itself, so a search can stop there."""
    kind = this_type(checker, node)
    is_looked_through = not kind.abstract
    for reference in field_references(kind) if isinstance(kind, StructType) else ():
        is_inside = _holds(checker, field_type(checker, reference), node, finite)
        if is_inside:
            return reference
        is_looked_through &= is_inside is not None
    if is_looked_through:
        finite.add(kind)
    return None


def _holds(checker: Checker, kind: Type, node: ast.StructDeclaration, finite: set[Type]) -> bool | None:
    """Whether a value of a type contains one of the struct; None after a limit of steps."""
    seen, pending = {kind}, deque([kind])
    while pending and len(seen) < MOST:
        inner = pending.popleft()
        if isinstance(inner, StructType) and inner.declaration is node:
            return True
        if inner in finite:
            continue
        new = [part for part in _parts(checker, inner) if part not in seen]
        seen.update(new)
        pending += new
    return None if pending else False


def _parts(checker: Checker, kind: Type) -> Iterable[Type]:
    if isinstance(kind, ArrayType):
        return (kind.element,)
    if isinstance(kind, Tuple):
        return kind.elements
    references = field_references(kind) if isinstance(kind, StructType) else ()
    return [field_type(checker, reference) for reference in references]
