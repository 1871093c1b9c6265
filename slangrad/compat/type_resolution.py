"""Which function takes some arguments, and as what, asked without a call; Slang types that Python and NumPy types stand
for, and the other way round.

context = BindContext(module.layout, CallMode.prim)
found = resolve_function(context, layout.find_function_by_name("f"), BoundCall(context, 2.0, x), diagnostics)
[t.full_name for t in found.args]        None where it does not take them; diagnostics say why

slang_to_numpy(layout.find_type_by_name("float3"))          ->   dtype('float32')
resolve_element_type(layout, int).full_name                 ->   "int"
"""

from __future__ import annotations

import numpy as np

from slangrad.api.devices.device import Device
from slangrad.api.functional.module import module_of_package
from slangrad.api.reflection.slang_layout import SlangFunction, SlangProgramLayout
from slangrad.call.binding.program import CallCandidate
from slangrad.call.binding.resolve import Arguments, Survivor, arrange, attempt
from slangrad.check.model import types as checked
from slangrad.check.model.types import VOID
from slangrad.compat.call_data import MODES, BoundCall
from slangrad.compat.marshall import BindContext
from slangrad.marshal.errors import CallError
from slangrad.marshal.reflection.slang_type import SlangParameter, SlangType
from slangrad.marshal.registry import holds_objects, marshal_of, unwrap
from slangrad.tensors.conversion import HostValue
from slangrad.tensors.element_types import element_type as memory_type
from slangrad.tensors.element_types import numpy_layout

_NAMES = {mode: name for name, mode in MODES.items()}


class ResolutionDiagnostic:
    """Why functions do not take the arguments, in lines."""

    def __init__(self) -> None:
        self.summary_lines: list[str] = []
        self.detail_lines: list[str] = []

    def summary(self, text: str) -> None:
        self.summary_lines.append(text)
        self.detail_lines.append(text)

    def detail(self, text: str) -> None:
        self.detail_lines.append(text)

    def __str__(self) -> str:
        return "\n".join(self.detail_lines)


class ResolveResult:
    """A function that takes the arguments. `args` and `kwargs`: as what each argument is seen; `params`: the
    parameters, generics filled in; `dimensions`: how many of the call each argument brings, in their order.
    """

    def __init__(self, function: SlangFunction, return_type: SlangType) -> None:
        self.function = function
        self.return_type = return_type
        self.args: tuple[SlangType, ...] = ()
        self.kwargs: dict[str, SlangType] = {}
        self.params: tuple[SlangParameter, ...] = ()
        self.dimensions: tuple[int, ...] = ()

    def __repr__(self) -> str:
        seen = ", ".join(each.full_name for each in (*self.args, *self.kwargs.values()))
        return f"ResolveResult({self.function.name}: {seen})"


def resolve_function(
    bind_context: BindContext,
    function: SlangFunction,
    bindings: BoundCall,
    diagnostics: ResolutionDiagnostic | None = None,
    this_type: SlangType | None = None,
) -> ResolveResult | None:
    """The one overload that takes the arguments, None where there is none or more than one."""
    told = ResolutionDiagnostic() if diagnostics is None else diagnostics
    found: list[tuple[CallCandidate, Survivor]] = []
    for candidate in function.candidates:
        told.summary(str(candidate))
        found += [(candidate, each) for each in _survivors(bind_context, candidate, bindings, told)]
    least = min((each.cost for _, each in found), default=0)
    best = [each for each in found if each[1].cost == least]
    if len(best) > 1:
        told.summary("    the arguments can be seen in several ways: map() or f<...> says which is meant")
    return _result(function, bindings, *best[0]) if len(best) == 1 else None


