"""Variables with addresses: the same in all numbers of lanes and in the interpreter, where lanes go different ways."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Options

TEXT = """
    struct S { float2 v; int n; half h; bool b; int a[3]; }

    int chosen(int x)
    {
        int a = 1;
        int b = 2;
        int* p = &a;
        for (int i = 0; i < x % 5; i++)
            p = p == &a ? &b : &a;
        *p += x;
        return 1000 * a + b;
    }

    int walked(int x)
    {
        int a[6] = { 1, 2, 3, 4, 5, 6 };
        int* end = &a[0] + 6;
        int s = 0;
        for (int* p = &a[x % 6]; p != end; p += 1)
        {
            s = 10 * s + *p;
            *p = 0;
        }
        return s + a[0] + a[5];
    }

    int table(int x)
    {
        int a = 1;
        int b = 2;
        int c = 3;
        int* all[3] = { &a, &b, &c };
        for (int i = 0; i <= x; i++)
            *all[(i * x) % 3] += i;
        return 10000 * a + 100 * b + c;
    }

    float added(int x)
    {
        float y = x;
        float z = 2;
        float* p = x % 3 == 0 ? &y : &z;
        InterlockedAdd(*p, 1.5);
        InterlockedAdd(y, 1.0);
        return 100 * y + z;
    }

    float parts(int x)
    {
        S s[2];
        for (int i = 0; i < 2; i++)
            s[i] = { float2(x, i), x + i, half(i), x > 3, { 1, 2, 3 } };
        S* p = x % 2 == 0 ? &s[0] : &s[x % 3 == 0 ? 1 : 0];
        p->v.y += 1;
        p->n *= 2;
        p->h += half(0.5);
        p->b = !p->b;
        *(&p->a[0] + x % 3) = 7;
        float sum = 0;
        for (int i = 0; i < 2; i++)
            sum = 3 * sum + s[i].v.x + s[i].v.y + s[i].n + float(s[i].h) + (s[i].b ? 100 : 0) + s[i].a[0] * s[i].a[2];
        return sum;
    }

    int deep(int n, int* outer, int* first)
    {
        int mine[2] = { n, 1 };
        int* p = &mine[n % 2];
        if (n > 0)
            deep(n - 1, p, n % 3 == 0 ? p : first);
        *outer += mine[0] + 10 * mine[1];
        *first += 1;
        return mine[0];
    }
    int called(int x)
    {
        int r = 0;
        int k = 0;
        return deep(x % 7, &r, &k) * 100000 + r * 100 + k;
    }
"""


def chosen(x):
    a, b = 1, 2
    return 1000 * (a + x) + b if x % 5 % 2 == 0 else 1000 * a + b + x


def walked(x):
    a, s = [1, 2, 3, 4, 5, 6], 0
    for k in range(x % 6, 6):
        s = 10 * s + a[k]
        a[k] = 0
    return s + a[0] + a[5]


def table(x):
    a = [1, 2, 3]
    for i in range(x + 1):
        a[i * x % 3] += i
    return 10000 * a[0] + 100 * a[1] + a[2]


def added(x):
    return 100 * (x + 2.5) + 2 if x % 3 == 0 else 100 * (x + 1) + 3.5


def parts(x):
    s = [[x, i, x + i, i, x > 3, [1, 2, 3]] for i in range(2)]
    p = s[0] if x % 2 == 0 else s[1 if x % 3 == 0 else 0]
    p[1] += 1
    p[2] *= 2
    p[3] += 0.5
    p[4] = not p[4]
    p[5][x % 3] = 7
    total = 0
    for x, y, n, h, b, a in s:
        total = 3 * total + x + y + n + h + (100 if b else 0) + a[0] * a[2]
    return total


def called(x):
    def deep(n, outer, i, first, j):
        mine = [n, 1]
        if n > 0:
            deep(n - 1, mine, n % 2, *((mine, n % 2) if n % 3 == 0 else (first, j)))
        outer[i] += mine[0] + 10 * mine[1]
        first[j] += 1
        return mine[0]

    r, k = [0], [0]
    return deep(x % 7, r, 0, k, 0) * 100000 + r[0] * 100 + k[0]


DEVICES = [
    pytest.param("cpu", Options(optimize=0, verify=True), id="machine"),
    *(pytest.param("cpu", Options(lanes=n, optimize=0, verify=True), id=f"{n} lanes") for n in (1, 4, 32)),
    pytest.param("interpreter", Options(verify=True), id="interpreter"),
]


@pytest.mark.parametrize("backend, options", DEVICES)
def test_pointers_of_lanes_that_differ(backend, options):
    module = spy.Module.load_from_source(
        spy.create_device(backend=backend, options=options),
        "variables",
        TEXT
        + """
        double[6] all(int x)
        {
            double found[6] = { double(chosen(x)), double(walked(x)), double(table(x)), double(parts(x)), double(called(x)), double(added(x)) };
            return found;
        }
        """,
    )
    x = np.arange(41, dtype=np.int32)
    found = module.all(x, _result="numpy")
    for column, function in zip(found.T, (chosen, walked, table, parts, called, added), strict=True):
        assert column.tolist() == [function(int(n)) for n in x], function.__name__


GROUPS = """
    RWStructuredBuffer<int> y;
    groupshared int row[24];
    groupshared int* told[24];
    int after(int* p, int by) { *p += by; return *p; }

    [shader("compute")] [numthreads(24, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uint i : SV_GroupIndex)
    {
        int own = int(id.x);
        int other = -1;
        int* p = &own;
        for (uint k = 0; k < i % 3; k++)
            p = p == &own ? &other : &own;
        int* shared = &row[23 - i];
        *shared = int(i);
        told[i] = &own;
        for (int k = 0; k < 3; k++)
        {
            GroupMemoryBarrierWithGroupSync();
            after(p, row[i] + k);
            GroupMemoryBarrierWithGroupSync();
            after(shared, 1);
        }
        y[id.x] = own * 1000 + other;
    }
"""


@pytest.mark.parametrize("backend, options", DEVICES)
def test_pointers_over_barriers(backend, options):
    device = spy.create_device(backend=backend, options=options)
    module = device.load_module_from_source("groups", GROUPS.replace("told[i] = &own;", ""))
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    y = device.create_buffer(element_count=48, struct_type="int")
    kernel.dispatch([48, 1, 1], vars={"y": y})
    n = np.arange(48)
    added = 3 * (23 - n % 24) + 6
    own, other = np.where(n % 3 == 1, n, n + added), np.where(n % 3 == 1, added - 1, -1)
    assert y.to_numpy().view(np.int32).tolist() == (own * 1000 + other).tolist()


def test_pointers_that_a_group_would_keep(device):
    with pytest.raises(spy.CompileError, match="a pointer to 'own' is stored where it outlives it"):
        module = device.load_module_from_source("groups", GROUPS)
        device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
