"""Activity of variables, on the AST: does a derivative get lost on its way through a function?

In: the checked body of a [Differentiable] function.   Out: an error for each call of a function, and for each value of
a type, that a derivative would have to pass and that has none.

A value is active when it depends on a differentiable parameter, or on memory with gradients. It is wanted when a result
depends on it. An error is a call with an active argument and a wanted result, or a store of an active value into a
place without a derivative. `no_diff` and `detach` declare the loss as intended. paths.py visits the statements in
their order. All branches count, whatever their conditions are, and a struct or an array is one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from slangrad.base.records import OfClass
from slangrad.check.derivatives.custom_derivatives import derivatives
from slangrad.check.derivatives.flow import (
    DETACHED,
    MEMORY,
    THIS,
    Address,
    Flow,
    Lost,
    Node,
    Returned,
    Sources,
    Supposed,
    check_instances,
    is_variable,
    marked,
    pointer_of,
    reach,
    reading,
    root_of,
    stored_by,
    turned,
    with_derivatives,
)
from slangrad.check.derivatives.memory_effects import (
    holds_numbers,
    is_in_memory,
    is_whole,
    leads_to_memory,
    reads_gradients,
    sees_bits,
)
from slangrad.check.derivatives.paths import follow
from slangrad.check.derivatives.places import is_required, loses_derivative, loses_in_field, set_object
from slangrad.check.derivatives.versions import Version
from slangrad.check.generics.signatures import declared_parameters, function_name
from slangrad.check.interfaces.differentiable import field_references, field_type
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import LambdaType, PointerType, StructType, Type, is_dynamic
from slangrad.check.names.places import steps, value_type
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import children

Places = Sequence[checked.Base]


def check_activity(checker: Checker, declaration: ast.AnyFunction, supposed: Supposed | None = None) -> None:
    """Report the calls in a differentiable function that lose a derivative; `supposed` are the types of generic
    parameters in a call, which have derivatives."""
    info = checker.info(declaration)
    custom = derivatives(checker, DeclRef(declaration, {}))
    if info.level == "none" or custom.backward is not None or custom.forward is not None:
        return
    flow = _visit(checker, declaration, supposed or {})
    if not flow.lost and not flow.passing:
        return
    whole = {**flow.into, **flow.addresses()}
    backwards = turned(whole)
    active = reach(backwards, flow.inputs())
    # A result also depends on what a call without a derivative is passed: in `plain(plain(x))` the inner call loses it.
    wanted = reach(
        {**whole, **{lost: lost.inputs | whole.get(lost, set()) for lost in flow.lost}}, flow.outputs()
    )
    behind = reach(backwards, flow.pointers())
    reported: set[object] = set()
    calls: list[Lost] = []
    for lost in flow.lost:
        if lost.pointer is not None and flow.leads_to_variables(lost.pointer):
            continue
        if lost.stored_by is not None:
            calls += [lost] if lost.inputs & active else []
        elif (lost.stored or lost in wanted) and lost.inputs & (active | behind):
            place = lost.reason if lost.in_value else (lost.node, lost.reason)
            if place not in reported:
                lost.allowed |= not lost.inputs & active
                flow.report(declaration, lost)
            reported |= {lost.reason, place}
    if calls and not declaration.span.source.is_library:
        checker.later.append(partial(flow.report_stores, declaration, calls))
    check_instances(flow, active, check_activity)


def _visit(checker: Checker, declaration: ast.AnyFunction, supposed: Supposed) -> Flow:
    """The dependences in a body. Without the order of statements there are more of them, so the order matters only
    where a derivative may be lost. The first visit also finds the variables whose address is taken."""
    info = checker.info(declaration)
    assert declaration.body is not None
    flow = Flow(checker, info, supposed, has_order=False)
    follow(flow, declaration.body, partial(_sources, flow))
    if (flow.lost or flow.passing) and not flow.is_deferred:
        flow = Flow(checker, info, supposed, unordered=flow.addressed)
        follow(flow, declaration.body, partial(_sources, flow))
    return flow


# --- Expressions --------------------------------------------------------------------------------------


def _sources(flow: Flow, node: checked.Part | checked.Base | checked.Argument) -> Sources:
    """The sources of an expression's value, for derivatives."""
    if isinstance(node, checked.ThisValue):
        return {flow.read(THIS)}
    if not isinstance(node, ast.Expression) or isinstance(node, ast.NoDiff):
        return set()
    rule = _FORMS.get(type(node.ref))
    sources = rule(flow, node, node.ref) if rule is not None else _below(flow, node)
    kind, conversion = None if node.type is None else value_type(node), node.conversion
    if conversion is not None and conversion.kind in _OF_NUMBERS and not flow.carries(node.type):
        return set()  # a whole number as a float
    if not flow.carries(kind):
        return _lost_in(flow, node, kind, sources)
    if conversion is not None and conversion.function is not None:
        return _call(flow, node, conversion.function, sources)
    return sources


