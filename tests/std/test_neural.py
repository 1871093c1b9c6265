"""slang.neural: vectors, layers, activations and encoders against NumPy and differences, in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy

STEP = 1e-6

NETWORK = """
import slang.neural;
#ifndef LAYOUT
#define LAYOUT LinearLayout
#endif
typealias Address = PointerAddress<double>;
typealias V3 = InlineVector<double, 3>;
typealias V5 = InlineVector<double, 5>;
typealias V2 = InlineVector<double, 2>;
typealias First = FFLayer<double, V3, V5, LAYOUT, TanhActivation<double>>;
typealias Second = FFLayer<double, V5, V2, LAYOUT, LeakyReLU<double>, false>;

[Differentiable]
V2 network(V3 x, Address parameters)
{
    V5 hidden = First().eval<Address>(x, parameters);
    Second second = Second(LeakyReLU<double>(0.2lf));
    return second.eval<Address>(hidden, parameters.getOffset(First.nextOffset(0)));
}

double[2] values(double[3] x, double* parameters)
{
    V2 y = network(V3(x), Address(parameters));
    return { y[0], y[1] };
}

double[2] forward(double[3] x, double[3] dx, double* parameters, double* changes)
{
    let pair = DifferentialPtrPair<Address>(Address(parameters), Address(changes));
    let y = fwd_diff(network)(diffPair(V3(x), V3(dx)), pair);
    return { y.d[0], y.d[1] };
}

double[3] reverse(double[3] x, double* parameters, double* gradients, double[2] dy)
{
    var pair = diffPair(V3(x));
    bwd_diff(network)(pair, DifferentialPtrPair<Address>(Address(parameters), Address(gradients)), V2(dy));
    return { pair.d[0], pair.d[1], pair.d[2] };
}

[Differentiable]
V3 slopes(V3 x, no_diff double* parameters, no_diff double* unused)
{
    var pair = diffPair(x);
    bwd_diff(network)(pair, DifferentialPtrPair<Address>(Address(parameters), Address(unused)), V2(1.0lf));
    return pair.d;
}

double[3] nested(double[3] x, double[3] dx, double* parameters, double* unused)
{
    let change = fwd_diff(slopes)(diffPair(V3(x), V3(dx)), parameters, unused).d;
    return { change[0], change[1], change[2] };
}

