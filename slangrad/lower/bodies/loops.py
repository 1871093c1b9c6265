"""`for`, `while`, `do` to IR loops.

    for (uint i = a; i < n; i += 2) body    counted: `for %trips { i = a + 2 * k ... }`
    while (c) { ... break; }                while { c && !broke } { ... }
    while (f(x) > 0) body                   condition with effects: while { go } { go = f(x) > 0; if go body }

The number of iterations of a counted loop is known before it runs, so reverse mode needs no counter and the
vectorizer keeps the index uniform. `counted.py` finds such loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.base.options import limit_note
from slangrad.base.records import OfClass
from slangrad.ir.ops.core import Attributes, Value
from slangrad.ir.ops.effects import is_arithmetic
from slangrad.lower.bodies import counted
from slangrad.lower.bodies.assigned import assigned_variables
from slangrad.lower.bodies.sequences import lower_in_order
from slangrad.lower.model.exits import ExitTarget, Flag, assigned_flags, exited, flags
from slangrad.lower.model.flow import Key
from slangrad.lower.model.frame import Frame
from slangrad.lower.places.variables import declare
from slangrad.lower.values import operators
from slangrad.syntax import ast

Loop = ast.For | ast.While | ast.DoWhile


def lower_for(f: Frame, node: ast.For, label: str | None) -> None:
    outer = dict.fromkeys(f.variables)
    if node.initializer is not None:
        f.statement(node.initializer)
    target = ExitTarget("loop", label)
    shape = counted.recognize(f, node, target)
    if shape is not None:
        _lower_counted(f, node, shape, target)
    else:
        _lower_general(f, node, target)
    for key in [key for key in f.variables if key not in outer]:
        del f.variables[key]


def lower_while(f: Frame, node: ast.While | ast.DoWhile, label: str | None) -> None:
    _lower_general(f, node, ExitTarget("loop", label))


def _lower_counted(f: Frame, node: ast.For, loop: counted.Counted, target: ExitTarget) -> None:
    start = f.variables[loop.variable]
    trips = counted.count_trips(f, loop)
    counter = Value(trips.type, loop.variable.name)
    carried = f.loop_variables(assigned_variables(f.program, node.body))

    def body() -> None:
        f.variables[loop.variable] = counted.value_at(f, loop, start, counter)
        _run_body(f, node.body, target)

    region = f.region(carried, body, counter)
    f.finish_loop("for", carried, (trips,), (region,), _hints(f, node))


# --- Other loops --------------------------------------------------------------------------------------


def _lower_general(f: Frame, node: Loop, target: ExitTarget) -> None:
    f.variables[target.broke] = f.false()
    parts = node.condition, _step_of(node)
    assigned = assigned_variables(f.program, node.body, *parts)
    carried = f.loop_variables([*assigned, *assigned_flags(f, node.body, target, *parts)])
    if not isinstance(node, ast.DoWhile) and _can_test(f, node.condition, carried):
        _while_tested(f, node, target, carried)
    else:
        _while_flagged(f, node, target, carried)
    del f.variables[target.broke]


def _step_of(node: Loop) -> ast.Expression | None:
    return node.step if isinstance(node, ast.For) else None


def _can_test(f: Frame, condition: ast.Expression | None, carried: list[Key]) -> bool:
    """Whether the condition is pure, so that it can stand in the test of a `while`."""
    if condition is None:
        return True
    pure = True

    def test() -> tuple[Value, ...]:
        nonlocal pure
        aside = f.arm(lambda: (f.value(condition),))
        pure = not aside.changes(f.variables) and all(map(is_arithmetic, aside.builder.ops))
        return aside.values

    f.region(carried, test)
    return pure


def _while_tested(f: Frame, node: Loop, target: ExitTarget, carried: list[Key]) -> None:
    condition = node.condition

    def test() -> tuple[Value, ...]:
        goes_on = f.emit("not", _left(f, target))
        return (f.emit("and", goes_on, f.value(condition)) if condition is not None else goes_on,)

    regions = (f.region(carried, test), f.region(carried, lambda: _run_iteration(f, node, target)))
    f.finish_loop("while", carried, (), regions, _hints(f, node))


def _while_flagged(f: Frame, node: Loop, target: ExitTarget, carried: list[Key]) -> None:
    """A flag says whether to go on; the condition is computed in the body, with its effects."""
    go, condition = Flag("go"), node.condition
    f.variables[go] = f.true()
    carried = [go, *carried]

    def ask() -> None:
        (f.variables[go],) = f.finished(lambda: (f.true() if condition is None else f.value(condition),))

    def asked_body() -> None:
        ask()
        f.branch(f.variables[go], run)

    def run() -> None:
        _run_iteration(f, node, target)
        f.variables[go] = f.emit("and", f.variables[go], f.emit("not", _left(f, target)))

    def body_then_ask() -> None:
        _enter(f, target)
        _run_body(f, node.body, target)
        left = _left(f, target)

        def answer() -> tuple[Value, ...]:
            ask()
            return (f.variables[go],)

        (f.variables[go],) = f.branch(left, lambda: (f.false(),), answer)

    regions = (
        f.region(carried, lambda: (f.variables[go],)),
        f.region(carried, body_then_ask if isinstance(node, ast.DoWhile) else asked_body),
    )
    f.finish_loop("while", carried, (), regions, _hints(f, node))
    del f.variables[go]


def _run_iteration(f: Frame, node: Loop, target: ExitTarget) -> None:
    """The step runs unless the loop was left; `continue` does not skip it."""
    _enter(f, target)
    _run_body(f, node.body, target)
    step = _step_of(node)
    if step is not None:
        f.branch(_left(f, target), tuple, partial(f.effect, step))


def _enter(f: Frame, target: ExitTarget) -> None:
    """An iteration begins only where control has not left, so all flags are known to be false."""
    for flag in (*flags(f), target.broke):
        f.variables[flag] = f.false()


def _left(f: Frame, target: ExitTarget) -> Value:
    """Whether the loop was left by an exit, as seen at the end of an iteration."""
    f.exits.append(target)
    value = exited(f, but=target.continued)
    f.exits.pop()
    return value


def _run_body(f: Frame, body: ast.Statement, target: ExitTarget) -> None:
    f.exits.append(target)
    f.variables[target.continued] = f.false()
    scope = dict.fromkeys(f.variables)
    f.statement(body)
    for key in [key for key in f.variables if key not in scope]:
        del f.variables[key]
    del f.variables[target.continued]
    f.exits.pop()


def _hints(f: Frame, node: ast.Statement) -> Attributes:
    """[ForceUnroll], [unroll] and [MaxIters(n)] as attributes of the op."""
    hints: Attributes = {}
    for attribute in node.attributes:
        if attribute.name in ("ForceUnroll", "unroll"):
            hints["unroll"] = True
        elif attribute.name == "MaxIters" and len(attribute.arguments) == 1:
            trips = f.program.known_value(f.scope, attribute.arguments[0])
            if isinstance(trips, int):
                hints["max_trips"] = trips
    return hints


# --- $for ---------------------------------------------------------------------------------------------


def lower_compile_time_for(f: Frame, node: ast.CompileTimeFor) -> None:
    """The body once for each value of the variable, which is a constant in it."""
    start = 0 if node.start is None else _constant_bound(f, node.start)
    stop = _constant_bound(f, node.stop)
    if start is None or stop is None:
        return
    limit = f.lowering.options.limits.compile_time_steps
    f.lowering.rounds += max(stop - start, 0)
    if f.lowering.rounds > limit:
        message = f"{f.lowering.rounds} rounds of a $for are more than the limit of {limit}"
        f.error("E0711", message, node.span, limit_note("compile_time_steps"))
        return
    rounds = [partial(_run_round, f, node, i) for i in range(start, stop)]
    lower_in_order(f, rounds)


def _run_round(f: Frame, node: ast.CompileTimeFor, i: int) -> None:
    limit = f.lowering.options.limits.inline_ops
    if f.b.size > limit:
        message = f"the rounds of this $for are more than {limit} operations"
        f.error("E0711", message, node.span, limit_note("inline_ops"))
        return
    declare(f, node.variable, f.b.constant(operators.INT, i))
    f.statement(node.body)
    f.variables.pop(node.variable, None)


def _constant_bound(f: Frame, node: ast.Expression) -> int | None:
    """The bound of a $for, with generic parameters filled in."""
    value = f.program.known_value(f.scope, node)
    number = None if value is None else f.program.value(value, f.substitution)
    if not isinstance(number, int):
        f.error("E0309", "the bounds of a $for must be known when compiling", node.span)
        return None
    return number


LOOPS: dict[type[ast.Statement], Callable[[Frame, OfClass, str | None], None]] = {
    ast.For: lower_for,
    ast.While: lower_while,
    ast.DoWhile: lower_while,
}
