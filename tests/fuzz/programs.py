"""Random valid Slang programs: every statement, all number types, vectors, arrays, structs, calls with inout.

    generate(seed) -> text with `float f(float x, float y, int n)`

Loops are bounded by construction, indices may be out of range on purpose (that is defined), and so may be shifts, divisions
by zero and conversions of large numbers.
"""

from __future__ import annotations

import random

FLOATS = ("half", "float", "double")
INTEGERS = ("int8_t", "uint8_t", "int16_t", "uint16_t", "int", "uint", "int64_t", "uint64_t")
UNARY = (
    "abs",
    "floor",
    "ceil",
    "trunc",
    "sqrt",
    "sin",
    "cos",
    "exp",
    "tanh",
    "frac",
    "saturate",
    "sign",
    "log",
)
BINARY = ("min", "max", "pow", "fmod", "atan2", "step")

STRUCT = """struct Pair
{
    float a;
    int b;
    float2 c;

    float total() { return a + float(b) + c.x * c.y; }
    [mutating] void scale(float s) { a *= s; c = c * s + a; b += 1; }
}
"""


class Writer:
    """Writes one program. `scope` holds (type, name) of what can be read, `fixed` names that may not be written."""

    unary = UNARY[:-2]
    binary = BINARY

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.scope: list[tuple[str, str]] = []
        self.fixed: set[str] = set()
        self.count = 0
        self.loops = 0
        self.budget = 40

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def pick(self, kind: str, writable: bool = False) -> str | None:
        names = [name for t, name in self.scope if t == kind and not (writable and name in self.fixed)]
        return self.random.choice(names) if names else None

    # --- expressions

    def expression(self, kind: str, depth: int = 3) -> str:
        if kind == "bool":
            return self.truth(depth)
        if kind in FLOATS:
            return self.floating(kind, depth)
        if kind in INTEGERS:
            return self.integer(kind, depth)
        if kind in ("float2", "float3"):
            return self.vector(kind, depth)
        raise AssertionError(kind)

    def atom(self, kind: str) -> str:
        known = self.pick(kind)
        if known is not None and self.random.random() < 0.75:
            return known
        if kind in FLOATS:
            return f"{kind}({self.random.choice(['0.5', '-1.25', '3.0', '0.0', '1e-3', '17.75', '-0.0'])})"
        return f"{kind}({self.random.choice(['0', '1', '2', '3', '7', '100'])})"

    def floating(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.atom(kind)
        a, b = (lambda: self.floating(kind, depth - 1)), (lambda: self.atom(kind))
        choice = self.random.randrange(12)
        if choice < 4:
            return f"({a()} {self.random.choice('+-*')} {b()})"
        if choice == 4:
            return f"({a()} / {b()})"
        if choice == 5:
            return f"{self.random.choice(self.unary)}({a()})"
        if choice == 6:
            return f"{self.random.choice(self.binary)}({a()}, {b()})"
        if choice == 7:
            return f"({self.truth(depth - 1)} ? {a()} : {b()})"
        if choice == 8:
            return f"{kind}({self.expression(self.random.choice(INTEGERS + FLOATS), depth - 1)})"
        if choice == 9 and kind == "float":
            return self.random.choice(
                [f"dot({self.vector('float3', depth - 1)}, float3(1, 2, 3))", *self.parts()]
            )
        if choice == 10 and kind == "float":
            return f"helper({self.floating('float', depth - 1)}, {self.integer('int', depth - 1)})"
        return f"lerp({a()}, {b()}, {self.atom(kind)})"

    def parts(self) -> list[str]:
        """Components, fields and elements that are floats."""
        found = [f"{name}.{field}" for t, name in self.scope if t == "float3" for field in "xyz"]
        found += [
            f"{name}.{field}" for t, name in self.scope if t == "Pair" for field in ("a", "c.y", "total()")
        ]
        found += [f"{name}[{self.index()}]" for t, name in self.scope if t == "float[4]"]
        return found or ["0.25"]

    def index(self) -> str:
        """Perhaps out of range, but not known when compiling: that would be an error of the program."""
        return self.random.choice(
            ("n", "(n & 3)", f"(n & 1) + {self.atom('int')}", f"n - {self.atom('int')}")
        )

    def integer(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.atom(kind)
        a, b = (lambda: self.integer(kind, depth - 1)), (lambda: self.atom(kind))
        choice = self.random.randrange(9)
        if choice < 3:
            return f"({a()} {self.random.choice('+-*')} {b()})"
        if choice == 3:
            return f"({a()} {self.random.choice('/%')} {b()})"
        if choice == 4:
            return f"({a()} {self.random.choice(['&', '|', '^'])} {b()})"
        if choice == 5:
            return f"({a()} {self.random.choice(['<<', '>>'])} {b()})"
        if choice == 6:
            return f"{kind}({self.expression(self.random.choice(INTEGERS + FLOATS), depth - 1)})"
        if choice == 7:
            return f"({self.truth(depth - 1)} ? {a()} : {b()})"
        return f"{self.random.choice(['min', 'max'])}({a()}, {b()})"

    def truth(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.3:
            return f"({self.truth(depth - 1)} {self.random.choice(['&&', '||'])} {self.truth(depth - 1)})"
        if depth > 0 and self.random.random() < 0.1:
            return f"!{self.truth(depth - 1)}"
        kind = self.random.choice(("float", "int", "uint", "double", "float"))
        left, right = self.expression(kind, max(0, depth - 1)), self.atom(kind)
        return f"({left} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {right})"

    def vector(self, kind: str, depth: int) -> str:
        known = self.pick(kind)
        if depth == 0 or (known is not None and self.random.random() < 0.3):
            return known or f"{kind}({self.atom('float')})"
        a = self.vector(kind, depth - 1)
        choice = self.random.randrange(4)
        if choice == 0:
            return f"({a} {self.random.choice('+-*')} {self.vector(kind, depth - 1)})"
        if choice == 1:
            return f"({a} * {self.atom('float')})"
        if choice == 2:
            return f"{a}.{'yx' if kind == 'float2' else self.random.choice(['zyx', 'xxz', 'yzx'])}"
        size = 2 if kind == "float2" else 3
        return f"{kind}({', '.join(self.atom('float') for _ in range(size))})"

    # --- statements

    def block(self, count: int) -> None:
        outer = list(self.scope)
        self.line("{")
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1
        self.line("}")
        self.scope = outer

    def statement(self) -> None:
        self.budget -= 1
        simple = self.budget <= 0 or self.depth > 5
        kinds = SIMPLE if simple else SIMPLE + NESTED
        getattr(self, "write_" + self.random.choice(kinds))()

    def write_declaration(self) -> None:
        kind = self.random.choice((*FLOATS, *INTEGERS, "float", "int", "float3", "float2", "bool"))
        name, value = self.name(), None
        if kind == "bool":
            value = self.truth(2)
            self.line(f"bool {name} = {value};")
            return
        value = self.expression(kind)
        self.line(f"{kind} {name} = {value};")
        self.scope.append((kind, name))

    def write_aggregate(self) -> None:
        name = self.name()
        if self.random.random() < 0.5:
            self.line(f"float {name}[4] = {{ {', '.join(self.atom('float') for _ in range(4))} }};")
            self.scope.append(("float[4]", name))
        else:
            self.line(
                f"Pair {name} = {{ {self.atom('float')}, {self.atom('int')}, {self.vector('float2', 1)} }};"
            )
            self.scope.append(("Pair", name))

    def write_assignment(self) -> None:
        kind = self.random.choice(("float", "float", "int", "float3", "double", "half", "uint"))
        name = self.pick(kind, writable=True)
        if name is None:
            return self.write_declaration()
        operator = self.random.choice(("=", "+=", "*=", "-="))
        return self.line(f"{name} {operator} {self.expression(kind)};")

    def write_part(self) -> None:
        choices = []
        for kind, name in self.scope:
            if kind == "float3":
                choices.append(f"{name}.{self.random.choice('xyz')} = {self.floating('float', 2)};")
                choices.append(f"{name}.{self.random.choice(['xy', 'zx'])} = {self.vector('float2', 1)};")
            if kind == "float[4]":
                choices.append(
                    f"{name}[{self.index()}] {self.random.choice(['=', '+='])} {self.floating('float', 2)};"
                )
            if kind == "Pair":
                choices.append(f"{name}.{self.random.choice(['a', 'c.x'])} = {self.floating('float', 2)};")
                choices.append(f"{name}.scale({self.atom('float')});")
                choices.append(f"change({name}, {self.atom('float')});")
        if not choices:
            return self.write_aggregate()
        return self.line(self.random.choice(choices))

    def write_if(self) -> None:
        self.line(f"if ({self.truth(2)})")
        self.block(self.random.randint(1, 3))
        if self.random.random() < 0.5:
            self.line("else")
            self.block(self.random.randint(1, 3))

    def write_for(self) -> None:
        name, kind = self.name(), self.random.choice(("int", "uint"))
        bound = self.random.choice(("3", "5", "n & 7" if kind == "int" else "uint(n) & 7"))
        step = self.random.choice((f"{name}++", f"{name} += 2", f"++{name}"))
        self.line(f"for ({kind} {name} = 0; {name} < ({bound}); {step})")
        self.looped(kind, name)

    def write_while(self) -> None:
        name = self.name()
        self.line(f"int {name} = 0;")
        self.fixed.add(name)
        extra = f" && {self.truth(1)}" if self.random.random() < 0.6 else ""
        if self.random.random() < 0.3:
            self.line("do")
            self.looped("int", name, f"{name}++;")
            self.line(f"while ({name} < 4{extra});")
        else:
            self.line(f"while ({name} < {self.random.randint(1, 6)}{extra})")
            self.looped("int", name, f"{name}++;")

    def looped(self, kind: str, name: str, first: str = "") -> None:
        """A body with perhaps a break or continue in it; `first` moves the counter."""
        outer = list(self.scope)
        self.scope.append((kind, name))
        self.fixed.add(name)
        self.line("{")
        self.depth += 1
        self.loops += 1
        if first:
            self.line(first)
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        self.loops -= 1
        self.depth -= 1
        self.line("}")
        self.scope = outer

    def write_exit(self) -> None:
        if self.loops and self.random.random() < 0.7:
            self.line(f"if ({self.truth(1)}) {self.random.choice(['break', 'continue'])};")
        else:
            self.line(f"if ({self.truth(1)}) return {self.floating('float', 1)};")

    def write_switch(self) -> None:
        self.line(f"switch ({self.integer('int', 1)} & 3)")
        self.line("{")
        loops, self.loops = self.loops, 0
        labels = self.random.sample(range(4), self.random.randint(1, 3))
        for label in labels:
            self.line(f"case {label}:")
            self.block(self.random.randint(1, 2))
            if self.random.random() < 0.75:
                self.line("    break;")
        if self.random.random() < 0.6:
            self.line("default:")
            self.block(1)
            self.line("    break;")
        self.loops = loops
        self.line("}")


SIMPLE = ("declaration", "assignment", "assignment", "part", "aggregate")
NESTED = ("if", "if", "for", "while", "exit", "switch")

HELPERS = """
float helper(float a, int k)
{
    float s = a;
    for (int i = 0; i < (k & 3); i++)
    {
        if (s > 10) return s - 10;
        s = s * 1.5 + 0.25;
    }
    return s;
}

void change(inout Pair p, float by)
{
    p.a += by;
    if (p.b > 3) return;
    p.b *= 2;
    p.c.y = p.a;
}
"""


def generate(seed: int) -> str:
    w = Writer(seed)
    w.scope = [("float", "x"), ("float", "y"), ("int", "n")]
    w.fixed = {"n"}
    for _ in range(w.random.randint(4, 9)):
        w.statement()
    results = [f"float({name})" for kind, name in w.scope if kind in FLOATS + INTEGERS]
    results += [name for kind, name in w.scope if kind == "float"]
    results += [f"{name}.z" for kind, name in w.scope if kind == "float3"]
    results += [f"{name}.total()" for kind, name in w.scope if kind == "Pair"]
    results += [f"{name}[1] - {name}[3]" for kind, name in w.scope if kind == "float[4]"]
    body = "\n".join(w.lines)
    return f"{STRUCT}{HELPERS}\nfloat f(float x, float y, int n)\n{{\n{body}\n    return {' + '.join(results)};\n}}\n"
