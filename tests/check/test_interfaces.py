"""Interfaces, associated types, extensions, generic structs; what requirements are for concrete types."""

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import FLOAT, Type, vector
from slangrad.syntax import ast
from tests.check.programs import check, codes, expression, function, problem, problems, program, type_of

SHAPES = """
interface IShape
{
    associatedtype Unit = float;
    static const int kCorners;
    property float size { get; }
    float area();
    float twice() { return 2 * area(); }
    static This unit();
}
struct Square : IShape
{
    float size;
    static const int kCorners = 4;
    float area() { return size * size; }
    static Square unit() { return { 1 }; }
}
struct Circle : IShape
{
    typealias Unit = half;
    float radius;
    static const int kCorners = 0;
    property float size { get { return 2 * radius; } }
    float area() { return 3 * radius * radius; }
    float twice() { return 7; }
    static Circle unit() { return { 1 }; }
}
"""


def resolved(text: str, call: str, generic: str, kind: str) -> str:
    """What `call` in the generic function means when its only parameter T is the type `kind`."""
    module = check(text)
    form = expression(module, call).ref
    (parameter,) = function(module, generic).generics
    found = [m for m in module.declaration.members if m.name == kind]
    concrete: Type = program().resolve_type(module.scope, ast.Name(found[0].span, kind)) if found else FLOAT
    reference = form.function if isinstance(form, checked.FunctionCall) else form.reference
    assert isinstance(reference, DeclRef)
    return str(program().resolve(reference, {parameter: concrete}))


def test_requirements_resolve_to_members() -> None:
    text = f"{SHAPES} float f<T : IShape>(T x) {{ T.unit(); x.size; return x.area() + x.twice(); }}"
    assert resolved(text, "x.area()", "f", "Square") == "Square.area"
    assert resolved(text, "T.unit()", "f", "Circle") == "Circle.unit"


def test_a_default_body_is_seen_through_the_type() -> None:
    text = f"{SHAPES} float f<T : IShape>(T x) {{ return x.twice(); }}"
    assert resolved(text, "x.twice()", "f", "Square") == "Square.twice"
    assert resolved(text, "x.twice()", "f", "Circle") == "Circle.twice"
    module = check(text)
    (parameter,) = function(module, "f").generics
    square = program().resolve_type(module.scope, ast.Name(module.declaration.span, "Square"))
    found = program().resolve(expression(module, "x.twice()").ref.function, {parameter: square})
    assert isinstance(found.declaration.parent, ast.Interface)


def test_a_field_or_a_property_satisfies_a_property() -> None:
    text = f"{SHAPES} float f<T : IShape>(T x) {{ return x.size; }}"
    assert resolved(text, "x.size", "f", "Square") == "Square.size"
    assert resolved(text, "x.size", "f", "Circle") == "Circle.size"


def test_associated_types_and_constants_depend_on_the_type() -> None:
    text = f"{SHAPES} void f<T : IShape>(T x, T.Unit y[T.kCorners + 1]) {{ y; }}"
    module = check(text)
    (parameter,) = function(module, "f").generics
    kind = expression(module, "y").type
    assert str(kind) == "T.Unit[T.kCorners + 1]"
    for name, expected in (("Square", "float[5]"), ("Circle", "half[1]")):
        concrete = program().resolve_type(module.scope, ast.Name(module.declaration.span, name))
        assert str(program().substitute(kind, {parameter: concrete})) == expected


def test_operators_on_type_parameters_are_requirements() -> None:
    text = """
        struct Complex : IArithmetic
        {
            float re, im;
            __init() { re = 0; im = 0; }
            __init(int n) { re = n; im = 0; }
            __init(float x, float y) { re = x; im = y; }
            Complex add(Complex o) { return { re + o.re, im + o.im }; }
            Complex sub(Complex o) { return { re - o.re, im - o.im }; }
            Complex mul(Complex o) { return { re * o.re - im * o.im, re * o.im + im * o.re }; }
            Complex div(Complex o) { return this; }
            Complex mod(Complex o) { return this; }
            Complex neg() { return { -re, -im }; }
            bool equals(Complex o) { return re == o.re && im == o.im; }
            bool lessThan(Complex o) { return re < o.re; }
            bool lessThanOrEquals(Complex o) { return re <= o.re; }
        }
        T f<T : IArithmetic>(T x, T y) { return x * y; }
        T g<T : IArithmetic>(T x) { return x + 1; }
        void test(Complex c) { f(c, c); g(c); g(2.0); }"""
    assert resolved(text, "x * y", "f", "Complex") == "Complex.mul"
    assert resolved(text, "x * y", "f", "float") == "float.mul"
    module = check(text)
    assert type_of(module, "g(c)") == "Complex"


def test_requirements_of_builtin_types_are_primitives() -> None:
    text = "T f<T : IArithmetic>(T x, T y) { return x * y; }"
    module = check(text)
    (parameter,) = function(module, "f").generics
    found = program().resolve(expression(module, "x * y").ref.function, {parameter: FLOAT})
    assert program().info(found.declaration).intrinsic == "mul"


