"""Makes files and trees beside the place they will take, and takes trees apart.

What is being made has a hidden name in the directory of its destination until one rename (or one
link, where nothing may be there yet) shows it whole. What is being removed is renamed to a hidden
name first, so that it vanishes at once. A process that dies leaves the hidden name behind; it is
never listed, and goes with the directory that holds it.

Memory and descriptors in use are bounded, however large or deep a tree is; only copying stops at
a depth. Nothing here knows about paths or expectations; the host folder calls.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from typing import Final

from keelfs.errors import AlreadyExists, PermissionDenied, TooLarge, Unsupported
from keelfs.model import Data
from keelfs.volumes.descent import DIRECTORY, UNFINISHED, Place
from keelfs.volumes.hostnode import (
    MIME_XATTR,
    change_xattrs,
    lstat,
    opened_file,
    read_xattrs,
)

_BLOCK: Final = 1 << 20
#: Copying holds four descriptors for each level, and a process has 1,024 by custom.
_COPY_DEPTH: Final = 128
#: Removing holds two for each level, and flattens what lies deeper.
_REMOVE_DEPTH: Final = 64
#: Names looked at together while a directory is emptied.
_REMOVE_NAMES: Final = 512
SET_ID_BITS: Final = stat.S_ISUID | stat.S_ISGID


def hidden_name() -> str:
    return UNFINISHED + secrets.token_hex(16)


def blocks(data: Data) -> Iterator[bytes]:
    return iter((data,)) if isinstance(data, bytes) else data.blocks()


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy_bytes(source: int, target: int, length: int) -> None:
    """From where `source` stands to where `target` stands, shared by the host where it can."""
    while length > 0:
        try:
            copied = os.copy_file_range(source, target, min(length, 1 << 30))
        except (AttributeError, OSError) as error:
            refused = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
            if isinstance(error, OSError) and error.errno not in refused:
                raise
            block = os.read(source, min(length, _BLOCK))
            write_all(target, block)
            copied = len(block)
        if not copied:
            return
        length -= copied


class Staged:
    """A file that nobody sees yet."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._name: str | None = hidden_name()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.fd = os.open(self._name, flags, 0o600, dir_fd=directory)

    def fill(self, data: Data) -> int:
        """Writes all of it where the file stands; how many bytes that were."""
        size = 0
        for block in blocks(data):
            write_all(self.fd, block)
            size += len(block)
        return size

    def dress(self, mode: int, mime: str | None) -> None:
        """Gives a new file what it needs besides bytes."""
        os.fchmod(self.fd, safe_mode(mode))
        if mime:
            change_xattrs(self.fd, {MIME_XATTR: mime.encode()})

    def dress_like(self, source: int, mime: str | None = None) -> None:
        """Gives the file the mode, owner and attributes of another one."""
        dress_like(source, self.fd)
        if mime is not None:
            change_xattrs(self.fd, {MIME_XATTR: mime.encode() or None})

    def commit(self, name: str, *, alone: bool) -> os.stat_result:
        """Shows the file under its name; with `alone`, only if nothing is there.

        The time is set here because the host's own clock ticks too slowly to tell two contents of
        the same size apart.
        """
        assert self._name is not None
        now = time.time_ns()
        os.utime(self.fd, ns=(now, now))
        os.fsync(self.fd)
        if alone:
            self._link(name)
        else:
            os.rename(self._name, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._name = None
        os.fsync(self._directory)
        return os.fstat(self.fd)

    def _link(self, name: str) -> None:
        assert self._name is not None
        here = self._directory
        try:
            os.link(self._name, name, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}:
                raise
            # A host without hard links cannot refuse and show in one step.
            if lstat(here, name) is not None:
                raise AlreadyExists from None
            os.rename(self._name, name, src_dir_fd=here, dst_dir_fd=here)
        else:
            os.unlink(self._name, dir_fd=here)

    def discard(self) -> None:
        os.close(self.fd)
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._directory)


@contextmanager
def staged(directory: int) -> Generator[Staged, None, None]:
    """A file to fill; gone at the end unless it was committed."""
    file = Staged(directory)
    try:
        yield file
    finally:
        file.discard()


def safe_mode(mode: int) -> int:
    """A caller makes no program of the host run as somebody else."""
    if mode & SET_ID_BITS:
        raise PermissionDenied("a host folder makes no setuid or setgid nodes")
    return mode & 0o7777


def dress_like(source: int, target: int) -> None:
    """Mode, owner and attributes from one open node to another; set-id bits stay behind."""
    info, present = os.fstat(source), os.fstat(target)
    if (info.st_uid, info.st_gid) != (present.st_uid, present.st_gid):
        # Only a privileged process may give files away; for others the copy is their own.
        with suppress(PermissionError):
            os.fchown(target, info.st_uid, info.st_gid)
    wanted: dict[str, bytes | None] = dict(read_xattrs(source))
    if wanted:
        change_xattrs(target, wanted)
    os.fchmod(target, stat.S_IMODE(info.st_mode) & ~SET_ID_BITS)


