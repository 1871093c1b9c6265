"""The types and functions of a program by name, as calls from Python see them.

    layout = module.layout
    layout.find_type_by_name("vector<float, 3>")       ->   VectorType
    layout.find_function_by_name("step<float>")        ->   SlangFunction
    layout.tensor_type(layout.require_type_by_name("float"), 2)

Each type and each function of a name is one object, also after the program was reloaded. `program_layout` is what
kernels see (program_layout.py): parameters, entry points, offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slangrad.api.reflection.program_layout import ProgramLayout
from slangrad.api.reflection.types import NUMBERS, TypeReflection
from slangrad.call.binding.program import CallCandidate, candidate_of
from slangrad.check.model import types as checked
from slangrad.check.model.types import VOID, Array, GenericArgument, Type, array
from slangrad.check.reflect import FunctionView, ParameterView
from slangrad.marshal.reflection.slang_kinds import (
    UNKNOWN,
    TensorAccess,
    TensorType,
    slang_type_of,
    tensor_name,
)
from slangrad.marshal.reflection.slang_type import SlangParameter, SlangType, generic_arguments
from slangrad.marshal.reflection.type_kinds import ModifierID, ScalarKind

if TYPE_CHECKING:
    from slangrad.api.kernels.shader import SlangModule
    from slangrad.call.binding.program import ModuleTypes

_SCALARS = {ScalarKind.none: UNKNOWN, **{kind: t for t, kind in NUMBERS.items()}}


class SlangProgramLayout:
    """A program, asked by name. `require_...` raise ValueError where `find_...` give None. `generation` counts how
    often the program was reloaded.
    """

    def __init__(self, program_layout: ProgramLayout) -> None:
        self.program_layout = program_layout
        self.types: ModuleTypes = program_layout.types
        self._generation = 0
        self.newest: Callable[[], object] | None = None  # looks whether the program was reloaded
        self.device_module: SlangModule | None = None  # the module whose layout it is
        self._types: dict[Type, SlangType] = {}
        self._names: dict[str, Type] = {}
        self._functions: dict[tuple[SlangType | None, str], SlangFunction] = {}

    def __repr__(self) -> str:
        return f"SlangProgramLayout(module={self.types.view.module.name!r}, generation={self._generation})"

    @property
    def generation(self) -> int:
        self._refresh()
        return self._generation

    def _refresh(self) -> None:
        if self.newest is not None:
            self.newest()

    @property
    def low_level_layout(self) -> ProgramLayout:
        return self.program_layout

    # --- Types ---

    def type_of(self, t: Type) -> SlangType:
        """The object for a checked type."""
        found = self._types.get(t)
        if found is None:
            found = self._types[t] = slang_type_of(t, self.types, self)
        return found

    def reflection_of(self, t: Type) -> TypeReflection:
        return self.program_layout.reflection_of(t)

    def find_type(self, type_reflection: TypeReflection) -> SlangType:
        """The type that kernels reflect."""
        return self.type_of(type_reflection.checked)

    def find_type_by_name(self, name: str) -> SlangType | None:
        """The type of a name: "Particle", "float3", "vector<float, 3>", "float[4]", "Tensor<float, 2>"."""
        self._refresh()
        if name not in self._names:
            found = self.types.find(name)
            if found is None and name == UNKNOWN.name:
                found = UNKNOWN
            if found is None:
                return None
            self._names[name] = found
        return self.type_of(self._names[name])

    def require_type_by_name(self, name: str) -> SlangType:
        found = self.find_type_by_name(name)
        if found is None:
            known = ", ".join(self.types.view.type_names()) or "none"
            raise ValueError(f"Type '{name}' not found; the module has {known}")
        return found

    def scalar_type(self, scalar_type: ScalarKind) -> SlangType:
        return self.type_of(_SCALARS[scalar_type])

    def vector_type(self, scalar_type: ScalarKind, size: int) -> SlangType:
        return self.type_of(checked.vector(_SCALARS[scalar_type], size))

    def matrix_type(self, scalar_type: ScalarKind, rows: int, cols: int) -> SlangType:
        return self.type_of(checked.matrix(_SCALARS[scalar_type], rows, cols))

    def array_type(self, element_type: SlangType, count: int = 0) -> SlangType:
        """`element_type[count]`; without a count the size is open."""
        return self.type_of(checked.array(element_type.checked, count or None))

    def tensor_type(
        self,
        element_type: SlangType,
        dims: int,
        access: TensorAccess = TensorAccess.read_write,
        tensor_kind: TensorType = TensorType.tensor,
    ) -> SlangType:
        """The tensor type of a family, with elements of a type."""
        return self._standard(tensor_name(tensor_kind, access), element_type.checked, dims)

    def tensorview_type(self, element_type: SlangType) -> SlangType:
        return self._standard("TensorView", element_type.checked)

    def difftensorview_type(self, element_type: SlangType) -> SlangType:
        return self._standard("DiffTensorView", element_type.checked)

    def _standard(self, name: str, *arguments: GenericArgument) -> SlangType:
        self._refresh()
        return self.type_of(self.types.standard(name, arguments))

    def get_resolved_generic_args(
        self, type_reflection: SlangType | TypeReflection
    ) -> list[SlangType | int] | None:
        """The generic arguments of a type, bools as 0 and 1; None for types without."""
        given = generic_arguments(type_reflection.checked)
        found = [self.type_of(each) if isinstance(each, Type) else int(each) for each in given]
        return found or None

    # --- Functions ---

    def find_function_by_name(self, name: str) -> SlangFunction | None:
        """The functions of a name, generic arguments perhaps in it: "step", "step<float>", "Particle.move"."""
        return self._find(None, name)

    def require_function_by_name(self, name: str) -> SlangFunction:
        found = self.find_function_by_name(name)
        if found is None:
            known = ", ".join(self.types.view.function_names()) or "none"
            raise ValueError(f"Function '{name}' not found; the module has {known}")
        return found

    def find_function_by_name_in_type(self, type: SlangType, name: str) -> SlangFunction | None:
        """The methods of a name, static ones too; `__init` (`$init`) are the constructors."""
        return self._find(self.type_of(type.checked), name)

    def require_function_by_name_in_type(self, type: SlangType, name: str) -> SlangFunction:
        found = self.find_function_by_name_in_type(type, name)
        if found is None:
            known = ", ".join(self.types.view.member_names(type.checked)) or "none"
            raise ValueError(f"Function '{name}' not found in type '{type.full_name}'; it has {known}")
        return found

    def _find(self, owner: SlangType | None, name: str) -> SlangFunction | None:
        self._refresh()
        key = (owner, name)
        if key not in self._functions:
            views = self._views(owner, name)
            if not views:
                return None
            self._functions[key] = SlangFunction(self, views, name, owner)
        return self._functions[key]

    def _views(self, owner: SlangType | None, name: str) -> Sequence[FunctionView]:
        view = self.types.view
        if owner is None:
            return view.find_functions(name)
        if name in ("__init", "$init"):
            return view.find_constructors(owner.checked)
        return view.find_functions(f"{owner.spelled}.{name}")

    # --- Reloading ---

    def on_hot_reload(self, program_layout: ProgramLayout) -> None:
        """Look at another program: types and functions that it has, too, are the objects that they were; others
        stay what they are.
        """
        self.program_layout = program_layout
        self.types = types = program_layout.types
        self._generation += 1
        self._names.clear()
        known, self._types = self._types.values(), {}
        for each in known:
            found = _found_again(each, types)
            if found is not None and found not in self._types:
                each.reload(found, types)
                self._types[found] = each
        functions, self._functions = self._functions, {}
        for (owner, name), function in functions.items():
            views = self._views(owner, name)
            if views:
                function.reload(views)
                self._functions[owner, name] = function


def _found_again(t: SlangType, types: ModuleTypes) -> Type | None:
    if t.checked in (checked.VOID, UNKNOWN):
        return t.checked
    return None if t.is_generic else types.find(t.spelled)


Find = Callable[[], Sequence[FunctionView]]


class SlangFunction:
    """The functions of a name. What is asked of one of them is that of the first overload."""

    __slots__ = ("_this_type", "candidates", "full_name", "program")

    def __init__(
        self,
        program: SlangProgramLayout,
        views: Sequence[FunctionView],
        full_name: str = "",
        this_type: SlangType | None = None,
    ) -> None:
        self.program = program
        self._this_type = this_type
        self.candidates = [candidate_of(each, program.types) for each in views]
        self.full_name = full_name or self.name

    def __repr__(self) -> str:
        return f'refl::Function(full_name="{self.full_name}")'

    def __str__(self) -> str:
        return "\n".join(map(str, self.candidates))

    def reload(self, views: Sequence[FunctionView]) -> None:
        """The functions of the same name in a new program."""
        self.candidates = [candidate_of(each, self.program.types) for each in views]

    @property
    def _first(self) -> CallCandidate:
        return self.candidates[0]

    @property
    def layout(self) -> SlangProgramLayout:
        return self.program

    @property
    def name(self) -> str:
        """Without generic arguments."""
        return self._first.view.name

    @property
    def this_type(self) -> SlangType | None:
        """The type whose method this is, static or not."""
        return self._this_type

    this = this_type

    @property
    def return_type(self) -> SlangType:
        return self.program.type_of(result_type(self._first) or VOID)

    @property
    def have_return_value(self) -> bool:
        return self._first.returns

    @property
    def parameters(self) -> tuple[SlangParameter, ...]:
        """Without `this`."""
        return parameters_of(self._first, self.program)[int(self._first.has_this) :]

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative, of either mode."""
        return self._first.view.info.level != "none"

    @property
    def mutating(self) -> bool:
        """Whether it changes the value that it is called on."""
        return self._first.view.info.mutating

    @property
    def static(self) -> bool:
        return bool(self._first.view.declaration.has("static"))

    @property
    def is_constructor(self) -> bool:
        return self._first.is_constructor

    @property
    def is_generic(self) -> bool:
        """Whether generic parameters are open in it."""
        view = self._first.view
        return len(view.generics) > len(view.candidate.explicit)

    @property
    def is_overloaded(self) -> bool:
        return len(self.candidates) > 1

    @property
    def overloads(self) -> tuple[SlangFunction, ...]:
        """Each by itself; a function without overloads is its own only one."""
        make = lambda each: SlangFunction(self.program, [each.view], self.full_name, self._this_type)
        return tuple(map(make, self.candidates)) if self.is_overloaded else (self,)

    def has_modifier(self, modifier: ModifierID) -> bool:
        said = {
            ModifierID.static: self.static,
            ModifierID.mutating: self.mutating,
            ModifierID.differentiable: self.differentiable,
        }
        return said.get(modifier, False)

    def specialize_with_arg_types(self, types: Sequence[SlangType]) -> SlangFunction | None:
        """The one overload that takes arguments of these types, its generic parameters filled in; None if there is
        none, or more than one.
        """
        program = self.program
        found, _ = program.types.view.resolve(
            [each.view for each in self.candidates], [t.checked for t in types]
        )
        if len(found) != 1:
            return None
        return SlangFunction(program, [found[0].concrete], "", self._this_type)


def parameters_of(candidate: CallCandidate, program: SlangProgramLayout) -> tuple[SlangParameter, ...]:
    """The parameters of one function, `this` of methods first."""
    shown = enumerate(candidate.parameters, -int(candidate.has_this))
    return tuple(_parameter(i, each, program) for i, each in shown)


def _parameter(index: int, view: ParameterView, program: SlangProgramLayout) -> SlangParameter:
    t = program.type_of(shown_type(view.type, program.types))
    return SlangParameter(view.name, t, view.direction, view.no_diff, index, view.has_default)


def shown_type(t: Type, types: ModuleTypes) -> Type:
    """Without the hidden generic parameters of what takes any value of an interface, or arrays of any size."""
    if isinstance(t, Array):
        is_open = str(t.count).startswith("$")
        return array(shown_type(t.element, types), None if is_open else t.count)
    return types.bounds(t)[0] if str(t).startswith("$") else t


def result_type(candidate: CallCandidate) -> Type | None:
    """What one function returns; None for nothing."""
    if not candidate.returns:
        return None
    view = candidate.view
    return view.this_type if candidate.is_constructor else candidate.with_explicit(view.result)
