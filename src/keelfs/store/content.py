"""Bytes: contents, the strands they are views of, and the chunks that strands are kept in.

A content never changes. Small ones lie in their own row; others are a list of extents, ranges of
strands. A strand only grows at its end, so the first to append to a content that ends where its
strand ends extends the strand and shares everything before; anybody else continues with a strand
of their own. A patch is the extents before it, a new strand, and the extents after it. Strand 0
reads as zeros.

Every chunk, and every small content, carries a checksum that each read verifies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec
import xxhash
from msgspec import Struct

from keelfs.errors import Corrupt, RevisionNotFound, Unavailable
from keelfs.model import Content, Source, Stat
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.scope import Scope

#: A chunk of this size reads sequentially at nearly full speed and randomly at four times that of
#: chunks of 1 MiB.
CHUNK_BYTES: Final = 256 * 1024
#: What lies in the row of its content: one row less for most files an agent writes.
INLINE_BYTES: Final = 64 * 1024
#: A file that is appended to becomes a strand beyond this, so that its history shares bytes.
INLINE_APPEND_BYTES: Final = 1024
#: Extents of one content before some are written together anew.
MAX_EXTENTS: Final = 1024
_WINDOW: Final = 128

#: strand, offset, length
Extent = tuple[int, int, int]

INSERT_SMALL: Final = Statement(
    """INSERT INTO contents (id, tenant, size, refs, checksum, data)
       VALUES (?2, ?1, ?3, 1, ?4, ?5)"""
)
INSERT_LARGE: Final = Statement(
    """INSERT INTO contents (id, tenant, size, refs, freed_ns, extents, tail)
       VALUES (?2, ?1, ?3, ?4, ?5, ?6, ?7)"""
)
INSERT_STRAND: Final = Statement(
    "INSERT INTO strands (id, tenant, length, refs, freed_ns) VALUES (?2, ?1, ?3, 0, ?4)"
)
#: A strand that another writer has extended meanwhile violates the check, and the transaction
#: starts anew.
GROW_STRAND: Final = Statement(
    """UPDATE strands SET length = CASE WHEN length = ?3 THEN ?4 ELSE -1 END
       WHERE tenant = ?1 AND id = ?2""",
    postgres="""UPDATE strands SET length = CASE WHEN length = ?3 THEN ?4::bigint ELSE -1 END
       WHERE tenant = ?1 AND id = ?2""",
)
#: A staged content that the sweep has not taken; its row is the transaction's own from here on.
CLAIM: Final = Statement(
    "UPDATE contents SET freed_ns = ?3 WHERE tenant = ?1 AND id = ?2 AND refs = 0 RETURNING id"
)
INSERT_CHUNK: Final = Statement(
    "INSERT INTO chunks (tenant, strand, start, checksum, data) VALUES (?1, ?2, ?3, ?4, ?5)"
)
#: The chunks that overlap the range from ?3 to ?4.
CHUNKS: Final = Statement(
    """SELECT start, checksum, data FROM chunks
       WHERE tenant = ?1 AND strand = ?2 AND start < ?4
         AND start >= coalesce((SELECT max(start) FROM chunks
                                WHERE tenant = ?1 AND strand = ?2 AND start <= ?3), 0)
       ORDER BY start"""
)


class Prepared(Struct, frozen=True):
    """Bytes that were hashed before the transaction began."""

    data: bytes
    sha256: bytes

    def blocks(self) -> Iterator[bytes]:
        yield self.data


class Staged(Struct, frozen=True):
    """A stream whose chunks are stored already, and held by nothing yet."""

    content: int
    size: int
    sha256: bytes
    extents: list[Extent]

    def blocks(self) -> Iterator[bytes]:
        raise AssertionError("staged bytes are in the database")


class Made(Struct, frozen=True):
    """A content to hold: it counts one reference already."""

    content: int | None
    size: int
    sha256: bytes | None


class Body(Struct, frozen=True):
    """A content as its row tells it."""

    size: int
    extents: list[Extent]
    data: bytes | None
    #: The length of the strand of the last extent.
    tail_length: int | None


EMPTY: Final = Body(0, [], b"", None)


class Opener(Protocol):
    """Runs a reading function in a transaction of its own."""

    def __call__(self, work: Callable[[Tx], bytes], /) -> bytes: ...


def prepare(data: bytes) -> Prepared:
    return Prepared(data, hashlib.sha256(data).digest())


def as_prepared(data: object) -> Prepared | Staged:
    """What a volume hands to its rooms, whatever its caller gave."""
    if isinstance(data, Prepared | Staged):
        return data
    if isinstance(data, bytes):
        return prepare(data)
    source: Source = data  # type: ignore[assignment]
    return prepare(b"".join(source.blocks()))


def checksum(data: bytes) -> int:
    """63 bits, which fit a signed column."""
    return xxhash.xxh3_64_intdigest(data) >> 1


# -- making


def put(scope: Scope, data: Prepared | Staged) -> Made:
    """Stores bytes as a new content."""
    if isinstance(data, Staged):
        _claim(scope, data)
        scope.refer(data.content, +1)
        return Made(data.content, data.size, data.sha256)
    if not data.data:
        return Made(None, 0, data.sha256)
    if len(data.data) <= INLINE_BYTES:
        return Made(_small(scope, data.data), len(data.data), data.sha256)
    extents = [_strand(scope, data.data)]
    return Made(large(scope, extents), len(data.data), data.sha256)


def _claim(scope: Scope, data: Staged) -> None:
    """Keeps the sweep away from a stream that waited long for the write that holds it."""
    if scope.tx.one(CLAIM, data.content, scope.now_ns) is None:
        raise Unavailable("the stream waited for too long, and what it sent was reclaimed")


def _small(scope: Scope, data: bytes) -> int:
    content = scope.new_content()
    scope.tx.do(INSERT_SMALL, content, len(data), checksum(data), data)
    return content


def _strand(scope: Scope, data: bytes) -> Extent:
    """A new strand that holds `data`."""
    strand = scope.new_content()
    scope.tx.do(INSERT_STRAND, strand, len(data), scope.now_ns)
    scope.tx.many(INSERT_CHUNK, chunk_rows(strand, 0, data))
    return (strand, 0, len(data))


def chunk_rows(strand: int, start: int, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Rows for `data`, which begins at `start` of its strand."""
    for at in range(0, len(data), CHUNK_BYTES):
        piece = data[at : at + CHUNK_BYTES]
        yield (strand, start + at, checksum(piece), piece)