int[4] sizes() { return { First.ParameterCount, First.StorageSize, Second.StorageSize, Second.nextOffset(7) }; }
"""


def buffer(device: spy.Device, numbers: np.ndarray) -> spy.Buffer:
    usage = spy.BufferUsage.unordered_access
    return device.create_buffer(data=numbers, struct_size=numbers.dtype.itemsize, usage=usage)


def tiles(weights: np.ndarray) -> np.ndarray:
    """A matrix as OptimalLayout has it: whole tiles one after the other."""
    rows, columns = (-(-size // 16) for size in weights.shape)
    padded = np.zeros((rows * 16, columns * 16))
    padded[: weights.shape[0], : weights.shape[1]] = weights
    return padded.reshape(rows, 16, columns, 16).transpose(0, 2, 1, 3).ravel()


def layer(weights: np.ndarray, bias: np.ndarray | None, layout: str) -> np.ndarray:
    offsets = np.zeros(0) if bias is None else bias
    if layout == "LinearLayout":
        return np.concatenate([weights.ravel(), offsets])
    return np.concatenate([tiles(weights), offsets, np.zeros(16 - len(offsets))])


@pytest.mark.parametrize("layout", ["LinearLayout", pytest.param("OptimalLayout", marks=pytest.mark.deep)])
def test_a_network(layout: str) -> None:
    device = spy.create_device(defines={"LAYOUT": layout})
    module = spy.Module.load_from_source(device, "network", NETWORK)
    random = np.random.default_rng(5)
    w1, b1, w2 = random.normal(size=(5, 3)), random.normal(size=5), random.normal(size=(2, 5))
    x, dx, dy = random.normal(size=3), random.normal(size=3), random.normal(size=2)
    numbers = np.concatenate([layer(w1, b1, layout), layer(w2, None, layout)])
    first, second = (20, 10) if layout == "LinearLayout" else (272, 272)
    assert list(module.sizes()) == [20, first, second, 7 + second]

    def values(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        memory = buffer(device, numbers)
        return np.array(module.values(list(x), memory.device_address))

    sums = w2 @ np.tanh(w1 @ x + b1)
    np.testing.assert_allclose(values(x, numbers), np.where(sums < 0, 0.2 * sums, sums), rtol=1e-12)

    parameters, gradients = buffer(device, numbers), buffer(device, np.zeros_like(numbers))
    x_slope = np.array(module.reverse(list(x), parameters.device_address, gradients.device_address, list(dy)))
    slope = gradients.to_numpy().view(np.float64)
    changes = random.normal(size=len(numbers))
    differences = values(x + STEP * dx, numbers + STEP * changes) - values(
        x - STEP * dx, numbers - STEP * changes
    )
    memory = buffer(device, changes)
    tangent = np.array(module.forward(list(x), list(dx), parameters.device_address, memory.device_address))
    np.testing.assert_allclose(tangent, differences / (2 * STEP), rtol=1e-7)
    np.testing.assert_allclose(x_slope @ dx + slope @ changes, tangent @ dy, rtol=1e-12)

    unused = buffer(device, np.zeros_like(numbers)).device_address
    nested = np.array(module.nested(list(x), list(dx), parameters.device_address, unused))
    near = [
        np.array(module.reverse(list(x + s * STEP * dx), parameters.device_address, unused, [1.0, 1.0]))
        for s in (1, -1)
    ]
    np.testing.assert_allclose(nested, (near[0] - near[1]) / (2 * STEP), rtol=1e-6)


ACTIVATIONS = {
    "IdentityActivation": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0),
    "LeakyReLU": lambda x: np.where(x < 0, 0.01 * x, x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "TanhActivation": np.tanh,
    "ExpActivation": np.exp,
    "SineActivation": np.sin,
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "QuickGELU": lambda x: x / (1 + np.exp(-1.702 * x)),
}


def test_activations() -> None:
    cases = "".join(
        f"""
        V y{name} = {name}<double>().eval<V>(V(x));
        var x{name} = diffPair(V(x));
        bwd_diff(apply<{name}<double>>)(x{name}, V(1.0lf));
        let f{name} = fwd_diff(apply<{name}<double>>)(diffPair(V(x), V(1.0lf)));
        for (int i = 0; i < 4; i++)
        {{
            results[{3 * number} * 4 + i] = y{name}[i];
            results[{3 * number + 1} * 4 + i] = x{name}.d[i];
            results[{3 * number + 2} * 4 + i] = f{name}.d[i];
        }}"""
        for number, name in enumerate(ACTIVATIONS)
    )
    text = f"""
    import neural;
    typealias V = InlineVector<double, 4>;
    [Differentiable] V apply<A : IActivation<double>>(V x) {{ return A().eval<V>(x); }}
    double[{12 * len(ACTIVATIONS)}] run(double[4] x) {{ double results[{12 * len(ACTIVATIONS)}]; {cases} return results; }}
    """
    module = spy.Module.load_from_source(spy.create_device(), "activations", text)
    x = np.array([-2.5, -0.3, 0.7, 3.0])
    results = np.array(module.run(list(x))).reshape(len(ACTIVATIONS), 3, 4)
    for (values, reverse, forward), function in zip(results, ACTIVATIONS.values()):
        np.testing.assert_allclose(values, function(x), rtol=1e-12)
        np.testing.assert_allclose(reverse, (function(x + STEP) - function(x - STEP)) / (2 * STEP), rtol=1e-7)
        np.testing.assert_allclose(forward, reverse, rtol=1e-14)


GROUP = """
import slang.neural;
typealias Size = SharedMemorySize<float, TargetEnum.CUDA, ExecutionMode.Training, 32, 2, 4, 3>;
RWStructuredBuffer<float> inputs;
uniform RWStructuredBuffer<float>.Handle parameters;
uniform RWStructuredBuffer<float>.Handle gradients;
RWStructuredBuffer<float> input_gradients;
typealias Address = BindlessAddress<float>;

[Differentiable]
Out apply<In : IVector<float>, Out : IVector<float>>(In x, Address address)
{
    return FFLayer<float, In, Out, LinearLayout, SineActivation<float>>().eval<Address>(x, address);
}

