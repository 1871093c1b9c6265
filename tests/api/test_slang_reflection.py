"""Types and functions by name: module.layout, and what slangrad.reflection has for it."""

import numpy as np
import pytest
import slangrad.reflection as refl
from slangrad.reflection.lookup import (
    innermost_type,
    numpy_to_slang,
    resolve_element_type,
    resolve_program_layout,
    slang_to_numpy,
)

import slangrad as spy
from slangrad import TypeReflection

Scalar = TypeReflection.ScalarType
TEXT = """
    struct Particle : IDifferentiable
    {
        float2 at;
        no_diff float mass;
        static Particle still(float2 at) { return { at, 1 }; }
        [mutating] void move(float2 by) { at += by; }
        __init(float2 at, float mass) { this.at = at; this.mass = mass; }
    }
    struct Box<T, let N : int> { T values[N]; }
    struct Flag<let on : bool> {}
    interface IShape { float area(); }
    struct Square : IShape { float side; float area() { return side * side; } }
    enum Color { red, green }
    float area(IShape shape) { return shape.area(); }
    T first<T>(T x) { return x; }
    float pick(float x) { return x; }
    float pick(float x, float y) { return y; }
    float total(float values[]) { return values[0]; }
    [Differentiable] void update(inout float x, out float y, no_diff float weight = 2) { y = x * weight; }
    void look(Texture2D<float3> image, RWTexture3D<float> cells, RWStructuredBuffer<float4> rows,
              ByteAddressBuffer bytes, float* p, DifferentialPair<float> pair) {}
"""


@pytest.fixture(scope="module")
def module():
    device = spy.create_device()
    yield spy.Module.load_from_source(device, "reflected", TEXT)
    device.close()


def test_kinds_of_types(module):
    layout = module.layout
    number = layout.require_type_by_name("float")
    assert isinstance(number, refl.ScalarType) and number.slang_scalar_type is Scalar.float32
    assert (number.shape, number.num_dims, number.full_name) == ((), 0, "float")
    assert isinstance(layout.scalar_type(Scalar.void), refl.VoidType)
    color = layout.require_type_by_name("Color")
    assert isinstance(color, refl.ScalarType) and color.slang_scalar_type is Scalar.int32
    vector = layout.require_type_by_name("vector<float, 3>")
    assert isinstance(vector, refl.VectorType) and vector is layout.vector_type(Scalar.float32, 3)
    assert (vector.name, vector.full_name, vector.num_elements) == ("float3", "vector<float,3>", 3)
    assert vector.element_type is number is vector.scalar_type
    matrix = layout.matrix_type(Scalar.float64, 2, 4)
    assert isinstance(matrix, refl.MatrixType) and (matrix.rows, matrix.cols, matrix.shape) == (2, 4, (2, 4))
    assert matrix.element_type is layout.require_type_by_name("double4")
    assert matrix.inner_element_type.full_name == "double"
    array = layout.array_type(layout.array_type(vector, 4), 5)
    assert isinstance(array, refl.ArrayType) and array is layout.find_type_by_name("float3[4][5]")
    assert (array.num_elements, array.array_shape, array.shape) == (5, (5, 4), (5, 4, 3))
    assert array.inner_element_type is vector and not array.any_generic_dims
    assert layout.array_type(number).any_generic_dims
    assert refl.is_matching_array_type(layout.array_type(number), layout.array_type(number, 3))
    assert not refl.is_matching_array_type(layout.array_type(number, 2), layout.array_type(number, 3))


def test_structs_interfaces_and_generics(module):
    layout = module.layout
    particle = layout.require_type_by_name("Particle")
    assert isinstance(particle, refl.StructType) and particle.differentiable
    assert particle.derivative.full_name == "Particle.Differential"
    at, mass = particle.fields.values()
    assert (at.name, at.type.full_name, at.differentiable) == ("at", "vector<float,2>", True)
    assert (mass.declaration, mass.no_diff, mass.differentiable) == ("no_diff float mass", True, False)
    with pytest.raises(ValueError, match="'no_diff float mass' is not differentiable"):
        _ = mass.derivative
    assert (particle.buffer_layout.size, particle.uniform_layout.alignment) == (12, 4)
    assert isinstance(layout.find_type_by_name("IShape"), refl.InterfaceType)
    box = layout.require_type_by_name("Box<Box<float3, 1>, 2>")
    assert box.full_name == "Box<Box<vector<float,3>, 1>, 2>" and not box.is_generic
    inner, count = layout.get_resolved_generic_args(box)
    assert (inner.full_name, count) == ("Box<vector<float,3>, 1>", 2)
    assert layout.get_resolved_generic_args(layout.find_type_by_name("Flag<true>")) == [1]
    assert layout.get_resolved_generic_args(particle) is None
    assert layout.find_type_by_name("Nothing") is None
    with pytest.raises(ValueError, match=r"E1012.*no type named 'Nothing'\n.*there are Particle, "):
        layout.require_type_by_name("Nothing")


