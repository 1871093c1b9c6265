"""Devices: the current one, closing, what they were made with."""

import gc
import threading
import weakref

import numpy as np
import pytest

import slangrad as spy


@pytest.fixture
def no_current_device():
    """An empty stack, and the one that was there again."""
    kept = []
    while True:
        try:
            kept.append(spy.pop_current_device())
        except spy.CallError:
            break
    yield
    for each in reversed(kept):
        spy.push_current_device(each)


def test_the_newest_device_is_current(no_current_device) -> None:
    first = spy.create_device()
    second = spy.create_device()
    assert spy.current_device() is second
    with first as entered:
        assert entered is first
        assert spy.current_device() is first
    assert spy.pop_current_device() is second
    assert spy.pop_current_device() is first


def test_no_current_device(no_current_device) -> None:
    with pytest.raises(spy.CallError, match=r"E1023.*No current device"):
        spy.current_device()
    with pytest.raises(spy.CallError, match=r"E1023.*No device to pop"):
        spy.pop_current_device()
    with pytest.raises(spy.CallError, match="No current device"):
        spy.create_buffer(size=4)


def test_the_stack_keeps_no_device_alive(no_current_device) -> None:
    device = spy.create_device()
    assert device in spy.Device.get_created_devices()
    known = weakref.ref(device)
    del device
    gc.collect()
    assert known() is None
    with pytest.raises(spy.CallError, match="No current device"):
        spy.current_device()


def test_functions_of_the_current_device() -> None:
    with spy.create_device() as device:
        buffer = spy.create_buffer(size=512)
        module = spy.load_module_from_source("told", "int f() { return 1; }")
    assert (buffer.size, buffer.device) == (512, device)
    assert module.session is device.slang_session


def test_closing(no_current_device) -> None:
    """Nothing runs on a closed device; what shows its memory stays valid."""
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "closed", "float f(float x) { return 2 * x; }")
    x = spy.Tensor.from_numpy(device, np.float32([1, 2, 3]))
    copy = x.to_numpy()
    assert module.f(x).to_numpy().tolist() == [2, 4, 6]
    device.close()
    device.close()
    assert device.is_closed
    for use in (
        lambda: module.f(x),
        lambda: module.f(1.0),
        lambda: x.to_numpy(),
        lambda: x.clear(),
        lambda: spy.Tensor.zeros(device, (3,), "float"),
        lambda: device.create_buffer(size=16),
    ):
        with pytest.raises(spy.DeviceClosedError, match=r"E1023.*closed"):
            use()
    assert copy.tolist() == [1, 2, 3]
    with pytest.raises(spy.CallError, match="No current device"):
        spy.current_device()
    assert device not in spy.Device.get_created_devices()


def test_callbacks_of_closing() -> None:
    device = spy.create_device()
    told = []
    first = device.register_device_close_callback(lambda closed: (told.append("first"), closed.close()))
    second = device.register_device_close_callback(lambda closed: told.append("second"))
    device.register_device_close_callback(lambda closed: told.append(closed))
    device.unregister_device_close_callback(second)
    device.close()
    device.close()
    assert first != second
    assert told == ["first", device]


