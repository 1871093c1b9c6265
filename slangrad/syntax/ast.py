"""Every AST node, with the Slang form it stands for.

The parser makes them; `check` fills `Expression.type`, `.ref`, `.conversion` and `Declaration.checked`, each
once; nothing else is written later. Types are expressions, since only the checker can tell them from values.
In type position the parser makes `ArrayType`, `PointerType` and so on. What syntax leaves to the checker:

    Paren(type) then call, `(T)(x)`     Call(Paren(T), [x]) is a conversion
    T[4](a, b), T[4]() in an expression Index(T, [4]) names an array type
    A.B, A::B                           Member, whether A is a namespace, a type or a value
    T{a, b}                             Cast(T, InitializerList)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from slangrad.base.source import SourceFile, Span

AnyNode = TypeVar("AnyNode")


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def node(kind: type[AnyNode]) -> type[AnyNode]:
    """Fields in slots, comparison by identity."""
    return dataclass(slots=True, eq=False)(kind)


# fmt: off
# --- The three kinds of node --------------------------------------------------------------------------

@node
class Node:  # Anything with a place in the text. Compares by identity.
    span: Span

@node
class Expression(Node):  # A value, a type, or a name of either; `check` fills the three slots.
    type: Any = field(default=None, init=False)  # checked type of the value, or that this names a type
    ref: Any = field(default=None, init=False)  # what it resolves to: a declaration reference, an overload
    conversion: Any = field(default=None, init=False)  # implicit conversion that its place asks for

@node
class Statement(Node):  # Something that runs.
    attributes: Sequence[Attribute] = field(default=(), init=False)  # [unroll], [MaxIters(8)], [branch]

@node
class Declaration(Node):  # Something with a name; `span` is all of it, `name_span` the name.
    name: str  # "" for extensions; "operator+", "__init", "__subscript" for those forms
    name_span: Span
    modifiers: tuple[str, ...] = field(default=(), init=False)  # static, public, const, no_diff, uniform
    attributes: Sequence[Attribute] = field(default=(), init=False)  # [Differentiable], [numthreads(64)]
    parent: Declaration | None = field(default=None, init=False)  # enclosing declaration, None for the module
    checked: Any = field(default=None, init=False)  # what check found out: type, signature, conformances

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def attribute(self, name: str) -> Attribute | None:
        """The first attribute of that name; case does not matter, as in HLSL."""
        wanted = name.lower()
        return next((each for each in self.attributes if each.name.lower() == wanted), None)

@node
class GenericDeclaration(Declaration):  # A declaration that can have generic parameters and `where` clauses.
    generics: list[GenericParameter] = field(default_factory=list, init=False)
    constraints: list[Constraint] = field(default_factory=list, init=False)

@node
class Attribute(Node):  # `[name(arguments)]`; a scope stays in the name: "vk::binding".
    name: str
    arguments: list[Expression]

@node
class Semantic(Node):  # `: SV_DispatchThreadID`, `: register(u0)`, `: packoffset(c0.x)`; arguments as text.
    name: str
    arguments: list[str]

# --- Expressions: literals and names ------------------------------------------------------------------

@node
class Missing(Expression):  # Where an expression should be and is not; the error is already reported.
    pass

# `42`, `0xFFu`, `0b10`, `1'000'000ull`; suffix in lower case: "", "u", "l", "ul", "ll", "ull", "z", "uz".
@node
class IntLiteral(Expression):
    value: int
    suffix: str

@node
class FloatLiteral(Expression):  # `1.0`, `.5f`, `1e3h`, `2.0lf`; suffix "", "f", "h", "l" or "lf".
    value: float
    suffix: str

@node
class BoolLiteral(Expression):  # `true`, `false`.
    value: bool

@node
class CharLiteral(Expression):  # `'a'`, its code point as value.
    value: int

@node
class StringLiteral(Expression):  # `"text"`, escapes resolved, neighbors joined.
    value: str

@node
class NullLiteral(Expression):  # `nullptr`.
    pass

@node
class NoneLiteral(Expression):  # `none`, the empty optional.
    pass

@node
class Name(Expression):  # `x`, `float3`, `operator+`; `::x` looks in the module's outermost scope.
    name: str
    from_root: bool = False

@node
class This(Expression):  # `this`.
    pass

@node
class Super(Expression):  # `super`.
    pass

@node
class ThisType(Expression):  # `This`, the type that an interface or struct is being seen as.
    pass

# --- Expressions: operators ---------------------------------------------------------------------------

@node
class Paren(Expression):  # `(x)`, kept because `(T)(x)` converts.
    inner: Expression

@node
class Member(Expression):  # `a.b`, `p->b`, `A::b`; swizzles too. `separator` is ".", "->" or "::".
    base: Expression
    name: str
    name_span: Span
    separator: str

@node
class Index(Expression):  # `a[i]`, `t[i, j]`, `a[]`; of a type: an array type.
    base: Expression
    arguments: list[Expression]

@node
class Call(Expression):  # `f(x, y)`, `T(x)`, `object.method(x)`, `bwd_diff(f)(pair, 1.0)`.
    callee: Expression
    arguments: list[Expression]

@node
class NamedArgument(Expression):  # `name: value` in a call.
    name: str
    value: Expression

@node
class GenericApplication(Expression):  # `vector<float, 3>`, `f<T, 4>`; arguments are types and values alike.
    base: Expression
    arguments: list[Expression]

@node
class Unary(Expression):  # `-x`, `+x`, `!x`, `~x`, `++x`, `--x`, `&x`, `*p`.
    operator: str
    operand: Expression

@node
class Postfix(Expression):  # `x++`, `x--`.
    operator: str
    operand: Expression

@node
class Binary(Expression):  # `a + b`, `a < b`, `a && b`, `a << b`.
    operator: str
    left: Expression
    right: Expression

@node
class Assign(Expression):  # `a = b`, `a += b`; operator "=" or "+=" and so on.
    operator: str
    target: Expression
    value: Expression

@node
class Conditional(Expression):  # `condition ? then : otherwise`.
    condition: Expression
    then: Expression
    otherwise: Expression

@node
class Comma(Expression):  # `a, b`: runs both, is `b`.
    left: Expression
    right: Expression

@node
class Cast(Expression):  # `(T)x`.
    target: Expression
    operand: Expression

@node
class As(Expression):  # `x as T`: an optional T.
    operand: Expression
    target: Expression

@node
class Is(Expression):  # `x is T`: a bool.
    operand: Expression
    target: Expression

@node
class InitializerList(Expression):  # `{a, b}`, `{}`.
    elements: list[Expression]

@node
class NoDiff(Expression):  # `no_diff f(x)`.
    operand: Expression

# `fwd_diff(f)`, `bwd_diff(f)`, `__fwd_diff(f)`; mode is "fwd_diff" or "bwd_diff".
@node
class Differentiate(Expression):
    mode: str
    function: Expression

@node
class SizeOf(Expression):  # `sizeof(T)`, `alignof(T)`, `countof(T)` of type or value; `query` is that word.
    query: str
    operand: Expression
    layout: Expression | None  # `sizeof(T, ScalarDataLayout)`

# `(int x) => x + 1`, `(int x) => { return x; }`: a Function declaration named "" whose body is a Block.
@node
class Lambda(Expression):
    function: Function

@node
class New(Expression):  # `new T(a, b)`.
    target: Expression
    arguments: list[Expression]

@node
class Try(Expression):  # `try f(x)`.
    operand: Expression

@node
class Expand(Expression):  # `expand f(each x)`, `expand each T`: one for each element of a pack.
    pattern: Expression

@node
class Each(Expression):  # `each x`: the element of pack `x` inside an `expand`.
    pack: Expression

@node
class AssemblyBlock(Expression):  # `spirv_asm { ... }`: text for one target, not looked into.
    text: str

# --- Expressions: what is written in type position only -----------------------------------------------

@node
class PointerType(Expression):  # `T*`.
    element: Expression

# `T[N]`; `T[]` has no count. `int x[2][3]` is ArrayType(ArrayType(int, 3), 2): outermost first.
@node
class ArrayType(Expression):
    element: Expression
    count: Expression | None

@node
class OptionalType(Expression):  # `T?`.
    element: Expression

@node
class ConjunctionType(Expression):  # `IFoo & IBar`.
    left: Expression
    right: Expression

@node
class Tuple(Expression):  # `(int, float)`; under `#lang 2026` in expressions too: `(a, b)`.
    elements: list[Expression]

# `functype(int, inout float) -> float`; parameter modes are ModifiedType("inout", ...).
@node
class FunctionType(Expression):
    parameters: list[Expression]
    result: Expression

# `no_diff T`, `const T`, `dyn IFoo`, `some IFoo`, `unorm float4`, `unsigned int`; one modifier a node.
@node
class ModifiedType(Expression):
    modifier: str
    element: Expression

# --- Statements ---------------------------------------------------------------------------------------

@node
class Block(Statement):  # `{ ... }`.
    statements: list[Statement]

# `{ ... }` of a library function that nobody has asked for yet: it has no statements until `parse(owner)` makes the
# Block that takes its place.
class Unparsed(Block):
    __slots__ = ("parse",)

    def __init__(self, span: Span, parse: Callable[[Declaration], Block]) -> None:
        self.span, self.parse = span, parse

@node
class Empty(Statement):  # `;`.
    pass

@node
class ExpressionStatement(Statement):  # `f(x);`.
    expression: Expression

# `int a = 1, b;`, a local struct, typedef or function; in the scope around it.
@node
class DeclarationStatement(Statement):
    declarations: list[Declaration]

@node
class If(Statement):  # `if (condition) then else otherwise`.
    condition: Expression
    then: Statement
    otherwise: Statement | None

# `if (let x = optional) then else otherwise`; `binding.initializer` is the optional, x its value in `then`.
@node
class IfLet(Statement):
    binding: Variable
    then: Statement
    otherwise: Statement | None

@node
class Switch(Statement):  # `switch (value) { case 1: ... default: ... }`.
    value: Expression
    cases: list[Case]

@node
class Case(Node):  # `case 1: case 2: default: statements`; without labels, what stands before the first one.
    values: list[Expression]
    is_default: bool
    body: list[Statement]

@node
class For(Statement):  # `for (initializer; condition; step) body`; the initializer's names live in the loop.
    initializer: Statement | None
    condition: Expression | None
    step: Expression | None
    body: Statement

@node
class CompileTimeFor(Statement):  # `$for (i in Range(start, stop)) body`; `start` is None for `Range(stop)`.
    variable: Variable
    start: Expression | None
    stop: Expression
    body: Statement

@node
class While(Statement):  # `while (condition) body`.
    condition: Expression
    body: Statement

@node
class DoWhile(Statement):  # `do body while (condition);`.
    body: Statement
    condition: Expression

@node
class Break(Statement):  # `break;`, `break outer;`.
    label: str | None

@node
class Continue(Statement):  # `continue;`, `continue outer;`.
    label: str | None

@node
class Return(Statement):  # `return;`, `return x;`, `return {a, b};`.
    value: Expression | None

@node
class Discard(Statement):  # `discard;`.
    pass

@node
class Labeled(Statement):  # `outer: for (...) ...`.
    label: str
    statement: Statement

@node
class StaticAssert(Statement):  # `static_assert(condition, "message");`, the message may be left out.
    condition: Expression
    message: str

@node
class Defer(Statement):  # `defer statement`: runs when the block is left.
    statement: Statement

@node
class Throw(Statement):  # `throw x;`. `handler` is written by `check`: the Catch that it leads to, None: the function.
    value: Expression
    handler: Catch | None = field(default=None, init=False)

@node
class DoCatch(Statement):  # `do { ... } catch (e : E) { ... } catch { ... }`; the first that fits handles.
    body: Statement
    handlers: list[Catch]

@node
class Catch(Node):  # `catch (e : E) statement`; `catch statement` catches every error.
    parameter: Parameter | None
    body: Statement

@node
class TargetSwitch(Statement):  # `__target_switch { case cpu: ... default: ... }`; `__stage_switch` too.
    keyword: str
    cases: list[TargetCase]

@node
class TargetCase(Node):  # `case cpu: case cuda: statements`; "default" is a name like the others.
    targets: list[str]
    body: list[Statement]

@node
class TargetAssembly(Statement):  # `__intrinsic_asm "text", a, b;`.
    text: str
    arguments: list[Expression]

# --- Declarations: generics ---------------------------------------------------------------------------

# `<T>`, `<T : IFoo & IBar>`, `<T = int>`, `<each T : IFoo>`; also `type_param T : IFoo;` of a module.
@node
class TypeParameter(Declaration):
    bounds: list[Expression]
    default: Expression | None
    is_pack: bool
    pack_element: TypeParameter | None = field(default=None, init=False)  # made by `check`: what `each T` is

@node
class ValueParameter(Declaration):  # `<let N : int>`, `<int N = 4>`.
    value_type: Expression
    default: Expression | None
    is_pack: bool  # `<let each N : int>`
    pack_element: ValueParameter | None = field(default=None, init=False)

GenericParameter = TypeParameter | ValueParameter

# A `where`: "conforms": `T : IFoo, IBar`; "equals": `T.Item == U`; "converts": `T(U)`; "converts implicitly".
@node
class Constraint(Node):
    kind: str  # also the word of `where nonempty(T)` and such; the operator of `where countof(T) >= 2`
    subject: Expression
    bounds: list[Expression]
    is_optional: bool  # `where optional T : IFoo`

# --- Declarations: functions and values ---------------------------------------------------------------

# `inout float x = 1 : SEMANTIC`, `x : inout float`; other modifiers (no_diff, uniform, const) in `modifiers`.
@node
class Parameter(Declaration):
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
class Function(GenericDeclaration):
    parameters: list[Parameter]
    result: Expression | None  # None: void, or for a lambda inferred
    throws: Expression | None
    body: Block | None  # None: only declared
    semantics: list[Semantic]

@node
class Constructor(GenericDeclaration):  # `__init(parameters) { }`; its name is "__init".
    parameters: list[Parameter]
    body: Block | None

@node
class Subscript(GenericDeclaration):  # `__subscript(int i) -> T { get { } set { } }`; named "__subscript".
    parameters: list[Parameter]
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
    parameter: Parameter | None
    body: Block | None

# The attribute of the function in `__func_extension __apply(f)(float x) -> Tuple<float, Context> { }`.
APPLY_OF = "__ApplyOf"

# `__func_extension name(f)(parameters) { }` of a name that means nothing; others are functions.
@node
class FunctionExtension(GenericDeclaration):
    target: Expression
    parameters: list[Parameter]
    result: Expression | None
    body: Block | None

# --- Declarations: types ------------------------------------------------------------------------------

# `struct S<T> : IFoo where ... { members }`; `has_body` is False for `struct S;`. `keyword`: or "class".
@node
class Struct(GenericDeclaration):
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
class Enum(GenericDeclaration):
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

# --- Declarations: modules ----------------------------------------------------------------------------

# One parsed text with what it `#include`s. `module_name` is that of `module x;`, else None.
@node
class Module(Declaration):
    source: SourceFile
    members: list[Declaration]
    module_name: str | None
    language: int  # 2025, or the year of `#lang 2026`

# `import a.b;` has path "a/b"; `import "dir/file.slang";` is_file. `__exported` is in modifiers.
@node
class Import(Declaration):
    path: str
    is_file: bool

@node
class IncludeModule(Declaration):  # `__include a.b;` and `implementing x;`; `keyword` is that word.
    keyword: str
    path: str
    is_file: bool

@node
class Namespace(Declaration):  # `namespace a { members }`; `namespace a.b {}` is one in another.
    members: list[Declaration]

@node
class Using(Declaration):  # `using a.b;`.
    target: Expression
