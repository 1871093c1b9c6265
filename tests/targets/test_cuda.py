"""PTX of flat kernels: all pass LLVM, atomics are instructions, and kernels that are not supported yet are refused."""

import re

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.base.traits import CPU, CUDA
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import walk
from slangrad.llvm.machine import nvptx
from slangrad.pipeline import compile_kernel, target_of
from slangrad.targets import cuda
from tests.flat import flat_kernel_of
from tests.targets.test_c_text import BODIES, CURVE, HEAD


def ptx(text, architecture="sm_90", **options):
    chosen = Options(**options)
    target = f"cuda:{architecture}"
    program = CheckedProgram(chosen, [], traits=target_of(target).backend.traits)
    return compile_kernel(program, SourceFile("kernel", text), "main", chosen, target).text("ptx")


def main(body, parameters="uniform float* x, uniform float* y, uniform int* k, uniform double* d"):
    return f"""
        [shader("compute")] [numthreads(32, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, {parameters}) {{ uint i = id.x; {body} }}
    """


@pytest.mark.parametrize("name", BODIES)
def test_kernels_give_ptx(name):
    text = ptx(CURVE + HEAD + BODIES[name] + "}\n")
    assert ".entry kernel(" in text and ".maxntid 256" in text and "ld.param" in text


@pytest.mark.parametrize("architecture", nvptx.ARCHITECTURES)
def test_all_architectures_give_ptx(architecture):
    text = ptx(main("y[i] = sin(x[i]); d[i] += 1; InterlockedAdd(y[0], x[i]);"), architecture)
    assert f".target {architecture}\n" in text


def test_small_floats_give_ptx():
    text = ptx(
        main(
            """b[i] = BFloat16(x[i]) * b[i] + sin(b[i]); y[i] = float(e[i]) + float(f[i]); e[i] = FloatE4M3(x[i]);
            f[i] = FloatE5M2(d[i]); __atomicAdd(b, b[i]);""",
            "uniform float* x, uniform float* y, uniform double* d, uniform BFloat16* b, uniform FloatE4M3* e, "
            "uniform FloatE5M2* f",
        )
    )
    assert "st.global.b8" in text and "ld.global.b16" in text
    assert re.search(r"atom\S*global\.cas", text)


@pytest.mark.parametrize(
    ("body", "instruction"),
    [
        ("InterlockedAdd(y[0], x[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.add\.f32"),
        ("InterlockedAdd(k[0], k[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.add\.u32"),
        ("InterlockedMax(k[0], k[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.max\.s32"),
        ("InterlockedAnd(k[0], k[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.and\.b32"),
        ("InterlockedExchange(k[0], k[i], k[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.exch\.b32"),
        ("InterlockedMin(y[0], x[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.cas\.b32"),
        ("InterlockedCompareExchange(k[0], 1, 2, k[i]);", r"atom(?:\.relaxed\.gpu)?\.global\.cas\.b32"),
    ],
)
def test_atomics(body, instruction):
    text = ptx(main(body))
    of_the_kernel = re.findall(r"atom(?!\.relaxed\.sys)\S+", text)
    assert len(of_the_kernel) == 1 and re.fullmatch(instruction, of_the_kernel[0])


def test_a_map_uses_no_memory_of_the_thread():
    text = ptx(CURVE + main("var p = diffPair(x[i]); bwd_diff(curve)(p, 2.0); y[i] = p.d;"))
    assert not re.search(r"\b(ld|st)\.local|\.local ", text)
    assert "ld.global" in text and "st.global" in text
    assert not re.search(r"\b(ld|st)\.(f32|b32|u32)\b", text), "an access does not say which memory it means"


def test_pointers_to_variables_have_no_space():
    text = ptx(main("float a[2] = { x[i], 1 }; float* p = i > 3 ? &a[0] : x; *p += 1; y[i] = a[0] + *p;"))
    assert "st.global" in text


def test_kept_functions_are_functions():
    text = ptx(CURVE + main("y[i] = curve(x[i]) + curve(y[i]);"), calls="keep")
    assert re.search(r"\.func.*kept", text)


def test_contraction_is_a_choice():
    body = main("y[i] = x[i] * y[i] + 1.5f;")
    assert "fma.rn.f32" in ptx(body)
    plain = ptx(body, contraction=False)
    assert "fma" not in plain and "mul.rn.f32" in plain and "add.rn.f32" in plain
    assert "fma" not in ptx(main("precise float z = x[i] * y[i] + 1.5f; y[i] = z;"), fast_math=True)


def test_halves_are_native():
    text = ptx(main("h[i] = h[i] * h[i];", "uniform half* h"))
    assert re.search(r"mul(\.rn)?\.f16", text)


def test_checks_report_into_the_status_record():
    text = ptx(main("float a[3] = { 1, 2, 3 }; y[i] = a[k[i]];"))
    assert re.search(r"call\.uni report", text) and text.count("atom") == 1


