"""Functions: immutable; `map`, `set`, `bwds` and the like return changed copies.

module.polynomial(a=2, b=8, c=-1, x=x)              calls
module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
module.polynomial.map(x=(0,)).return_type(Tensor)(2, 8, -1, x)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, Self

from slangrad.base.lazy import LazyModule
from slangrad.base.process.unique import Unique
from slangrad.call.binding.call_request import (
    APPEND,
    RESULT,
    CallSettings,
    GlobalSource,
    Tree,
    gathered,
    merge,
    settings_key,
)
from slangrad.call.binding.launchable import Launchable
from slangrad.call.caller import AnswersCalls, Caller
from slangrad.call.plans.packing import Compiled
from slangrad.call.repeated import RenewedCaller, RepeatedCall, SameCall
from slangrad.marshal.composed import results
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.roles import BACKWARD, PRIMAL, TANGENT
from slangrad.marshal.reflection.slang_type import SlangType
from slangrad.marshal.registry import launched_argument, unwrap
from slangrad.missing_names import missing
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.shape import as_integers

if TYPE_CHECKING:
    from slangrad.api.functional import call_data as CALL_DATA
    from slangrad.api.functional import dispatch as DISPATCH
    from slangrad.api.functional.module import Module
    from slangrad.api.functional.struct import Struct
    from slangrad.api.kernels import commands as COMMANDS
    from slangrad.api.kernels import shader_cursor as CURSOR
    from slangrad.api.kernels.commands import CommandEncoder
    from slangrad.api.kernels.kernel import ComputeKernel
    from slangrad.api.kernels.shader import TypeConformance
    from slangrad.api.reflection import slang_layout as LAYOUT
    from slangrad.marshal.reflection.slang_type import SlangParameter
    from slangrad.pipeline import CompiledKernel
else:
    DISPATCH = LazyModule("slangrad.api.functional.dispatch")
    CURSOR = LazyModule("slangrad.api.kernels.shader_cursor")
    COMMANDS = LazyModule("slangrad.api.kernels.commands")
    LAYOUT = LazyModule("slangrad.api.reflection.slang_layout")
    CALL_DATA = LazyModule("slangrad.api.functional.call_data")

DESCRIBE = LazyModule("slangrad.api.functional.describe")
TORCH_OP = LazyModule("slangrad.call.pytorch.torch_op")
MOST_IN_GROUP = 1024
# fmt: off
_MEANT = {  # names of other libraries
    "backward": "bwds(...) adds gradients up, slangrad.grad(f) returns them",
    "forward":  "f(...) calls it, f.fwds(...) carries tangents along",
    "grad":     "slangrad.grad(f) is the function that returns gradients",
    "jvp":      "slangrad.jvp(f, primals, tangents)",
    "vjp":      "slangrad.vjp(f, *primals)",
    "hvp":      "slangrad.hvp(f, primals, tangents)",
}
# fmt: on
Ask = Callable[[Any], str]  # of an object of the class


class OwnText(str):
    """An attribute with one text for a class and another for each of its objects, which `ask` returns:
    `__doc__`."""

    ask: Ask

    def __new__(cls, text: str | None, ask: Ask) -> Self:
        for_class = super().__new__(cls, text or "")
        for_class.ask = ask
        return for_class

    def __get__(self, instance: object, owner: type | None = None) -> str:
        return self if instance is None else self.ask(instance)


class Function(Unique):
    """The functions of one name in a module (overloads together), with the settings of their calls. `map`, `set`,
    `return_type` and so on return changed copies."""

    # fmt: off
    __slots__ = ("__weakref__", "_backward", "_bound", "_calls", "_group", "_kernel", "_modes", "_same", "_settings",
                 "_tangent", "module", "name", "struct")
    # fmt: on

    def __init__(
        self,
        module: Module,
        name: str,
        calls: RenewedCaller,
        struct: Struct | None = None,
        settings: CallSettings | None = None,
    ) -> None:
        self.module = module
        self.name = name
        self.struct = struct
        self._calls = calls
        chosen = settings or CallSettings()
        self._settings = replace(chosen, key=settings_key(chosen))
        self._backward: Function | None = None
        self._tangent: Function | None = None
        self._modes: dict[tuple[str, int], Function] = {}
        self._bound: tuple[HostValue, ...] = ()  # `this` of the method of one object
        self._group: tuple[int, int, int] | None = None
        self._kernel: ComputeKernel | None = None
        self._same = SameCall()

    def __call__(self, /, *args: HostValue, **kwargs: HostValue) -> HostValue:
        """Call it: once for each element of the arguments, after broadcasting.

        Arguments are in the order of the parameters or by their names; methods take `this` first. `_result` is a
        Tensor or array of the call's shape to fill, or the kind of a new one: "tensor", "numpy", "torch".
        `_append_to` is an encoder that records the call. Gives a number, host vector or dict if the call has no
        dimensions, a Tensor if it has some, and a torch tensor if an argument is one. Gives None if the function
        returns void or `_result` is filled.

        Raises BoundVariableException (E1001), ResolveException (E1002 to E1004) and CallError (E1005 and others)
        where the arguments do not fit, and CallCompileError where the kernel is refused. Reports of the kernel are
        BoundsError, KernelAssertionError, MemoryError and others.

        An argument of a class with `__slangrad_call__(self, function, args, kwargs)` answers the call in its place.
        """
        if kwargs and APPEND in kwargs:
            encoder = kwargs.pop(APPEND)
            if encoder is not None:
                return self.append_to(encoder, *args, **kwargs)
        caller = self._calls.now
        if caller.generation.expired:
            caller = self._calls.renewed()
        result = kwargs.get(RESULT) if kwargs else None
        is_plain = len(kwargs) == (result is not None) and not self._bound
        if is_plain and self._same.prepared is not None:
            ready = self._same.ready(caller, args, result)
            if ready is not None:
                ready.run()
                return result if ready.returns else None
        try:
            returned = caller.call(self._settings, self._bound + args, kwargs)
            if is_plain and (returned is None or returned is result):  # nothing was made
                self._same.follow(caller, self._settings, args, result)
            return returned
        except AnswersCalls as answer:
            return answer.value.__slangrad_call__(self, args, kwargs)

    call = __call__

    @property
    def _caller(self) -> Caller:
        return self._calls.current()

    def append_to(self, /, command_encoder: COMMANDS.CommandEncoder, *args: object, **kwargs: object) -> None:
        """Record the call: it is checked and compiled now, and runs when the commands are submitted."""
        caller = self._caller
        COMMANDS.check_encoder(command_encoder, caller.session.device, f"function '{self.name}'")
        command_encoder.record(caller.later(self._settings, self._bound + args, kwargs))

    def compile(self, /, *args: object, **kwargs: object) -> CompiledKernel:
        """The compilation of a call's kernel, which is not run: stages, times, reports."""
        return self.kernel_of(*args, **kwargs).stages

    def kernel_of(self, /, *args: object, **kwargs: object) -> Compiled:
        """Compile the kernel of a call, without running it."""
        return self._caller.compile(self._settings, self._bound + args, kwargs)

    def unfilled_result(self, /, *args: object, **kwargs: object) -> HostValue:
        """The result that a call of these arguments would make: new memory, which nothing has filled. The kernel is
        compiled, and not run. None for a call that makes none."""
        return self._caller.unfilled_result(self._settings, self._bound + args, kwargs)

    def torch_op(self, **constants: object) -> HostValue:
        """The function as an operator of PyTorch, which `torch.compile` takes into its graph without a break.

        `constants` are values of parameters by name. The operator takes a torch tensor for each other parameter, by
        position, and returns one. Autograd follows it: gradients of any order, and one in compiled code. CallError
        (E1007) for a function without a result, one that writes a parameter, and names that are no parameters.
        """
        operator: HostValue = TORCH_OP.torch_op(self, constants)
        return operator

    def debug_build_call_data(self, /, *args: object, **kwargs: object) -> CALL_DATA.CallData:
        """A description of the call of these arguments: the text of its kernel, its shape, the type of each
        argument. The kernel is compiled, and not run.
        """
        return CALL_DATA.CallData(self, self._caller.inspected(self._settings, self._bound + args, kwargs))

    @property
    def parameters(self) -> tuple[SlangParameter, ...]:
        """The parameters, `this` of methods first; of the first overload where there are several."""
        return LAYOUT.parameters_of(self._caller.candidates[0], self.module.layout)

    @property
    def result(self) -> SlangType | None:
        """The type of the result, None without one; of the first overload where there are several."""
        result = self._caller.candidates[0].result
        return None if result is None else self.module.layout.type_of(result)

    @property
    def slang_function(self) -> LAYOUT.SlangFunction:
        """The reflection of the functions of the name."""
        layout = self.module.layout
        if self.struct is None:
            return layout.require_function_by_name(self.name)
        return layout.require_function_by_name_in_type(self.struct, self.name)

    _slang_func = slang_function  # SlangPy's name

    def as_func(self) -> Function:
        """Itself: tells type checkers that the name is a function."""
        return self

    def as_struct(self) -> Struct:
        """ValueError: a function is no type."""
        raise ValueError(f"Cannot convert function '{self.name}' to a type")

    def __repr__(self) -> str:
        line: str = DESCRIBE.line_of(self)
        return line

    def __str__(self) -> str:
        return "\n".join(map(str, self._caller.candidates))

    def _with(self, **changes: HostValue) -> Function:
        return self._copy(self.module, self._calls, self.struct, replace(self._settings, **changes))

    def _copy(
        self, module: Module, calls: RenewedCaller, struct: Struct | None, settings: CallSettings
    ) -> Function:
        function = Function(module, self.name, calls, struct, settings)
        function._group, function._bound = self._group, self._bound
        return function

    def map(self, /, *args: HostValue, **kwargs: HostValue) -> Function:
        """Set the call dimensions of an argument's dimensions, or the type of its elements.

        Each parameter, by position or name, gets a tuple with the call dimension of each dimension of the argument,
        `map(x=(1, 0))`, or a type or its name, `map(x="float3")`. None matches dimensions from the right. A dict
        has entries for the fields of a dict. A call raises CallError (E1009) where the argument has other
        dimensions.
        """
        return self._with(map_positional=args, map_named=kwargs)

    def set(self, /, *args: object, **kwargs: object) -> Function:
        """Values outside of functions: by name, as a dict, or a callable that returns a dict, run in each call.
        CallError (E1013) for anything else.
        """
        if args and kwargs:
            raise CallError("E1013", "Set accepts either positional or keyword arguments, not both")
        if len(args) > 1 or not (args or kwargs):
            raise CallError("E1013", "Set requires one dict or callable, or keyword arguments")
        values = args[0] if args else kwargs
        if not isinstance(values, Mapping) and not callable(values):
            kind = type(values).__name__
            raise CallError("E1013", f"Set requires a dict, a callable or keyword arguments, not {kind}")
        return self._setting(values if isinstance(values, Mapping) else self._asking(values))

    def write(self, fn: Callable[..., object], *args: object, **kwargs: object) -> Function:
        """Run `fn(cursor, *args, **kwargs)` in each call, which writes values outside of functions to a cursor.
        CallError (E1013) for what cannot be called.
        """
        if not callable(fn):
            raise CallError("E1013", f"write requires a callable, not {type(fn).__name__}")

        def written() -> Tree:
            tree: Tree = {}
            place = CURSOR.GlobalsPlace(self.module.types, tree)
            fn(CURSOR.GlobalsCursor(place), *args, **kwargs)
            return tree

        return self._setting(written)

    def _setting(self, source: GlobalSource) -> Function:
        return self._with(sources=(*self._settings.sources, source))

    def _asking(self, ask: Callable[..., Mapping[str, object]]) -> GlobalSource:
        """A callable without parameters; one that has a parameter gets the function."""
        try:
            signature(ask).bind()
        except TypeError:
            return lambda: ask(self)
        except ValueError:  # a callable without a signature
            pass
        return ask

    def constants(self, values: Mapping[str, object]) -> Function:
        """Values for constants that the module leaves open: `extern static const int N;`."""
        return self._in(self.module.with_constants(values))

    def prelude(self, code: str) -> Function:
        """The function with Slang text beside its module's, for example types and values that the module leaves
        open."""
        return self._in(self.module.with_prelude(code))

    def _in(self, module: Module) -> Function:
        """The function of the same name in another module."""
        owner = None if self.struct is None else module.require_struct(self.struct.name)
        function = (module if owner is None else owner).require_function(self.name)
        return self._copy(module, function._calls, owner, self._settings)

    def type_conformances(self, conformances: Sequence[TypeConformance | tuple[object, ...]]) -> Function:
        """Set which types the values of interface types from outside can have, and their ids."""
        return self._with(
            conformances=DISPATCH.named_conformances((*self._settings.conformances, *conformances))
        )

    def thread_group_size(self, size: HostValue) -> Function:
        """Threads of a group in x, y and z, for `dispatch`. CallError (E1014) unless these are positive and 1024 in
        all at most.
        """
        x, y, z = map(int, size)
        if min(x, y, z) < 1 or x * y * z > MOST_IN_GROUP:
            raise CallError("E1014", f"thread_group_size: {[x, y, z]} must be positive, 1024 in all at most")
        function = self._with()
        function._group = (x, y, z)
        return function

    def call_group_shape(self, shape: object) -> Function:
        """Make calls in groups of this shape: the last dimensions of the call, at most 1024 calls together. CallError
        (E1014) for other sizes.
        """
        sizes = as_integers(shape, "call_group_shape")
        for dimension, size in enumerate(sizes):
            if size < 1:
                message = f"call_group_shape[{dimension}] = {size} is no size: all must be >= 1"
                raise CallError("E1014", message)
        if prod(sizes) > MOST_IN_GROUP:
            message = (
                f"call_group_shape {list(sizes)} has {prod(sizes)} calls, and a group at most {MOST_IN_GROUP}"
            )
            raise CallError("E1014", message)
        return self._with(group=sizes)

    def lanes(self, count: int) -> Function:
        """Compile the kernels of calls for `count` SIMD lanes, a power of two up to 64, instead of the compiler's
        choice. More lanes help where a loop's steps wait for each other, fewer where values must stay in registers.
        Kernels that use waves keep the lanes of the wave. ValueError for another number."""
        if count not in (1, 2, 4, 8, 16, 32, 64):
            raise ValueError(f"lanes: a power of two up to 64, not {count!r}")
        return self._with(lanes=count)

    def dispatch(
        self,
        /,
        thread_count: object,
        vars: Mapping[str, object] | None = None,
        command_encoder: CommandEncoder | None = None,
        **parameters: object,
    ) -> None:
        """Launch the function over `thread_count` threads in x, y and z, rounded up to whole groups; its first
        parameter is `uint3 dispatchThreadID`. `vars` are values outside of functions, `parameters` the other
        parameters by name; with an encoder it runs later. CallError (E1017, E1018) for unknown names and missing
        values."""
        kernel = self.dispatched_kernel()
        values = gathered(self._settings.sources)
        merge(values, vars or {})
        dispatched = {name: self._dispatched(value) for name, value in parameters.items()}
        kernel.dispatch(thread_count, values, command_encoder, **dispatched)

    def dispatched_kernel(self) -> ComputeKernel:
        """What `dispatch` launches."""
        caller = self._caller
        if self._kernel is None or self._kernel.generation is not caller.generation:
            module = self.module.device_module
            self._kernel = DISPATCH.make_kernel(
                module, self.name, caller.candidates, self._group, self._settings.conformances
            )
        return self._kernel

    def __getattr__(self, name: str) -> Any:  # as functions of Python have it
        if name in ("__name__", "__qualname__"):
            owner = "" if self.struct is None or name == "__name__" else f"{self.struct.name}."
            return f"{owner}{self.name}"
        if name == "__signature__":
            return DESCRIBE.signature_of(self, bool(self._bound))
        meant = _MEANT.get(name)
        if meant is not None:
            raise AttributeError(f"a function has no attribute '{name}': {meant}")
        raise missing(
            "a function", name, (attribute for attribute in dir(Function) if not attribute.startswith("_"))
        )

    def _dispatched(self, value: object) -> object:
        """The argument of the kernel for a value, which may be a wrapper of another value."""
        return launched_argument(lambda: self.module.layout, unwrap(value, held=False))

    def return_type(self, kind: object) -> Function:
        """The type of results: Tensor, np.ndarray, "tensor", "numpy", "torch", or a class that is called with the
        result (its `from_result(module, result)` if it has one). CallError (E1011) for others."""
        results.kind_of(kind)
        return self._with(result=kind)

    def bind(self, this: object) -> Function:
        """The method of one object, or of many: `this` comes before the other arguments of each call."""
        method = self._with()
        method._bound = (this,)
        return method

    @property
    def bwds(self) -> Function:
        """The reverse-mode derivative. It takes the arguments of the call, and adds to their gradients: those of
        tensors with `with_grads()` and of `diffPair`s. The gradient of `_result` is the cotangent of the returned
        value; without `_result` it is one. ResolveException (E1002) where the function is not differentiable."""
        if self._backward is None:
            self._backward = self._with(mode=BACKWARD)
        return self._backward

    @property
    def fwds(self) -> Function:
        """The forward-mode derivative: tangents of inputs (`diffPair`, `grad_in` of tensors) to those of outputs
        (`grad_out`). Gives a `diffPair`, or a Tensor whose `grad` is the tangent."""
        if self._tangent is None:
            self._tangent = self._with(mode=TANGENT)
        return self._tangent

    # --- For derivatives as values (`transforms`)

    def with_mode(self, mode: str, order: int = 1) -> Function:
        """The function in a mode of calls, which is kept. In the mode `hvp` tangents of inputs are read from
        `grad_in`, and derivatives of that order, of the gradient in their direction, are added to `grad_out`."""
        if mode in (BACKWARD, TANGENT):
            return self.bwds if mode == BACKWARD else self.fwds
        if (mode, order) not in self._modes:
            self._modes[mode, order] = self._with(mode=mode, order=order)
        return self._modes[mode, order]

    def instead_of(self, index: int, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """How the parameter of an argument has to be declared for it to carry a derivative; empty where it can."""
        return self._caller.instead_of(self._settings, index, args, kwargs)

    @property
    def is_primal(self) -> bool:
        """Whether a call computes the function itself, and no derivative."""
        return self._settings.mode == PRIMAL

    @property
    def result_kind(self) -> str:
        """The setting of `return_type`: "tensor", "numpy" or None."""
        return results.kind_of(self._settings.result) or "" if self._settings.result is not None else ""

    def bound(self, /, *args: object, **kwargs: object) -> Launchable:
        """How the arguments of a call are bound; nothing is run."""
        return self._caller.bound(self._settings, self._bound + args, kwargs)

    def bind_call(self, /, *args: object, **kwargs: object) -> Callable[[], HostValue]:
        """The call as a function without arguments, which costs a launch. Its arguments are checked and its kernel
        is compiled now. The contents of tensors and arrays may change between runs, numbers stay the same. Raises
        as a call does.
        """
        return RepeatedCall(self._calls, self._settings, self._bound + args, kwargs)


# Editors and help() show the Slang function.
Function.__doc__ = OwnText(Function.__doc__, lambda function: DESCRIBE.documentation_of(function))
Function.__module__ = OwnText(Function.__module__, lambda function: function.module.name)
