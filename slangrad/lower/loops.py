"""`for`, `while`, `do` to IR loops.

    for (uint i = a; i < n; i += 2) body      counted: trips are computed, then `for %trips { i = a + 2 * k ... }`
    while (c) { ... break; }                  while { c && !broke } { ... }
    while (f(x) > 0) body                     the condition has effects: `while go { go = f(x) > 0; if (go) body }`

Counted loops are worth finding: their number of iterations is known before they run, so reverse mode needs no counter
and the vectorizer keeps the index uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.check import checked
from slangrad.ir.builder import Builder
from slangrad.ir.core import Value
from slangrad.ir.primitives import PRIMITIVES, PURE
from slangrad.ir.types import U32, U64, Scalar, is_integer
from slangrad.lower import expressions, operators, statements
from slangrad.lower.assigned import assigned_variables
from slangrad.lower.exits import Flag, Target, assigned_flags, exited, flags
from slangrad.lower.frame import Frame, Key
from slangrad.syntax import ast


def lower_for(f: Frame, node: ast.For, label: str | None) -> None:
    outer = dict.fromkeys(f.variables)
    if node.initializer is not None:
        statements.lower_statement(f, node.initializer)
    target = Target(label, is_loop=True)
    counted = _recognize(f, node, target)
    if counted is not None:
        _lower_counted(f, node, counted, target)
    else:
        _lower_general(f, node, node.condition, node.step, target, ask_first=True)
    for key in [key for key in f.variables if key not in outer]:
        del f.variables[key]


def lower_while(f: Frame, node: ast.While, label: str | None) -> None:
    _lower_general(f, node, node.condition, None, Target(label, is_loop=True), ask_first=True)


def lower_do(f: Frame, node: ast.DoWhile, label: str | None) -> None:
    _lower_general(f, node, node.condition, None, Target(label, is_loop=True), ask_first=False)


# --- Counted loops ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """`for (variable = start; variable <comparison> bound; variable += step)`, `step` not zero."""

    variable: ast.Variable
    comparison: str
    bound: ast.Expression
    step: int


MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


def _recognize(f: Frame, node: ast.For, target: Target) -> Counted | None:
    """The loop's shape, if its trips can be counted before it runs: nothing but `step` moves the variable, nothing
    in the loop moves the bound, and it is left only by its condition."""
    variable = _single_variable(node.initializer)
    if variable is None or node.condition is None or node.step is None:
        return None
    step = _constant_step(f, node.step, variable)
    comparison = _comparison(node.condition, variable)
    kind = f.variables[variable].type
    if (
        step is None
        or comparison is None
        or not isinstance(kind, Scalar)
        or not is_integer(kind)
        or kind.bits < 32
    ):
        return None
    moved = assigned_variables(f.program, node.body)
    if variable in moved or not _fixed(comparison[1], moved) or assigned_flags(f, node.body, target):
        return None
    counted = Counted(variable, *comparison, step)
    return counted if _ends(counted, kind) else None


def _single_variable(initializer: ast.Statement | None) -> ast.Variable | None:
    if not isinstance(initializer, ast.DeclarationStatement) or len(initializer.declarations) != 1:
        return None
    declared = initializer.declarations[0]
    return declared if isinstance(declared, ast.Variable) else None


def _is_variable(node: ast.Expression, variable: ast.Variable) -> bool:
    while isinstance(node, ast.Paren):
        node = node.inner
    return (
        isinstance(node.ref, checked.Local) and node.ref.declaration is variable and node.conversion is None
    )


def _constant_step(f: Frame, node: ast.Expression, variable: ast.Variable) -> int | None:
    """How far one step goes, when it is `i++`, `i -= 2` and the like."""
    form = node.ref
    if (
        not isinstance(form, checked.Update)
        or form.function is not None
        or not _is_variable(form.place, variable)
    ):
        return None
    if (
        form.load is not None
        or form.store is not None
        or operators.of_update(form.operator) not in ("+", "-")
    ):
        return None
    size = 1
    if form.value is not None:
        value, made, _ = f.trial(lambda: expressions.lower(f, form.value))
        known = made.constant_of(value)
        if not isinstance(known, int) or known == 0:
            return None
        size = known
    return size if operators.of_update(form.operator) == "+" else -size


def _comparison(node: ast.Expression, variable: ast.Variable) -> tuple[str, ast.Expression] | None:
    while isinstance(node, ast.Paren):
        node = node.inner
    form = node.ref
    if not isinstance(form, checked.Operator) or form.name not in MIRRORED or node.conversion is not None:
        return None
    left, right = form.operands
    if _is_variable(left, variable):
        return form.name, right
    return (MIRRORED[form.name], left) if _is_variable(right, variable) else None


def _fixed(node: ast.Expression, moved: set[Key]) -> bool:
    """Whether the expression is the same in each iteration: made of constants, fields and variables that stay."""
    form = node.ref
    if isinstance(node, (ast.IntLiteral, ast.BoolLiteral)) or isinstance(form, checked.Constant):
        return True
    if isinstance(node, ast.Paren):
        return _fixed(node.inner, moved)
    if isinstance(form, checked.Local):
        return form.declaration not in moved
    if isinstance(form, checked.Field):
        return isinstance(form.base, ast.Expression) and _fixed(form.base, moved)
    if isinstance(form, checked.Operator):
        return all(_fixed(each, moved) for each in form.operands)
    return isinstance(form, checked.Convert) and _fixed(form.operand, moved)


def _ends(loop: Counted, kind: Scalar) -> bool:
    """Whether the direction of the step leads to the bound; `i >= 0` of an unsigned i never ends."""
    if loop.comparison == "!=":
        return abs(loop.step) == 1
    if loop.step > 0:
        return loop.comparison in ("<", "<=")
    return loop.comparison == ">" or (loop.comparison == ">=" and kind.kind == "signed")


def _lower_counted(f: Frame, node: ast.For, loop: Counted, target: Target) -> None:
    start = f.variables[loop.variable]
    bound = expressions.lower(f, loop.bound)
    trips = _trips(f, loop, start, bound)
    counter = Value(trips.type, loop.variable.name)
    carried = f.loop_variables(assigned_variables(f.program, node.body))

    def body() -> None:
        step = f.b.constant(start.type, loop.step)
        k = f.emit("convert", counter, type=start.type)
        f.variables[loop.variable] = f.emit("add", start, f.emit("mul", k, step))
        _run_body(f, node.body, target)

    region = f.region(carried, body, counter)
    f.finish_loop("for", carried, (trips,), (region,), **_hints(f, node))


def _trips(f: Frame, loop: Counted, start: Value, bound: Value) -> Value:
    """The number of iterations, exact for all starts and bounds, in the unsigned type of the variable's width."""
    kind = start.type
    assert isinstance(kind, Scalar)
    unsigned = U64 if kind.bits == 64 else U32
    low, high = (start, bound) if loop.step > 0 else (bound, start)
    distance = f.emit("sub", f.emit("bitcast", high, type=unsigned), f.emit("bitcast", low, type=unsigned))
    if loop.comparison == "!=":
        return distance
    one = f.b.constant(unsigned, 1)
    stride = f.b.constant(unsigned, abs(loop.step))
    if loop.comparison in ("<", ">"):
        some = f.emit("less", low, high)
        if abs(loop.step) == 1:
            return f.emit("select", some, distance, f.b.zero(unsigned))
        distance = f.emit("sub", distance, one)
    else:
        some = f.emit("less_equal", low, high)
    count = f.emit("add", f.emit("div", distance, stride), one)
    return f.emit("select", some, count, f.b.zero(unsigned))