def _survivors(
    context: BindContext, candidate: CallCandidate, bindings: BoundCall, told: ResolutionDiagnostic
) -> list[Survivor]:
    given, named = bindings.values, bindings.named_values
    try:
        count = len(given)
        arguments = Arguments(
            [(i, marshal_of(each)) for i, each in enumerate(given)],
            {name: (count + i, marshal_of(each)) for i, (name, each) in enumerate(named.items())},
        )
        placed = arrange(candidate, arguments)
        types, mode = candidate.types, _NAMES[context.call_mode]
        found = placed if isinstance(placed, str) else attempt(candidate, placed, types, mode, tuple)
    except CallError as error:
        found = error.message
    if isinstance(found, str):
        told.summary(f"    {found}")
        return []
    return found


def _result(
    function: SlangFunction, bindings: BoundCall, candidate: CallCandidate, survivor: Survivor
) -> ResolveResult:
    layout, chosen = function.program, survivor.function
    seen = {each.index: each.way for each in survivor.given}
    made = ResolveResult(
        SlangFunction(layout, [candidate.view], function.full_name, function.this_type),
        layout.type_of(chosen.result or VOID),
    )
    count = len(bindings.values)
    made.args = tuple(layout.type_of(seen[i].type) for i in range(count))
    made.kwargs = {name: layout.type_of(seen[i].type) for i, name in enumerate(bindings.named_values, count)}
    made.dimensions = tuple(seen[i].dims for i in sorted(seen))
    made.params = tuple(
        SlangParameter(
            each.name, layout.type_of(each.type), each.direction, each.no_diff, i, each.has_default
        )
        for i, each in enumerate(chosen.parameters, -int(chosen.has_this))
    )
    return made


def unpack_args(*args: object) -> tuple[list[HostValue], bool]:
    """Arguments with objects replaced by what they stand for; whether there were some."""
    return [unwrap(each) for each in args], any(holds_objects(each) for each in args)


def unpack_kwargs(**kwargs: object) -> tuple[dict[str, HostValue], bool]:
    made = {name: unwrap(each) for name, each in kwargs.items()}
    return made, any(holds_objects(each) for each in kwargs.values())


def builtin_layout(device: Device) -> SlangProgramLayout:
    """The layout of a program that has the types of the standard library only."""
    return module_of_package(device, "types of the standard library", str).layout


def resolve_program_layout(
    device: Device, element_type: object, program_layout: SlangProgramLayout | None
) -> SlangProgramLayout:
    """The layout to look for types in: that given, that of a type, or the standard library's."""
    own = program_layout if program_layout is not None else getattr(element_type, "program", None)
    return builtin_layout(device) if own is None else own


def resolve_element_type(program_layout: SlangProgramLayout, element_type: object) -> SlangType:
    """The type for a name, a reflected type, a struct of a module, a Python or NumPy type, or a value of one."""
    given = getattr(element_type, "slang_type", element_type)
    if isinstance(given, str):
        return program_layout.require_type_by_name(given)
    found = getattr(given, "checked", None)
    if not isinstance(found, checked.Type):
        found = program_layout.types.find_any(given)
    if found is None:
        raise ValueError(f"Element type could not be resolved: {element_type!r}")
    return program_layout.type_of(found)


def innermost_type(slang_type: SlangType) -> SlangType:
    """What is in all arrays, vectors and containers."""
    inner = slang_type.element_type
    return slang_type if inner is slang_type else innermost_type(inner)


def slang_to_numpy(slang_dtype: SlangType) -> np.dtype | None:
    """The NumPy type of the numbers in a type; None for what is not made of numbers."""
    inner = innermost_type(slang_dtype)
    lowered = inner.ir_type if isinstance(inner.checked, checked.Scalar) else None
    return None if lowered is None else numpy_layout(lowered)[0]


def numpy_to_slang(
    np_dtype: np.dtype, device: Device, program_layout: SlangProgramLayout | None
) -> SlangType | None:
    """The type of the elements of NumPy arrays, sub-arrays as arrays; None where there is none."""
    layout = builtin_layout(device) if program_layout is None else program_layout
    try:
        found = layout.types.lift(memory_type(np_dtype.base))
    except (TypeError, ValueError):
        return None
    for size in reversed(np_dtype.shape):
        found = None if found is None else checked.array(found, size)
    return None if found is None else layout.type_of(found)
