"""Features of Slang that a program mentions and slangrad does not have: errors where they are used.

In: an error with a code E9, while a module is checked.   Out: the errors about a declaration, when it is lowered.

    float f() { abort("no"); return 0; }        the module is fine, a call of f reports 'abort'

A type that is wrong for such a reason can have a name of its own. So the places are noted, too, that mention one.
Errors about entry points, of which a program may use others, wait in the same way.
"""

from __future__ import annotations

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.source import SourceFile, Span
from slangrad.syntax import ast


class Refusals:
    """The refusals of a program, in the order of the checks."""

    def __init__(self) -> None:
        self.diagnostics: dict[tuple[str, SourceFile, int], Diagnostic] = {}
        # Where wrong expressions begin, and the declarations that make them wrong, where these are known.
        self._mentions: dict[SourceFile, dict[int, Span | None]] = {}

    def add(self, diagnostic: Diagnostic, span: Span) -> None:
        self.diagnostics.setdefault((diagnostic.code, span.source, span.start), diagnostic)
        self.mention(span)

    def add_to(self, declaration: ast.Declaration, diagnostic: Diagnostic) -> None:
        """An error about a declaration, at any place."""
        assert diagnostic.span is not None
        self.add(diagnostic, diagnostic.span)
        self.mention(declaration.name_span, diagnostic.span)

    def taken_from(self, count: int) -> list[Diagnostic]:
        """The refusals after the first `count`, which are forgotten, with the module that they are in."""
        return [self.diagnostics.pop(key) for key in list(self.diagnostics)[count:]]

    def mention(self, span: Span, declared: Span | None = None) -> None:
        """Note an expression that is wrong, perhaps for the sake of a refusal in a declaration."""
        if self.diagnostics:
            mentions = self._mentions.setdefault(span.source, {})
            mentions[span.start] = mentions.get(span.start) or declared

    def concern(self, span: Span) -> bool:
        """Whether a part of a text mentions a refused feature."""
        return any(span.start <= start < span.end for start in self._mentions.get(span.source, ()))

    def require_none(self, span: Span) -> None:
        """Raise the refusals of a part of a text; CompileError."""
        if self.concern(span):
            self.raise_at(span)

    def require_bases(self, declared: ast.StructDeclaration | ast.EnumDeclaration) -> None:
        """Raise the refusals of the types that a type is made from; CompileError."""
        for base in declared.bases:
            self.require_none(base.span)

    def raise_at(self, span: Span | None) -> None:
        """Raise the refusals that a part of a text leads to, or all where none are known; CompileError."""
        reasons = [] if span is None else self._reasons(span)
        if reasons or self.diagnostics:
            raise CompileError(reasons or self.diagnostics.values())

    def _reasons(self, span: Span) -> list[Diagnostic]:
        reasons: dict[Diagnostic, None] = {}
        spans = [span]
        for part in spans:  # grows while it is read
            reasons |= {
                diagnostic: None
                for (_, source, start), diagnostic in self.diagnostics.items()
                if source is part.source and part.start <= start < part.end
            }
            mentioned = self._mentions.get(part.source, {}).items()
            declared = (span for start, span in mentioned if part.start <= start < part.end)
            spans += [span for span in declared if span is not None and span not in spans]
        return list(reasons)
