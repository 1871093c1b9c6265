"""Derivatives compared with differences of values, along one direction.

In check mode each `bwds` is compared before it runs, on copies of its arguments. J is the sum of all outputs times
their cotangents. For each tensor or pair x that gets a gradient, and a random direction v,

    <gradient of x, v>   must be   (J(x + h v) - J(x - h v)) / 2h

for one h of several, up to what rounding may have done to J.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.process.warn import warn
from slangrad.call.binding.call_request import RESULT, CallRequest, CallSettings, CheckMode, settings_key
from slangrad.call.binding.launchable import Launchable, LeafSource, found_at
from slangrad.check.model.types import ArrayType, MatrixType, ScalarType, VectorType
from slangrad.marshal.containers.values import DiffPair, snapshot
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.directions import floats_of, inner, moved, random_like
from slangrad.marshal.host.vectors import plain_data
from slangrad.marshal.protocol.roles import BACKWARD, PRIMAL
from slangrad.runtime.reports import NotFiniteError
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.tensor import Tensor

if TYPE_CHECKING:
    from slangrad.call.caller import Caller

STEPS = (64.0, 1.0, 8.0, 0.125, 1.0 / 64)


class GradientError(CallError):
    """Derivatives of a call that disagree."""


class Along:
    """The derivatives of a function by a value along one direction, and whether they agree.

    `terms` are those of reverse mode, one for each value; `forward` is the sum by forward mode if it was computed.
    `epsilon`: the relative error of the function's values. `tolerances` are relative (None: as exact as `epsilon`
    allows) and absolute.
    """

    def __init__(
        self,
        label: str,
        value: object,
        terms: np.ndarray,
        epsilon: float,
        tolerances: tuple[float | None, float],
        forward: float | None = None,
    ) -> None:
        self._label, self._value, self._epsilon, self._forward = label, value, epsilon, forward
        self._reverse, self._size = float(np.sum(terms)), float(np.linalg.norm(terms))
        self._rtol, self._atol = tolerances
        self._differences: list[tuple[float, float]] = []  # with what rounding may have done to them

    def check(self, outputs: Callable[[float], np.ndarray]) -> None:
        """Find differences of the terms of the function's value, `outputs` so far along, until one agrees.
        GradientError if they disagree. Values that are not finite at a distance are ignored."""
        reach = max([1.0, *(float(np.max(np.abs(floats), initial=0.0)) for floats in floats_of(self._value))])
        for factor in STEPS:
            h = float(self._epsilon ** (1 / 3) * reach) * factor  # neither lost in rounding nor large
            try:
                up, down = outputs(h), outputs(-h)
            except NotFiniteError:
                continue
            noise = 4 * self._epsilon * float(np.linalg.norm(up)) / h
            self._differences.append((float(np.sum(up - down)) / (2 * h), noise))
            if np.isfinite(self._reverse) and self._agrees(*self._differences[-1]):
                break
        if self._differences:
            self._judge()

    def _tolerated(self, relative: float) -> float:
        return self._atol + self._size * (relative if self._rtol is None else self._rtol)

    def _judge(self) -> None:
        if not np.isfinite([self._reverse, self._forward or 0.0]).all():
            raise self._disagreement("it is not finite")
        exact = self._tolerated(4 * self._epsilon**0.5)
        if self._forward is not None and abs(self._forward - self._reverse) > exact:
            raise self._disagreement("forward and reverse mode disagree")
        if not any(self._agrees(*difference) for difference in self._differences):
            raise self._disagreement("reverse mode and finite differences disagree")

    def _agrees(self, difference: float, noise: float) -> bool:
        """A difference in which rounding may have done more than is tolerated counts only if no other has less."""
        rough = self._tolerated(2 * self._epsilon ** (1 / 3))
        telling = noise <= max(rough, min(other_noise for _, other_noise in self._differences))
        return telling and bool(abs(self._reverse - difference) <= rough + noise)

    def _disagreement(self, reason: str) -> GradientError:
        details = [f"reverse mode        {self._reverse!r}"]
        details += [] if self._forward is None else [f"forward mode        {self._forward!r}"]
        details += [
            f"finite differences  {difference!r} (rounding: {noise:.1e})"
            for difference, noise in self._differences
        ]
        note = "at a point where a branch or max() switches there is no derivative"
        message = f"the derivative by {self._label} along a random direction: {reason}"
        return GradientError("E1031", message, details, note)


_EXACT = {"half": 2.0**-10, "float": 2.0**-23, "double": 2.0**-52}


def exactness(call: Launchable, index: int) -> float:
    """The relative errors of the outputs and of an argument of a primal call, by the types of the parameters."""
    exact = [
        _exactness_of(leaf.type)
        for source, leaf in zip(call.sources, call.leaves)
        if leaf.role.writes or source.value_index == index
    ]
    return max(exact, default=0.0) or _EXACT["float"]


def _exactness_of(t: object) -> float:
    while not isinstance(t, ScalarType):
        if not isinstance(t, (VectorType, MatrixType, ArrayType)):  # a struct, or a tensor of some
            elements = getattr(t, "arguments", None)
            return _exactness_of(elements[0]) if elements else _EXACT["float"]
        t = t.element
    return _EXACT.get(t.name, 0.0)


# --- Calls of bwds ------------------------------------------------------------------------------------


@dataclass(slots=True)
class BackwardCheck:
    """Compares the calls of one signature. `values` of a call are its arguments, its result if one is given, and
    values outside of functions, as `Caller` has them."""

    caller: Caller
    checking: CheckMode
    request: CallRequest
    call: Launchable
    comparable: bool = True
    primal: Launchable | None = None
    settings: CallSettings = field(default_factory=CallSettings)  # of the newest call

    def __post_init__(self) -> None:
        for leaf in self.call.leaves:
            if leaf.content is None and leaf.may_write:
                self.comparable = False
                message = (
                    f"check mode: bwds of '{self.call.name}' is not compared, as '{leaf.label}' is no tensor"
                )
                warn(message)

    def __call__(self, settings: CallSettings, values: list[object]) -> None:
        if not self.comparable:
            return
        self.settings = settings
        random = np.random.default_rng(0)
        copied = [snapshot(value, fresh) for value in values]
        self._run(BACKWARD, copied)
        self._outputs(values)  # which binds the function itself
        for leaf, source in self.call.passed:
            if not leaf.role.gives:
                continue
            gradient = _gradient(found_at(copied, source))
            value = _primal(found_at(values, source))
            direction = random_like(value, random)
            if gradient is not None and direction is not None:
                self._compare(values, source, leaf.label, (value, direction, gradient))

    def _compare(
        self,
        values: list[object],
        source: LeafSource,
        argument: str,
        point: tuple[object, object, object],
    ) -> None:
        def outputs(step: float) -> np.ndarray:
            changed = list(values)
            changed[source.value_index] = _with_moved(values[source.value_index], source.path, point[1], step)
            return self._outputs(changed)

        assert self.primal is not None
        label = f"'{argument}' of '{self.call.name}'"
        tolerances = self.checking.rtol, self.checking.atol
        value, direction, gradient = point
        epsilon = exactness(self.primal, source.value_index)
        Along(label, value, inner(gradient, direction), epsilon, tolerances).check(outputs)

    # --- runs on copies

    def _run(self, mode: str, values: list[object]) -> HostValue:
        names, first = self.request.names, self.request.positional
        args, kwargs = values[:first], dict(zip(names, values[first : first + len(names)]))
        result = self._given_result()
        by_position = result is not None and result < first
        if by_position and mode == PRIMAL:
            args.pop()  # it is the last one
        if result is not None and (
            not by_position if mode == BACKWARD else isinstance(values[result], Tensor)
        ):
            kwargs[RESULT] = values[result]
        settings = replace(self.settings, mode=mode, result=None)
        settings = replace(settings, key=settings_key(settings))
        if mode == PRIMAL and self.primal is None:
            self.primal = self.caller.bound(settings, tuple(args), dict(kwargs))
        return self.caller.call_without_comparison(self.checking, settings, tuple(args), kwargs)

    def _given_result(self) -> int | None:
        """The number of the value that is the caller's result."""
        for leaf, source in self.call.passed:
            if leaf.label == RESULT:
                return source.value_index
        return self.request.result_at if self.request.result_at >= 0 else None

    def _outputs(self, values: list[object]) -> np.ndarray:
        """All outputs times their cotangents, in a run on copies."""
        copied = [snapshot(value, fresh) for value in values]
        returned = self._run(PRIMAL, copied)
        terms: list[HostValue] = []
        result = self._given_result()
        if returned is not None:
            terms += self._terms(
                returned, None if result is None else _cotangent(values[result]), result is not None
            )
        for leaf, source in self.call.passed:
            if leaf.role.takes and leaf.label != RESULT:
                terms += self._terms(
                    _primal(found_at(copied, source)),
                    _cotangent(found_at(values, source)),
                    True,
                )
        return np.concatenate(terms) if terms else np.zeros(0)

    def _terms(self, value: object, cotangent: object, is_given: bool) -> Iterator[object]:
        """Ones stand for a cotangent that is not given; one of a pair is that of every call."""
        numbers = [np.asarray(array) for array in floats_of(value)]
        if not is_given:
            return iter([np.ravel(array).astype(np.float64) for array in numbers])
        if isinstance(cotangent, Tensor) or not isinstance(value, Tensor):
            return iter([inner(value, cotangent)])
        weights = np.asarray(plain_data(cotangent), np.float64)
        return iter([np.ravel(array.astype(np.float64) * weights) for array in numbers])


