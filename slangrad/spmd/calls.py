"""Functions that a kernel of lanes calls: a version for each pattern of arguments that occurs.

    call @f %n, %v        %n : f32 uniform, %v : f32 varying        call @f.16.0 %n, %v : f32, lanes<f32>
    ... under a mask                                                call @f.16.1 %n, %v, %mask

A pattern says of each argument whether it is uniform, strided by a number that is known, or varying; a version under a
mask has it as its last parameter. The results of a version have the shapes of its analysis. Versions are shared by
the forms of a kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import count_uses
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.effects import may_run_early
from slangrad.spmd.analyses.shapes import LaneShape, passed_as
from slangrad.spmd.analyses.uniformity import Shapes
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.records import join_records

Pattern = tuple[LaneShape, ...]


class FunctionVersions:
    """All versions at some number of lanes, made on demand."""

    def __init__(
        self, functions: Sequence[Function], lanes: int, exclusive: bool, rules: Mapping[str, Rule]
    ) -> None:
        self._functions = {f.name: join_records(f) for f in functions}
        self.lanes = lanes
        self._exclusive = exclusive
        self._rules = rules
        self._shapes: dict[tuple[str, Pattern], Shapes] = {}
        self._computes: dict[str, bool] = {}
        self._versions: dict[tuple[str, Pattern, bool], Function] = {}

    @property
    def functions(self) -> tuple[Function, ...]:
        return tuple(self._versions.values())

    # --- for the analysis of callers

    def results(self, op: Op, arguments: Sequence[LaneShape]) -> list[LaneShape]:
        """The shapes of a call's results."""
        shapes = self._analyzed(op.attributes["callee"], tuple(map(passed_as, arguments)))
        return [passed_as(shapes.of(v)) for v in self._functions[op.attributes["callee"]].region.yields]

    def _analyzed(self, name: str, pattern: Pattern) -> Shapes:
        key = (name, pattern)
        if key not in self._shapes:
            self._shapes[key] = Shapes(self._functions[name], self.lanes, pattern, self.results)
        return self._shapes[key]

    # --- for callers that are widened

    def version(self, name: str, pattern: Pattern, masked: bool) -> Function:
        key = (name, pattern, masked and not self._only_computes(name))
        if key not in self._versions:
            shapes, number = self._analyzed(name, pattern), len(self._versions)
            f = replace(self._functions[name], name=f"{name}.{self.lanes}.{number}")
            self._versions[key] = f  # takes its number
            self._versions[key] = self.walk(shapes, count_uses(f.region)).callee(f, key[2])
        return self._versions[key]

    def _only_computes(self, name: str) -> bool:
        """Whether lanes that are off may run it with any arguments: it certainly ends and reaches no memory."""
        if name not in self._computes:
            ops = walk(self._functions[name].region)
            self._computes[name] = all(
                op.name == "if" or (may_run_early(op) and op.name != "load") for op in ops
            )
        return self._computes[name]

    def walk(self, shapes: Shapes, uses: Counter[Value]) -> Widening:
        return Widening(shapes, uses, self._rules, self._exclusive, self.version)


def _call(w: Widening, b: Builder, op: Op) -> None:
    pattern = tuple(passed_as(w.forms.shape(v)) for v in op.operands)
    callee = w.version(op.attributes["callee"], pattern, w.mask.value is not None)
    operands = [w.pack(b, v, shape) for v, shape in zip(op.operands, pattern, strict=True)]
    if len(callee.inputs) > len(operands):
        operands += w.mask.operands()
    results = b.call(callee.name, operands, callee.result_types, op.attributes)
    w.unpack_all(b, op.results, results)


RULES: dict[str, Rule] = {"call": _call}