def group(body, size="64, 2, 1"):
    return f"""
        groupshared float sums[SIZE];
        [shader("compute")] [numthreads({size})]
        void main(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform float* x) {{ {body} }}
    """


def test_groups_are_blocks():
    body = (
        "sums[t] = x[id.x]; GroupMemoryBarrierWithGroupSync(); AllMemoryBarrier(); x[id.x] = sums[127 - t];"
    )
    text = ptx(group(body).replace("SIZE", "128"))
    assert ".reqntid 64, 2, 1" in text and ".maxntid" not in text
    assert re.search(r"\.shared \.align 16 \.b8 shared\[512\]", text)
    assert len(re.findall(r"\bbar\.sync", text)) == 2  # the first one when the memory is clear
    assert "fence.sc.gpu" in text and not re.search(r"\b(ld|st)\.(f32|b32|u32)\b", text)


def test_atomics_of_shared_memory_are_of_the_block():
    text = ptx(
        group("InterlockedAdd(sums[0], x[id.x]); InterlockedMin(sums[1], x[id.x]);").replace("SIZE", "2")
    )
    assert "atom.shared.add.f32" in text and "cta.shared.cas.b32" in text


def test_shared_memory_beyond_48_kb_is_dynamic():
    body = group("sums[t] = x[id.x]; GroupMemoryBarrierWithGroupSync(); x[id.x] = sums[SIZE - 1 - t];")
    assert ".extern .shared .align 16 .b8 shared[];" in ptx(body.replace("SIZE", "24000"))
    with pytest.raises(
        CompileError, match=r"(?s)E9003.*take 96000 bytes, and a group on this GPU has 65536.*CPU"
    ):
        ptx(body.replace("SIZE", "24000"), "sm_75")


def test_groups_of_too_many_threads_are_refused():
    text = group(
        "sums[t & 3] = x[id.x]; GroupMemoryBarrierWithGroupSync(); x[id.x] = sums[t & 1];", "64, 33, 1"
    )
    with pytest.raises(CompileError, match=r"E9003.*has 2112 threads, and on CUDA at most 1024"):
        ptx(text.replace("SIZE", "4"))


@pytest.mark.parametrize(
    ("body", "shuffles", "ballots"),
    [
        (
            "k[i] = WaveActiveSum(k[i]);",
            5 + 5,
            1,
        ),  # of all lanes, and of some; a ballot for the edge of the grid
        ("d[i] = WaveActiveMax(d[i]);", 10 + 10, 1),
        ("k[i] = WaveReadLaneAt(k[i], 3);", 1, 1),
        ("k[i] = int(WaveActiveCountBits(x[i] > 1));", 0, 2),
        ("if (x[i] > 1) k[i] = WaveActiveMin(k[i]); else k[i] = WaveReadLaneFirst(k[i]);", 11, 3),
        ("for (int j = 0; j < k[i]; j++) y[i] += WaveReadLaneAt(x[j], j);", 1, 3),
        ("for (int j = 0; j < 3; j++) y[i] += WaveReadLaneAt(x[j], j);", 3, 1),
    ],
)
def test_waves_exchange_by_shuffles(body, shuffles, ballots):
    text = ptx(main(body))
    counts = [
        len(re.findall(rf"\b{name}\b", text)) for name in (r"shfl\.sync\.(idx|bfly)", r"vote\.sync\.ballot")
    ]
    assert counts == [shuffles, ballots] and ".reqntid 32, 1, 1" in text


def test_prints_take_room_by_one_atomic():
    text = ptx(main('printf("%f %d\\n", x[i], k[i]);'))
    assert re.search(r"call\.uni print", text)
    assert (
        len(re.findall(r"(?:atom|red)\S*add\.u64", text)) == 2
    )  # room for the line, and the count of those without


WALK = """
    [Differentiable] float walk(float x, int n) { while (n > 0) { x = sin(x); n -= 1; } return x; }
    float power(int n, float x) { return n <= 0 ? 1.0 : x * power(n - 1, x); }
"""


def test_tapes_take_chunks_of_an_arena():
    text = ptx(WALK + main("var p = diffPair(x[i]); bwd_diff(walk)(p, k[i], 1.0); y[i] = p.d;"))
    assert re.search(r"\.func.* reserve\(", text) and len(re.findall(r"atom\S*add\.u64", text)) == 1
    recursive = ptx(WALK + main("y[i] = power(k[i], x[i]);"))
    assert re.search(r"\.func.* reserve\(", recursive)


def test_check_mode_searches_the_table_of_memory():
    text = ptx(main("float* p = (float*)((uint64_t)x + uint64_t(k[i])); y[i] = *p;"), check=True)
    assert re.search(r"\.func.* is_memory\(", text)


