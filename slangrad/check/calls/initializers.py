"""Initializer lists and their missing parts.

In: `{1, v.xy, {0}}` and the type of its place.   Out: a Coercion that writes a Construct into the list.

A struct calls a constructor if it has any. Else each element is converted to a part: `{1, 2}` for two `float2`
splats both, as `{1}` for a `float2` does. Where that does not fit, and in arrays, inner braces can be left out, as
in C: `float2 a[2] = {1, 2, 3}` is (1, 2), (3, 0). A missing part has its default or is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from slangrad.base.records import OfClass
from slangrad.check.calls.candidates import Match
from slangrad.check.calls.coerce import commit, mismatch, plan, stripped
from slangrad.check.calls.convert import CONSTRUCTOR, common_type, convert
from slangrad.check.calls.overload import choose, commit_match, evaluate
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.substitution import identity, nominal_parameters
from slangrad.check.interfaces.differentiable import field_declarations, field_references, field_type
from slangrad.check.interfaces.lookup import BASE, all_members, concrete_members, member_candidates
from slangrad.check.model import checked
from slangrad.check.model.checked import Construct, Conversion, Part, Zero
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.meanings import Candidate, Coercion
from slangrad.check.model.types import (
    ERROR,
    ArrayType,
    MatrixType,
    ParameterType,
    Projection,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    array,
    is_pack,
    nominal,
    vector,
)
from slangrad.check.model.values import Value
from slangrad.check.names.members import is_visible
from slangrad.check.names.places import value_type
from slangrad.check.names.resolve import unfold
from slangrad.check.names.scopes import Scope
from slangrad.check.names.struct_fields import is_word
from slangrad.syntax import ast


@dataclass(slots=True)
class PlannedPart:
    """A planned part of an aggregate."""

    cost: int
    build: Callable[[], Part]
    type: Type


@dataclass(slots=True)
class Reader:
    """The elements of a list, taken one after the other; remembers why it stopped."""

    nodes: list[ast.Expression]
    position: int = 0
    failure: tuple[ast.Expression, Type] | None = field(default=None)
    settled: bool = False  # inner lists do not fit, where they would be without inner braces, too
    filling: list[StructType] = field(default_factory=list)  # structs that an element may begin

    @property
    def left(self) -> int:
        return len(self.nodes) - self.position

    def next(self) -> ast.Expression:
        self.position += 1
        return self.nodes[self.position - 1]


def check_elements(scope: Scope, node: ast.InitializerList) -> None:
    """Check the elements of a list, inner lists included; inner lists get their type from their place."""
    for element in node.elements:
        scope.checker.check_argument(scope, element)
    unfold(node.elements)


def plan_list(scope: Scope, node: ast.InitializerList, target: Type) -> Coercion | None:
    """How the list becomes a value of `target`."""
    if isinstance(target, StructType):
        candidates = constructors(scope, target)
        if candidates and (node.elements or _takes_nothing(scope, candidates)):
            return _plan_constructor_call(scope, node, target, candidates)
    reader = Reader(node.elements)
    piece = _convert_each(scope, reader, target)
    if piece is None and not reader.settled:
        piece = _fill(scope, reader, target)
    if piece is None or reader.left:
        return None

    def apply() -> None:
        node.type, node.ref = piece.type, piece.build()

    return Coercion(piece.type, piece.cost, apply=apply)


def constructors(scope: Scope, target: Type) -> list[Candidate]:
    """The `__init`s of a type that are visible here."""
    candidates = member_candidates(scope.checker, target, "__init", ast.Constructor)
    return [candidate for candidate in candidates if is_visible(scope, candidate.declaration)]


def _takes_nothing(scope: Scope, candidates: list[Candidate]) -> bool:
    return any(isinstance(evaluate(scope, candidate, []), Match) for candidate in candidates)


def _plan_constructor_call(
    scope: Scope, node: ast.InitializerList, target: StructType, candidates: list[Candidate]
) -> Coercion | None:
    with scope.checker.silence():
        match = choose(scope, node.span, str(target), candidates, node.elements)
    if match is None:
        return None

    def apply() -> None:
        assert isinstance(match.target, DeclRef)
        node.type, node.ref = target, checked.FunctionCall(match.target, None, commit_match(scope, match))

    return Coercion(target, match.cost, apply=apply)


# --- One element for each part ------------------------------------------------------------------------


def _convert_each(scope: Scope, reader: Reader, target: Type) -> PlannedPart | None:
    """Each element converted to the type of its part, as constructors do; None where that does not fit."""
    kinds = _parts(scope, reader.nodes, target)
    if kinds is None or not reader.nodes or len(reader.nodes) > len(kinds):
        return None
    lists = [isinstance(stripped(element), ast.InitializerList) for element in reader.nodes]
    plain = (element for element in zip(reader.nodes, kinds, lists) if not element[2])
    if any(plan(scope, node, kind) is None for node, kind, _ in plain):
        return None  # before inner lists, which would be counted twice
    coercions = [plan(scope, element, kind) for element, kind in zip(reader.nodes, kinds)]
    pieces = [
        PlannedPart(coercion.cost, partial(_committed, scope, node, coercion), kind)
        for node, coercion, kind in zip(reader.nodes, coercions, kinds)
        if coercion is not None
    ]
    if len(pieces) < len(coercions):
        reader.settled = isinstance(target, StructType) and all(
            is_list or not _is_spread(node, kind) for node, kind, is_list in zip(reader.nodes, kinds, lists)
        )
        return None
    reader.position = len(reader.nodes)
    return (
        _built(scope, target, iter(pieces)) if isinstance(target, StructType) else _construct(target, pieces)
    )


def _built(scope: Scope, target: StructType, pieces: Iterator[PlannedPart]) -> PlannedPart:
    """A struct of pieces for its fields, those of structs that it inherits from first."""
    parts = []
    for reference in field_references(target):
        kind = field_type(scope.checker, reference)
        if isinstance(kind, StructType) and _is_opened(scope, reference, kind):
            parts.append(_built(scope, kind, pieces))
        else:
            parts.append(next(pieces, None) or left_out(scope, reference, kind))
    return _construct(target, parts)


def _own_parts(scope: Scope, target: StructType) -> list[Type] | None:
    """The types of the fields; None where some cannot be given."""
    types: list[Type] = []
    for reference in field_references(target):
        kind = field_type(scope.checker, reference)
        if is_word(reference.declaration) or not is_visible(scope, reference.declaration):
            return None
        parts: list[Type] | None = [kind]
        if isinstance(kind, StructType) and _is_opened(scope, reference, kind):
            parts = _own_parts(scope, kind)
        if parts is None:
            return None
        types += parts
    return types


def _is_opened(scope: Scope, reference: DeclRef, kind: StructType) -> bool:
    """Whether a field's own fields are listed: those of a struct that is inherited from and has no constructors."""
    return reference.declaration.name == BASE and not constructors(scope, kind)


