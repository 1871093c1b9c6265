"""The type that Slang's `_Texture` with nine arguments stands for.

In: T, __Shape2D, 1, 0, 0, 0, 0, 0, 0.   Out: Texture2DArray<T>, or None where there is no such type.

Here each kind of texture is a struct of its own, so the arguments that tell the kind must be known.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.check.interfaces.lookup import library_type
from slangrad.check.model.checker import Checker
from slangrad.check.model.packs import Entry
from slangrad.check.model.types import GenericArgument, Nominal, StructType

SHAPES = {"__Shape1D": "1D", "__Shape2D": "2D", "__Shape3D": "3D", "__ShapeCube": "Cube"}
READ, READ_WRITE, WRITE = 0, 1, 2  # access
ABSENT = {"Texture3DArray", "RWTextureCube", "RWTextureCubeArray", "Sampler3DShadow"}


def texture_type(checker: Checker, arguments: Sequence[Entry]) -> Nominal | None:
    """The type of texels T, a shape, isArray, isMS, sampleCount, access, isShadow, isCombined, and a format without
    meaning. A combined texture has a sampler of its own, a shadow with it compares."""
    texel, shape, is_array, is_sampled, sample_count, access, is_shadow, is_combined, _ = arguments
    plain = SHAPES.get(shape.declaration.name) if isinstance(shape, StructType) else None
    if plain is None or is_array not in (0, 1) or is_sampled not in (0, 1) or is_combined not in (0, 1):
        return None
    if access not in (READ, READ_WRITE, WRITE) or (
        is_combined and (access != READ or is_shadow not in (0, 1))
    ):
        return None
    if is_sampled and (plain != "2D" or (is_combined and (is_array or is_shadow))):
        return None
    of_samplers = bool(is_combined and is_shadow)
    name = "".join((
        "RW" * (access != READ),
        "Sampler" if is_combined else "Texture",
        plain,
        "MS" * bool(is_sampled),
        "Array" * bool(is_array),
        "Shadow" * of_samplers,
    ))  # fmt: skip
    of_type: tuple[GenericArgument, ...] = () if of_samplers else (texel,)
    if is_sampled:
        of_type = (texel, sample_count)
    return None if name in ABSENT else library_type(checker, name, *of_type)