def copy_file(source: int, directory: int, name: str) -> None:
    """A copy of an open file under a name that is free."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        os.lseek(source, 0, os.SEEK_SET)
        copy_bytes(source, target, os.fstat(source).st_size)
        dress_like(source, target)
        os.fsync(target)
    finally:
        os.close(target)


def copy_tree(source: int, target: int, depth: int = 0) -> None:
    """Copies what an open directory holds into an open empty one; links stay links."""
    if depth >= _COPY_DEPTH:
        raise TooLarge(f"a tree deeper than {_COPY_DEPTH} is copied in parts", limit="depth")
    with os.scandir(source) as entries:
        for entry in entries:
            if not entry.name.startswith(UNFINISHED):
                _copy_entry(source, target, entry.name, depth)
    dress_like(source, target)
    os.fsync(target)


def _copy_entry(source: int, target: int, name: str, depth: int) -> None:
    mode = os.lstat(name, dir_fd=source).st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(name, 0o700, dir_fd=target)
        with opened(source, name) as inner, opened(target, name) as made:
            copy_tree(inner, made, depth + 1)
    elif stat.S_ISREG(mode):
        with opened_file(source, name) as fd:
            copy_file(fd, target, name)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    else:
        make_special(target, name, mode)


def make_special(directory: int, name: str, mode: int) -> None:
    """Pipes and sockets; a device would open the machine to whoever reads it."""
    if stat.S_IFMT(mode) not in {stat.S_IFIFO, stat.S_IFSOCK}:
        raise Unsupported("a host folder makes no devices")
    os.mknod(name, stat.S_IFMT(mode) | safe_mode(stat.S_IMODE(mode)), dir_fd=directory)


@contextmanager
def spooled(directory: int, data: Data) -> Generator[tuple[int, Callable[[int], None]], None, None]:
    """The size of `data`, and what writes it to a descriptor; a stream is read only once."""
    if isinstance(data, bytes):
        yield len(data), lambda fd: write_all(fd, data)
        return
    with staged(directory) as spool:
        size = spool.fill(data)

        def pour(fd: int) -> None:
            os.lseek(spool.fd, 0, os.SEEK_SET)
            copy_bytes(spool.fd, fd, size)

        yield size, pour


@contextmanager
def opened(directory: int, name: str) -> Generator[int, None, None]:
    """A directory, by descriptor, if it still is one."""
    fd = os.open(name, DIRECTORY, dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def room(place: Place, parents: bool) -> Generator[int, None, None]:
    """The directory for the last name of a place, made with mode 0755 where it is missing.

    Directories made in vain are removed again.
    """
    if place.info is None:
        place.creatable(parents)
    made: list[tuple[int, str]] = []
    with ExitStack() as stack:
        fd = place.fd
        try:
            for name in place.missing[:-1]:
                with suppress(FileExistsError):  # Another writer was first.
                    os.mkdir(name, 0o700, dir_fd=fd)
                    made.append((fd, name))
                inner = stack.enter_context(opened(fd, name))
                if made and made[-1] == (fd, name):
                    os.fchmod(inner, 0o755)
                    os.fsync(fd)
                fd = inner
            yield fd
        except BaseException:
            for above, name in reversed(made):
                with suppress(OSError):
                    os.rmdir(name, dir_fd=above)
            raise


@contextmanager
def duplicate(
    directory: int, name: str, info: os.stat_result, fd: int
) -> Generator[Callable[[str], None], None, None]:
    """A copy of a node under a hidden name in `fd`, and what shows it under a name given."""
    hidden = hidden_name()

    def show(shown: str) -> None:
        os.rename(hidden, shown, src_dir_fd=fd, dst_dir_fd=fd)

    try:
        if stat.S_ISREG(info.st_mode):
            with opened_file(directory, name) as source:
                copy_file(source, fd, hidden)
        elif stat.S_ISDIR(info.st_mode):
            os.mkdir(hidden, 0o700, dir_fd=fd)
            with opened(directory, name) as source, opened(fd, hidden) as target:
                copy_tree(source, target)
        else:
            make_special(fd, hidden, info.st_mode)
        yield show
    finally:
        left = lstat(fd, hidden)
        if left is not None and stat.S_ISDIR(left.st_mode):
            take_apart(fd, hidden)
        elif left is not None:
            os.unlink(hidden, dir_fd=fd)


def hide(directory: int, name: str) -> str:
    """Makes a tree vanish at once, for `remove_hidden` to take apart."""
    hidden = hidden_name()
    os.rename(name, hidden, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
    return hidden


def remove_hidden(directory: int, hidden: str, name: str) -> None:
    """Takes a hidden tree apart; if the host refuses, what is left is put back as `name`."""
    try:
        take_apart(directory, hidden)
    except BaseException:
        with suppress(OSError):
            os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
        raise


def take_apart(directory: int, name: str) -> None:
    """Removes a tree bottom-up."""
    with opened(directory, name) as top:
        _empty(top, top, 0)
    os.rmdir(name, dir_fd=directory)


def _empty(fd: int, top: int, depth: int) -> None:
    while names := first_names(fd):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                os.unlink(name, dir_fd=fd)
            elif depth >= _REMOVE_DEPTH:
                os.rename(name, hidden_name(), src_dir_fd=fd, dst_dir_fd=top)
            else:
                with opened(fd, name) as inner:
                    _empty(inner, top, depth + 1)
                os.rmdir(name, dir_fd=fd)


def first_names(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        return [entry.name for entry in islice(entries, _REMOVE_NAMES)]


def remove_empty(directory: int, name: str) -> None:
    """Removes a directory that holds nothing but what dying processes left in it."""
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        clear_leftovers(directory, name)
        os.rmdir(name, dir_fd=directory)


def clear_leftovers(directory: int, name: str) -> None:
    """Empties a directory of hidden names, if it holds nothing else."""
    with opened(directory, name) as fd:
        with os.scandir(fd) as entries:
            if any(not entry.name.startswith(UNFINISHED) for entry in entries):
                return
        _empty(fd, fd, 0)
