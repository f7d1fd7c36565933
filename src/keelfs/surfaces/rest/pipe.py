"""A file that is written in one thread and sent from another, never more than a little ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Final

from keelfs.errors import StoreBusy

#: Bytes that are passed on at once, and pieces that may wait.
_PIECE: Final = 256 * 1024
_AHEAD: Final = 4
#: Pipes that a process has open; each has a thread.
MOST: Final = 32

_open = threading.BoundedSemaphore(MOST)


class Abandoned(Exception):
    """Nobody reads any more."""


class Pipe:
    """What the writing thread sees: a binary file that can only be written on."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self.pieces: queue.Queue[bytes | BaseException] = queue.Queue(_AHEAD)
        self.abandoned = threading.Event()

    def write(self, data: bytes) -> int:
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= _PIECE:
            self.flush()
        return len(data)

    def flush(self) -> None:
        data, self._held, self._size = b"".join(self._held), [], 0
        if data:
            self.put(data)

    def put(self, piece: bytes | BaseException) -> None:
        while not self.abandoned.is_set():
            try:
                self.pieces.put(piece, timeout=0.2)
            except queue.Full:
                continue
            return
        raise Abandoned


def poured(pour: Callable[[Pipe], None]) -> Iterator[bytes]:
    """What `pour` writes, piece by piece; its error ends them."""
    if not _open.acquire(blocking=False):
        raise StoreBusy("too many archives are being made at the moment")
    pipe = Pipe()

    def work() -> None:
        try:
            pour(pipe)
            pipe.flush()
            pipe.put(b"")
        except Abandoned:
            pass
        except BaseException as error:
            if not pipe.abandoned.is_set():
                pipe.put(error)
        finally:
            _open.release()

    threading.Thread(target=work, name="keelfs-archive", daemon=True).start()
    return _pieces(pipe)


def _pieces(pipe: Pipe) -> Iterator[bytes]:
    try:
        while piece := pipe.pieces.get():
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        pipe.abandoned.set()
