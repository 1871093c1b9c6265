"""Views against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.tensor import Tensor

INDICES = [
    3,
    -1,
    (3, 4, 2, 1),
    (3, 4, ...),
    (..., 1),
    (3, ..., 1),
    ...,
    (),
    None,
    (2, 6, None, None, 2, None),
    (2, slice(4, None)),
    (1, slice(None, -3)),
    (slice(None, None, 2), ..., 3),
    slice(4, None, 3),
    slice(5, 2),
    slice(None, None, -1),
    (slice(7, 1, -2), ..., slice(None, None, -3)),
    slice(2, 5, -1),
    slice(100, 200),
    (slice(None), slice(1, 2), np.int64(3)),
    (None, ..., None),
]


def tensor_of(device: CpuDevice, *shape: int) -> tuple[Tensor, np.ndarray]:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return Tensor.from_numpy(device, array), array


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_numpys(device: CpuDevice, index: object) -> None:
    tensor, array = tensor_of(device, 10, 8, 5, 4)
    view, expected = tensor[index], array[index]
    if expected.ndim == 0:
        expected = expected.reshape(1)
    assert view.shape == expected.shape
    assert np.array_equal(view.to_numpy(), expected)
    if expected.size:
        assert tuple(4 * step for step in view.strides) == expected.strides
        assert view.address == tensor.address + 4 * view.offset
    assert view.storage is tensor.storage
    assert view.is_contiguous() == expected.flags.c_contiguous


STEPS = st.none() | st.integers(-4, 4).filter(bool)
SLICES = st.builds(slice, *[st.none() | st.integers(-9, 9)] * 2, STEPS)
ENTRIES = st.lists(st.integers(-3, 2) | SLICES | st.none(), max_size=4)


@given(ENTRIES, ENTRIES, st.booleans())
def test_random_indices(first: list[object], second: list[object], dots: bool) -> None:
    index = (*first, *([...] if dots else []), *second)
    used = sum(entry is not None and entry is not ... for entry in index)
    tensor, array = tensor_of(CpuDevice(), 3, 4, 3)
    if used > 3:
        with pytest.raises(IndexError, match="Too many indices for tensor of dimension 3"):
            tensor[index]
        return
    expected = array[index]
    assert np.array_equal(tensor[index].to_numpy(), expected.reshape(expected.shape or (1,)))


def test_views_of_views(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 6, 6)
    assert np.array_equal(tensor[1:][::2, 1:5][1].to_numpy(), array[1:][::2, 1:5][1])
    assert tensor[1:][::2, 1:5][1].offset == 19


def test_a_full_index_gives_one_element(device: CpuDevice) -> None:
    tensor, _ = tensor_of(device, 3, 4)
    element = tensor[2, 1]
    assert (element.shape, element.strides, element.offset) == ((1,), (1,), 9)
    assert element.to_numpy().item() == 9.0


def test_writing_through_a_view(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 4, 3)
    tensor[1].copy_from_numpy(np.array([7, 8, 9], np.float32))
    array[1] = [7, 8, 9]
    assert np.array_equal(tensor.to_numpy(), array)


@pytest.mark.parametrize(
    "index", [slice(1, 3), (slice(None), 1), (slice(None, None, 2), slice(1, None)), 0, (2, 2)]
)
def test_clearing_a_view_leaves_the_rest(device: CpuDevice, index: object) -> None:
    tensor, array = tensor_of(device, 4, 3)
    array += 1
    tensor.copy_from_numpy(array)
    tensor[index].clear()
    array[index] = 0
    assert np.array_equal(tensor.to_numpy(), array)


def test_iterating_visits_the_rows(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 3, 2)
    assert [row.to_numpy().tolist() for row in tensor] == array.tolist()


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (
            "bad",
            TypeError,
            "Illegal argument at dimension 0: Allowed are int, slice, ..., or None; found str instead",
        ),
        ((0, [1]), TypeError, "Illegal argument at dimension 1"),
        (True, TypeError, "found bool instead"),
        (1.0, TypeError, "found float instead"),
        ((0, 0, 0), IndexError, "Too many indices for tensor of dimension 2: 3 were given"),
        (4, IndexError, "index 4 is out of range for dimension 0 of size 4"),
        (-5, IndexError, "index -5 is out of range for dimension 0"),
        ((0, 3), IndexError, "index 3 is out of range for dimension 1 of size 3"),
        ((..., ...), IndexError, "only one '...'"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
    ],
)
def test_bad_indices(device: CpuDevice, index: object, error: type, message: str) -> None:
    tensor, _ = tensor_of(device, 4, 3)
    with pytest.raises(error, match=message):
        tensor[index]


def test_view_restrides_the_storage(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 256)
    view = tensor.view((8, 8), (1, 8), 64)
    assert (view.shape, view.strides, view.offset) == ((8, 8), (1, 8), 64)
    assert np.array_equal(view.to_numpy(), array[64:128].reshape(8, 8).T)
    back = view.view(tensor.shape, offset=-64)
    assert (back.shape, back.strides, back.offset) == ((256,), (1,), 0)
    assert tensor.view((4, 64)).strides == (64, 1)
    assert tensor.view(128).shape == (128,)
    assert tensor.view((), (), 3).to_numpy() == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((5, 4), (5,)), r"Shape dimensions \(2\) must match stride dimensions \(1\)"),
        (((5, 4), (-5, 1)), r"Strides must be positive or zero, .* strides \[-5, 1\] reach element -20"),
        (((4, 5), (-5, 1), 16), "the view reaches element 20 of a storage of 20 elements"),
        (((5, 4), (), -1), r"Tensor view offset is negative \(-1\)"),
        (((5, 5),), "the view reaches element 24 of a storage of 20 elements"),
        (((5, 4), (), 1), "the view reaches element 20 of a storage of 20"),
        (((3,), (10,)), "the view reaches element 20"),
    ],
)
def test_bad_views(device: CpuDevice, arguments: tuple, message: str) -> None:
    tensor, _ = tensor_of(device, 20)
    with pytest.raises(ValueError, match=message):
        tensor.view(*arguments)


def test_views_may_go_backwards(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 20)
    view = tensor.view((4, 5), (-5, 1), 15)
    assert np.array_equal(view.to_numpy(), array.reshape(4, 5)[::-1])
    assert np.array_equal(view[::-1].to_numpy(), array.reshape(4, 5))
    assert (tensor[::-1].strides, tensor[::-1].offset, tensor[::-1].is_contiguous()) == ((-1,), 19, False)
    view[:, ::-2].clear()
    array.reshape(4, 5)[:, ::-2] = 0
    assert np.array_equal(tensor.to_numpy(), array)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.data(),
)
def test_chains_of_views(sizes: list[int], data: st.DataObject) -> None:
    """Whatever views are made of views, they show what NumPy's do, and nothing is copied."""
    device = CpuDevice()
    tensor, array = tensor_of(device, *sizes)
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["slices", "transpose", "broadcast"]))
        if kind == "slices":
            slices = st.builds(slice, st.none(), st.none(), STEPS)
            index = tuple(data.draw(st.lists(slices | st.none(), max_size=array.ndim)))
            tensor, array = tensor[index], array[index]
        elif kind == "transpose":
            axes = data.draw(st.permutations(range(array.ndim)))
            tensor, array = tensor.transpose(axes), array.transpose(axes)
        elif array.ndim < 6:
            shape = (2, *(3 if size == 1 else size for size in array.shape))
            tensor, array = tensor.broadcast_to(shape), np.broadcast_to(array, shape)
        assert tensor.shape == array.shape
        assert np.array_equal(tensor.to_numpy(), array)
        assert np.array_equal(tensor.host_view(), array)
        if min(tensor.strides, default=1) >= 0:
            assert np.array_equal(np.from_dlpack(tensor), array)


