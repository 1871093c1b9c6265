"""Scopes and looking up names.

In: a scope and "x".   Out: the results of each level as a list, the innermost level first.

Levels: block, parameters, generic parameters, members of the type around, namespace, module, imports,
standard library, builtin type names. Members are found through `this`. Functions of outer levels stay candidates
next to inner ones (resolve.py decides); an inner declaration hides all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from slangrad.base.diagnostics import Diagnostic
from slangrad.base.records import record
from slangrad.base.source import Span
from slangrad.base.suggestions import near
from slangrad.check.generics.substitution import identity, self_type
from slangrad.check.interfaces.lookup import (
    LookupResult,
    all_members,
    declared,
    extension_target,
    member_names,
    members,
)
from slangrad.check.model.checked import FunctionInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, Declared
from slangrad.check.model.types import ERROR, InterfaceType, Type, parameter_type
from slangrad.syntax import ast
from slangrad.syntax.lexing import foreign


@record
class Body:
    """The function whose body is being checked."""

    declaration: ast.AnyFunction
    info: FunctionInfo
    returns: list[tuple[ast.Return, Type]] = field(
        default_factory=list
    )  # of a lambda, whose result is inferred
    outer: Body | None = None
    captured: ast.ParameterDeclaration | None = None  # `this` as lambdas inside capture it
    refers: bool = False  # the result of a `ref` accessor is being checked
    assigned: set[ast.Declaration] = field(default_factory=set)  # variables that something may store into


class Scope:
    """A block, the parameters of a function, or generic parameters: names in a dict."""

    def __init__(self, checker: Checker, parent: Scope | None, owner: ast.Declaration | None = None) -> None:
        self.checker, self.parent, self.owner = checker, parent, owner
        self.names: dict[str, list[Declared]] = {}
        self.usings: list[list[ast.Namespace]] = []
        self.body: Body | None = parent.body if parent is not None else None
        self.breakable: frozenset[str] = parent.breakable if parent is not None else frozenset()
        self.foreign: bool = parent is not None and parent.foreign  # in code for another target
        self.without_this: bool = parent is not None and parent.without_this  # a default of a parameter
        # Targets of errors, innermost last; None where they cannot go further out.
        self.handlers: tuple[ast.Catch | None, ...] = parent.handlers if parent is not None else ()

    def add(self, declaration: ast.Declaration) -> None:
        self.names.setdefault(declaration.name, []).append(declaration)

    def refuse(self, code: str, message: str, span: Span, note: str | None = None) -> Type:
        """Note a feature that slangrad does not have: an error where its place is lowered. Gives ERROR."""
        if not self.foreign:  # in a trial, too, whose header of a declaration is kept
            self.checker.refusals.add(Diagnostic(code, message, span, note), span)
        return ERROR

    def mention(self, node: ast.Expression, declaration: ast.Declaration | None = None) -> None:
        """Note a wrong expression, for which a refusal in a declaration may be the reason."""
        if not self.foreign and not self.checker.quiet:
            self.checker.refusals.mention(node.span, declaration.span if declaration is not None else None)

    def local(self, name: str) -> list[LookupResult]:
        """The results of this level alone."""
        results = [
            LookupResult(declaration, seen_inside(declaration)) for declaration in self.names.get(name, ())
        ]
        return results + self.used(name)

    def used(self, name: str) -> list[LookupResult]:
        """The results in namespaces that are used here, and in those that these use."""
        if not self.usings:
            return []
        spaces = dict.fromkeys(space for used in self.usings for space in used)
        pending = list(spaces)
        while pending:
            inner = [space for used in self.checker.scope_of(pending.pop()).usings for space in used]
            new = [space for space in inner if space not in spaces]
            spaces.update(dict.fromkeys(new))
            pending += new
        return [
            LookupResult(declaration, {})
            for space in spaces
            for declaration in declared(self.checker, space, name)
        ]

    def all_names(self) -> set[str]:
        return set(self.names)


class MemberScope(Scope):
    """Inside a struct, interface, extension or enum."""

    def __init__(self, checker: Checker, parent: Scope | None, owner: ast.WithBases) -> None:
        super().__init__(checker, parent, owner)
        self._this: Type | None = None
        for parameter in owner.generics:
            self.add(parameter)

    @property
    def this(self) -> Type:
        """The type that `This` is here."""
        if self._this is None:
            assert self.owner is not None
            self._this = this_type(self.checker, self.owner)
        return self._this

    def local(self, name: str) -> list[LookupResult]:
        results = super().local(name)
        if results:
            return results
        if self._in_header():
            return []
        return [
            LookupResult(member.declaration, member.substitution, member.path, is_member=True)
            for member in members(self.checker, self.this, name)
        ]

    def _in_header(self) -> bool:
        """The base or extended type is looked up from outside: members are not available before."""
        answering = self.checker.in_progress
        if ("target", self.owner) in answering or ("bases", self.owner) in answering:
            return True
        return ("generics", self.owner) in answering and not isinstance(self.owner, ast.Interface)

    def all_names(self) -> set[str]:
        return (
            set(self.names) if self._in_header() else set(self.names) | member_names(self.checker, self.this)
        )


class AppliedScope(MemberScope):
    """Inside `__func_extension __apply(Type::method)`, a method of the type. Its generics are another level."""

    def __init__(self, checker: Checker, parent: Scope, owner: ast.FunctionDeclaration, this: Type) -> None:
        Scope.__init__(self, checker, parent, owner)
        self._this = this


class NamespaceScope(Scope):
    """Inside a namespace; one that is opened several times is one."""

    def local(self, name: str) -> list[LookupResult]:
        results = [
            LookupResult(declaration, {})
            for space in self.parts()
            for declaration in declared(self.checker, space, name)
        ]
        return results + self.used(name)

    def parts(self) -> list[ast.Namespace]:
        assert self.parent is not None and self.owner is not None
        outer = self.parent.local(self.owner.name)
        return [result.declaration for result in outer if isinstance(result.declaration, ast.Namespace)]

    def all_names(self) -> set[str]:
        return {member.name for space in self.parts() for member in all_members(space)}


class ModuleScope(Scope):
    """All files of a module, and its imports after them."""

    def __init__(self, checker: Checker, parent: Scope | None, name: str) -> None:
        super().__init__(checker, parent)
        self.name = name
        self.imports: list[ModuleScope] = []
        self.linked: dict[ModuleScope, set[str]] = {}  # linked modules, and their visible names
        self.is_page = False  # the text around a call
        self.enums: list[ast.EnumDeclaration] = []
        self.guarded = False  # states visibility: declarations that are not public stay inside
        self.view = checker.view
        self.extends = False  # declares extensions

    def see_as(self, modules: Sequence[ModuleScope]) -> None:
        """For a page: the names of linked modules that are visible in the modules that it calls."""
        whole = {
            imported for module in modules for imported in module.imports if imported not in module.linked
        }
        for scope, names in (pair for module in modules for pair in module.linked.items()):
            if scope not in whole:
                self.linked.setdefault(scope, set()).update(names)
        self.is_page = True

    def add_file(self, module: ast.ModuleDeclaration) -> None:
        """Enter the declarations of one file."""
        for member in all_members(module):
            if not isinstance(member, (ast.Import, ast.IncludeModule, ast.Using)):
                self.add(member)
            if isinstance(member, ast.EnumDeclaration):
                self.enums.append(member)
            self.guarded |= member.has("public")
        self.guarded |= module.module_name is not None

    def local(self, name: str) -> list[LookupResult]:
        results = super().local(name)
        for module in self.imports:
            if name in self.linked.get(module, (name,)):
                results += module.exported(name)
        if not results and self.is_page:  # types that have no name in what was linked
            results = [result for module in self.linked for result in module.exported(name)]
        return results

    def enum_cases(self, name: str) -> list[LookupResult]:
        """Cases are found without their enum where nothing else has the name."""
        modules = [self, *self.imports]
        enums = [enum for module in modules for enum in module.enums]
        return [
            LookupResult(declaration, {})
            for enum in enums
            for declaration in declared(self.checker, enum, name)
        ]

    def exported(self, name: str) -> list[LookupResult]:
        """The names for an importing module."""
        declarations = self.names.get(name, ())
        return [
            LookupResult(declaration, {})
            for declaration in declarations
            if not self.guarded or is_exported(declaration)
        ]

    def all_names(self) -> set[str]:
        names = set(self.names)
        for module in self.imports:
            seen = self.linked.get(module, module.names)
            names |= {name for name in seen if module.exported(name)}
        return names

    def that_hides(self, name: str) -> str | None:
        """The imported module in which a name is not public."""
        return next((module.name for module in self.imports if name in module.names), None)


def is_exported(declaration: ast.Declaration) -> bool:
    """Public or for linking, or without visibility, as namespaces and extensions."""
    return (
        declaration.has("public")
        or declaration.has("export")
        or isinstance(declaration, (ast.Namespace, ast.Extension))
    )


def seen_inside(declaration: ast.Declaration) -> Bindings:
    """The substitution of a declaration in its own scope: the generics around it are themselves."""
    parent = declaration.parent
    if isinstance(
        declaration, (ast.Variable, ast.ParameterDeclaration, ast.TypeParameter, ast.ValueParameter)
    ):
        return {}
    if parent is None or isinstance(parent, (ast.ModuleDeclaration, ast.Namespace)):
        return {}
    return identity(parent)


def this_type(checker: Checker, owner: ast.Declaration) -> Type:
    """The type of `This` inside a struct, enum, interface or extension."""
    if isinstance(owner, ast.Interface):
        return parameter_type(owner)
    if isinstance(owner, ast.Extension):
        target = extension_target(checker, owner)
        return parameter_type(owner) if isinstance(target, InterfaceType) else target
    return self_type(owner)


def levels(scope: Scope | None) -> Iterator[Scope]:
    """The scope and those around it."""
    while scope is not None:
        yield scope
        scope = scope.parent


def enclosing_member_scope(scope: Scope) -> MemberScope | None:
    """The scope of the type around, if any."""
    return next((level for level in levels(scope) if isinstance(level, MemberScope)), None)


_BUILTIN_NAMES = {
    f"{scalar}{size}"
    for scalar in ("bool", "int", "uint", "half", "float", "double")
    for size in ("", "2", "3", "4", "2x2", "3x3", "4x4")
}


def suggestion(scope: Scope, name: str) -> str | None:
    """A note: the module in which the name is not public, or a visible name of similar spelling."""
    names = {*_BUILTIN_NAMES, "void"}
    for level in levels(scope):
        if isinstance(level, ModuleScope) and (module := level.that_hides(name)):
            return f"module '{module}' declares '{name}', but not as public"
        names |= level.all_names()
    if name in foreign.NAMES:
        return foreign.NAMES[name]
    return near(name, sorted(names), cutoff=0.7)


# --- The scopes of declarations -----------------------------------------------------------------------


def scope_of(checker: Checker, declaration: ast.Declaration) -> Scope:
    """The scope in which the inside of a declaration looks up names."""
    scope: Scope | None = checker.scopes.get(declaration)
    if scope is None:
        scope = checker.scopes[declaration] = _make_scope(checker, declaration)
    return scope


def _make_scope(checker: Checker, declaration: ast.Declaration) -> Scope:
    outer = checker.scopes_of_locals.get(declaration)
    if outer is None:
        assert declaration.parent is not None, "the scope of a module is made when it is loaded"
        outer = scope_of(checker, declaration.parent)
    if isinstance(declaration, (ast.StructDeclaration, ast.Interface, ast.Extension, ast.EnumDeclaration)):
        return MemberScope(checker, outer, declaration)
    if isinstance(declaration, ast.Namespace):
        return NamespaceScope(checker, outer, declaration)
    scope = Scope(checker, outer, declaration)
    for parameter in getattr(declaration, "generics", ()):
        scope.add(parameter)
    target = declaration.attribute(ast.APPLY_OF)
    if target is None or not isinstance(declaration, ast.FunctionDeclaration):
        return scope
    return _applied(checker, scope, declaration, target)


def _applied(
    checker: Checker, scope: Scope, declaration: ast.FunctionDeclaration, target: ast.AttributeNode
) -> Scope:
    named = target.arguments[0] if len(target.arguments) == 1 else None
    if not isinstance(named, ast.Member):
        return scope
    with checker.silence():
        this = checker.resolve_type(scope, named.base)
    return scope if this is ERROR else AppliedScope(checker, scope, declaration, this)
