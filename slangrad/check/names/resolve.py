"""The meaning of an expression: a value, a type, a namespace, functions.

In: a scope and a node.   Out: a Meaning; for a value the node's slots are filled.

    Name             innermost scope first; functions of all scopes are candidates together
    Member           of a namespace, a type or a value
    GenericApplication, ThisType, and the parser's nodes in type position

All other nodes are values, which `Checker.check_value` checks.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.page_words import is_page_word
from slangrad.base.records import OfClass
from slangrad.check.generics.bounds import interfaces_in
from slangrad.check.interfaces.lookup import LookupResult, declared, library_type, members
from slangrad.check.model import checked
from slangrad.check.model.builtin_types import builtin_type
from slangrad.check.model.meanings import (
    FAILED,
    Candidate,
    ErrorMeaning,
    GenericMeaning,
    Meaning,
    NamespaceMeaning,
    OverloadMeaning,
    PackMeaning,
    TypeMeaning,
    ValueMeaning,
)
from slangrad.check.model.packs import spliced
from slangrad.check.model.types import (
    ERROR,
    ORDERS,
    FunctionParameter,
    GenericArgument,
    InterfaceType,
    Stored,
    Type,
    array_of,
    conjunction,
    function_type,
    pointer,
    stored,
    tuple_of,
    unstored,
)
from slangrad.check.names.constants import known_value
from slangrad.check.names.generic_arguments import BUILTIN_GENERICS, apply_arguments
from slangrad.check.names.members import (
    CALLABLE,
    base_object,
    declared_meaning,
    fail,
    is_wrong,
    member_meaning,
    refuse,
    report_no_member,
    set_slots,
    this_value,
    value_member,
)
from slangrad.check.names.memory_rules import as_usual, order_of
from slangrad.check.names.places import value_type
from slangrad.check.names.scopes import (
    ModuleScope,
    Scope,
    enclosing_member_scope,
    levels,
    suggestion,
)
from slangrad.check.names.unsupported import refused_name
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import modifiers_of

Rule = Callable[[Scope, OfClass], Meaning]

ACCESSORS = ("get", "set", "ref")


def refer(scope: Scope, node: ast.Expression) -> Meaning:
    """The meaning of an expression; a type is that of values."""
    meaning = refer_stored(scope, node)
    if isinstance(meaning, TypeMeaning) and isinstance(meaning.type, Stored):
        return TypeMeaning(meaning.type.element)
    return meaning


def refer_whole(scope: Scope, node: ast.Expression) -> Meaning:
    """The same for a type in memory, with the default arguments of a generic type."""
    meaning = refer_stored(scope, node)
    return apply_arguments(scope, node, meaning) if isinstance(meaning, GenericMeaning) else meaning


def refer_stored(scope: Scope, node: ast.Expression) -> Meaning:
    """The same for a type in memory, which may have rules for that."""
    rule = RULES.get(type(node))
    if rule is None:
        return ValueMeaning(scope.checker.check_value(scope, node))
    meaning = rule(scope, node)
    if is_wrong(meaning):
        scope.mention(node)
    return meaning


# --- Names --------------------------------------------------------------------------------------------


def _name(scope: Scope, node: ast.Name) -> Meaning:
    start = (
        next(around for around in levels(scope) if isinstance(around, ModuleScope))
        if node.from_root
        else scope
    )
    candidates: list[Candidate] = []
    for distance, level in enumerate(levels(start)):
        results = _meant(level, node, level.local(node.name))
        functions = [result for result in results if isinstance(result.declaration, CALLABLE)]
        if functions:
            candidates += _candidates(scope, node, functions, distance)
        elif results and not candidates:
            return _meaning_of(scope, node, results)
    if candidates:
        return OverloadMeaning(node.name, candidates)
    return _otherwise(scope, node)


def _meant(level: Scope, node: ast.Name, results: list[LookupResult]) -> list[LookupResult]:
    """On the page of a call, a word of the page hides the program's, which is written after `::`."""
    if not isinstance(level, ModuleScope) or not level.is_page or not is_page_word(node.name):
        return results
    sources = [result.declaration.span.source for result in results]
    of_program = [not source.is_library and not source.is_page for source in sources]
    return [result for result, is_of_program in zip(results, of_program) if is_of_program == node.from_root]


