"""Argument blocks."""

import struct

import pytest

from slangrad.call.plans.packing import packer_of
from slangrad.ir.data.types import BOOL, F32, F64, I32, I64, U32, array, matrix, pointer, vector
from slangrad.ir.data.types import struct as struct_type
from slangrad.marshal.errors import CallError


def test_fields_stand_at_their_offsets():
    block = struct_type("block", (("flag", BOOL), ("v", vector(F32, 3)), ("d", F64)))
    packer = packer_of(block)
    values = packer.empty
    values[packer.places["flag"]] = [True]
    values[packer.places["v"]] = [1.0, 2.0, 3.0]
    values[packer.places["d"]] = [4.0]
    assert packer.pack(values) == struct.pack("=?xxx3fd", True, 1.0, 2.0, 3.0, 4.0)


def test_nested_values_are_flat():
    inner = struct_type("inner", (("data", pointer(F32)), ("strides", array(I64, 2))))
    block = struct_type("block", (("n", U32), ("x", inner), ("m", matrix(I32, 2, 2))))
    packer = packer_of(block)
    assert packer.places == {"n": slice(0, 1), "x": slice(1, 4), "m": slice(4, 8)}
    assert len(packer.pack(packer.empty)) == 48


def test_no_arguments_take_no_bytes():
    packer = packer_of(struct_type("block", ()))
    assert packer.pack(packer.empty) == b""


@pytest.mark.parametrize("value", [-1, 1 << 32, 1.5, "x"])
def test_a_value_that_does_not_fit_names_its_argument(value):
    packer = packer_of(struct_type("block", (("a", F32), ("n", U32))))
    with pytest.raises(CallError, match="argument 'n'") as caught:
        packer.pack([1.0, value])
    assert caught.value.code == "E1010"


def test_a_float_that_is_too_large_is_refused():
    packer = packer_of(struct_type("block", (("a", F32),)))
    with pytest.raises(CallError, match="does not fit into 'float'"):
        packer.pack([1e300])


def test_infinities_are_floats():
    packer = packer_of(struct_type("block", (("a", F32),)))
    assert packer.pack([float("inf")]) == struct.pack("=f", float("inf"))
