"""Functions that a kernel calls, as functions of LLVM, and calls of them.

    call @f.16.0 %x, %v        call fastcc {float, <16 x float>} @"kept.f.16.0"(..., float %x, <16 x float> %v)

What is around a thread is handed on: the argument block, the launch record, its ids, the budget of long loops. Long
loops that have to stop leave their function with zeros; the caller's loops find out for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slangrad.ir.calls import callee_of
from slangrad.ir.core import Function, Op, Value
from slangrad.llvm.emit import Emitter, Environment, Rule, carried_type, carry
from slangrad.llvm.memory import Locals
from slangrad.llvm.tapes import TAKE
from slangrad.llvm.type_names import TypeNames
from slangrad.llvm.writer import Writer

LEAVE = "leave"
AROUND = "ptr %arguments, ptr %launch, i32 %x, i32 %y, i32 %z, ptr %budget"


def write_function(
    w: Writer, function: Function, around: Environment, lanes: int, rules: Mapping[str, Rule]
) -> str:
    """The text of a function; `w` is a writer of its own."""
    e, region, local = Emitter(w, TypeNames(lanes), around, rules), function.region, around.locals
    assert isinstance(local, Locals)
    parameters = [AROUND]
    for number, value in enumerate(region.parameters):
        parameters.append(f"{carried_type(e, value)} %p{number}")
        e.arrive((value,), (f"%p{number}",))
    e.region(region)
    result = _result_type(e, region.yields)
    text = _result(e, region.yields)
    begin = ["  br label %entry"]
    if local.arena_size:
        begin = _begin_locals(w, local, result)
        _give_locals(w, local)
    w.line(text)
    w.block(LEAVE)
    if local.arena_size:
        _give_locals(w, local)
    w.line(_nothing(result))
    head = f"define internal fastcc {result} {_symbol(function.name)}({', '.join(parameters)}) noinline #0 {{"
    return "\n".join([head, "begin:", *w.entry, *begin, "entry:", *w.lines, "}", ""])


def _symbol(name: str) -> str:
    plain = name.replace("\\", "\\5C").replace('"', "\\22")
    return f'@"kept.{plain}"'


# --- results


def _result_type(e: Emitter, values: Sequence[Value]) -> str:
    types = [carried_type(e, v) for v in values]
    if len(types) == 1:
        return types[0]
    return f"{{{', '.join(types)}}}" if types else "void"


def _result(e: Emitter, values: Sequence[Value]) -> str:
    """The instruction that returns them."""
    whole, parts = _result_type(e, values), carry(e, values)
    if not parts:
        return "ret void"
    if len(parts) == 1:
        return f"ret {whole} {parts[0]}"
    made = "poison"
    for i, (value, part) in enumerate(zip(values, parts, strict=True)):
        made = e.w.value(f"insertvalue {whole} {made}, {carried_type(e, value)} {part}, {i}")
    return f"ret {whole} {made}"


def _nothing(result: str) -> str:
    return "ret void" if result == "void" else f"ret {result} zeroinitializer"


# --- memory of large local arrays, for one call


def _bytes(local: Locals) -> int:
    """A power of two, as pieces of the arena are."""
    return max(64, 1 << (local.arena_size - 1).bit_length())


def _begin_locals(w: Writer, local: Locals, result: str) -> list[str]:
    w.declarations.add_functions(TAKE)
    return [
        f"  %locals = call ptr @take(ptr %launch, i64 {_bytes(local)})",
        "  %no_memory = icmp eq ptr %locals, null",
        "  br i1 %no_memory, label %nothing, label %entry",
        "nothing:",
        f"  {_nothing(result)}",
    ]


def _give_locals(w: Writer, local: Locals) -> None:
    w.line(f"call void @give(ptr %launch, ptr %locals, i64 {_bytes(local)})")


# --- calls


def _call(e: Emitter, op: Op) -> None:
    w, around = e.w, e.environment
    x, y, z = around.thread
    arguments = [f"ptr {around.arguments}", f"ptr {around.launch}", f"i32 {x}", f"i32 {y}", f"i32 {z}"]
    arguments.append(f"ptr {around.budget}")
    arguments += [
        f"{carried_type(e, v)} {text}" for v, text in zip(op.operands, carry(e, op.operands), strict=True)
    ]
    whole = _result_type(e, op.results)
    call = f"call fastcc {whole} {_symbol(callee_of(op))}({', '.join(arguments)})"
    if not op.results:
        w.line(call)
        return
    made = w.value(call)
    parts = [made]
    if len(op.results) > 1:
        parts = [w.value(f"extractvalue {whole} {made}, {i}") for i in range(len(op.results))]
    e.arrive(op.results, parts)


RULES: dict[str, Rule] = {"call": _call}
