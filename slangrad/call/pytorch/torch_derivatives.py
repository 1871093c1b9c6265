"""The Slang function that computes the gradients of a call, so that these have derivatives themselves.

    [Differentiable] float poly(float a, float x)      gradients of x are wanted

    [Differentiable] void gradients(float input0, float input1, float cotangent, out float gradient1)
    {
        var pair0 = diffPair(input0);
        var pair1 = diffPair(input1);
        bwd_diff(poly)(pair0, pair1, cotangent);
        gradient1 = pair1.d;
    }

In: the site of a call.   Out: the site of the call of that function, and the source of its constants. `poly.bwds`
sums broadcast gradients, and the derivative of a sum reads the cotangent of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from slangrad.base.lazy import LazyModule
from slangrad.call.binding.call_request import CallRequest, CallSettings, settings_key
from slangrad.call.caller import Caller
from slangrad.call.compiling.gradient_text import GradientCall, differentiable_function
from slangrad.call.plan_store import PlanStore
from slangrad.call.pytorch.torch_sites import Arrange, TorchSite, TorchSlot
from slangrad.check.model.types import StructType, Type
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.nodes import BoundNode, Composite, Leaf
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.spelling import spell_on_page

if TYPE_CHECKING:
    from slangrad.call.binding.bind import Binding, BoundArgument
    from slangrad.call.binding.binding import Binder
    from slangrad.call.binding.program import FoundFunction
    from slangrad.call.sessions import SessionGeneration
    from slangrad.check.reflect import ParameterView

FRONT = LazyModule("slangrad.call.front")
NAME = "gradients"
Slots = list[tuple[tuple[object, ...], TorchSlot]]  # each with the path of its derivative


@dataclass(slots=True)
class Made:
    """A parameter of the function: its text, and its argument: that of the call at `value_index`, or slots
    in dicts and lists like it (`tree`)."""

    name: str
    text: str
    value_index: int = -1
    slots: Slots = field(default_factory=list)
    tree: object = None
    map: object = None


class Composed(NamedTuple):
    """A type of the library that is built of parameters, and their names."""

    name: str
    fields: tuple[str, ...]


_COMPOSED = {
    "DiffTensor": Composed("GradientTensor", ("input", "gradient")),
    "WDiffTensor": Composed("StoreTensor", ("cotangent",)),
    "DiffSumTensor": Composed("SumTensor", ("cotangent",)),
}


@dataclass(slots=True)
class GradientPage:
    """The function as it is written: the gradients of the slots `wanted`."""

    site: TorchSite
    wanted: tuple[int, ...]
    types: ProgramTypes
    generics: list[str] = field(default_factory=list)
    replaced: dict[str, str] = field(default_factory=dict)  # generic arguments of the function that is called
    parameters: list[Made] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    call: GradientCall = field(init=False)

    def __post_init__(self) -> None:
        self.call = GradientCall(self.before.append)

    def text(self, function: FoundFunction) -> str:
        callee = function.static_with(self.replaced)
        body = [*self.before, self.call.text(f"::{callee.removeprefix('::')}"), *self.after]
        lines = [f'import "{name}";' for name in function.imports()]
        lines_of_function = differentiable_function(
            NAME, (parameter.text for parameter in self.parameters), body, self.generics
        )
        return "\n".join([*lines, "", *function.outside, *lines_of_function])

    def tangent(self, t: Type) -> str:
        differential = self.types.tangent(t)
        assert differential is not None, t
        return spell_on_page(differential)

    def slots_of(self, index: int) -> list[tuple[int, TorchSlot]]:
        return [(i, slot) for i, slot in enumerate(self.site.slots) if slot.value_index == index]

    def add(self, parameter: Made) -> str:
        self.parameters.append(parameter)
        return parameter.name

    def add_argument(
        self, k: int, argument: BoundArgument, parameter: ParameterView, declared: Type, index: int
    ) -> None:
        own_map = _map_of(self.site, index, parameter.name)
        if argument.node.has_place:
            ((_, leaf),) = argument.node.leaves()
            self.add_whole(k, leaf, declared, index, _only_dimensions(own_map))
            return
        if argument.direction == "out":
            if argument.differentiable:
                slots = [slot for _, slot in self.slots_of(index) if slot.carries]
                self.add_cotangent(f"cotangent{k}", parameter.type, argument.node, slots, own_map)
            return
        _check(argument)
        no_diff = "no_diff " if parameter.no_diff else ""
        name = self.add(
            Made(f"input{k}", f"{no_diff}{spell_on_page(parameter.type)} input{k}", index, map=own_map)
        )
        if argument.differentiable:
            cotangent = self.cotangent_of(k, argument, parameter, index, own_map)
            self.call.pair(f"pair{k}", name + cotangent)
            self.add_gradient(k, parameter.type, argument.node, index, own_map)
        elif argument.direction == "in":
            self.call.arguments.append(f"no_diff {name}" if argument.node.is_plain_whole else name)
        else:
            self.before.append(f"var changed{k} = {name};")
            self.call.arguments.append(f"changed{k}")

    def add_whole(self, k: int, leaf: Leaf, declared: Type, index: int, own_map: object) -> None:
        """A whole tensor is built of the function's own parameters: the values, and the gradients or cotangents."""
        assert leaf.content is not None and isinstance(leaf.type, StructType)
        composed = _COMPOSED.get(standard_name(leaf.type))
        if composed is None or isinstance(declared, StructType):
            raise _without_derivative(leaf)
        rank = leaf.type.arguments[1]
        element, tangent = (f"{spell_on_page(leaf.content)}, {rank}", f"{self.tangent(leaf.content)}, {rank}")
        makers = {"input": self._input, "cotangent": self._cotangent, "gradient": self._gradient}
        fields = [makers[name](k, element, tangent, index, own_map) for name in composed.fields]
        kinds, names = zip(*fields)
        kind = f"{composed.name}<{', '.join((element, *kinds))}>"
        self.before.append(f"{kind} whole{k} = {{ {', '.join(names)} }};")
        self.call.arguments.append(f"whole{k}")
        if self.replaced.setdefault(str(declared), kind) != kind:
            message = f"argument '{leaf.label}': gradients of two tensors of one type '{declared}' have no derivative"
            raise CallError("E1007", message, (), "declare each of them ITensor")

    def _input(self, k: int, element: str, tangent: str, index: int, own_map: object) -> tuple[str, str]:
        return self._generic("P", "ITensor", element, Made(f"input{k}", "", index, map=own_map))

    def _cotangent(self, k: int, element: str, tangent: str, index: int, own_map: object) -> tuple[str, str]:
        slots: Slots = [((), slot) for _, slot in self.slots_of(index)]
        return self._generic("C", "ITensor", tangent, Made(f"cotangent{k}", "", -1, slots, None, own_map))

    def _gradient(self, k: int, element: str, tangent: str, index: int, own_map: object) -> tuple[str, str]:
        slots: Slots = [((), slot) for i, slot in self.slots_of(index) if i in self.wanted]
        if not slots:
            self.before.append(f"NoSum<{tangent}> gradient{k};")
            return f"NoSum<{tangent}>", f"gradient{k}"
        return self._generic("S", "ISumTensor", tangent, Made(f"gradient{k}", "", -1, slots, None, own_map))

    def _generic(self, letter: str, interface: str, element: str, parameter: Made) -> tuple[str, str]:
        """A parameter of a type of its own."""
        kind = f"{letter}{len(self.generics)}"
        self.generics.append(f"{kind} : {interface}<{element}>")
        return kind, self.add(replace(parameter, text=f"{kind} {parameter.name}"))

    def cotangent_of(
        self, k: int, argument: BoundArgument, parameter: ParameterView, index: int, own_map: object
    ) -> str:
        """The cotangent of an argument that goes in and out, as a further argument of `diffPair`."""
        slots = [slot for _, slot in self.slots_of(index) if slot.is_output and slot.carries]
        if argument.direction == "in" or not slots:
            return ""
        return f", {self.cotangent(f'cotangent{k}', parameter.type, argument.node, slots, own_map)}"

    def add_cotangent(
        self, name: str, t: Type, node: BoundNode | None, slots: list[TorchSlot], own_map: object
    ) -> None:
        """The derivative of an output as an argument; zero where no torch tensor holds it."""
        if slots:
            self.cotangent(name, t, node, slots, own_map)
        else:
            self.before.append(f"{self.tangent(t)} {name} = {{}};")
        self.call.arguments.append(name)

    def cotangent(
        self, name: str, t: Type, node: BoundNode | None, slots: list[TorchSlot], own_map: object
    ) -> str:
        """The parameter for the derivative of an output."""
        placed, tree = _placed(node, slots, self.types)
        return self.add(Made(name, f"{self.tangent(t)} {name}", -1, placed, tree, _only_dimensions(own_map)))

    def add_gradient(self, k: int, t: Type, node: BoundNode, index: int, own_map: object) -> None:
        """The derivative of an input, if it is wanted."""
        slots = [slot for i, slot in self.slots_of(index) if i in self.wanted and not slot.is_output]
        if slots:
            placed, tree = _placed(node, slots, self.types)
            declared = f"out {self.tangent(t)} gradient{k}"
            self.add(Made(f"gradient{k}", declared, -1, placed, tree, _only_dimensions(own_map)))
            self.after.append(f"gradient{k} = pair{k}.d;")