def _candidates(scope: Scope, node: ast.Name, results: list[LookupResult], distance: int) -> list[Candidate]:
    this = this_value(scope, node.span) if any(_has_object(result) for result in results) else None
    return [
        Candidate(
            result.declaration,
            result.substitution,
            base_object(scope, node, this, result.path) if result.is_member else None,
            distance=distance,
        )
        for result in results
    ]


def _meaning_of(scope: Scope, node: ast.Name, results: list[LookupResult]) -> Meaning:
    spaces = [result.declaration for result in results if isinstance(result.declaration, ast.Namespace)]
    if spaces:
        return NamespaceMeaning(spaces)
    first = results[-1 if isinstance(results[0].declaration, (ast.Variable, ast.ParameterDeclaration)) else 0]
    of_object = isinstance(first.declaration, (ast.Variable, ast.Property)) and _has_object(first)
    base = this_value(scope, node.span) if of_object else None
    if first.is_member:
        return member_meaning(scope, node, [first], base)
    return declared_meaning(scope, node, first, base)


def _has_object(result: LookupResult) -> bool:
    return result.is_member and not result.declaration.has("static")


def _otherwise(scope: Scope, node: ast.Name) -> Meaning:
    """Builtin types, enum cases without their enum, or nothing."""
    builtin = builtin_type(node.name)
    if builtin is not None:
        return TypeMeaning(builtin)
    if node.name in BUILTIN_GENERICS:
        return GenericMeaning(None, {}, node.name)
    for level in levels(scope):
        cases = level.enum_cases(node.name) if isinstance(level, ModuleScope) else []
        if cases:
            return _meaning_of(scope, node, cases)
    refusal = refused_name(node.name)
    if refusal is not None:
        scope.refuse(refusal.code, f"'{node.name}' is not supported", node.span, refusal.note)
    else:
        note = suggestion(scope, node.name)
        scope.checker.error("E0301", f"'{node.name}' is not declared", node.span, note)
    return fail(node)


# --- Members ------------------------------------------------------------------------------------------


def _member(scope: Scope, node: ast.Member) -> Meaning:
    accessors = _accessors(scope, node)
    if accessors:
        return OverloadMeaning(node.span.text, accessors)
    base = refer(scope, node.base)
    if isinstance(base, ErrorMeaning):
        return fail(node)
    if isinstance(base, NamespaceMeaning):
        return _namespace_member(scope, node, base)
    if isinstance(base, GenericMeaning):
        base = apply_arguments(scope, node.base, base)
    if isinstance(base, TypeMeaning):
        mark_type(node.base, base.type)
        return type_member(scope, node, base.type, base.discriminator)
    if isinstance(base, OverloadMeaning):
        if node.name in DERIVATIVES:
            return refer(scope, ast.Differentiate(node.span, node.name, node.base))
        return refuse(
            scope, node, "E0302", f"'{base.name}' is a function, which has no members", node.base.span
        )
    return fail(node) if isinstance(base, ErrorMeaning) else value_member(scope, node, node.base)


DERIVATIVES = ("fwd_diff", "bwd_diff")  # members of functions: `f.fwd_diff(x)` is `fwd_diff(f)(x)`


def _accessors(scope: Scope, node: ast.Member) -> list[Candidate]:
    """`Type.property.get`, `Type.__subscript.set`: accessors, named to be differentiated."""
    owner = node.base
    if node.name not in ACCESSORS or not isinstance(owner, ast.Member):
        return []
    if not isinstance(owner.base, (ast.Name, ast.Member, ast.GenericApplication, ast.ThisType)):
        return []
    with scope.checker.silence():
        base = refer(scope, owner.base)
    if not isinstance(base, TypeMeaning):
        return []
    return [
        Candidate(accessor, member.substitution, None, True)
        for member in members(scope.checker, base.type, owner.name)
        if isinstance(member.declaration, (ast.Subscript, ast.Property))
        and not member.declaration.has("static")
        for accessor in member.declaration.accessors
        if accessor.name == node.name
    ]


