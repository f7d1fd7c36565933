"""Mending what is known about bytes: who holds them, how many there are, whose history they are.

The bytes themselves are never touched: what is lost or has changed stays as it is, and is said
again by the next check. A content that nobody holds though it counts somebody, and a revision that
fits no node, become files in the directory for what is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from keelfs.store.content import checksum
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.contents import EXTENT_ROWS, EXTENT_ROWS_PG, ranges
from keelfs.store.fsck.invariant import ids, ids_pg, listed
from keelfs.store.fsck.site import LOST_AND_FOUND, Site
from keelfs.store.tree import FILE, Node

#: Revisions that one transaction moves.
_MOVED: Final = 500

_HOLDERS: Final = """SELECT content, count(*), min(size), max(size) FROM (
        SELECT content, size FROM nodes WHERE tenant = ?1 AND content {0}
        UNION ALL
        SELECT content, size FROM revisions WHERE tenant = ?1 AND content {0}) AS each_one
    GROUP BY content"""
#: Who holds contents ?2, and what they take for its size.
HOLDERS: Final = Statement(_HOLDERS.format(f"IN {ids(2)}"), postgres=_HOLDERS.format(ids_pg(2)))
_CONTENTS: Final = """SELECT id, refs, size, extents, tail, checksum, data FROM contents
    WHERE tenant = ?1 AND id {0} ORDER BY id"""
#: Locked before they are counted: whoever lets go of one without locking a space waits.
CONTENTS: Final = Statement(
    _CONTENTS.format(f"IN {ids(2)}"), postgres=f"{_CONTENTS.format(ids_pg(2))} FOR UPDATE"
)
_STRANDS: Final = """SELECT id FROM strands WHERE tenant = ?1 AND id {0} ORDER BY id"""
STRANDS: Final = Statement(
    _STRANDS.format(f"IN {ids(2)}"), postgres=f"{_STRANDS.format(ids_pg(2))} FOR UPDATE"
)
_USERS: Final = """SELECT strand, count(*) FROM (
        SELECT DISTINCT content, strand FROM ({0}) AS each_one) AS apart
    WHERE strand {1} GROUP BY strand"""
USERS: Final = Statement(
    _USERS.format(EXTENT_ROWS, f"IN {ids(2)}"), postgres=_USERS.format(EXTENT_ROWS_PG, ids_pg(2))
)
SET_REFS: Final = Statement(
    """UPDATE contents SET refs = ?3,
              freed_ns = CASE WHEN ?3 = 0 THEN coalesce(freed_ns, ?4) END
        WHERE tenant = ?1 AND id = ?2""",
    postgres="""UPDATE contents SET refs = ?3::bigint,
              freed_ns = CASE WHEN ?3::bigint = 0 THEN coalesce(freed_ns, ?4::bigint) END
        WHERE tenant = ?1 AND id = ?2""",
)
SET_STRAND_REFS: Final = Statement(
    SET_REFS.sqlite.replace("contents", "strands"),
    postgres="""UPDATE strands SET refs = ?3::bigint,
              freed_ns = CASE WHEN ?3::bigint = 0 THEN coalesce(freed_ns, ?4::bigint) END
        WHERE tenant = ?1 AND id = ?2""",
)
SET_SIZE: Final = Statement(
    "UPDATE contents SET size = ?3, tail = ?4 WHERE tenant = ?1 AND id = ?2"
)
SET_LENGTH: Final = Statement(
    """UPDATE strands SET length = (SELECT coalesce(max(start + length(data)), 0) FROM chunks
            WHERE tenant = ?1 AND strand = ?2) WHERE tenant = ?1 AND id = ?2"""
)
REMAKE_STRAND: Final = Statement(
    """INSERT INTO strands (id, tenant, length, refs, freed_ns)
       SELECT ?2, ?1, max(start + length(data)), 0, ?3 FROM chunks
        WHERE tenant = ?1 AND strand = ?2""",
    postgres="""INSERT INTO strands (id, tenant, length, refs, freed_ns)
       SELECT ?2::bigint, ?1::bigint, max(start + length(data)), 0, ?3::bigint FROM chunks
        WHERE tenant = ?1 AND strand = ?2""",
)
SET_NODE_SIZE: Final = Statement(
    """UPDATE nodes SET size = ?5 WHERE tenant = ?1 AND space = ?2 AND id = ?3 AND content = ?4"""
)
SET_REVISION_SIZE: Final = Statement(
    """UPDATE revisions SET size = ?6 WHERE tenant = ?1 AND space = ?2 AND node = ?3
          AND revision = ?4 AND content = ?5"""
)
NO_SIZE: Final = Statement(
    """UPDATE nodes SET size = 0 WHERE tenant = ?1 AND space = ?2 AND id = ?3 AND kind <> 2"""
)
KEPT: Final = Statement(
    """SELECT revision, content, size, sha256, at_ns, author FROM revisions
        WHERE tenant = ?1 AND space = ?2 AND node = ?3 ORDER BY revision"""
)
FORGET: Final = Statement(
    """DELETE FROM revisions WHERE tenant = ?1 AND space = ?2 AND node = ?3 AND revision = ?4"""
)
SET_REVISIONS: Final = Statement(
    """UPDATE nodes SET first_revision = ?4, revision = ?5
        WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
