"""Semantics that name registers, and those of a ray's payload. Kernels need neither; they are read by other targets.

    Texture2D a : register(t);                                    E0329: a register has a number
    Texture2D a : register(t0, s1);                               E0329: the second argument is a space
    [raypayload] struct P { float x : read(anyht) : write(miss); }    E0329: there is no such stage

In: a declaration with semantics.   Out: errors.
"""

from __future__ import annotations

import re

from slangrad.check.interfaces.differentiable import field_declarations
from slangrad.check.model.checker import Checker
from slangrad.syntax import ast

_PAYLOAD_STAGES = ("caller", "anyhit", "closesthit", "miss")


def check_registers(checker: Checker, declaration: ast.Variable | ast.BufferBlock) -> None:
    """A register is a letter and a number; the space of registers, too, has a number. Either may be a macro."""
    for semantic in declaration.semantics:
        if semantic.name != "register":
            continue
        register, *rest = semantic.arguments
        note = "write register(t0), or register(t0, space1)"
        if re.fullmatch("[tsubc]", register):
            message = f"'{register}' is a kind of registers, without the number of one"
            checker.error("E0329", message, semantic.span, note)
        for space in rest[:1]:
            if re.fullmatch(r"space|[tsubc]\d+", space):
                checker.error("E0329", f"'{space}' is no space of registers", semantic.span, note)


def check_payload(checker: Checker, declaration: ast.StructDeclaration) -> None:
    """Each field of a payload has stages that read or write it."""
    for field in field_declarations(declaration):
        accesses = [semantic for semantic in field.semantics if semantic.name in ("read", "write")]
        for access in accesses:
            for stage in access.arguments:
                if stage not in _PAYLOAD_STAGES:
                    note = "there are caller, anyhit, closesthit and miss"
                    checker.error("E0329", f"no stage '{stage}' has a payload", access.span, note)
        if not accesses:
            message = f"'{field.name}' has neither stages that read it nor stages that write it"
            checker.error("E0329", message, field.name_span, "write ': read(caller) : write(miss)' behind it")
