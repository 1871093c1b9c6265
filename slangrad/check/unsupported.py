"""Names of Slang's library that are known and not offered, and what to do instead.

In: "Sampler2D".   Out: "samplers are not supported; pass the values in a buffer or tensor", or None.
"""

from __future__ import annotations

import re

# fmt: off
_NOTES = (
    (r"(RasterizerOrdered|Feedback)Texture\w+|(RW)?Texture2DMS(Array)?|[iu]?(sampler|image|texture)(1D|2D|3D|Cube)\w*",
     "textures are not supported; pass the values in a buffer or tensor"),
    (r"Sampler(1D|2D|3D|Cube)\w*",
     "samplers are not supported; pass the values in a buffer or tensor"),
    (r"(RW)?Buffer|(Append|Consume|RasterizerOrdered)\w*Buffer|ConstBufferPointer",
     "there are StructuredBuffer, RWStructuredBuffer, ByteAddressBuffer and tensors"),
    (r"Wave(Clustered|Multi|Mask)\w+",
     "there are WaveActiveSum and its kin, WavePrefixSum, WaveReadLaneAt and others, but not this one"),
    (r"Quad\w+|ddx\w*|ddy\w*|fwidth\w*",
     "threads are no pixels, so they have no neighbors"),
    (r"barrier|groupMemoryBarrier|(memory|allMemory)Barrier\w*|controlBarrier",
     "write it as HLSL does: 'GroupMemoryBarrierWithGroupSync()' and its kin"),
    (r"Ray(Desc|Query|tracingAccelerationStructure)\w*|TraceRay|CallShader|HitObject|ReportHit|DispatchMesh",
     "ray tracing and graphics stages are not supported"),
    (r"isType|reinterpret|getTypeId\w*",
     "types that are known at run time only are not supported; use generics, or an enum and a switch"),
    (r"Coop(Vec|Mat)\w*|WorkgroupMatrix\w*",
     "cooperative vectors and matrices are not supported; use arrays or tensors"),
    (r"assert|abort|debugBreak|clock\w*|getRealtimeClock\w*",
     "there is no such function; 'static_assert' checks what is known when compiling, 'printf' shows values"),
)
# fmt: on


def unsupported_name(name: str) -> str | None:
    return next((note for pattern, note in _NOTES if re.fullmatch(pattern, name)), None)
