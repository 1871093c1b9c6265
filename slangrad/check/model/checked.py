"""The annotations that `check` writes into the AST, and that lowering reads.

    Expression.type        the checked type of the value, before its conversion
    Expression.ref         one of the forms below: the resolution of the expression
    Expression.conversion  a Conversion for its place, to `.conversion.target`, or None
    Declaration.checked    one of the infos at the end

Bodies are checked once, generic as they are: types, references and values may contain generic parameters,
which `Program.substitute`, `.resolve` and `.value` replace when a body is instantiated. A literal has ref
None, as have NoDiff, Paren and Comma, whose meaning is in the node. A reference to a requirement of an
interface is resolved to the member of the concrete type by `Program.resolve(reference, substitution)`.
"""

from __future__ import annotations

from dataclasses import field

from slangrad.base.records import record
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import FunctionType, Type
from slangrad.check.model.values import Pack, Value
from slangrad.syntax import ast

# fmt: off
# --- Forms of expressions -----------------------------------------------------------------------------

@record
class Form:  # The base of all forms of `Expression.ref`.
    pass

@record
class ThisValue(Form):  # `this`, explicit or implicit; as a base it replaces an expression.
    type: Type
    captured: ast.ParameterDeclaration | None = None  # in a lambda: what it has captured of the method around

# The base of a field, a method or a subscript: an expression, or an implicit `this`.
Base = ast.Expression | ThisValue

@record
class TypeName(Form):  # The expression names a type (its `.type`): `float3`, `T`, `Foo<4>.Inner`.
    named: Type

# Known when compiling: enum case, generic value, sizeof, `static const int`; see Program.value.
@record
class Constant(Form):
    value: Value
    discriminator: Base | None = None  # of `object.kCount`: what has the type, where that is known at run time only

@record
class Local(Form):  # A local variable or a parameter, of this function or (in a lambda) of the enclosing one.
    declaration: ast.Variable | ast.ParameterDeclaration

@record
class Global(Form):  # A variable of a module, namespace or cbuffer, or a static member.
    reference: DeclRef

# Where a value of the type of the expression stands for that type, which is known at run time only: that of `base`, or
# an associated type of it.
@record
class Discriminator(Form):
    base: Base

@record
class Field(Form):  # `base.x`; a place when base is one.
    base: Base
    reference: DeclRef

@record
class TupleElement(Form):  # `tuple._1`.
    base: Base
    index: int

# `base.x` through accessors, read or written by its place; base is None for a static property. Where an
# interface requires the property, `resolve` may give a field (an ast.Variable) of the concrete type
# instead.
@record
class PropertyAccess(Form):
    base: Base | None
    reference: DeclRef

@record
class SubscriptAccess(Form):  # `base[i]` through the accessors of a declared `__subscript`.
    base: Base
    reference: DeclRef
    arguments: tuple[Argument, ...]

# `base[index]` of an array, vector, matrix (a row) or pointer; a place when base is one.
@record
class Element(Form):
    base: Base
    index: ast.Expression

# `v.xzy`, `m._m00_m11`: (component,) of a vector or scalar, (row, column) of a matrix. A place when base is
# one and no component repeats. One component gives a scalar. `t._1_0` of a tuple: (index,).
@record
class Swizzle(Form):
    base: Base
    components: tuple[tuple[int, ...], ...]

@record
class Dereference(Form):  # `*p`.
    pointer: ast.Expression

@record
class AddressOf(Form):  # `&place`.
    place: ast.Expression

# `fwd_diff(f)`, `bwd_diff(fwd_diff(f))`; `signature` is that of the derivative, `mode` "forward" or
# "backward". `this`: of `bwd_diff(object.method)`; in `bwd_diff(Type.method)` it is the first parameter and
# `this` is None, and the first parameter of `signature` is named "this".
@record
class Derivative(Form):
    mode: str
    function: DeclRef | Derivative
    this: Base | None
    signature: FunctionType

