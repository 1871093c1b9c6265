"""Statements to structured IR. Loops are in `loops.py`; early exits become flags (`model/exits.py`).

if (x < 0) return 0; y = 2 * x; return y;

%r = if %negative { yield 0.0 } else { %y = mul 2.0, %x   yield %y }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from slangrad.base.options import limit_note
from slangrad.base.records import OfClass, kinds_of
from slangrad.base.source import Span
from slangrad.check.bodies.statements import assertion_text
from slangrad.check.model import checked
from slangrad.check.model.types import VOID
from slangrad.ir.ops.core import Value
from slangrad.lower.bodies import loops
from slangrad.lower.bodies.sequences import (
    MOST_NESTED,
    continue_where_not_left,
    lower_portions,
    not_left,
)
from slangrad.lower.calls import throwing
from slangrad.lower.model.exits import ExitTarget, always_exits, exited, find_target, flags, may_exit
from slangrad.lower.model.flow import RESULT, RETURNED, THIS
from slangrad.lower.model.frame import Frame
from slangrad.lower.places import statics
from slangrad.lower.places.defaults import initial_value
from slangrad.lower.places.variables import begin_variable, declare, open_variable
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def statement(f: Frame, node: ast.Statement) -> None:
    with f.at(node.span):
        f.finished(partial(STATEMENTS[type(node)], f, node))


def lower_statements(f: Frame, nodes: Sequence[ast.Statement]) -> None:
    """One after the other; once control may have left, the rest runs only where it has not."""
    portions = _portions(f, nodes)
    for declared in _used_later(portions) if len(portions) > 1 else ():
        info = f.program.info(declared)
        if (
            info.kind == "local" and info.type is not VOID
        ):  # else declared in an arm, which ends with its portion
            f.variables[declared] = f.b.zero(f.type(info.type, declared.span))
    lower_portions(f, [partial(_lower_nested, f, portion) for portion in portions])


def _used_later(portions: Sequence[Sequence[ast.Statement]]) -> Iterator[ast.Variable]:
    """The variables that a portion declares and a later one may name."""
    named: set[str] = set()
    for portion in reversed(portions):
        for node in portion:
            declarations = node.declarations if isinstance(node, ast.DeclarationStatement) else ()
            yield from (
                declared
                for declared in declarations
                if isinstance(declared, ast.Variable) and declared.name in named
            )
        named.update(name.name for node in portion for name in walk(node) if isinstance(name, ast.Name))


def _portions(f: Frame, nodes: Sequence[ast.Statement]) -> list[Sequence[ast.Statement]]:
    """A portion of statements, of which only so many may leave. All of them are one portion if later code must stay
    inside the first ones: before a deferred statement runs, or because it uses a variable in memory."""
    if len(nodes) <= MOST_NESTED:
        return [nodes]
    leaving = [i + 1 for i, node in enumerate(nodes) if may_exit(node) or isinstance(node, ast.Defer)]
    if any(map(partial(_must_stay, f), nodes)):
        limit = f.lowering.options.limits.chain_length
        if len(leaving) > limit:
            message = f"more than {limit} statements of one block may leave it or are deferred"
            f.error("E0206", message, nodes[leaving[limit] - 1].span, limit_note("chain_length"))
            return []
        return [nodes]
    ends = leaving[MOST_NESTED - 1 :: MOST_NESTED]
    return [
        nodes[start:end] for start, end in zip([0, *ends], [*ends, len(nodes)], strict=True) if start < end
    ]


def _must_stay(f: Frame, node: ast.Statement) -> bool:
    declared = node.declarations if isinstance(node, ast.DeclarationStatement) else ()
    return isinstance(node, ast.Defer) or any(variable in f.addressed for variable in declared)


def _lower_nested(f: Frame, nodes: Sequence[ast.Statement], start: int = 0) -> None:
    for i in range(start, len(nodes)):
        node, more = nodes[i], i + 1 < len(nodes)
        rest = partial(_lower_nested, f, nodes, i + 1)
        if isinstance(node, ast.If) and more and _one_arm_exits(node):
            f.finished(partial(_lower_if, f, node, nodes[i + 1 :]))
            return
        if isinstance(node, ast.Defer):
            _lower_deferred(f, node, rest)
            return
        f.statement(node)
        if continue_where_not_left(f, rest, more):
            return


def _lower_deferred(f: Frame, node: ast.Defer, rest: Callable[[], object]) -> None:
    """It runs after the rest of its block, also where that was left early."""
    rest()
    left = {flag: f.variables[flag] for flag in flags(f)}
    f.variables.update(dict.fromkeys(left, f.false()))
    f.statement(node.statement)
    f.variables.update(left)


def _one_arm_exits(node: ast.If) -> bool:
    return always_exits(node.then) != (node.otherwise is not None and always_exits(node.otherwise))


def _lower_if(f: Frame, node: ast.If, rest: Sequence[ast.Statement] = ()) -> None:
    """`rest` follows the statement and goes into the arm that control comes out of."""
    after_then, after_else = (rest, ()) if rest and not always_exits(node.then) else ((), rest)
    then = [node.then, *after_then]
    otherwise = [*([node.otherwise] if node.otherwise is not None else []), *after_else]
    f.branch(
        f.value(node.condition),
        partial(_lower_nested, f, then),
        partial(_lower_nested, f, otherwise),
        next(
            (attribute.name for attribute in node.attributes if attribute.name in ("branch", "flatten")), ""
        ),
    )


def _lower_declaration(f: Frame, node: ast.DeclarationStatement) -> None:
    variables = [declaration for declaration in node.declarations if isinstance(declaration, ast.Variable)]
    for declared in variables:
        if declared in f.addressed:
            open_variable(f, declared, f.type(f.program.info(declared).type, declared.span))
    for declared in variables:
        _lower_variable(f, declared, f.program.info(declared))


def _lower_variable(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> None:
    if declared.has("groupshared"):
        return  # memory of the group, as if declared outside
    if declared.has("precise"):
        f.lowering.is_precise = True
    if info.type is VOID:
        assert declared.initializer is not None
        f.effect(declared.initializer)
    elif info.kind == "local":
        begin_variable(f, declared, _initial(f, declared, info))
    else:
        statics.declare(f, declared, info)


def _initial(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> Value:
    value = initial_value(f, declared, info)
    value.hint = value.hint or declared.name
    return value


def _lower_return(f: Frame, node: ast.Return) -> None:
    result = THIS if isinstance(f.declared, ast.Constructor) else RESULT
    if f.refers is not None and node.value is not None:
        f.refers(node.value)
    elif node.value is not None and result in f.variables:
        f.variables[result] = f.value(node.value)
    elif node.value is not None:
        f.effect(node.value)
    f.variables[RETURNED] = f.true()


def _lower_throw(f: Frame, node: ast.Throw) -> None:
    threw, error = throwing.places(f, node.handler)
    error.set(f, f.value(node.value))
    threw.set(f, f.true())


def _lower_do_catch(f: Frame, node: ast.DoCatch) -> None:
    """Each handler runs where its block has thrown; the first is the innermost."""
    for catch in reversed(node.handlers):
        throwing.enter_handler(f, catch)
    f.statement(node.body)
    for catch in node.handlers:
        threw, error = throwing.leave_handler(f)
        f.branch(threw, partial(not_left, f, partial(_lower_handler, f, catch, error)))


def _lower_handler(f: Frame, catch: ast.Catch, error: Value | None) -> None:
    if catch.parameter is not None and error is not None:
        declare(f, catch.parameter, error)
    f.statement(catch.body)


def _lower_labeled(f: Frame, node: ast.Labeled) -> None:
    inner = node.statement
    if isinstance(inner, ast.Switch):
        _lower_switch(f, inner, node.label)
    elif type(inner) in loops.LOOPS:
        loops.LOOPS[type(inner)](f, inner, node.label)
    else:
        _lower_block_of(f, ExitTarget("block", node.label), partial(f.statement, inner))


def _lower_block_of(f: Frame, target: ExitTarget, lower: Callable[[], None]) -> None:
    """Code that a `break` may leave."""
    f.exits.append(target)
    f.variables[target.broke] = f.false()
    lower()
    f.exits.pop()
    del f.variables[target.broke]


def _lower_switch(f: Frame, node: ast.Switch, label: str | None = None) -> None:
    """A chain of `if`s on equality; with flags where a body falls through into the next."""
    value = f.value(node.value)
    matches = [_matches(f, value, case) for case in node.cases]
    falls = not all(always_exits_case(case) for case in node.cases[:-1])
    lower = _lower_falling if falls else _lower_cases
    _lower_block_of(f, ExitTarget("switch", label), partial(lower, f, node.cases, matches))


def always_exits_case(case: ast.Case) -> bool:
    return any(always_exits(inner) for inner in case.body)


def _matches(f: Frame, value: Value, case: ast.Case) -> Value | None:
    """Whether the value is one of the case's; None for a default, which takes all other values."""
    if case.is_default:
        return None
    matches = f.false()
    for label in case.values:
        matches = f.emit("or", matches, f.emit("equal", value, f.value(label)))
    return matches


