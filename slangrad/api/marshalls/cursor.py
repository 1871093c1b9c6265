"""Classes whose values a kernel gets as structs: by name of the type, without a Marshall of their own.

    register_write_to_cursor_type(Ray, slang_type_name="Ray")

A value writes itself with `write_to_cursor(cursor)`, or has the fields of the struct as attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slangrad.api.functional.call_data import BoundVariable
from slangrad.api.marshalls.code import CodeGenBlock
from slangrad.api.marshalls.marshall import BindContext, NativeValueMarshall
from slangrad.api.marshalls.types import PYTHON_SIGNATURES, PYTHON_TYPES
from slangrad.marshal.errors import BoundVariableException
from slangrad.marshal.slang_type import SlangType

if TYPE_CHECKING:
    from slangrad.api.reflection.slang_layout import SlangProgramLayout


@dataclass(frozen=True)
class WriteToCursorMarshallInfo:
    """What is known about a class: the name of its Slang type, its signature, modules that the type is from, and the
    names of all types that may be meant.
    """

    slang_type_name: str
    signature: str
    imports: tuple[str, ...]
    accepted_type_regex: re.Pattern[str]

    def accepts_type(self, slang_type: SlangType) -> bool:
        return self.accepted_type_regex.fullmatch(slang_type.full_name) is not None


class WriteToCursorMarshall(NativeValueMarshall):
    """A struct that is the same in all calls, and only read."""

    def __init__(self, layout: SlangProgramLayout, info: WriteToCursorMarshallInfo) -> None:
        super().__init__()
        self.m_info = info
        found = layout.find_type_by_name(info.slang_type_name)
        if found is None:
            message = f"Cursor-bindable Slang type '{info.slang_type_name}' is not visible"
            note = "the called module has to declare or import it"
            raise BoundVariableException("E1001", message, (), note)
        self.slang_type = found

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> list[SlangType]:
        if bound_type.is_generic:
            return [self.slang_type]
        return [bound_type] if self.m_info.accepts_type(bound_type) else []

    def resolve_dimensionality(
        self, context: BindContext, binding: BoundVariable | None, vector_target_type: SlangType
    ) -> int | None:
        return 0 if self.m_info.accepts_type(vector_target_type) else None

    def gen_calldata(self, cgb: CodeGenBlock, context: BindContext, binding: BoundVariable) -> None:
        for each in self.m_info.imports:
            cgb.add_import(each)
        binding.gen_calldata_type_name(cgb, binding.vector_type.full_name)


def register_write_to_cursor_type(
    python_type: type,
    *,
    slang_type_name: str,
    signature: str | None = None,
    imports: Iterable[str] = (),
    accepted_type_regex: str | re.Pattern[str] | None = None,
) -> None:
    """Teach calls a class whose values are structs. ValueError if it is known already."""
    if python_type in PYTHON_TYPES or python_type in PYTHON_SIGNATURES:
        raise ValueError(f"Python type '{python_type.__name__}' is already registered")
    pattern = re.escape(slang_type_name) if accepted_type_regex is None else accepted_type_regex
    own = f"[{python_type.__module__}.{python_type.__qualname__},{slang_type_name}]"
    info = WriteToCursorMarshallInfo(
        slang_type_name, own if signature is None else signature, tuple(imports), re.compile(pattern)
    )

    def make(layout: SlangProgramLayout, value: Any) -> WriteToCursorMarshall:
        return WriteToCursorMarshall(layout, info)

    PYTHON_TYPES[python_type] = make
    PYTHON_SIGNATURES[python_type] = lambda value: info.signature
