"""Variables outside functions: first values, constants that a host sets, arrays of blocks.

    uniform float x = 2;                              E0706: the host gives the value of a parameter
    [vk::constant_id(1)] static const int n = 2;      E0706: a static constant cannot be set
    [SpecializationConstant] const int2 v;            E0706: such a constant is a scalar
    ParameterBlock<float> blocks[2];                  E0323: blocks stand alone

In: a variable.   Out: errors.
"""

from __future__ import annotations

from slangrad.check.interfaces.differentiable import field_declarations
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import ERROR, ArrayType, EnumType, ScalarType, StructType, Type, innermost
from slangrad.check.names.places import block_name
from slangrad.syntax import ast

SET_BY_HOSTS = ("SpecializationConstant", "vk::constant_id", "vk_constant_id")


def check_global(checker: Checker, node: ast.Variable) -> None:
    """The rules for a variable of a module, a namespace or a buffer."""
    set_by_host = next((marked for marked in node.attributes if marked.name in SET_BY_HOSTS), None)
    if set_by_host is not None:
        _check_set_by_host(checker, node, set_by_host)
    elif node.has("uniform") and not node.has("static") and node.initializer is not None:
        message = f"'{node.name}' is a parameter of the program, so its value comes from the host"
        checker.error("E0706", message, node.name_span, "leave the value out, or make it 'static const'")
    _check_array_of_blocks(checker, node)


def _check_set_by_host(checker: Checker, node: ast.Variable, attribute: ast.AttributeNode) -> None:
    kind = checker.info(node).type
    if node.has("static"):
        message = f"'{node.name}' is static, so a host cannot set it"
        checker.error("E0706", message, node.name_span, f"leave out 'static', or [{attribute.name}]")
    elif kind is not ERROR and not isinstance(kind, (ScalarType, EnumType)):
        message = f"a constant that a host sets is a scalar or an enum, not a '{kind}'"
        checker.error("E0706", message, attribute.span, "make it a parameter: uniform")


def _check_array_of_blocks(checker: Checker, node: ast.Variable) -> None:
    kind = checker.info(node).type
    if not isinstance(kind, ArrayType) or node.value_type is None:
        return
    element = innermost(kind, ArrayType)
    if _names_parameter_block(node.value_type) or _holds_parameter_block(checker, element, set()):
        message = f"'{node.name}' is an array of parameter blocks, and each block needs a name of its own"
        checker.error("E0323", message, node.name_span, "put the array into the block: ParameterBlock<T[2]>")


def _holds_parameter_block(checker: Checker, kind: Type, seen: set[Type]) -> bool:
    """Whether a field of a struct, or of a struct in it, is declared as a block."""
    if not isinstance(kind, StructType) or kind in seen or kind.declaration.span.source.is_library:
        return False
    seen.add(kind)
    return any(
        (field.value_type is not None and _names_parameter_block(field.value_type))
        or _holds_parameter_block(checker, checker.info(field).type, seen)
        for field in field_declarations(kind.declaration)
    )


def _names_parameter_block(written: ast.Expression) -> bool:
    return block_name(written) == "ParameterBlock"