def reverse_site(
    site: TorchSite, wanted: tuple[int, ...], bound: Callable[[], Binding]
) -> tuple[TorchSite, Arrange]:
    """The site of the gradients of these slots, made once. `bound`: how `bwds` of the site is called."""
    follower: tuple[TorchSite, Arrange] = site.followers.get(wanted) or _make(site, wanted, bound())
    site.followers[wanted] = follower
    return follower


def _make(site: TorchSite, wanted: tuple[int, ...], bound: Binding) -> tuple[TorchSite, Arrange]:
    page = GradientPage(site, wanted, site.caller.binder.types)
    sources, function = iter(bound.sources), bound.function
    for k, (argument, parameter) in enumerate(zip(bound.arguments, function.parameters)):
        indices = [next(sources).value_index for _ in argument.node.leaves()]
        declared = function.candidate.parameters[k].type
        page.add_argument(k, argument, parameter, declared, indices[0] if indices else -1)
    if function.result_differentiable:
        result_slots = [TorchSlot(-1, (), "_result", False, True, True)] if site.result_carries else []
        filled = [slot for _, slot in page.slots_of(site.result_at) if slot.carries]
        assert function.result is not None
        page.add_cotangent("cotangent", function.result, bound.result, result_slots or filled, None)
    text = page.text(function)
    caller = _caller_of(site.caller.generation, f"{NAME} {next(_numbers)} of {function.name}", text)
    return _site_of(page, caller), _arrangement(page)


