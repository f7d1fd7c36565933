"""Verbs that change or tell the bytes of a file.

Every change of bytes goes through `replaced`: it makes the next revision, keeps the former one as
the limits allow, charges the difference to every name of the file, and records it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from keelfs.errors import InvalidArgument, ReadOnly, RevisionNotFound, TooLarge
from keelfs.model import ChangeKind, Content, Expect, Revision, Stat
from keelfs.path import VPath
from keelfs.store import content as contents
from keelfs.store.content import Made, Prepared, Staged
from keelfs.store.database import Statement
from keelfs.store.expect import check_expect
from keelfs.store.names import add_entry, make_parents, new_node, refuse_dangling
from keelfs.store.scope import MOST_BYTES
from keelfs.store.tree import FILE, Node, Spot, names_of, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View

UPDATE_FILE: Final = Statement(
    """UPDATE nodes SET size = ?4, revision = ?5, first_revision = ?6, content = ?7, sha256 = ?8,
           mime = ?9, author = ?11, revised_ns = ?10, mtime_ns = ?10, ctime_ns = ?10
       WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
SET_SHA256: Final = Statement(
    "UPDATE nodes SET sha256 = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3"
)
KEEP: Final = Statement(
    """INSERT INTO revisions (tenant, space, node, revision, content, size, sha256, at_ns, author,
                              until_ns)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"""
)
OLDEST: Final = Statement(
    """SELECT revision, content, size FROM revisions
       WHERE tenant = ?1 AND space = ?2 AND node = ?3 ORDER BY revision LIMIT ?4"""
)
DROP_UNTIL: Final = Statement(
    "DELETE FROM revisions WHERE tenant = ?1 AND space = ?2 AND node = ?3 AND revision <= ?4"
)
REVISION: Final = Statement(
    """SELECT content, size, sha256 FROM revisions
       WHERE tenant = ?1 AND space = ?2 AND node = ?3 AND revision = ?4"""
)
#: The same with what `content.body_of` takes.
READ_REVISION: Final = Statement(
    """SELECT r.content, r.size, r.sha256, c.extents, c.checksum, c.data, t.length FROM revisions r
       LEFT JOIN contents c ON c.tenant = ?1 AND c.id = r.content
       LEFT JOIN strands t ON t.tenant = ?1 AND t.id = c.tail
       WHERE r.tenant = ?1 AND r.space = ?2 AND r.node = ?3 AND r.revision = ?4"""
)
REVISIONS: Final = Statement(
    """SELECT revision, size, at_ns, author, sha256 FROM revisions
       WHERE tenant = ?1 AND space = ?2 AND node = ?3 AND revision < ?4
       ORDER BY revision DESC LIMIT ?5"""
)


# -- reading


def body_at(view: View, path: VPath, revision: int | None) -> tuple[Node, contents.Body]:
    """The file at a path, and the content of one of its revisions."""
    spot = resolve(view, path, reading=True)
    node = spot.file
    if revision is None or revision == node.revision:
        return node, contents.body_of(node.size, spot.content)  # type: ignore[arg-type]
    row = view.tx.one(READ_REVISION, view.space, node.id, revision)
    if row is None:
        raise RevisionNotFound
    node.content, node.size, node.sha256 = row[:3]
    node.revision = revision
    return node, contents.body_of(node.size, row[3:])


