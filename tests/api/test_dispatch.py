"""Functions that are launched as kernels, tensors as parameters of kernels, generic entry points."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor, uint3
from slangrad.marshal.errors import CallError

F = np.float32

FUNCTIONS = """
    import "slangpy";

    struct Params { int k; }
    ParameterBlock<Params> params;

    void fill(uint3 dispatchThreadID, RWStructuredBuffer<uint3> buffer) { buffer[dispatchThreadID.x] = dispatchThreadID; }
    void scaled(uint3 dispatchThreadID, RWTensor<float, 1> data, float by) { data[dispatchThreadID.x] = dispatchThreadID.x * by; }
    void with_params(uint2 dispatchThreadID, RWTensor<int, 2> data)
    {
        data[dispatchThreadID.y, dispatchThreadID.x] = params.k * int(dispatchThreadID.x + 10 * dispatchThreadID.y);
    }

    [shader("compute")] [numthreads(4, 1, 1)]
    void entry(uint3 id : SV_DispatchThreadID, RWTensor<float, 1> data) { data[id.x] += 1; }

    void groups(uint3 dispatchThreadID, RWStructuredBuffer<int> count) { InterlockedAdd(count[0], 1); }

    float returns(uint3 dispatchThreadID) { return 0; }
    void writes(uint3 dispatchThreadID, out float result) { result = 0; }
    void nothing() {}
    void other(uint3 id) {}
    void generic<T>(uint3 dispatchThreadID, T x) {}
    void twice(uint3 dispatchThreadID) {}
    void twice(uint3 dispatchThreadID, float x) {}
"""


def test_functions_as_kernels(device, load):
    module = load(FUNCTIONS)
    ids = Tensor.zeros(device, (32,), module.uint3)
    module.fill.dispatch(uint3(32, 1, 1), buffer=ids.storage)
    assert ids.to_numpy().tolist() == [[i, 0, 0] for i in range(32)]
    data = Tensor.zeros(device, (64,), "float")
    module.scaled.dispatch([40, 1, 1], data=data[:], by=0.5)
    assert data.to_numpy()[:3].tolist() == [0, 0.5, 1]
    assert data.to_numpy()[39] == 19.5
    module.entry.dispatch([3, 1, 1], data=data)
    assert data.to_numpy()[:5].tolist() == [1, 1.5, 2, 2.5, 2]


def test_values_that_were_set(device, load):
    module = load(FUNCTIONS)
    table = Tensor.zeros(device, (2, 32), "int")
    module.with_params.set({"params": {"k": 2}}).dispatch([32, 2, 1], data=table)
    assert table.to_numpy()[1, :3].tolist() == [20, 22, 24]
    module.with_params.set(params=lambda: {"k": 3}).dispatch([32, 2, 1], data=table.transpose().transpose())
    assert table.to_numpy()[1, :3].tolist() == [30, 33, 36]
    module.with_params.dispatch([32, 2, 1], {"params": {"k": 1}}, data=table)
    assert table.to_numpy()[1, :3].tolist() == [10, 11, 12]
    with pytest.raises(CallError, match="parameter 'params' of type 'Params' has no value"):
        module.with_params.dispatch([32, 2, 1], data=table)


def test_group_sizes(device, load):
    module = load(FUNCTIONS)
    for size, threads in (((1, 1, 1), 5), ((4, 1, 1), 8)):
        count = device.create_buffer(data=np.zeros(1, np.int32))
        module.groups.thread_group_size(size).dispatch([5, 1, 1], count=count)
        assert count.to_numpy().view(np.int32).tolist() == [threads]
    count = device.create_buffer(data=np.zeros(1, np.int32))
    module.groups.dispatch([5, 1, 1], count=count)
    assert count.to_numpy().view(np.int32).tolist() == [32]
    with pytest.raises(CallError, match="1024 in all at most"):
        module.groups.thread_group_size([64, 64, 1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("returns", "has a return value"),
        ("writes", "has out or inout parameters: 'result'"),
        ("nothing", "the first parameter must be a thread id 'uint3 dispatchThreadID'"),
        ("other", "begins with 'id': the first parameter must be a thread id 'uint3 dispatchThreadID'"),
        ("generic", "is generic: the type of 'x' is not known"),
        ("twice", "has 2 overloads"),
    ],
)
def test_functions_that_are_no_kernels(load, name, message):
    with pytest.raises(CallError, match=message) as caught:
        load(FUNCTIONS)[name].dispatch([1, 1, 1])
    assert caught.value.code == "E1020"


TENSORS = """
    void add(uint3 dispatchThreadID, Tensor<float, 2> x, RWTensor<float2, 1> result)
    {
        result[dispatchThreadID.x] = float2(x[dispatchThreadID.x, 0], x[dispatchThreadID.x, 1]);
    }
    void accumulate(uint3 dispatchThreadID, DiffTensor<float, 1> x)
    {
        x._grad_out.add(int(dispatchThreadID.x), 2 * x._primal.load(int(dispatchThreadID.x)));
    }
