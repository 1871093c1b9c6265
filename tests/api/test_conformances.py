"""Which types are behind an interface in memory: those of the module, or those that are given with the entry point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

TEXT = """
[anyValueSize(8)] interface IValue { float get(); }
struct One : IValue { float a; float get() { return a; } }
struct Two : IValue { float a; bool twice; float get() { return twice ? 2 * a : a; } }
struct Many<let N : int> : IValue { float a; float get() { return N * a; } }
struct Other { float get() { return 0; } }

[shader("compute")] [numthreads(4, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, StructuredBuffer<IValue> values, RWStructuredBuffer<float> found)
{
    IValue value = values[id.x];
    found[id.x] = value.get();
}
"""


def found(ids: list[int], conformances: list[spy.TypeConformance]) -> list[float]:
    """What four values of 3 give whose types have these ids."""
    device = spy.create_device()
    session = device.slang_session
    module = session.load_module_from_source("values", TEXT)
    program = session.link_program([module], [module.entry_point("main", conformances)])
    words = np.zeros((4, 6), np.uint32)
    words[:, 2] = ids
    words[:, 4] = np.float32([3] * 4).view(np.uint32)
    words[:, 5] = 1
    values = device.create_buffer(struct_size=24, data=words)
    results = device.create_buffer(size=16, struct_size=4, data=np.zeros(4, np.float32))
    kernel = device.create_compute_kernel(program)
    kernel.dispatch([4, 1, 1], values=values, found=results)
    return results.to_numpy().view(np.float32).tolist()


def test_types_of_the_module_in_order() -> None:
    assert found([0, 1, 1, 0], []) == [3, 6, 6, 3]


def test_an_unknown_id_is_the_largest() -> None:
    assert found([0, 1, 2, 99], []) == [3, 6, 6, 6]


def test_given_types_and_ids() -> None:
    given = [
        spy.TypeConformance("IValue", "Many<10>", 7),
        spy.TypeConformance("IValue", "Two", 3),
        spy.TypeConformance("IValue", "One"),
    ]
    assert found([7, 3, 8, 7], given) == [30, 6, 3, 30]


def test_only_given_types() -> None:
    assert found([0, 1, 2, 3], [spy.TypeConformance("IValue", "Many<5>")]) == [15] * 4


@pytest.mark.parametrize(
    ("interface", "name", "message"),
    [
        ("IMissing", "One", 'Interface type "IMissing" not found'),
        ("IValue", "Missing", 'Type "Missing" not found'),
        ("IValue", "Other", "'Other' does not conform to 'IValue'"),
    ],
)
def test_what_is_no_conformance(interface: str, name: str, message: str) -> None:
    with pytest.raises(CallError, match=message):
        found([0] * 4, [spy.TypeConformance(interface, name, 0)])


def test_tuples_and_composed_modules() -> None:
    """(interface, type[, id]) will do; a composed module brings its own."""
    assert found([0, 1, 1, 0], [("IValue", "Many<5>", 1), ("IValue", "One", 0)]) == [3, 15, 15, 3]
    with pytest.raises(
        CallError, match='Duplicate type conformance entry for interface type "IValue" and type "One"'
    ):
        found([0] * 4, [("IValue", "One"), ("IValue", "One", 2)])
    with pytest.raises(RuntimeError, match='Duplicate type id 0 for interface type "IValue"'):
        found([0] * 4, [("IValue", "One", 0), ("IValue", "Many<5>", 0)])


def test_composed_modules() -> None:
    session = spy.create_device().slang_session
    first = session.load_module_from_source("first", entry("first", 4))
    second = session.load_module_from_source("second", entry("second", 8))
    assert (first.is_composed, first.source_modules) == (False, ())
    both = session.compose_modules("both", [first, second], [("IValue", "One", 0)])
    assert (both.name, both.is_composed, both.source_modules) == ("both", True, (first, second))
    assert [each.name for each in both.entry_points] == ["first", "second"]
    assert both.entry_point("second").layout.compute_thread_group_size == [8, 1, 1]
    assert both.entry_point("first").type_conformances == (spy.TypeConformance("IValue", "One", 0),)
    program = session.link_program([both], both.entry_points)
    assert len(program.layout.entry_points) == 2
    with pytest.raises(CallError, match='Entry point "third" not found'):
        both.entry_point("third")
    with pytest.raises(CallError, match="Entry point \"first\" is in 'first' and 'first'"):
        session.compose_modules("twice", [first, first]).entry_point("first")
    with pytest.raises(CallError, match="no modules to compose"):
        session.compose_modules("none", [])
    with pytest.raises(CallError, match="belongs to another session"):
        spy.create_device().slang_session.compose_modules("foreign", [first])


def entry(name: str, size: int) -> str:
    return f'[shader("compute")] [numthreads({size}, 1, 1)] void {name}(uint3 id : SV_DispatchThreadID) {{ }}'


UNSAID = """
interface IValue { float get(); }
struct Flag : IValue { bool on; double a; float get() { return on ? float(a) : -1; } }
struct Sum<let N : int> : IValue { float a[N]; float get() { float s = 0; for (int i = 0; i < N; i++) s += a[i]; return s; } }
struct Holder { int n; IValue value; float last; }
float put(RWStructuredBuffer<Holder> p, int i)
{
    Holder h = { i, Flag(true, i), 7 };
    if (i == 1)
        h.value = Sum<%d>();
    p[i] = h;
    return p[i].value.get() + p[i].n + p[i].last;
}
"""


def test_elements_are_as_large_as_the_largest_type_of_the_module() -> None:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "holders", UNSAID % 4)
    assert module.layout.find_type_by_name("Holder").buffer_layout.size == 40
    buffer = device.create_buffer(size=120, struct_size=40, data=np.full(120, 0, np.uint8))
    assert [module.put(buffer, i) for i in range(3)] == [7, 8, 11]
    with pytest.raises(spy.BoundsError):
        module.put(buffer, 3)


def test_a_larger_instance_has_to_be_announced() -> None:
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "holders", UNSAID % 5)
    buffer = device.create_buffer(size=120, struct_size=40, data=np.full(120, 0, np.uint8))
    message = r"'Sum<5>' takes 20 bytes, more than the 16 that 'IValue' has(.|\n)*interface IValue(.|\n)*anyValueSize\(20\)"
    with pytest.raises(ValueError, match=message):
        module.put(buffer, 0)


CALLED = """
interface IScale { [Differentiable] float apply(float x); }
struct Cube : IScale { [Differentiable] float apply(float x) { return x * x * x; } }
struct Times<let N : int> : IScale { [Differentiable] float apply(float x) { return N * x; } }
namespace deep { struct Negated : IScale { [Differentiable] float apply(float x) { return -x; } } }
struct Other {}
[Differentiable] float scaled(int id, float x) { IScale scale = createDynamicObject<IScale>(id, 0); return scale.apply(x); }
void fill(uint3 dispatchThreadID, RWTensor<float, 1> x) { x[int(dispatchThreadID.x)] = scaled(int(dispatchThreadID.x), 3); }
"""
GIVEN = [spy.TypeConformance("IScale", "Times<5>", 1), ("IScale", "deep::Negated", 0)]


@pytest.fixture
def called() -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(), "called", CALLED)


def test_calls(called: spy.Module) -> None:
    """Without more said, all types of the module that conform, in the order of their declarations."""
    assert called.scaled([0, 1], 2.0).to_numpy().tolist() == [8, -2]
    given = called.scaled.type_conformances(GIVEN)
    assert given([0, 1, 0], [2.0, 3.0, 4.0]).to_numpy().tolist() == [-2, 15, -4]
    assert called.scaled.type_conformances([("IScale", "Cube")])(0, 3.0) == 27
    assert called.scaled([0, 1], 2.0).to_numpy().tolist() == [8, -2]


def test_calls_add_up(called: spy.Module) -> None:
    first = called.scaled.type_conformances([("IScale", "Times<5>", 1)])
    assert first.type_conformances([("IScale", "Cube", 4)])([1, 4], 2.0).to_numpy().tolist() == [10, 8]
    with pytest.raises(CallError, match="Duplicate type id 1"):
        first.type_conformances([("IScale", "Cube", 1)])


def test_derivatives_of_calls(called: spy.Module) -> None:
    x = spy.Tensor.from_numpy(called.device, np.float32([2, 3])).with_grads()
    called.scaled.type_conformances([*GIVEN, ("IScale", "Cube", 2)]).bwds([2, 1], x)
    assert x.grad.to_numpy().tolist() == [12, 5]


def test_kernels_of_functions(called: spy.Module) -> None:
    x = spy.Tensor.empty(called.device, (2,), "float")
    called.fill.type_conformances(GIVEN).thread_group_size([2, 1, 1]).dispatch([2, 1, 1], x=x)
    assert x.to_numpy().tolist() == [-3, 15]


@pytest.mark.parametrize(
    ("interface", "name", "message"),
    [
        ("IMissing", "Cube", 'Interface type "IMissing" not found'),
        ("IScale", "Missing", 'Type "Missing" not found'),
        ("IScale", "Other", "'Other' does not conform to 'IScale'"),
    ],
)
def test_calls_with_what_is_no_conformance(
    called: spy.Module, interface: str, name: str, message: str
) -> None:
    with pytest.raises(CallError, match=message):
        called.scaled.type_conformances([(interface, name)])(0, 1.0)


def test_later_processes(called: spy.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels on disk are found by the types, too."""
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path))
    for kind, expected in (("Cube", 8), ("Times<5>", 10), ("Cube", 8)):
        module = spy.Module.load_from_source(spy.create_device(), "called", CALLED)
        assert module.scaled.type_conformances([("IScale", kind)])(0, 2.0) == expected