def large(scope: Scope, extents: list[Extent], *, held: bool = True) -> int | None:
    """A new content made of extents; held by one reference unless it is only staged."""
    extents = _tidy(extents)
    if not extents:
        return None
    if len(extents) > MAX_EXTENTS:
        extents = _written_together(scope, extents)
    content = scope.new_content()
    size = sum(extent[2] for extent in extents)
    text = msgspec.json.encode(extents).decode()
    tail = extents[-1][0] or None
    freed = None if held else scope.now_ns
    scope.tx.do(INSERT_LARGE, content, size, int(held), freed, text, tail)
    for strand in {extent[0] for extent in extents}:
        scope.refer_strand(strand, +1)
    return content


def _tidy(extents: list[Extent]) -> list[Extent]:
    """Neighbours in the same strand become one."""
    tidy: list[Extent] = []
    for strand, offset, length in extents:
        if not length:
            continue
        if tidy:
            last, at, size = tidy[-1]
            if last == strand and (strand == 0 or at + size == offset):
                tidy[-1] = (last, at, size + length)
                continue
        tidy.append((strand, offset, length))
    return tidy


def _written_together(scope: Scope, extents: list[Extent]) -> list[Extent]:
    """Copies the shortest run of neighbouring extents into one new strand.

    The run is at most as long as its share of the file, so that a file under many small patches
    costs a bounded amount per patch.
    """
    sizes = [extent[2] for extent in extents]
    starts = range(len(extents) - _WINDOW + 1)
    first = min(starts, key=lambda start: sum(sizes[start : start + _WINDOW]))
    run = extents[first : first + _WINDOW]
    strand = scope.new_content()
    scope.tx.do(INSERT_STRAND, strand, sum(extent[2] for extent in run), scope.now_ns)
    at = 0
    for piece in _pieces(scope.tx, run):
        scope.tx.many(INSERT_CHUNK, [(strand, at, checksum(piece), piece)])
        at += len(piece)
    return [*extents[:first], (strand, 0, at), *extents[first + _WINDOW :]]


