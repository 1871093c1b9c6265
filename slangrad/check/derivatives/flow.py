"""The dependences in a function for derivatives, and the places where a derivative is lost.

In: edges between variables, `this`, the result, memory.   Out: the nodes that a parameter reaches, and the sources
of a result.

    float y = 2 * x; return y;      into = { y1: {x}, result: {y1} }

activity.py makes the edges, between versions of variables (versions.py). The variables behind a pointer, every
`Address` that it depends on, are known after the whole function. So a variable whose address is taken has one version.
No derivative passes through pointers that may lead elsewhere.

    float* p = &x; *p = a;          x depends on a, and loads through p depend on x
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial

from slangrad.check.derivatives.memory_effects import holds_numbers, stores_numbers
from slangrad.check.derivatives.versions import LoopStart, Point, Version, meet
from slangrad.check.generics.bounds import supposing
from slangrad.check.generics.signatures import function_name
from slangrad.check.generics.substitution import substitute
from slangrad.check.interfaces.differentiable import pointer_tangent, tangent
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef, GenericKey
from slangrad.check.model.types import InterfaceType, PointerType, Type, nominal, parameter_type
from slangrad.check.names.places import accessor, steps, value_type
from slangrad.syntax import ast

# A declaration of a variable or THIS, a Version of it, RESULT, MEMORY or THROWN, a Lost call, a pointee.
Node = object
Sources = Set[Node]
NOTHING: Sources = frozenset()
Supposed = dict[GenericKey, Type]  # for generic parameters, which need have no derivatives, types that have

THIS, RESULT, MEMORY, THROWN = "this", "result", "memory", "thrown"


@dataclass(slots=True, eq=False, repr=False)
class Lost:
    """Where a derivative is lost: the reason, and the inputs. `in_value`: in a value of a type that holds numbers and
    has no derivative. `stored`: in a store, which counts even if its value is never read. `allowed`: Slang's rules
    allow it, so it is a warning."""

    reason: str
    note: str
    node: ast.Expression
    inputs: Sources
    in_value: bool = False
    stored: bool = False
    allowed: bool = False
    bits: bool = False  # of a number, as a whole number
    stored_by: DeclRef | None = None  # if this function stores, which its body decides
    pointer: Sources | None = None  # the pointer of the access, if there is one


@dataclass(frozen=True, slots=True)
class Address:
    """That of a variable, or of a part of it."""

    variable: Node


@dataclass(frozen=True, slots=True)
class Behind:
    """The pointee of a pointer."""

    pointer: Node


@dataclass(frozen=True, slots=True)
class Leaving:
    """The value of a parameter or of `this` that the caller gets."""

    variable: Node


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a lambda."""

    function: ast.FunctionDeclaration