_numbers = count()  # modules made here differ by name


def _check(argument: BoundArgument) -> None:
    """CallError for an input whose gradient has no derivative."""
    for _, leaf in argument.node.leaves():
        if leaf.has_place:
            raise _without_derivative(leaf)


def _without_derivative(leaf: Leaf) -> CallError:
    message = f"argument '{leaf.label}': gradients of a '{leaf.type}' have no derivative"
    note = "for derivatives of gradients declare a parameter of its own for it, ITensor or IWTensor"
    return CallError("E1007", message, (), note)


def _map_of(site: TorchSite, index: int, name: str) -> object:
    """The entry of `map` for an argument."""
    settings = site.settings
    if name in settings.map_named:
        return settings.map_named[name]
    positional = settings.map_positional
    return positional[index] if 0 <= index < min(site.positional, len(positional)) else None


def _only_dimensions(map: object) -> object:
    """A map without its types: derivatives have their own."""
    if isinstance(map, dict):
        return {name: entry for name, entry in map.items() if isinstance(entry, (tuple, dict))}
    return map if isinstance(map, tuple) else None


def _placed(node: BoundNode | None, slots: list[TorchSlot], types: ProgramTypes) -> tuple[Slots, object]:
    """Slots with the paths of their derivatives, and the dicts and lists around these."""
    if node is None:
        return [((), slot) for slot in slots], None
    tree = _tree(node, [slot.path for slot in slots], types)
    return [(_tangent_path(node, slot.path, types), slot) for slot in slots], tree