def test_inherited_requirements() -> None:
    text = """
        interface IBase { float base(); }
        interface IMore : IBase { float more(); }
        struct S : IMore { float base() { return 1; } float more() { return 2; } }
        float f<T : IMore>(T x) { return x.base() + x.more(); }
        float g<T : IBase>(T x) { return x.base(); }
        float h(S s) { return f(s) + g(s); }"""
    assert resolved(text, "x.base()", "f", "S") == "S.base"


def test_subscripts_and_generic_methods_as_requirements() -> None:
    text = """
        interface ITable<T> { __subscript(int i) -> T { get; set; } T at<I : IInteger>(I i); }
        struct Row<T, let N : int> : ITable<T>
        {
            T data[N];
            __subscript(int i) -> T { get { return data[i]; } set { data[i] = newValue; } }
            T at<J : IInteger>(J i) { return data[i.toInt()]; }
        }
        T first<T, A : ITable<T>>(A a) { return a.at(0u) + a[1]; }
        float f(Row<float, 2> r) { return first(r); }"""
    text = text.replace("T first<T,", "T first<T : IArithmetic,")
    module = check(text)
    item, table = function(module, "first").generics
    row = expression(check(text + " void g(Row<float, 2> q) { q; }"), "q").type
    del row
    concrete = function(module, "f").parameters[0].checked.type
    found = program().resolve(expression(module, "a.at(0u)").ref.function, {item: FLOAT, table: concrete})
    assert str(found) == "Row<float, 2>.at<uint>"
    found = program().resolve(expression(module, "a[1]").ref.reference, {item: FLOAT, table: concrete})
    assert isinstance(found.declaration, ast.Subscript) and str(found) == "Row<float, 2>.__subscript"


# --- Extensions ---------------------------------------------------------------------------------------


def test_extensions_of_builtin_and_generic_types() -> None:
    text = """
        interface INorm { float norm(); }
        extension float : INorm { float norm() { return abs(this); } static float one() { return 1; } }
        extension<T : INorm, let N : int> vector<T, N> : INorm { float norm() { return this[0].norm(); } }
        struct Box<T> { T item; }
        extension<T : INorm> Box<T> { float size() { return item.norm(); } }
        extension Box<int> { int twice() { return 2 * item; } }
        float f<T : INorm>(T x) { return x.norm(); }
        float g(Box<float3> a, Box<int> b)
        {
            return f(1.0) + f(float2(1)) + a.size() + float.one() + b.twice();
        }"""
    assert codes(text) == []
    assert codes(text + "float h(Box<int> b) { return b.size(); }") == ["E0304"]
    assert codes(text + "float h(Box<float> b) { return b.twice(); }") == ["E0304"]


def test_extensions_of_interfaces() -> None:
    text = f"""{SHAPES}
        extension IShape {{ float thrice() {{ return twice() + this.area(); }} }}
        interface INamed {{ int name(); }}
        extension<T : IShape> T : INamed {{ int name() {{ return T.kCorners; }} }}
        int f<T : INamed>(T x) {{ return x.name(); }}
        float g(Square s) {{ return s.thrice() + f(s); }}"""
    assert codes(text) == []
    assert codes(text + "int h() { return f(1.0); }") == ["E0405"]


def test_where_clauses_of_methods() -> None:
    text = f"""{SHAPES}
        struct Box<T>
        {{
            T item;
            float area() where T : IShape {{ return item.area(); }}
            float other() {{ return 1; }}
        }}
        float f(Box<Square> b) {{ return b.area(); }}"""
    assert codes(text) == []
    assert codes(text + "float g(Box<int> b) { return b.area(); }") == ["E0405"]
    assert codes(text.replace("return 1;", "return item.area();")) == ["E0304"]


def test_generic_structs_nest() -> None:
    text = """
        struct Outer<T>
        {
            struct Inner<let N : int> { T data[N]; static const int kSize = N * 2; }
            Inner<3> make() { Inner<3> r; return r; }
        }
        void f(Outer<half> o, Outer<int>.Inner<2> i)
        {
            o.make().data;
            i.data;
            float x[Outer<int>.Inner<2>.kSize];
            x;
        }"""
    module = check(text)
    assert type_of(module, "o.make().data") == "half[3]"
    assert type_of(module, "i.data") == "int[2]"
    assert type_of(module, "x") == "float[4]"


def test_aliases_may_be_generic() -> None:
    text = """
        typealias Vec<let N : int> = vector<float, N>;
        typedef float Four[4];
        void f(Vec<3> v, Four a) { v; a; }"""
    module = check(text)
    assert type_of(module, "v") == "float3"
    assert type_of(module, "a") == "float[4]"
    assert expression(module, "v").type is vector(FLOAT, 3)


# --- Errors -------------------------------------------------------------------------------------------


def test_all_that_is_missing_is_named() -> None:
    text = """
        interface I
        {
            float f(int x);
            static int g();
            associatedtype T : IFloat;
            static const int K;
            int n();
        }
        struct S : I { float f(int x, int y) { return x; } typealias T = int; }"""
    assert problem(text) == (
        "E0411: 'S' does not conform to 'I' ("
        "it lacks float f(int x); it has float f(int x, int y)\n"
        "        it lacks static int g()\n"
        "        its 'T' is 'int', which does not conform to 'IFloat'\n"
        "        it lacks static const int K\n"
        "        it lacks int n())"
    )


