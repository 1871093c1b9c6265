"""SlangPy's names about the formats and shapes of textures.

SCALARTYPE_TO_TEXTURE_FORMAT[ScalarKind.float32][3]  ->  Format.rgba32_float
get_texture_shape(cube)                              ->  Shape(6, 16, 16)
"""

from __future__ import annotations

from enum import Enum

from slangrad.ir.data import types as ir
from slangrad.ir.data.types import vector
from slangrad.marshal.reflection.type_kinds import ScalarKind
from slangrad.tensors.elements.shape import Shape
from slangrad.tensors.textures.texture import Texture
from slangrad.tensors.textures.texture_desc import KINDS, format_of, halved

_SCALARS = {
    ScalarKind.float32: ir.F32, ScalarKind.float16: ir.F16, ScalarKind.uint32: ir.U32, ScalarKind.uint16: ir.U16,
    ScalarKind.uint8: ir.U8, ScalarKind.int32: ir.I32, ScalarKind.int16: ir.I16, ScalarKind.int8: ir.I8,
}  # fmt: skip

# The formats of textures that calls return, by the type of numbers and one less than their count; None for none.
SCALARTYPE_TO_TEXTURE_FORMAT: dict[ScalarKind, tuple[Enum | None, ...]] = {
    kind: tuple(format_of(scalar if count == 1 else vector(scalar, count)) for count in (1, 2, 3, 4))
    for kind, scalar in _SCALARS.items()
}


def get_texture_shape(texture: Texture, mip: int = 0) -> Shape:
    """The sizes of a level, outermost first: textures of an array, the six faces of a cube, depth, height, width.
    ValueError for a level that is not there."""
    _, count, is_array, faces = KINDS[texture.type]
    texture.get_mip_width(mip)
    sizes = [halved(size, mip) for size in (texture.depth, texture.height, texture.width)][3 - count :]
    return Shape((*[texture.array_length] * is_array, *[6] * (faces == 6), *sizes))
