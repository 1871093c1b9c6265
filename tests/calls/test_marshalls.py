"""Classes of users as arguments, taught by Marshalls as in SlangPy."""

import re

import numpy as np
import pytest
from slangrad.bindings import (
    PYTHON_SIGNATURES,
    PYTHON_TYPES,
    AccessType,
    Marshall,
    ReturnContext,
    Shape,
    WriteToCursorMarshall,
    WriteToCursorMarshallInfo,
    get_or_create_type,
    register_write_to_cursor_type,
)
from slangrad.bindings.typeregistry import lookup_signature_callback, lookup_type_callback
from slangrad.core.native import NativeValueMarshall

import slangrad as spy
from slangrad.marshal.errors import BoundVariableException, CallError

TEXT = """
    import "slangpy";

    struct Steps
    {
        float start;
        float step;
        void __slangpy_load(Context1D context, out float value) { value = start + step * context.call_id[0]; }
        void __slangpy_load(Context1D context, out float2 value) { value = float2(start, context.call_id_vec.x); }
    }

    struct Waves<let octaves : int>
    {
        StructuredBuffer<float> heights;
        Tensor<float, 1> offsets;
        void __slangpy_load(Context0D context, out float value)
        {
            value = offsets[0] * octaves + heights[context.thread_id.x];
        }
    }

    struct Grid
    {
        float* data;
        int width;
        float* at(Context2D context) { return data + context.call_id[0] * width + context.call_id[1]; }
        void __slangpy_load(Context2D context, out float value) { value = *at(context); }
        void __slangpy_store(Context2D context, in float value) { *at(context) = value; }
    }

    struct Ray { float3 from; float reach; }

    [Differentiable] float scaled(no_diff float x, float y) { return x * y; }
    float length(float2 v) { return v.x + v.y; }
    void grow(inout float x, float y) { x = 10 * x + y; }
    float reach(Ray ray, float scale) { return (ray.from.x + ray.reach) * scale; }

    interface ISentinel { float sentinel(); }
    struct FortyTwo : ISentinel
    {
        float sentinel() { return 42; }
        void __slangpy_load(Context0D context, out FortyTwo value) { value = this; }
    }
    float sentinel(ISentinel x) { return x.sentinel(); }
"""
F = np.float32


@pytest.fixture(scope="module")
def module():
    device = spy.create_device()
    yield spy.Module.load_from_source(device, "taught", TEXT)
    device.close()


@pytest.fixture(autouse=True)
def tables():
    yield
    for kind in {*PYTHON_TYPES, *PYTHON_SIGNATURES}:
        PYTHON_TYPES.pop(kind, None)
        PYTHON_SIGNATURES.pop(kind, None)


class Steps:
    def __init__(self, start, step, count):
        self.start, self.step, self.count = start, step, count


class StepsMarshall(Marshall):
    def __init__(self, layout):
        super().__init__(layout)
        self.slang_type = layout.require_type_by_name("Steps")

    def gen_calldata(self, cgb, context, binding):
        assert binding.access[0] is AccessType.read
        cgb.type_alias(f"_t_{binding.variable_name}", "Steps")

    def create_calldata(self, context, binding, data):
        return {"start": data.start, "step": data.step}

    def get_shape(self, data):
        return Shape((data.count,))

    def resolve_types(self, context, bound_type):
        return [t for t in map(context.layout.find_type_by_name, ("float", "float2")) if t == bound_type]

    def resolve_dimensionality(self, context, binding, vector_target_type):
        return 1


def test_values_with_dimensions(module):
    PYTHON_TYPES[Steps] = lambda layout, value: StepsMarshall(layout)
    rows = np.ones((2, 3), F)
    assert module.scaled(Steps(1, 2, 3), rows).to_numpy().tolist() == [[1, 3, 5]] * 2
    assert module.scaled(Steps(5, 10, 3), rows).to_numpy().tolist() == [[5, 15, 25]] * 2
    outer = module.scaled.map((0,), (1,))(Steps(1, 2, 2), np.ones(3, F))
    assert outer.to_numpy().tolist() == [[1, 1, 1], [3, 3, 3]]
    assert module.length(Steps(0.5, 0, 3)).to_numpy().tolist() == [0.5, 1.5, 2.5]
    with pytest.raises(CallError, match="Shape mismatch"):
        module.scaled(Steps(1, 2, 4), rows)
    with pytest.raises(CallError, match="Steps cannot receive what the function writes"):
        module.grow(Steps(1, 2, 3), 1.0)
    with pytest.raises(CallError, match=r"StepsMarshall\(Steps\) offers no type for 'Ray'"):
        module.reach(Steps(1, 2, 3), 1.0)


