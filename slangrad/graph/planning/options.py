"""Options of plans: those that programs set, and those that the graph machinery sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import Node
from slangrad.graph.lowering.choose import Choose


class Settings(TypedDict, total=False):
    """What `jit` and `train` say about plans."""

    memory: int | None
    consistent: str | None
    fast_math: bool


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """`layouts`: how inputs lie in memory, if there are gaps. `in_place`: outputs that take the memory of an input.
    `is_body`: inputs and outputs have memory in the plan (`array`), and `repeat` runs it. `fixed`: inputs whose numbers
    change only before `refresh`; `copies` of them in another order, as products read them, are made once and kept.
    `memory`: bytes between kernels, and those that are `held` anyway; values that do not fit are computed again.
    `consistent`: "bits" for results that depend neither on the number of threads nor on that of rows."""

    layouts: Mapping[Node, StridedLayout] = field(default_factory=dict)
    fused: bool = True
    in_place: Mapping[Node, Node] = field(default_factory=dict)
    is_body: bool = False
    fixed: Collection[Node] = ()
    memory: int | None = None
    held: int = 0
    choose: Choose | None = None
    consistent: str | None = None
    fast_math: bool = False


DEFAULTS = PlanOptions()
