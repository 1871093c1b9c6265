"""Every form of declaration, and what of it ends up where."""

import pytest

from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk
from tests.syntax.shapes import errors, listed, parse, shape


def only(text):
    (declaration,) = parse(text).members
    return declaration


def described(parameter):
    declared = f"{shape(parameter.value_type)} {parameter.name}"
    return f"{parameter.direction} {declared} = {shape(parameter.default)}"


def test_function():
    f = only("[Differentiable] [Other] public static float3 f(float x, int n = 3) : SV_Target { return x; }")
    assert isinstance(f, ast.FunctionDeclaration)
    assert f.name == "f" and f.name_span.text == "f" and shape(f.result) == "float3"
    assert f.modifiers == ("public", "static") and f.has("static") and not f.has("const")
    assert [each.name for each in f.attributes] == ["Differentiable", "Other"]
    assert [described(each) for each in f.parameters] == ["in float x = -", "in int n = 3"]
    assert f.semantics[0].name == "SV_Target"
    assert len(f.body.statements) == 1


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    ("float x",                  "in float x = -"),
    ("in float x",               "in float x = -"),
    ("in out float x",           "inout float x = -"),
    ("inout float[3] x",         "inout array(float, 3) x = -"),
    ("out float x[2][3]",        "out array(array(float, 3), 2) x = -"),
    ("__constref T x",           "constref T x = -"),
    ("borrow T x",               "constref T x = -"),
    ("__ref T x",                "ref T x = -"),
    ("T* x",                     "in pointer(T) x = -"),
    ("float = 2",                "in float  = 2"),
    ("float",                    "in float  = -"),
    ("x : float = 1 + 2",        "in float x = (1 + 2)"),
    ("x : inout A.B<int>",       "inout A.B<int> x = -"),
    ("expand each T xs",         "in expand(each(T)) xs = -"),
    ("functype(inout int) -> float f", "in function(inout int) -> float f = -"),
    ("IFoo & IBar x",            "in (IFoo & IBar) x = -"),
    ("A<B<int>> x",              "in A<B<int>> x = -"),
    ("A<B<int>>x=1",             "in A<B<int>> x = 1"),
    ("A<int>x=1",                "in A<int> x = 1"),
    ("x : A<B<int>>= 1",         "in A<B<int>> x = 1"),
    ("some IFoo x",              "in IFoo x = -"),
    ("unsigned int x",           "in unsigned int x = -"),
    ("::A::B x",                 "in ::A::B x = -"),
    ("(int, float) x",           "in tuple(int, float) x = -"),
    ("float? x",                 "in optional(float) x = -"),
])
def test_parameters(text, expected):
    (parameter,) = only(f"void f({text});").parameters
    assert described(parameter) == expected
# fmt: on


def test_parameter_modifiers_and_semantics():
    f = only("void f(no_diff inout float x, uniform uint3 id : SV_GroupID, y : no_diff float : A : B, T* p);")
    assert [each.modifiers for each in f.parameters] == [("no_diff",), ("uniform",), ("no_diff",), ()]
    assert [[s.name for s in each.semantics] for each in f.parameters] == [[], ["SV_GroupID"], ["A", "B"], []]
    assert only("void f(void);").parameters == []


def test_modern_function():
    f = only("func add<T>(a : T, b : T) throws E -> T where T : IArithmetic { return a + b; }")
    assert (f.name, shape(f.result), shape(f.throws)) == ("add", "T", "E")
    assert [described(each) for each in f.parameters] == ["in T a = -", "in T b = -"]
    assert only("func nothing() {}").result is None


# fmt: off
@pytest.mark.parametrize(("text", "name"), [
    ("A operator+(A a, A b);", "operator+"), ("A operator()(int i);", "operator()"),
    ("A operator[](int i);", "operator[]"), ("func operator>>(A a, int n) -> A;", "operator>>"),
    ("__prefix A operator-(A a);", "operator-"), ("A operator >>= (A a);", "operator>>="),
    ("A operator?:(bool c, A a, A b);", "operator?:"), ("bool operator<(A a, A b);", "operator<"),
    ("bool operator< <T>(T a, T b);", "operator<"),
])
def test_operator_functions(text, name):
    assert only(text).name == name


