"""Sets attributes of one node of the host.

Files and directories are changed through a descriptor of the very node that was judged. Links and
special nodes have none that is safe to open, so of theirs only owner and times can be set.

The steps are not one transaction: what the host refuses most often comes first. Only the host
folder calls this.
"""

from __future__ import annotations

import os
import stat

from keelfs.errors import InvalidArgument, StoreBusy, Unsupported
from keelfs.model import Attrs
from keelfs.volumes.hostnode import FILE, MIME_XATTR, change_xattrs, same_node
from keelfs.volumes.staging import safe_mode

_WRITE_BITS = 0o222


def apply(directory: int, name: str, info: os.stat_result, attrs: Attrs) -> None:
    """Sets what `attrs` names on the node that `info` describes."""
    if attrs.mode is not None:
        safe_mode(attrs.mode)
    if attrs.readonly is not None and not stat.S_ISREG(info.st_mode):
        raise Unsupported("only files can be readonly on a host")
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
        _apply_by_name(directory, name, info, attrs)
        return
    fd = os.open(name, FILE, dir_fd=directory)
    try:
        if not same_node(os.fstat(fd), info):
            raise StoreBusy("another program replaced the node; try again")
        _apply(fd, info, attrs)
    finally:
        os.close(fd)


def _apply(fd: int, info: os.stat_result, attrs: Attrs) -> None:
    if attrs.uid is not None or attrs.gid is not None:
        os.fchown(fd, _or_same(attrs.uid), _or_same(attrs.gid))
    change_xattrs(fd, _xattrs(attrs))
    mode = stat.S_IMODE(info.st_mode) if attrs.mode is None else safe_mode(attrs.mode)
    if attrs.readonly is not None:
        mode = _with_readonly(mode, attrs.readonly)
    if mode != stat.S_IMODE(info.st_mode):
        os.fchmod(fd, mode)
    if attrs.atime_ns is not None or attrs.mtime_ns is not None:
        os.utime(fd, ns=_times(info, attrs))


def _apply_by_name(directory: int, name: str, info: os.stat_result, attrs: Attrs) -> None:
    if attrs.mode is not None or attrs.mime or attrs.xattrs:
        raise Unsupported("a host keeps only owner and times of links and special nodes")
    if attrs.uid is not None or attrs.gid is not None:
        owner = _or_same(attrs.uid), _or_same(attrs.gid)
        os.chown(name, *owner, dir_fd=directory, follow_symlinks=False)
    if attrs.atime_ns is not None or attrs.mtime_ns is not None:
        os.utime(name, ns=_times(info, attrs), dir_fd=directory, follow_symlinks=False)


def _xattrs(attrs: Attrs) -> dict[str, bytes | None]:
    wanted = dict(attrs.xattrs or {})
    if MIME_XATTR in wanted:
        raise InvalidArgument(f"{MIME_XATTR!r} holds the media type; set mime instead")
    if attrs.mime is not None:
        wanted[MIME_XATTR] = attrs.mime.encode() or None
    return wanted


def _with_readonly(mode: int, readonly: bool) -> int:
    if readonly:
        return mode & ~_WRITE_BITS
    return mode if mode & _WRITE_BITS else mode | stat.S_IWUSR


def _or_same(owner: int | None) -> int:
    return -1 if owner is None else owner


def _times(info: os.stat_result, attrs: Attrs) -> tuple[int, int]:
    return (
        info.st_atime_ns if attrs.atime_ns is None else attrs.atime_ns,
        info.st_mtime_ns if attrs.mtime_ns is None else attrs.mtime_ns,
    )
