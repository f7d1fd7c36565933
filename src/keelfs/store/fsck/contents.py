"""Invariants of bytes, as far as rows tell: who holds a content, and what it is made of.

Whether the bytes themselves are what they were is for `rot` to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from keelfs.store.content import Extent
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.invariant import Invariant, asked

#: Contents whose extents are looked at together; each may have a thousand.
_PAGE: Final = 64
_UNREADABLE: Final = "its extents cannot be read"

#: How many nodes and revisions hold each content.
HOLDERS: Final = """SELECT content, count(*) AS times FROM (
        SELECT content FROM nodes WHERE tenant = ?1 AND content IS NOT NULL
        UNION ALL
        SELECT content FROM revisions WHERE tenant = ?1 AND content IS NOT NULL) AS each_one
    GROUP BY content"""
EXTENT_ROWS: Final = """SELECT c.id AS content, json_extract(x.value, '$[0]') AS strand,
        json_extract(x.value, '$[1]') + json_extract(x.value, '$[2]') AS past
   FROM contents c JOIN json_each(c.extents) x
  WHERE c.tenant = ?1 AND c.extents IS NOT NULL AND json_extract(x.value, '$[0]') <> 0"""
EXTENT_ROWS_PG: Final = """SELECT c.id AS content, (x.value ->> 0)::bigint AS strand,
        (x.value ->> 1)::bigint + (x.value ->> 2)::bigint AS past
   FROM contents c CROSS JOIN LATERAL jsonb_array_elements(c.extents::jsonb) AS x (value)
  WHERE c.tenant = ?1 AND c.extents IS NOT NULL AND (x.value ->> 0)::bigint <> 0"""
_USERS: Final = """SELECT strand, count(*) AS times
    FROM (SELECT DISTINCT content, strand FROM ({0}) AS each_one) AS apart GROUP BY strand"""
#: How many contents are made of each strand.
USERS: Final = _USERS.format(EXTENT_ROWS)
USERS_PG: Final = _USERS.format(EXTENT_ROWS_PG)

LARGE: Final = Statement(
    """SELECT id, size, extents, tail FROM contents
        WHERE tenant = ?1 AND id > ?2 AND extents IS NOT NULL ORDER BY id LIMIT ?3"""
)
_SPOILT: Final = """SELECT t.id, {1} FROM strands t LEFT JOIN ({0}) AS held ON held.strand = t.id
    WHERE t.tenant = ?1 AND t.refs <> coalesce(held.times, 0)"""
_OUTSIDE: Final = """SELECT x.content, x.strand FROM ({0}) AS x
    LEFT JOIN strands t ON t.tenant = ?1 AND t.id = x.strand
    WHERE t.id IS NULL OR x.past > t.length"""


def _broken(tx: Tx) -> Iterator[tuple[int, str]]:
    """What the text of a content's extents must be; the other invariants rely on it."""
    after = -1
    while rows := tx.all(LARGE, after, _PAGE):
        after = rows[-1][0]
        for id_, size, text, tail in rows:
            problem = _problem(size, text, tail)
            if problem:
                yield id_, problem


def _extents(tx: Tx) -> Iterator[str]:
    return (f"content {id_}: {problem}" for id_, problem in _broken(tx))


def _with_broken_extents(tx: Tx, limit: int) -> list[Row]:
    return [(id_,) for id_, _problem in islice(_broken(tx), limit)]


def _problem(size: int, text: str, tail: int | None) -> str:
    extents = ranges(text)
    if extents is None:
        return _UNREADABLE
    if not extents:
        return "it has no extents"
    total = sum(length for _strand, _offset, length in extents)
    if total != size:
        return f"its extents have {total} bytes, its size is {size}"
    if tail != (extents[-1][0] or None):
        return "it does not know the strand of its last extent"
    return ""