def test_strides_count_elements(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (1, 2, 3, 4), "float3")
    assert tensor.strides == (24, 12, 4, 1)
    assert tensor.T.strides == (1, 4, 12, 24)
    assert (tensor[:, 1].strides, tensor[:, 1].offset) == ((24, 4, 1), 12)


def test_sizes_have_64_bits(device: CpuDevice) -> None:
    one = Tensor.ones(device, (1,), "uint8_t")
    wide = one.broadcast_to((3, 1 << 33))
    assert (wide.element_count, wide.strides) == (3 << 33, (0, 0))
    assert wide[2, (1 << 33) - 1 :].to_numpy().tolist() == [1]
    huge = Buffer.create(device, 5 << 30)  # memory that is not touched takes no room
    last = Tensor(huge, "uint8_t", (1,), offset=(5 << 30) - 1)
    assert last.address - huge.address == (5 << 30) - 1
    last.copy_from_numpy(np.array([7], np.uint8))
    ends = Tensor(huge, "uint8_t", (2,), ((5 << 30) - 1,))
    assert ends[::-1].to_numpy()[0] == 7


def test_a_view_as_another_type(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 4, 6)
    vectors = tensor.view((4, 2), dtype="float3")
    assert vectors.element_type is ir.vector(ir.F32, 3)
    assert np.array_equal(vectors.to_numpy(), array.reshape(4, 2, 3))
    assert vectors.storage is tensor.storage
    assert tensor.view(dtype="float2").shape == (4, 3)
    assert np.array_equal(tensor[1:, ::-1].view(dtype="int").to_numpy(), array[1:, ::-1].view(np.int32))
    assert np.array_equal(vectors.view(dtype=np.float32).to_numpy(), array)
    assert np.array_equal(tensor[1].view((1,), (), 1, dtype="float3").to_numpy()[0], array[1, 3:])
    assert np.array_equal(tensor[::2].view(dtype="uint8_t").to_numpy(), array[::2].view(np.uint8))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "shape: give the size of each dimension, or a dtype"),
        ({"dtype": "float4"}, ValueError, r"elements of 16 bytes do not fit shape \[4, 6\]"),
        ({"dtype": "float4", "shape": (7,)}, ValueError, "the view reaches element 6 of a storage of 6"),
    ],
)
def test_bad_types_of_views(device: CpuDevice, arguments: dict, error: type, message: str) -> None:
    tensor, _ = tensor_of(device, 4, 6)
    with pytest.raises(error, match=message):
        tensor.view(**arguments)


