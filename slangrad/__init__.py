"""slangrad: a Slang compiler with automatic differentiation, called from Python on arrays.

import slangrad as spy

device = spy.create_device(include_paths=["shaders"])
module = spy.Module.load_from_file(device, "polynomial.slang")
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32)).with_grads()
result = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy import (
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from slangrad.api.compiler_options import (
    SlangCompilerOptions,
    SlangDebugInfoLevel,
    SlangFloatingPointMode,
    SlangMatrixLayout,
    SlangOptimizationLevel,
)
from slangrad.api.device import Device, create_device
from slangrad.api.features import DeviceInfo, DeviceType, Feature
from slangrad.api.function import Function
from slangrad.api.module import Module
from slangrad.api.plain_types import show as _show
from slangrad.api.session import SlangSession
from slangrad.api.struct import Struct
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Options
from slangrad.marshal.errors import (
    BoundVariableException,
    CallError,
    KernelGenException,
    ResolveException,
    SlangCompileError,
)
from slangrad.marshal.generators import (
    call_id,
    grid,
    rand_float,
    thread_id,
    wang_hash,
    wang_hash_numpy,
)
from slangrad.marshal.slang_type import SlangType
from slangrad.marshal.values import DiffPair, ValueRef, diffPair, floatDiffPair, floatRef, intRef
from slangrad.marshal.vectors import EXPORTED as _vectors
from slangrad.runtime.reports import BoundsError, KernelAssertionError
from slangrad.tensors.buffer import Buffer, BufferDesc, BufferUsage, MemoryType
from slangrad.tensors.element_types import TypeView as _TypeView
from slangrad.tensors.shape import Shape
from slangrad.tensors.tensor import Tensor

if TYPE_CHECKING:
    from slangrad.api.commands import CommandBuffer, CommandEncoder, ComputePassEncoder
    from slangrad.api.kernel import ComputeKernel, ComputePipeline
    from slangrad.api.reflection import (
        EntryPointLayout,
        ProgramLayout,
        ReflectionCursor,
        TypeLayoutReflection,
        TypeReflection,
        VariableLayoutReflection,
    )
    from slangrad.api.shader import (
        ShaderProgram,
        ShaderStage,
        SlangEntryPoint,
        SlangModule,
        SpecializationArg,
        TypeConformance,
    )
    from slangrad.api.shader_cursor import ShaderCursor, ShaderObject

__version__ = "0.1.0"

# What only programs with kernels of their own use is loaded when it is asked for.
_LATE = {
    "CommandBuffer": "commands",
    "CommandEncoder": "commands",
    "ComputePassEncoder": "commands",
    "ComputeKernel": "kernel",
    "ComputePipeline": "kernel",
    "EntryPointLayout": "reflection",
    "ProgramLayout": "reflection",
    "ReflectionCursor": "reflection",
    "TypeLayoutReflection": "reflection",
    "TypeReflection": "reflection",
    "VariableLayoutReflection": "reflection",
    "ShaderProgram": "shader",
    "ShaderStage": "shader",
    "SlangEntryPoint": "shader",
    "SlangModule": "shader",
    "SpecializationArg": "shader",
    "TypeConformance": "shader",
    "ShaderCursor": "shader_cursor",
    "ShaderObject": "shader_cursor",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'slangrad' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(f"slangrad.api.{_LATE[name]}"), name)
    return found


globals().update(_vectors)
_TypeView.show = _show

NDBuffer = Tensor

__all__ = [
    "BoundVariableException",
    "BoundsError",
    "Buffer",
    "BufferDesc",
    "BufferUsage",
    "CallError",
    "CommandBuffer",
    "CommandEncoder",
    "CompileError",
    "ComputeKernel",
    "ComputePassEncoder",
    "ComputePipeline",
    "Device",
    "DeviceInfo",
    "DeviceType",
    "Diagnostic",
    "DiffPair",
    "EntryPointLayout",
    "Feature",
    "Function",
    "KernelAssertionError",
    "KernelGenException",
    "MemoryType",
    "Module",
    "NDBuffer",
    "Options",
    "ProgramLayout",
    "ReflectionCursor",
    "ResolveException",
    "ShaderCursor",
    "ShaderObject",
    "ShaderProgram",
    "ShaderStage",
    "Shape",
    "SlangCompileError",
    "SlangCompilerOptions",
    "SlangDebugInfoLevel",
    "SlangEntryPoint",
    "SlangFloatingPointMode",
    "SlangMatrixLayout",
    "SlangModule",
    "SlangOptimizationLevel",
    "SlangSession",
    "SlangType",
    "SpecializationArg",
    "Struct",
    "Tensor",
    "TypeConformance",
    "TypeLayoutReflection",
    "TypeReflection",
    "ValueRef",
    "VariableLayoutReflection",
    "call_id",
    "create_device",
    "diffPair",
    "float16",
    "float32",
    "float64",
    "floatDiffPair",
    "floatRef",
    "grid",
    "int16",
    "int32",
    "int64",
    "int8",
    "intRef",
    "rand_float",
    "thread_id",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "wang_hash",
    "wang_hash_numpy",
    *_vectors,
]
