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
from typing import TYPE_CHECKING, Any

from slangrad.api.reflection.program_layout import ProgramLayout
from slangrad.api.reflection.slang_functions import SlangFunction
from slangrad.api.reflection.types import NUMBERS, TypeReflection
from slangrad.check.model import types as checked
from slangrad.check.model.types import Type
from slangrad.check.reflect import FunctionView
from slangrad.marshal.slang_kinds import UNKNOWN, TensorAccess, TensorType, slang_type_of, tensor_name
from slangrad.marshal.slang_type import SlangType, generic_arguments
from slangrad.marshal.type_kinds import ScalarKind

if TYPE_CHECKING:
    from slangrad.call.program import ModuleTypes

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
        self.device_module: Any = None  # the module whose layout it is
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

    def _standard(self, name: str, *arguments: Any) -> SlangType:
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
