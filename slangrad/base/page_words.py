"""Names that the page of a call uses itself: its own variables, and names of the library.

A program may use each of them for its own. On a page such a word alone is the page's or the library's, and the one
after `::` is the program's:

    int id(int x)   ->   _result.store(id, ::id(x.load(id)));

The page is written by `call`, and read by `check`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_WORDS = """
    kernel shape thread id group
    each expand this
    diffPair bwd_diff fwd_diff DifferentialPair
    CallId CallShape CallShapeInfo Context0D Context1D Context2D Context3D Context4D Context5D ContextND
    ContiguousElements RepeatedElements StridedElements ContiguousIndex RepeatedIndex StridedIndex
    Tensor WTensor RWTensor AtomicTensor PrimalTensor WPrimalTensor RWPrimalTensor DiffTensor WDiffTensor RWDiffTensor
    TangentTensor WTangentTensor RWTangentTensor CurvedTensor DiffSumTensor GradientTensor SumTensor StoreTensor NoSum
    TensorView DiffTensorView IDiffTensorWrapper AtomicAdd
    ITensor IWTensor IRWTensor IDiffTensor IWDiffTensor IRWDiffTensor ISumTensor
    GradInTensor GradOutTensor GradInOutTensor NDBuffer RWNDBuffer
    StructuredBuffer RWStructuredBuffer RasterizerOrderedStructuredBuffer ByteAddressBuffer RWByteAddressBuffer
    Buffer RWBuffer ConstantBuffer ParameterBlock Ptr Optional Tuple vector matrix
"""
PAGE_WORDS = frozenset(_WORDS.split())
_NUMBERS = (
    r"(bool|u?int|half|float|double)(8|16|32|64)?(_t)?([1-9](x[1-9])?)?"  # compiled when it is first used
)


def is_page_word(name: str) -> bool:
    """Whether a page may use a name for its own variables or for the library."""
    return name in PAGE_WORDS or name.startswith("__") or re.fullmatch(_NUMBERS, name) is not None


def rooted(name: str) -> str:
    """A page's spelling of a name that the program declares, with its namespaces in front."""
    first = name.partition("<")[0].partition(".")[0].partition("::")[0]
    return f"::{name}" if is_page_word(first) else name


def unlike(name: str, used: Collection[str]) -> str:
    """The name, or one made of it that is none of those taken."""
    while name in used:
        name += "_"
    return name
