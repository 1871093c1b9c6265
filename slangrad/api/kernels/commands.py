"""Commands that are recorded and run later, in their order.

    encoder = device.create_command_encoder()
    kernel.dispatch([64, 1, 1], vars, command_encoder=encoder)
    encoder.copy_buffer(target, 0, source, 0, 256)
    device.submit_command_buffer(encoder.finish())

A command buffer keeps the objects of its commands alive. Values of parameters are those of the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple
from weakref import finalize

import numpy as np

from slangrad.api.kernels.fences import CommandQueueType, QueryPool
from slangrad.api.kernels.pipeline import ComputePipeline
from slangrad.api.kernels.shader_cursor import ShaderObject
from slangrad.marshal.containers.memory import is_texture_type
from slangrad.marshal.errors import CallError
from slangrad.runtime.device import Grid, MemoryRegion
from slangrad.tensors.buffer import BYTES, Buffer, as_source
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import numpy_layout
from slangrad.tensors.strided import StridedView

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.tensors.tensor import Tensor
    from slangrad.tensors.textures.texture import Texture

Command = Callable[[], object]

_RECORDINGS = count(1)


GROUP_COUNTS = 12  # bytes of an rhi::IndirectDispatchArguments


class CommandError(CallError, RuntimeError):
    """A command that cannot be recorded."""


class BufferOffsetPair(NamedTuple):
    """A place in a buffer, in bytes."""

    buffer: Buffer
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CommandRecordingSubmittedEvent:
    """Recorded commands have run: `id` is the recording's number, `submit_id` that of the submission."""

    device: Device
    id: int
    command_buffer: CommandBuffer
    submit_id: int


@dataclass(frozen=True, slots=True)
class CommandRecordingDiscardedEvent:
    """An encoder or a command buffer is gone, and its commands never ran: `id` is the recording's number."""

    device: Device
    id: int


def _discarded(device: Device, recording_id: int) -> None:
    device.recordings_discarded.tell(CommandRecordingDiscardedEvent(device, recording_id))


class _Recording:
    """Commands of a device, with the number of their recording. A callback runs if they are dropped without having
    run."""

    def __init__(self, device: Device, queue: CommandQueueType, recording_id: int) -> None:
        self.device = device
        self.queue = queue
        self.recording_id = recording_id
        self._discard = finalize(self, _discarded, device, recording_id)
        self._discard.atexit = False


class CommandBuffer(_Recording):
    """Finished commands. `recording_id` is the number of the encoder that recorded them."""

    def __init__(
        self, device: Device, queue: CommandQueueType, recording_id: int, commands: tuple[Command, ...]
    ) -> None:
        super().__init__(device, queue, recording_id)
        self._commands = commands

    def run(self) -> None:
        """Run all commands, in their order."""
        for command in self._commands:
            command()

    def submitted(self, submit_id: int) -> None:
        """Run the callbacks after the first submission."""
        if self._discard.detach() is not None:
            event = CommandRecordingSubmittedEvent(self.device, self.recording_id, self, submit_id)
            self.device.recordings_submitted.tell(event)