def test_large_arguments_are_refused():
    with pytest.raises(CompileError, match=r"(?s)E9003.*40008 bytes.*put large values into a tensor"):
        ptx("struct S { float x[10000]; }" + main("y[i] = s.x[i];", "uniform S s, uniform float* y"))


def test_an_unknown_architecture_is_an_error():
    with pytest.raises(ValueError, match="unknown architecture 'sm_1'; there are sm_75"):
        ptx(main("y[i] = 1;"), "sm_1")


def test_target_switches_take_the_case_of_cuda():
    body = (
        "__target_switch { case cpu: y[i] = 1; return; case cuda: y[i] = 7.25; return; default: y[i] = 3; }"
    )
    assert re.search(r"st\.global\.b32 \t\[%rd\d+\], 1088946176;", ptx(main(body)))  # the bits of 7.25


LONG_LOOP = """
[Differentiable]
float light(DiffTensor<float, 1> q, no_diff float x)
{
    float left = 1;
    for (int i = 0; i < 100; i++)
        left *= 1 - q[i] * exp(-x * x * q[i]);
    return left;
}
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uniform DiffTensor<float, 1> q, uniform float* x) { bwd_diff(light)(q, x[id.x], 1); }
"""


def test_reverse_mode_keeps_fewer_values_of_loops_than_on_a_cpu():
    """The product so far alone; elements of tensors are read again, and exponentials computed."""

    def arrays(traits):
        return sum(op.name == "alloc" for op in walk(flat_kernel_of(LONG_LOOP, traits).function.region))

    assert arrays(CUDA) == 1 < arrays(CPU)


@pytest.mark.parametrize(
    ("body", "instructions"),
    [
        ("y[i] = exp(x[i]) + log(x[i]);", ["ex2.approx.ftz.f32", "lg2.approx.f32"]),
        ("y[i] = exp2(x[i]) + log2(x[i]) + log10(y[i]);", ["ex2.approx.ftz.f32", *["lg2.approx.f32"] * 2]),
        ("y[i] = sin(x[i]) + cos(x[i]);", ["sin.approx.ftz.f32", "cos.approx.ftz.f32"]),
        ("y[i] = x[i] / y[i] + sqrt(x[i]);", ["div.approx.f32", "sqrt.approx.f32"]),
        ("y[i] = rsqrt(x[i]);", ["rsqrt.approx.f32"]),
        ("y[i] = float(exp(half(x[i])));", ["ex2.approx.ftz.f32"]),
        ("d[i] = exp(d[i]) / 3 + sqrt(d[i]);", []),  # doubles as always
    ],
)
def test_fast_math_has_approximate_instructions(body, instructions):
    fast, exact = ptx(main(body), fast_math=True), ptx(main(body))
    found = re.findall(r"\b\w+\.approx[.\w]*", fast)
    assert sorted(found) == sorted(instructions)
    assert ".approx" not in exact


def test_fast_math_adds_in_another_order_unless_code_relies_on_rounding():
    """A number that is added and subtracted again goes, but not beside a function of the library."""

    def additions(body, **options):
        return len(re.findall(r"\b(?:add|sub)(?:\.rn)?\.f32", ptx(main(body), **options)))

    sums = "float a = x[i]; y[i] = ((a + 1e8f) - 1e8f) + a * a;"
    library = sums + " x[i] = pow(x[i], 0.3f);"
    assert (additions(sums), additions(sums, fast_math=True)) == (2, 0)
    assert additions(library) == additions(library, fast_math=True) >= 2


def test_fast_math_changes_nothing_on_a_cpu():
    text = '[shader("compute")] [numthreads(32, 1, 1)] void kernel(uint3 id : SV_DispatchThreadID, uniform float* x)'
    text += "{ x[id.x] = exp(x[id.x]) / 3; }"
    programs = [flat_kernel_of(text, CPU, fast_math=fast).program for fast in (False, True)]
    assert str(programs[0]) == str(programs[1])


@pytest.mark.parametrize(
    ("index", "checks"), [("i", [0, 2]), ("i + int(id.x)", [0, 2]), ("int(y[i])", [1, 3])]
)
def test_loops_over_tensors_have_a_form_without_checks(index, checks):
    """The launch chooses between two forms. Checks of an index from memory stay in both."""
    text = f"""
    [shader("compute")] [numthreads(32, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform Tensor<float, 1> a, uniform RWTensor<float, 1> y, uniform int n)
    {{ float sum = 0; for (int i = 0; i < n; i++) sum += a[{index}]; y[id.x] = sum; }}
    """
    kernel = cuda.find_sums(flat_kernel_of(text, CUDA)).kernel
    (choice,) = [op for op in kernel.region.ops if op.name == "if"]
    counts = [sum(inner.name == "in_bounds" for inner in walk(region)) for region in choice.regions]
    assert counts == checks
