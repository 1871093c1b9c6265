"""Random differentiable programs in double: every statement, arrays, vectors and structs, calls with inout.

    generate(seed) -> text with [Differentiable] double f(double x, double y, int n)
    generate(seed, mixed=True) -> the same in which parts are computed in float and half; in_doubles(text): in double

Values stay small, indices in range, and everything between two jumps is smooth, so that finite differences hold; loops
end by construction. Some functions have infinite slopes, or no value, behind the mask that stands before them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

LIBRARY = """
[Differentiable] double bend(double x) { return x / sqrt(1.0lf + x * x); }
[Differentiable] double hill(double x) { return 1.0lf / (1.0lf + x * x); }
struct Inner : IDifferentiable
{
    double2 v;
    double a[3];
    int count;
}

struct Body : IDifferentiable
{
    double m;
    Inner inner;
    int steps;

    property double swing
    {
        [Differentiable] get { return m * inner.v.x; }
        [Differentiable] set { m = newValue * 0.5lf; inner.v.x = bend(newValue); }
    }

    [Differentiable] double energy(int i) { return m * inner.v.x + inner.a[i % 3] * inner.v.y; }
    [Differentiable] [mutating] void push(double by, int i)
    {
        inner.a[(i + 1) % 3] += bend(by * m);
        if (steps > 3) return;
        m = bend(m * by) + inner.v.y;
        steps++;
    }
}

interface IShape : IDifferentiable { [Differentiable] double area(double s); }
struct Disc : IShape { double r; [Differentiable] double area(double s) { return r * r * s; } }
struct Box : IShape { double w; double h; [Differentiable] double area(double s) { return w * h + s * h; } }

[Differentiable] double measured<S : IShape>(S shape, double s, int k)
{
    double total = s;
    for (int i = 0; i < k; i++)
        total = 0.5lf * total + shape.area(total * 0.25lf);
    return total;
}

[Differentiable] double early(double a, double b, int k)
{
    double s = a;
    for (int i = 0; i < 6; i++)
    {
        if (i == k) return s * b;
        s = bend(s + b) + 0.25lf * s;
        if (s > 0.8lf) return s + bend(a * b);
    }
    return s;
}

[Differentiable] void exchange(inout double a, inout double b, out double c, int k)
{
    c = bend(a * b);
    if (k == 2) return;
    double t = a;
    a = 0.5lf * b + hill(t) * 0.1lf;
    if (k > 3) { b = bend(c); return; }
    b = bend(t - c);
}

[Differentiable] void mix(inout double a[4], int i, double by)
{
    for (int k = 0; k < i; k++)
    {
        a[k % 4] = 0.5lf * a[(k * 3 + i) % 4] + bend(by * a[i & 3]);
        if (a[0] > 2.0lf) break;
    }
}

[Differentiable] void weave(inout double a[4], inout double b[4], int k)
{
    for (int i = 0; i < k; i++)
    {
        a[i & 3] = bend(b[(i + 1) & 3] * a[0]);
        b[i & 3] = 0.5lf * a[1] + hill(b[0]) * 0.25lf;
    }
}

[Differentiable] double weighted(double x, no_diff double k)
{
    double3 v = double3(x, bend(k), x * 0.5lf);
    return dot(v, v) * 0.2lf;
}

[Differentiable] double settled(double x, double y)
{
    while (true)
    {
        if (x < 0.6lf) { x = 0.5lf * x + 0.4lf + 0.2lf * hill(y); }
        else { return bend(x * y); }
    }
    return 0;
}

[BackwardDerivative(wave_backward)] [ForwardDerivative(wave_forward)]
double wave(double x, double y) { return sin(x) * y; }

[Differentiable] DifferentialPair<double> wave_forward(DifferentialPair<double> x, DifferentialPair<double> y)
{
    return diffPair(sin(x.p) * y.p, cos(x.p) * y.p * x.d + sin(x.p) * y.d);
}

[Differentiable] void wave_backward(inout DifferentialPair<double> x, inout DifferentialPair<double> y, double d)
{
    double by_x = cos(x.p) * y.p * d;
    double by_y = sin(x.p) * d;
    x = diffPair(x.p, by_x);
    y = diffPair(y.p, by_y);
}

