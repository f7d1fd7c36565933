"""A confined folder of the host as a volume.

Every path is walked by directory descriptors (`descent`), so neither a link nor a race leads out.
Pipes, sockets and devices are listed and never opened. Names that are not valid UTF-8 cannot be
paths here: they are not listed, but copied and removed along with the directory that holds them.

What a host cannot promise, and what is done instead:

* Contents are replaced whole by one rename, synced first, so that a file is its old or its new
  bytes and an opened content stays what it was. Hence a write parts a file from its other hard
  links, gives it a new identity, and an append or patch costs as much as the file is long.
* The host counts no revisions: `expect` is judged on a derived number (see `hostnode`), exactly
  among writers that use this package, as best it can against other programs.
* There are no transactions: a batch holds at most one change, as its last operation, and nothing
  can be judged before it is committed. Removing a tree that the host refuses to remove in the
  middle leaves the rest.
* Readonly is the absence of all write permissions of a file. Set-id bits and devices are refused.
* A link made here is followed by other programs by the host's rules, which know no confinement;
  so making links must be allowed by `links=True`. Moving or copying those that exist need not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from keelfs import ops
from keelfs.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    InvalidArgument,
    IsADirectory,
    NotFound,
    PermissionDenied,
    ReadOnly,
    Unsupported,
)
from keelfs.model import (
    ABSENT,
    Attrs,
    Data,
    Expect,
    Kind,
    Stat,
)
from keelfs.path import VPath
from keelfs.volumes import staging
from keelfs.volumes.descent import DIRECTORY, UNFINISHED
from keelfs.volumes.hostattrs import apply
from keelfs.volumes.hostnode import (
    described,
    lstat,
    opened_file,
    read_xattrs,
    same_node,
    stat_of,
    still,
    translated,
)
from keelfs.volumes.hostreading import HostReading
from keelfs.volumes.hostrules import judge, not_into_itself, overwritable, replaceable
from keelfs.volumes.turn import Turn

T = TypeVar("T")

#: More than this is synced before the turn, so that nobody waits for it.
_LONG: Final = 1 << 20
_MAX_TARGET_BYTES: Final = 4095


class HostFolder(HostReading):
    """Answers and performs operations on a folder of the host."""

    def __init__(self, root: str | Path, writable: bool = False, *, links: bool = False) -> None:
        self._writable, self._links = writable, links
        with translated():
            self._bind(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        self._turn = Turn(self._descriptor)

    def perform(self, op: ops.Op[T], /) -> T:
        """The operation's answer. What would need a transaction is refused."""
        changes = [each.mutates and not isinstance(each, ops.Checksum) for each in _plain(op)]
        if any(changes) and not self._writable:
            raise ReadOnly("the folder is read-only here; write somewhere else")
        if any(changes[:-1]):
            raise Unsupported("a batch on a host folder may hold one change, as its last operation")
        with translated():
            return op.run(self)

    def rooted(self, base: VPath) -> HostFolder:
        if base.is_root:
            return self
        if any(name.startswith(UNFINISHED) for name in base.parts):
            raise NotFound
        fd = os.open(".", DIRECTORY, dir_fd=self._root)
        for name in base.parts:
            try:
                inner = os.open(name, DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        below = HostFolder.__new__(HostFolder)
        below._writable, below._links, below._turn = self._writable, self._links, self._turn
        below._outer = self
        below._bind(fd)
        return below

    #: Keeps the folder alive whose descriptor the shared turn uses.
    _outer: HostFolder | None = None

    # Changing contents

    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        with self._making(path, expect, parents) as (fd, name), staging.staged(fd) as file:
            if file.fill(data) > _LONG:
                os.fsync(file.fd)
            with self._turn.taken():
                if overwritable(lstat(fd, name), expect) is None:
                    file.dress(0o644 if mode is None else mode, mime)
                else:
                    with opened_file(fd, name) as old:
                        file.dress_like(old, mime)
                return _shown(file, name, expect)

    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        with (
            self._making(path, expect, parents) as (fd, name),
            staging.spooled(fd, data) as (size, pour),
            self._turn.taken(),
            staging.staged(fd) as file,
        ):
            info = overwritable(lstat(fd, name), expect)
            if info is None:
                file.dress(0o644, None)
            elif not size:
                return stat_of(fd, name, info)
            else:
                with opened_file(fd, name) as old:
                    staging.copy_bytes(old, file.fd, os.fstat(old).st_size)
                    file.dress_like(old)
            pour(file.fd)
            return _shown(file, name, expect)

    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        if offset < 0:
            raise InvalidArgument("offset is not negative")
        with (
            self._present(path, expect) as (fd, name),
            staging.spooled(fd, data) as (size, pour),
        ):

            def patched(file: int) -> None:
                os.lseek(file, offset, os.SEEK_SET)
                pour(file)

            return self._edit(fd, name, expect, patched if size else None)

    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        if size < 0:
            raise InvalidArgument("size is not negative")
        with self._present(path, expect) as (fd, name):
            return self._edit(fd, name, expect, lambda file: os.ftruncate(file, size), size)

    def _edit(
        self, fd: int, name: str, expect: Expect, change: Callable[[int], None] | None,
        keep: int | None = None,
    ) -> Stat:  # fmt: skip
        """Replaces the file by a changed copy of its first `keep` bytes."""
        with self._turn.taken(), staging.staged(fd) as file:
            info = overwritable(lstat(fd, name), expect)
            if info is None:
                raise NotFound
            if change is None or keep == info.st_size:
                return stat_of(fd, name, info)
            with opened_file(fd, name) as old:
                size = os.fstat(old).st_size
                staging.copy_bytes(old, file.fd, size if keep is None else min(keep, size))
                file.dress_like(old)
            change(file.fd)
            return _shown(file, name, expect)

    @contextmanager
    def _making(
        self, path: VPath, expect: Expect, parents: bool
    ) -> Generator[tuple[int, str], None, None]:
        """The directory and the name of a file that may be there or not."""
        with self._find(path, True) as place:
            if place.dangling and expect is ABSENT:
                raise Conflict("expected no file here", expected="no file")
            if place.info is None:
                place.creatable(parents)
            overwritable(place.info, expect)
            with staging.room(place, parents) as fd:
                yield fd, place.name

    @contextmanager
    def _present(self, path: VPath, expect: Expect) -> Generator[tuple[int, str], None, None]:
        """The directory and the name of a file that must be there."""
        with self._find(path, True) as place:
            overwritable(place.there(), expect)
            yield place.fd, place.name

    # Changing names

    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        with self._find(path, False) as place:
            if place.info is not None:
                return self._existing_directory(path, exist_ok)
            exact = staging.safe_mode(mode)
            with staging.room(place, parents) as room:
                os.mkdir(place.name, 0o700, dir_fd=room)
                with staging.opened(room, place.name) as fd:
                    os.fchmod(fd, exact)
                    os.fsync(room)
                    return described(os.fstat(fd), {}, None)

    def _existing_directory(self, path: VPath, exist_ok: bool) -> Stat:
        if exist_ok:
            with suppress(NotFound):
                found = self.stat(path, True)
                if found.is_directory:
                    return found
        raise AlreadyExists

    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:  # noqa: ARG002
        kinds = {Kind.FIFO: stat.S_IFIFO, Kind.SOCKET: stat.S_IFSOCK}
        if kind in {Kind.FILE, Kind.DIRECTORY, Kind.SYMLINK}:
            raise InvalidArgument("mknod makes special kinds; use write, mkdir or symlink")
        if kind not in kinds:
            raise Unsupported("a host folder makes no devices")
        with self._free(path, False) as (fd, name):
            staging.make_special(fd, name, kinds[kind] | mode)
            return _settled(fd, name)

    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        if not self._links:
            raise PermissionDenied("links may not be made in this folder")
        if not 1 <= len(target.encode()) <= _MAX_TARGET_BYTES or "\0" in target:
            raise InvalidArgument(f"a target has 1 to {_MAX_TARGET_BYTES} bytes and no NUL")
        with self._free(path, parents) as (fd, name):
            os.symlink(target, name, dir_fd=fd)
            return _settled(fd, name)

    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        with self._find(path, False) as source:
            if stat.S_ISDIR(source.there().st_mode):
                raise IsADirectory("directories have one name only")
            with self._free(to, parents) as (fd, name):
                os.link(
                    source.name, name, src_dir_fd=source.fd, dst_dir_fd=fd, follow_symlinks=False
                )
                return _settled(fd, name)

    @contextmanager
    def _free(self, path: VPath, parents: bool) -> Generator[tuple[int, str], None, None]:
        """The directory and the name of an entry that must not be there."""
        with self._find(path, False) as place:
            if place.info is not None:
                raise AlreadyExists
            with staging.room(place, parents) as fd:
                yield fd, place.name

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        with self._find(path, False) as place:
            fd, name = place.fd, place.name
            place.there()
            if place.is_root:
                raise Busy
            with self._turn.taken():
                info = still(fd, name)
                judge(info, expect)
                hidden: str | None = None
                if not stat.S_ISDIR(info.st_mode):
                    os.unlink(name, dir_fd=fd)
                elif recursive:
                    hidden = staging.hide(fd, name)
                else:
                    staging.remove_empty(fd, name)
                os.fsync(fd)
            if hidden is not None:
                staging.remove_hidden(fd, hidden, name)

    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        with self._find(path, False) as source, self._find(to, False) as target:
            source.there()
            if source.is_root or target.is_root:
                raise Busy
            not_into_itself(source, target)
            with staging.room(target, parents) as fd, self._turn.taken():
                info, present = still(source.fd, source.name), lstat(fd, target.name)
                judge(info, expect)
                if present is not None and same_node(info, present):
                    return stat_of(fd, target.name, present)
                replaceable(info, present, replace, fd, target.name)
                os.rename(source.name, target.name, src_dir_fd=source.fd, dst_dir_fd=fd)
                os.fsync(source.fd)
                return _settled(fd, target.name)

    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        with self._find(path, True) as source, self._find(to, False) as target:
            info = source.there()
            if stat.S_ISDIR(info.st_mode) and not recursive:
                raise IsADirectory("pass recursive=True to copy a directory")
            if target.info is not None and same_node(info, target.info):
                judge(target.info, expect)
                return stat_of(target.fd, target.name, target.info)
            if target.is_root:
                raise Busy
            not_into_itself(source, target)
            judge(target.info, expect)
            with staging.room(target, parents) as fd:
                replaceable(info, target.info, replace, fd, target.name)
                with (
                    staging.duplicate(source.fd, source.name, info, fd) as show,
                    self._turn.taken(),
                ):
                    present = lstat(fd, target.name)
                    judge(present, expect)
                    replaceable(info, present, replace, fd, target.name)
                    show(target.name)
                    return _settled(fd, target.name)

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        with self._find(path, follow) as place, self._turn.taken():
            place.there()
            info = still(place.fd, place.name)
            judge(info, expect)
            apply(place.fd, place.name, info, attrs)
            return _settled(place.fd, place.name)


def _shown(file: staging.Staged, name: str, expect: Expect) -> Stat:
    try:
        info = file.commit(name, alone=expect is ABSENT)
    except (AlreadyExists, FileExistsError):
        raise Conflict("expected no file here", expected="no file") from None
    return described(info, read_xattrs(file.fd), None)


def _settled(fd: int, name: str) -> Stat:
    """What a change left, made to last."""
    os.fsync(fd)
    return stat_of(fd, name, os.lstat(name, dir_fd=fd))


def _plain(op: ops.Op[Any]) -> Iterator[ops.Op[Any]]:
    """The plain operations in `op`; one that wants to be judged before it is kept is refused."""
    match op:
        case ops.Judged():
            raise Unsupported("a host folder cannot take back what a judge refuses")
        case ops.Batch():
            for each in op.ops:
                yield from _plain(each)
        case ops.Within() | ops.Once():
            yield from _plain(op.op)
        case _:
            yield op