def test_tensors_buffers_and_textures(module):
    layout = module.layout
    kinds, access = refl.TensorType, refl.TensorAccess
    float3 = layout.require_type_by_name("float3")
    tensor = layout.tensor_type(float3, 2)
    assert isinstance(tensor, refl.ITensorType) and tensor is layout.find_type_by_name("RWTensor<float3, 2>")
    assert (tensor.dims, tensor.dtype, tensor.shape) == (2, float3, (-1, -1, 3))
    assert (tensor.tensor_kind, tensor.access) == (kinds.tensor, access.read_write)
    given = layout.tensor_type(layout.scalar_type(Scalar.float32), 1, access.write, kinds.idiff_tensor)
    assert given.full_name == "IWDiffTensor<float, 1>"
    assert (given.readable, given.writable, given.has_grad_in, given.has_grad_out) == (
        False,
        True,
        True,
        False,
    )
    assert layout.tensor_type(float3, 1, access.read, kinds.atomic).full_name.startswith("AtomicTensor<")
    image, cells, rows, words, pointer, pair = (
        each.type for each in layout.find_function_by_name("look").parameters
    )
    assert isinstance(image, refl.TextureType) and (image.texture_dims, image.num_dims) == (2, 3)
    assert image.resource_shape is TypeReflection.ResourceShape.texture_2d and not image.writable
    assert (cells.texture_dims, cells.writable, cells.element_type.name) == (3, True, "float")
    assert isinstance(rows, refl.StructuredBufferType) and rows.element_type.name == "float4"
    assert rows.resource_access is TypeReflection.ResourceAccess.read_write
    assert isinstance(words, refl.ByteAddressBufferType) and words.element_type.name == "uint8_t"
    assert isinstance(pointer, refl.PointerType) and pointer.target_type.name == "float"
    assert isinstance(pair, refl.DifferentialPairType) and pair.primal is layout.find_type_by_name("float")


def test_functions(module):
    layout = module.layout
    update = layout.require_function_by_name("update")
    assert [each.declaration for each in update.parameters] == [
        "inout float x",
        "out float y",
        "no_diff float weight",
    ]
    assert [each.io_type.name for each in update.parameters] == ["inout", "out", "inn"]
    assert [(each.index, each.has_default) for each in update.parameters] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert update.differentiable and not update.have_return_value
    assert isinstance(update.return_type, refl.VoidType)
    pick = layout.require_function_by_name("pick")
    assert pick.is_overloaded and [len(each.parameters) for each in pick.overloads] == [1, 2]
    assert not pick.overloads[0].is_overloaded
    assert layout.find_function_by_name("pick") is pick and layout.find_function_by_name("nothing") is None
    with pytest.raises(ValueError, match=r"E1012.*no function named 'nothing'\n.*there are area, first"):
        layout.require_function_by_name("nothing")
    assert layout.require_function_by_name("area").parameters[0].type.name == "IShape"
    assert layout.require_function_by_name("total").parameters[0].type.full_name == "float[]"


def test_methods(module):
    layout = module.layout
    particle = layout.require_type_by_name("Particle")
    move = layout.require_function_by_name_in_type(particle, "move")
    assert move.this_type is particle and move.mutating and not move.static
    assert [str(each) for each in move.parameters] == ["float2 by"]
    still = layout.require_function_by_name_in_type(particle, "still")
    assert still.static and still.return_type is particle
    made = layout.require_function_by_name_in_type(particle, "__init")
    assert made.is_constructor and made.return_type is particle
    with pytest.raises(ValueError, match=r"E1012.*no method in 'Particle' named 'fly'\n.*there are .*move"):
        layout.require_function_by_name_in_type(particle, "fly")
    assert [str(each) for each in module.Particle.move.parameters] == ["inout Particle _this", "float2 by"]
    assert module.Particle.move.slang_function is move