def _parts(scope: Scope, nodes: list[ast.Expression], target: Type) -> list[Type] | None:
    """The parameter types of a constructor with so many elements."""
    if isinstance(target, StructType):
        return _own_parts(scope, target)
    if isinstance(target, Tuple):
        return None if any(map(is_pack, target.elements)) else list(target.elements)
    if isinstance(target, VectorType) and target.count == 4 and len(nodes) == 2:
        return [vector(target.element, 2)] * 2 if any(map(_is_vector, nodes)) else None
    if isinstance(target, MatrixType) and target.rows == len(nodes):
        return [vector(target.element, target.columns)] * len(nodes)
    return [target] if isinstance(target, (VectorType, MatrixType)) and len(nodes) == 1 else None


def _is_vector(node: ast.Expression) -> bool:
    return not isinstance(stripped(node), ast.InitializerList) and isinstance(value_type(node), VectorType)


# --- Filling aggregates -------------------------------------------------------------------------------


def _fill(scope: Scope, reader: Reader, target: Type) -> PlannedPart | None:
    rule = _FILLS.get(type(target))
    if rule is not None:
        return rule(scope, reader, target)
    if reader.left == 0:
        return PlannedPart(0, lambda: Construct(target, ()), target)
    return _only_element(scope, reader, target)


