"""Every atomic operation on every kind of place in memory that threads share, compiled and interpreted.

A case is an operation, a kind of place, and how the place comes there: directly, or through an `inout` or `ref` parameter
of a function. Many cases stand in one kernel, each with elements of its own. What is tested follows from atomicity: each
thread finds what another one left, so the values before and the last one are the first one and the values after.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

DTYPES = {
    "float": np.float32,
    "half": np.float16,
    "double": np.float64,
    "int": np.int32,
    "uint": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
}
FLOATS = ("float", "half", "double")
START = 40
SPREAD = 3  # elements of a case: all threads use the first one, or each its own by turns

# --- Operations: the call on P with V, and what is left in memory of what was there ---------------------

# fmt: off
STEPS = {
    "add":      lambda old, v: old + v,
    "sub":      lambda old, v: old - v,
    "min":      np.minimum,
    "max":      np.maximum,
    "and":      lambda old, v: old & v,
    "or":       lambda old, v: old | v,
    "xor":      lambda old, v: old ^ v,
    "exchange": lambda old, v: v,
    "compare":  lambda old, v: np.where(old == old.dtype.type(START), v, old),
    "up":       lambda old, v: old + old.dtype.type(1),
    "down":     lambda old, v: old - old.dtype.type(1),
}
NUMBERS = {
    "InterlockedAdd(P, V)": "add",                  "InterlockedAdd(P, V, OLD)": "add",
    "InterlockedMin(P, V)": "min",                  "InterlockedMin(P, V, OLD)": "min",
    "InterlockedMax(P, V)": "max",                  "InterlockedMax(P, V, OLD)": "max",
    "InterlockedExchange(P, V)": "exchange",        "InterlockedExchange(P, V, OLD)": "exchange",
    "InterlockedCompareExchange(P, T(40), V)": "compare",
    "InterlockedCompareExchange(P, T(40), V, OLD)": "compare",
    "InterlockedCompareStore(P, T(40), V)": "compare",
    "OLD = __atomic_add(P, V)": "add",              "__atomic_reduce_add(P, V)": "add",
    "OLD = __atomic_sub(P, V)": "sub",              "__atomic_reduce_sub(P, V)": "sub",
    "OLD = __atomic_min(P, V)": "min",              "__atomic_reduce_min(P, V)": "min",
    "OLD = __atomic_max(P, V)": "max",              "__atomic_reduce_max(P, V)": "max",
    "OLD = __atomic_exchange(P, V)": "exchange",
    "OLD = __atomic_compare_exchange(P, T(40), V)": "compare",
}
INTEGERS = {
    "InterlockedAnd(P, V)": "and",                  "InterlockedAnd(P, V, OLD)": "and",
    "InterlockedOr(P, V)": "or",                    "InterlockedOr(P, V, OLD)": "or",
    "InterlockedXor(P, V)": "xor",                  "InterlockedXor(P, V, OLD)": "xor",
    "OLD = __atomic_and(P, V)": "and",              "__atomic_reduce_and(P, V)": "and",
    "OLD = __atomic_or(P, V)": "or",                "__atomic_reduce_or(P, V)": "or",
    "OLD = __atomic_xor(P, V)": "xor",              "__atomic_reduce_xor(P, V)": "xor",
    "OLD = __atomic_increment(P)": "up",            "__atomic_reduce_inc(P)": "up",
    "OLD = __atomic_decrement(P)": "down",          "__atomic_reduce_dec(P)": "down",
}
METHODS = {
    "OLD = P.add(V)": "add",                        "P.reduceAdd(V)": "add",
    "OLD = P.sub(V)": "sub",                        "P.reduceSub(V)": "sub",
    "OLD = P.min(V)": "min",                        "P.reduceMin(V)": "min",
    "OLD = P.max(V)": "max",                        "P.reduceMax(V)": "max",
    "OLD = P.exchange(V)": "exchange",              "P.store(V)": "exchange",
    "OLD = P.compareExchange(T(40), V)": "compare", "P = V": "exchange",
    "OLD = (P += V) - V": "add",                    "OLD = (P -= V) + V": "sub",
}
INTEGER_METHODS = {
    "OLD = P.and(V)": "and",                        "P.reduceAnd(V)": "and",
    "OLD = P.or(V)": "or",                          "P.reduceOr(V)": "or",
    "OLD = P.xor(V)": "xor",                        "P.reduceXor(V)": "xor",
    "OLD = P.increment()": "up",                    "P.reduceInc()": "up",
    "OLD = P.decrement()": "down",                  "P.reduceDec()": "down",
    "OLD = P++": "up",                              "OLD = ++P - T(1)": "up",
    "OLD = P--": "down",                            "OLD = --P + T(1)": "down",
    "P &= V": "and",        "P |= V": "or",         "OLD = (P ^= V) ^ V": "xor",
}

# --- Places: of element K; those of METHODS are an Atomic<T> --------------------------------------------

PLACES = (
    "t[K]", "t[int[1](K)]", "rows[K, 1]", "rows[int2(1, K)]", "any[K, 0]", "any[int2(0, K)]", "vectors[K].y", "vectors[K][K % 3]",
    "structs[K].one", "structs[K].inner.one", "structs[K].inner.v.z", "structs[K].m[1][0]", "structs[K].m[0].y",
    "structs[K].m._m01", "structs[K].list[K % 2]", "view[K]", "sums[K]",
    "b[K]", "bs[K].one", "bs[K].inner.v.x", "bs[K].m[0][1]", "p[K]", "(*(p + K))", "ps[K].inner.one", "(ps + K).list[1]",
    "holder.t[K]", "holder[K]", "holder[K, 1]", "holder.again[K]",
)
ATOMICS = ("structs[K].own", "structs[K].inner.own[1]", "bs[K].own", "ps[K].inner.own[0]", "owns[K]")
WAYS = ("directly", "inout", "ref", "generic", "twice", "method")
# fmt: on


@dataclass(frozen=True)
class Case:
    operation: str
    step: str
    place: str
    way: str
    spread: bool

    def __str__(self) -> str:
        return f"{self.operation} on {self.place}, {self.way}"


def all_cases(t: str) -> list[Case]:
    """Each operation on each place; ways by turns, so that each meets each operation and each place."""
    whole = t not in FLOATS
    on_places = NUMBERS | (INTEGERS if whole else {})
    on_atomics = METHODS | (INTEGER_METHODS if whole else {})
    return [
        Case(operation, step, place, WAYS[(i + j) % len(WAYS)], (i + j // 2) % 2 == 0)
        for operations, places in ((on_places, PLACES), (on_atomics, ATOMICS))
        for i, (operation, step) in enumerate(operations.items())
        for j, place in enumerate(places)
    ]


# --- Programs -------------------------------------------------------------------------------------------

HEADER = """import "slangpy";
typealias T = TYPE;
struct Inner { T one; vector<T, 3> v; Atomic<T> own[2]; }
struct All { float before; T one; Inner inner; matrix<T, 2, 2> m; Atomic<T> own; T list[3]; }
struct Holder
{
    RWTensor<T, 1> t;
    RWTensor<T, 2> rows;
    __subscript(int i) -> T { [nonmutating] ref { return t[i]; } }
    __subscript(int i, int j) -> T { get { return rows[i, j]; } [nonmutating] set { rows[i, j] = newValue; }
                                     [nonmutating] ref { if (j > 0) return rows[i, j]; return t[i]; } }
    property again : RWTensor<T, 1> { get { return t; } }
}
struct Data
{
    RWTensor<T, 1> t; RWTensor<T, 2> rows; RWTensor<vector<T, 3>, 1> vectors; RWTensor<All, 1> structs;
    TensorView<T> view; AtomicTensor<T, 1> sums; RWStructuredBuffer<T> b; RWStructuredBuffer<All> bs; T* p; All* ps;
    RWStructuredBuffer<Atomic<T>> owns;
}
"""
NAMES = ["t", "rows", "vectors", "structs", "view", "sums", "b", "bs", "p", "ps", "owns"]


def program(t: str, cases: list[Case]) -> str:
    """`start` writes all places, `run` does the operations, `finish` reads the places."""
    functions, starts, runs, ends = [], [], [], []
    for number, case in enumerate(cases):
        kind = "Atomic<T>" if case.place in ATOMICS else "T"
        call = case.operation.replace("V", "v").replace("OLD", "old")
        functions.append(_functions(number, case.way, call, kind))
        place = case.place
        for name in NAMES:
            place = _renamed(place, name)
        at = f"({SPREAD * number} + {f'i % {SPREAD}' if case.spread else '0'})"
        taken = place.replace("K", at)
        runs.append(
            f"{{ let v = T({_value(t)}); T old = T(0); {_use(number, case.way, call, taken)} olds[{number}, i] = old; }}"
        )
        for k in range(SPREAD):
            there = place.replace("K", str(SPREAD * number + k))
            starts.append(f"{there} = T({START});")
            read = f"{there}.load()" if case.place in ATOMICS else there
            ends.append(f"last[{number}, {k}] = {read};")
    return "\n".join(
        [
            HEADER.replace("TYPE", t),
            *functions,
            *_function("start(int i, Data d, IRWTensor<T, 2> any)", starts),
            *_function("run(int i, Data d, IRWTensor<T, 2> any, RWTensor<T, 2> olds)", runs),
            *_function("finish(int i, Data d, IRWTensor<T, 2> any, RWTensor<T, 2> last)", ends),
        ]
    )


def _function(header: str, lines: list[str]) -> list[str]:
    return [f"void {header}", "{", "Holder holder = { d.t, d.rows };", *lines, "}"]


def _renamed(place: str, name: str) -> str:
    """`t[K]` as `d.t[K]`, and not `structs`, `list`, `holder.t`."""
    for before in ("(*(", "(", ""):
        for after in ("[", " +"):
            if place.startswith(f"{before}{name}{after}"):
                return f"{before}d.{place[len(before) :]}"
    return place


def _value(t: str) -> str:
    return "1 + (i & 1)" if t == "half" else "1 + i * 7 % 11"


def _functions(number: int, way: str, call: str, kind: str) -> str:
    x = call.replace("P", "x")
    direct = f"void f{number}(DIRECTION {kind} x, T v, out T old) {{ old = T(0); {x}; }}\n"
    if way in ("inout", "ref"):
        return direct.replace("DIRECTION", "__ref" if way == "ref" else "inout")
    if way == "generic":
        return direct.replace("DIRECTION", "inout").replace(f"f{number}(", f"f{number}<let N : int>(")
    if way == "twice":
        inner = direct.replace("DIRECTION", "inout")
        return inner + f"void g{number}(inout {kind} x, T v, out T old) {{ f{number}(x, v, old); }}\n"
    if way == "method":
        body = call.replace("P", "this")
        return f"extension {kind} {{ [mutating] void f{number}(T v, out T old) {{ old = T(0); {body}; }} }}\n"
    return ""


def _use(number: int, way: str, call: str, place: str) -> str:
    if way == "directly":
        return call.replace("P", place) + ";"
    if way == "method":
        return f"{place}.f{number}(v, old);"
    names = {"twice": f"g{number}", "generic": f"f{number}<{number}>"}
    return f"{names.get(way, f'f{number}')}({place}, v, old);"


# --- Running --------------------------------------------------------------------------------------------


def device_of(kind: str) -> spy.Device:
    if kind == "interpreter":
        return spy.create_device(backend="interpreter")
    return spy.create_device(options=spy.Options(lanes=int(kind)))


def run(kind: str, t: str, cases: list[Case], threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The values before, case by case and thread by thread, and the last ones."""
    device, dtype, count = device_of(kind), DTYPES[t], SPREAD * len(cases)
    module = spy.Module.load_from_source(device, "places", program(t, cases))
    numbers, wholes = (device.create_buffer(data=np.zeros(count * size, np.uint8)) for size in (8, 256))
    p, ps = (device.create_buffer(data=np.zeros(count * size, np.uint8)) for size in (8, 256))
    data = {
        "t": spy.Tensor.zeros(device, (count,), t),
        "rows": spy.Tensor.zeros(device, (count, 2), t),
        "vectors": spy.Tensor.zeros(device, (count,), f"vector<{t},3>"),
        "structs": spy.Tensor.zeros(device, (count,), module.All),
        "view": spy.Tensor.zeros(device, (count,), t),
        "sums": spy.Tensor.zeros(device, (count,), t),
        "b": numbers,
        "bs": wholes,
        "p": p.device_address,
        "ps": ps.device_address,
        "owns": device.create_buffer(data=np.zeros(count * 8, np.uint8)),
    }
    any_ = spy.Tensor.zeros(device, (count, 2), t)
    olds = spy.Tensor.zeros(device, (len(cases), threads), t)
    last = spy.Tensor.zeros(device, (len(cases), SPREAD), t)
    one = np.zeros(1, np.int32)
    module.start(one, data, any_)
    module.run(np.arange(threads, dtype=np.int32), data, any_, olds)
    module.finish(one, data, any_, last)
    return olds.to_numpy().astype(dtype), last.to_numpy().astype(dtype)


