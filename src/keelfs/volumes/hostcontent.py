"""An opened file of the host, as a content that stays what it was.

Writers of this package replace files and so leave an opened one alone. A program that writes in
place is noticed by the file's time and size, and the reader is told. Only the host folder opens.
"""

from __future__ import annotations

import os
import weakref
from typing import Final

from keelfs.errors import Conflict, InvalidArgument
from keelfs.model import Stat
from keelfs.volumes.hostnode import described, open_file, read_xattrs, revision_of, translated

_BLOCK: Final = 1 << 20


def open_content(directory: int, name: str) -> HostContent:
    """The content that a name holds now."""
    fd = open_file(directory, name)
    try:
        return HostContent(fd, described(os.fstat(fd), read_xattrs(fd), None))
    except BaseException:
        os.close(fd)
        raise


class HostContent:
    """Owns its descriptor, and closes it when nobody holds the content any more."""

    def __init__(self, fd: int, answer: Stat) -> None:
        self._fd = fd
        self.stat = answer
        self.close = weakref.finalize(self, os.close, fd)

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0:
            raise InvalidArgument("offset and length are not negative")
        parts: list[bytes] = []
        length = min(length, max(0, self.stat.size - offset))
        with translated():
            while length and (block := os.pread(self._fd, min(length, _BLOCK), offset)):
                parts.append(block)
                offset, length = offset + len(block), length - len(block)
            if revision_of(os.fstat(self._fd)) != self.stat.revision:
                raise Conflict("another program changed the file in place while it was read")
        return b"".join(parts)
