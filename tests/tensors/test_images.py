"""Image files as tensors."""

import struct
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from slangrad.images import files
from slangrad.images.files import ImageError
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.tensor import Tensor

image_module = pytest.importorskip("PIL.Image")
COLORS = np.array(
    [[[0, 51, 255], [102, 153, 204]], [[10, 20, 30], [255, 255, 255]], [[1, 2, 3], [4, 5, 6]]], np.uint8
)


def saved(folder: Path, array: np.ndarray, mode: str | None = None, name: str = "image.png") -> Path:
    path = folder / name
    image = image_module.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path)
    return path


def test_colors(device: CpuDevice, tmp_path: Path) -> None:
    path = saved(tmp_path, COLORS)
    tensor = Tensor.load_from_image(device, path)
    assert (tensor.shape, str(tensor.dtype)) == ((3, 2), "float3")
    assert np.array_equal(tensor.to_numpy(), COLORS / np.float32(255))
    assert np.array_equal(
        Tensor.load_from_image(device, str(path), flip_y=True).to_numpy(), tensor.to_numpy()[::-1]
    )
    scaled = Tensor.load_from_image(device, path, scale=2.0, offset=0.5).to_numpy()
    assert np.allclose(scaled, tensor.to_numpy() * 2 + 0.5, atol=1e-7)


def test_channels(device: CpuDevice, tmp_path: Path) -> None:
    gray = Tensor.load_from_image(device, saved(tmp_path, COLORS[..., 0]))
    assert (gray.shape, str(gray.dtype)) == ((3, 2), "float")
    assert np.array_equal(gray.to_numpy(), COLORS[..., 0] / np.float32(255))
    pairs = Tensor.load_from_image(device, saved(tmp_path, COLORS, "LA"))
    assert str(pairs.dtype) == "float2"
    assert (pairs.to_numpy()[..., 1] == 1).all()
    four = np.dstack([COLORS, np.full((3, 2), 128, np.uint8)])
    assert np.array_equal(
        Tensor.load_from_image(device, saved(tmp_path, four)).to_numpy(), four / np.float32(255)
    )


def test_other_pixels(device: CpuDevice, tmp_path: Path) -> None:
    flags = saved(tmp_path, COLORS[..., 0] > 5, name="flags.png")
    assert np.array_equal(Tensor.load_from_image(device, flags).to_numpy(), COLORS[..., 0] > 5)
    deep = np.array([[0, 1], [40000, 65535]], np.uint16)
    assert np.allclose(
        Tensor.load_from_image(device, saved(tmp_path, deep)).to_numpy() * 65535, deep, atol=1e-2
    )
    few = saved(tmp_path, COLORS, "P", "few.png")
    assert Tensor.load_from_image(device, few).to_numpy().shape == (3, 2, 3)
    floats = np.array([[0.25, -3], [1e6, 0.1]], np.float32)
    path = saved(tmp_path, floats, name="floats.tiff")
    assert np.array_equal(Tensor.load_from_image(device, path).to_numpy(), floats)
    assert np.array_equal(Tensor.load_from_image(device, path, linearize=True).to_numpy(), floats)


def test_linear_intensities(device: CpuDevice, tmp_path: Path) -> None:
    four = np.dstack([COLORS, np.full((3, 2), 128, np.uint8)])
    found = Tensor.load_from_image(device, saved(tmp_path, four), linearize=True).to_numpy()
    encoded = COLORS / 255
    expected = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    assert np.allclose(found[..., :3], expected, atol=1e-6)
    assert np.allclose(found[..., 3], 128 / 255)
    assert found[1, 1, 0] == 1


def test_gray_from_colors(device: CpuDevice, tmp_path: Path) -> None:
    found = Tensor.load_from_image(device, saved(tmp_path, COLORS), grayscale=True)
    assert str(found.dtype) == "float"
    assert np.allclose(found.to_numpy(), COLORS / 255 @ [0.2126, 0.7152, 0.0722], atol=1e-6)


