"""Tokens and the operator tables.

In: nothing.   Out: `Token`, and which punctuation is an operator of which precedence.

Every word is of kind "name", because Slang's keywords are contextual; the kind of a punctuation token is its text.
"""

from __future__ import annotations

from slangrad.base.source import SourceFile, Span

# Kinds that are not their own text: name integer float string char error end


class Token:
    """One token. `fresh`: first on its line. `hidden`: macros that must not be expanded in it again."""

    __slots__ = ("end", "fresh", "hidden", "kind", "source", "start", "text")

    def __init__(
        self, kind: str, text: str, source: SourceFile, start: int, end: int, fresh: bool = False
    ) -> None:
        self.kind = kind
        self.text = text
        self.source = source
        self.start = start
        self.end = end
        self.fresh = fresh
        self.hidden: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"Token({self.kind!r}, {self.text!r})"

    def hiding(self, macros: frozenset[str]) -> Token:
        """Itself, with these macros hidden."""
        self.hidden = macros
        return self

    @property
    def span(self) -> Span:
        return Span(self.source, self.start, self.end)

    def shown(self) -> str:
        """Its name in messages."""
        if self.kind == "end":
            return "the end of the text"
        return f"'{self.text}'" if len(self.text) <= 40 else f"'{self.text[:37]}...'"


# fmt: off
RELATIONAL = 7                 # `is` and `as` bind like `<`

BINARY: dict[str, int] = {     # higher binds tighter
    "||": 1,
    "&&": 2,
    "|":  3,
    "^":  4,
    "&":  5,
    "==": 6, "!=": 6,
    "<":  RELATIONAL, ">": RELATIONAL, "<=": RELATIONAL, ">=": RELATIONAL,
    "<<": 8, ">>": 8,
    "+":  9, "-": 9,
    "*": 10, "/": 10, "%": 10,
}

ASSIGNMENT = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))

PREFIX = frozenset(("-", "+", "!", "~", "++", "--", "&", "*"))

OVERLOADABLE = frozenset((*BINARY, *ASSIGNMENT, *PREFIX, "?:", ","))
# fmt: on