def check(t: str, cases: list[Case], olds: np.ndarray, last: np.ndarray, threads: int) -> None:
    i = np.arange(threads)
    values = (1 + (i & 1) if t == "half" else 1 + i * 7 % 11).astype(DTYPES[t])
    for number, case in enumerate(cases):
        for k in range(SPREAD):
            mine = (i % SPREAD if case.spread else 0 * i) == k
            found, v, end = olds[number][mine], values[mine], last[number, k]
            assert end in _possible(case.step, v), (str(case), k, end)
            if "OLD" in case.operation:
                after = STEPS[case.step](found, v)
                first = np.array([START], found.dtype)
                chain = np.sort([*found, end]), np.sort([*first, *after])
                assert np.array_equal(*chain), (str(case), k)


def _possible(step: str, values: np.ndarray) -> np.ndarray:
    """What may be left by all the threads."""
    start = np.array([START], values.dtype)
    if step in ("exchange", "compare") and len(values):
        return values
    for v in values:
        start = STEPS[step](start, v)
    return start


def sample(t: str, count: int) -> list[Case]:
    """Each operation, each place and each way once at least, drawn by a seed."""
    draw, cases = random.Random(t), all_cases(t)
    draw.shuffle(cases)
    seen: set[str] = set()
    new = [
        c
        for c in cases
        if not {c.operation, c.place, c.way} <= seen and not seen.update((c.operation, c.place, c.way))
    ]
    return new[:count]


