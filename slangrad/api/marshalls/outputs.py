"""Results of classes that have a Marshall: `f.return_type(Film)(x)` fills what its `create_output` makes.

    class FilmMarshall(Marshall):
        is_writable = True
        def create_output(self, context, binding):  return Film(context.call_shape)
        ...

A class whose Marshall makes no outputs is called with what a call returns otherwise, as classes without one are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slangrad.api.functional.call_data import MODES
from slangrad.api.marshalls.arguments import (
    Carried,
    Factory,
    TaughtLeaf,
    TaughtMarshal,
    context_of,
    overrides,
)
from slangrad.api.marshalls.marshall import BindContext, CallContext
from slangrad.ir import types as ir
from slangrad.marshal import results
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.marshal import Leaf, ProgramTypes, Way
from slangrad.marshal.marshal import Shape as Sizes
from slangrad.tensors.shape import Shape

if TYPE_CHECKING:
    from slangrad.marshal.slang_type import SlangType


@dataclass(frozen=True, slots=True)
class ReturnContext:
    """What a factory of PYTHON_TYPES gets in place of a value, where a result is to be made: its type, and the call."""

    slang_type: SlangType
    bind_context: BindContext


def binder_of(kind: type, factory: Factory) -> results.Binder:
    """What binds results of a class."""

    def bind(created: results.Created, dims: int, lowered: ir.Type) -> Leaf:
        spot = created.spot
        layout = spot.types.program()
        context = context_of(layout, spot.mode)
        context.call_dimensionality = dims
        wanted = ReturnContext(layout.type_of(created.type), context)
        taught = TaughtMarshal(factory, wanted, kind.__name__)
        if not _makes_outputs(taught, spot.types):
            return _called_with_result(kind, created, dims, lowered)
        if spot.role.differentiates:
            message = f"a {kind.__name__} has no place for the derivative of the result"
            raise CallError("E1011", message, (), 'use _result="tensor": its gradient is the derivative')
        leaf = taught.bind(Way(created.type, dims), spot)
        assert isinstance(leaf, TaughtLeaf)
        leaf.prepare = None  # the maker gives it as it is carried
        made = _Outputs(leaf)
        created.made = results.Result(made.maker, made.give)
        return leaf

    return bind


def _makes_outputs(taught: TaughtMarshal, types: ProgramTypes) -> bool:
    """Whether there is a Marshall for results: a factory that knows values only stumbles over a ReturnContext."""
    try:
        return overrides(taught.marshall(types), "create_output")
    except BoundVariableException as error:
        if isinstance(error.__cause__, (AttributeError, TypeError)):
            return False
        raise


def _called_with_result(kind: type, created: results.Created, dims: int, lowered: ir.Type) -> Leaf:
    leaf = results.bind_default(created, dims, lowered)
    made = created.made
    assert made is not None
    created.made = results.Result(made.maker, lambda value: kind(made.give(value)))
    return leaf


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The objects that calls of one plan fill."""

    leaf: TaughtLeaf

    def maker(self, device: Any, shape: Sizes) -> Callable[[], Carried]:
        leaf = self.leaf
        owner = leaf.types.program().device_module.session.device
        context = CallContext(owner, Shape(shape), MODES[leaf.mode])

        def make() -> Carried:
            made = Carried(leaf.marshall.create_output(context, leaf.text.binding))
            made.context = context
            return made

        return make

    def give(self, carried: Carried) -> Any:
        return self.leaf.marshall.read_output(carried.context, self.leaf.text.binding, carried.value)