def _tangent_path(node: BoundNode, path: tuple[object, ...], types: ProgramTypes) -> tuple[object, ...]:
    keys: list[object] = []
    for step in path:
        assert isinstance(node, Composite), node
        keys.append(_tangent_key(node, step, types))
        node = next(part.node for part in node.parts if part.key == step)
    return tuple(keys)


def _tangent_key(node: Composite, key: object, types: ProgramTypes) -> object:
    return types.tangent_field(node.type, key) if isinstance(key, str) else key


def _caller_of(generation: SessionGeneration, name: str, text: str) -> Caller:
    """The calls of the function, in a module of its own."""
    module = generation.page(name, text)
    types = module.all_types

    def binder() -> Binder:
        candidates = [FRONT.candidate_of(view, types) for view in module.view.find_functions(NAME)]
        found_binder: Binder = FRONT.Binder(NAME, candidates, types, module.imports)
        return found_binder

    store = PlanStore(module.key, NAME, generation.settings, generation.target, types)
    caller = Caller(NAME, binder, generation, store)
    caller.others = [_caller_of(other, name, text) for other in generation.others]
    return caller


def _site_of(page: GradientPage, caller: Caller) -> TorchSite:
    """Its slots: inputs that were kept, cotangents, gradients, each in the order of the site before."""
    site = page.site
    names = tuple(parameter.name for parameter in page.parameters)
    maps = {parameter.name: parameter.map for parameter in page.parameters if parameter.map is not None}
    settings = CallSettings(map_named=maps, globals=site.settings.globals, group=site.settings.group)
    settings = replace(settings, key=settings_key(settings))
    request = CallRequest(settings, 0, names, [], "", -1, len(names))
    at = {
        parameter.value_index: k for k, parameter in enumerate(page.parameters) if parameter.value_index >= 0
    }
    inputs = [_moved(site.slots[i], at[site.slots[i].value_index]) for i in site.kept]
    placed = [
        (slot, _slot_of(slot, k, path, parameter.name))
        for k, parameter in enumerate(page.parameters)
        for path, slot in parameter.slots
    ]
    order = [
        -1,
        *(site.slots[i] for i in site.carrying_outputs),
    ]  # the result that the call makes comes first
    written = [(order.index(slot if slot in order else -1), new) for slot, new in placed if slot.writes]
    cotangents = [new for _, new in sorted(written, key=itemgetter(0))]
    gradients = [new for i in page.wanted for slot, new in placed if slot is site.slots[i]]
    reverse = TorchSite(caller, settings, request, (*inputs, *cotangents, *gradients), False, False)
    reverse.sinks = tuple(
        sink._replace(value_index=at[sink.value_index]) for sink in site.sinks if sink.value_index in at
    )
    reverse.nest(reverse.sinks)
    return reverse


def _slot_of(slot: TorchSlot, index: int, path: tuple[object, ...], name: str) -> TorchSlot:
    """The slot of a derivative: cotangents are read, gradients written. Those of whole tensors are some themselves."""
    return TorchSlot(index, path, name, not slot.reads, slot.reads, True, slot.is_plain or slot.is_paired)


def _moved(slot: TorchSlot, index: int) -> TorchSlot:
    """The slot of an input among other values. A whole tensor is an ITensor there: it may have gradients."""
    whole = slot.is_plain or slot.is_paired
    return slot._replace(value_index=index, is_plain=whole, is_paired=False)


def _arrangement(page: GradientPage) -> Arrange:
    """The constants of the new site from those of the old one."""

    def arrange(constants: list[object]) -> list[object]:
        values = [
            constants[parameter.value_index] if parameter.value_index >= 0 else parameter.tree
            for parameter in page.parameters
        ]
        return [*values, *constants[page.site.globals_at :]]

    return arrange


def _tree(node: BoundNode, paths: list[tuple[object, ...]], types: ProgramTypes) -> object:
    """Dicts and lists as in the argument, for its derivative. Other elements of a list are zeros that no kernel
    reads."""
    if not isinstance(node, Composite):
        return None if paths else 0.0
    parts = {}
    for part in node.parts:
        below = [path[1:] for path in paths if path[0] == part.key]
        if below or not isinstance(part.key, str):
            parts[_tangent_key(node, part.key, types)] = _tree(part.node, below, types)
    return parts if all(isinstance(key, str) for key in parts) else list(parts.values())