def fresh(tensor: Tensor) -> Tensor:
    """A copy with its own memory; its gradients start at zero."""
    copied = tensor.detach().copy()
    if tensor.grad_out is not None:
        copied.grad_out = Tensor.zeros_like(tensor.grad_out)
    if tensor.grad_in is not None:
        copied.grad_in = tensor.grad_in.copy()
    return copied


def _primal(value: object) -> object:
    return value.primal if isinstance(value, DiffPair) else value


def _gradient(value: object) -> object:
    return value.grad_out if isinstance(value, Tensor) else getattr(value, "grad", None)


def _cotangent(value: object) -> object:
    return value.grad_in if isinstance(value, Tensor) else getattr(value, "grad", None)


def _with_moved(value: HostValue, path: Sequence[object], direction: object, step: float) -> object:
    """The argument with the value at a path moved; the rest is unchanged."""
    if path:
        copied: HostValue = list(value) if isinstance(value, list) else dict(value)
        copied[path[0]] = _with_moved(value[path[0]], path[1:], direction, step)
        return copied
    if isinstance(value, DiffPair):
        return DiffPair(moved(value.primal, direction, step), value.grad, value.needs_grad)
    changed = moved(value, direction, step)
    changed.grad_in, changed.grad_out = value.grad_in, value.grad_out
    return changed
