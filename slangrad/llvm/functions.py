"""Functions that a kernel calls, as functions of LLVM, and calls of them.

    call @f.16.0 %x, %v        call {float, <16 x float>} @"kept.f.16.0"(..., float %x, <16 x float> %v)

The context of a thread is passed on: the argument block, the launch record, its ids, the budget of long loops. Long
loops that have to stop leave their function with zeros; the caller's loops check for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slangrad.ir.ops.core import Function, Op, Value
from slangrad.llvm.memory.memory import WAVE_ALIGNMENT, Locals
from slangrad.llvm.memory.tapes import TAKE
from slangrad.llvm.text.emit import Environment, RegionEmitter, Rule, carried_type, carry
from slangrad.llvm.text.type_names import TypeNames
from slangrad.llvm.text.writer import Writer

LEAVE = "leave"
AROUND = "ptr %arguments, ptr %launch, i32 %x, i32 %y, i32 %z, ptr %budget"


def write_function(
    w: Writer, function: Function, around: Environment, lanes: int, rules: Mapping[str, Rule]
) -> str:
    """The text of a function; `w` is a writer of its own."""
    e, region, local = RegionEmitter(w, TypeNames(lanes), around, rules), function.region, around.locals
    assert isinstance(local, Locals)
    parameters, through_memory = [AROUND], len(region.yields) > 1
    for number, value in enumerate(region.parameters):
        parameters.append(f"{carried_type(e, value)} %p{number}")
        e.arrive((value,), (f"%p{number}",))
    e.region(region)
    results = [
        f"{carried_type(e, v)} {text}" for v, text in zip(region.yields, carry(e, region.yields), strict=True)
    ]
    if through_memory:
        parameters.append("ptr %results")
        _leave(w, _struct(e, region.yields), results)
    result = _result_type(e, region.yields)
    begin = ["  br label %entry"]
    if local.arena_size:
        begin = _begin_locals(w, around.memory, local, result)
        _give_locals(w, around.memory, local)
    w.line("ret void" if result == "void" else f"ret {results[0]}")
    w.block(LEAVE)
    if through_memory:
        w.line(f"store {_struct(e, region.yields)} zeroinitializer, ptr %results")
    if local.arena_size:
        _give_locals(w, around.memory, local)
    w.line(_nothing(result))
    head = f"define internal fastcc {result} {_symbol(function.name)}({', '.join(parameters)}) noinline #0 {{"
    return "\n".join([head, "begin:", *w.entry, *begin, "entry:", *w.lines, "}", ""])


def _symbol(name: str) -> str:
    plain = name.replace("\\", "\\5C").replace('"', "\\22")
    return f'@"kept.{plain}"'


# --- results: one in a register, several in memory of the caller


def _result_type(e: RegionEmitter, values: Sequence[Value]) -> str:
    return carried_type(e, values[0]) if len(values) == 1 else "void"


def _struct(e: RegionEmitter, values: Sequence[Value]) -> str:
    return f"{{{', '.join(carried_type(e, v) for v in values)}}}"


def _places(w: Writer, struct: str, results: str, count: int) -> list[str]:
    return [w.value(f"getelementptr {struct}, ptr {results}, i32 0, i32 {i}") for i in range(count)]


def _leave(w: Writer, struct: str, results: Sequence[str]) -> None:
    for place, result in zip(_places(w, struct, "%results", len(results)), results, strict=True):
        w.line(f"store {result}, ptr {place}")


def _nothing(result: str) -> str:
    return "ret void" if result == "void" else f"ret {result} zeroinitializer"


# --- memory of large local arrays, for one call


def _bytes(local: Locals) -> int:
    """A power of two, as pieces of the arena are."""
    return max(64, 1 << (local.arena_size - 1).bit_length())


def _begin_locals(w: Writer, memory: str, local: Locals, result: str) -> list[str]:
    w.declarations.add_functions(TAKE)
    return [
        f"  %locals = call ptr @take(ptr {memory}, i64 {_bytes(local)})",
        "  %no_memory = icmp eq ptr %locals, null",
        "  br i1 %no_memory, label %nothing, label %entry",
        "nothing:",
        f"  {_nothing(result)}",
    ]


def _give_locals(w: Writer, memory: str, local: Locals) -> None:
    w.line(f"call void @give(ptr {memory}, ptr %locals, i64 {_bytes(local)})")


# --- calls


def _call(e: RegionEmitter, op: Op) -> None:
    w, around = e.w, e.environment
    x, y, z = around.thread
    arguments = [f"ptr {around.arguments}", f"ptr {around.launch}", f"i32 {x}", f"i32 {y}", f"i32 {z}"]
    arguments.append(f"ptr {around.budget}")
    arguments += [
        f"{carried_type(e, v)} {text}" for v, text in zip(op.operands, carry(e, op.operands), strict=True)
    ]
    result, struct, memory = _result_type(e, op.results), _struct(e, op.results), ""
    if len(op.results) > 1:
        memory = w.slot(struct, 1, WAVE_ALIGNMENT)
        arguments.append(f"ptr {memory}")
    call = f"call fastcc {result} {_symbol(op.attributes['callee'])}({', '.join(arguments)})"
    if result != "void":
        e.arrive(op.results, (w.value(call),))
        return
    w.line(call)
    places = _places(w, struct, memory, len(op.results)) if memory else []
    loads = (f"load {carried_type(e, v)}, ptr {place}" for v, place in zip(op.results, places, strict=True))
    e.arrive(op.results, list(map(w.value, loads)))


RULES: dict[str, Rule] = {"call": _call}
