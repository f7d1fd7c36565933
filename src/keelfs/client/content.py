"""The content of one revision that a server holds, read when it is asked for.

A server keeps nothing for a reader, so what is pinned is the file's identity and revision: bytes of
another one are never given out, and `RevisionNotFound` is raised once that revision is not kept any
more. Whoever reads on from the beginning is given one answer that goes on; it shows that revision
to its end, whatever becomes of the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from keelfs import ops
from keelfs.errors import RevisionNotFound, Unavailable
from keelfs.model import Stat
from keelfs.ops import Op
from keelfs.path import VPath, parse

if TYPE_CHECKING:
    from keelfs.client.tree import Tree

#: What one question is answered; half of what a batch of two operations may carry.
_PIECE: Final = 2**20
#: Shorter reads are questions of their own.
_RUN: Final = 64 * 1024


class RemoteContent:
    """See the module; threads may share it."""

    def __init__(
        self, tree: Tree, path: VPath | str, stat: Stat, around: Callable[[Op[Any]], Op[Any]]
    ) -> None:
        self._tree, self._path, self._around = tree, parse(path), around
        self._stat = stat
        self._lock = threading.Lock()
        #: An answer that goes on, where it has got to, and where a reader would go on.
        self._running: Any = None
        self._at = self._next = 0
        self._plain = isinstance(around(ops.GetUsage()), ops.GetUsage)

    @property
    def stat(self) -> Stat:
        return self._stat

    def read(self, offset: int, length: int) -> bytes:
        length = min(length, self._stat.size - offset)
        if length <= 0:
            return b""
        with self._lock:
            data = self._run(offset, length)
        return self._pieces(offset, length) if data is None else data

    def _pieces(self, offset: int, length: int) -> bytes:
        end = offset + length
        starts = range(offset, end, _PIECE)
        return b"".join(self._piece(at, min(_PIECE, end - at)) for at in starts)

    def _piece(self, offset: int, length: int) -> bytes:
        read = ops.Read(self._path, offset, length, self._stat.revision)
        found, data = self._tree.perform(self._around(ops.Batch((ops.GetStat(self._path), read))))
        if found.id != self._stat.id:
            raise RevisionNotFound("another file has taken the place of the one that was opened")
        block: bytes = data
        return block

    # -- reading on

    def _run(self, offset: int, length: int) -> bytes | None:
        """The bytes out of the answer that goes on; None where they are asked for by themselves."""
        reads_on, self._next = offset == self._next, offset + length
        if self._running is None or self._at != offset:
            self._stop()
            more = offset + length < self._stat.size
            goes_on = (reads_on and more and length >= _RUN) or length > _PIECE
            if not (self._plain and goes_on):
                return None
            self._begin(offset)
        running: Any = self._running
        try:
            data: bytes = running.read(length)
        except Exception as error:
            self._stop()
            raise Unavailable("the connection broke while the file was read") from error
        self._at += len(data)
        if self._at >= self._stat.size or len(data) < length:
            self._stop()
        return data if len(data) == length else None

    def _begin(self, offset: int) -> None:
        running = self._tree.raw(str(self._path), self._stat.revision, offset)
        tag = running.headers.get("etag", "")
        if tag != f'"{self._stat.id.hex()}-{self._stat.revision}"':
            running.close()
            raise RevisionNotFound("another file has taken the place of the one that was opened")
        self._running, self._at = running, offset

    def _stop(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            if self._at >= self._stat.size:
                running.release_conn()
            else:
                running.close()
