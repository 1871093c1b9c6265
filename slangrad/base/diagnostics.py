"""Errors and warnings: their codes, how they are collected and shown.

In: `reporter.error("E0201", "expected ';' after the statement", span)`.
Out: one `CompileError` for a stage, whose text shows every diagnostic:

    error[E0201]: expected ';' after the statement
      --> poly.slang:3:13
    3 |     return x
      |             ^

Only user errors are diagnostics; our own mistakes are assertions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slangrad.base.options import Options
from slangrad.base.source import SourceFile, Span, excerpt

# fmt: off
CODES: dict[str, str] = {
    # E01  lexing and preprocessing
    "E0101": "unexpected character",
    "E0102": "text that does not end",
    "E0103": "malformed number",
    "E0104": "malformed character or string",
    "E0105": "unknown directive",
    "E0106": "malformed directive",
    "E0107": "included file not found",
    "E0108": "unbalanced conditional",
    "E0109": "malformed macro",
    "E0110": "preprocessor expression",
    "E0111": "#error",
    "E0112": "#warning",
    "E0113": "preprocessing limit",
    # E02  parsing
    "E0201": "unexpected token",
    "E0202": "expected an expression",
    "E0203": "expected a type",
    "E0204": "expected a declaration",
    "E0205": "expected a name",
    "E0206": "nested too deeply",
    "E0207": "unclosed bracket",
    "E0208": "misplaced modifier or attribute",
    "E0209": "misplaced statement",
    # E03  names and types
    "E0301": "unknown name",
    "E0302": "wrong kind of name",
    "E0303": "not a type",
    "E0304": "unknown member",
    "E0305": "'This' outside of a type",
    "E0306": "private member",
    "E0307": "member without an object",
    "E0308": "declared twice",
    "E0309": "not known when compiling",
    "E0310": "implicit truncation",
    "E0311": "type mismatch",
    "E0312": "initializer list",
    "E0313": "no such operator",
    "E0314": "not assignable",
    "E0315": "object that cannot change",
    "E0316": "function as a value",
    "E0317": "not readable",
    "E0319": "unsuitable index",
    "E0320": "constant index out of range",
    "E0321": "depends on itself",
    "E0322": "type cannot be inferred",
    "E0323": "unsuitable type",
    "E0324": "accessor",
    "E0325": "infinite size",
    "E0326": "module that imports itself",
    "E0327": "module not found",
    "E0328": "unknown attribute",
    "E0329": "argument of an attribute",
    "E0330": "precompiled module",
    "E0331": "variable without a value",
    "E0332": "quotient of whole numbers",
    "E0333": "public declaration of a type that is not public",
    # E04  generics, interfaces, overloads
    "E0401": "not generic",
    "E0402": "unsuitable generic argument",
    "E0403": "number of generic arguments",
    "E0404": "unmet constraint",
    "E0405": "no candidate takes these arguments",
    "E0406": "ambiguous call",
    "E0409": "packs",
    "E0410": "unsuitable bound",
    "E0411": "missing requirement",
    "E0412": "interface as the type of a value",
    "E0413": "unsuitable base",
    "E0414": "misplaced declaration",
    "E0415": "parameter of an extension that its target does not have",
    "E0416": "default that is missing or never used",
    "E0417": "unsuitable constraint",
    # E05  differentiability
    "E0501": "type without a derivative",
    "E0502": "not a function",
    "E0503": "function without a derivative",
    "E0504": "signature of a custom derivative",
    "E0505": "lost derivative",
    "E0506": "tensor without gradients",
    "E0507": "unsuitable Differential",
    "E0508": "'no_diff' without an effect",
    "E0551": "no backward derivative",
    "E0552": "no forward derivative",
    "E0553": "unknown place of derivatives",
    # E06  statements and control flow
    "E0601": "misplaced jump",
    "E0602": "unsuitable return",
    "E0603": "unsuitable switch",
    "E0604": "duplicate case",
    "E0605": "missing return",
    "E0606": "failed assertion",
    "E0608": "uncaught error",
    "E0609": "missing or needless 'try'",
    "E0610": "unused result",
    # E07  lowering and limits
    "E0701": "type without a run-time form",
    "E0702": "too many instances",
    "E0704": "constant without a value",
    "E0705": "no address, or one of what has ended",
    "E0706": "variable outside functions",
    "E0707": "format of printf",
    "E0708": "function without a body",
    "E0709": "entry point",
    "E0710": "array, vector or type too large",
    "E0711": "loop too long to be unrolled when compiling",
    "E0713": "bit_cast",
    "E0715": "type larger than its interface allows",
    "E0718": "atomic operation on what is not in memory",
    "E0791": "function too large after inlining",
    "E0792": "loop too long to be unrolled",
    # E08  back end
    # E09  run time
    "E0901": "index out of range",
    "E0902": "out of memory in a kernel",
    "E0903": "assertion failed",
    "E0904": "recursion too deep",
    "E0905": "value of another object's type",
    "E0906": "number that is not finite",
    "E0907": "null pointer, or pointer outside of its buffer",
    "E0908": "out of memory on a device",
    "E0909": "atomic operation on converted texels",
    # E10  calls from Python
    "E1001": "unsupported Python type",
    "E1002": "no candidate takes these arguments",
    "E1003": "ambiguous call",
    "E1004": "wrong names or number of arguments",
    "E1005": "shapes that do not fit",
    "E1006": "function without a derivative",
    "E1007": "missing or unsuitable gradient",
    "E1008": "overlapping memory",
    "E1009": "explicit map",
    "E1010": "value that its type cannot hold",
    "E1011": "unsuitable result",
    "E1012": "name not found",
    "E1013": "module-level value",
    "E1014": "number of threads",
    "E1015": "unknown or unsuitable setting",
    "E1016": "generated kernel",
    "E1017": "unknown parameter of a kernel",
    "E1018": "parameter of a kernel without a value",
    "E1019": "value that a kernel's parameter cannot take",
    "E1020": "entry point",
    "E1021": "recorded command",
    "E1022": "memory of another device",
    "E1023": "no current device, or one that is closed",
    "E1030": "derivative that is asked for as a value",
    "E1031": "derivatives that disagree",
    "E1032": "optimizer",
    "E1040": "function that graphs do not have",
    "E1041": "value that is not known while a function is traced",
    "E1042": "shapes of arrays in a graph",
    "E1043": "argument of a graph",
    "E1044": "operator of a graph without a derivative",
    "E1045": "gradient of something else than one number",
    "E1046": "file of weights",
    "E1047": "memory that a graph needs",
    "E1048": "mesh or shards of many workers",
    "E1049": "checkpoints of a training step",
    "E1050": "failure of the CUDA driver",
    "E1051": "GPU that is lost for this process",
    "E1052": "call that cannot be recorded",
    "E1053": "image file",
    # E9  not supported: Slang has it, slangrad does not
    "E9001": "kind or format of a texture or sampler",
    "E9002": "graphics and rays",
    "E9003": "code for another target",
    "E9004": "layout or format in memory",
    "E9005": "form of declaration or expression",
    "E9006": "text as a value",
    "E9007": "type of a value",
    "E9008": "derivative that is not made",
    "E9009": "barriers and waves",
    "E9010": "address of a static variable",
    "E9011": "part of Slang's library",
    "E9012": "function as a value",
    "E9013": "results that differ from run to run",
}
# fmt: on


LONGEST_MESSAGE = 2_000  # characters; names in a text may be of any length


def shortened(text: str) -> str:
    """The text without its middle where it is very long."""
    half = LONGEST_MESSAGE // 2
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:half]} ... {text[-half:]}"


@dataclass(slots=True, frozen=True)
class Diagnostic:
    """One message about one place. `related` are further places, each with its own sentence."""

    code: str
    message: str
    span: Span | None = None
    note: str | None = None
    severity: str = "error"
    related: tuple[tuple[str, Span], ...] = ()

    def __post_init__(self) -> None:
        assert self.code in CODES, f"diagnostic code {self.code} has no row in CODES"
        object.__setattr__(self, "message", shortened(self.message))
        if self.note is not None:
            object.__setattr__(self, "note", shortened(self.note))
        if self.related:
            related = tuple((shortened(sentence), span) for sentence, span in self.related)
            object.__setattr__(self, "related", related)

    @property
    def is_error(self) -> bool:
        """Whether it is an error; the others are warnings."""
        return self.severity == "error"

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += [f"  --> {self.span.location}", excerpt(self.span)]
        for sentence, span in self.related:
            lines += [f"  {sentence}: {span.location}", excerpt(span)]
        if self.note:
            lines.append(f"  note: {self.note}")
        return "\n".join(lines)


class CompileWarning(UserWarning):
    """A warning of the compiler, as Python's `warnings` shows it."""


