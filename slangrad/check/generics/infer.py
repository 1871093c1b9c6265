"""Finding generic arguments by comparing parameter types with argument types.

In: parameter `vector<T, N>`, argument `float3`.   Out: {T: float, N: 3}.

Two uses. Exact matching decides whether an extension applies to a type. Inference for a call collects bindings and
joins conflicting ones (int and float: float); overload.py checks whether the arguments then convert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slangrad.base.records import OfClass
from slangrad.check.generics.substitution import substitute, substitute_argument
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, GenericKey
from slangrad.check.model.packs import (
    Entry,
    element_of_pack,
    element_parameter,
    expanded,
    is_entry_pack,
    packs_of,
    shares,
    spliced,
)
from slangrad.check.model.types import (
    ERROR,
    ArrayType,
    GenericArgument,
    MatrixType,
    Nominal,
    ParameterType,
    PointerType,
    Projection,
    Stored,
    Tuple,
    Type,
    VectorType,
    element_of,
    has_layout,
    is_pack,
    layout_of,
    nominal,
    rules_of,
    stored,
    unstored,
)
from slangrad.check.model.values import Pack, ParameterValue, Polynomial, Value

Join = Callable[[Type, Type], Type | None]


class Solver:
    """Bindings of the open parameters, grown by `unify`. `join` combines two types for one parameter."""

    def __init__(self, checker: Checker, parameters: Iterable[GenericKey], join: Join | None = None) -> None:
        self.checker = checker
        self.open: set[GenericKey] = set(parameters)
        self.bindings: Bindings = {}
        self.join = join
        self.conflict: str | None = None
        self.sizes_differ = False  # the conflict is about a value parameter: the forms of the types agree
        self.fixed: set[GenericKey] = set()  # their type must not change: that of a variable passed as inout
        self.scalars: set[GenericKey] = set()  # sizes of vectors for which a scalar is given

    # --- Types ---

    def unify(self, pattern: Type, actual: Type) -> bool:
        """Make `pattern` equal to `actual`; False when that cannot be."""
        if not pattern.abstract:
            return pattern is actual
        if actual is ERROR:
            return True
        if is_pack(pattern):
            return self.unify_entries((pattern,), (actual,))
        if isinstance(pattern, ParameterType) and pattern.declaration in self.open:
            return self._bind_type(pattern.declaration, actual)
        if isinstance(pattern, Stored):
            return _unify_stored(self, pattern, actual)
        rule = _RULES.get(type(pattern))
        if pattern is actual and (rule is None or not self.open):
            return True
        if isinstance(pattern, Projection) and self.join is None:
            return substitute(self.checker, pattern, self.bindings) is actual
        if rule is None:
            return self.join is not None
        if (
            self.join is not None
            and isinstance(pattern, (VectorType, MatrixType))
            and not isinstance(actual, type(pattern))
        ):
            if isinstance(pattern, VectorType) and isinstance(pattern.count, ParameterValue):
                self.scalars.add(pattern.count.declaration)
            return self.unify(pattern.element, element_of(actual))
        return type(actual) is type(pattern) and rule(self, pattern, actual)

    def _bind_type(self, parameter: GenericKey, actual: Type) -> bool:
        bound = self.bindings.get(parameter)
        if not isinstance(bound, Type) or bound is actual:
            self.bindings[parameter] = actual
            return True
        if parameter in self.fixed:
            return True
        joined = self.join(bound, actual) if self.join is not None else None
        if joined is None:
            self.conflict = f"'{parameter.name}' would be both '{bound}' and '{actual}'"
            return False
        self.bindings[parameter] = joined
        return True

    # --- Values ---

    def unify_value(self, pattern: Value, actual: Value) -> bool:
        if isinstance(pattern, ParameterValue) and pattern.declaration in self.open:
            bound = self.bindings.setdefault(pattern.declaration, actual)
            if bound is actual or (isinstance(bound, int) and bound == actual):
                return True
            self.conflict = f"'{pattern.declaration.name}' would be both {bound} and {actual}"
            self.sizes_differ = True
            return False
        if pattern is actual or (isinstance(pattern, int) and pattern == actual):
            return True
        if isinstance(pattern, Polynomial):
            return self._solve_linear(pattern, actual)
        return self.join is not None and not isinstance(pattern, int)

    def _solve_linear(self, pattern: Polynomial, actual: Value) -> bool:
        """`N + 1` against 4 gives N = 3; other arguments must decide more complex cases."""
        unknown = [term for term in pattern.terms if term[0]]
        constant = sum(factor for symbols, factor in pattern.terms if not symbols)
        if len(unknown) != 1 or len(unknown[0][0]) != 1 or not isinstance(actual, int):
            return self.join is not None
        ((symbol,), factor) = unknown[0]
        if (actual - constant) % factor:
            return False
        return self.unify_value(symbol, (actual - constant) // factor)

    # --- Generic arguments ---

    def unify_argument(self, pattern: GenericArgument, actual: GenericArgument) -> bool:
        if isinstance(pattern, Type) or isinstance(actual, Type):
            return isinstance(pattern, Type) and isinstance(actual, Type) and self.unify(pattern, actual)
        if isinstance(pattern, tuple) or isinstance(actual, tuple):
            both = isinstance(pattern, tuple) and isinstance(actual, tuple)
            return both and self.unify_entries(spliced((pattern,)), spliced((actual,)))
        return self.unify_value(pattern, actual)

    # --- Packs ---

    def shares(self, patterns: tuple[Entry, ...], count: int) -> list[int] | None:
        """How many of `count` things each pattern takes: one, and open packs the rest in equal parts."""
        return shares([self._wanted(pattern) for pattern in patterns], count)

    def _wanted(self, pattern: Entry) -> int | None:
        if not is_entry_pack(pattern):
            return 1
        bound = [self.bindings[pack] for pack in packs_of(pattern) if pack in self.bindings]
        counts = [len(argument) for argument in bound if isinstance(argument, tuple)]
        is_open = any(pack in self.open for pack in packs_of(pattern))
        return counts[0] if counts else None if is_open else 1

    def unify_entries(self, patterns: tuple[Entry, ...], actuals: tuple[Entry, ...]) -> bool:
        """Make types or values, packs among them, equal to others."""
        counts = self.shares(patterns, len(actuals))
        if counts is None:
            return False
        position = 0
        for pattern, count in zip(patterns, counts):
            part = actuals[position : position + count]
            position += count
            if not self._unify_part(pattern, part):
                return False
        return True

    def _unify_part(self, pattern: Entry, part: tuple[Entry, ...]) -> bool:
        packs = packs_of(pattern) if is_entry_pack(pattern) else ()
        if not packs:
            return self.unify_argument(pattern, part[0])
        if any(pack in self.bindings for pack in packs):
            filled = spliced((substitute_argument(self.checker, pattern, self.bindings),))
            return self.join is not None or all(
                filled_entry is other for filled_entry, other in zip(filled, part)
            )
        if not any(pack in self.open for pack in packs):
            return pattern is part[0] or self.join is not None
        if isinstance(pattern, (ParameterType, ParameterValue)):
            self.bindings[packs[0]] = part
            return True
        return self._unify_pattern(element_of_pack(pattern), packs, part)

    def _unify_pattern(self, pattern: Entry, packs: tuple[Pack, ...], part: tuple[Entry, ...]) -> bool:
        """Each entry gives the elements of the packs in the pattern."""
        columns: dict[Pack, list[Entry]] = {pack: [] for pack in packs if pack in self.open}
        elements = {pack: element_parameter(pack) for pack in columns}
        self.open.update(elements.values())
        fits = all(self._unify_element(pattern, entry, columns, elements) for entry in part)
        self.open.difference_update(elements.values())
        if fits:
            self.bindings.update({pack: tuple(entries) for pack, entries in columns.items()})
        return fits

    def _unify_element(
        self, pattern: Entry, entry: Entry, columns: dict[Pack, list[Entry]], elements: dict[Pack, Pack]
    ) -> bool:
        is_open = is_entry_pack(entry)
        fits = self.unify_argument(pattern, element_of_pack(entry) if is_open else entry)
        for pack, entries in columns.items():
            bound = self.bindings.pop(elements[pack], None)
            if bound is None or isinstance(bound, tuple):
                fits = False
            else:
                entries.append(expanded(bound, packs_of(entry)) if is_open and fits else bound)
        return fits


def _unify_nominal(solver: Solver, pattern: Nominal, actual: Nominal) -> bool:
    if pattern.declaration is not actual.declaration:
        return False
    return all(solver.unify_argument(mine, other) for mine, other in zip(pattern.arguments, actual.arguments))


def _unify_stored(solver: Solver, pattern: Stored, actual: Type) -> bool:
    """A type in memory; a layout that is a parameter is the one of the other type."""
    if pattern.layout is None:
        return pattern.rules == rules_of(actual) and solver.unify(pattern.element, unstored(actual))
    rules = rules_of(actual)
    layout = actual.layout if isinstance(actual, Stored) else None
    if layout is None:
        layout = nominal(solver.checker.standard(layout_of(rules)), ())
    order, wanted = (
        " ".join(word for word in words.split() if not has_layout(word)) for words in (rules, pattern.rules)
    )
    if wanted and wanted != order:
        return False
    order = "" if wanted else order  # else it is a part of the element
    return solver.unify(pattern.element, stored(unstored(actual), order)) and solver.unify(
        pattern.layout, layout
    )


def _unify_array(solver: Solver, pattern: ArrayType, actual: ArrayType) -> bool:
    if not solver.unify(pattern.element, actual.element):
        return False
    if pattern.count is None:
        return solver.join is not None or actual.count is None
    return actual.count is not None and solver.unify_value(pattern.count, actual.count)


Rule = Callable[[Solver, OfClass, OfClass], bool]


def _parts(*names: str) -> Rule:
    """Types that are equal when their parts are."""

    def rule(solver: Solver, pattern: Type, actual: Type) -> bool:
        return all(solver.unify_argument(getattr(pattern, name), getattr(actual, name)) for name in names)

    return rule


_RULES: dict[type[Type], Rule] = {
    VectorType: _parts("element", "count"),
    MatrixType: _parts("element", "rows", "columns"),
    ArrayType: _unify_array,
    PointerType: _parts("element"),
    Tuple: _parts("elements"),
    **dict.fromkeys(Nominal.__subclasses__(), _unify_nominal),
}


def match(checker: Checker, parameters: Iterable[GenericKey], pattern: Type, actual: Type) -> Bindings | None:
    """The arguments for which `pattern` is exactly `actual`, or None."""
    solver = Solver(checker, parameters)
    return solver.bindings if solver.unify(pattern, actual) else None
