"""SHA1: the digest of bytes and texts.

SHA1("hello").hex_digest()          digest = SHA1();  digest.update(b"hel").update("lo").digest()
"""

from __future__ import annotations

import hashlib


class SHA1:
    """What was given so far; texts count as UTF-8."""

    def __init__(self, data: bytes | str = b"") -> None:
        self._hash = hashlib.sha1(usedforsecurity=False)
        self.update(data)

    def update(self, data: bytes | str) -> SHA1:
        """Add to what was given."""
        self._hash.update(data.encode() if isinstance(data, str) else data)
        return self

    def digest(self) -> bytes:
        """20 bytes."""
        return self._hash.digest()

    def hex_digest(self) -> str:
        """The same as 40 digits."""
        return self._hash.hexdigest()
