"""Checking statements.

In: a scope and a statement.   Out: errors; the expressions inside are filled.

A block opens a scope. `break` and `continue` need a target around them; bodies.py decides whether the end of a
function can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from slangrad.base.records import OfClass, kinds_of
from slangrad.base.traits import Traits
from slangrad.check.bodies import spirv
from slangrad.check.bodies.assembly import meaning_of
from slangrad.check.bodies.finite import require_finite
from slangrad.check.calls.calls import check_condition
from slangrad.check.calls.coerce import coerce, stripped
from slangrad.check.calls.throwing import check_throw, declare_error
from slangrad.check.generics.bounds import supposing
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import (
    ERROR,
    INT,
    VOID,
    EnumType,
    InterfaceType,
    ParameterType,
    Projection,
    ScalarType,
    StructType,
    Type,
)
from slangrad.check.names.attributes import check_attributes, check_modifiers
from slangrad.check.names.constants import known_value
from slangrad.check.names.places import is_referring, not_a_place, value_type
from slangrad.check.names.resolve import use
from slangrad.check.names.scopes import Body, Scope
from slangrad.syntax import ast


def check_statement(scope: Scope, node: ast.Statement) -> None:
    check_attributes(scope.checker, node)
    _check_counts(scope, node)
    STATEMENTS[type(node)](scope, node)


def check_block(scope: Scope, node: ast.Block) -> None:
    check_statements(Scope(scope.checker, scope), node.statements)


def check_statements(scope: Scope, statements: list[ast.Statement]) -> None:
    """Check the statements of a block; assembly becomes the statement that is meant."""
    for i, statement in enumerate(statements):
        if isinstance(statement, ast.TargetAssembly):
            statements[i] = _target_assembly(scope, statement)
        elif isinstance(statement, ast.ExpressionStatement) and _is_assembly(scope, statement.expression):
            statements[i] = _instructions(scope, statement)
        else:
            check_statement(scope, statement)


def _body(scope: Scope, node: ast.Statement, *takes: str) -> None:
    """The body of a loop or a branch, in a scope of its own."""
    inside = Scope(scope.checker, scope)
    inside.breakable = scope.breakable | frozenset(takes)
    check_statement(inside, node)


# --- Declarations -------------------------------------------------------------------------------------


def _declaration(scope: Scope, node: ast.DeclarationStatement) -> None:
    for declaration in node.declarations:
        scope.checker.scopes_of_locals[declaration] = scope
        if isinstance(declaration, ast.Using):
            use(scope, declaration)
            continue
        if isinstance(declaration, ast.Variable):
            declare_local(scope, declaration)
            continue
        if isinstance(declaration, ast.FunctionDeclaration):
            message = "a function does not belong into a function"
            scope.checker.error(
                "E0414", message, declaration.name_span, "declare it outside, or write a lambda"
            )
        _refuse_redeclaration(scope, declaration)
        scope.add(declaration)
        require_finite(scope.checker, [declaration])
        scope.checker.check_declaration(declaration)


def declare_local(scope: Scope, declaration: ast.Variable) -> None:
    """The initializer does not see the variable."""
    scope.checker.scopes_of_locals[declaration] = scope
    scope.checker.info(declaration)
    if declaration.has("groupshared") and not declaration.has("static"):
        message = f"'{declaration.name}' is shared by a group, so it cannot be a variable of a function"
        scope.checker.error(
            "E0706", message, declaration.name_span, "declare it outside of functions, or 'static'"
        )
    check_attributes(scope.checker, declaration)
    check_modifiers(scope.checker, declaration)
    _refuse_redeclaration(scope, declaration)
    scope.add(declaration)


def _refuse_redeclaration(scope: Scope, declaration: ast.Declaration) -> None:
    """A variable may have the name of a parameter, which it hides from here on."""
    earlier = scope.names.get(declaration.name, [])
    if earlier and all(isinstance(other, ast.ParameterDeclaration) for other in earlier):
        scope.names[declaration.name] = []
        return
    overloads = isinstance(declaration, ast.FunctionDeclaration) and all(
        isinstance(other, ast.FunctionDeclaration) for other in earlier
    )
    if earlier and declaration.name and not overloads:
        message = f"'{declaration.name}' is declared twice in this block"
        scope.checker.error("E0308", message, declaration.name_span)


def _effect(scope: Scope, node: ast.ExpressionStatement) -> None:
    """An expression for its effect. The result of a `[NoDiscard]` function must be used."""
    kind = scope.checker.check_value(scope, node.expression)
    form = stripped(node.expression).ref
    target = form.function if isinstance(form, checked.FunctionCall) else None
    if kind in (VOID, ERROR) or not isinstance(target, DeclRef):
        return
    if (
        isinstance(target.declaration, ast.FunctionDeclaration)
        and target.declaration.attribute("NoDiscard") is not None
    ):
        message = f"the result of '{target.declaration.name}' is not used"
        scope.checker.error(
            "E0610", message, node.expression.span, "it is [NoDiscard]: store it, or pass it on"
        )


# --- Branches -----------------------------------------------------------------------------------------


def _if(scope: Scope, node: ast.If) -> None:
    check_condition(scope, node.condition)
    supposed: dict[Type, list[InterfaceType]] = {}
    for kind, interface in _tested_types(node.condition):
        supposed.setdefault(kind, []).append(interface)
    with supposing(scope.checker, supposed) if supposed else nullcontext():
        _body(scope, node.then)
    if node.otherwise is not None:
        _body(scope, node.otherwise)


def _tested_types(node: ast.Expression) -> Iterator[tuple[Type, InterfaceType]]:
    """The conformances of type parameters that a condition asks for: `T is IFoo && U is IBar`."""
    if isinstance(node, ast.Paren):
        yield from _tested_types(node.inner)
    elif isinstance(node, ast.Binary) and node.operator == "&&":
        yield from _tested_types(node.left)
        yield from _tested_types(node.right)
    elif isinstance(node.ref, checked.TypeTest) and isinstance(node.ref.target, InterfaceType):
        kind = node.ref.operand.type
        if isinstance(kind, (ParameterType, Projection)):
            yield kind, node.ref.target


def _if_let(scope: Scope, node: ast.IfLet) -> None:
    """`if (let x = optional)`: the initializer becomes the value that the optional holds."""
    inside = Scope(scope.checker, scope)
    binding = node.binding
    assert binding.initializer is not None
    kind = scope.checker.check_value(scope, binding.initializer)
    optional = scope.checker.standard("Optional")
    if isinstance(kind, StructType) and kind.declaration is optional:
        binding.checked = checked.VariableInfo(kind.inner, "local", mutable=False)
        inside.add(binding)
    elif kind is not ERROR:
        scope.checker.error("E0311", f"'if (let' needs an optional, not '{kind}'", binding.initializer.span)
        binding.checked = checked.VariableInfo(ERROR, "local")
        inside.add(binding)
    _body(inside, node.then)
    if node.otherwise is not None:
        _body(scope, node.otherwise)


def _switch(scope: Scope, node: ast.Switch) -> None:
    scope.checker.check_argument(scope, node.value)
    kind = node.value.type if node.value.type is ERROR else value_type(node.value)
    whole = isinstance(kind, EnumType) or (isinstance(kind, ScalarType) and not kind.is_float)
    if kind is not ERROR and not whole:
        scope.checker.error(
            "E0603", f"'switch' needs a whole number or an enum, not '{kind}'", node.value.span
        )
        kind = ERROR
    seen: dict[object, ast.Expression] = {}
    defaults = 0
    for case in node.cases:
        defaults += case.is_default
        if defaults > 1:
            scope.checker.error("E0604", "a switch can have one 'default' only", case.span)
        for label in case.values:
            _check_label(scope, label, kind, seen)
    inside = Scope(scope.checker, scope)
    inside.breakable = scope.breakable | {"switch"}
    for case in node.cases:
        body = Scope(scope.checker, inside)
        for statement in case.body:
            check_statement(body, statement)


def _check_label(scope: Scope, label: ast.Expression, kind: Type, seen: dict[object, ast.Expression]) -> None:
    scope.checker.check_argument(scope, label)
    if label.type is ERROR or kind is ERROR or not coerce(scope, label, kind, "a case label"):
        return
    value = known_value(scope, label)
    if value is None:
        return
    if value in seen:
        scope.checker.error("E0604", f"the case {label.span.text} occurs twice", label.span)
    seen[value] = label


# --- Loops --------------------------------------------------------------------------------------------


def _for(scope: Scope, node: ast.For) -> None:
    inside = Scope(scope.checker, scope)
    if node.initializer is not None:
        check_statement(inside, node.initializer)
    if node.condition is not None:
        check_condition(inside, node.condition)
    if node.step is not None:
        scope.checker.check_value(inside, node.step)
    _body(inside, node.body, "loop")


def _compile_time_for(scope: Scope, node: ast.CompileTimeFor) -> None:
    """`$for (i in Range(a, b))`: `i` is a constant in each round."""
    for bound in (node.start, node.stop):
        if bound is not None:
            scope.checker.check_argument(scope, bound)
            if bound.type is not ERROR and coerce(scope, bound, INT, "a bound"):
                known_value(scope, bound)
    inside = Scope(scope.checker, scope)
    node.variable.checked = checked.VariableInfo(INT, "local", mutable=False)
    inside.add(node.variable)
    _body(inside, node.body)


def _while(scope: Scope, node: ast.While) -> None:
    check_condition(scope, node.condition)
    _body(scope, node.body, "loop")


def _do_while(scope: Scope, node: ast.DoWhile) -> None:
    _body(scope, node.body, "loop")
    check_condition(scope, node.condition)


# --- Jumps --------------------------------------------------------------------------------------------


def _jump(scope: Scope, node: ast.Break | ast.Continue) -> None:
    loops = "loop" in scope.breakable
    if node.label is not None:
        if f"label {node.label}" not in scope.breakable:
            message = f"there is no statement labeled '{node.label}' around this"
            scope.checker.error("E0601", message, node.span)
    elif isinstance(node, ast.Continue) and not loops:
        scope.checker.error("E0601", "'continue' outside of a loop", node.span)
    elif not loops and "switch" not in scope.breakable:
        scope.checker.error("E0601", "'break' outside of a loop or switch", node.span)


def _return(scope: Scope, node: ast.Return) -> None:
    body = scope.body
    assert body is not None
    if "defer" in scope.breakable:
        scope.checker.error("E0602", "'return' cannot leave what is deferred", node.span)
    if (
        isinstance(body.declaration, ast.FunctionDeclaration)
        and not body.declaration.name
        and body.declaration.result is None
    ):
        _return_from_lambda(scope, node)
        return
    wanted: Type = body.info.result
    if node.value is None:
        if wanted not in (VOID, ERROR) and not isinstance(body.declaration, ast.Constructor):
            scope.checker.error("E0602", f"a value of type '{wanted}' must be returned here", node.span)
        return
    scope.checker.check_argument(scope, node.value)
    if wanted is VOID and node.value.type is not VOID:
        if node.value.type is not ERROR:
            message = f"'{body.declaration.name}' returns nothing, so 'return' takes no value here"
            scope.checker.error("E0602", message, node.value.span)
    elif (
        node.value.type is not ERROR
        and isinstance(body.declaration, ast.Accessor)
        and is_referring(body.declaration)
    ):
        _return_place(scope, body, node.value, wanted)
    elif node.value.type is not ERROR:
        coerce(scope, node.value, wanted, "the result")


def _return_place(scope: Scope, body: Body, value: ast.Expression, wanted: Type) -> None:
    """`ref { return PLACE; }`: an assignable place that outlasts the accessor, without conversion."""
    body.refers = True
    reason = (
        "it is a value, not a variable"
        if isinstance(value, ast.InitializerList)
        else not_a_place(scope, value)
    )
    body.refers = False
    if reason is not None:
        message = f"'ref' returns a place, which this is not: {reason}"
        note = "return a part of 'this' or an element of a buffer, or write 'get' and 'set'"
        scope.checker.error("E0602", message, value.span, note)
    elif value_type(value) is not wanted:
        message = f"'ref' must return a place of type '{wanted}', not '{value_type(value)}'"
        scope.checker.error("E0602", message, value.span, "write 'get' and 'set' with conversions instead")


def _return_from_lambda(scope: Scope, node: ast.Return) -> None:
    assert scope.body is not None
    if node.value is None:
        scope.body.returns.append((node, VOID))
        return
    kind = scope.checker.check_value(scope, node.value)
    scope.body.returns.append((node, kind if kind is ERROR else value_type(node.value)))


def _defer(scope: Scope, node: ast.Defer) -> None:
    """A deferred statement runs when its block is left, so it cannot leave the block itself."""
    inside = Scope(scope.checker, scope)
    inside.breakable, inside.handlers = frozenset({"defer"}), (None,)
    check_statement(inside, node.statement)


def _do_catch(scope: Scope, node: ast.DoCatch) -> None:
    """Each handler is around the body and the handlers before it."""
    inside = Scope(scope.checker, scope)
    inside.handlers = (*scope.handlers, *reversed(node.handlers))
    for handler in node.handlers:
        if handler.parameter is not None:
            declare_error(scope, handler.parameter)
    check_statement(inside, node.body)
    for i, handler in enumerate(node.handlers):
        inside = Scope(scope.checker, scope)
        inside.handlers = (*scope.handlers, *reversed(node.handlers[i + 1 :]))
        if handler.parameter is not None:
            inside.add(handler.parameter)
        check_statement(inside, handler.body)


def _static_assert(scope: Scope, node: ast.StaticAssert) -> None:
    """Decided here if the condition does not depend on generics; else for each instance in lowering."""
    check_condition(scope, node.condition)
    if node.condition.type is not ERROR and known_value(scope, node.condition) == 0:
        scope.checker.error("E0606", assertion_text(node), node.condition.span)


def assertion_text(node: ast.StaticAssert) -> str:
    return f"the assertion does not hold{': ' if node.message else ''}{node.message}"


# --- Targets ------------------------------------------------------------------------------------------
#
#    __target_switch
#    {
#    case cpp:   __intrinsic_asm "$P_exp($0)";        is meant:     return exp(x);
#    case spirv: return spirv_asm { ... };            is not, and may hold what is for that target alone
#    }
#
# Code for another target is checked, except its assembly. Outside of such statements assembly is that of each target.


def _target_switch(scope: Scope, node: ast.TargetSwitch) -> None:
    chosen = node.chosen = _chosen_case(scope.checker.traits, node)
    for case in node.cases:
        body = Scope(scope.checker, scope)
        body.breakable = scope.breakable | {"switch"}
        body.foreign = case is not chosen
        for i, statement in enumerate(case.body):
            if not isinstance(statement, ast.TargetAssembly):
                check_statement(body, statement)
            elif case is chosen:
                case.body[i] = _target_assembly(body, statement)


def _target_assembly(scope: Scope, node: ast.TargetAssembly) -> ast.Statement:
    """The meaning of assembly in the case of the program's target."""
    meant = meaning_of(scope, node)
    if meant is None:
        note = 'expressions with functions of the library are: "$P_exp($0)", "powf($0, 2.0f) + $1"'
        scope.checker.error("E9003", f"the assembly '{node.text}' is not supported", node.span, note)
        return node
    statement, inside = meant
    check_statement(inside, statement)
    return statement


