"""The gradients of a tensor: tensors of the same shape, whose element type is the derivative of its own.

x = Tensor.zeros(device, (4,), "float3").with_grads()
x.grad_out     kernels that read `x` add to it        x.grad_in     kernels that write `x` read it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from slangrad.ir.data.types import Type
from slangrad.tensors.elements.element_types import derivative_type, holds_structs, slang_name
from slangrad.tensors.elements.element_types import element_type as find_element_type
from slangrad.tensors.strided import StridedView

if TYPE_CHECKING:
    from slangrad.tensors.tensor import Tensor


class HasGradients(StridedView):
    """A strided view with two gradients, each of which may be missing; both may be the same tensor."""

    __slots__ = ("_grad_in", "_grad_out")
    changes = 0  # how often a tensor got other memory, or other gradients
    _grad_in: Tensor | None
    _grad_out: Tensor | None

    @property
    def grad_in(self) -> Tensor | None:
        """The gradient that a kernel reads if it writes this tensor."""
        return self._grad_in

    @grad_in.setter
    def grad_in(self, grad: Tensor | None) -> None:
        self._check_gradient(grad, "grad_in", "input")
        if grad is not None and not self.writable:
            raise ValueError(
                "grad_in: Supplying input gradients is only allowed if the primal tensor is writable: "
                "it needs the usage unordered_access"
            )
        self._grad_in = grad
        HasGradients.changes += 1

    @property
    def grad_out(self) -> Tensor | None:
        """The gradient to which a kernel adds if it reads this tensor."""
        return self._grad_out

    @grad_out.setter
    def grad_out(self, grad: Tensor | None) -> None:
        self._check_gradient(grad, "grad_out", "output")
        if grad is not None and grad.storage.frozen:
            raise ValueError(
                "grad_out: gradients are added here, and the memory belongs to a read-only array"
            )
        self._grad_out = grad
        HasGradients.changes += 1

    @property
    def grad(self) -> Tensor:
        """`grad_out`. RuntimeError if there is none."""
        if self._grad_out is None:
            raise RuntimeError("Tensor has no grad. Attach one with tensor = tensor.with_grads()")
        return self._grad_out

    def _derivative(self) -> tuple[Type | None, object]:
        """The type of gradients. Types of a module have their own; a struct without one gives None."""
        declared = getattr(self._dtype, "derivative", None)
        if declared is not None:
            return find_element_type(declared), declared
        return derivative_type(self.element_type), None

    def _check_gradient(self, grad: object, argument: str, which: str) -> None:
        if grad is None:
            return
        grad, name = checked(grad, argument), slang_name(self.element_type)
        expected, _ = self._derivative()
        if expected is None and not holds_structs(self.element_type):
            raise ValueError(f"{argument}: No derivative type found for {name}")
        if expected is not None and grad.element_type is not expected:
            raise ValueError(
                f"{argument}: Invalid element type of {which} gradient for tensor of type {name}: "
                f"Expected {slang_name(expected)}, received {slang_name(grad.element_type)}"
            )
        if grad.storage.runtime is not self.storage.runtime:
            raise ValueError(f"{argument}: the {which} gradient lies on another device than the tensor")
        if grad.shape != self.shape:
            raise ValueError(f"{argument}: shape {grad.shape} does not match the tensor's shape {self.shape}")


def checked(tensor: object, argument: str) -> Tensor:
    """An argument that has to be a Tensor. TypeError for others."""
    if not isinstance(tensor, HasGradients):
        raise TypeError(f"{argument}: expected a Tensor, not {type(tensor).__name__}")
    return cast("Tensor", tensor)