_OF_NUMBERS = ("numeric", "splat")


def _lost_in(flow: Flow, node: ast.Expression, kind: Type | None, sources: Sources) -> Sources:
    """The sources of a value of a type without a derivative: a loss, if it contains numbers."""
    if is_whole(kind):
        return {source for source in sources if _has_bits(flow, source)}
    if leads_to_memory(flow.checker, kind):
        return {source for source in sources if not isinstance(source, Lost)}
    inputs = with_derivatives(sources)
    if isinstance(kind, LambdaType):
        return inputs
    hidden = node.conversion is not None and node.conversion.kind == "interface" and flow.carries(node.type)
    if kind is not None and is_dynamic(kind) and not hidden:  # its losses are recorded
        return inputs
    if kind is None or not (hidden or holds_numbers(flow.checker, kind)):
        return set()
    calls = {source for source in sources if isinstance(source, Lost)} - inputs
    if not inputs:
        return calls
    note = (
        "let it conform to IDifferentiable, or put 'detach(...)' around what is stored in it if this is meant"
    )
    seen = all(isinstance(source, Lost) and source.bits for source in inputs)  # by its bits
    lost = Lost(f"'{kind}' has no derivative", note, node, inputs, in_value=True, allowed=hidden or seen)
    flow.lost.append(lost)
    flow.add({lost}, inputs)
    return {lost, *calls}


def _has_bits(flow: Flow, source: Node) -> bool:
    """Whether a source may be the bits of a number with a derivative: a variable is followed."""
    if isinstance(source, Version):
        source = source.variable
    if isinstance(source, (ast.Variable, ast.ParameterDeclaration)):
        return is_whole(flow.checker.info(source).type)
    return isinstance(source, Lost) and source.bits


def _below(flow: Flow, node: ast.SyntaxNode) -> Sources:
    """Any expression without a rule of its own: from everything below. A part that may not run leads to two paths."""
    sources: Sources = set()
    is_choice = isinstance(node, ast.Conditional) or (
        isinstance(node, ast.Binary) and node.operator in ("&&", "||")
    )
    for number, child in enumerate(children(node)):
        if isinstance(child, ast.Expression):
            skipped = flow.point.copy() if is_choice and number > 0 else None
            sources |= _sources(flow, child)
            if skipped is not None:
                flow.meet([skipped, flow.point])
    return sources


def _call(
    flow: Flow,
    node: ast.Expression,
    function: DeclRef | checked.Derivative,
    inputs: Sources,
    written: Places = (),
    plain: Places = (),
) -> Sources:
    """The sources of a call's result; it changes the variables `written`, and `plain` ones without a derivative."""
    if isinstance(function, checked.Derivative) or _passes(flow, function):
        if isinstance(function, DeclRef):
            flow.call(function, inputs)
        flow.store_behind(
            {source for source in inputs if isinstance(source, (Address, ast.Variable, Version))}, inputs
        )
        sources = inputs | ({MEMORY} if reads_gradients(flow.checker, function) else set())
    else:
        sources = _call_without_derivative(flow, node, function, inputs, bool(written))
        losses = [replace(source, allowed=True) for source in sources if isinstance(source, Lost) and plain]
        flow.lost += losses
        _change(flow, plain, set(losses))
    _change(flow, written, sources)
    return sources


def _change(flow: Flow, places: Places, sources: Sources) -> None:
    """New values of variables, or of parts of them."""
    for place in places:
        for variable in root_of(place):
            flow.store(variable, sources, is_whole=is_variable(place))


def _call_without_derivative(
    flow: Flow, node: ast.Expression, function: DeclRef, inputs: Sources, writes: bool
) -> Sources:
    kind = None if node.type is None else value_type(node)
    bits, is_number = sees_bits(flow.checker, function), flow.carries(kind)
    if flow.supposed and isinstance(function.declaration.parent, ast.Interface):
        return inputs  # its implementation may have a derivative
    if bits and is_number and all(_has_bits(flow, source) for source in inputs):
        return inputs  # the bits become a number again
    if kind is not None and leads_to_memory(flow.checker, kind):
        return inputs
    name = function_name(function.declaration)
    allowed = bits or not (writes or is_number)  # a value without a derivative is a constant
    note = DETACHED if bits else marked(name)
    lost = Lost(f"'{name}' is not differentiable", note, node, inputs, allowed=allowed, bits=bits)
    flow.lost += [lost, replace(stored_by(function, node, inputs), stored_by=function)]
    return {lost}


