"""Write the kernel of a call as Slang text.

In: a bound call (call/binding/bind.py) and how its streams move along the lanes.   Out: one readable page:

    import "polynomial";

    [shader("compute")] [numthreads(256, 1, 1)]
    void kernel(uniform CallShape<1> shape, uniform float a, uniform ContiguousElements<float, 1> x,
        uniform ContiguousElements<float, 1> _result, uint3 thread : SV_DispatchThreadID)
    {
        CallId<1> id = shape.locate(thread);
        _result.store(id, polynomial(a, x.load(id)));
    }

Only what std/call.slang and std/tensor.slang offer is written. SLANGRAD_DUMP=kernel shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

from slangrad.call.binding.bind import Binding, BoundArgument
from slangrad.call.binding.launchable import SHAPE
from slangrad.call.binding.program import conformance_text
from slangrad.call.compiling.gradient_text import GradientCall, differentiable_function
from slangrad.check.model.types import Type
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.nodes import BoundNode
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT
from slangrad.marshal.protocol.spelling import spell_differential, spell_on_page

ENTRY = "kernel"
GROUP = 256

Line = tuple[str, str]


@dataclass(slots=True)
class KernelPage:
    """Statements before and after the call, each with the label of the argument that it is about."""

    call: Binding
    classes: dict[str, str]
    alone: frozenset[str]
    before: list[Line] = field(default_factory=list)
    after: list[Line] = field(default_factory=list)
    functions: list[Line] = field(default_factory=list)
    owner: str = ""

    def say_before(self, line: str) -> None:
        self.before.append((line, self.owner))

    def say_after(self, line: str) -> None:
        self.after.append((line, self.owner))

    def declaration(self, t: Type, name: str, value: str = "") -> str:
        return f"{spell_on_page(t)} {name}{f' = {value}' if value else ''};"

    def say_zero(self, t: Type, name: str, tangent: Type | None = None) -> None:
        differential = spell_differential(t) if tangent is None else spell_on_page(tangent)
        self.say_before(f"{differential} {name} = {spell_on_page(t)}.dzero();")

    def arguments(self) -> Iterator[BoundArgument]:
        """The arguments of the call; statements are about the newest one."""
        for argument in self.call.arguments:
            self.owner = argument.node.label
            yield argument


@dataclass(slots=True, frozen=True)
class KernelText:
    """The text and, for lines by number from one, the label of the argument that they are about."""

    text: str
    labels: dict[int, str]


def write_kernel(call: Binding, classes: dict[str, str], alone: frozenset[str]) -> KernelText:
    """The kernel of a call. `classes` has the letters of each leaf's streams. `alone` has the leaves whose
    gradients get adds from one thread only."""
    page = KernelPage(call, classes, alone, functions=[(line, "") for line in call.function.outside])
    for leaf in call.leaves:
        page.owner = leaf.label
        page.functions += [(line, leaf.label) for line in leaf.outside()]
        for line in leaf.before(classes[leaf.name]):
            page.say_before(line)
    statement = _CALLS[call.mode](page)
    rank = max(call.call_dims, 1)
    body: list[Line] = [(line, "") for line in _locate(page, rank)]
    body += [*page.before, (statement, ""), *page.after]
    lines: list[Line] = [(f'import "{name}";', "") for name in call.function.imports()]
    lines += [(f"// {conformance_text(conformance)}", "") for conformance in call.conformances]
    threads = prod(call.group or (GROUP,))
    width = f" [lanes({call.lanes})]" if call.lanes else ""
    lines += [("", ""), *page.functions, (f'[shader("compute")] [numthreads({threads}, 1, 1)]{width}', "")]
    lines += [*_header(page, rank), ("{", "")]
    lines += [(f"    {line}", label) for line, label in body] + [("}", ""), ("", "")]
    labels = {number: label for number, (_, label) in enumerate(lines, 1) if label}
    return KernelText("\n".join(line for line, _ in lines), labels)


def _locate(page: KernelPage, rank: int) -> list[str]:
    """Which call the thread makes."""
    group = page.call.group
    if group is None:
        return [f"CallId<{rank}> id = shape.locate(thread);"]
    if not group:
        return [f"CallId<{rank}> id = shape.locate(thread);", f"__noteCall(id, {page.call.call_dims});"]
    lines = [f"uint group[{rank}] = {{ {', '.join(map(str, group))} }};"]
    lines.append(f"CallId<{rank}> id = shape.locateInGroups(thread.x, group);")
    return lines + ["if (!shape.holds(id)) return;"] * (SHAPE in page.classes)


def _header(page: KernelPage, rank: int) -> list[Line]:
    """The kernel's parameters, one on each line."""
    lines: list[Line] = [(f"void {ENTRY}(", ""), (f"    uniform CallShape<{rank}> shape,", "")]
    for leaf in (declared for declared in page.call.leaves if declared.declared):
        for parameter in leaf.parameters(page.classes[leaf.name]):
            lines.append((f"    uniform {parameter.type} {parameter.name},", leaf.label))
    return [*lines, ("    uint3 thread : SV_DispatchThreadID)", "")]


