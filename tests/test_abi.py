"""Values lie in memory for the host as they do for kernels: random types, by all rules of layouts and matrices."""

import random

import pytest

import slangrad as spy
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import scalars_of
from slangrad.marshal.host.encode import format_of

SCALARS = [
    "bool",
    "int8_t",
    "int16_t",
    "int",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint",
    "uint64_t",
    "half",
    "float",
    "double",
]
LAYOUTS = ("", "Std140DataLayout", "Std430DataLayout", "ScalarDataLayout")
ORDERS = ("", "row_major ", "column_major ")


HEAD = """
enum Small : uint8_t { a, b }
struct Box<T, let N : int> { T one; T many[N]; }
interface IShape { float area(); }
struct Round : IShape { double radius; bool filled; float area() { return 0; } }
struct Flat : IShape { column_major float3x2 m; float area() { return 0; } }
"""


def declarations(rng, count):
    """Structs of which each may hold those before it; their names."""
    names, lines = [], [HEAD]
    for i in range(count):
        fields = [f"    {field(rng, names, k)}" for k in range(rng.randint(1, 5))]
        names.append(f"S{i}")
        lines += [f"struct S{i}", "{", *fields, "}"]
    return names, lines


def field(rng, names, k):
    kind, order = rng.choice(SCALARS), ""
    choice = rng.randrange(8)
    if choice == 1:
        kind = f"vector<{kind}, {rng.randint(1, 4)}>"
    elif choice in (2, 3):
        kind = f"matrix<{kind}, {rng.randint(1, 4)}, {rng.randint(1, 4)}>"
        order = rng.choice(ORDERS)
    elif choice == 4 and names:
        kind = rng.choice(names)
    elif choice == 5:
        kind = rng.choice(
            ("Small", "IShape", f"{rng.choice([kind, *names])}*", f"Box<{kind}, {rng.randint(1, 3)}>")
        )
    elif choice == 6 and names:
        kind = f"Box<{rng.choice(names)}, 2>"
    sizes = "".join(f"[{rng.randint(1, 3)}]" for _ in range(rng.choice((0, 0, 0, 1, 2))))
    return f"{order}{kind} f{k}{sizes};"


def seen(t):
    """All scalars of a type with their offsets, those behind pointers, too."""
    rows = []
    for offset, scalar in scalars_of(t):
        behind = seen(scalar.element) if isinstance(scalar, ir.Pointer) else None
        rows.append((offset, format_of(scalar), behind))
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_forms_of_random_types_are_those_of_kernels(seed):
    rng = random.Random(seed)
    names, lines = declarations(rng, 20)
    kinds = [f"{rng.choice(ORDERS)}float{rng.randint(2, 4)}x{rng.randint(2, 4)}" for _ in range(4)]
    written = [f"uniform {name} plain{i}" for i, name in enumerate(names)]
    for i, name in enumerate([*names, *kinds]):
        layout = rng.choice(LAYOUTS)
        written.append(f"StructuredBuffer<{name}{', ' + layout if layout else ''}> buffer{i}")
    lines += ['[shader("compute")] [numthreads(1, 1, 1)]', f"void main({', '.join(written)}) {{ }}"]
    device = spy.create_device(backend="interpreter")
    module = spy.Module.load_from_source(device, f"abi{seed}", "\n".join(lines))
    program = device.link_program([module.device_module], [module.device_module.entry_point("main")])
    pipeline = device.create_compute_kernel(program).pipeline
    packer = pipeline.compiled.packer
    for slot in pipeline.slots():
        t = slot.uniform.form
        place = packer.places[slot.name]
        start = packer.offsets[place][0]
        kernel = [
            (at - start, format_of(each), seen(each.element) if isinstance(each, ir.Pointer) else None)
            for at, each in zip(packer.offsets[place], packer.scalars[place])
        ]
        assert seen(t) == kernel, (slot.name, str(slot.uniform.type))
    assert len(list(pipeline.slots())) == len(written)