class CommandEncoder(_Recording):
    """Records commands until it is finished. `recording_id` is unique for each encoder."""

    def __init__(self, device: Device, queue: CommandQueueType | None = None) -> None:
        super().__init__(device, queue or CommandQueueType.graphics, next(_RECORDINGS))
        self._commands: list[Command] | None = []
        self._pass: ComputePassEncoder | None = None

    def record(self, command: Command) -> None:
        """Append a command. CommandError (E1021) after `finish()`."""
        if self._commands is None:
            raise CommandError("E1021", "Command encoder is finished", (), "make another one")
        self._commands.append(command)

    def finish(self) -> CommandBuffer:
        """The recorded commands; nothing can be added afterwards. CommandError (E1021) in an open pass, and the
        second time.
        """
        if self._pass is not None:
            raise CommandError("E1021", "a compute pass of the command encoder is open", (), "call its end()")
        commands, self._commands = self._commands, None
        if commands is None:
            raise CommandError("E1021", "Command encoder is finished", (), "submit what finish() gave")
        self._discard.detach()
        return CommandBuffer(self.device, self.queue, self.recording_id, tuple(commands))

    # --- Memory ---

    def copy_buffer(self, dst: Buffer, dst_offset: int, src: Buffer, src_offset: int, size: int) -> None:
        """Copy bytes from one buffer to another."""
        self.check_range(dst, dst_offset, size, "dst")
        self.check_range(src, src_offset, size, "src")
        dst.require_writes()
        runtime = self.device.runtime
        self.record(lambda: runtime.copy(dst.address + dst_offset, src.address + src_offset, size))

    def clear_buffer(self, buffer: Buffer, range: tuple[int, int] | None = None) -> None:
        """Set bytes to zero: all, or `range`, an offset and a size."""
        offset, size = (0, buffer.size) if range is None else range
        self.check_range(buffer, offset, size, "buffer")
        buffer.require_writes()
        region = MemoryRegion(buffer.address + offset, (size,), (1,), BYTES)
        runtime = buffer.runtime
        self.record(lambda: (buffer, runtime.clear(region)))

    def clear_tensor(self, tensor: StridedView) -> None:
        """Set the elements of a tensor to zero, and nothing between them. CommandError (E1021) unless it is a tensor
        of the encoder's device.
        """
        if not isinstance(tensor, StridedView) or tensor.storage.runtime is not self.device.runtime:
            raise CommandError("E1021", "tensor: a tensor of the encoder's device is needed")
        tensor.storage.require_writes()
        self.record(tensor.clear)

    def upload_buffer_data(self, buffer: Buffer, offset: int, data: AnyArray) -> None:
        """Write an array as it is now."""
        source = as_source(data).copy()
        self.check_range(buffer, offset, source.nbytes, "upload")
        buffer.require_writes()
        self.record(lambda: buffer.runtime.write(buffer.address + offset, source))

    def upload_texture_data(
        self,
        texture: Texture,
        data: AnyArray | Sequence[AnyArray] | None = None,
        *,
        layer: int = 0,
        mip: int = 0,
    ) -> None:
        """Write an array as it is now to a level of a layer. A list of arrays goes to all levels of the first layer,
        then to those of the next. ValueError for shapes that do not fit, CommandError (E1021) for other textures and
        other numbers of arrays."""
        self._check_texture(texture)
        if isinstance(data, (list, tuple)):
            places = [(k, m) for k in range(texture.layer_count) for m in range(texture.mip_count)]
            if len(data) != len(places):
                message = f"data: {len(data)} arrays for {len(places)} levels of all layers"
                raise CommandError("E1021", message)
            for (k, m), array in zip(places, data):
                self.upload_texture_data(texture, array, layer=k, mip=m)
            return
        source = as_source(data).copy()
        texture.check_data(source, layer, mip)
        self.record(lambda: texture.copy_from_numpy(source, layer, mip))

    def copy_texture(
        self,
        dst: Texture,
        dst_layer: int,
        dst_mip: int,
        dst_offset: HostValue,
        src: Texture,
        src_layer: int,
        src_mip: int,
        src_offset: HostValue,
        extent: HostValue = None,
    ) -> None:
        """Copy texels of a level of a layer to another: `extent` in x, y and z from `src_offset` on, to `dst_offset`.
        Without an extent, as many as both have. ValueError for levels that are not there, CommandError (E1021) for
        other textures, formats that differ, and texels that are not there."""
        self._check_texture(dst)
        self._check_texture(src)
        if dst.format is not src.format or dst.rank - dst.is_layered != src.rank - src.is_layered:
            raise CommandError("E1021", "copy_texture: both textures need one format and as many dimensions")
        levels = dst.level(dst_layer, dst_mip), src.level(src_layer, src_mip)
        starts = [_outermost_first(level, offset) for level, offset in zip(levels, (dst_offset, src_offset))]
        rooms = [[size - at for size, at in zip(level.shape, start)] for level, start in zip(levels, starts)]
        counts = _counts("copy_texture", "both levels", starts, [min(n) for n in zip(*rooms)], extent)
        target, source = (_part(level, start, counts) for level, start in zip(levels, starts))
        self.record(lambda: target.put_numbers(source.numbers()))

    def copy_texture_to_buffer(
        self,
        dst: Buffer,
        dst_offset: int,
        dst_size: int,
        dst_row_pitch: int,
        src: Texture,
        src_layer: int,
        src_mip: int,
        src_offset: HostValue = (0, 0, 0),
        extent: HostValue = None,
    ) -> None:
        """Copy texels of a level of a layer, `extent` in x, y and z from `src_offset` on, to the `dst_size` bytes of a
        buffer from `dst_offset` on. Rows begin `dst_row_pitch` bytes apart, and slices follow each other. Without an
        extent, all texels from the offset on. ValueError for levels that are not there, CommandError (E1021) for
        objects of other devices, and texels or bytes that are not there."""
        texels = self._texels("copy_texture_to_buffer", src, src_layer, src_mip, src_offset, extent)
        rows = self._rows("dst", dst, dst_offset, dst_size, dst_row_pitch, texels)
        dst.require_writes()
        self.record(lambda: dst.runtime.put(rows, _bytes(texels.numbers(), rows.shape)))

    def copy_buffer_to_texture(
        self,
        dst: Texture,
        dst_layer: int,
        dst_mip: int,
        dst_offset: HostValue,
        src: Buffer,
        src_offset: int,
        src_size: int,
        src_row_pitch: int,
        extent: HostValue = None,
    ) -> None:
        """Copy bytes of a buffer to texels: the reverse of `copy_texture_to_buffer`, with its errors."""
        texels = self._texels("copy_buffer_to_texture", dst, dst_layer, dst_mip, dst_offset, extent)
        rows = self._rows("src", src, src_offset, src_size, src_row_pitch, texels)
        dtype, channels = numpy_layout(texels.element_type)
        shape = (*texels.shape, *channels)
        self.record(lambda: texels.put_numbers(src.runtime.read(rows).reshape(-1).view(dtype).reshape(shape)))

    def _texels(
        self, name: str, texture: Texture, layer: int, mip: int, offset: HostValue, extent: HostValue
    ) -> Tensor:
        """Texels of a level of a layer."""
        self._check_texture(texture)
        level = texture.level(layer, mip)
        start = _outermost_first(level, offset)
        room = [size - at for size, at in zip(level.shape, start)]
        return _part(level, start, _counts(name, "the level", [start], room, extent))

    def _rows(
        self, title: str, buffer: Buffer, offset: int, size: int, pitch: int, texels: Tensor
    ) -> MemoryRegion:
        """Bytes of a buffer where rows of texels lie: slices, rows and bytes of a row."""
        self.check_range(buffer, offset, size, title)
        slices, rows, columns = (1, 1, *texels.shape)[-3:]
        count = columns * texels.element_size
        needed = pitch * (slices * rows - 1) + count
        if pitch < count or needed > size:
            message = f"{title}: rows of {count} bytes need a pitch of at least {count}, and {needed} bytes"
            raise CommandError("E1021", f"{message}, not {pitch} and {size}")
        strides = (pitch * rows, pitch, 1)
        return MemoryRegion(buffer.address + offset, (slices, rows, count), strides, BYTES)

    def generate_mips(self, texture: Texture) -> None:
        """Make all levels of a texture from its first, as `texture.generate_mips()` does."""
        self._check_texture(texture)
        self.record(texture.generate_mips)

    def _check_texture(self, texture: HostValue) -> None:
        if not is_texture_type(type(texture)) or texture.storage.runtime is not self.device.runtime:
            raise CommandError("E1021", "texture: a texture of the encoder's device is needed")

    def check_range(self, buffer: Buffer, offset: int, size: int, title: str) -> None:
        """CommandError (E1021) unless the bytes lie in a buffer of the encoder's device."""
        if not isinstance(buffer, Buffer):
            raise CommandError("E1021", f"{title}: {type(buffer).__name__} is no buffer")
        if buffer.runtime is not self.device.runtime:
            raise CommandError("E1021", f"{title}: the buffer belongs to another device")
        if offset < 0 or size < 0 or offset + size > buffer.size:
            message = f"bytes {offset} to {offset + size} are not in a buffer of {buffer.size}"
            if title == "upload":
                message = f"upload would exceed the size of the destination buffer: {message}"
            raise CommandError("E1021", f"{title}: {message}")

    # --- Queries ---

    def write_timestamp(self, query_pool: QueryPool, index: int) -> None:
        """Note in the pool when the commands before this one have run."""
        query_pool.check(index)
        self.record(lambda: query_pool.write(index))

    def resolve_query(
        self, query_pool: QueryPool, index: int, count: int, buffer: Buffer, offset: int
    ) -> None:
        """Write results of queries to a buffer, as uint64."""
        query_pool.check(index, count)
        self.check_range(buffer, offset, 8 * count, "buffer")
        buffer.require_writes()

        def write() -> None:
            ticks = np.array(query_pool.get_results(index, count), np.uint64)
            buffer.runtime.write(buffer.address + offset, ticks.view(np.uint8))

        self.record(write)

    # --- Kernels ---

    def begin_compute_pass(self) -> ComputePassEncoder:
        """A pass, in which pipelines are bound and launched; it is used with `with`, or ended by `end()`.
        CommandError (E1021) in another pass.
        """
        if self._pass is not None:
            raise CommandError("E1021", "a compute pass of the command encoder is open", (), "call its end()")
        self._pass = ComputePassEncoder(self)
        return self._pass

    def end_pass(self) -> None:
        """End the compute pass that is open, if one is."""
        self._pass = None

    def launch(
        self, pipeline: ComputePipeline, arguments: bytes, grid: Callable[[], Grid], used: object
    ) -> None:
        """Record a launch; `grid` is called when it runs, `used` is kept alive."""
        kernel, runtime = pipeline.compiled.kernel, self.device.runtime
        self.record(lambda: (used, runtime.launch(kernel, arguments, grid())))

    def execute_callback(self, callback: Callable[[None], object]) -> None:
        """Call `callback(None)` between the commands; SlangPy passes a handle of the graphics card's commands instead
        of None. CommandError (E1021) for what cannot be called.
        """
        if not callable(callback):
            raise CommandError("E1021", f"execute_callback: {type(callback).__name__} cannot be called")
        self.record(lambda: callback(None))

    def global_barrier(self) -> None:
        """Commands run one after the other, so each sees what those before it wrote."""

    def set_buffer_state(self, buffer: Buffer, state: object) -> None:
        """Memory has no states: see `global_barrier`."""

    # --- Names for tools ---

    def push_debug_group(self, name: str, color: object = None) -> None:
        """Groups of commands have names for tools of graphics cards only."""

    def pop_debug_group(self) -> None:
        """See `push_debug_group`."""

    def insert_debug_marker(self, name: str, color: object = None) -> None:
        """See `push_debug_group`."""


