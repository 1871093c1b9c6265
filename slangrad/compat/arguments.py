"""Users' Marshalls in a kernel: each is a parameter of its Slang type, loaded and stored by its methods.

    x: Noise to float   ->   uniform Noise x,     float x_loaded;  x.__slangpy_load(x_at, x_loaded);

    f.return_type(Film)(x)   fills what the `create_output` of Film's Marshall makes

Hooks of Marshalls are called when SlangPy calls them: for types when the function is chosen, for text when the kernel
is written, for data in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slangrad.api.functional.call_data import MODES, BoundVariable
from slangrad.api.kernels.uniforms import Uniforms
from slangrad.call.binding.module_index import reachable
from slangrad.check.model.types import Type
from slangrad.compat.marshall import BindContext, CallContext, CodeGen, CodeGenBlock, NativeMarshall
from slangrad.ir.data import types as ir
from slangrad.marshal.composed import results
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.host.encode import Encoder, memory_format
from slangrad.marshal.host.footprint import Footprint, Values
from slangrad.marshal.host.footprint import Shape as Sizes
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import Find, KernelParameter, Leaf, Scratch, Setter
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import PRIMAL
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.marshal.reflection.buffer_cursor import BufferCursor
from slangrad.marshal.simple.plain import refuse_writes
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.shape import Shape

if TYPE_CHECKING:
    from slangrad.api.reflection.slang_layout import SlangProgramLayout
    from slangrad.marshal.reflection.slang_type import SlangType


Factory = Callable[["SlangProgramLayout", HostValue], NativeMarshall]


class TaughtMarshal(Marshal):
    """A value of a class that has a Marshall, which is made for the module that is called."""

    def __init__(self, factory: Factory, value: object, described: str = "") -> None:
        self._factory = factory
        self._value = value
        self._checked_marshall: tuple[ProgramTypes, NativeMarshall] | None = None
        self.described = described or type(value).__name__

    def marshall(self, types: ProgramTypes) -> NativeMarshall:
        if self._checked_marshall is None or self._checked_marshall[0] is not types:
            marshall = self._hook("its Marshall", lambda: self._factory(types.program(), self._value))
            self._checked_marshall = types, self._checked(marshall)
        return self._checked_marshall[1]

    def _checked(self, marshall: object) -> NativeMarshall:
        if not isinstance(marshall, NativeMarshall):
            message = f"{self.described}: its factory in PYTHON_TYPES gave {marshall!r}, not a Marshall"
            raise BoundVariableException("E1001", message)
        if hasattr(marshall, "write_shader_cursor_pre_dispatch"):
            message = f"{marshall!r}: write_shader_cursor_pre_dispatch is never called"
            raise BoundVariableException("E1001", message, (), "create_calldata gives the kernel's value")
        return marshall

    def _hook(self, name: str, call: Callable[[], object]) -> HostValue:
        """The result of a hook; its exceptions name this argument."""
        try:
            return call()
        except CallError:
            raise
        except Exception as error:
            message = f"{self.described}: {name}: {type(error).__name__}: {error}"
            raise BoundVariableException("E1001", message) from error

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        marshall = self.marshall(types)
        layout: SlangProgramLayout = types.program()
        context = context_of(layout, mode)
        try:
            offered = marshall.resolve_types(context, layout.type_of(wanted))
        except (TypeError, ValueError, NotImplementedError):
            return
        for t in offered or ():
            dims = None if t is None or t.is_generic else self._dims(marshall, context, t)
            if dims is not None and dims >= 0:
                yield Way(t.checked, dims)

    def _dims(self, marshall: NativeMarshall, context: BindContext, seen: SlangType) -> int | None:
        if marshall.match_call_shape:
            return 0
        binding = BoundVariable(seen, marshall)
        hook = lambda: marshall.resolve_dimensionality(context, binding, seen)
        dims: int | None = self._hook("resolve_dimensionality", hook)
        return dims

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        marshall, layout = self.marshall(types), types.program()
        try:
            offered = marshall.resolve_types(context_of(layout, PRIMAL), layout.type_of(wanted))
        except (TypeError, ValueError, NotImplementedError) as error:
            return f"{marshall!r}: {error}"
        if not any(t is not None for t in offered or ()):
            return f"{marshall!r} offers no type for '{wanted}'"
        return f"{marshall!r} offers {', '.join(map(str, offered))} for '{wanted}'"

    def bind(self, way: Way, spot: Spot) -> TaughtLeaf:
        marshall = self.marshall(spot.types)
        if not marshall.is_writable:
            refuse_writes(spot, self.described)
        if spot.role.differentiates and marshall.has_derivative:
            message = f"argument '{spot.label}': a Marshall cannot pass derivatives: {marshall!r} says has_derivative"
            note = "pass a Tensor with gradients or diffPair(x), or teach the class with register_type"
            raise CallError("E1007", message, (), note)
        leaf = TaughtLeaf(
            **spot.node(way.type, spot.role.without_derivative(), self.described, way.dims),
            marshall=marshall,
            types=spot.types,
            mode=spot.mode,
        )
        leaf.prepare = CarriedValue
        if overrides(marshall, "read_calldata"):
            leaf.scratch = 8  # so that it is called after the launch
        return leaf


def overrides(marshall: NativeMarshall, name: str) -> bool:
    return getattr(type(marshall), name) is not getattr(NativeMarshall, name)


def context_of(layout: SlangProgramLayout, mode: str) -> BindContext:
    return BindContext(layout, MODES.get(mode, MODES[PRIMAL]), layout.device_module)


class CarriedValue:
    """A value of a call, with the data that the kernel gets for it."""

    __slots__ = ("calldata", "context", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self.calldata: HostValue = None
        self.context: CallContext | None = None


@dataclass(slots=True)
class MarshallText:
    """The parts of a kernel that a Marshall gives: the type of its parameter, and text."""

    type: Type
    binding: BoundVariable
    outside: list[str]
    load: list[str]
    store: list[str]


@dataclass(slots=True, eq=False, kw_only=True)
class TaughtLeaf(Leaf):
    """A value that its Marshall describes."""

    reads_place: ClassVar[bool] = True

    marshall: NativeMarshall
    types: ProgramTypes
    mode: str
    call_dims: int = 0
    written: MarshallText | None = None

    def settle(self, call_dims: int) -> None:
        self.rank = max(call_dims, 1)
        self.call_dims = call_dims

    # --- text ---

    @property
    def text(self) -> MarshallText:
        if self.written is None:
            self.written = self._write()
        return self.written

    @property
    def _along(self) -> Sizes:
        return tuple(range(self.call_dims)) if self.marshall.match_call_shape else self.mapping

    def _write(self) -> MarshallText:
        layout = self.types.program()
        context = context_of(layout, self.mode)
        context.call_dimensionality = self.call_dims
        binding = BoundVariable.of(self, self.label, self.label, layout)
        binding.python = self.marshall
        if self.marshall.match_call_shape:
            binding.vector_mapping, binding.call_dimensionality = Shape(self._along), self.call_dims
        binding.direct_bind = self.marshall.can_direct_bind(binding)
        gen = CodeGen()
        block = CodeGenBlock(gen)
        self.marshall.gen_calldata(block, context, binding)
        name = binding.calldata_type_name or gen.aliases.get(f"_t_{self.name}", f"_t_{self.name}")
        t = self.types.find(name)
        if t is None:
            message = f"argument '{self.label}': {self.marshall!r}: gen_calldata names the type '{name}', "
            note = "declare it in Slang, in the called module or one that it imports"
            raise BoundVariableException("E1001", f"{message}which the module does not know", (), note)
        load = self._statements(gen, binding, "load") if self.role.reads else []
        store = self._statements(gen, binding, "store") if self.role.writes else []
        self._check_imports(gen)
        aliases = [f"typealias {alias} = {kind};" for alias, kind in gen.aliases.items()]
        snippets = [line for snippet in gen.snippets.values() for line in snippet.splitlines()]
        return MarshallText(t, binding, [*aliases, *snippets, *block.lines], load, store)

    def _statements(self, gen: CodeGen, binding: BoundVariable, verb: str) -> list[str]:
        """How the value is loaded or stored."""
        value = f"{self.name}_loaded" if verb == "load" else f"{self.name}_stored"
        block = CodeGenBlock(gen)
        hook = getattr(self.marshall, f"gen_trampoline_{verb}")
        if hook(block, binding, self.name, value):
            return block.lines
        if binding.direct_bind and verb == "load":
            return [f"{value} = {self.name};"]
        return [f"{self.name}.__slangpy_{verb}({self.name}_at, {value});"]

    def _check_imports(self, gen: CodeGen) -> None:
        names = {_stem(module.name) for module in reachable(self.types.program().types.view.module)}
        for name in gen.imports:
            if _stem(name) not in names | {"slangpy"}:
                message = f"argument '{self.label}': {self.marshall!r} needs the module '{name}'"
                note = "the called module has to import it"
                raise BoundVariableException("E1001", message, (), note)

    def outside(self) -> list[str]:
        return self.text.outside

    def before(self, classes: str) -> list[str]:
        along = self._along
        kind, name = f"ContextND<{len(along)}>", self.name
        lines = []
        if any(f"{name}_at" in line for line in (*self.text.load, *self.text.store)):
            lines += [f"{kind} {name}_at;", f"{name}_at.thread_id = shape.number(id);"]
            lines += [f"{name}_at.call_id[{i}] = int(id.at[{k}]);" for i, k in enumerate(along)]
        if self.role.reads:
            lines.append(f"{spell_on_page(self.type)} {name}_loaded;")
        return [*lines, *self.text.load]

    def parameters(self, classes: str) -> list[KernelParameter]:
        return [KernelParameter(spell_on_page(self.text.type), self.name)]

    def load(self) -> str:
        return f"{self.name}_loaded"

    def store(self, value: str) -> str:
        declared = f"{spell_on_page(self.type)} {self.name}_stored = {value};"
        return " ".join(["{", declared, *map(str.strip, self.text.store), "}"])

    # --- in every call ---

    def _sizes(self, carried: CarriedValue) -> Sizes:
        shape = Shape(self.marshall.get_shape(carried.value))
        if len(shape) < self.dims:
            difference = f"gives the shape {shape}, and brings {self.dims} dimensions"
            message = f"argument '{self.label}': {self.marshall!r} {difference}"
            raise CallError("E1005", message, (), "get_shape has a size for each dimension")
        return tuple(shape[: self.dims])

    def layout_finder(self) -> Find:
        return self._sizes

    def footprint(self, value: HostValue) -> Footprint:
        return Footprint(self._sizes(value))

    def hides(self, holds_addresses: Callable[[Type], bool]) -> bool:
        return True

    def setters(self, call_shape: Sizes) -> dict[str, Setter]:
        layout = self.types.program()
        device = layout.device_module.session.device
        context = CallContext(device, Shape(call_shape), MODES[self.mode])
        uniform = Uniforms(layout.types, device.runtime).of(self.text.type)
        if uniform is None:
            raise BoundVariableException(
                "E1001", f"argument '{self.label}': values of type '{self.text.type}' cannot be passed"
            )
        return {self.name: self._setter(context, uniform)}

    def _setter(self, context: CallContext, uniform: Encoder) -> Setter:
        marshall, label = self.marshall, self.label
        binding = self.text.binding
        t = self.types.program().type_of(self.text.type)

        def put(values: Values, place: int, carried: HostValue, scratch: Scratch) -> None:
            carried.context = context
            carried.calldata = marshall.create_calldata(context, binding, carried.value)
            if carried.calldata is None and uniform.count:
                message = f"argument '{label}': {marshall!r}: create_calldata gave nothing for '{t}'"
                raise BoundVariableException("E1001", message)
            if carried.calldata is not None:
                put_data(uniform, values, place, carried.calldata, label, t)

        return put

    def finish(self, value: HostValue, scratch: Scratch) -> object:
        self.marshall.read_calldata(value.context, self.text.binding, value.value, value.calldata)
        return value


def _stem(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".slang")


def put_data(uniform: Encoder, values: Values, place: int, data: HostValue, label: str, t: SlangType) -> None:
    """Write the data that a Marshall gave for the kernel, a dict or an object, from a place on."""
    if hasattr(data, "write_to_cursor"):
        cursor = BufferCursor("cpu", t.buffer_layout, 1)
        data.write_to_cursor(cursor[0])
        scalars = memory_format(t.ir_type).unpack(cursor.to_numpy().tobytes())
        values[place : place + len(scalars)] = scalars
        return
    names = uniform.fields()
    if names and not isinstance(data, Mapping) and all(hasattr(data, name) for name in names):
        data = {name: getattr(data, name) for name in names}
    uniform.put(values, place, data, label)


@dataclass(frozen=True, slots=True)
class ReturnContext:
    """The argument of a factory of PYTHON_TYPES for a result, in place of a value: its type, and the call."""

    slang_type: SlangType
    bind_context: BindContext


def binder_of(kind: type, factory: Factory) -> results.Binder:
    """A function that binds results of a class."""

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
        leaf.prepare = None  # the maker gives it as it is carried
        outputs = _Outputs(leaf)
        created.bound = results.CreatedResult(outputs.maker, outputs.give)
        return leaf

    return bind


def _makes_outputs(taught: TaughtMarshal, types: ProgramTypes) -> bool:
    """Whether there is a Marshall for results: a factory for values alone fails with a ReturnContext."""
    try:
        return overrides(taught.marshall(types), "create_output")
    except BoundVariableException as error:
        if isinstance(error.__cause__, (AttributeError, TypeError)):
            return False
        raise


def _called_with_result(kind: type, created: results.Created, dims: int, lowered: ir.Type) -> Leaf:
    leaf = results.bind_default(created, dims, lowered)
    usual = created.bound
    assert usual is not None
    created.bound = results.CreatedResult(usual.maker, lambda value: kind(usual.give(value)))
    return leaf


@dataclass(frozen=True, slots=True)
class _Outputs:
    """The objects that calls of one plan fill."""

    leaf: TaughtLeaf

    def maker(self, device: object, shape: Sizes, place: str | None) -> Callable[[], CarriedValue]:
        leaf = self.leaf
        owner = leaf.types.program().device_module.session.device
        context = CallContext(owner, Shape(shape), MODES[leaf.mode])

        def make() -> CarriedValue:
            carried = CarriedValue(leaf.marshall.create_output(context, leaf.text.binding))
            carried.context = context
            return carried

        return make

    def give(self, carried: CarriedValue) -> HostValue:
        return self.leaf.marshall.read_output(carried.context, self.leaf.text.binding, carried.value)