def test_what_cannot_be_read(device: CpuDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ImageError, match=r"error\[E1053\]: .*text.png is no image that Pillow reads"):
        Tensor.load_from_image(device, tmp_path / "text.png")
    with pytest.raises(FileNotFoundError):
        Tensor.load_from_image(device, tmp_path / "nothing.png")
    whole = saved(tmp_path, np.array([[1, 70000]], np.int32), name="whole.tiff")
    with pytest.raises(ValueError, match="has pixels of Pillow's mode 'I', which are not read"):
        Tensor.load_from_image(device, whole)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setattr(files, "PILLOW", files.LazyModule("PIL.Image"))
    with pytest.raises(ImportError, match=r"needs Pillow: pip install slangrad\[image\]"):
        Tensor.load_from_image(device, tmp_path / "text.png")


def png_of_16_bits(array: np.ndarray) -> bytes:
    """A PNG file of three channels of 16 bits, which Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = array.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_bits_are_not_lost(device: CpuDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = COLORS.astype(np.uint16) * 256 + 1
    (tmp_path / "deep.png").write_bytes(png_of_16_bits(deep))
    if find_spec("OpenImageIO"):
        found = Tensor.load_from_image(device, tmp_path / "deep.png").to_numpy()
        assert np.array_equal(found, (deep / np.float32(65535)).astype(np.float32))
    monkeypatch.setitem(sys.modules, "OpenImageIO", None)
    monkeypatch.setattr(files, "OIIO", files.LazyModule("OpenImageIO"))
    with pytest.raises(
        ImportError, match=r"16 bits in each of several channels, of which Pillow keeps 8.*OpenImageIO"
    ):
        Tensor.load_from_image(device, tmp_path / "deep.png")


@pytest.mark.parametrize("name", ["a.png", "a.bmp"])
def test_saving_is_the_inverse_of_loading(device: CpuDevice, tmp_path: Path, name: str) -> None:
    """All bytes, as gray and as colors, read with each setting."""
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    for pixels in (gray, np.dstack([gray, gray.T, gray[::-1]])):
        path = saved(tmp_path, pixels)
        for flag in (False, True):
            loaded = Tensor.load_from_image(device, path, flip_y=flag, linearize=flag)
            loaded.save(tmp_path / name, flip_y=flag, linear=flag)
            assert np.array_equal(np.array(image_module.open(tmp_path / name)), pixels)


def test_what_is_saved(device: CpuDevice, tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    four = np.dstack([COLORS, np.full((3, 2), 128, np.uint8)])
    for linear in (False, True):  # alpha is linear already
        expected = Tensor.load_from_image(device, saved(tmp_path, four, name="in.png"), linearize=linear)
        expected.save(path, linear=linear)
        assert np.array_equal(np.array(image_module.open(path)), four)
    Tensor.from_numpy(device, four).save(path)  # bytes, with channels as a dimension
    assert np.array_equal(np.array(image_module.open(path)), four)
    values = np.array([[-1, 0, 0.25], [0.5, 1, np.inf]])
    Tensor.from_numpy(device, values)[:, ::-1].save(path)
    assert np.array(image_module.open(path)).tolist() == [[64, 0, 0], [255, 255, 128]]
    Tensor.from_numpy(device, values.astype(np.float16)[..., None]).save(str(path))
    assert np.array(image_module.open(path)).tolist() == [[0, 0, 64], [128, 255, 255]]
    Tensor.from_numpy(device, COLORS).save(tmp_path / "image.jpg")
    assert image_module.open(tmp_path / "image.jpg").size == (2, 3)


def test_what_cannot_be_saved(device: CpuDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(shape: tuple[int, ...], dtype: str, name: str = "image.png", value: float = 0) -> None:
        Tensor.full(device, shape, value, dtype).save(tmp_path / name)

    with pytest.raises(ValueError, match=r"one to four channels, not the dimensions \(4,\)"):
        save((4,), "float")
    with pytest.raises(ValueError, match=r"not the dimensions \(4, 4, 5\)"):
        save((4, 4, 5), "float")
    with pytest.raises(ValueError, match=r"floats from 0 to 1 or bytes \(uint8_t\) are written, not int32"):
        save((4, 4), "int")
    with pytest.raises(ValueError, match="a format without alpha, and there are 4 channels"):
        save((4, 4), "float4", "image.jpg")
    with pytest.raises(ValueError, match="NaN is no intensity"):
        save((4, 4), "float", value=np.nan)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    monkeypatch.setattr(files, "PILLOW", files.LazyModule("PIL.Image"))
    with pytest.raises(ImportError, match=r"image.png needs Pillow: pip install slangrad\[image\]"):
        save((4, 4), "float")
    assert not list(tmp_path.iterdir())
