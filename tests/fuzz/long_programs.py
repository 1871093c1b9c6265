"""Long valid programs: many declarations of all sorts, and functions of many statements.

    generate_long(seed, count) -> text with `float f(float x, float y, int n)`

Maths is left out, since each use of it becomes a function's whole body.
"""

from __future__ import annotations

from tests.fuzz.programs import HELPERS, STRUCT, Writer

RESULTS = 40  # variables that a function's result is made of
LARGEST = 24  # statements of a function


class LongWriter(Writer):
    """Statements without maths."""

    unary = ("abs", "floor", "ceil", "trunc", "frac", "saturate", "sign")
    binary = ("min", "max", "step")

    def function(self, name: str, count: int) -> str:
        """A function of `count` statements, which may hold further ones."""
        self.lines, self.scope, self.fixed = [], [("float", "x"), ("float", "y"), ("int", "n")], {"n"}
        for _ in range(count):
            self.budget = 6
            self.statement()
        numbers = [name for kind, name in self.scope if kind == "float"][-RESULTS:]
        body = "\n".join(self.lines)
        return f"float {name}(float x, float y, int n)\n{{\n{body}\n    return {' + '.join(numbers)};\n}}\n"

    def table(self, name: str, count: int) -> str:
        values = ", ".join(str(self.random.randint(-99, 99) / 4) for _ in range(count))
        read = f"float read_{name}(int i) {{ return {name}[i & {count - 1}]; }}\n"
        return f"static const float {name}[{count}] = {{ {values} }};\n{read}"

    def enumeration(self, name: str, count: int) -> str:
        cases = ", ".join(f"{name}_{i}" + self.random.choice(("", f" = {i * 2}")) for i in range(count))
        arms = "\n".join(f"    case {i}: return {self.random.randint(0, 9)};" for i in range(count))
        chosen = f"int read_{name}(int i)\n{{\n    switch (i & {2 * count - 1})\n    {{\n{arms}\n    }}\n"
        return f"enum {name} {{ {cases} }}\n{chosen}    return int({name}.{name}_{count - 1});\n}}\n"

    def structure(self, name: str, count: int) -> str:
        fields = "\n".join(f"    float m{i} = {i};" for i in range(count))
        total = " + ".join(f"m{i}" for i in range(count))
        read = f"float read_{name}(float x) {{ {name} s; s.m{count - 1} = x; return s.total(); }}\n"
        return f"struct {name}\n{{\n{fields}\n    float total() {{ return {total}; }}\n}}\n{read}"


def generate_long(seed: int, count: int) -> str:
    """About `count` declarations with as many statements in each."""
    w = LongWriter(seed)
    parts, calls = [STRUCT, HELPERS], []
    for i in range(count):
        kind = i % 4
        if kind == 0:
            parts.append(w.function(f"part{i}", w.random.randint(2, LARGEST)))
            calls.append(f"part{i}(x, result, n)")
        elif kind == 1:
            parts.append(w.table(f"T{i}", 16))
            calls.append(f"read_T{i}(n)")
        elif kind == 2:
            parts.append(w.enumeration(f"E{i}", 8))
            calls.append(f"float(read_E{i}(n))")
        else:
            parts.append(w.structure(f"S{i}", 6))
            calls.append(f"read_S{i}(y)")
    lines = "\n".join(
        f"    float r{i} = {call};\n    if (n == {i}) return result;\n    result = result * 0.5 + r{i} - r{i // 2};"
        for i, call in enumerate(calls)
    )
    main = f"float f(float x, float y, int n)\n{{\n    float result = 0;\n{lines}\n    return result;\n}}\n"
    return "\n".join([*parts, main])
