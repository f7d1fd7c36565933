"""What the host says about one node, in this package's words.

The host counts no contents, so a revision is derived: a hash of inode number, time of change and
size. Whoever writes through this package gives each content a new inode and a fresh time, so two
contents of a file share a revision only by a collision of 52 bits; a program that changes bytes in
place and sets the time back is not noticed. Directories and special nodes keep revision 1.

Errors of the kernel become this package's errors here and nowhere else. Only the host folder and
its helpers call this.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import xxhash

from keelfs import errors
from keelfs.model import Kind, Stat
from keelfs.volumes.descent import DIRECTORY, UNFINISHED, read_target

#: Never blocks on a pipe, never becomes a terminal's owner, never follows a link.
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Where the freedesktop convention keeps a file's media type.
MIME_XATTR: Final = "user.mime_type"
_XATTR_PREFIX: Final = "user."
#: Counting holds two descriptors for each level.
_WEIGH_DEPTH: Final = 256
#: A number that JSON carries exactly.
_REVISIONS: Final = 2**52

_KINDS: Final = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFDIR: Kind.DIRECTORY,
    stat.S_IFLNK: Kind.SYMLINK,
    stat.S_IFIFO: Kind.FIFO,
    stat.S_IFSOCK: Kind.SOCKET,
    stat.S_IFCHR: Kind.CHAR_DEVICE,
    stat.S_IFBLK: Kind.BLOCK_DEVICE,
}

_ERRORS: Final[dict[int, type[errors.KeelError]]] = {
    errno.ENOENT: errors.NotFound,
    errno.EEXIST: errors.AlreadyExists,
    errno.ENOTEMPTY: errors.NotEmpty,
    errno.ENOTDIR: errors.NotADirectory,
    errno.EISDIR: errors.IsADirectory,
    errno.ENXIO: errors.NotAFile,
    errno.EACCES: errors.PermissionDenied,
    errno.EPERM: errors.PermissionDenied,
    errno.EROFS: errors.ReadOnly,
    errno.EXDEV: errors.CrossDevice,
    errno.EBUSY: errors.Busy,
    errno.ETXTBSY: errors.Busy,
    errno.ENAMETOOLONG: errors.NameTooLong,
    errno.EINVAL: errors.InvalidArgument,
    errno.ENOTSUP: errors.Unsupported,
    errno.ENOSYS: errors.Unsupported,
    errno.EDQUOT: errors.QuotaExceeded,
    errno.ENOSPC: errors.StoreFull,
    errno.EFBIG: errors.TooLarge,
    errno.E2BIG: errors.TooLarge,
    errno.ERANGE: errors.TooLarge,
    errno.EMLINK: errors.TooLarge,
    errno.EBADF: errors.StoreClosed,
}
#: Out of descriptors or memory, or another program changed the folder under this step.
_PASSING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ESTALE, errno.ELOOP}
)


@contextmanager
def translated() -> Generator[None, None, None]:
    """Turns what the kernel refuses into an error without a path."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        if number in _PASSING:
            reason = "the host is out of resources, or its folder is being changed"
            raise errors.StoreBusy(f"{reason} ({os.strerror(number)})") from error
        known = _ERRORS.get(number)
        if known is None:
            raise errors.StoreFailed(f"the host failed: {os.strerror(number)}") from error
        raise known from error


def kind_of(info: os.stat_result) -> Kind:
    return _KINDS[stat.S_IFMT(info.st_mode)]


def id_of(info: os.stat_result) -> bytes:
    return xxhash.xxh3_128_digest(b"%d:%d" % (info.st_dev, info.st_ino))


def revision_of(info: os.stat_result) -> int:
    if not stat.S_ISREG(info.st_mode):
        return 1
    told = b"%d:%d:%d:%d" % (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_size)
    return xxhash.xxh3_64_intdigest(told) % _REVISIONS + 1


def is_readonly(info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) and not info.st_mode & 0o222


