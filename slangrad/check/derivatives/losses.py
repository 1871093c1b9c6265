"""Reports of lost derivatives, and where generic functions lose those of some types.

In: what activity.py found out about a function.   Out: errors and warnings E0505.

    struct Box<T> { T value; }
    [Differentiable] T through<T>(T x) { Box<T> b; b.value = x; return b.value; }

Nothing is lost in `through` itself, as nothing says that a T has a derivative. Where it is called with a `double`, the
body is looked at once more, as if it said `where T : IDifferentiable`: what is lost then is a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from slangrad.check.derivatives.flow import Flow, Lost, Sources
from slangrad.check.derivatives.memory_effects import stores_numbers
from slangrad.check.generics.bounds import supposing
from slangrad.check.generics.substitution import substitute
from slangrad.check.interfaces.differentiable import tangent
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import InterfaceType, Type, nominal, parameter_type
from slangrad.check.model.world import World
from slangrad.check.names.places import accessor
from slangrad.syntax import ast

Supposed = dict[Any, Type]  # for generic parameters, which need have no derivatives, types that have
Check = Callable[[World, Any, Supposed], None]


def report_loss(flow: Flow, declaration: Any, lost: Lost) -> None:
    world = flow.world
    if (lost.allowed or flow.supposed) and declaration.span.source.is_library:
        return
    name = declaration.name or "the lambda"
    types = " and ".join(f"'{each.name}' is '{kind}'" for each, kind in flow.supposed.items())
    where = f" where {types}" if types else ""
    message = f"{lost.reason}, so the derivative of '{name}' would be lost here{where}"
    report = world.warning if lost.allowed or flow.supposed else world.error
    report("E0505", message, lost.node.span, lost.note)


def report_stores(flow: Flow, declaration: Any, calls: list[tuple[DeclRef, Lost]]) -> None:
    """When all bodies are checked: the calls of functions that store in memory."""
    for function, lost in calls:
        if stores_numbers(flow.world, function):
            report_loss(flow, declaration, lost)


# --- Instances ----------------------------------------------------------------------------------------


def check_instances(flow: Flow, active: Sources, check: Check) -> None:
    """Look at the generic functions that are called with what has derivatives."""
    for function, inputs in flow.passing:
        declaration = reading(function.declaration)
        supposed = _supposed(flow, function)
        if supposed and inputs & active and not declaration.span.source.is_library:
            flow.world.later.append(partial(_check_instance, flow.world, declaration, supposed, check))


def reading(declaration: Any) -> Any:
    """What a property or subscript is read through. How it is set is asked where it is set."""
    if not isinstance(declaration, (ast.Property, ast.Subscript)):
        return declaration
    return accessor(declaration, "get", "ref") or declaration.accessors[0]


def _supposed(flow: Flow, function: DeclRef) -> Supposed:
    world, found = flow.world, {}
    for parameter, kind in function.substitution.items():
        if not isinstance(parameter, ast.TypeParameter) or not isinstance(kind, Type):
            continue
        if tangent(world, kind) is not None and tangent(world, parameter_type(parameter)) is None:
            found[parameter] = substitute(world, kind, flow.supposed)
    return found


def _check_instance(world: World, declaration: Any, supposed: Supposed, check: Check) -> None:
    """When all bodies are checked: once for each set of parameters whose types have derivatives."""
    info = world.info(declaration)
    key = (declaration, frozenset(supposed))
    if (
        key in world.instances_looked_at
        or not isinstance(info, checked.FunctionInfo)
        or not info.body_checked
    ):
        return
    world.instances_looked_at.add(key)
    differentiable = nominal(world.standard("IDifferentiable"))
    assert isinstance(differentiable, InterfaceType)
    bounds: dict[Type, list[InterfaceType]] = {parameter_type(each): [differentiable] for each in supposed}
    with world.assuming(declaration), supposing(world, bounds):
        check(world, declaration, supposed)
