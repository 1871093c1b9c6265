"""Attributes and modifiers: which are known, where they may stand, and which are refused.

In: a declaration or statement as it is written.   Out: errors and warnings.

    [MaxIter(4)] for (...)      error: there is no attribute 'MaxIter'; did you mean 'MaxIters'?
    [MaxIters(4)] if (...)      error: [MaxIters] belongs before a loop
    [loop] while (...)          nothing: a hint for other compilers
    precise float x = a * b;    error where operations may be contracted

All attributes that change a result are handled or refused; hints about speed, and attributes of other targets, are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from slangrad.base.diagnostics import Diagnostic
from slangrad.base.suggestions import near
from slangrad.check.interfaces.differentiable import field_declarations, tangent
from slangrad.check.interfaces.lookup import concrete_members, conformances, declared
from slangrad.check.interfaces.witnesses import has_default
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import STRING, EnumType, ScalarType, Type
from slangrad.check.names.scopes import Scope, levels, this_type
from slangrad.syntax import ast

_FUNCTIONS = (ast.FunctionDeclaration, ast.Constructor, ast.Accessor, ast.Subscript, ast.Property)
_LOOPS = (ast.For, ast.While, ast.DoWhile, ast.CompileTimeFor)
_TYPES = (ast.StructDeclaration, ast.Interface, ast.Extension, ast.EnumDeclaration)

Kinds = tuple[type[ast.SyntaxNode], ...]

# fmt: off
_MEANT: dict[str, tuple[str, Kinds]] = {
    **dict.fromkeys((
        "Differentiable", "BackwardDifferentiable", "ForwardDifferentiable", "TreatAsDifferentiable",
    ),                                                ("a function or type", (*_FUNCTIONS, *_TYPES))),
    **dict.fromkeys((
        "BackwardDerivative", "ForwardDerivative", "PrimalSubstitute", "BackwardDerivativeOf",
        "ForwardDerivativeOf", "PrimalSubstituteOf", ast.APPLY_OF, "NoDiffThis", "PreferRecompute", "PreferCheckpoint",
        "mutating", "nonmutating", "numthreads", "NumThreads", "shader", "Shader", "WaveSize",
        "lanes",
    ),                                                ("a function", _FUNCTIONS)),
    "OverloadRank":                                   ("a function", _FUNCTIONS),
    **dict.fromkeys(("MaxIters", "ForceUnroll", "unroll"), ("a loop", _LOOPS)),
    **dict.fromkeys(("Flags", "UnscopedEnum"),        ("an enum", (ast.EnumDeclaration,))),
    "DerivativeMember":                               ("a field", (ast.Variable,)),
    "vk::offset":                                     ("a field or a global variable", (ast.Variable,)),
}

# For the speed, the diagnostics or the interfaces of other compilers: results do not depend on them.
_HINTS = frozenset((
    "branch", "flatten", "loop", "call", "forcecase", "fastopt", "allow_uav_condition", "ForceInline", "noinline",
    "noRefInline", "__unsafeForceInlineEarly", "Specialize", "sealed", "open", "anyValueSize", "allow", "deprecated",
    "NoDiscard", "RemovedSince", "ExperimentalModule", "builtin", "KnownBuiltin", "__readNone", "__NoSideEffect",
    "__requiresNVAPI", "require", "__AttributeUsage", "format", "push_constant", "shader_record",
    "SpecializationConstant", "raypayload", "disable_array_flattening", "COM", "DllExport", "DllImport",
    "AutoPyBindCUDA", "PyExport", "TorchEntryPoint", "CudaKernel", "CudaHost", "CudaDeviceExport", "CUDAKernel",
    "CUDAHost", "CUDADeviceExport", "MaximallyReconverges", "NonUniformReturn", "QuadDerivatives",
    "RequireFullQuads", "DerivativeGroupQuad", "DerivativeGroupLinear", "Shader64BitIndexing", "domain",
    "partitioning", "outputtopology", "outputcontrolpoints", "patchconstantfunc", "maxtessfactor",
    "maxvertexcount", "instance", "earlydepthstencil", "payload", "intrinsic", "math_function", "drop_primal",
    "open_primal", "exact_bits", "gives_bits", "gives_address", "by_address", "trusted", "__NonCopyableType",
    "layout", "__intrinsic_op", "__target_intrinsic", "__specialized_for_target", "__glsl_extension",
    "__glsl_version", "__spirv_version", "__cuda_sm_version", "__builtin_type", "__builtin_requirement",
    "__magic_type", "__magic_enum", "__implicit_conversion", "__attributeTarget",
))
_FOREIGN = ("vk", "gl", "spv", "vk_", "gl_", "spv_", "__vulkan", "__GLSL")

_REFUSED = {
    "__intrinsic_type": ("E9003", "types that another compiler brings are not supported"),
}
# fmt: on


_STAGES = frozenset((
    "vertex", "hull", "domain", "geometry", "fragment", "pixel", "compute", "raygeneration", "intersection", "anyhit",
    "closesthit", "miss", "callable", "mesh", "amplification", "task", "node", "dispatch", "tesscontrol",
    "tesseval", "tessellationcontrol", "tessellationevaluation",
))  # fmt: skip


_PATCHES = ("hull", "domain", "tesscontrol", "tesseval", "tessellationcontrol", "tessellationevaluation")


def check_attributes(checker: Checker, node: ast.Declaration | ast.Statement) -> None:
    """Report unknown attributes, and those that mean nothing where they stand."""
    for attribute in node.attributes:
        name = attribute.name
        if name in _REFUSED:
            checker.error(*_REFUSED[name], attribute.span)
        elif name in _MEANT:
            _check_place(checker, node, attribute)
        elif name == "outputtopology" and isinstance(node, ast.FunctionDeclaration):
            _check_topology(checker, node, attribute)
        elif name not in _HINTS and not name.startswith(_FOREIGN):
            _check_other(checker, node, attribute)


def _check_place(checker: Checker, node: ast.SyntaxNode, attribute: ast.AttributeNode) -> None:
    place, kinds = _MEANT[attribute.name]
    if not isinstance(node, kinds):
        checker.error("E0208", f"[{attribute.name}] belongs before {place}", attribute.span)
    elif attribute.name == "TreatAsDifferentiable" and _is_requirement(node):
        message = "[TreatAsDifferentiable] belongs before the function that satisfies the interface"
        checker.error("E0208", message, attribute.span)
    elif attribute.name.lower() == "shader" and stage_of(attribute) not in _STAGES:
        message = f"there is no stage '{stage_of(attribute)}'"
        checker.error("E0329", message, attribute.span, 'kernels are [shader("compute")]')
    elif attribute.name == "DerivativeMember" and isinstance(node, ast.Variable):
        checker.later.append(partial(_check_derivative_member, checker, node, attribute))


def _check_topology(checker: Checker, node: ast.FunctionDeclaration, attribute: ast.AttributeNode) -> None:
    """Patches are turned one way; meshes are not."""
    shaders = [other for other in node.attributes if other.name.lower() == "shader"]
    is_of_patch = any(other.name == "domain" for other in node.attributes)
    is_of_patch |= any(stage_of(shader) in _PATCHES for shader in shaders)
    triangles = ("triangle_cw", "triangle_ccw") if is_of_patch else ("triangle",)
    known = ("point", "line", *triangles)
    topology = stage_of(attribute)
    if topology not in known:
        note = f"there are {', '.join(known[:-1])} and {known[-1]}"
        message = f"there is no topology '{topology}' here"
        checker.refusals.add_to(node, Diagnostic("E0329", message, attribute.span, note))


def stage_of(attribute: ast.AttributeNode) -> str:
    """The stage of `[shader("compute")]`, in small letters."""
    argument = attribute.arguments[0] if attribute.arguments else None
    return argument.value.lower() if isinstance(argument, ast.StringLiteral) else ""


def _is_requirement(node: ast.SyntaxNode) -> bool:
    """A member of an interface that brings neither a body nor a primitive."""
    if not isinstance(node, ast.Declaration) or not isinstance(node.parent, ast.Interface):
        return False
    return not has_default(node) and node.attribute("intrinsic") is None


def _check_derivative_member(checker: Checker, node: ast.Variable, attribute: ast.AttributeNode) -> None:
    """`[DerivativeMember(Differential.x)]` must name a field of the Differential."""
    if not isinstance(node.parent, (ast.StructDeclaration, ast.Extension)):
        checker.error("E0208", "[DerivativeMember] belongs before a field", attribute.span)
        return
    kind = checker.info(node).type
    if tangent(checker, kind) is None:
        checker.error(
            "E0501", f"a '{kind}' has no derivative", attribute.span, "leave out [DerivativeMember]"
        )
        return
    argument = attribute.arguments[0] if len(attribute.arguments) == 1 else None
    if not isinstance(argument, (ast.Member, ast.Name)):
        checker.error("E0504", "[DerivativeMember] needs a field: Differential.x", attribute.span)
        return
    owner = this_type(checker, node.parent) if isinstance(node.parent, ast.StructDeclaration) else None
    differential_type = None if owner is None else tangent(checker, owner)
    if differential_type is not None and not concrete_members(checker, differential_type, argument.name):
        checker.error("E0304", f"'{differential_type}' has no member '{argument.name}'", argument.span)


def _check_other(
    checker: Checker, node: ast.Declaration | ast.Statement, attribute: ast.AttributeNode
) -> None:
    """One that the program declares. Else a name near a known one is misspelled; others may be for other compilers."""
    struct = attribute_struct(checker, node, attribute.name)
    meant = near(attribute.name, [*_MEANT, *_REFUSED], cutoff=0.75)
    message = f"there is no attribute '{attribute.name}'"
    if struct is not None and isinstance(node, ast.Declaration):
        _check_arguments(checker, UserAttribute(attribute, node, struct))
    elif meant:
        checker.error("E0328", message, attribute.span, meant)
    else:
        checker.warning("E0328", f"{message}, so it has no effect", attribute.span)


# --- Attributes that a program declares -----------------------------------------------------------------
#
#    struct FooAttribute { int value; }      [Foo(42)] struct S { }
#
# They change nothing in a program; hosts read them (api/reflection/types.py).

SUFFIX = "Attribute"

Constant = int | float | bool | str


@dataclass(slots=True, frozen=True)
class UserAttribute:
    """An attribute where it is written, and the struct that declares it."""

    node: ast.AttributeNode
    owner: ast.Declaration
    struct: ast.StructDeclaration

    @property
    def fields(self) -> list[ast.Variable]:
        return field_declarations(self.struct)


def user_attributes(checker: Checker, owner: ast.Declaration) -> Iterator[UserAttribute]:
    """Those before a declaration, in order."""
    for node in owner.attributes:
        struct = attribute_struct(checker, owner, node.name)
        if struct is not None:
            yield UserAttribute(node, owner, struct)


def attribute_struct(checker: Checker, owner: ast.SyntaxNode, name: str) -> ast.StructDeclaration | None:
    """The struct that declares the attribute `name`, as seen from a declaration."""
    if not isinstance(owner, ast.Declaration) or owner.parent is None:
        return None
    scope: Scope = checker.scope_of(owner.parent)
    for level in levels(scope):
        for result in (*level.local(name + SUFFIX), *level.local(name)):
            if isinstance(result.declaration, ast.StructDeclaration):
                return result.declaration
    return None


def _check_arguments(checker: Checker, attribute: UserAttribute) -> None:
    """Report arguments that do not fit the fields of the attribute's struct."""
    node, fields = attribute.node, attribute.fields
    if len(node.arguments) != len(fields):
        wanted = f"{len(fields)} argument{'' if len(fields) == 1 else 's'}"
        message = f"[{node.name}] takes {wanted}, not {len(node.arguments)}"
        checker.error("E0329", message, node.span, f"they are the fields of '{attribute.struct.name}'")
        return
    for argument, field in zip(node.arguments, fields):
        kind = checker.info(field).type
        if not _fits(value_of(checker, attribute.owner, argument), kind):
            message = f"'{field.name}' of [{node.name}] must be a value of type '{kind}' that is known when compiling"
            checker.error("E0329", message, argument.span, "write a number or a text")


