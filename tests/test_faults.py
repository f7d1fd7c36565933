"""Whichever statement of whichever verb fails: the whole effect or none, and a typed error.

Every exercise is attempted with its first statement failing, then its second, and so on until it
succeeds. After each failure every row of the tenant is compared with what was there before; after a
success in spite of the failure, the tree with that of a run without failures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import pytest
from msgspec.structs import replace

from breakages import BREAKAGES, Breakage
from databases import ENGINES, TABLES, Opened
from keelfs.errors import KeelError, StoreFailed
from keelfs.model import Limits, Report
from keelfs.ops import (
    Changes,
    GetUsage,
    ListSnapshots,
    ListTrash,
    Op,
    Write,
)
from keelfs.ports import Handler
from keelfs.store.database import Database
from keelfs.store.fsck import Checker
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, Exercise, prepare, unexercised
from keelfs.testing.faults import FaultyDatabase, Outcome, at_every_statement
from keelfs.testing.portrait import OWN_FIELDS, portrait, without

T = TypeVar("T")
#: Far from being reached, so that grants are drawn and settled all the same.
LIMITS = Limits(bytes=10**9, nodes=10**6)
#: Streams are stored before their write begins; what a failure leaves of them is the sweep's.
BYTES = ("contents", "strands", "chunks")
#: The column of `spaces` that counts their ids.
NEXT_CONTENT = 5
REFERENCES = 3

Rows = dict[str, set[tuple[Any, ...]]]


class Bench:
    """A database that can be broken, with a fresh tenant for each attempt."""

    def __init__(
        self,
        engine: str,
        url: str,
        *,
        patience_s: float = 10.0,
        plant: Callable[[Handler], Handler] = lambda home: home,
    ) -> None:
        """`plant` puts a bug between the attempts and the space."""
        self._plant = plant
        self._expected: dict[str, Any] = {}
        self.faulty: FaultyDatabase | None = None
        self.opened = Opened(engine, url, wrap=self._wrap, busy_timeout_s=patience_s)

    def _wrap(self, database: Database) -> Database:
        if self.faulty is None:
            self.faulty = FaultyDatabase(database)
        self.faulty.database = database
        return self.faulty

    @property
    def database(self) -> FaultyDatabase:
        assert self.faulty is not None
        return self.faulty

    def fresh(self) -> tuple[int, Handler]:
        tenant = self.opened.tenant()
        self.opened.catalog.set_limits(tenant, LIMITS)
        home = self.opened.space(tenant)
        prepare(home.perform)
        return tenant, self._plant(home)

    def rows(self, tenant: int) -> Rows:
        """Every row of a tenant, its own included."""
        found = {
            table: set(self.opened.select(table, tenant)) for table in TABLES if table != "chunks"
        }
        # Megabytes of chunks are told by their checksums.
        found["chunks"] = set(
            self.opened.execute(
                f"SELECT strand, start, checksum, length(data) FROM chunks WHERE tenant = {tenant}"
            )
        )
        found["spaces"] = {row[:NEXT_CONTENT] + row[NEXT_CONTENT + 1 :] for row in found["spaces"]}
        found["tenants"] = set(self.opened.execute(f"SELECT * FROM tenants WHERE id = {tenant}"))
        return found

    def check(self, tenant: int) -> Report:
        checker = Checker(self.opened.database, self.opened.catalog._clock, False)
        return checker.report([(tenant, "it")])

    def expected(self, exercise: Exercise) -> Any:
        """What the exercise does when nothing fails."""
        if exercise.name not in self._expected:
            tenant = self.opened.tenant()
            home = self.opened.space(tenant)
            prepare(home.perform)
            home.perform(exercise.op(home.perform))
            self._expected[exercise.name] = effect(home)
        return self._expected[exercise.name]


def effect(home: Handler) -> Any:
    """What operations can see of a space, but for what differs from one to the next."""
    look = home.perform
    tree = {
        path: (without(stat, *OWN_FIELDS), data) for path, (stat, data) in portrait(look).items()
    }
    journal = [(each.kind, each.path, each.to, each.revision) for each in look(Changes()).items]
    trash = [(each.path, each.bytes) for each in look(ListTrash()).items]
    snapshots = [(each.name, each.bytes, each.nodes) for each in look(ListSnapshots())]
    return tree, replace(look(GetUsage()), limits=LIMITS), journal, trash, snapshots


def left_behind(before: Rows, after: Rows, *, tidy: bool) -> list[str]:
    """What a failed attempt has changed; with `tidy`, nothing of a stream may be left either."""
    found = [
        f"{table}: {sorted(before[table] ^ after[table], key=repr)!r:.300}"
        for table in before
        if table not in BYTES and before[table] != after[table]
    ]
    for table in BYTES:
        added = after[table] - before[table]
        if before[table] - after[table]:
            found.append(f"{table}: rows are gone or changed")
        if tidy and added:
            found.append(f"{table}: {len(added)} rows are left")
        if table == "contents" and any(row[REFERENCES] for row in added):
            found.append("contents: something is held that should not be there")
    return found


def attempt(home: Handler, op: Op[Any]) -> Any:
    answer = home.perform(op)
    return answer.read(0, 2**20) if hasattr(answer, "read") else answer


class Trial(Generic[T]):
    """One exercise under one kind of failure; `violations` is what must be empty."""

    def __init__(
        self, bench: Bench, exercise: Exercise, breakage: Breakage, *, times: int | None = 1
    ) -> None:
        self.bench, self.exercise, self.breakage, self.times = bench, exercise, breakage, times
        self._prepare()

    def _prepare(self) -> None:
        self.tenant, self.home = self.bench.fresh()
        self.op = self.exercise.op(self.home.perform)
        self.before = self.bench.rows(self.tenant)

    def violations(self) -> Iterator[str]:
        outcomes = at_every_statement(
            self.bench.database,
            lambda: attempt(self.home, self.op),
            self.breakage.fault,
            times=self.times,
        )
        for outcome in outcomes:
            for violation in self._look(outcome):
                yield (
                    f"{self.exercise.name}, {self.breakage.name} at statement "
                    f"{outcome.statement}: {violation}"
                )

    def _look(self, outcome: Outcome) -> Iterator[str]:
        if outcome.error is None:
            yield from self._succeeded()
            if not outcome.unharmed:
                self._prepare()
        else:
            yield from self._failed(outcome.error)

    def _succeeded(self) -> Iterator[str]:
        if effect(self.home) != self.bench.expected(self.exercise):
            yield "it has answered, and its effect is another one"
        yield from (each.message for each in self.bench.check(self.tenant).findings)

    def _failed(self, error: KeelError) -> Iterator[str]:
        if not isinstance(error, self.breakage.error):
            yield f"it says {error!r}"
        if self.breakage.mended and self.times is not None:
            yield f"it has not tried again: {error!r}"
        if self.breakage.stops:
            self.bench.opened.reopen()
        tidy = self.times is not None and not self.breakage.stops
        yield from left_behind(self.before, self.bench.rows(self.tenant), tidy=tidy)


# -- the databases


@pytest.fixture(scope="module")
def bench_of(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Bench]]:
    made: dict[tuple[str, float], Bench] = {}
    urls: dict[str, str] = {}

    def url_of(engine: str) -> str:
        if engine not in urls:
            if engine == "sqlite":
                urls[engine] = f"sqlite:///{tmp_path_factory.mktemp('faults') / 'store.db'}"
            else:
                cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
                urls[engine] = cluster.create_database()
        return urls[engine]

    def bench(engine: str, patience_s: float = 10.0) -> Bench:
        if (engine, patience_s) not in made:
            made[engine, patience_s] = Bench(engine, url_of(engine), patience_s=patience_s)
        return made[engine, patience_s]

    yield bench
    for each in made.values():
        each.opened.close()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown failures are logged with their trace; here they are made by the thousand."""
    caplog.set_level(logging.CRITICAL, "keelfs.store")