@pytest.mark.parametrize(("t", "lanes"), [("float", "16"), ("uint", "64")])
def test_thousand_threads(t: str, lanes: str) -> None:
    cases, threads = sample(t, 20), 1000
    check(t, cases, *run(lanes, t, cases, threads), threads)


def test_interpreted() -> None:
    t, threads = "int64_t", 20
    cases = sample(t, 24)
    check(t, cases, *run("interpreter", t, cases, threads), threads)


PARTS = 16


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["1", "16", "64", "interpreter"])
@pytest.mark.parametrize("t", DTYPES)
def test_all(t: str, kind: str, part: int) -> None:
    cases = all_cases(t)[part::PARTS]
    threads = 50 if kind == "interpreter" else 1000
    check(t, cases, *run(kind, t, cases, threads), threads)


# --- Derivatives ----------------------------------------------------------------------------------------

N = 200
DIFFERENTIATED = """import "slangpy";
void bump(inout uint x) { InterlockedAdd(x, 1u); }
[Differentiable] float cube(float x, RWTensor<uint, 1> calls, IRWTensor<uint2, 1> pairs)
{
    bump(calls[0]);
    uint before;
    InterlockedMax(pairs[0].y, uint(x), before);
    [ForceUnroll] for (int i = 0; i < 2; i++) InterlockedAdd(calls[i + 1], 2u);
    return x * x * x;
}

[BackwardDerivative(give)] float take(DiffTensor<float, 1> t, int i) { return t._primal[i]; }
void sum(inout float total, float x) { InterlockedAdd(total, x); }
void give(DiffTensor<float, 1> t, int i, float d) { InterlockedAdd(t._grad_out[i], d); sum(t._grad_out[1], 2 * d); }
[Differentiable] float doubled(int i, DiffTensor<float, 1> t) { return 2 * take(t, 0); }

void add(int i, RWDiffTensor<float, 1> t, DiffTensorView view, IRWDiffTensor<float, 1> any)
{
    sum(t[0], 1);
    InterlockedAdd(t._primal[1], 2.0f);
    sum(view[1], 3);
    InterlockedAdd(view.primal[0], 4.0f);
    sum(any[0], 5);
    InterlockedMax(any[1], float(i));
}
"""


