"""Classes of users as arguments of calls, registered as in SlangPy: a Marshall for each class.

    class NoiseMarshall(Marshall):
        def __init__(self, layout):  self.slang_type = layout.require_type_by_name("Noise")
        def create_calldata(self, context, binding, data):  return {"seed": data.seed}
        ...
    PYTHON_TYPES[Noise] = lambda layout, value: NoiseMarshall(layout)

In Slang `Noise` has methods `__slangpy_load(ContextND<N> context, out T value)` for its possible types.
arguments.py makes the Marshall's part of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slangrad.api.functional.call_data import AccessType, BoundVariable, CallMode
from slangrad.marshal.reflection.slang_type import SlangType
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.shape import Shape

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.api.kernels.shader import SlangModule
    from slangrad.api.reflection.slang_layout import SlangProgramLayout


class BindContext:
    """The call that an argument is bound to. `call_dimensionality` is -1 until it is known."""

    def __init__(
        self,
        layout: SlangProgramLayout,
        call_mode: CallMode,
        device_module: SlangModule | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.layout = layout
        self.call_mode = call_mode
        self.device_module = device_module
        self.options = dict(options or {})
        self.call_dimensionality = -1
        self.use_entrypoint_args = True

    @property
    def device(self) -> Device:
        assert self.device_module is not None
        device: Device = self.device_module.session.device
        return device


class CallContext:
    """One call: its device, shape and mode."""

    __slots__ = ("call_mode", "call_shape", "device")

    def __init__(self, device: Device, call_shape: Shape, call_mode: CallMode) -> None:
        self.device = device
        self.call_shape = call_shape
        self.call_mode = call_mode


class NativeMarshall:
    """The description of a Python value for a call. There is one for each signature of a call; `slang_type` is the
    value's own type.

    `concrete_shape`: the sizes of all values, or an invalid Shape if `get_shape` returns those of each.
    `match_call_shape`: values have as many dimensions as the call.
    """

    slang_type: SlangType
    concrete_shape: Shape = Shape(None)
    match_call_shape: bool = False

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        t = getattr(self, "slang_type", None)
        return f"{type(self).__name__}({getattr(t, 'full_name', None)})"

    @property
    def has_derivative(self) -> bool:
        """Whether gradients are added to the value, which calls cannot do here."""
        return False

    @property
    def is_writable(self) -> bool:
        """Whether the value takes outputs of a function: its Slang type has `__slangpy_store`."""
        return False

    # --- once for each signature

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> list[SlangType]:
        """The types of the value for a parameter of that type; empty without one."""
        return [self.resolve_type(context, bound_type)]

    def resolve_type(self, context: BindContext, bound_type: SlangType) -> SlangType:
        return self.slang_type

    def resolve_dimensionality(
        self, context: BindContext, binding: BoundVariable | None, vector_target_type: SlangType
    ) -> int | None:
        """The number of call dimensions of the value for a type; None or less than zero if it cannot have that
        type.
        """
        return self.slang_type.num_dims - vector_target_type.num_dims

    def reduce_type(self, context: BindContext, dimensions: int) -> SlangType:
        """The type that is left when some dimensions are taken away."""
        t = self.slang_type
        for _ in range(dimensions):
            t = t.element_type
        return t

    def gen_calldata(self, cgb: CodeGenBlock, context: BindContext, binding: BoundVariable) -> None:
        """Set the type of the value in the kernel: `binding.gen_calldata_type_name(cgb, name)`."""
        binding.gen_calldata_type_name(cgb, self.slang_type.full_name)

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        """Whether the kernel's value is the function's, so that nothing has to be loaded."""
        return False

    def gen_trampoline_load(
        self, cgb: CodeGenBlock, binding: BoundVariable, data_name: str, value_name: str
    ) -> bool:
        """Statements that load the value; False for `__slangpy_load`."""
        return False

    def gen_trampoline_store(
        self, cgb: CodeGenBlock, binding: BoundVariable, data_name: str, value_name: str
    ) -> bool:
        """Statements that store the value; False for `__slangpy_store`."""
        return False

    # --- in every call

    def get_shape(self, value: object) -> Shape:
        """The sizes of a value, those of its elements perhaps behind them; -1 for those that the call decides."""
        return self.concrete_shape if self.concrete_shape.valid else Shape(())

    def create_calldata(self, context: CallContext, binding: BoundVariable, data: object) -> HostValue:
        """The data for the kernel: a value of the type of `gen_calldata`, a dict for a struct; None for a type
        without fields.
        """
        return None

    def create_dispatchdata(self, data: object) -> HostValue:
        """The data for a kernel of `f.dispatch`: a value of the type of its parameter."""
        return None

    def read_calldata(
        self, context: CallContext, binding: BoundVariable, data: object, result: object
    ) -> None:
        """Called after the launch with the value and with the result of `create_calldata` for it."""

    # --- where the value is the result of a call, `f.return_type(Class)`

    def create_output(self, context: CallContext, binding: BoundVariable) -> HostValue:
        """A new object for a call of the shape `context.call_shape` to fill."""
        return None

    def read_output(self, context: CallContext | None, binding: BoundVariable, data: object) -> HostValue:
        """The caller's result, from the filled object."""
        return data


