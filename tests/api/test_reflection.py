"""Reflection of types, functions and declarations, and whether memory is as it says."""

import gc
import threading
import weakref

import numpy as np
import pytest

import slangrad as spy
from slangrad import DeclReflection, ModifierID, TypeReflection

F = np.float32
DECLARATION, TYPE = DeclReflection.Kind, TypeReflection.Kind

TEXT = """
    import geometry;

    [__AttributeUsage(_AttributeTargets.Struct)]
    struct RangeAttribute { string unit; int low; float high; }

    static const int LOW = -2;

    [Range("m", LOW - 1, 0.5)] [Range("s", 1 + 2, 4)]
    struct Item { half h; bool flag; float3 at; double mass; uint8_t ids[3]; Inner inner; float2x3 turn; int* next; }
    struct Inner { int16_t small; int64_t large; }

    struct Base { int first; }
    struct Derived : Base { float second; }
    struct Packed { int low : 3; uint high : 5; float rest; }

    interface IShape { associatedtype Size; float area(); static const int sides; }
    struct Disk : IShape
    {
        typealias Size = float;
        static const int sides = 0;
        float radius;
        __init(float r) { radius = r; }
        __init() { radius = 1; }
        float area() { return 3 * radius * radius; }
        [mutating] void grow(float by) { radius += by; }
        static int count() { return 1; }
    }
    extension Disk { float twice() { return 2 * radius; } }
    enum Color : uint8_t { red, green = 4 }

    struct Grid<T, let N : int> { T cells[N]; T at(int i) { return cells[i]; } }
    typealias Short = half;

    RWStructuredBuffer<Item> items;
    RWByteAddressBuffer bytes;
    uniform Grid<float3, 2> grid;
    cbuffer Frame { uint time; float2 size; }
    ConstantBuffer<Inner> inner;
    Texture2D<float4> picture;

    float area(IShape shape) { return shape.area(); }
    float sum(float values[]) { return values[0]; }
    T twice<T : __BuiltinFloatingPointType>(T x) { return x + x; }
    int pick(int x) { return 0; }
    int pick(float x, int n = 3) { return 1; }
    void change(in int a, out int b, inout int c, no_diff float d) { b = a; c = a; }
    [Differentiable] float square(float x) { return x * x; }
    [BackwardDerivative(custom_backward)] no_diff float custom(float x) { return x; }
    void custom_backward(inout DifferentialPair<float> x) {}

    [shader("compute")] [numthreads(8, 2, 1)]
    void read(uint3 id : SV_DispatchThreadID, uniform uint8_t start, uniform double* out)
    {
        Item item = items[uint(start)];
        double found[] = { double(item.h), double(item.flag), double(item.at.y), item.mass, double(item.ids[2]),
            double(item.inner.small), double(item.inner.large), double(item.turn[1].z), double(grid.cells[1].z),
            double(size.y), double(inner.large) };
        for (int i = 0; i < 11; i++)
            out[i] = found[i];
        int sizes[] = { sizeof(Item), alignof(Item), sizeof(Inner), alignof(Inner), sizeof(Grid<half3, 3>), sizeof(Disk*) };
        for (int i = 0; i < 6; i++)
            out[11 + i] = sizes[i];
    }
"""
GEOMETRY = (
    "namespace geometry { public struct Ray { float3 origin; } public float length(Ray ray) { return 0; } }"
)


@pytest.fixture(scope="module")
def device():
    return spy.create_device()


@pytest.fixture(scope="module")
def module(device):
    device.load_module_from_source("geometry", GEOMETRY)
    return device.load_module_from_source("reflected", TEXT)


@pytest.fixture(scope="module")
def layout(module):
    return module.layout


# --- Declarations -------------------------------------------------------------------------------------


