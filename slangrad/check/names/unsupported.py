"""Names of Slang's library that are not supported, and their replacements.

In: "FeedbackTexture2D".   Out: E9001 and "such textures are not supported; use Texture1D, ...", or None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slangrad.check.model.types import ScalarType, StructType, Type, VectorType
from slangrad.check.texts.standard import TEXTURES


@dataclass(frozen=True, slots=True)
class Refusal:
    """The message about a name of Slang."""

    code: str
    note: str


TEXTURE = (
    "such textures are not supported; use Texture1D, Texture2D, Texture3D, TextureCube, arrays, or a tensor"
)
UNBLENDED = "only floats and vectors of floats are blended; t[index] and t.Load(location) read other texels"
WRITTEN = "only textures that are read alone are sampled: declare it without RW, or read t[index]"
MULTISAMPLED = "no sampler applies to several samples; t.Load(location, sample) reads one"
FLAT = "there are 'Gather' of two dimensions and of cubes, comparisons of one, two and of cubes, and samples of all"
HANDLES = "there is no heap to index; declare handles as parameters: DescriptorHandle<Texture2D<float4>>"
NO_HANDLE = "handles stand for buffers, textures and samplers; pass other values themselves, or a pointer"

# fmt: off
_REFUSALS = (
    (r"(RasterizerOrdered|Feedback)Texture\w+|RWTextureCube(Array)?|ITexelElement|TextureFootprint\w+"
     r"|[iu]?(image|texture)(1D|2D|3D|Cube)\w*|(texture|image|texelFetch)[A-Z]\w+|texture|texelFetch"
     r"|[iu]?[sS]ubpassInput\w*|subpassLoad",
     "E9001", TEXTURE),
    (r"[iu]?sampler(1D|2D|3D|Cube|Buffer)\w*|SamplerBuffer\w*|Sampler2DMSArray\w*",
     "E9001", "such samplers are not supported; write Sampler2D<float4>, or a texture and a SamplerState"),
    (r"(Resource|Sampler)DescriptorHeap|__DynamicResource",
     "E9001", HANDLES),
    (r"dd[xy]_\w+|dFd[xy]\w*|fwidth\w*|EvaluateAttribute\w+|interpolateAt\w+|GetAttributeAtVertex|IsHelperLane"
     r"|(begin|end)InvocationInterlock",
     "E9002", "threads are no pixels; ddx, ddy and fwidth are there for groups with quads"),
    (r"Ray(Desc|Query|Flags|tracingAccelerationStructure)\w*|Trace(Motion)?Ray|CallShader|[hH]itObject\w*|ReportHit\w*"
     r"|ReorderThread|IgnoreHit|AcceptHit\w*|DispatchRays\w+|(World|Object)Ray\w+|(Object|World)To\w+|RayT(Min|Current)"
     r"|(Instance|Primitive|Geometry|Cluster)I(D|ndex)|HitKind|HitTriangleVertexPositions?|RAY_FLAG"
     r"|(RAY_FLAG|COMMITTED|CANDIDATE|HIT_KIND)_\w+|BuiltInTriangleIntersectionAttributes|accelerationStructureEXT"
     r"|DispatchMesh|SetMeshOutputCounts|Output(Vertices|Indices|Primitives|Patch)|InputPatch|(Point|Line|Triangle)Stream"
     r"|(Dispatch|Thread|Group|Empty)?Node(In|Out)put\w*",
     "E9002", "ray tracing and graphics stages are not supported"),
    (r"gl_[A-Z]\w+",
     "E9003", "a kernel has its thread as a parameter: uint3 id : SV_DispatchThreadID"),
    (r"[iub]?vec[234]|d?mat[234](x[234])?|inversesqrt|roundEven|(float|int|uint)BitsTo\w+",
     "E9003", "names of GLSL are not supported; write those of HLSL: float4, float4x4, rsqrt, asint"),
    (r"Nv[A-Z]\w+",
     "E9003", "features of a single kind of graphics card are not supported"),
    (r"BindlessAddress",
     "E9004", "memory is laid out as C does; there are pointers and StructuredBuffer"),
    (r"subgroup[A-Z]\w+",
     "E9009", "names of GLSL are not supported; write those of HLSL: WaveActiveSum, WavePrefixSum, WaveReadLaneAt"),
    (r"barrier|groupMemoryBarrier|(memory|allMemory)Barrier\w*|controlBarrier",
     "E9009", "write it as HLSL does: 'GroupMemoryBarrierWithGroupSync()' and its kin"),
    (r"(Append|Consume|RasterizerOrdered)\w*Buffer|GLSLShaderStorageBuffer",
     "E9011", "there are StructuredBuffer, RWStructuredBuffer, ByteAddressBuffer and tensors"),
    (r"isType|getTypeId\w*",
     "E9011", "compare with 'is', or take the value as an interface"),
    (r"[cC]oopMat\w*|linalg|WorkgroupMatrix\w*|WaveTangledVector|InlineVector",
     "E9011", "cooperative matrices are not supported; there are cooperative vectors (CoopVec), arrays and tensors"),
    (r"TorchTensor\w*|TensorLayout",
     "E9011", "there are TensorView, Tensor, DiffTensor and ITensor"),
    (r"assert|abort|debugBreak|clock\w*|getRealtimeClock\w*",
     "E9011", "there is no such function; 'static_assert' checks what is known when compiling, 'printf' shows values"),
    (r"__packBranch",
     "E9011", "'expand' and 'each' run over all elements of a pack"),
    (r"Ref",
     "E9005", "only Slang's own library names references; return the place by 'ref', or a pointer"),
)
# fmt: on


def refused_name(name: str) -> Refusal | None:
    """The message about a name that is not declared."""
    refusals = (Refusal(code, note) for pattern, code, note in _REFUSALS if re.fullmatch(pattern, name))
    return next(refusals, None)


SAMPLES = ("Sample", "Gather", "CalculateLevelOfDetail")


def is_unblended(kind: Type, name: str) -> bool:
    """Whether a member of the library would blend texels that are whole numbers; `Gather` does at corners of cubes."""
    if not name.startswith(SAMPLES) or not isinstance(kind, StructType) or not kind.arguments:
        return False
    declaration, texel = kind.declaration, kind.arguments[0]
    number = texel.element if isinstance(texel, VectorType) else texel
    if declaration.span.source.name not in TEXTURES or not isinstance(number, ScalarType) or number.is_float:
        return False
    is_blend = name.startswith("Sample") or "Cmp" in name or "Cube" in declaration.name
    return is_blend or name.startswith("Calculate")


def refused_member(kind: Type, name: str) -> Refusal | None:
    """The message about a member that a type does not have."""
    file = kind.declaration.span.source.name if isinstance(kind, StructType) else ""
    if name == "Handle" and file.startswith("std/"):
        return Refusal("E9001", NO_HANDLE)
    if file not in TEXTURES or not re.match(
        "__init|Sample|Gather|Calculate|GetSample|Interlocked|Write", name
    ):
        return None
    assert isinstance(kind, StructType)
    texture = kind.declaration.name
    if not name.startswith(SAMPLES):
        return Refusal("E9001", TEXTURE)
    if "2DMS" in texture:
        return Refusal("E9001", MULTISAMPLED)
    if texture.startswith("RW"):
        return Refusal("E9001", WRITTEN)
    return Refusal("E9001", UNBLENDED if is_unblended(kind, name) else FLAT)