def use(scope: Scope, node: ast.Using) -> None:
    """`using a.b;`: the names of a namespace are visible in the scope."""
    meaning = refer(scope, node.target)
    if isinstance(meaning, NamespaceMeaning):
        scope.usings.append(meaning.declarations)
    elif not isinstance(meaning, ErrorMeaning):
        scope.checker.error("E0302", f"'{node.target.span.text}' is no namespace", node.target.span)


def _namespace_member(scope: Scope, node: ast.Member, base: NamespaceMeaning) -> Meaning:
    results = [
        LookupResult(result, {})
        for space in base.declarations
        for result in (
            space.local(node.name) if isinstance(space, Scope) else declared(scope.checker, space, node.name)
        )
    ]
    if not results:
        for space in base.declarations:
            inside = space if isinstance(space, Scope) else scope.checker.scope_of(space)
            results += inside.used(node.name)
    functions = [result for result in results if isinstance(result.declaration, CALLABLE)]
    if functions:
        return OverloadMeaning(node.name, [Candidate(function.declaration, {}) for function in functions])
    if results and isinstance(results[0].declaration, ast.Namespace):
        return NamespaceMeaning(
            [result.declaration for result in results if isinstance(result.declaration, ast.Namespace)]
        )
    if results:
        return declared_meaning(scope, node, results[0], None)
    namespace = base.declarations[0].name
    return refuse(
        scope, node, "E0304", f"namespace '{namespace}' has no member '{node.name}'", node.name_span
    )


def type_member(
    scope: Scope, node: ast.Member, kind: Type, discriminator: checked.Base | None = None
) -> Meaning:
    """`Type.name`: static members, nested types, methods to be called or differentiated."""
    if kind is ERROR:
        return fail(node)
    results = members(scope.checker, kind, node.name)
    if not results:
        if node.name == "Differential":
            message = f"'{kind}' has no derivative, so it has no 'Differential'"
            return refuse(scope, node, "E0501", message, node.name_span, "let it conform to IDifferentiable")
        return report_no_member(scope, node, kind)
    return member_meaning(scope, node, results, None, by_type=True, discriminator=discriminator)


# --- Types --------------------------------------------------------------------------------------------


def mark_type(node: ast.Expression, kind: Type) -> Type:
    """Write down that an expression names a type."""
    node.type, node.ref = unstored(kind), checked.TypeName(kind)
    return kind


def resolve_type(scope: Scope, node: ast.Expression) -> Type:
    """The type that an expression names; ERROR after reporting that it names none."""
    return unstored(resolve_stored(scope, node))


def resolve_stored(scope: Scope, node: ast.Expression) -> Type:
    """The same with the rules for memory that are said there."""
    if isinstance(node.ref, checked.TypeName):
        return node.ref.named
    meaning = refer_whole(scope, node)
    if isinstance(meaning, TypeMeaning):
        return mark_type(node, meaning.type)
    if not isinstance(meaning, ErrorMeaning):
        scope.checker.error("E0303", f"'{node.span.text}' is no type", node.span)
    node.type = ERROR
    return ERROR


def resolve_types(scope: Scope, nodes: list[ast.Expression]) -> tuple[Type, ...]:
    """The types that a list names, where an `expand` may name several."""
    types: list[Type] = []
    for node in nodes:
        meaning = refer(scope, node) if isinstance(node, ast.Expand) else None
        types += meaning.types if isinstance(meaning, PackMeaning) else (resolve_type(scope, node),)
    return tuple(types)


