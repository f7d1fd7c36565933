"""What the dictionaries of a memory space hold: frozen records, replaced and never changed.

A record that a snapshot, a pinned reader or the undo log still holds stays what it was.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from msgspec import Struct, field

from keelfs.errors import InvalidArgument
from keelfs.model import Kind, Snapshot, Stat


class Node(Struct, frozen=True, kw_only=True):
    """What a name points to. `data` is empty for everything that is not a file."""

    id: bytes
    kind: Kind
    mode: int
    revision: int = 1
    data: bytes = b""
    sha256: str | None = None
    #: When and by whom the present bytes were put there; attributes do not touch these.
    written_ns: int = 0
    written_by: str = ""
    uid: int = 0
    gid: int = 0
    atime_ns: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    created_ns: int = 0
    mime: str | None = None
    readonly: bool = False
    target: str | None = None
    rdev: int = 0
    xattrs: dict[str, bytes] = field(default_factory=lambda: dict[str, bytes]())

    def stat(self, nlink: int) -> Stat:
        """The node as callers see it."""
        size = len(self.data) if self.target is None else len(self.target.encode())
        return Stat(
            kind=self.kind, id=self.id, size=size, revision=self.revision, mode=self.mode,
            uid=self.uid, gid=self.gid, nlink=nlink, atime_ns=self.atime_ns,
            mtime_ns=self.mtime_ns, ctime_ns=self.ctime_ns, created_ns=self.created_ns,
            sha256=self.sha256, mime=self.mime, readonly=self.readonly, target=self.target,
            rdev=self.rdev, xattrs=dict(self.xattrs),
        )  # fmt: skip


class Kept(Struct, frozen=True):
    """A former content of a file."""

    revision: int
    data: bytes
    at_ns: int
    by: str
    sha256: str | None


class Frozen(Struct, frozen=True):
    """A whole tree as it was: its nodes by id, its directories as names to ids."""

    root: bytes
    nodes: dict[bytes, Node]
    children: dict[bytes, dict[str, bytes]]


class Album(Struct, frozen=True):
    """A named state; `number` orders snapshots that were taken at the same instant."""

    number: int
    snapshot: Snapshot
    tree: Frozen


@dataclass(frozen=True, slots=True)
class Found:
    """Where a path leads, as seen from the root that it was asked of.

    `node` is None when names are missing; then `missing` lists them, the entry itself last.
    """

    #: The directories that were passed, from the root down to the entry's own.
    above: tuple[bytes, ...]
    #: The path with every followed link replaced by what it led to.
    path: tuple[str, ...]
    node: Node | None
    missing: tuple[str, ...] = ()
    #: The first missing name was asked for by a link.
    in_link: bool = False
    #: All missing names were asked for by a link at the very end of the path.
    dangling: bool = False

    @property
    def is_root(self) -> bool:
        return not self.above


class Bytes:
    """The bytes of one revision, pinned by being immutable."""

    __slots__ = ("_data", "_stat")

    def __init__(self, stat: Stat, data: bytes) -> None:
        self._stat, self._data = stat, data

    @property
    def stat(self) -> Stat:
        return self._stat

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`."""
        if offset < 0 or length < 0:
            raise InvalidArgument("offset and length cannot be negative")
        return self._data[offset : offset + length]


def digest(data: bytes) -> str:
    """The sha256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