def test_the_tree_is_what_stands_in_the_text(module):
    tree = module.module_decl
    assert (tree.kind, tree.name, len(tree)) == (DECLARATION.module, "reflected", tree.child_count)
    assert [(each.kind.name, each.name) for each in tree][:7] == [
        ("unsupported", "geometry"),
        ("struct", "RangeAttribute"),
        ("variable", "LOW"),
        ("struct", "Item"),
        ("struct", "Inner"),
        ("struct", "Base"),
        ("struct", "Derived"),
    ]
    assert [each.name for each in tree.children_of_kind(DECLARATION.enum)] == ["Color"]
    assert len(tree.find_children_of_kind(DECLARATION.func, "pick")) == 2
    assert tree.find_first_child_of_kind(DECLARATION.struct, "Nothing") is None
    assert tree[-1] is tree.children[-1]
    with pytest.raises(IndexError):
        tree[len(tree)]


def test_declarations_as_what_they_declare(module):
    tree = module.module_decl
    disk = tree.find_first_child_of_kind(DECLARATION.struct, "Disk")
    assert [(each.kind.name, each.name) for each in disk] == [
        ("unsupported", "Size"),
        ("variable", "sides"),
        ("variable", "radius"),
        ("func", "$init"),
        ("func", "$init"),
        ("func", "area"),
        ("func", "grow"),
        ("func", "count"),
    ]
    assert disk.as_type().fields[0].type.name == "float"
    assert disk.as_function() is None and disk.as_variable() is None
    assert disk[2].as_variable().type.scalar_type is TypeReflection.ScalarType.float32
    grow = disk.find_first_child_of_kind(DECLARATION.func, "grow")
    assert grow[0].as_variable() is grow.as_function().parameters[0]
    frame = tree.find_first_child_of_kind(DECLARATION.variable, "Frame")
    assert [each.name for each in frame] == ["time", "size"]
    assert frame.as_variable().type.kind is TYPE.constant_buffer


def test_a_struct_without_a_constructor_has_that_of_its_fields(module, layout):
    derived = module.module_decl.find_first_child_of_kind(DECLARATION.struct, "Derived")
    made = derived.find_first_child_of_kind(DECLARATION.func, "$init")
    assert [each.name for each in made] == ["first", "second"]
    found = layout.find_function_by_name_in_type(derived.as_type(), "$init")
    assert found is made.as_function()
    assert found.return_type is derived.as_type()
    types = [layout.find_type_by_name(name) for name in ("int", "half", "IShape")]
    assert found.specialize_with_arg_types(types[:2]) is found
    assert found.specialize_with_arg_types(types[1:]) is None


def test_fields_of_bits(module, layout):
    packed = module.module_decl.find_first_child_of_kind(DECLARATION.struct, "Packed")
    fields = packed.children_of_kind(DECLARATION.variable)
    assert [(each.name, each.as_variable().type.name) for each in fields] == [
        ("low", "int"),
        ("high", "uint"),
        ("rest", "float"),
    ]
    memory = layout.get_type_layout(packed.as_type())
    assert [(each.offset, each.type_layout.size) for each in memory.fields] == [
        (0, 4),
        (4, 4),
    ]  # a word for both


def test_generic_declarations(module, layout):
    tree = module.module_decl
    grid = tree.find_first_child_of_kind(DECLARATION.generic, "Grid")
    assert [(each.kind.name, each.name) for each in grid] == [
        ("unsupported", "T"),
        ("variable", "N"),
        ("struct", "Grid"),
    ]
    assert grid.as_type() is grid[2].as_type()
    assert grid.as_type().full_name == "Grid<T, N>"
    assert grid.as_type().fields[0].type.element_type.kind is TYPE.generic_type_parameter
    assert layout.get_type_layout(grid.as_type()).size == 0  # it is open
    twice = tree.find_first_child_of_kind(DECLARATION.generic, "twice").as_function()
    assert twice is layout.find_function_by_name("twice")


# --- Types --------------------------------------------------------------------------------------------

