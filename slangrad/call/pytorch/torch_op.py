"""Functions as operators of PyTorch, which torch.compile takes into its graph as they are.

    op = torch_op(module.wave, {"a": 2.0})     ->   an operator `slangrad::wave_1(Tensor x) -> Tensor`

Its fake kernel binds the call to memory that nothing fills, and compiles it. Its gradient is an operator, too, and runs
the kernel of `bwds`. Gradients of that one are made of ordinary calls, so outside of compiled code they have any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Protocol

import torch
from torch.autograd.function import FunctionCtx as Context
from torch.utils._python_dispatch import _disable_current_modes

from slangrad.marshal.containers.values import DiffPair
from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue

Tensors = Sequence[torch.Tensor]
_numbers = count(1)


class OperatorFunction(Protocol):
    """A Function, whose class is in `api`, as operators call it."""

    name: str

    @property
    def parameters(self) -> Sequence[HostValue]: ...
    @property
    def result(self) -> object: ...
    @property
    def bwds(self) -> Callable[..., object]: ...
    def unfilled_result(self, **arguments: object) -> HostValue: ...
    def __call__(self, **arguments: object) -> HostValue: ...


def torch_op(function: OperatorFunction, constants: Mapping[str, object]) -> HostValue:
    """`constants`: values of parameters by name. The operator takes a tensor for each other parameter, in their order.
    CallError (E1007) for a function without a result, one that writes parameters, and unknown names."""
    parameters = function.parameters
    unknown = constants.keys() - {parameter.name for parameter in parameters}
    if unknown:
        raise CallError("E1007", f"torch_op: '{function.name}' has no parameter '{min(unknown)}'")
    written = [parameter.name for parameter in parameters if parameter.direction != "in"]
    if written or function.result is None:
        reason = f"writes its parameter '{written[0]}'" if written else "gives no result"
        note = "call it between compiled graphs, or let a function return what it computes"
        raise CallError("E1007", f"torch_op: '{function.name}' {reason}", (), note)
    names = [parameter.name for parameter in parameters if parameter.name not in constants]
    return _Operator(function, dict(constants), names).op


class _Operator:
    """An operator and its gradient."""

    def __init__(self, function: OperatorFunction, constants: dict[str, object], names: list[str]) -> None:
        self._function, self._constants, self._names = function, constants, names
        label = f"slangrad::{re.sub(r'[^0-9A-Za-z_]', '_', function.name)}_{next(_numbers)}"
        inputs = ", ".join(f"Tensor {name}_" for name in names)
        custom = torch.library.custom_op
        self.op = custom(label, self._run, mutates_args=(), schema=f"({inputs}) -> Tensor")
        self.op.register_fake(self._fake)
        self.op.register_autograd(self._backward, setup_context=self._remember)
        schema = f"({inputs}, Tensor cotangent_, bool[] wanted_) -> Tensor[]"
        self._gradient = custom(f"{label}_gradient", self._run_gradient, mutates_args=(), schema=schema)
        self._gradient.register_fake(self._fake_gradient)
        self._gradient.register_autograd(self._backward_gradient, setup_context=self._remember_gradient)

    def _arguments(self, tensors: Sequence[object]) -> dict[str, object]:
        return {**self._constants, **dict(zip(self._names, tensors, strict=True))}

    # --- the operator

    def _run(self, *tensors: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._function(**self._arguments([t.detach() for t in tensors]))
        return result

    def _fake(self, *tensors: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():
            like = self._function.unfilled_result(**self._arguments([_unfilled(t) for t in tensors]))
        return torch.empty(like.shape, dtype=like.dtype, device=like.device)

    @staticmethod
    def _remember(ctx: Context, inputs: Tensors, output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)
        if not output.is_floating_point():
            ctx.mark_non_differentiable(output)

    def _backward(self, ctx: Context, cotangent: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        wanted = [bool(needed) for needed in ctx.needs_input_grad]
        gradients = iter(self._gradient(*ctx.saved_tensors, cotangent, wanted))
        return tuple([next(gradients) if needed else None for needed in wanted])

    # --- its gradient: those of the inputs that are wanted

    def _run_gradient(self, *inputs: HostValue) -> list[torch.Tensor]:
        *tensors, cotangent, wanted = inputs
        tensors = [t.detach() for t in tensors]
        gradients = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in tensors]
        pairs = [DiffPair(t, g) if w else t for t, g, w in zip(tensors, gradients, wanted, strict=True)]
        moved = cotangent.detach().contiguous()
        self._function.bwds(**self._arguments(pairs), _result=DiffPair(moved, moved))
        return [g for g, w in zip(gradients, wanted, strict=True) if w]

    def _fake_gradient(self, *inputs: HostValue) -> list[torch.Tensor]:
        *tensors, _, wanted = inputs
        return [
            torch.empty_like(t, memory_format=torch.contiguous_format)
            for t, w in zip(tensors, wanted, strict=True)
            if w
        ]

    @staticmethod
    def _remember_gradient(ctx: Context, inputs: tuple[HostValue, ...], output: Tensors) -> None:
        *tensors, wanted = inputs
        ctx.wanted = wanted
        ctx.save_for_backward(*tensors)

    def _backward_gradient(self, ctx: Context, moved: Tensors) -> tuple[torch.Tensor | None, ...]:
        """By the calls of autograd, at tensors with their history, so that further derivatives follow."""
        *tensors, cotangent = [
            t if t.requires_grad or not t.is_floating_point() else t.detach().requires_grad_()
            for t in ctx.saved_tensors
        ]
        is_followed = torch.is_grad_enabled()
        with torch.enable_grad():
            value = self._function(**self._arguments(tensors))
            wanted = [t for t, w in zip(tensors, ctx.wanted, strict=True) if w]
            gradients = torch.autograd.grad(value, wanted, cotangent, create_graph=True)
            followed = [(g, m) for g, m in zip(gradients, moved, strict=True) if g.requires_grad]
            points = [t for t in (*tensors, cotangent) if t.requires_grad]
            second = iter(
                torch.autograd.grad(
                    [g for g, _ in followed],
                    points,
                    [m for _, m in followed],
                    create_graph=is_followed,
                    allow_unused=True,
                )
                if followed
                else [None] * len(points)
            )
        return (*[next(second) if t.requires_grad else None for t in (*tensors, cotangent)], None)


def _unfilled(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of the same layout. Sizes that torch.compile leaves open become those of now."""
    sizes, strides = ([int(n) for n in numbers] for numbers in (tensor.shape, tensor.stride()))
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