def _only_element(scope: Scope, reader: Reader, target: Type) -> PlannedPart | None:
    """`float x = {1}`, and a list for a type parameter."""
    piece = _take(scope, reader, target)
    if piece is None:
        return None
    return PlannedPart(piece.cost, lambda: Construct(target, (piece.build(),)), target)


def _take(scope: Scope, reader: Reader, target: Type) -> PlannedPart | None:
    """The next element as a `target`, or several of them as its parts."""
    node = reader.nodes[reader.position]
    if not _is_spread(node, target):
        coercion = plan(scope, node, target)
        if coercion is not None:
            reader.next()
            return PlannedPart(coercion.cost, lambda: _committed(scope, node, coercion), target)
    inner = stripped(node)
    if isinstance(inner, ast.InitializerList) or type(target) not in _FILLS or value_type(node) is ERROR:
        reader.failure = reader.failure or (node, target)
        return None
    refused = isinstance(target, StructType) and (target in reader.filling or constructors(scope, target))
    if refused:  # also one that would contain itself, which is an error elsewhere
        reader.failure = reader.failure or (node, target)
        return None
    return _fill(scope, reader, target)


def _committed(scope: Scope, node: ast.Expression, coercion: Coercion) -> ast.Expression:
    commit(scope, node, coercion)
    return node


def _is_spread(node: ast.Expression, target: Type) -> bool:
    """Whether scalars are listed one by one for a vector or matrix inside the list."""
    if isinstance(stripped(node), ast.InitializerList):
        return False
    source = value_type(node)
    is_scalar = isinstance(source, ScalarType) or source is getattr(target, "element", None)
    return is_scalar and (component_count(target) or 0) > 1


def component_count(kind: Type) -> int | None:
    """How many components a vector or matrix has, None when that is not known yet."""
    if isinstance(kind, VectorType) and isinstance(kind.count, int):
        return kind.count
    if isinstance(kind, MatrixType) and isinstance(kind.rows, int) and isinstance(kind.columns, int):
        return kind.rows * kind.columns
    return None


def _fill_struct(scope: Scope, reader: Reader, target: StructType) -> PlannedPart | None:
    reader.filling.append(target)
    pieces = _field_pieces(scope, reader, target)
    reader.filling.pop()
    return None if pieces is None else _construct(target, pieces)


def _field_pieces(scope: Scope, reader: Reader, target: StructType) -> list[PlannedPart] | None:
    pieces: list[PlannedPart] = []
    for reference in field_references(target):
        kind = field_type(scope.checker, reference)
        if reader.left == 0 or is_word(reference.declaration):
            pieces.append(left_out(scope, reference, kind))
            continue
        if not is_visible(scope, reference.declaration):
            return None
        piece = _take(scope, reader, kind)
        if piece is None:
            return None
        pieces.append(piece)
    return pieces


def left_out(scope: Scope, reference: DeclRef, kind: Type) -> PlannedPart:
    """A field that is not given."""
    if reference.declaration.initializer is not None:
        return PlannedPart(0, lambda: checked.FieldDefault(reference), kind)
    return PlannedPart(0, lambda: initial_value(scope, kind) or Zero(kind), kind)


def _construct(target: Type, pieces: list[PlannedPart]) -> PlannedPart:
    cost = sum(piece.cost for piece in pieces)
    return PlannedPart(cost, lambda: Construct(target, tuple(piece.build() for piece in pieces)), target)


def _fill_vector(scope: Scope, reader: Reader, target: VectorType) -> PlannedPart | None:
    if not isinstance(target.count, int):
        return _fill_elements(scope, reader, target, repeat(target.element))
    pieces: list[PlannedPart] = []
    have = 0
    while have < target.count and reader.left:
        piece = _take_components(scope, reader, target.element)
        if piece is None:
            return None
        pieces.append(piece)
        have += (
            piece.type.count
            if isinstance(piece.type, VectorType) and isinstance(piece.type.count, int)
            else 1
        )
    if have > target.count:
        reader.failure = (reader.nodes[reader.position - 1], target.element)
        return None
    return _construct(target, pieces)