def _passes(flow: Flow, function: DeclRef) -> bool:
    return flow.checker.info(reading(function.declaration)).is_differentiable


@dataclass(slots=True)
class _Passed:
    """The object of a call, or an argument."""

    node: checked.Base
    sources: Sources
    is_changed: bool
    no_diff: bool


def _passed(flow: Flow, form: checked.FunctionCall) -> Iterator[_Passed]:
    function = form.function if isinstance(form.function, DeclRef) else None
    if function is not None and form.this is not None:
        info = flow.checker.info(function.declaration)
        if info.this_type is not None:
            changed = info.mutating and not isinstance(function.declaration, ast.Constructor)
            yield _Passed(form.this, _sources(flow, form.this), changed, info.no_diff_this)
    declared = [] if function is None else declared_parameters(flow.checker, function)
    for argument, parameter in zip_longest(form.arguments, declared[: len(form.arguments)]):
        if isinstance(argument, ast.Expression):
            declared_info = None if parameter is None else flow.checker.info(parameter)
            changed = declared_info is not None and declared_info.direction in ("out", "inout", "ref")
            no_diff = declared_info is not None and declared_info.no_diff
            is_read = declared_info is None or declared_info.direction != "out" or not is_variable(argument)
            sources = _argument_sources(flow, argument, function) if is_read else set()
            yield _Passed(argument, sources, changed, no_diff)


def _call_form(flow: Flow, node: ast.Expression, form: checked.FunctionCall) -> Sources:
    passed, function, checker = list(_passed(flow, form)), form.function, flow.checker
    inputs = {source for item in passed if not item.no_diff for source in item.sources}
    inputs |= _through_lambdas(flow, form, passed)
    numbers = [item for item in passed if item.is_changed and flow.carries(value_type(item.node))]
    if isinstance(function, checked.Derivative) or _passes(flow, function):
        kept = [number for number in numbers if not _loses(flow, node, form, number, inputs)]
        return _call(flow, node, function, inputs, [item.node for item in kept])
    if any(is_in_memory(checker, number.node) for number in numbers):
        flow.lost.append(stored_by(function, node, inputs))
    others = [item for item in passed if item.is_changed and item not in numbers]
    bits = [other for other in others if _takes_bits(flow, function, other.node)]
    written = [item.node for item in (*numbers, *bits)]
    return _call(flow, node, function, inputs, written, [other.node for other in others if other not in bits])


def _through_lambdas(flow: Flow, form: checked.FunctionCall, passed: list[_Passed]) -> Sources:
    """The results of lambdas that a call runs. The called one gets the arguments; one that is an argument may get all
    others."""
    results: set[Node] = set()
    for item in passed:
        kind = value_type(item.node)
        if not isinstance(kind, LambdaType):
            continue
        results.add(Returned(kind.declaration))
        others = [set() if other.no_diff else other.sources for other in passed if other is not item]
        if item.node is form.this:
            for parameter, sources in zip(kind.declaration.parameters, others):
                flow.add({parameter}, sources)
        else:
            flow.add(set(kind.declaration.parameters), set().union(*others))
    return results


def _loses(
    flow: Flow, node: ast.Expression, form: checked.FunctionCall, item: _Passed, inputs: Sources
) -> bool:
    """Whether the changed argument of a call cannot keep a derivative."""
    if item.node is form.this:
        _stored(flow, node, item.node, inputs, _VARIABLE)
        return False
    assert isinstance(item.node, ast.Expression)
    return not item.no_diff and _stored(flow, item.node, item.node, {MEMORY}, _VARIABLE)


def _try(flow: Flow, node: ast.Expression, form: checked.TriedCall) -> Sources:
    before = flow.point.copy()
    sources = _sources(flow, form.call)
    flow.meet([before, flow.point])  # what the call stores
    caught = None if form.handler is None else form.handler.parameter
    kind = flow.info.throws if caught is None else flow.checker.info(caught).type
    # A function that throws a value without a derivative reports the loss.
    flow.throw(form.handler, sources if flow.carries(kind) else set())
    return sources


