"""Directives: #include, #define, #if and the others, on tokens.

In: a SourceFile, definitions, a resolver of included files.   Out: one token list, ending in "end".

    #define N 4
    #if N > 2
    float x[N];              ->     float x [ 4 ] ;
    #endif

A resolver gets the written path and the file that includes it, and returns a SourceFile or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits, limit_note
from slangrad.base.source import IncludeError, SourceFile
from slangrad.base.suggestions import near
from slangrad.syntax.lexing.conditions import BadCondition, evaluate
from slangrad.syntax.lexing.lexer import error_of, tokenize
from slangrad.syntax.lexing.macros import Expander, Macro
from slangrad.syntax.lexing.tokens import Token

Resolver = Callable[[str, SourceFile], SourceFile | None]

PREDEFINED = {"__SLANG__": "1", "__SLANG_COMPILER__": "1", "__SLANGRAD__": "1"}
DEFAULT_LANGUAGE = 2025


@dataclass(slots=True)
class _Conditional:
    """An open #if. `taken`: one of its groups was compiled already."""

    start: Token
    taken: bool
    after_else: bool = False


class Preprocessor:
    """Processes one text and its included files."""

    def __init__(
        self, reporter: Reporter, limits: Limits, resolver: Resolver | None, defines: Mapping[str, str]
    ) -> None:
        self.language = DEFAULT_LANGUAGE
        self._reporter = reporter
        self._limits = limits
        self._resolver = resolver
        self._expander = Expander(reporter, limits)
        self._macros = self._expander.macros
        self._once: set[str] = set()
        self._including = 0
        self._included = 0
        self._output: list[Token] = []
        self._conditionals: list[_Conditional] = []
        for name, value in {**PREDEFINED, **defines}.items():
            body = tokenize(SourceFile(f"definition of {name}", value))[:-1]
            self._macros[name] = Macro(name, None, False, body)

    def run(self, source: SourceFile) -> list[Token]:
        """The tokens that are left when all directives are done."""
        end = self._file(source)
        self._output.append(end)
        return self._output

    def _file(self, source: SourceFile) -> Token:
        outer, self._conditionals = self._conditionals, []
        tokens = tokenize(source)
        end = self._lines(tokens)
        for conditional in self._conditionals:
            self._reporter.error("E0108", "this #if has no #endif", conditional.start.span)
        self._conditionals = outer
        return end

    def _lines(self, tokens: list[Token]) -> Token:
        output, macros = self._output, self._macros
        index = 0
        while True:
            token = tokens[index]
            kind = token.kind
            if token.fresh and (kind == "#" or kind == "end"):
                if kind == "end":
                    return token
                index = self._directive(tokens, index)
            elif kind == "name" and token.text in macros:
                first = len(output)
                index = self._expander.expand(tokens, index, output)
                if token.fresh and len(output) > first:
                    output[first].fresh = True
            else:
                if kind == "error":
                    self._reporter.error(*error_of(token), token.span)
                else:
                    output.append(token)
                index += 1

    def _directive(self, tokens: list[Token], index: int) -> int:
        """Handle the directive at a "#"; return the index of the next line to read."""
        after = index + 1
        while not tokens[after].fresh:
            after += 1
        line = tokens[index + 1 : after]
        if not line:
            return after
        name = line[0].text
        if name in _CONDITIONALS:
            live = _CONDITIONALS[name](self, line)
            return after if live else self._skip(tokens, after)
        handler = _DIRECTIVES.get(name)
        if handler is None:
            directives = (f"#{word}" for word in (*_CONDITIONALS, *_DIRECTIVES))
            note = near(f"#{name}", directives) or "a comment begins with '//'"
            self._reporter.error("E0105", f"unknown directive '#{name}'", line[0].span, note)
        else:
            handler(self, line)
        return after

    # --- Conditionals --------------------------------------------------------------------------------------

    def _skip(self, tokens: list[Token], index: int) -> int:
        """Skip lines that are not compiled, to the end of the #elif, #else or #endif after them."""
        depth = 0
        while tokens[index].kind != "end":
            token = tokens[index]
            index += 1
            if not token.fresh or token.kind != "#" or tokens[index].fresh:
                continue
            name = tokens[index].text
            if name in ("if", "ifdef", "ifndef"):
                depth += 1
            elif name == "endif" and depth:
                depth -= 1
            elif name in ("elif", "else", "endif", "elifdef", "elifndef") and not depth:
                first = index
                while not tokens[index].fresh:
                    index += 1
                if _CONDITIONALS[name](self, tokens[first:index]):
                    return index
        return index

    def _if(self, line: list[Token]) -> bool:
        live = self._holds(line)
        self._conditionals.append(_Conditional(line[0], live))
        return live

    def _else_if(self, line: list[Token]) -> bool:
        open_one = self._continued(line)
        if open_one is None or open_one.taken:
            return open_one is None
        open_one.taken = self._holds(line)
        return open_one.taken

    def _holds(self, line: list[Token]) -> bool:
        """The condition of an #if, #elif, #ifdef and so on."""
        word = line[0].text
        return self._condition(line) if word.endswith("if") else self._is_defined(line) != ("ndef" in word)

    def _else(self, line: list[Token]) -> bool:
        open_one = self._continued(line)
        if open_one is None:
            return True
        live = not open_one.taken
        open_one.taken = open_one.after_else = True
        return live

    def _end_if(self, line: list[Token]) -> bool:
        if self._conditionals:
            self._conditionals.pop()
        else:
            self._reporter.error("E0108", "this #endif has no #if", line[0].span)
        return True

    def _continued(self, line: list[Token]) -> _Conditional | None:
        """The #if that a #elif or #else belongs to."""
        if not self._conditionals:
            self._reporter.error("E0108", f"this #{line[0].text} has no #if", line[0].span)
            return None
        conditional = self._conditionals[-1]
        if conditional.after_else:
            self._reporter.error("E0108", f"#{line[0].text} after #else", line[0].span)
        return conditional

    def _is_defined(self, line: list[Token]) -> bool:
        if len(line) < 2 or line[1].kind != "name":
            self._reporter.error("E0106", f"#{line[0].text} needs a name", line[0].span)
            return False
        return line[1].text in self._macros

    def _condition(self, line: list[Token]) -> bool:
        tokens = self._expander.expand_all(self._replace_defined(line[1:]))
        try:
            return evaluate(self._replace_defined(tokens)) != 0
        except BadCondition as error:
            self._reporter.error("E0110", f"in the condition of #{line[0].text}: {error}", line[0].span)
            return False

    def _replace_defined(self, tokens: list[Token]) -> list[Token]:
        """`defined X` and `defined(X)` become 1 or 0.

        Done before and after macros are expanded. If a macro produces `defined(X)`, an X that is a macro is
        expanded by then, so only an unknown name counts as undefined.
        """
        output: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            if token.kind == "name" and token.text == "defined" and index < len(tokens):
                bracketed = tokens[index].kind == "("
                name_tokens = tokens[index + bracketed : index + bracketed + 1]
                is_defined = not (
                    name_tokens and name_tokens[0].kind == "name" and name_tokens[0].text not in self._macros
                )
                token = Token("integer", str(int(is_defined)), token.source, token.start, token.end)
                index = _behind_defined(tokens, index)
            output.append(token)
        return output

    # --- Other directives ----------------------------------------------------------------------------------

    def _include(self, line: list[Token]) -> None:
        path = _included_path(line) or _included_path([line[0], *self._expander.expand_all(line[1:])])
        span = line[min(1, len(line) - 1)].span
        if path is None:
            self._reporter.error("E0106", '#include needs "path" or <path>', line[0].span)
            return
        if self._including >= self._limits.include_depth:
            message = f"files include each other more than {self._limits.include_depth} deep"
            self._reporter.error("E0113", message, span, limit_note("include_depth"))
            return
        if self._included >= self._limits.include_count:
            message = f"more than {self._limits.include_count} files are included"
            self._reporter.error("E0113", message, span, limit_note("include_count"))
            return
        try:
            source = self._resolver(path, line[0].source) if self._resolver else None
        except IncludeError as problem:
            self._reporter.error("E0107", str(problem), span, problem.note)
            return
        if source is None:
            self._reporter.error("E0107", f"cannot find the included file '{path}'", span)
            return
        if source.name not in self._once:
            self._included += 1
            self._including += 1
            self._file(source)
            self._including -= 1

    def _define(self, line: list[Token]) -> None:
        if len(line) < 2 or line[1].kind != "name" or line[1].text == "defined":
            self._reporter.error("E0109", "#define needs a name", line[0].span)
            return
        name, body = line[1], line[2:]
        macro: Macro | None = Macro(name.text, None, False, body)
        if body and body[0].kind == "(" and body[0].start == name.end:
            macro = self._function_macro(name, body)
        if macro is None:
            return
        previous = self._macros.get(name.text)
        if previous is not None and not previous.same_as(macro):
            self._reporter.warning("E0109", f"macro '{name.text}' gets another definition", name.span)
        self._macros[name.text] = macro

    def _function_macro(self, name: Token, tokens: list[Token]) -> Macro | None:
        """A macro whose parameters start at `tokens[0]`, a "("."""
        close = next((index for index, token in enumerate(tokens) if token.kind == ")"), None)
        if close is None:
            self._reporter.error("E0109", "the parameters of this macro have no ')'", name.span)
            return None
        listed = tokens[1:close]
        parameters = ["__VA_ARGS__" if token.kind == "..." else token.text for token in listed[::2]]
        well_formed = all(token.kind in ("name", "...") for token in listed[::2]) and all(
            token.kind == "," for token in listed[1::2]
        )
        if not well_formed or len(listed) % 2 == (0 if listed else 1):
            self._reporter.error("E0109", "macro parameters are names with commas between", name.span)
            return None
        if len(set(parameters)) < len(parameters) or "__VA_ARGS__" in parameters[:-1]:
            self._reporter.error("E0109", "macro parameters need different names, '...' last", name.span)
            return None
        is_variadic = bool(parameters) and parameters[-1] == "__VA_ARGS__"
        return Macro(name.text, parameters, is_variadic, tokens[close + 1 :])

    def _undefine(self, line: list[Token]) -> None:
        if len(line) < 2 or line[1].kind != "name":
            self._reporter.error("E0109", "#undef needs a name", line[0].span)
            return
        self._macros.pop(line[1].text, None)

    def _error(self, line: list[Token]) -> None:
        self._reporter.error("E0111", f"#error {_rest_of(line)}".rstrip(), line[0].span)

    def _warning(self, line: list[Token]) -> None:
        self._reporter.warning("E0112", f"#warning {_rest_of(line)}".rstrip(), line[0].span)

    def _pragma(self, line: list[Token]) -> None:
        if len(line) > 1 and line[1].text == "once":
            self._once.add(line[0].source.name)

    def _language(self, line: list[Token]) -> None:
        year = line[-1].text
        if year.isdecimal() and 2018 <= int(year[:8]) <= 2100:
            self.language = int(year)

    def _ignore(self, line: list[Token]) -> None:
        """Directives without effect: places are those of the text, versions those of Slang."""