def _take_components(scope: Scope, reader: Reader, element: Type) -> PlannedPart | None:
    """A scalar, or a vector that brings several components."""
    node = reader.nodes[reader.position]
    source = None if isinstance(stripped(node), ast.InitializerList) else value_type(node)
    kind = vector(element, source.count) if isinstance(source, VectorType) else element
    return _take(scope, reader, kind)


def _fill_matrix(scope: Scope, reader: Reader, target: MatrixType) -> PlannedPart | None:
    row = vector(target.element, target.columns)
    return _fill_elements(scope, reader, target, _repeated(row, target.rows))


def _fill_array(scope: Scope, reader: Reader, target: ArrayType) -> PlannedPart | None:
    if target.count is not None:
        return _fill_elements(scope, reader, target, _repeated(target.element, target.count))
    pieces = _take_all(scope, reader, repeat(target.element))
    return None if pieces is None else _construct(array(target.element, len(pieces)), pieces)


def _repeated(kind: Type, count: Value) -> Iterable[Type]:
    """Where the count is a generic parameter: as many as are given, the rest zero."""
    return repeat(kind, count) if isinstance(count, int) else repeat(kind)


def _fill_elements(scope: Scope, reader: Reader, target: Type, kinds: Iterable[Type]) -> PlannedPart | None:
    pieces = _take_all(scope, reader, kinds)
    return None if pieces is None else _construct(target, pieces)


def _fill_tuple(scope: Scope, reader: Reader, target: Tuple) -> PlannedPart | None:
    pieces = _take_all(scope, reader, target.elements)
    if pieces is None or (len(pieces) < len(target.elements) and any(map(is_pack, target.elements))):
        return None
    return _construct(target, pieces)


def _take_all(scope: Scope, reader: Reader, kinds: Iterable[Type]) -> list[PlannedPart] | None:
    """The next elements, each as a value of its type, as far as there are any."""
    pieces: list[PlannedPart] = []
    for kind in kinds:
        if not reader.left:
            break
        piece = _take(scope, reader, kind)
        if piece is None:
            return None
        pieces.append(piece)
    return pieces


_FILLS: dict[type[Type], Callable[[Scope, Reader, OfClass], PlannedPart | None]] = {
    StructType: _fill_struct,
    VectorType: _fill_vector,
    MatrixType: _fill_matrix,
    ArrayType: _fill_array,
    Tuple: _fill_tuple,
}

# --- Other questions ----------------------------------------------------------------------------------


def initial_value(scope: Scope, kind: Type) -> Construct | checked.FunctionCall | Zero | None:
    """The meaning of `T x;`: a constructor without parameters, fields with initializers, or zero."""
    if not isinstance(kind, (StructType, ParameterType, Projection)):
        return Zero(kind)
    for constructor in constructors(scope, kind):
        match = evaluate(scope, constructor, [])
        if isinstance(match, Match) and isinstance(match.target, DeclRef):
            return checked.FunctionCall(match.target, None, commit_match(scope, match))
    if not isinstance(kind, StructType) or not _has_defaults(scope, kind, set()):
        return Zero(kind)
    parts = []
    for reference in field_references(kind):
        parts.append(left_out(scope, reference, field_type(scope.checker, reference)).build())
    return Construct(kind, tuple(parts))


def _has_defaults(scope: Scope, kind: Type, seen: set[Type]) -> bool:
    """Whether the initial value of a type is not simply zero."""
    if not isinstance(kind, StructType) or kind in seen:
        return False
    seen.add(kind)
    for reference in field_references(kind):
        if reference.declaration.initializer is not None:
            return True
        if _has_defaults(scope, field_type(scope.checker, reference), seen):
            return True
    results = concrete_members(scope.checker, kind, "__init")
    return any(
        not member.declaration.parameters
        for member in results
        if isinstance(member.declaration, ast.Constructor)
    )