_LAST_ID: Final = """SELECT max(id) FROM (
       SELECT max(id) AS id FROM contents WHERE tenant = ?1 AND id BETWEEN ?2 AND ?3
       UNION ALL SELECT max(id) FROM strands WHERE tenant = ?1 AND id BETWEEN ?2 AND ?3) AS last"""
LAST_ID: Final = Statement(_LAST_ID)


# -- in one space


def recover(site: Site, rows: list[Row]) -> None:
    """Contents whose node was lost become files again, in the space that has written them."""
    wanted = [row[0] for row in rows]
    held = {row[0] for row in site.tx.all(HOLDERS, listed(wanted))}
    for id_, refs, size, *_more in site.tx.all(CONTENTS, listed(wanted)):
        if not refs or id_ in held or site.is_image:
            continue
        _add_file(site, f"#content-{id_}", content=id_, size=size)
        site.tx.do(SET_REFS, id_, 1, site.scope.now_ns)
        site.did(f"content {id_} had lost its node and is a file in {LOST_AND_FOUND} now")


def _add_file(site: Site, name: str, **given: Any) -> None:
    parent = site.lost_and_found()
    site.add(site.fresh(FILE, **given), parent, site.free(parent, name))


def revisions(site: Site, rows: list[Row]) -> None:
    """What leads to the current revision without a gap is history; what lies before is kept apart.

    A number that was once given to a revision is never given again, so the newest is never lowered.
    """
    for _space, id_, *_counted in rows:
        node = site.node(id_)
        kept = site.tx.all(KEPT, site.space, id_)
        newest = _newest(node, kept)
        first, apart = _apart(newest, kept)
        for row in apart[:_MOVED]:
            _part(site, id_, row)
        if node is not None and (node.first_revision, node.revision) != (first, newest):
            site.tx.do(SET_REVISIONS, site.space, id_, first, newest)
            site.changed()
            site.did(f"node {id_} knows its revisions")
        site.count_ledger()


def _newest(node: Node | None, kept: list[Row]) -> int:
    if node is None:
        return 0
    return max(node.revision, kept[-1][0] + 1) if kept and node.kind == FILE else node.revision


def _apart(newest: int, kept: list[Row]) -> tuple[int, list[Row]]:
    """The first revision of the history, and the rows that do not belong to it."""
    first = newest
    for at in range(len(kept) - 1, -1, -1):
        if kept[at][0] != first - 1:
            return first, kept[: at + 1]
        first -= 1
    return first, []


def _part(site: Site, node: int, row: Row) -> None:
    """A revision becomes a file of its own."""
    revision, content, size, sha256, at_ns, author = row
    site.tx.do(FORGET, site.space, node, revision)
    if content is not None:
        _add_file(
            site, f"#{node}.{revision}", content=content, size=size, sha256=sha256,
            mtime_ns=at_ns, revised_ns=at_ns, author=author,
        )  # fmt: skip
    site.did(f"revision {revision} of node {node} fits no history and is in {LOST_AND_FOUND} now")


