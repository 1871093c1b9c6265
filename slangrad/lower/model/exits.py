"""`return`, `break`, `continue` and `throw` as variables: each sets a flag, and the code after it runs where none
is set.

    if (c) return x;  rest        returned = true in the arm; `rest` goes into the other arm, or a branch
    while (a) { ... break; ... }  while (a && !broke) { ... }

A flag that is known to be false costs nothing: the builder folds it. Loops carry only the flags that their
body can set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from slangrad.check.model import checked
from slangrad.ir.ops.core import Value
from slangrad.lower.model.flow import ERROR, RESULT, RETURNED, THIS, THROWN, Key
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import children, walk


class Flag:
    """A variable without a name in the source."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(slots=True, eq=False)
class ExitTarget:
    """A target of exits. `kind`: "loop", "switch" or "block", which is left by its label only."""

    kind: str
    label: str | None
    broke: Flag = field(default_factory=lambda: Flag("broke"))
    continued: Flag = field(default_factory=lambda: Flag("continued"))


@dataclass(slots=True, eq=False)
class Handler:
    """A `catch`: the errors thrown in its block."""

    catch: ast.Catch
    threw: Flag = field(default_factory=lambda: Flag("threw"))
    error: Flag = field(default_factory=lambda: Flag("error"))


def _takes(kind: str, label: str | None, statement: ast.Break | ast.Continue) -> bool:
    """Whether a jump leads here, unless a target inside takes it."""
    if isinstance(statement, ast.Continue) and kind != "loop":
        return False
    return kind != "block" if statement.label is None else statement.label == label


def flags(f: Frame) -> list[Key]:
    keys: list[Key] = [RETURNED, THROWN]
    for target in f.exits:
        if isinstance(target, Handler):
            keys.append(target.threw)
        else:
            assert isinstance(target, ExitTarget)
            keys += [target.broke, target.continued]
    return [flag for flag in keys if flag in f.variables]


def exited(f: Frame, but: Flag | None = None) -> Value:
    """Whether control has left this point; constant when it is known."""
    value = f.false()
    for flag in flags(f):
        if flag is not but:
            value = f.emit("or", value, f.variables[flag])
    return value


def find_target(f: Frame, statement: ast.Break | ast.Continue) -> ExitTarget:
    """The target of a break or continue; the checker guarantees that there is one."""
    for target in reversed(f.exits):
        if isinstance(target, ExitTarget) and _takes(target.kind, target.label, statement):
            return target
    raise AssertionError("an exit without a target")


def assigned_flags(
    f: Frame, body: ast.SyntaxNode, target: ExitTarget, *others: ast.Expression | None
) -> list[Key]:
    """The flags, and the result, that running `body` may set, `target` being the loop around it; and `others`, where
    errors may be thrown."""
    keys: dict[Key, None] = {}
    for node in (body, *others):
        keys |= dict.fromkeys(_thrown_out_of(f, node)) if node is not None else {}
    for statement, inner in _exits(body, ()):
        if isinstance(statement, ast.Return):
            keys |= {RETURNED: None, RESULT: None, **dict.fromkeys(f.descriptor)}
            keys |= {THIS: None} if isinstance(f.declared, ast.Constructor) else {}
        elif not _stays_within(statement, inner):
            out_to = _target_outside(f, statement, target)
            flag = out_to.broke if isinstance(statement, ast.Break) else out_to.continued
            if not (out_to is target and flag is target.continued):
                keys[flag] = None
    return list(keys)


def _thrown_out_of(f: Frame, node: ast.SyntaxNode) -> Iterator[Key]:
    """The variables of the handlers around."""
    for inner in walk(node):
        form = inner if isinstance(inner, ast.Throw) else getattr(inner, "ref", None)
        if isinstance(form, (ast.Throw, checked.TriedCall)):
            yield from error_keys(f, form.handler)


def error_keys(f: Frame, catch: ast.Catch | None) -> tuple[Key, ...]:
    """The variables that say that there is an error, and which; none for a handler within."""
    if catch is None:
        return (THROWN, ERROR)
    return next(
        (
            (handler.threw, handler.error)
            for handler in f.exits
            if isinstance(handler, Handler) and handler.catch is catch
        ),
        (),
    )


def _target_outside(f: Frame, statement: ast.Break | ast.Continue, target: ExitTarget) -> ExitTarget:
    f.exits.append(target)
    outside = find_target(f, statement)
    f.exits.pop()
    return outside


Inner = tuple[tuple[str, str | None], ...]  # (kind, label) of the targets inside, outermost first


def _stays_within(statement: ast.Break | ast.Continue, inner: Inner) -> bool:
    return any(_takes(kind, label, statement) for kind, label in inner)


def _exits(
    node: ast.SyntaxNode, inner: Inner, label: str | None = None
) -> Iterator[tuple[ast.Return | ast.Break | ast.Continue, Inner]]:
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        yield node, inner
    elif isinstance(node, ast.Labeled):
        yield from _exits(node.statement, inner, node.label)
    elif isinstance(node, _WITH_STATEMENTS):
        kind = KINDS.get(type(node), "block" if label is not None else None)
        if kind is not None:
            inner = (*inner, (kind, label))
        for child in children(node):
            if isinstance(child, _WITH_STATEMENTS):
                yield from _exits(child, inner)


_WITH_STATEMENTS = (ast.Statement, ast.Case, ast.TargetCase, ast.Catch)

# fmt: off
KINDS: dict[type[ast.SyntaxNode], str] = {
    ast.For: "loop", ast.While: "loop", ast.DoWhile: "loop", ast.Switch: "switch", ast.TargetSwitch: "switch",
}
# fmt: on


def may_exit(node: ast.SyntaxNode) -> bool:
    """Whether there is a statement in it that leaves, or an error may be thrown, by its form."""
    leaving = (ast.Return, ast.Break, ast.Continue, ast.Throw, ast.Try)
    return any(isinstance(inner, leaving) for inner in walk(node))


def always_exits(node: ast.Statement) -> bool:
    """Whether control never reaches the end of the statement, as far as its form tells."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Discard, ast.Throw)):
        return True
    if isinstance(node, ast.Block):
        return any(always_exits(statement) for statement in node.statements)
    if isinstance(node, ast.If):
        return node.otherwise is not None and always_exits(node.then) and always_exits(node.otherwise)
    return False
