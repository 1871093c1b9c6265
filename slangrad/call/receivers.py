"""Whether a derivative that is asked for goes anywhere.

In: a bound call in `bwds` or `fwds`.   Out: an error where it would leave nothing behind, or bring nothing in.

    f.bwds(x)  with x a NumPy array   ->   error[E1007]: no argument can receive a gradient

A call is only refused where that is certain. Memory that a function may write or reach (buffers, pointers, tensors to
be written, values of users' own types) and what it prints are reasons to make it.
"""

from __future__ import annotations

from slangrad.call.bind import BoundArgument, BoundCall
from slangrad.call.program import ModuleTypes
from slangrad.check.model.types import StructType
from slangrad.ir import types as ir
from slangrad.marshal.buffers import BufferLeaf, standard_name
from slangrad.marshal.cells import Cell
from slangrad.marshal.elements import Elements
from slangrad.marshal.errors import CallError
from slangrad.marshal.indices import Index
from slangrad.marshal.marshal import BACKWARD, TANGENT, Leaf
from slangrad.marshal.uniform import Uniform
from slangrad.marshal.whole import WholeTensor

PRINTING = ("printf", "print")
_VALUES = (Uniform, Elements, Cell, Index)


def check_receivers(call: BoundCall, types: ModuleTypes) -> None:
    """CallError for `bwds` without a place for gradients, and for `fwds` without a tangent."""
    if call.mode == BACKWARD and not _leaves_something(call, types):
        raise _refusal(call, types, "bwds would do nothing: no argument can receive a gradient")
    if call.mode == TANGENT and not any(_may_bring(leaf, types) for leaf in call.leaves):
        raise _refusal(call, types, "fwds would give zeros: no argument has a tangent")


def _leaves_something(call: BoundCall, types: ModuleTypes) -> bool:
    return any(_may_receive(leaf, types) for leaf in call.leaves) or any(map(types.mentions, PRINTING))


def _may_receive(leaf: Leaf, types: ModuleTypes) -> bool:
    """Whether something may be different after the call."""
    if leaf.role.gives or _is_unknown(leaf, types):
        return True
    if isinstance(leaf, BufferLeaf):
        return leaf.written
    return leaf.role.writes


def _may_bring(leaf: Leaf, types: ModuleTypes) -> bool:
    """Whether a derivative may come in."""
    role = leaf.role
    in_place = role.reads and bool(role.gives)  # what goes out lies where it came in
    return role.takes or in_place or isinstance(leaf, BufferLeaf) or _is_unknown(leaf, types)


def _is_unknown(leaf: Leaf, types: ModuleTypes) -> bool:
    """Whether it leads to memory that only the function knows."""
    if isinstance(leaf, _VALUES):
        lowered = types.lower(leaf.type)
        return lowered is None or _holds_addresses(lowered)
    return not isinstance(leaf, (WholeTensor, BufferLeaf))


def _holds_addresses(t: ir.Type) -> bool:
    """Pointers, and numbers that may be addresses."""
    value = ir.value_of(t)
    if isinstance(value, (ir.Struct, ir.Array, ir.Vector)):
        return any(map(_holds_addresses, dict.fromkeys(ir.components(value))))
    return isinstance(value, ir.Pointer) or value is ir.U64


def _refusal(call: BoundCall, types: ModuleTypes, message: str) -> CallError:
    results = _results(call)
    carrying = [leaf for leaf in call.leaves if leaf.carries and leaf.name not in results]
    carrying = [leaf for leaf in carrying if not isinstance(leaf, Index)]
    structs = [each for each in call.arguments if _is_plain_struct(each, types)]
    if not carrying and not structs:
        return CallError("E1007", message, (), "its parameters are no_diff, or of types without derivatives")
    details = [
        f"'{each.node.label}' has no derivative: mark 'struct {each.type} : IDifferentiable'"
        for each in structs
    ]
    details += [
        f"'{leaf.label}' is {_article(leaf.described)}: {_instead(leaf, call.mode)}" for leaf in carrying
    ]
    return CallError("E1007", message, details, "one of these is enough")


def _is_plain_struct(argument: BoundArgument, types: ModuleTypes) -> bool:
    """Whether the struct of a parameter has fields with derivatives, and none itself."""
    t = argument.type
    if argument.no_diff or not isinstance(t, StructType) or t.declaration.span.source.is_library:
        return False
    return types.tangent(t) is None and any(types.tangent(each) is not None for _, each in types.fields(t))


def _results(call: BoundCall) -> set[str]:
    return set() if call.result is None else {leaf.name for _, leaf in call.result.leaves()}


def _article(described: str) -> str:
    return f"an {described}" if described[:1] in "aeiou" else f"a {described}"


def _instead(leaf: Leaf, mode: str) -> str:
    """What to pass in place of a constant."""
    label, tangent = leaf.label, mode == TANGENT
    if leaf.described.startswith("torch"):
        return f"pass diff_pair({label}, {'tangent' if tangent else 'gradient'})"
    if isinstance(leaf, WholeTensor):
        given = (
            ""
            if leaf.loses
            else f", and pass a Tensor with {label}.with_grads({'tangent' if tangent else ''})"
        )
        return f"declare the parameter ITensor instead of {standard_name(leaf.type)}{given}"
    if isinstance(leaf, Elements):
        given = label if leaf.described.startswith("Tensor") else f"Tensor.from_numpy(device, {label})"
        return f"pass {given}.with_grads({'tangent' if tangent else ''})"
    return f"pass diffPair({label}{', tangent' if tangent else ''})"
