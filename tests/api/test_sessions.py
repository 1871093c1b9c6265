"""Sessions, modules and programs that kernels are made of, and what reflection says about them."""

import importlib

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

F = np.float32

SHAPES = """
    struct Particle { float3 at; double mass; int ids[4]; }
    StructuredBuffer<Particle> particles;
    uniform float4x3 view;
    cbuffer Frame { uint time; float2 size; }
    ParameterBlock<Particle> block;

    [shader("compute")] [numthreads(8, 4, 2)]
    void first(uint3 id : SV_DispatchThreadID, uniform float* p, uniform int n) {}

    [shader("compute")] void second() {}

    [shader("vertex")] float4 third() { return 0; }

    void other() {}
"""


@pytest.fixture(scope="module")
def module(device):
    return device.load_module_from_source("shapes", SHAPES)


def test_entry_points(device, module):
    assert [each.name for each in module.entry_points] == ["first", "second", "third"]
    assert [each.stage for each in module.entry_points] == [
        spy.ShaderStage.compute,
        spy.ShaderStage.compute,
        spy.ShaderStage.vertex,
    ]
    assert module.entry_point("first").layout.compute_thread_group_size == [8, 4, 2]
    assert module.entry_point("other").layout.compute_thread_group_size == [1, 1, 1]
    assert module.session is device.slang_session
    assert module.session.device is device
    with pytest.raises(CallError, match='Entry point "frist" not found') as caught:
        module.entry_point("frist")
    assert "did you mean 'first'?" in str(caught.value)


def test_only_compute_runs(device, module):
    with pytest.raises(CallError, match="'third' is for the stage 'vertex'"):
        device.create_compute_kernel(device.link_program([module], [module.entry_point("third")]))
    with pytest.raises(CallError, match="the program has no entry point"):
        device.create_compute_kernel(device.link_program([module], []))
    with pytest.raises(CallError, match="program: SlangModule is no program"):
        device.create_compute_kernel(module)


def test_layouts(device, module):
    layout = device.link_program([module], [module.entry_point("first")]).layout
    fields = {each.name: each for each in layout.globals_type_layout.fields}
    assert {name: each.type_layout.kind.name for name, each in fields.items()} == {
        "particles": "resource",
        "view": "matrix",
        "Frame": "constant_buffer",
        "block": "parameter_block",
    }
    assert fields["view"].offset == 16
    particle = fields["particles"].type_layout.element_type_layout
    assert [(each.name, each.offset) for each in particle.fields] == [("at", 0), ("mass", 16), ("ids", 24)]
    assert (particle.size, particle.stride, particle.alignment) == (40, 40, 8)
    ids = particle.fields[2].type_layout
    assert (ids.kind.name, ids.type.element_count, ids.element_type_layout.type.scalar_type.name) == (
        "array",
        4,
        "int32",
    )
    view = fields["view"].type_layout
    assert (view.type.row_count, view.type.col_count, view.element_type_layout.stride) == (4, 3, 12)
    frame = fields["Frame"].type_layout.element_type_layout
    assert [(each.name, each.offset) for each in frame.fields] == [("time", 0), ("size", 4)]
    assert fields["block"].type_layout.element_type_layout.name == "Particle"
    (entry,) = layout.entry_points
    assert [(each.name, each.offset, each.type_layout.kind.name) for each in entry.parameters] == [
        ("id", 0, "vector"),
        ("p", 0, "pointer"),
        ("n", 8, "scalar"),
    ]
    assert fields["particles"].type.resource_shape.name == "structured_buffer"
    assert layout.find_type_by_name("Particle").fields[1].type.name == "double"
    assert layout.get_type_layout(layout.find_type_by_name("float3")).size == 12
    assert layout.find_type_by_name("Nothing") is None


def test_reflection_by_name(device, module):
    program = device.link_program([module], [module.entry_point("first")])
    assert program.reflection.particles.type_layout.type.full_name == "StructuredBuffer<Particle>"
    assert program.reflection.block.ids[2].type.name == "int"
    assert program.reflection.first.n.type.scalar_type.name == "int32"
    assert not hasattr(program.reflection, "nothing")


def test_sessions_have_settings_of_their_own(device):
    text = """
        RWStructuredBuffer<int> data;
        [shader("compute")] [numthreads(N, 1, 1)] void main(uint3 id : SV_DispatchThreadID) { data[id.x] = N; }
    """
    for size in (2, 3):
        session = device.create_slang_session(compiler_options={"defines": {"N": str(size)}})
        module = session.load_module_from_source("sized", text)
        program = session.link_program([module], [module.entry_point("main")])
        assert program.layout.entry_points[0].compute_thread_group_size == [size, 1, 1]
        data = device.create_buffer(data=np.zeros(size, np.int32))
        device.create_compute_kernel(program).dispatch([1, 1, 1], {"data": data})
        assert data.to_numpy().view(np.int32).tolist() == [size] * size
    with pytest.raises(CallError, match="'main' belongs to another session"):
        device.link_program([], [module.entry_point("main")])


