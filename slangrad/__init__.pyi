"""The public names, for type checkers; `__init__.py` says where each is found."""

from typing import Any

from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64

from slangrad import math as math
from slangrad import optim as optim
from slangrad.api.commands import CommandBuffer as CommandBuffer
from slangrad.api.commands import CommandEncoder as CommandEncoder
from slangrad.api.commands import ComputePassEncoder as ComputePassEncoder
from slangrad.api.compiler_options import SlangCompilerOptions as SlangCompilerOptions
from slangrad.api.compiler_options import SlangDebugInfoLevel as SlangDebugInfoLevel
from slangrad.api.compiler_options import SlangFloatingPointMode as SlangFloatingPointMode
from slangrad.api.compiler_options import SlangMatrixLayout as SlangMatrixLayout
from slangrad.api.compiler_options import SlangOptimizationLevel as SlangOptimizationLevel
from slangrad.api.current import create_buffer as create_buffer
from slangrad.api.current import create_command_encoder as create_command_encoder
from slangrad.api.current import create_compute_kernel as create_compute_kernel
from slangrad.api.current import create_compute_pipeline as create_compute_pipeline
from slangrad.api.current import create_root_shader_object as create_root_shader_object
from slangrad.api.current import create_slang_session as create_slang_session
from slangrad.api.current import current_device as current_device
from slangrad.api.current import link_program as link_program
from slangrad.api.current import load_module as load_module
from slangrad.api.current import load_module_from_source as load_module_from_source
from slangrad.api.current import load_program as load_program
from slangrad.api.current import pop_current_device as pop_current_device
from slangrad.api.current import push_current_device as push_current_device
from slangrad.api.device import Device as Device
from slangrad.api.device import create_device as create_device
from slangrad.api.features import AdapterInfo as AdapterInfo
from slangrad.api.features import DeviceDesc as DeviceDesc
from slangrad.api.features import DeviceInfo as DeviceInfo
from slangrad.api.features import DeviceType as DeviceType
from slangrad.api.features import Feature as Feature
from slangrad.api.features import ShaderModel as ShaderModel
from slangrad.api.function import Function as Function
from slangrad.api.instances import InstanceList as InstanceList
from slangrad.api.instances import InstanceTensor as InstanceTensor
from slangrad.api.kernel import ComputeKernel as ComputeKernel
from slangrad.api.kernel import ComputePipeline as ComputePipeline
from slangrad.api.module import Module as Module
from slangrad.api.packed import PackedArg as PackedArg
from slangrad.api.packed import pack as pack
from slangrad.api.reflection import EntryPointLayout as EntryPointLayout
from slangrad.api.reflection import ProgramLayout as ProgramLayout
from slangrad.api.reflection import TypeLayoutReflection as TypeLayoutReflection
from slangrad.api.reflection import TypeReflection as TypeReflection
from slangrad.api.reflection import VariableLayoutReflection as VariableLayoutReflection
from slangrad.api.reflection_cursor import ReflectionCursor as ReflectionCursor
from slangrad.api.session import SlangSession as SlangSession
from slangrad.api.session import SlangSessionDesc as SlangSessionDesc
from slangrad.api.shader import ShaderProgram as ShaderProgram
from slangrad.api.shader import ShaderStage as ShaderStage
from slangrad.api.shader import SlangEntryPoint as SlangEntryPoint
from slangrad.api.shader import SlangModule as SlangModule
from slangrad.api.shader import SpecializationArg as SpecializationArg
from slangrad.api.shader import TypeConformance as TypeConformance
from slangrad.api.shader_cursor import ShaderCursor as ShaderCursor
from slangrad.api.shader_cursor import ShaderObject as ShaderObject
from slangrad.api.struct import Struct as Struct
from slangrad.base.diagnostics import CompileError as CompileError
from slangrad.base.diagnostics import CompileWarning as CompileWarning
from slangrad.base.diagnostics import Diagnostic as Diagnostic
from slangrad.base.diagnostics import SlangCompileError as SlangCompileError
from slangrad.base.options import Options as Options
from slangrad.call.compared import GradientError as GradientError
from slangrad.marshal.buffer_cursor import BufferCursor as BufferCursor
from slangrad.marshal.buffer_cursor import BufferElementCursor as BufferElementCursor
from slangrad.marshal.errors import BoundVariableException as BoundVariableException
from slangrad.marshal.errors import CallError as CallError
from slangrad.marshal.errors import KernelGenException as KernelGenException
from slangrad.marshal.errors import ResolveException as ResolveException
from slangrad.marshal.generators import CallIdArg as CallIdArg
from slangrad.marshal.generators import RandFloatArg as RandFloatArg
from slangrad.marshal.generators import ThreadIdArg as ThreadIdArg
from slangrad.marshal.generators import WangHashArg as WangHashArg
from slangrad.marshal.generators import call_id as call_id
from slangrad.marshal.generators import grid as grid
from slangrad.marshal.generators import rand_float as rand_float
from slangrad.marshal.generators import thread_id as thread_id
from slangrad.marshal.generators import wang_hash as wang_hash
from slangrad.marshal.generators import wang_hash_numpy as wang_hash_numpy
from slangrad.marshal.slang_type import SlangType as SlangType
from slangrad.marshal.values import DiffPair as DiffPair
from slangrad.marshal.values import ValueRef as ValueRef
from slangrad.marshal.values import diff_pair as diff_pair
from slangrad.marshal.values import diffPair as diffPair
from slangrad.marshal.values import floatDiffPair as floatDiffPair
from slangrad.marshal.values import floatRef as floatRef
from slangrad.marshal.values import intRef as intRef
from slangrad.runtime.device import DeviceClosedError as DeviceClosedError
from slangrad.runtime.reports import BoundsError as BoundsError
from slangrad.runtime.reports import KernelAssertionError as KernelAssertionError
from slangrad.runtime.reports import KernelRecursionError as KernelRecursionError
from slangrad.runtime.reports import KernelTypeError as KernelTypeError
from slangrad.runtime.reports import NotFiniteError as NotFiniteError
from slangrad.tensors.buffer import Buffer as Buffer
from slangrad.tensors.buffer import BufferDesc as BufferDesc
from slangrad.tensors.buffer import BufferUsage as BufferUsage
from slangrad.tensors.buffer import MemoryType as MemoryType
from slangrad.tensors.shape import Shape as Shape
from slangrad.tensors.tensor import Tensor as Tensor
from slangrad.transforms.finite_differences import check_gradients as check_gradients
from slangrad.transforms.gradients import grad as grad
from slangrad.transforms.gradients import hvp as hvp
from slangrad.transforms.gradients import jvp as jvp
from slangrad.transforms.gradients import value_and_grad as value_and_grad
from slangrad.transforms.gradients import vjp as vjp

NDBuffer = Tensor
float16_t = float16
__version__: str
__all__: list[str]

def __getattr__(name: str) -> Any: ...  # float3, int4x4, ...