NAMES = [
    ("float3", "vector", "vector<float,3>"),
    ("half2x4", "matrix", "matrix<half,2,4>"),
    ("float3[2][4]", "Array", "vector<float,3>[2][4]"),
    ("Item*", "Ptr", "Item*"),
    ("uint32_t", "uint", "uint"),
    ("Short", "half", "half"),
    ("Grid<float3,2>", "Grid", "Grid<vector<float,3>, 2>"),
    ("geometry::Ray", "Ray", "geometry.Ray"),
    ("ConstantBuffer<Inner>", "ConstantBuffer", "ConstantBuffer<Inner>"),
    ("Disk.Size", "float", "float"),
]


@pytest.mark.parametrize("written, name, full_name", NAMES)
def test_names_of_types(layout, written, name, full_name):
    found = layout.find_type_by_name(written)
    assert (found.name, found.full_name) == (name, full_name)
    assert layout.find_type_by_name(full_name) is found
    assert found == found.unwrap_array() or found.kind is TYPE.array


@pytest.mark.parametrize(
    "written", ["Nothing", "Grid", "Grid<int>", "1 +", "", "area", "int<3>", "ConstantBuffer<Nothing>"]
)
def test_what_is_no_type(layout, written):
    assert layout.find_type_by_name(written) is None


def test_kinds_and_counts(layout):
    def shown(name):
        t = layout.find_type_by_name(name)
        return t.kind.name, t.scalar_type.name, t.row_count, t.col_count, t.element_count

    assert shown("int2") == ("vector", "int32", 1, 2, 2)
    assert shown("double4x3") == ("matrix", "float64", 4, 3, 0)
    assert shown("bool") == ("scalar", "bool", 1, 1, 0)
    assert shown("Color") == ("scalar", "uint8", 1, 1, 0)
    assert shown("Item") == ("struct", "none", 0, 0, 0)
    assert shown("void") == ("none", "void", 0, 0, 0)
    assert shown("Atomic<uint>") == ("struct", "uint32", 0, 0, 0)
    assert shown("float[6]") == ("array", "none", 0, 0, 6)
    assert shown("IShape") == ("interface", "none", 0, 0, 0)


def test_resources(layout):
    fields = {each.name: each.type for each in layout.parameters}
    shape, access = TypeReflection.ResourceShape, TypeReflection.ResourceAccess
    items, picture = fields["items"], fields["picture"]
    assert (items.kind, items.resource_shape, items.resource_access) == (
        TYPE.resource, shape.structured_buffer, access.read_write,
    )  # fmt: skip
    assert items.resource_result_type is layout.find_type_by_name("Item")
    assert fields["bytes"].resource_shape is shape.byte_address_buffer
    assert fields["bytes"].resource_result_type is None
    assert (picture.resource_shape, picture.resource_access) == (shape.texture_2d, access.read)
    assert picture.resource_result_type.full_name == "vector<float,4>"


def test_the_layout_of_a_handle_is_that_of_its_resource(device):
    text = "uniform RWStructuredBuffer<float3>.Handle points; struct S { Texture2D<float4>.Handle image; } uniform S s;"
    points, held = device.load_module_from_source("handles", text).layout.parameters
    assert points.type.full_name == "DescriptorHandle<RWStructuredBuffer<vector<float,3>>>"
    assert (points.type.kind, points.type_layout.kind) == (TYPE.struct, TYPE.resource)
    assert points.type_layout.type.full_name == "RWStructuredBuffer<vector<float,3>>"
    assert points.type_layout.element_type_layout.type.full_name == "vector<float,3>"
    assert points.type_layout.size == 8
    (image,) = held.type_layout.fields
    assert image.type_layout.type.resource_shape is TypeReflection.ResourceShape.texture_2d


