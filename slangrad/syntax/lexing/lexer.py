"""Text to tokens, by one regular expression.

In: a SourceFile.   Out: its tokens, the last of kind "end"; comments and spaces are gone.

    x1 = 0x1Fu; // note      ->     name x1, "=", integer 0x1Fu, ";", end

Makes no reports, because `#if` may leave out arbitrary text: a malformed token gets the kind "error".
"""

from __future__ import annotations

import re
from sys import intern

from slangrad.base.source import SourceFile
from slangrad.syntax.lexing.tokens import Token

_SCANNER = re.compile(
    r"""
      (?P<space>
          (?: [ \t\r\f\v\ufeff]+ | \\\r?\n | //(?:[^\\\n]|\\\r?\n|\\)*+ | /\*(?:[^*]|\*(?!/))*+\*/ )++ )
    | (?P<newline> \n\s* )
    | (?P<raw> R"(?P<mark>[^()\\\s"]{0,16})\([\s\S]*?\)(?P=mark)" )
    | (?P<open_raw> R"[^()\\\s"]{0,16}\([\s\S]* )
    | (?P<name> [^\W\d]\w* )
    | (?P<float>
          0[xX][0-9a-fA-F'_]*+(?:\.[0-9a-fA-F'_]*+)?(?:[pP][+-]?[0-9]+|\#INF)[A-Za-z0-9_]*
        | (?: [0-9][0-9'_]*\.(?![xyzwrgba]{1,4}\b)[0-9'_]* | \.[0-9][0-9'_]* )
          (?: [eE][+-]?[0-9]+ | \#INF )? [A-Za-z0-9_]*
        | [0-9][0-9'_]*(?:[eE][+-]?[0-9]+|\#INF)[A-Za-z0-9_]* )
    | (?P<integer> [0-9](?:'?[A-Za-z0-9_])* )
    | (?P<string> "(?:[^"\\\n]|\\[\s\S])*+" )
    | (?P<char> '(?:[^'\\\n]|\\.){1,64}+' )
    | (?P<open> /\*[\s\S]* | "[^\n]* | ' )
    | (?P<mark_> <<= | >>= | \.\.\. | -> | => | :: | \+\+ | -- | && | \|\| | << | >> | \#\#
        | [<>=!+\-*/%&|^]= | [-+*/%&|^~!<>=?:;,.(){}\[\]\#$] )
    | (?P<error> [^\x20-\x7e\s]+ | [\s\S] )
    """,
    re.VERBOSE,
)

_KINDS = {"raw": "string", "open": "error", "open_raw": "error"}


def tokenize(source: SourceFile) -> list[Token]:
    """All tokens of a text."""
    tokens: list[Token] = []
    append = tokens.append
    fresh = True
    for match in _SCANNER.finditer(source.text):
        group = match.lastgroup
        if group == "space":
            continue
        if group == "newline":
            fresh = True
            continue
        text = match.group()
        if group == "name":
            append(Token("name", intern(text), source, match.start(), match.end(), fresh))
        elif group == "mark_":
            text = intern(text)
            append(Token(text, text, source, match.start(), match.end(), fresh))
        else:
            assert group is not None
            append(Token(_KINDS.get(group, group), text, source, match.start(), match.end(), fresh))
        fresh = False
    append(Token("end", "", source, len(source.text), len(source.text), True))
    return tokens


def error_of(token: Token) -> tuple[str, str]:
    """Code and sentence for a token of kind "error"."""
    first = token.text[0]
    if token.text.startswith("/*"):
        return "E0102", "this comment does not end"
    if first == "'":
        return "E0102", "this character does not end"
    if first == '"' or token.text.startswith('R"'):
        return "E0102", "this string does not end"
    return "E0101", f"unexpected character {first!r}"
