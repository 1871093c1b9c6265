"""Arguments for an example call, made up from the types of a function's parameters.

    void f(int i, float a, IDiffTensor<float, 2> w)    ->    i: grid((4,)), a: Tensor (4,), w: Tensor (4, 4)

Numbers and structs become a tensor of four, so the function is called four times; integers beside whole
tensors are taken for indices. Values do not matter: the call is compiled and does not run.
"""

from __future__ import annotations

from typing import Any

import slangrad
from slangrad import Function, SlangType, Tensor

SIZE = 4
INDICES = ("int", "uint", "vector<int", "vector<uint")


def example_arguments(function: Function, mode: str, uniform: list[str]) -> dict[str, Any]:
    """Arguments by name; parameters named in `uniform` get one value for all calls."""
    device = function.module.device
    parameters = function.parameters
    unknown = set(uniform) - {each.name for each in parameters}
    if unknown:
        raise ValueError(f"error: '{function.name}' has no parameter '{min(unknown)}'")
    indexed = any(tensor_rank(each.type) is not None for each in parameters)
    made: dict[str, Any] = {}
    for each in parameters:
        if each.name in uniform:
            made[each.name] = one_value(each.type)
        elif indexed and is_index(each.type):
            made[each.name] = slangrad.grid((SIZE,) * max(len(each.type.shape), 1, sum(each.type.shape)))
        else:
            made[each.name] = many_values(device, each.type, mode, each.direction == "inout")
    if mode == "bwds" and function.result is not None and function.result.differentiable:
        made["_result"] = with_gradients(Tensor.zeros(device, (SIZE,), function.result))
    return made


def one_value(kind: SlangType) -> Any:
    """A number, or numbers in lists; fields by name."""
    if kind.shape:
        return [one_value(kind.element_type)] * kind.shape[0]
    if kind.fields:
        return {name: one_value(field.type) for name, field in kind.fields.items()}
    return 1


def many_values(device: Any, kind: SlangType, mode: str, separate: bool) -> Any:
    """A tensor of elements of this type, or a whole tensor or buffer for a parameter that takes one."""
    rank = tensor_rank(kind)
    if rank is not None:
        tensor = Tensor.zeros(device, (SIZE,) * rank, element_of(kind))
        gradients = "Diff" in kind.base_name and not (kind.base_name.startswith("I") and mode != "bwds")
        return with_gradients(tensor, "RW" in kind.base_name) if gradients else tensor
    if kind.base_name.endswith("Buffer"):
        return Tensor.zeros(device, (SIZE,), element_of(kind)).storage
    if kind.ir_type is None and kind.fields:
        return {name: many_values(device, field.type, mode, separate) for name, field in kind.fields.items()}
    if kind.ir_type is None:
        raise ValueError(
            f"error: a value of type '{kind}' cannot be made up: name an instance, such as 'f<float>'"
        )
    tensor = Tensor.zeros(device, (SIZE,), kind)
    return with_gradients(tensor, separate) if mode != "call" and kind.differentiable else tensor


def with_gradients(tensor: Tensor, separate: bool = False) -> Tensor:
    """What is read and written needs a gradient that comes in and another one that goes out."""
    made = tensor.with_grads()
    return made.with_grads(grad_in=made.grad, grad_out=Tensor.zeros_like(made.grad)) if separate else made


def tensor_rank(kind: SlangType) -> int | None:
    """The number of dimensions of a parameter that takes a whole tensor."""
    if not kind.base_name.endswith("Tensor") or len(kind.arguments) != 2:
        return None
    rank = kind.arguments[1]
    return rank if isinstance(rank, int) else 1


def element_of(kind: SlangType) -> Any:
    """The element type of a tensor or buffer; float where it is generic, bytes where there is none."""
    element = kind.arguments[0] if kind.arguments else "uint8_t"
    return "float" if isinstance(element, SlangType) and element.ir_type is None else element


def is_index(kind: SlangType) -> bool:
    return kind.name.startswith(INDICES)
