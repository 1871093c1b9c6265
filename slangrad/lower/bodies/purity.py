"""Whether an expression gives the same value each time, as the bound of a counted loop must.

n - 1, size.x, this.count, tensor.shape[0], max(a, b)     yes, while nothing assigns to n, size, this, ...
buffer[i], p.count behind a pointer, next(inout state)    no: memory may change, or the call changes a variable

It is lowered aside, and its ops decide. Called functions are analyzed as well, so `for (int i = 0; i <
list.getCount(); i++)` has a constant bound.
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.model.types import PointerType
from slangrad.check.names.places import value_type
from slangrad.ir.ops.core import Op, Region, Value, walk
from slangrad.ir.ops.effects import is_pure
from slangrad.ir.ops.primitives import CONTROL, PRIMITIVES, PURE
from slangrad.lower.model.flow import Key, declaration_of
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk as walk_tree

EFFECTS = (
    "atomic",
    "load",
    "plain_texels",
    "print",
)  # intrinsics that touch memory, besides those marked in the table


def stays(f: Frame, node: ast.Expression, moved: set[Key]) -> bool:
    """Whether the value of an expression stays the same while only `moved` is assigned."""
    before = f.variables
    unknown = {key: Value(v.type) for key, v in before.items() if declaration_of(key) in moved}
    f.variables = {**before, **unknown}
    aside = f.arm(lambda: (f.value(node),))
    changes, f.variables = aside.changes(f.variables), before
    ops = list(walk(Region((), aside.builder.ops, ())))
    used = {*aside.values, *(v for op in ops for v in op.operands)}
    used.update(v for op in ops for region in op.regions for v in region.yields)
    return not changes and used.isdisjoint(unknown.values()) and all(_computes(f, op) for op in ops)


def _computes(f: Frame, op: Op) -> bool:
    """Whether an op is a function of its operands, without effects."""
    if op.name == "call":
        reference, _ = f.lowering.asked_by.get(op.attributes["callee"], (None, None))
        return reference is not None and is_memory_free(f, reference)
    return op.name in CONTROL or is_pure(op)


def _keeps(f: Frame, conversion: checked.Conversion, seen: Substitution) -> bool:
    if conversion.function is not None:
        return is_memory_free(f, f.program.resolve(conversion.function, seen))
    return conversion.kind not in ("dereference", "stated")


# --- Functions ----------------------------------------------------------------------------------------


def is_memory_free(f: Frame, reference: DeclRef) -> bool:
    """Whether neither a function nor its callees read or write memory, print or report."""
    answers = f.lowering.memory_free
    if reference.key not in answers:
        answers[reference.key] = True  # a recursive call adds nothing
        answers[reference.key] = _is_memory_free(f, reference)
    return answers[reference.key]


def _is_memory_free(f: Frame, reference: DeclRef) -> bool:
    declared = reference.declaration
    info: checked.FunctionInfo = f.program.info(declared)
    if info.intrinsic is not None:
        name = info.intrinsic.partition(".")[0]
        return name not in EFFECTS and (name not in PRIMITIVES or PRIMITIVES[name].effect == PURE)
    if declared.body is None:
        return False
    f.program.check_body(declared)
    nodes = (node for node in walk_tree(declared.body) if isinstance(node, ast.Expression))
    return all(_touches_nothing(f, node, reference.substitution) for node in nodes)


def _touches_nothing(f: Frame, node: ast.Expression, seen: Substitution) -> bool:
    form = node.ref
    if node.conversion is not None and not _keeps(f, node.conversion, seen):
        return False
    if isinstance(form, (checked.Dereference, checked.AddressOf)):
        return False
    if isinstance(form, checked.Element):
        return not _is_pointer(form.base)
    if isinstance(form, checked.Global):
        return not _is_written(f, form, seen)
    if isinstance(form, checked.FunctionCall):
        function = form.function
        return isinstance(function, DeclRef) and is_memory_free(f, f.program.resolve(function, seen))
    if isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)):
        return _accessors_are_memory_free(f, f.program.resolve(form.reference, seen))
    if isinstance(form, checked.Update) and form.function is not None:
        return is_memory_free(f, f.program.resolve(form.function, seen))
    return True


def _accessors_are_memory_free(f: Frame, reference: DeclRef) -> bool:
    accessors = getattr(reference.declaration, "accessors", ())
    return all(is_memory_free(f, DeclRef(accessor, reference.substitution)) for accessor in accessors)


def _is_written(f: Frame, form: checked.Global, seen: Substitution) -> bool:
    """Whether it is a variable that a kernel can change."""
    declared = f.program.resolve(form.reference, seen).declaration
    lasting = declared.has("static") or declared.has("groupshared")
    return lasting and bool(f.program.info(declared).mutable)


def _is_pointer(base: checked.Base) -> bool:
    return not isinstance(base, checked.ThisValue) and isinstance(value_type(base), PointerType)
