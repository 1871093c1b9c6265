"""Which results of a function vanish where some of its inputs are zero.

In: a forward derivative of the user's own, with all input tangents zero.   Out: which results are zero, too.

    d = k * dx + y * dy     vanishes: a call without tangents needs no derivative
    d = dx + 1              does not: the call brings a derivative in

A product with a zero counts as zero here, as for derivatives; `False` stands for unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slangrad.ir.data.types import component_count
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Function, Op, Region, Value

Zeros = bool | tuple["Zeros", ...]
"""Whether a value is zero; for a struct or array perhaps of each component."""


def zero_results(functions: Mapping[str, Function], name: str, inputs: Sequence[Zeros]) -> list[Zeros]:
    """The zero parts of a function's results, for the zero parts of its inputs."""
    return _Walk(functions).function(name, inputs)


class _Walk:
    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._open: list[str] = []  # functions under analysis
        self._known: dict[tuple[str, tuple[Zeros, ...]], list[Zeros]] = {}
        self.forms: dict[Value, Zeros] = {}

    def of(self, value: Value) -> Zeros:
        return self.forms.get(value, False)

    def all_of(self, values: Sequence[Value]) -> list[Zeros]:
        return [self.of(v) for v in values]

    def function(self, name: str, inputs: Sequence[Zeros]) -> list[Zeros]:
        region = self._functions[name].region
        if name in self._open:
            return [False] * len(region.yields)
        key = name, tuple(inputs)
        if key not in self._known:
            self._open.append(name)
            self.forms.update(zip(region.parameters, inputs, strict=True))
            self._known[key] = self.region(region)
            self._open.pop()
        return self._known[key]

    def region(self, region: Region) -> list[Zeros]:
        for op in region.ops:
            if op.name in _CONTROL:
                results = _CONTROL[op.name](self, op)
            else:
                rule = _RULES.get(op.name)
                results = [False] * len(op.results) if rule is None else [rule(op, self.all_of(op.operands))]
            self.forms.update(zip(op.results, results, strict=True))
        return self.all_of(region.yields)

    def branch(self, op: Op) -> list[Zeros]:
        first, second = (self.region(arm) for arm in op.regions)
        return [_both(left, right) for left, right in zip(first, second, strict=True)]

    def loop(self, op: Op) -> list[Zeros]:
        """A carried value is zero if it starts as zero and an iteration keeps it zero."""
        forms = [self.of(variable.start) for variable in carried(op)]
        while True:
            for variable, form in zip(carried(op), forms, strict=True):
                self.forms.update(dict.fromkeys(variable.inside, form))
            for region in op.regions:
                yielded = self.region(region)
            merged = [_both(before, after) for before, after in zip(forms, yielded, strict=True)]
            if merged == forms:
                return merged
            forms = merged

    def call(self, op: Op) -> list[Zeros]:
        return self.function(op.attributes["callee"], self.all_of(op.operands))


_CONTROL: dict[str, Callable[[_Walk, Op], list[Zeros]]] = {
    "if": _Walk.branch,
    "for": _Walk.loop,
    "while": _Walk.loop,
    "call": _Walk.call,
}


def _both(x: Zeros, y: Zeros) -> Zeros:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return _joined([_both(left, right) for left, right in zip(x, y, strict=True)])
    if x is True:
        return y
    return x if y is True else False


def _joined(parts: Sequence[Zeros]) -> Zeros:
    if all(part is True for part in parts):
        return True
    return tuple(parts) if any(part is not False for part in parts) else False


def _parts(form: Zeros, count: int) -> list[Zeros]:
    return list(form) if isinstance(form, tuple) else [form] * count


def _get(op: Op, forms: list[Zeros]) -> Zeros:
    (form,) = forms
    return form[op.attributes["index"]] if isinstance(form, tuple) else form


def _set(op: Op, forms: list[Zeros]) -> Zeros:
    whole, part = forms
    parts = _parts(whole, component_count(op.results[0].type))
    parts[op.attributes["index"]] = part
    return _joined(parts)


def _all(op: Op, forms: list[Zeros]) -> Zeros:
    return all(form is True for form in forms)


def _any(op: Op, forms: list[Zeros]) -> Zeros:
    return any(form is True for form in forms)


def _first(op: Op, forms: list[Zeros]) -> Zeros:
    return forms[0] is True


_RULES: dict[str, Callable[[Op, list[Zeros]], Zeros]] = {
    "const": lambda op, forms: op.attributes["value"] == 0,
    "zero": lambda op, forms: True,
    "make": lambda op, forms: _joined(forms),
    "get": _get,
    "set": _set,
    "index": _first,
    "set_index": lambda op, forms: forms[0] is True and forms[2] is True,
    "add_index": lambda op, forms: forms[0] is True and forms[2] is True,
    "select": lambda op, forms: _both(forms[1], forms[2]),
    "mul": _any,
    "scale": _any,
    "div": _first,
    "rem": _first,
    "fma": lambda op, forms: (forms[0] is True or forms[1] is True) and forms[2] is True,
    **dict.fromkeys(
        ("add", "sub", "neg", "abs", "min", "max", "convert", "splat", "shuffle", "detach", "sqrt"), _all
    ),
}
