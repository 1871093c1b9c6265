"""The methods of a device that make textures, views of them, and samplers. They load with the first of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slangrad.base.lazy import LazyModule
from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import AnyArray, HostValue

if TYPE_CHECKING:
    from slangrad.marshal.simple import samplers as SAMPLERS
    from slangrad.tensors.textures import texture as TEXTURES
    from slangrad.tensors.textures import texture_desc as DESCS
else:
    SAMPLERS = LazyModule("slangrad.marshal.simple.samplers")
    TEXTURES = LazyModule("slangrad.tensors.textures.texture")
    DESCS = LazyModule("slangrad.tensors.textures.texture_desc")


class MakesTextures:
    """Makes textures and samplers of the device that it is part of."""

    def create_texture(
        self,
        desc: DESCS.TextureDesc | Mapping[str, HostValue] | None = None,
        *,
        data: AnyArray | None = None,
        **named: HostValue,
    ) -> TEXTURES.Texture:
        """Texels of a `format`, in `width`, `height` and `depth` as far as the `type` has them, with `array_length`
        layers and `mip_count` levels of detail (`ALL_MIPS`: down to one texel). These and the other fields of a
        TextureDesc are given as a desc, a dict or by name; the type is `texture_2d` if none is given.

        `data` are the texels of the first level, rows first, layers before them and channels last; all others are
        zero. ValueError where sizes do not fit together, TypeError for what is of another type, CallError (E9001)
        for formats and types that are not supported.
        """
        try:
            return TEXTURES.Texture(self, DESCS.TextureDesc.of(desc, named), data)
        except DESCS.UnsupportedTexture as error:
            raise CallError(error.code, f"create_texture: {error.reason}") from None

    def create_sampler(
        self, desc: SAMPLERS.SamplerDesc | Mapping[str, HostValue] | None = None, **named: HostValue
    ) -> SAMPLERS.Sampler:
        """How values between texels and outside of a texture are found: `min_filter`, `mag_filter` and `mip_filter`,
        `address_u` to `address_w`, `border_color`, `mip_lod_bias`, `min_lod`, `max_lod`. They are given as a desc, a
        dict or by name; without them filters blend and textures repeat. TypeError and ValueError for what makes no
        sampler, CallError (E9001) for what is not supported."""
        return SAMPLERS.Sampler(self, SAMPLERS.SamplerDesc.of(desc, named))

    def create_texture_view(
        self,
        texture: TEXTURES.Texture,
        desc: DESCS.TextureViewDesc | Mapping[str, HostValue] | None = None,
        **named: HostValue,
    ) -> TEXTURES.TextureView:
        """A texture over some levels and layers of another, in its memory: `mip`, `mip_count`, `layer`, `layer_count`,
        as `texture.create_view` has it. TypeError for what is no texture, ValueError for levels and layers that are
        not there, CallError (E9001) for views that are not supported."""
        if not isinstance(texture, TEXTURES.Texture):
            raise TypeError(f"texture: expected a Texture, not {type(texture).__name__}")
        try:
            return texture.create_view(desc, **named)
        except DESCS.UnsupportedTexture as error:
            raise CallError(error.code, f"create_texture_view: {error.reason}") from None
