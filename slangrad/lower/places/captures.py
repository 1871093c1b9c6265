"""Lambdas: a struct of the variables that are captured, as they are when it is made.

Calling it passes that struct as `this`.
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.ir.core import Value
from slangrad.ir.types import Type
from slangrad.lower.model.flow import THIS
from slangrad.lower.model.frame import Frame
from slangrad.lower.places.variables import held
from slangrad.syntax import ast


def capture(f: Frame, function: ast.Function, t: Type) -> Value:
    info: checked.FunctionInfo = f.program.info(function)
    captured = (_captured(f, each) for each in info.captures)
    return f.emit("make", *captured, type=t)


def _captured(f: Frame, declared: ast.Declaration) -> Value:
    known = declared in f.variables or declared in f.homes or declared in f.lent
    return held(f, declared if known else THIS)
