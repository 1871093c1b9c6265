"""Words of reflection: kinds of types, declarations and modifiers, with SlangPy's names and Slang's numbers."""

from __future__ import annotations

from enum import Enum


class TypeKind(Enum):
    """Kinds of types."""

    none = 0
    struct = 1
    array = 2
    matrix = 3
    vector = 4
    scalar = 5
    constant_buffer = 6
    resource = 7
    sampler_state = 8
    texture_buffer = 9
    shader_storage_buffer = 10
    parameter_block = 11
    generic_type_parameter = 12
    interface = 13
    output_stream = 14
    specialized = 16
    feedback = 17
    pointer = 18
    dynamic_resource = 19


class ScalarKind(Enum):
    """Types of numbers; `none` for types without numbers."""

    none = 0
    void = 1
    bool = 2
    int32 = 3
    uint32 = 4
    int64 = 5
    uint64 = 6
    float16 = 7
    float32 = 8
    float64 = 9
    int8 = 10
    uint8 = 11
    int16 = 12
    uint16 = 13
    bfloat16 = 16
    float_e4m3 = 17
    float_e5m2 = 18


class ShapeKind(Enum):
    """Shapes of resources."""

    none = 0x00
    texture_1d = 0x01
    texture_2d = 0x02
    texture_3d = 0x03
    texture_cube = 0x04
    texture_buffer = 0x05
    structured_buffer = 0x06
    byte_address_buffer = 0x07
    unknown = 0x08
    acceleration_structure = 0x09
    texture_feedback_flag = 0x10
    texture_array_flag = 0x40
    texture_1d_array = 0x41
    texture_2d_array = 0x42
    texture_cube_array = 0x44
    texture_multisample_flag = 0x80
    texture_2d_multisample = 0x82
    texture_2d_multisample_array = 0xC2


class AccessKind(Enum):
    """The permitted accesses to a resource."""

    none = 0
    read = 1
    read_write = 2
    raster_ordered = 3
    access_append = 4
    access_consume = 5
    access_write = 6


class DeclarationKind(Enum):
    """Kinds of declarations. `generic` is the node around a generic declaration: its parameters, and the
    declaration itself as the last child."""

    unsupported = 0
    struct = 1
    func = 2
    module = 3
    generic = 4
    variable = 5
    namespace = 6
    enum = 7


class ModifierID(Enum):
    """Modifiers of functions, parameters and variables. `inn` is the word `in`."""

    shared = 0
    nodiff = 1
    static = 2
    const = 3
    export = 4
    extern = 5
    differentiable = 6
    mutating = 7
    inn = 8
    out = 9
    inout = 10
