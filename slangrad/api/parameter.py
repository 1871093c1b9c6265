"""Parameters of functions as users see them.

    module.polynomial.parameters    ->   Parameter("a", float), Parameter("b", float), ...
    module.linear_layer.parameters  ->   ..., Parameter("weights", IDiffTensor<float, 2>), ...

A parameter that takes any type of an interface shows the interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.marshal.marshal import ProgramTypes
from slangrad.marshal.slang_type import SlangType

if TYPE_CHECKING:
    from slangrad.call.program import Candidate
    from slangrad.check.reflect import ParameterView


@dataclass(frozen=True, slots=True)
class Parameter:
    """`direction` is "in", "out" or "inout"; `differentiable`: a derivative goes through it."""

    name: str
    type: SlangType
    direction: str
    differentiable: bool


def parameters_of(candidate: Candidate) -> tuple[Parameter, ...]:
    return tuple(_parameter(each, candidate.types) for each in candidate.parameters)


def _parameter(view: ParameterView, types: ProgramTypes) -> Parameter:
    hidden = str(view.type).startswith("$")
    found = SlangType(types.bounds(view.type)[0] if hidden else view.type, types)
    return Parameter(view.name, found, view.direction, found.differentiable and not view.no_diff)


def result_of(candidate: Candidate) -> SlangType | None:
    if not candidate.returns:
        return None
    view = candidate.view
    found = view.this_type if candidate.is_constructor else candidate.with_explicit(view.result)
    return None if found is None else SlangType(found, candidate.types)
