"""The names of checked types and functions in the text of a kernel, with their namespaces; values of constants.

struct Ray in namespace scene   ->   scene::Ray        method of Box<float>   ->   Box<float>.area
0.5, float3(1, 2, 3), [1, 2]    ->   0.5lf, float3(1.0lf, 2.0lf, 3.0lf), { 1, 2 }
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.page_words import rooted
from slangrad.base.type_names import shaped_name
from slangrad.check.model.types import (
    ArrayType,
    MatrixType,
    Nominal,
    PointerType,
    Stored,
    Tuple,
    Type,
    VectorType,
    extents_of,
    nominal_name,
)
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.vectors import HostArray

if TYPE_CHECKING:
    from slangrad.syntax.ast import Declaration


def spell(t: Type) -> str:
    """A type as it is written outside of all namespaces."""
    return _spell(t, lambda t, name: name)


def spell_on_page(t: Type) -> str:
    """The same on the page of a call, where words of the page hide the program's names."""
    return _spell(t, lambda t, name: name if t.declaration.span.source.is_library else rooted(name))


def spell_differential(t: Type) -> str:
    """The type of a derivative on the page of a call."""
    if isinstance(t, ArrayType):
        return f"{spell_differential(t.element)}[{t.count}]"
    return f"{spell_on_page(t)}.Differential"


def full_name(t: object) -> str:
    """A type, or a value among generic arguments, as reflection shows it: vectors and matrices have no short names."""
    return _spell(t, lambda t, name: name, is_page=False)


def _spell(t: object, named: Callable[[Nominal, str], str], is_page: bool = True) -> str:
    spell: Callable[[object], str] = lambda part: _spell(part, named, is_page)
    if isinstance(t, PointerType):
        element = spell(t.element)
        return f"Ptr<{element}>" if is_page and isinstance(t.element, Stored) else f"{element}*"
    if isinstance(t, Stored):
        return t.around(spell(t.element))
    if isinstance(t, ArrayType):
        return f"{spell(t.element)}[{'' if t.count is None else t.count}]"
    if isinstance(t, Nominal):
        around = namespaces_of(t.declaration)
        packs = (tuple(map(spell, a)) if isinstance(a, tuple) else spell(a) for a in t.arguments)
        name = nominal_name(t.declaration, tuple(packs))
        return named(t, (around if is_page else around.replace("::", ".")) + name)
    if not is_page and isinstance(t, (VectorType, MatrixType)):
        return shaped_name(spell(t.element), extents_of(t), comma=",")
    if isinstance(t, Tuple):
        return f"Tuple<{', '.join(map(spell, t.elements))}>"
    return str(t)


def spell_argument(argument: object) -> str:
    """A generic argument on the page of a call: a type or a value."""
    return spell_on_page(argument) if isinstance(argument, Type) else str(argument)


def namespaces_of(declaration: Declaration) -> str:
    """`outer::inner::` for declarations in namespaces."""
    names: list[str] = []
    scope: Declaration | None = declaration.parent
    while scope is not None:
        if type(scope).__name__ == "Namespace":
            names.insert(0, f"{scope.name}::")
        scope = scope.parent
    return "".join(names)


def parse_generic_signature(name: str) -> tuple[str, list[str]]:
    """The name of a type and the texts of its generic arguments: `Tensor<vector<float, 4>, 2>` has the arguments
    `vector<float, 4>` and `2`.
    """
    base, opened, inner = name.partition("<")
    if not opened:
        return name, []
    arguments, depth = [""], 1
    for letter in inner:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth == 0:
            break
        if letter == "," and depth == 1:
            arguments.append("")
        else:
            arguments[-1] += letter
    return base.strip(), [argument.strip() for argument in arguments]


def spell_value(value: object, name: str) -> str:
    """The expression; CallError for a value without one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value) + "lf"
    if isinstance(value, HostArray):
        parts = ", ".join(spell_value(part, name) for part in value.data.ravel())
        return f"{type(value).__name__}({parts})"
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(spell_value(part, name) for part in value) + " }"
    message = f"constants: '{name}' cannot be {type(value).__name__} {value!r}"
    raise CallError("E1013", message, (), "numbers, vectors and lists of these can be constants")