@dataclass(slots=True)
class Flow:
    """`into[v]`: the sources of the value of v. `unordered`: the variables that have one version in the whole function.
    `addressed`: those that must be unordered, known when the function was visited."""

    checker: Checker
    info: checked.FunctionInfo
    supposed: Supposed = field(default_factory=dict)  # see `check_instances`
    into: dict[Node, set[Node]] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    passing: list[tuple[DeclRef, Sources]] = field(default_factory=list)  # see `check_instances`
    point: Point = field(default_factory=Point)
    caught: dict[ast.Catch, list[Point]] = field(default_factory=dict)  # by handler: where errors are thrown
    unordered: Sources = NOTHING
    addressed: set[Node] = field(default_factory=set)
    has_order: bool = True  # of statements
    is_deferred: bool = False  # whether some statement is
    result: Node = RESULT
    lambdas: set[ast.FunctionDeclaration] = field(default_factory=set)  # those whose bodies were visited

    def add(self, targets: Sources, sources: Sources) -> None:
        for target in targets:
            self.into.setdefault(target, set()).update(sources)

    def call(self, function: DeclRef, arguments: Sources) -> None:
        """A call of a function with derivatives. Instances of the library are not checked again."""
        if function.substitution and not function.declaration.span.source.is_library:
            self.passing.append((function, arguments))

    def carries(self, kind: Type | None) -> bool:
        """Whether a type has a derivative."""
        return kind is not None and tangent(self.checker, kind) is not None

    # --- Inputs and outputs of derivatives ------------------------------------------------------------------

    def _passed(self) -> Iterator[tuple[Node, Type, bool]]:
        """The parameters and the object of the function that have derivatives, and whether they are results only."""
        for parameter in self.info.parameters:
            info = self.checker.info(parameter)
            if not info.no_diff:
                yield parameter, info.type, info.direction == "out"
        if self.info.this_type is not None and not self.info.no_diff_this:
            yield THIS, self.info.this_type, False

    def pointers(self) -> Sources:
        """The pointers to memory that has derivatives."""
        return {node for node, kind, _ in self._passed() if pointer_tangent(self.checker, kind) is not None}

    def inputs(self) -> Sources:
        return {MEMORY, *(node for node, kind, is_out in self._passed() if not is_out and self.carries(kind))}

    def outputs(self) -> Sources:
        checker, info = self.checker, self.info
        outputs: set[Node] = set()
        for parameter in info.parameters:
            passed = checker.info(parameter)
            is_written = passed.direction in ("out", "inout", "ref") and not passed.no_diff
            outputs |= {Leaving(parameter)} if is_written and holds_numbers(checker, passed.type) else set()
        if info.mutating and info.this_type is not None and holds_numbers(checker, info.this_type):
            outputs.add(Leaving(THIS))
        if not info.no_diff_result and self.carries(info.result):
            outputs.add(RESULT)
        if info.throws is not None and holds_numbers(checker, info.throws):
            outputs.add(THROWN)
        return outputs

    # --- Versions of variables ------------------------------------------------------------------------------

    def is_ordered(self, variable: Node) -> bool:
        return self.has_order and variable not in self.unordered

    def read(self, variable: Node) -> Node:
        return self.point.read(variable) if self.is_ordered(variable) else variable

    def store(self, variable: Node, sources: Sources, is_whole: bool = True) -> None:
        """A value in a variable or, if not `is_whole`, in a part of it."""
        if not self.is_ordered(variable):
            self.add({variable}, sources)
            return
        kept: Sources = NOTHING if is_whole else {self.point.read(variable)}
        version = self.point.versions[variable] = Version(variable)
        self.add({version}, sources | kept)

    def meet(self, points: list[Point]) -> None:
        """Go on where several paths meet."""
        self.point = meet(points, self.point.loop, self.into)

    def start_loop(self) -> LoopStart:
        loop = LoopStart(self.point, self.into)
        self.point = Point(loop, is_reached=self.point.is_reached)
        return loop

    def end_loop(self, loop: LoopStart, exits: list[Point]) -> None:
        """The last step of the loop ends here; `exits`: where it is left."""
        loop.close([self.point])
        after = meet(exits or [self.point], loop.before.loop, self.into)
        self.point = after
        if not exits:
            self.end_path()

    def end_path(self) -> None:
        """No statement behind this one is reached from here."""
        self.point.is_reached = False

    def leave(self) -> None:
        """Return to the caller."""
        self.keep_outputs()
        self.end_path()

    def keep_outputs(self) -> None:
        """The caller may get the values that parameters and `this` have here."""
        for parameter in self.info.parameters:
            if self.checker.info(parameter).direction in ("out", "inout", "ref"):
                self.add({Leaving(parameter)}, {self.read(parameter)})
        if self.info.mutating:
            self.add({Leaving(THIS)}, {self.read(THIS)})

    def throw(self, handler: ast.Catch | None, sources: Sources) -> None:
        """An error may go from here to a handler, or to the caller."""
        if handler is None:
            self.add({THROWN}, sources)
            self.keep_outputs()
            return
        if handler.parameter is not None:
            self.add({handler.parameter}, sources)
        self.caught.setdefault(handler, []).append(self.point.copy())

    # --- Pointers to variables of the function -------------------------------------------------------------

    def store_behind(self, pointer: Sources, sources: Sources) -> None:
        self.add({Behind(node) for node in pointer}, sources)

    def leads_to_variables(self, pointer: Sources) -> bool:
        """Whether a pointer leads to variables of the function only."""
        reached = reach(self.into, pointer)
        is_certain = all(isinstance(node, (Address, ast.Variable, Version)) for node in reached)
        return is_certain and any(isinstance(node, Address) for node in reached)

    def addresses(self) -> dict[Node, Sources]:
        """The variables that addresses depend on. Also adds edges from stores through pointers to variables."""
        for behind, sources in list(self.into.items()):
            if isinstance(behind, Behind):
                led_to = reach(self.into, {behind.pointer})
                self.add({node.variable for node in led_to if isinstance(node, Address)}, sources)
        nodes = {node for target, sources in self.into.items() for node in (target, *sources)}
        nodes |= {node for lost in self.lost for node in lost.inputs}
        return {node: {node.variable} for node in nodes if isinstance(node, Address)}

    # --- Reports -------------------------------------------------------------------------------------------

    def report(self, declaration: ast.AnyFunction, lost: Lost) -> None:
        if (lost.allowed or self.supposed) and declaration.span.source.is_library:
            return
        name = declaration.name or "the lambda"
        types = " and ".join(f"'{parameter.name}' is '{kind}'" for parameter, kind in self.supposed.items())
        restriction = f" where {types}" if types else ""
        message = f"{lost.reason}, so the derivative of '{name}' would be lost here{restriction}"
        report = self.checker.warning if lost.allowed or self.supposed else self.checker.error
        report("E0505", message, lost.node.span, lost.note)

    def report_stores(self, declaration: ast.AnyFunction, calls: list[Lost]) -> None:
        """When all bodies are checked: the calls of functions that store in memory."""
        for lost in calls:
            if lost.stored_by is not None and stores_numbers(self.checker, lost.stored_by):
                self.report(declaration, lost)


