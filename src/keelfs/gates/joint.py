"""Several volumes in one transaction, seen as the tree they are mounted into.

A volume inside a transaction performs operations by running them, so a composed tree of such
volumes routes them as any other does; `Joint` turns that tree into a volume again, for operations
that hold others: batches, judged ones, those under a key. What is touched is what was touched in
any of them; a key is kept by the first.

Only `Mounts` makes these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, cast

from keelfs import ops
from keelfs.model import (
    Attrs,
    Change,
    Content,
    Data,
    Entry,
    Expect,
    Kind,
    Page,
    Revision,
    Snapshot,
    Stat,
    Trashed,
    Usage,
)
from keelfs.path import ROOT, VPath
from keelfs.ports import Handler, Joinable, Volume

T = TypeVar("T")


def joinable(handlers: Sequence[Handler]) -> list[Joinable] | None:
    """The same handlers, if one transaction can hold what all of them do."""
    stores = {getattr(each, "store", each) for each in handlers}
    if len(stores) > 1 or not all(hasattr(each, "together") for each in handlers):
        return None
    return cast(list[Joinable], list(handlers))


class Inside:
    """A volume in its transaction, as a handler."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume

    def perform(self, op: ops.Op[T], /) -> T:
        return op.run(self._volume)


class Composed(Protocol):
    """The tree that the volumes are mounted into."""

    def perform(self, op: ops.Op[T], /) -> T: ...
    def owner(self, path: VPath) -> VPath: ...
    def view(self, base: VPath) -> Handler: ...


class Joint:
    """See the module. Implements `keelfs.ports.Volume`."""

    def __init__(self, tree: Composed, volumes: Mapping[VPath, Volume]) -> None:
        self._tree, self._volumes = tree, volumes

    # -- what is not routed by a path

    def rooted(self, base: VPath) -> Volume:
        if base.is_root:
            return self
        mount = self._tree.owner(base)
        below = {
            path.below(base): volume
            for path, volume in self._volumes.items()
            if path.is_within(base)
        }
        if mount in self._volumes and ROOT not in below:
            root = self._volumes[mount].rooted(base.below(mount))
            if not below:
                return root
            below = {ROOT: root, **below}
        return Joint(cast(Composed, self._tree.view(base)), below)

    def touched(self) -> Sequence[tuple[str, ...]]:
        return sorted(
            mount.parts + path
            for mount, volume in self._volumes.items()
            for path in volume.touched()
        )

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        return self._first.recall(key, fingerprint)

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        self._first.remember(key, fingerprint, answer)

    @property
    def _first(self) -> Volume:
        return next(iter(self._volumes.values()))

    # -- what leads from one volume into another

    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        source, target = self._tree.owner(path), self._tree.owner(to)
        if source == target:
            return self._tree.perform(ops.Move(path, to, replace, parents, expect))
        stat = self._volumes[target].receive(
            self._volumes[source], path.below(source), to.below(target), replace, parents
        )
        self._volumes[source].remove(path.below(source), True, expect)
        return stat

    def receive(self, source: Volume, path: VPath, to: VPath, replace: bool, parents: bool) -> Stat:
        mount = self._tree.owner(to)
        return self._volumes[mount].receive(source, path, to.below(mount), replace, parents)

    # -- what one of them answers

    def stat(self, path: VPath, follow: bool) -> Stat:
        return self._tree.perform(ops.GetStat(path, follow))

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        return self._tree.perform(ops.List(path, after, limit))

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        return self._tree.perform(ops.Read(path, offset, length, revision))

    def open(self, path: VPath, revision: int | None) -> Content:
        return self._tree.perform(ops.Open(path, revision))

    def readlink(self, path: VPath) -> str:
        return self._tree.perform(ops.Readlink(path))

    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        return self._tree.perform(ops.Write(path, data, expect, parents, mode, mime))

    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        return self._tree.perform(ops.Append(path, data, expect, parents))

    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        return self._tree.perform(ops.Patch(path, offset, data, expect))

    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        return self._tree.perform(ops.Truncate(path, size, expect))

    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        return self._tree.perform(ops.Mkdir(path, parents, exist_ok, mode))

    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
        return self._tree.perform(ops.Mknod(path, kind, mode, rdev))

    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        return self._tree.perform(ops.Symlink(target, path, parents))

    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        return self._tree.perform(ops.Link(path, to, parents))

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        self._tree.perform(ops.Remove(path, recursive, expect))

    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        return self._tree.perform(ops.Copy(path, to, replace, recursive, parents, expect))

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        return self._tree.perform(ops.SetAttrs(path, attrs, follow, expect))

    def checksum(self, path: VPath) -> str:
        return self._tree.perform(ops.Checksum(path))

    def history(self, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:
        return self._tree.perform(ops.History(path, before, limit))

    def restore(self, path: VPath, revision: int, expect: Expect) -> Stat:
        return self._tree.perform(ops.Restore(path, revision, expect))

    def trash(self, path: VPath, expect: Expect) -> Trashed:
        return self._tree.perform(ops.Trash(path, expect))

    def trashed(self, after: str | None, limit: int) -> Page[Trashed]:
        return self._tree.perform(ops.ListTrash(after, limit))

    def untrash(self, trash_id: str, to: VPath | None, parents: bool) -> Stat:
        return self._tree.perform(ops.Untrash(trash_id, to, parents))

    def purge(self, trash_id: str) -> None:
        self._tree.perform(ops.Purge(trash_id))

    def snapshot(self, name: str) -> Snapshot:
        return self._tree.perform(ops.TakeSnapshot(name))

    def snapshots(self) -> Sequence[Snapshot]:
        return self._tree.perform(ops.ListSnapshots())

    def drop_snapshot(self, name: str) -> None:
        self._tree.perform(ops.DropSnapshot(name))

    def rollback(self, name: str) -> Snapshot:
        return self._tree.perform(ops.Rollback(name))

    def undo(self, seq: int) -> Sequence[int]:
        return self._tree.perform(ops.Undo(seq))

    def changes(self, path: VPath, after: int, limit: int) -> Page[Change]:
        return self._tree.perform(ops.Changes(path, after, limit))

    def usage(self, path: VPath) -> Usage:
        return self._tree.perform(ops.GetUsage(path))
