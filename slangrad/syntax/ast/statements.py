"""Nodes of statements.

`if (a) b; else c;`   If      `case 1: case 2: ...`   Case, a part of a Switch and no statement
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from slangrad.base.source import Span
from slangrad.syntax.ast.nodes import Declaration, Expression, Statement, SyntaxNode, node

if TYPE_CHECKING:
    from slangrad.syntax.ast.declarations import ParameterDeclaration, Variable
    from slangrad.syntax.saved import Surroundings


# fmt: off
@node
class Block(Statement):  # `{ ... }`.
    statements: list[Statement]

# `{ ... }` of a library function that no program has needed yet: packed tokens. `parse_body` makes the Block that
# takes its place.
class Unparsed(Block):
    __slots__ = ("around", "tokens")

    def __init__(self, span: Span, tokens: bytes, around: Surroundings) -> None:
        self.span, self.tokens, self.around = span, tokens, around

@node
class Empty(Statement):  # `;`.
    pass

@node
class ExpressionStatement(Statement):  # `f(x);`.
    expression: Expression

# `int a = 1, b;`, a local struct, typedef or function; in the scope around it.
@node
class DeclarationStatement(Statement):
    declarations: list[Declaration]

@node
class If(Statement):  # `if (condition) then else otherwise`.
    condition: Expression
    then: Statement
    otherwise: Statement | None

# `if (let x = optional) then else otherwise`; `binding.initializer` is the optional, x its value in `then`.
@node
class IfLet(Statement):
    binding: Variable
    then: Statement
    otherwise: Statement | None

@node
class Switch(Statement):  # `switch (value) { case 1: ... default: ... }`.
    value: Expression
    cases: list[Case]

@node
class Case(SyntaxNode):  # `case 1: case 2: default: statements`; without labels, what stands before the first one.
    values: list[Expression]
    is_default: bool
    body: list[Statement]

@node
class For(Statement):  # `for (initializer; condition; step) body`; the initializer's names live in the loop.
    initializer: Statement | None
    condition: Expression | None
    step: Expression | None
    body: Statement

@node
class CompileTimeFor(Statement):  # `$for (i in Range(start, stop)) body`; `start` is None for `Range(stop)`.
    variable: Variable
    start: Expression | None
    stop: Expression
    body: Statement

@node
class While(Statement):  # `while (condition) body`.
    condition: Expression
    body: Statement

@node
class DoWhile(Statement):  # `do body while (condition);`.
    body: Statement
    condition: Expression

@node
class Break(Statement):  # `break;`, `break outer;`.
    label: str | None

@node
class Continue(Statement):  # `continue;`, `continue outer;`.
    label: str | None

@node
class Return(Statement):  # `return;`, `return x;`, `return {a, b};`.
    value: Expression | None

@node
class Discard(Statement):  # `discard;`.
    pass

@node
class Labeled(Statement):  # `outer: for (...) ...`.
    label: str
    statement: Statement

@node
class StaticAssert(Statement):  # `static_assert(condition, "message");`, the message may be left out.
    condition: Expression
    message: str

@node
class Defer(Statement):  # `defer statement`: runs when the block is left.
    statement: Statement

@node
class Throw(Statement):  # `throw x;`. `handler` is written by `check`: the Catch that it leads to, None: the function.
    value: Expression
    handler: Catch | None = field(default=None, init=False)

@node
class DoCatch(Statement):  # `do { ... } catch (e : E) { ... } catch { ... }`; the first that fits handles.
    body: Statement
    handlers: list[Catch]

@node
class Catch(SyntaxNode):  # `catch (e : E) statement`; `catch statement` catches every error.
    parameter: ParameterDeclaration | None
    body: Statement

@node
class TargetSwitch(Statement):  # `__target_switch { case cpu: ... default: ... }`; `__stage_switch` too.
    keyword: str
    cases: list[TargetCase]
    chosen: TargetCase | None = field(default=None, init=False)  # the checker's choice

@node
class TargetCase(SyntaxNode):  # `case cpu: case cuda: statements`; "default" is a name like the others.
    targets: list[str]
    body: list[Statement]

@node
class TargetAssembly(Statement):  # `__intrinsic_asm "text", a, b;`.
    text: str
    arguments: list[Expression]