@pytest.mark.parametrize(("text", "expected"), [
    ("<T>",                       ["type T:  = -"]),
    ("<T : IFoo>",                ["type T: IFoo = -"]),
    ("<T : IFoo & IBar = S>",     ["type T: (IFoo & IBar) = S"]),
    ("<T = int, U>",              ["type T:  = int", "type U:  = -"]),
    ("<each T : IFoo>",           ["pack T: IFoo = -"]),
    ("<let N : int>",             ["value N: int = -"]),
    ("<let N : int = 2 + 1, T>",  ["value N: int = (2 + 1)", "type T:  = -"]),
    ("<int N, bool B = true>",    ["value N: int = -", "value B: bool = true"]),
    ("<let each D : int>",        ["values D: int = -"]),
    ("<typename T, T V>",         ["type T:  = -", "value V: T = -"]),
    ("<T : I<A<int>>>",           ["type T: I<A<int>> = -"]),
    ("<T = A<int>>",              ["type T:  = A<int>"]),
    ("<T = A<B<int>>>",           ["type T:  = A<B<int>>"]),
    ("<T, U = A<T>, V = B<A<T>>>", ["type T:  = -", "type U:  = A<T>", "type V:  = B<A<T>>"]),
])
def test_generic_parameters(text, expected):
    shown = []
    for each in only(f"struct S{text} {{}}").generics:
        if isinstance(each, ast.TypeParameter):
            kind = "pack" if each.is_pack else "type"
            shown.append(f"{kind} {each.name}: {listed(each.bounds)} = {shape(each.default)}")
        else:
            kind = "values" if each.is_pack else "value"
            shown.append(f"{kind} {each.name}: {shape(each.value_type)} = {shape(each.default)}")
    assert shown == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("where T : IFoo",                    ["conforms T: IFoo"]),
    ("where T : IFoo, IBar<int>",         ["conforms T: IFoo, IBar<int>"]),
    ("where T : IFoo, U : IBar",          ["conforms T: IFoo", "conforms U: IBar"]),
    ("where T.D == U where U : IFoo",     ["equals T.D: U", "conforms U: IFoo"]),
    ("where A<T> == T[2]",                ["equals A<T>: array(T, 2)"]),
    ("where optional T : IFoo",           ["optional conforms T: IFoo"]),
    ("where int(T)",                      ["converts T: int"]),
    ("where nonempty(T)",                 ["nonempty T: "]),
    ("where countof(T) == N + 1",         ["equals countof(T): (N + 1)"]),
    ("where countof(T) >= N",             [">= countof(T): N"]),
])
def test_constraints(text, expected):
    shown = [f"{'optional ' * each.is_optional}{each.kind} {shape(each.subject)}: {listed(each.bounds)}"
             for each in only(f"void f<T, U, let N : int>() {text} {{}}").constraints]
    assert shown == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("float x;",                          ["x float - "]),
    ("float x = 1, y[2] = {1, 2};",       ["x float 1 ", "y array(float, 2) {1, 2} "]),
    ("A<B<int>> x, y;",                   ["x A<B<int>> - ", "y A<B<int>> - "]),
    ("float[2][3] x[4][5];",              ["x array(array(array(array(float, 2), 3), 5), 4) - "]),
    ("static const int N = 4;",           ["N int 4 static const"]),
    ("let x = 1;",                        ["x - 1 "]),
    ("var x : float[2], y = 3;",          ["x array(float, 2) - ", "y - 3 "]),
    ("groupshared float tile[16];",       ["tile array(float, 16) - groupshared"]),
    ("RWStructuredBuffer<float> b : register(u0, space1);", ["b RWStructuredBuffer<float> - "]),
    ("linear float x;",                   ["x float - linear"]),
    ("linear x;",                         ["x linear - "]),
    ("int[] x = {1};",                    ["x array(int, -) {1} "]),
])
def test_variables(text, expected):
    shown = [f"{each.name} {shape(each.value_type)} {shape(each.initializer)} {' '.join(each.modifiers)}"
             for each in parse(text).members]
    assert shown == expected
# fmt: on


def test_register_and_bits():
    buffer = only("StructuredBuffer<int> b : register(t0, space1);")
    assert (buffer.semantics[0].name, buffer.semantics[0].arguments) == ("register", ["t0", "space1"])
    assert shape(only("struct S { int a : 4; }").members[0].bits) == "4"


def test_declarators_do_not_share_their_type():
    first, second = parse("[A(1)] A<int> x, y;").members
    assert first.value_type is not second.value_type
    assert shape(first.value_type) == shape(second.value_type) == "A<int>"
    assert first.attributes[0] is not second.attributes[0]


