"""The cost model: the seconds of a kernel, from its arithmetic and from the bytes that it moves.

seconds = max(operations / rate, bytes / bandwidth) + launch
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineRates:
    """Operations and bytes in a second, seconds for a launch; of one core of a common processor. `call`: seconds of a
    training step beside its kernels, and `argument` those of each array that it reads; 0 if they were not measured."""

    rate: float = 2e10
    bandwidth: float = 1e10
    launch: float = 2e-6
    call: float = 0.0
    argument: float = 0.0

    def seconds(self, flops: float, moved: float) -> float:
        return max(flops / self.rate, moved / self.bandwidth) + self.launch


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic operations, and accesses and bytes of memory, each element of an array counted once."""

    flops: int
    accesses: int
    bytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.accesses + other.accesses, self.bytes + other.bytes)

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0