class Marshall(NativeMarshall):
    """The base of users' classes."""

    def __init__(self, layout: SlangProgramLayout) -> None:
        super().__init__()


class NativeValueMarshall(NativeMarshall):
    """A value that is passed unchanged: a number, a vector, a dict, an object with the fields of its type, or one
    with `write_to_cursor(cursor)`.
    """

    def __init__(self, slang_type: SlangType | None = None) -> None:
        super().__init__()
        if slang_type is not None:
            self.slang_type = slang_type

    def can_direct_bind(self, binding: BoundVariable) -> bool:
        return can_direct_bind_common(binding)

    def create_calldata(self, context: CallContext, binding: BoundVariable, data: object) -> HostValue:
        return data

    def create_dispatchdata(self, data: object) -> HostValue:
        return data


def can_direct_bind_common(binding: BoundVariable) -> bool:
    """Whether a value is the same in all calls, and one of its own."""
    return binding.call_dimensionality == 0 and not binding.children and binding.access[0] is AccessType.read


class CodeGen:
    """Text that a Marshall adds to the kernel, shared by all blocks of one argument: snippets by name and modules
    to import.

        cgb.add_snippet("twice", "float twice(float x) { return 2 * x; }")
        cgb.append_statement("value = twice(x)")

    Snippets, and text appended in `gen_calldata`, come before the kernel. Statements of `gen_trampoline_load` and
    `gen_trampoline_store` are in it.
    """

    def __init__(self) -> None:
        self.snippets: dict[str, str] = {}
        self.imports: list[str] = []
        self.aliases: dict[str, str] = {}

    def add_snippet(self, name: str, code: str) -> None:
        """Text beside the kernel; the first of a name stays."""
        self.snippets.setdefault(name, code)

    def add_import(self, import_name: str) -> None:
        """A module that the text needs. The called module has to import it, too."""
        name = import_name.replace("\\", "/")
        if name not in self.imports:
            self.imports.append(name)


class CodeGenBlock:
    """Lines of text."""

    def __init__(self, gen: CodeGen) -> None:
        self.gen = gen
        self.code: list[str] = []
        self.indent = ""

    def add_import(self, import_name: str) -> None:
        self.gen.add_import(import_name)

    def add_snippet(self, name: str, code: str) -> None:
        self.gen.add_snippet(name, code)

    def inc_indent(self) -> None:
        self.indent += "    "

    def dec_indent(self) -> None:
        self.indent = self.indent[:-4]

    def append_indent(self) -> None:
        self.append_code(self.indent)

    def append_code(self, code: str) -> None:
        """Text as it is."""
        self.code.append(code)

    def append_line(self, line: str) -> None:
        self.append_code(f"{self.indent}{line}\n")

    def append_code_indented(self, code: str) -> None:
        for line in code.splitlines():
            self.append_line(line)

    def append_statement(self, statement: str) -> None:
        self.append_line(f"{statement};")

    statement = append_statement

    def empty_line(self) -> None:
        self.append_code("\n")

    def begin_block(self) -> None:
        self.append_line("{")
        self.inc_indent()

    def end_block(self) -> None:
        self.dec_indent()
        self.append_line("}")

    def begin_struct(self, struct_name: str) -> None:
        self.append_line(f"struct {struct_name}")
        self.begin_block()

    def end_struct(self) -> None:
        self.end_block()

    def type_alias(self, alias_name: str, type_name: str | None) -> None:
        """Another name for a type; `_t_x` is that of the data of argument x."""
        if type_name is not None:
            self.gen.aliases[alias_name] = type_name

    def declare(self, type_name: str, variable_name: str) -> None:
        self.append_statement(f"{type_name} {variable_name}")

    def assign(self, target: str, value: str) -> None:
        self.append_statement(f"{target} = {value}")

    def declarevar(self, variable_name: str, value: str) -> None:
        self.append_statement(f"var {variable_name} = {value}")

    def diff_pair(self, primal: str, derivative: str = "0") -> None:
        self.append_statement(f"diffPair({primal}, {derivative})")

    def finish(self) -> str:
        return "".join(self.code)

    @property
    def lines(self) -> list[str]:
        return self.finish().splitlines()