def test_they_have_no_derivatives_and_others_do(module):
    PYTHON_TYPES[Steps] = lambda layout, value: StepsMarshall(layout)
    y = spy.Tensor.from_numpy(module.device, np.ones(3, F)).with_grads()
    module.scaled.bwds(Steps(1, 2, 3), y, _result=spy.diffPair(d=10.0))
    assert y.grad.to_numpy().tolist() == [10, 30, 50]

    class Differentiated(StepsMarshall):
        has_derivative = True

    PYTHON_TYPES[Steps] = lambda layout, value: Differentiated(layout)
    with pytest.raises(CallError, match=r"a Marshall cannot pass derivatives.*says has_derivative") as caught:
        module.scaled.bwds(y, Steps(1, 2, 3))
    assert caught.value.code == "E1007"


class Waves:
    def __init__(self, octaves, heights, offsets):
        self.octaves, self.heights, self.offsets = octaves, heights, offsets

    @property
    def slangpy_signature(self):
        return f"[{self.octaves}]"


class WavesMarshall(Marshall):
    asked = 0

    def __init__(self, layout, octaves):
        super().__init__(layout)
        WavesMarshall.asked += 1
        self.slang_type = layout.require_type_by_name(f"Waves<{octaves}>")
        self.concrete_shape = Shape(())

    def gen_calldata(self, cgb, context, binding):
        cgb.add_snippet("twice", "float twice(float x) { return 2 * x; }")
        super().gen_calldata(cgb, context, binding)

    def gen_trampoline_load(self, cgb, binding, data_name, value_name):
        cgb.append_statement(f"{data_name}.__slangpy_load({{}}, {value_name})")
        cgb.assign(value_name, f"twice({value_name})")
        return True

    def create_calldata(self, context, binding, data):
        return {"heights": data.heights, "offsets": data.offsets}

    def resolve_type(self, context, bound_type):
        return context.layout.find_type_by_name("float")

    def resolve_dimensionality(self, context, binding, vector_target_type):
        return 0


def test_signatures_buffers_and_text_of_their_own(module):
    PYTHON_TYPES[Waves] = lambda layout, value: WavesMarshall(layout, value.octaves)
    heights = module.device.create_buffer(data=np.array([0.5, 7], F))
    offsets = spy.Tensor.from_numpy(module.device, np.array([100], F))
    assert module.scaled(Waves(2, heights, offsets), 1.0) == 401
    assert module.scaled(Waves(3, heights, offsets), 1.0) == 601
    before = WavesMarshall.asked
    assert module.scaled(Waves(2, heights, offsets), 2.0) == 802
    assert WavesMarshall.asked == before
    both = module.scaled(Waves(2, heights, offsets), np.ones(2, F)).to_numpy()
    assert both.tolist() == [401, 401]
    assert "float twice(float x)" in module.scaled.debug_build_call_data(Waves(2, heights, offsets), 1.0).code
    with pytest.raises(CallError, match=r"parameter 'x\.heights' of type 'StructuredBuffer<float>'"):
        module.scaled(Waves(2, None, offsets), 1.0)


class Grid:
    def __init__(self, buffer, width):
        self.buffer, self.width, self.reads = buffer, width, []


