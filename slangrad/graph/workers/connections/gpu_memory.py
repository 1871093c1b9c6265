"""Memory of a GPU for exchanges: itself, as tensors of torch, or copies on the host.

pending = staged(link, collective, source, result)      Tensors; `source` is None where the result lies in its place
pending.wait()                                          kernels that are launched from now on read the result
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

import slangrad as spy
from slangrad.graph.ir.values import numpy_type

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.links import Link, Pending
    from slangrad.graph.workers.meshes.collectives import Collective

# Sums of unsigned integers have the bits of those of signed ones, and torch adds these alone.
SIGNED = {"u2": "int16_t", "u4": "int", "u8": "int64_t"}


@dataclass(frozen=True, slots=True)
class StagedExchange:
    """A collective over copies on the host that has begun."""

    pending: Pending
    array: np.ndarray
    result: spy.Tensor

    @property
    def has_ended(self) -> bool:
        return self.pending.has_ended

    def wait(self) -> None:
        """Return when the GPU has the result. WorkerLost as of `Pending.wait`."""
        self.pending.wait()
        self.result.copy_from_numpy(self.array)


def staged(
    link: Link, collective: Collective, source: spy.Tensor | None, result: spy.Tensor
) -> StagedExchange:
    """Begin with copies, which wait for the kernels that fill the memory. WorkerLost as of `Link.start`."""
    sent = None if source is None else source.to_numpy()
    array = result.to_numpy() if source is None else np.empty(tuple(result.shape), numpy_type(result))
    return StagedExchange(link.start(collective, sent, array), array, result)


def numbers_of(tensor: spy.Tensor) -> torch.Tensor:
    """The memory of a Tensor without gaps, flat. BufferError where PyTorch does not have the GPU."""
    signed = SIGNED.get(numpy_type(tensor).str[1:])
    flat = tensor.view((tensor.element_count,), (1,))
    numbers: torch.Tensor = (flat if signed is None else flat.view(flat.shape, (1,), dtype=signed)).to_torch()
    return numbers


def bytes_of(tensor: spy.Tensor) -> torch.Tensor:
    """The bytes of a Tensor, flat, or of a copy if it has gaps. BufferError where PyTorch does not have the GPU."""
    dense: torch.Tensor = tensor.to_torch().contiguous()
    return dense.reshape(-1).view(torch.uint8)
