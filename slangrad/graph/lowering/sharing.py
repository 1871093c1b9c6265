"""Kernels that differ in numbers only become one kernel, which takes these numbers as arguments.

    x * float(1.5f),  x * float(2.5f),  ...        x * number0, compiled once

A few such kernels stay as they are, as the compiler folds numbers that it can read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha1

from slangrad.graph.lowering.emit import LITERAL
from slangrad.graph.lowering.steps import KernelStep, PlanStep

END = re.compile(r"\bEnd_\w+")  # the struct that ends a product
MOST = 64  # numbers that a kernel takes
MANY = 4  # texts that become one


def shared_kernels(groups: Sequence[Sequence[PlanStep]]) -> list[list[PlanStep]]:
    """The steps of each group."""
    alike: dict[object, dict[str, KernelStep]] = {}
    for step in (step for steps in groups for step in steps):
        if isinstance(step, KernelStep):
            alike.setdefault(_form(step), {})[step.name] = step
    shared: dict[str, KernelStep] = {}
    for kernels in alike.values():
        if len(kernels) >= MANY:
            shared |= _shared([*kernels.values()])
    return [[_as(step, shared) for step in steps] for steps in groups]


def _form(step: KernelStep) -> object:
    """Equal for kernels that differ in numbers only."""
    return LITERAL.sub(r"\1", _nameless(step.text, step.name)), step.group, step.lanes


def _nameless(text: str, name: str) -> str:
    return END.sub("", text).replace(name, "")


def _shared(kernels: Sequence[KernelStep]) -> dict[str, KernelStep]:
    """By the names of kernels, those that take the numbers in which they differ, and these numbers as `values`; none
    if they are too many."""
    literals = [LITERAL.findall(kernel.text) for kernel in kernels]
    columns = [column for column in zip(*literals, strict=True) if len({*column}) > 1]
    names = {column: f"number{i}" for i, column in enumerate(dict.fromkeys(columns))}  # equal ones are one
    if len(names) > MOST:
        return {}
    of_place = iter([names.get(column, "") for column in zip(*literals, strict=True)])
    text = LITERAL.sub(lambda match: next(of_place) or match[0], kernels[0].text)
    text = _with_parameters(text, kernels[0].name, {name: column[0][0] for column, name in names.items()})
    digest = sha1(repr((_nameless(text, kernels[0].name), kernels[0].lanes)).encode()).hexdigest()[:10]
    name = f"{kernels[0].name.partition('_')[0]}_{digest}"
    text = END.sub(f"End_{digest}", text).replace(kernels[0].name, name)
    return {
        kernel.name: replace(
            kernel, name=name, text=text, values={key: _value(*row[k]) for row, key in names.items()}
        )
        for k, kernel in enumerate(kernels)
    }


def _with_parameters(text: str, kernel: str, types: Mapping[str, str]) -> str:
    """The text of a kernel with more parameters, by their names. The end of a product has them as fields, too."""
    declared = [f"{kind} {name}" for name, kind in types.items()]
    if text.startswith("struct"):
        fields = "".join(f" {field};" for field in declared)
        text = text.replace("{\n", f"{{\n   {fields}\n", 1)
        text = text.replace(" end = { ", f" end = {{ {', '.join(types)}, ", 1)
    return text.replace(f"{kernel}(", f"{kernel}({', '.join(declared)}, ", 1)


def _value(kind: str, digits: str) -> float | int:
    return float(digits) if kind in ("half", "float", "double") else int(digits)


def _as(step: PlanStep, shared: dict[str, KernelStep]) -> PlanStep:
    """A step with the kernel that it shares."""
    kernel = shared.get(step.name) if isinstance(step, KernelStep) else None
    if kernel is None or not isinstance(step, KernelStep):
        return step
    return replace(step, name=kernel.name, text=kernel.text, values=step.values | kernel.values)
