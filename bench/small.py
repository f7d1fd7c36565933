"""One caller and small files: create, overwrite, read, stat, exists."""

from __future__ import annotations

from collections.abc import Callable

from bench.row import Measured, at_most, row
from bench.site import Site, planted
from bench.timing import block, by_turns
from keelfs import Workspace

SMALL = b"\x00keel" * 819 + b"!"
#: Bytes that differ from one overwriting to the next; SQLite writes no page for equal ones.
VARIED = [bytes([at]) * 4096 for at in range(7)]
DEPTH_4 = "/a/b/c"
FILES = 100


@row("create-4k", "create 4 KiB, one caller, FULL", "one INSERT", at_most(2.0))
def create(site: Site, database: str) -> Measured:
    with site.workspace(database) as space, site.floor(database) as floor:
        return by_turns(
            block(40, lambda at: space.write(f"{DEPTH_4}/f{at}", SMALL)),
            block(40, lambda at: floor.create(f"{DEPTH_4}/f{at}", SMALL)),
            site.pick(25, 3), "µs",
        )  # fmt: skip


@row("overwrite-4k", "overwrite 4 KiB, one caller, FULL", "one UPDATE", at_most(2.0))
def overwrite(site: Site, database: str) -> Measured:
    with site.workspace(database) as space, site.floor(database) as floor:
        planted(space, DEPTH_4, FILES, SMALL)
        floor.insert_all((_name(at), SMALL) for at in range(FILES))
        return by_turns(
            block(40, lambda at: space.write(_name(at), VARIED[at % 7])),
            block(40, lambda at: floor.overwrite(_name(at), VARIED[at % 7])),
            site.pick(25, 3), "µs",
        )  # fmt: skip


def _name(at: int) -> str:
    return f"{DEPTH_4}/f{at % FILES:06}"


@row("read-4k", "read 4 KiB at depth 4", "SELECT by primary key", at_most(3.0))
def read(site: Site, database: str) -> Measured:
    return _looking(site, database, lambda space, path: space.read(path))


@row("stat", "stat of a file at depth 4", "SELECT by primary key", at_most(3.0))
def stat(site: Site, database: str) -> Measured:
    return _looking(site, database, lambda space, path: space.stat(path))


@row("exists", "exists of a file at depth 4", "SELECT by primary key", at_most(3.0))
def exists(site: Site, database: str) -> Measured:
    return _looking(site, database, lambda space, path: space.exists(path))


def _looking(site: Site, database: str, verb: Callable[[Workspace, str], object]) -> Measured:
    """The floor reads the bytes in all three rows: that is what a bare read by key is."""
    with site.workspace(database) as space, site.floor(database) as floor:
        planted(space, DEPTH_4, FILES, SMALL)
        floor.insert_all((_name(at), SMALL) for at in range(FILES))
        return by_turns(
            block(500, lambda at: verb(space, _name(at))),
            block(500, lambda at: floor.read(_name(at))),
            site.pick(25, 3), "µs",
        )  # fmt: skip
