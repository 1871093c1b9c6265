"""The CUDA device on a driver without a GPU: memory, copies, launches, reports, and errors where something is missing."""

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, get_ident

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.disk.store import Store
from slangrad.base.lazy import LazyModule
from slangrad.base.options import Options
from slangrad.llvm.cuda import entries
from slangrad.llvm.cuda import launch as compiled
from slangrad.llvm.machine import nvptx
from slangrad.runtime.cuda import copies, launch, prints
from slangrad.runtime.cuda import driver as drivers
from slangrad.runtime.cuda.architectures import ARCHITECTURES, newest_architecture
from slangrad.runtime.cuda.arena import Arena
from slangrad.runtime.cuda.image import CudaImage
from slangrad.runtime.cuda.launch import LAUNCH, STATUS_OFFSETS, THREADS, blocks_for, blocks_that_stay
from slangrad.runtime.device import MemoryRegion
from slangrad.runtime.reports import OUT_OF_MEMORY, Site
from slangrad.tensors import gpu_exchange
from tests.runtime.fake_cuda import FakeBindings, fake_gpu

TEXT = """
[Differentiable] float poly(float x) { return 2.0 * x * x + 8.0 * x - 1.0; }
float at(RWTensor<float, 1> t, int i) { return t[i]; }
void bump(inout float x) { x += 1; }
void put(RWTensor<float, 1> t, int i) { t[i] = 1; }
"""
FLOAT = np.dtype(np.float32)


@pytest.fixture(scope="module")
def fake():
    with fake_gpu() as driver:
        yield driver


@pytest.fixture(scope="module")
def device(fake):
    return spy.create_device("cuda")


@pytest.fixture(scope="module")
def module(device):
    return spy.Module.load_from_source(device, "on_a_gpu", TEXT)


def tensor(device, values):
    return spy.Tensor.from_numpy(device, np.asarray(values, np.float32))


# --- the device


def test_a_device_names_its_gpu(device):
    assert (device.type, device.backend, device.target) == (spy.DeviceType.cuda, "cuda", "cuda:sm_90")
    assert device.info.adapter_name == "A fake GPU"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus": 0}, "does not start.*no device.*nvidia-smi"),
        ({"version": 11080}, "too old: it serves CUDA 11.8, and CUDA 12.1 is needed"),
        ({"capability": (7, 0)}, "compute capability 7.0, and 7.5 is needed"),
    ],
)
def test_what_is_missing_is_told(settings, message):
    with fake_gpu(**settings), pytest.raises(spy.CallError, match=f"(?s)E1015.*{message}"):
        spy.create_device("cuda")


def test_a_missing_package_is_told(monkeypatch):
    drivers.load_driver.cache_clear()
    monkeypatch.setattr(drivers, "BINDINGS", LazyModule("cuda.no_such_module"))
    with pytest.raises(spy.CallError, match=r"(?s)cuda-bindings is not installed.*slangrad\[cuda\]"):
        spy.create_device("cuda")


def test_a_missing_driver_is_told(monkeypatch):
    class WithoutLibrary:
        def cuInit(self, flags):
            raise RuntimeError("libcuda.so.1 is not found")

    drivers.load_driver.cache_clear()
    monkeypatch.setattr(drivers, "BINDINGS", WithoutLibrary())
    with pytest.raises(spy.CallError, match=r"(?s)no CUDA driver on this machine.*install the driver"):
        spy.create_device("cuda")


def test_the_cpu_device_loads_nothing_of_cuda(monkeypatch):
    monkeypatch.setattr(drivers, "BINDINGS", None)
    assert spy.create_device().backend in ("cpu", "interpreter")


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 5), "sm_75"), ((8, 7), "sm_87"), ((9, 0), "sm_90"), ((10, 3), "sm_100"), ((13, 0), "sm_120")],
)
def test_a_gpu_gets_the_newest_architecture_that_it_runs(capability, name):
    assert newest_architecture(capability) == name


def test_compiler_and_run_time_have_the_same_tables():
    assert list(nvptx.ARCHITECTURES) == list(ARCHITECTURES.values())
    assert LAUNCH.size == compiled.LAUNCH_SIZE and THREADS == entries.THREADS
    assert [at for at, _ in compiled.LAUNCH_FIELDS.values()] == list(range(0, 64, 8))
    assert LAUNCH.unpack(LAUNCH.pack(*range(1, 9))) == tuple(range(1, 9))
    assert compiled.STATUS_FIELDS == STATUS_OFFSETS


# --- calls


def test_calls_and_gradients(device, module):
    x = tensor(device, range(5)).with_grads()
    y = module.poly(x)
    assert y.to_numpy().tolist() == [-1, 9, 23, 41, 63]
    y = y.with_grads()
    y.grad.copy_from_numpy(np.ones(5, np.float32))
    module.poly.bwds(x, _result=y)
    assert x.grad.to_numpy().tolist() == [8, 12, 16, 20, 24]


def test_arrays_of_the_host_travel_there_and_back(module):
    a, out = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    module.poly(a, _result=out[::2])
    assert out.tolist() == [-1, 0, 9, 0, 23, 0, 41, 0]
    module.bump(a)
    assert a.tolist() == [1, 2, 3, 4]
    module.poly(a, _result=a)
    assert a.tolist() == [9, 23, 41, 63]
    module.poly(a[:-1], _result=a[1:])  # all is read before it is overwritten
    assert a.tolist() == [9, 233, 1241, 3689]


