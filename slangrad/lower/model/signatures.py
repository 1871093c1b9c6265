"""How a function instance is called: its parameters with concrete types, `this` first.

[mutating] void add(no_diff float x)   ->   (inout this, in no_diff x)
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model import types as checked
from slangrad.ir.data.types import Type
from slangrad.ir.ops import core


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    name: str
    checked: checked.Type
    type: Type
    direction: str  # "in", "out" or "inout"
    differentiable: bool  # neither no_diff nor of a type without derivative
    cut: bool  # of a type with derivative, but none passes: its argument is detached
    dual: Type | None = None  # of a pointer whose derivatives are followed: the type of its other half
    lent: bool = False  # memory of the caller, by its address (calls/lending.py)


@dataclass(frozen=True, slots=True)
class Signature:
    name: str  # of the IR function
    parameters: tuple[SignatureParameter, ...]
    result: checked.Type
    result_type: Type | None
    result_differentiable: bool
    differentiable: bool  # else its result is detached
    dual: Type | None = None  # of the result
    throws: bool = False  # the last two parameters are those of an error

    @property
    def has_this(self) -> bool:
        return bool(self.parameters) and self.parameters[0].name == "this"

    @property
    def inputs(self) -> tuple[SignatureParameter, ...]:
        return tuple(p for p in self.parameters if p.direction != "out")

    @property
    def outputs(self) -> tuple[SignatureParameter, ...]:
        return tuple(p for p in self.parameters if p.direction != "in")

    @property
    def result_types(self) -> tuple[Type, ...]:
        returned = () if self.result_type is None else (self.result_type,)
        return returned + tuple(p.type for p in self.outputs)

    @property
    def result_flags(self) -> tuple[bool, ...]:
        """For each result: may a derivative pass through it?"""
        returned = () if self.result_type is None else (self.result_differentiable,)
        return returned + tuple(p.differentiable for p in self.outputs)

    def ir_parameters(self) -> tuple[core.Parameter, ...]:
        return tuple(
            core.Parameter(p.name, p.type, p.direction, p.differentiable or p.dual is not None)
            for p in self.parameters
        )
