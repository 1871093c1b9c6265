"""Messages to the viewer tev, read by a socket that stands for it."""

import socket
import struct
import threading

import numpy as np
import pytest

import slangrad as spy


@pytest.fixture
def viewer():
    """A port, and the bytes that come to it on one connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    received = bytearray()

    def listen():
        connection, _ = listener.accept()
        with connection:
            while part := connection.recv(1 << 16):
                received.extend(part)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield listener.getsockname()[1], thread, received
    listener.close()


@pytest.mark.parametrize("kind", ["bitmap", "texture"])
def test_an_image_is_two_messages(device, viewer, kind) -> None:
    port, thread, received = viewer
    pixels = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    image = spy.Bitmap(pixels, pixel_format=spy.Bitmap.PixelFormat.rg)
    if kind == "texture":
        image = device.create_texture(format=spy.Format.rg32_float, width=3, height=2, data=pixels)
    assert spy.tev.show(image, name="noise", port=port) is True
    thread.join(10)
    create = b"\x04\x01noise\0" + struct.pack("<iii", 3, 2, 2) + b"R\0G\0"
    update = (
        b"\x06\x01noise\0" + struct.pack("<i", 2) + b"R\0G\0" + struct.pack("<iiii4q", 0, 0, 3, 2, 0, 1, 2, 2)
    )
    messages = [create, update + pixels.tobytes()]
    assert bytes(received) == b"".join(struct.pack("<I", len(message) + 4) + message for message in messages)


def test_without_a_viewer_a_program_goes_on(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    image = spy.Bitmap(np.zeros((2, 2), np.uint8))
    assert spy.tev.show(image, "dark", port=port, max_retries=2) is False
    spy.tev.show_async(image, port=port)
    spy.thread.wait_for_tasks()
    assert "no viewer takes images" in "".join(capsys.readouterr())
    with pytest.raises(TypeError, match="image: expected a Bitmap or a Texture, not int"):
        spy.tev.show(3)