def test_files(device, tmp_path):
    (tmp_path / "library.slang").write_text("float twice(float x) { return 2 * x; }")
    (tmp_path / "top.slang").write_text("""
        import library;
        RWStructuredBuffer<float> data;
        [shader("compute")] [numthreads(1, 1, 1)] void main() { data[0] = twice(data[0]); }
    """)
    own = spy.Device(type=device.type, backend=device.backend, compiler_options={"include_paths": [tmp_path]})
    kernel = own.create_compute_kernel(own.load_program("top", ["main"]))
    data = own.create_buffer(data=np.array([21], F))
    kernel.dispatch([1, 1, 1], {"data": data})
    assert data.to_numpy().view(F).tolist() == [42]
    text = '#include "library.slang"\nfloat f(float x) { return twice(x); }'
    assert own.load_module_from_source("near", text, tmp_path / "near.slang").entry_points == []
    with pytest.raises(spy.CompileError, match="there is no module 'nothing'"):
        own.load_program("nothing", ["main"])


def test_globals_of_imported_modules(device):
    device.load_module_from_source(
        "shared_values", "uniform float shared_scale; float scaled(float x) { return shared_scale * x; }"
    )
    module = device.load_module_from_source(
        "user_of_values",
        """
        import shared_values;
        RWStructuredBuffer<float> data;
        [shader("compute")] [numthreads(1, 1, 1)] void main() { data[0] = scaled(2); }
        """,
    )
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    data = device.create_buffer(data=np.zeros(1, F))
    kernel.dispatch([1, 1, 1], {"data": data, "shared_scale": 5})
    assert data.to_numpy().view(F).tolist() == [10]


def test_options(device):
    options = spy.SlangCompilerOptions({"optimization": "high"})
    options.floating_point_mode = spy.SlangFloatingPointMode.precise
    session = device.create_slang_session(compiler_options=options)
    assert session.program.options.optimize == 3
    assert not session.program.options.contraction
    with pytest.raises(CallError, match="there is no option 'optimisation'") as caught:
        device.create_slang_session(compiler_options={"optimisation": 1})
    assert "did you mean 'optimization'?" in str(caught.value)
    with pytest.raises(CallError, match="optimization: 3 is no SlangOptimizationLevel"):
        device.create_slang_session(compiler_options={"optimization": 3})
    columns = {"matrix_layout": spy.SlangMatrixLayout.column_major}
    assert device.create_slang_session(compiler_options=columns).program.options.column_major


def test_names_of_attributes_in_any_case(device):
    text = '[Shader("Compute")] [NumThreads(4, 2, 1)] void main() {}'
    module = device.load_module_from_source("attributes_in_any_case", text)
    (entry,) = module.entry_points
    assert (entry.group_size, entry.stage) == ((4, 2, 1), spy.ShaderStage.compute)
    kernel = device.create_compute_kernel(device.link_program([module], [entry]))
    assert kernel.pipeline.grid_of([5, 1, 1]) == (8, 2, 1)


def test_errors_show_the_place(device):
    with pytest.raises(spy.CompileError, match=r"broken_kernel:2:\d+"):
        device.load_module_from_source("broken_kernel", "\nvoid f() { return missing; }")


def test_what_a_session_was_made_with(tmp_path) -> None:
    session = spy.create_device().create_slang_session({"include_paths": [tmp_path], "defines": {"N": 3}})
    assert session.desc.compiler_options.include_paths == [tmp_path]
    assert session.desc.compiler_options.defines == {"N": 3}


def test_how_types_lie_in_buffers(device, module):
    find = importlib.import_module("slangrad.core.utils").find_type_layout_for_buffer
    for given in ("float2[4]", module.layout.find_type_by_name("float2[4]")):
        assert (find(module.layout, given).size, find(module.layout, find(module.layout, given)).size) == (
            32,
            32,
        )
    with pytest.raises(ValueError, match="the program has no type named 'Nothing'"):
        find(module.layout, "Nothing")


def test_types_of_calls_and_of_reflection_are_equal(device, module):
    own, reflected = spy.Module(module).float3, module.layout.find_type_by_name("float3")
    assert own == reflected and reflected == own and hash(own) == hash(reflected)
    assert own != module.layout.find_type_by_name("float2") and own != 3