def explain_list(scope: Scope, node: ast.InitializerList, target: Type) -> None:
    """Report why a list does not fit."""
    if isinstance(target, StructType) and constructors(scope, target):
        choose(scope, node.span, f"{target}.__init", constructors(scope, target), node.elements)
        return
    reader = Reader(node.elements)
    piece = _fill(scope, reader, target)
    if reader.failure is not None:
        culprit, wanted = reader.failure
        inner = stripped(culprit)
        if isinstance(inner, ast.InitializerList) and inner is not node:
            explain_list(scope, inner, wanted)
            return
        if value_type(culprit) is not ERROR:
            scope.checker.error("E0312", mismatch(culprit, wanted, "this element"), culprit.span)
        return
    if piece is not None and reader.left:
        extra = reader.nodes[reader.position]
        message = f"too many elements for '{target}': {len(node.elements)}"
        scope.checker.error("E0312", message, extra.span)
        return
    fields = field_declarations(target.declaration) if isinstance(target, StructType) else []
    private = [reference.name for reference in fields if not is_visible(scope, reference)]
    note = f"'{private[0]}' is private" if private else None
    scope.checker.error("E0312", f"this list cannot become a '{target}'", node.span, note)


def plan_constructor(scope: Scope, node: ast.Expression, target: Type) -> Coercion | None:
    """An implicit conversion by an `__init` that is marked [__implicit_conversion]."""
    if not isinstance(target, StructType):
        return None
    with scope.checker.answering(("conversion", target)) as first:
        for constructor in constructors(scope, target) if first else ():
            if constructor.declaration.is_marked("__implicit_conversion"):
                match = evaluate(scope, constructor, [node])
                if isinstance(match, Match) and match.plans[0] is not None:
                    return _by_constructor(target, match, match.plans[0].cost + CONSTRUCTOR)
    return None


def plan_literal(scope: Scope, node: ast.Expression, kind: Type) -> Coercion | None:
    """A number as a value of a type parameter: builtin ones convert, others by their `__init(int)`."""
    coercion = convert(scope.checker, value_type(node), kind, explicit=True)
    if coercion is not None:
        return Coercion(kind, coercion.cost, coercion.conversion)
    candidates = constructors(scope, kind)
    with scope.checker.silence():
        match = choose(scope, node.span, "__init", candidates, [node]) if candidates else None
    return None if match is None else _by_constructor(kind, match, match.cost)


def _by_constructor(target: Type, match: Match, cost: int) -> Coercion:
    (inner,) = match.plans
    assert inner is not None and isinstance(match.target, DeclRef)
    return Coercion(target, cost, Conversion("call", target, match.target, inner.conversion))


def infer_struct(
    scope: Scope, node: ast.Call, declaration: ast.StructDeclaration, around: Bindings
) -> Type | None:
    """The type that `Foo(x)` makes of a generic struct: its arguments follow from those of the call."""
    checker = scope.checker
    if any(argument.type is None or isinstance(argument, ast.NamedArgument) for argument in node.arguments):
        return None
    written = [member for member in all_members(declaration) if isinstance(member, ast.Constructor)]
    shapes = [
        [checker.info(parameter).type for parameter in constructor.parameters] for constructor in written
    ]
    if not written:
        shapes = [[checker.info(declared).type for declared in field_declarations(declaration)]]
    for shape in shapes:
        solver = Solver(checker, declaration.generics, lambda left, right: common_type(checker, left, right))
        fits = len(shape) >= len(node.arguments) and all(
            solver.unify(wanted, value_type(other)) or not wanted.abstract
            for wanted, other in zip(shape, node.arguments)
        )
        if fits and all(parameter in solver.bindings for parameter in declaration.generics):
            seen = {**identity(declaration), **around, **solver.bindings}
            return nominal(
                declaration, tuple(seen[parameter] for parameter in nominal_parameters(declaration))
            )
    return None
