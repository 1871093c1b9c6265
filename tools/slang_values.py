"""Values of a test go into a program's parameters, by a cursor and the program's reflection.

In: a program, its kernel, and the inputs of a test.   Out: its outputs, each as bytes and the type of their numbers.
Words go in as bytes, whatever the parameter's type, as in Slang's own tool.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from slang_inputs import Buffer, Combined, Parts, Sampler, Texture, Unsupported, Value, Words

import slangrad as spy

BLOCKS = ("constant_buffer", "parameter_block")
NUMBERS = ("scalar", "vector", "matrix")
FORMAT = re.compile(r"(R|RG|RGBA|D)(8|16|32)(Unorm|Float|Uint|Sint)$")


class Launch:
    """One run of a kernel."""

    def __init__(
        self, device: Any, program: Any, kernel: Any, conformances: list[tuple[str, str, int]]
    ) -> None:
        self.device, self.program, self.kernel = device, program, kernel
        self.ids = {of: number for _, of, number in conformances}
        self.buffers: dict[str, Any] = {}
        self.outputs: list[tuple[Any, int, Any]] = []

    def run(self, values: list[tuple[str, Value]], groups: tuple[int, ...]) -> list[tuple[bytes, str]]:
        """The outputs after the run of so many groups."""
        layout = self.program.layout
        entry = layout.entry_points[0]
        scopes = (
            fields_of(layout.globals_type_layout),
            {each.name: each.type_layout for each in entry.parameters},
        )
        encoder = self.device.create_command_encoder()
        with encoder.begin_compute_pass() as compute_pass:
            root = spy.ShaderCursor(compute_pass.bind_pipeline(self.kernel.pipeline))
            for index, (name, value) in enumerate(values):
                name = name or list(scopes[0])[index]
                first, *steps = re.findall(r"[A-Za-z_]\w*|\d+", name)
                is_global = first in scopes[0]
                if not is_global and first not in scopes[1]:
                    raise ValueError(f"the program has no parameter '{name}'")
                at = (root if is_global else root.find_entry_point(0))[first]
                place = at, scopes[not is_global][first]
                for step in steps:
                    place = part_of(*place, step)
                self.write(*place, value, name)
            sizes = entry.compute_thread_group_size
            compute_pass.dispatch([int(count) * int(size) for count, size in zip(groups, sizes)])
        self.device.submit_command_buffer(encoder.finish())
        return [
            (buffer.to_numpy().tobytes()[:size], scalar_of(layout)) for buffer, size, layout in self.outputs
        ]

    def write(self, at: Any, layout: Any, value: Value, name: str) -> None:
        """Put a value where a cursor stands."""
        kind = layout.kind.name
        if isinstance(value, Buffer):
            self.write_buffer(at, layout, value, name)
        elif isinstance(value, Texture):
            at.write(texture_of(self.device, value))
        elif isinstance(value, Sampler):
            at.write(sampler_of(self.device, value, layout))
        elif isinstance(value, Combined):
            sampler = sampler_of(self.device, value.sampler, fields_of(layout)["sampler"])
            at.write({"texture": texture_of(self.device, value.texture), "sampler": sampler})
        elif isinstance(value, Parts) and value.type_name.startswith(
            ("StructuredBuffer", "RWStructuredBuffer")
        ):
            self.write_elements(at, layout, value)
        elif kind in BLOCKS:
            self.write(at.dereference(), layout.element_type_layout, value, name)
        elif isinstance(value, Parts) and value.type_name.startswith("Tuple"):
            at.write(tuple(self.object_of(part) for _, part in value.parts))
        elif isinstance(value, Words) and kind == "struct":
            for each in layout.fields:
                self.write(at[each.name], each.type_layout, Words(value.data[int(each.offset) :]), name)
        elif isinstance(value, Words):
            at.set_data(np.frombuffer(value.data[: int(layout.size)], np.uint8))
        elif kind in NUMBERS:
            data = bytearray(int(layout.size))
            self.encode(data, 0, layout, value)
            at.set_data(np.frombuffer(bytes(data), np.uint8))
        elif kind in ("struct", "array"):
            for step, part in steps_of(layout, value):
                self.write(*part_of(at, layout, step), part, f"{name}.{step}")
        else:
            raise Unsupported(f"an object for a parameter that is an {kind}")

    def object_of(self, value: Value) -> Any:
        """An element of a tuple."""
        if isinstance(value, Texture):
            return texture_of(self.device, value)
        if isinstance(value, Sampler):
            return sampler_of(self.device, value, None)
        raise Unsupported(f"{type(value).__name__} inside of a tuple")

    def write_buffer(self, at: Any, layout: Any, value: Buffer, name: str) -> None:
        data = bytearray(value.data)
        for place, other in value.addresses.items():
            data[place : place + 8] = int(self.buffers[other].device_address).to_bytes(8, "little")
        stride = value.stride if value.stride and len(data) % value.stride == 0 else 0
        buffer = self.buffers[name] = self.made(bytes(data), stride)
        if value.is_output:
            self.outputs.append((buffer, value.size, layout))
        is_address = layout.kind.name in ("pointer", "scalar")
        at.write(int(buffer.device_address) if is_address else buffer)

    def made(self, data: bytes, stride: int) -> Any:
        sized = {"struct_size": stride} if stride else {}
        return self.device.create_buffer(data=np.frombuffer(data or bytes(4), np.uint8), **sized)

    def write_elements(self, at: Any, layout: Any, value: Parts) -> None:
        """A buffer of structs, or of values of an interface with the numbers of their types."""
        element = layout.element_type_layout
        stride = int(element.stride)
        data = bytearray(stride * max(len(value.parts), 1))
        for index, (_, part) in enumerate(value.parts):
            place = index * stride
            if element.kind.name != "interface":
                self.encode(data, place, element, part)
                continue
            if not isinstance(part, Parts) or part.type_name not in self.ids:
                raise Unsupported("a value of an interface whose type has no number")
            head = self.ids[part.type_name].to_bytes(8, "little")
            data[place : place + 16] = head + head
            reflection = self.program.layout
            concrete = reflection.get_type_layout(reflection.find_type_by_name(part.type_name))
            self.encode(data, place + 16, concrete, part)
        buffer = self.buffers[f"{len(self.buffers)}"] = self.made(bytes(data), stride)
        if value.is_output:
            self.outputs.append((buffer, len(data), layout))
        at.write(buffer)

    def encode(self, data: bytearray, at: int, layout: Any, value: Value) -> None:
        """A value in memory. Slang's tool leaves an object in a field zero."""
        if isinstance(value, Words) and not isinstance(value, Buffer):
            raw = value.data[: int(layout.size)]
            data[at : at + len(raw)] = raw
        elif isinstance(value, Parts) and layout.kind.name == "struct":
            offsets = {each.name: int(each.offset) for each in layout.fields}
            for step, part in steps_of(layout, value):
                if not (isinstance(part, Parts) and part.type_name):
                    self.encode(data, at + offsets[step], fields_of(layout)[step], part)
        elif isinstance(value, Parts) and layout.element_type_layout is not None:
            for index, (_, part) in enumerate(value.parts):
                element = layout.element_type_layout
                self.encode(data, at + index * int(element.stride), element, part)
        else:
            raise Unsupported(f"{type(value).__name__} inside of a structured buffer")