# --- Values -------------------------------------------------------------------------------------------


def _constant(page: KernelPage, argument: BoundArgument) -> str:
    """An expression for an argument that is read only."""
    value = argument.node.primal(page)
    return value if argument.converted is None else f"{spell_on_page(argument.converted)}({value})"


def _store(page: KernelPage, node: BoundNode, value: str) -> None:
    """After the call: written values go to memory."""
    for leaf, written in node.leaves_of(value):
        if leaf.role.writes:
            page.say_after(leaf.store(written))


def _takes(node: BoundNode) -> bool:
    """Whether a derivative comes in."""
    return any(leaf.role.takes for leaf, _ in node.leaves_of_tangent(""))


def _pair(page: KernelPage, argument: BoundArgument) -> str:
    """The arguments of `diffPair`: the primal, and the derivative if one comes in."""
    node, value = argument.node, _constant(page, argument)
    return f"{value}, {node.derivative(page, f'{node.name}_in')}" if _takes(node) else value


def _give(page: KernelPage, node: BoundNode, value: str) -> None:
    """After the call: derivatives go out."""
    for leaf, derivative in node.leaves_of_tangent(value):
        if leaf.role.gives:
            page.say_after(leaf.give(derivative, leaf.name in page.alone))


# --- The call itself ----------------------------------------------------------------------------------


def _forward(page: KernelPage) -> str:
    arguments = [_forward_argument(page, argument) for argument in page.arguments()]
    return _with_this(page, arguments, page.call.result)


def _forward_argument(page: KernelPage, argument: BoundArgument) -> str:
    if argument.direction == "in" or argument.converted is not None:
        return _constant(page, argument)
    name = argument.node.variable(page)
    _store(page, argument.node, name)
    return name


def _with_this(page: KernelPage, arguments: list[str], result: BoundNode | None) -> str:
    callee = page.call.function.callee
    if page.call.function.has_this:
        this, *arguments = arguments
        callee = f"{this}.{callee}"
    call = f"{callee}({', '.join(arguments)})"
    return f"{call};" if result is None else result.receive(page, call)


def _backward(page: KernelPage) -> str:
    gradient = GradientCall(page.say_before)
    for argument in page.arguments():
        _backward_argument(page, argument, gradient)
    if page.call.cotangent is not None:
        gradient.arguments.append(page.call.cotangent)
    elif page.call.result is not None and page.call.function.result_differentiable:
        page.owner = page.call.result.label
        gradient.arguments.append(page.call.result.cotangent(page))
    return gradient.text(page.call.function.static_callee)


def _backward_argument(page: KernelPage, argument: BoundArgument, gradient: GradientCall) -> None:
    node = argument.node
    if argument.direction == "out":
        gradient.arguments += [node.cotangent(page)] if argument.differentiable else []
    elif not argument.differentiable:
        gradient.arguments.append(_constant(page, argument))
    else:
        _give(page, node, gradient.pair(f"{node.name}_pair", _pair(page, argument)))


def _tangent(page: KernelPage) -> str:
    arguments = [_tangent_argument(page, argument) for argument in page.arguments()]
    call = f"fwd_diff({page.call.function.static_callee})({', '.join(arguments)})"
    result = page.call.result
    if result is None:
        return f"{call};"
    name = f"{result.name}_value"
    primal = f"{name}.p" if page.call.function.result_differentiable else name
    _store(page, result, primal)
    if page.call.function.result_differentiable:
        _give(page, result, f"{name}.d")
    return f"var {name} = {call};"


def _tangent_argument(page: KernelPage, argument: BoundArgument) -> str:
    node = argument.node
    if not argument.differentiable:
        return _forward_argument(page, argument)
    pair = f"{node.name}_pair"
    if argument.direction == "out":
        page.say_before(f"DifferentialPair<{spell_on_page(node.type)}> {pair};")
    else:
        page.say_before(f"var {pair} = diffPair({_pair(page, argument)});")
    if argument.direction != "in":
        _store(page, node, f"{pair}.p")
        _give(page, node, f"{pair}.d")
    return pair


