"""Overload resolution without a call; Slang types of Python and NumPy types, and the other way round.

context = BindContext(module.layout, CallMode.prim)
result = resolve_function(context, layout.find_function_by_name("f"), BoundCall(context, 2.0, x), diagnostics)
[t.full_name for t in result.args]       None where it does not take them; diagnostics say why

slang_to_numpy(layout.find_type_by_name("float3"))          ->   dtype('float32')
resolve_element_type(layout, int).full_name                 ->   "int"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slangrad.api.devices.device import Device
from slangrad.api.functional.call_data import MODES, BoundCall
from slangrad.api.functional.module import module_of_package
from slangrad.api.reflection.program_layout import ProgramLayout, TypeLayoutReflection
from slangrad.api.reflection.slang_layout import SlangFunction, SlangProgramLayout, slang_parameters
from slangrad.api.reflection.types import TypeReflection
from slangrad.call.binding.program import CallCandidate
from slangrad.call.binding.resolve import Arguments, Survivor, arrange, attempt
from slangrad.check.model import types as checked
from slangrad.check.model.types import VOID
from slangrad.compat.marshall import BindContext
from slangrad.marshal.errors import CallError
from slangrad.marshal.reflection.model import ElementLayout
from slangrad.marshal.reflection.slang_type import (
    ArrayType,
    SlangParameter,
    SlangType,
    UnknownType,
    innermost_type,
)
from slangrad.marshal.registry import holds_objects, marshal_of, unwrap
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import element_type as memory_type
from slangrad.tensors.elements.element_types import numpy_layout
from slangrad.tensors.elements.shape import Shape

SlangLayout = ElementLayout
TShapeOrTuple = tuple[int, ...] | Shape
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


@dataclass(frozen=True, slots=True)
class ResolveResult:
    """A function that takes the arguments. `args` and `kwargs`: as what each argument is seen; `params`: the
    parameters, generics filled in; `dimensions`: how many of the call each argument brings, in their order.
    """

    function: SlangFunction
    return_type: SlangType
    args: tuple[SlangType, ...]
    kwargs: dict[str, SlangType]
    params: tuple[SlangParameter, ...]
    dimensions: tuple[int, ...]

    def __repr__(self) -> str:
        seen = ", ".join(t.full_name for t in (*self.args, *self.kwargs.values()))
        return f"ResolveResult({self.function.name}: {seen})"


def resolve_function(
    bind_context: BindContext,
    function: SlangFunction,
    bindings: BoundCall,
    diagnostics: ResolutionDiagnostic | None = None,
    this_type: SlangType | None = None,
) -> ResolveResult | None:
    """The one overload that takes the arguments, None where there is none or more than one."""
    report = ResolutionDiagnostic() if diagnostics is None else diagnostics
    survivors: list[tuple[SlangFunction, Survivor]] = []
    for overload, candidate in zip(function.overloads, function.candidates):
        report.summary(str(candidate))
        survivors += [
            (overload, fitting) for fitting in _survivors(bind_context, candidate, bindings, report)
        ]
    least = min((survivor.cost for _, survivor in survivors), default=0)
    best = [row for row in survivors if row[1].cost == least]
    if len(best) > 1:
        report.summary("    the arguments can be seen in several ways: map() or f<...> says which is meant")
    return _result(bindings, *best[0]) if len(best) == 1 else None


def _survivors(
    context: BindContext, candidate: CallCandidate, bindings: BoundCall, report: ResolutionDiagnostic
) -> list[Survivor]:
    positional, named = bindings.values, bindings.named_values
    try:
        count = len(positional)
        arguments = Arguments(
            [(i, marshal_of(value)) for i, value in enumerate(positional)],
            {name: (count + i, marshal_of(value)) for i, (name, value) in enumerate(named.items())},
        )
        placed = arrange(candidate, arguments)
        types, mode = candidate.types, _NAMES[context.call_mode]
        outcome = placed if isinstance(placed, str) else attempt(candidate, placed, types, mode, tuple)
    except CallError as error:
        outcome = error.message
    if isinstance(outcome, str):
        report.summary(f"    {outcome}")
        return []
    return outcome


def _result(bindings: BoundCall, overload: SlangFunction, survivor: Survivor) -> ResolveResult:
    layout, chosen = overload.program, survivor.function
    seen = {argument.index: argument.way for argument in survivor.passed}
    types = {i: layout.type_of(way.type) for i, way in seen.items()}
    count = len(bindings.values)
    return ResolveResult(
        overload,
        layout.type_of(chosen.result or VOID),
        tuple(types[i] for i in range(count)),
        {name: types[i] for i, name in enumerate(bindings.named_values, count)},
        slang_parameters(chosen.parameters, chosen.has_this, layout),
        tuple(seen[i].dims for i in sorted(seen)),
    )


def unpack_args(*args: object) -> tuple[list[HostValue], bool]:
    """Arguments with wrappers replaced by their values; whether there were some."""
    return list(map(unwrap, args)), any(map(holds_objects, args))


def unpack_kwargs(**kwargs: object) -> tuple[dict[str, HostValue], bool]:
    """The same for arguments by name."""
    return {name: unwrap(value) for name, value in kwargs.items()}, any(map(holds_objects, kwargs.values()))


def builtin_layout(device: Device) -> SlangProgramLayout:
    """The layout of a program that has the types of the standard library only."""
    return module_of_package(device, "types of the standard library", str).layout


def resolve_program_layout(
    device: Device, element_type: object, program_layout: SlangProgramLayout | None
) -> SlangProgramLayout:
    """The layout for lookups of types: that given, that of a type, or the standard library's."""
    layout = program_layout if program_layout is not None else getattr(element_type, "program", None)
    return builtin_layout(device) if layout is None else layout