def reach(edges: Mapping[Node, Sources], start: Sources) -> Sources:
    reached, pending = set(start), list(start)
    while pending:
        for node in edges.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def turned(edges: Mapping[Node, Sources]) -> dict[Node, set[Node]]:
    reversed_edges: dict[Node, set[Node]] = {}
    for target, sources in edges.items():
        for source in sources:
            reversed_edges.setdefault(source, set()).add(target)
    return reversed_edges


def pointer_of(place: checked.Base) -> checked.Base | None:
    """The pointer that leads to a place, if one does."""
    for part, form in steps(place):
        if isinstance(form, checked.Dereference):
            return form.pointer
        if isinstance(part, ast.Expression) and part.conversion and part.conversion.kind == "dereference":
            return part
        if isinstance(form, checked.Element) and isinstance(value_type(form.base), PointerType):
            return form.base
    return None


def root_of(place: checked.Base) -> Sources:
    """The variable that a place is a part of."""
    for part, form in steps(place):
        if isinstance(form, checked.ThisValue):
            return {THIS}
        if pointer_of(part) is part:
            return set()  # what a pointer leads to is no part of the pointer
        if isinstance(form, checked.Local):
            return {form.declaration}
        if isinstance(form, checked.Expansion):
            return root_of(form.pattern)
    return set()


def is_variable(place: checked.Base) -> bool:
    """Whether a place is a variable as a whole."""
    part, form = next(step for step in steps(place) if not isinstance(step[0], ast.Paren))
    is_converted = isinstance(part, ast.Expression) and part.conversion is not None
    return isinstance(form, (checked.Local, checked.ThisValue)) and not is_converted


# --- Losses ---

DETACHED = "put 'detach(...)' around what is passed if this is meant"


def marked(name: str) -> str:
    return f"mark '{name}' as [Differentiable], or write 'no_diff {name}(...)' if this is meant"


def stored_by(function: DeclRef, node: ast.Expression, inputs: Sources) -> Lost:
    """The stores to memory of a function without a derivative."""
    name = function_name(function.declaration)
    note = marked(name) if any(isinstance(source, Address) for source in inputs) else DETACHED
    reason = f"'{name}' stores in memory, which has no derivative"
    return Lost(reason, note, node, with_derivatives(inputs), stored=True, allowed=True)


def with_derivatives(sources: Sources) -> Sources:
    return {source for source in sources if not isinstance(source, Lost) or source.in_value or source.bits}


Check = Callable[[Checker, ast.AnyFunction, Supposed], None]

# --- Instances ----------------------------------------------------------------------------------------


def check_instances(flow: Flow, active: Sources, check: Check) -> None:
    """Check the generic functions that are called with arguments that have derivatives.

        struct Box<T> { T value; }
        [Differentiable] T through<T>(T x) { Box<T> b; b.value = x; return b.value; }

    No derivative is lost in `through` itself, because T need not have one. For a call with a `double` the body is
    checked again, as if it had `where T : IDifferentiable`: a loss is a warning then.
    """
    for function, inputs in flow.passing:
        declaration = reading(function.declaration)
        supposed = _supposed(flow, function)
        if supposed and inputs & active:
            flow.checker.later.append(partial(_check_instance, flow.checker, declaration, supposed, check))


def reading(declaration: ast.AnyFunction | ast.Property | ast.Subscript) -> ast.AnyFunction:
    """The accessor for reading a property or subscript. The setter is checked at stores."""
    if not isinstance(declaration, (ast.Property, ast.Subscript)):
        return declaration
    return accessor(declaration, "get", "ref") or declaration.accessors[0]


def _supposed(flow: Flow, function: DeclRef) -> Supposed:
    checker = flow.checker
    supposed: Supposed = {}
    for parameter, kind in function.substitution.items():
        if not isinstance(parameter, ast.TypeParameter) or not isinstance(kind, Type):
            continue
        if tangent(checker, kind) is not None and tangent(checker, parameter_type(parameter)) is None:
            supposed[parameter] = substitute(checker, kind, {**flow.supposed})
    return supposed


def _check_instance(checker: Checker, declaration: ast.AnyFunction, supposed: Supposed, check: Check) -> None:
    """When all bodies are checked: once for each set of parameters whose types have derivatives."""
    key = (declaration, frozenset(supposed))
    if key in checker.instances_looked_at or not checker.info(declaration).body_checked:
        return
    checker.instances_looked_at.add(key)
    differentiable = nominal(checker.standard("IDifferentiable"))
    bounds: dict[Type, list[InterfaceType]] = {
        parameter_type(parameter): [differentiable]
        for parameter in supposed
        if isinstance(parameter, ast.TypeParameter)
    }
    with checker.assuming(declaration), supposing(checker, bounds):
        check(checker, declaration, supposed)
