"""Images for the viewer tev (https://github.com/Tom94/tev), which listens on a port.

    slangrad.tev.show(texture, name="result")        a message that makes the image, and one with its pixels

Messages are those of tev's protocol: a length, the number of the kind, and the fields. Without a viewer a warning is
written, and the program goes on.
"""

from __future__ import annotations

import socket
import struct
from itertools import count

import numpy as np

from slangrad.compat.logger import log_warn
from slangrad.images import tasks
from slangrad.images.bitmap import Bitmap
from slangrad.tensors.textures.formats import DataType
from slangrad.tensors.textures.texture import Texture

HOST, PORT, TIMEOUT = "127.0.0.1", 14158, 2.0  # seconds
_CREATE, _UPDATE = 4, 6  # the numbers of tev's messages
_numbers = count()


def show(
    image: Bitmap | Texture, name: str = "", host: str = HOST, port: int = PORT, max_retries: int = 3
) -> bool:
    """Send an image to the viewer, as floats; the first layer and level of a texture. Without a name it is
    `image_0`, `image_1` and so on. False, after a warning, where no viewer listens."""
    name = name or f"image_{next(_numbers)}"
    return _send(_floats(image), name, host, port, max_retries)


def show_async(
    image: Bitmap | Texture, name: str = "", host: str = HOST, port: int = PORT, max_retries: int = 3
) -> None:
    """The same in another thread, with the pixels of now."""
    name = name or f"image_{next(_numbers)}"
    tasks.start(_send, _floats(image), name, host, port, max_retries)


def _floats(image: Bitmap | Texture) -> Bitmap:
    bitmap = image.to_bitmap() if isinstance(image, Texture) else image
    if not isinstance(bitmap, Bitmap):
        raise TypeError(f"image: expected a Bitmap or a Texture, not {type(image).__name__}")
    if bitmap.component_type is DataType.float32:
        return bitmap.copy()
    return bitmap.convert(component_type=DataType.float32, srgb_gamma=False)


def _send(bitmap: Bitmap, name: str, host: str, port: int, attempts: int) -> bool:
    error: OSError | None = None
    for _ in range(max(attempts, 1)):
        try:
            with socket.create_connection((host, port), TIMEOUT) as connection:
                connection.sendall(b"".join(_messages(bitmap, name)))
                return True
        except OSError as refused:
            error = refused
    log_warn(f"tev: no viewer takes images on {host}:{port} ({error}); start tev to see '{name}'")
    return False


def _messages(bitmap: Bitmap, name: str) -> list[bytes]:
    pixels = np.asarray(bitmap)
    height, width, count = bitmap.height, bitmap.width, bitmap.channel_count
    head = b"\x01" + _text(name)  # the image comes to the front
    channels = b"".join(map(_text, bitmap.channel_names))
    create = head + struct.pack("<iii", width, height, count) + channels
    places = struct.pack(f"<iiii{2 * count}q", 0, 0, width, height, *range(count), *[count] * count)
    update = head + struct.pack("<i", count) + channels + places + pixels.astype("<f4").tobytes()
    return [_message(_CREATE, create), _message(_UPDATE, update)]


def _message(kind: int, fields: bytes) -> bytes:
    return struct.pack("<Ib", len(fields) + 5, kind) + fields


def _text(text: str) -> bytes:
    return text.encode() + b"\0"