def _lower_cases(f: Frame, cases: list[ast.Case], matches: list[Value | None]) -> None:
    """No body falls through: each runs alone, the default last. A great many are halved first."""
    pending = [(case, match) for case, match in zip(cases, matches, strict=True) if match is not None]
    default = next((case for case in cases if case.is_default), None)
    any_of = partial(_any, f, [match for _, match in pending], {})

    def choose(start: int, end: int, is_one: bool) -> None:
        """One of these cases, or the default unless it is one of them."""
        if end - start > MOST_NESTED:
            middle = (start + end) // 2
            halves = partial(choose, start, middle, True), partial(choose, middle, end, is_one)
            f.branch(any_of(start, middle), *halves)
        elif start < end - is_one:
            case, match = pending[start]
            f.branch(match, partial(_lower_body, f, case), partial(choose, start + 1, end, is_one))
        elif is_one:
            _lower_body(f, pending[start][0])
        elif default is not None:
            _lower_body(f, default)

    if len(pending) > MOST_NESTED:
        any_of(0, len(pending))
    choose(0, len(pending), False)


def _any(
    f: Frame, matches: list[Value], answers: dict[tuple[int, int], Value], start: int, end: int
) -> Value:
    """Whether one of many cases matches: the disjunction of its halves, which are used as well."""
    if (start, end) not in answers:
        middle = (start + end) // 2
        halves = ((start, middle), (middle, end)) if end - start > MOST_NESTED else ()
        parts = [_any(f, matches, answers, *half) for half in halves] or matches[start:end]
        matches_any = f.false()
        for part in parts:
            matches_any = f.emit("or", matches_any, part)
        answers[start, end] = matches_any
    return answers[start, end]


