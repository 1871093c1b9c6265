"""Requests for derivatives become calls of functions made here.

    %dx = vjp @f %x, %ct        %dx = call @f.vjp %x, %ct        and the program has @f.vjp

Callees are processed before the functions that use them, so a derivative of code that itself asks for
derivatives is only another round. Custom derivatives are wrapped (signatures.py); primal substitutes replace their
functions. Calls are inlined before differentiation, by a function that the pipeline hands in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slangrad.autodiff.analyses.activity import Activity, Callee
from slangrad.autodiff.analyses.effects import Effects
from slangrad.autodiff.analyses.halves import MOST_BYTES, Halves, cost_of, may_be_handed, residual_type
from slangrad.autodiff.analyses.loop_tree import LoopTree
from slangrad.autodiff.analyses.zero_propagation import zero_results
from slangrad.autodiff.checkpointing.loop_choice import LoopChoice
from slangrad.autodiff.checkpointing.loop_splitting import Segments, split_loops, without_reports
from slangrad.autodiff.checkpointing.plan import Wishes, plan
from slangrad.autodiff.checkpointing.report import Report, report
from slangrad.autodiff.duals import Duals, dual_by_derivative, dual_function, without_pairs
from slangrad.autodiff.signatures import (
    forward_function,
    input_flags,
    jvp_function,
    parameters_with,
    result_flags,
    reverse_function,
    vjp_function,
    wrap_jvp,
    wrap_vjp,
)
from slangrad.autodiff.sweeps.forward import jvp
from slangrad.autodiff.sweeps.reverse import Planned, forward_half, handed_types, planned, reverse_half, vjp
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import CUT, STORE
from slangrad.base.source import Span
from slangrad.base.traits import CPU, Traits
from slangrad.ir.analyses.calls import called
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op, defined_in
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Struct
from slangrad.ir.ops.core import Derivatives, Function, FunctionAttributes, Op, Program, Region, Value, walk
from slangrad.ir.ops.primitives import REQUESTS

Keep = Callable[[Function], bool]
Flags = tuple[bool, ...]
Inline = Callable[[Program, Function, Keep], Function]
"""The function with its calls inlined, and theirs, but for the calls of functions to keep."""


READ_AGAIN = 4  # of a call's cost is one part, where others read the same memory: it lies in a cache


@dataclass(slots=True)
class Differentiated:
    """The program without requests, and a report for each vjp made, by the name of the function."""

    program: Program
    reports: dict[str, Report] = field(default_factory=dict)


def differentiate(
    program: Program, inline: Inline, segment_trips: int = 0, residuals: str = CUT, traits: Traits = CPU
) -> Differentiated:
    """`segment_trips`: how many iterations of loops without a small bound are kept at a time; 0: all."""
    requests = _Requests(program, inline, segment_trips, residuals, traits)
    of_types = [name for d in program.differentials.values() for name in (d.zero, d.add) if name is not None]
    for name in (*of_types, *program.functions):
        requests.process(name)
    return requests.result


@dataclass(frozen=True, slots=True)
class _Preferences:
    """ "recompute", "checkpoint" or "": a function's own, and those of values from other functions."""

    own: str
    of_values: dict[Value, str]

    def of(self, value: Value) -> str:
        return self.of_values.get(value, self.own)

    def moved(self, old: dict[Value, Value]) -> _Preferences:
        """For values that were made from others."""
        of = {new: self.of_values[was] for new, was in old.items() if was in self.of_values}
        return _Preferences(self.own, of)


