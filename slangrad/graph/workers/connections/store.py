"""A connection to torch.distributed's store for one thread, whose calls another thread can end.

connection = StoreConnection(store)
connection.store.get("sign1")           may wait without a limit: where the process of the store stands still
connection.shut()                       in another thread: that call is an error

The store has no function for this. So the file of its socket is found, which is the one to the store's port that was
not there before. Where files of the process are not listed, `shut` does nothing.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist

FILES = "/dev/fd"  # of this process


class StoreConnection:
    """`store`: a new connection to the store that it is made of."""

    def __init__(self, store: dist.Store) -> None:
        port = _port_of(store)
        before = _sockets_to(port)
        self.store = store.clone()
        self._sockets = _sockets_to(port) - before

    def shut(self) -> None:
        """Close the connection; calls that wait get RuntimeError."""
        for number in self._sockets:
            with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
                connection.shutdown(socket.SHUT_RDWR)


def _port_of(store: dist.Store) -> int | None:
    while hasattr(store, "underlying_store"):  # one with a prefix of keys
        store = store.underlying_store
    return getattr(store, "port", None)


def _sockets_to(port: int | None) -> set[int]:
    """The files of this process that are connected to a port."""
    numbers: set[int] = set()
    files = os.listdir(FILES) if port is not None and os.path.isdir(FILES) else []
    for number in map(int, files):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            if connection.getpeername()[1] == port:
                numbers.add(number)
    return numbers
