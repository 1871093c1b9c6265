"""Calls that are described but not made, for `Module.compile_all`.

partial(module.loss.bwds, x, w)   ->   a function that makes the kernel of that call
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.api.functional.function import Function
from slangrad.base.lazy import LazyModule
from slangrad.call.compiling.together import compile_together as compile_together
from slangrad.call.compiling.together import worker_ahead as worker_ahead
from slangrad.marshal.errors import CallError

PIPELINE = LazyModule("slangrad.api.kernels.pipeline")
SHADER = LazyModule("slangrad.api.kernels.shader")


def prepared(call: object) -> Callable[[], object]:
    """CallError (E1015) for other objects than calls."""
    if isinstance(call, partial):
        called, args, kwargs = call.func, call.args, call.keywords
        if isinstance(called, Function):
            return lambda: called.kernel_of(*args, **kwargs)
        owner = getattr(called, "__self__", None)
        if isinstance(owner, Function) and getattr(called, "__func__", None) is Function.dispatch:
            return owner.dispatched_kernel
    elif isinstance(call, SHADER.ShaderProgram):
        return lambda: PIPELINE.ComputePipeline(call)
    kind = type(call.func if isinstance(call, partial) else call).__name__
    note = "a call is functools.partial(module.f, x, y), or a program of link_program()"
    raise CallError("E1015", f"compile_all: {kind} is no call of a function", (), note)