void run<In : IVector<float>, Out : IVector<float>>(uint thread)
{
    In x = In();
    for (int i = 0; i < 4; i++)
        x[i] = inputs[thread * 4 + i];
    var pair = DifferentialPair<In>(x, In.Differential());
    let address = DifferentialPtrPair<Address>(Address(parameters), Address(gradients));
    bwd_diff(apply<In, Out>)(pair, address, Out.Differential(1.0f));
    for (int i = 0; i < 4; i++)
        input_gradients[thread * 4 + i] = pair.d[i];
}

[numthreads(64, 1, 1)]
void inline_vectors(uint thread : SV_DispatchThreadID)
{
    run<InlineVector<float, 4>, InlineVector<float, 3>>(thread);
}

[numthreads(64, 1, 1)]
void wave_vectors(uint thread : SV_DispatchThreadID)
{
    run<WaveTangledVector<float, Size, 4, 32, 2>, WaveTangledVector<float, Size, 3, 32, 2>>(thread);
}
"""


@pytest.mark.parametrize("entry", [pytest.param("inline_vectors", marks=pytest.mark.deep), "wave_vectors"])
def test_gradients_of_all_threads_are_added_up(entry: str) -> None:
    device = spy.create_device()
    module = device.load_module_from_source("group", GROUP)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point(entry)]))
    random = np.random.default_rng(7)
    x = random.normal(size=(64, 4)).astype(np.float32)
    weights, bias = random.normal(size=(3, 4)), random.normal(size=3)
    numbers = np.concatenate([weights.ravel(), bias]).astype(np.float32)
    gradients, slopes = buffer(device, np.zeros_like(numbers)), buffer(device, np.zeros_like(x))
    arguments = {"inputs": buffer(device, x), "parameters": buffer(device, numbers)}
    arguments |= {"gradients": gradients, "input_gradients": slopes}
    kernel.dispatch([64, 1, 1], vars=arguments)
    d = np.cos(x @ weights.T + bias)
    expected = np.concatenate([(d.T @ x).ravel(), d.sum(0)])
    np.testing.assert_allclose(gradients.to_numpy().view(np.float32), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        slopes.to_numpy().view(np.float32).reshape(64, 4), d @ weights, rtol=1e-4, atol=1e-5
    )


ENCODER = """
import slang.neural;
typealias Address = PointerAddress<float>;
typealias Encoder = PermutoEncoder<float, 3, 2, 5u, 2u, float[3], InlineVector<float, 4>>;

Encoder encoder()
{
    Encoder.HyperParameters parameters;
    parameters.maxLevel = 2;
    for (uint i = 0; i < 2; i++)
    {
        parameters.levelInfo[i].currentLevelIndex = i;
        parameters.levelInfo[i].offsetOfFeatureTable = 32 * i;
        parameters.levelInfo[i].featureTableSize = 32;
        for (int k = 0; k < 3; k++)
        {
            parameters.levelInfo[i].scalesPerDim[k] = 1.5 * (i + 1) / sqrt(float((k + 1) * (k + 2)));
            parameters.levelInfo[i].shiftsPerDim[k] = 0.3 * k - 0.1 * i;
        }
    }
    return Encoder(parameters);
}

[Differentiable]
InlineVector<float, 4> encode(float[3] x, Address features) { return encoder().encode<Address>(x, features); }

float[4] values(float[3] x, float* features)
{
    let y = encode(x, Address(features));
    return { y[0], y[1], y[2], y[3] };
}

