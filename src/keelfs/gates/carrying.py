"""A transfer between volumes that no transaction spans: copied page by page, then removed.

The copy is made beside its place, under a hidden name, and moved into place when it is whole; after
an error it is removed. At the source only what was copied is removed, at the revision that was
copied, so that nothing is lost that somebody writes meanwhile. Only a process that dies leaves a
copy behind: the hidden one, named `.transfer-` and a random number, or both ends.

Hard links become files of their own, revisions and identities begin anew. Only `Mounts` calls.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from keelfs import ops
from keelfs.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    KeelError,
    Missing,
    NotEmpty,
    PermissionDenied,
    TooLarge,
    Unsupported,
)
from keelfs.model import ABSENT, Attrs, Content, Entry, Kind, Stat
from keelfs.path import VPath, parse

T = TypeVar("T")

#: What is read at once.
_BLOCK: Final = 256 * 1024
_PAGE: Final = 1000
#: Names that one transfer carries: their revisions are remembered until they are removed.
MOST: Final = 100_000


class Perform(Protocol):
    """What performs an operation on the composed tree."""

    def __call__(self, op: ops.Op[T], /) -> T: ...


class _Carried(Struct, frozen=True):
    """One entry that was copied, and what was copied of it."""

    path: VPath
    stat: Stat


class Lent:
    """The bytes of a content, as a source."""

    def __init__(self, content: Content) -> None:
        self._content = content

    def blocks(self) -> Iterator[bytes]:
        for offset in range(0, self._content.stat.size, _BLOCK):
            yield self._content.read(offset, _BLOCK)


def carried(perform: Perform, op: ops.Transfer) -> Stat:
    """Carries an entry from one volume into another; the stat is that of what arrived."""
    path, to = parse(op.path), parse(op.to)
    if path.is_root or to.is_root:
        raise Busy
    stat = perform(ops.GetStat(path, follow=False))
    op.check_kind(stat)
    _check_taken(perform, to, op.replace)
    if op.parents:
        perform(ops.Mkdir(to.parent, parents=True, exist_ok=True))
    stage = to.parent.child(f".transfer-{secrets.token_hex(8)}")
    try:
        copied = _copied(perform, path, stat, stage)
        arrived = perform(ops.Move(stage, to, op.replace))
    except BaseException:
        _forget(perform, stage)
        raise
    for each in reversed(copied):
        _take_away(perform, each)
    return arrived


def _check_taken(perform: Perform, to: VPath, replace: bool) -> None:
    """Says early what moving into place would say at the end."""
    try:
        perform(ops.GetStat(to, follow=False))
    except Missing:
        return
    if not replace:
        raise AlreadyExists


def _copied(perform: Perform, path: VPath, stat: Stat, stage: VPath) -> list[_Carried]:
    """What was copied to the stage, directories before what they hold."""
    done: list[_Carried] = []
    waiting = [(path, stat, stage)]
    while waiting:
        path, stat, to = waiting.pop()
        if len(done) >= MOST:
            raise TooLarge(
                f"a transfer between stores carries {MOST} names at once; do it in parts",
                size=MOST,
            )
        done.append(_Carried(path, _copy_one(perform, path, stat, to)))
        if stat.is_directory:
            waiting += [
                (path.child(entry.name), entry.stat, to.child(entry.name))
                for entry in _entries(perform, path)
            ]
    return done


def _entries(perform: Perform, path: VPath) -> Iterator[Entry]:
    after: str | None = None
    while True:
        page = perform(ops.List(path, after, _PAGE))
        yield from page.items
        after = page.next
        if after is None:
            return


def _copy_one(perform: Perform, path: VPath, stat: Stat, to: VPath) -> Stat:
    """Copies one entry; the stat says what of it was copied."""
    match stat.kind:
        case Kind.FILE:
            content = perform(ops.Open(path))
            stat = content.stat
            perform(ops.Write(to, Lent(content), ABSENT, False, stat.mode, stat.mime))
        case Kind.DIRECTORY:
            perform(ops.Mkdir(to, mode=stat.mode))
        case Kind.SYMLINK:
            perform(ops.Symlink(stat.target or "", to))
            return stat
        case _:
            perform(ops.Mknod(to, stat.kind, stat.mode, stat.rdev))
    _dress(perform, to, stat)
    return stat


def _dress(perform: Perform, to: VPath, stat: Stat) -> None:
    attrs: list[Attrs] = [Attrs(atime_ns=stat.atime_ns, mtime_ns=stat.mtime_ns)]
    if stat.uid or stat.gid:
        attrs.append(Attrs(uid=stat.uid, gid=stat.gid))
    if stat.xattrs:
        attrs.append(Attrs(xattrs=dict(stat.xattrs)))
    if stat.readonly:
        attrs.append(Attrs(readonly=True))
    for each in attrs:
        try:
            perform(ops.SetAttrs(to, each, follow=False))
        except (PermissionDenied, Unsupported):
            # The volume has no such attributes, or does not let them be set.
            continue


def _take_away(perform: Perform, each: _Carried) -> None:
    directory = each.stat.is_directory
    try:
        perform(ops.Remove(each.path) if directory else ops.Remove(each.path, expect=each.stat))
    except Missing:
        return
    except (Conflict, NotEmpty) as error:
        raise Conflict(
            "something changed where it came from while it was carried; what changed was left "
            "there, and the copy has arrived"
        ) from error


def _forget(perform: Perform, stage: VPath) -> None:
    op: ops.Op[Any] = ops.Remove(stage, recursive=True)
    try:
        perform(op)
    except KeelError:
        # Whatever made the transfer fail is what its caller has to know.
        return
