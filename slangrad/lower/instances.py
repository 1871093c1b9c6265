"""Monomorphization: one IR function for each function declaration and list of type arguments that is called.

    sum<float3, 4>      Foo<int>.bar      bwd_diff(square)

A call asks for the signature of its callee, which enters the callee into the worklist; names are readable and
unique. Recursion is refused here: everything is inlined later.
"""

from __future__ import annotations

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Options
from slangrad.base.recursion import deep_recursion
from slangrad.base.source import Span
from slangrad.check import checked
from slangrad.check import types as checked_types
from slangrad.check.declref import DeclRef
from slangrad.check.modules import Program as CheckedProgram
from slangrad.ir import core
from slangrad.ir.types import Type, struct
from slangrad.lower import derivatives, functions
from slangrad.lower.signatures import Signature, SignatureParameter
from slangrad.lower.type_map import TypeMap
from slangrad.syntax import ast

DIRECTIONS = {"in": "in", "constref": "in", "out": "out", "inout": "inout", "ref": "inout"}


class Lowering:
    """One program being lowered, from its entry points on."""

    def __init__(self, program: CheckedProgram, options: Options, reporter: Reporter) -> None:
        self.program, self.options, self.reporter = program, options, reporter
        self.ir = core.Program()
        self.types = TypeMap(program, self.ir, reporter)
        self.arguments: dict[str, Type] = {}  # parameters of the launch, by name, in order of first use
        self._signatures: dict[tuple[object, ...], Signature] = {}
        self._names: dict[str, int] = {}
        self._worklist: list[tuple[Signature, DeclRef]] = []
        self._derived: dict[tuple[object, ...], Signature] = {}
        self._callees: dict[str, dict[str, Span | None]] = {}

    def function(self, reference: DeclRef) -> Signature:
        """The signature of a function with concrete type arguments; its body is lowered later."""
        found = self._signatures.get(reference.key)
        if found is None:
            found = self._signatures[reference.key] = self._declare(reference)
            self._worklist.append((found, reference))
        return found

    def derivative(
        self, mode: str, of: Signature, shape: checked_types.FunctionType, span: Span | None
    ) -> Signature:
        """A function with the calling conventions of `fwd_diff(f)` or `bwd_diff(f)` around a request."""
        key = (mode, of.name)
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = self._derived_signature(mode, of, shape)
            self.ir.add(derivatives.lower_derivative(self, mode, of, found, span))
        return found

    def finish(self) -> core.Program:
        """Lower everything that was asked for, and what that asks for."""
        while self._worklist:
            signature, reference = self._worklist.pop()
            self._limit_instances(reference)
            if self.reporter.has_errors:
                break
            self.ir.add(functions.lower_function(self, signature, reference))
        self._refuse_recursion()
        return self.ir

    def calls(self, caller: str, callee: str, span: Span | None) -> None:
        """Note a call, to find recursion."""
        self._callees.setdefault(caller, {}).setdefault(callee, span)

    def unique(self, wanted: str) -> str:
        """The name, with a number behind it when an overload has it already."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}#{count + 1}"

    def _limit_instances(self, reference: DeclRef) -> None:
        if len(self._signatures) > self.options.limits.instances:
            self.reporter.error(
                "E0702",
                f"more than {self.options.limits.instances} instances of functions, the last one '{reference}'",
                reference.declaration.span,
                "does a generic function call itself with ever new arguments?",
            )

    def _declare(self, reference: DeclRef) -> Signature:
        info: checked.FunctionInfo = self.program.info(reference.declaration)
        differentiable = info.level != "none"
        parameters = []
        constructs = isinstance(reference.declaration, ast.Constructor)
        if info.this_type is not None and not constructs:
            parameters.append(
                self._parameter(
                    "this",
                    reference,
                    info.this_type,
                    "inout" if info.mutating else "in",
                    info.no_diff_this,
                    differentiable,
                )
            )
        for declared in info.parameters:
            own = self.program.info(declared)
            parameters.append(
                self._parameter(
                    declared.name, reference, own.type, own.direction, own.no_diff, differentiable
                )
            )
        declared = info.this_type if constructs and info.this_type is not None else info.result
        result = self.program.substitute(declared, reference.substitution)
        returns = result is not checked_types.VOID
        return Signature(
            name=self.unique(str(reference)),
            parameters=tuple(parameters),
            result=result,
            result_type=self.types.of(result, reference.declaration.span) if returns else None,
            result_differentiable=differentiable
            and returns
            and not info.no_diff_result
            and self.program.differential(result) is not None,
            cut_results=not differentiable,
        )

    def _parameter(
        self,
        name: str,
        of: DeclRef,
        declared: checked_types.Type,
        direction: str,
        no_diff: bool,
        differentiable: bool,
    ) -> SignatureParameter:
        concrete = self.program.substitute(declared, of.substitution)
        has_tangent = self.program.differential(concrete) is not None
        carries = differentiable and not no_diff and has_tangent
        lowered = self.types.of(concrete, of.declaration.span)
        return SignatureParameter(
            name, concrete, lowered, DIRECTIONS[direction], carries, has_tangent and not carries
        )

    def _derived_signature(self, mode: str, of: Signature, shape: checked_types.FunctionType) -> Signature:
        parameters = tuple(
            self._shape_parameter(p.name or f"p{i}", p) for i, p in enumerate(shape.parameters)
        )
        returns = shape.result is not checked_types.VOID
        word = "fwd_diff" if mode == "forward" else "bwd_diff"
        return Signature(
            name=f"{word}({of.name})",
            parameters=parameters,
            result=shape.result,
            result_type=self.types.of(shape.result) if returns else None,
            result_differentiable=returns and self.program.differential(shape.result) is not None,
            cut_results=False,
        )

    def _shape_parameter(self, name: str, p: checked_types.FunctionParameter) -> SignatureParameter:
        has_tangent = self.program.differential(p.type) is not None
        direction = DIRECTIONS[p.direction]
        return SignatureParameter(
            name, p.type, self.types.of(p.type), direction, has_tangent and not p.no_diff, False
        )

    def _refuse_recursion(self) -> None:
        done: set[str] = set()
        for start in self._callees:
            cycle = _find_cycle(start, self._callees, done)
            if cycle:
                caller, callee = cycle
                self.reporter.error(
                    "E0703",
                    f"'{callee}' calls itself, directly or through others; recursion is not supported",
                    self._callees[caller][callee],
                    "write it as a loop",
                )
                return


def _find_cycle(
    start: str, callees: dict[str, dict[str, Span | None]], done: set[str]
) -> tuple[str, str] | None:
    """An edge (caller, callee) that closes a cycle, by depth-first search without recursion."""
    path: list[str] = [start]
    pending = [iter(callees.get(start, ()))]
    while pending:
        callee = next(pending[-1], None)
        if callee is None:
            pending.pop()
            done.add(path.pop())
        elif callee in path:
            return path[-1], callee
        elif callee not in done:
            path.append(callee)
            pending.append(iter(callees.get(callee, ())))
    return None


def lower_program(
    program: CheckedProgram, kernel: ast.Function, options: Options
) -> tuple[core.Program, str]:
    """A kernel with everything it calls, and its name; CompileError for what has no IR form."""
    reporter = Reporter()
    lowering = Lowering(program, options, reporter)
    with deep_recursion():
        entry = functions.lower_kernel(lowering, kernel)
        lowered = lowering.finish()
    reporter.raise_if_errors()
    lowered.add(entry)
    lowered.arguments = struct("arguments", tuple(lowering.arguments.items()))
    return lowered, entry.name


def lower_functions(
    program: CheckedProgram, references: list[DeclRef], options: Options
) -> tuple[core.Program, list[str]]:
    """Functions with everything they call, and their names, without a kernel around them."""
    reporter = Reporter()
    lowering = Lowering(program, options, reporter)
    with deep_recursion():
        names = [lowering.function(each).name for each in references]
        lowered = lowering.finish()
    reporter.raise_if_errors()
    return lowered, names
