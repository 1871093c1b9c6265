"""Functions as users see them: parameters, result, overloads, generics filled in.

    f = module.layout.find_function_by_name("lerp_all")
    [each.declaration for each in f.parameters], f.return_type.full_name, f.differentiable
    f.specialize_with_arg_types([layout.require_type_by_name("float3")])

Nothing is called with these: `module.lerp_all(...)` calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slangrad.call.program import Candidate, candidate_of
from slangrad.check.model.types import VOID, Array, Type, array
from slangrad.check.reflect import FunctionView, ParameterView
from slangrad.marshal.slang_type import SlangType
from slangrad.marshal.slang_variables import SlangParameter
from slangrad.marshal.type_kinds import ModifierID

if TYPE_CHECKING:
    from slangrad.api.reflection.slang_layout import SlangProgramLayout
    from slangrad.call.program import ModuleTypes

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
    def _first(self) -> Candidate:
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


def parameters_of(candidate: Candidate, program: SlangProgramLayout) -> tuple[SlangParameter, ...]:
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


def result_type(candidate: Candidate) -> Type | None:
    """What one function returns; None for nothing."""
    if not candidate.returns:
        return None
    view = candidate.view
    return view.this_type if candidate.is_constructor else candidate.with_explicit(view.result)