def _behind_defined(tokens: list[Token], index: int) -> int:
    """The index after the operand of `defined`, which starts at `index`."""
    if tokens[index].kind != "(":
        return index + 1
    while index < len(tokens) and tokens[index].kind != ")":
        index += 1
    return index + 1


def _included_path(line: list[Token]) -> str | None:
    if len(line) == 2 and line[1].kind == "string":
        return line[1].text[1:-1]
    if len(line) > 2 and line[1].kind == "<" and line[-1].kind == ">":
        return line[1].source.text[line[1].end : line[-1].start].strip()
    return None


def _rest_of(line: list[Token]) -> str:
    """The line as written, after the directive's name."""
    return line[0].source.text[line[0].end : line[-1].end].strip()


# fmt: off
_CONDITIONALS: dict[str, Callable[[Preprocessor, list[Token]], bool]] = {
    "if":       Preprocessor._if,
    "ifdef":    Preprocessor._if,
    "ifndef":   Preprocessor._if,
    "elif":     Preprocessor._else_if,
    "elifdef":  Preprocessor._else_if,
    "elifndef": Preprocessor._else_if,
    "else":     Preprocessor._else,
    "endif":    Preprocessor._end_if,
}

_DIRECTIVES: dict[str, Callable[[Preprocessor, list[Token]], None]] = {
    "include":   Preprocessor._include,
    "define":    Preprocessor._define,
    "undef":     Preprocessor._undefine,
    "error":     Preprocessor._error,
    "warning":   Preprocessor._warning,
    "pragma":    Preprocessor._pragma,
    "lang":      Preprocessor._language,
    "language":  Preprocessor._language,
    "line":      Preprocessor._ignore,
    "version":   Preprocessor._ignore,
    "extension": Preprocessor._ignore,
}
# fmt: on
