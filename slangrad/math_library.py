"""Maths functions of the standard library as flat IR, for machines and for the oracle.

MathLibrary(checked, options, flatten)["sin", F32]    ->   func @sin(%x: f32) -> (f32) {...}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from slangrad.abi import SCALARS
from slangrad.base.options import Options
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts.files import STD
from slangrad.check.texts.standard import MATHS
from slangrad.ir.data.types import Scalar
from slangrad.ir.ops.core import Function
from slangrad.lower.program import lower_functions
from slangrad.opt.calls.inline import inline
from slangrad.opt.simplify.dead import remove_dead
from slangrad.syntax import ast

Flatten = Callable[[Function], Function]


class MathLibrary(Mapping[tuple[str, Scalar], Function]):
    """(name of a primitive, f32 or f64) to a flat function of scalars, compiled from std on first use."""

    # The same for all programs: they depend on the settings and on the target's traits alone.
    compiled: ClassVar[dict[tuple[Options, str], dict[tuple[str, Scalar], Function]]] = {}

    def __init__(self, checked: CheckedProgram, options: Options, flatten: Flatten) -> None:
        self._checked, self._options, self._flatten = checked, options, flatten
        self._compiled = self.compiled.setdefault((options, checked.traits.name), {})
        self._unread = iter(MATHS)
        self._declared: dict[tuple[str, Scalar], ast.FunctionDeclaration] = {}

    def _read(self, part: str) -> None:
        """The functions of one file of the library."""
        for member in self._checked.load_module(str(STD / f"{part}.slang")).declaration.members:
            if isinstance(member, ast.FunctionDeclaration):
                info = self._checked.info(member)
                if info.math_function is not None:
                    self._declared[info.math_function, SCALARS[info.result]] = member

    def _declaration(self, key: tuple[str, Scalar]) -> ast.FunctionDeclaration:
        while key not in self._declared and (part := next(self._unread, None)) is not None:
            self._read(part)
        return self._declared[key]

    def __getitem__(self, key: tuple[str, Scalar]) -> Function:
        if key not in self._compiled:
            reference = DeclRef(self._declaration(key), {})
            program, (name,) = lower_functions(self._checked, [reference], self._options)
            function = inline(program, everything=True).functions[name]
            self._compiled.setdefault(key, remove_dead(self._flatten(function)))
        return self._compiled[key]

    def __iter__(self) -> Iterator[tuple[str, Scalar]]:
        for part in self._unread:
            self._read(part)
        return iter(self._declared)

    def __len__(self) -> int:
        return sum(1 for _ in self)
