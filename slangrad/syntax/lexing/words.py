"""Contextual keywords.

In: nothing.   Out: sets of words. None of them is reserved; the parser expects them in certain places.
"""

from __future__ import annotations

import re

# fmt: off

# Before any declaration.
MODIFIERS = frozenset((
    "static", "const", "public", "internal", "private", "extern", "export", "__exported", "groupshared",
    "uniform", "constexpr", "inline", "override", "precise", "volatile", "coherent", "globallycoherent",
    "row_major", "column_major", "no_diff", "dynamic_uniform", "varying", "__global", "__prefix", "__postfix",
    "__builtin", "nointerpolation", "noperspective", "unorm", "snorm", "restrict", "readonly", "writeonly",
    "highp", "mediump", "lowp", "dyn", "some", "__extern_cpp",
))

# Modifiers only where a type and a name follow; elsewhere they are ordinary names.
SOFT_MODIFIERS = frozenset((
    "linear", "sample", "centroid", "shared", "param", "require", "point", "line", "triangle", "lineadj",
    "triangleadj", "vertices", "indices", "primitives", "payload", "flat", "smooth", "pervertex",
))

# Modifiers with arguments, kept as attributes.
MODIFIER_CALLS = frozenset((
    "layout", "__intrinsic_op", "__target_intrinsic", "__specialized_for_target", "__glsl_extension",
    "__glsl_version", "__spirv_version", "__cuda_sm_version", "__builtin_type", "__builtin_requirement",
    "__magic_type", "__magic_enum", "__intrinsic_type", "__implicit_conversion", "__attributeTarget",
))

# Before a parameter's type: what direction the value goes.
DIRECTIONS = {
    "in": "in", "out": "out", "inout": "inout", "__ref": "ref", "ref": "ref",
    "__constref": "constref", "constref": "constref", "borrow": "constref", "__borrow": "constref",
}

# Before a type, as part of it.
TYPE_MODIFIERS = frozenset((
    "no_diff", "const", "unorm", "snorm", "unsigned", "signed", "dyn", "some", "expand", "each", "in", "out",
    "inout", "__ref", "__constref", "row_major", "column_major", "precise", "volatile",
))

# What looks like a call of one of these can be a type.
TYPE_FUNCTIONS = frozenset((
    "__first", "__last", "__trimFirst", "__trimLast", "__shapeConcat", "__shapePermute", "__shapeSwap",
    "__shapeReduce", "__packBranch", "__func_as_type",
))

# Words that begin an expression and never a type.
NOT_TYPES = frozenset((
    "this", "super", "true", "false", "none", "nullptr", "sizeof", "alignof", "countof", "fwd_diff",
    "bwd_diff", "__fwd_diff", "__bwd_diff", "new", "try", "spirv_asm", "return", "if", "else", "for", "while",
    "do", "switch", "case", "default", "break", "continue", "discard", "operator", "throw", "defer",
))

# The next word is the name of a type.
TYPE_INTRODUCERS = frozenset((
    "struct", "class", "enum", "interface", "typealias", "associatedtype", "type_param",
))

# A line that begins with one of these begins a new construct, also after an error.
RESTARTS = frozenset((
    "struct", "class", "interface", "extension", "enum", "typealias", "typedef", "namespace", "import",
    "func", "if", "for", "while", "do", "switch", "return", "break", "continue", "let", "var", "public",
    "static", "__init", "__subscript", "property", "associatedtype", "cbuffer", "using", "void",
))

# fmt: on

BUILTIN_TYPE = re.compile(
    r"(?:(?:bool|int|uint|half|float|double|min16float|min16int|min16uint|u?int(?:8|16|32|64)_t|float(?:16|32|64)_t)"
    r"(?:[1-4](?:x[1-4])?)?|void|u?intptr_t|u?size_t|This)"
)