def _argument_sources(flow: Flow, argument: ast.Expression, function: DeclRef | None) -> Sources:
    """The sources of an argument: a value made of a whole number has no derivative, unless its bits count."""
    sources = _sources(flow, argument)
    return sources if not is_whole(value_type(argument)) or _takes_bits(flow, function, argument) else set()


def _takes_bits(flow: Flow, function: DeclRef | None, argument: checked.Base) -> bool:
    return is_whole(value_type(argument)) and function is not None and sees_bits(flow.checker, function)


def _accessed(
    flow: Flow, node: ast.Expression, form: checked.PropertyAccess | checked.SubscriptAccess
) -> Sources:
    inputs = set() if form.base is None else _sources(flow, form.base)
    for argument in form.arguments if isinstance(form, checked.SubscriptAccess) else ():
        inputs = inputs | (
            _argument_sources(flow, argument, None) if isinstance(argument, ast.Expression) else set()
        )
    is_field = isinstance(form.reference.declaration, ast.Variable)
    return inputs if is_field else _call(flow, node, form.reference, inputs)


def _store(flow: Flow, node: ast.Expression, form: checked.Assignment) -> Sources:
    sources = _sources(flow, form.value)
    _visit_place(flow, form.place)
    if not _stored(flow, node, form.place, sources):
        _change(flow, [form.place], sources)
    return sources


_VALUE = "put 'detach(...)' around what is stored if this is meant"
_VARIABLE = "pass a variable, and store detach(...) of it if this is meant"
_SETTER = "mark it as [Differentiable], or call it before the object has a derivative"


def _stored(
    flow: Flow, node: ast.Expression, place: checked.Base, sources: Sources, note: str = _VALUE
) -> bool:
    """Whether the derivative of a stored value is lost."""
    reason = loses_derivative(flow.checker, flow.info, place)
    if flow.supposed and is_required(place):
        reason = None
    if flow.carries(value_type(place)) and reason is not None:
        through = pointer_of(place)
        pointer = None if through is None else _sources(flow, through)
        flow.store_behind(pointer or set(), sources)
        flow.lost.append(Lost(reason, note, node, with_derivatives(sources), stored=True, pointer=pointer))
    changed = None if reason is None else set_object(flow.checker, flow.info, place)
    if changed is not None and reason is not None:
        _lose_object(
            flow,
            Lost(reason, _SETTER, node, {flow.read(root) for root in root_of(changed)}),
            changed,
            sources,
        )
    if not flow.carries(value_type(place)):
        _store_plain(flow, node, place, sources)
        return False
    return reason is not None


def _lose_object(flow: Flow, lost: Lost, changed: checked.Base, sources: Sources) -> None:
    """A setter without a derivative makes a constant of the whole object."""
    flow.lost.append(lost)
    flow.add({lost}, {source for source in sources if isinstance(source, Lost)})
    _change(flow, [changed], {lost})


def _store_plain(flow: Flow, node: ast.Expression, place: checked.Base, sources: Sources) -> None:
    """A value with numbers and without a derivative is stored in memory that outlasts the function."""
    kind = value_type(place)
    hidden = {source for source in sources if isinstance(source, Lost) and source.in_value}
    if hidden and is_in_memory(flow.checker, place) and holds_numbers(flow.checker, kind):
        reason = f"a '{kind}' is stored in memory, which has no derivative"
        flow.lost.append(Lost(reason, _VALUE, node, hidden, stored=True, allowed=True))


def _update(flow: Flow, node: ast.Expression, form: checked.Update) -> Sources:
    sources = _sources(flow, form.place)
    if form.value is not None:
        sources = sources | _sources(flow, form.value)
    if form.function is not None:
        sources = _call(flow, node, form.function, sources)
    if not _stored(flow, node, form.place, sources):
        _change(flow, [form.place], sources)
    return sources


def _visit_place(flow: Flow, node: checked.Base) -> None:
    """Calls in the indices of a place."""
    for _, form in steps(node):
        if isinstance(form, checked.Element):
            _sources(flow, form.index)
        for argument in form.arguments if isinstance(form, checked.SubscriptAccess) else ():
            _sources(flow, argument)


def _field(flow: Flow, node: ast.Expression, form: checked.Field) -> Sources:
    """A field of a type without a derivative has none in a struct that has one, as the manual says."""
    sources, outer = _sources(flow, form.base), value_type(form.base)
    if flow.checker.info(form.reference.declaration).no_diff:
        return set()
    return sources if flow.carries(value_type(node)) or not flow.carries(outer) else set()


