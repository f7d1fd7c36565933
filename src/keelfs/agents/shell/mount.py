"""What the commands of a shell ask of the tree, answered by operations of the tree.

Every question becomes one operation: an append is an append, a rename is a move, a copy shares its
bytes, unless it leads from one mount into another. So each is committed before the command goes on,
and every gate judges it. Errors become what
a command knows: a kind, and the words of POSIX, followed by our own where those say too little.

What must never live here: a rule about files. Who calls: bashkit, through `abi`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from keelfs import ops
from keelfs.agents.shell import abi
from keelfs.agents.shell.limits import ShellLimits
from keelfs.arguments import Blocks
from keelfs.defects import known
from keelfs.errnos import errno_of
from keelfs.errors import (
    CrossDevice,
    DeadlineExceeded,
    KeelError,
    Missing,
    NotFound,
    TooLarge,
    WrongKind,
)
from keelfs.model import MAX_PAGE, Attrs, Kind, Stat
from keelfs.path import parse
from keelfs.ports import Handler
from keelfs.reading import read_blocks

T = TypeVar("T")

_TYPES: Final = {Kind.FILE: 0, Kind.DIRECTORY: 1, Kind.SYMLINK: 2}
_SPECIAL: Final = 3
_KINDS: Final = {
    errno.ENOENT: abi.NOT_FOUND,
    errno.EEXIST: abi.EXISTS,
    errno.EACCES: abi.DENIED,
    errno.EPERM: abi.DENIED,
    errno.EROFS: abi.DENIED,
    errno.EINVAL: abi.INVALID,
    errno.EISDIR: abi.IS_DIRECTORY,
    errno.ENOTDIR: abi.NOT_DIRECTORY,
    errno.ENOTEMPTY: abi.NOT_EMPTY,
    errno.EOPNOTSUPP: abi.UNSUPPORTED,
}
#: Errors of which POSIX says all that there is to say.
_PLAIN: Final = {
    errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENAMETOOLONG,
    errno.ELOOP, errno.ENXIO,
}  # fmt: skip
#: How the interpreter calls a file that it writes beside another one, to replace it by a rename.
_BESIDE: Final = ".bashkit-"


class Mount:
    """A tree as a shell sees it, for as long as the time of its command lasts."""

    def __init__(
        self, tree: Handler, limits: ShellLimits, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._tree, self._limits, self._now = tree, limits, now
        self._until = float("inf")
        #: What ends the command at its next step.
        self.stop: Callable[[], None] = lambda: None
        #: The command asked something when its time was up.
        self.expired = False
        #: An interrupt that arrived while the tree answered; the shell raises it.
        self.interrupt: BaseException | None = None

    def begin(self, seconds: float) -> None:
        """A command begins that may last this long."""
        self._until = self._now() + seconds
        self.expired, self.interrupt = False, None

    @property
    def late(self) -> bool:
        return self.expired or self._now() > self._until

    def perform(self, op: ops.Op[T], /) -> T:
        """The answer of the tree, unless time is up: a command may ask without ever pausing."""
        if self.late:
            self.expired = True
            self.stop()
            raise DeadlineExceeded("the time of this command is up")
        return self._tree.perform(op)

    # -- answers -------------------------------------------------------------------------------

    def read_file(self, path: str) -> bytearray:
        size, blocks = read_blocks(self, parse(path), 0)
        if size > self._limits.file_bytes:
            raise TooLarge(
                f"a command reads files of up to {self._limits.file_bytes} bytes, "
                f"this one has {size}",
                limit="shell.file_bytes", size=size,
            )  # fmt: skip
        data = bytearray(size)
        end = 0
        for block in blocks:
            data[end : end + len(block)] = block
            end += len(block)
        return data

    def write_file(self, path: str, data: bytes) -> None:
        self.perform(ops.Write(path, data, parents=False))

    def append_file(self, path: str, data: bytes) -> None:
        self.perform(ops.Append(path, data, parents=False))

    def mkdir(self, path: str, recursive: bool) -> None:
        self.perform(ops.Mkdir(path, parents=recursive, exist_ok=recursive))

    def remove(self, path: str, recursive: bool) -> None:
        self.perform(ops.Remove(path, recursive))

    def stat(self, path: str, into: abi.Metadata) -> None:
        """Of a link itself: the interpreter follows links by itself."""
        _fill(self.perform(ops.GetStat(path, follow=False)), into)

    def read_dir(self, path: str) -> list[tuple[str, Callable[[abi.Metadata], None]]]:
        most = self._limits.directory_entries
        found: list[tuple[str, Callable[[abi.Metadata], None]]] = []
        after: str | None = None
        while True:
            page = self.perform(ops.List(path, after, MAX_PAGE))
            found.extend((entry.name, partial(_fill, entry.stat)) for entry in page.items)
            if len(found) > most:
                raise TooLarge(
                    f"a command lists directories of up to {most} entries",
                    limit="shell.directory_entries",
                )
            if page.next is None:
                return found
            after = page.next

    def exists(self, path: str) -> bool:
        try:
            self.perform(ops.GetStat(path, follow=False))
        except (Missing, WrongKind):
            return False
        return True

    def rename(self, path: str, to: str) -> None:
        if parse(path).name.startswith(_BESIDE) and self._is_file(to):
            self._take_place(path, to)
            return
        try:
            self.perform(ops.Move(path, to, replace=True))
        except CrossDevice:
            self.perform(ops.Transfer(path, to, replace=True, recursive=True))

    def _is_file(self, path: str) -> bool:
        try:
            return self.perform(ops.GetStat(path, follow=False)).is_file
        except NotFound:
            return False

    def _take_place(self, path: str, to: str) -> None:
        """What was written beside a file becomes its next revision, in its history."""
        taken: tuple[ops.Op[Any], ...] = (ops.Copy(path, to, replace=True), ops.Remove(path))
        self.perform(ops.Batch(taken))

    def copy(self, path: str, to: str) -> None:
        try:
            self.perform(ops.Copy(path, to, replace=True))
        except CrossDevice:
            stat = self.perform(ops.GetStat(path))
            _, blocks = read_blocks(self, parse(path), stat.size)
            self.perform(ops.Write(to, Blocks(blocks), parents=False, mode=stat.mode))

    def symlink(self, target: str, path: str) -> None:
        self.perform(ops.Symlink(target, path))

    def read_link(self, path: str) -> str:
        return self.perform(ops.Readlink(path))

    def chmod(self, path: str, mode: int) -> None:
        self.perform(ops.SetAttrs(path, Attrs(mode=mode)))

    def refusal(self, error: BaseException) -> tuple[int, str]:
        """An error as a command meets it. An interrupt ends the command."""
        if not isinstance(error, Exception):
            self.interrupt = error
            self.stop()
            return abi.OTHER, "interrupted"
        ours = known(error)
        return _KINDS.get(errno_of(ours), abi.OTHER), told(ours)


def told(error: KeelError) -> str:
    """What POSIX calls the error, and what is wrong if that says too little. It holds no path."""
    number = errno_of(error)
    words = os.strerror(number)
    return words if number in _PLAIN else f"{words}: {error.message.rstrip('.')}"


def _fill(stat: Stat, into: abi.Metadata) -> None:
    into.type = _TYPES.get(stat.kind, _SPECIAL)
    into.size, into.mode = stat.size, stat.mode
    into.modified_s, into.modified_ns = divmod(stat.mtime_ns, 10**9)
    into.created_s, into.created_ns = divmod(stat.created_ns, 10**9)
