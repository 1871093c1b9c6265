"""Slang functions as operators: `m.bump(x, w)` of traced arrays is a map.

    bump(x, w)                          a node `slang`, whose expression is the call
    its derivative by x and by w        nodes `slang`, whose expression is bwd_diff(bump)

A derivative is its own Slang function, so it has derivatives like others. Kernels call functions by unique names
from a module for each function, because several modules may have functions of one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from re import sub

import slangrad as spy
from slangrad.graph.arrays.array import Array, constant, implements, is_beyond, lifted, mapped
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import DType
from slangrad.graph.ir.types import DTYPES


@dataclass(frozen=True, slots=True)
class CallParameter:
    """A number that a Slang function takes; `direction` is "in", "out" or "inout"."""

    kind: str
    direction: str
    differentiable: bool


@dataclass(frozen=True, slots=True)
class SlangCall:
    """A Slang function of numbers, and the result that a node takes: -1 its own, else the number of a parameter.
    `called`: its name in kernels; `page`: the text of the module that gives it this name."""

    name: str
    called: str
    page: str
    parameters: tuple[CallParameter, ...]
    returns: str
    result: int = -1
    text: tuple[str, ...] = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self.name}>" if self.result < 0 else f"<{self.name}[{self.result}]>"

    @property
    def module(self) -> str:
        """The name of the module of `page`."""
        return f"page_{sha1(self.page.encode()).hexdigest()[:12]}"

    @property
    def dtype(self) -> DType:
        return DTYPES[self.returns if self.result < 0 else self.parameters[self.result].kind]

    @property
    def member(self) -> str:
        """The variable of the result, after the name of the call."""
        return "" if self.result < 0 else f"_{self.result}"

    def lines(self, name: str, inputs: Sequence[str]) -> list[str]:
        """Statements that call it: results are in the variables `name` and, of parameters, `name_0`, `name_1`."""
        arguments, variables, values = [], [], iter(inputs)
        for i, parameter in enumerate(self.parameters):
            value = next(values) if parameter.direction != "out" else f"{parameter.kind}(0)"
            if parameter.direction == "in":
                arguments.append(value)
            else:
                variables.append(f"{parameter.kind} {name}_{i} = {value};")
                arguments.append(f"{name}_{i}")
        head = "" if self.returns == "void" else f"{self.returns} {name} = "
        return [*variables, f"{head}{self.called}({', '.join(arguments)});"]

    # --- derivatives

    def cotangents(self, g: Array, xs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The cotangents of all inputs, from the cotangent of the result."""
        if self.result >= 0 or any(parameter.direction != "in" for parameter in self.parameters):
            message = f"'{self.name}' writes to its parameters, and graphs have no derivative of that"
            raise GraphError("E1044", message)
        if not any(parameter.differentiable for parameter in self.parameters):
            note = "mark it [Differentiable], or use graph.stop_gradient"
            raise GraphError("E1044", f"'{self.name}' has no derivative", note)
        cotangents = []
        for i, parameter in enumerate(self.parameters):
            function = self._by(i) if parameter.differentiable else None
            cotangents.append(mapped("slang", [*xs, g], xs[i].dtype, function=function) if function else None)
        return tuple(cotangents)

    def _by(self, i: int) -> SlangCall:
        """The function's cotangent of one parameter: f(x, y, ...) times g, a function of x, y, ... and g."""
        called = f"{self.called}_by_{i}"
        numbers = range(len(self.parameters))
        declared = ", ".join(
            f"{'' if p.differentiable else 'no_diff '}{p.kind} x{j}" for j, p in enumerate(self.parameters)
        )
        lines = [f"    var p{j} = diffPair(x{j});" for j in numbers if self.parameters[j].differentiable]
        arguments = ", ".join(f"{'p' if self.parameters[j].differentiable else 'x'}{j}" for j in numbers)
        body = "\n".join([*lines, f"    bwd_diff({self.called})({arguments}, g);", f"    return p{i}.d;"])
        kind = self.parameters[i].kind
        text = f"[Differentiable] {kind} {called}({declared}, {self.returns} g)\n{{\n{body}\n}}\n"
        cotangent = CallParameter(self.returns, "in", True)
        parameters, name = (*self.parameters, cotangent), f"{self.name}_by_{i}"
        return SlangCall(name, called, self.page, parameters, kind, -1, (*self.text, text))


