"""Choose the function of a call from its Python arguments.

In: candidates, marshals by position and by name.   Out: the one function that takes them, and the way of each.

    f(float3 v), f(float x)   with a Tensor (n, 3) of float   ->  both take it: ambiguous
    T f<T : IFloat>(T x)      with a Tensor (n,) of float     ->  T = float

Exactly one candidate must survive; converting values (NumPy dtypes) counts less than taking them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product

from slangrad.base.diagnostics import CompileError
from slangrad.base.suggestions import near
from slangrad.call.binding.bind import PassedArgument
from slangrad.call.binding.call_request import CALL_WORDS
from slangrad.call.binding.program import (
    THIS,
    CallCandidate,
    FoundFunction,
    Imports,
    ModuleTypes,
    found_function,
)
from slangrad.check.model.types import ERROR, Type
from slangrad.check.reflect import ParameterView
from slangrad.marshal.errors import BoundVariableException, CallCompileError, ResolveException
from slangrad.marshal.protocol.marshal import Marshal, Way
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT

MOST_COMBINATIONS = 256


@dataclass(slots=True)
class Arguments:
    """The arguments of a call by position and by name, each with its number in the call."""

    positional: list[tuple[int, Marshal]]
    named: dict[str, tuple[int, Marshal]]


@dataclass(slots=True)
class Survivor:
    function: FoundFunction
    passed: list[PassedArgument]
    cost: tuple[int, int]  # of conversions; how many parameters keep their defaults


def resolve(
    name: str,
    candidates: Sequence[CallCandidate],
    arguments: Arguments,
    types: ModuleTypes,
    mode: str,
    imports: Imports,
) -> tuple[FoundFunction, list[PassedArgument]]:
    """The function and its arguments in the order of its parameters."""
    candidates = _differentiable(name, candidates, mode)
    survivors: list[Survivor] = []
    reasons: list[str] = []
    for candidate in candidates:
        placed = arrange(candidate, arguments)
        if isinstance(placed, str):
            reasons.append(placed)
            continue
        outcome = attempt(candidate, placed, types, mode, imports)
        if isinstance(outcome, str):
            reasons.append(outcome)
        else:
            reasons.append("it takes the arguments")
            survivors += outcome
    if not survivors:
        _raise_refusals(candidates)
        raise _failure(name, candidates, reasons)
    best = min(survivor.cost for survivor in survivors)
    survivors = [survivor for survivor in survivors if survivor.cost == best]
    if len(survivors) > 1:
        raise _ambiguity(name, survivors)
    return survivors[0].function, survivors[0].passed


_LEVELS = {BACKWARD: ("backward",), HIGHER: ("backward",), TANGENT: ("backward", "forward")}


def _differentiable(name: str, candidates: Sequence[CallCandidate], mode: str) -> Sequence[CallCandidate]:
    """Those that have the derivative that the mode asks for."""
    if mode not in _LEVELS:
        return candidates
    fitting = [candidate for candidate in candidates if candidate.view.info.level in _LEVELS[mode]]
    if fitting:
        return fitting
    message = f"Could not call function '{name}': Function is not differentiable"
    raise ResolveException("E1006", message, map(str, candidates), "mark it [Differentiable]")


def _raise_refusals(candidates: Sequence[CallCandidate]) -> None:
    """CallCompileError where a parameter is of a type that is not supported."""
    for candidate in candidates:
        view = candidate.view
        if all(parameter.type is not ERROR for parameter in candidate.parameters):
            continue
        try:
            view.program.refusals.require_none(view.declaration.span)
        except CompileError as refused:
            raise CallCompileError.of(refused) from refused


# --- Positions and names ------------------------------------------------------------------------------


def arrange(candidate: CallCandidate, arguments: Arguments) -> list[tuple[int, Marshal]] | str:
    """The arguments in the order of the parameters, or why they do not fit. The last ones may be left out where they
    have defaults."""
    if candidate.view.info.throws is not None:
        return f"it throws errors of type '{candidate.view.info.throws}', which have to be caught in Slang"
    parameters = candidate.parameters
    by_position = arguments.positional
    expected = len(parameters) - (THIS in arguments.named and candidate.has_this)
    if len(by_position) > expected:
        return f"Too many arguments: expected {expected}, got {len(by_position)}"
    skipped = 1 if THIS in arguments.named and candidate.has_this else 0
    placed: dict[str, tuple[int, Marshal]] = {}
    for parameter, argument in zip(parameters[skipped:], by_position):
        placed[parameter.name] = argument
    for name, named in arguments.named.items():
        if all(parameter.name != name for parameter in parameters):
            names = [parameter.name for parameter in parameters]
            meant = (
                near(name, [*names, *CALL_WORDS])
                if f"_{name}" not in CALL_WORDS
                else f"did you mean '_{name}'?"
            )
            listed = f"there are {', '.join(names) or 'none'}"
            return f"No parameter named '{name}'; {f'{meant} ' if meant else ''}{listed}"
        if name in placed:
            return f"Parameter '{name}' specified multiple times"
        placed[name] = named
    needed = list(parameters)
    while needed and needed[-1].has_default and needed[-1].name not in placed:
        needed.pop()
    for parameter in needed:
        if parameter.name not in placed:
            if parameter.has_default:
                return f"Parameter '{parameter.name}' not specified: only the last ones can be left out"
            note = (
                ": pass it by position, as calls mean something else by this name"
                if parameter.name in CALL_WORDS
                else ""
            )
            return f"Parameter '{parameter.name}' not specified{note}"
    return [placed[parameter.name] for parameter in needed]


# --- Types --------------------------------------------------------------------------------------------


def _ways(parameter: ParameterView, marshal: Marshal, types: ModuleTypes, mode: str) -> dict[Way, None]:
    """The ways of an argument, without repeats; a value that cannot be an argument is refused by its name."""
    try:
        return dict.fromkeys(marshal.ways(parameter.type, types, PRIMAL if parameter.no_diff else mode))
    except BoundVariableException as refused:
        if refused.code != "E1001":
            raise
        message = f"argument '{parameter.name}': {refused.message}"
        raise BoundVariableException(refused.code, message, refused.details, refused.note) from None


def attempt(
    candidate: CallCandidate,
    placed: list[tuple[int, Marshal]],
    types: ModuleTypes,
    mode: str,
    imports: Imports,
) -> list[Survivor] | str:
    """All ways in which a candidate takes the arguments, or why there is none."""
    ways: list[list[Way]] = []
    for i, (parameter, (_, marshal)) in enumerate(zip(candidate.parameters, placed)):
        offered = _ways(parameter, marshal, types, mode)
        fitting = [way for way in offered if types.matches(parameter.type, way.type)]
        if not fitting:
            wanted = parameter.type
            reason = marshal.reason(wanted, types).replace(f"'{wanted}'", f"'{candidate.view.shown(wanted)}'")
            return f"Argument {i} could not be resolved ('{parameter.name}'): {reason}"
        ways.append(fitting)
    reason = ""
    survivors = []
    for chosen in islice(product(*ways), MOST_COMBINATIONS):
        function = _resolve_types(candidate, chosen, types, imports)
        if isinstance(function, str):
            reason = function
            continue
        passed = [PassedArgument(index, marshal, way) for (index, marshal), way in zip(placed, chosen)]
        left_out = len(candidate.parameters) - len(chosen)
        survivors.append(Survivor(function, passed, (sum(way.cost for way in chosen), left_out)))
    return survivors or reason


def _resolve_types(
    candidate: CallCandidate, chosen: Sequence[Way], types: ModuleTypes, imports: Imports
) -> FoundFunction | str:
    """Fill in the generic arguments and check constraints."""
    this: Type | None = chosen[0].type if candidate.has_this else None
    types_given = [way.type for way in chosen[1 if candidate.has_this else 0 :]]
    views, refused = types.view.resolve([candidate.view], types_given)
    if not views:
        return refused[0].reason if refused else "it does not take these types"
    exact = zip(views[0].parameters, types_given)
    if any(parameter.type is not t for parameter, t in exact):
        return "its parameters have other types"
    return found_function(candidate, views[0], this, len(types_given), types, imports)


# --- Errors -------------------------------------------------------------------------------------------


def _failure(name: str, candidates: Sequence[CallCandidate], reasons: Sequence[str]) -> ResolveException:
    if len(reasons) == 1:
        summary, details = reasons[0], [str(candidates[0])]
    else:
        summary = "no overload fits"
        details = [
            line
            for candidate, reason in zip(candidates, reasons)
            for line in (str(candidate), f"    {reason}")
        ]
    wrong_names = all(text.startswith(("Too many", "No parameter", "Parameter")) for text in reasons)
    message = f"Could not call function '{name}': {summary}"
    return ResolveException("E1004" if wrong_names else "E1002", message, details)


def _ambiguity(name: str, survivors: Sequence[Survivor]) -> ResolveException:
    details = []
    for survivor in survivors:
        seen = ", ".join(
            f"{parameter.name}: {passed.marshal.described} as {passed.way.type}"
            for parameter, passed in zip(survivor.function.parameters, survivor.passed)
        )
        details += [str(survivor.function.candidate), f"    {seen}"]
    message = (
        f"Could not call function '{name}': Ambiguous call - Slang could not identify a unique candidate "
        "for these arguments"
    )
    note = 'map() says how an argument is seen; module["f<...>"] names one generic instance'
    return ResolveException("E1003", message, details, note)