@pytest.fixture(scope="module", params=["16", "interpreter"])
def differentiated(request):
    device = device_of(request.param)
    return device, spy.Module.load_from_source(device, "differentiated", DIFFERENTIATED)


def grads(device: spy.Device, x: np.ndarray, grad: np.ndarray | None = None) -> spy.Tensor:
    given = spy.Tensor.from_numpy(device, np.zeros_like(x) if grad is None else grad)
    found = spy.Tensor.zeros(device, x.shape, "float")
    return spy.Tensor.from_numpy(device, x).with_grads(grad_in=given, grad_out=found)


@pytest.mark.parametrize("way", ["call", "bwds", "fwds"])
def test_code_that_is_differentiated(differentiated, way):
    device, module = differentiated
    x = np.linspace(-3, 7.5, N).astype(np.float32)
    given, result = grads(device, x, np.ones_like(x)), grads(device, x, np.ones_like(x))
    calls, pairs = spy.Tensor.zeros(device, (3,), "uint"), spy.Tensor.zeros(device, (2,), "uint2")
    if way == "bwds":
        module.cube.bwds(given, calls, pairs, _result=result)
        np.testing.assert_allclose(given.grad_out.to_numpy(), 3 * x**2, rtol=1e-5)
    elif way == "fwds":
        found = module.cube.fwds(given, calls, pairs)
        np.testing.assert_allclose(found.grad.to_numpy(), 3 * x**2, rtol=1e-5)
    else:
        module.cube(given, calls, pairs)
    assert calls.to_numpy().tolist() == [N, 2 * N, 2 * N]
    assert pairs.to_numpy().ravel().tolist() == [0, 7, 0, 0]


