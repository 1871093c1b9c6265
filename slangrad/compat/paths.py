"""Paths of SlangPy's package under which programs import names that `slangrad` has elsewhere.

    from slangrad.types.wanghasharg import WangHashArg        from slangrad.core.function import Function

Each path is a module without a file, made from its row of the table when it is imported. A name is one of the package
or stands in the second table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "slangrad"

_TYPES = (
    "CallIdArg DiffPair NDBuffer RandFloatArg Tensor ThreadIdArg ValueRef WangHashArg call_id diffPair floatDiffPair "
    "floatRef intRef rand_float thread_id wang_hash"
)
_KINDS = (
    "ArrayType ByteAddressBufferType DiffTensorViewType DifferentialPairType InterfaceType MatrixType PointerType "
    "ResourceType SamplerStateType ScalarType StructType StructuredBufferType TensorType TensorViewType "
    "TextureType UnhandledType UnknownType VectorType VoidType TensorAccess ITensorType"
)
_QUESTIONS = "is_known is_known_or_none is_matching_array_type is_unknown"
_VIEWS = "SlangField SlangFunction SlangLayout SlangParameter SlangProgramLayout SlangType TypeReflection"
_REFLECTION = f"{_KINDS} {_QUESTIONS} {_VIEWS}"
_LOOKUP = "innermost_type numpy_to_slang resolve_element_type resolve_program_layout slang_to_numpy"
_MARSHALLS = "BindContext CallContext Marshall NativeMarshall NativeValueMarshall can_direct_bind_common"
_TABLES = "PYTHON_SIGNATURES PYTHON_TYPES get_or_create_type lookup_signature_callback lookup_type_callback"
_CURSORS = "WriteToCursorMarshall WriteToCursorMarshallInfo register_write_to_cursor_type"
_CODE = "CodeGen CodeGenBlock"
_BINDINGS = (
    f"{_MARSHALLS} {_TABLES} {_CURSORS} {_CODE} ReturnContext AccessType BoundCall BoundCallRuntime BoundVariable "
    "BoundVariableException BoundVariableRuntime Shape"
)
# fmt: off
PATHS = {
    "bindings":                 _BINDINGS,
    "bindings.boundvariable":   "BoundCall BoundVariable BoundVariableException can_direct_bind_common",
    "bindings.boundvariableruntime": "BoundCallRuntime BoundVariableRuntime",
    "bindings.codegen":         _CODE,
    "bindings.cursor":          _CURSORS,
    "bindings.marshall":        "BindContext Marshall ReturnContext",
    "bindings.typeregistry":    _TABLES,
    "builtin":                  "",
    "builtin.texture":          "SCALARTYPE_TO_TEXTURE_FORMAT",
    "core":                     "",
    "core.calldata":            "CallData set_dump_generated_shaders set_dump_slang_intermediates "
                                "set_print_generated_shaders",
    "core.callsignature":       "BoundCall BoundVariable ResolveException",
    "core.enums":               "IOType PrimType",
    "core.function":            "Function",
    "core.instance":            "InstanceList InstanceTensor",
    "core.module":              "Module",
    "core.native":              "AccessType CallContext CallMode NativeCallRuntimeOptions NativeMarshall "
                                "NativeValueMarshall Shape unpack_args unpack_kwargs",
    "core.packedarg":           "PackedArg pack",
    "core.shapes":              "TShapeOrTuple",
    "core.struct":              "Struct",
    "core.utils":               "create_device create_torch_device find_type_layout_for_buffer parse_generic_signature",
    "experimental":             "",
    "experimental.diffinstancelist": "InstanceDifferentiableBuffer",
    "experimental.gridarg":     "GridArg grid",
    "reflection":               _REFLECTION,
    "reflection.lookup":        _LOOKUP,
    "reflection.reflectiontypes": _REFLECTION,
    "reflection.typeresolution": "ResolutionDiagnostic ResolveResult resolve_function",
    "slangpy":                  "Shape get_texture_shape",
    "tev":                      "show show_async",
    "thread":                   "wait_for_tasks",
    "types":                    _TYPES,
    "types.buffer":             "NDBuffer",
    "types.callidarg":          "CallIdArg call_id",
    "types.diffpair":           "DiffPair diffPair floatDiffPair",
    "types.randfloatarg":       "RandFloatArg rand_float",
    "types.tensor":             "Tensor",
    "types.threadidarg":        "ThreadIdArg thread_id",
    "types.valueref":           "ValueRef floatRef intRef",
    "types.wanghasharg":        "WangHashArg calc_wang_hash calc_wang_hash_numpy wang_hash",
}
# The modules of names that are not public in the package.
_HOMES = {
    "slangrad.api.functional.call_data":      "AccessType BoundCall BoundCallRuntime BoundVariable "
                                              "BoundVariableRuntime CallData CallMode NativeCallRuntimeOptions",
    "slangrad.api.functional.instances":      "InstanceDifferentiableBuffer",
    "slangrad.api.reflection.slang_layout":   "SlangFunction SlangProgramLayout",
    "slangrad.compat.arguments":              "ReturnContext",
    "slangrad.compat.marshall":               f"{_MARSHALLS} {_CODE}",
    "slangrad.compat.type_resolution":        f"{_LOOKUP} {_QUESTIONS} ResolutionDiagnostic ResolveResult SlangLayout "
                                              "TShapeOrTuple find_type_layout_for_buffer resolve_function unpack_args "
                                              "unpack_kwargs",
    "slangrad.compat.textures":               "SCALARTYPE_TO_TEXTURE_FORMAT get_texture_shape",
    "slangrad.compat.tev":                    "show show_async",
    "slangrad.compat.types":                  f"{_TABLES} {_CURSORS}",
    "slangrad.images.tasks":                  "wait_for_tasks",
    "slangrad.marshal.containers.values":     "PrimType",
    "slangrad.marshal.protocol.spelling":     "parse_generic_signature",
    "slangrad.marshal.reflection.slang_type": f"{_KINDS} IOType SlangField SlangParameter",
    "slangrad.marshal.simple.generators":     "GridArg calc_wang_hash calc_wang_hash_numpy",
}
# fmt: on
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def find_name(name: str) -> object:
    return getattr(import_module(_HOME_OF.get(name, PACKAGE)), name)


class PathLoader(Loader):
    """Fills the module of a path."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update({name: find_name(name) for name in self._names})
        module.__dict__["__all__"] = list(self._names)
        module.__dict__["__getattr__"] = partial(_path_below, module.__name__)


def _path_below(path: str, name: str) -> ModuleType:
    if f"{path}.{name}".removeprefix(f"{PACKAGE}.") in PATHS:
        return import_module(f"{path}.{name}")
    raise AttributeError(f"module '{path}' has no attribute '{name}'")


def find_spec(fullname: str) -> ModuleSpec | None:
    """The finder of `slangrad`'s modules without a file."""
    names = PATHS.get(fullname.removeprefix(f"{PACKAGE}."))
    return None if names is None else ModuleSpec(fullname, PathLoader(names.split()), is_package=True)
