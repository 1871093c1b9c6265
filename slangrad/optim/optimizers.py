"""`SGD`, `Adam` and `AdamW`: steps along gradients, with the formulas and defaults of PyTorch.

    optimizer = Adam([weights, biases], lr=0.01)
    optimizer.zero_grad();  loss.bwds(...);  optimizer.step()            # gradients attached to the tensors
    optimizer.step(gradients)                                            # or the result of grad()

State is kept in float for halves, else in the type of the parameter. `state_dict()` is of numbers and NumPy arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.api.functional.module import module_of_package
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.records import as_fields
from slangrad.optim.parameters import (
    CODE,
    OptimizedParameter,
    ParameterPart,
    gradient_of,
    leaves_of,
    parameters_of,
)
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.tensor import Tensor

STEPS = Path(__file__).parent / "steps.slang"


@dataclass(frozen=True, slots=True)
class State:
    """The state of one part of a parameter: in `tensors` by its name, and the path of the part after it.
    `is_planned`: missing state is not allocated, but a view of a single zero."""

    tensors: dict[str, Tensor]
    path: str
    is_planned: bool = False

    def kept(self, name: str, part: ParameterPart) -> Tensor:
        """Zero at first."""
        key, shape = name + self.path, tuple(part.numbers.shape)
        if self.is_planned and key not in self.tensors:
            zero = Tensor.zeros(part.numbers.device, (1,), part.computed)
            return zero.view(shape, (0,) * len(shape))
        if key not in self.tensors:
            zeros = Tensor.zeros(part.numbers.device, shape or (1,), part.computed)
            self.tensors[key] = zeros if shape else zeros.view((), ())
        return self.tensors[key]


@dataclass(frozen=True, slots=True)
class ParameterUpdate:
    """A step: `function(inout parameter, gradient, inout state..., settings...)`, for each number."""

    function: Function
    state: list[Tensor]
    settings: list[float | bool]


class Optimizer(ABC):
    """Parameters, settings (attributes that may be changed between steps), and state for each parameter. `tree`: the
    parameters as they were given; `names`: the way to each of them."""

    counts_steps: ClassVar[bool] = False  # whether the numbers of a step depend on how many there were
    settings: ClassVar[tuple[str, ...]]

    def __init__(self, parameters: object) -> None:
        self.tree = list(parameters) if isinstance(parameters, Iterator | ValuesView) else parameters
        self._parameters = parameters_of(self.tree)
        self.names = [parameter.label.removeprefix("parameter ") for parameter in self._parameters]
        self._steps = 0
        self._state: list[dict[str, Tensor]] = [{} for _ in self._parameters]
        self._check_settings()

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)
        return (
            f"{self.__class__.__name__}({len(self._parameters)} parameters, {settings}, steps={self._steps})"
        )

    @property
    def parameters(self) -> list[Tensor]:
        """The tensors that steps change, in the order in which they were given."""
        return [parameter.tensor for parameter in self._parameters]

    @property
    def steps(self) -> int:
        """How many steps were made."""
        return self._steps

    @property
    def state(self) -> list[dict[str, Tensor]]:
        """The state of each parameter between steps, by its name."""
        return self._state

    def zero_grad(self) -> None:
        """Set the attached gradients to zero."""
        for parameter in self._parameters:
            if parameter.tensor.grad_out is not None:
                parameter.tensor.grad_out.clear()

    def step(self, gradients: Sequence[object] | Mapping[object, object] | None = None) -> None:
        """Move all parameters along their attached gradients, or along those given: in the form of the parameters,
        or a list in their order. CaptureError (E1052) in `device.capture()` for an optimizer whose steps differ."""
        if self.counts_steps and self._parameters:
            name = type(self).__name__
            self._parameters[0].tensor.storage.runtime.refuse_recording(
                f"steps of {name} depend on their number"
            )
        by_parameter = self._gradients(gradients)
        numbers = (numbers_of_part for gradient in by_parameter for numbers_of_part in gradient.values())
        for part, update in self.advance(by_parameter):
            update.function(part.numbers, next(numbers), *update.state, *update.settings)
        self.count()

    def advance(
        self, moved: Sequence[Iterable[str]] | None = None, is_planned: bool = False
    ) -> list[tuple[ParameterPart, ParameterUpdate]]:
        """The next step, to be made by the caller: how parts of the parameters are updated. `moved`: the paths of
        these parts, for each parameter; by default all. The caller calls `count` when it is made. `is_planned`:
        only shapes and types of the state are asked for; it takes no memory yet."""
        self._check_settings()
        self._steps += 1
        try:
            return [
                (parameter.parts[path], self.update(parameter.parts[path], State(state, path, is_planned)))
                for i, (parameter, state) in enumerate(zip(self._parameters, self._state))
                for path in (parameter.parts if moved is None else moved[i])
            ]
        finally:
            self._steps -= 1

    def count(self) -> None:
        """A step of `advance` was made."""
        self._steps += 1

    def _gradients(self, gradients: object) -> list[dict[str, Tensor]]:
        """All of them, before anything is changed."""
        count = len(self._parameters)
        by_name = dict.fromkeys(self.names) if gradients is None else dict(leaves_of(gradients))
        if len(by_name) != count:
            raise CallError(CODE, f"step: there are {len(by_name)} gradients for {count} parameters")
        if isinstance(as_fields(gradients), Mapping) and by_name.keys() != set(self.names):
            names = (", ".join(sorted(keys)) for keys in (by_name, self.names))
            raise CallError(CODE, f"step: gradients are named {' and parameters '.join(names)}")
        values = map(by_name.get, self.names) if by_name.keys() == set(self.names) else by_name.values()
        return [gradient_of(parameter, gradient) for parameter, gradient in zip(self._parameters, values)]

    @abstractmethod
    def update(self, part: ParameterPart, state: State) -> ParameterUpdate:
        """The next step of one parameter, or of one field of it."""

    @abstractmethod
    def _check_settings(self) -> None:
        """ValueError for settings out of range, with which training would fail."""

    def cut(self, parts: Sequence[Tensor], part_of: Callable[[int, Tensor], Tensor]) -> None:
        """Go on with parts of the parameters, and of their state: `part_of` the parameter's number, and a tensor of
        the shape of the parameter. No parameter is a struct."""
        self._parameters = parameters_of(list(parts))
        self._state = [
            {name: part_of(i, tensor) for name, tensor in state.items()}
            for i, state in enumerate(self._state)
        ]

    # --- state

    def state_dict(self) -> dict[str, HostValue]:
        """All but the parameters, as plain data that can be pickled: settings, the number of steps, state."""
        return {
            "kind": type(self).__name__,
            "settings": {name: getattr(self, name) for name in self.settings},
            "steps": self._steps,
            "state": [{name: tensor.to_numpy() for name, tensor in state.items()} for state in self._state],
        }

    def load_state_dict(self, state: Mapping[str, HostValue]) -> None:
        """Go on from a result of `state_dict`. No state changes if it does not fit. CallError (E1032) if it does not
        fit.
        """
        if state.get("kind") != type(self).__name__:
            raise CallError(
                CODE,
                f"load_state_dict: the state is that of {state.get('kind')!r}, not {type(self).__name__}",
            )
        states = state["state"]
        if len(states) != len(self._parameters):
            message = f"load_state_dict: state of {len(states)} parameters for {len(self._parameters)}"
            raise CallError(CODE, message)
        restored = [_restored(parameter, saved) for parameter, saved in zip(self._parameters, states)]
        old = {name: getattr(self, name) for name in self.settings}
        try:
            self._set(state["settings"])
        except CallError:
            self._set(old)
            raise
        self._steps, self._state = int(state["steps"]), restored

    def _set(self, settings: Mapping[str, object]) -> None:
        for name in self.settings:
            setattr(self, name, settings[name])
        self._check_settings()


def _restored(parameter: OptimizedParameter, saved: Mapping[str, object]) -> dict[str, Tensor]:
    restored = {}
    for name, values in saved.items():
        array, part = np.asarray(values), parameter.parts.get("".join(name.partition(".")[1:]))
        if part is None:
            raise CallError(CODE, f"load_state_dict: {parameter.label} has no part for {name}")
        if array.shape != tuple(part.numbers.shape):
            wanted = tuple(part.numbers.shape)
            raise CallError(
                CODE, f"load_state_dict: {name} of {parameter.label} has shape {array.shape}, not {wanted}"
            )
        restored[name] = Tensor.from_numpy(part.numbers.device, array, dtype=part.computed)
    return restored


def _function(name: str, part: ParameterPart) -> Function:
    """The Slang function of a step, for the type of the numbers."""
    device: Any = part.numbers.device  # a Device; tensors have no such type
    module = module_of_package(device, "slangrad.optim", STEPS.read_text)
    return module.require_function(f"{name}_{part.kind}")


def _check(name: str, value: object, low: float, high: float = float("inf")) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not low <= float(value) < high:
        limit = "" if high == float("inf") else f" and below {high:g}"
        raise CallError(CODE, f"{name}: {value!r} is no number of at least {low:g}{limit}")


class SGD(Optimizer):
    """Gradient descent, with momentum if it is not zero; weight decay is added to the gradient."""

    settings = ("lr", "momentum", "weight_decay", "nesterov")

    def __init__(
        self,
        parameters: object,
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.lr, self.momentum, self.weight_decay, self.nesterov = lr, momentum, weight_decay, nesterov
        super().__init__(parameters)

    def _check_settings(self) -> None:
        _check("lr", self.lr, 0)
        _check("momentum", self.momentum, 0)
        _check("weight_decay", self.weight_decay, 0)
        if self.nesterov and not self.momentum:
            raise CallError(CODE, "nesterov: it needs momentum", (), "momentum=0.9")

    def update(self, part: ParameterPart, state: State) -> ParameterUpdate:
        """The step of one parameter: a Slang function and its arguments."""
        rate, decay = float(self.lr), float(self.weight_decay)
        if not self.momentum:
            return ParameterUpdate(_function("descend", part), [], [rate, decay])
        settings = [rate, decay, float(self.momentum), bool(self.nesterov)]
        return ParameterUpdate(_function("roll", part), [state.kept("velocity", part)], settings)


class Adam(Optimizer):
    """Adam; weight decay is added to the gradient (`AdamW` takes it from the parameter)."""

    settings = ("lr", "betas", "eps", "weight_decay")
    decoupled: ClassVar[bool] = False
    counts_steps = True

    def __init__(
        self,
        parameters: object,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.lr, self.betas, self.eps, self.weight_decay = lr, tuple(betas), eps, weight_decay
        super().__init__(parameters)

    def _check_settings(self) -> None:
        _check("lr", self.lr, 0)
        if len(self.betas) != 2:
            raise CallError(CODE, f"betas: {self.betas!r} are not two numbers")
        for beta in self.betas:
            _check("betas", beta, 0, 1)
        _check("eps", self.eps, 0)
        _check("weight_decay", self.weight_decay, 0)

    def update(self, part: ParameterPart, state: State) -> ParameterUpdate:
        """The step of one parameter: a Slang function and its arguments."""
        first, second = (float(beta) for beta in self.betas)
        decay, shrink = float(self.weight_decay), 1.0
        if self.decoupled:
            decay, shrink = 0.0, 1.0 - float(self.lr) * decay
        rate, root = float(self.lr) / (1 - first**self._steps), (1 - second**self._steps) ** -0.5
        settings = [1 - first, second, 1 - second, rate, root, float(self.eps), decay, shrink]
        return ParameterUpdate(
            _function("adapt", part), [state.kept("mean", part), state.kept("square", part)], settings
        )


class AdamW(Adam):
    """Adam with weight decay that is taken from the parameter and not added to the gradient."""

    decoupled = True

    def __init__(
        self,
        parameters: object,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)