def _pieces(tx: Tx, extents: list[Extent]) -> Iterator[bytes]:
    """The bytes of extents in blocks of a chunk's size."""
    size = sum(extent[2] for extent in extents)
    for at in range(0, size, CHUNK_BYTES):
        yield read_extents(tx, extents, at, min(CHUNK_BYTES, size - at))


# -- changing, which makes another content


def appended(scope: Scope, body: Body, data: Prepared | Staged) -> Made:
    """The content with bytes added at its end."""
    if isinstance(data, Staged):
        _claim(scope, data)
        extents = [*_extents_of(scope, body), *data.extents]
        return Made(large(scope, extents), body.size + data.size, None)
    added = data.data
    size = body.size + len(added)
    if body.data is not None and size <= INLINE_APPEND_BYTES:
        return Made(_small(scope, body.data + added), size, None)
    if body.data is not None:
        return Made(large(scope, [_strand(scope, body.data + added)]), size, None)
    return Made(large(scope, [*body.extents, _extended(scope, body, added)]), size, None)


def _extended(scope: Scope, body: Body, added: bytes) -> Extent:
    """An extent for `added`: in the last strand if the content ends where the strand ends."""
    strand, offset, length = body.extents[-1]
    end = offset + length
    if strand == 0 or body.tail_length != end:
        return _strand(scope, added)
    scope.tx.do(GROW_STRAND, strand, end, end + len(added))
    scope.tx.many(INSERT_CHUNK, chunk_rows(strand, end, added))
    return (strand, end, len(added))


def _extents_of(scope: Scope, body: Body) -> list[Extent]:
    """The extents of a content; small bytes become a strand."""
    if body.data is None:
        return body.extents
    return [_strand(scope, body.data)] if body.data else []


def patched(scope: Scope, body: Body, offset: int, data: Prepared | Staged) -> Made:
    """The content with some of its bytes replaced, and zeros before them if it ends earlier."""
    length = data.size if isinstance(data, Staged) else len(data.data)
    size = max(body.size, offset + length)
    if body.data is not None and isinstance(data, Prepared) and size <= INLINE_BYTES:
        old = body.data.ljust(offset, b"\0")
        return Made(_small(scope, old[:offset] + data.data + old[offset + length :]), size, None)
    extents = _extents_of(scope, body)
    if isinstance(data, Staged):
        _claim(scope, data)
        middle = data.extents
    else:
        middle = [_strand(scope, data.data)]
    before = [*_cut(extents, 0, offset), (0, 0, max(0, offset - body.size))]
    after = _cut(extents, offset + length, body.size)
    return Made(large(scope, [*before, *middle, *after]), size, None)


def truncated(scope: Scope, body: Body, size: int) -> Made:
    """The content cut, or followed by zeros."""
    if size == 0:
        return put(scope, prepare(b""))
    if body.data is not None and size <= INLINE_BYTES:
        return Made(_small(scope, body.data[:size].ljust(size, b"\0")), size, None)
    extents = _cut(_extents_of(scope, body), 0, size)
    return Made(large(scope, [*extents, (0, 0, max(0, size - body.size))]), size, None)