def same_node(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def lstat(directory: int, name: str) -> os.stat_result | None:
    """What the name holds now; a link is not followed."""
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def still(directory: int, name: str) -> os.stat_result:
    """What the name holds now, if anything."""
    info = lstat(directory, name)
    if info is None:
        raise errors.NotFound
    return info


@contextmanager
def opened_file(directory: int, name: str) -> Generator[int, None, None]:
    """A regular file, by descriptor, inside a block."""
    fd = open_file(directory, name)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(directory: int, name: str) -> int:
    """A descriptor of a regular file; nothing else is ever opened for its bytes."""
    _only_files(os.lstat(name, dir_fd=directory))
    fd = os.open(name, FILE, dir_fd=directory)
    try:
        _only_files(os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _only_files(info: os.stat_result) -> None:
    if stat.S_ISDIR(info.st_mode):
        raise errors.IsADirectory
    if stat.S_ISLNK(info.st_mode):
        raise errors.StoreBusy("another program put a link where a file was; try again")
    if not stat.S_ISREG(info.st_mode):
        raise errors.NotAFile


def stat_of(directory: int, name: str, info: os.stat_result) -> Stat:
    """All that is known about a node that was just looked at."""
    kind = kind_of(info)
    target: str | None = None
    if kind is Kind.SYMLINK:
        # A target that is no text cannot be told, and one that is gone need not be.
        with suppress(errors.InvalidPath, FileNotFoundError):
            target = read_target(directory, name)
    xattrs: dict[str, bytes] = {}
    if kind in {Kind.FILE, Kind.DIRECTORY}:
        # A file that may be looked at but not read keeps its attributes to itself, and one that
        # was replaced between the two steps says nothing about its successor.
        with suppress(OSError):
            fd = os.open(name, FILE, dir_fd=directory)
            try:
                if same_node(os.fstat(fd), info):
                    xattrs = read_xattrs(fd)
            finally:
                os.close(fd)
    return described(info, xattrs, target)


def described(info: os.stat_result, xattrs: dict[str, bytes], target: str | None) -> Stat:
    kind = kind_of(info)
    mime = xattrs.pop(MIME_XATTR, None)
    return Stat(
        kind=kind,
        id=id_of(info),
        size=info.st_size if kind in {Kind.FILE, Kind.SYMLINK} else 0,
        revision=revision_of(info),
        mode=stat.S_IMODE(info.st_mode),
        uid=info.st_uid,
        gid=info.st_gid,
        nlink=1 if kind is Kind.DIRECTORY else info.st_nlink,
        atime_ns=info.st_atime_ns,
        mtime_ns=info.st_mtime_ns,
        ctime_ns=info.st_ctime_ns,
        created_ns=int(getattr(info, "st_birthtime", 0) * 10**9),
        mime=None if mime is None else mime.decode("utf-8", "replace"),
        readonly=is_readonly(info),
        target=target,
        rdev=info.st_rdev if kind in {Kind.CHAR_DEVICE, Kind.BLOCK_DEVICE} else 0,
        xattrs=xattrs,
    )


def read_xattrs(fd: int) -> dict[str, bytes]:
    """Attributes of the host's `user.` family, the only one that belongs to its users."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = [name for name in os.listxattr(fd) if name.startswith(_XATTR_PREFIX)]
        return {name: os.getxattr(fd, name) for name in names if visible(name)}
    except OSError as error:
        if error.errno in {errno.ENOTSUP, errno.ENODATA}:
            return {}
        raise


def change_xattrs(fd: int, xattrs: dict[str, bytes | None]) -> None:
    """Sets those with a value, removes the others."""
    if xattrs and not hasattr(os, "setxattr"):
        raise errors.Unsupported("the host keeps no extended attributes")
    if any(not name.startswith(_XATTR_PREFIX) for name in xattrs):
        raise errors.Unsupported('the host keeps extended attributes named "user." and more only')
    for name, value in xattrs.items():
        if value is not None:
            os.setxattr(fd, name, value)
            continue
        try:
            os.removexattr(fd, name)
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise


def visible(name: str) -> bool:
    """Whether a name of the host can be part of a path here."""
    if name.startswith(UNFINISHED):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def names_after(directory: int, after: str | None, count: int) -> list[str]:
    """The first `count` visible names behind `after`, by bytes; memory grows with `count` only."""
    least = b"" if after is None else after.encode("utf-8", "surrogatepass")
    with os.scandir(directory) as entries:
        behind = (
            entry.name for entry in entries if visible(entry.name) and entry.name.encode() > least
        )
        return heapq.nsmallest(count, behind, key=str.encode)


def weigh(directory: int, depth: int = 0) -> tuple[int, int]:
    """Sizes and names of what lies below an open directory."""
    if depth > _WEIGH_DEPTH:
        raise errors.TooLarge(f"a tree deeper than {_WEIGH_DEPTH} is counted in parts")
    size = nodes = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            info = lstat(directory, entry.name) if visible(entry.name) else None
            if info is None:
                continue
            nodes += 1
            if stat.S_ISREG(info.st_mode):
                size += info.st_size
            elif stat.S_ISDIR(info.st_mode):
                fd = os.open(entry.name, DIRECTORY, dir_fd=directory)
                try:
                    inner = weigh(fd, depth + 1)
                finally:
                    os.close(fd)
                size, nodes = size + inner[0], nodes + inner[1]
    return size, nodes