# --- Derivatives of gradients -------------------------------------------------------------------------
# The first function returns the results of `bwd_diff` as outputs. Each further order is its derivative along the
# tangents:
#
#     [Differentiable] void __order1(float x, float.Differential x_in, out float.Differential x_grad)
#     { var x_pair = diffPair(x); bwd_diff(f)(x_pair, float(1)); x_grad = x_pair.d; }
#
#     [Differentiable] void __order2(...the same...)
#     { DifferentialPair<float.Differential> x_pair; fwd_diff(__order1)(diffPair(x, x_in), diffPair(x_in), x_pair);
#       x_grad = x_pair.d; }


class _Orders:
    """`taken`: the kernel's arguments of the functions. `first`: the call of `bwd_diff` in the first function,
    after the statements `pairs`. `next`: the arguments that each other function passes to the one before."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.taken: list[str] = []
        self.outputs: list[tuple[str, str]] = []
        self.next: list[str] = []
        self.pairs: list[str] = []
        self.first = GradientCall(self.pairs.append)

    def constant(self, declared: str, name: str, argument: str, paired: bool = False) -> None:
        """`paired`: the function has a derivative by it, which the call does not need."""
        self.parameters.append(f"{declared} {name}")
        self.taken.append(argument)
        self.next.append(name)
        if paired:
            self.first.pair(f"{name}_pair", name)
        else:
            self.first.arguments.append(name)


def _higher(page: KernelPage) -> str:
    orders = _Orders()
    for argument in page.arguments():
        _higher_argument(page, orders, argument)
    result = page.call.result
    if page.call.cotangent is not None:
        orders.first.arguments.append(page.call.cotangent)
    elif result is not None and page.call.function.result_differentiable:
        page.owner = result.label
        orders.constant(f"no_diff {spell_differential(result.type)}", result.name, result.cotangent(page))
    for order in range(1, page.call.order + 1):
        page.functions += [(line, "") for line in _order(orders, order, page.call.function.static_callee)]
    arguments = ", ".join([*orders.taken, *(f"{name}_pair" for name, _ in orders.outputs)])
    return f"__order{page.call.order}({arguments});"


def _higher_argument(page: KernelPage, orders: _Orders, argument: BoundArgument) -> None:
    node, kind = argument.node, spell_on_page(argument.node.type)
    if argument.direction == "out":
        if argument.differentiable:
            orders.constant(f"no_diff {spell_differential(node.type)}", node.name, node.cotangent(page))
        return
    if not argument.differentiable or not _takes(node):
        _higher_constant(page, orders, argument)
        return
    if argument.direction != "in":
        message = (
            f"argument '{node.label}': hvp takes functions without 'inout' parameters that have derivatives"
        )
        raise CallError("E1007", message, (), "return the value from the function")
    name, differential = node.name, spell_differential(node.type)
    orders.parameters += [f"{kind} {name}", f"{differential} {name}_in"]
    orders.taken += [node.primal(page), node.derivative(page, f"{name}_in_value")]
    orders.outputs.append((name, differential))
    orders.first.pair(f"{name}_pair", name)
    orders.next += [f"diffPair({name}, {name}_in)", f"diffPair({name}_in)"]
    page.say_before(f"{differential} {name}_pair;")
    _give(page, node, f"{name}_pair")


def _higher_constant(page: KernelPage, orders: _Orders, argument: BoundArgument) -> None:
    """An argument whose derivative the call does not need."""
    kind, paired = spell_on_page(argument.type), argument.differentiable
    declared = f"no_diff {kind}" if paired or argument.no_diff else kind
    orders.constant(declared, argument.node.name, _constant(page, argument), paired)


def _order(orders: _Orders, order: int, callee: str) -> list[str]:
    """The function that gives the derivatives of an order."""
    outputs = [f"out {kind} {name}_grad" for name, kind in orders.outputs]
    body = [*orders.pairs, orders.first.text(callee)]
    if order > 1:
        arguments = ", ".join([*orders.next, *(f"{name}_pair" for name, _ in orders.outputs)])
        body = [f"DifferentialPair<{kind}> {name}_pair;" for name, kind in orders.outputs]
        body.append(f"fwd_diff(__order{order - 1})({arguments});")
    body += [f"{name}_grad = {name}_pair.d;" for name, _ in orders.outputs]
    return differentiable_function(f"__order{order}", [*orders.parameters, *outputs], body)


_CALLS: dict[str, Callable[[KernelPage], str]] = {
    PRIMAL: _forward,
    BACKWARD: _backward,
    TANGENT: _tangent,
    HIGHER: _higher,
}
