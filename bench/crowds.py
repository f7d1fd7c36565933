"""Many callers at once: group commit on SQLite, tenants and sessions on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from bench.floors import Floor
from bench.row import POSTGRES, SQLITE, Measured, at_least, row
from bench.site import Site, planted
from bench.small import SMALL, VARIED
from bench.timing import as_rate, by_turns, crowd
from keelfs import Limits, Store, Workspace

CALLERS = 16
#: Of a mix: this many reads for every write.
READS = 3


def _writers(site: Site, number: int) -> Measured:
    calls = site.pick(20, 5)
    with site.store(SQLITE) as store, site.floors(SQLITE, number) as floors:
        tenant = store.tenant("acme")
        spaces = [tenant.space("session", f"{at}") for at in range(number)]
        measured = by_turns(
            crowd([_writing(space) for space in spaces], calls),
            crowd([_inserting(at, floor) for at, floor in enumerate(floors)], calls),
            site.pick(9, 2), "s",
        )  # fmt: skip
    return as_rate(measured, 1, "/s")


def _writing(space: Workspace) -> Callable[[int], object]:
    return lambda at: space.write(f"/f{at}", SMALL)


def _inserting(mine: int, floor: Floor) -> Callable[[int], object]:
    return lambda at: floor.create(f"/{mine}/f{at}", SMALL)


@row("writers-16", "16 concurrent writers in one process, FULL, 4 KiB",
     "the same writers with a connection each", at_least(5), on=(SQLITE,))  # fmt: skip
def writers_16(site: Site, database: str) -> Measured:
    return _writers(site, 16)


@row("writers-64", "64 concurrent writers in one process, FULL, 4 KiB",
     "the same writers with a connection each", at_least(15), on=(SQLITE,))  # fmt: skip
def writers_64(site: Site, database: str) -> Measured:
    return _writers(site, 64)


def _mix(space: Workspace) -> Callable[[int], object]:
    planted(space, "/mix", 20, SMALL)

    def call(at: int) -> None:
        path = f"/mix/f{at % 20:06}"
        if at % (READS + 1):
            space.read(path)
        else:
            space.write(path, VARIED[at // (READS + 1) % 7])

    return call


def _bare_mix(mine: int, floor: Floor) -> Callable[[int], object]:
    floor.insert_all((f"/{mine}/{at}", SMALL) for at in range(20))

    def call(at: int) -> None:
        path = f"/{mine}/{at % 20}"
        if at % (READS + 1):
            floor.read(path)
        else:
            floor.overwrite(path, VARIED[at // (READS + 1) % 7])

    return call


def _tenants(store: Store) -> list[Callable[[int], object]]:
    return [_mix(store.tenant(f"t{at}").space("session", "s")) for at in range(CALLERS)]


@row("tenants-16", "16 tenants at once, 3 reads to 1 overwrite",
     "16 connections, one SELECT or UPDATE each", at_least(0.6), on=(POSTGRES,))  # fmt: skip
def tenants(site: Site, database: str) -> Measured:
    with ExitStack() as stack:
        store = stack.enter_context(site.store(database))
        floors = stack.enter_context(site.floors(database, CALLERS))
        measured = by_turns(
            crowd(_tenants(store), 40),
            crowd([_bare_mix(at, floor) for at, floor in enumerate(floors)], 40),
            site.pick(11, 2), "s",
        )  # fmt: skip
    return as_rate(measured, 1, "/s")


@row("sessions-16", "16 sessions of one tenant at once, its limits in force",
     "16 tenants at once", at_least(0.7), on=(POSTGRES,))  # fmt: skip
def sessions(site: Site, database: str) -> Measured:
    with site.store(database) as store, site.store(database) as other:
        tenant = store.tenant("acme")
        tenant.set_limits(Limits(bytes=10 * 2**30, nodes=1_000_000))
        works = [_mix(tenant.space("session", f"{at}")) for at in range(CALLERS)]
        measured = by_turns(
            crowd(works, 40), crowd(_tenants(other), 40), site.pick(11, 2), "s"
        )  # fmt: skip
    return as_rate(measured, 1, "/s")