def find_type_layout_for_buffer(
    program_layout: ProgramLayout | SlangProgramLayout,
    slang_type: str | TypeReflection | TypeLayoutReflection,
) -> TypeLayoutReflection:
    """How values of a type lie in a buffer. ValueError where the program has no type of that name."""
    if isinstance(slang_type, TypeLayoutReflection):
        return slang_type
    layout = program_layout if isinstance(program_layout, ProgramLayout) else program_layout.program_layout
    t = layout.find_type_by_name(slang_type) if isinstance(slang_type, str) else slang_type
    if t is None:
        raise ValueError(f"the program has no type named '{slang_type}'")
    return layout.get_type_layout(t)


def resolve_element_type(program_layout: SlangProgramLayout, element_type: object) -> SlangType:
    """The type for a name, a reflected type, a struct of a module, a Python or NumPy type, or a value of one."""
    meant = getattr(element_type, "slang_type", element_type)
    if isinstance(meant, str):
        return program_layout.require_type_by_name(meant)
    t = program_layout.types.find_any(meant)
    if t is None:
        raise ValueError(f"Element type could not be resolved: {element_type!r}")
    return program_layout.type_of(t)


def is_unknown(t: SlangType | None) -> bool:
    return isinstance(t, UnknownType)


def is_known(t: SlangType | None) -> bool:
    """ValueError for None."""
    if t is None:
        raise ValueError("Type is None")
    return not is_unknown(t)


def is_known_or_none(t: SlangType | None) -> bool:
    return not is_unknown(t)


def is_matching_array_type(a: SlangType, b: SlangType, allow_generics: bool = True) -> bool:
    """Whether two types are arrays of the same sizes and elements; open ones fit all others if that is allowed."""
    arrays: list[Any] = [t for t in (a, b) if isinstance(t, ArrayType)]  # with the properties of their class
    if len(arrays) < 2:
        return False
    if allow_generics and any(t.any_generic_dims or is_unknown(t.inner_element_type) for t in arrays):
        return True
    first, second = ((t.array_shape, t.inner_element_type) for t in arrays)
    return first == second


def slang_to_numpy(slang_dtype: SlangType) -> np.dtype | None:
    """The NumPy type of the numbers in a type; None for other types."""
    inner = innermost_type(slang_dtype)
    lowered = inner.ir_type if isinstance(inner.checked, checked.ScalarType) else None
    return None if lowered is None else numpy_layout(lowered)[0]


def numpy_to_slang(
    np_dtype: np.dtype, device: Device, program_layout: SlangProgramLayout | None
) -> SlangType | None:
    """The type of the elements of NumPy arrays, sub-arrays as arrays; None where there is none."""
    layout = builtin_layout(device) if program_layout is None else program_layout
    try:
        t = layout.types.lift(memory_type(np_dtype.base))
    except (TypeError, ValueError):
        return None
    for size in reversed(np_dtype.shape):
        t = None if t is None else checked.array(t, size)
    return None if t is None else layout.type_of(t)
