"""Lines of the stages' texts as HTML with colors.

    float y = 2.0; // twice   ->   <em>float</em> y = <u>2.0</u>; <i>// twice</i>

In: lines and their language. Out: the lines, escaped, with <b> for words of the language and instructions, <em>
for types and registers, <u> for numbers, <s> for strings, <i> for comments. It knows tokens, no grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

_SLANG = (
    "as bool break case class const continue default do else enum extension fixed for func if import in inout "
    "interface internal implementing let module namespace no_diff out private property public return static struct "
    "switch this This throw typealias typedef uniform using var where while __include __init __subscript "
    "bwd_diff fwd_diff true false"
)
_SLANG_TYPES = (
    r"void|(?:bool|u?int|half|float|double)(?:8|16|32|64)?(?:_t)?(?:[1-4](?:x[1-4])?)?|vector|matrix"
)
_IR_TYPES = r"bool|[iuf](?:1|8|16|32|64)|ptr|lanes|tape|half|float|double|void"
_NUMBER = r"(?<![\w.%@])-?(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[hfuUL]*(?![\w.])"
_STRING = r'"(?:[^"\\]|\\.)*"'
_IR_WORDS = "func|yield|struct|differential|arguments|inout|no_diff|uniform|true|false"
_LLVM_WORDS = "define|declare|attributes|dso_local|noalias|to|label|true|false|poison|zeroinitializer"

_PLAIN = r"(?<![\w.%@])"  # no part of the name of a value

# Of each language: comments, strings, types, words, numbers; the first that fits counts.
# fmt: off
_TOKENS = {
    "slang": (r"//.*|/\*.*?\*/", _STRING, rf"\b(?:{_SLANG_TYPES})\b",
              rf"\b(?:{'|'.join(_SLANG.split())})\b|^\s*#\w+|\[(?=[A-Z])\w+", _NUMBER),
    "ast":   (r"(?<= : ).*", r"'[^']*'", r"^\s*\w+(?=: )", r"(?<=: )[A-Z]\w+|^\s*[A-Z]\w+", _NUMBER),
    "ir":    (r"//.*", _STRING, rf"{_PLAIN}(?:{_IR_TYPES})\b",
              rf"{_PLAIN}(?:{_IR_WORDS})\b|(?<== )[a-z]\w*|^\s+[a-z]\w*", _NUMBER),
    "llvm":  (r";.*|!(?:dbg|prof|\d+|{{).*", _STRING, rf"{_PLAIN}(?:{_IR_TYPES})\b",
              rf"{_PLAIN}(?:{_LLVM_WORDS})\b|(?<== )[a-z]\w*|^  [a-z]\w*|^\w+:", _NUMBER),
    "asm":   (r"#.*|^\s+\..*", _STRING, r"%\w+", r"^\s+[a-z]\w*|^[.\w$]+:", r"\$-?(?:0x)?[\da-f]+|" + _NUMBER),
}
# fmt: on
_TAGS = ("i", "s", "em", "b", "u")
_PATTERNS = {
    language: re.compile("|".join(f"({part})" for part in parts)) for language, parts in _TOKENS.items()
}


def colored(lines: Iterable[str], language: str) -> Iterator[str]:
    pattern = _PATTERNS[language]
    for line in lines:
        text = _aligned(line) if language == "asm" else line.expandtabs(4)
        yield "".join(_pieces(text, pattern))


def _aligned(line: str) -> str:
    """A line of assembly; a tab follows the instruction."""
    if not line.startswith("\t"):
        return line
    instruction, _, operands = line[1:].partition("\t")
    return f"    {instruction:<12} {operands}".rstrip().expandtabs()


def _pieces(line: str, pattern: re.Pattern[str]) -> Iterator[str]:
    done = 0
    for match in pattern.finditer(line):
        assert match.lastindex is not None
        tag = _TAGS[match.lastindex - 1]
        yield escape(line[done : match.start()], quote=False)
        yield f"<{tag}>{escape(match[0], quote=False)}</{tag}>"
        done = match.end()
    yield escape(line[done:], quote=False)
