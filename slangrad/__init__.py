"""slangrad: a Slang compiler with automatic differentiation, called from Python on arrays.

import slangrad as spy

device = spy.create_device(include_paths=["shaders"])
module = spy.Module.load_from_file(device, "polynomial.slang")
x = spy.Tensor.from_numpy(device, np.array([1, 2, 3, 4], dtype=np.float32)).with_grads()
result = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
"""

import sys
from importlib import import_module

__version__ = "0.1.0"

# The modules of the public names. A name loads its module on first use, so a warm start loads little.
# fmt: off
_HOMES = {
    "numpy":                                     "float16 float32 float64 int16 int32 int64 int8 uint16 uint32 "
                                                 "uint64 uint8",
    "slangrad":                                  "graph math optim platform",
    "slangrad.api.devices.create":               "create_device create_torch_device default_device",
    "slangrad.api.devices.current":              "create_buffer create_command_encoder create_compute_kernel "
                                                 "create_compute_pipeline create_fence create_query_pool "
                                                 "create_root_shader_object create_shader_object "
                                                 "create_slang_session current_device link_program load_module "
                                                 "load_module_from_source load_program pop_current_device "
                                                 "push_current_device",
    "slangrad.api.devices.device":               "Device SHADER_PATH",
    "slangrad.api.devices.features":             "AdapterInfo DeviceInfo DeviceLimits Feature ShaderModel",
    "slangrad.api.devices.reports":              "HeapReport MemoryReport ShaderCacheStats",
    "slangrad.api.functional.function":          "Function",
    "slangrad.api.functional.instances":         "InstanceList InstanceTensor PackedArg pack",
    "slangrad.api.functional.module":            "Module",
    "slangrad.api.functional.struct":            "Struct",
    "slangrad.api.kernels.commands":             "BufferOffsetPair CommandBuffer CommandEncoder "
                                                 "CommandRecordingDiscardedEvent CommandRecordingSubmittedEvent "
                                                 "ComputePassEncoder",
    "slangrad.api.kernels.fences":               "CommandQueueType Fence FenceDesc QueryPool QueryPoolDesc QueryType",
    "slangrad.api.kernels.kernel":               "ComputeKernel",
    "slangrad.api.kernels.pipeline":             "ComputePipeline",
    "slangrad.api.kernels.shader":               "ShaderProgram ShaderStage SlangEntryPoint SlangModule "
                                                 "SpecializationArg TypeConformance",
    "slangrad.api.kernels.shader_block":         "ShaderBlock",
    "slangrad.api.kernels.shader_cursor":        "ShaderCursor ShaderObject ShaderOffset",
    "slangrad.api.reflection.declarations":      "DeclReflection",
    "slangrad.api.reflection.functions":         "FunctionReflection",
    "slangrad.api.reflection.program_layout":    "EntryPointLayout ProgramLayout ReflectionCursor "
                                                 "TypeLayoutReflection VariableLayoutReflection",
    "slangrad.api.reflection.types":             "Attribute BaseReflectionObject TypeReflection VariableReflection",
    "slangrad.api.sessions.desc":                "DeviceDesc DeviceType SlangCompilerOptions SlangDebugInfoLevel "
                                                 "SlangFloatingPointMode SlangMatrixLayout SlangOptimizationLevel",
    "slangrad.api.sessions.hot_reload":          "ReloadWarning ShaderHotReloadEvent",
    "slangrad.api.sessions.session":             "SlangSession SlangSessionDesc",
    "slangrad.base.diagnostics":                 "CompileError CompileWarning Diagnostic SlangCompileError",
    "slangrad.base.options":                     "Options",
    "slangrad.base.disk.store":                  "CacheWarning",
    "slangrad.call.gradient_check":              "GradientError",
    "slangrad.call.plans.shown_kernels":         "set_dump_generated_shaders set_dump_slang_intermediates "
                                                 "set_print_generated_shaders",
    "slangrad.compat.logger":                    "ConsoleLoggerOutput FileLoggerOutput LogFrequency LogLevel Logger "
                                                 "LoggerOutput log log_debug log_debug_once log_error log_error_once "
                                                 "log_fatal log_fatal_once log_info log_info_once log_warn "
                                                 "log_warn_once",
    "slangrad.compat.tools":                     "SHA1 Timer",
    "slangrad.images.bitmap":                    "Bitmap",
    "slangrad.images.files":                     "ImageError",
    "slangrad.images.loader":                    "TextureLoader",
    "slangrad.marshal.containers.values":        "DiffPair ValueRef diffPair diff_pair floatDiffPair floatRef intRef",
    "slangrad.marshal.errors":                   "BoundVariableException CallError KernelGenException "
                                                 "ResolveException",
    "slangrad.marshal.reflection.buffer_cursor": "BufferCursor BufferElementCursor",
    "slangrad.marshal.reflection.slang_type":    "SlangType",
    "slangrad.marshal.reflection.type_kinds":    "ModifierID",
    "slangrad.marshal.registry":                 "register_type",
    "slangrad.marshal.simple.generators":        "CallIdArg RandFloatArg ThreadIdArg WangHashArg call_id grid "
                                                 "rand_float thread_id wang_hash wang_hash_numpy",
    "slangrad.marshal.simple.samplers":          "ComparisonFunc Sampler SamplerDesc TextureAddressingMode "
                                                 "TextureFilteringMode TextureReductionOp",
    "slangrad.runtime.device":                   "DeviceClosedError",
    "slangrad.runtime.reports":                  "BoundsError KernelAssertionError KernelRecursionError "
                                                 "KernelTypeError NotFiniteError PointerError",
    "slangrad.tensors.buffer":                   "Buffer BufferDesc BufferUsage MemoryType ResourceState",
    "slangrad.tensors.descriptors":              "DescriptorHandle DescriptorHandleType",
    "slangrad.tensors.textures.formats":         "DataType Format FormatChannels FormatInfo FormatType "
                                                 "get_format_info",
    "slangrad.tensors.elements.shape":           "Shape",
    "slangrad.tensors.tensor":                   "Tensor",
    "slangrad.tensors.textures.texture_desc":    "ALL_LAYERS ALL_MIPS SubresourceLayout SubresourceRange TextureDesc "
                                                 "TextureType TextureUsage TextureViewDesc",
    "slangrad.tensors.textures.texture":         "Texture TextureView",
    "slangrad.transforms.finite_differences":    "check_gradients",
    "slangrad.transforms.gradients":             "grad hvp jvp value_and_grad vjp",
}
# fmt: on
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_ALIASES = {"NDBuffer": "Tensor", "float16_t": "float16"}
_PATHS = (
    "bindings",
    "reflection",
    "tev",
    "thread",
    "types",
)  # modules of SlangPy that programs use without an import


