"""What can be said about a compilation, in SlangPy's words.

    options = SlangCompilerOptions({"include_paths": ["shaders"], "defines": {"N": "4"}})
    options.optimization = SlangOptimizationLevel.high

Settings that mean nothing here, as they are about other compilers or devices, are accepted and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from slangrad.base.options import Options
from slangrad.base.suggestions import suggestion
from slangrad.marshal.errors import CallError


class SlangOptimizationLevel(Enum):
    """How hard to work on machine code."""

    none = 0
    default = 1
    high = 2
    maximal = 3


class SlangMatrixLayout(Enum):
    """How matrices lie in memory; here always by rows."""

    row_major = 1
    column_major = 2


class SlangFloatingPointMode(Enum):
    """`precise` keeps products and sums apart."""

    default = 0
    fast = 1
    precise = 2


class SlangDebugInfoLevel(Enum):
    """How much is written for debuggers; nothing here."""

    none = 0
    minimal = 1
    standard = 2
    maximal = 3


# LLVM's level for each of ours.
_LEVELS = {
    SlangOptimizationLevel.none: 0,
    SlangOptimizationLevel.default: 2,
    SlangOptimizationLevel.high: 3,
    SlangOptimizationLevel.maximal: 3,
}

_ENUMS: dict[str, type[Enum]] = {
    "matrix_layout": SlangMatrixLayout,
    "floating_point_mode": SlangFloatingPointMode,
    "debug_info": SlangDebugInfoLevel,
    "optimization": SlangOptimizationLevel,
}


@dataclass(slots=True, init=False)
class SlangCompilerOptions:
    """Made of a dict, or of nothing and then changed."""

    include_paths: list[str | Path] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)
    shader_model: Any = None
    matrix_layout: SlangMatrixLayout = SlangMatrixLayout.row_major
    enable_warnings: list[str] = field(default_factory=list)
    disable_warnings: list[str] = field(default_factory=list)
    warnings_as_errors: list[str] = field(default_factory=list)
    report_downstream_time: bool = False
    report_perf_benchmark: bool = False
    skip_spirv_validation: bool = False
    floating_point_mode: SlangFloatingPointMode = SlangFloatingPointMode.default
    debug_info: SlangDebugInfoLevel = SlangDebugInfoLevel.none
    optimization: SlangOptimizationLevel = SlangOptimizationLevel.default
    downstream_args: list[str] = field(default_factory=list)
    dump_intermediates: bool = False
    dump_intermediates_prefix: str = ""
    enable_experimental_features: bool = False
    use_up_to_date_binary_module: bool = True  # of a source and a precompiled module, the source

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        known = {each.name: each for each in fields(self)}
        for name, one in known.items():
            setattr(self, name, one.default_factory() if callable(one.default_factory) else one.default)
        for name, value in (given or {}).items():
            if name not in known:
                message = f"compiler_options: there is no option '{name}'"
                raise CallError("E1015", message, (), suggestion(name, known))
            setattr(self, name, _converted(name, value))

    @staticmethod
    def of(given: SlangCompilerOptions | Mapping[str, Any] | None) -> SlangCompilerOptions:
        return given if isinstance(given, SlangCompilerOptions) else SlangCompilerOptions(given)

    def applied_to(self, options: Options) -> Options:
        """Our own settings, changed by what was said."""
        if self.matrix_layout is SlangMatrixLayout.column_major:
            options = replace(options, column_major=True)
        if self.optimization is not SlangOptimizationLevel.default:
            options = replace(options, optimize=_LEVELS[self.optimization])
        if self.floating_point_mode is SlangFloatingPointMode.precise:
            options = replace(options, contraction=False)
        quiet = options.disable_warnings | frozenset(self.disable_warnings)
        errors = options.warnings_as_errors | frozenset(self.warnings_as_errors)
        return replace(options, disable_warnings=quiet, warnings_as_errors=errors)


def _converted(name: str, value: Any) -> Any:
    kind = _ENUMS.get(name)
    if kind is None:
        return value
    if isinstance(value, str) and value in kind.__members__:
        return kind[value]
    if not isinstance(value, kind):
        raise CallError(
            "E1015",
            f"{name}: {value!r} is no {kind.__name__}",
            (),
            f"there are {', '.join(kind.__members__)}",
        )
    return value
