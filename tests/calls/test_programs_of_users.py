"""Programs as users write them: waves in tiles, modules that import each other, lists that threads link at once."""

import numpy as np

import slangrad as spy


def kernel_of(device, name, text, entry):
    module = device.load_module_from_source(name, text)
    return device.create_compute_kernel(device.link_program([module], [module.entry_point(entry)]))


HISTOGRAM = """
[shader("compute")] [numthreads(16, 16, 1)]
void histogram(uint3 id : SV_DispatchThreadID, uniform Tensor<float, 2> image, uniform RWTensor<uint, 1> bins)
{
    uint rows, columns;
    image.GetDimensions(rows, columns);
    if (id.y >= rows || id.x >= columns)
        return;
    uint bin = min(uint(image[id.y, id.x] * 8), 7u);
    WaveMask same = WaveMatch(bin).x;
    if (WaveMaskIsFirstLane(same))
        InterlockedAdd(bins[bin], countbits(same));
}
"""


def test_a_histogram_adds_once_for_each_bin_of_a_wave(device):
    image = np.random.default_rng(1).random((37, 53)).astype(np.float32)
    bins = spy.Tensor.zeros(device, (8,), "uint")
    kernel = kernel_of(device, "user_histogram", HISTOGRAM, "histogram")
    kernel.dispatch([64, 48, 1], image=spy.Tensor.from_numpy(device, image), bins=bins)
    expected = np.bincount(np.minimum((image * 8).astype(int), 7).ravel(), minlength=8)
    assert bins.to_numpy().tolist() == expected.tolist()


SPLATTING = """
struct Splat : IDifferentiable { float2 center; float size; float color; }

static const int kBatch = 8;
groupshared Splat batch[kBatch];

[Differentiable] float light(Splat s, no_diff float2 p)
{
    float2 d = (p - s.center) / s.size;
    return s.color * exp(-dot(d, d));
}

// The light of all splats at a pixel, and then the gradient of the squared error. A wave adds up before it goes to memory.
[shader("compute")] [numthreads(16, 16, 1)]
void splat(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform Splat* splats, uniform int count,
    uniform Tensor<float, 2> wanted, uniform RWTensor<float, 2> image, uniform AtomicTensor<float, 2> gradient)
{
    uint2 size = uint2(image.shape[1], image.shape[0]);
    bool inside = all(id.xy < size);
    float2 p = float2(id.xy) / 16;
    float value = 0;
    for (int begin = 0; begin < count; begin += kBatch)
    {
        if (int(t) < min(kBatch, count - begin))
            batch[t] = splats[begin + t];
        GroupMemoryBarrierWithGroupSync();
        for (int i = 0; i < min(kBatch, count - begin); i++)
            value += light(batch[i], p);
        GroupMemoryBarrierWithGroupSync();
    }
    if (!inside)
        return;
    image[id.y, id.x] = value;
    float error = 2 * (value - wanted[id.y, id.x]);
    for (int i = 0; i < count; i++)
    {
        var s = diffPair(splats[i]);
        bwd_diff(light)(s, p, error);
        float4 sum = WaveActiveSum(float4(s.d.center, s.d.size, s.d.color));
        if (WaveIsFirstLane())
            for (int k = 0; k < 4; k++)
                gradient.add(i, k, sum[k]);
    }
}
"""


def test_splatting_in_tiles_of_16_by_16(device):
    rng = np.random.default_rng(2)
    count, shape = 11, (19, 23)
    splats = np.concatenate(
        [rng.uniform(0, 2.5, (count, 2)), rng.uniform(0.3, 0.8, (count, 1)), rng.uniform(0, 1, (count, 1))], 1
    ).astype(np.float32)
    wanted = rng.random(shape).astype(np.float32)
    image = spy.Tensor.zeros(device, shape, "float")
    gradient = spy.Tensor.zeros(device, (count, 4), "float")
    kernel_of(device, "user_splats", SPLATTING, "splat").dispatch(
        [32, 32, 1],
        splats=device.create_buffer(data=splats),
        count=count,
        wanted=spy.Tensor.from_numpy(device, wanted),
        image=image,
        gradient=gradient,
    )

    def rendered(splats):
        rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]] / 16
        total = np.zeros(shape)
        for x, y, size, color in splats:
            total += color * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / size**2)
        return total

    def loss(splats):
        return ((rendered(splats) - wanted) ** 2).sum()

    exact = splats.astype(np.float64)
    np.testing.assert_allclose(image.to_numpy(), rendered(exact), rtol=1e-4, atol=1e-5)
    differences = np.zeros((count, 4))
    for i, k in np.ndindex(count, 4):
        step = np.zeros((count, 4))
        step[i, k] = 1e-5
        differences[i, k] = (loss(exact + step) - loss(exact - step)) / 2e-5
    np.testing.assert_allclose(gradient.to_numpy(), differences, rtol=2e-3, atol=2e-2)