class SlangCompileError(ValueError, RuntimeError):
    """The compiler refused a program, or the kernel of a call. Programs written for SlangPy catch either."""


class CompileError(SlangCompileError):
    """A stage failed; `diagnostics` says why, warnings included."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = in_order(diagnostics)
        super().__init__("\n\n".join(str(diagnostic) for diagnostic in self.diagnostics))


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by place within a file. Files follow the order of their first diagnostics; those without a place come
    last."""
    listed = tuple(diagnostics)
    files: dict[object, int] = {}
    for diagnostic in listed:
        files.setdefault(
            diagnostic.span and diagnostic.span.source, len(files) if diagnostic.span else len(listed)
        )
    return tuple(
        sorted(listed, key=lambda d: (files[d.span and d.span.source], d.span.start if d.span else 0))
    )


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics. The same code at the same place is kept once, and no more than `limit` in all. The
    options choose by code which warnings are silenced, and which become errors. Texts that `is_settled` have shown
    their warnings before.
    """

    diagnostics: list[Diagnostic] = field(default_factory=list)
    limit: int = 1_000
    options: Options = field(default_factory=Options)
    is_settled: Callable[[SourceFile], bool] | None = None
    _seen: set[tuple[str, str, int]] = field(default_factory=set)
    _errors: int = 0

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        note: str | None = None,
        related: tuple[tuple[str, Span], ...] = (),
    ) -> None:
        self.report(Diagnostic(code, message, span, note, "error", related))

    def warning(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        note: str | None = None,
        related: tuple[tuple[str, Span], ...] = (),
    ) -> None:
        settled = span is not None and self.is_settled is not None and self.is_settled(span.source)
        if code not in self.options.disable_warnings and not settled:
            severity = "error" if code in self.options.warnings_as_errors else "warning"
            self.report(Diagnostic(code, message, span, note, severity, related))

    def report(self, diagnostic: Diagnostic) -> None:
        if len(self.diagnostics) >= self.limit and (self._errors or not diagnostic.is_error):
            return
        span = diagnostic.span
        if span is not None:
            key = (diagnostic.code, span.source.name, span.start)
            if key in self._seen:
                return
            self._seen.add(key)
        self.diagnostics.append(diagnostic)
        self._errors += diagnostic.is_error

    @property
    def has_errors(self) -> bool:
        return self._errors > 0

    def has_syntax_error(self, within: Span) -> bool:
        """Whether a part of the text could not be parsed."""
        return any(
            diagnostic.code.startswith("E02")
            and diagnostic.span is not None
            and diagnostic.span.source is within.source
            and within.start <= diagnostic.span.start <= within.end
            for diagnostic in self.diagnostics
        )

    def raise_if_errors(self) -> None:
        if self.has_errors:
            raise CompileError(self.diagnostics)