def test_tensors_of_gradients(differentiated):
    device, module = differentiated
    i, ones = np.arange(N, dtype=np.int32), np.ones(N, np.float32)
    t = grads(device, np.array([3, 5], np.float32))
    module.doubled.bwds(i, t, _result=grads(device, ones, ones))
    assert t.grad_out.to_numpy().tolist() == [2 * N, 4 * N]


def test_tensors_with_gradients(differentiated):
    device, module = differentiated
    t, any_ = (grads(device, np.zeros(2, np.float32)) for _ in range(2))
    view = spy.Tensor.zeros(device, (2,), "float").with_grads()
    module.add(np.arange(N, dtype=np.int32), t, view, any_)
    assert [x.to_numpy().tolist() for x in (t, view, any_)] == [[N, 2 * N], [4 * N, 3 * N], [5 * N, N - 1]]


# --- Out of range ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["16", "interpreter"])
def test_out_of_range(kind: str) -> None:
    """Nothing is done there, and it is reported, whoever does the operation."""
    device = device_of(kind)
    text = """import "slangpy";
        void bump(inout uint x) { uint before = 7; InterlockedAdd(x, 1u, before); if (before == 0) x += 100; }
        void direct(int i, RWTensor<uint, 1> t) { InterlockedAdd(t[i], 1u); }
        void passed(int i, IRWTensor<uint, 1> t) { bump(t[i]); }
        void viewed(int i, TensorView<uint> t) { bump(t[i]); }
        void part(int i, RWTensor<uint3, 1> t) { InterlockedAdd(t[0][i], 1u); }
    """
    module = spy.Module.load_from_source(device, "outside", text)
    for name, shape, expected in (
        ("direct", "uint", [1, 1, 1]),
        ("passed", "uint", [101, 101, 101]),
        ("viewed", "uint", [101, 101, 101]),
        ("part", "uint3", [1, 1, 1]),
    ):
        t = spy.Tensor.zeros(device, (1 if shape == "uint3" else 3,), shape)
        with pytest.raises(spy.BoundsError, match="index 3 is out of range"):
            getattr(module, name)(np.arange(4, dtype=np.int32), t)
        assert t.to_numpy().ravel().tolist() == expected, name


REFUSED = {
    "__atomic_reduce_add(t[0].xz, uint2(1, 1))": "several components are not one place",
    "InterlockedAdd(w[0], 1u)": "can only be written",
    "InterlockedAdd(s[0], 1u)": "the subscript of 'Sum' is read by 'get' and written by 'set'",
}


@pytest.mark.parametrize(("place", "message"), REFUSED.items())
def test_what_is_no_place(place: str, message: str) -> None:
    text = f"""import "slangpy";
        struct Sum {{ RWTensor<uint, 1> t; __subscript(int i) -> uint {{ get {{ return t[i]; }} set {{ t[i] = newValue; }} }} }}
        void f(int i, RWTensor<uint3, 1> t, WTensor<uint, 1> w, Sum s) {{ {place}; }}
    """
    device = device_of("interpreter")
    module = spy.Module.load_from_source(device, "refused", text)
    one = spy.Tensor.zeros(device, (1,), "uint")
    with pytest.raises(CallError, match=message) as caught:
        module.f(0, spy.Tensor.zeros(device, (1,), "uint3"), one, {"t": one})
    assert caught.value.code == "E0718"
