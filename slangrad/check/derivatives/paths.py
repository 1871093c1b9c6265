"""The statements of a function, in the order in which they run: branches, loops, jumps.

In: a checked body.   Out: each expression visited once; before it, `flow.point` is the point where it runs.

    while (c) { if (d) break; a; }      after it, paths meet from `c` and from `break`

`defer` runs at several places, so a function with one is analyzed without the order of its statements. Conditions count
as unknown, except the literal `true`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slangrad.base.records import OfClass, kinds_of
from slangrad.check.derivatives.flow import Flow, Sources
from slangrad.check.derivatives.versions import Point
from slangrad.syntax import ast


def follow(flow: Flow, body: ast.Block, sources: Callable[[ast.Expression], Sources]) -> None:
    """Visit a body; `sources` visits an expression."""
    Paths(flow, sources).run(body.statements)
    flow.leave()


@dataclass(slots=True, eq=False, repr=False)
class JumpTarget:
    """A statement that `break` leaves, or whose next step `continue` starts, with the points of these jumps."""

    label: str | None
    takes_continue: bool
    takes_break: bool
    breaks: list[Point] = field(default_factory=list)
    continues: list[Point] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Paths:
    flow: Flow
    sources: Callable[[ast.Expression], Sources]
    targets: list[JumpTarget] = field(default_factory=list)
    label: str | None = None  # of the next statement

    def run(self, statements: list[ast.Statement]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.Statement) -> None:
        _STATEMENTS[type(node)](self, node)

    def value(self, node: ast.Expression | None) -> None:
        if node is not None:
            self.sources(node)

    def declare(self, variable: ast.Variable) -> None:
        sources = set() if variable.initializer is None else self.sources(variable.initializer)
        if variable.has("static"):  # which keeps its value from call to call
            self.flow.addressed.add(variable)
        self.flow.store(variable, sources)

    def target(self, label: str | None, *, is_loop: bool, takes_break: bool = True) -> JumpTarget:
        target = JumpTarget(label, is_loop, takes_break)
        self.targets.append(target)
        return target

    def take_label(self) -> str | None:
        label, self.label = self.label, None
        return label


def _declarations(paths: Paths, node: ast.DeclarationStatement) -> None:
    for declaration in node.declarations:
        if isinstance(declaration, ast.Variable):
            paths.declare(declaration)


def _return(paths: Paths, node: ast.Return) -> None:
    if node.value is not None:
        paths.flow.add({paths.flow.result}, paths.sources(node.value))
    paths.flow.leave()


def _throw(paths: Paths, node: ast.Throw) -> None:
    paths.flow.throw(node.handler, paths.sources(node.value))
    paths.flow.end_path()


def _jump(paths: Paths, node: ast.Break | ast.Continue) -> None:
    """Jumps without a target are errors elsewhere."""
    is_continue = isinstance(node, ast.Continue)
    for target in reversed(paths.targets):
        takes = target.takes_continue if is_continue else target.takes_break
        if target.label == node.label if node.label is not None else takes:
            (target.continues if is_continue else target.breaks).append(paths.flow.point.copy())
            break
    paths.flow.end_path()


def _if(paths: Paths, node: ast.If) -> None:
    paths.sources(node.condition)
    _branch(paths, node.then, node.otherwise)


def _if_let(paths: Paths, node: ast.IfLet) -> None:
    paths.declare(node.binding)
    _branch(paths, node.then, node.otherwise)


def _branch(paths: Paths, then: ast.Statement, otherwise: ast.Statement | None) -> None:
    flow = paths.flow
    skipped = flow.point.copy()
    paths.statement(then)
    taken, flow.point = flow.point, skipped
    if otherwise is not None:
        paths.statement(otherwise)
    flow.meet([taken, flow.point])


def _switch(paths: Paths, node: ast.Switch) -> None:
    flow, target = paths.flow, paths.target(paths.take_label(), is_loop=False)
    paths.sources(node.value)
    start = flow.point
    flow.point = start.copy()
    flow.point.is_reached = False
    for case in node.cases:
        for value in case.values:
            paths.sources(value)
        flow.meet([start, flow.point])
        paths.run(case.body)
    skipped = [] if any(case.is_default for case in node.cases) else [start]
    paths.targets.pop()
    flow.meet([flow.point, *target.breaks, *skipped])


def _loop(
    paths: Paths, condition: ast.Expression | None, body: ast.Statement, step: ast.Expression | None = None
) -> None:
    """A loop that tests first."""
    flow, target = paths.flow, paths.target(paths.take_label(), is_loop=True)
    start = flow.start_loop()
    paths.value(condition)
    exits = [] if is_endless(condition) else [flow.point.copy()]
    paths.statement(body)
    flow.meet([flow.point, *target.continues])
    paths.value(step)
    paths.targets.pop()
    flow.end_loop(start, [*exits, *target.breaks])


def _for(paths: Paths, node: ast.For) -> None:
    if node.initializer is not None:
        label = paths.take_label()
        paths.statement(node.initializer)
        paths.label = label
    _loop(paths, node.condition, node.body, node.step)


def _compile_time_for(paths: Paths, node: ast.CompileTimeFor) -> None:
    for bound in (node.start, node.stop):
        paths.value(bound)
    _loop(paths, node.stop, node.body)


def _do_while(paths: Paths, node: ast.DoWhile) -> None:
    flow, target = paths.flow, paths.target(paths.take_label(), is_loop=True)
    start = flow.start_loop()
    paths.statement(node.body)
    flow.meet([flow.point, *target.continues])
    paths.sources(node.condition)
    exits = [] if is_endless(node.condition) else [flow.point.copy()]
    paths.targets.pop()
    flow.end_loop(start, [*exits, *target.breaks])


def is_endless(condition: ast.Expression | None) -> bool:
    """Whether a loop with this condition ends by jumps only."""
    return condition is None or (isinstance(condition, ast.BoolLiteral) and condition.value)


def _labeled(paths: Paths, node: ast.Labeled) -> None:
    if isinstance(node.statement, (ast.For, ast.CompileTimeFor, ast.While, ast.DoWhile, ast.Switch)):
        paths.label = node.label
        paths.statement(node.statement)
        return
    target = paths.target(node.label, is_loop=False, takes_break=False)
    paths.statement(node.statement)
    paths.targets.pop()
    paths.flow.meet([paths.flow.point, *target.breaks])


def _do_catch(paths: Paths, node: ast.DoCatch) -> None:
    """Each handler is around the body and the handlers before it. One that no error reaches starts as the body does."""
    flow, before = paths.flow, paths.flow.point.copy()
    paths.statement(node.body)
    for handler in node.handlers:
        passed = flow.point
        flow.meet(flow.caught.pop(handler, [before.copy()]))
        paths.statement(handler.body)
        flow.meet([passed, flow.point])


def _target_switch(paths: Paths, node: ast.TargetSwitch) -> None:
    flow, start = paths.flow, paths.flow.point
    target = paths.target(None, is_loop=False)
    ends = [start] if node.chosen is None else []
    for case in node.cases:
        flow.point = start.copy()
        paths.run(case.body)
        ends.append(flow.point)
    paths.targets.pop()
    flow.meet([*ends, *target.breaks])


def _defer(paths: Paths, node: ast.Defer) -> None:
    paths.flow.is_deferred = True
    paths.statement(node.statement)


def _assembly(paths: Paths, node: ast.TargetAssembly) -> None:
    for argument in node.arguments:
        paths.sources(argument)


def _nothing(paths: Paths, node: ast.Statement) -> None:
    pass


_STATEMENTS: dict[type[ast.Statement], Callable[[Paths, OfClass], None]] = {
    ast.Block: lambda paths, node: paths.run(node.statements),
    ast.Empty: _nothing,
    ast.StaticAssert: _nothing,
    ast.ExpressionStatement: lambda paths, node: paths.value(node.expression),
    ast.DeclarationStatement: _declarations,
    ast.Return: _return,
    ast.Throw: _throw,
    ast.Discard: lambda paths, node: paths.flow.leave(),
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.If: _if,
    ast.IfLet: _if_let,
    ast.Switch: _switch,
    ast.For: _for,
    ast.CompileTimeFor: _compile_time_for,
    ast.While: lambda paths, node: _loop(paths, node.condition, node.body),
    ast.DoWhile: _do_while,
    ast.Labeled: _labeled,
    ast.DoCatch: _do_catch,
    ast.TargetSwitch: _target_switch,
    ast.Defer: _defer,
    ast.TargetAssembly: _assembly,
}
assert _STATEMENTS.keys() == kinds_of(ast.Statement), _STATEMENTS.keys() ^ kinds_of(ast.Statement)