class GridMarshall(Marshall):
    is_writable = True

    def __init__(self, layout):
        super().__init__(layout)
        self.slang_type = layout.require_type_by_name("Grid")

    def create_calldata(self, context, binding, data):
        return {"data": data.buffer, "width": data.width}

    def read_calldata(self, context, binding, data, result):
        data.reads.append((tuple(context.call_shape), result["width"]))

    def get_shape(self, data):
        return Shape((data.buffer.size // 4 // data.width, data.width))

    def resolve_type(self, context, bound_type):
        return context.layout.find_type_by_name("float")

    def resolve_dimensionality(self, context, binding, vector_target_type):
        return 2


def test_values_that_are_written(module):
    PYTHON_TYPES[Grid] = lambda layout, value: GridMarshall(layout)
    grid = Grid(module.device.create_buffer(data=np.arange(6).astype(F)), 3)
    module.grow(grid, np.array([1, 2, 3], F))
    expected = [[1, 12, 23], [31, 42, 53]]
    assert grid.buffer.to_numpy().view(F).reshape(2, 3).tolist() == expected
    module.scaled(2.0, np.ones((2, 3), F), _result=grid)
    assert grid.buffer.to_numpy().view(F).tolist() == [2] * 6
    assert grid.reads == [((2, 3), 3)] * 2


class Film(Grid):
    def __init__(self, result):
        self.result = result


class FilmMarshall(GridMarshall):
    def __init__(self, layout, value):
        super().__init__(layout)
        self.value = value

    def create_output(self, context, binding):
        film = Film(None)
        rows, film.width = context.call_shape
        film.buffer, film.reads = context.device.create_buffer(size=4 * rows * film.width), []
        return film

    def read_output(self, context, binding, data):
        data.made_for = str(self.value.slang_type), tuple(context.call_shape)
        return data


def refuse(layout, value):
    assert isinstance(value, ReturnContext)
    raise ValueError(f"no film for {value.slang_type}")


def test_results_that_are_made(module):
    PYTHON_TYPES[Film] = FilmMarshall
    x = np.arange(6, dtype=F).reshape(2, 3)
    film, other = (module.scaled.return_type(Film)(each, 2.0) for each in (x, x + 1))
    assert film.buffer.to_numpy().view(F).tolist() == [0, 2, 4, 6, 8, 10]
    assert other.buffer.to_numpy().view(F).tolist() == [2, 4, 6, 8, 10, 12]
    assert film.made_for == ("float", (2, 3)) and film.reads == [((2, 3), 3)]
    assert module.scaled(x, 2.0, _result=Film).width == 3
    empty = module.scaled.return_type(Film)(np.zeros((0, 3), F), 2.0)
    assert empty.made_for == ("float", (0, 3))
    with pytest.raises(CallError, match="a Film has no place for the derivative"):
        module.scaled.fwds.return_type(Film)(x, spy.diffPair(2.0, 1.0))
    PYTHON_TYPES[Film] = lambda layout, value: GridMarshall(
        layout
    )  # makes no outputs: the class gets the result
    made = module.scaled.return_type(Film)(x + 2, 2.0)
    assert made.result.to_numpy().tolist() == (2 * x + 4).tolist()
    PYTHON_TYPES[Film] = lambda layout, value: FilmMarshall(layout, value.result)  # knows values only
    assert module.scaled.return_type(Film)(x, 2.0).result.to_numpy().tolist() == (2 * x).tolist()
    PYTHON_TYPES[Film] = refuse
    with pytest.raises(BoundVariableException, match="no film for float"):
        module.scaled.return_type(Film)(x, 2.0)
    del PYTHON_TYPES[Film]
    assert module.scaled.return_type(Film)(3.0, 2.0).result == 6


class Ray:
    def __init__(self, start, reach):
        self.start, self.reach = start, reach

    def write_to_cursor(self, cursor):
        cursor["from"] = self.start
        cursor.reach = self.reach


class PlainRay:
    reach = 3.0


setattr(PlainRay, "from", [1, 0, 0])


def test_values_that_write_themselves(module):
    register_write_to_cursor_type(Ray, slang_type_name="Ray", signature="[Ray]")
    register_write_to_cursor_type(PlainRay, slang_type_name="Ray", accepted_type_regex="Ra.")
    assert module.reach(Ray(spy.float3(1, 2, 3), 4), np.array([1, 2], F)).to_numpy().tolist() == [5, 10]
    assert module.reach(PlainRay(), 1.0) == 4
    marshall = lookup_type_callback(Ray)(module.layout, None)
    assert isinstance(marshall, WriteToCursorMarshall) and isinstance(marshall, NativeValueMarshall)
    assert lookup_signature_callback(Ray)[1](None) == "[Ray]"
    with pytest.raises(ValueError, match="'Ray' is already registered"):
        register_write_to_cursor_type(Ray, slang_type_name="Ray")
    with pytest.raises(CallError, match=r"WriteToCursorMarshall\(Ray\) offers no type for 'float'"):
        module.scaled(Ray(spy.float3(1, 2, 3), 4), 1.0)
    info = WriteToCursorMarshallInfo("Ray", "", (), re.compile(r"Ray(?:<.*>)?"))
    assert info.accepts_type(module.layout.find_type_by_name("Ray"))
    assert not info.accepts_type(module.layout.find_type_by_name("Grid"))


def test_types_behind_interfaces(module):
    class Mark:
        pass

    class MarkMarshall(Marshall):
        def __init__(self, layout):
            self.slang_type = layout.require_type_by_name("FortyTwo")
            self.concrete_shape = Shape()

    PYTHON_TYPES[Mark] = lambda layout, value: MarkMarshall(layout)
    assert module.sentinel(Mark()) == 42
    with pytest.raises(CallError, match=r"MarkMarshall\(FortyTwo\) offers FortyTwo for 'float'"):
        module.scaled(Mark(), 1.0)


def test_what_a_class_is_to_calls_can_change(module):
    PYTHON_TYPES[Steps] = lambda layout, value: StepsMarshall(layout)

    class More(Steps):
        pass

    assert module.scaled(More(1, 1, 2), 1.0).to_numpy().tolist() == [1, 2]
    del PYTHON_TYPES[Steps]
    for kind in (Steps, More):
        with pytest.raises(CallError, match="Unsupported type"):
            module.scaled(kind(1, 1, 2), 1.0)
    with pytest.raises(CallError, match="calls know values of float by themselves"):
        PYTHON_TYPES[float] = lambda layout, value: StepsMarshall(layout)
    assert get_or_create_type(module.layout, float).slang_type.full_name == "float"
    assert get_or_create_type(module.layout, spy.float3).slang_type.full_name == "vector<float,3>"
    with pytest.raises(BoundVariableException, match="Unsupported type"):
        get_or_create_type(module.layout, Steps)


class Broken(StepsMarshall):
    def __init__(self, layout, hook):
        super().__init__(layout)
        self.hook = hook

    def gen_calldata(self, cgb, context, binding):
        if self.hook == "import":
            cgb.add_import("other.slang")
        name = "Stairs" if self.hook == "type" else "Steps"
        binding.gen_calldata_type_name(cgb, name)

    def get_shape(self, data):
        return Shape(()) if self.hook == "shape" else super().get_shape(data)

    def resolve_dimensionality(self, context, binding, vector_target_type):
        if self.hook == "dimensions":
            raise KeyError("rank")
        return 1

    def create_calldata(self, context, binding, data):
        known = super().create_calldata(context, binding, data)
        return {"data": {"begin": 1}, "nothing": None}.get(self.hook, known)


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("type", "gen_calldata names the type 'Stairs', which the module does not know"),
        ("import", "needs the module 'other.slang'"),
        ("shape", r"gives the shape \[\], and brings 1 dimensions"),
        ("dimensions", "resolve_dimensionality: KeyError: 'rank'"),
        ("data", "'x' of type 'Steps' has no field 'begin'"),
        ("nothing", "create_calldata gave nothing for 'Steps'"),
    ],
)
def test_what_a_marshall_says_wrong_is_told(module, hook, message):
    PYTHON_TYPES[Steps] = lambda layout, value: Broken(layout, hook)
    with pytest.raises(CallError, match=message):
        module.scaled(Steps(1, 2, 3), 1.0)