def test_single_values_come_back(module):
    assert module.poly(3.0) == 41
    pair = spy.diffPair(5.0)
    module.poly.bwds(pair, spy.diffPair(d=1.0))
    assert pair.grad == 28


def test_an_array_inside_of_a_list_is_refused(device):
    text = "struct S { Tensor<float, 1> x; } float first(S s) { return s.x[0]; }"
    module = spy.Module.load_from_source(device, "in_a_list", text)
    inside, outside = tensor(device, [1, 2]), np.ones(2, np.float32)
    assert module.first([{"x": inside}, {"x": inside}]).to_numpy().tolist() == [1, 1]
    with pytest.raises(spy.CallError, match=r"(?s)E1022.*memory of the host"):
        module.first([{"x": inside}, {"x": outside}])


def test_tensors_of_another_device_are_refused(module):
    other = spy.create_device("cpu")
    with pytest.raises(spy.CallError, match="E1022"):
        module.poly(tensor(other, [1, 2]))


# --- reports


def test_a_report_is_raised_at_the_next_wait(device, module):
    t = tensor(device, range(5))
    module.put(t, 9)
    with pytest.raises(spy.BoundsError, match="index 9 is out of range: there are 5") as caught:
        device.synchronize()
    assert "on_a_gpu:5" in str(caught.value) and "SLANGRAD_SYNCHRONOUS=1" in caught.value.__notes__[0]
    device.synchronize()


def test_a_report_is_raised_by_the_next_launch(device, module):
    t = tensor(device, range(5))
    module.put(t, 7)
    with pytest.raises(spy.BoundsError, match="index 7"):
        module.put(t, 1)


def test_a_synchronous_device_raises_in_the_call(fake):
    device = spy.create_device("cuda", options=replace(Options.from_environment(), synchronous=True))
    module = spy.Module.load_from_source(device, "at_once", TEXT)
    with pytest.raises(spy.BoundsError, match="index 8") as caught:
        module.put(tensor(device, range(5)), 8)
    assert not hasattr(caught.value, "__notes__")


# --- launches


def test_a_launch_is_one_call_of_the_driver(device, module, fake):
    x = tensor(device, range(4))
    bound = module.bump.bind_call(x)
    for call in (lambda: module.bump(x), bound):
        call()
        fake.calls.clear()
        before = fake.launches
        call()
        assert (fake.calls, fake.launches) == ([], before + 1)
    assert x.to_numpy().tolist() == [4, 5, 6, 7]


def test_sums_are_two_kernels_of_few_blocks(device, module, fake):
    text = """[Differentiable] float line(float a, float b, float x) { return a * x + b; }"""
    line = spy.Module.load_from_source(device, "sums", text).line
    x, a, b = tensor(device, range(300)), tensor(device, [2]).with_grads(), tensor(device, [1]).with_grads()
    y = spy.Tensor.empty_like(x).with_grads(tensor(device, [1] * 300))
    bound = line.bwds.bind_call(a, b, x, _result=y)
    before = fake.launches
    bound()
    assert (
        fake.launches == before + 2
    )  # one kernel adds up 300 threads in 2 blocks of 128, the next one the blocks
    line.bwds(a, b, x, _result=y)
    assert a.grad.to_numpy().tolist() == [2 * sum(range(300))] and b.grad.to_numpy().tolist() == [600]


def test_new_threads_launch(device, module):
    x = tensor(device, range(4))
    bound = module.bump.bind_call(x)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(bound).result()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(module.bump, x).result()
    assert x.to_numpy().tolist() == [2, 3, 4, 5]


