"""Calls that are given without being made, for `Module.compile_all`.

partial(module.loss.bwds, x, w)   ->   what asks for the kernel of that call
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.api.functional.function import Function
from slangrad.base.late import Late
from slangrad.call.compiling.together import compile_together as compile_together
from slangrad.marshal.errors import CallError

KERNEL, SHADER = Late("slangrad.api.kernels.kernel"), Late("slangrad.api.kernels.shader")


def prepared(given: object) -> Callable[[], object]:
    """CallError (E1015) for what is no call."""
    if isinstance(given, partial):
        called, args, kwargs = given.func, given.args, given.keywords
        if isinstance(called, Function):
            return lambda: called.kernel_of(*args, **kwargs)
        owner = getattr(called, "__self__", None)
        if isinstance(owner, Function) and getattr(called, "__func__", None) is Function.dispatch:
            return owner.dispatched_kernel
    elif isinstance(given, SHADER.ShaderProgram):
        return lambda: KERNEL.ComputePipeline(given)
    kind = type(given.func if isinstance(given, partial) else given).__name__
    note = "a call is functools.partial(module.f, x, y), or a program of link_program()"
    raise CallError("E1015", f"compile_all: {kind} is no call of a function", (), note)
