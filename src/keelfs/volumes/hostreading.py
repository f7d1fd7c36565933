"""The reading half of a host folder: it opens, lists and counts, and changes nothing.

Whatever is answered here comes from descriptors that the descent opened. The other half, which
decides what may be performed at all, is `host`.
"""

from __future__ import annotations

import hashlib
import os
import stat
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Self

from keelfs.errors import (
    InvalidArgument,
    NotADirectory,
    NotALink,
    RevisionNotFound,
    TooLarge,
)
from keelfs.model import MAX_PAGE, Content, Entry, Limits, Page, Stat, Usage
from keelfs.path import VPath
from keelfs.volumes import staging
from keelfs.volumes.descent import Place, find, read_target
from keelfs.volumes.hostcontent import HostContent, open_content
from keelfs.volumes.hostnode import lstat, names_after, stat_of, weigh
from keelfs.volumes.unversioned import Unversioned

_READ_BYTES: Final = Limits().read_bytes or 0
_BLOCK: Final = 1 << 20


class HostReading(Unversioned):
    """Owns the descriptor of the folder."""

    _root: int

    def _bind(self, fd: int) -> None:
        self._root = fd
        self._release = weakref.finalize(self, os.close, fd)

    def _find(self, path: VPath, follow: bool) -> Place:
        return find(self._root, path, follow)

    def _descriptor(self) -> int:
        return self._root

    def close(self) -> None:
        """Lets go of the folder; operations after this raise `StoreClosed`."""
        self._root = -1
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stat(self, path: VPath, follow: bool) -> Stat:
        with self._find(path, follow) as place:
            return stat_of(place.fd, place.name, place.there())

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidArgument(f"limit lies between 1 and {MAX_PAGE}")
        with self._directory(path) as fd:
            names = names_after(fd, after, limit + 1)
            found = ((name, lstat(fd, name)) for name in names[:limit])
            items = [Entry(name, stat_of(fd, name, info)) for name, info in found if info]
        return Page(items, names[limit - 1] if len(names) > limit else None)

    @contextmanager
    def _directory(self, path: VPath) -> Generator[int, None, None]:
        with self._find(path, True) as place:
            if not stat.S_ISDIR(place.there().st_mode):
                raise NotADirectory
            with staging.opened(place.fd, place.name) as fd:
                yield fd

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        if offset < 0 or (length is not None and length < 0):
            raise InvalidArgument("offset and length are not negative")
        content = self._content(path, revision)
        try:
            left = max(0, content.stat.size - offset)
            length = left if length is None else min(left, length)
            if length > _READ_BYTES:
                raise TooLarge(
                    f"one read returns at most {_READ_BYTES} bytes; stream the file",
                    limit="read_bytes", size=_READ_BYTES,
                )  # fmt: skip
            return content.read(offset, length)
        finally:
            content.close()

    def open(self, path: VPath, revision: int | None) -> Content:
        return self._content(path, revision)

    def _content(self, path: VPath, revision: int | None) -> HostContent:
        with self._find(path, True) as place:
            place.there()
            content = open_content(place.fd, place.name)
        if revision not in {None, content.stat.revision}:
            content.close()
            raise RevisionNotFound("a host folder keeps the present content only")
        return content

    def readlink(self, path: VPath) -> str:
        with self._find(path, False) as place:
            place.there()
            target = None if place.is_root else read_target(place.fd, place.name)
            if target is None:
                raise NotALink
            return target

    def checksum(self, path: VPath) -> str:
        content = self._content(path, None)
        digest, offset = hashlib.sha256(), 0
        try:
            while block := content.read(offset, _BLOCK):
                digest.update(block)
                offset += len(block)
        finally:
            content.close()
        return digest.hexdigest()

    def usage(self, path: VPath) -> Usage:
        """A recount; it takes as long as the tree is large."""
        with self._find(path, True) as place:
            info = place.there()
            if not stat.S_ISDIR(info.st_mode):
                return Usage(bytes=info.st_size if stat.S_ISREG(info.st_mode) else 0)
            with staging.opened(place.fd, place.name) as fd:
                size, nodes = weigh(fd)
        return Usage(bytes=size, nodes=nodes)