def test_sub_types(layout):
    names = {
        name: layout.find_type_by_name(name)
        for name in ("Base", "Derived", "Disk", "IShape", "float", "IFloat")
    }
    pairs = {(a, b) for a in names for b in names if layout.is_sub_type(names[a], names[b])}
    assert pairs == {
        *((name, name) for name in names),
        ("Derived", "Base"),
        ("Disk", "IShape"),
        ("float", "IFloat"),
    }


# --- Functions ----------------------------------------------------------------------------------------


def test_headers_of_functions(layout):
    def header(name):
        found = layout.find_function_by_name(name)
        return [(each.name, each.type.full_name) for each in found.parameters], found.return_type.full_name

    assert header("area") == ([("shape", "IShape")], "float")
    assert header("sum") == ([("values", "float[]")], "float")
    assert header("twice") == ([("x", "T")], "T")
    assert header("twice<double>") == ([("x", "double")], "double")
    assert header("Grid<float3, 2>.at") == ([("i", "int")], "vector<float,3>")
    assert header("geometry.length") == ([("ray", "geometry.Ray")], "float")
    assert layout.find_function_by_name("nothing") is None
    assert layout.find_function_by_name("Item") is None


def test_overloads_and_methods(layout):
    pick = layout.find_function_by_name("pick")
    assert pick.is_overloaded and pick.parameters == []
    assert [[p.type.name for p in each.parameters] for each in pick.overloads] == [["int"], ["float", "int"]]
    with pytest.raises(spy.CallError, match="there are several functions 'pick'"):
        _ = pick.return_type
    disk = layout.find_type_by_name("Disk")
    for name in ("area", "twice", "count"):
        assert layout.find_function_by_name_in_type(disk, name).name == name
    assert len(layout.find_function_by_name_in_type(disk, "$init").overloads) == 2
    assert layout.find_function_by_name_in_type(disk, "nothing") is None
    assert layout.find_function_by_name_in_type(layout.find_type_by_name("IShape"), "area") is not None


SPECIALIZED = [
    ("area", ["Disk"], ["IShape"]),
    ("area", ["Item"], None),
    ("sum", ["float[4]"], ["float[]"]),
    ("twice", ["half"], ["half"]),
    ("twice", ["Disk"], None),
    ("pick", ["int"], ["int"]),
    ("pick", ["float"], ["float", "int"]),
    ("pick", ["float", "float"], ["float", "int"]),
    ("pick", [], None),
    ("change", ["int", "int", "int", "float"], ["int", "int", "int", "float"]),
    ("sin", ["double3"], ["vector<double,3>"]),
    ("twice<double>", ["float"], ["double"]),
    ("twice<double>", ["Disk"], None),
    ("Grid<float3, 2>.at", ["int"], ["int"]),
]


@pytest.mark.parametrize("name, given, expected", SPECIALIZED)
def test_functions_for_types_of_arguments(layout, name, given, expected):
    types = [layout.require_type_by_name(each) for each in given]
    found = layout.find_function_by_name(name).specialize_with_arg_types(types)
    assert (found and [each.type.full_name for each in found.parameters]) == expected
    assert found is layout.find_function_by_name(name).specialize_with_arg_types(types)
    assert found is None or found is found.specialize_with_arg_types(types)


def test_modifiers(layout):
    def modifiers(found):
        return {each.name for each in ModifierID if found.has_modifier(each)}

    change = layout.find_function_by_name("change")
    assert [modifiers(each) for each in change.parameters] == [
        {"inn"}, {"out"}, {"inout", "out"}, {"inn", "nodiff"},
    ]  # fmt: skip
    assert modifiers(change) == set()
    assert modifiers(layout.find_function_by_name("square")) == {"differentiable"}
    assert modifiers(layout.find_function_by_name("custom")) == {"differentiable", "nodiff"}
    disk = layout.find_type_by_name("Disk")
    assert modifiers(layout.find_function_by_name_in_type(disk, "grow")) == {"mutating"}
    assert modifiers(layout.find_function_by_name_in_type(disk, "count")) == {"static"}


