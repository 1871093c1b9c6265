"""Function types of declarations, and how they are written in messages.

In: a DeclRef.   Out: a FunctionType, or `float f<T, N>(vector<T, N> x, inout int n)`.
"""

from __future__ import annotations

from slangrad.check.generics.substitution import passed_parameters, substitute
from slangrad.check.model.checked import FunctionInfo, SubscriptInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import VOID, FunctionParameter, FunctionType, Type, function_type
from slangrad.syntax import ast


def signature_of(checker: Checker, reference: DeclRef, with_this: bool = False) -> FunctionType:
    """The type of a function or subscript; with `this` as its first parameter if asked for."""
    info: FunctionInfo | SubscriptInfo = checker.info(reference.declaration)
    parameters = [
        passed for parameter in info.parameters for passed in _parameters(checker, parameter, reference)
    ]
    this = this_of(checker, reference) if with_this else None
    if this is not None:
        parameters.insert(0, _this_parameter(info, this))
    return function_type(tuple(parameters), substitute(checker, info.result, reference.substitution))


def _parameters(
    checker: Checker, parameter: ast.ParameterDeclaration, reference: DeclRef
) -> list[FunctionParameter]:
    """One, or as many as a pack of types has."""
    info = checker.info(parameter)
    declared = FunctionParameter(info.type, info.direction, info.no_diff, parameter.name)
    return passed_parameters(checker, declared, reference.substitution)


def declared_parameters(checker: Checker, reference: DeclRef) -> list[ast.ParameterDeclaration]:
    """The declaration of each parameter of a signature: the same one for all elements of a pack."""
    parameters = checker.info(reference.declaration).parameters
    return [parameter for parameter in parameters for _ in _parameters(checker, parameter, reference)]


def this_of(checker: Checker, reference: DeclRef) -> Type | None:
    """The type of the object of a method; None for functions without one."""
    this: Type | None = checker.info(reference.declaration).this_type
    return None if this is None else substitute(checker, this, reference.substitution)


def _this_parameter(info: FunctionInfo | SubscriptInfo, kind: Type) -> FunctionParameter:
    direction = "inout" if getattr(info, "mutating", False) else "in"
    return FunctionParameter(kind, direction, getattr(info, "no_diff_this", False), "this")


def signature_text(checker: Checker, reference: DeclRef) -> str:
    """The header of a declaration as source text."""
    declaration = reference.declaration
    if isinstance(declaration, ast.Variable):
        kind = substitute(checker, checker.info(declaration).type, reference.substitution)
        return f"{'static const ' if declaration.has('static') else ''}{kind} {declaration.name}"
    if isinstance(declaration, ast.Property):
        info = checker.info(declaration)
        words = " ".join(f"{accessor.name};" for accessor in declaration.accessors)
        kind = substitute(checker, info.result, reference.substitution)
        return f"property {kind} {declaration.name} {{ {words} }}"
    signature = signature_of(checker, reference)
    parameters = ", ".join(map(str, signature.parameters))
    if isinstance(declaration, ast.Constructor):
        return f"__init({parameters})"
    if isinstance(declaration, ast.Subscript):
        return f"__subscript({parameters}) -> {signature.result}"
    names = [parameter.name for parameter in declaration.generics if not parameter.name.startswith("$")]
    generics = f"<{', '.join(names)}>" if names else ""
    static = "static " if declaration.has("static") else ""
    mutating = "[mutating] " if checker.info(declaration).mutating else ""
    header = f"{mutating}{static}{signature.result} {declaration.name}{generics}({parameters})"
    thrown = checker.info(declaration).throws
    return (
        header if thrown is None else f"{header} throws {substitute(checker, thrown, reference.substitution)}"
    )


def function_name(declaration: ast.Declaration) -> str:
    """What a call names."""
    if isinstance(declaration, ast.Constructor) and declaration.parent is not None:
        return str(declaration.parent.name)
    return "[]" if isinstance(declaration, ast.Subscript) else str(declaration.name)


def function_text(signature: FunctionType, name: str) -> str:
    """`void f(inout DifferentialPair<float> x, float d)`."""
    result = "void" if signature.result is VOID else signature.result
    return f"{result} {name}({', '.join(map(str, signature.parameters))})"
