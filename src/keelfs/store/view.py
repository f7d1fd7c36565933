"""A space as one transaction sees it: every verb of a volume, each one line.

The rooms beside this one do the work; a view tells them which space, below which directory, in
which transaction. `rooted` gives the same transaction another root, above which no path leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from keelfs.errors import (
    Conflict,
    CrossDevice,
    InvalidArgument,
    NotADirectory,
    NotFound,
    PermissionDenied,
)
from keelfs.model import (
    MAX_PAGE,
    UNLIMITED,
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
from keelfs.path import VPath
from keelfs.ports import Volume
from keelfs.store import attrs as attributes
from keelfs.store import copying, crossing, files, journal, listing, names, snapshots, trashcan
from keelfs.store.content import as_prepared
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.scope import PEEK, Scope, SpaceRow, decoded_limits, joined
from keelfs.store.tree import (
    DIRECTORY,
    NODE,
    ROOT,
    SYMLINK,
    Node,
    names_of,
    resolve,
    stat_of,
)

RECALL: Final = Statement(
    "SELECT fingerprint, answer FROM requests WHERE tenant = ?1 AND space = ?2 AND key = ?3"
)
REMEMBER: Final = Statement(
    """INSERT INTO requests (tenant, space, key, fingerprint, answer, at_ns)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6)"""
)
LINKS_LEFT: Final = Statement(
    "SELECT nlink FROM nodes WHERE tenant = ?1 AND space = ?2 AND id = ?3"
)


class View:
    """See the module. Implements `keelfs.ports.Volume`."""

    def __init__(
        self, scope: Scope, chain: list[int] | None = None, parts: tuple[str, ...] = ()
    ) -> None:
        self.scope = scope
        self.tx: Tx = scope.tx
        self.space = scope.space
        #: Directory ids from the root of the space to the root of the view, and their names.
        self.chain = chain or [ROOT]
        self.parts = parts
        self._asked: dict[tuple[int, tuple[str, ...]], Callable[[], Row]] = {}
        self._recalled: dict[str, Callable[[], list[Row]]] = {}

    # -- what the walk needs

    def node(self, row: Row) -> Node:
        return self.scope.node(row)

    def asked(self, start: int, path: tuple[str, ...], reading: bool) -> Row | None:
        """The answer to a walk that was sent ahead; it is good once, before anything changes."""
        later = self._asked.pop((start, path), None) if self._asked else None
        if later is None:
            return None
        row = later()
        return row if not reading or len(row) > len(path) + _PLAIN else None

    def expect_row(self, start: int, path: tuple[str, ...], later: Callable[[], Row]) -> None:
        self._asked[(start, path)] = later

    def keep(self, start: int, path: tuple[str, ...], reading: bool, row: Row) -> None:
        """Lets the next walk of the same names begin with the row that was read already."""
        del reading
        self._asked[(start, path)] = lambda: row

    def links_left(self, node: int) -> int:
        row = self.tx.one(LINKS_LEFT, self.space, node)
        return int(row[0]) if row else 0

    def drop_history(self, node: Node) -> None:
        files.drop_history(self, node, node.revision - node.first_revision)

    def whole(self) -> None:
        """Refuses verbs of a whole space to a sub-tree."""
        if len(self.chain) > 1:
            raise PermissionDenied("this concerns the whole space, and only a part of it is given")

    # -- the verbs

    def stat(self, path: VPath, follow: bool) -> Stat:
        return stat_of(resolve(self, path, follow=follow).found)

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        _check_page(limit)
        return listing.entries_of(self, path, after or "", limit)

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        return files.read(self, path, offset, length, revision)

    def open(self, path: VPath, revision: int | None) -> Content:
        return files.open_content(self, path, revision)

    def readlink(self, path: VPath) -> str:
        return names.readlink(self, path)

    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        attributes.check_mime(mime)
        return files.write(self, path, as_prepared(data), expect, parents, mode, mime)

    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        return files.append(self, path, as_prepared(data), expect, parents)

    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        return files.patch(self, path, offset, as_prepared(data), expect)

    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        return files.truncate(self, path, size, expect)

    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        return names.mkdir(self, path, parents, exist_ok, mode)

    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
        return names.mknod(self, path, kind, mode, rdev)

    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        return names.symlink(self, target, path, parents)

    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        return names.link(self, path, to, parents)

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        names.remove(self, path, recursive, expect)

    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        return names.move(self, path, to, replace, parents, expect)

    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        return copying.copy(self, path, to, replace, recursive, parents, expect)

    def receive(self, source: Volume, path: VPath, to: VPath, replace: bool, parents: bool) -> Stat:
        if not isinstance(source, View) or source.tx is not self.tx:
            raise CrossDevice("the volumes are not in one transaction")
        return crossing.receive(self, source, path, to, replace, parents)

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        return attributes.set_attrs(self, path, attrs, follow, expect)

    def checksum(self, path: VPath) -> str:
        return files.checksum(self, path)

    def history(self, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:
        _check_page(limit)
        return files.history(self, path, before, limit)

    def restore(self, path: VPath, revision: int, expect: Expect) -> Stat:
        return files.restore(self, path, revision, expect)

    def trash(self, path: VPath, expect: Expect) -> Trashed:
        return trashcan.trash(self, path, expect)

    def trashed(self, after: str | None, limit: int) -> Page[Trashed]:
        _check_page(limit)
        return trashcan.trashed(self, after, limit)

    def untrash(self, trash_id: str, to: VPath | None, parents: bool) -> Stat:
        return trashcan.untrash(self, trash_id, to, parents)

    def purge(self, trash_id: str) -> None:
        trashcan.purge(self, trash_id)

    def snapshot(self, name: str) -> Snapshot:
        self.whole()
        return snapshots.snapshot(self, name)

    def snapshots(self) -> Sequence[Snapshot]:
        self.whole()
        return snapshots.snapshots(self)

    def drop_snapshot(self, name: str) -> None:
        self.whole()
        snapshots.drop_snapshot(self, name)

    def rollback(self, name: str) -> Snapshot:
        self.whole()
        return snapshots.rollback(self, name)

    def undo(self, seq: int) -> Sequence[int]:
        self.whole()
        return journal.undo(self, seq)

    def changes(self, path: VPath, after: int, limit: int) -> Page[Change]:
        _check_page(limit)
        return journal.changes(self, path, after, limit)

    def usage(self, path: VPath) -> Usage:
        if path.is_root and len(self.chain) == 1:
            rows = self.tx.all(PEEK, self.space)
            if not rows:
                raise NotFound("this space has been deleted")
            return usage_of(SpaceRow(*rows[0]))
        node = resolve(self, path).found
        if node.id == ROOT:
            return self.usage(VPath())
        bytes_, nodes = node.weight
        limits = self.scope.limits if path.is_root else UNLIMITED
        return Usage(bytes=bytes_, nodes=nodes - 1, limits=limits)

    def rooted(self, base: VPath) -> View:
        if base.is_root:
            return self
        spot = resolve(self, base, follow=False)
        if spot.parts != self.parts + base.parts or spot.found.kind == SYMLINK:
            raise NotADirectory
        if spot.found.kind != DIRECTORY:
            raise NotADirectory
        return View(self.scope, [*spot.chain, spot.found.id], spot.parts)

    def touched(self) -> Sequence[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for path, shared in self.scope.touched:
            found.add(path)
            if shared:
                row = self.tx.one(NODE, self.space, shared)
                if row is not None:
                    names = names_of(self, self.node(row))
                    found.update(parts for chain, parts in names if chain[0] == ROOT)
        depth = len(self.parts)
        return sorted(path[depth:] for path in found if path[:depth] == self.parts)

    def recall_ahead(self, key: str) -> None:
        """Asks for the answer kept under a key before it is needed."""
        self._recalled[key] = self.tx.later(RECALL, self.space, self._key(key))

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        later = self._recalled.pop(key, None)
        rows = self.tx.all(RECALL, self.space, self._key(key)) if later is None else later()
        if not rows:
            return None
        row = rows[0]
        if row[0] != fingerprint:
            raise Conflict("another request used this key; use a new key for a new request")
        return bytes(row[1])

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        now = self.scope.now_ns
        self.tx.do(REMEMBER, self.space, self._key(key), fingerprint, answer, now)

    def _key(self, key: str) -> str:
        """Keys of different sub-trees are apart; no path holds the character between."""
        return f"{joined(self.parts)}\n{key}" if self.parts else key


#: Columns of a walk's answer behind its levels, when it did not ask for the content.
_PLAIN: Final = len(Node.__struct_fields__)


def usage_of(row: SpaceRow) -> Usage:
    """The ledger of a space."""
    return Usage(
        bytes=row.bytes,
        nodes=row.nodes,
        trash_bytes=row.trash_bytes,
        trash_nodes=row.trash_nodes,
        history_bytes=row.history_bytes,
        snapshot_bytes=row.snapshot_bytes,
        limits=decoded_limits(row.limits),
    )


def _check_page(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"the limit of a page lies between 1 and {MAX_PAGE}")