# --- Reflection ---------------------------------------------------------------------------------------


def fields_of(layout: Any) -> dict[str, Any]:
    while layout.kind.name in BLOCKS:
        layout = layout.element_type_layout
    return {each.name: each.type_layout for each in layout.fields}


def part_of(at: Any, layout: Any, step: str) -> tuple[Any, Any]:
    """A field by its name, or an element by its number."""
    while layout.kind.name in BLOCKS:
        at, layout = at.dereference(), layout.element_type_layout
    if step.isdigit():
        return at[int(step)], layout.element_type_layout
    return at[step], fields_of(layout)[step]


def steps_of(layout: Any, value: Parts) -> list[tuple[str, Value]]:
    """Parts with their names, or with their numbers in an array."""
    if layout.kind.name == "array":
        return [(str(index), part) for index, (_, part) in enumerate(value.parts)]
    names = list(fields_of(layout))
    return [(name or names[index], part) for index, (name, part) in enumerate(value.parts)]


def scalar_of(layout: Any) -> str:
    """The type of the numbers that a buffer holds; "" when they are in structs."""
    element = layout if layout.kind.name == "scalar" else layout.element_type_layout
    return element.type.scalar_type.name if element is not None and layout.kind.name != "pointer" else ""


# --- Textures -----------------------------------------------------------------------------------------