def _convert(flow: Flow, node: ast.Expression, form: checked.Convert) -> Sources:
    sources = _sources(flow, form.operand)
    return set() if is_whole(value_type(form.operand)) and flow.carries(node.type) else sources


def _element(flow: Flow, node: ast.Expression, form: checked.Element) -> Sources:
    sources = _sources(flow, form.base)
    _sources(flow, form.index)
    return _read(flow, node, sources) if isinstance(value_type(form.base), PointerType) else sources


def _read(flow: Flow, node: ast.Expression, pointer: Sources) -> Sources:
    """The pointee of a pointer."""
    if not pointer or not flow.carries(value_type(node)):
        return pointer
    note = "read it in a function with derivatives of its own"
    reason = "memory behind a pointer is read without its derivative"
    lost = Lost(reason, note, node, pointer, pointer=pointer)
    flow.lost.append(lost)
    return {lost, *pointer}


def _address(flow: Flow, node: ast.Expression, form: checked.AddressOf) -> Sources:
    pointer = pointer_of(form.place)
    if pointer is not None:
        return _sources(flow, pointer)
    _visit_place(flow, form.place)
    roots = root_of(form.place)
    flow.addressed |= roots
    return {Address(root) for root in roots}


def _closure(flow: Flow, node: ast.Expression, form: checked.Closure) -> Sources:
    """What a lambda captures. Its body is a part of the function: `_through_lambdas` adds what calls pass to it."""
    info: checked.FunctionInfo = flow.checker.info(form.function)
    body = form.function.body
    if info.level != "none" and body is not None and form.function not in flow.lambdas:
        flow.lambdas.add(form.function)
        inner = replace(flow, info=info, point=flow.point.copy(), result=Returned(form.function))
        follow(inner, body, partial(_sources, inner))
        flow.is_deferred |= inner.is_deferred
    return {flow.read(THIS if captured.name == "this" else captured) for captured in info.captures}


def _construct(flow: Flow, node: ast.Expression, form: checked.Construct) -> Sources:
    all_sources: Sources = set()
    fields = field_references(form.type) if isinstance(form.type, StructType) else ()
    for part, reference in zip_longest(form.parts, fields[: len(form.parts)]):
        sources = _part_of_list(flow, node, part)
        if reference is None or not _stored_in_field(flow, node, form.type, reference, part, sources):
            all_sources |= sources
    return all_sources


def _part_of_list(flow: Flow, node: ast.Expression, part: checked.Part) -> Sources:
    if isinstance(part, checked.Construct):
        return _construct(flow, node, part)
    if isinstance(part, checked.FunctionCall):
        return _call_form(flow, node, part)
    return _sources(flow, part)


def _stored_in_field(
    flow: Flow, node: ast.Expression, kind: Type, field: DeclRef, part: checked.Part, sources: Sources
) -> bool:
    """Whether the derivative of a field's value in a list is lost there. A `no_diff` field declares it."""
    inputs = with_derivatives(sources)
    if not inputs or not flow.carries(field_type(flow.checker, field)):
        return False
    reason = loses_in_field(flow.checker, kind, field.declaration)
    if reason is None:
        return False
    stated = flow.checker.info(field.declaration).no_diff
    place = part if isinstance(part, ast.Expression) else node
    flow.lost.append(Lost(reason, _VALUE, place, inputs, stored=True, allowed=stated))
    return True


Rule = Callable[[Flow, ast.Expression, OfClass], Sources]

_FORMS: dict[type, Rule] = {
    checked.ThisValue: lambda flow, node, form: {flow.read(THIS)},
    checked.TypeName: lambda flow, node, form: set(),
    checked.Constant: lambda flow, node, form: set(),
    checked.Global: lambda flow, node, form: set(),
    checked.Closure: _closure,
    checked.Local: lambda flow, node, form: {flow.read(form.declaration)},
    checked.Field: _field,
    checked.Element: _element,
    checked.Convert: _convert,
    checked.Dereference: lambda flow, node, form: _read(flow, node, _sources(flow, form.pointer)),
    checked.AddressOf: _address,
    checked.PropertyAccess: _accessed,
    checked.SubscriptAccess: _accessed,
    checked.FunctionCall: _call_form,
    checked.TriedCall: _try,
    checked.Assignment: _store,
    checked.Update: _update,
    checked.Construct: _construct,
}