def _lower_body(f: Frame, case: ast.Case) -> None:
    """A body whose last `break` needs no flag."""
    body = case.body
    ends = len(body) > 0 and isinstance(body[-1], ast.Break) and find_target(f, body[-1]) is f.exits[-1]
    lower_statements(f, body[:-1] if ends else body)


def _lower_falling(f: Frame, cases: list[ast.Case], matches: list[Value | None]) -> None:
    """Entered by a match or from above: a body runs unless control has left already."""
    none = f.true()
    for match in matches:
        none = none if match is None else f.emit("and", none, f.emit("not", match))
    entered = f.false()
    for case, match in zip(cases, matches, strict=True):
        entered = f.emit("or", entered, none if match is None else match)
        runs = f.emit("and", entered, f.emit("not", exited(f)))
        f.branch(runs, partial(not_left, f, partial(lower_statements, f, case.body)))


def _lower_if_let(f: Frame, node: ast.IfLet) -> None:
    """An optional is its value and whether it has one."""
    assert node.binding.initializer is not None
    optional = f.value(node.binding.initializer)

    def then() -> None:
        declare(f, node.binding, f.emit("get", optional, index=0))
        f.statement(node.then)

    otherwise = [] if node.otherwise is None else [node.otherwise]
    present = f.emit("get", optional, index=1)
    f.branch(present, then, partial(lower_statements, f, otherwise))


def _lower_target_switch(f: Frame, node: ast.TargetSwitch) -> None:
    case = node.chosen
    if case is None:
        wanted = f.program.traits.cases[node.keyword][0]
        f.error("E9003", f"this {node.keyword} has no case for '{wanted}' and no default", node.span)
        return
    _lower_block_of(f, ExitTarget("switch", None), partial(lower_statements, f, case.body))


def _lower_static_assert(f: Frame, node: ast.StaticAssert) -> None:
    condition = f.program.known_value(f.scope, node.condition)
    if condition is not None and f.program.value(condition, f.substitution) == 0:
        f.error("E0606", assertion_text(node), _outside_of_library(f, node.condition.span))


def _outside_of_library(f: Frame, span: Span) -> Span:
    """The user's call that has led to a place in the library."""
    name: str | None = f.name
    while span.source.is_library and name in f.lowering.asked_by:
        span = f.lowering.asked_at[name] or span
        name = f.lowering.asked_by[name][1]
    return span


def _refuse(f: Frame, node: ast.Statement) -> None:
    words: dict[type[ast.Statement], str] = {ast.Discard: "discard"}
    f.error("E9002", f"'{words.get(type(node), type(node).__name__)}' is not supported", node.span)


# fmt: off
STATEMENTS: dict[type[ast.Statement], Callable[[Frame, OfClass], None]] = {
    ast.Block:                lambda f, node: lower_statements(f, node.statements),
    ast.Defer:                lambda f, node: _lower_deferred(f, node, tuple),  # `if (c) defer g();`
    ast.Empty:                lambda f, node: None,
    ast.ExpressionStatement:  lambda f, node: f.effect(node.expression),
    ast.DeclarationStatement: _lower_declaration,
    ast.If:                   _lower_if,
    ast.Switch:               _lower_switch,
    **dict.fromkeys(loops.LOOPS, lambda f, node: loops.LOOPS[type(node)](f, node, None)),
    ast.Break:                lambda f, node: f.variables.update({find_target(f, node).broke: f.true()}),
    ast.Continue:             lambda f, node: f.variables.update({find_target(f, node).continued: f.true()}),
    ast.Return:               _lower_return,
    ast.Labeled:              _lower_labeled,
    ast.CompileTimeFor:       loops.lower_compile_time_for,
    ast.Discard:              _refuse,
    ast.Throw:                _lower_throw,
    ast.DoCatch:              _lower_do_catch,
    ast.IfLet:                _lower_if_let,
    ast.TargetSwitch:         _lower_target_switch,
    ast.StaticAssert:         _lower_static_assert,
    ast.TargetAssembly:       _refuse,
}
# fmt: on
assert STATEMENTS.keys() == kinds_of(ast.Statement), STATEMENTS.keys() ^ kinds_of(ast.Statement)
