"""Facts of a machine for code generation: its name in LLVM, its usual number of lanes, its features.

Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 16, Features(...))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

LANES = (1, 2, 4, 8, 16, 32, 64)
SIMD_FLAG = re.compile(r"\+(s?sse|avx|fma|f16c|neon|sve|bf16|fullfp16)")

# LLVM shall use registers of 512 bits where there are some: a wave fills one.
FUNCTION_ATTRIBUTES = (
    'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
)


@dataclass(frozen=True, slots=True)
class Features:
    """Features that change the written instructions; LLVM handles all others."""

    half: bool  # converts between half and float
    fma: bool  # multiplies and adds with one rounding
    masked_loads: bool  # under a mask of lanes as fast as without
    masked_stores: bool
    mask_registers: bool
    half_arithmetic: bool = False  # adds, multiplies, divides and compares halves as they are

    @property
    def register_bytes(self) -> int:
        """Of a vector register."""
        return 64 if self.mask_registers else 32 if self.masked_loads else 16

    @property
    def registers(self) -> int:
        """How many vector registers there are, at least."""
        return 32 if self.mask_registers else 16


@dataclass(frozen=True, slots=True)
class TargetMachine:
    triple: str
    cpu: str
    flags: str  # features as LLVM writes them: "+avx2,-fma"; those that the cpu's name implies may be missing
    lanes: int
    features: Features

    @property
    def abilities(self) -> tuple[str, ...]:
        """The flags about SIMD, and the features, by names for people."""
        flags = [flag[1:] for flag in self.flags.split(",") if SIMD_FLAG.match(flag)]
        features = [
            field.name.replace("_", " ") for field in fields(Features) if getattr(self.features, field.name)
        ]
        return tuple(dict.fromkeys([*flags, *features]))
