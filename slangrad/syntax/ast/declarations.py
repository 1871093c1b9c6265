"""Nodes of declarations, from generic parameters to modules.

`float x = 1;`   Variable      `struct S<T : IFoo> { ... }`   Struct with a TypeParameter
"""

from __future__ import annotations

from dataclasses import field

from slangrad.base.source import SourceFile
from slangrad.syntax.ast.nodes import Declaration, Expression, GenericDeclaration, Semantic, SyntaxNode, node
from slangrad.syntax.ast.statements import Block

# fmt: off
# --- Generics -----------------------------------------------------------------------------------------

# `<T>`, `<T : IFoo & IBar>`, `<T = int>`, `<each T : IFoo>`; also `type_param T : IFoo;` of a module.
@node
class TypeParameter(Declaration):
    bounds: list[Expression]
    default: Expression | None
    is_pack: bool
    pack_element: GenericParameter | None = field(default=None, init=False)  # made by `check`: the meaning of `each T`
    parts: dict[str, GenericParameter] = field(default_factory=dict, init=False)  # `__first(T)` and such
    part_of: tuple[GenericParameter, str] | None = field(default=None, init=False)  # the inverse

@node
class ValueParameter(Declaration):  # `<let N : int>`, `<int N = 4>`.
    value_type: Expression
    default: Expression | None
    is_pack: bool  # `<let each N : int>`
    pack_element: GenericParameter | None = field(default=None, init=False)
    parts: dict[str, GenericParameter] = field(default_factory=dict, init=False)
    part_of: tuple[GenericParameter, str] | None = field(default=None, init=False)

GenericParameter = TypeParameter | ValueParameter

# A `where`: "conforms": `T : IFoo, IBar`; "equals": `T.Item == U`; "converts": `T(U)`; "converts implicitly".
@node
class Constraint(SyntaxNode):
    kind: str  # also the word of `where nonempty(T)` and such; the operator of `where countof(T) >= 2`
    subject: Expression
    bounds: list[Expression]
    is_optional: bool  # `where optional T : IFoo`

# --- Functions and values -----------------------------------------------------------------------------

# `inout float x = 1 : SEMANTIC`, `x : inout float`; other modifiers (no_diff, uniform, const) in `modifiers`.
@node
class ParameterDeclaration(Declaration):
    direction: str  # "in", "out", "inout", "ref" or "constref" (`borrow` too)
    value_type: Expression | None  # None: a lambda's parameter without a type
    default: Expression | None
    semantics: list[Semantic]

@node
class Variable(Declaration):  # `float x = 1;`, `let x = 1;`, a field, a global, `static const int N = 4;`.
    keyword: str  # "", "let" or "var"
    value_type: Expression | None  # None: inferred from the initializer
    initializer: Expression | None
    semantics: list[Semantic]
    bits: Expression | None  # `int x : 4;` in a struct

# `R f<T>(parameters) where ... { }`, `func f(x : A) -> R`, `R operator+(a, b)`, interface requirements.
@node
class FunctionDeclaration(GenericDeclaration):
    parameters: list[ParameterDeclaration]
    result: Expression | None  # None: void, or for a lambda inferred
    throws: Expression | None
    body: Block | None  # None: only declared
    semantics: list[Semantic]

@node
class Constructor(GenericDeclaration):  # `__init(parameters) { }`; its name is "__init".
    parameters: list[ParameterDeclaration]
    body: Block | None

@node
class Subscript(GenericDeclaration):  # `__subscript(int i) -> T { get { } set { } }`; named "__subscript".
    parameters: list[ParameterDeclaration]
    result: Expression
    accessors: list[Accessor]

@node
class Property(Declaration):  # `property x : T { get { } set(v) { } }`, `property T x { get; }`.
    value_type: Expression
    accessors: list[Accessor]

# `get { }`, `set(v) { }`, `ref;`; its name is that word. A setter without a parameter gets "newValue". It
# never has generics, but is asked for them where it is named: `bwd_diff(Grid.norm.get)`.
@node
class Accessor(GenericDeclaration):
    parameter: ParameterDeclaration | None
    body: Block | None

# The attribute of the function in `__func_extension __apply(f)(float x) -> Tuple<float, Context> { }`.
APPLY_OF = "__ApplyOf"

AnyFunction = FunctionDeclaration | Constructor | Accessor

# --- Types --------------------------------------------------------------------------------------------

# `struct S<T> : IFoo where ... { members }`; `has_body` is False for `struct S;`. `keyword`: or "class".
@node
class StructDeclaration(GenericDeclaration):
    keyword: str
    bases: list[Expression]
    members: list[Declaration]
    has_body: bool
    alias: Expression | None  # `export struct S : IFoo = T;`

@node
class Interface(GenericDeclaration):  # `interface I<T> : IBase { members }`.
    bases: list[Expression]
    members: list[Declaration]

@node
class Extension(GenericDeclaration):  # `extension<T : IFoo> S<T> : IBar { members }`.
    target: Expression
    bases: list[Expression]
    members: list[Declaration]

# `enum E : uint { A, B = 4 }`, `enum class E`; the tag type is the base.
@node
class EnumDeclaration(GenericDeclaration):
    bases: list[Expression]
    members: list[EnumCase]

@node
class EnumCase(Declaration):  # `B = 4`.
    value: Expression | None

@node
class TypeAlias(GenericDeclaration):  # `typealias V<T> = vector<T, 3>;`, `typedef int A[3];`.
    target: Expression

@node
class AssociatedType(GenericDeclaration):  # `associatedtype D : IDifferentiable;`.
    bounds: list[Expression]
    default: Expression | None

@node
class ConstraintRequirement(Declaration):  # `__constraint Item == This;` in an interface.
    constraint: Constraint

# `cbuffer Name : register(b0) { members }`, `tbuffer`; the members are visible around it.
@node
class BufferBlock(Declaration):
    keyword: str
    members: list[Declaration]
    semantics: list[Semantic]

WithBases = StructDeclaration | Interface | Extension | EnumDeclaration

# --- Modules ------------------------------------------------------------------------------------------

# One parsed text with what it `#include`s. `module_name` is that of `module x;`, else None.
@node
class ModuleDeclaration(Declaration):
    source: SourceFile
    members: list[Declaration]
    module_name: str | None
    language: int  # 2025, or the year of `#lang 2026`

# `import a.b;` has path "a/b"; `import "dir/file.slang";` what stands there. `__exported` is in modifiers.
@node
class Import(Declaration):
    path: str

@node
class IncludeModule(Declaration):  # `__include a.b;` and `implementing x;`; `keyword` is that word.
    keyword: str
    path: str

@node
class Namespace(Declaration):  # `namespace a { members }`; `namespace a.b {}` is one in another.
    members: list[Declaration]

Container = WithBases | BufferBlock | ModuleDeclaration | Namespace  # what has members

@node
class Using(Declaration):  # `using a.b;`.
    target: Expression
