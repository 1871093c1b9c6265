"""Functions and types for editors, `help()` and notebooks: signatures, documentation, names for completion.

    inspect.signature(module.scale)   (x: 'float3', by: 'float' = 2.0, *, _result=None, _append_to=None) -> 'float3'
    module.scale.__doc__              the function's header in Slang, and the comment above it
    dir(module)                       with the functions and types of the module

Comments are those of Slang's tools: `///` lines and `/** */` directly above a declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import Parameter, Signature, cleandoc
from itertools import zip_longest
from keyword import iskeyword
from typing import TYPE_CHECKING

from slangrad.api.reflection.slang_layout import parameters_of
from slangrad.call.binding.call_request import RESULT
from slangrad.check.model.types import EnumType
from slangrad.marshal.reflection.slang_type import SlangType

if TYPE_CHECKING:
    from slangrad.api.functional.function import Function
    from slangrad.api.functional.module import Module
    from slangrad.api.functional.struct import Struct
    from slangrad.call.binding.program import CallCandidate
    from slangrad.syntax.ast import Declaration

NAMED, ONLY_NAMED = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
MOST_LISTED = 40
MADE_FOR_DERIVATIVES = {"Differential", "dadd", "dmul", "dzero"}


class SlangText:
    """A default of a parameter, as it is written in Slang."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


# --- Functions ----------------------------------------------------------------------------------------


def signature_of(function: Function, bound: bool) -> Signature:
    """The parameters with their types in Slang as annotations; `bound`: without `this`. Overloads with other names of
    parameters have no signature in common."""
    candidates = function._caller.candidates
    rows = [list(_parameters(c, function))[bound and c.has_this :] for c in candidates]
    names = [tuple(parameter.name for parameter in row) for row in rows]
    returned = list(dict.fromkeys(map(_result, candidates)))
    only_named = ["_append_to"] if returned == [None] else [RESULT, "_append_to"]
    last = [Parameter(name, ONLY_NAMED, default=None) for name in only_named if name not in names[0]]
    annotation = None if returned == [None] else " | ".join(map(str, returned))
    if len(set(names)) > 1 or len(set(names[0])) < len(names[0]):
        rest = Parameter("args", Parameter.VAR_POSITIONAL)
        last.append(Parameter("kwargs", Parameter.VAR_KEYWORD))
        return Signature([rest, *last], return_annotation=annotation)
    return Signature([*_joined(rows), *last], return_annotation=annotation)


def _parameters(candidate: CallCandidate, function: Function) -> Iterator[Parameter]:
    declared = [parameter.default for parameter in candidate.view.declaration.parameters]
    shown = parameters_of(candidate, function.module.layout)
    defaults = [None] * int(candidate.has_this) + declared
    for parameter, default in zip_longest(shown, defaults[: len(shown)]):
        name = parameter.name if parameter.name.isidentifier() else f"_{parameter.index}"
        text = Parameter.empty if default is None else SlangText(default.span.text)
        annotation = parameter.declaration.removesuffix(parameter.name).strip()
        yield Parameter(f"{name}_" if iskeyword(name) else name, NAMED, default=text, annotation=annotation)


def _joined(rows: Sequence[Sequence[Parameter]]) -> list[Parameter]:
    """One signature of overloads whose parameters have the same names; a default counts where all have one, and all
    after it."""
    joined: list[Parameter] = []
    for same in reversed(list(zip(*rows))):
        annotation = " | ".join(dict.fromkeys(str(parameter.annotation) for parameter in same))
        usual = all(parameter.default is not Parameter.empty for parameter in (*same, *joined))
        default = same[0].default if usual else Parameter.empty
        joined.append(same[0].replace(annotation=annotation, default=default))
    return joined[::-1]


def _result(candidate: CallCandidate) -> str | None:
    result = candidate.result
    return None if result is None else str(candidate.view.shown(result))


def documentation_of(function: Function) -> str:
    """The header of each overload, and the comment above it."""
    return "\n\n".join(
        _documented(_header(candidate), candidate.view.declaration)
        for candidate in function._caller.candidates
    )


def _documented(header: str, declaration: Declaration) -> str:
    comment = comment_above(declaration)
    return f"{header}\n\n{comment}" if comment else header


def _header(candidate: CallCandidate) -> str:
    """The source text on one line; printed from the AST if it has a comment or a macro."""
    declaration = candidate.view.declaration
    body = getattr(declaration, "body", None)
    source = declaration.span.source
    if body is None or body.span.source is not source or candidate.view.candidate.substitution:
        return str(candidate)
    text = source.text[declaration.span.start : body.span.start]
    plain = declaration.name in text and not any(mark in text for mark in ("//", "/*", "{", "}", ";", "#"))
    return " ".join(text.split()) if plain else str(candidate)


