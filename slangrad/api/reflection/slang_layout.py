"""The types and functions of a program by name, as calls from Python see them.

    layout = module.layout
    layout.find_type_by_name("vector<float, 3>")       ->   VectorType
    layout.find_function_by_name("step<float>")        ->   SlangFunction
    layout.tensor_type(layout.require_type_by_name("float"), 2)

Each type and each function of a name is one object, also after a reload of the program. `program_layout` is the
view of kernels (program_layout.py): parameters, entry points, offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slangrad.api.reflection.functions import FieldConstructor, FunctionReflection
from slangrad.api.reflection.program_layout import ProgramLayout, required
from slangrad.api.reflection.types import TypeReflection
from slangrad.call.binding.program import CallCandidate, candidate_of
from slangrad.check.model import types as checked
from slangrad.check.model.types import VOID, GenericArgument, Type
from slangrad.check.reflect import ParameterView
from slangrad.marshal.reflection.model import TENSORS, UNKNOWN, TensorAccess, TensorType, scalar_kind
from slangrad.marshal.reflection.slang_type import SlangParameter, SlangType, generic_arguments, slang_type_of
from slangrad.marshal.reflection.type_kinds import ModifierID, ScalarKind

if TYPE_CHECKING:
    from slangrad.api.kernels.shader import SlangModule
    from slangrad.call.binding.program import ModuleTypes

_SCALARS = {ScalarKind.none: UNKNOWN, **{ScalarKind[scalar_kind(t)]: t for t in (VOID, *checked.SCALARS)}}


class SlangProgramLayout:
    """A program, by names. `require_...` raise CallError (E1012) where `find_...` return None. `generation` counts the
    reloads of the program.
    """

    def __init__(self, program_layout: ProgramLayout) -> None:
        self.program_layout = program_layout
        self.types: ModuleTypes = program_layout.types
        self._generation = 0
        self.newest: Callable[[], object] | None = None  # checks whether the program was reloaded
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
        if t not in self._types:
            self._types[t] = slang_type_of(t, self.types, self)
        return self._types[t]

    def reflection_of(self, t: Type) -> TypeReflection:
        return self.program_layout.reflection_of(t)

    def find_type(self, type_reflection: TypeReflection) -> SlangType:
        """The type that kernels reflect."""
        return self.type_of(type_reflection.checked)

    def find_type_by_name(self, name: str) -> SlangType | None:
        """The type of a name: "Particle", "float3", "vector<float, 3>", "float[4]", "Tensor<float, 2>"."""
        self._refresh()
        if name not in self._names:
            t = self.types.find(name) or (UNKNOWN if name == UNKNOWN.name else None)
            if t is None:
                return None
            self._names[name] = t
        return self.type_of(self._names[name])

    def require_type_by_name(self, name: str) -> SlangType:
        """A type by name; CallError (E1012) where there is none."""
        t, names = self.find_type_by_name(name), self.types.view.type_names()
        return required(t, "type", name, names)

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
        """The tensor type of a family, with elements of a type; atomic tensors are read and written."""
        row = tensor_kind, TensorAccess.read_write if tensor_kind is TensorType.atomic else access
        name = next(name for name, family in TENSORS.items() if family == row)
        return self._standard(name, element_type.checked, dims)

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
        arguments = generic_arguments(type_reflection.checked)
        return [self.type_of(a) if isinstance(a, Type) else int(a) for a in arguments] or None

    # --- Functions ---

    def find_function_by_name(self, name: str) -> SlangFunction | None:
        """The functions of a name, generic arguments perhaps in it: "step", "step<float>", "Particle.move"."""
        return self._find(None, name)

    def require_function_by_name(self, name: str) -> SlangFunction:
        """The functions of a name; CallError (E1012) where there are none."""
        function, names = self.find_function_by_name(name), self.types.view.function_names()
        return required(function, "function", name, names)

    def find_function_by_name_in_type(self, type: SlangType, name: str) -> SlangFunction | None:
        """The methods of a name, static ones too; `__init` (`$init`) are the constructors."""
        return self._find(self.type_of(type.checked), name)

    def require_function_by_name_in_type(self, type: SlangType, name: str) -> SlangFunction:
        """The methods of a name; CallError (E1012) where there are none."""
        method = self.find_function_by_name_in_type(type, name)
        names = self.types.view.member_names(type.checked)
        return required(method, f"method in '{type.full_name}'", name, names)

    def _find(self, owner: SlangType | None, name: str) -> SlangFunction | None:
        self._refresh()
        key = (owner, name)
        if key not in self._functions:
            reflection = self._reflected(owner, name)
            if reflection is None:
                return None
            self._functions[key] = SlangFunction(self, reflection, name, owner)
        return self._functions[key]

    def _reflected(self, owner: SlangType | None, name: str) -> FunctionReflection | None:
        layout = self.program_layout
        if owner is None:
            return layout.find_function_by_name(name)
        reflection = layout.find_function_by_name_in_type(owner.type_reflection, name)
        return None if isinstance(reflection, FieldConstructor) else reflection  # calls have none to call

    # --- Reloading ---

    def on_hot_reload(self, program_layout: ProgramLayout) -> None:
        """Show a reloaded program: types and functions that it still has keep their objects; others keep their old
        meaning.
        """
        self.program_layout = program_layout
        self.types = types = program_layout.types
        self._generation += 1
        self._names.clear()
        before, self._types = self._types.values(), {}
        for t in before:
            again = _type_after_reload(t, types)
            if again is not None and again not in self._types:
                t.reload(again, types)
                self._types[again] = t
        functions, self._functions = self._functions, {}
        for (owner, name), function in functions.items():
            reflection = self._reflected(owner, name)
            if reflection is not None:
                function.reflection = reflection
                self._functions[owner, name] = function


def _type_after_reload(t: SlangType, types: ModuleTypes) -> Type | None:
    if t.checked in (VOID, UNKNOWN):
        return t.checked
    return None if t.is_generic else types.find(t.spelled)


class SlangFunction:
    """The functions of a name. Properties are those of the first overload."""

    __slots__ = ("full_name", "program", "reflection", "this_type")

    def __init__(
        self,
        program: SlangProgramLayout,
        reflection: FunctionReflection,
        full_name: str = "",
        this_type: SlangType | None = None,
    ) -> None:
        """`this_type`: the type whose method this is, static or not."""
        self.program = program
        self.reflection = reflection
        self.this_type = this_type
        self.full_name = full_name or self.name

    def __repr__(self) -> str:
        return f'refl::Function(full_name="{self.full_name}")'

    def __str__(self) -> str:
        return "\n".join(map(str, self.candidates))

    @property
    def candidates(self) -> list[CallCandidate]:
        """The candidates of a call."""
        return [candidate_of(view, self.program.types) for view in self.reflection.views]

    @property
    def _first(self) -> FunctionReflection:
        return self.reflection.overloads[0] if self.is_overloaded else self.reflection

    @property
    def layout(self) -> SlangProgramLayout:
        return self.program

    @property
    def name(self) -> str:
        """Without generic arguments."""
        return str(self.reflection.declaration.name)

    @property
    def this(self) -> SlangType | None:
        """The same as `this_type`."""
        return self.this_type

    @property
    def return_type(self) -> SlangType:
        return self.program.find_type(self._first.return_type)

    @property
    def have_return_value(self) -> bool:
        return self.candidates[0].returns

    @property
    def parameters(self) -> tuple[SlangParameter, ...]:
        """Without `this`."""
        first = self.candidates[0]
        return parameters_of(first, self.program)[int(first.has_this) :]

    @property
    def differentiable(self) -> bool:
        """Whether it has a derivative, of either mode."""
        return self.has_modifier(ModifierID.differentiable)

    @property
    def mutating(self) -> bool:
        """Whether it changes the value that it is called on."""
        return self.has_modifier(ModifierID.mutating)

    @property
    def static(self) -> bool:
        return self.has_modifier(ModifierID.static)

    @property
    def is_constructor(self) -> bool:
        return self.candidates[0].is_constructor

    @property
    def is_generic(self) -> bool:
        """Whether generic parameters are open in it."""
        view = self._first.views[0]
        return len(view.generics) > len(view.candidate.explicit)

    @property
    def is_overloaded(self) -> bool:
        return self.reflection.is_overloaded

    @property
    def overloads(self) -> tuple[SlangFunction, ...]:
        """Each overload by itself; a function without overloads is its only one."""
        functions = self.reflection.overloads
        make = lambda function: SlangFunction(self.program, function, self.full_name, self.this_type)
        return tuple(map(make, functions)) if functions else (self,)

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether it has a modifier, or is so in effect."""
        return self._first.has_modifier(modifier)

    def specialize_with_arg_types(self, types: Sequence[SlangType]) -> SlangFunction | None:
        """The one overload that takes arguments of these types, its generic parameters filled in; None if there is
        none, or more than one.
        """
        function = self.reflection.specialized([t.checked for t in types], interfaces=False)
        return None if function is None else SlangFunction(self.program, function, "", self.this_type)


def parameters_of(candidate: CallCandidate, program: SlangProgramLayout) -> tuple[SlangParameter, ...]:
    """The parameters of one function, `this` of methods first."""
    shown = candidate.view.shown
    views = [replace(parameter, type=shown(parameter.type)) for parameter in candidate.parameters]
    return slang_parameters(views, candidate.has_this, program)


def slang_parameters(
    views: Iterable[ParameterView], has_this: bool, program: SlangProgramLayout
) -> tuple[SlangParameter, ...]:
    """Numbered from zero, `this` by -1."""
    rows = ((v.name, program.type_of(v.type), v.direction, v.no_diff, v.has_default) for v in views)
    return tuple(SlangParameter(*row, index) for index, row in enumerate(rows, -int(has_this)))
