"""Python's operators on tensors: equality by elements, the truth of one element, no arithmetic in silence."""

import operator

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor


def tensor(device, values, dtype=np.float32):
    return Tensor.from_numpy(device, np.array(values, dtype))


def test_equality_is_by_elements(device):
    a, b = tensor(device, [[1, 2], [3, 4]]), tensor(device, [[1, 5], [3, 4]])
    for other in (b, b.to_numpy(), b.to_numpy().tolist()):
        assert (a == other).tolist() == [[True, False], [True, True]]
        assert (a != other).tolist() == [[False, True], [False, False]]
    assert (a == 3).tolist() == [[False, False], [True, False]]
    assert (a == b[0]).tolist() == [[True, False], [False, False]]
    assert (a[0] == a[0]).dtype == np.bool_
    assert (b.to_numpy() == a).tolist() == [[True, False], [True, True]]
    with pytest.raises(ValueError, match="broadcast"):
        _ = a == tensor(device, [1, 2, 3])


def test_other_things_are_not_equal(device):
    a = tensor(device, [1, 2])
    assert (a == None) is False and (a != None) is True  # noqa: E711
    assert (a == "a") is False and (a == object()) is False


def test_identity_finds_tensors(device):
    a, b = tensor(device, [1, 2]), tensor(device, [1, 2])
    assert {a: 1, b: 2}[a] == 1 and len({a, b, a}) == 2
    assert a in (a, b) and [b, a].index(b) == 0
    with pytest.raises(ValueError, match="ambiguous"):
        _ = b in [a]


def test_the_truth_of_a_tensor(device):
    assert bool(tensor(device, [1])) is True and bool(tensor(device, [0])) is False
    assert not tensor(device, [[0]], np.int32)
    for values in ([1, 2], [0, 0], []):
        with pytest.raises(ValueError, match=r"shape \(\d,\) is ambiguous: say np.any"):
            bool(tensor(device, values))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(Tensor.zeros(device, (1,), "float3"))


def test_structs_are_not_compared():
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "compared", "struct S { float a; int b; }")
    one = Tensor.zeros(device, (2,), module.S)
    for compare in (operator.eq, operator.ne):
        with pytest.raises(TypeError, match=r"does not compare Tensors of structs \(S\)"):
            compare(one, one)


NAMES = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le gt ge"


def test_there_is_no_arithmetic(device):
    a = tensor(device, [1, 2])
    for operate in (getattr(operator, name) for name in NAMES.split()):
        check_refused(operate, a)


def check_refused(operate, a):
    for arguments in ((a, a), (a, 2), (2, a)):
        with pytest.raises(
            TypeError, match=r"Tensors have no operator .*call a Slang function, or compute with t.to_numpy"
        ):
            operate(*arguments)


def test_there_are_no_signs(device):
    a = tensor(device, [1, 2])
    for operate in (operator.neg, operator.pos, operator.invert, abs):
        with pytest.raises(TypeError, match="Tensors have no operator"):
            operate(a)


@pytest.mark.parametrize("count", [2**31, 2**32 - 1, 2**32, 2**62, 2**70])
def test_more_elements_than_indices_hold(device, count):
    rows = [
        lambda: Tensor.zeros(device, (count,), "uint8_t"),
        lambda: Tensor.empty(device, (count // 2**16, 2**16 + 1), "float"),
        lambda: Tensor.ones(device, (count,), "float3"),
        lambda: Tensor(device, dtype="float", shape=(count,)),
    ]
    for make in rows:
        with pytest.raises(
            ValueError, match=r"error\[E1005\]: .*a tensor has less than 2147483648"
        ) as caught:
            make()
        assert isinstance(caught.value, MemoryError) and caught.value.code == "E1005"


def test_views_of_more_elements():
    """Views may repeat an element as often as they like; functions do not take them."""
    device = spy.create_device()
    text = 'import "slangpy"; uint size(ITensor<float, 1> x) { return x.shape[0]; }'
    size = spy.Module.load_from_source(device, "sizes", text).size
    one = Tensor.zeros(device, (1,), "float")
    assert size(one.broadcast_to((2**31 - 1,))) == 2**31 - 1
    for count in (2**31, 2**32 - 1, 2**40):
        with pytest.raises(ValueError, match=r"error\[E1005\].* takes less than 2147483648 elements"):
            size(one.broadcast_to((count,)))