def content_size(site: Site, rows: list[Row]) -> None:
    """Whoever holds a sound content has its size; a content that is none is not believed."""
    sizes = {
        row[0]: row[2]
        for row in site.tx.all(CONTENTS, listed(row[3] for row in rows if row[3] is not None))
        if _is_sound(row)
    }
    for _space, id_, revision, content in rows:
        node = site.node(id_)
        if content not in sizes:
            continue
        if node is not None and node.revision == revision:
            site.tx.do(SET_NODE_SIZE, site.space, id_, content, sizes[content])
            found = site.names([id_])[id_]
            site.miscounted(*(parent for parent, _name, _shared in found))
        else:
            site.tx.do(SET_REVISION_SIZE, site.space, id_, revision, content, sizes[content])
            site.count_ledger()
        site.did(f"node {id_}, revision {revision}, has the size of its content")


def _is_sound(row: Row) -> bool:
    _id, _refs, size, text, _tail, expected, data = row
    if data is not None:
        return bool(len(data) == size and checksum(data) == expected)
    extents = ranges(text) if text is not None else None
    return bool(extents) and sum(extent[2] for extent in extents or ()) == size


def node_size(site: Site, rows: list[Row]) -> None:
    for _space, id_ in rows:
        site.tx.do(NO_SIZE, site.space, id_)
        site.did(f"node {id_}, which is no file, has no size")


def content_counter(site: Site, rows: list[Row]) -> None:
    first = site.space << 35
    last = site.tx.one(LAST_ID, first, first + 2**35 - 1)
    if rows and last is not None and last[0] is not None:
        site.scope.row.next_content = max(site.scope.row.next_content, last[0] - first + 1)
        site.did("no id of a content will be given a second time")


# -- of a whole tenant, all of whose spaces are locked


def refs(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """Who holds contents is counted anew, and with it when the last one let go."""
    wanted = listed(row[0] for row in rows)
    there = [row[0] for row in tx.all(CONTENTS, wanted)]
    held = {row[0]: row[1] for row in tx.all(HOLDERS, wanted)}
    for id_ in there:
        tx.do(SET_REFS, id_, held.get(id_, 0), now_ns)
        yield f"content {id_}: who holds it was counted anew"


def strand_refs(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    wanted = listed(row[0] for row in rows)
    there = [row[0] for row in tx.all(STRANDS, wanted)]
    held = dict[int, int](tx.all(USERS, wanted))
    for id_ in there:
        tx.do(SET_STRAND_REFS, id_, held.get(id_, 0), now_ns)
        yield f"strand {id_}: what is made of it was counted anew"


def inline_size(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """The size of small bytes that are what they were."""
    del now_ns
    for id_, _refs, size, _text, tail, expected, data in tx.all(
        CONTENTS, listed(row[0] for row in rows)
    ):
        if data is None or (len(data) == size and tail is None):
            continue
        if checksum(data) == expected:
            tx.do(SET_SIZE, id_, len(data), None)
            yield f"content {id_}: it has the size of its bytes"


def extents(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """The size that extents add up to, if all who hold the content know it as that."""
    del now_ns
    wanted = listed(row[0] for row in rows)
    found = tx.all(CONTENTS, wanted)
    holders = {row[0]: row[2:] for row in tx.all(HOLDERS, wanted)}
    for id_, _refs, size, text, tail, _checksum, _data in found:
        read = ranges(text) if text is not None else None
        if not read:
            continue
        total, last = sum(extent[2] for extent in read), read[-1][0] or None
        if total != size and tuple(holders.get(id_, ())) != (total, total):
            continue
        if (total, last) != (size, tail):
            tx.do(SET_SIZE, id_, total, last)
            yield f"content {id_}: it has the size of its extents"


def strand_length(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns
    for (id_,) in tx.all(STRANDS, listed(row[0] for row in rows)):
        tx.do(SET_LENGTH, id_)
        yield f"strand {id_}: it ends where its last chunk ends"


def chunk_strand(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """Chunks without a strand get one again; nothing holds it before it is counted."""
    there = {row[0] for row in tx.all(STRANDS, listed(row[0] for row in rows))}
    for (id_,) in rows:
        if id_ not in there:
            tx.do(REMAKE_STRAND, id_, now_ns)
            yield f"strand {id_}: it was made again of its chunks"