"""


def test_tensors_with_strides_and_gradients(device, load):
    module = load(TENSORS)
    x = Tensor.from_numpy(device, np.arange(64, dtype=F).reshape(2, 32))
    result = Tensor.zeros(device, (32,), "float2")
    module.add.dispatch([32, 1, 1], x=x.transpose(), result=result)
    assert result.to_numpy()[:3].tolist() == [[0, 32], [1, 33], [2, 34]]
    module.add.dispatch([32, 1, 1], x=x.transpose()[::-1].uniforms(), result=result.uniforms())
    assert result.to_numpy()[:2].tolist() == [[31, 63], [30, 62]]
    y = Tensor.from_numpy(device, np.arange(32, dtype=F)).with_grads()
    module.accumulate.dispatch([32, 1, 1], x=y)
    module.accumulate.dispatch([32, 1, 1], x=y)
    assert y.grad.to_numpy()[:4].tolist() == [0, 4, 8, 12]


def test_tensors_that_do_not_fit(device, load):
    module = load(TENSORS)
    x = Tensor.zeros(device, (2, 32), "float")
    fixed = Tensor.zeros(device, (32,), "float2", usage=spy.BufferUsage.shader_resource)
    with pytest.raises(
        CallError, match=r"parameter 'x' of type 'Tensor<float, 2>' cannot be Tensor of float2"
    ):
        module.add.dispatch([32, 1, 1], x=fixed, result=fixed)
    with pytest.raises(
        CallError, match=r"parameter 'result' of type .* is written, and the tensor is read-only"
    ):
        module.add.dispatch([32, 1, 1], x=x, result=fixed)
    with pytest.raises(CallError, match="attach gradients with with_grads"):
        module.accumulate.dispatch([32, 1, 1], x=x[0])
    with pytest.raises(CallError, match="pass a Tensor"):
        module.accumulate.dispatch([32, 1, 1], x=np.zeros(32, F))
    with pytest.raises(ValueError, match="the view reaches element"):
        module.add.dispatch([32, 1, 1], x={**x.uniforms(), "_offset": 1}, result=fixed)
    with pytest.raises(CallError, match="cannot be Tensor of float with shape"):
        module.add.dispatch([32, 1, 1], x=x[0].uniforms(), result=fixed)


GENERIC = """
    interface IScale { static float scaled(float x); }
    struct Twice : IScale { static float scaled(float x) { return 2 * x; } }
    struct Thrice : IScale { static float scaled(float x) { return 3 * x; } }
    struct Other {}
    RWStructuredBuffer<float> data;

    [shader("compute")] [numthreads(N, 1, 1)]
    void main<T : IScale, let N : int>(uint3 id : SV_DispatchThreadID, uniform T unused)
    {
        data[id.x] = T.scaled(data[id.x]) + N;
    }
"""


def test_generic_entry_points(device):
    module = device.load_module_from_source("generic_entries", GENERIC)
    arguments = spy.SpecializationArg
    for name, count, expected in (("Twice", 2, [4, 6]), ("Thrice", 1, [4, 2])):
        entry = module.entry_point("main").specialize(
            [arguments.from_type(name), arguments.from_expr(str(count))]
        )
        kernel = device.create_compute_kernel(device.link_program([module], [entry]))
        assert entry.layout.compute_thread_group_size == [count, 1, 1]
        data = device.create_buffer(data=np.array([1, 2], F))
        kernel.dispatch([1, 1, 1], {"data": data})
        assert data.to_numpy().view(F).tolist() == expected


def test_generic_arguments_that_do_not_fit(device):
    module = device.load_module_from_source("generic_entries", GENERIC)
    entry = module.entry_point("main")
    arguments = spy.SpecializationArg
    with pytest.raises(CallError, match="entry point 'main' is generic"):
        device.create_compute_kernel(device.link_program([module], [entry]))
    with pytest.raises(CallError, match="takes 2 generic arguments, not 1"):
        entry.specialize([arguments.from_type("Twice")])
    with pytest.raises(CallError, match="'Other' does not conform to 'IScale'"):
        entry.specialize([arguments.from_type("Other"), arguments.from_expr("1")])
    with pytest.raises(CallError, match='Specialization type "Nothing" not found'):
        entry.specialize([arguments.from_type("Nothing"), arguments.from_expr("1")])


def test_modules_of_sessions_are_called_like_others(device):
    session = device.create_slang_session(compiler_options={"defines": {"FACTOR": "5"}})
    loaded = session.load_module_from_source("called", "float scaled(float x) { return FACTOR * x; }")
    module = spy.Module(loaded)
    assert module.scaled(2) == 10
    assert module.device_module is loaded
    assert module.session is session
    assert spy.Module.load_from_module(device, loaded).scaled(np.ones(2, F)).to_numpy().tolist() == [5, 5]
    with pytest.raises(CallError, match="Module: str is no SlangModule"):
        spy.Module("called")
