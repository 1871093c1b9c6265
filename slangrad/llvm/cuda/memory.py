"""Loads and stores of a GPU thread: addresses in registers are generic, an access says which memory they lead to.

    load %p : f32     %a = addrspacecast ptr %p to ptr addrspace(1)     load float, ptr addrspace(1) %a

A pointer of the IR may lead to a variable of the thread where the program has variables with an address. There the
access stays generic, and LLVM looks for the memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import pointer_of
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.effects import local_bytes
from slangrad.llvm.cuda.launch import STATUS_FIELDS, read_field
from slangrad.llvm.memory import known_memory, memory, variables
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.type_names import memory_name

# Of local arrays. The driver keeps as much for each thread that a GPU could run at a time, 6 GB on an H100. Stacks of
# the threads of a warp are interleaved, places in the arena are not: there one kernel took nine times as long.
STACK_BYTES = 24 << 10
STACK_OF_CALLED = 4 << 10  # of each function that is kept: those of several add up
GLOBAL, SHARED = "ptr addrspace(1)", "ptr addrspace(3)"
IS_MEMORY = known_memory.search_in(f"getelementptr i8, ptr %launch, i64 {STATUS_FIELDS['memory']}")
_SPACES = {"global": GLOBAL, "shared": SHARED}


def has_variables(functions: Iterable[Function]) -> bool:
    """Whether a pointer may lead to memory of a thread."""
    return any(op.name == "variable" for function in functions for op in walk(function.region))


def stack_bytes(function: Function, is_called: bool = False) -> int:
    """How many bytes of local arrays lie on the stack at most. The sums of a thread, which are the first arrays of a
    kernel that stays, lie there as well."""
    sums = (
        [op for op in function.region.ops if op.name == "alloc"] if function.attributes.get("stays") else []
    )
    return (STACK_OF_CALLED if is_called else STACK_BYTES) + sum(map(local_bytes, sums))


def overflows_stack(function: Function, is_called: bool = False) -> bool:
    """Whether the local arrays of a thread take more than its stack has for them."""
    places = (op for op in walk(function.region) if op.name in ("alloc", "variable") and not op.operands)
    return sum(map(local_bytes, places)) > stack_bytes(function, is_called)


def placed(e: RegionEmitter, p: Value) -> str:
    """The address with its type, in the memory that it leads to."""
    space = _SPACES.get(pointer_of(p.type).space)
    if space is None or (space is GLOBAL and e.environment.mixed_spaces):
        return e.typed(p)
    return f"{space} " + e.w.value(f"addrspacecast {e.typed(p)} to {space}")


def load(e: RegionEmitter, p: Value, name: str) -> str:
    """A value of an LLVM type."""
    invariant = ", !invariant.load !0" if pointer_of(p.type).space == "constant" else ""
    return e.w.value(f"load {name}, {placed(e, p)}, align {_alignment(e, p, name)}{invariant}")


def store(e: RegionEmitter, p: Value, value: str) -> None:
    """A value behind its LLVM type."""
    e.w.line(f"store {value}, {placed(e, p)}, align {_alignment(e, p, value)}")


def _alignment(e: RegionEmitter, p: Value, typed: str) -> int:
    """That of an element; of lanes in one piece the whole, which the kernel has made sure of."""
    element = layout_of(pointer_of(p.type).element)
    return element.size * e.names.lanes if typed.startswith("<") else element.alignment


def _load(e: RegionEmitter, op: Op) -> None:
    (p,), (r,) = op.operands, op.results
    register = e.type(r)
    name = memory_name(register)
    loaded = load(e, p, name)
    if name != register:
        loaded = e.w.value(f"icmp ne {name} {loaded}, zeroinitializer")
    e.define(r, loaded)


def _store(e: RegionEmitter, op: Op) -> None:
    p, v = op.operands
    register, value = e.type(v), e.operand(v)
    name = memory_name(register)
    if name != register:
        value = e.w.value(f"zext {register} {value} to {name}")
    store(e, p, f"{name} {value}")


def _is_memory(e: RegionEmitter, op: Op) -> None:
    e.w.declarations.add_functions(IS_MEMORY)
    known_memory.look_up(e, op, read_field(e.w, e.environment.launch, "status"))


RULES: dict[str, Rule] = {
    **{name: memory.RULES[name] for name in ("alloc", "parameter", "offset", "member")},
    "load": _load,
    "store": _store,
    "is_memory": _is_memory,
    "variable": variables.RULES["variable"],
}