def check_encoder(encoder: object, device: object, title: str) -> None:
    """CommandError unless it is an encoder of the device of the call or launch."""
    if not isinstance(encoder, CommandEncoder):
        note = "device.create_command_encoder() makes one"
        raise CommandError("E1021", f"{title}: {type(encoder).__name__} is no command encoder", (), note)
    if encoder.device is not device:
        raise CommandError("E1021", f"{title}: the command encoder belongs to another device")


class ComputePassEncoder:
    """Launches of bound pipelines."""

    def __init__(self, encoder: CommandEncoder) -> None:
        self._encoder = encoder
        self._root: ShaderObject | None = None

    def __enter__(self) -> ComputePassEncoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the pass; its launches are commands of the encoder."""
        self._encoder.end_pass()

    def write_timestamp(self, query_pool: QueryPool, index: int) -> None:
        """See `CommandEncoder.write_timestamp`."""
        self._encoder.write_timestamp(query_pool, index)

    def bind_pipeline(
        self, pipeline: ComputePipeline, root_object: ShaderObject | None = None
    ) -> ShaderObject:
        """Bind the pipeline of the following launches; gives the cursor object for its parameters."""
        self._root = ShaderObject(pipeline.current()) if root_object is None else root_object
        return self._root

    def dispatch(self, thread_count: object) -> None:
        """Launch whole groups of threads, at least `thread_count`."""
        root = self._bound()
        grid = root.pipeline.grid_of(thread_count)
        self._encoder.launch(root.pipeline, root.pack(), lambda: grid, root.kept())

    def dispatch_compute(self, thread_group_count: object) -> None:
        """Launch groups."""
        self.dispatch(_threads(thread_group_count, self._bound().pipeline))

    def dispatch_compute_indirect(self, arg_buffer: Buffer | BufferOffsetPair | tuple[Buffer, int]) -> None:
        """Launch as many groups as a buffer says when the launch runs: three uint32, an
        `rhi::IndirectDispatchArguments` of `import sgl.device.rhi`. They lie at the buffer's start, or at an offset in
        bytes."""
        buffer, offset = (arg_buffer, 0) if isinstance(arg_buffer, Buffer) else arg_buffer
        self._encoder.check_range(buffer, offset, GROUP_COUNTS, "arg_buffer")
        root = self._bound()
        pipeline = root.pipeline

        def grid() -> Grid:
            groups = np.frombuffer(buffer.read_bytes(offset, GROUP_COUNTS), np.uint32)
            return pipeline.grid_of(_threads(groups.tolist(), pipeline))

        self._encoder.launch(pipeline, root.pack(), grid, root.kept())

    def _bound(self) -> ShaderObject:
        if self._root is None:
            raise CommandError("E1021", "no pipeline is bound", (), "call bind_pipeline(kernel.pipeline)")
        return self._root


def _threads(groups: HostValue, pipeline: ComputePipeline) -> list[int]:
    return [int(count) * threads for count, threads in zip(groups, pipeline.thread_group_size)]


WHOLE = 0xFFFFFFFF  # of SlangPy's `uint3(-1)`: as many as there are


def _outermost_first(level: Tensor, numbers: HostValue) -> list[int]:
    """Numbers in x, y, z for the sizes of a level."""
    return list(numbers)[: len(level.shape)][::-1]


def _counts(
    name: str, where: str, starts: Sequence[list[int]], most: list[int], extent: HostValue
) -> list[int]:
    """How many texels are copied, outermost first. CommandError (E1021) where they are not there."""
    wanted = [WHOLE] * len(most) if extent is None else list(extent)[: len(most)][::-1]
    counts = [limit if count == WHOLE else count for count, limit in zip(wanted, most)]
    if min(map(min, starts)) < 0 or min(counts) < 1 or any(n > m for n, m in zip(counts, most)):
        raise CommandError("E1021", f"{name}: {counts[::-1]} texels are not in {where}")
    return counts


def _part(level: Tensor, start: Sequence[int], counts: Sequence[int]) -> Tensor:
    return level[tuple(slice(at, at + count) for at, count in zip(start, counts))]


def _bytes(numbers: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).reshape(shape)
