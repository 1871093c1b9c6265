"""What the host sees: functions and types by name, parameters, resolving a call."""

from slangrad.check.model.types import BOOL, FLOAT, HALF, INT, Type, array, vector
from slangrad.check.modules import CheckedProgram
from slangrad.check.reflect import Reflection

TEXT = """
struct Point : IDifferentiable { float x; float y; no_diff int tag; float length() { return x; } }
struct Box<T, let N : int> { T data[N]; T get(int i) { return data[i]; } static int size() { return N; } }
namespace tools { float half_of(float x) { return x / 2; } }
enum Mode { Fast, Slow }
float f<let N : int, let M : int>(float a[N], vector<float, M> b) { return a[0] + b.x; }
float f(int a) { return a; }
[Differentiable] float g(IDiffTensor<float, 2> t, inout float x, no_diff float y = 2) { return x; }
void forward(float x);
void forward(float x) {}
T bounded<T : IFloat>(T x) { return x; }
"""


def reflection() -> Reflection:
    program = CheckedProgram()
    return Reflection(program, program.add_source("m", TEXT))


VIEW = reflection()


def kind(name: str) -> Type:
    found = VIEW.find_type(name)
    assert found is not None
    return found


def test_types_by_name() -> None:
    names = [
        "float3",
        "Point",
        "Box<float, 4>",
        "float[3]",
        "float[2][3]",
        "Point*",
        "vector<half, 2>",
        "Mode",
    ]
    assert [str(VIEW.find_type(each)) for each in names] == [
        "float3",
        "Point",
        "Box<float, 4>",
        "float[3]",
        "float[2][3]",
        "Point*",
        "half2",
        "Mode",
    ]
    assert str(VIEW.find_type("Tensor<float, 2>")) == "Tensor<float, 2>"
    for name in ("nothing", "f", "Box", "Box<float>", "float +", "1", "", "a;b"):
        assert VIEW.find_type(name) is None


def test_a_type_s_name_finds_it_again() -> None:
    for name in ("float[2][3]", "Box<float3[2], 4>*", "matrix<half, 2, 3>", "DifferentialPair<Point>"):
        assert VIEW.find_type(str(kind(name))) is kind(name)


def test_functions_by_name() -> None:
    assert [str(each) for each in VIEW.find_functions("f")] == [
        "float f<N, M>(float[N] a, vector<float, M> b)",
        "float f(int a)",
    ]
    assert [each.name for each in VIEW.find_functions("tools::half_of")] == ["half_of"]
    assert [each.name for each in VIEW.find_functions("tools.half_of")] == ["half_of"]
    assert len(VIEW.find_functions("forward")) == 1
    assert VIEW.find_functions("Point") == ()
    assert VIEW.find_functions("nothing") == ()
    (method,) = VIEW.find_functions("Box<float, 4>.get")
    assert str(method.this_type) == "Box<float, 4>" and str(method.result) == "float"
    (static,) = VIEW.find_functions("Box<float, 4>.size")
    assert static.this_type is None
    assert [each.name for each in VIEW.find_methods(kind("Point"), "length")] == ["length"]


def test_parameters() -> None:
    (function,) = VIEW.find_functions("g")
    tensor, x, y = function.parameters
    assert [str(each) for each in VIEW.bounds(tensor.type)] == ["IDiffTensor<float, 2>"]
    assert (x.name, str(x.type), x.direction, x.no_diff, x.has_default) == (
        "x",
        "float",
        "inout",
        False,
        False,
    )
    assert (y.direction, y.no_diff, y.has_default) == ("in", True, True)
    assert function.info.level == "backward"
    assert [each.name for each in function.declaration.attributes] == ["Differentiable"]
    assert function.generics == ()
    assert VIEW.find_functions("f")[0].generics == ("N", "M")


def test_fields_and_differentials() -> None:
    fields = VIEW.fields(kind("Point"))
    assert [(each.name, str(each.type), each.no_diff) for each in fields] == [
        ("x", "float", False),
        ("y", "float", False),
        ("tag", "int", True),
    ]
    assert str(VIEW.tangent(kind("Point"))) == "Point.Differential"
    assert VIEW.tangent_field(kind("Point"), "y") == "y"
    assert VIEW.tangent_field(kind("Point"), "tag") is None
    assert VIEW.tangent(kind("Mode")) is None


def test_a_call_is_resolved_and_its_generics_filled_in() -> None:
    (found,), refused = VIEW.resolve(VIEW.find_functions("f"), [array(FLOAT, 4), vector(FLOAT, 3)])
    assert str(found.reference) == "f<4, 3>"
    assert [str(each.type) for each in found.parameters] == ["float[4]", "float3"]
    assert [each.reason for each in refused] == ["it takes 1 argument, not 2"]


def test_explicit_arguments_in_the_name() -> None:
    functions = VIEW.find_functions("f<4, 3>")
    resolved, refused = VIEW.resolve(functions, [array(FLOAT, 5), vector(FLOAT, 3)])
    assert resolved == []
    assert len(refused) == 2 and "must be 'float[4]', not 'float[5]'" in refused[0].reason


def test_interface_parameters_take_what_conforms() -> None:
    (function,) = VIEW.find_functions("g")
    tensor = kind("DiffTensor<float, 2>")
    (found,), _ = VIEW.resolve([function], [tensor, FLOAT, FLOAT])
    assert found.parameters[0].type is tensor
    _, (refusal,) = VIEW.resolve([function], [kind("Tensor<float, 2>"), FLOAT, FLOAT])
    assert refusal.reason == "'Tensor<float, 2>' does not conform to 'IDiffTensor<float, 2>'"
    assert VIEW.conforms(tensor, VIEW.bounds(function.parameters[0].type)[0])


def test_bounds_refuse() -> None:
    functions = VIEW.find_functions("bounded")
    (found,), _ = VIEW.resolve(functions, [HALF])
    assert found.result is HALF
    (found,), _ = VIEW.resolve(functions, [INT])
    assert found.result is FLOAT
    resolved, (refusal,) = VIEW.resolve(functions, [BOOL])
    assert resolved == [] and refusal.reason == "'bool' does not conform to 'IFloat'"


def test_names_of_a_module() -> None:
    assert VIEW.function_names() == ("f", "g", "forward", "bounded")
    assert VIEW.type_names() == ("Point", "Box", "Mode")
    assert VIEW.member_names(kind("Point"))[:4] == ("Differential", "dadd", "dmul", "dzero")
