"""Writers of one host folder take turns to judge what is there and to change it.

A turn excludes threads of this process by a lock and other processes that use this package by the
host's advisory lock on the folder. Other programs are not excluded: what they change between the
judgement and the change is lost or refused, never more. Turns are short; nobody waits for ever.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from keelfs.errors import StoreBusy
from keelfs.volumes.descent import DIRECTORY

_PATIENCE_S: Final = 10.0
#: Random short pauses are fairer than a queue that no process keeps.
_PAUSE_S: Final = 0.002
#: Some network filesystems lock no directories; there only threads are excluded.
_NO_LOCKS: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP})


class Turn:
    """The one turn of a folder, whichever sub-tree of it is being changed."""

    def __init__(self, root: Callable[[], int]) -> None:
        self._root = root
        self._threads = threading.Lock()

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        """Nobody else is in a turn of this folder inside this block."""
        deadline = time.monotonic() + _PATIENCE_S
        if not self._threads.acquire(timeout=_PATIENCE_S):
            raise StoreBusy("other writers held the folder for too long")
        try:
            fd = os.open(".", DIRECTORY, dir_fd=self._root())
            try:
                _lock(fd, deadline)
                yield
            finally:
                os.close(fd)
        finally:
            self._threads.release()


def _lock(fd: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreBusy("another process held the folder for too long") from None
            time.sleep(random.uniform(0, _PAUSE_S))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return
