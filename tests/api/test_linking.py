"""What one module leaves open (`extern`) and another one gives (`export`): constants and types."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CompileError, Module
from slangrad.marshal.errors import CallError

F = np.float32

OPEN = """
    extern static const uint THREADS;
    extern static const float VALUE;
    RWStructuredBuffer<float> result;

    [shader("compute")] [numthreads(THREADS, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID)
    {
        float copies[THREADS + 1];
        for (int i = 0; i <= THREADS; i++) copies[i] = i * VALUE;
        result[id.x] = copies[id.x];
    }
"""


def test_linked_constants(device):
    module = device.load_module_from_source("open_constants", OPEN)
    for threads, value in ((4, 2), (3, 0.5)):
        given = device.load_module_from_source(
            f"given_{threads}",
            f"export static const uint THREADS = {threads}; export static const float VALUE = {value};",
        )
        program = device.link_program([module, given], [module.entry_point("main")])
        assert program.layout.entry_points[0].compute_thread_group_size == [threads, 1, 1]
        result = device.create_buffer(element_count=threads, resource_type_layout=program.reflection.result)
        device.create_compute_kernel(program).dispatch([1, 1, 1], {"result": result})
        assert result.to_numpy().view(F).tolist() == [value * i for i in range(threads)]


def test_what_stays_open(device):
    module = device.load_module_from_source("open_constants", OPEN)
    with pytest.raises(CompileError, match="'THREADS' has no value: no linked module exports it"):
        device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    with pytest.raises(CompileError, match="'COUNT' has no value: no linked module exports it"):
        Module.load_from_source(
            device, "open_count", "extern static const int COUNT; int f() { return COUNT; }"
        ).f()


OPERATIONS = """
    interface IOperation : IDifferentiable { [Differentiable] static float apply(float a, float b); }
    struct Add : IOperation { [Differentiable] static float apply(float a, float b) { return a + b; } }
    struct Multiply : IOperation { [Differentiable] static float apply(float a, float b) { return a * b; } }
    struct Other {}
"""

OPEN_TYPE = """
    import operations;
    extern struct Operation : IOperation;
    RWStructuredBuffer<float> result;
    [Differentiable] float use(float a, float b) { return Operation::apply(a, b); }
    [shader("compute")] [numthreads(1, 1, 1)] void main() { result[0] = use(3, 4); }
"""


@pytest.mark.parametrize(("name", "expected", "slope"), [("Add", 7, 1), ("Multiply", 12, 4)])
def test_linked_types(device, tmp_path, name, expected, slope):
    (tmp_path / "operations.slang").write_text(OPERATIONS)
    (tmp_path / "open_type.slang").write_text(OPEN_TYPE)
    own = spy.Device(backend=device.backend, include_paths=[tmp_path])
    text = f"import operations; export struct Operation : IOperation = {name};"
    program = own.load_program("open_type", ["main"], additional_source=text)
    result = own.create_buffer(data=np.zeros(1, F))
    own.create_compute_kernel(program).dispatch([1, 1, 1], {"result": result})
    assert result.to_numpy().view(F).tolist() == [expected]
    given = own.load_module_from_source(f"given_{name}", text)
    module = Module.load_from_file(own, "open_type", link=[given])
    a = spy.diffPair(3.0)
    module.use.bwds(a, 4.0)
    assert (module.use(3, 4), a.grad) == (expected, slope)


def test_types_that_do_not_conform(device):
    with pytest.raises(CompileError, match="'Other' does not conform to 'IOperation'"):
        device.load_module_from_source(
            "no_operation", OPERATIONS + "export struct Operation : IOperation = Other;"
        )


CONSTANTS = """
    extern static const bool FLAG;
    extern static const int COUNT;
    extern static const double SCALE = 2;
    extern static const float3 OFFSET;
    double f(int i) { return FLAG ? COUNT * SCALE + OFFSET[i] : 0; }
    void fill(uint3 dispatchThreadID, RWTensor<float, 1> x) { x[dispatchThreadID.x] = COUNT; }
"""


def test_constants_of_functions(device):
    module = Module.load_from_source(device, "open_for_functions", CONSTANTS)
    given = {"FLAG": True, "COUNT": 10, "OFFSET": spy.float3(1, 2, 3)}
    assert module.f.constants(given)(1) == 22
    assert module.f.constants({**given, "SCALE": 0.1})(2) == 10 * 0.1 + 3
    assert (
        module.f.constants({**given, "FLAG": False})(np.arange(3, dtype=np.int32)).to_numpy().tolist()
        == [0] * 3
    )
    x = spy.Tensor.zeros(device, (32,), "float")
    module.fill.constants({**given, "COUNT": 7}).dispatch([32, 1, 1], x=x)
    assert x.to_numpy().tolist() == [7] * 32
    with pytest.raises(CallError, match="there is no 'extern static const' of the name 'COUNTS'"):
        module.f.constants({"COUNTS": 1})
    with pytest.raises(CallError, match="'COUNT' cannot be str 'x'"):
        module.f.constants({"COUNT": "x"})
    with pytest.raises(CompileError, match="'FLAG' has no value"):
        module.f.constants({"COUNT": 1})(0)


def test_imports_that_leave_something_open(device):
    device.load_module_from_source(
        "open_below", "extern static const int DEPTH; int depth() { return DEPTH; }"
    )
    above = device.load_module_from_source("above", "import open_below; int f() { return depth() + 1; }")
    given = device.load_module_from_source("given_depth", "export static const int DEPTH = 4;")
    assert Module(above, link=[given]).f() == 5
    other = device.load_module_from_source("other_depth", "export static const int DEPTH = 6;")
    assert Module(above, link=[other]).f() == 7
    assert Module(above, link=[given]).f() == 5


OPEN_CHOICE = """
    interface IChoice { static int get(); }
    extern struct Choice : IChoice;
    extern static const int SCALE;
    int chosen() { return Choice::get() * SCALE; }
"""


def choice(number):
    return f"struct Own : IChoice {{ static int get() {{ return {number}; }} }} export struct Choice : IChoice = Own;"


def test_a_prelude_stands_beside_the_text_of_the_module(load):
    chosen = load(OPEN_CHOICE).chosen
    assert chosen.prelude(choice(10)).constants({"SCALE": 2})() == 20
    assert chosen.constants({"SCALE": 3}).prelude(choice(20))() == 60
    assert chosen.prelude(choice(10)).prelude("export static const int SCALE = 7;")() == 70
    with pytest.raises(CompileError, match="'Choice' has no value: no linked module exports it"):
        chosen.constants({"SCALE": 1})()
    with pytest.raises(CompileError, match="'IChoices' is not declared"):
        chosen.prelude("export struct Choice : IChoices = Own;")


def test_a_prelude_of_a_method(load):
    module = load("extern static const int N; struct S { int x; int times() { return x * N; } }")
    assert module.S.times.prelude("export static const int N = 5;")({"x": 4}) == 20


def test_only_what_a_function_uses_must_be_given(device, load):
    module = load("""
        extern static const int N;
        static const int TWICE = 2 * N;
        int free(int x) { return x; }
        int direct() { return N; }
        int below() { return free(TWICE); }
        int sized() { int a[N]; return a.getCount(); }
        [shader("compute")] [numthreads(1, 1, 1)]
        void kernel(RWStructuredBuffer<int> b) { b[0] = free(3); }
        void launched(uint3 dispatchThreadID, RWStructuredBuffer<int> b) { b[0] = free(4); }
    """)
    assert module.free(2) == 2
    for name in ("direct", "below", "sized"):
        with pytest.raises(CompileError, match="'N' has no value: no linked module exports it"):
            module[name]()
        assert module[name].constants({"N": 3})() == (6 if name == "below" else 3)
    b = device.create_buffer(data=np.zeros(1, np.int32))
    module.kernel.dispatch([1, 1, 1], b=b)
    assert b.to_numpy().view(np.int32).tolist() == [3]
    module.launched.dispatch([1, 1, 1], b=b)
    assert b.to_numpy().view(np.int32).tolist() == [4]


OPEN_FUNCTIONS = """
    extern [Differentiable] double shape(double x, inout double y);
    extern [Differentiable] T square<T : __BuiltinFloatingPointType>(T x);
    extern float shape(float x);
    extern int twice(int x) { return 2 * x; }
    extern void never(int x);
    [Differentiable] double f(double x, double y) { return square(x) + shape(x, y) * y; }
    [Differentiable] double first(double x) { return fwd_diff(square<double>)(diffPair(x, 1.0)).d * x; }
    double second(double x) { return fwd_diff(first)(diffPair(x, 1.0)).d; }
    double slope(double x)
    {
        var y = diffPair(double(3));
        return fwd_diff(shape)(diffPair(x, 1.0), y).d + 10 * y.d;
    }
    float other(float x) { return shape(x); }
    int local(int x) { return twice(x); }
    int opened(int x) { never(x); return x; }
"""
GIVEN_FUNCTIONS = """
    export [Differentiable] double shape(double x, inout double y) { y += x * x; return sin(x); }
    export [Differentiable] U square<U : __BuiltinFloatingPointType>(U v) { return v * v; }
    int local(int x) { return -1; }
"""


def test_linked_functions_and_their_derivatives(device):
    given = device.load_module_from_source("given_functions", GIVEN_FUNCTIONS)
    more = device.load_module_from_source("more_functions", "export float shape(float x) { return 7 * x; }")
    module = Module.load_from_source(device, "open_functions", OPEN_FUNCTIONS, link=[given, more])
    x, y = 0.5, 3.0
    assert module.f(x, y) == pytest.approx(x**2 + np.sin(x) * (y + x**2), rel=1e-15)
    a, b = spy.diffPair(x), spy.diffPair(y)
    module.f.bwds(a, b)
    assert a.grad == pytest.approx(2 * x + np.cos(x) * (y + x**2) + np.sin(x) * 2 * x, rel=1e-14)
    assert b.grad == pytest.approx(np.sin(x), rel=1e-14)
    assert module.f.fwds(spy.diffPair(x, 1.0), y).grad == pytest.approx(a.grad, rel=1e-14)
    spy.check_gradients(module.f, x, y)
    assert module.slope(x) == pytest.approx(np.cos(x) + 10 * 2 * x, rel=1e-14)
    assert module.second(x) == pytest.approx(4 * x, rel=1e-14)
    assert module.other(2.0) == 14 and module.local(5) == 10
    with pytest.raises(CompileError, match="'never' has no value: no linked module exports it"):
        module.opened(1)
    doubled = device.load_module_from_source("given_twice", "export int twice(int x) { return 20 * x; }")
    assert Module.load_from_source(device, "open_functions", OPEN_FUNCTIONS, link=[doubled]).local(5) == 100


def test_modules_that_leave_something_open_for_each_other(device):
    things = """
        export struct Thing { int a; int b; }
        export Thing make(int a, int b) { return { a, b }; }
        export int sum(Thing thing) { return thing.a + 2 * thing.b; }
    """
    given = [
        device.load_module_from_source("things", things),
        device.load_module_from_source(
            "sums",
            "extern struct Thing; extern int sum(Thing t); export int both(Thing a, Thing b) { return sum(a) + sum(b); }",
        ),
    ]
    text = """
        extern struct Thing;
        extern Thing make(int a, int b);
        extern int both(Thing a, Thing b);
        int f(int i) { return both(make(i, 1), make(2 * i, 3)); }
        Thing made(int i) { return make(i, -i); }
        RWStructuredBuffer<int> result;
        [shader("compute")] [numthreads(4, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID) { result[id.x] = f(int(id.x)); }
    """
    for link in (given, given[::-1]):
        module = Module.load_from_source(device, "users", text, link=link)
        assert module.f(np.arange(3, dtype=np.int32)).to_numpy().tolist() == [8, 11, 14]
        assert module.made(3) == {"a": 3, "b": -3}
    opened = device.load_module_from_source("users", text)
    program = device.link_program([opened, *given], [opened.entry_point("main")])
    result = device.create_buffer(data=np.zeros(4, np.int32))
    device.create_compute_kernel(program).dispatch([4, 1, 1], {"result": result})
    assert result.to_numpy().view(np.int32).tolist() == [8, 11, 14, 17]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("export int g(float x) { return 1; }", "int g(float x)"),
        ("export int g(inout int x) { return 1; }", "int g(inout int x)"),
        ("export float g(int x) { return 1; }", "float g(int x)"),
        ("export int g<T : IInteger>(T x) { return 1; }", "int g<T>(T x)"),
        ("export static const int g = 4;", "no function"),
    ],
)
def test_functions_with_other_headers_are_no_function_of_that_name(device, given, told):
    other = device.load_module_from_source("other_header", given)
    text = "extern int g(int x); int f(int x) { return g(x); }"
    with pytest.raises(CompileError) as caught:
        Module.load_from_source(device, "open_header", text, link=[other])
    assert "no linked module exports 'int g(int x)'" in str(caught.value)
    assert f"the exported declaration is {told}" in str(caught.value)
    module = Module.load_from_source(device, "open_header", text)
    with pytest.raises(CompileError, match=r"no linked module exports 'int g\(int x\)'"):
        module.f.prelude(given)
    assert module.f.prelude("export int g(int x) { return 3 * x; }")(2) == 6


def test_only_what_is_exported_is_seen_of_a_linked_module(device):
    given = device.load_module_from_source(
        "with_names", "export static const int N = 4; int helper(int x) { return 1; } struct H { int z; }"
    )
    own = "int helper(int x) { return 2; } struct H { int y; } int f() { H h = { 3 }; return N * helper(1) + 100 * h.y; }"
    opened = "extern static const int N;"
    assert Module.load_from_source(device, "with_own", f"{opened} {own}", link=[given]).f() == 308
    both = Module.load_from_source(
        device, "with_both", f"import with_names; {opened} int f() {{ return N + helper(1); }}", link=[given]
    )
    assert both.f() == 5


def test_types_without_a_name_in_the_module_are_results_of_calls(device):
    given = device.load_module_from_source(
        "hidden_type",
        """
        struct Hidden { int x; }
        int pick(int x) { return -1; }
        export struct Choice = Hidden;
        export Choice choose(int x) { return { x }; }
        """,
    )
    text = "extern struct Choice; extern Choice choose(int x); Choice pick(int x) { return choose(2 * x); }"
    module = Module.load_from_source(device, "open_choice", text, link=[given])
    assert module.pick(3) == {"x": 6}


def test_programs_and_composed_modules_know_all_their_parts(device):
    text = "struct {0} {{ int x; }} int of_{0}({0} value) {{ return value.x; }}"
    parts = [device.load_module_from_source(f"part_{name}", text.format(name)) for name in ("Left", "Right")]
    composed = device.compose_modules("both", parts)
    for layout in (composed.layout, device.link_program(parts, []).layout):
        for name in ("Left", "Right"):
            assert layout.require_type_by_name(name).fields[0].name == "x"
            assert layout.require_function_by_name(f"of_{name}").parameters[0].type.name == name
    assert [each.name for each in composed.module_decl] == ["Left", "of_Left", "Right", "of_Right"]


def test_only_the_entry_points_that_are_linked_need_to_be_supported(device):
    text = """
    RaytracingAccelerationStructure scene;
    [shader("raygeneration")] void trace() { RayDesc ray; TraceRay(scene, 0, 0, 0, 0, 0, ray, ray); }
    [shader("compute")] [numthreads(1, 1, 1)] void fill(uniform float* result) { *result = 3; }
    """
    module = device.load_module_from_source("rays_and_more", text)
    program = device.link_program([module], [module.entry_point("fill")])
    result = device.create_buffer(size=4)
    device.create_compute_kernel(program).dispatch([1, 1, 1], result=result.device_address)
    assert result.to_numpy().view(F).tolist() == [3]
    with pytest.raises(
        CompileError, match=r"(?s)E9002.*'RayDesc' is not supported.*'TraceRay' is not supported"
    ):
        device.link_program([module], [module.entry_point("trace")])