class _Paths:
    """Finds modules that have no file (compat/paths.py). Python asks it last; it serves this package only."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> object:
        is_ours = fullname.startswith("slangrad.")
        return import_module("slangrad.compat.paths").find_spec(fullname) if is_ours else None


sys.meta_path.append(_Paths)  # type: ignore[arg-type]


def __getattr__(name: str) -> object:
    with import_module("slangrad.base.process.forks").loading():
        value = globals()[name] = _find(name)
    return value


def _find(name: str) -> object:
    home = _HOME_OF.get(_ALIASES.get(name, name))
    if home is not None:
        if home == "slangrad":  # a module of ours
            return import_module(f"slangrad.{name}")
        return getattr(import_module(home), _ALIASES.get(name, name))
    if name in _PATHS:
        return import_module(f"slangrad.{name}")
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'slangrad' has no attribute '{name}'")
    vectors = import_module("slangrad.marshal.host.vectors")
    if name == "__all__":
        return sorted([*_HOME_OF, *_ALIASES, *vectors.class_names()])
    vector_class = vectors.class_named(name)
    if vector_class is None:
        raise import_module("slangrad.missing_names").missing("module 'slangrad'", name, _find("__all__"))
    return vector_class


def __dir__() -> list[str]:
    return sorted({*globals(), *_find("__all__")})