def test_struct():
    s = only(
        """
        public struct S<T, let N : int> : IFoo, IBar<T> where T : IFloat
        {
            T data[N];
            static const int Size = N;
            __init(T x) { data[0] = x; }
            [mutating] void set(T x);
            struct Inner { int i; }
            typealias D = T.Differential;
            property first : T { get { return data[0]; } set(v) { data[0] = v; } }
            property T last { get; [nonmutating] set; }
            __subscript(int i, int j) -> T { get { return data[i]; } set { data[i] = newValue; } ref; }
            __generic<U> U convert(T x);
            This operator*(This other);
        };
        """
    )
    assert isinstance(s, ast.StructDeclaration) and s.has_body and s.keyword == "struct"
    assert listed(s.bases) == "IFoo, IBar<T>" and len(s.constraints) == 1
    assert [f"{type(each).__name__} {each.name}" for each in s.members] == [
        "Variable data",
        "Variable Size",
        "Constructor __init",
        "FunctionDeclaration set",
        "StructDeclaration Inner",
        "TypeAlias D",
        "Property first",
        "Property last",
        "Subscript __subscript",
        "FunctionDeclaration convert",
        "FunctionDeclaration operator*",
    ]
    first, last, subscript, convert = s.members[6], s.members[7], s.members[8], s.members[9]
    assert [each.name for each in first.accessors] == ["get", "set"]
    assert first.accessors[1].parameter.name == "v" and first.accessors[1].parameter.value_type is None
    assert last.accessors[1].parameter.name == "newValue" and last.accessors[1].body is None
    assert last.accessors[1].attribute("nonmutating") is not None
    assert [each.name for each in subscript.accessors] == ["get", "set", "ref"]
    assert [each.name for each in convert.generics] == ["U"] and convert.generics[0].parent is convert


def test_struct_variants():
    assert not only("struct S;").has_body
    alias = only("export struct S : IFoo = T<int>;")
    assert shape(alias.alias) == "T<int>" and alias.modifiers == ("export",)
    assert only("class C : IFoo {}").keyword == "class"
    assert [type(each).__name__ for each in parse("struct A { } struct B { } void f() { }").members] == [
        "StructDeclaration",
        "StructDeclaration",
        "FunctionDeclaration",
    ]
    struct, variable, array = parse("struct P { float x; } p, q[2];").members
    assert shape(variable.value_type) == "P" and shape(array.value_type) == "array(P, 2)"
    assert struct.name == "P"
    assert len(parse("struct { float x; } p;").members) == 2


def test_interface():
    i = only(
        """
        interface I<T> : IBase
        {
            associatedtype D : IDifferentiable & IFoo;
            static const int N;
            property int count { get; }
            T f(T x);
            T g(T x) { return f(x); }
            __init(T x);
            __constraint D == This;
        }
        """
    )
    assert [f"{type(each).__name__} {each.name}" for each in i.members] == [
        "AssociatedType D",
        "Variable N",
        "Property count",
        "FunctionDeclaration f",
        "FunctionDeclaration g",
        "Constructor __init",
        "ConstraintRequirement ",
    ]
    assert listed(i.members[0].bounds) == "(IDifferentiable & IFoo)"
    assert i.members[3].body is None and i.members[4].body is not None
    assert i.members[6].constraint.kind == "equals"


def test_extension():
    e = only("extension<T : IFloat> vector<T, 3> : IFoo where T : IBar { T sum() { return this.x; } }")
    assert isinstance(e, ast.Extension)
    assert (shape(e.target), listed(e.bases), e.generics[0].name) == ("vector<T, 3>", "IFoo", "T")
    assert shape(only("__generic<T> extension Ptr<T> { }").target) == "Ptr<T>"


def test_function_extension():
    e = only("__func_extension<T : IFloat> bwd_diff(f<T>)(inout DifferentialPair<T> x, T d) -> void { }")
    assert isinstance(e, ast.FunctionDeclaration) and e.name == "bwd_diff(f<T>)"
    assert [(each.name, listed(each.arguments)) for each in e.attributes] == [
        ("BackwardDerivativeOf", "f<T>")
    ]
    assert len(e.parameters) == 2 and shape(e.result) == "void"
    other = only("__func_extension __apply(f)(float x) -> float { return x; }")
    assert isinstance(other, ast.FunctionDeclaration) and other.name == "__apply(f)"
    assert [(each.name, listed(each.arguments)) for each in other.attributes] == [(ast.APPLY_OF, "f")]
    unknown = errors("__func_extension twice(f)(float x) -> float { return x; }")
    assert unknown == ["E0504 1: 'twice(f)' is no derivative that can be given"]


