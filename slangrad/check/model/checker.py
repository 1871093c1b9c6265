"""The shared state of `check`: options, errors, queries in progress, results.

In: nothing.   Out: `Checker`, the first argument of all functions about a program.

Files import each other in one direction only, but types, names and bodies depend on each other. So `Checker` declares
the functions of higher rooms that lower ones call, with their types; `full_checker.FullChecker` has them. Results are
computed on demand and cached: the header of a declaration on its first lookup, the body of a library function on
its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Options
from slangrad.base.source import Span
from slangrad.base.traits import Traits
from slangrad.check.model import checked
from slangrad.check.model.checked import FunctionInfo, VariableInfo
from slangrad.check.model.declref import Bindings, Declared
from slangrad.check.model.meanings import Coercion
from slangrad.check.model.refusals import Refusals
from slangrad.check.model.types import ERROR, InterfaceType, Type
from slangrad.check.model.values import Value
from slangrad.syntax import ast

if TYPE_CHECKING:  # of higher rooms
    from slangrad.check.derivatives.custom_derivatives import DerivativeDeclarations
    from slangrad.check.generics.bounds import GenericInfo
    from slangrad.check.names.scopes import ModuleScope, Scope

Answer = TypeVar("Answer")


@dataclass(slots=True)
class QuestionState:
    """Whether a query is not in progress yet; afterwards, whether its result may be cached."""

    is_first: bool
    complete: bool = False


class VisibleExtensions:
    """The modules whose extensions are visible, and the conformances of types as seen from there."""

    def __init__(self, modules: frozenset[ModuleScope]) -> None:
        self.modules = modules
        self.extension_matches: dict[object, list[tuple[ast.Extension, Bindings]]] = {}
        self.conformances: dict[object, tuple[InterfaceType, ...]] = {}
        self.requirements: dict[
            object, dict[str, list[InterfaceType]]
        ] = {}  # interfaces by what they require
        self.answers: dict[object, object] = {}  # to other queries, see Checker.settled

    def forget(self) -> None:
        """After extensions were added: conformances are computed again."""
        for answers in (self.requirements, self.extension_matches, self.conformances, self.answers):
            answers.clear()


class Checker:
    """Shared state, and the functions that lower folders call in higher ones."""

    def __init__(self, options: Options, traits: Traits) -> None:
        self.options, self.traits = options, traits
        self.reporter = Reporter(options=options)
        self.refusals = Refusals()
        self.library: dict[str, list[ast.Declaration]] = {}  # the declarations of the standard library
        # Where the inside of a declaration looks up names; the names that it declares.
        self.scopes: dict[ast.Declaration, Scope] = {}
        self.scopes_of_locals: dict[ast.Declaration, Scope] = {}
        self.lambda_results: dict[
            ast.FunctionDeclaration, Type
        ] = {}  # of lambdas whose result a call converts
        self.member_tables: dict[ast.Declaration, dict[str, list[Declared]]] = {}
        # Extensions by what they extend (see lookup.extension_key), their targets, where they apply.
        self.extensions: dict[object, list[ast.Extension]] = {}
        self.extension_targets: dict[ast.Extension, Type] = {}
        self.extension_homes: dict[ast.Extension, ModuleScope] = {}
        # Functions with [BackwardDerivativeOf(f)] and the like, by the name f.
        self.derivative_functions: dict[str, list[ast.FunctionDeclaration]] = {}
        # Conformances and members of types.
        self.generics: dict[object, GenericInfo] = {}
        self.bases: dict[ast.Declaration, list[InterfaceType]] = {}
        self.without_circles: set[ast.Interface] = set()
        self.partial_conformances: dict[Type, dict[InterfaceType, None]] = {}
        self.tag_types: dict[ast.EnumDeclaration, Type] = {}
        self.case_positions: dict[ast.EnumCase, int] = {}  # of the cases of enums
        self.custom_derivatives: dict[ast.Declaration, DerivativeDeclarations] = {}
        # Generic functions in which lost derivatives were looked for, and the parameters whose types had one.
        self.instances_looked_at: set[object] = set()
        self.synthesized: dict[object, ast.StructDeclaration] = {}
        self.synthesized_members: dict[object, ast.Declaration | None] = {}
        self.view = VisibleExtensions(frozenset())
        # Queries in progress; checks that wait until declarations are complete; declarations whose `where` clauses
        # hold in the checked code; depth of trials without reports.
        self.in_progress: set[object] = set()
        self.later: list[Callable[[], None]] = []
        self.assumptions: list[ast.Declaration] = []
        self.quiet = 0
        # The call behind the `try` that is being checked.
        self.tried: ast.Expression | None = None
        # The current type of each `each`, inside of `expand`.
        self.expanding: int | None = None
        # Queries in progress that the present result depends on: such results are not cached.
        self.rests_on: set[object] = set()

    def standard(self, name: str) -> Any:  # callers know the class by the name
        """A declaration of the standard library by its name, as in a DeclRef; None where there is none."""
        declarations = self.library.get(name)
        return declarations[0] if declarations else None

    # --- Errors ---

    def error(self, code: str, message: str, span: Span | None, note: str | None = None) -> Type:
        """Report an error; gives ERROR, the type of a wrong expression."""
        if not self.quiet:
            self.reporter.error(code, message, span, note)
        return ERROR

    def warning(self, code: str, message: str, span: Span | None, note: str | None = None) -> None:
        if not self.quiet:
            self.reporter.warning(code, message, span, note)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing is reported inside."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    @contextmanager
    def answering(self, question: object) -> Iterator[bool]:
        """A context; gives whether `question` is not in progress further up. Inside, it is."""
        if question in self.in_progress:
            yield False
            return
        self.in_progress.add(question)
        try:
            yield True
        finally:
            self.in_progress.discard(question)

    @contextmanager
    def settling(self, question: object) -> Iterator[QuestionState]:
        """Like `answering`, and records whether the result depends on no query in progress."""
        progress = QuestionState(question not in self.in_progress)
        if not progress.is_first:
            self.rests_on.add(question)
            yield progress
            return
        before, self.rests_on = self.rests_on, set()
        self.in_progress.add(question)
        try:
            yield progress
        finally:
            self.in_progress.discard(question)
            self.rests_on.discard(question)
            progress.complete = not self.rests_on
            self.rests_on |= before

    def settled(self, question: object, find: Callable[[], Answer], meanwhile: Answer) -> Answer:
        """The result of a query, cached if it depends on no query in progress. `meanwhile` is the result for the
        same query in progress."""
        answers = self.view.answers
        if question not in answers:
            with self.settling(question) as progress:
                answer = find() if progress.is_first else meanwhile
            if not progress.complete:
                return answer
            answers[question] = answer
        return cast(Answer, answers[question])

    @contextmanager
    def assuming(self, declaration: ast.Declaration) -> Iterator[None]:
        """The `where` clauses of `declaration` hold inside."""
        if not getattr(declaration, "constraints", ()):
            yield
            return
        self.assumptions.append(declaration)
        try:
            yield
        finally:
            self.assumptions.pop()

    # --- Functions of higher folders ---

    @overload
    def info(self, declaration: ast.Variable) -> VariableInfo: ...
    @overload
    def info(self, declaration: ast.ParameterDeclaration) -> checked.ParameterInfo: ...
    @overload
    def info(self, declaration: ast.AnyFunction) -> FunctionInfo: ...
    @overload
    def info(self, declaration: ast.Subscript | ast.Property) -> checked.SubscriptInfo: ...
    @overload
    def info(self, declaration: ast.EnumCase) -> checked.CaseInfo: ...
    @overload
    def info(self, declaration: ast.TypeAlias | ast.ValueParameter) -> checked.TypeInfo: ...
    @overload
    def info(self, declaration: ast.Declaration) -> checked.Info: ...
    def info(self, declaration: ast.Declaration) -> checked.Info:
        """What its header says."""
        raise NotImplementedError

    # The tangent type, or None when the type carries no derivative.
    differential: Callable[[Type], checked.DifferentialInfo | None]
    # `sizeof`, `alignof`, `countof` of a type.
    size_of: Callable[[str, Type], Value]
    # The conversion from one type to another, also by a constructor; None without one. Last: only implicitly.
    conversion: Callable[[Type, Type, bool], Coercion | None]
    # `base.Name`: the type's choice, or a Projection while `base` is open.
    associated: Callable[[Type, InterfaceType, ast.AssociatedType], Type]
    # `base.kCount`: the value of a constant that an interface requires.
    required: Callable[[Type, InterfaceType, ast.Variable], Value]

    # The scope for names inside a declaration.
    scope_of: Callable[[ast.Declaration], Scope]
    # The type that an expression names; ERROR after reporting that it names none.
    resolve_type: Callable[[Scope, ast.Expression], Type]
    # The integer of a constant expression; None after reporting that it is no constant.
    constant: Callable[[Scope, ast.Expression], Value | None]

    # The type of an expression that must be a value; its slots are filled.
    check_value: Callable[[Scope, ast.Expression], Type]
    # The same where initializer lists may stand, which have no type yet.
    check_argument: Callable[[Scope, ast.Expression], None]
    # Check a local declaration throughout; the body of a synthesized function.
    check_declaration: Callable[[ast.Declaration], None]
    check_synthesized: Callable[[ast.AnyFunction], None]
    # The conversion of an initializer list to a type, or None; the report why there is none.
    plan_list: Callable[[Scope, ast.InitializerList, Type], Coercion | None]
    explain_list: Callable[[Scope, ast.InitializerList, Type], None]
    # An implicit conversion by a constructor, or None.
    plan_constructor: Callable[[Scope, ast.Expression, Type], Coercion | None]
