"""Which bracket closes which, angle brackets too.

In: all tokens.   Out: a table from the index of an opening bracket to the index of the one that closes it.

    f<a, b<c>>(x < y)        ->     "<" of f and of b and "(" are in the table, the "<" of x is not

Whether "<" compares or opens generic arguments cannot be known before names are; one pass with a stack says
where it could close if it opens. A `>>` that closes two is `-index` for the inner one: its first half.
"""

from __future__ import annotations

from slangrad.syntax.tokens import ASSIGNMENT, Token

_CLOSES = {")": "(", "]": "[", "}": "{"}
_NOT_IN_ANGLES = frozenset((";", ":", "{", "&&", "||", "<=", ">=", "=>", *ASSIGNMENT))
_INTERESTING = frozenset(("<", ">", ">>", "(", "[", "{", ")", "]", "}", "?")) | _NOT_IN_ANGLES
_AFTER_OPTIONAL_TYPE = frozenset((">", ">>", ",", ")", "]", "[", "*", "?"))


def match_brackets(tokens: list[Token]) -> dict[int, int]:
    """Opening index to closing index, negative for the first character of `>>` and `>>=`."""
    closing: dict[int, int] = {}
    stack: list[int] = []
    for index, token in enumerate(tokens):
        kind = token.kind
        if kind not in _INTERESTING:
            continue
        if kind == ">":
            if stack and tokens[stack[-1]].kind == "<":
                closing[stack.pop()] = index
        elif kind in (">>", ">>=") and [tokens[each].kind for each in stack[-2:]] == ["<", "<"]:
            closing[stack.pop()] = -index
            if kind == ">>":  # else the rest closes what is known to be a type: `let x : A<B<T>>= y`
                closing[stack.pop()] = index
            else:
                _drop_angles(tokens, stack)
        elif kind in _CLOSES:
            _close(tokens, stack, closing, index)
        else:
            if kind in _NOT_IN_ANGLES or (kind == "?" and tokens[index + 1].kind not in _AFTER_OPTIONAL_TYPE):
                _drop_angles(tokens, stack)
            if kind in ("<", "(", "[", "{"):
                stack.append(index)
    return closing


def _drop_angles(tokens: list[Token], stack: list[int]) -> None:
    while stack and tokens[stack[-1]].kind == "<":
        stack.pop()


def _close(tokens: list[Token], stack: list[int], closing: dict[int, int], index: int) -> None:
    """Close the bracket at `index`; a brace also ends unclosed parentheses, nothing else ends a brace."""
    _drop_angles(tokens, stack)
    opener = _CLOSES[tokens[index].kind]
    if opener == "{":
        while stack and tokens[stack[-1]].kind != "{":
            stack.pop()
    if stack and tokens[stack[-1]].kind == opener:
        closing[stack.pop()] = index
