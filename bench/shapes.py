"""What must not depend on how much there is: the same verb on little and on much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from bench.flows import blocks
from bench.row import SQLITE, Measured, at_most, row
from bench.site import Site, planted
from bench.timing import block, by_turns, once
from keelfs import Space

BIG = 256 * 2**20


@row("list-page", "list a page of 100, in a tree of 200,000 nodes",
     "the same in a tree of 1,000", at_most(1.2))  # fmt: skip
def list_page(site: Site, database: str) -> Measured:
    with site.workspace(database) as large, site.workspace(database) as small:
        for space in (large, small):
            planted(space, "/d000", 998)
        for at in range(1, site.pick(200, 20)):
            large.copy("/d000", f"/d{at:03}", recursive=True)
        return by_turns(
            block(50, lambda at: large.list("/d000", after=f"f{at % 900:06}", limit=100)),
            block(50, lambda at: small.list("/d000", after=f"f{at % 900:06}", limit=100)),
            site.pick(25, 3), "µs",
        )  # fmt: skip


@contextmanager
def _two_directories(site: Site, database: str) -> Iterator[Space]:
    with site.workspace(database) as space:
        planted(space, "/many 0", site.pick(10_000, 1000))
        planted(space, "/one 0", 1)
        yield space


@row("rename", "rename a directory of 10,000 files", "a directory of 1 file", at_most(1.5))
def rename(site: Site, database: str) -> Measured:
    with _two_directories(site, database) as space:
        return by_turns(
            block(10, lambda at: space.move(f"/many {at}", f"/many {at + 1}")),
            block(10, lambda at: space.move(f"/one {at}", f"/one {at + 1}")),
            site.pick(25, 3), "ms",
        )  # fmt: skip


@row("trash", "trash a directory of 10,000 files", "a directory of 1 file", at_most(1.5))
def trash(site: Site, database: str) -> Measured:
    with _two_directories(site, database) as space:

        def untrash(_: int) -> None:
            space.untrash(space.trashed().items[0].id)

        return by_turns(
            once(lambda _: space.trash("/many 0"), after=untrash),
            once(lambda _: space.trash("/one 0"), after=untrash),
            site.pick(101, 5), "ms",
        )  # fmt: skip


@row("copy", "copy 256 MiB", "1 KiB", at_most(1.5))
def copy(site: Site, database: str) -> Measured:
    with site.workspace(database) as space:
        space.write("/big", blocks(site.pick(BIG, 2**24)))
        space.write("/small", b"x" * 1024)
        return by_turns(
            block(10, lambda at: space.copy("/big", f"/copies/big {at}", parents=True)),
            block(10, lambda at: space.copy("/small", f"/copies/small {at}", parents=True)),
            site.pick(25, 3), "ms",
        )  # fmt: skip


@row("append", "append 100 B to a file of 256 MiB", "to an empty file", at_most(1.5))
def append(site: Site, database: str) -> Measured:
    with site.workspace(database) as space:
        space.write("/big", blocks(site.pick(BIG, 2**24)))
        rounds = site.pick(25, 3)
        planted(space, "/empty", (rounds + 1) * 10, b"")
        return by_turns(
            block(10, lambda _: space.append("/big", b"x" * 100)),
            block(10, lambda at: space.append(f"/empty/f{at:06}", b"x" * 100)),
            rounds, "ms",
        )  # fmt: skip


@row(
    "fork",
    "fork 10,000 files",
    "bare INSERT ... SELECT of names and nodes",
    at_most(300, "ms"),
    on=(SQLITE,),
)
def fork(site: Site, database: str) -> Measured:
    with site.workspace(database) as space, site.floor(database) as floor:
        files = site.pick(10_000, 1000)
        planted(space, "/d", files, b"x" * 100)
        floor.insert_tree(1, files, b"x" * 100)
        numbers = count(2)
        return by_turns(
            once(lambda at: space.fork("session", f"fork {at}")),
            once(lambda _: floor.copy_rows(next(numbers))),
            site.pick(9, 2), "ms",
        )  # fmt: skip


@row("snapshot", "snapshot 10,000 files", "bare INSERT ... SELECT of names and nodes",
     at_most(300, "ms"), on=(SQLITE,))  # fmt: skip
def snapshot(site: Site, database: str) -> Measured:
    with site.workspace(database) as space, site.floor(database) as floor:
        files = site.pick(10_000, 1000)
        planted(space, "/d", files, b"x" * 100)
        floor.insert_tree(1, files, b"x" * 100)
        numbers = count(2)
        return by_turns(
            once(lambda at: space.snapshot(f"snapshot {at}")),
            once(lambda _: floor.copy_rows(next(numbers))),
            site.pick(9, 2), "ms",
        )  # fmt: skip