def test_attributes_that_a_program_declares(layout):
    item = layout.find_type_by_name("Item")
    assert item.get_user_attribute_count() == 2
    first, second = (item.get_user_attribute_by_index(i) for i in range(2))
    assert item.find_user_attribute_by_name("Range") is first
    assert item.find_user_attribute_by_name("Rang") is None
    assert (first.name, first.argument_count) == ("Range", 3)
    assert [first.argument_type(i).name for i in range(3)] == ["String", "int", "float"]
    assert (first.argument_value_string(0), first.argument_value_int(1), first.argument_value_float(2)) == (
        "m",
        -3,
        0.5,
    )
    assert (second.argument_value_int(1), second.argument_value_float(2)) == (3, 4.0)
    with pytest.raises(spy.CallError, match=r"argument 0 of \[Range\] is 'm', not a whole number"):
        first.argument_value_int(0)
    with pytest.raises(IndexError, match="no argument 3"):
        first.argument_value_int(3)
    assert layout.find_type_by_name("Disk").get_user_attribute_count() == 0


@pytest.mark.parametrize("written, message", [
    ("[Mark(1)]", r"\[Mark\] takes 2 arguments, not 1"),
    ("[Mark(1.5, 2)]", "'count' of \\[Mark\\] must be a value of type 'int' that is known when compiling"),
    ('[Mark(1, "two")]', "'weight' of \\[Mark\\] must be a value of type 'float' that is known when compiling"),
])  # fmt: skip
def test_wrong_arguments_of_attributes(device, written, message):
    text = "struct MarkAttribute { int count; float weight; } " + written + " struct S {}"
    with pytest.raises(spy.CompileError, match=message) as caught:
        device.load_module_from_source("marked", text)
    assert "E0329" in str(caught.value)


def test_names_that_there_are_not(layout):
    disk = layout.find_type_by_name("Disk")
    with pytest.raises(spy.CallError, match=r"E1012.*no type named 'Dist'\n.*did you mean 'Disk'\?"):
        layout.require_type_by_name("Dist")
    with pytest.raises(spy.CallError, match=r"no function named 'squared'\n.*did you mean 'square'\?"):
        layout.require_function_by_name("squared")
    with pytest.raises(spy.CallError, match=r"no method in 'Disk' named 'aera'\n.*did you mean 'area'\?"):
        layout.require_function_by_name_in_type(disk, "aera")
    with pytest.raises(spy.CallError, match="no entry point named 'x'"):
        layout.require_entry_point_by_name("x")


def test_questions_about_something_else(layout):
    square = layout.find_function_by_name("square")
    for ask, message in [
        (
            lambda: square.specialize_with_arg_types(["float"]),
            "specialize_with_arg_types: str is not a TypeReflection",
        ),
        (lambda: layout.get_type_layout(None), "get_type_layout: NoneType is not a TypeReflection"),
        (
            lambda: layout.is_sub_type(square, square),
            "is_sub_type: FunctionReflection is not a TypeReflection",
        ),
        (lambda: layout.find_function_by_name_in_type("Disk", "area"), "str is not a TypeReflection"),
        (lambda: layout.find_type_by_name(3), "find_type_by_name: int is not a str"),
        (lambda: layout.find_function_by_name(None), "find_function_by_name: NoneType is not a str"),
        (lambda: square.has_modifier("static"), "has_modifier: str is not a ModifierID"),
        (lambda: spy.ReflectionCursor(layout), "ReflectionCursor: ProgramLayout is not a ShaderProgram"),
    ]:
        with pytest.raises(spy.CallError, match=message):
            ask()


# --- Memory -------------------------------------------------------------------------------------------


def put(memory, layout, path, dtype, value):
    """Write a number where reflection says that the field of a path lies."""
    offset = 0
    for step in path:
        if isinstance(step, int):
            layout = layout.element_type_layout
            offset += step * layout.stride
        else:
            field = next(each for each in layout.fields if each.name == step)
            layout, offset = field.type_layout, offset + field.offset
    data = np.array([value], dtype).view(np.uint8)
    assert layout.size == data.size
    memory[offset : offset + data.size] = data


