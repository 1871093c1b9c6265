"""Nodes of expressions, and of types, which are expressions to the parser.

`a.b`   Member      `f(x)`   Call      `T[4]`   Index, ArrayType where only a type can stand
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.base.source import Span
from slangrad.syntax.ast.nodes import Expression, node

if TYPE_CHECKING:
    from slangrad.syntax.ast.declarations import FunctionDeclaration

# fmt: off
# --- Literals and names -------------------------------------------------------------------------------

@node
class Missing(Expression):  # A missing expression; the error is already reported.
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
class ThisType(Expression):  # `This`, the type that conforms to an interface, or the struct itself.
    pass

# --- Operators ----------------------------------------------------------------------------------------

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
    function: FunctionDeclaration

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
class AssemblyBlock(Expression):  # `spirv_asm { ... }`: text for one target, not parsed.
    text: str

# --- Forms in type position only ----------------------------------------------------------------------

@node
class PointerTypeExpression(Expression):  # `T*`.
    element: Expression

# `T[N]`; `T[]` has no count. `int x[2][3]` is ArrayType(ArrayType(int, 3), 2): outermost first.
@node
class ArrayTypeExpression(Expression):
    element: Expression
    count: Expression | None

@node
class OptionalTypeExpression(Expression):  # `T?`.
    element: Expression

@node
class ConjunctionExpression(Expression):  # `IFoo & IBar`.
    left: Expression
    right: Expression

@node
class TupleExpression(Expression):  # `(int, float)`; under `#lang 2026` in expressions too: `(a, b)`.
    elements: list[Expression]

# `functype(int, inout float) -> float`; parameter modes are ModifiedType("inout", ...).
@node
class FunctionTypeExpression(Expression):
    parameters: list[Expression]
    result: Expression

# `no_diff T`, `const T`, `dyn IFoo`, `some IFoo`, `unorm float4`, `unsigned int`; one modifier a node.
@node
class ModifiedType(Expression):
    modifier: str
    element: Expression
