"""Products that an array joins are written to their places in it.

concatenate(x @ a, y @ b)      both products store into columns of the result, and nothing is copied
"""

from __future__ import annotations

from collections import Counter

from slangrad.graph.ir.layout import StridedLayout, dense, reshaped, sliced
from slangrad.graph.ir.node import Node, Shape
from slangrad.graph.ir.ops import behind_views
from slangrad.graph.lowering.products import has_choice
from slangrad.graph.rewriting.fuse import Fusion, Group


def place_products(fusion: Fusion) -> None:
    """Enter the places of products that only a concatenation reads, once and as a whole. An output stays one, as it may
    take the memory of an input."""
    products = {group.roots[0] for group in fusion.groups if has_choice(group) and group.inner is None}
    readers = Counter(node for group in fusion.groups for node in group.reads)
    single = {node for node in products - fusion.outputs if readers[node] == 1}
    for group in fusion.groups:
        if group.roots[0].op == "concatenate" and group.roots[0] not in fusion.outputs:
            _place_joined(fusion, group, single)


def _place_joined(fusion: Fusion, group: Group, products: set[Node]) -> None:
    (joined,), start = group.roots, 0
    axis, reads = joined.attributes["axis"], [_read_by(fusion, source) for source in joined.inputs]
    uses = Counter(node for read in reads for node in read)
    for source in joined.inputs:
        starts = tuple(start if i == axis else 0 for i in range(len(joined.shape)))
        to = sliced(dense(joined.shape), source.shape, starts, (1,) * len(joined.shape))
        start += source.shape[axis]
        product, views = behind_views(source)
        if product in products and uses[product] == 1:
            place = _place(fusion.layout(product, views), to, product.shape)
            if place is not None:
                fusion.placed[product] = joined, place


def _read_by(fusion: Fusion, source: Node) -> set[Node]:
    """The stored nodes that a part is computed from."""
    read, left = set[Node](), [source]
    while left:
        node = left.pop()
        if node in fusion.stored:
            read.add(node)
        else:
            left += node.inputs
    return read


def _place(shown: StridedLayout, to: StridedLayout, shape: Shape) -> StridedLayout | None:
    """The layout of an array of `shape` in the memory of another one. `shown`: a view of the array, and `to`: that view
    in the other memory. None if the view does not show each element once, or no strides show the array there."""
    pairs = zip(shown.shape, shown.strides, to.strides, strict=True)
    axes = sorted(((step, n, other_step) for n, step, other_step in pairs if n > 1), reverse=True)
    sizes = tuple(n for _, n, _ in axes)
    if shown.offset or tuple(step for step, _, _ in axes) != dense(sizes).strides or 0 in shape:
        return None
    return reshaped(StridedLayout(sizes, tuple(other_step for _, _, other_step in axes), to.offset), shape)