def ranges(text: str) -> list[Extent] | None:
    """The extents that a content's text tells; None where it tells none."""
    try:
        extents = msgspec.json.decode(text, type=list[Extent])
    except (msgspec.DecodeError, UnicodeError):
        return None
    if any(strand < 0 or offset < 0 or length <= 0 for strand, offset, length in extents):
        return None
    return extents


#: Asked first: where it finds anything, the extents cannot be asked for by the database.
EXTENTS: Final = Invariant("extents", _extents, _with_broken_extents)

OF_EXTENTS: Final[tuple[Invariant, ...]] = (
    asked(
        "strand-range",
        "content {0}: an extent reaches beyond the end of strand {1}",
        _OUTSIDE.format(EXTENT_ROWS),
        postgres=_OUTSIDE.format(EXTENT_ROWS_PG),
    ),
    asked(
        "strand-refs",
        "strand {0}: {1} contents are said to be made of it, and {2} are",
        _SPOILT.format(USERS, "t.refs, coalesce(held.times, 0)"),
        postgres=_SPOILT.format(USERS_PG, "t.refs, coalesce(held.times, 0)"),
    ),
)

CONTENTS: Final[tuple[Invariant, ...]] = (
    asked(
        "revisions",
        "space {0}: node {1} keeps revisions from {2} and has {3}, of which {4} are kept",
        """SELECT n.space, n.id, n.first_revision, n.revision, coalesce(held.times, 0)
             FROM nodes n
             JOIN spaces s ON s.tenant = ?1 AND s.id = n.space AND s.deleted_ns IS NULL
             LEFT JOIN (SELECT space, node, count(*) AS times, min(revision) AS first,
                               max(revision) AS last
                          FROM revisions WHERE tenant = ?1 GROUP BY space, node) AS held
               ON held.space = n.space AND held.node = n.id
            WHERE n.tenant = ?1
              AND (n.revision - n.first_revision <> coalesce(held.times, 0)
                OR held.first <> n.first_revision OR held.last <> n.revision - 1)""",
    ),
    asked(
        "revision-node",
        "space {0}: revisions of node {1} are kept, which does not exist",
        """SELECT r.space, r.node FROM revisions r
             JOIN spaces s ON s.tenant = ?1 AND s.id = r.space AND s.deleted_ns IS NULL
             LEFT JOIN nodes n ON n.tenant = ?1 AND n.space = r.space AND n.id = r.node
            WHERE r.tenant = ?1 AND n.id IS NULL GROUP BY r.space, r.node""",
    ),
    asked(
        "content-there",
        "space {0}: the content of node {1}, revision {2}, is not there",
        """SELECT h.space, h.node, h.revision FROM (
               SELECT space, id AS node, revision, content FROM nodes
                WHERE tenant = ?1 AND content IS NOT NULL
               UNION ALL SELECT space, node, revision, content FROM revisions
                WHERE tenant = ?1 AND content IS NOT NULL) AS h
             LEFT JOIN contents c ON c.tenant = ?1 AND c.id = h.content WHERE c.id IS NULL""",
    ),
    asked(
        "content-size",
        "space {0}: node {1}, revision {2}, has another size than its content",
        """SELECT h.space, h.node, h.revision, h.content FROM (
               SELECT space, id AS node, revision, content, size FROM nodes
                WHERE tenant = ?1 AND kind = 2
               UNION ALL SELECT space, node, revision, content, size FROM revisions
                WHERE tenant = ?1) AS h
             LEFT JOIN contents c ON c.tenant = ?1 AND c.id = h.content
            WHERE (h.content IS NULL) <> (h.size = 0) OR c.size <> h.size""",
    ),
    asked(
        "node-size",
        "space {0}: node {1} is no file, and has a size",
        "SELECT space, id FROM nodes WHERE tenant = ?1 AND kind <> 2 AND size <> 0",
    ),
    asked(
        "refs",
        "content {0}: {1} nodes and revisions are said to hold it, and {2} do",
        f"""SELECT c.id, c.refs, coalesce(held.times, 0) FROM contents c
              LEFT JOIN ({HOLDERS}) AS held ON held.content = c.id
             WHERE c.tenant = ?1 AND c.refs <> coalesce(held.times, 0)""",
    ),
    asked(
        "freed",
        "content {0}: {1} hold it, and the time when it was let go does not say so",
        """SELECT id, refs FROM contents
            WHERE tenant = ?1 AND (refs = 0) <> (freed_ns IS NOT NULL)""",
    ),
    asked(
        "strand-freed",
        "strand {0}: {1} hold it, and the time when it was let go does not say so",
        """SELECT id, refs FROM strands
            WHERE tenant = ?1 AND (refs = 0) <> (freed_ns IS NOT NULL)""",
    ),
    asked(
        "inline-size",
        "content {0}: its size is {1}, and its bytes are not as many",
        """SELECT id, size FROM contents WHERE tenant = ?1 AND extents IS NULL
              AND (data IS NULL OR length(data) <> size OR tail IS NOT NULL)""",
    ),
    # Of a strand that nothing holds, the chunks are taken away from its beginning.
    asked(
        "chunks",
        "strand {0}: its chunks leave a gap, or overlap, at {1}",
        """SELECT k.strand, k.start FROM (
               SELECT strand, start, lag(start + length(data)) OVER
                      (PARTITION BY strand ORDER BY start) AS before
                 FROM chunks WHERE tenant = ?1) AS k
             JOIN strands t ON t.tenant = ?1 AND t.id = k.strand
            WHERE k.start <> coalesce(k.before, CASE WHEN t.refs = 0 THEN k.start ELSE 0 END)""",
    ),
    asked(
        "strand-length",
        "strand {0}: its length is {1}, and its chunks end at {2}",
        """SELECT t.id, t.length, coalesce(held.past, 0) FROM strands t
             LEFT JOIN (SELECT strand, max(start + length(data)) AS past FROM chunks
                         WHERE tenant = ?1 GROUP BY strand) AS held ON held.strand = t.id
            WHERE t.tenant = ?1 AND t.length <> coalesce(held.past, 0)""",
    ),
    asked(
        "chunk-strand",
        "strand {0}: it does not exist, and has chunks",
        """SELECT k.strand FROM (SELECT DISTINCT strand FROM chunks WHERE tenant = ?1) AS k
             LEFT JOIN strands t ON t.tenant = ?1 AND t.id = k.strand WHERE t.id IS NULL""",
    ),
    asked(
        "content-counter",
        "space {0}: it would give an id of a content or strand a second time",
        """SELECT s.id FROM spaces s
            WHERE s.tenant = ?1 AND s.deleted_ns IS NULL
              AND (s.id * 34359738368 + s.next_content
                   <= (SELECT max(c.id) FROM contents c WHERE c.tenant = ?1
                          AND c.id BETWEEN s.id * 34359738368 AND s.id * 34359738368 + 34359738367)
                OR s.id * 34359738368 + s.next_content
                   <= (SELECT max(t.id) FROM strands t WHERE t.tenant = ?1
                          AND t.id BETWEEN s.id * 34359738368
                                       AND s.id * 34359738368 + 34359738367))""",
    ),
)


def by_rows(tx: Tx) -> Iterable[tuple[Invariant, Iterable[str]]]:
    """Every invariant here with what violates it; those of extents only where extents are sound."""
    for invariant in CONTENTS:
        yield invariant, invariant.violations(tx)
    yield EXTENTS, EXTENTS.violations(tx)
    if are_readable(tx):
        for invariant in OF_EXTENTS:
            yield invariant, invariant.violations(tx)


def are_readable(tx: Tx) -> bool:
    """Whether the database itself can read the extents of all contents."""
    return all(problem != _UNREADABLE for _id, problem in _broken(tx))