def comment_above(declaration: Declaration) -> str:
    """The text of the comment that ends on the line above a declaration, or on its line before it."""
    text = declaration.span.source.text[: declaration.span.start].rstrip(" \t").removesuffix("\n")
    above = text.rstrip()
    if "\n" in text[len(above) :]:  # an empty line is between them
        return ""
    if above.endswith("*/"):
        begin = above.rfind("/*")
        if begin < 0 or not above.startswith("/**", begin):
            return ""
        lines = above[begin + 3 : -2].splitlines()
        starred = [line.strip().removeprefix("*").removeprefix(" ") for line in lines[1:]]
        all_starred = all(line.strip().startswith("*") for line in lines[1:] if line.strip())
        return cleandoc("\n".join([lines[0].strip(), *starred] if all_starred else lines) if lines else "")
    return cleandoc("\n".join(_comment_lines(above)))


def _comment_lines(text: str) -> list[str]:
    """The lines that begin with `///` at the end of a text."""
    lines: list[str] = []
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end].strip()
        if not line.startswith("///") or line.startswith("////"):
            break
        lines.append(line[3:].removeprefix(" "))
        end = start - 1
    return lines[::-1]


# --- Types and modules --------------------------------------------------------------------------------


def documentation_of_type(struct: Struct) -> str:
    """Its header, the comment above it, its fields and methods."""
    declaration = getattr(struct.checked, "declaration", None)
    kind = type(declaration).__name__.removesuffix("Declaration").lower()
    header = f"{kind} {struct.name}" if kind in ("struct", "enum", "interface", "class") else struct.name
    text = header if declaration is None else _documented(header, declaration)
    names = names_in(struct)
    if kind == "enum":
        return text + _section("Cases", names)
    fields = [field.declaration for field in struct.fields.values()]
    return text + _section("Fields", fields) + _section("Methods", _headers(struct, names))


def documentation_of_module(module: Module) -> str:
    """Its functions and types."""
    functions = _headers(module, module.view.function_names())
    text = f"Slang module '{module.name}'"
    return text + _section("Functions", functions) + _section("Types", module.view.type_names())


def _headers(owner: Module | Struct, names: Iterable[str]) -> list[str]:
    functions = [f for name in names if (f := owner.find_function(name)) is not None]
    return [_header(candidate) for f in functions for candidate in f._caller.candidates]


def _section(title: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    shown = listed[:MOST_LISTED] + (["..."] if len(listed) > MOST_LISTED else [])
    return f"\n\n{title}:\n" + "\n".join(f"    {line}" for line in shown) if shown else ""


def names_in(owner: Module | Struct) -> list[str]:
    """The functions and types of a module, the methods of a type and the types in it, for completion; the cases of an
    enum."""
    if not isinstance(owner, SlangType):
        return list(filter(_is_public, (*owner.view.function_names(), *owner.view.type_names())))
    names = [name for name in owner.module.view.member_names(owner.checked) if _is_public(name)]
    if isinstance(owner.checked, EnumType):
        return names
    fields = owner.fields
    return [name for name in names if name not in fields and name not in MADE_FOR_DERIVATIVES]


def _is_public(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__")


# --- One line -----------------------------------------------------------------------------------------


def line_of(function: Function) -> str:
    """The function with its settings: `Function(P.step.map(x=(0,)).bwds)`."""
    settings = function._settings
    owner = "" if function.struct is None else f"{function.struct.name}."
    mapped = [*map(repr, settings.map_positional), *(f"{k}={v!r}" for k, v in settings.map_named.items())]
    changes = [f".map({_short(', '.join(mapped))})"] if mapped else []
    changes += [".set(...)"] * bool(settings.sources)
    changes += [f".call_group_shape({settings.group})"] * (settings.group is not None)
    changes += [f".lanes({settings.lanes})"] * (settings.lanes != 0)
    changes += [f".return_type({_kind(settings.result)})"] * (settings.result is not None)
    changes += [".type_conformances(...)"] * bool(settings.conformances)
    changes += [f".{settings.mode}"] * (not function.is_primal)
    return f"Function({owner}{function.name}{''.join(changes)})"


def _kind(result: object) -> str:
    return result.__name__ if isinstance(result, type) else repr(result)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