def _is_assembly(scope: Scope, node: ast.Expression) -> bool:
    return isinstance(node, ast.AssemblyBlock) and scope.body is not None and not scope.foreign


def _instructions(scope: Scope, node: ast.ExpressionStatement) -> ast.Statement:
    """The block of statements that a block of assembly means, which may write variables around it."""
    assert scope.body is not None and isinstance(node.expression, ast.AssemblyBlock)
    block = spirv.block_of(scope, node.expression, scope.body.declaration)
    if block is None:
        return node
    meant = ast.Block(node.span, block.statements)
    check_block(spirv.inside(scope, block), meant)
    block.compare(scope)
    return meant


def _chosen_case(traits: Traits, node: ast.TargetSwitch) -> ast.TargetCase | None:
    """The case of the program's target, None without one."""
    named = {target: case for case in reversed(node.cases) for target in case.targets}
    return next((named[name] for name in traits.cases[node.keyword] if name in named), None)


# --- Attributes ---------------------------------------------------------------------------------------

_COUNTED = {"MaxIters", "unroll", "ForceUnroll"}


def _check_counts(scope: Scope, node: ast.Statement) -> None:
    """`[MaxIters(n)]` and the like take a number known when compiling."""
    for attribute in node.attributes:
        if attribute.name in _COUNTED:
            for argument in attribute.arguments:
                scope.checker.constant(scope, argument)


