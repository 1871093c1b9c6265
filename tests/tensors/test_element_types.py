"""What counts as a dtype, and how NumPy sees each type."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.tensors.elements.element_types import (
    derivative_type,
    element_type,
    from_numpy_type,
    numpy_layout,
    slang_name,
    structured_dtype,
)

PARTICLE = ir.struct("Particle", (("mass", ir.F16), ("position", ir.vector(ir.F32, 3)), ("id", ir.U8)))
CLOUD = ir.struct(
    "Cloud", (("size", ir.I32), ("parts", ir.array(PARTICLE, 2)), ("turn", ir.matrix(ir.F64, 2, 3)))
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bool", ir.BOOL),
        ("int", ir.I32),
        ("uint", ir.U32),
        ("half", ir.F16),
        ("float", ir.F32),
        ("double", ir.F64),
        ("int8_t", ir.I8),
        ("uint16_t", ir.U16),
        ("int64_t", ir.I64),
        ("float16_t", ir.F16),
        ("float32", ir.F32),
        ("int16", ir.I16),
        ("uint8", ir.U8),
        ("float3", ir.vector(ir.F32, 3)),
        ("uint8_t4", ir.vector(ir.U8, 4)),
        ("bool2", ir.vector(ir.BOOL, 2)),
        ("int1", ir.vector(ir.I32, 1)),
        ("float3x4", ir.matrix(ir.F32, 3, 4)),
        ("half2x2", ir.matrix(ir.F16, 2, 2)),
        ("vector<float, 3>", ir.vector(ir.F32, 3)),
        ("matrix<double,2,3>", ir.matrix(ir.F64, 2, 3)),
        ("Array<float3, 5>", ir.array(ir.vector(ir.F32, 3), 5)),
        ("Array<vector<int,2>,4>", ir.array(ir.vector(ir.I32, 2), 4)),
        ("float[7]", ir.array(ir.F32, 7)),
        ("float3[2]", ir.array(ir.vector(ir.F32, 3), 2)),
        ("float[2][3]", ir.array(ir.array(ir.F32, 2), 3)),
        ("vector<float,3>[2]", ir.array(ir.vector(ir.F32, 3), 2)),
    ],
)
def test_names(name: str, expected: ir.Type) -> None:
    assert element_type(name) is expected


@pytest.mark.parametrize(
    "name", ["Particle", "float5", "float3x", "vector<float>", "vector<Foo,3>", "float[", "", "x[2]"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown type name .*; for a type of a module give module.Name"):
        element_type(name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ir.F32, ir.F32),
        (PARTICLE, PARTICLE),
        (float, ir.F32),
        (int, ir.I32),
        (bool, ir.BOOL),
        (np.float64, ir.F64),
        (np.dtype(np.int16), ir.I16),
        (np.dtype(">f4"), ir.F32),
        (np.bool_, ir.BOOL),
        (np.dtype((np.float32, (2, 3))), ir.array(ir.array(ir.F32, 3), 2)),
        (SimpleNamespace(ir_type=PARTICLE), PARTICLE),
    ],
)
def test_objects(given: object, expected: ir.Type) -> None:
    assert element_type(given) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("float32", ir.F32), ("float16", ir.F16), ("bool", ir.BOOL), ("int64", ir.I64)]
)
def test_torch_dtypes_are_known_by_name(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: ir.Type
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    torch_dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda self: f"torch.{text}"})
    assert element_type(torch_dtype()) is expected


@pytest.mark.parametrize("wrong", [3, 1.5, np.complex64, np.dtype("U3"), [float], object(), str])
def test_other_objects_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"kind: .* is no element type"):
        element_type(wrong, "kind")


def test_a_missing_dtype_is_named() -> None:
    with pytest.raises(ValueError, match=r"Element type \(dtype\) must be specified"):
        element_type(None)


@pytest.mark.parametrize("tape", [ir.array(ir.F32, None), ir.lanes(ir.F32)])
def test_what_has_no_memory_is_refused(tape: ir.Type) -> None:
    with pytest.raises(ValueError, match="cannot be stored in memory"):
        element_type(tape)


@pytest.mark.parametrize(
    ("t", "dtype", "dimensions"),
    [
        (ir.BOOL, np.bool_, ()),
        (ir.U16, np.uint16, ()),
        (ir.vector(ir.F16, 3), np.float16, (3,)),
        (ir.matrix(ir.F32, 3, 4), np.float32, (3, 4)),
        (ir.array(ir.array(ir.F32, 2), 3), np.float32, (3, 2)),
        (ir.array(ir.matrix(ir.I8, 2, 2), 3), np.int8, (3, 2, 2)),
        (ir.pointer(ir.F32), np.uint64, ()),
        (PARTICLE, np.uint8, (20,)),
        (ir.array(PARTICLE, 4), np.uint8, (4, 20)),
    ],
)
def test_types_as_numpy_sees_them(t: ir.Type, dtype: type, dimensions: tuple[int, ...]) -> None:
    assert numpy_layout(t) == (np.dtype(dtype), dimensions)


def test_fields_of_a_struct_lie_where_the_layout_says() -> None:
    particle = structured_dtype(PARTICLE)
    assert particle.names == ("mass", "position", "id")
    assert [particle.fields[name][1] for name in particle.names] == [0, 4, 16]
    assert particle.itemsize == layout_of(PARTICLE).size == 20
    cloud = structured_dtype(CLOUD)
    assert [cloud.fields[name][1] for name in cloud.names] == list(layout_of(CLOUD).offsets)
    assert cloud["parts"].base == particle
    assert cloud["turn"].shape == (2, 3)


@pytest.mark.parametrize("dtype", [np.complex64, "U4", "M8[s]", object, [("x", "f4")], np.longdouble])
def test_dtypes_without_a_slang_type(dtype: object) -> None:
    assert from_numpy_type(np.dtype(dtype)) is None


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (ir.F32, ir.F32),
        (ir.F16, ir.F16),
        (ir.vector(ir.F64, 2), ir.vector(ir.F64, 2)),
        (ir.matrix(ir.F32, 2, 2), ir.matrix(ir.F32, 2, 2)),
        (ir.array(ir.vector(ir.F32, 3), 5), ir.array(ir.vector(ir.F32, 3), 5)),
        (ir.I32, None),
        (ir.BOOL, None),
        (ir.vector(ir.U32, 2), None),
        (ir.array(ir.I32, 2), None),
        (PARTICLE, None),
        (ir.pointer(ir.F32), None),
    ],
)
def test_derivative_types(t: ir.Type, expected: ir.Type | None) -> None:
    assert derivative_type(t) is expected


@pytest.mark.parametrize(
    "name", ["float", "uint", "half3", "double2x3", "int64_t", "float[4]", "float2[4][3]", "bool", "uint8_t4"]
)
def test_names_are_read_back(name: str) -> None:
    assert slang_name(element_type(name)) == name


def test_names_of_other_types() -> None:
    assert slang_name(PARTICLE) == "Particle"
    assert slang_name(ir.pointer(PARTICLE)) == "Particle*"
    assert slang_name(ir.array(ir.F32, None)) == "float[]"