def test_kernels_read_fields_where_reflection_says(device, module, layout):
    item, grid = (
        layout.get_type_layout(layout.find_type_by_name(name)) for name in ("Item", "Grid<float3, 2>")
    )
    inner = layout.get_type_layout(layout.find_type_by_name("Inner"))
    memory = np.full(3 * item.stride, 0xEE, np.uint8)
    second = memory[item.stride : 2 * item.stride]
    put(second, item, ["h"], np.float16, 1.5)
    put(second, item, ["flag"], np.bool_, True)
    put(second, item, ["at", 1], np.float32, 2.5)
    put(second, item, ["mass"], np.float64, 3.25)
    put(second, item, ["ids", 2], np.uint8, 200)
    put(second, item, ["inner", "small"], np.int16, -5)
    put(second, item, ["inner", "large"], np.int64, 1 << 40)
    put(second, item, ["turn", 1, 2], np.float32, 7.5)

    program = device.link_program([module], [module.entry_point("read")])
    out = device.create_buffer(size=17 * 8)
    encoder = device.create_command_encoder()
    with encoder.begin_compute_pass() as compute:
        cursor = spy.ShaderCursor(compute.bind_pipeline(device.create_compute_pipeline(program)))
        cursor.items = device.create_buffer(data=memory)
        cells, block = np.zeros(grid.size, np.uint8), np.zeros(inner.size, np.uint8)
        put(cells, grid, ["cells", 1, 2], np.float32, 8.5)
        put(block, inner, ["large"], np.int64, 9)
        cursor.grid.set_data(cells)
        cursor.inner.set_data(block)
        cursor.Frame.size = [0.0, 10.5]
        cursor.find_entry_point(0).write({"start": 1, "out": out})
        compute.dispatch([1, 1, 1])
    device.submit_command_buffer(encoder.finish())
    expected = [1.5, 1, 2.5, 3.25, 200, -5, 1 << 40, 7.5, 8.5, 10.5, 9]
    halves, pointer = (
        layout.get_type_layout(layout.find_type_by_name(name)) for name in ("Grid<half3, 3>", "Disk*")
    )
    sizes = [item.size, item.alignment, inner.size, inner.alignment, halves.size, pointer.size]
    assert out.to_numpy().view(np.float64).tolist() == expected + sizes


def test_parameters(device, module):
    program = device.link_program([module], [module.entry_point("read").rename("other")])
    layout = program.layout
    block = layout.globals_type_layout
    assert (block.kind, block.element_type_layout.kind) == (TYPE.constant_buffer, TYPE.struct)
    assert [(each.name, each.offset, each.type_layout.size) for each in layout.parameters] == [
        ("items", 0, 16),
        ("bytes", 16, 16),
        ("grid", 32, 24),
        ("Frame", 56, 12),
        ("inner", 72, 16),
        ("picture", 88, 56),
    ]
    assert [each.name for each in block.element_type_layout.fields] == [
        each.name for each in layout.parameters
    ]
    assert block.element_type_layout.element_type_layout is None
    assert (block.size, block.alignment) == (144, 8)
    whole = layout.globals_variable_layout
    assert (whole.name, whole.offset, whole.type_layout) == ("reflected", 0, block)
    (entry,) = layout.entry_points
    assert entry is layout.find_entry_point_by_name("read") is layout.find_entry_point_by_name("other")
    assert (entry.name, entry.name_override, entry.compute_thread_group_size) == (
        "read",
        "other",
        spy.uint3(8, 2, 1),
    )
    assert [(each.name, each.offset, each.semantic_name) for each in entry.parameters] == [
        ("id", 0, "SV_DispatchThreadID"),
        ("start", 0, ""),
        ("out", 8, ""),
    ]
    assert entry.parameters[1].variable.has_modifier(ModifierID.inn)