def read(view: View, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
    if offset < 0 or (length is not None and length < 0):
        raise InvalidArgument("offset and length cannot be negative")
    _node, body = body_at(view, path, revision)
    wanted = max(0, body.size - offset)
    if length is not None and length < wanted:
        wanted = length
    limit = view.scope.limits.read_bytes
    if limit is not None and wanted > limit:
        raise TooLarge(
            f"one read returns at most {limit} bytes; stream the file, or read it in parts",
            limit="space.read_bytes",
            size=limit,
            used=wanted,
        )
    return contents.read_body(view.tx, body, offset, wanted)


def open_content(view: View, path: VPath, revision: int | None) -> Content:
    node, body = body_at(view, path, revision)
    return contents.open_body(view.scope, stat_of(node), body)


def history(view: View, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:
    node = resolve(view, path).file
    kept: list[Revision] = []
    if before is None or node.revision < before:
        kept.append(
            Revision(node.revision, node.size, node.revised_ns, node.author, _hex(node.sha256))
        )
    if limit > len(kept):
        rows = view.tx.all(
            REVISIONS, view.space, node.id, before or node.revision, limit - len(kept)
        )
        kept.extend(Revision(row[0], row[1], row[2], row[3], _hex(row[4])) for row in rows)
    return kept[:limit]


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def checksum(view: View, path: VPath) -> str:
    node, body = body_at(view, path, None)
    if node.sha256 is None:
        node.sha256 = contents.sha256_of(view.tx, body)
        view.tx.do(SET_SHA256, view.space, node.id, node.sha256)
    return node.sha256.hex()


# -- writing


def write(
    view: View,
    path: VPath,
    data: Prepared | Staged,
    expect: Expect,
    parents: bool,
    mode: int | None,
    mime: str | None,
) -> Stat:
    spot = resolve(view, path)
    if spot.node is None:
        return _create(view, spot, data, expect, parents, mode, mime)
    node = writable(spot, expect)
    check_file_size(view, len_of(data))
    made = contents.put(view.scope, data)
    return replaced(view, spot, node, made, mime=mime)


def _create(
    view: View,
    spot: Spot,
    data: Prepared | Staged,
    expect: Expect,
    parents: bool,
    mode: int | None,
    mime: str | None,
) -> Stat:
    refuse_dangling(spot, parents)
    check_expect(None, expect)
    check_file_size(view, len_of(data))
    make_parents(view, spot, parents)
    made = contents.put(view.scope, data)
    node = new_node(view, FILE, 0o644 if mode is None else mode & 0o7777)
    node.size, node.content, node.sha256 = made.size, made.content, made.sha256
    node.mime = mime or None
    add_entry(view, spot, node)
    view.scope.record(ChangeKind.CREATE, spot.parts, node)
    return stat_of(node)


def append(view: View, path: VPath, data: Prepared | Staged, expect: Expect, parents: bool) -> Stat:
    spot = resolve(view, path, reading=True)
    if spot.node is None:
        return _create(view, spot, data, expect, parents, None, None)
    node = writable(spot, expect)
    if not len_of(data):
        return stat_of(node)
    check_file_size(view, node.size + len_of(data))
    body = contents.body_of(node.size, spot.content)  # type: ignore[arg-type]
    return replaced(view, spot, node, contents.appended(view.scope, body, data))


def patch(view: View, path: VPath, offset: int, data: Prepared | Staged, expect: Expect) -> Stat:
    if offset < 0:
        raise InvalidArgument("the offset of a patch cannot be negative")
    spot = resolve(view, path, reading=True)
    node = writable(spot, expect)
    if not len_of(data):
        return stat_of(node)
    check_file_size(view, max(node.size, offset + len_of(data)))
    body = contents.body_of(node.size, spot.content)  # type: ignore[arg-type]
    return replaced(view, spot, node, contents.patched(view.scope, body, offset, data))


def truncate(view: View, path: VPath, size: int, expect: Expect) -> Stat:
    if size < 0:
        raise InvalidArgument("a file cannot be cut to a negative size")
    spot = resolve(view, path, reading=True)
    node = writable(spot, expect)
    if size == node.size:
        return stat_of(node)
    check_file_size(view, size)
    body = contents.body_of(node.size, spot.content)  # type: ignore[arg-type]
    return replaced(view, spot, node, contents.truncated(view.scope, body, size))


def restore(view: View, path: VPath, revision: int, expect: Expect) -> Stat:
    spot = resolve(view, path)
    node = writable(spot, expect)
    if revision == node.revision:
        return stat_of(node)
    row = view.tx.one(REVISION, view.space, node.id, revision)
    if row is None:
        raise RevisionNotFound
    content, size, sha256 = row
    view.scope.refer(content, +1)
    return replaced(view, spot, node, Made(content, size, sha256))


def writable(spot: Spot, expect: Expect) -> Node:
    """The file that a verb may change."""
    node = spot.file if spot.node is not None else None
    check_expect(node, expect)
    if node is None:
        return spot.found
    if node.readonly:
        raise ReadOnly
    return node


def replaced(view: View, spot: Spot, node: Node, made: Made, *, mime: str | None = None) -> Stat:
    """Gives a file its next revision."""
    scope = view.scope
    grown = made.size - node.size
    for chain in chains_of(view, spot, node):
        scope.charge(chain, grown, 0)
    keep_former(view, node)
    node.size, node.content, node.sha256 = made.size, made.content, made.sha256
    node.revision += 1
    node.mtime_ns = node.ctime_ns = node.revised_ns = scope.now_ns
    node.author = scope.author
    if mime is not None:
        node.mime = mime or None
    view.tx.do(
        UPDATE_FILE, view.space, node.id, node.size, node.revision, node.first_revision,
        node.content, node.sha256, node.mime, scope.now_ns, node.author,
    )  # fmt: skip
    scope.record(ChangeKind.WRITE, spot.parts, node)
    scope.touch(spot.parts, node)
    return stat_of(node)


def chains_of(view: View, spot: Spot, node: Node) -> list[list[int]]:
    """The directories above every name of a file."""
    if node.nlink == 1:
        return [spot.chain]
    return [chain for chain, _parts in names_of(view, node)]


def keep_former(view: View, node: Node) -> None:
    """Puts the present content of a file into its history, and takes out what is too much.

    A limit on history never refuses a write: the oldest revisions of the file make room, and if
    they cannot, the former content is not kept.
    """
    scope, limits = view.scope, view.scope.limits
    count, room = limits.history_count, None
    if limits.history_bytes is not None:
        room = limits.history_bytes - node.size
    kept = node.revision - node.first_revision
    if count == 0 or (room is not None and room < 0):
        drop_history(view, node, kept)
        scope.refer(node.content, -1)
        node.first_revision = node.revision + 1
        return
    if count is not None and kept >= count:
        drop_history(view, node, kept - count + 1)
    while room is not None and scope.row.history_bytes > room:
        if node.first_revision == node.revision:
            scope.refer(node.content, -1)
            node.first_revision = node.revision + 1
            return
        drop_history(view, node, 1)
    view.tx.do(
        KEEP, view.space, node.id, node.revision, node.content, node.size, node.sha256,
        node.revised_ns, node.author, scope.now_ns,
    )  # fmt: skip
    scope.row.history_bytes += node.size


def drop_history(view: View, node: Node, count: int) -> None:
    """Lets go of the oldest `count` kept revisions of a file."""
    if count <= 0:
        return
    rows = view.tx.all(OLDEST, view.space, node.id, count)
    for _revision, content, size in rows:
        view.scope.refer(content, -1)
        view.scope.row.history_bytes -= size
    if rows:
        view.tx.do(DROP_UNTIL, view.space, node.id, rows[-1][0])
        node.first_revision = rows[-1][0] + 1


def len_of(data: Prepared | Staged) -> int:
    return data.size if isinstance(data, Staged) else len(data.data)


def check_file_size(view: View, size: int) -> None:
    limit = view.scope.limits.file_bytes
    limit = MOST_BYTES if limit is None else min(limit, MOST_BYTES)
    if size > limit:
        raise TooLarge(
            f"a file may have {limit} bytes, this one would have {size}",
            limit="space.file_bytes",
            size=limit,
            used=size,
        )
