"""`__target_switch`: which case is meant here, and `__intrinsic_asm` in it.

    __target_switch
    {
    case cpp:   __intrinsic_asm "$P_exp($0)";        is meant:     return exp(x);
    case spirv: return spirv_asm { ... };            is not, and may hold what is for that target alone
    }

What stands for another target is checked, but for its assembly. Of the texts that C++ would get, calls of functions of
the library are known; "$P_" is the prefix of functions of a type there, "$0" the first argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slangrad.base.traits import Traits
from slangrad.check.model.types import VOID
from slangrad.check.names.scopes import Scope, levels
from slangrad.syntax import ast

_CALL = re.compile(r"\s*(?:\$P_)?([A-Za-z]\w*)\s*(?:\(\s*((?:\$\d+\s*,\s*)*\$\d+)?\s*\))?\s*;?\s*")


def chosen_case(traits: Traits, node: ast.TargetSwitch) -> ast.TargetCase | None:
    """The case that the program's target means, None where there is none."""
    named = {target: case for case in reversed(node.cases) for target in case.targets}
    return next((named[each] for each in traits.cases[node.keyword] if each in named), None)


def meant_by(scope: Scope, node: ast.TargetAssembly) -> tuple[ast.Statement, Scope] | None:
    """The statement that a text stands for, and the scope to check it in: the library's, and the arguments."""
    found = _CALL.fullmatch(node.text)
    if found is None or scope.body is None or node.arguments or scope.world.standard(found[1]) is None:
        return None
    given = dict(_arguments(scope, node))
    names = list(given) if "(" not in node.text else re.findall(r"\$\d+", found[2] or "")
    if not all(name in given for name in names):
        return None
    *_, library = levels(scope)
    inside = Scope(scope.world, library)
    inside.body = scope.body
    inside.names = {name: [each] for name, each in given.items()}
    arguments: list[ast.Expression] = [ast.Name(node.span, name) for name in names]
    call = ast.Call(node.span, ast.Name(node.span, found[1]), arguments)
    if scope.body.info.result is VOID:
        return ast.ExpressionStatement(node.span, call), inside
    return ast.Return(node.span, call), inside


def _arguments(scope: Scope, node: ast.TargetAssembly) -> Iterator[tuple[str, ast.Parameter]]:
    assert scope.body is not None
    for i, each in enumerate(scope.body.info.parameters):
        yield f"${i}", each
