"""Static variables become values, once a kernel is one function.

    write_static %a {name="n"}                       if %c { %b = add %a, 1   yield %b } { yield %a }
    if %c { %x = read_static {name="n"} ...    ->    what follows reads the result

`begin_statics` puts calls of the initializers before the kernel; `settle_statics` runs after inlining. An `if`
yields what an arm writes, a loop carries what its body writes, so nothing is left in memory.
"""

from __future__ import annotations

from dataclasses import replace

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Program, Region, Value, initializers, walk
from slangrad.ir.primitives import GROUP_SIZE, STATICS
from slangrad.ir.rebuild import Rebuild, Rule
from slangrad.ir.types import U32, Type


def begin_statics(program: Program, kernel: Function) -> Function:
    """The kernel, with the first values of the program's static variables before it."""
    b = Builder(span=kernel.span)
    for name, function in initializers(program):
        (value,) = b.control("call", (), program.functions[function].result_types, (), {"callee": function})
        b.effect("write_static", value, name=name)
    region = Region(kernel.region.parameters, [*b.ops, *kernel.region.ops], kernel.region.yields)
    return replace(kernel, region=region)


def settle_statics(function: Function) -> Function:
    """A function without calls, its static variables as values; they are zero until they are written."""
    types = {_name(op): _type(op) for op in walk(function.region) if op.name in STATICS}
    return _Settle(types).function(function) if types else function


def _name(op: Op) -> str:
    return str(op.attributes["name"])


def _type(op: Op) -> Type:
    return op.results[0].type if op.results else op.operands[0].type


def _written(*regions: Region) -> list[str]:
    names = (_name(op) for region in regions for op in walk(region) if op.name == "write_static")
    return list(dict.fromkeys(names))


def _group_size(kernel: Function, b: Builder, t: Type) -> Value:
    sizes = kernel.attributes.get("group_size", (1, 1, 1))
    assert isinstance(sizes, tuple)
    return b.emit("make", *(b.constant(U32, size) for size in sizes), type=t)


class _Settle(Rebuild):
    """`held`: what each variable holds at the point that the walk has come to."""

    def __init__(self, types: dict[str, Type]) -> None:
        rules: dict[str, Rule] = {"read_static": self._read, "write_static": self._write}
        super().__init__({**rules, "if": self._if, "for": self._loop, "while": self._loop})
        self._types = types
        self.held: dict[str, Value] = {}

    def function(self, function: Function) -> Function:
        b = Builder(span=function.span)
        parameters = tuple(Value(p.type, p.hint) for p in function.region.parameters)
        self.new.update(zip(function.region.parameters, parameters, strict=True))
        self.held = {name: b.zero(t) for name, t in self._types.items()}
        if GROUP_SIZE in self._types:
            self.held[GROUP_SIZE] = _group_size(function, b, self._types[GROUP_SIZE])
        yields = self.inline(b, function.region)
        return replace(function, region=Region(parameters, b.ops, yields))

    def _read(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        return (self.held[_name(op)],)

    def _write(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        self.held[_name(op)] = self.value(op.operands[0])
        return ()

    def _if(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        names, before, arms = _written(*op.regions), self.held, []
        for region in op.regions:
            self.held, inner = dict(before), b.nested()
            yields = self.inline(inner, region)
            arms.append(Region((), inner.ops, (*yields, *(self.held[name] for name in names))))
        self.held = before
        return self._finish(b, op, names, self.values(op.operands), tuple(arms))

    def _loop(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        names, before = _written(*op.regions), self.held
        regions = []
        for region in op.regions:
            parameters = tuple(Value(p.type, p.hint) for p in region.parameters)
            carried = tuple(Value(self._types[name], name.removeprefix("static ")) for name in names)
            self.new.update(zip(region.parameters, parameters, strict=True))
            self.held, inner = {**before, **dict(zip(names, carried, strict=True))}, b.nested()
            yields = self.inline(inner, region)
            tests = op.name == "while" and region is op.regions[0]
            after = () if tests else tuple(self.held[name] for name in names)
            regions.append(Region((*parameters, *carried), inner.ops, (*yields, *after)))
        self.held = before
        operands = (*self.values(op.operands), *(before[name] for name in names))
        return self._finish(b, op, names, operands, tuple(regions))

    def _finish(
        self, b: Builder, op: Op, names: list[str], operands: tuple[Value, ...], regions: tuple[Region, ...]
    ) -> tuple[Value, ...]:
        types = (*(r.type for r in op.results), *(self._types[name] for name in names))
        made = b.control(op.name, operands, types, regions, op.attributes)
        count = len(op.results)
        self.held |= dict(zip(names, made[count:], strict=True))
        return made[:count]
