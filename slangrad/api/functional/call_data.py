"""The parts of a call: the text of its kernel, its shape, and the type of each argument.

    data = module.polynomial.debug_build_call_data(2.0, 8.0, -1.0, x)
    print(data.code)
    data.call_shape, data.bindings.args[3].vector_type, data.bindings.args[3].vector_mapping

Nothing runs until `data.call(...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from slangrad.call.binding.bind import BoundArgument
from slangrad.call.binding.call_request import RESULT
from slangrad.call.caller import InspectedCall
from slangrad.call.plans.packing import Compiled
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.nodes import BoundNode, Composite
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT
from slangrad.marshal.reflection.slang_type import SlangType
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.shape import Shape

if TYPE_CHECKING:
    from slangrad.api.functional.function import Function
    from slangrad.api.reflection.slang_layout import SlangProgramLayout
    from slangrad.pipeline import CompiledKernel
    from slangrad.runtime.device import Kernel


class CallMode(Enum):
    """Which derivative a call computes; `hvp` is of gradients."""

    prim = 0
    bwds = 1
    fwds = 2
    hvp = 3


MODES = {PRIMAL: CallMode.prim, BACKWARD: CallMode.bwds, TANGENT: CallMode.fwds, HIGHER: CallMode.hvp}


class AccessType(Enum):
    """The access of a call to a value or to its derivative."""

    none = 0
    read = 1
    write = 2
    readwrite = 3


NOT_KNOWN = Shape(None)


def _access(reads: bool, writes: bool) -> AccessType:
    return AccessType(int(reads) + 2 * int(writes))


@dataclass(eq=False, repr=False)
class BoundVariable:
    """A value of a call, or a part of one in a dict or list. Before the function is chosen, only `vector_type` and
    `python` are known.

    `vector_type`: its type in the function. `call_dimensionality` and `vector_mapping`: the number of its
    dimensions, and the call dimension of each. `access`: that to it and to its derivative. `python`: the Marshall
    of a user's class.
    """

    vector_type: SlangType
    python: object = None
    name: str = ""
    variable_name: str = ""
    path: str = ""
    param_index: int = -1
    described: str = ""
    access: tuple[AccessType, AccessType] = (AccessType.none, AccessType.none)
    differentiable: bool = False
    vector_mapping: Shape = NOT_KNOWN
    explicitly_vectorized: bool = False
    call_dimensionality: int = 0
    direct_bind: bool = False
    calldata_type_name: str = ""
    children: dict[str, BoundVariable] | None = None

    @staticmethod
    def of(
        node: BoundNode, name: str, path: str, layout: SlangProgramLayout, index: int = -1
    ) -> BoundVariable:
        role, mapping = node.role, Shape(_mapping(node))
        is_explicit = node.has_dimensions and node.explicit is not None
        children = None
        if isinstance(node, Composite):
            parts = [(str(part.key), f"{path}{part.access}", part.node) for part in node.parts]
            children = {key: BoundVariable.of(part, key, place, layout) for key, place, part in parts}
        return BoundVariable(
            layout.type_of(node.type),
            name=name,
            variable_name=node.name,
            path=path,
            param_index=index,
            described=node.described,
            access=(_access(role.reads, role.writes), _access(role.takes, bool(role.gives))),
            differentiable=role.differentiates,
            vector_mapping=mapping,
            explicitly_vectorized=is_explicit,
            call_dimensionality=max(mapping, default=-1) + 1 if is_explicit else node.dims,
            children=children,
        )

    def __repr__(self) -> str:
        dims = f"{self.call_dimensionality} dimensions to {self.vector_mapping}"
        return f"BoundVariable({self.path}: {self.described} as {self.vector_type.full_name}, {dims})"

    @property
    def transform(self) -> Shape:
        return self.vector_mapping

    def gen_calldata_type_name(self, cgb: object, type_name: str) -> None:
        """Set the type of the value in the kernel."""
        self.calldata_type_name = type_name

    def get_input_list(self, args: list[BoundVariable]) -> list[BoundVariable]:
        """Append itself, or its parts."""
        if not self.children:
            args.append(self)
        for child in (self.children or {}).values():
            child.get_input_list(args)
        return args


def _mapping(node: BoundNode) -> tuple[int, ...]:
    """The mapping of the part with the most dimensions."""
    return max((leaf.mapping for _, leaf in node.leaves()), key=len, default=())


class BoundCall:
    """The values of a call: those by position, and those by name, the result among them.

    One that is made of values has these only: `resolve_function` finds the types as which a function sees them.
    """

    def __init__(self, context: object, *args: object, **kwargs: object) -> None:
        self.context = context
        self.values = args
        self.named_values = kwargs
        self.args: list[BoundVariable] = []
        self.kwargs: dict[str, BoundVariable] = {}

    @staticmethod
    def of(call: InspectedCall, layout: SlangProgramLayout) -> BoundCall:
        """The values of a call whose function is known."""
        bound = BoundCall(None, *call.values[: call.positional])
        bound._bind(call, layout)
        return bound

    def _bind(self, call: InspectedCall, layout: SlangProgramLayout) -> None:
        positional = call.positional
        places: dict[int, tuple[int, BoundArgument]] = {
            argument.index: (i, argument) for i, argument in enumerate(call.bound.arguments)
        }
        parameters = call.bound.function.parameters

        def shown(index: int, name: str) -> BoundVariable:
            i, argument = places[index]
            return BoundVariable.of(argument.node, name, name, layout, i)

        self.args = [shown(i, parameters[places[i][0]].name) for i in range(positional) if i in places]
        self.kwargs = {name: shown(i, name) for i, name in enumerate(call.names, positional)}
        if call.bound.result is not None:
            self.kwargs[RESULT] = BoundVariable.of(call.bound.result, RESULT, RESULT, layout)

    def __repr__(self) -> str:
        return f"BoundCall({', '.join(map(repr, (*self.args, *self.kwargs.values())))})"


BoundVariableRuntime, BoundCallRuntime = BoundVariable, BoundCall  # one class serves both


class NativeCallRuntimeOptions:
    """Values outside of functions for `CallData.call`: dicts by name."""

    def __init__(self) -> None:
        self.uniforms: list[object] = []


class CallData:
    """A call with its kernel. Calls of one function whose arguments are of the same kinds are equal."""

    def __init__(self, function: Function, inspected: InspectedCall) -> None:
        self.function = function
        self._plan = inspected.plan
        self._compiled: Compiled = inspected.plan.compile(list(inspected.values), inspected.threads)
        self.call_shape = Shape(inspected.plan.shape_of(list(inspected.values)))
        self.last_call_shape = self.call_shape
        self.call_mode = MODES[inspected.bound.mode]
        self.call_dimensionality: int = inspected.bound.call_dims
        self.call_group_shape = inspected.bound.group or None
        self.bindings = BoundCall.of(inspected, function.module.layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallData) and other._plan is self._plan

    def __hash__(self) -> int:
        return hash(id(self._plan))

    def __repr__(self) -> str:
        return f"CallData({self.function.name}, {self.call_mode.name}, call_shape={self.call_shape})"

    @property
    def debug_name(self) -> str:
        return f"{self.function.module.name}::{self.function.name}"

    @property
    def debug_only_bindings(self) -> BoundCall:
        return self.bindings

    @property
    def code(self) -> str:
        """The text of the kernel, in Slang."""
        return self._compiled.text

    @property
    def pipeline(self) -> Kernel:
        """The pipeline of the launch; calls whose kernels have the same text share it."""
        return self._compiled.kernel

    @property
    def stages(self) -> CompiledKernel:
        """The compiled kernel, as from `Function.compile`."""
        return self._compiled.stages

    def call(
        self, options: NativeCallRuntimeOptions | None = None, *args: object, **kwargs: object
    ) -> HostValue:
        """Run the function over arguments of the same kinds, and return its result."""
        function = self.function
        if not isinstance(options, (NativeCallRuntimeOptions, type(None))):
            raise CallError(
                "E1015", "CallData.call: the first argument is a NativeCallRuntimeOptions or None"
            )
        data = function.debug_build_call_data(*args, **kwargs)
        if data != self:
            raise CallError(
                "E1015", f"{self!r} is called with arguments of other kinds", (), "call the function"
            )
        self.last_call_shape = data.call_shape
        for values in options.uniforms if options is not None else ():
            function = function.set(values)
        return function(*args, **kwargs)
