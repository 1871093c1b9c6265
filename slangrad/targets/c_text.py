"""Plain C text of a flat kernel: the smallest target, for reading, and as proof that the interface of targets
holds.

    void kernel(char *arguments, unsigned x, unsigned y, unsigned z, report_function report, void *to)

runs one thread, as GNU C. Compiled with -fwrapv -ffp-contract=off it gives the bits of the interpreter, as long as
threads run one after the other. Tapes, groups, waves and prints are refused (E9003).
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.backends import Backend, cpu_device
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import Line
from slangrad.base.traits import C_TEXT
from slangrad.ir.data.layout import element_size, layout_of
from slangrad.ir.data.numbers import greatest, least
from slangrad.ir.data.types import Pointer, Scalar, Type, pointer_of
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.primitives import COMPARE, PRIMITIVES
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.stages import Stage
from slangrad.targets.target import BuiltKernel, Target
from slangrad.unit import FlatKernel

HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef void (*report_function)(void *to, int site, int64_t index, int64_t extent);
#define BITS(to, value) ({ __typeof__(value) from_ = (value); to into_; memcpy(&into_, &from_, sizeof into_); into_; })
#define LOAD(type, at) ({ type loaded_; memcpy(&loaded_, at, sizeof loaded_); loaded_; })
#define STORE(type, at, value) ({ type stored_ = (value); memcpy(at, &stored_, sizeof stored_); })
"""

AROUND = "char *arguments, unsigned x, unsigned y, unsigned z, report_function report, void *to"

# Operators in C: {x}, {y}, {z} are operands, {T} is their type, {U} the unsigned one, {f} the suffix of its
# functions, {R} the type of the result. Integers wrap; a quotient by zero is zero.
# fmt: off
ANY = {"select": "{x} ? {y} : {z}", "bitcast": "BITS({R}, {x})", "load": "LOAD({R}, {x})", "zero": "0"}
COMMON = {
    "add": "{x} + {y}",  "sub": "{x} - {y}",  "mul": "{x} * {y}",  "neg": "-{x}",
    "less": "{x} < {y}", "less_equal": "{x} <= {y}", "equal": "{x} == {y}", "not_equal": "{x} != {y}",
    "and": "{x} & {y}",  "or": "{x} | {y}",   "xor": "{x} ^ {y}",
    "min": "{x} < {y} ? {x} : {y}", "max": "{y} < {x} ? {x} : {y}",
}
INTEGERS = COMMON | {
    "div": "{y} == 0 ? 0 : {y} == ({T})-1 && ({T})-1 < 0 ? -{x} : {x} / {y}",
    "rem": "{y} == 0 || ({y} == ({T})-1 && ({T})-1 < 0) ? 0 : {x} % {y}",
    "abs": "{x} < 0 ? -{x} : {x}",  "not": "~{x}",
    "shl": "({U}){x} << ({y} & {mask})",  "shr": "{x} >> ({y} & {mask})",
    "popcount": "__builtin_popcountll(({U}){x})",
    "leading_zeros": "{x} == 0 ? {mask} + 1 : __builtin_clzll(({U}){x}) - (63 - {mask})",
    "trailing_zeros": "{x} == 0 ? {mask} + 1 : __builtin_ctzll({x})",
}
FLOATS = COMMON | {
    "div": "{x} / {y}", "rem": "fmod{f}({x}, {y})", "fma": "fma{f}({x}, {y}, {z})", "abs": "fabs{f}({x})",
    "min": "{y} != {y} ? {x} : {x} < {y} ? {x} : {y}", "max": "{y} != {y} ? {x} : {y} < {x} ? {x} : {y}",
    "floor": "floor{f}({x})", "ceil": "ceil{f}({x})", "round": "rint{f}({x})", "trunc": "trunc{f}({x})",
    "sqrt": "sqrt{f}({x})",
}
BOOLS = {"and": "{x} & {y}", "or": "{x} | {y}", "xor": "{x} ^ {y}", "not": "!{x}", "equal": "{x} == {y}",
         "not_equal": "{x} != {y}"}
KINDS = {"signed": INTEGERS, "unsigned": INTEGERS, "float": FLOATS, "bool": BOOLS}
FLOAT_NAMES = {"f16": "_Float16", "f32": "float", "f64": "double"}
# fmt: on


def name_of(t: Type) -> str:
    """The C type of a scalar or an address."""
    if isinstance(t, Pointer):
        return "char *"
    assert isinstance(t, Scalar), t
    if t.kind == "bool":
        return "uint8_t"
    return FLOAT_NAMES.get(t.name) or f"{'u' if t.kind == 'unsigned' else ''}int{t.bits}_t"


def literal(t: Scalar, value: bool | int | float) -> str:
    if t.kind != "float":
        suffix = "ull" if t.kind == "unsigned" else "ll"
        return "INT64_MIN" if value == -(1 << 63) else f"({name_of(t)}){int(value)}{suffix}"
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return f"({name_of(t)})" + ("NAN" if number != number else "INFINITY" if number > 0 else "-INFINITY")
    return f"({name_of(t)}){number.hex()}"