def test_cursors_know_where_they_are(device, module):
    program = device.link_program([module], [module.entry_point("read")])
    cursor = spy.ShaderCursor(device.create_root_shader_object(program))
    offsets = [cursor._offset, cursor.grid.cells[1]._offset, cursor.Frame._offset, cursor.Frame.size._offset]
    offsets += [cursor.inner.large._offset, cursor.find_entry_point(0).out._offset]
    assert [each.uniform_offset for each in offsets] == [0, 44, 56, 60, 80, 8]
    found = spy.ReflectionCursor(program)
    assert found.grid.cells[1].type.full_name == "vector<float,3>"
    assert found.read.out.type.kind is TYPE.pointer
    assert found.items.type_layout.element_type_layout.size == 80


# --- Life time ----------------------------------------------------------------------------------------


def test_the_same_thing_is_the_same_object(module, layout):
    first, again = (layout.find_type_by_name("Item") for _ in range(2))
    assert first is again and first.fields[2] is again.fields[2]
    assert first.fields[2].type is layout.find_type_by_name("float3")
    assert layout.find_function_by_name("square") is layout.find_function_by_name("square")
    assert module.layout is layout and module.module_decl[3].as_type() is first


def test_an_object_keeps_what_it_shows():
    device = spy.create_device()
    module = device.load_module_from_source(
        "short_lived", "struct S { float x; } float f(S s) { return s.x; }"
    )
    function, gone = module.layout.find_function_by_name("f"), weakref.ref(module)
    del module, device
    gc.collect()
    assert gone() is None
    assert function.is_valid
    assert function.parameters[0].type.fields[0].type.name == "float"


def test_objects_show_the_program_before_a_reload(tmp_path):
    before = """
        struct S { float x; }
        uniform S given;
        float f(S s) { return s.x; }
        [shader("compute")] [numthreads(4, 1, 1)] void run(uniform int n) {}
    """
    after = (
        before.replace("float x;", "int n; double x;")
        .replace("f(S s)", "f(S s, int k)")
        .replace("(4, ", "(8, ")
    )
    file = tmp_path / "changing.slang"
    file.write_text(before)
    device = spy.create_device(include_paths=[tmp_path])
    module = device.load_module("changing.slang")
    program = device.link_program([module], [module.entry_point("run")])

    def shown(layout, cursor):
        t, f = layout.find_type_by_name("S"), layout.find_function_by_name("f")
        return (
            [(each.name, each.offset) for each in layout.get_type_layout(t).fields],
            [each.name for each in f.parameters],
            layout.entry_points[0].compute_thread_group_size.x,
            cursor.given.x.type.name,
        )

    old_layout, old_cursor, old_tree = program.layout, program.reflection, module.module_decl
    old_type, old_function = old_layout.find_type_by_name("S"), old_layout.find_function_by_name("f")
    old = ([("x", 0)], ["s"], 4, "float")
    assert shown(old_layout, old_cursor) == old
    file.write_text(after)
    device.reload_all_programs()
    assert shown(program.layout, program.reflection) == ([("n", 0), ("x", 8)], ["s", "k"], 8, "double")
    assert shown(old_layout, old_cursor) == old
    assert old_function.is_valid and len(old_function.parameters) == 1
    assert (
        [each.name for each in old_tree[0].as_type().fields]
        == [each.name for each in old_type.fields]
        == ["x"]
    )
    assert old_type != program.layout.find_type_by_name("S")


def test_threads_ask_at_once(layout):
    found = []

    def ask(n):
        t = layout.find_type_by_name(f"Grid<float, {n}>")
        at = layout.find_function_by_name_in_type(t, "at")
        found.append((n, layout.get_type_layout(t).size, at.return_type.name))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(1, 9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [(n, 4 * n, "float") for n in range(1, 9)]
