"""Modules for kernels: entry points, and programs linked from them.

    module.entry_points               ->  [SlangEntryPoint(main)]
    program.entry_points[0].layout.compute_thread_group_size
    device.create_compute_kernel(program)

Global parameters are the variables outside of functions of a program's modules and of what these import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from slangrad.api.devices.reports import program_report
from slangrad.api.reflection.declarations import DeclReflection, reflect_modules
from slangrad.api.reflection.program_layout import EntryPointLayout, ProgramLayout, ReflectionCursor
from slangrad.api.reflection.types import ReflectionContext
from slangrad.api.sessions.generation import KnownModule, of_generation
from slangrad.base.disk.whole_files import write_output
from slangrad.base.module_file import packed, to_bytes
from slangrad.base.process.threads import WeakBag
from slangrad.base.suggestions import suggestion
from slangrad.call.binding.program import ModuleTypes, conformance_of
from slangrad.check.checked_module import CheckedModule
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.types import GenericArgument, Type, parameter_type, stored
from slangrad.check.reflect import Reflection, is_launch_parameter
from slangrad.marshal.errors import CallError
from slangrad.syntax import ast
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.api.kernels.pipeline import ComputePipeline
    from slangrad.api.sessions.session import LoadedModule, SlangSession
    from slangrad.check.modules import CheckedProgram


class ShaderStage(Enum):
    """The purpose of an entry point; `compute` is the one that runs here."""

    none = 0
    vertex = 1
    hull = 2
    domain = 3
    geometry = 4
    fragment = 5
    compute = 6
    ray_generation = 7
    intersection = 8
    any_hit = 9
    closest_hit = 10
    miss = 11
    callable = 12
    mesh = 13
    amplification = 14


_STAGES = {
    **ShaderStage.__members__,
    "pixel": ShaderStage.fragment,
    "raygeneration": ShaderStage.ray_generation,
}


@dataclass(slots=True, frozen=True)
class GlobalParameter:
    """A variable of the launch; of `cbuffer C { }` all members, which are `members` with their names."""

    name: str
    declaration: ast.Declaration
    members: tuple[ast.Variable, ...]

    @property
    def is_block(self) -> bool:
        return isinstance(self.declaration, ast.BufferBlock)


class SlangModule:
    """A checked module of a session."""

    def __init__(self, session: SlangSession, loaded: LoadedModule) -> None:
        self.session = session
        self.loaded = loaded
        self.name = loaded.name

    is_composed = False
    source_modules: tuple[SlangModule, ...] = ()

    def __repr__(self) -> str:
        return f"SlangModule({self.name})"

    @property
    def device(self) -> Device:
        """The device of its session."""
        return self.session.device

    @of_generation
    def layout(self) -> ProgramLayout:
        """Parameters, types and functions."""
        return ShaderProgram(self.session, self.source_modules or (self,), ()).layout

    @property
    def module_decl(self) -> DeclReflection:
        """The declarations of the module, as a tree."""
        parts = tuple(module.checked for module in self.source_modules or (self,))
        return reflect_modules(self.reflection_context, self.name, parts)

    @of_generation
    def reflection_context(self) -> ReflectionContext:
        """The program as seen from this module, with its reflection objects."""
        return ReflectionContext(self.view, self.session.lock)

    @property
    def path(self) -> str:
        """The path of its file; empty where it was made from a text."""
        return "" if self.checked.path is None else str(self.checked.path)

    def serialize(self) -> bytes:
        """The precompiled module: its texts, those of its parts and of what it includes, and the macros that they were
        read with, but not what it imports. `load_module_from_ir_blob` takes it. CallError (E1020) for composed
        modules."""
        if self.is_composed:
            message = f"serialize: '{self.name}' is composed of several modules"
            raise CallError("E1020", message, (), "serialize each of its source_modules")
        origin = self.checked.origin
        assert origin is not None
        return to_bytes(packed(origin))

    def write_to_file(self, path: str | PathLike[str]) -> None:
        """Write the precompiled module (`serialize`) to a file, which `import` and `load_module` find in place of the
        source if it is called `name.slang-module`. OSError where it cannot be written."""
        write_output(Path(path), self.serialize())

    @property
    def known(self) -> KnownModule:
        """The module with its imports, as calls use it."""
        return self.loaded.known

    @property
    def checked(self) -> CheckedModule:
        """The module as the checker left it."""
        return self.loaded.checked

    @property
    def view(self) -> Reflection:
        """The declarations of the module, as the checker sees them."""
        return self.known.view

    @property
    def types(self) -> ModuleTypes:
        """The types that the module and its imports declare."""
        return self.known.all_types

    @property
    def entry_points(self) -> list[SlangEntryPoint]:
        """The functions that are marked as such."""
        return [SlangEntryPoint(self, function.name) for function in self._functions() if is_entry(function)]

    def entry_point(
        self, name: str, type_conformances: Sequence[TypeConformance | tuple[object, ...]] = ()
    ) -> SlangEntryPoint:
        """The entry point of a name; functions that are not marked are for compute. `type_conformances`: types that
        values of interface types can have, and their ids in memory.
        """
        self.entry_function(name)
        return SlangEntryPoint(self, name, conformances=conformances_of(type_conformances))

    def entry_function(self, name: str) -> ast.FunctionDeclaration:
        """The function of an entry point of that name. CallError (E1020) if the module has none."""
        functions = [function for function in self._functions() if function.name == name]
        functions = [function for function in functions if is_entry(function)] or functions
        if not functions:
            names = [function.name for function in self._functions()]
            raise CallError(
                "E1020", f"Entry point \"{name}\" not found in module '{self.name}'", (), _close(name, names)
            )
        return functions[0]

    def declares(self, name: str) -> bool:
        """Whether a function has that name."""
        return any(function.name == name for function in self._functions())

    def _functions(self) -> Iterator[ast.FunctionDeclaration]:
        for part in self.checked.files:
            for member in members_of(part):
                if isinstance(member, ast.FunctionDeclaration) and member.body is not None:
                    yield member


class ComposedModule(SlangModule):
    """Several modules under one name, with the type conformances of their entry points."""

    is_composed = True

    def __init__(
        self, name: str, modules: Sequence[SlangModule], type_conformances: Sequence[TypeConformance]
    ) -> None:
        super().__init__(modules[0].session, modules[0].loaded)
        self.name = name
        self.source_modules = tuple(modules)
        self._conformances = tuple(type_conformances)

    @property
    def entry_points(self) -> list[SlangEntryPoint]:
        names = [entry.name for module in self.source_modules for entry in module.entry_points]
        return [self.entry_point(name) for name in names]

    def entry_point(
        self, name: str, type_conformances: Sequence[TypeConformance | tuple[object, ...]] = ()
    ) -> SlangEntryPoint:
        owners = [owner for owner in self.source_modules if owner.declares(name)]
        if len(owners) > 1:
            both = " and ".join(f"'{owner.name}'" for owner in owners)
            raise CallError("E1020", f'Entry point "{name}" is in {both}', (), "ask one of these modules")
        conformances = (*self._conformances, *conformances_of(type_conformances))
        return (owners or self.source_modules)[0].entry_point(name, conformances)


def members_of(scope: ast.Container) -> Iterator[ast.Declaration]:
    """The declarations of a file, those in namespaces too."""
    for member in scope.members:
        if isinstance(member, ast.Namespace):
            yield from members_of(member)
        else:
            yield member


def is_entry(function: ast.FunctionDeclaration) -> bool:
    return function.attribute("shader") is not None or function.attribute("numthreads") is not None


def _close(name: str, names: Sequence[str]) -> str:
    return suggestion(name, names, "no functions")


@dataclass(slots=True, frozen=True)
class TypeConformance:
    """A type that may be behind an interface at run time, with its number."""

    interface_name: str
    type_name: str
    id: int = -1

    @property
    def named(self) -> tuple[str, str, int]:
        """The names of interface and type, and the id."""
        return self.interface_name, self.type_name, self.id


def conformances_of(
    conformances: Sequence[TypeConformance | tuple[HostValue, ...]],
) -> tuple[TypeConformance, ...]:
    """Also from tuples (interface, type[, id]). CallError for a pair or an id that is there twice."""
    distinct: list[TypeConformance] = []
    for entry in conformances:
        conformance = entry if isinstance(entry, TypeConformance) else TypeConformance(*entry)
        for other in distinct:
            _check_distinct(conformance, other)
        distinct.append(conformance)
    return tuple(distinct)


def _check_distinct(first: TypeConformance, other: TypeConformance) -> None:
    if first.interface_name != other.interface_name:
        return
    if first.type_name == other.type_name:
        pair = f'interface type "{first.interface_name}" and type "{first.type_name}"'
        raise CallError("E1020", f"Duplicate type conformance entry for {pair}")
    if first.id == other.id >= 0:
        raise CallError("E1020", f'Duplicate type id {first.id} for interface type "{first.interface_name}"')


@dataclass(slots=True, frozen=True)
class SpecializationArg:
    """A generic argument of an entry point: the name of a type, or a whole number."""

    value: str

    @staticmethod
    def from_type(type_name: str) -> SpecializationArg:
        """A generic argument that is a type, by name. CallError (E1020) for other objects."""
        if not isinstance(type_name, str):
            kind = type(type_name).__name__
            raise CallError(
                "E1020", f"type_name: the name of a type is needed, not {kind}", (), "type.full_name"
            )
        return SpecializationArg(type_name)

    @staticmethod
    def from_expr(expr: str) -> SpecializationArg:
        """A generic argument that is a value, as a text: "8"."""
        return SpecializationArg(str(expr).strip())


class SlangEntryPoint:
    """A function that a kernel starts with."""

    def __init__(
        self,
        module: SlangModule,
        function: str,
        name: str = "",
        arguments: Sequence[SpecializationArg] = (),
        conformances: tuple[TypeConformance, ...] = (),
        declared: ast.FunctionDeclaration | None = None,
    ) -> None:
        """`declared`: the function, where it does not stand in the module itself."""
        self.module = module
        self.function = function
        self.type_conformances = conformances
        self.arguments = tuple(arguments)
        self.name = name or function
        self._declared = None if declared is None else (module.known, declared)

    def __repr__(self) -> str:
        return f"SlangEntryPoint({self.name}, {self.stage.name})"

    @property
    def session(self) -> SlangSession:
        """The session of its module."""
        return self.module.session

    @of_generation
    def declaration(self) -> ast.FunctionDeclaration:
        if self._declared is not None and self._declared[0] is self.module.known:
            return self._declared[1]
        return self.module.entry_function(self.function)

    @of_generation
    def reference(self) -> DeclRef:
        """The function with its generic arguments."""
        return DeclRef(self.declaration, self._substitution() if self.arguments else {})

    @property
    def stage(self) -> ShaderStage:
        """The stage of `[shader(...)]`; compute without it."""
        attribute = self.declaration.attribute("shader")
        word = (
            getattr(attribute.arguments[0], "value", "") if attribute and attribute.arguments else "compute"
        )
        return _STAGES.get(str(word).lower(), ShaderStage.none)

    @property
    def group_size(self) -> tuple[int, int, int]:
        """Threads of a group; one without `[numthreads]`."""
        attribute = self.declaration.attribute("numthreads")
        if attribute is None:
            return (1, 1, 1)
        program = self.session.program
        scope = program.scope_of(self.declaration)
        with self.session.compiler.lock, program.silence():
            sizes = [program.constant(scope, argument) for argument in attribute.arguments]
            values = [
                None if size is None else program.value(size, self.reference.substitution) for size in sizes
            ]
        x, y, z = [*(value if isinstance(value, int) else 1 for value in values), 1, 1, 1][:3]
        return (x, y, z)

    @property
    def parameters(self) -> list[tuple[ast.ParameterDeclaration, Type]]:
        """The parameters with values from the launch, and their types: all but the ids of threads."""
        program, seen = self.session.program, self.reference.substitution
        declared = program.info(self.declaration).parameters
        return [
            (
                parameter,
                stored(program.substitute(program.info(parameter).type, seen), program.info(parameter).rules),
            )
            for parameter in declared
            if is_launch_parameter(program, parameter)
        ]

    @property
    def layout(self) -> EntryPointLayout:
        """The layout: parameters and their places."""
        return ShaderProgram(self.session, (self.module,), (self,)).layout.entry_points[0]

    def specialize(self, specialization_args: Sequence[SpecializationArg]) -> SlangEntryPoint:
        """A generic entry point with its generic arguments; parameters of interface type are generic, too."""
        specialized = SlangEntryPoint(
            self.module, self.function, self.name, specialization_args, self.type_conformances
        )
        specialized._substitution()
        return specialized

    def _substitution(self) -> Bindings:
        generics = self.declaration.generics
        if len(generics) != len(self.arguments):
            counted = f"{len(generics)} generic arguments, not {len(self.arguments)}"
            raise CallError("E1020", f"entry point '{self.name}' takes {counted}")
        bindings: Bindings = dict(zip(generics, map(self._argument, self.arguments)))
        for parameter, argument in bindings.items():
            self._check_bounds(parameter, argument, bindings)
        return bindings

    def moved_to(self, module: SlangModule) -> SlangEntryPoint:
        """The same in a module that was linked."""
        if module is self.module:
            return self
        return SlangEntryPoint(module, self.function, self.name, self.arguments, self.type_conformances)

    def _argument(self, value: SpecializationArg) -> GenericArgument:
        if not isinstance(value, SpecializationArg):
            note = "pass SpecializationArg.from_type(name)"
            raise CallError("E1020", f"specialize: {type(value).__name__} is no SpecializationArg", (), note)
        if value.value.isdecimal():
            return int(value.value)
        argument = self.module.types.find(value.value)
        if argument is None:
            raise CallError("E1020", f'Specialization type "{value.value}" not found')
        return argument

    @of_generation
    def conformances(self) -> tuple[Conformance, ...]:
        """Which types values of interface types can have, beside those that the program itself converts."""
        return tuple(map(self._conformance, self.type_conformances))

    def _conformance(self, conformance: TypeConformance) -> Conformance:
        return conformance_of(self.module.types, conformance.named)

    def _check_bounds(self, parameter: object, argument: object, bindings: Bindings) -> None:
        if not isinstance(parameter, ast.TypeParameter) or not isinstance(argument, Type):
            return
        view = self.module.view
        for bound in view.bounds(parameter_type(parameter)):
            wanted = self.session.program.substitute(bound, bindings)
            if not view.conforms(argument, wanted):
                message = f"specialize: '{argument}' does not conform to '{bound}'"
                raise CallError("E1020", message)

    def rename(self, new_name: str) -> SlangEntryPoint:
        """The same under another name."""
        return SlangEntryPoint(self.module, self.function, new_name, self.arguments, self.type_conformances)

    with_name = rename


class ShaderProgram:
    """Linked modules and entry points."""

    def __init__(
        self,
        session: SlangSession,
        modules: tuple[SlangModule, ...],
        entry_points: tuple[SlangEntryPoint, ...],
    ) -> None:
        self.session = session
        self.modules = modules
        self.entry_points = entry_points
        self.pipelines: WeakBag[ComputePipeline] = WeakBag()
        session.device.programs.add(self)

    def get_compilation_report(self) -> dict[str, object]:
        """The compile times of its pipelines in seconds, and whether the cache had them."""
        label = ", ".join(module.name for module in self.modules)
        pipelines = sorted(self.pipelines, key=lambda pipeline: pipeline.began)
        return program_report(label, [entry.name for entry in self.entry_points], pipelines)

    def __repr__(self) -> str:
        return f"ShaderProgram(entry_points={[entry.name for entry in self.entry_points]})"

    @property
    def device(self) -> Device:
        """The device of its session."""
        return self.session.device

    @of_generation
    def layout(self) -> ProgramLayout:
        """Its parameters, entry points and types."""
        return ProgramLayout(self)

    @property
    def reflection(self) -> ReflectionCursor:
        """The same by names: `program.reflection.particles`."""
        return ReflectionCursor(self)

    @property
    def types(self) -> ModuleTypes:
        """The types of its first part."""
        return self.parts[0].types

    @property
    def parts(self) -> tuple[SlangModule, ...]:
        """The modules of the entry points, and the others."""
        return tuple(dict.fromkeys((*(entry.module for entry in self.entry_points), *self.modules)))

    @of_generation
    def globals(self) -> tuple[GlobalParameter, ...]:
        """The parameters outside of functions, in the order of their modules."""
        program = self.session.program
        return tuple(
            parameter
            for module in self._all_modules()
            for part in module.files
            for declared in members_of(part)
            for parameter in _parameters_of(program, declared)
        )

    def _all_modules(self) -> list[CheckedModule]:
        """The modules that were linked and all that they import, each once."""
        modules = [
            module.checked for module in (*self.modules, *(entry.module for entry in self.entry_points))
        ]
        for checked_module in modules:  # grows while it is read
            modules += [imported for imported in checked_module.imports if imported not in modules]
        return list(dict.fromkeys(modules))


def _parameters_of(program: CheckedProgram, declared: ast.Declaration) -> Iterator[GlobalParameter]:
    if isinstance(declared, ast.BufferBlock):
        members = tuple(member for member in declared.members if isinstance(member, ast.Variable))
        yield GlobalParameter(declared.name, declared, members)
    elif isinstance(declared, ast.Variable) and _is_parameter(program, declared):
        yield GlobalParameter(declared.name, declared, (declared,))


def _is_parameter(program: CheckedProgram, declared: ast.Variable) -> bool:
    """Whether a variable comes from the launch: it is neither the kernel's own nor a constant."""
    if declared.has("static") or declared.has("groupshared"):
        return False
    return declared.initializer is None or bool(program.info(declared).mutable)
