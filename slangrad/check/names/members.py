"""`base.name` of a value: fields, swizzles, properties, methods; and the meaning of a found declaration.

In: a checked base of type `float4` and "zx".   Out: a ValueMeaning; the node's form is Swizzle ((2,), (0,)).

A pointer is followed by itself: `p.x` is `p->x`. So is a handle of a resource, but for the handle's own members.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.base.source import Span
from slangrad.base.suggestions import near
from slangrad.check.generics.substitution import substitute, substitute_value
from slangrad.check.interfaces.handles import handled, resource_of_handle
from slangrad.check.interfaces.lookup import LookupResult, member_names, members
from slangrad.check.interfaces.witnesses import associated, member_type
from slangrad.check.model import checked
from slangrad.check.model.checked import Base, Conversion
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import (
    FAILED,
    Candidate,
    ErrorMeaning,
    GenericMeaning,
    Meaning,
    OverloadMeaning,
    TypeMeaning,
    ValueMeaning,
)
from slangrad.check.model.types import (
    ERROR,
    VOID,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    as_written,
    element_of,
    expanded_type,
    is_pack,
    nominal,
    parameter_type,
    tuple_of,
    unstored,
    vector,
)
from slangrad.check.model.values import parameter_value
from slangrad.check.names.places import require_readable, value_type
from slangrad.check.names.scopes import Scope, enclosing_member_scope, levels
from slangrad.check.names.unsupported import is_unblended, refused_member
from slangrad.syntax import ast

CALLABLE = (ast.FunctionDeclaration, ast.Constructor)


def set_slots(node: ast.Expression, kind: Type, form: checked.Form) -> ValueMeaning:
    """Write the type and form of an expression."""
    node.type, node.ref = kind, form
    return ValueMeaning(kind)


def fail(node: ast.Expression) -> Meaning:
    """The expression is wrong, which is already reported."""
    node.type = ERROR
    return FAILED


def refuse(
    scope: Scope, node: ast.Expression, code: str, message: str, span: Span, note: str | None = None
) -> Meaning:
    """The expression is wrong, which is reported here."""
    scope.checker.error(code, message, span, note)
    return fail(node)


def value_member(scope: Scope, node: ast.Member, base: ast.Expression) -> Meaning:
    """The meaning of `base.name`; `base` is a checked value."""
    base_type = value_type(base)
    own = handled(scope.checker, base_type) and members(scope.checker, base_type, node.name)
    kind = base_type if own else follow(scope.checker, base)
    if kind is ERROR:
        return fail(node)
    if node.separator == "->" and not isinstance(base_type, PointerType):
        return refuse(
            scope,
            node,
            "E0304",
            f"'->' follows a pointer, and this is a '{base_type}'",
            base.span,
            "write '.'",
        )
    shaped = _BUILTIN_MEMBERS.get(type(kind))
    form = shaped(node.name, kind, base) if shaped is not None else None
    if form is not None:
        return set_slots(node, *form)
    results = members(scope.checker, kind, node.name)
    if not results or is_unblended(kind, node.name):
        return report_no_member(scope, node, kind)
    return member_meaning(scope, node, results, base)


def follow(checker: Checker, base: ast.Expression) -> Type:
    """The type whose members are meant: behind a pointer its element, behind a handle its resource."""
    kind = value_type(base)
    if base.conversion is not None:
        return kind
    if isinstance(kind, PointerType):
        base.conversion = Conversion("dereference", unstored(kind.element))
        return unstored(kind.element)
    base.conversion = resource_of_handle(checker, kind)
    return kind if base.conversion is None else base.conversion.target


def report_no_member(scope: Scope, node: ast.Member, kind: Type) -> Meaning:
    refusal = refused_member(kind, node.name)
    if refusal is not None:
        message = f"'{node.name}' of '{kind}' is not supported"
        scope.refuse(refusal.code, message, node.name_span, refusal.note)
        return fail(node)
    note = near(node.name, sorted(member_names(scope.checker, kind)))
    if isinstance(kind, (VectorType, MatrixType)):
        note = f"'{node.name}' is no swizzle of a '{kind}'"
    return refuse(
        scope, node, "E0304", f"'{as_written(kind)}' has no member '{node.name}'", node.name_span, note
    )


def name_span(node: ast.Expression) -> Span:
    """The place of the name in an expression."""
    return node.name_span if isinstance(node, ast.Member) else node.span


def member_meaning(
    scope: Scope,
    node: ast.Expression,
    results: list[LookupResult],
    base: Base | None,
    by_type: bool = False,
    discriminator: Base | None = None,
) -> Meaning:
    """The meaning of members of one name: the first one, or all of them when they are functions."""
    first = results[0]
    visible = [result for result in results if is_visible(scope, result.declaration)]
    if not visible:
        owner = first.declaration.parent.name
        return refuse(
            scope, node, "E0306", f"'{first.declaration.name}' is private to '{owner}'", name_span(node)
        )
    if isinstance(visible[0].declaration, CALLABLE):
        candidates = []
        for member in visible:
            if isinstance(member.declaration, CALLABLE):
                this = base_object(scope, node, base, member.path)
                candidate = Candidate(
                    member.declaration, member.substitution, this, by_type, discriminator=discriminator
                )
                candidates.append(candidate)
        return OverloadMeaning(first.declaration.name, candidates)
    meaning = declared_meaning(scope, node, visible[0], base_object(scope, node, base, visible[0].path))
    if isinstance(meaning, TypeMeaning):
        meaning.discriminator = discriminator or base
    elif isinstance(node.ref, checked.Constant):
        node.ref.discriminator = discriminator or base
    return meaning


def base_object(
    scope: Scope, node: ast.Expression, base: Base | None, path: tuple[DeclRef, ...]
) -> Base | None:
    """The part of an object that its struct has inherited."""
    for reference in path if base is not None else ():
        assert base is not None
        part = ast.Missing(name_span(node))
        part.type = substitute(
            scope.checker, scope.checker.info(reference.declaration).type, reference.substitution
        )
        part.ref, base = checked.Field(base, reference), part
    return base


def is_visible(scope: Scope, declaration: ast.Declaration) -> bool:
    """Private members are visible inside their type and its extensions."""
    if not declaration.has("private"):
        return True
    owner = _extended(scope.checker, declaration.parent)
    return any(_extended(scope.checker, level.owner) is owner for level in levels(scope))


def _extended(checker: Checker, owner: ast.Declaration | None) -> ast.Declaration | None:
    """The struct that an extension extends; other declarations themselves."""
    target = checker.extension_targets.get(owner) if isinstance(owner, ast.Extension) else None
    return target.declaration if isinstance(target, StructType) else owner


# --- Meanings of declarations -------------------------------------------------------------------------


def declared_meaning(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    """The meaning of anything but functions."""
    rule = _DECLARED.get(type(member.declaration))
    if rule is None:
        return refuse(scope, node, "E0302", f"'{member.declaration.name}' is no value", name_span(node))
    meaning = rule(scope, node, member, base)
    if is_wrong(meaning):
        scope.mention(node, member.declaration)
    return meaning


def is_wrong(meaning: Meaning) -> bool:
    """Whether it has no type, for the sake of an error or a refusal."""
    if isinstance(meaning, (TypeMeaning, ValueMeaning)):
        return meaning.type is ERROR
    return isinstance(meaning, ErrorMeaning)


def _variable(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    checker, declaration = scope.checker, member.declaration
    info = checker.info(declaration)
    kind = substitute(checker, info.type, member.substitution)
    if info.kind != "local" and ("info", declaration) in checker.in_progress:
        return refuse(
            scope, node, "E0321", f"the value of '{declaration.name}' depends on itself", name_span(node)
        )
    if kind is VOID:
        note = "its initializer has no result"
        return refuse(scope, node, "E0322", f"'{declaration.name}' holds no value", name_span(node), note)
    if info.constant is not None:
        return set_slots(
            node, kind, checked.Constant(substitute_value(checker, info.constant, member.substitution))
        )
    if info.kind == "local":
        note_capture(scope, declaration)
        return set_slots(node, kind, checked.Local(declaration))
    if info.kind != "field":
        return set_slots(node, kind, checked.Global(member.reference))
    if base is None:
        return _report_no_object(scope, node, declaration.name)
    return set_slots(node, kind, checked.Field(base, member.reference))


def _report_no_object(scope: Scope, node: ast.Expression, name: str) -> Meaning:
    return refuse(
        scope, node, "E0307", f"'{name}' is a member of an object, and there is none here", name_span(node)
    )


def _parameter(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    info = scope.checker.info(member.declaration)
    kind = info.type
    if info.generic_value is not None:
        return set_slots(node, kind, checked.Constant(parameter_value(info.generic_value)))
    if is_pack(kind) and scope.body is not None and is_lambda(scope.body.declaration):
        note = "pass what is needed as a tuple: makeTuple(expand each x)"
        return refuse(scope, node, "E0409", "a lambda cannot capture a pack", name_span(node), note)
    note_capture(scope, member.declaration)
    return set_slots(node, kind, checked.Local(member.declaration))


def note_capture(scope: Scope, declaration: ast.Variable | ast.ParameterDeclaration) -> None:
    """A lambda that uses a variable from around it captures it."""
    body = scope.body
    while body is not None and is_lambda(body.declaration):
        if _declared_in(declaration, body.declaration):
            return
        if declaration not in body.info.captures:
            body.info.captures.append(declaration)
        body = body.outer


def _declared_in(declaration: ast.Declaration, function: ast.AnyFunction) -> bool:
    parent = declaration.parent
    while parent is not None and parent is not function:
        parent = parent.parent
    return parent is function


def _property(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    info = scope.checker.info(member.declaration)
    if info.this_type is not None and base is None:
        return _report_no_object(scope, node, member.declaration.name)
    if base is not None:
        require_readable(scope, member.declaration, base, name_span(node))
    kind = substitute(scope.checker, info.result, member.substitution)
    return set_slots(node, kind, checked.PropertyAccess(base, member.reference))


def _enum_case(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    info = scope.checker.info(member.declaration)
    return set_slots(node, info.type, checked.Constant(info.value))


def _nominal(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    declaration = member.declaration
    if declaration.generics:
        return GenericMeaning(declaration, member.substitution)
    if isinstance(declaration, ast.StructDeclaration) and declaration.alias is not None:
        return TypeMeaning(scope.checker.resolve_type(scope.checker.scope_of(declaration), declaration.alias))
    return TypeMeaning(member_type(scope.checker, member))


def _associated(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    interface = member.declaration.parent
    if not isinstance(interface, ast.Interface):
        return refuse(
            scope,
            node,
            "E0305",
            "'associatedtype' has a meaning only inside of an interface",
            name_span(node),
        )
    this = member.substitution.get(interface, parameter_type(interface))
    assert isinstance(this, Type)
    arguments = tuple(member.substitution[parameter] for parameter in interface.generics)
    return TypeMeaning(associated(scope.checker, this, nominal(interface, arguments), member.declaration))


def _value_parameter(scope: Scope, node: ast.Expression, member: LookupResult, base: Base | None) -> Meaning:
    kind = scope.checker.info(member.declaration).type
    if member.declaration.is_pack:
        kind = expanded_type(kind, (member.declaration,))
    return set_slots(node, kind, checked.Constant(parameter_value(member.declaration)))


DeclaredRule = Callable[[Scope, ast.Expression, LookupResult, Base | None], Meaning]

_DECLARED: dict[type[ast.Declaration], DeclaredRule] = {
    ast.Variable: _variable,
    ast.ParameterDeclaration: _parameter,
    ast.Property: _property,
    ast.EnumCase: _enum_case,
    ast.StructDeclaration: _nominal,
    ast.EnumDeclaration: _nominal,
    ast.Interface: _nominal,
    ast.TypeAlias: _nominal,
    ast.AssociatedType: _associated,
    ast.TypeParameter: lambda scope, node, member, *about: TypeMeaning(parameter_type(member.declaration)),
    ast.ValueParameter: _value_parameter,
}


def this_value(scope: Scope, span: Span) -> checked.ThisValue | None:
    """The object that a member without an object belongs to; None in static functions and outside of
    types.
    """
    if scope.without_this:
        return None
    body = scope.body
    while body is not None and is_lambda(body.declaration):
        body = body.outer
    if scope.body is None:
        around = enclosing_member_scope(scope)
        return None if around is None else checked.ThisValue(around.this)
    if body is None or body.info.this_type is None:
        return None
    if body is scope.body:
        return checked.ThisValue(body.info.this_type)
    if body.captured is None:
        body.captured = ast.ParameterDeclaration(span, "this", span, "in", None, None, [])
        body.captured.parent = body.declaration
        body.captured.checked = checked.ParameterInfo(body.info.this_type, "in")
    note_capture(scope, body.captured)
    return checked.ThisValue(body.info.this_type, body.captured)


def is_lambda(declaration: ast.Declaration) -> bool:
    return isinstance(declaration, ast.FunctionDeclaration) and not declaration.name


# --- Members of builtin types -------------------------------------------------------------------------

_SETS = ("xyzw", "rgba")
_MATRIX_PARTS = re.compile(r"(?:_m[0-3][0-3]){1,4}|(?:_[1-4][1-4]){1,4}")
BuiltinForm = tuple[Type, checked.Form]


def _vector_member(name: str, kind: VectorType | ScalarType, base: Base) -> BuiltinForm | None:
    count = kind.count if isinstance(kind, VectorType) else 1
    components = swizzle_components(name, count if isinstance(count, int) else 4)
    return None if components is None else _swizzle(element_of(kind), components, base)


def _swizzle(element: Type, components: tuple[tuple[int, ...], ...], base: Base) -> BuiltinForm:
    kind = element if len(components) == 1 else vector(element, len(components))
    return kind, checked.Swizzle(base, components)


def swizzle_components(name: str, size: int) -> tuple[tuple[int, ...], ...] | None:
    """`xzy` as indices, None when it is no swizzle of so many components."""
    if not 1 <= len(name) <= 4:
        return None
    for letters in _SETS:
        if all(letter in letters[:size] for letter in name):
            return tuple((letters.index(letter),) for letter in name)
    return None


def _matrix_member(name: str, kind: MatrixType, base: Base) -> BuiltinForm | None:
    if not _MATRIX_PARTS.fullmatch(name):
        return None
    first = 0 if name.startswith("_m") else 1
    digits = [int(digit) - first for digit in re.findall(r"\d", name)]
    components = tuple(zip(digits[::2], digits[1::2]))
    for extent, axis in ((kind.rows, 0), (kind.columns, 1)):
        if isinstance(extent, int) and any(component[axis] >= extent for component in components):
            return None
    return _swizzle(kind.element, components, base)


def _tuple_member(name: str, kind: Tuple, base: Base) -> BuiltinForm | None:
    """`._1`, and the tuple of several elements: `._1_0`. Elements behind an open pack have no numbers."""
    if not re.fullmatch(r"(_\d{1,3})+", name):
        return None
    picks = [int(word) for word in name[1:].split("_")]
    if max(picks) >= len(kind.elements) or any(map(is_pack, kind.elements[: max(picks) + 1])):
        return None
    chosen = tuple(kind.elements[pick] for pick in picks)
    if len(picks) == 1:
        return chosen[0], checked.TupleElement(base, picks[0])
    return tuple_of(chosen), checked.Swizzle(base, tuple((pick,) for pick in picks))


_BUILTIN_MEMBERS: dict[type[Type], Callable[[str, OfClass, Base], BuiltinForm | None]] = {
    VectorType: _vector_member,
    ScalarType: _vector_member,
    MatrixType: _matrix_member,
    Tuple: _tuple_member,
}