def test_enum():
    e = only("[Flags] enum class E : uint8_t { A, B = 1 << 2, [deprecated] C = A | B, }")
    assert isinstance(e, ast.EnumDeclaration) and e.name == "E" and listed(e.bases) == "uint8_t"
    assert [(case.name, shape(case.value)) for case in e.members] == [
        ("A", "-"),
        ("B", "(1 << 2)"),
        ("C", "(A | B)"),
    ]
    assert e.members[2].attributes[0].name == "deprecated" and e.members[0].parent is e
    assert only("enum { X }").name == ""


def test_aliases():
    assert shape(only("typedef float Row[4];").target) == "array(float, 4)"
    assert only("typedef vector<float, 3> V;").name == "V"
    alias = only("typealias V<T, let N : int> where T : IFloat = vector<T, N>;")
    assert shape(alias.target) == "vector<T, N>" and len(alias.generics) == 2 and len(alias.constraints) == 1


def test_modules():
    module = parse(
        'module my.module; import a.b; __exported import "x/y.slang"; __include part; implementing m;'
    )
    assert module.module_name == "my/module"
    first, second, include, implementing = module.members
    assert (first.path, first.name) == ("a/b", "a.b")
    assert (second.path, second.modifiers) == ("x/y.slang", ("__exported",))
    assert (include.keyword, include.path, implementing.keyword) == ("__include", "part", "implementing")


def test_namespaces():
    outer, using = parse("namespace a.b::c { int x; } using a.b;").members
    assert (outer.name, outer.members[0].name, outer.members[0].members[0].name) == ("a", "b", "c")
    x = outer.members[0].members[0].members[0]
    assert x.parent.name == "c" and x.parent.parent.name == "b" and x.parent.parent.parent is outer
    assert shape(using.target) == "a.b"


def test_buffers_and_global_parameters():
    block = only("cbuffer Settings : register(b0) { float4 color; int n : packoffset(c1.x); }")
    assert isinstance(block, ast.BufferBlock) and block.keyword == "cbuffer" and len(block.members) == 2
    assert block.members[1].semantics[0].arguments == ["c1.x"]
    assert listed(only("type_param T : IFoo, IBar;").bounds) == "IFoo, IBar"
    assert shape(only("__generic_value_param N : int = 3;").default) == "3"


def test_attributes():
    f = only('[shader("compute")] [numthreads(8 * 8, 1, 1), Other] [[vk::binding(0, 1)]] void f();')
    assert [f"{each.name}({listed(each.arguments)})" for each in f.attributes] == [
        "shader('compute')",
        "numthreads((8 * 8), 1, 1)",
        "Other()",
        "vk::binding(0, 1)",
    ]
    layout = only("layout(binding = 0) uniform Texture2D t;")
    assert layout.attributes[0].name == "layout" and layout.modifiers == ("uniform",)


def test_words_are_only_special_where_they_can_stand():
    module = parse("int property; int module; func f(x : int) { int set = 1; set = property + module; }")
    assert [each.name for each in module.members] == ["property", "module", "f"]


def test_parents():
    module = parse(
        "struct S { int f<T>(int x) { int y = 1; struct L { int z; } return ((int a) => a)(y); } }"
    )
    parents = {
        node.name: node.parent.name
        for node in walk(module)
        if isinstance(node, ast.Declaration) and node.parent is not None
    }
    assert parents == {
        "S": "test.slang", "f": "S", "T": "f", "x": "f", "y": "f", "L": "f", "z": "L", "": "f", "a": "",
    }  # fmt: skip


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    ("int f(int x",               "E0207 1: expected ')' to close '(', found the end of the text"),
    ("int f(int x) 1",            "E0201 1: expected ';' after the function's signature"),
    ("int 3;",                    "E0205 1: expected the name of what is declared, found '3'"),
    ("struct S<T { }",            "E0207 1: expected '>' to close '<', found '{'"),
    ("+;",                        "E0204 1: expected a declaration, found '+'"),
    ("static ;",                  "E0205 1: expected the name of what is declared, found ';'"),
    ("[A] ;",                     "E0208 1: modifiers and attributes need a declaration behind them"),
    ("struct S { int get }",      "E0201 1: expected ';' after the declaration"),
    ("property int x { put; }",   "E0201 1: expected 'get', 'set' or 'ref', found 'put'"),
    ("void f() where T {}",       "E0201 1: expected ':' or '==' in the constraint, found '{'"),
    ("typealias A;",              "E0201 1: expected '=' after the name of the new type, found ';'"),
    ("int x; }",                  "E0207 1: this '}' closes nothing"),
    ("float operator@(int x);",   "E0101 1: unexpected character '@'"),
])
def test_errors(text, expected):
    assert errors(text)[0] == expected
# fmt: on