class _Requests:
    def __init__(
        self, program: Program, inline: Inline, segment_trips: int, residuals: str, traits: Traits
    ) -> None:
        result = replace(program, functions={}, duals={})
        self.result = Differentiated(result)
        self._old = program.functions
        self._new = result.functions
        self._inline = inline
        self._segment_trips = segment_trips
        self._residuals = residuals
        self._traits = traits
        self._wishes: dict[Region, _Preferences] = {}  # of segments, which are ready to be differentiated
        self._space = VectorSpace(program.differentials)
        self._started: set[str] = set()
        self._callees: dict[tuple[str, str], Callee] = {}
        self._effects = Effects(self._new)
        self._halves_of: dict[str, Halves | None] = {}
        self._costs: dict[str, int] = {}
        self._writes = False  # the code that is differentiated backwards writes memory
        self._duals = Duals(program.duals)
        self._halved_names: set[str] = set()

    def process(self, name: str) -> None:
        """Put the function into the new program, without requests and after the functions it uses."""
        if name in self._started or name not in self._old:
            return
        self._started.add(name)
        function = self._old[name]
        for used in _used(function):
            self.process(used)
        if "dual_of" in function.attributes:
            self._dual(function.attributes["dual_of"])
            return
        if any(op.name in REQUESTS for op in walk(function.region)):
            function = Rebuild({"jvp": self._request, "vjp": self._request}).function(function)
        self._new[name] = function

    def _request(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        derivative = self._derivative(op.attributes["callee"], op.name, op.span)
        types = tuple(r.type for r in op.results)
        f = self._new[derivative]
        operands = walk.values(op.operands)
        assert tuple(v.type for v in operands) == tuple(p.type for p in f.inputs), (op.name, f.name)
        assert types == f.result_types, (op.name, f.name)
        return b.call(derivative, operands, types)

    # --- derivative functions

    def _derivative(self, name: str, mode: str, span: Span | None) -> str:
        """The name of a function's derivative, which is made if need be."""
        f, custom = self._new[name], _custom(self._new[name], mode)
        if _is_substituted(f, mode):
            return self._derivative(self._substitute(f, mode), mode, span)
        derivative = f"{name}.{mode}"
        if derivative not in self._new:
            if custom is None and f.attributes.get("bodiless"):
                raise CompileError([_missing(f, mode, span)])
            self._new[derivative] = self._settled(name, self._derivative_function(f, mode, custom))
        return derivative

    def _settled(self, name: str, derivative: Function) -> Function:
        """The derivative of a function of pointers in two halves: from there on these are pointers like others."""
        if name not in self._halved_names:
            return derivative
        return self._inline(self.result.program, derivative, lambda g: g.name not in self._halved_names)

    def _derivative_function(self, f: Function, mode: str, custom: str | None = None) -> Function:
        if custom is not None:
            wrap = wrap_jvp if mode == "jvp" else wrap_vjp
            return wrap(f, self._new[custom], self._space)
        if mode == "jvp":
            return self._forwarded(f)
        outer, self._writes = self._writes, self._writes or self._effects.of_any("stores", f)
        function = self._reversed(f)
        self._writes = outer
        return function

    def _forwarded(self, f: Function) -> Function:
        ready = self._ready(f, "jvp", lambda g: False)
        inputs, results = input_flags(f, self._space), result_flags(f, self._space)
        region = jvp(ready.region, inputs, results, self._space, lambda name: self._callee(name, "jvp"))
        return jvp_function(f, region, self._space)

    def _reversed(self, f: Function) -> Function:
        ready, preferences = self._prepared(f)
        prepared = self._planned(f, ready, preferences)
        chosen = self._long_loops(prepared)
        if chosen:
            ready, preferences = self._cut(ready, preferences, chosen, prepared.tree)
            prepared = self._planned(f, ready, preferences)
        function = vjp_function(f, vjp(prepared, self._space, self._vjp_callee), self._space)
        self.result.reports[function.name] = report(function.name, prepared.tree, prepared.plan)
        return function

    def _prepared(self, f: Function) -> tuple[Function, _Preferences]:
        """The function with calls only to functions that stay, and the preferences for its values."""
        if f.region in self._wishes:
            ready, old = without_reports(f)
            return ready, self._wishes[f.region].moved(old)
        ready, of_values = self._expanded(self._ready(f, "vjp", _has_preference))
        preferences = _Preferences(_preference(f), of_values)
        if not f.attributes.get("segment"):
            return ready, preferences
        ready, old = without_reports(ready)
        return ready, preferences.moved(old)

    def _planned(
        self, f: Function, ready: Function, preferences: _Preferences, handed: bool = False
    ) -> Planned:
        inputs, results = input_flags(f, self._space), result_flags(f, self._space)
        wishes = self._wishes_of(preferences)
        if self._traits.reads_again and not handed and self._is_quiet(ready.region, adds_to_tensors=True):
            wishes = replace(wishes, reads_again=self._only_reads)
        activity = Activity(self._space, self._vjp_callee)
        return planned(ready.region, inputs, results, activity, wishes, handed)

    def _wishes_of(self, preferences: _Preferences) -> Wishes:
        return Wishes(preferences.of, self._may_repeat, self._residuals, keeping=self._traits.keeping)

    def _vjp_callee(self, name: str) -> Callee:
        return self._callee(name, "vjp")

    def _is_quiet(self, region: Region, adds_to_tensors: bool = False) -> bool:
        """Whether what it reads is still there when it runs again. `adds_to_tensors`: the reverse sweep may add to
        gradients of tensors, whose memory a call does not read otherwise."""
        return not any(
            self._effects.of_op("changes", op)
            or (self._op_gives(op) and not (adds_to_tensors and self._is_of_library(op)))
            for op in walk(region)
        )

    def _is_of_library(self, call: Op) -> bool:
        return bool(self._new[call.attributes["callee"]].attributes.get("library"))

    def _only_reads(self, op: Op) -> int | None:
        """The price of a call of the library of which nothing shows but reports; None for other calls."""
        name = op.attributes["callee"]
        f = self._new[name]
        is_known = not f.attributes.get("bodiless") and not f.attributes.get("drop_primal")
        again = is_known and self._is_of_library(op) and not self._effects.of("changes", name)
        return max(self._cost(name) // READ_AGAIN, 1) if again else None

    # --- loops in segments

    def _long_loops(self, prepared: Planned) -> dict[Op, Segments]:
        if not self._segment_trips or not prepared.plan.taped:
            return {}
        is_quiet = self._is_quiet(prepared.region)
        may_run_again = lambda op: (
            not self._effects.of_op("changes", op) and (is_quiet or not self._effects.of_op("reads", op))
        )
        return LoopChoice(
            prepared.tree, prepared.plan, prepared.activity, may_run_again, self._segment_trips
        ).chosen

    def _cut(
        self, ready: Function, preferences: _Preferences, chosen: dict[Op, Segments], tree: LoopTree
    ) -> tuple[Function, _Preferences]:
        constants = {v: op for v, op in tree.makers.items() if tree.is_constant(v)}
        split = split_loops(ready, chosen, constants)
        changed = preferences.moved(split.old)
        for segment in split.segments:
            self._new[segment.name] = segment
            self._wishes[segment.region] = changed
        return split.function, changed

    def _segment(self, f: Function, mode: str, inputs: Flags, results: Flags) -> Callee:
        """The derivative of a segment, or of a function that stays, for some active inputs and results. The vjp of a
        segment runs it again, as does that of a function which would hand too much to its reverse half."""
        flags = "".join(str(int(flag)) for flag in (*inputs, *results))
        parameters = parameters_with(f, inputs, results)
        flagged = Function(
            f"{f.name}.{flags}", parameters, None, f.region, attributes=f.attributes, span=f.span
        )
        inputs, results = input_flags(flagged, self._space), result_flags(flagged, self._space)
        halves = self._halves(flagged) if mode == "vjp" else None
        if halves is not None:
            acts = self._effects.of("acts", halves.reverse)
            return Callee("", inputs, results, acts, acts, halves=halves)
        derivative = self._whole(flagged, mode)
        acts = self._effects.of("acts", derivative)
        return Callee(derivative, inputs, results, acts, acts)

    def _whole(self, f: Function, mode: str) -> str:
        """The name of a derivative that does not report, as the function did."""
        name = f"{f.name}.{mode}"
        if name not in self._new:
            attributes: FunctionAttributes = {**f.attributes, "segment": True}
            derivative = self._derivative_function(replace(f, attributes=attributes), mode)
            self._new[name] = replace(derivative, attributes=f.attributes)
        return name

    # --- in two halves

    def _halves(self, f: Function) -> Halves | None:
        """The halves of the vjp of a function that stays. None if running it again is better."""
        if f.attributes.get("segment"):
            return None
        if f.name not in self._halves_of:
            self._halves_of[f.name] = self._made_halves(f)
        return self._halves_of[f.name]

    def _made_halves(self, f: Function) -> Halves | None:
        ready, preferences = self._prepared(f)
        wishes = self._wishes_of(preferences)
        prepared = self._planned(f, ready, preferences, handed=True)
        t = residual_type(f.name, handed_types(prepared.plan))
        if self._hands_too_much(t):
            again = replace(wishes, runs_calls_again=True)
            prepared = replace(prepared, plan=plan(prepared.tree, prepared.plan.needs, again))
            t = residual_type(f.name, handed_types(prepared.plan))
            if self._hands_too_much(t):
                return None
        if t is not None:
            self._space.add_struct(t)
        forward = forward_function(f, forward_half(prepared, self._vjp_callee, t), t)
        reverse, takes = reverse_function(f, reverse_half(prepared, self._space, t), t, self._space)
        self._new.update({half.name: half for half in (forward, reverse)})
        self.result.reports[reverse.name] = report(reverse.name, prepared.tree, prepared.plan, handed=True)
        cost = cost_of(f.region, self._cost)
        return Halves(forward.name, reverse.name, takes, t, cost, lambda: self._whole(f, "vjp"))

    def _hands_too_much(self, t: Struct | None) -> bool:
        if t is None:
            return False
        return not may_be_handed(t) or (self._residuals != STORE and layout_of(t).size > MOST_BYTES)

    def _cost(self, name: str) -> int:
        """The cost of running a function."""
        if name not in self._costs:
            self._costs[name] = cost_of(self._new[name].region, self._cost)
        return self._costs[name]

    def _ready(self, f: Function, mode: str, also_keep: Keep) -> Function:
        """The function with calls only to functions that have a custom derivative, or are to be kept."""

        def keep(g: Function) -> bool:
            return self._stays(g, mode) or _is_substituted(g, mode) or also_keep(g)

        def substitute(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
            g = self._new[op.attributes["callee"]]
            if not _is_substituted(g, mode):
                return copy_op(walk, b, op)
            types, name = tuple(r.type for r in op.results), self._substitute(g, mode)
            return b.call(name, walk.values(op.operands), types)

        ready = self._inline(self.result.program, f, keep)
        while any(_is_substituted(self._new[name], mode) for name in called(ready)):
            changed = Rebuild({"call": substitute}).function(ready)
            ready = self._inline(self.result.program, changed, keep)
        return ready

    def _substitute(self, f: Function, mode: str) -> str:
        """The name of the function that is differentiated in place of this one. Calls in a forward pass of the
        user's own are inlined into it: no derivative goes through them."""
        name = _substitute(f, mode)
        assert name is not None, f.name
        substitute = self._new[name]
        context = substitute.attributes.get("context")
        if context is not None and any(callee != context for callee in called(substitute)):
            self._new[name] = self._inline(self.result.program, substitute, lambda g: g.name == context)
        return name

    def _expanded(self, f: Function) -> tuple[Function, dict[Value, str]]:
        """Functions with a preference inlined into `f`, and which values have which preference by that."""
        preferences: dict[Value, str] = {}

        def call(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
            g = self._new[op.attributes["callee"]]
            if self._stays(g, "vjp"):
                return copy_op(walk, b, op)
            body, inner = self._expanded(self._ready(g, "vjp", _has_preference))
            walk.new.update(zip(body.region.parameters, walk.values(op.operands), strict=True))
            with walk.called_from(b.span):
                results = walk.inline(b, body.region)
            for old in defined_in(body.region) - set(body.region.parameters):
                preferences.setdefault(walk.new[old], inner.get(old, _preference(g)))
            return results

        if all(self._stays(self._new[name], "vjp") for name in called(f)):
            return f, preferences
        return Rebuild({"call": call}).function(f), preferences

    # --- pointers

    def _dual(self, name: str) -> str:
        """The name of the function with its pointers in two halves; see duals.py."""
        f, dual = self._new[name], f"{name}.dual"
        if dual in self._new:
            return dual
        self._halved_names.add(dual)
        if self._moves_pointers(f):
            self._new[dual] = self._by_derivative(f)
            return dual
        stay = lambda g: g.derivatives is not None or "of_pointers" in g.attributes
        ready = self._inline(self.result.program, f, stay)
        _refuse_nested(f, [self._new[name] for name in called(ready)])
        function = dual_function(ready, self._duals, self._dual_of)
        if f.derivatives is not None:
            derivatives = f.derivatives
            names = derivatives.jvp, derivatives.vjp
            jvp, vjp = (None if name is None else self._halved(name) for name in names)
            substitute = derivatives.primal_substitute
            function.derivatives = Derivatives(
                jvp, vjp, None if substitute is None else self._dual(substitute)
            )
        self._new[dual] = function
        return dual

    def _dual_of(self, name: str) -> tuple[Function, Function] | None:
        f = self._new[name]
        return (f, self._new[self._dual(name)]) if self._duals.has_any(f) else None

    def _moves_pointers(self, f: Function) -> bool:
        """Whether a forward derivative of the user's own says where the other half of a result is."""
        has_jvp = f.derivatives is not None and f.derivatives.jvp is not None
        return has_jvp and any(self._duals.results(f)) and not any(result_flags(f, self._space))

    def _by_derivative(self, f: Function) -> Function:
        assert f.derivatives is not None and f.derivatives.jvp is not None
        user = self._new[self._halved(f.derivatives.jvp)]
        return dual_by_derivative(f, user, self._duals, self._space)

    def _halved(self, name: str) -> str:
        """The name of a derivative of the user's own with its pairs of pointers in two halves."""
        halved = without_pairs(self._new[name], self._duals)
        self._new.setdefault(halved.name, halved)
        return halved.name

    # --- calls that stay

    def _callee(self, name: str, mode: str) -> Callee:
        callee = self._callees.get((name, mode))
        if callee is None:
            callee = self._callees[name, mode] = self._describe(self._new[name], mode)
        return callee

    def _describe(self, f: Function, mode: str) -> Callee:
        if _is_repeated(f):
            flags = (False,) * len(f.inputs), (False,) * len(f.outputs)
            made_for = lambda inputs, results: self._segment(f, mode, inputs, results)
            return Callee("", *flags, body=f.region, made_for=made_for)
        derivative = self._derivative(f.name, mode, f.span)
        inputs, results = input_flags(f, self._space), result_flags(f, self._space)
        brings = mode == "jvp" and (
            bool(f.attributes.get("bodiless")) or self._brings(derivative, inputs, results)
        )
        source = self._effects.of("acts", derivative) or brings
        drop = bool(f.attributes.get("drop_primal"))
        opened = f.region if f.attributes.get("open_primal") else None
        return Callee(derivative, inputs, results, source, any(inputs) and not any(results), drop, opened)

    def _brings(self, derivative: str, inputs: Flags, results: Flags) -> bool:
        """Whether a jvp has nonzero tangents for zero tangents, by the user's own derivative."""
        are_zero = (*(False for _ in inputs), *(True for flag in inputs if flag))
        results_zero = zero_results(self._new, derivative, are_zero)
        return any(zeros is not True for zeros in results_zero[len(results) :])

    def _op_gives(self, op: Op) -> bool:
        """Whether the reverse sweep of a call writes memory, perhaps memory that a segment reads: gradients are
        added so."""
        if op.name != "call":
            return False
        derivative = self._vjp_callee(op.attributes["callee"]).derivative
        return bool(derivative) and self._effects.of("changes", derivative)

    def _stays(self, f: Function, mode: str) -> bool:
        """Whether calls of a function are differentiated as calls. Those of pointers are if these have two halves."""
        if f.attributes.get("segment"):
            return not self._effects.of("changes", f.name)
        if self._duals.has_any(f):
            return False
        if f.attributes.get("kept"):
            may_run_again = mode == "jvp" or not (self._writes and self._effects.of("reads", f.name))
            return may_run_again and not self._effects.of("changes", f.name)
        return _custom(f, mode) is not None or bool(f.attributes.get("bodiless"))

    def _may_repeat(self, op: Op) -> bool:
        """Whether the reverse sweep may run a call again: its function asks for it and only computes."""
        f = self._new[op.attributes["callee"]]
        return _preference(f) == "recompute" and not self._effects.of("acts", f.name)


def _custom(f: Function, mode: str) -> str | None:
    if f.derivatives is None:
        return None
    return f.derivatives.jvp if mode == "jvp" else f.derivatives.vjp


def _substitute(f: Function, mode: str) -> str | None:
    """The function that is differentiated in place of this one."""
    if f.derivatives is None:
        return None
    applied = f.derivatives.applied if mode == "vjp" else None
    return f.derivatives.primal_substitute if applied is None else applied


def _is_substituted(f: Function, mode: str) -> bool:
    return _custom(f, mode) is None and _substitute(f, mode) is not None


def _is_repeated(f: Function) -> bool:
    """Whether it stays a function, whose derivative is made for what is active at a call."""
    return bool(f.attributes.get("segment") or f.attributes.get("kept"))


def _preference(f: Function) -> str:
    return f.attributes.get("prefer", "")


def _has_preference(f: Function) -> bool:
    return _preference(f) != ""


def _used(f: Function) -> list[str]:
    """The functions that a function calls, differentiates or has as its derivatives."""
    names = called(f, ("call", *REQUESTS))
    if "dual_of" in f.attributes:
        names.append(f.attributes["dual_of"])
    return names if f.derivatives is None else names + f.derivatives.names


def _refuse_nested(f: Function, callees: list[Function]) -> None:
    """Derivatives of a derivative do not go through memory behind its pointers."""
    for g in callees:
        if "of_pointers" in g.attributes:
            refusal = f"'{f.name}' cannot be differentiated through pointers"
            message = f"{refusal}, as it calls '{g.name}', which takes pairs of them"
            note = "mark the pointers of the outer function as no_diff"
            raise CompileError([Diagnostic("E9008", message, f.span, note)])


def _missing(f: Function, mode: str, span: Span | None) -> Diagnostic:
    kind, code = ("forward", "E0552") if mode == "jvp" else ("backward", "E0551")
    message = f"'{f.name}' has no {kind} derivative"
    note = f"it has no body to differentiate; give it a [{kind.capitalize()}Derivative]"
    return Diagnostic(code, message, span or f.span, note)
