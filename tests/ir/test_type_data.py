"""Types as JSON, and back."""

import json

import pytest

from slangrad.ir.data import types as ir
from slangrad.ir.data.type_data import type_data, type_from

POINT = ir.struct("Point", (("at", ir.vector(ir.F32, 3)), ("mass", ir.F64)))


@pytest.mark.parametrize(
    "t",
    [
        ir.BOOL,
        ir.F16,
        ir.U64,
        ir.vector(ir.I32, 2),
        ir.matrix(ir.F32, 3, 4),
        ir.array(POINT, 7),
        ir.array(ir.F32, None),
        POINT,
        ir.pointer(POINT),
        ir.pointer(ir.F32, "constant"),
        ir.lanes(ir.pointer(ir.I8)),
        ir.struct("Empty", ()),
    ],
)
def test_types_survive(t: ir.Type) -> None:
    assert type_from(json.loads(json.dumps(type_data(t)))) is t


@pytest.mark.parametrize("data", ["f33", None, 3, [], ["vector", "f32"], ["vector", ["array", "f32", 2], 3]])
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises(ValueError):
        type_from(data)
