"""Settings of a compilation, and the limits that keep it finite.

In: environment variables `SLANGRAD_*`, read once by `Options.from_environment`, or keyword arguments.
Out: one frozen, hashable `Options`, which is part of every cache key.

    Options(lanes=8, bounds_checks=False)      SLANGRAD_LANES=8 SLANGRAD_BOUNDS_CHECKS=0

Zero or an empty text means: decide from the machine. Exceeding a limit is a diagnostic with a code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from slangrad.base.disk.store import Store

MOST_LANES = 64
RESIDUALS = CUT, STORE, RECOMPUTE = "cut", "store", "recompute"
CALLS = AUTO, INLINE, KEEP = "auto", "inline", "keep"


@dataclass(slots=True, frozen=True)
class Limits:
    """Sizes beyond which a program is refused instead of exhausting memory or the stack."""

    # fmt: off
    errors: int = 100                    # errors of one text before its parser gives up
    macro_depth: int = 64                # expansions inside the arguments of expansions
    macro_tokens: int = 1_000_000        # tokens that macros may add to one text
    macro_characters: int = 16_000_000   # the length of these tokens together
    include_depth: int = 64              # files including files
    include_count: int = 1_000           # files included in all, repetitions counted
    nesting_depth: int = 256             # parentheses, types, blocks and declarations inside each other
    chain_length: int = 2_000            # operators, members or `else if`s of one chain: a + b + c + ...
                                         # and declarations or macros of which each needs the next one
    generic_depth: int = 64              # generics that need further instances: f<N> calls f<N + 1>
    instances: int = 20_000              # functions after generics are filled in
    recursion_depth: int = 1 << 16       # calls inside each other when running, of functions that call themselves
    inline_ops: int = 200_000            # ops of one function after inlining, or after unrolling
    unroll_iterations: int = 4_096       # iterations of [ForceUnroll] loops, those inside each other multiplied
    compile_time_steps: int = 100_000    # rounds of all $for
    vector_components: int = 256         # of a vector, or of a matrix
    type_parts: int = 16_384             # scalars, and arrays of scalars, that a type is made of
    array_bytes: int = 16 << 20          # one local array
    local_bytes: int = 16 << 10          # locals and tapes of a lane that stay on the stack
    tape_bytes: int = 1 << 30            # growable tapes of one thread
    # fmt: on


# Checks of kernels besides those of indices, as the text of the site that reports them. After the second one
# follow, each on a line of its own, the type that is wanted and those that may be there.
RECURSION_DEPTH = "recursion_depth"
TYPE_OF_VALUE = "type of a value"
NOT_FINITE = "not finite"
POINTER = "pointer"
CONVERTED = "converted texels"
FIRST_PAGE = 4096  # no memory begins below
ANYWHERE = (1 << 63) - 1  # places from there on that a pointer may lead to


def limit_note(name: str) -> str:
    """The note of a diagnostic about the limit that a program exceeds."""
    assert name in Limits.__slots__, f"there is no limit '{name}'"
    return f"a larger limit can be set: Options(limits=Limits({name}=...))"


@dataclass(slots=True, frozen=True)
class Options:
    """All settings of a compilation."""

    # fmt: off
    lanes: int = 0                       # SIMD width of a CPU kernel, 0: from the machine
    cpu: str = ""                        # instruction set as LLVM names it, "": this machine's
    contraction: bool = True             # a * b + c may become one fused operation
    fast_math: bool = False              # on a GPU: approximate instructions for floats, sums in any order
    deterministic: bool = False          # on a GPU: refuse kernels whose results may differ from run to run
    column_major: bool = False           # matrices without a modifier lie by columns in memory
    bounds_checks: bool = True           # report indices out of range at run time
    segment_trips: int = 256             # iterations that reverse mode keeps at a time of a long loop, 0: all
    residuals: str = CUT                 # what it keeps: by a minimum cut, "store": all that it needs, or
                                         # "recompute": what is not cheap to compute again
    calls: str = field(default_factory=lambda: _calls(os.environ))  # functions that stay functions in
                                         # machine code: "auto": where this saves code, "inline": none, "keep": all
    threads: int = 0                     # CPU threads, 0: from the affinity mask and the cgroup
    processes: int = 0                   # that compile kernels together, 0: as many as processors are idle
    target: str = ""                     # whose code is made, as "cuda:sm_90", "": the device's
    also: tuple[str, ...] = ()           # other targets for which each kernel is compiled, and kept on disk
    optimize: int = 2                    # LLVM's code generation level
    synchronous: bool = False            # each launch on a GPU is waited for, and raises what its kernel reports
    prints: bool = False                 # `print` of sgl.device.print writes; else it does nothing
    check: bool = False                  # report numbers that are not finite, compare gradients with differences
    verify: bool = field(default_factory=lambda: _verifies(os.environ))  # check the IR after each pass
    dump: tuple[str, ...] = ()           # stages to print
    progress: bool = True                # a line on the terminal while something takes long to compile
    disable_warnings: frozenset[str] = frozenset()    # codes of warnings that are not told
    warnings_as_errors: frozenset[str] = frozenset()  # codes of those that are errors
    # fmt: on
    limits: Limits = field(default_factory=Limits)
    store: Store | None = field(
        default=None, compare=False, repr=False
    )  # where kernels are kept, None: the user's

    def __post_init__(self) -> None:
        for name, choices in (("residuals", RESIDUALS), ("calls", CALLS)):
            value = getattr(self, name)
            if value not in choices:
                one_of = ", ".join(map(repr, choices))
                raise ValueError(f"{name} (SLANGRAD_{name.upper()}) must be one of {one_of}, not {value!r}")

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Options:
        """The defaults, changed by `SLANGRAD_<NAME>`; an unreadable value is a ValueError that names it."""
        environment = os.environ if environment is None else environment
        settings: dict[str, Any] = {"verify": False, "calls": AUTO}  # as each field has it
        for setting in fields(Options):
            name, read = f"SLANGRAD_{setting.name.upper()}", _READERS.get(str(setting.type))
            text = environment.get(name, "").strip()
            if text and read is not None:
                settings[setting.name] = read(name, text)
        lanes = settings.get("lanes", 0)
        if lanes > MOST_LANES or lanes & (lanes - 1):
            raise ValueError(f"SLANGRAD_LANES must be a power of two up to {MOST_LANES}, not {lanes}")
        return Options(**settings)


def store_of(options: Options) -> Store:
    """The store for kernels that are compiled with these settings."""
    return options.store or Store.of_environment()


_SWITCH = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


def _verifies(environment: Mapping[str, str]) -> bool:
    """A default of `Options` itself, so that tests verify whatever else a program chooses."""
    text = environment.get("SLANGRAD_VERIFY", "").strip()
    return bool(text) and _switch("SLANGRAD_VERIFY", text)


def _calls(environment: Mapping[str, str]) -> str:
    """A default of `Options` itself, so that all tests of gradients can run with functions kept."""
    return environment.get("SLANGRAD_CALLS", "").strip() or AUTO


def _names(name: str, text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _integer(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _switch(name: str, text: str) -> bool:
    value = _SWITCH.get(text.lower())
    if value is None:
        raise ValueError(f"{name} must be 0 or 1, not {text.lower()!r}")
    return value


# How the value of a variable is read, by the type of the setting as it is written.
_READERS: dict[str, Callable[[str, str], object]] = {
    "bool": _switch,
    "int": _integer,
    "str": lambda name, text: text,
    "tuple[str, ...]": _names,
    "frozenset[str]": lambda name, text: frozenset(_names(name, text)),
}
