"""The exception for types without an IR form."""

from __future__ import annotations


class Unlowerable(Exception):
    """A type that has no IR form; caught where a span is known."""

    def __init__(self, message: str, code: str = "E0701", note: str | None = None) -> None:
        super().__init__(message)
        self.code, self.note = code, note