def _fits(value: Constant | None, kind: Type) -> bool:
    if kind is STRING:
        return isinstance(value, str)
    if isinstance(kind, ScalarType) and kind.is_float:
        return isinstance(value, (int, float))
    return isinstance(value, int) if isinstance(kind, (ScalarType, EnumType)) else value is not None


def value_of(checker: Checker, owner: ast.Declaration, node: ast.Expression) -> Constant | None:
    """An argument of an attribute: a text, a number, or a whole number that is known when compiling."""
    if isinstance(node, (ast.StringLiteral, ast.FloatLiteral, ast.IntLiteral, ast.BoolLiteral)):
        return node.value
    if isinstance(node, ast.Unary) and node.operator in "+-" and isinstance(node.operand, ast.FloatLiteral):
        return -node.operand.value if node.operator == "-" else node.operand.value
    assert owner.parent is not None
    with checker.silence():
        value = checker.constant(checker.scope_of(owner.parent), node)
    return value if isinstance(value, int) else None


# --- Modifiers ----------------------------------------------------------------------------------------


def check_modifiers(checker: Checker, node: ast.Declaration) -> None:
    """Report modifiers and qualifiers of a declaration that have a meaning and are not supported."""
    for modifier in node.modifiers:
        rule = _MODIFIERS.get(modifier)
        if rule is not None:
            rule(checker, node)
    seen_by = [modifier for modifier in node.modifiers if modifier in ("public", "internal", "private")]
    if len(seen_by) > 1:
        message = f"'{node.name}' cannot be both '{seen_by[0]}' and '{seen_by[1]}'"
        checker.error("E0208", message, node.name_span, "leave one of them out")
    if isinstance(node, ast.StructDeclaration) and node.keyword == "class":
        note = "write 'struct', whose objects are values"
        checker.error("E9005", "classes, whose objects are shared, are not supported", node.name_span, note)
    elif isinstance(node, ast.Variable) and node.bits is not None:
        message = "a number of bits belongs behind a field of a struct"
        checker.error("E0208", message, node.bits.span, "leave it out")
    elif isinstance(node, ast.TypeParameter):
        note = "make the functions generic: f<T : I>"
        checker.error("E9005", "parameters of a whole module are not supported", node.span, note)


def _override(checker: Checker, node: ast.Declaration) -> None:
    """An interface of the type around must have something of the name."""
    owner = node.parent
    if not isinstance(owner, (ast.StructDeclaration, ast.Extension, ast.EnumDeclaration)):
        checker.error("E0208", "'override' belongs before a member of a type", node.name_span)
        return
    interfaces = conformances(checker, this_type(checker, owner))
    if not any(declared(checker, interface.declaration, node.name) for interface in interfaces):
        message = f"'{node.name}' overrides nothing: no interface of the type around has it"
        checker.error("E0411", message, node.name_span, "leave out 'override'")


_MODIFIERS: dict[str, Callable[[Checker, ast.Declaration], None]] = {
    "override": _override,
}