def test_what_is_no_marshall_is_refused(module):
    PYTHON_TYPES[Steps] = lambda layout, value: None
    with pytest.raises(CallError, match="gave None, not a Marshall"):
        module.scaled(Steps(1, 2, 3), 1.0)

    class Old(StepsMarshall):
        def write_shader_cursor_pre_dispatch(self, *given):
            pass

    PYTHON_TYPES[Steps] = lambda layout, value: Old(layout)
    with pytest.raises(CallError, match="write_shader_cursor_pre_dispatch is never called") as caught:
        module.scaled(Steps(1, 2, 3), 1.0)
    assert caught.value.note == "create_calldata gives the kernel's value"


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_kernels_that_are_launched(backend):
    text = """
    import "slangpy";
    struct Line { float start; float step; }
    void fill(uint3 dispatchThreadID, Line line, float by, RWTensor<float, 1> x)
    {
        x[dispatchThreadID.x] = by * (line.start + line.step * dispatchThreadID.x);
    }
    """

    class Line:
        def get_this(self):
            return {"start": Held(), "step": 2.0}

    class Held:
        def get_this(self):
            return 1.0

    class LineMarshall(Marshall):
        def __init__(self, layout, data):
            super().__init__(layout)
            self.slang_type, self.data = layout.require_type_by_name("Line"), data

        def create_dispatchdata(self, data):
            return self.data and self.data | {"step": data.step}

    with spy.create_device(backend=backend) as device:
        fill = spy.Module.load_from_source(device, "launched", text).fill
        x = spy.Tensor.zeros(device, (32,), "float")
        fill.dispatch([32, 1, 1], line=Line(), by=Held(), x=x)
        assert x.to_numpy()[:3].tolist() == [1, 3, 5]
        PYTHON_TYPES[Steps] = lambda layout, value: LineMarshall(layout, {"start": 10.0})
        fill.dispatch([32, 1, 1], line=Steps(0, 5, 3), by=2.0, x=x)
        assert x.to_numpy()[:3].tolist() == [20, 30, 40]
        PYTHON_TYPES[Steps] = lambda layout, value: LineMarshall(layout, None)
        with pytest.raises(CallError, match=r"LineMarshall\(Line\): create_dispatchdata gave nothing"):
            fill.dispatch([32, 1, 1], line=Steps(0, 5, 3), by=2.0, x=x)