def unfold(nodes: list[ast.Expression]) -> None:
    """In a checked list, put the pieces of each `expand` into its place."""
    nodes[:] = [
        piece
        for node in nodes
        for piece in (node.ref.pieces if isinstance(node.ref, checked.Pieces) else (node,))
    ]


def _generic(scope: Scope, node: ast.GenericApplication) -> Meaning:
    base = refer(scope, node.base)
    if not isinstance(base, (GenericMeaning, OverloadMeaning)):
        if not isinstance(base, ErrorMeaning):
            scope.checker.error("E0401", f"'{node.base.span.text}' is not generic", node.span)
        return fail(node)
    named = [_generic_argument(scope, argument) for argument in node.arguments]
    resolved = [argument for argument in named if argument is not None]
    arguments = spliced(resolved)
    if len(resolved) < len(named) or ERROR in arguments:
        return FAILED if isinstance(base, GenericMeaning) else fail(node)
    if isinstance(base, GenericMeaning):
        return apply_arguments(scope, node, base, arguments)
    for candidate in base.candidates:
        candidate.explicit = arguments
    return base


def _generic_argument(scope: Scope, node: ast.Expression) -> GenericArgument | None:
    """A type or a value in angle brackets, a tuple for several; None after an error."""
    meaning = _value_written_as_type(scope, node) or refer_whole(scope, node)
    if isinstance(meaning, TypeMeaning):
        return mark_type(node, meaning.type)
    if isinstance(meaning, PackMeaning):
        return meaning.types
    if isinstance(node.ref, checked.Pieces):
        values = [known_value(scope, piece) for piece in node.ref.pieces]
        numbers = tuple(value for value in values if value is not None)
        return numbers if len(numbers) == len(values) else None
    if isinstance(meaning, ValueMeaning):
        return known_value(scope, node)
    if isinstance(meaning, (OverloadMeaning, NamespaceMeaning)):
        scope.checker.error("E0402", f"'{node.span.text}' is neither a type nor a value", node.span)
    return None


def _value_written_as_type(scope: Scope, node: ast.Expression) -> Meaning | None:
    """`f<A & B>` and `f<a[3]>` are parsed as types, but A and a may be values."""
    if not isinstance(node, (ast.ConjunctionExpression, ast.ArrayTypeExpression)):
        return None
    first = node.left if isinstance(node, ast.ConjunctionExpression) else node.element
    with scope.checker.silence():
        if not isinstance(refer(scope, first), ValueMeaning):
            return None
    value: ast.Expression
    if isinstance(node, ast.ConjunctionExpression):
        value = ast.Binary(node.span, "&", node.left, node.right)
    else:
        value = ast.Index(node.span, node.element, [] if node.count is None else [node.count])
    scope.checker.check_value(scope, value)
    node.type, node.ref = value.type, value.ref
    return ValueMeaning(value.type)


def _this_type(scope: Scope, node: ast.ThisType) -> Meaning:
    around = enclosing_member_scope(scope)
    if around is None:
        return refuse(scope, node, "E0305", "'This' has a meaning only inside of a type", node.span)
    return TypeMeaning(around.this)


def _paren(scope: Scope, node: ast.Paren) -> Meaning:
    meaning = refer_stored(scope, node.inner)
    if isinstance(meaning, ValueMeaning):
        node.type = value_type(node.inner)
        return ValueMeaning(node.type)
    return meaning


def _array_type(scope: Scope, node: ast.ArrayTypeExpression) -> Meaning:
    element = resolve_stored(scope, node.element)
    if element is ERROR:
        return FAILED
    if node.count is None:
        return TypeMeaning(array_of(element, None))
    count = scope.checker.constant(scope, node.count)
    if count is None:
        return FAILED
    if isinstance(count, int) and count < 0:
        scope.checker.error("E0309", f"an array cannot have {count} elements", node.count.span)
        return FAILED
    return TypeMeaning(array_of(element, count))


def _pointer_type(scope: Scope, node: ast.PointerTypeExpression) -> Meaning:
    element = resolve_stored(scope, node.element)
    return FAILED if element is ERROR else TypeMeaning(pointer(as_usual(scope.checker, node, element)))


