"""Headers of declarations that mean nothing, whatever their types are.

    int f(int a, float a)                    E0308: two parameters of one name
    int f(int a = 1, int b)                  E0416: a default before a parameter without one
    extension<T = int> Box<T> {}             E0416: the target says what T is
    f<A : IFoo<B>, B : IBar>()               E0417: a bound names a parameter that is declared later
    property p : int { set(float x) { } }    E0324: the new value is an int
    [numthreads(1)] [numthreads(2)]          E0208: two sizes of a group

In: a declaration.   Out: errors.
"""

from __future__ import annotations

from slangrad.check.bodies.globals import check_global
from slangrad.check.bodies.semantics import check_payload, check_registers
from slangrad.check.bodies.system_values import check_system_values
from slangrad.check.generics.bounds import generic_info
from slangrad.check.interfaces.lookup import conforms
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import ERROR, parameter_type
from slangrad.check.names.attributes import stage_of
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

_ONCE = ("numthreads", "shader", "anyValueSize")
_OUTSIDE = (ast.ModuleDeclaration, ast.Namespace, ast.BufferBlock)


def check_header(checker: Checker, declaration: ast.Declaration) -> None:
    """The rules for names, defaults, bounds and attributes of a declaration."""
    parameters = getattr(declaration, "parameters", None)
    if parameters:
        _check_parameters(checker, parameters)
    generics = getattr(declaration, "generics", None)
    if generics:
        _check_generics(checker, declaration, generics)
    entry = declaration.attribute("shader") if isinstance(declaration, ast.FunctionDeclaration) else None
    if isinstance(declaration, ast.FunctionDeclaration) and entry is not None:
        check_system_values(checker, declaration, stage_of(entry))
    if isinstance(declaration, ast.Variable) and isinstance(declaration.parent, _OUTSIDE):
        check_global(checker, declaration)
    if isinstance(declaration, (ast.Variable, ast.BufferBlock)) and declaration.semantics:
        check_registers(checker, declaration)
    if isinstance(declaration, ast.StructDeclaration) and declaration.attribute("raypayload") is not None:
        check_payload(checker, declaration)
    if len(declaration.attributes) > 1:
        _check_repeated(checker, declaration)


def _check_parameters(checker: Checker, parameters: list[ast.ParameterDeclaration]) -> None:
    names: set[str] = set()
    after_default = False
    for parameter in parameters:
        if parameter.name and parameter.name in names:
            message = f"there are two parameters '{parameter.name}'"
            checker.error("E0308", message, parameter.name_span, "give one of them another name")
        names.add(parameter.name)
        if parameter.default is not None:
            after_default = True
        elif after_default and not isinstance(parameter.value_type, ast.Expand):
            message = f"'{parameter.name}' has no default, and stands behind a parameter that has one"
            checker.error("E0416", message, parameter.name_span, "put parameters with defaults last")


def _check_generics(
    checker: Checker, declaration: ast.Declaration, generics: list[ast.GenericParameter]
) -> None:
    inferred = isinstance(declaration, ast.Extension) or declaration.attribute(ast.APPLY_OF) is not None
    later = {parameter.name: parameter for parameter in generics}
    for parameter in generics:
        later.pop(parameter.name, None)
        if inferred and parameter.default is not None:
            message = f"the target says what '{parameter.name}' is, so a default is never used"
            checker.error("E0416", message, parameter.default.span, "leave the default out")
        if isinstance(parameter, ast.TypeParameter) and parameter.default is not None and not inferred:
            _check_default(checker, declaration, parameter, parameter.default)
        for bound in parameter.bounds if isinstance(parameter, ast.TypeParameter) else ():
            for name in walk(bound):
                if isinstance(name, ast.Name) and name.name in later:
                    message = f"the bound of '{parameter.name}' names '{name.name}', which is declared later"
                    checker.error(
                        "E0417", message, parameter.name_span, f"put '{name.name}' before '{parameter.name}'"
                    )


def _check_default(
    checker: Checker, declaration: ast.Declaration, parameter: ast.TypeParameter, default: ast.Expression
) -> None:
    """A default conforms to the bounds."""
    kind = checker.resolve_type(checker.scope_of(declaration), default)
    bounds = generic_info(checker, declaration).bounds.get(parameter_type(parameter), [])
    for bound in bounds:
        if not kind.abstract and not bound.abstract and not conforms(checker, kind, bound):
            message = f"'{kind}', the default of '{parameter.name}', does not conform to '{bound}'"
            checker.error("E0404", message, default.span, f"name a type that conforms to '{bound}'")


def _check_repeated(checker: Checker, declaration: ast.Declaration) -> None:
    """Attributes that stand once, or again with the same arguments."""
    seen: dict[str, list[str]] = {}
    for attribute in declaration.attributes:
        name, arguments = attribute.name.lower(), [argument.span.text for argument in attribute.arguments]
        if name in _ONCE and seen.get(name, arguments) != arguments:
            message = f"[{attribute.name}] stands here already, with other arguments"
            checker.error("E0208", message, attribute.span, "leave one of them out")
        seen[name] = arguments


def check_accessors(checker: Checker, node: ast.Subscript | ast.Property) -> None:
    """The type of a new value, and defaults of an interface, which are for all accessors or for none."""
    wanted = checker.info(node).result
    for accessor in node.accessors:
        parameter = accessor.parameter
        if parameter is None:
            continue
        if parameter.value_type is not None:
            kind = checker.resolve_type(checker.scope_of(accessor), parameter.value_type)
            if ERROR not in (kind, wanted) and kind is not wanted:
                message = f"the new value is a '{wanted}', not a '{kind}'"
                checker.error("E0324", message, parameter.name_span, "leave the type out")
    whole = [accessor for accessor in node.accessors if accessor.body is not None]
    if isinstance(node.parent, ast.Interface) and whole and len(whole) < len(node.accessors):
        message = "an interface has defaults for all accessors, or for none"
        checker.error("E0324", message, whole[0].name_span, "give the other accessors bodies, too")