[Differentiable] double slope(double x, double y)
{
    var p = diffPair(x, 0.0lf);
    var q = diffPair(y, 0.0lf);
    bwd_diff(curve)(p, q, 1, 0.5lf);
    return p.d - q.d;
}

[Differentiable] double curve(double x, double y, int k)
{
    double s = x;
    while (k < 3) { s = bend(s * y) + 0.5lf * x; k++; }
    return s * y;
}
"""

DERIVATIVES = """
[Differentiable] double2 gradient(double x, double y, int n)
{
    var p = diffPair(x, 0.0lf);
    var q = diffPair(y, 0.0lf);
    bwd_diff(f)(p, q, n, 1.0lf);
    return double2(p.d, q.d);
}

[Differentiable] double along(double x, double y, int n, no_diff double2 v)
{
    return fwd_diff(f)(diffPair(x, v.x), diffPair(y, v.y), n).d;
}

void run(double x, double y, int n, out double value, out double2 reverse, out double2 forward, out double4 second)
{
    value = f(x, y, n);
    reverse = gradient(x, y, n);
    forward = double2(along(x, y, n, double2(1.0lf, 0.0lf)), along(x, y, n, double2(0.0lf, 1.0lf)));
    second.xy = fwd_diff(gradient)(diffPair(x, 1.0lf), diffPair(y, 0.5lf), n).d;
    var p = diffPair(x, 0.0lf);
    var q = diffPair(y, 0.0lf);
    bwd_diff(along)(p, q, n, double2(1.0lf, 0.5lf), 1.0lf);
    second.zw = double2(p.d, q.d);
}
"""

# Functions that become a single instruction or two come often, so that programs stay small.
MASKED = (
    "pow(max({}, 0.0lf), 0.45lf)",
    "sqrt(saturate({}))",
    "cbrt(max({}, 0.0lf))",
    "asin(clamp({}, -1.0lf, 1.0lf))",
    "acos(saturate({}))",
    "length(double2(fdim({0}, 0.1lf), max(-({0}), 0.0lf)))",
    "(({0}) > 0.2lf ? log({0}) : 0.3lf * ({0}))",
    "select(({0}) > 0.3lf, bend(1.0lf / max({0}, 0.0lf)), {0})",
    "(({0}) > 0.4lf ? normalize(double2(max({0}, 0.0lf), 0.3lf * max({0}, 0.0lf))).x * ({0}) : bend({0}))",
)
# In float and half.
MIXED = (
    "double(float({0}))",
    "double(half({0}))",
    "double(float({0}) * float({1}))",
    "double(half({0}) * half(0.5lf) + half({1}))",
    "double(sqrt(float(1.0lf + ({0}) * ({0}))))",
    "double(max(half({0}), half(0.25lf)))",
    "double(tanh(half({0})) + half(float({1})))",
    "dot(double3(float3({0}, {1}, 0.5lf)), double3(half3(1.0lf, 0.5lf, {1})))",
)
CHEAP = (
    "bend({})",
    "bend({})",
    "hill({})",
    "sqrt(1.0lf + ({0}) * ({0}))",
    "abs({})",
    "frac({})",
    "rcp(1.5lf + bend({}))",
)
DEAR = (
    "sin({})",
    "cos({})",
    "tanh({})",
    "exp(-({0}) * ({0}))",
    "atan({})",
    "log(2.0lf + bend({}))",
    "erf({})",
)
PAIRED = ("min({}, {})", "max({}, {})", "lerp({0}, {1}, 0.3lf * {0})", "hypot({}, {})", "slope(bend({}), hill({}))",
          "fmod({}, 2.5lf + bend({}))", "clamp({}, -0.5lf, 1.0lf + 0.1lf * {})")  # fmt: skip
DEAR_PAIRED = ("atan2({}, 1.5lf + bend({}))", "wave({}, {})", "pow(1.5lf + bend({}), {})")
KINDS = ("double", "double", "double", "double3", "double[4]", "Inner", "Body", "double2x2", "Body[2]")


class Writer:
    """Writes one program. `scope` holds (type, name) of what can be read and written, `integers` what can be read."""

    def __init__(self, seed: int, mixed: bool) -> None:
        self.random = random.Random(seed)
        self.mixed = mixed
        self.lines: list[str] = []
        self.scope: list[tuple[str, str]] = [("double", "x"), ("double", "y")]
        self.integers = ["n"]
        self.labels: list[str] = []  # of the loops around
        self.in_switch = False
        self.depth, self.count, self.budget = 1, 0, 22

    # --- words

    def name(self, start: str = "v") -> str:
        self.count += 1
        return f"{start}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # --- expressions

    def integer(self) -> str:
        known = self.one(*self.integers)
        return self.one(known, known, f"({known} + {self.random.randint(1, 3)})", f"{known} * 3", "1", "2")

    def places(self) -> list[str]:
        """Everything of type double that can be read or written."""
        found: list[str] = []
        for kind, name in self.scope:
            found += [place for each in PARTS[kind] for place in [each.format(name, i=self.integer())]]
        return found

    def atom(self) -> str:
        return self.one(*self.places()) if self.chance(0.85) else f"{self.random.uniform(-1.5, 1.5):.3f}lf"

    def number(self, depth: int = 2) -> str:
        if depth == 0:
            return self.atom()
        a, b = self.number(depth - 1), self.atom()
        choice = self.random.randrange(13)
        if self.mixed and self.chance(0.3):
            return self.one(*MIXED).format(a, b)
        if choice == 12:
            return self.one(*MASKED).format(a)
        if choice < 5:
            return f"({a} {self.one('+', '-', '*')} {b})"
        if choice < 7:
            return self.one(*(DEAR if self.chance(0.15) else CHEAP)).format(a)
        if choice == 7:
            return self.one(*(DEAR_PAIRED if self.chance(0.15) else PAIRED)).format(a, b)
        if choice == 8:
            return f"({self.truth()} ? {a} : {b})"
        if choice == 9:
            return self.one(*CALLS).format(a, b, i=self.integer())
        if choice == 10:
            return f"({a} / (2.0lf + bend({b})))"
        return self.one(*self.methods() or [a]).format(a, i=self.integer())

    def methods(self) -> list[str]:
        bodies = [name for kind, name in self.scope if kind == "Body"]
        vectors = [name for kind, name in self.scope if kind == "double3"]
        found = [f"{name}.energy({{i}})" for name in bodies]
        found += [f"dot({name}, double3(1.0lf, {{0}}, 0.5lf))" for name in vectors]
        return found + [f"length({name} + 3.0lf)" for name in vectors]

    def product(self) -> str:
        """A vector made of one number several times, times that number."""
        a = self.atom()
        return f"{a} * double3({a}, {self.atom()}, {a})"

    def between(self) -> str:
        a, b, c = self.atom(), self.atom(), self.atom()
        return f"lerp(double3({a}, 1.0lf, {b}), double3({b}, {c}, 0.5lf), double3(0.3lf * {c}, 0.5lf, {a}))"

    def truth(self) -> str:
        if self.chance(0.35):
            left, right = self.truth(), self.truth()
            return f"({left} {self.one('&&', '||')} {right})"
        if self.chance(0.6):
            return f"{self.integer()} {self.one('<', '>', '==', '!=')} {self.random.randint(0, 4)}"
        return f"{self.atom()} {self.one('<', '>')} {self.random.uniform(-1, 1):.3f}lf"

    def value(self, kind: str) -> str:
        """An initializer."""
        known = [name for each, name in self.scope if each == kind]
        if known and self.chance(0.3):
            return self.one(*known)
        return VALUES[kind](self)

    # --- statements

    def block(self, count: int) -> None:
        scope, integers = list(self.scope), list(self.integers)
        self.line("{")
        self.depth += 1
        for _ in range(count):
            self.statement()
        self.depth -= 1
        self.line("}")
        self.scope, self.integers = scope, integers

    def statement(self) -> None:
        self.budget -= 1
        simple = self.budget <= 0 or self.depth > 4
        self.random.choice(SIMPLE if simple else SIMPLE + NESTED)(self)

    def declare(self) -> None:
        kind, name = self.one(*KINDS), self.name()
        element, _, length = kind.partition("[")
        self.line(f"{element} {name}{'[' + length if length else ''} = {self.value(kind)};")
        self.scope.append((kind, name))

    def assign(self) -> None:
        """Bounded: loops would make large numbers of others."""
        place, value = self.one(*self.places()), self.number()
        right = ("= bend({1})", "= hill({1})", "= 0.5lf * {0} + 0.4lf * bend({1})", "+= 0.3lf * bend({1})",
                 "*= hill({1})", "-= {0} * bend({1}) * 0.2lf", "= 0.8lf * {0} - 0.1lf * bend({1})")  # fmt: skip
        self.line(f"{place} {self.one(*right).format(place, value)};")

    def assign_whole(self) -> None:
        kind, name = self.random.choice(self.scope)
        self.line(f"{name} = {self.value(kind)};" if "[" not in kind else f"{name}[0] = {name}[1];")

    def call(self) -> None:
        bodies = [name for kind, name in self.scope if kind == "Body"]
        arrays = [name for kind, name in self.scope if kind == "double[4]"]
        pairs = [name for kind, name in self.scope if kind == "Body[2]"]
        choices = [f"{name}.push({self.number(1)}, {self.integer()});" for name in bodies]
        choices += [f"mix({name}, {self.integer()} % 5, {self.atom()});" for name in arrays]
        choices += [f"weave({a}, {b}, {self.integer()} % 5);" for a in arrays for b in self.second_array(a)]
        choices += [f"{name}[{self.integer()} & 1].push({self.atom()}, {self.integer()});" for name in pairs]
        numbers = [name for kind, name in self.scope if kind == "double"]
        a, b = self.random.sample(numbers, 2)
        made = self.name()
        choices += [f"double {made}; exchange({a}, {b}, {made}, {self.integer()});"]
        chosen = self.one(*choices)
        self.line(chosen)
        if chosen is choices[-1]:
            self.scope.append(("double", made))

    def second_array(self, first: str) -> list[str]:
        """Another array in scope, else one that is made now."""
        others = [name for kind, name in self.scope if kind == "double[4]" and name != first]
        if others:
            return others[:1]
        made = self.name()
        self.line(f"double {made}[4] = {VALUES['double[4]'](self)};")
        self.scope.append(("double[4]", made))
        return [made]

    def branch(self) -> None:
        self.line(f"if ({self.truth()})")
        self.block(self.random.randint(1, 3))
        if self.chance(0.6):
            self.line("else")
            self.block(self.random.randint(1, 3))

    def switch(self) -> None:
        self.line(f"switch ({self.integer()} & 3)")
        self.line("{")
        outer, self.in_switch = self.in_switch, True
        labels = self.random.sample(range(4), self.random.randint(1, 3))
        arms = [f"case {each}:" for each in labels] + (["default:"] if self.chance(0.6) else [])
        self.random.shuffle(arms)
        for arm in arms:
            self.line(arm)
            if self.chance(0.8):
                self.block(self.random.randint(1, 2))
                if self.chance(0.7):
                    self.line("    break;")
        self.in_switch = outer
        self.line("}")

    def loop(self) -> None:
        index, label = self.name("i"), self.name("l")
        bound = self.one("3", "5", "n", "n + 1", f"{self.integer()} % 5")
        head = self.one(
            f"for (int {index} = 0; {index} < {bound}; {index}++)",
            f"for (int {index} = {bound}; {index} > 0; {index} -= 2)",
            f"for (uint {index} = 0; {index} < uint({bound}); ++{index})",
        )
        integer = f"int({index})" if "uint" in head else index
        if bound in ("3", "5") and "= 0" in head and self.chance(0.4):
            head = f"[ForceUnroll] {head}"
        self.line(f"{label}: {head}" if self.chance(0.5) else head)
        self.looped(integer, label if self.lines[-1].strip().startswith(label) else "")

    def repeat(self) -> None:
        index, extra = self.name("i"), f" && {self.truth()}" if self.chance(0.5) else ""
        bound = self.one("n", "4", "n + 1")
        self.line(f"int {index} = 0;")
        if self.chance(0.3):
            self.line("do")
            self.looped(index, "", f"{index}++;")
            self.line(f"while ({index} < {bound}{extra});")
        elif self.chance(0.3):
            self.line("while (true)")
            self.looped(index, "", f"{index}++; if ({index} > {bound}{extra.replace('&&', '||')}) break;")
        else:
            self.line(f"while ({index} < {bound}{extra})")
            self.looped(index, "", f"{index}++;")

    def looped(self, index: str, label: str, first: str = "") -> None:
        scope, integers, outer = list(self.scope), list(self.integers), self.in_switch
        self.in_switch = False
        self.labels.append(label)
        self.integers.append(index)
        self.line("{")
        self.depth += 1
        if first:
            self.line(first)
        for _ in range(self.random.randint(1, 4)):
            self.statement()
        self.depth -= 1
        self.line("}")
        self.labels.pop()
        self.scope, self.integers, self.in_switch = scope, integers, outer

    def leave(self) -> None:
        if not self.labels or self.chance(0.25):
            self.line(f"if ({self.truth()}) return {self.number(1)};")
            return
        labels = [each for each in self.labels if each]
        word = self.one("continue", "break") if not self.in_switch else "continue"
        target = f" {self.one(*labels)}" if labels and self.chance(0.4) else ""
        self.line(f"if ({self.truth()}) {word}{target};")


# fmt: off
PARTS = {
    "double":    ("{}", "{}"),
    "double3":   ("{}.x", "{}.y", "{}[{i} % 3]"),
    "double[4]": ("{}[{i} & 3]", "{}[{i} % 4]", "{}[1]"),
    "double2x2": ("{}[0][1]", "{}[{i} & 1].x", "{}[{i} & 1][{i} % 2]"),
    "Inner":     ("{}.v.x", "{}.a[{i} % 3]", "{}.v[{i} & 1]"),
    "Body":      ("{}.m", "{}.inner.v.y", "{}.inner.a[{i} % 3]", "{}.swing"),
    "Body[2]":   ("{}[{i} & 1].m", "{}[{i} & 1].inner.a[{i} % 3]", "{}[0].inner.v.x"),
}
CALLS = ("early({}, {}, {i})", "weighted({}, 0.3lf * ({i}))", "settled({}, {})", "curve(bend({}), hill({}), {i})", "measured(Disc(bend({})), bend({}), {i} & 3)",
         "measured(Box(bend({}), 0.5lf), hill({}), {i} & 3)")
VALUES: dict[str, Callable[[Writer], str]] = {
    "double":    lambda w: w.number(),
    "double3":   lambda w: w.one(f"double3({w.atom()}, {w.atom()}, {w.number(1)})", f"{w.atom()} * double3({w.atom()})", w.product(), w.between()),
    "double[4]": lambda w: f"{{ {w.atom()}, {w.number(1)}, 0.5lf, {w.atom()} }}",
    "double2x2": lambda w: f"double2x2({w.atom()}, {w.number(1)}, 1.0lf, {w.atom()})",
    "Inner":     lambda w: f"{{ double2({w.atom()}, {w.number(1)}), {{ {w.atom()}, 0.1lf, {w.atom()} }}, 1 }}",
    "Body":      lambda w: f"{{ {w.number(1)}, {VALUES['Inner'](w)}, 0 }}",
    "Body[2]":   lambda w: f"{{ {VALUES['Body'](w)}, {VALUES['Body'](w)} }}",
}
# fmt: on
SIMPLE = (Writer.declare, Writer.assign, Writer.assign, Writer.assign, Writer.assign_whole, Writer.call)
NESTED = (Writer.branch, Writer.switch, Writer.loop, Writer.loop, Writer.repeat, Writer.leave, Writer.leave)


def in_doubles(text: str) -> str:
    """A mixed program with all of it in double."""
    return re.sub(r"\b(?:half|float)(3?)\(", r"double\1(", text)


def generate(seed: int, mixed: bool = False) -> str:
    w = Writer(seed, mixed)
    for _ in range(w.random.randint(4, 8)):
        w.statement()
    results = [each for i in ("0", "1") for kind, name in w.scope for each in _ends(kind, name, i)]
    body = "\n".join(w.lines)
    text = f"[Differentiable] double f(double x, double y, int n)\n{{\n{body}\n    return {' + '.join(results)};\n}}\n"
    return LIBRARY + text + DERIVATIVES


def _ends(kind: str, name: str, i: str) -> list[str]:
    return [f"0.7lf * bend({part.format(name, i=i)})" for part in dict.fromkeys(PARTS[kind])]
