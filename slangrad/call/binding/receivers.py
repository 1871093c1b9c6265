"""The error of a call of a derivative that has no gradient to write or no tangent to read (`idle.py`).

f.bwds(x)  with x a NumPy array   ->   'x' is a numpy float32 array: pass Tensor.from_numpy(device, x).with_grads()
"""

from __future__ import annotations

from slangrad.call.binding.bind import Binding, BoundArgument
from slangrad.call.binding.program import ModuleTypes
from slangrad.check.model.types import StructType
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.marshal.protocol.roles import TANGENT


def idle_call(call: Binding, types: ModuleTypes) -> CallError:
    """The error, which lists each argument and the value to pass in its place."""
    message = "bwds would do nothing: no argument can receive a gradient"
    if call.mode == TANGENT:
        message = "fwds would give zeros: no argument has a tangent"
    results = _results(call)
    carrying = [leaf for leaf in call.leaves if leaf.carries and leaf.name not in results]
    structs = [argument for argument in call.arguments if _is_plain_struct(argument, types)]
    if not carrying and not structs:
        return CallError("E1007", message, (), "its parameters are no_diff, or of types without derivatives")
    details = [
        f"'{argument.node.label}' has no derivative: mark 'struct {argument.type} : IDifferentiable'"
        for argument in structs
    ]
    details += [
        f"'{leaf.label}' is {_article(leaf.described)}: {_instead(leaf, call.mode)}" for leaf in carrying
    ]
    return CallError("E1007", message, details, "one of these is enough")


def declared_instead(call: Binding, index: int, types: ModuleTypes) -> str:
    """How the parameter of a value has to be declared to carry a derivative; empty if its declaration is not the
    cause."""
    for argument in call.arguments:
        if argument.index != index:
            continue
        if _is_plain_struct(argument, types):
            return f"mark 'struct {argument.type} : IDifferentiable'"
        if (argument.node.has_place or argument.node.is_plain_whole) and not argument.no_diff:
            return f"declare '{argument.node.label}' ITensor instead of {standard_name(argument.type)}"
        if argument.no_diff:
            return f"declare '{argument.node.label}' without no_diff"
    return ""


def _is_plain_struct(argument: BoundArgument, types: ModuleTypes) -> bool:
    """Whether the struct of a parameter has fields with derivatives, and none itself."""
    t = argument.type
    if argument.no_diff or not isinstance(t, StructType) or t.declaration.span.source.is_library:
        return False
    return types.tangent(t) is None and any(types.tangent(field) is not None for _, field in types.fields(t))


def _results(call: Binding) -> set[str]:
    return set() if call.result is None else {leaf.name for _, leaf in call.result.leaves()}


def _article(described: str) -> str:
    return f"an {described}" if described[:1] in "aeiou" else f"a {described}"


def _instead(leaf: Leaf, mode: str) -> str:
    """The value to pass in place of a constant."""
    if leaf.described.startswith("torch"):
        return f"pass diff_pair({leaf.label}, {'tangent' if mode == TANGENT else 'gradient'})"
    return leaf.instead(mode)