SAMPLE_COUNTS = {"one": 1, "two": 2, "four": 4, "eight": 8}


def texture_of(device: Any, value: Texture) -> Any:
    """A texture with the texels of Slang's tool: all one, all zero, or the squares of a chessboard."""
    options = {"format": "RGBA8Unorm", "size": "4", "content": "one", **value.options}
    match, content = FORMAT.match(options["format"]), options["content"]
    samples = SAMPLE_COUNTS.get(options.get("sampleCount", "one"))
    if match is None or samples is None or content not in ("one", "zero", "chessboard"):
        raise Unsupported(f"a texture with {value.options}")
    size, layers = int(options["size"]), int(options.get("arrayLength", 0))
    dimensions = {"1D": 1, "3D": 3}.get(value.shape, 2)
    levels = min(int(options.get("mipMaps", 0)) or size.bit_length(), size.bit_length())
    if samples > 1:
        levels = 1
    kind = value.shape.lower() + "_ms" * (samples > 1) + "_array" * (layers > 1 and dimensions < 3)
    extents = dict(zip(("width", "height", "depth"), [size] * dimensions))
    texture = device.create_texture(
        type=getattr(spy.TextureType, f"texture_{kind}"),
        format=getattr(spy.Format, f"{match[1]}{match[2]}_{match[3]}".lower()),
        array_length=max(layers, 1) if dimensions < 3 else 1,
        mip_count=levels,
        sample_count=samples,
        usage=spy.TextureUsage.unordered_access if value.is_written else spy.TextureUsage.shader_resource,
        **extents,
    )
    for layer in range(max(layers, 1) * (6 if value.shape == "Cube" else 1) if dimensions < 3 else 1):
        for level in range(levels):
            data = texels(match, content, max(size >> level, 1), dimensions)
            texture.copy_from_numpy(np.stack([data] * samples) if samples > 1 else data, layer, level)
    return texture


def texels(format: re.Match[str], content: str, size: int, dimensions: int) -> np.ndarray:
    """Slang's tool makes bytes, 255 for one where numbers are 0 to 1, and converts them."""
    one = 1 if format[3] in ("Uint", "Sint") else 255
    rgba = np.zeros((size,) * dimensions + (4,), np.uint8)
    if content == "one":
        rgba[...] = one
    elif content == "chessboard":
        is_odd = np.zeros((size,) * dimensions, bool)
        for axis in np.indices(is_odd.shape):
            is_odd ^= axis < size // 2
        rgba[...] = np.where(is_odd[..., None], one, 128 if one == 255 else 0)
        rgba[..., 3] = one if one == 255 else rgba[..., 3]
    channels = 1 if format[1] == "D" else len(format[1])
    letter = {"Unorm": "u", "Float": "f", "Uint": "u", "Sint": "i"}[format[3]]
    data = rgba[..., :channels] if channels > 1 else rgba[..., 0]
    scaled = data / np.float32(255) if letter == "f" else data
    if format[3] == "Unorm" and format[2] != "8":
        raise Unsupported(f"texels of {format[0]}")
    return np.ascontiguousarray(scaled.astype(np.dtype(f"{letter}{int(format[2]) // 8}")))


def sampler_of(device: Any, value: Sampler, layout: Any) -> Any:
    """Where the program compares and the test has a plain sampler, no comparison holds."""
    mode = getattr(spy.TextureFilteringMode, value.options.get("filteringMode", "linear"))
    compares = {}
    if "depthCompare" in value.options:
        compares = {
            "reduction_op": spy.TextureReductionOp.comparison, "comparison_func": spy.ComparisonFunc.less
        }  # fmt: skip
    elif layout is not None and layout.type.name == "SamplerComparisonState":
        compares = {"reduction_op": spy.TextureReductionOp.comparison}
    return device.create_sampler(min_filter=mode, mag_filter=mode, mip_filter=mode, **compares)
