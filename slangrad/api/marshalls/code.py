"""Text that a Marshall adds to the kernel of a call: lines at some indentation, and named snippets.

    cgb.add_snippet("twice", "float twice(float x) { return 2 * x; }")
    cgb.append_statement("value = twice(x)")

What is appended in `gen_calldata` and what snippets hold stands before the kernel, statements of
`gen_trampoline_load` and `gen_trampoline_store` stand in it.
"""

from __future__ import annotations


class CodeGen:
    """What all blocks of one argument have in common: snippets by name, modules to import."""

    def __init__(self) -> None:
        self.snippets: dict[str, str] = {}
        self.imports: list[str] = []
        self.aliases: dict[str, str] = {}

    def add_snippet(self, name: str, code: str) -> None:
        """Text beside the kernel; the first of a name stays."""
        self.snippets.setdefault(name, code)

    def add_import(self, import_name: str) -> None:
        """A module that the text needs. The called module has to import it, too."""
        name = import_name.replace("\\", "/")
        if name not in self.imports:
            self.imports.append(name)


class CodeGenBlock:
    """Lines of text."""

    def __init__(self, gen: CodeGen) -> None:
        self.gen = gen
        self.code: list[str] = []
        self.indent = ""

    def add_import(self, import_name: str) -> None:
        self.gen.add_import(import_name)

    def add_snippet(self, name: str, code: str) -> None:
        self.gen.add_snippet(name, code)

    def inc_indent(self) -> None:
        self.indent += "    "

    def dec_indent(self) -> None:
        self.indent = self.indent[:-4]

    def append_indent(self) -> None:
        self.append_code(self.indent)

    def append_code(self, code: str) -> None:
        """Text as it is."""
        self.code.append(code)

    def append_line(self, line: str) -> None:
        self.append_code(f"{self.indent}{line}\n")

    def append_code_indented(self, code: str) -> None:
        for line in code.splitlines():
            self.append_line(line)

    def append_statement(self, statement: str) -> None:
        self.append_line(f"{statement};")

    statement = append_statement

    def empty_line(self) -> None:
        self.append_code("\n")

    def begin_block(self) -> None:
        self.append_line("{")
        self.inc_indent()

    def end_block(self) -> None:
        self.dec_indent()
        self.append_line("}")

    def begin_struct(self, struct_name: str) -> None:
        self.append_line(f"struct {struct_name}")
        self.begin_block()

    def end_struct(self) -> None:
        self.end_block()

    def type_alias(self, alias_name: str, type_name: str | None) -> None:
        """Another name for a type; `_t_x` is that of the data of argument x."""
        if type_name is not None:
            self.gen.aliases[alias_name] = type_name

    def declare(self, type_name: str, variable_name: str) -> None:
        self.append_statement(f"{type_name} {variable_name}")

    def assign(self, target: str, value: str) -> None:
        self.append_statement(f"{target} = {value}")

    def declarevar(self, variable_name: str, value: str) -> None:
        self.append_statement(f"var {variable_name} = {value}")

    def diff_pair(self, primal: str, derivative: str = "0") -> None:
        self.append_statement(f"diffPair({primal}, {derivative})")

    def finish(self) -> str:
        return "".join(self.code)

    @property
    def lines(self) -> list[str]:
        return self.finish().splitlines()