class CWriter:
    """Statements of one kernel. Each value is a variable of C, declared where it is made."""

    def __init__(self, kernel: FlatKernel, symbols: dict[str, str]) -> None:
        self.kernel = kernel
        self.symbols = symbols  # by function
        self.lines: list[Line] = []
        self._names: dict[Value, str] = {}
        self._indent = 1

    def line(self, text: str, op: Op | None = None) -> None:
        self.lines.append(Line("    " * self._indent + text, None if op is None else op.span))

    def name(self, value: Value) -> str:
        return self._names.setdefault(value, f"v{len(self._names)}")

    def declare(self, value: Value, text: str = "", op: Op | None = None) -> None:
        start = f" = {text}" if text else ""
        self.line(f"{name_of(value.type)} {self.name(value)}{start};", op)

    def block(self, head: str, region: Region, results: tuple[Value, ...]) -> None:
        """A region in braces, whose yields go to variables from outside: all are read before one is written."""
        self.line(head + " {")
        self._indent += 1
        self.region(region)
        self.assign(results, region.yields)
        self._indent -= 1
        self.line("}")

    def assign(self, targets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
        names = [(self.name(a), self.name(b), name_of(b.type)) for a, b in zip(targets, values, strict=True)]
        for target, value, kind in names:
            self.line(f"{kind} next_{target} = {value};")
        for target, _, _ in names:
            self.line(f"{target} = next_{target};")

    def region(self, region: Region) -> None:
        for op in region.ops:
            rule = RULES.get(op.name, _primitive)
            rule(self, op)


Rule = Callable[[CWriter, Op], None]


def _primitive(w: CWriter, op: Op) -> None:
    first = op.operands[0].type if op.operands else None
    template, unsigned, mask, f = ANY.get(op.name), "", 0, ""
    if isinstance(first, Scalar):
        template = template or KINDS[first.kind].get(op.name)
        unsigned, mask = f"uint{first.bits}_t", first.bits - 1
        f = "f" if first.name in ("f16", "f32") else ""
    elif isinstance(first, Pointer) and PRIMITIVES[op.name].rule == COMPARE:
        template = COMMON[op.name]
    if template is None:
        raise CompileError([Diagnostic("E9003", f"'{op.name}' is not supported as C", op.span)])
    (r,) = op.results
    operands, result_type = dict(zip("xyz", map(w.name, op.operands))), name_of(r.type)
    kind = result_type if first is None else name_of(first)
    text = template.format(**operands, T=kind, R=result_type, U=unsigned, mask=mask, f=f)
    w.declare(r, f"({result_type})({text})", op)


def _const(w: CWriter, op: Op) -> None:
    (r,) = op.results
    w.declare(r, literal(scalar_type(r), op.attributes["value"]), op)


def _convert(w: CWriter, op: Op) -> None:
    (x,), (r,) = op.operands, op.results
    assert isinstance(x.type, Scalar) and isinstance(r.type, Scalar)
    name, text = w.name(x), f"({name_of(r.type)}){w.name(x)}"
    if r.type.kind == "bool":
        text = f"{name} != 0"
    elif x.type.kind == "float" and r.type.kind != "float":
        low, high = least(r.type), greatest(r.type)
        text = f"{name} >= {float(high).hex()} ? {literal(r.type, high)} : {text}"
        text = f"{name} != {name} ? 0 : {name} <= {float(low).hex()} ? {literal(r.type, low)} : {text}"
    w.declare(r, text, op)


def _in_bounds(w: CWriter, op: Op) -> None:
    index, extent = map(w.name, op.operands)
    w.declare(op.results[0], f"0 <= {index} && {index} < {extent}", op)
    w.line(f"if (!{w.name(op.results[0])}) report(to, {op.attributes['site']}, {index}, {extent});")


def _alloc(w: CWriter, op: Op) -> None:
    (r,), count = op.results, op.attributes.get("count", 1)
    size = max(1, element_size(r.type) * count)
    start = " = {0}" if op.attributes.get("zero") else ""
    w.line(f"char memory_{w.name(r)}[{size}] __attribute__((aligned(16))){start};", op)
    w.declare(r, f"memory_{w.name(r)}")


def _atomic(w: CWriter, op: Op) -> None:
    """Threads run one after the other."""
    (p, *values), (r,), kind = op.operands, op.results, op.attributes["kind"]
    assert isinstance(r.type, Scalar)
    t, at, old = name_of(r.type), w.name(p), w.name(r)
    w.declare(r, f"LOAD({t}, {at})", op)
    names = list(map(w.name, values))
    if kind == "compare_exchange":
        new = f"{old} == {names[0]} ? {names[1]} : {old}"
    else:
        new = names[0] if kind == "exchange" else KINDS[r.type.kind][kind].format(x=old, y=names[0])
    w.line(f"STORE({t}, {at}, {new});")


def _if(w: CWriter, op: Op) -> None:
    for r in op.results:
        w.declare(r)
    w.block(f"if ({w.name(op.operands[0])})", op.regions[0], op.results)
    w.block("else", op.regions[1], op.results)


def _for(w: CWriter, op: Op) -> None:
    (count, *starts), (region,) = op.operands, op.regions
    index, *carried = region.parameters
    for parameter, start in zip(carried, starts, strict=True):
        w.declare(parameter, w.name(start))
    n, i, t = w.name(count), w.name(index), name_of(index.type)
    head = f"{t} {i} = 0; {i} < {n}; {i}++"
    if op.attributes.get("reverse"):
        head = f"{t} {i} = {n} - 1, left_{i} = {n}; left_{i} > 0; {i}--, left_{i}--"
    w.block(f"for ({head})", region, tuple(carried))
    for r, parameter in zip(op.results, carried, strict=True):
        w.declare(r, w.name(parameter))


def _while(w: CWriter, op: Op) -> None:
    test, body = op.regions
    for parameter, start in zip(body.parameters, op.operands, strict=True):
        w.declare(parameter, w.name(start))
    w.line("for (;;) {")
    w._indent += 1
    for parameter, value in zip(test.parameters, body.parameters, strict=True):
        w.declare(parameter, w.name(value))
    w.region(test)
    w.line(f"if (!{w.name(test.yields[0])}) break;")
    w.region(body)
    w.assign(body.parameters, body.yields)
    w._indent -= 1
    w.line("}")
    for r, parameter in zip(op.results, body.parameters, strict=True):
        w.declare(r, w.name(parameter))


def _parameter(w: CWriter, op: Op) -> None:
    block = w.kernel.arguments
    at = layout_of(block).offsets[block.index(op.attributes["name"])]
    w.declare(op.results[0], f"arguments + {at}", op)


def _offset(w: CWriter, op: Op) -> None:
    p, i = op.operands
    w.declare(op.results[0], f"{w.name(p)} + (int64_t){w.name(i)} * {element_size(p.type)}", op)


def _member(w: CWriter, op: Op) -> None:
    (p,), index = op.operands, op.attributes["index"]
    w.declare(op.results[0], f"{w.name(p)} + {layout_of(pointer_of(p.type).element).offsets[index]}", op)


def _store(w: CWriter, op: Op) -> None:
    p, v = op.operands
    w.line(f"STORE({name_of(v.type)}, {w.name(p)}, {w.name(v)});", op)


def _thread_id(w: CWriter, op: Op) -> None:
    w.declare(op.results[0], "xyz"[op.attributes["axis"]], op)


def _call(w: CWriter, op: Op) -> None:
    """Results of a function go to variables whose addresses are its last parameters."""
    for r in op.results:
        w.declare(r)
    passed = [*map(w.name, op.operands), *(f"&{w.name(r)}" for r in op.results)]
    w.line(
        f"{w.symbols[op.attributes['callee']]}({', '.join(['arguments, x, y, z, report, to', *passed])});", op
    )


RULES: dict[str, Rule] = {
    "const": _const, "convert": _convert, "in_bounds": _in_bounds, "alloc": _alloc, "variable": _alloc,
    "atomic": _atomic, "thread_id": _thread_id, "parameter": _parameter, "offset": _offset, "member": _member,
    "store": _store, "if": _if, "for": _for, "while": _while, "call": _call,
}  # fmt: skip


def _function(w: CWriter, function: Function) -> None:
    region = function.region
    takes = [f"{name_of(p.type)} {w.name(p)}" for p in region.parameters]
    gives = [f"{name_of(v.type)} *result_{i}" for i, v in enumerate(region.yields)]
    w.lines += [
        Line(f"static void {w.symbols[function.name]}({', '.join([AROUND, *takes, *gives])})"),
        Line("{"),
    ]
    w.region(region)
    for i, value in enumerate(region.yields):
        w.line(f"*result_{i} = {w.name(value)};")
    w.lines.append(Line("}"))


def write_c(kernel: FlatKernel) -> list[Line]:
    """The text of a kernel, in lines with the spans that they come from."""
    if kernel.group is not None:
        raise CompileError([Diagnostic("E9003", "groups are not supported as C", kernel.function.span)])
    w = CWriter(kernel, {f.name: f"function_{i}" for i, f in enumerate(kernel.functions)})
    for function in kernel.functions:
        _function(w, function)
    w.lines += [Line(f"void kernel({AROUND})"), Line("{")]
    w.region(kernel.function.region)
    return [*map(Line, HEAD.splitlines()), *w.lines, Line("}")]


# The listing is all there is.
TARGET = Target(
    Backend(C_TEXT, cpu_device),
    (Stage("c", write_c, None, lambda lines: lines),),
    lambda lines: BuiltKernel(None),
)