def test_threads_launch_with_their_own_arguments(device, module):
    """Each launch has a block that no other thread writes before the driver has copied it."""
    tensors = [tensor(device, [i]) for i in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(8):
            list(threads.map(module.bump, tensors))
    assert [t.to_numpy().item() for t in tensors] == [8, 9, 10, 11]


def test_maps_load_and_store_four_numbers_at_once(device, module):
    x = tensor(device, range(8)).with_grads()
    y = spy.Tensor.empty_like(x).with_grads(spy.Tensor.ones(device, (8,), "float"))
    forward = module.poly.compile(x, _result=y)
    gradient = module.poly.bwds.compile(x, _result=y)
    for stages, loads in ((forward, 1), (gradient, 3)):
        assert "lanes<f32>" in stages.text("lanes")
        assert stages.text("ptx").count("ld.global.v4") == loads
        assert stages.text("ptx").count("st.global.v4") == 1


def test_launches_of_many_grids_are_not_kept(device, module, monkeypatch):
    monkeypatch.setattr(launch, "MOST_GRIDS", 3)
    for count in (1, 2, 3, 4, 5, 1, 5):
        x = tensor(device, range(count))
        module.bump(x)
        assert x.to_numpy().tolist() == list(range(1, count + 1))


def test_pointers_lead_to_copies_of_arrays(device):
    text = "float moved(float* p, float* q, int i) { p[i] += 1; return q[2 * i]; }"
    moved = spy.Module.load_from_source(device, "moved_by_pointers", text).moved
    for size in (3, 40):  # the second array is longer
        p, q = np.zeros(size, np.float32), np.arange(2 * size, dtype=np.float32)
        last = size - 1
        assert moved(p, q, last) == 2 * last and moved(p, p, 0) == 1
        assert p[last] == 1 and p[0] == 1 and p.sum() == 2
    x = tensor(device, [1, 2])
    assert moved(x, np.float32([7, 8, 9]), 1) == 9 and x.to_numpy().tolist() == [1, 3]


# --- prints

PRINTING = """
float show(float x) { printf("x = %f\\n", x); return x; }
void many(int x) { for (int i = 0; i < x; i++) printf("%d %d\\n", x, i); }
"""


def test_lines_are_written_where_the_host_waits(device, capsys):
    show = spy.Module.load_from_source(device, "printing", PRINTING).show
    y = show(tensor(device, [1, 2]))
    assert capsys.readouterr().out == ""
    assert y.to_numpy().tolist() == [1, 2]
    assert capsys.readouterr().out == "x = 1.000000\nx = 2.000000\n"
    show(tensor(device, [3]))
    show(tensor(device, [0.5]))  # a launch that prints comes behind the lines of the one before
    assert capsys.readouterr().out == "x = 3.000000\n"
    device.runtime.synchronize()
    assert capsys.readouterr().out == "x = 0.500000\n"
    device.runtime.synchronize()
    assert capsys.readouterr().out == ""


def test_lines_without_room_are_counted(capsys, monkeypatch):
    monkeypatch.setattr(prints, "ROOM", 5 * 7 + 3)
    with fake_gpu():
        device = spy.create_device("cuda")
        many = spy.Module.load_from_source(device, "printing_much", PRINTING).many
        for count in (9, 2):
            many(count)
            device.runtime.synchronize()
    lines = [f"9 {i}\n" for i in range(7)]
    lost = "(2 more lines were printed than fit into the buffer of the GPU)\n"
    assert capsys.readouterr().out == "".join([*lines, lost, "2 0\n2 1\n"])


# --- memory that threads take

TAKING = """
[Differentiable] float walk(float x, int n) { while (n > 0) { x = x * x; n -= 1; } return x; }
float power(int n, float x) { return n <= 0 ? 1.0 : x * power(n - 1, x); }
"""


def test_threads_that_take_memory_are_few(device, fake):
    taking = spy.Module.load_from_source(device, "taking", TAKING)
    x = spy.Tensor.from_numpy(device, np.full(2000, 1.5, np.float32)).with_grads()
    y = taking.walk(x, 2).with_grads(spy.Tensor.ones(device, (2000,), "float"))
    taking.walk.bwds(x, 2, _result=y)
    assert x.grad.to_numpy().tolist() == [4 * 1.5**3] * 2000  # the driver looks at the blocks
    assert taking.power(3, x).to_numpy().tolist() == [1.5**3] * 2000
    assert device.runtime.memory.in_use > 16 << 20


def test_a_launch_without_memory_doubles_the_arena(device):
    taking = spy.Module.load_from_source(device, "taking_more", TAKING)
    taking.power(3, tensor(device, [2]))
    status = device.runtime._status
    for before, after in ((16, 32), (32, 64), (64, 128)):
        status.error, status.site, status.kernel = OUT_OF_MEMORY, -1, len(device.runtime._kernels)
        message = f"(?s)E0902.*had {before << 20} bytes together; the next launch has {after << 20}"
        with pytest.raises(MemoryError, match=message):
            device.runtime.synchronize()
    status.error, status.kernel = OUT_OF_MEMORY, 1
    with pytest.raises(MemoryError, match="the GPU has no more to give"):
        device.runtime.synchronize()


def test_frames_of_threads_have_half_of_the_arena():
    text = """float spread(float x, int k)
    {
        float numbers[10000];
        numbers[k] = x * k;
        numbers[k / 2] = 1;
        return numbers[k];
    }"""
    with fake_gpu():
        device = spy.create_device("cuda")
        spread, other, huge = (
            spy.Module.load_from_source(device, f"of_{size}", text.replace("10000", size)).spread
            for size in ("10000", "20000", "500000")
        )
        x = tensor(device, np.arange(600))
        for function in (spread, other, spread):  # the driver looks at the blocks and at the arena
            assert function(x, 7).to_numpy().tolist() == [7.0 * n for n in range(600)]
        message = "E0902.*has 2000000 bytes of local arrays in each thread, and those of 256 do not fit"
        with pytest.raises(MemoryError, match=message):
            huge(x, 7)
        assert huge(2.0, 7) == 14.0 and spread(x, 7).to_numpy()[3] == 21.0


def test_fewer_blocks_run_where_memory_is_short():
    with fake_gpu():
        run, mb = spy.create_device("cuda").runtime, 1 << 20
        arena = Arena(run._driver, run._device, run.memory)
        assert [arena.blocks(mb, 7), arena.blocks(4 * mb, 9), arena.blocks(9 * mb, 9)] == [7, 2, 1]
        others = [run.allocate(size * mb) for size in (80, 80, 48)]
        assert arena.blocks(9 * mb, 9) == 1 and arena.blocks(40 * mb, 1) == 0
        assert arena.blocks(mb, 100) == 10  # memory of launches that are prepared stays
        del others
        assert arena.blocks(40 * mb, 1) == 1


def test_launches_state_their_arena():
    """An earlier launch may run while a larger arena is made for a later one."""
    with fake_gpu():
        device = spy.create_device("cuda")
        run = device.runtime
        power = spy.Module.load_from_source(device, "power", TAKING).power
        bound = power.bind_call(3, tensor(device, [2]), _result=tensor(device, [0]))
        bound()
        first = run._arena._block.address
        run._arena.grow()
        others = run.allocate(16 << 20)
        bound()  # the driver looks at the header
        assert others.address == first != run._arena._block.address


def test_check_mode_searches_memory_of_the_device(device):
    text = "float at(uint64_t p) { return *(float*)p; }"
    at = spy.Module.load_from_source(device, "at_an_address", text).at
    x = tensor(device, [1, 2, 3])
    start = x.storage.device_address
    with device.check_mode():
        assert at(start + 8) == 3
        for place in (start + 12, np.ones(1).ctypes.data):
            with pytest.raises(spy.PointerError, match="leads to no memory"):
                at(place)


# --- kernels that are kept


def test_machine_code_is_kept_by_driver_and_gpu(tmp_path):
    store = Store(str(tmp_path / "kernels"))
    options = replace(Options.from_environment(), store=store, verify=False)
    linked = []
    for version in (13000, 13000, 12080):
        with fake_gpu(version=version) as driver:
            device = spy.create_device("cuda", options=options)
            module = spy.Module.load_from_source(device, "kept", TEXT)
            driver.kernels.update(KERNELS)
            assert module.poly(tensor(device, [1])).to_numpy().tolist() == [9]
            KERNELS.update(driver.kernels)
            linked.append(len(driver.linked))
    assert linked == [1, 0, 1]


KERNELS = {}


def test_an_image_is_its_bytes():
    image = CudaImage(
        "k",
        16,
        b".version 8.1\n",
        "sm_90",
        (Site("a:1:2", "x", "y"),),
        True,
        (4, 2, 1),
        5000,
        frozenset({"prints"}),
    )
    read = CudaImage.from_bytes(image.to_bytes({"extra": [1]}))
    assert replace(read, about=None) == image and read.about == {"extra": [1]}
    kernel = read.kernel()
    assert kernel.image == read and (kernel.name, kernel.argument_size, kernel.sites) == (
        "k",
        16,
        image.sites,
    )


# --- grids


@pytest.mark.parametrize(
    ("grid", "blocks", "threads"),
    [
        ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
        ((1000, 1, 1), (4, 1, 1), (256, 1, 1)),
        ((3, 100, 2), (1, 2, 2), (4, 64, 1)),
        ((300, 1 << 20, 1), (2, 65535, 1), (256, 1, 1)),
        ((1, 1, 100_000), (1, 1, 65535), (1, 1, 1)),
        ((1 << 31, 1, 1), (1 << 23, 1, 1), (256, 1, 1)),
    ],
)
def test_blocks_of_a_grid(grid, blocks, threads):
    assert blocks_for(grid) == (blocks, threads)


def test_blocks_of_threads_with_several_elements():
    assert blocks_for((65, 8, 3), lanes=4) == ((1, 1, 3), (32, 8, 1))
    assert blocks_for((1025, 1, 1), lanes=4) == ((2, 1, 1), (256, 1, 1))


def test_few_blocks_go_on():
    assert blocks_for((5000, 1, 1), most=8) == ((8, 1, 1), (256, 1, 1))
    assert blocks_for((600, 9, 7), most=8) == ((3, 2, 1), (256, 1, 1))
    assert blocks_for((3, 100, 2), most=8) == ((1, 2, 2), (4, 64, 1))


def test_blocks_that_stay_are_no_more_than_there_is_work():
    assert blocks_that_stay((5000, 1, 1), (128, 1, 1), 8) == ((8, 1, 1), (128, 1, 1))
    assert blocks_that_stay((10, 13, 2), (128, 1, 1), 8) == ((3, 1, 1), (128, 1, 1))


def test_groups_stand_in_one_row_of_blocks():
    assert blocks_for((65, 8, 3), (32, 4, 1)) == ((3 * 2 * 3, 1, 1), (32, 4, 1))
    with pytest.raises(ValueError, match="4294967296 groups, and a GPU runs at most 2147483647"):
        blocks_for((1 << 31, 1 << 11, 1), (32, 32, 1))


def test_kernels_of_groups_ask_for_their_shared_memory(device, fake):
    text = """
    groupshared float kept[20000];
    [shader("compute")] [numthreads(4, 2, 1)]
    void reverse(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform float* x)
    {
        kept[t] = x[id.y * 4 + id.x];
        GroupMemoryBarrierWithGroupSync();
        x[id.y * 4 + id.x] = kept[7 - t];
    }
    """
    loaded = device.load_module_from_source("large_groups", text)
    kernel = device.create_compute_kernel(device.link_program([loaded], [loaded.entry_point("reverse")]))
    x = device.create_buffer(data=np.arange(8, dtype=np.float32))
    kernel.dispatch([4, 2, 1], x=x)
    assert x.to_numpy().view(np.float32).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert list(fake.shared.values()) == [80000]


# --- memory


def test_regions_are_read_written_and_cleared(device):
    runtime, full = device.runtime, np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    views = [np.s_[...], np.s_[1], np.s_[:, 1], np.s_[:, ::2, 1:3], np.s_[::-1, :, ::-2], np.s_[1, 2, 3, ...]]
    for view in views:
        block = runtime.allocate(full.nbytes)
        runtime.write(block.address, full)
        part = full[view]
        at = block.address + part.__array_interface__["data"][0] - full.__array_interface__["data"][0]
        region = MemoryRegion(at, part.shape, part.strides, FLOAT)
        np.testing.assert_array_equal(runtime.read(region), part)
        whole, wanted = MemoryRegion(block.address, full.shape, full.strides, FLOAT), full.copy()
        wanted[view] = -part
        runtime.put(region, -part)
        np.testing.assert_array_equal(runtime.read(whole), wanted)
        wanted[view] = 0
        runtime.clear(region)
        np.testing.assert_array_equal(runtime.read(whole), wanted)


def test_copies_may_overlap(device):
    runtime, values = device.runtime, np.arange(64, dtype=np.float32)
    block = runtime.allocate(values.nbytes)
    runtime.write(block.address, values)
    runtime.copy(block.address + 16, block.address, 128)
    values[4:36] = values[:32].copy()
    np.testing.assert_array_equal(runtime.read(MemoryRegion(block.address, (64,), (4,), FLOAT)), values)


@pytest.mark.parametrize(
    ("size", "pieces"),
    [(0, 0), (1, 1), (copies.SMALL, 1), (copies.SMALL + 1, 1), (copies.PIECE + 1, 2), (copies.LARGE + 7, 5)],
)
def test_arrays_travel_in_pieces(device, fake, size, pieces):
    values = np.arange(size, dtype=np.uint32).astype(np.uint8)
    block, target = device.runtime.allocate(size), np.empty_like(values)
    fake.calls.clear()
    device.runtime.write(block.address, values)
    device.runtime.fetch(target, block.address)
    np.testing.assert_array_equal(target, values)
    assert fake.calls.count("cuMemcpyHtoDAsync") == fake.calls.count("cuMemcpyDtoHAsync") == pieces


def test_pinned_memory_travels_at_once(device, fake):
    """And the call waits for it, because the caller may change the memory afterwards."""
    size = copies.LARGE
    _, address = fake.cuMemHostAlloc(size, 0)
    pinned = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
    pinned[:] = 7
    block = device.runtime.allocate(size)
    fake.calls.clear()
    device.runtime.write(block.address, pinned)
    assert fake.calls[-2:] == ["cuMemcpyHtoDAsync", "cuStreamSynchronize"]
    pinned[:] = 0
    fake.calls.clear()
    device.runtime.fetch(pinned, block.address)
    assert fake.calls.count("cuMemcpyDtoHAsync") == 1 and pinned.min() == 7
    part = np.empty(size - 1, np.uint8)
    device.runtime.fetch(part, block.address)
    assert part.min() == 7


@pytest.mark.parametrize("pinned", [1 << 10, 3 * copies.PIECE])
def test_arrays_travel_where_no_memory_can_be_pinned(pinned):
    with fake_gpu(pinned=pinned) as driver:
        device = spy.create_device("cuda")
        values = np.random.default_rng(1).random(copies.LARGE // 4 + 3, dtype=np.float32)
        np.testing.assert_array_equal(tensor(device, values).to_numpy(), values)
        assert driver.calls.count("cuMemcpyDtoHAsync") == (1 if pinned < copies.PIECE else 5)


def test_threads_copy_at_the_same_time(device):
    arrays = [np.full(copies.PIECE // 4 * 5 + 1, n, np.float32) for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        tensors = list(threads.map(lambda array: tensor(device, array), arrays))
        for array, copied in zip(arrays, threads.map(lambda t: t.to_numpy(), tensors), strict=True):
            np.testing.assert_array_equal(copied, array)


def test_an_error_of_a_thread_that_helps_is_raised(device, fake, monkeypatch):
    values = np.zeros(copies.LARGE, np.uint8)
    block = device.runtime.allocate(values.nbytes)
    monkeypatch.setattr(copies, "available_processors", lambda: 3)
    caller, send = get_ident(), fake.cuMemcpyHtoDAsync
    failed = Event()

    def fails(*arguments):
        if get_ident() == caller:
            assert failed.wait(10)
            return send(*arguments)
        failed.set()
        return (1,)

    monkeypatch.setattr(fake, "cuMemcpyHtoDAsync", fails, raising=False)
    with pytest.raises(drivers.CudaError, match="E1050"):
        device.runtime.write(block.address, values)


def test_freed_memory_is_used_again_without_the_driver(device, fake):
    tensor(device, range(100))
    fake.calls.clear()
    tensor(device, range(100))
    assert "cuMemAllocAsync" not in fake.calls and "cuMemFreeAsync" not in fake.calls


def test_memory_of_garbage_in_cycles_is_used_again(device):
    first = tensor(device, range(300))
    address, cycle = first.address, [first]
    cycle.append(cycle)
    del first, cycle
    gc.collect()
    again = tensor(device, range(300))
    assert again.address == address and again.to_numpy()[299] == 299


def test_no_memory_is_an_error_after_which_all_works(device, module):
    with pytest.raises(
        MemoryError, match=r"E0908.*no room for 17179869184 bytes \(\d+ bytes are in use\); del"
    ):
        spy.Tensor.zeros(device, (1 << 30,), "float4")
    assert module.poly(2.0) == 23


def test_a_launch_without_memory_gives_the_cache_back(device, fake, module):
    """Threads need stacks, which the driver takes from the same memory."""
    del [tensor(device, range(3000))][:]
    fake.launches_without_memory = 1
    assert device.memory_report().cached > 0 and module.poly(2.0) == 23
    fake.launches_without_memory = 2
    with pytest.raises(MemoryError, match=r"E0908.*no room for the stacks of all threads of kernel .*in use"):
        module.poly(2.0)
    assert module.poly(2.0) == 23 and not fake.launches_without_memory


def test_memory_is_reported():
    with fake_gpu():
        device = spy.create_device("cuda")
        empty = device.memory_report()
        assert (empty.in_use, empty.blocks, empty.launches, empty.free) == (0, 0, 0, empty.total)
        a, b = (spy.Tensor.zeros(device, (1 << 18,), "float") for _ in range(2))
        del b
        report = device.memory_report()
        assert (report.in_use, report.peak, report.cached, report.blocks) == (1 << 20, 2 << 20, 1 << 20, 1)
        assert report.total - report.free == 2 << 20
        lines = ["in use 1.0 MiB in 1 blocks", "at most 2.0 MiB", "of launches 0.0 MiB", "cached 1.0 MiB"]
        assert [" ".join(line.split()) for line in str(report).split("\n")] == [
            *lines,
            "free 254.0 MiB of 256.0 MiB",
        ]
        (heap,) = device.report_heaps()
        assert (heap.label, heap.total_mem_usage, heap.total_allocated) == ("A fake GPU", 1 << 20, 2 << 20)
        spy.Module.load_from_source(device, "power", TAKING).power(3, a[:256])
        assert device.memory_report().launches == 16 << 20


def test_elements_are_assigned_and_copied(device):
    t = tensor(device, np.arange(12).reshape(3, 4))
    t[1] = 5
    t[:, 0] = np.array([7, 8, 9], np.float32)
    t[2] = t[0]
    made = t.copy()
    assert made.to_numpy().tolist() == [[7, 1, 2, 3], [8, 5, 5, 5], [7, 1, 2, 3]]
    assert made[:, 1].tolist() == [1, 5, 1]
    with pytest.raises(BufferError, match="cannot reach"):
        made.host_view()


def test_a_closed_device_gives_its_memory_back():
    with fake_gpu() as driver:
        device = spy.create_device("cuda")
        tensor(device, range(10))
        device.close()
        assert not driver.arena.sizes
        with pytest.raises(RuntimeError, match="E1023"):
            device.runtime.allocate(4)


def test_a_gpu_that_is_lost_is_told_by_all_later_calls():
    with fake_gpu():
        device = spy.create_device("cuda")
        module = spy.Module.load_from_source(device, "far", "void far(float* p) { *p = 1; }")
        kept = tensor(device, range(3))
        module.far(np.zeros(1, np.float32).ctypes.data)
        with pytest.raises(
            drivers.DeviceLost, match=r"E1051.*lost the GPU since .* kernel 'kernel': .*illegal address"
        ):
            device.synchronize()
        for call in (kept.to_numpy, lambda: tensor(device, [1]), lambda: module.far(0)):
            with pytest.raises(drivers.DeviceLost, match="start a new process"):
                call()
        del kept
        gc.collect()
        device.close()


def test_new_arrays_of_the_host_are_results(module):
    made = module.poly(np.arange(4, dtype=np.float32), _result="numpy")
    assert type(made) is np.ndarray and made.tolist() == [-1, 9, 23, 41]


def test_errors_of_the_driver_have_its_words():
    driver = drivers.Driver(FakeBindings())
    error = driver.error("cuLaunchKernel", 1)
    assert str(error) == (
        "error[E1050]: the CUDA driver: cuda error invalid value (CUDA_ERROR_INVALID_VALUE, from cuLaunchKernel)"
    )


# --- streams of PyTorch


class FakeTorch:
    """The part of PyTorch that tells its current stream."""

    def __init__(self):
        self.stream = 0
        self.initialized = False
        self.cuda = self._C = self

    def is_initialized(self):
        return self.initialized

    def is_available(self):
        return False

    def _cuda_getCurrentRawStream(self, index):
        return self.stream


@pytest.fixture
def torch_streams():
    """A device of its own, whose launches and events are noted with their streams."""
    torch = FakeTorch()
    with fake_gpu() as driver:
        driver.torch = torch
        gpu = spy.create_device("cuda")
        try:
            yield torch, driver, gpu, spy.Module.load_from_source(gpu, "on_streams", TEXT)
        finally:
            gpu.close()


def test_launches_follow_the_stream_of_pytorch(torch_streams):
    torch, driver, gpu, module = torch_streams
    t = tensor(gpu, [1, 2])
    module.bump(t)
    own = driver.used[-1]
    torch.initialized = True
    for stream in (0, 7, 7, 0):
        torch.stream = stream
        module.bump(t)
        assert driver.used[-1] == ("stream", stream)
    assert own != ("stream", 0)
    assert driver.waits == [
        (("stream", 0), own),
        (("stream", 7), ("stream", 0)),
        (("stream", 0), ("stream", 7)),
    ]
    assert t.to_numpy().tolist() == [6, 7]


def test_a_graph_waits_for_nothing_outside(torch_streams):
    torch, driver, gpu, module = torch_streams
    t = tensor(gpu, [1, 2])
    torch.initialized = True
    module.bump(t)
    before = len(driver.waits)
    torch.stream = 5
    driver.capturing = {("stream", 5)}
    module.bump(t)
    assert driver.used[-1] == ("stream", 5) and len(driver.waits) == before
    for wrong in (t.to_numpy, gpu.synchronize, lambda: module.poly(t), lambda: tensor(gpu, [1])):
        with pytest.raises(RuntimeError, match="E1052"):
            wrong()
    driver.capturing = set()
    torch.stream = 0
    module.bump(t)
    assert driver.waits[before:] == [(("stream", 0), ("stream", 5))]


def test_other_libraries_wait(torch_streams):
    _, driver, gpu, _ = torch_streams
    t = tensor(gpu, [1, 2])
    own = driver.used[-1]
    gpu.sync_to_device(9)
    gpu.sync_to_cuda(9)
    assert driver.waits == [(("stream", 9), own), (own, ("stream", 9))]
    assert t.__dlpack_device__() == (2, 0)
    capsule = t.__dlpack__(stream=4)
    assert driver.waits[2:] == [(("stream", 4), own)]
    del capsule
    assert not gpu_exchange._kept
    shown = t.__cuda_array_interface__
    assert shown["data"] == (t.address, False) and shown["shape"] == (2,) and shown["typestr"] == "<f4"
    assert type(shown["shape"]) is tuple is type(shown["strides"])  # CuPy takes no subclass
    assert np.from_dlpack(t, device="cpu").tolist() == [1, 2]


class OfALibrary:
    """An array of another library on the GPU."""

    def __init__(self, tensor, index=0, **changed):
        self.tensor, self.index = tensor, index
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | changed

    def __dlpack_device__(self):
        return 2, self.index


def test_arrays_of_other_libraries(device, module):
    owner = tensor(device, [[1, 2, 3], [4, 5, 6]])
    shared = spy.Tensor.from_dlpack(device, OfALibrary(owner))
    module.bump(shared)
    assert owner.to_numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    vectors = spy.Tensor.from_dlpack(device, OfALibrary(owner, strides=None), dtype="float3")
    assert vectors.shape == (2,) and vectors.to_numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    frozen = spy.Tensor.from_dlpack(device, OfALibrary(owner, data=(owner.address, True)))
    assert not frozen.writable
    copied = spy.Tensor.from_dlpack(device, OfALibrary(owner), copy=True)
    assert copied.address != owner.address and copied.to_numpy().tolist() == owner.to_numpy().tolist()
    columns = OfALibrary(owner[:, ::2])
    assert spy.Tensor.from_dlpack(device, columns).to_numpy().tolist() == [[2, 4], [5, 7]]
    for wrong, message in (
        (lambda: spy.Tensor.from_dlpack(device, columns, dtype="float2"), "cannot be used as it lies"),
        (lambda: spy.Tensor.from_dlpack(device, OfALibrary(owner, index=1)), "another GPU, number 1"),
        (lambda: owner.to_torch(), "this PyTorch does not have the GPU"),
        (lambda: owner.__dlpack__(dl_device=(1, 0), copy=False), "dl_device"),
    ):
        with pytest.raises(BufferError, match=message):
            wrong()


LIGHT = """
[Differentiable]
double light(DiffTensor<double, 2> q, no_diff double x, int count)
{
    double left = 1 + x;
    for (int i = 0; i < count; i++)
        left *= 1 - q[i, 0] * exp(-x * q[i, 1]) - left * q[i, 1];
    return left;
}
"""


@pytest.mark.parametrize("count", [0, 1, 5])
def test_values_that_reverse_mode_reads_again(device, count):
    """The numbers of the CPU, and finite differences; elements lie apart in memory."""
    q, x = np.random.default_rng(3).uniform(0.1, 0.4, (max(count, 1), 4)), np.linspace(0.5, 1.5, 3)

    def gradient(device):
        light = spy.Module.load_from_source(device, "light", LIGHT).light
        values = spy.Tensor.from_numpy(device, q.copy())[:, 1:3].with_grads()
        y = spy.Tensor.zeros(device, (3,), "double").with_grads(spy.Tensor.ones(device, (3,), "double"))
        light.bwds(values, spy.Tensor.from_numpy(device, x), count, _result=y)
        return values.grad.to_numpy()

    def loss(part):
        left = 1 + x
        for opacity, rate in part[:count]:
            left = left * (1 - opacity * np.exp(-x * rate) - left * rate)
        return left.sum()

    part, differences = q[:, 1:3].copy(), np.zeros_like(q[:, 1:3])
    for place in np.ndindex(part.shape):
        step = np.zeros_like(part)
        step[place] = 1e-6
        differences[place] = (loss(part + step) - loss(part - step)) / 2e-6
    found = gradient(device)
    np.testing.assert_allclose(found, gradient(spy.create_device("cpu")), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found, differences, rtol=1e-7, atol=1e-9)


def test_fast_math_has_the_derivatives_of_the_exact_functions():
    text = "[Differentiable] float wave(float x) { return sin(x) * exp(-x * x) / sqrt(1 + x * x) + log(1 + x * x); }"
    x = np.linspace(-2, 2, 9).astype(np.float32)

    def gradient(name, **options):
        device = spy.create_device(name, options=spy.Options(**options))
        inputs = spy.Tensor.from_numpy(device, x).with_grads()
        y = spy.Tensor.zeros(device, x.shape, "float").with_grads(spy.Tensor.ones(device, x.shape, "float"))
        spy.Module.load_from_source(device, "wave", text).wave.bwds(inputs, _result=y)
        return inputs.grad.to_numpy()

    with fake_gpu():
        np.testing.assert_allclose(gradient("cuda", fast_math=True), gradient("cpu"), rtol=1e-5, atol=1e-6)


SQUARES = """
[Differentiable]
double square(ITensor<double, 1> table, int index, double weight) { return table[index] * table[index] * weight; }
"""


@pytest.mark.parametrize(("size", "count"), [(1, 0), (1, 1), (3, 37), (5, 600)])
@pytest.mark.parametrize("step", [1, 3])
def test_gradients_of_a_table_of_a_group(device, size, count, step):
    """Reverse mode, forward mode and finite differences agree, for tables whose elements lie apart, too."""
    rng = np.random.default_rng(size)
    table, direction = rng.uniform(1, 2, (2, step * size))
    index, weight = rng.integers(0, size, count, dtype=np.int32), rng.uniform(-1, 1, count)
    module = spy.Module.load_from_source(device, "squares", SQUARES)

    def placed(values):
        return spy.Tensor.from_numpy(device, values.copy())

    def doubles():
        return spy.Tensor.zeros(device, (count,), "double")

    given = placed(index), placed(weight)
    rows = placed(table)[::step].with_grads()
    result = doubles().with_grads(spy.Tensor.ones(device, (count,), "double"))
    module.square.bwds(rows, *given, _result=result)
    gradient = rows.grad.to_numpy()
    tangent = placed(table)[::step].with_grads(placed(direction)[::step])
    change = doubles().with_grads()
    module.square.fwds(tangent, *given, _result=change)
    np.testing.assert_allclose(
        change.grad.to_numpy().sum(), gradient @ direction[::step], rtol=1e-12, atol=1e-12
    )
    values, differences = table[::step], np.zeros(size)
    for place in range(size):
        moved = np.eye(size)[place] * 1e-6
        both = [((values + sign * moved)[index] ** 2 * weight).sum() for sign in (1, -1)]
        differences[place] = (both[0] - both[1]) / 2e-6
    np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-7)
    product, _, _ = spy.hvp(module.square, (rows.detach(), *given), (placed(direction)[::step], None, None))
    expected = 2 * direction[::step] * np.bincount(index, weight, size)
    np.testing.assert_allclose(product.to_numpy(), expected, rtol=1e-12, atol=1e-12)


POLYNOMIAL = """
[Differentiable]
float polynomial(DiffTensor<float, 1> q, no_diff float at, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum = sum * at + q[i];
    return sum;
}
"""


@pytest.mark.parametrize("length", [8, 5])
def test_checks_that_the_launch_decides(device, length):
    """Where an index is out of range, the form with all checks reports it, and the other adds are made."""
    at = np.arange(200, dtype=np.float32) % 3
    q = spy.Tensor.zeros(device, (length,), "float").with_grads(spy.Tensor.zeros(device, (length,), "float"))
    y = spy.Tensor.zeros(device, at.shape, "float").with_grads(spy.Tensor.ones(device, at.shape, "float"))
    polynomial = spy.Module.load_from_source(device, "polynomial", POLYNOMIAL).polynomial
    polynomial.bwds(q, spy.Tensor.from_numpy(device, at), 8, _result=y)
    if length < 8:
        with pytest.raises(IndexError, match="5"):
            device.synchronize()
    expected = [(at.astype(float) ** (7 - i)).sum() for i in range(length)]
    assert q.grad.to_numpy().tolist() == expected


DOT = """
float dot_of_row(Tensor<float, 2> a, int row, Tensor<float, 1> b, int count)
{
    float sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[row, i] * b[i];
    return sum;
}
"""


@pytest.mark.parametrize(("rows", "length", "count"), [(3, 5, 5), (3, 5, 0), (1, 1, 1), (3, 4, 5), (0, 2, 2)])
def test_loops_without_checks(device, rows, length, count):
    """The launch decides; an index out of range reads zero and is reported as ever."""
    a, b = (
        np.arange(rows * 5, dtype=np.float32).reshape(rows, 5)[:, :length],
        np.arange(length, dtype=np.float32),
    )
    module = spy.Module.load_from_source(device, "dots", DOT)
    tensors = spy.Tensor.from_numpy(device, a), spy.Tensor.from_numpy(device, b)
    result = spy.Tensor.zeros(device, (rows,), "float")
    module.dot_of_row(tensors[0], spy.grid((rows,)), tensors[1], count, _result=result)
    if rows and count > length:
        with pytest.raises(IndexError):
            device.synchronize()
    assert result.to_numpy().tolist() == (a[:, :count] @ b[:count]).tolist()