def test_gaps_and_odd_places_have_no_other_type(device: CpuDevice) -> None:
    tensor, _ = tensor_of(device, 4, 6)
    with pytest.raises(ValueError, match="need a last dimension without gaps; give the shape and strides"):
        tensor[:, ::2].view(dtype="float3")
    with pytest.raises(ValueError, match=r"do not fit shape .* and offset 1"):
        tensor[:, 1:].view((2,), dtype="float3")


def test_gradients_take_the_type_of_the_view(device: CpuDevice) -> None:
    tensor, array = tensor_of(device, 4, 6)
    tensor = tensor.with_grads()
    tensor.grad.copy_from_numpy(array)
    vectors = tensor.view((8,), dtype="float3")
    assert vectors.grad_in is vectors.grad_out
    assert np.array_equal(vectors.grad.to_numpy(), array.reshape(8, 3))
    with pytest.raises(ValueError, match=r"cannot be seen as those of int; use tensor.detach\(\).view"):
        tensor.view(dtype="int")
    assert tensor.detach().view(dtype="int").shape == (4, 6)


def test_an_empty_view_may_lie_anywhere(device: CpuDevice) -> None:
    tensor, _ = tensor_of(device, 20)
    assert tensor.view((0, 100), (), 20).to_numpy().shape == (0, 100)


@pytest.mark.parametrize(
    ("shape", "target"),
    [((3,), (4, 3)), ((4, 1), (4, 3)), ((1,), (5,)), ((3, 1, 1), (2, 3, 4, 5)), ((3,), (3,))],
)
def test_broadcasting_is_numpys(device: CpuDevice, shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    tensor, array = tensor_of(device, *shape)
    view = tensor.broadcast_to(target)
    assert view.shape == target
    assert np.array_equal(view.to_numpy(), np.broadcast_to(array, target))
    assert view.storage is tensor.storage


def test_bad_broadcasts(device: CpuDevice) -> None:
    tensor, _ = tensor_of(device, 32, 1, 1)
    with pytest.raises(ValueError, match="Broadcast shape must be larger than tensor shape"):
        tensor.broadcast_to((32,))
    with pytest.raises(
        ValueError, match="Current dimension 32 at index 0 must be equal to new dimension 16 or 1"
    ):
        tensor.broadcast_to((16, 5, 5))


@pytest.mark.parametrize("axes", [(), (1, 0, 2), (2, 0, 1), (-1, 0, 1)])
def test_transposing_is_numpys(device: CpuDevice, axes: tuple[int, ...]) -> None:
    tensor, array = tensor_of(device, 2, 3, 4)
    assert np.array_equal(tensor.transpose(*axes).to_numpy(), array.transpose(axes or None))
    assert np.array_equal(tensor.transpose(axes).to_numpy(), array.transpose(axes or None))


@pytest.mark.parametrize("axes", [(0, 1), (0, 0, 1), (0, 1, 3)])
def test_bad_axes(device: CpuDevice, axes: tuple[int, ...]) -> None:
    tensor, _ = tensor_of(device, 2, 3, 4)
    with pytest.raises(ValueError, match="do not name each of the 3 dimensions once"):
        tensor.transpose(*axes)


def test_pointing_elsewhere(device: CpuDevice) -> None:
    a, array_a = tensor_of(device, 4, 3)
    b = Tensor.from_numpy(device, (array_a + 100).T)
    row = a[1]
    row.point_to(b.transpose()[2])
    assert row.to_numpy().tolist() == [106, 107, 108]
    row.point_to(b[:, 0].broadcast_to((3, 3))[0])
    assert row.to_numpy().tolist() == [100, 101, 102]
    assert row.storage is b.storage
    assert np.array_equal(a.to_numpy(), array_a)


def test_pointing_at_something_else_is_refused(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (4, 4), "float")
    with pytest.raises(ValueError, match="Shape of existing and new tensor view must match"):
        tensor.point_to(Tensor.zeros(device, (8, 2), "float"))
    with pytest.raises(ValueError, match="Element size and type must match: float and double"):
        tensor.point_to(Tensor.zeros(device, (4, 4), "double"))
    with pytest.raises(ValueError, match="Usage flags"):
        tensor.point_to(Tensor.zeros(device, (4, 4), "float", usage=tensor.usage | 256))