TRACER = {
    "rays": """
        import surfaces;
        struct Ray : IDifferentiable { double2 origin; double2 direction; }
        [Differentiable] double radiance(Ray ray, double albedo, int depth)
        {
            if (depth == 0)
                return ray.direction.y * ray.direction.y;
            return shade(hit(ray), albedo, depth);
        }
    """,
    "surfaces": """
        import rays;
        import materials;
        struct Hit : IDifferentiable { double2 point; double2 normal; double2 incoming; }
        [Differentiable] Hit hit(Ray ray)
        {
            double t = (2 - ray.origin.y * 0.5) / (1.5 + ray.direction.y);
            double2 point = ray.origin + t * ray.direction;
            Hit found = { point, normalize(double2(sin(point.x), 1)), ray.direction };
            return found;
        }
        [Differentiable] double shade(Hit h, double albedo, int depth)
        {
            return emitted(h) + albedo * radiance(bounced(h), albedo, depth - 1);
        }
    """,
    "materials": """
        import surfaces;
        import rays;
        [Differentiable] double emitted(Hit h) { return exp(-dot(h.point, h.point)); }
        [Differentiable] Ray bounced(Hit h) { return { h.point, reflect(h.incoming, h.normal) }; }
    """,
    "tracer": """
        import rays;
        [Differentiable] double seen(double x, double angle, double albedo, int depth)
        {
            Ray ray = { double2(x, 0), double2(sin(angle), cos(angle)) };
            return radiance(ray, albedo, depth);
        }
    """,
}


def test_a_tracer_of_modules_that_import_each_other(device, tmp_path):
    for name, text in TRACER.items():
        (tmp_path / f"{name}.slang").write_text(text)
    tracer = spy.Module.load_from_file(device, str(tmp_path / "tracer.slang"))

    def ray(origin, direction, albedo, depth):
        if depth == 0:
            return direction[1] ** 2
        t = (2 - origin[1] * 0.5) / (1.5 + direction[1])
        point = origin + t * direction
        normal = np.array([np.sin(point[0]), 1]) / np.hypot(np.sin(point[0]), 1)
        bounced = direction - 2 * np.dot(direction, normal) * normal
        return np.exp(-np.dot(point, point)) + albedo * ray(point, bounced, albedo, depth - 1)

    def seen(x, angle, albedo):
        return ray(np.array([x, 0.0]), np.array([np.sin(angle), np.cos(angle)]), albedo, 3)

    arguments = np.array([0.3, 0.5, 0.7])
    assert abs(tracer.seen(*arguments, 3) - seen(*arguments)) < 1e-12
    gradients = spy.grad(tracer.seen, argnums=(0, 1, 2))(*arguments, 3)
    for k, gradient in enumerate(gradients):
        step = np.eye(3)[k] * 1e-6
        assert abs(gradient - (seen(*arguments + step) - seen(*arguments - step)) / 2e-6) < 1e-7


LISTS = """
struct Entry { int value; Entry* next; }

// Threads link their entries into the list of their cell.
void enter(int i, int cell, Entry* entries, uint64_t* heads)
{
    Entry* own = entries + i;
    own.value = i;
    uint64_t before;
    InterlockedExchange(heads[cell], uint64_t(own), before);
    own.next = (Entry*)before;
}

int2 summed(int cell, uint64_t* heads)
{
    int2 found = 0;
    for (Entry* e = (Entry*)heads[cell]; e != nullptr; e = e.next)
        found += int2(1, e.value);
    return found;
}
"""


def test_threads_link_lists_at_once(device):
    module = spy.Module.load_from_source(device, "user_lists", LISTS)
    cells = np.random.default_rng(3).integers(0, 9, 200).astype(np.int32)
    entries = spy.NDBuffer(device, module.Entry, len(cells))
    heads = device.create_buffer(data=np.zeros(9, np.uint64))
    places = entries.storage.device_address, heads.device_address
    module.enter(np.arange(len(cells), dtype=np.int32), cells, *places)
    found = module.summed(np.arange(9, dtype=np.int32), places[1], _result="numpy")
    assert found[:, 0].tolist() == np.bincount(cells, minlength=9).tolist()
    assert found[:, 1].tolist() == [int(np.flatnonzero(cells == cell).sum()) for cell in range(9)]
