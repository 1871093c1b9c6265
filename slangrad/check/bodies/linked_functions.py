"""Functions that one module declares (`extern`) and another one gives (`export`): the headers have to agree.

    extern float shade(float3 n);    with    export float shade(float3 n) { return n.z; }      that one is called
                                     with    export float shade(float4 n) { ... }              error E0704

In: the declaration that gave way, and the scope in which the other one is found now. Out: errors.
"""

from __future__ import annotations

from typing import Any

from slangrad.check.generics.signatures import signature_of, signature_text
from slangrad.check.generics.substitution import identity, self_argument
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import Type
from slangrad.check.model.world import World
from slangrad.check.names.scopes import ModuleScope
from slangrad.syntax import ast

Header = tuple[tuple[tuple[Type, str], ...], Type]


def check_given(world: World, scope: ModuleScope, declared: ast.Function) -> None:
    """Report a function that no module exports with the header that it is declared with."""
    found = [each.declaration for each in scope.local(declared.name)]
    given = [each for each in found if isinstance(each, ast.Function) and each.has("export")]
    if any(_agrees(world, declared, each) for each in given):
        return
    wanted = signature_text(world, DeclRef(declared, identity(declared)))
    lines = [signature_text(world, DeclRef(each, identity(each))) for each in given]
    message = f"no linked module exports '{wanted}'"
    world.error(
        "E0704", message, declared.name_span, f"what is exported is {'; '.join(lines) or 'no function'}"
    )


def _agrees(world: World, declared: ast.Function, given: ast.Function) -> bool:
    """Whether types and directions are the same, generic parameters in the place of each other."""
    if [type(each) for each in declared.generics] != [type(each) for each in given.generics]:
        return False
    renamed: dict[Any, Any] = {
        theirs: self_argument(own) for own, theirs in zip(declared.generics, given.generics)
    }
    own = DeclRef(declared, identity(declared))
    return _header(world, own) == _header(world, DeclRef(given, renamed))


def _header(world: World, reference: DeclRef) -> Header:
    signature = signature_of(world, reference)
    return tuple((each.type, each.direction) for each in signature.parameters), signature.result
