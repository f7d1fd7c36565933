"""Streams on their way in: chunks are stored while they arrive, and held by nothing until the end.

Each transaction stores a few chunks and refreshes the time at which their strand was last of use,
so that the sweep reclaims what a crash left behind and nothing that is still arriving. A stream
that fails, or passes a limit, is discarded at once.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from keelfs.errors import QuotaExceeded, TooLarge, Unavailable
from keelfs.model import Source
from keelfs.store.content import (
    CHUNK_BYTES,
    INSERT_CHUNK,
    INSERT_STRAND,
    Prepared,
    Staged,
    chunk_rows,
    large,
)
from keelfs.store.database import Statement, Tx
from keelfs.store.scope import Scope

if TYPE_CHECKING:
    from keelfs.store.volume import SpaceVolume

#: What one transaction stores; smaller streams are kept in memory and stored by the write itself.
STEP_BYTES: Final = 16 * CHUNK_BYTES
#: Chunks that one transaction discards.
DISCARDED: Final = 256

DISCARD: Final = Statement(
    """DELETE FROM chunks WHERE tenant = ?1 AND strand = ?2 AND start IN (
           SELECT start FROM chunks WHERE tenant = ?1 AND strand = ?2 ORDER BY start LIMIT ?3)
       RETURNING start"""
)
#: Only what nothing holds.
DELETE_CONTENT: Final = Statement(
    "DELETE FROM contents WHERE tenant = ?1 AND id = ?2 AND refs = 0 RETURNING id"
)
DELETE_STRAND: Final = Statement("DELETE FROM strands WHERE tenant = ?1 AND id = ?2")
#: A strand whose stream has stood still for longer than the grace is the sweep's, and stays so.
RESTAGE: Final = Statement(
    """UPDATE strands SET length = ?3, freed_ns = ?4
       WHERE tenant = ?1 AND id = ?2 AND freed_ns <> 0 RETURNING id"""
)


class Stager:
    """One stream."""

    def __init__(self, volume: SpaceVolume, source: Source) -> None:
        self._volume = volume
        self._source = source
        self._digest = hashlib.sha256()
        self._size = 0
        self._stored = 0
        self._strand = 0
        self._limit, self._limit_name = volume.room()

    def staged(self) -> Prepared | Staged:
        """The whole stream, in memory if it is small, otherwise in the database."""
        waiting = bytearray()
        try:
            for block in self._source.blocks():
                self._take(block)
                waiting += block
                while len(waiting) >= STEP_BYTES:
                    self._store(bytes(waiting[:STEP_BYTES]))
                    del waiting[:STEP_BYTES]
            if not self._strand:
                return Prepared(bytes(waiting), self._digest.digest())
            return self._finish(bytes(waiting))
        except BaseException:
            self._discard()
            raise

    def _take(self, block: bytes) -> None:
        self._digest.update(block)
        self._size += len(block)
        if self._limit is not None and self._size > self._limit:
            kind = TooLarge if self._limit_name.endswith("file_bytes") else QuotaExceeded
            raise kind(
                f"the stream passes {self._limit_name}, which is {self._limit}; "
                "nothing of it was kept",
                limit=self._limit_name,
                size=self._limit,
                used=self._size,
            )

    def _store(self, data: bytes) -> None:
        rows = list(chunk_rows(self._strand or -1, self._stored, data))

        def work(scope: Scope) -> int:
            strand = self._strand or scope.new_content()
            end = self._stored + len(data)
            if self._strand:
                self._touch(scope, end)
            else:
                scope.tx.do(INSERT_STRAND, strand, end, scope.now_ns)
            scope.tx.many(INSERT_CHUNK, [(strand, *row[1:]) for row in rows])
            return strand

        self._strand = self._volume.stage(work)
        self._stored += len(data)

    def _touch(self, scope: Scope, length: int) -> None:
        """Says that the strand is still of use; refuses if the sweep has come before."""
        if scope.tx.one(RESTAGE, self._strand, length, scope.now_ns) is None:
            raise Unavailable("the stream stood still for too long, and what it sent was reclaimed")

    def _finish(self, data: bytes) -> Staged:
        if data:
            self._store(data)
        extents = [(self._strand, 0, self._size)]

        def work(scope: Scope) -> int | None:
            self._touch(scope, self._size)
            return large(scope, extents, held=False)

        content = self._volume.stage(work)
        assert content is not None
        return Staged(content, self._size, self._digest.digest(), extents)

    def _discard(self) -> None:
        if self._strand:
            _discard_strand(self._volume, self._strand)

    @staticmethod
    def drop(volume: SpaceVolume, staged: Staged) -> None:
        """Discards a stream whose write was refused after all of it had arrived."""
        if volume.stage(lambda scope: scope.tx.one(DELETE_CONTENT, staged.content)):
            _discard_strand(volume, staged.extents[0][0])


def _discard_strand(volume: SpaceVolume, strand: int) -> None:
    while volume.stage(lambda scope: discard_chunks(scope.tx, strand)) == DISCARDED:
        pass


def discard_chunks(tx: Tx, strand: int) -> int:
    """Removes some chunks of a strand that nothing holds, and with the last of them the strand.

    Says how many it removed: fewer than `DISCARDED` when the strand is gone.
    """
    removed = len(tx.all(DISCARD, strand, DISCARDED))
    if removed < DISCARDED:
        tx.do(DELETE_STRAND, strand)
    return removed
