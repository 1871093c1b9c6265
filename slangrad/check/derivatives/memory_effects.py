"""Where derivatives end: functions that store numbers in memory, types that lead there, numbers seen as bits.

In: a function that is called with arguments that have a derivative.   Out: whether it or its callees store numbers
in memory.

    void put(float x) { total[0] = x; }        stores: later loads from `total` are constants
    void show(float x) { printf("%g", x); }    does not

Only the standard library and modules whose bodies are checked are analyzed; branches and values are ignored.
"""

from __future__ import annotations

from slangrad.check.derivatives.custom_derivatives import derivatives
from slangrad.check.generics.substitution import substitute
from slangrad.check.interfaces.differentiable import (
    field_references,
    field_type,
    has_no_diff,
    pointer_tangent,
    tangent,
)
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import (
    ArrayType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
)
from slangrad.check.names.places import accessor, referred, steps, value_type
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def holds_numbers(checker: Checker, kind: Type) -> bool:
    """Whether there are floating-point numbers in a type, not behind pointers."""
    if tangent(checker, kind) is not None:
        return True
    if isinstance(kind, ArrayType):
        return holds_numbers(checker, kind.element)
    if isinstance(kind, Tuple):
        return any(holds_numbers(checker, element) for element in kind.elements)
    if not isinstance(kind, StructType):
        return False
    fields = (field for field in field_references(kind) if not has_no_diff(field.declaration))
    return any(holds_numbers(checker, field_type(checker, field)) for field in fields)


def is_whole(kind: Type | None) -> bool:
    """Integers, and vectors and matrices of them."""
    element = kind.element if isinstance(kind, (VectorType, MatrixType)) else kind
    return isinstance(element, ScalarType) and element.is_integer


def sees_bits(checker: Checker, function: DeclRef) -> bool:
    """Whether a function of the library gives the bits of a number as another one."""
    declaration = function.declaration
    exact = any(declaration.attribute(name) is not None for name in ("exact_bits", "gives_bits"))
    return _is_standard(declaration) and (
        exact or getattr(checker.info(declaration), "intrinsic", None) == "bitcast"
    )


def leads_to_memory(checker: Checker, kind: Type | None) -> bool:
    """Pointers, types of pointers that carry derivatives, buffers of the library."""
    if kind is None or isinstance(kind, PointerType):
        return kind is not None
    if pointer_tangent(checker, kind) is not None:
        return True
    return (
        isinstance(kind, StructType) and _is_standard(kind.declaration) and not holds_numbers(checker, kind)
    )


def is_in_memory(checker: Checker, place: checked.Base) -> bool:
    """Whether a place outlasts the call of a function; the argument of a `ref` parameter is unknown."""
    for _, form in steps(place):
        if isinstance(form, (checked.Global, checked.Dereference)):
            return True
        base = form.base if isinstance(form, _PARTS) else None
        if base is not None and (
            leads_to_memory(checker, value_type(base)) or _refers_to_memory(checker, form)
        ):
            return True
    return False


def _refers_to_memory(checker: Checker, form: checked.Form | None) -> bool:
    """A property or subscript whose `ref` accessor returns a place in memory."""
    if not isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)):
        return False
    declaration = form.reference.declaration
    if isinstance(declaration, ast.Variable) or _is_standard(declaration):
        return False
    return any(is_in_memory(checker, place) for place in referred(checker, declaration))


_PARTS = (
    checked.Field,
    checked.Element,
    checked.Swizzle,
    checked.TupleElement,
    checked.PropertyAccess,
    checked.SubscriptAccess,
)


def stores_numbers(checker: Checker, function: DeclRef, seen: set[ast.Declaration] | None = None) -> bool:
    """Whether a function or its callees store numbers in memory."""
    seen = set() if seen is None else seen
    declaration = function.declaration
    info = checker.info(declaration)
    if declaration in seen or not isinstance(info, checked.FunctionInfo):
        return False
    seen.add(declaration)
    if info.intrinsic is not None:
        return info.intrinsic.partition(".")[0] in ("atomic", "store")
    if declaration.body is None:
        return False
    if _is_standard(declaration):
        checker.check_synthesized(declaration)
    nodes = (node for node in walk(declaration.body) if isinstance(node, ast.Expression))
    return any(_stores(checker, node.ref, seen) for node in nodes)


def _stores(checker: Checker, form: checked.Form | None, seen: set[ast.Declaration]) -> bool:
    if isinstance(form, (checked.Assignment, checked.Update)):
        if not _is_number(checker, value_type(form.place)):
            return False
        setter = _setter(form.place)
        return is_in_memory(checker, form.place) or any(
            stores_numbers(checker, reference, seen) for reference in setter
        )
    if not isinstance(form, checked.FunctionCall) or not isinstance(form.function, DeclRef):
        return False
    arguments = [argument for argument in form.arguments if isinstance(argument, ast.Expression)]
    primitive = getattr(checker.info(form.function.declaration), "intrinsic", None) is not None
    if primitive and not any(_is_number(checker, value_type(argument)) for argument in arguments):
        return False
    return stores_numbers(checker, form.function, seen)


def _is_number(checker: Checker, kind: Type | None) -> bool:
    return kind is not None and (kind.abstract or holds_numbers(checker, kind))


def _setter(place: ast.Expression) -> list[DeclRef]:
    """The accessor through which a place is written, if one is."""
    form = place.ref
    if not isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)):
        return []
    setter = accessor(form.reference.declaration, "set")
    return [] if setter is None else [DeclRef(setter, form.reference.substitution)]


def _is_standard(declaration: ast.Declaration) -> bool:
    return declaration.span.source.is_library


def reads_gradients(checker: Checker, function: DeclRef | checked.Derivative) -> bool:
    """Whether a result has a derivative although no argument has one: it goes to memory, as that of a tensor's
    `load` does."""
    if isinstance(function, checked.Derivative):
        return False

    def carries(kind: Type | None) -> bool:
        seen: object = None if kind is None else substitute(checker, kind, function.substitution)
        kinds = seen if isinstance(seen, tuple) else (seen,)  # several of a pack
        return any(part is not None and tangent(checker, part) is not None for part in kinds)

    info = checker.info(function.declaration)
    no_diff_this = no_diff_result = False
    if isinstance(info, checked.FunctionInfo):
        no_diff_this, no_diff_result = info.no_diff_this, info.no_diff_result
        has_object = info.this_type is not None or derivatives(checker, function).backward is not None
        if not has_object and _is_standard(function.declaration):
            return False
    parameter_infos = [checker.info(parameter) for parameter in info.parameters]
    passed = any(
        not parameter_info.no_diff and carries(parameter_info.type) for parameter_info in parameter_infos
    )
    if passed or (carries(info.this_type) and not no_diff_this):
        return False
    return not no_diff_result and carries(info.result)