def test_a_mutating_method_does_not_satisfy_one_that_is_not() -> None:
    text = "interface I { METHOD void f(); } struct S : I { float x; [mutating] void f() { x = 1; } }"
    assert codes(text.replace("METHOD", "")) == ["E0411"]
    assert codes(text.replace("METHOD", "[mutating]")) == []


def test_bounds_must_be_interfaces() -> None:
    assert codes("T f<T : float>(T x) { return x; }") == ["E0410"]
    assert codes("struct S {} struct T {} struct R : S, T {}") == ["E0413"]
    assert codes("struct S : float {}") == ["E0413"]


def test_arguments_of_generic_types() -> None:
    text = "struct B<T : IFloat, let N : int> { T x[N]; }"
    assert codes(f"{text} void f(B<float> x) {{}}") == ["E0403"]
    assert codes(f"{text} void f(B<float, 2, 3> x) {{}}") == ["E0403"]
    assert codes(f"{text} void f(B<2, float> x) {{}}") == ["E0402"]
    assert codes(f"{text} void f(B<int, 2> x) {{}}") == ["E0404"]
    assert codes(f"{text} void f(B x) {{}}") == ["E0403"]
    assert codes("void f(float<3> x) {}") == ["E0401"]


def test_values_of_interface_types_convert_one_way() -> None:
    assert codes("interface I {} void f() { I x = I(); }") == ["E0412"]
    assert codes("interface I {} struct S : I {} void f() { I x = S(); S y = x; }") == ["E0311"]
    assert codes("interface I {} interface J : I {} void f(out I x) { J y; x = y; }") == []
    assert codes("interface I {} interface J : I {} void f(out J x) { I y; x = y; }") == ["E0311"]


def test_members_that_can_be_called_as_required_satisfy() -> None:
    text = """
        interface I
        {
            float f(int x);
            __subscript(int i) -> float { get; set; }
            static float g(float x);
        }
        struct S : I
        {
            float data[4];
            float f(float x) { return x; }
            __subscript(uint i) -> float { get { return data[i]; } set { data[i] = newValue; } }
            static float g(double x) { return float(x); }
        }
        float use<T : I>(T x) { x[1] = 2; return x.f(2) + T.g(1); }
        float test(S s) { return use(s); }"""
    assert codes(text) == []
    assert codes(text.replace("f(float x)", "f(float[2] x)").replace("return x; }", "return 1; }", 1)) == [
        "E0411"
    ]


def test_structs_have_a_default_constructor_where_one_is_required() -> None:
    text = """
        interface I : IDefaultInitializable { float f(); }
        struct S : I { float x = 3; float f() { return x; } }
        T make<T : I>() { T x; return T(); }
        void test() { make<S>(); }"""
    module = check(text)
    (parameter,) = function(module, "make").generics
    struct = next(each for each in module.declaration.members if each.name == "S")
    kind = program().resolve_type(module.scope, ast.Name(struct.span, "S"))
    form = expression(module, "T()").ref
    found = program().resolve(form.function, {parameter: kind})
    assert isinstance(found.declaration, ast.Constructor) and found.declaration.parent is struct


def test_extensions_that_ask_each_other() -> None:
    """About parameters that nothing tells: each answer once, not once for each order of questions."""
    extensions = [
        f"extension<F{i} : IInteger, T{i} : ITakes<F{i}>, A> A : ITakes<F{i}[{i + 2}]> {{}}" for i in range(8)
    ]
    takes = ["interface ITakes<F> {}", *extensions, "extension int : ITakes<int> {}"]
    call = "int same<T : ITakes<int>>(T x) { return 1; } int f() { return same(3); }"
    found = problems("\n".join([*takes, call]))
    assert [problem.code for problem in found] == [
        "E0415"
    ] * 16  # F and T of each extension, and nothing else


CONSTRAINED = """
    interface IVec<T : __BuiltinFloatingPointType> : IDifferentiable
    {
        __constraint Differential : IVec<T>;
        T first();
    }
    struct One<T : __BuiltinFloatingPointType> : IVec<T> where T.Differential == T
    {
        typealias Differential = This;
        T x;
        T first() { return x; }
    }
    struct Other : IVec<float> { DIFFERENTIAL float x; float first() { return x; } }
    float tangent<V : IVec<float>>(V v, V.Differential d) { return v.first() + d.first() + V.Differential(d).first(); }
    float test(One<float> v) { return tangent(v, v); }"""


def test_a_constraint_about_an_inherited_type() -> None:
    assert codes(CONSTRAINED.replace("DIFFERENTIAL", "typealias Differential = One<float>;")) == []
    reported = problems(CONSTRAINED.replace("DIFFERENTIAL", "typealias Differential = float;"))
    assert ("E0411", "'float' does not conform to 'IVec<float>'") in [
        (each.code, each.note) for each in reported
    ]
