"""Monomorphization: one IR function for each function declaration and list of type arguments that is called.

    sum<float3, 4>      Foo<int>.bar      bwd_diff(square)

A call asks for the signature of its callee, which enters the callee into the worklist; names are readable and
unique. Functions that call themselves become loops (`recursion`); generics with endless instances are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Options, limit_note
from slangrad.base.source import Span
from slangrad.check.generics.signatures import declared_parameters, signature_of
from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.data.types import Type
from slangrad.ir.ops import core
from slangrad.lower.instances import derivatives, functions
from slangrad.lower.instances.initializers import Initializers
from slangrad.lower.instances.referring import lower_referring
from slangrad.lower.model.alternatives import Alternatives
from slangrad.lower.model.frame import Frame, Lowering, Referring
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.recursion.recursion import remove_recursion
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast

# fmt: off
DIRECTIONS = {"in": "in", "constref": "in", "out": "out", "inout": "inout", "ref": "inout"}
# fmt: on


class Instances(Lowering):
    """One program being lowered, from its entry points on."""

    def __init__(
        self, program: CheckedProgram, options: Options, reporter: Reporter, alternatives: Alternatives
    ) -> None:
        super().__init__(program, options, reporter, alternatives)
        self._signatures: dict[tuple[object, ...], Signature] = {}
        self._worklist: list[tuple[Signature, DeclRef]] = []
        self._wanted: set[str] = set()  # names of all functions that entered the worklist
        self._referring: dict[tuple[object, ...], Referring] = {}
        self._entered: list[tuple[object, ...]] = []  # those being lowered
        self._derived: dict[tuple[object, ...], Signature] = {}
        self._initializers = Initializers(self)

    def function(self, reference: DeclRef, caller: Frame | None = None) -> Signature:
        """The signature of a function with concrete type arguments; its body is lowered later."""
        signature = self.signature(reference, caller)
        self._want(signature, reference)
        return signature

    def signature(self, reference: DeclRef, caller: Frame | None = None) -> Signature:
        """The same, without a request for its body."""
        signature = self._signatures.get(reference.key)
        if signature is None:
            self._refuse_endless(reference, caller)
            signature = self._signatures[reference.key] = self._declare(reference)
            self._note_caller(signature, reference, caller)
        return signature

    def lent(self, reference: DeclRef, lent_types: tuple[Type | None, ...], caller: Frame) -> Signature:
        """The function with some of its parameters as memory of the caller: what is passed for each of these."""
        key = (*reference.key, lent_types)
        signature = self._signatures.get(key)
        if signature is None:
            plain = self.signature(reference, caller)
            parameters = (
                p if t is None else _lent(p, t) for p, t in zip(plain.parameters, lent_types, strict=True)
            )
            name = self.unique(f"{plain.name}.lent")
            signature = self._signatures[key] = replace(plain, name=name, parameters=tuple(parameters))
            self._note_caller(signature, reference, caller)
            self._want(signature, reference)
        return signature

    def _note_caller(self, callee: Signature, reference: DeclRef, caller: Frame | None) -> None:
        self.asked_by[callee.name] = (reference, None if caller is None else caller.name)
        self.asked_at[callee.name] = None if caller is None else caller.b.span

    def _want(self, signature: Signature, reference: DeclRef) -> None:
        """Its body is lowered, once."""
        if signature.name not in self._wanted:
            self._wanted.add(signature.name)
            self._worklist.append((signature, reference))

    def referring(self, reference: DeclRef) -> Referring:
        """The function of a `ref` accessor, which returns the descriptor of the place."""
        referring = self._referring.get(reference.key)
        if referring is None:
            self._refuse_circle(reference)
            self._entered.append(reference.key)
            signature = self._declare(reference)
            name = self.unique(f"{signature.name}.place")
            signature = replace(signature, name=name, result=checked_types.VOID, result_type=None, dual=None)
            signature = replace(signature, result_differentiable=False)
            referring = self._referring[reference.key] = lower_referring(self, signature, reference)
            self._entered.pop()
        return referring

    def derivative(
        self, mode: str, of: Signature, shape: checked_types.FunctionType, span: Span | None
    ) -> Signature:
        """A function with the calling conventions of `fwd_diff(f)` or `bwd_diff(f)` around a request."""
        key = (mode, of.name, len(shape.parameters))
        signature = self._derived.get(key)
        if signature is None:
            signature = self._derived[key] = self._derived_signature(mode, of, shape)
            self.ir.add(derivatives.lower_derivative(self, mode, of, signature, span))
        return signature

    def finish(self) -> core.Program:
        """Lower all requested functions, and those that they request."""
        while not self.reporter.has_errors and (self._lower_next() or self._initializers.lower_next()):
            pass
        self._initializers.number()
        self.alternatives.report(self.reporter)
        if not self.reporter.has_errors:
            remove_recursion(self.ir, self.options.limits.recursion_depth, self.reporter)
        return self.ir

    def _lower_next(self) -> bool:
        """Lower one function that waits; whether there was one."""
        if not self._worklist:
            return False
        signature, reference = self._worklist.pop()
        self.ir.add(functions.lower_function(self, signature, reference))
        return True

    # --- signatures

    def _declare(self, reference: DeclRef) -> Signature:
        info: checked.FunctionInfo = self.program.info(reference.declaration)
        self.program.refusals.require_none(reference.declaration.span)
        differentiable = info.level != "none" or info.treat_as_differentiable
        result = self.program.substitute(info.result, reference.substitution)
        returns = result is not checked_types.VOID
        carries = returns and not info.no_diff_result and self.tangents.has_tangent(result)
        return Signature(
            name=self.unique(_readable(reference)),
            parameters=(
                *self._this_parameter(reference, info, differentiable),
                *self._declared_parameters(reference, differentiable),
                *self._thrown(reference, info, differentiable),
            ),
            result=result,
            result_type=self.types.of(result, reference.declaration.span) if returns else None,
            result_differentiable=differentiable and carries,
            differentiable=differentiable,
            dual=self.tangents.dual(result) if differentiable and not info.no_diff_result else None,
            throws=info.throws is not None,
        )

    def _thrown(
        self, of: DeclRef, info: checked.FunctionInfo, differentiable: bool
    ) -> Iterator[SignatureParameter]:
        """The further results of a function that throws: whether it did, and the error."""
        if info.throws is not None:
            yield self._parameter("thrown", of, checked_types.BOOL, "out", False)
            yield self._parameter("error", of, info.throws, "out", differentiable)

    def _this_parameter(
        self, of: DeclRef, info: checked.FunctionInfo, differentiable: bool
    ) -> Iterator[SignatureParameter]:
        key, constructs = dispatched(self, of), isinstance(of.declaration, ast.Constructor)
        if (constructs or info.this_type is None) and isinstance(key, ast.Interface):
            # the object that decides the type
            yield self._parameter("this", of, checked_types.parameter_type(key), "in", False)
        if info.this_type is not None and not constructs:
            direction = "inout" if info.mutating else "in"
            yield self._parameter(
                "this", of, info.this_type, direction, differentiable and not info.no_diff_this
            )

    def _declared_parameters(self, of: DeclRef, differentiable: bool) -> Iterator[SignatureParameter]:
        """One for each element of a pack."""
        declared = declared_parameters(self.program, of)
        for parameter, instance in zip(declared, signature_of(self.program, of).parameters, strict=True):
            yield self._parameter(
                parameter.name, of, instance.type, instance.direction, differentiable and not instance.no_diff
            )

    def _parameter(
        self, name: str, of: DeclRef, declared: checked_types.Type, direction: str, differentiable: bool
    ) -> SignatureParameter:
        concrete = self.program.substitute(declared, of.substitution)
        lowered = self.types.of(concrete, of.declaration.span)
        has_tangent = self.tangents.has_tangent(concrete)
        carries = differentiable and has_tangent
        cut, dual = has_tangent and not carries, self.tangents.dual(concrete) if differentiable else None
        return SignatureParameter(name, concrete, lowered, DIRECTIONS[direction], carries, cut, dual)

    def _derived_signature(self, mode: str, of: Signature, shape: checked_types.FunctionType) -> Signature:
        """`shape` is without the `this` of `fwd_diff(object.method)`, which is then passed as it is."""
        this = of.parameters[:1] if of.has_this else ()
        passed = [replace(p, direction=_of_this(mode, p), differentiable=False, cut=True) for p in this]
        word = "fwd_diff" if mode == "forward" else "bwd_diff"
        counts_this = _count(mode, of) == len(shape.parameters)
        returns = shape.result is not checked_types.VOID
        return Signature(
            name=self.unique(f"{word}({of.name})"),
            parameters=(
                *(() if counts_this else passed),
                *(self._shape_parameter(p.name or f"p{i}", p) for i, p in enumerate(shape.parameters)),
            ),
            result=shape.result,
            result_type=self.types.of(shape.result) if returns else None,
            result_differentiable=returns and self.tangents.has_tangent(shape.result),
            differentiable=True,
        )

    def _shape_parameter(self, name: str, p: checked_types.FunctionParameter) -> SignatureParameter:
        has_tangent = self.tangents.has_tangent(p.type)
        direction = DIRECTIONS[p.direction]
        return SignatureParameter(
            name, p.type, self.types.of(p.type), direction, has_tangent and not p.no_diff, False
        )

    # --- endless instances

    def _refuse_endless(self, reference: DeclRef, caller: Frame | None) -> None:
        """Raise when a generic asks for instance after instance of itself, or for too many in all."""
        limits = self.options.limits
        span = reference.declaration.span if caller is None else caller.b.span
        depth, name = 0, None if caller is None else caller.name
        while reference.arguments and name is not None and name in self.asked_by:
            other, name = self.asked_by[name]
            depth += other.declaration is reference.declaration
        heavy = checked_types.weight_of(reference.arguments) > checked_types.HEAVIEST
        name = reference.declaration.name
        if depth > limits.generic_depth or heavy:
            message = f"'{name}' needs endless instances of itself"
            note = f"it is {limits.generic_depth} deep already; {limit_note('generic_depth')}"
        elif len(self._signatures) > limits.instances:
            message = f"the program needs more than {limits.instances} functions, '{name}' the next of them"
            note = limit_note("instances")
        else:
            return
        self.reporter.error("E0702", message, span, note)
        self.reporter.raise_if_errors()

    def _refuse_circle(self, reference: DeclRef) -> None:
        """Raise where the place that a `ref` accessor returns is one that it returns."""
        if reference.key in self._entered:
            name = reference.declaration.parent.name
            message = f"the place that 'ref' of '{name}' returns depends on one that it returns"
            self.reporter.error("E0321", message, reference.declaration.span, "write 'get' and 'set' instead")
            self.reporter.raise_if_errors()


def _lent(p: SignatureParameter, t: Type) -> SignatureParameter:
    return replace(p, type=t, direction="in", differentiable=False, cut=False, dual=None, lent=True)


def _readable(reference: DeclRef) -> str:
    declared = reference.declaration
    if isinstance(declared, ast.Accessor):
        return f"{DeclRef(declared.parent, reference.substitution)}.{declared.name}"
    return str(reference) or "lambda"


def _of_this(mode: str, this: SignatureParameter) -> str:
    """Going backward nothing is written to an object that is passed as it is."""
    return this.direction if mode == "forward" else "in"


def _count(mode: str, of: Signature) -> int:
    """How many parameters a derivative has when `this` is one of them."""
    if mode == "forward":
        return len(of.parameters)
    dropped = sum(p.direction == "out" and not p.differentiable for p in of.parameters)
    return len(of.parameters) - dropped + of.result_differentiable