def slang_call(function: spy.Function) -> SlangCall:
    """A function of a module. GraphError (E1043) for parameters or results that are no numbers."""
    subject, module = f"Slang function '{function.name}'", function.module
    if not module.is_imported:
        message = f"{subject}: an import of '{module.name}' gives another module, or one without constants and links"
        raise GraphError("E1043", message, "give each module a name of its own")
    reflected = function.slang_function
    if reflected.is_overloaded or reflected.is_generic:
        note = "name the one: module['f<float>'], or wrap it"
        raise GraphError("E1043", f"{subject} is generic or has overloads", note)
    if not function.is_primal or function.struct is not None:
        message = f"{subject}: graphs call functions, not derivatives or methods"
        raise GraphError("E1043", message, "graph.grad differentiates")
    parameters = []
    for parameter in reflected.parameters:
        if parameter.type.name not in DTYPES:
            message = f"{subject} takes '{parameter.declaration}', and an operator takes numbers"
            raise GraphError("E1043", message)
        direction = "inout" if parameter.direction == "ref" else parameter.direction or "in"
        differentiable = reflected.differentiable and parameter.differentiable
        parameters.append(CallParameter(parameter.type.name, direction, differentiable))
    returns = reflected.return_type.name if reflected.have_return_value else "void"
    if returns != "void" and returns not in DTYPES:
        raise GraphError("E1043", f"{subject} returns '{returns}', and an operator gives numbers")
    digest = sha1(f"{module.name} {module.digest} {function.name}".encode()).hexdigest()[:8]
    called = f"{sub(r'[^A-Za-z0-9]+', '_', function.name)}_{digest}"
    page = _page(module.name, function.name, called, parameters, returns)
    return SlangCall(function.name, called, page, tuple(parameters), returns)


def _page(module: str, name: str, called: str, parameters: Sequence[CallParameter], returns: str) -> str:
    """The text of a module in which a function has another name."""
    names = [f"{called}_{i}" for i in range(len(parameters))]
    is_differentiable = any(p.differentiable for p in parameters)
    declared = ", ".join(
        f"{'no_diff ' * (is_differentiable and not p.differentiable)}{p.direction} {p.kind} {x}"
        for p, x in zip(parameters, names, strict=True)
    )
    head = f"{'[Differentiable] ' * is_differentiable}{returns} {called}({declared})"
    call = f"{'return ' * (returns != 'void')}{name}({', '.join(names)});"
    return f'import "{module}";\n{head} {{ {call} }}\n'


def results_of(function: spy.Function, inputs: Sequence[object]) -> dict[int, Array]:
    """The results of a call of traced arrays: its own (-1), and those in parameters, by their numbers."""
    call = slang_call(function)
    input_parameters = [p for p in call.parameters if p.direction != "out"]
    if len(input_parameters) != len(inputs):
        message = f"Slang function '{call.name}' takes {len(input_parameters)} numbers, not {len(inputs)}"
        raise GraphError("E1043", message)
    xs = [_argument(x, DTYPES[p.kind], call.name) for x, p in zip(inputs, input_parameters, strict=True)]
    written = [i for i, p in enumerate(call.parameters) if p.direction != "in"]
    calls = [call] if call.returns != "void" else []
    calls += [replace(call, result=i) for i in written]
    return {call.result: mapped("slang", xs, call.dtype, function=call) for call in calls}


def _argument(x: object, dtype: DType, name: str) -> Array:
    if type(x) in (bool, int, float):
        return constant(_fitting(x, dtype, name), dtype)
    argument = lifted(x)
    if argument.dtype != dtype:
        message = f"Slang function '{name}' takes {dtype}, not {argument.dtype}"
        raise GraphError("E1043", message, f"x.astype(np.{dtype})")
    return argument


def _fitting(x: object, dtype: DType, name: str) -> object:
    """A number of Python's that a type can hold. None is cut off, as in calls outside of graphs."""
    if (type(x) is float and dtype.kind != "f") or (type(x) is int and dtype.kind == "b"):
        message = f"Slang function '{name}' takes {dtype}, and {x} is a Python {type(x).__name__}"
        raise GraphError("E1043", message, "bool(x)" if dtype.kind == "b" else "int(x)")
    if is_beyond(x, dtype):
        raise GraphError("E1043", f"Slang function '{name}' takes {dtype}, and {x} is none")
    return x


@implements(method="__slangrad_call__")
def called(_: Array, function: spy.Function, args: tuple[object, ...], kwargs: dict[str, object]) -> Array:
    """`function(*args)` where one of the arguments is traced."""
    names = [parameter.name for parameter in function.parameters]
    unknown = kwargs.keys() - set(names[len(args) :])
    if unknown:
        listed = ", ".join(sorted(unknown))
        raise GraphError("E1043", f"Slang function '{function.name}' cannot take {listed} in a graph")
    results = results_of(function, [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)])
    if results.keys() != {-1}:
        message = f"Slang function '{function.name}' does not return one number and no more"
        raise GraphError("E1043", message, "in graphs functions return their results")
    return results[-1]