# --- Other loops --------------------------------------------------------------------------------------


def _lower_general(
    f: Frame,
    node: ast.For | ast.While | ast.DoWhile,
    condition: ast.Expression | None,
    step: ast.Expression | None,
    target: Target,
    ask_first: bool,
) -> None:
    f.variables[target.broke] = f.false()
    carried_keys = [
        *assigned_variables(f.program, node.body, condition, step),
        *assigned_flags(f, node.body, target),
    ]
    carried = f.loop_variables(carried_keys)
    if ask_first and _can_test(f, condition, carried):
        _while_tested(f, node, condition, step, target, carried)
    else:
        _while_flagged(f, node, condition, step, target, carried, ask_first)
    del f.variables[target.broke]


def _can_test(f: Frame, condition: ast.Expression | None, carried: list[Key]) -> bool:
    """Whether the condition is pure, so that it can stand in the test of a `while`."""
    if condition is None:
        return True
    pure = True

    def test() -> tuple[Value, ...]:
        nonlocal pure
        value, made, changed = f.trial(lambda: expressions.lower(f, condition))
        pure = not changed and is_pure(made)
        return (value,)

    f.region(carried, test)
    return pure


def is_pure(made: Builder) -> bool:
    return all(op.name in PRIMITIVES and PRIMITIVES[op.name].effect == PURE for op in made.ops)