# A call of a function, method (`this`), constructor (`__init`), operator function, intrinsic, derivative or
# lambda. Arguments stand in the order of the parameters, defaults filled in. `this` of a mutating method is
# a place.
@record
class FunctionCall(Form):
    function: DeclRef | Derivative
    this: Base | None
    arguments: tuple[Argument, ...]

@record
class Default:  # An argument that was left out: `parameter.default`, under the substitution of the called function.
    parameter: ast.ParameterDeclaration

Argument = ast.Expression | Default

# A builtin operator after conversion of its operands: "+", "<", "&&", "!", "-" (one operand: negation),
# "?:" for a componentwise selection. Operands have one type, but for shifts, "?:" and pointer arithmetic
# (`p + i`, `p - q`).
@record
class Operator(Form):
    name: str
    operands: tuple[ast.Expression, ...]

@record
class Assignment(Form):  # `place = value`.
    place: ast.Expression
    value: ast.Expression

# `place += value`, `++place`, `place--`: read the place, convert it by `load` (or not), apply `operation`
# to it and `value`, convert back by `store` (or not), write. `function` is a user's operator, else
# `operator` is builtin. The result is the new value, for Postfix nodes the old one. `value` is None for ++
# and --: one of the place's type.
@record
class Update(Form):
    operator: str
    function: DeclRef | None
    place: ast.Expression
    value: ast.Expression | None
    load: Conversion | None
    store: Conversion | None

# `(T)x`, `T(x)`: the operand, whose `.conversion` does the work (None: it has type T already).
@record
class Convert(Form):
    operand: ast.Expression

# `{a, b}`, `float4(v.xyz, 1)`, `S(a, b)` without an `__init`: struct by fields in order, array by elements,
# vector from parts whose components follow each other, matrix from rows, or from components if a part is a
# scalar. Components beyond the parts are zero. A part may be a Construct itself: `{1, 2, 3, 4}` as a
# float2[2]. A scalar has one part.
@record
class Construct(Form):
    type: Type
    parts: tuple[Part, ...]

@record
class FieldDefault:  # A field that was left out: its initializer under the substitution of the struct.
    reference: DeclRef

@record
class Zero:  # A part that was left out and has no initializer: all zero.
    type: Type

Part = ast.Expression | Construct | FieldDefault | Zero | FunctionCall

@record
class Closure(Form):  # A lambda expression: the captured variables become a value of the LambdaType `.type`.
    function: ast.FunctionDeclaration

# `expand f(each x)`: the pattern for each element of packs that are not known yet. What is expanded over known types
# is copied instead, see expansions.py: `pieces` then take its place in a list.
@record
class Expansion(Form):
    pattern: ast.Expression
    packs: tuple[Pack, ...]

@record
class Pieces(Form):
    pieces: tuple[ast.Expression, ...]

# `each x` of a pack of arguments or a tuple; `kinds` are the types in it, `entry` which of them is meant: all of its
# elements, one after the other, where that is a pack.
@record
class PackElement(Form):
    base: ast.Expression
    kinds: tuple[Type, ...]
    entry: int

# `__trimFirst(x)` and its kin of a pack of arguments.
@record
class PartOfPack(Form):
    base: ast.Expression
    query: str

@record
class TypeTest(Form):  # `x is T`: known when compiling, once generics are filled in, but for interface values.
    operand: ast.Expression
    target: Type

@record
class Downcast(Form):  # `x as T`: an Optional<T>.
    operand: ast.Expression
    target: Type

# `try f(x)`: a call of a function that throws, and the Catch it goes to; None: the function around.
@record
class TriedCall(Form):
    call: ast.Expression
    handler: ast.Catch | None

# --- Conversions --------------------------------------------------------------------------------------

