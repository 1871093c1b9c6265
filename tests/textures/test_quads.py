"""Differences between the threads of a quad, and the levels of detail that follow from them."""

import numpy as np
import pytest

import slangrad as spy

F = np.float32

TEXT = """
RWStructuredBuffer<float> results;
Texture2D<float4> image;
SamplerState smooth;

static float value(uint3 id) { return 10 * id.x * id.x + 3 * id.y * id.y + id.x * id.y + 100 * id.z; }

void put(uint3 id, uint3 size)
{
    float x = value(id);
    float2 uv = float2(id.xy * id.xy) / 64.0f;
    float2 both = ddx(float2(x, -x));
    uint at = 10 * ((id.z * size.y + id.y) * size.x + id.x);
    float parts[10] = {
        ddx_fine(x), ddy_fine(x), ddx(x), ddy(x), both.y, fwidth(x), fwidth_fine(x), fwidth_coarse(x),
        image.CalculateLevelOfDetail(smooth, uv), image.CalculateLevelOfDetailUnclamped(smooth, uv)
    };
    for (int k = 0; k < 10; k++)
        results[at + k] = parts[k];
}

[shader("compute")] [numthreads(8, 1, 1)] void row(uint3 id : SV_DispatchThreadID) { put(id, uint3(8, 1, 1)); }
[shader("compute")] [numthreads(4, 2, 1)] void tile(uint3 id : SV_DispatchThreadID) { put(id, uint3(8, 4, 1)); }
[shader("compute")] [numthreads(16, 2, 2)] void thick(uint3 id : SV_DispatchThreadID) { put(id, uint3(16, 2, 2)); }
[shader("compute")] [DerivativeGroupLinear] [numthreads(6, 2, 1)]
void linear(uint3 id : SV_DispatchThreadID) { put(id, uint3(6, 2, 1)); }
"""

# The kernel, its threads as (z, y, x), and whether four threads with consecutive numbers are a quad.
CASES = [
    ("row", (1, 1, 8), True),
    ("tile", (1, 4, 8), False),
    ("thick", (2, 2, 16), False),
    ("linear", (1, 2, 6), True),
]


def quads_of(values, is_linear):
    """Indices of the left upper, right upper, left lower and right lower thread of each thread's quad."""
    numbers = np.arange(values.size).reshape(values.shape)
    if is_linear:
        first = numbers & ~3
        return [first, first + 1, first + 2, first + 3]
    z, y, x = np.indices(values.shape)
    width, height = values.shape[2], values.shape[1]
    first = (z * height + (y & ~1)) * width + (x & ~1)
    return [first, first + 1, first + width, first + width + 1]


def expected(shape, is_linear):
    z, y, x = np.indices(shape).astype(np.float64)
    values = 10 * x * x + 3 * y * y + x * y + 100 * z
    quads = quads_of(values, is_linear)
    a, b, c, d = (values.ravel()[quad] for quad in quads)
    numbers = np.arange(values.size).reshape(shape)
    in_column = np.isin(numbers, np.concatenate([quads[1].ravel(), quads[3].ravel()]))
    in_row = np.isin(numbers, np.concatenate([quads[2].ravel(), quads[3].ravel()]))
    fine = np.where(in_row, d - c, b - a), np.where(in_column, d - b, c - a)
    uv = np.stack([x * x / 64, y * y / 64], -1).reshape(-1, 2)
    steps = [np.linalg.norm((uv[quads[k]] - uv[quads[0]]) * (16, 8), axis=-1) for k in (1, 2)]
    with np.errstate(divide="ignore"):
        level = np.log2(np.maximum(*steps)) + 0.5
    sums = abs(b - a) + abs(c - a)
    clamped = np.clip(level, 0, 4)
    return np.stack([*fine, b - a, c - a, a - b, sums, abs(fine[0]) + abs(fine[1]), sums, clamped, level], -1)


@pytest.mark.parametrize(("entry", "shape", "is_linear"), CASES)
def test_differences_and_levels(device, entry, shape, is_linear) -> None:
    module = device.load_module_from_source("quads", TEXT)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point(entry)]))
    image = device.create_texture(format=spy.Format.rgba32_float, width=16, height=8, mip_count=spy.ALL_MIPS)
    results = device.create_buffer(data=np.zeros((*shape, 10), F), struct_size=4)
    smooth = device.create_sampler(mip_lod_bias=0.5)
    given = {"results": results, "image": image, "smooth": smooth}
    kernel.dispatch(list(reversed(shape)), vars=given)
    found = results.to_numpy().view(F).reshape(*shape, 10)
    np.testing.assert_allclose(found, expected(shape, is_linear), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group", ["3, 1, 1", "32, 2, 1", "4, 3, 1", "12, 2, 1"])
def test_groups_without_quads(device, group) -> None:
    text = TEXT.replace("8, 1, 1)] void", f"{group})] void")
    module = device.load_module_from_source("without", text)
    with pytest.raises(spy.CompileError, match=r"E9002.*whose group has quads"):
        device.create_compute_kernel(device.link_program([module], [module.entry_point("row")]))


def test_calls_have_no_quads(device) -> None:
    module = spy.Module.load_from_source(device, "call", "float f(float x) { return ddx(x); }")
    with pytest.raises(spy.CallError, match="E9002"):
        module.f(np.zeros(8, F))
