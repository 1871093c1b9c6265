"""Atomic operations on memory that all threads of a launch share, compiled and interpreted."""

import numpy as np
import pytest


def run(device, body, t, place, threads, parameter=None, dtype=None):
    """`place` after `body` was run by so many threads; `old[i]` is for what was there before."""
    text = f"""
        [shader("compute")] [numthreads(64, 1, 1)]
        void main(uint i : SV_DispatchThreadID, uniform {parameter or t + "*"} p, uniform {t}* old, uniform uint count)
        {{ if (i >= count) return; {body} }}
    """
    module = device.load_module_from_source(f"atomic_{abs(hash(text))}", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    shared = device.create_buffer(data=place)
    old = device.create_buffer(data=np.zeros(threads, place.dtype))
    kernel.dispatch([threads, 1, 1], p=shared, old=old, count=threads)
    return shared.to_numpy().view(place.dtype), old.to_numpy().view(place.dtype)


def many(device, count):
    return count if device.backend == "cpu" else 200


INTEGERS = {
    "InterlockedAdd(p[i % 3], T(i))": lambda x, i: x + i,
    "InterlockedMin(p[i % 3], T(i * 7 % 11))": lambda x, i: min(x, i * 7 % 11),
    "InterlockedMax(p[i % 3], T(i * 7 % 11))": lambda x, i: max(x, i * 7 % 11),
    "InterlockedAnd(p[i % 3], ~T(i % 5))": lambda x, i: x & ~(i % 5),
    "InterlockedOr(p[i % 3], T(i))": lambda x, i: x | i,
    "InterlockedXor(p[i % 3], T(i))": lambda x, i: x ^ i,
    "__atomic_add(p[i % 3], T(i), MemoryOrder.AcquireRelease)": lambda x, i: x + i,
    "__atomic_reduce_sub(p[i % 3], T(i))": lambda x, i: x - i,
    "__atomic_increment(p[i % 3])": lambda x, i: x + 1,
    "__atomic_reduce_dec(p[i % 3])": lambda x, i: x - 1,
}
METHODS = {
    "p[i % 3].add(T(i))": lambda x, i: x + i,
    "p[i % 3].sub(T(i), MemoryOrder.SeqCst)": lambda x, i: x - i,
    "p[i % 3].max(T(i))": max,
    "p[i % 3].min(T(i))": min,
    "p[i % 3].and(~T(i % 5))": lambda x, i: x & ~(i % 5),
    "p[i % 3].or(T(i))": lambda x, i: x | i,
    "p[i % 3].xor(T(i))": lambda x, i: x ^ i,
    "p[i % 3].increment()": lambda x, i: x + 1,
    "p[i % 3].decrement()": lambda x, i: x - 1,
    "p[i % 3] += T(i)": lambda x, i: x + i,
    "p[i % 3].reduceAdd(T(i))": lambda x, i: x + i,
}


def expected(combine, start, threads):
    places = start.astype(object)
    for i in range(threads):
        places[i % 3] = combine(places[i % 3], i)
    return [int(x) for x in places]


@pytest.mark.parametrize(("t", "dtype"), [("int", np.int32), ("int64_t", np.int64)])
@pytest.mark.parametrize("body", [*INTEGERS, *METHODS])
def test_integers(device, body, t, dtype):
    start, threads = np.array([1000, 2000, 3000], dtype), many(device, 3000)
    is_method = body in METHODS
    parameter = f"Atomic<{t}>*" if is_method else None
    found, _ = run(device, f"typealias T = {t}; {body};", t, start, threads, parameter)
    assert found.tolist() == expected((METHODS if is_method else INTEGERS)[body], start, threads)


def test_all_threads_of_the_machine(device):
    count = many(device, 1 << 20)
    body = "p[0].increment(); p[1].max(i); p[2].add(3);"
    found, _ = run(device, body, "uint", np.zeros(3, np.uint32), count, "Atomic<uint>*")
    assert found.tolist() == [count, count - 1, 3 * count]


def test_each_thread_gets_another_number(device):
    count = many(device, 10_000)
    found, old = run(device, "old[i] = p->add(1);", "uint", np.zeros(1, np.uint32), count, "Atomic<uint>*")
    assert found[0] == count and sorted(old.tolist()) == list(range(count))


@pytest.mark.parametrize(
    ("body", "last", "step"),
    [
        ("old[i] = p[0]++;", 0, 1),
        ("old[i] = ++p[0];", 1, 1),
        ("old[i] = p[0] += 2;", 2, 2),
        ("old[i] = uint(0) - (p[0] -= 3);", 3, 3),
    ],
)
def test_operators(device, body, last, step):
    """No two threads see the same number: what an operator gives is the new value, `x++` the old one."""
    count = many(device, 5000)
    found, old = run(device, body, "uint", np.zeros(1, np.uint32), count, "Atomic<uint>*")
    assert sorted(old.tolist()) == [last + step * k for k in range(count)]
    assert abs(int(found.astype(np.int32)[0])) == step * count


@pytest.mark.parametrize(
    ("t", "dtype"), [("float", np.float32), ("double", np.float64), ("half", np.float16)]
)
@pytest.mark.parametrize(
    "body",
    [
        "InterlockedAdd(p[i % 3], T(1))",
        "__atomic_add(p[i % 3], T(1))",
        "T before; InterlockedAdd(p[i % 3], T(1), before)",
    ],
)
def test_floats(device, body, t, dtype):
    count = many(device, 6000)
    found, _ = run(device, f"typealias T = {t}; {body};", t, np.zeros(3, dtype), count)
    assert found.tolist() == [len(range(k, count, 3)) for k in range(3)]


def test_atomic_floats(device):
    body = "p->add(0.5); p[1].max(float(i)); p[2].min(-float(i)); old[i] = p[3].exchange(7); p[4] -= 2;"
    count = many(device, 1000)
    found, old = run(device, body, "float", np.zeros(5, np.float32), count, "Atomic<float>*")
    assert found.tolist() == [count / 2, count - 1, 1 - count, 7, -2 * count]
    assert sorted(old.tolist()) == [0] + [7] * (count - 1)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_any_element_of_halves(device, length):
    """Odd ones, too; the neighbors stay what they are."""
    body = f"half before; InterlockedAddF16Emulated(p + (1 + i % {length}), 1.0h, before); old[i] = before;"
    count, start = many(device, 1500), np.full(length + 2, -8, np.float16)
    found, old = run(device, body, "half", start, count)
    counts = [len(range(k, count, length)) for k in range(length)]
    assert found.tolist() == [-8, *(n - 8 for n in counts), -8]
    assert sorted(old.tolist()) == sorted(k - 8 for n in counts for k in range(n))


def test_sums_of_halves_are_rounded_after_each_addition(device):
    body = "half before; InterlockedAddF16Emulated(p, 1.0h, before); old[i] = before;"
    count = 3000 if device.backend == "cpu" else 2100
    found, _ = run(device, body, "half", np.zeros(1, np.float16), count)
    assert found[0] == 2048  # 2048 + 1 is 2048 in half


def test_pairs_of_halves(device):
    body = "half2 before; InterlockedAddF16x2((half2*)p, half2(1, 0.5), before);"
    found, _ = run(device, body, "half", np.zeros(2, np.float16), 100)
    assert found.tolist() == [100, 50]


def test_exchange_and_compare(device):
    body = """
        float before;
        InterlockedCompareExchange(p[0], 0.0, float(i + 1), before);
        InterlockedCompareStore(p[1], 0.0, 5.0);
        if (before == 0.0) old[0] = i;
        InterlockedExchange(p[2], 3.0, before);
    """
    found, old = run(device, body, "float", np.zeros(3, np.float32), 300)
    assert found.tolist() == [old[0] + 1, 5, 3]


def test_floats_compared_by_their_bits(device):
    body = """
        InterlockedCompareExchange(p[0], 0.0, 1.0);
        InterlockedCompareStoreFloatBitwise(p[1], 0.0, 1.0);
        InterlockedCompareStoreFloatBitwise(p[2], -0.0, 1.0);
        float before;
        InterlockedCompareExchangeFloatBitwise(p[3], asfloat(0x7FC00000u), 1.0, before);
        old[0] = before;
    """
    start = np.array([-0.0, -0.0, -0.0, np.nan], np.float32)
    found, old = run(device, body, "float", start, 1)
    assert found.tolist() == [1, 0, 1, 1] and np.signbit(found[1]) and np.isnan(old[0])


def test_members_of_structs_in_memory(device):
    text = """
        struct Statistics { float2 sums; Atomic<uint> count; int largest; }
        [shader("compute")] [numthreads(64, 1, 1)]
        void main(uint i : SV_DispatchThreadID, uniform Statistics* s)
        {
            InterlockedAdd(s.sums.y, 0.25);
            s->count.increment();
            InterlockedMax(s->largest, int(i));
        }
    """
    module = device.load_module_from_source("atomic_members", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    memory = device.create_buffer(data=np.zeros(4, np.uint32))
    kernel.dispatch([128, 1, 1], s=memory)
    found = memory.to_numpy().view(np.uint32)
    assert found.view(np.float32)[:2].tolist() == [0, 32] and found[2:].tolist() == [128, 127]
