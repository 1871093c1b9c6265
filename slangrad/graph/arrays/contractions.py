"""np.einsum in terms of products of two.

    ij,jk,kl->il        einsum(ij,jk->ik), einsum(ik,kl->il)      the order is NumPy's `einsum_path`

A node `einsum` has two operands, with each letter at most once in each. Each letter occurs in the other operand or
in the result; other axes are summed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_letters

import numpy as np

from slangrad.graph.arrays.array import Array, implements, lifted, mapped, reduced
from slangrad.graph.arrays.traces import TRACES
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, make

# Functions that know some products as the last step of another operator, which they give. Other files enter them.
RECOGNIZED: list[Callable[[Node], Array | None]] = []


@implements(np.einsum)
def einsum(letters: str, *arrays: object, optimize: object = False, **_: object) -> Array:
    """np.einsum. GraphError: E1040 for names of axes that are no letters, E1042 where shapes do not fit."""
    operands = [lifted(array) for array in arrays]
    ins, out = _parsed(letters, operands)
    for k, names in enumerate(ins):
        ins[k], operands[k] = _diagonal(names, operands[k])
    sizes: dict[str, int] = {}
    for names, x in zip(ins, operands, strict=True):
        for name, n in zip(names, x.shape, strict=True):
            if sizes.setdefault(name, n) != n and 1 not in (n, sizes[name]):
                shapes = ", ".join(str(x.shape) for x in operands)
                axis_text = name if name in letters else "..."
                raise GraphError(
                    "E1042", f"einsum '{letters}': '{axis_text}' has more than one size in {shapes}"
                )
            sizes[name] = n if sizes[name] == 1 else sizes[name]
    for k, (names, x) in enumerate(zip(ins, operands, strict=True)):  # an axis of size 1 is that of no letter
        real = {name: n for name, n in zip(names, x.shape, strict=True) if n == sizes[name]}
        ins[k], operands[k] = "".join(real), x.reshape([*real.values()])
    while len(operands) > 2:
        stand_ins = [np.broadcast_to(np.float32(0), x.shape) for x in operands]
        path = np.einsum_path(f"{','.join(ins)}->{out}", *stand_ins, optimize="greedy")[0]
        i, j = sorted(path[1])[:2]
        others = "".join(names for k, names in enumerate(ins) if k not in (i, j)) + out
        kept = "".join(dict.fromkeys(name for name in ins[i] + ins[j] if name in others))
        product = _pair(ins[i], ins[j], kept, operands[i], operands[j])
        ins = [names for k, names in enumerate(ins) if k not in (i, j)] + [kept]
        operands = [x for k, x in enumerate(operands) if k not in (i, j)] + [product]
    if len(operands) == 1:
        return laid_out(*_summed(operands[0], ins[0], out), out)
    (left, right), (a, b) = ins, operands
    return _pair(left, right, out, a, b)


def _parsed(letters: str, operands: list[Array]) -> tuple[list[str], str]:
    if not isinstance(letters, str):
        raise GraphError("E1040", "einsum: axes as lists cannot be traced", "'ij,jk->ik' is a text")
    left, arrow, out = letters.replace(" ", "").partition("->")
    ins, shapes = left.split(","), ", ".join(str(x.shape) for x in operands)
    misfit = GraphError("E1042", f"einsum '{letters}' does not fit shapes {shapes}")
    if len(ins) != len(operands):
        raise misfit
    # Axes of "..." are other letters, counted from the last.
    rest = [(x.ndim - len(n) + 3) * ("..." in n) for n, x in zip(ins, operands, strict=True)]
    more = "".join(sorted({*ascii_letters}.difference(letters)))[: max(0, *rest)]
    ins = [n.replace("...", more[len(more) - max(0, k) :], 1) for n, k in zip(ins, rest, strict=True)]
    left, out = ",".join(ins), out.replace("...", more, 1)
    if not all(map(str.isalpha, "".join((*ins, out)))):
        raise GraphError("E1040", f"einsum '{letters}': names of axes other than letters cannot be traced")
    if any(len(n) != x.ndim for n, x in zip(ins, operands, strict=True)):
        raise misfit
    if not arrow:
        out = more + "".join(sorted(name for name in {*left} - {",", *more} if left.count(name) == 1))
    if len(set(out)) != len(out) or set(out) - set(left) or set(more) - set(out):
        message = f"einsum '{letters}': each letter of the result stands once, and in an operand; '...' stays"
        raise GraphError("E1042", message)
    return ins, out


def _diagonal(names: str, x: Array) -> tuple[str, Array]:
    """An operand with each letter once: letters that stand twice are a diagonal."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            if x.shape[i] != x.shape[j]:
                message = f"einsum: the diagonal '{name}' of shape {x.shape} has axes of other sizes"
                raise GraphError("E1042", message)
            x, names = x.diagonal(0, i, j), names[:i] + names[i + 1 : j] + names[j + 1 :] + name
    return names, x


def _pair(left: str, right: str, out: str, a: Array, b: Array) -> Array:
    dtype = np.result_type(a.dtype, b.dtype)
    a, left = _summed(a.astype(dtype), left, right + out)
    b, right = _summed(b.astype(dtype), right, left + out)
    if not set(left) & set(right) - set(out):  # no sum is left: a product of elements
        return mapped("multiply", [laid_out(a, left, out), laid_out(b, right, out)], dtype)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    shape = tuple(sizes[name] for name in out)
    names = {ord(name): chr(97 + i) for i, name in enumerate(sizes)}  # of two equal products, the same
    letters = f"{left},{right}->{out}".translate(names)
    product = make("einsum", [a.node, b.node], shape, dtype, letters=letters)
    if TRACES.trace is not None:  # derivatives are still to come; rules keep what these read
        for recognize in RECOGNIZED:
            other = recognize(product)
            if other is not None:
                return other
    return Array(product)


def _summed(x: Array, names: str, wanted: str) -> tuple[Array, str]:
    alone = tuple(i for i, name in enumerate(names) if name not in wanted)
    kept = "".join(name for name in names if name in wanted)
    return (reduced("sum", x, alone, dtype=x.dtype), kept) if alone else (x, names)


def laid_out(x: Array, letters: Sequence[str], names: str) -> Array:
    """The array with an axis for each of `names`, in their order. An axis that it does not have gets size 1."""
    sizes = dict(zip(letters, x.shape, strict=True))
    return x.transpose([letters.index(c) for c in names if c in sizes]).reshape(
        [sizes.get(c, 1) for c in names]
    )