#: Races that a transaction lost are tried again alike; the server tells one of them by default.
ALIKE = {("postgres", "deadlock"), ("postgres", "lock timeout")}
CASES = [
    pytest.param(
        engine,
        breakage,
        id=f"{engine}-{breakage.name}",
        marks=[pytest.mark.torture] if (engine, breakage.name) in ALIKE else [],
    )
    for engine in ENGINES
    for breakage in BREAKAGES[engine]
]


def test_every_verb_is_exercised() -> None:
    assert unexercised() == set()


@pytest.mark.parametrize(("engine", "breakage"), CASES)
def test_a_statement_that_fails_once(
    bench_of: Callable[..., Bench], engine: str, breakage: Breakage
) -> None:
    bench = bench_of(engine)
    found = [
        violation
        for exercise in EXERCISES.values()
        for violation in Trial(bench, exercise, breakage).violations()
    ]
    assert found == []


@pytest.mark.parametrize(("engine", "breakage"), CASES)
def test_a_database_that_fails_from_then_on(
    bench_of: Callable[..., Bench], engine: str, breakage: Breakage
) -> None:
    """The first failure is the one that is told, whatever fails while it is cleaned up."""
    bench = bench_of(engine, 0.02)
    found = [
        violation
        for exercise in EXERCISES.values()
        for violation in Trial(bench, exercise, breakage, times=None).violations()
    ]
    assert found == []


@pytest.mark.parametrize("name", ["fsync failed", "disk unreadable"])
def test_after_a_failed_fsync_nothing_is_accepted_until_the_store_is_opened_anew(
    sqlite_url: str, name: str
) -> None:
    """The kernel may have dropped what it could not write, so a second fsync proves nothing."""
    bench = Bench("sqlite", sqlite_url)
    _tenant, home = bench.fresh()
    (breakage,) = (each for each in BREAKAGES["sqlite"] if each.name == name)
    bench.database.arm(2, breakage.fault)
    for _ in range(3):
        with pytest.raises(StoreFailed):
            home.perform(Write("/n", "x"))
    bench.opened.reopen()
    assert home.perform(Write("/n", "x")).revision == 1
    bench.opened.close()