def _optional_type(scope: Scope, node: ast.OptionalTypeExpression) -> Meaning:
    element = resolve_type(scope, node.element)
    return FAILED if element is ERROR else TypeMeaning(library_type(scope.checker, "Optional", element))


def _conjunction(scope: Scope, node: ast.ConjunctionExpression) -> Meaning:
    parts: list[InterfaceType] = []
    for side in (node.left, node.right):
        kind = resolve_type(scope, side)
        if not interfaces_in(kind):
            if kind is not ERROR:
                message = f"'&' joins interfaces only, and '{kind}' is none"
                note = "Slang has no references: a parameter that is changed is 'inout float x'"
                scope.checker.error("E0410", message, side.span, note)
            return FAILED
        parts += interfaces_in(kind)
    return TypeMeaning(conjunction(tuple(parts)))


def _tuple_type(scope: Scope, node: ast.TupleExpression) -> Meaning:
    first = refer(scope, node.elements[0]) if node.elements else None
    if not isinstance(first, ValueMeaning):
        return TypeMeaning(tuple_of(resolve_types(scope, node.elements)))
    for following in node.elements[1:]:
        scope.checker.check_argument(scope, following)
    unfold(node.elements)
    if any(isinstance(element, ast.InitializerList) for element in node.elements):
        return refuse(
            scope, node, "E0312", "an initializer list needs a type here", node.span, "write T{...}"
        )
    kinds = tuple(value_type(element) for element in node.elements)
    if ERROR in kinds:
        return fail(node)
    return set_slots(node, tuple_of(kinds), checked.Construct(tuple_of(kinds), tuple(node.elements)))


def _function_type(scope: Scope, node: ast.FunctionTypeExpression) -> Meaning:
    parameters = []
    for parameter in node.parameters:
        directions = [word for word in modifiers_of(parameter) if word in ("out", "inout", "ref", "constref")]
        kind = resolve_type(scope, parameter)
        parameters.append(FunctionParameter(kind, directions[-1] if directions else "in"))
    return TypeMeaning(function_type(tuple(parameters), resolve_type(scope, node.result)))


def _modified_type(scope: Scope, node: ast.ModifiedType) -> Meaning:
    """`const T`, `no_diff T`: the modifier is read elsewhere, the type is that of T. `unorm` states the format of a
    texture, which the texture has itself."""
    if node.modifier == "unsigned":
        return _unsigned(scope, node)
    if node.modifier in ORDERS:
        element = resolve_stored(scope, node.element)
        return (
            FAILED
            if element is ERROR
            else TypeMeaning(stored(element, order_of(scope.checker, node.modifier)))
        )
    return refer_stored(scope, node.element)


_UNSIGNED = {"int": "uint", "int8_t": "uint8_t", "int16_t": "uint16_t", "int64_t": "uint64_t", "uint": "uint"}


def _unsigned(scope: Scope, node: ast.ModifiedType) -> Meaning:
    kind = resolve_type(scope, node.element)
    name = _UNSIGNED.get(str(kind))
    unsigned = builtin_type(name) if name is not None else None
    if unsigned is not None:
        return TypeMeaning(unsigned)
    if kind is not ERROR:
        scope.checker.error("E0303", f"'unsigned {kind}' is no type", node.span)
    return FAILED


RULES: dict[type[ast.Expression], Rule] = {
    ast.Name: _name,
    ast.Member: _member,
    ast.GenericApplication: _generic,
    ast.ThisType: _this_type,
    ast.Paren: _paren,
    ast.ArrayTypeExpression: _array_type,
    ast.PointerTypeExpression: _pointer_type,
    ast.OptionalTypeExpression: _optional_type,
    ast.ConjunctionExpression: _conjunction,
    ast.TupleExpression: _tuple_type,
    ast.FunctionTypeExpression: _function_type,
    ast.ModifiedType: _modified_type,
    ast.Missing: lambda scope, node: fail(node),
}
