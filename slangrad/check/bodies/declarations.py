"""The headers of declarations, each resolved once, on first use.

In: a Function node.   Out: its FunctionInfo: types of parameters and result, `this`, differentiability.

    float f(ITensor<float, 1> t)     an interface as the type of a parameter makes the function generic:
    float f<$T : ITensor<float, 1>>($T t)

Bodies, and errors of a declaration as a whole, are in bodies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.base.options import limit_note
from slangrad.base.records import OfClass
from slangrad.base.source import Span
from slangrad.check.calls.coerce import coerce
from slangrad.check.calls.initializers import initial_value
from slangrad.check.derivatives.derivative_attributes import applied_type, level_from_elsewhere
from slangrad.check.generics.bounds import generic_info, interfaces_in
from slangrad.check.generics.substitution import self_type
from slangrad.check.interfaces.differentiable import has_no_diff
from slangrad.check.interfaces.witnesses import attribute_text, required_value_of
from slangrad.check.model.checked import (
    CaseInfo,
    FunctionInfo,
    Info,
    ParameterInfo,
    SubscriptInfo,
    TypeInfo,
    VariableInfo,
)
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import (
    ERROR,
    INT,
    NONE,
    NULL,
    ORDERS,
    VOID,
    ArrayType,
    ConjunctionType,
    EnumType,
    FunctionType,
    InterfaceType,
    ScalarType,
    Type,
    array,
    is_pack,
    nominal,
    parameter_type,
    pointer,
    rules_of,
    stored,
    unstored,
)
from slangrad.check.model.values import open_value, parameter_value
from slangrad.check.names.constants import evaluate
from slangrad.check.names.memory_rules import as_usual, order_of
from slangrad.check.names.places import gives_address, value_type
from slangrad.check.names.resolve import resolve_stored
from slangrad.check.names.scopes import Scope, this_type
from slangrad.check.texts.linking import is_open
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import modifiers_of, walk

WithParameters = ast.FunctionDeclaration | ast.Constructor | ast.Subscript


def info(checker: Checker, declaration: ast.Declaration) -> Any:  # by the class of the declaration
    """The info of a declaration, of the class that `Checker.info` states."""
    if declaration.checked is not None:
        return declaration.checked
    rule = RULES[type(declaration)]
    with checker.answering(("info", declaration)) as first:
        limit = checker.options.limits.chain_length
        if not first:
            message = f"'{declaration.name}' depends on itself"
            checker.error("E0321", message, declaration.name_span)
            header = _FALLBACKS[type(declaration)]()
        elif len(checker.in_progress) > limit:
            message = f"'{declaration.name}' is needed by a declaration that another one needs, more than {limit} deep"
            checker.error("E0206", message, declaration.name_span, limit_note("chain_length"))
            header = _FALLBACKS[type(declaration)]()
        else:
            header = rule(checker, declaration)
    if declaration.checked is None:
        declaration.checked = header
    return declaration.checked


_FALLBACKS: dict[type[ast.Declaration], Callable[[], Info]] = {
    ast.Variable: lambda: VariableInfo(ERROR, "global"),
    ast.ParameterDeclaration: lambda: ParameterInfo(ERROR, "in"),
    ast.FunctionDeclaration: lambda: FunctionInfo(None, False, (), ERROR),
    ast.Constructor: lambda: FunctionInfo(None, False, (), ERROR),
    ast.Accessor: lambda: FunctionInfo(None, False, (), ERROR),
    ast.Subscript: lambda: SubscriptInfo(None, (), ERROR),
    ast.Property: lambda: SubscriptInfo(None, (), ERROR),
    ast.EnumCase: lambda: CaseInfo(ERROR, 0),
    ast.TypeAlias: lambda: TypeInfo(ERROR),
    ast.ValueParameter: lambda: TypeInfo(INT),
}


def surrounding_scope(checker: Checker, declaration: ast.Declaration) -> Scope:
    """The scope around a declaration."""
    outer = checker.scopes_of_locals.get(declaration)
    if outer is None:
        assert declaration.parent is not None
        outer = checker.scope_of(declaration.parent)
    scope: Scope = outer
    return scope


# --- Variables ----------------------------------------------------------------------------------------


def _variable(checker: Checker, node: ast.Variable) -> VariableInfo:
    scope = surrounding_scope(checker, node)
    kind = _variable_kind(node)
    constant = (
        node.keyword == "let"
        or node.has("const")
        or node.has("constexpr")
        or "const" in modifiers_of(node.value_type)
    )
    header = VariableInfo(ERROR, kind, not constant, no_diff=has_no_diff(node))
    if node.value_type is not None:
        declared = _stored_type(checker, scope, node)
        header.type, header.rules = unstored(declared), rules_of(declared)
        node.checked = header
    _initialize(checker, scope, node, header)
    _refuse_type(checker, node, header)
    if (
        kind == "required"
        and isinstance(header.type, ScalarType)
        and not header.type.is_float
        and node.has("static")
    ):
        header.constant = required_value_of(node)
    if is_open(node) and _is_known_when_compiling(node, header):
        header.constant = open_value(node)
    return header


def _stored_type(checker: Checker, scope: Scope, node: ast.Variable | ast.ParameterDeclaration) -> Type:
    """The declared type with the rules for memory of the type and of the modifiers before it."""
    assert node.value_type is not None
    kind = resolve_stored(scope, node.value_type)
    for modifier in ORDERS:
        if node.has(modifier):
            kind = stored(kind, order_of(checker, modifier))
    return as_usual(checker, node, kind)


def _variable_kind(node: ast.Variable) -> str:
    if isinstance(node.parent, ast.Interface):
        return "required"
    if isinstance(node.parent, ast.WithBases):
        return "static" if node.has("static") else "field"
    if isinstance(node.parent, (ast.ModuleDeclaration, ast.Namespace, ast.BufferBlock)):
        return "global"
    return "static" if node.has("static") and not node.has("const") else "local"


def _initialize(checker: Checker, scope: Scope, node: ast.Variable, header: VariableInfo) -> None:
    if node.initializer is None:
        _without_initializer(checker, scope, node, header)
        return
    checker.check_argument(scope, node.initializer)
    if node.value_type is None:
        header.type = _inferred(checker, node)
    elif node.initializer.type is not ERROR and header.type is not ERROR:
        coerce(scope, node.initializer, header.type, f"the value of '{node.name}'")
        if isinstance(header.type, ArrayType) and header.type.count is None:
            header.type = value_type(node.initializer) if node.initializer.type is not None else ERROR
    if not header.mutable and node.initializer.type is not ERROR and _is_known_when_compiling(node, header):
        header.constant = evaluate(checker, node.initializer)


def _inferred(checker: Checker, node: ast.Variable) -> Type:
    assert node.initializer is not None
    kind = node.initializer.type
    if kind is None:
        message = f"the type of '{node.name}' cannot be inferred from an initializer list"
        return checker.error(
            "E0322", message, node.initializer.span, "write the type instead of 'let' or 'var'"
        )
    kind = value_type(node.initializer)
    if kind is VOID and _variable_kind(node) == "local":
        return VOID  # `let done = f();` is a call; the variable cannot be used
    if kind in (VOID, NULL, NONE):
        return checker.error("E0322", f"'{node.name}' cannot be a '{kind}'", node.initializer.span)
    return kind


def _is_known_when_compiling(node: ast.Variable, header: VariableInfo) -> bool:
    whole = isinstance(header.type, EnumType) or (
        isinstance(header.type, ScalarType) and not header.type.is_float
    )
    return whole and node.keyword != "let" and header.kind != "field"


def _without_initializer(checker: Checker, scope: Scope, node: ast.Variable, header: VariableInfo) -> None:
    if node.value_type is None:
        checker.error("E0322", f"'{node.name}' needs a type or a value", node.name_span)
        return
    if header.type is not ERROR and header.kind == "local":
        header.initial = initial_value(scope, header.type)


def _refuse_type(checker: Checker, node: ast.Variable, header: VariableInfo) -> None:
    if header.type is VOID and node.value_type is not None:
        checker.error("E0323", f"'{node.name}' cannot be of type 'void'", node.name_span)
        header.type = ERROR
    if isinstance(header.type, ConjunctionType):
        header.type = _refuse_several(checker, header.type, node.name_span)
    if is_pack(header.type):
        note = "make it a tuple: Tuple<expand each T>"
        checker.error("E0409", f"'{node.name}' cannot be a pack", node.name_span, note)
        header.type = ERROR
    sized = header.kind in ("local", "field") or isinstance(node.parent, ast.BufferBlock)
    if isinstance(header.type, ArrayType) and header.type.count is None and sized:
        checker.error("E0323", f"the array '{node.name}' needs a size", node.name_span)
        header.type = ERROR


def _refuse_several(checker: Checker, kind: ConjunctionType, span: Span) -> Type:
    note = "declare an interface that inherits from both"
    return checker.error("E9007", f"values of '{kind}' are not supported", span, note)


def _value_parameter(checker: Checker, node: ast.ValueParameter) -> TypeInfo:
    kind = checker.resolve_type(surrounding_scope(checker, node), node.value_type)
    whole = isinstance(kind, EnumType) or (isinstance(kind, ScalarType) and not kind.is_float)
    if not whole and kind is not ERROR:
        checker.error("E0402", f"a generic value must be a whole number, not '{kind}'", node.value_type.span)
        return TypeInfo(ERROR)
    return TypeInfo(kind)


# --- Functions ----------------------------------------------------------------------------------------


def _function(checker: Checker, node: ast.FunctionDeclaration) -> FunctionInfo:
    with checker.assuming(node):
        parameters = _parameters(checker, node)
        result = VOID if node.result is None else checker.resolve_type(checker.scope_of(node), node.result)
        if isinstance(result, ConjunctionType):
            result = _refuse_several(checker, result, node.name_span)
        header = FunctionInfo(_this(checker, node), node.is_marked("mutating"), parameters, result)
        header.throws = _thrown(checker, node)
    _fill_attributes(node, header)
    header.no_diff_result = node.has("no_diff") or has_no_diff(node)
    if not node.name:
        header.level, header.this_type = "backward", self_type(node)
    else:
        _raise_level(checker, node, header)
    return header


def _thrown(checker: Checker, node: ast.FunctionDeclaration) -> Type | None:
    """What stands behind `throws`."""
    if node.throws is None:
        return None
    kind = checker.resolve_type(checker.scope_of(node), node.throws)
    if kind is VOID:
        return checker.error("E0323", "there are no errors of type 'void'", node.throws.span)
    return kind


def _this(checker: Checker, node: ast.Declaration) -> Type | None:
    """The type of `this` of a member that is not static."""
    applied = node.attribute(ast.APPLY_OF)
    if isinstance(node, ast.FunctionDeclaration) and applied is not None:
        return applied_type(checker, node, applied)
    if node.has("static") or not isinstance(node.parent, ast.WithBases):
        return None
    return this_type(checker, node.parent)


def _parameters(checker: Checker, node: WithParameters) -> tuple[ast.ParameterDeclaration, ...]:
    """A parameter of an interface type, or an array without a size, makes the function generic; in the library one
    that is known when compiling, too.
    """
    scope = checker.scope_of(node)
    for parameter in node.parameters:
        if parameter.value_type is None or parameter.checked is not None:
            continue
        kind = checker.resolve_type(scope, parameter.value_type)
        implied = _implied_type(checker, node, parameter, kind)
        if implied is not None:
            parameter.checked = ParameterInfo(implied, parameter.direction, has_no_diff(parameter))
        elif parameter.has("constexpr") and parameter.span.source.is_library:
            implied_value = _implied_value(node, parameter, kind)
            parameter.checked = ParameterInfo(kind, parameter.direction, generic_value=implied_value)
    for declared in node.parameters:
        checker.info(declared)
    return tuple(node.parameters)


def _implied_type(
    checker: Checker, node: WithParameters, parameter: ast.ParameterDeclaration, kind: Type
) -> Type | None:
    if isinstance(kind, ArrayType) and kind.count is None:
        return array(kind.element, parameter_value(_implied_value(node, parameter, INT)))
    bounds = _function_bound(checker, kind) if isinstance(kind, FunctionType) else interfaces_in(kind)
    if not bounds or (isinstance(kind, InterfaceType) and _is_given_another(checker, node, parameter)):
        return None
    assert parameter.value_type is not None
    name, span = f"${parameter.name}", parameter.value_type.span
    implied = ast.TypeParameter(span, name, parameter.name_span, [], None, False)
    implied.parent = node
    node.generics.append(implied)
    generic_info(checker, node).bounds[parameter_type(implied)] = list(bounds)
    return parameter_type(implied)


def _is_given_another(checker: Checker, node: WithParameters, parameter: ast.ParameterDeclaration) -> bool:
    """Whether a parameter of an interface type can hold a value of another type than it came with."""
    if parameter.direction == "out" or (parameter.direction == "inout" and _this(checker, node) is not None):
        return True  # methods and their requirements have to agree
    body = getattr(node, "body", None)
    targets = (
        (child.target for child in walk(body) if isinstance(child, ast.Assign))
        if isinstance(body, ast.Block) and not node.span.source.is_library  # which gives it no other type
        else ()
    )
    return any(isinstance(target, ast.Name) and target.name == parameter.name for target in targets)


def _function_bound(checker: Checker, kind: FunctionType) -> tuple[InterfaceType, ...]:
    """`functype(A) -> R` as a bound: IFunc<R, A>."""
    return (
        nominal(
            checker.standard("IFunc"), (kind.result, tuple(parameter.type for parameter in kind.parameters))
        ),
    )


def _implied_value(
    node: WithParameters, parameter: ast.ParameterDeclaration, kind: Type
) -> ast.ValueParameter:
    assert parameter.value_type is not None
    span = parameter.value_type.span
    implied = ast.ValueParameter(
        span, f"${parameter.name}", parameter.name_span, ast.Name(span, "int"), None, False
    )
    implied.parent, implied.checked = node, TypeInfo(kind)
    node.generics.append(implied)
    return implied


def _parameter(checker: Checker, node: ast.ParameterDeclaration) -> ParameterInfo:
    scope = surrounding_scope(checker, node)
    if node.value_type is None:
        checker.error("E0322", f"the parameter '{node.name}' needs a type", node.name_span)
        return ParameterInfo(ERROR, node.direction)
    kind = checker.resolve_type(scope, node.value_type)
    if kind is VOID:
        checker.error("E0323", f"'{node.name}' cannot be of type 'void'", node.name_span)
        kind = ERROR
    rules = rules_of(_stored_type(checker, scope, node))
    header = node.checked = ParameterInfo(kind, node.direction, has_no_diff(node), rules)
    if node.default is not None:
        scope = Scope(checker, scope)
        scope.without_this = True  # a default is evaluated where the call stands
        checker.check_argument(scope, node.default)
        if node.default.type is not ERROR:
            coerce(scope, node.default, kind, f"the default of '{node.name}'")
    return header


_LEVELS = {
    "Differentiable": "backward",
    "BackwardDifferentiable": "backward",
    "BackwardDerivative": "backward",
    "ForwardDifferentiable": "forward",
    "ForwardDerivative": "forward",
    "PrimalSubstitute": "backward",
}


def _fill_attributes(node: ast.Declaration, header: FunctionInfo) -> None:
    """The attributes of a function."""
    levels = {_LEVELS[attribute.name] for attribute in node.attributes if attribute.name in _LEVELS}
    header.level = "backward" if "backward" in levels else "forward" if levels else "none"
    header.no_diff_this = node.attribute("NoDiffThis") is not None
    header.treat_as_differentiable = node.attribute("TreatAsDifferentiable") is not None
    header.intrinsic = attribute_text(node, "intrinsic")
    header.math_function = attribute_text(node, "math_function")


def _raise_level(checker: Checker, node: ast.Declaration, header: FunctionInfo) -> None:
    """A derivative that is declared elsewhere makes a function differentiable."""
    elsewhere = level_from_elsewhere(checker, node) if header.level != "backward" else "none"
    header.level = elsewhere if elsewhere != "none" else header.level


def _constructor(checker: Checker, node: ast.Constructor) -> FunctionInfo:
    with checker.assuming(node):
        parameters = _parameters(checker, node)
        this = _constructed(checker, node)
        header = FunctionInfo(this, True, parameters, this)
    _fill_attributes(node, header)
    return header


def _constructed(checker: Checker, node: ast.Constructor) -> Type:
    if isinstance(node.parent, ast.WithBases):
        return this_type(checker, node.parent)
    return checker.error("E0305", "'__init' has a meaning only inside of a type", node.span)


# --- Accessors ----------------------------------------------------------------------------------------


def _subscript(checker: Checker, node: ast.Subscript) -> SubscriptInfo:
    with checker.assuming(node):
        parameters = _parameters(checker, node)
        result = checker.resolve_type(checker.scope_of(node), node.result)
    return SubscriptInfo(_this(checker, node), parameters, result)


def _property(checker: Checker, node: ast.Property) -> SubscriptInfo:
    result = checker.resolve_type(surrounding_scope(checker, node), node.value_type)
    return SubscriptInfo(_this(checker, node), (), result)


def _accessor(checker: Checker, node: ast.Accessor) -> FunctionInfo:
    owner = node.parent
    assert isinstance(owner, (ast.Subscript, ast.Property))
    around: SubscriptInfo = checker.info(owner)
    parameters = around.parameters
    if node.parameter is not None:
        parameters += (node.parameter,)
        if node.parameter.value_type is None and node.parameter.checked is None:
            node.parameter.checked = ParameterInfo(around.result, "in")
        checker.info(node.parameter)
    result = _accessor_result(node, around.result)
    changes = node.name == "set" and not node.is_marked("nonmutating") and not owner.is_marked("nonmutating")
    header = FunctionInfo(around.this_type, changes or node.is_marked("mutating"), parameters, result)
    _fill_attributes(node, header)
    if header.level == "none":
        outer = FunctionInfo(None, False, (), VOID)
        _fill_attributes(owner, outer)
        header.level = outer.level
        header.no_diff_this |= outer.no_diff_this
    _raise_level(checker, node, header)
    return header


def _accessor_result(node: ast.Accessor, element: Type) -> Type:
    """A getter gives the element; a `ref`, called as a function, does the same."""
    if node.name == "set":
        return VOID
    return pointer(element) if gives_address(node) and element is not ERROR else element


# --- Enums and aliases --------------------------------------------------------------------------------


def _enum_case(checker: Checker, node: ast.EnumCase) -> CaseInfo:
    enum = node.parent
    assert isinstance(enum, ast.EnumDeclaration)
    kind = self_type(enum)
    if node.value is None:
        before = _case_before(checker, enum, node)
        if before is None:
            return CaseInfo(kind, 1 if _is_flags(enum) else 0)
        return CaseInfo(kind, (before.value * 2 or 1) if _is_flags(enum) else before.value + 1)
    value = checker.constant(checker.scope_of(enum), node.value)
    if isinstance(value, int):
        return CaseInfo(kind, value)
    if value is not None:
        checker.error(
            "E0309", "the value of an enum case cannot depend on a generic parameter", node.value.span
        )
    return CaseInfo(kind, 0)


def _case_before(checker: Checker, enum: ast.EnumDeclaration, node: ast.EnumCase) -> CaseInfo | None:
    """The info of the case above. It may follow from earlier cases, which are resolved first, because there may be
    many."""
    if node not in checker.case_positions:
        checker.case_positions.update({case: i for i, case in enumerate(enum.members)})
    first = position = checker.case_positions[node]
    if not position:
        return None
    while first > 0 and enum.members[first].value is None and enum.members[first - 1].checked is None:
        first -= 1
    for member in enum.members[first : position - 1]:
        checker.info(member)
    return checker.info(enum.members[position - 1])


def _is_flags(enum: ast.EnumDeclaration) -> bool:
    return enum.attribute("Flags") is not None


Rule = Callable[[Checker, OfClass], Info]

RULES: dict[type[ast.Declaration], Rule] = {
    ast.Variable: _variable,
    ast.ParameterDeclaration: _parameter,
    ast.ValueParameter: _value_parameter,
    ast.FunctionDeclaration: _function,
    ast.Constructor: _constructor,
    ast.Subscript: _subscript,
    ast.Property: _property,
    ast.Accessor: _accessor,
    ast.EnumCase: _enum_case,
    ast.TypeAlias: lambda checker, node: TypeInfo(resolve_stored(checker.scope_of(node), node.target)),
}
assert RULES.keys() == _FALLBACKS.keys()