def test_generic_functions(module):
    layout = module.layout
    first = layout.require_function_by_name("first")
    assert first.is_generic and refl.is_unknown(first.parameters[0].type) and first.return_type.is_generic
    named = layout.require_function_by_name("first<float>")
    assert (named.name, named.full_name, named.return_type.full_name) == ("first", "first<float>", "float")
    assert not named.is_generic
    found = first.specialize_with_arg_types([layout.require_type_by_name("float3")])
    assert found.return_type.name == "float3" and found.parameters[0].type.name == "float3"
    assert layout.find_function_by_name("first") is first
    shape = layout.require_function_by_name("area")
    of_square = shape.specialize_with_arg_types([layout.require_type_by_name("Square")])
    assert (of_square.parameters[0].type.name, of_square.return_type.name) == ("Square", "float")
    assert shape.specialize_with_arg_types([layout.require_type_by_name("Particle")]) is None


def test_structs_of_the_module_are_types(module):
    struct = module.Particle
    assert struct.struct is struct.type is module.layout.find_type_by_name("Particle")
    assert isinstance(struct.struct, refl.StructType) and struct == struct.struct
    assert struct.program is module.layout
    assert struct.type_reflection.full_name == "Particle"
    assert module.layout.find_type(struct.type_reflection) is struct.struct
    tensor = spy.Tensor.empty(module.device, (2,), struct.struct)
    assert tensor.dtype is struct.struct
    result = module.first.map("float")(np.ones(2, np.float32))
    assert isinstance(result.dtype, refl.ScalarType) and result.dtype.program is module.layout


def test_unknown_types(module):
    unknown = module.layout.require_type_by_name("Unknown")
    assert refl.is_unknown(unknown) and not refl.is_known(unknown) and not refl.is_known_or_none(unknown)
    assert refl.is_known_or_none(None) and not refl.is_unknown(None)
    with pytest.raises(ValueError, match="Type is None"):
        refl.is_known(None)


def test_types_of_python_and_numpy(module):
    layout, device = module.layout, module.device
    assert slang_to_numpy(layout.find_type_by_name("float3[2]")) == np.float32
    assert slang_to_numpy(layout.find_type_by_name("Particle")) is None
    assert numpy_to_slang(np.dtype("u2"), device, layout).full_name == "uint16_t"
    assert numpy_to_slang(np.dtype(("f8", (2, 3))), device, None).shape == (2, 3)
    assert numpy_to_slang(np.dtype("complex64"), device, None) is None
    assert innermost_type(layout.find_type_by_name("half2x2")).name == "half"
    assert resolve_element_type(layout, int).full_name == "int"
    assert resolve_element_type(layout, spy.float3).full_name == "vector<float,3>"
    assert resolve_element_type(layout, module.Particle) is module.Particle.struct
    assert resolve_program_layout(device, module.Particle, None) is layout
    assert resolve_program_layout(device, "float", None) is resolve_program_layout(device, None, None)
    with pytest.raises(ValueError, match="Element type could not be resolved"):
        resolve_element_type(layout, object())


def test_another_program_takes_the_place_of_one(module):
    device = module.device
    before = device.load_module_from_source("before", "struct A { float x; } float f(A a) { return a.x; }")
    after = device.load_module_from_source("after", "struct A { int x; } int f(A a, int b) { return a.x; }")
    layout = refl.SlangProgramLayout(before.layout)
    a, f = layout.require_type_by_name("A"), layout.require_function_by_name("f")
    assert a.fields["x"].type.name == f.return_type.name == "float"
    layout.on_hot_reload(after.layout)
    assert layout.generation == 1
    assert layout.require_type_by_name("A") is a and layout.require_function_by_name("f") is f
    assert a.fields["x"].type is f.return_type is layout.scalar_type(Scalar.int32)
    assert [each.type for each in f.parameters] == [a, layout.scalar_type(Scalar.int32)]


def test_files_that_are_loaded_again(tmp_path):
    file = tmp_path / "seen.slang"
    file.write_text("struct A { float x; } float f(A a) { return a.x; } void gone() {}")
    with spy.create_device(include_paths=[tmp_path]) as device:
        module = spy.Module.load_from_file(device, "seen.slang")
        layout = module.layout
        a, f = layout.require_type_by_name("A"), layout.require_function_by_name("f")
        gone = layout.require_function_by_name("gone")
        file.write_text("struct A { int x; int y; } int f(A a, A b) { return b.x; }")
        device.reload_all_programs()
        assert layout.require_type_by_name("A") is a and list(a.fields) == ["x", "y"]
        assert layout.require_function_by_name("f") is f and len(f.parameters) == 2
        assert f.return_type is layout.find_type_by_name("int")
        assert layout.find_function_by_name("gone") is None and gone.name == "gone"
        assert layout.generation == 1 and module.layout is layout
        assert module.A.struct is a and module.f.slang_function is f
        assert layout.get_resolved_generic_args(a) is None and a.type_reflection.fields[1].name == "y"