def _cut(extents: list[Extent], start: int, end: int) -> list[Extent]:
    """The extents of the bytes from `start` to `end`."""
    kept: list[Extent] = []
    at = 0
    for strand, offset, length in extents:
        first, last = max(start, at), min(end, at + length)
        if first < last:
            kept.append((strand, offset + first - at, last - first))
        at += length
    return kept


# -- reading


def body_of(size: int, row: tuple[object, ...] | None) -> Body:
    """A content from its columns extents, checksum, data and the length of its last strand."""
    if size == 0:
        return EMPTY
    if row is None or (row[0] is None and row[2] is None):
        raise RevisionNotFound("the bytes of this revision were reclaimed while they were read")
    extents, expected, data, tail_length = row
    if data is not None:
        assert isinstance(data, bytes)
        _verify(data, expected)
        return Body(size, [], data, None)
    assert isinstance(extents, str)
    return Body(size, _decoded(extents), None, tail_length)  # type: ignore[arg-type]


def _decoded(extents: str) -> list[Extent]:
    try:
        return msgspec.json.decode(extents, type=list[Extent])
    except msgspec.DecodeError:
        raise Corrupt from None


def read_body(tx: Tx, body: Body, offset: int, length: int) -> bytes:
    """At most `length` bytes of a content from `offset`."""
    length = min(length, body.size - offset)
    if length <= 0:
        return b""
    if body.data is not None:
        if length == body.size:
            return body.data
        return body.data[offset : offset + length]
    return read_extents(tx, body.extents, offset, length)


def read_extents(tx: Tx, extents: list[Extent], offset: int, length: int) -> bytes:
    """Exactly `length` bytes of extents from `offset`; all of them are asked for at once."""
    asked = [
        (start, start + size, tx.later(CHUNKS, strand, start, start + size) if strand else None)
        for strand, start, size in _cut(extents, offset, offset + length)
    ]
    pieces: list[bytes] = []
    for start, end, rows in asked:
        if rows is None:
            pieces.append(bytes(end - start))
        else:
            pieces.extend(_slices(rows(), start, end))
    read = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if len(read) != length:
        raise RevisionNotFound("the bytes of this revision were reclaimed while they were read")
    return read


def _slices(rows: Iterable[Row], start: int, end: int) -> Iterator[bytes]:
    for at, expected, data in rows:
        _verify(data, expected)
        first, last = max(start - at, 0), min(end - at, len(data))
        if first < last:
            yield data if last - first == len(data) else data[first:last]


def _verify(data: bytes, expected: object) -> None:
    if checksum(data) != expected:
        raise Corrupt


class Pinned:
    """The bytes of one revision, readable after the transaction that opened it.

    The sweep spares what was let go less than its grace ago, so a reader that takes longer than
    that over a revision which is no longer kept is told so.
    """

    def __init__(
        self, stat: Stat, body: Body, read: Callable[[Callable[[Tx], bytes]], bytes]
    ) -> None:
        self._stat = stat
        self._body = body
        self._read = read

    @property
    def stat(self) -> Stat:
        return self._stat

    def read(self, offset: int, length: int) -> bytes:
        body = self._body
        if body.data is not None or length <= 0 or offset >= body.size:
            return (body.data or b"")[offset : offset + max(0, length)]
        return self._read(lambda tx: read_body(tx, body, offset, length))


def open_body(scope: Scope, stat: Stat, body: Body) -> Content:
    """A content that a caller may go on reading."""
    tx = scope.tx
    return Pinned(stat, body, scope.opener or (lambda work: work(tx)))


def sha256_of(tx: Tx, body: Body) -> bytes:
    """The hash of a content, computed with the memory of one chunk."""
    if body.data is not None:
        return hashlib.sha256(body.data).digest()
    digest = hashlib.sha256()
    for piece in _pieces(tx, body.extents):
        digest.update(piece)
    return digest.digest()