float[3] reverse(float[3] x, float* features, float* gradients, float[4] d)
{
    var pair = diffPair(x);
    let address = DifferentialPtrPair<Address>(Address(features), Address(gradients));
    bwd_diff(encode)(pair, address, InlineVector<float, 4>(d));
    return pair.d;
}
"""


def test_an_encoder() -> None:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "encoder", ENCODER)
    random = np.random.default_rng(3)
    numbers = random.normal(size=128).astype(np.float32)
    x, d = [0.31, -0.42, 0.77], [1.0, -0.5, 2.0, 0.25]

    def values(x: list[float], numbers: np.ndarray) -> np.ndarray:
        memory = buffer(device, numbers)
        return np.array(module.values(x, memory.device_address), np.float64)

    np.testing.assert_allclose(values(x, np.full(128, 2, np.float32)), 2, rtol=1e-5)  # weights add up to one
    features, gradients = buffer(device, numbers), buffer(device, np.zeros_like(numbers))
    slope = module.reverse(x, features.device_address, gradients.device_address, d)
    by_feature = gradients.to_numpy().view(np.float32)
    for k in range(3):
        near = [[*x[:k], x[k] + s, *x[k + 1 :]] for s in (1e-3, -1e-3)]
        difference = (values(near[0], numbers) - values(near[1], numbers)) @ d / 2e-3
        np.testing.assert_allclose(slope[k], difference, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(by_feature @ numbers, values(x, numbers) @ d, rtol=1e-4)
    used = np.flatnonzero(by_feature)
    assert 0 < len(used) <= 16 and (by_feature.reshape(2, 32, 2).sum(1) != 0).all()
    step = np.zeros_like(numbers)
    step[used[0]] = 1
    difference = (values(x, numbers + step) - values(x, numbers)) @ d
    np.testing.assert_allclose(by_feature[used[0]], difference, rtol=1e-3)


CONVERTER = """
import slang.neural;
typealias Three = NetworkParameterLayoutConverter<double, 0b101, 18, 5, 33, 2>;
typealias One = NetworkParameterLayoutConverter<half, 0, 4, 2>;
int4 sizes() { return int4(Three.ElementCountLogical, Three.ElementCountPhysical, Three.BytesPhysical, One.BytesLogical); }

void pack(int i, int count, RWStructuredBuffer<double> rows, double* tiles)
{
    Three.toOptimalLayout(BindlessAddress<double>(rows), PointerAddress<double>(tiles), i, count);
}

void unpack(int i, int count, RWStructuredBuffer<double> rows, double* tiles)
{
    Three.toPortableLayout(PointerAddress<double>(tiles), BindlessAddress<double>(rows), i, count);
}
"""


def test_parameters_in_tiles_and_back() -> None:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "converter", CONVERTER)
    sizes = (18, 5, 33, 2)
    shapes = list(zip(sizes[1:], sizes))
    logical = sum(r * c for r, c in shapes) + 5 + 2
    physical = (32 * 16 + 16) + (16 * 48 + 48) + (48 * 16 + 16)
    assert list(module.sizes()) == [logical, physical, 8 * physical, 2 * 8]

    numbers = np.arange(1.0, logical + 1)
    expected, begin = [], 0
    for (rows, columns), has_bias in zip(shapes, (True, False, True)):
        expected.append(tiles(numbers[begin : begin + rows * columns].reshape(rows, columns)))
        begin += rows * columns
        bias = np.full(-(-rows // 16) * 16, 0.0 if has_bias else -1.0)  # without one its place is left alone
        if has_bias:
            bias[:rows] = numbers[begin : begin + rows]
            begin += rows
        expected.append(bias)
    rows, memory = buffer(device, numbers), buffer(device, np.full(physical, -1.0))
    module.pack(np.arange(7, dtype=np.int32), 7, rows, memory.device_address)
    np.testing.assert_array_equal(memory.to_numpy().view(np.float64), np.concatenate(expected))
    back = buffer(device, np.zeros_like(numbers))
    module.unpack(np.arange(5, dtype=np.int32), 5, back, memory.device_address)
    np.testing.assert_array_equal(back.to_numpy().view(np.float64), numbers)


GENERIC = """
import slang.neural;
[Differentiable] V filled<V : IVector<double>>(double x) { return V(x); }
double slope(double x) { return fwd_diff(filled<InlineVector<double, 3>>)(diffPair(x, 2.0lf)).d[1]; }
double reverse(double x)
{
    var pair = diffPair(x);
    bwd_diff(filled<InlineVector<double, 3>>)(pair, InlineVector<double, 3>(1.0lf));
    return pair.d;
}
"""


def test_vectors_of_any_type_are_made_with_derivatives() -> None:
    module = spy.Module.load_from_source(spy.create_device(), "generic", GENERIC)
    assert (module.slope(1.0), module.reverse(1.0)) == (2.0, 3.0)