def test_what_a_device_was_made_with() -> None:
    device = spy.Device(type=spy.DeviceType.cpu, label="mine", enable_debug_layers=True)
    assert (device.desc.label, device.label, device.desc.enable_debug_layers) == ("mine", "mine", True)
    assert (device.desc.type, device.info.type) == (spy.DeviceType.cpu, spy.DeviceType.cpu)
    assert spy.Device(desc=spy.DeviceDesc(label="told")).label == "told"
    assert device.info.adapter_name == spy.Device.enumerate_adapters(type=spy.DeviceType.cpu)[0].name
    assert spy.Device.enumerate_adapters(type="vulkan") == []
    with pytest.raises(TypeError, match="label: int is not"):
        spy.create_device(label=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'lable'"):
        spy.create_device(lable="x")


def test_what_a_cpu_has_not_is_an_error_that_says_what_to_use(device) -> None:
    with pytest.raises(AttributeError, match=r"no 'Window'.*matplotlib"):
        spy.Window  # noqa: B018
    with pytest.raises(
        AttributeError, match=r"no 'create_texture_from_resource'.*create_texture\(data=...\)"
    ):
        device.create_texture_from_resource()
    with pytest.raises(AttributeError, match=r"no 'Profiler'.*write_timestamp"):
        spy.Profiler  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'cuda_context_scope'.*no CUDA"):
        device.cuda_context_scope()
    with pytest.raises(AttributeError, match=r"'Device' has no attribute 'create_buffers'"):
        device.create_buffers()
    assert not hasattr(spy, "Window") and not hasattr(device, "create_surface")


def test_a_device_for_torch_is_one_as_all_others(no_current_device, monkeypatch) -> None:
    monkeypatch.setattr("slangrad.api.devices.create.has_gpu", lambda: False)
    assert spy.create_torch_device(include_paths=[spy.SHADER_PATH]).type == spy.DeviceType.cpu
    assert spy.create_torch_device("cpu", torch_device="cpu").type == spy.DeviceType.cpu
    for wrong, message in (
        (("cpu", "cuda:0"), "'cuda:0' does not fit a device of type 'cpu'"),
        ((None, "mps"), r"no backend for 'mps'[^$]*pass 'cpu' or 'cuda'"),
        (("cuda", "cpu"), "'cpu' does not fit a device of type 'cuda'"),
        ((None, "cuda:x"), "'cuda:x' has no number of a GPU"),
    ):
        with pytest.raises(spy.CallError, match=rf"E1015.*{message}"):
            spy.create_torch_device(*wrong)


def test_fences(device) -> None:
    fence = device.create_fence(initial_value=3)
    assert fence.current_value == fence.signaled_value == fence.desc.initial_value == 3
    assert (fence.signal(), fence.signal(9), fence.current_value) == (4, 9, 9)
    fence.wait()
    fence.wait(9)
    with pytest.raises(spy.CallError, match=r"is at 9 after 1000000 ns, and 10 was waited for"):
        fence.wait(10, timeout_ns=1_000_000)
    other = threading.Thread(target=fence.signal, args=(12,))
    other.start()
    fence.wait(12, timeout_ns=10_000_000_000)
    other.join()


def test_fences_and_buffers_of_the_current_device(no_current_device) -> None:
    with spy.create_device() as device:
        fence = spy.create_fence(spy.FenceDesc(initial_value=2))
        assert fence.device is device and fence.current_value == 2
        assert spy.create_query_pool(spy.QueryType.timestamp, 1).device is device
        desc = spy.BufferDesc()
        desc.size, desc.label = 256, "mine"
        buffer = spy.create_buffer(desc)
        assert (buffer.size, buffer.label, buffer.desc.size) == (256, "mine", 256)


def test_commands_that_wait_for_fences_and_signal_them(device) -> None:
    buffer, fence = device.create_buffer(data=np.ones(2, np.float32)), device.create_fence()
    encoder = device.create_command_encoder(queue=spy.CommandQueueType.graphics)
    assert encoder.queue is spy.CommandQueueType.graphics
    encoder.clear_buffer(buffer)
    commands = encoder.finish()
    with pytest.raises(spy.CallError, match=r"(?s)at 0, and nothing is left that could bring it to 2"):
        device.submit_command_buffers([commands], [fence], [2])
    assert buffer.to_numpy().any()
    with pytest.raises(spy.CallError, match="wait_fence_values: 2 values for 1 fences"):
        device.submit_command_buffers([commands], [fence], [0, 1])
    device.submit_command_buffers([commands], [fence], [0], signal_fences=[fence], signal_fence_values=[5])
    assert fence.current_value == 5 and not buffer.to_numpy().any()


def test_timestamps(device) -> None:
    pool = device.create_query_pool(type=spy.QueryType.timestamp, count=3)
    ticks = device.create_buffer(size=16, struct_size=8)
    encoder = device.create_command_encoder()
    encoder.write_timestamp(pool, 0)
    encoder.clear_buffer(ticks)
    with encoder.begin_compute_pass() as compute:
        compute.write_timestamp(pool, 1)
    encoder.resolve_query(pool, 0, 2, ticks, 0)
    with pytest.raises(spy.CallError, match=r"(?s)query 0 has no result.*write_timestamp"):
        pool.get_result(0)
    device.submit_command_buffer(encoder.finish())
    first, second = pool.get_results(0, 2)
    assert 0 < first <= second == pool.get_result(1)
    assert ticks.to_numpy().view(np.uint64).tolist() == [first, second]
    assert pool.get_timestamp_result(0) == first / device.info.timestamp_frequency
    pool.reset(0, 1)
    with pytest.raises(spy.CallError, match="query 0 has no result"):
        pool.get_timestamp_results(0, 2)
    with pytest.raises(spy.CallError, match="queries 3 to 4 are not in a pool of 3"):
        device.create_command_encoder().write_timestamp(pool, 3)


def test_limits_and_states(device) -> None:
    limits = device.info.limits
    assert (limits.max_compute_threads_per_group, limits.max_wave_size) == (1024, 32)
    assert limits.max_compute_thread_group_size == spy.uint3(1024, 1024, 1024)
    encoder = device.create_command_encoder()
    encoder.set_buffer_state(device.create_buffer(size=4), spy.ResourceState.copy_source)
    device.submit_command_buffer(encoder.finish())
    device.wait_for_idle(spy.CommandQueueType.graphics)
    device.sync_to_cuda()
    device.sync_to_device()


def test_reports_of_memory_and_of_what_was_compiled() -> None:
    device = spy.create_device(enable_compilation_reports=True)
    (before,) = device.report_heaps()
    kept = spy.Tensor.zeros(device, (1 << 18,), "float")
    (after,) = device.report_heaps()
    assert after.num_allocations == before.num_allocations + 1
    assert after.total_mem_usage == before.total_mem_usage + kept.storage.size
    assert after.total_allocated >= after.total_mem_usage
    report = device.memory_report()
    assert (report.in_use, report.blocks) == (after.total_mem_usage, after.num_allocations)
    assert report.peak >= report.in_use and (report.launches, report.free, report.total) == (0, None, None)
    assert "free" not in str(report)
    text = '[shader("compute")] [numthreads(1, 1, 1)] void main(uint3 at : SV_DispatchThreadID) {}'
    module = device.load_module_from_source("reported", text)
    program = device.link_program([module], [module.entry_point("main")])
    assert device.get_compilation_reports() == []
    kernel = device.create_compute_kernel(program)
    report = program.get_compilation_report()
    assert device.get_compilation_reports() == [report]
    assert [each["name"] for each in report["entry_point_reports"]] == ["main"]
    (made,) = report["pipeline_reports"]
    assert made["create_time"] == kernel.pipeline.seconds > 0
    assert report["compile_time"] == (0 if made["is_cached"] else made["create_time"])


@pytest.mark.parametrize(
    "given",
    [
        {"enable_cuda_interop": False},
        {"enable_debug_layers": True},
        {"enable_rhi_validation": True},
        {"adapter_luid": None},
        {"bindless_options": None},
        {"label": "mine"},
    ],
)
def test_keywords_that_change_nothing_on_a_cpu(given: dict[str, object]) -> None:
    with spy.create_device(**given) as device:
        assert device.load_module_from_source("plain", "int f() { return 3; }").name == "plain"


def test_waiting_is_done_at_once() -> None:
    with spy.create_device() as device:
        encoder = device.create_command_encoder()
        number = device.submit_command_buffer(encoder.finish())
        for wait in (device.wait, device.wait_for_idle, lambda: device.wait_for_submit(number)):
            assert wait() is None
        assert device.is_submit_finished(number)
        assert device.supported_shader_model == spy.ShaderModel.sm_6_7
        settings = {
            "debug_info": spy.SlangDebugInfoLevel.standard,
            "optimization": spy.SlangOptimizationLevel.high,
            "downstream_args": ["-O3"],
        }
        session = device.create_slang_session(compiler_options=settings)
        assert session.load_module_from_source("with_options", "int f() { return 3; }").name == "with_options"
