"""Whether an expression can be assigned.

In: a checked expression.   Out: None when it is a place, else the reason why not, as a part of a sentence.

Only `let`, `const`, read-only accessors, captured variables and temporaries are no places: an `in` parameter is a
local copy. All memory behind a pointer is a place. A `ref` accessor must return a place that outlasts it: a part of
`this`, but not of a local variable (`Body.refers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slangrad.base.records import OfClass
from slangrad.base.source import Span
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import PointerType, Type
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

BLOCKS = ("ConstantBuffer", "ParameterBlock")


def value_type(node: checked.Base) -> Type:
    """The type of an expression or of `this`, after its conversion."""
    conversion = node.conversion if isinstance(node, ast.Expression) else None
    kind: Type = node.type if conversion is None else conversion.target
    return kind


def steps(place: checked.Base) -> Iterator[tuple[checked.Base, checked.Form | None]]:
    """A place, the place around it, and so on to a variable or a pointer; with their forms."""
    step: checked.Base | None = place
    while step is not None:
        form = step if isinstance(step, checked.ThisValue) else step.ref
        yield step, form
        step = step.inner if isinstance(step, ast.Paren) else getattr(form, "base", None)


def accessor(declaration: ast.Declaration, *names: str) -> ast.Accessor | None:
    """The first accessor that a property or subscript has of these names."""
    by_name = {declared.name: declared for declared in getattr(declaration, "accessors", ())}
    return next((by_name[name] for name in names if name in by_name), None)


def not_a_place(scope: Scope, node: checked.Base) -> str | None:
    """Why a value cannot be stored here."""
    if isinstance(node, checked.ThisValue):
        return _this(scope)
    if node.conversion is not None:
        return None if node.conversion.kind == "dereference" else "it would be a converted copy"
    if isinstance(node, ast.Paren):
        return not_a_place(scope, node.inner)
    if isinstance(node, (ast.Missing, ast.NoDiff)) and node.ref is None:
        return None if isinstance(node, ast.Missing) else not_a_place(scope, node.operand)
    if isinstance(node.ref, checked.Constant) and isinstance(node, (ast.Name, ast.Member)):
        return f"'{node.name}' is a constant"
    rule = _RULES.get(type(node.ref))
    return "it is a value, not a variable" if rule is None else rule(scope, node.ref)


def _this(scope: Scope) -> str | None:
    body = scope.body
    if body is None or isinstance(body.declaration, ast.Constructor) or body.info.mutating:
        return None
    function = body.declaration
    if body.refers and not any(
        marked and marked.is_marked("nonmutating") for marked in (function, function.parent)
    ):
        return None
    if isinstance(body.declaration, ast.FunctionDeclaration) and not body.declaration.name:
        return "'this' is captured by a lambda, which sees a copy"
    return "'this' is read-only in a method that is not [mutating]"


def _local(scope: Scope, form: checked.Local) -> str | None:
    declaration = form.declaration
    if scope.body is not None:
        scope.body.assigned.add(declaration)
    if scope.body is not None and scope.body.refers:
        return f"'{declaration.name}' ends with the accessor"
    if scope.body is not None and declaration in scope.body.info.captures:
        return f"'{declaration.name}' is captured by a lambda, which sees a copy"
    if isinstance(declaration, ast.ParameterDeclaration):
        block = block_name(declaration.value_type)
        if block is not None:
            return f"the parameter '{declaration.name}' is a {block}, which is read-only"
        constant = declaration.direction == "constref" or declaration.has("const")
        return f"the parameter '{declaration.name}' is read-only" if constant else None
    if scope.checker.info(declaration).mutable:
        return None
    return f"'{declaration.name}' is a constant"


def block_name(written: ast.Expression | None) -> str | None:
    """The name of the block that a type is written as: "ParameterBlock" of `ParameterBlock<T>[2]`."""
    while isinstance(written, (ast.ArrayTypeExpression, ast.ModifiedType, ast.Index)):
        written = written.base if isinstance(written, ast.Index) else written.element
    base = written.base if isinstance(written, ast.GenericApplication) else None
    return base.name if isinstance(base, ast.Name) and base.name in BLOCKS else None


def _global(scope: Scope, form: checked.Global) -> str | None:
    declaration = form.reference.declaration
    if not scope.checker.info(declaration).mutable:
        return f"'{declaration.name}' is a constant"
    if declaration.has("static") or declaration.has("groupshared"):
        return None
    return f"'{declaration.name}' is a parameter of the program, which a kernel cannot change"


def _field(scope: Scope, form: checked.Field) -> str | None:
    info = scope.checker.info(form.reference.declaration)
    if not info.mutable and not _constructing(scope, form):
        return f"'{form.reference.declaration.name}' is a constant"
    return not_a_place(scope, form.base)


def _constructing(scope: Scope, form: checked.Field) -> bool:
    is_this = isinstance(form.base, (checked.ThisValue, ast.This))
    return is_this and scope.body is not None and isinstance(scope.body.declaration, ast.Constructor)


def _swizzle(scope: Scope, form: checked.Swizzle) -> str | None:
    if len(set(form.components)) < len(form.components):
        return "a component occurs twice"
    return not_a_place(scope, form.base)


def _accessed(scope: Scope, form: checked.PropertyAccess | checked.SubscriptAccess) -> str | None:
    declaration = form.reference.declaration
    if isinstance(declaration, ast.Variable):
        return None if form.base is None else not_a_place(scope, form.base)
    setter = next(
        (candidate for candidate in declaration.accessors if candidate.name in ("set", "ref")), None
    )
    if setter is None:
        subject = "the subscript" if isinstance(declaration, ast.Subscript) else f"'{declaration.name}'"
        return f"{subject} has no setter"
    if form.base is None or setter.is_marked("nonmutating") or declaration.is_marked("nonmutating"):
        return None
    return not_a_place(scope, form.base)


def require_readable(
    scope: Scope, declaration: ast.Subscript | ast.Property, base: checked.Base, span: Span | None
) -> None:
    """Report where reading changes an object that cannot change."""
    reader = accessor(declaration, "get", "ref")
    if reader is None or not scope.checker.info(reader).mutating:
        return
    reason = not_a_place(scope, base)
    if reason is not None:
        subject = "the subscript" if isinstance(declaration, ast.Subscript) else f"'{declaration.name}'"
        message = f"reading {subject} changes its object, which is not possible here: {reason}"
        scope.checker.error("E0315", message, span)


def gives_address(accessor: ast.Declaration) -> bool:
    """Whether a `ref` accessor returns the address of a place, as some of the library do, and not the place itself."""
    return accessor.attribute("gives_address") is not None


def is_referring(accessor: ast.Accessor) -> bool:
    """Whether an accessor returns a place: `ref`, and `__atomic`, which only atomic operations use."""
    return accessor.name in ("ref", "__atomic") and not gives_address(accessor)


def referred(checker: Checker, declaration: ast.Subscript | ast.Property) -> list[ast.Expression]:
    """The places that the `ref` accessor of a declaration may return, if it has one that returns places."""
    places: list[ast.Expression] = []
    for getter in declaration.accessors:
        if getter.name == "ref" and getter.body is not None and not gives_address(getter):
            checker.check_synthesized(getter)
            places += [
                node.value for node in walk(getter.body) if isinstance(node, ast.Return) and node.value
            ]
    return places


_RULES: dict[type[checked.Form], Callable[[Scope, OfClass], str | None]] = {
    checked.ThisValue: lambda scope, form: _this(scope),
    checked.Local: _local,
    checked.Global: _global,
    checked.Field: _field,
    checked.TupleElement: lambda scope, form: not_a_place(scope, form.base),
    checked.PackElement: lambda scope, form: not_a_place(scope, form.base),
    checked.PartOfPack: lambda scope, form: not_a_place(scope, form.base),
    checked.Expansion: lambda scope, form: not_a_place(scope, form.pattern),
    checked.Element: lambda scope, form: (
        None if isinstance(value_type(form.base), PointerType) else not_a_place(scope, form.base)
    ),
    checked.Swizzle: _swizzle,
    checked.PropertyAccess: _accessed,
    checked.SubscriptAccess: _accessed,
    checked.Dereference: lambda scope, form: None,
}
