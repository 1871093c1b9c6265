"""Provenance of addresses: their roots, and the values that they flow into.

    %m = member %v {index=1}               root of %q: %v
    %q = offset %m, %i                     path of %q: 4 bytes behind %v, and 8 for each %i
    %r = if %c {yield %q} {yield null}     path of %r: the same, chosen by %c

If %v is a `variable`, all of them lead there (`leads_to_variables`). `made_by` maps a value to its op: it is
`region.makers.get`, or a builder's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slangrad.ir.data.layout import element_size, layout_of
from slangrad.ir.data.types import Lanes, Pointer, Type, contains, pointer_of
from slangrad.ir.ops.control import LOOPS, carried, merged
from slangrad.ir.ops.core import MadeBy, Op, Region, Value, number_of, walk

MEMBERS = frozenset({"member"})
STEPS = MEMBERS | {"offset", "bitcast"}
ACCESSES = frozenset({"load", "store", "atomic"})

Values = Sequence[Value]


def is_address(t: Type) -> bool:
    return isinstance(t.element if isinstance(t, Lanes) else t, Pointer)


def is_step(op: Op, steps: frozenset[str] = STEPS) -> bool:
    """Whether an op leads from its first operand, an address, to another one in the same memory."""
    return op.name in steps and is_address(op.results[0].type) and is_address(op.operands[0].type)


def root_of(address: Value, made_by: MadeBy, steps: frozenset[str] = STEPS) -> Value:
    """The address that all steps to an address begin with."""
    op = made_by(address)
    while op is not None and is_step(op, steps):
        address = op.operands[0]
        op = made_by(address)
    return address


@dataclass(frozen=True, slots=True)
class AddressPath:
    """An address: `distance` bytes and some steps, each an index times bytes, from a root. `choices` are ops on the
    way there, after which the address is null where their condition is false."""

    root: Value
    distance: int = 0
    steps: tuple[tuple[Value, int], ...] = ()
    choices: tuple[Op, ...] = ()


def path_of(
    address: Value, made_by: MadeBy, steps: frozenset[str] = STEPS, choices: bool = False
) -> AddressPath:
    """The path of an address from its root. With `choices` the path goes through a choice between an address and
    null. Constant indices are part of the distance."""
    distance, indices, chosen = 0, list[tuple[Value, int]](), list[Op]()
    while (op := made_by(address)) is not None:
        before = op.operands[0] if is_step(op, steps) else _chosen(op, address, made_by) if choices else None
        if before is None:
            break
        address = before
        if op.name == "member":
            distance += layout_of(pointer_of(address.type).element).offsets[op.attributes["index"]]
        elif op.name == "offset":
            size, number = element_size(address.type), number_of(op.operands[1], made_by)
            indices += [(op.operands[1], size)] if number is None else []
            distance += (number or 0) * size
        elif op.name != "bitcast":
            chosen.append(op)
    return AddressPath(address, distance, tuple(indices), tuple(chosen))


def _chosen(op: Op, address: Value, made_by: MadeBy) -> Value | None:
    """The address that it is where the condition of a choice is true, if it is null otherwise."""
    if op.name not in ("if", "select"):
        return None
    at = op.results.index(address)
    chosen, other = op.operands[1:] if op.name == "select" else (region.yields[at] for region in op.regions)
    return chosen if is_null(other, made_by) else None


def is_null(address: Value, made_by: MadeBy) -> bool:
    op = made_by(address)
    while op is not None and op.name == "bitcast":
        op = made_by(op.operands[0])
    return op is not None and (op.name == "zero" or op.attributes.get("value") == 0)


class Roots:
    """Roots of many addresses: steps are taken once."""

    def __init__(self, made_by: MadeBy) -> None:
        self.made_by = made_by
        self._roots: dict[Value, Value] = {}

    def root(self, address: Value) -> Value:
        path = list[Value]()
        while address not in self._roots:
            before = self._before(address)
            if before is None:
                self._roots[address] = address
            else:
                path.append(address)
                address = before
        root = self._roots[address]
        self._roots.update(dict.fromkeys(path, root))
        return root

    def _before(self, address: Value) -> Value | None:
        op = self.made_by(address)
        return op.operands[0] if op is not None and is_step(op) else None


class NonEscapingMemory(Roots):
    """Memory by `alloc` whose address serves loads and stores only: no other code can reach it."""

    def __init__(self, region: Region) -> None:
        super().__init__(region.makers.get)
        self._escaped = {
            self.root(v)
            for op in walk(region)
            for v in (*_let_go(op), *(v for inner in op.regions for v in inner.yields))
            if isinstance(v.type, Pointer)
        }

    def of(self, address: Value) -> Value | None:
        """The `alloc` that an address leads into, if it is such memory."""
        root = self.root(address)
        op = self.made_by(root)
        return root if op is not None and op.name == "alloc" and root not in self._escaped else None


_STAYS = frozenset(
    {"load", "load_record", "store", "member", "offset"}
)  # with the address that they are given


def _let_go(op: Op) -> tuple[Value, ...]:
    return op.operands[1:] if op.name in _STAYS else op.operands


# --- forwards


def holds_pointers(t: Type) -> bool:
    return contains(t, lambda part: isinstance(part, Pointer))


def leads_to_variables(region: Region, origins: Iterable[Value] = ()) -> dict[Value, Value]:
    """Values that may lead to a variable of the region or to the memory of one of `origins`, each with its origin.
    Pointers are followed through all values, through variables that hold pointers, and through calls: a result may
    be any pointer among the arguments. Numbers made of addresses are not followed.
    """
    flows: dict[Value, list[Value]] = defaultdict(list)
    leading = {v: v for v in origins if holds_pointers(v.type)}
    is_stored = bool(leading)
    for op in walk(region):
        if op.name == "variable":
            leading[op.results[0]] = op.results[0]
        for sources, targets in _flows(op) if op.name != "load" or is_stored else ():
            for source in sources:
                flows[source] += [v for v in targets if holds_pointers(v.type)]
    _follow(list(leading), flows, leading)
    if not is_stored and any(_stores(op, leading) for op in walk(region)):
        loads = [op for op in walk(region) if op.name == "load" and holds_pointers(op.results[0].type)]
        stores = [op for op in walk(region) if op.name == "store" and set(op.operands) <= leading.keys()]
        held = {leading[op.operands[0]]: leading[op.operands[1]] for op in stores}
        loaded = {op.results[0]: leading[op.operands[0]] for op in loads if op.operands[0] in leading}
        leading |= {value: held.get(variable, variable) for value, variable in loaded.items()}
        for op in loads:
            flows[op.operands[0]] += op.results
        _follow(list(loaded), flows, leading)
    return leading


def _flows(op: Op) -> list[tuple[Values, Values]]:
    """Values, and all values that may be derived from them."""
    if op.name == "if":
        return [(arms, (result,)) for result, *arms in merged(op)]
    if op.name in LOOPS:
        return [
            ((variable.start, variable.yielded), (*variable.inside, variable.result))
            for variable in carried(op)
        ]
    return [(op.operands, op.results)]


def _follow(todo: list[Value], flows: dict[Value, list[Value]], leading: dict[Value, Value]) -> None:
    for value in todo:  # grows while it is read
        new = [target for target in flows[value] if target not in leading]
        leading.update(dict.fromkeys(new, leading[value]))
        todo += new


def _stores(op: Op, leading: dict[Value, Value]) -> bool:
    """Whether a pointer may be stored in a variable; a call may store its arguments."""
    if op.name not in ("store", "call"):
        return False
    into = [
        v
        for v in op.operands
        if v in leading and isinstance(v.type, Pointer) and holds_pointers(v.type.element)
    ]
    return bool(into) and (op.name == "call" or op.operands[1] in leading)
