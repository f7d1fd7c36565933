"""Invariants of the bytes themselves: they are what they were when they were stored.

Everything is read once more, in pages of a few megabytes, whatever the size of a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from keelfs.errors import KeelError
from keelfs.store.content import Body, body_of, checksum, sha256_of
from keelfs.store.database import Statement, Tx
from keelfs.store.fsck.invariant import Invariant, asked

#: Chunks of 256 KiB, and small contents of up to 64 KiB, that are in memory together.
_CHUNKS: Final = 16
_SMALL: Final = 64
_HASHES: Final = 10_000

CHUNKS: Final = Statement(
    """SELECT strand, start, checksum, data FROM chunks
        WHERE tenant = ?1 AND (strand, start) > (?2, ?3) ORDER BY strand, start LIMIT ?4"""
)
SMALL: Final = Statement(
    """SELECT id, checksum, data FROM contents
        WHERE tenant = ?1 AND id > ?2 AND data IS NOT NULL ORDER BY id LIMIT ?3"""
)
HASHES: Final = Statement(
    """SELECT DISTINCT h.content, h.sha256 FROM (
           SELECT content, sha256 FROM nodes WHERE tenant = ?1
           UNION ALL SELECT content, sha256 FROM revisions WHERE tenant = ?1) AS h
        WHERE h.content IS NOT NULL AND h.sha256 IS NOT NULL
          AND (h.content, h.sha256) > (?2, ?3)
        ORDER BY h.content, h.sha256 LIMIT ?4"""
)
CONTENT: Final = Statement(
    """SELECT size, extents, checksum, data FROM contents WHERE tenant = ?1 AND id = ?2"""
)


def _chunks(tx: Tx) -> Iterator[str]:
    after = (-1, -1)
    while rows := tx.all(CHUNKS, *after, _CHUNKS):
        after = rows[-1][:2]
        for strand, start, expected, data in rows:
            if checksum(data) != expected:
                yield f"strand {strand}: the bytes of its chunk at {start} have changed"


def _small(tx: Tx) -> Iterator[str]:
    after = -1
    while rows := tx.all(SMALL, after, _SMALL):
        after = rows[-1][0]
        for id_, expected, data in rows:
            if checksum(data) != expected:
                yield f"content {id_}: its bytes have changed"


def _hashes(tx: Tx) -> Iterator[str]:
    after: tuple[int, bytes] = (-1, b"")
    known: tuple[int, bytes] = after
    while rows := tx.all(HASHES, *after, _HASHES):
        after = rows[-1]
        for id_, expected in rows:
            if known[0] != id_:
                digest = _digest(tx, id_)
                known = (id_, expected if digest is None else digest)
            if known[1] != expected:
                yield f"content {id_}: its sha256 is not the one that is kept"


def _digest(tx: Tx, content: int) -> bytes | None:
    """None where another invariant says what is wrong."""
    row = tx.one(CONTENT, content)
    if row is None:
        return None
    try:
        body: Body = body_of(row[0], (*row[1:], None))
        return sha256_of(tx, body)
    except (KeelError, ValueError):
        return None


ROT: Final[tuple[Invariant, ...]] = (
    Invariant("chunk-bytes", _chunks),
    Invariant("inline-bytes", _small),
    Invariant("sha256", _hashes),
    asked(
        "empty-sha256",
        "space {0}: node {1}, revision {2}, is empty, and its sha256 is not that of nothing",
        f"""SELECT h.space, h.node, h.revision FROM (
               SELECT space, id AS node, revision, content, sha256 FROM nodes
                WHERE tenant = ?1 AND kind = 2
               UNION ALL SELECT space, node, revision, content, sha256 FROM revisions
                WHERE tenant = ?1) AS h
            WHERE h.content IS NULL AND h.sha256 <> X'{hashlib.sha256(b"").hexdigest()}'""",
        postgres=f"""SELECT h.space, h.node, h.revision FROM (
               SELECT space, id AS node, revision, content, sha256 FROM nodes
                WHERE tenant = ?1 AND kind = 2
               UNION ALL SELECT space, node, revision, content, sha256 FROM revisions
                WHERE tenant = ?1) AS h
            WHERE h.content IS NULL
              AND h.sha256 <> decode('{hashlib.sha256(b"").hexdigest()}', 'hex')""",
    ),
)
