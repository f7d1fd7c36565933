"""Many bytes and many files: streams in and out, imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from bench.floors import CHUNK_BYTES
from bench.row import Measured, at_least, at_most, row
from bench.site import Site
from bench.timing import as_rate, by_turns, once
from keelfs import ops

FILE = b"import me " * 102 + b"now!"


def blocks(size: int) -> Iterator[bytes]:
    """Incompressible enough for a driver: each block differs from the one before."""
    piece = bytes(range(256)) * (CHUNK_BYTES // 256)
    for at in range(0, size, CHUNK_BYTES):
        shift = at // CHUNK_BYTES % 256
        yield piece[shift:] + piece[:shift]


def _drain(found: Iterable[bytes]) -> int:
    return sum(len(each) for each in found)


@row("stream-in", "stream 256 MiB in", "bare chunk rows", at_least(0.7))
def stream_in(site: Site, database: str) -> Measured:
    size = site.pick(2**28, 2**24)
    numbers = count()
    with site.workspace(database) as space, site.floor(database) as floor:
        measured = by_turns(
            once(lambda at: space.write(f"/stream {at}", blocks(size))),
            once(lambda _: floor.stream_in(next(numbers), blocks(size))),
            site.pick(5, 1), "s",
        )  # fmt: skip
    return as_rate(measured, size / 2**20, "MiB/s")


@row("stream-out", "stream 256 MiB out", "bare chunk rows", at_least(0.7))
def stream_out(site: Site, database: str) -> Measured:
    size = site.pick(2**28, 2**24)
    with site.workspace(database) as space, site.floor(database) as floor:
        space.write("/stream", blocks(size))
        floor.stream_in(0, blocks(size))
        measured = by_turns(
            once(lambda _: _drain(space.stream("/stream"))),
            once(lambda _: _drain(floor.stream_out(0))),
            site.pick(9, 1), "s",
        )  # fmt: skip
    return as_rate(measured, size / 2**20, "MiB/s")


@row("import-batch", "import 10,000 files of 1 KiB in one batch",
     "one INSERT per file, one transaction", at_most(2.0))  # fmt: skip
def import_batch(site: Site, database: str) -> Measured:
    files = site.pick(10_000, 500)
    with site.workspace(database) as space, site.floor(database) as floor:
        return by_turns(
            once(lambda at: space.batch([
                ops.Write(f"/import {at}/f{each:05}", FILE) for each in range(files)
            ])),
            once(lambda at: floor.insert_all(
                (f"/import {at}/f{each:05}", FILE) for each in range(files)
            )),
            site.pick(7, 1), "ms",
        )  # fmt: skip


@row("import-rows", "the same batch", "the rows of a tree, by executemany, no look-ups",
     at_most(2.0))  # fmt: skip
def import_rows(site: Site, database: str) -> Measured:
    files = site.pick(10_000, 500)
    with site.workspace(database) as space, site.floor(database) as floor:
        numbers = count(1)
        return by_turns(
            once(lambda at: space.batch([
                ops.Write(f"/import {at}/f{each:05}", FILE) for each in range(files)
            ])),
            once(lambda _: floor.insert_tree(next(numbers), files, FILE)),
            site.pick(7, 1), "ms",
        )  # fmt: skip
