"""Bitmaps: facts, conversions and files, compared with NumPy."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from slangrad.images import files

pytest.importorskip("PIL.Image")

PIXELS, TYPES, FILES = spy.Bitmap.PixelFormat, spy.Bitmap.ComponentType, spy.Bitmap.FileFormat
CHANNELS = {"y": 1, "ya": 2, "r": 1, "rg": 2, "rgb": 3, "rgba": 4}
DTYPES = {
    name: np.dtype(name) for name in ("uint8", "uint16", "int16", "uint32", "float16", "float32", "float64")
}


def drawn(channels, dtype, height=5, width=7):
    rng, kind = np.random.default_rng(channels), np.dtype(dtype)
    if kind.kind == "f":
        return rng.random((height, width, channels)).astype(kind)
    ends = np.iinfo(kind)
    return rng.integers(ends.min, ends.max, (height, width, channels), dtype=kind, endpoint=True)


def test_facts_of_a_bitmap() -> None:
    pixels = drawn(3, "uint8")
    bitmap = spy.Bitmap(pixels)
    assert (bitmap.width, bitmap.height, bitmap.pixel_count, bitmap.channel_count) == (7, 5, 35, 3)
    assert (bitmap.pixel_format, bitmap.component_type, bitmap.srgb_gamma) == (PIXELS.rgb, TYPES.uint8, True)
    assert (bitmap.bytes_per_pixel, bitmap.buffer_size, bitmap.channel_names) == (3, 105, ["R", "G", "B"])
    assert not bitmap.has_alpha() and not bitmap.empty()
    assert [(field.name, field.offset) for field in bitmap.pixel_struct] == [("R", 0), ("G", 1), ("B", 2)]
    assert repr(bitmap) == "Bitmap(rgb, uint8, 7 x 5, srgb_gamma=True)"
    view = np.array(bitmap, copy=False)
    assert np.array_equal(view, pixels)
    view[0, 0] = 9
    assert np.asarray(bitmap)[0, 0].tolist() == [9, 9, 9] and pixels[0, 0].tolist() != [9, 9, 9]
    bitmap.vflip()
    assert np.asarray(bitmap)[-1, 0].tolist() == [9, 9, 9]
    same = spy.Bitmap(np.asarray(bitmap))
    assert bitmap == same and bitmap != spy.Bitmap(pixels) and bitmap != 3
    bitmap.clear()
    assert not np.asarray(bitmap).any()
    assert (
        not spy.Bitmap(drawn(1, "float32")).srgb_gamma
        and np.asarray(spy.Bitmap(drawn(1, "float32"))).ndim == 2
    )
    assert np.array_equal(np.asarray(spy.Bitmap(pixels[::-1, ::2, :2])), pixels[::-1, ::2, :2])


def test_bitmaps_of_zeros_and_of_named_channels() -> None:
    zeros = spy.Bitmap(pixel_format=PIXELS.ya, component_type=TYPES.float32, width=3, height=2)
    assert np.asarray(zeros).shape == (2, 3, 2) and not np.asarray(zeros).any() and zeros.has_alpha()
    assert spy.Bitmap(PIXELS.y, TYPES.uint8, 0, 0).empty()
    names = ["albedo.B", "albedo.G", "albedo.R", "depth"]
    layers = spy.Bitmap(drawn(4, "float32"), channel_names=names)
    assert layers.pixel_format is PIXELS.multi_channel and layers.channel_names == names
    (first, albedo), (second, depth) = layers.split()
    assert (first, second, albedo.pixel_format, depth.channel_names) == (
        "albedo",
        "<root>",
        PIXELS.rgb,
        ["depth"],
    )
    assert np.array_equal(np.asarray(albedo), np.asarray(layers)[..., 2::-1])
    many = spy.Bitmap(drawn(8, "float32"))
    assert many.pixel_format is PIXELS.multi_channel and many.channel_names[7] == "channel7"
    assert many._repr_html_() is None and "data:image/png;base64, " in str(zeros._repr_html_())


def linear(x):
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def coded(x):
    return np.where(x <= 0.0031308, x * 12.92, 1.055 * x ** (1 / 2.4) - 0.055)


def channels_of(colors, source, wanted):
    """The wanted channels of linear colors, by the rules of the documentation."""
    named = dict(zip({"y": "Y", "ya": "YA"}.get(source, source.upper()), np.moveaxis(colors, -1, 0)))
    zero, one = np.zeros(colors.shape[:-1]), np.ones(colors.shape[:-1])
    if "Y" in named:
        named |= dict.fromkeys("RGB", named["Y"])
    elif source == "r":
        named["Y"] = named["R"]
    elif "B" in named:
        named["Y"] = 0.2126 * named["R"] + 0.7152 * named["G"] + 0.0722 * named["B"]
    letters = {"y": "Y", "ya": "YA"}.get(wanted, wanted.upper())
    default = {"R": zero, "G": zero, "B": zero, "A": one}
    return np.stack([named[letter] if letter in named else default[letter] for letter in letters], -1)


CASES = list(itertools.product(CHANNELS, CHANNELS, DTYPES, DTYPES, (False, True), (False, True)))


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.deep) for k in range(1, 16))])
def test_conversions_of_every_kind(part) -> None:
    for source, wanted, kind, target, was_srgb, is_srgb in CASES[part::16]:
        if source == "rg" and wanted in ("y", "ya"):
            continue
        pixels = drawn(CHANNELS[source], kind)
        bitmap = spy.Bitmap(pixels, pixel_format=PIXELS[source], srgb_gamma=was_srgb)
        converted = bitmap.convert(PIXELS[wanted], TYPES[target], is_srgb)
        facts = (converted.pixel_format, converted.component_type, converted.srgb_gamma)
        assert facts == (PIXELS[wanted], TYPES[target], is_srgb)
        values = pixels.astype(np.float64)
        if pixels.dtype.kind != "f":
            values /= np.iinfo(pixels.dtype).max
        letters = {"y": "Y", "ya": "YA"}
        opaque = [letter != "A" for letter in letters.get(source, source.upper())]
        if was_srgb:
            values[..., opaque] = linear(values[..., opaque])
        values = channels_of(values, source, wanted)
        opaque = [letter != "A" for letter in letters.get(wanted, wanted.upper())]
        if is_srgb:
            values[..., opaque] = coded(values[..., opaque])
        size = DTYPES[target]
        if size.kind != "f":
            ends = np.iinfo(size)
            values = np.clip(values, -1 if ends.min else 0, 1) * ends.max
        relative = 2**-11 if target == "float16" else 0
        tolerance = 2e-6 if size.kind == "f" else 0.51 + 1e-6 * values.max()
        found = np.asarray(converted).reshape(values.shape).astype(np.float64)
        np.testing.assert_allclose(
            found, values, rtol=relative, atol=tolerance, err_msg=str((source, wanted, kind, target))
        )


def test_numbers_out_of_range_become_the_ends() -> None:
    values = np.array([[-1, 0, 0.5, 2, np.nan, np.inf]], np.float32)
    bitmap = spy.Bitmap(values)
    assert np.asarray(bitmap.convert(component_type=TYPES.uint8, srgb_gamma=False)).tolist() == [
        [0, 0, 128, 255, 0, 255]
    ]
    assert np.asarray(bitmap.convert(component_type=TYPES.uint64)).max() == 2**64 - 1
    wide = spy.Bitmap(np.array([[[2**53 + 1, 7]]], np.uint64), pixel_format=PIXELS.rg)
    assert np.asarray(wide.convert(PIXELS.r)).item() == 2**53 + 1  # chosen channels are copied


HELD = {
    "png": (("uint8", "uint16"), ("y", "ya", "rgb", "rgba")),
    "jpg": (("uint8",), ("y", "rgb")),
    "bmp": (("uint8",), ("y", "rgb")),
    "tga": (("uint8",), ("y", "rgb", "rgba")),
    "hdr": (("float32",), ("rgb",)),
    "exr": (("float16", "float32", "uint32"), ("y", "ya", "rgb", "rgba")),
}  # fmt: skip


@pytest.mark.parametrize("ending", HELD)
def test_files_hold_what_was_written(tmp_path, ending) -> None:
    if ending in ("hdr", "exr"):
        pytest.importorskip("OpenImageIO")
    for kind, format in itertools.product(*HELD[ending]):
        if ending == "png" and kind == "uint16" and format != "y":
            pytest.importorskip("OpenImageIO")
        smooth = np.add.outer(np.arange(20), np.arange(30))[..., None] + np.arange(CHANNELS[format])
        pixels = (smooth / 60).astype(kind) if kind.startswith("float") else (smooth * 4).astype(kind)
        bitmap = spy.Bitmap(pixels, pixel_format=PIXELS[format])
        path = tmp_path / f"{kind}_{format}.{ending}"
        bitmap.write(path)
        read = spy.Bitmap(path)
        assert (read.pixel_format, read.component_type, read.srgb_gamma) == (
            bitmap.pixel_format, bitmap.component_type, bitmap.srgb_gamma,
        )  # fmt: skip
        if ending in ("jpg", "hdr"):
            tolerance = {"rtol": 1e-2, "atol": 1e-2} if ending == "hdr" else {"atol": 6}
            np.testing.assert_allclose(
                np.asarray(read).astype(float), np.asarray(bitmap).astype(float), **tolerance
            )
        else:
            assert read == bitmap, (kind, format)


def test_many_channels_keep_their_names(tmp_path) -> None:
    pytest.importorskip("OpenImageIO")
    layers = spy.Bitmap(drawn(3, "float32"), channel_names=["depth", "normal.X", "normal.Y"])
    layers.write(tmp_path / "layers.exr")
    read = spy.Bitmap(tmp_path / "layers.exr")
    assert read == layers and read.channel_names == ["depth", "normal.X", "normal.Y"]


def test_files_in_threads(tmp_path) -> None:
    bitmaps = [spy.Bitmap(drawn(3, "uint8") + np.uint8(k)) for k in range(6)]
    for k, bitmap in enumerate(bitmaps):
        bitmap.write_async(tmp_path / f"{k}.png")
        bitmap.clear()  # the file has the pixels of before
    spy.thread.wait_for_tasks()
    read = spy.Bitmap.read_multiple([tmp_path / f"{k}.png" for k in range(6)])
    assert [np.asarray(bitmap)[0, 0, 0] - np.asarray(read[0])[0, 0, 0] for bitmap in read] == list(range(6))
    bitmaps[0].write_async(tmp_path / "no folder" / "0.png")
    with pytest.raises(FileNotFoundError):
        spy.thread.wait_for_tasks()
    spy.thread.wait_for_tasks()
    smooth = spy.Bitmap(np.full((64, 64, 3), 100, np.uint8))
    smooth.write(tmp_path / "a.png", FILES.png, 0)
    smooth.write(tmp_path / "b.png", quality=9)
    assert (tmp_path / "a.png").stat().st_size > 4 * (tmp_path / "b.png").stat().st_size


def test_what_is_no_bitmap(tmp_path) -> None:
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "short.exr").write_bytes(b"\x76\x2f\x31\x01 and no more")
    spy.Bitmap(np.zeros((64, 64, 3), np.uint8)).write(tmp_path / "whole.png", quality=0)
    (tmp_path / "part.png").write_bytes((tmp_path / "whole.png").read_bytes()[:900])
    floats = spy.Bitmap(drawn(3, "float32"))
    cases = [
        (lambda: spy.Bitmap(tmp_path / "text.png"), spy.ImageError, r"E1053\]: .*text.png is no image that Pillow reads"),
        (lambda: spy.Bitmap(tmp_path / "part.png"), spy.ImageError, "part.png cannot be read to its end"),
        (lambda: spy.Bitmap(tmp_path / "nothing.png"), FileNotFoundError, "nothing.png"),
        (lambda: spy.Bitmap(np.zeros(3)), ValueError, r"height, width and perhaps channels, not the shape \(3,\)"),
        (lambda: spy.Bitmap(np.array([["a"]])), TypeError, "pixels are numbers, not <U1"),
        (lambda: spy.Bitmap(drawn(3, "uint8"), pixel_format=PIXELS.rgba), ValueError, "rgba has 4 channels.* have 3"),
        (lambda: spy.Bitmap(PIXELS.rgb, TYPES.uint8), TypeError, "pixel_format, component_type, width and height"),
        (lambda: spy.Bitmap(PIXELS.rgb, TYPES.uint8, -1, 2), ValueError, "-1 x 2 pixels of 3 channels are no image"),
        (lambda: spy.Bitmap(PIXELS.rgb, TYPES.void, 1, 2), ValueError, "pixels have numbers, not void"),
        (lambda: floats.write(tmp_path / "a.png"), spy.ImageError, "png holds uint8 and uint16, not float32; .*convert"),
        (lambda: floats.convert(PIXELS.multi_channel), spy.ImageError, "name them in Bitmap"),
        (lambda: spy.Bitmap(drawn(2, "uint8"), pixel_format=PIXELS.rg).convert(PIXELS.y), spy.ImageError,
         "there is no channel Y among R, G"),
        (lambda: spy.Bitmap(drawn(4, "uint8")).write(tmp_path / "a.jpg"), spy.ImageError, "format without alpha"),
        (lambda: spy.Bitmap(drawn(5, "uint8")).write(tmp_path / "a.png"), spy.ImageError, "does not hold 5 channels"),
        (lambda: spy.Bitmap(drawn(3, "uint8")).write(tmp_path / "a.xyz"), spy.ImageError, "a.xyz cannot be written"),
        (lambda: spy.Bitmap(PIXELS.y, TYPES.uint8, 0, 0).write(tmp_path / "a.png"), spy.ImageError, "without pixels"),
    ]  # fmt: skip
    for make, kind, message in cases:
        with pytest.raises(kind, match=f"(?s){message}"):
            make()


def test_exr_needs_its_library(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "OpenImageIO", None)
    monkeypatch.setattr(files, "OIIO", files.LazyModule("OpenImageIO"))
    (tmp_path / "a.exr").write_bytes(b"\x76\x2f\x31\x01" + bytes(32))
    for action in (
        lambda: spy.Bitmap(tmp_path / "a.exr"),
        lambda: spy.Bitmap(drawn(3, "float32")).write(tmp_path / "b.exr"),
    ):
        with pytest.raises(ImportError, match=r"needs OpenImageIO.*pip install slangrad\[image\]"):
            action()