Rule = Callable[[Scope, OfClass], object]

_ASSEMBLY = "assembly for another target is not supported"

STATEMENTS: dict[type[ast.Statement], Rule] = {
    ast.Block: check_block,
    ast.Empty: lambda scope, node: None,
    ast.ExpressionStatement: _effect,
    ast.DeclarationStatement: _declaration,
    ast.If: _if,
    ast.IfLet: _if_let,
    ast.Switch: _switch,
    ast.For: _for,
    ast.CompileTimeFor: _compile_time_for,
    ast.While: _while,
    ast.DoWhile: _do_while,
    ast.Break: _jump,
    ast.Continue: _jump,
    ast.Return: _return,
    ast.Labeled: lambda scope, node: _body(scope, node.statement, f"label {node.label}"),
    ast.Discard: lambda scope, node: None,
    ast.TargetSwitch: _target_switch,
    ast.Defer: _defer,
    ast.StaticAssert: _static_assert,
    ast.Throw: check_throw,
    ast.DoCatch: _do_catch,
    ast.TargetAssembly: lambda scope, node: scope.checker.error("E9003", _ASSEMBLY, node.span),
}
assert STATEMENTS.keys() == kinds_of(ast.Statement), STATEMENTS.keys() ^ kinds_of(ast.Statement)