# kind          from -> to
# "numeric"     scalar, vector, matrix or enum to another element type of the same shape; bool both ways
# "sign"        a variable that is passed as `out` or `inout`: `int` for `uint`; converted back afterwards
# "splat"       scalar to vector or matrix, its element converted first
# "truncate"    vector to a shorter one or to a scalar, matrix to a smaller one; elements converted
# "reshape"     vector<T,1> and scalar, matrix and array or vector of the same component count
# "dereference" a pointer where its element's member is meant; the result is a place
# "pointer"     pointer to pointer, pointer to 64-bit integer and back (explicit), nullptr
# "call"        `function` is an `__init` taking one argument
# "array"       each element as `inner` says
# "interface"   a value of the type `source` to an interface-typed value
# "optional"    T to Optional<T>; `inner` first, if any
# "base"        a struct to one that it inherits from
# "existing"    a type that is the same after substitution
# "stated"      from `source` to another type as `where U(T)` or `where T == U` says, which is known after substitution
@record
class Conversion:
    kind: str
    target: Type
    function: DeclRef | None = None
    inner: Conversion | None = None
    source: Type | None = None

    def __str__(self) -> str:
        return f"{self.target} ({self.kind})"

# --- Infos of declarations ----------------------------------------------------------------------------

# `kind`: "local", "field", "static", "global" or "required". `constant`: its value when known when compiling.
# `initial`: what a declaration without an initializer means: Construct, FunctionCall or Zero, None when it has one.
# `rules`: how it lies in memory, see types.Stored.
@record
class VariableInfo:
    type: Type
    kind: str
    mutable: bool = True
    constant: Value | None = None
    no_diff: bool = False
    rules: str = ""
    initial: Construct | FunctionCall | Zero | None = None

    def __str__(self) -> str:
        return str(self.type)

@record
class ParameterInfo:
    type: Type
    direction: str  # "in", "out", "inout", "ref", "constref"
    no_diff: bool = False
    rules: str = ""
    generic_value: ast.ValueParameter | None = None  # of a `constexpr` parameter of the library

    def __str__(self) -> str:
        return str(self.type)

# Of a Function, Constructor or Accessor. `this_type` is None for static ones, the LambdaType for a lambda,
# whose captured variables are its `this`. What a `ref` accessor returns is a place, unless it gives an address.
# An accessor's parameters are those of its subscript, then the setter's value. `level`: "none", "forward" or
# "backward" (both modes); what [Differentiable] and the custom derivatives say. `captures`: the variables that a
# lambda takes from around it.
@record
class FunctionInfo:
    this_type: Type | None
    mutating: bool
    parameters: tuple[ast.ParameterDeclaration, ...]
    result: Type
    level: str = "none"
    no_diff_this: bool = False
    no_diff_result: bool = False
    treat_as_differentiable: bool = False
    intrinsic: str | None = None
    math_function: str | None = None
    throws: Type | None = None
    captures: list[ast.Variable | ast.ParameterDeclaration] = field(default_factory=list)
    body_checked: bool = False

    @property
    def is_differentiable(self) -> bool:
        return self.level != "none" or self.treat_as_differentiable

    def __str__(self) -> str:
        return str(self.result)

@record
class SubscriptInfo:  # Of a subscript or property; the latter has no parameters: the type of the element.
    this_type: Type | None
    parameters: tuple[ast.ParameterDeclaration, ...]
    result: Type

    def __str__(self) -> str:
        return str(self.result)

@record
class Applied:  # `__apply(f)`: gives the result of f and a context, whose `operator()` goes backward.
    function: DeclRef
    backward: DeclRef
    context: Type

@record
class CustomDerivatives:  # The user's derivatives of a function, under the same substitution.
    forward: DeclRef | None = None
    backward: DeclRef | None = None
    primal_substitute: DeclRef | None = None
    apply: Applied | None = None

@record
class CaseInfo:  # Of an EnumCase.
    type: Type
    value: int

    def __str__(self) -> str:
        return str(self.type)

# The tangent type of a struct, field by field: (field, field of the differential or None when it has no
# derivative). `zero`, `add`: the user's own dzero and dadd, None when they are field by field.
@record
class DifferentialInfo:
    type: Type
    fields: tuple[tuple[DeclRef, DeclRef | None], ...]
    zero: DeclRef | None = None
    add: DeclRef | None = None

# Of an alias, or a generic value: its type. Types of Struct, Interface and so on live in the program.
@record
class TypeInfo:
    type: Type
# fmt: on

Info = VariableInfo | ParameterInfo | FunctionInfo | SubscriptInfo | CaseInfo | TypeInfo
