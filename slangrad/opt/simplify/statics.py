"""Static variables become values, once a kernel is one function.

    write_static %a {name="n"}                       if %c { %b = add %a, 1   yield %b } { yield %a }
    if %c { %x = read_static {name="n"} ...    ->    what follows reads the result

`begin_statics` puts calls of the initializers before the kernel; `settle_statics` runs after inlining. An `if`
yields what an arm writes, a loop carries what its body writes, so nothing is left in memory.
"""

from __future__ import annotations

from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Holding, Rebuild
from slangrad.ir.data.types import U32, Type
from slangrad.ir.ops.core import Function, Op, Program, Region, Value, initializers, walk
from slangrad.ir.ops.primitives import GROUP_SIZE, STATICS


def begin_statics(program: Program, kernel: Function) -> Function:
    """The kernel, with the first values of the program's static variables before it."""
    b = Builder(span=kernel.span)
    for name, function in initializers(program):
        (value,) = b.call(function, (), program.functions[function].result_types)
        b.effect("write_static", value, name=name)
    region = Region(kernel.region.parameters, [*b.ops, *kernel.region.ops], kernel.region.yields)
    return replace(kernel, region=region)


def settle_statics(function: Function) -> Function:
    """A function without calls, its static variables as values; they are zero until they are written."""
    types = {op.attributes["name"]: _type(op) for op in walk(function.region) if op.name in STATICS}
    return _SettleStatics(types).function(function) if types else function


def _type(op: Op) -> Type:
    return op.results[0].type if op.results else op.operands[0].type


def _written(*regions: Region) -> list[str]:
    names = (op.attributes["name"] for op in walk(*regions) if op.name == "write_static")
    return list(dict.fromkeys(names))


def _group_size(kernel: Function, b: Builder, t: Type) -> Value:
    sizes = kernel.attributes.get("group_size", (1, 1, 1))
    return b.emit("make", *(b.constant(U32, size) for size in sizes), type=t)


class _SettleStatics(Holding[str]):
    def __init__(self, types: dict[str, Type]) -> None:
        super().__init__({"read_static": self._read, "write_static": self._write})
        self._types = types

    def changed(self, op: Op) -> list[str]:
        return _written(*op.regions)

    def function(self, function: Function) -> Function:
        b = Builder(span=function.span)
        parameters = self.parameters(function.region.parameters)
        self.held = {name: b.zero(t) for name, t in self._types.items()}
        if GROUP_SIZE in self._types:
            self.held[GROUP_SIZE] = _group_size(function, b, self._types[GROUP_SIZE])
        yields = self.inline(b, function.region)
        return replace(function, region=Region(parameters, b.ops, yields))

    def _read(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        return (self.held[op.attributes["name"]],)

    def _write(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self.held[op.attributes["name"]] = self.value(op.operands[0])
        return ()