def _while_tested(
    f: Frame,
    node: ast.For | ast.While | ast.DoWhile,
    condition: ast.Expression | None,
    step: ast.Expression | None,
    target: Target,
    carried: list[Key],
) -> None:
    def test() -> tuple[Value, ...]:
        goes_on = f.emit("not", _left(f, target))
        return (
            f.emit("and", goes_on, expressions.lower(f, condition)) if condition is not None else goes_on,
        )

    def body() -> None:
        _enter(f, target)
        _run_body(f, node.body, target)
        _run_step(f, step, target)

    regions = (f.region(carried, test), f.region(carried, body))
    f.finish_loop("while", carried, (), regions, **_hints(f, node))


def _while_flagged(
    f: Frame,
    node: ast.For | ast.While | ast.DoWhile,
    condition: ast.Expression | None,
    step: ast.Expression | None,
    target: Target,
    carried: list[Key],
    ask_first: bool,
) -> None:
    """A flag says whether to go on; the condition is computed in the body, effects and all."""
    go = Flag("go")
    f.variables[go] = f.true()
    carried = [go, *carried]

    def ask() -> None:
        f.variables[go] = f.true() if condition is None else expressions.lower(f, condition)

    def asked_body() -> None:
        ask()
        f.branch(f.variables[go], run)

    def run() -> tuple[Value, ...]:
        _enter(f, target)
        _run_body(f, node.body, target)
        _run_step(f, step, target)
        f.variables[go] = f.emit("and", f.variables[go], f.emit("not", _left(f, target)))
        return ()

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
        f.region(carried, asked_body if ask_first else body_then_ask),
    )
    f.finish_loop("while", carried, (), regions, **_hints(f, node))
    del f.variables[go]


def _enter(f: Frame, target: Target) -> None:
    """An iteration begins only where control has not left, so all flags are known to be false."""
    for flag in (*flags(f), target.broke):
        f.variables[flag] = f.false()


def _left(f: Frame, target: Target) -> Value:
    """Whether the loop was left by an exit, as seen at the end of an iteration."""
    f.exits.append(target)
    value = exited(f, but=target.continued)
    f.exits.pop()
    return value


def _run_body(f: Frame, body: ast.Statement, target: Target) -> None:
    f.exits.append(target)
    f.variables[target.continued] = f.false()
    scope = dict.fromkeys(f.variables)
    statements.lower_statement(f, body)
    for key in [key for key in f.variables if key not in scope]:
        del f.variables[key]
    del f.variables[target.continued]
    f.exits.pop()


def _run_step(f: Frame, step: ast.Expression | None, target: Target) -> None:
    """The step runs unless the loop was left; `continue` does not skip it."""
    if step is None:
        return

    def run() -> tuple[Value, ...]:
        expressions.lower_effect(f, step)
        return ()

    f.branch(_left(f, target), tuple, run)


def _hints(f: Frame, node: ast.Statement) -> dict[str, bool | int]:
    """[ForceUnroll], [unroll] and [MaxIters(n)] as attributes of the op."""
    hints: dict[str, bool | int] = {}
    for attribute in node.attributes:
        if attribute.name in ("ForceUnroll", "unroll"):
            hints["unroll"] = True
        elif attribute.name == "MaxIters" and len(attribute.arguments) == 1:
            known = f.program.known_value(f.scope, attribute.arguments[0])
            if isinstance(known, int):
                hints["max_trips"] = known
    return hints


LOOPS: dict[type[ast.Statement], Callable[[Frame, ast.Statement, str | None], None]] = {
    ast.For: lower_for,
    ast.While: lower_while,
    ast.DoWhile: lower_do,
}  # type: ignore[dict-item]
