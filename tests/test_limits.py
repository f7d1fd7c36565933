"""Each limit holds to the byte, wherever it was set, and a refusal leaves nothing behind.

The conformance suite proves what each limit means in one space, verb by verb. Here every field of
`Limits` is set for a store, for a tenant and for a space: what just fits is kept, one more is
refused by the limit's own name, and no row differs from before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from databases import Opened
from keelfs.errors import KeelError, QuotaExceeded, TooLarge, Unsupported
from keelfs.memory.catalog import MemoryCatalog
from keelfs.model import UNLIMITED, Attrs, Limits, Principal
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Copy,
    GetUsage,
    History,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Op,
    Purge,
    Read,
    Remove,
    SetAttrs,
    TakeSnapshot,
    Trash,
    Truncate,
    Write,
)
from keelfs.ports import Handler
from keelfs.store.catalog import SqlCatalog
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import Stream

ENGINES = ("memory", "sqlite", "postgres")
LEVELS = ("store", "tenant", "space")
NEXT_CONTENT = 5
_names = itertools.count(1)


class Clock:
    def __init__(self) -> None:
        self.ns = 1_700_000_000_000_000_000

    def now_ns(self) -> int:
        return self.ns


class Site:
    """A store of which new catalogues with limits of their own can be opened."""

    def __init__(self, engine: str, url: str) -> None:
        self.engine = engine
        self.clock = Clock()
        self.opened = None if engine == "memory" else Opened(engine, url, clock=self.clock)

    def catalog(self, limits: Limits = UNLIMITED) -> Any:
        if self.opened is None:
            return MemoryCatalog(self.clock, limits)
        return SqlCatalog(self.opened.database, self.clock, limits, 3600.0)

    def limited(self, level: str, limits: Limits, principal: Principal | None = None) -> Handler:
        """A new space under limits that were set for its store, its tenant or itself."""
        catalog = self.catalog(limits if level == "store" else UNLIMITED)
        tenant = catalog.open_tenant(f"tenant {next(_names)}", True)
        if level == "tenant":
            catalog.set_limits(tenant, limits)
        home = catalog.open_space(tenant, "session", "s", principal or Principal(), True)
        if level == "space":
            home.set_limits(limits)
        return home

    def state(self, home: Any) -> Any:
        """All that a refusal must leave as it was."""
        look = home.perform
        if self.opened is not None:
            rows = self.opened.rows(home.tenant)
            rows["spaces"] = [
                (*row[:NEXT_CONTENT], *row[NEXT_CONTENT + 1 :]) for row in rows["spaces"]
            ]
            return rows, look(GetUsage())
        return home._space.tree(), look(GetUsage()), look(Changes()), look(ListSnapshots())

    def sound(self) -> bool:
        return self.opened is None or self.opened.catalog.check(False).ok


@pytest.fixture(scope="module", params=ENGINES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    url = f"sqlite:///{tmp_path_factory.mktemp('limits') / 'store.db'}"
    if request.param == "postgres":
        cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
        url = cluster.create_database()
    site = Site(request.param, url)
    yield site
    assert site.sound()
    if site.opened is not None:
        site.opened.close()


# -- what is refused


class Case(Struct):
    """A limit, what just fits into it, and what is one too many."""

    limit: int
    fits: tuple[Op[Any], ...]
    #: Each with what the error says is used.
    refused: tuple[tuple[Op[Any], int], ...]
    error: type[KeelError] = TooLarge


REFUSING: dict[str, Case] = {
    "bytes": Case(
        100, (Write("/a", b"x" * 60), Write("/b", b"x" * 40), Write("/a", b"y" * 60)),
        ((Append("/a", "x"), 100), (Write("/n", "x"), 100), (Copy("/a", "/n"), 100)),
        QuotaExceeded,
    ),
    "nodes": Case(
        3, (Write("/d/a", "x"), Mkdir("/e"), Write("/d/a", "y")),
        ((Write("/n", "x"), 3), (Mkdir("/n"), 3)), QuotaExceeded,
    ),
    "file_bytes": Case(
        10, (Write("/a", b"x" * 10), Write("/b", b"x" * 9), Append("/b", "x")),
        ((Append("/a", "x"), 11), (Truncate("/a", 11), 11), (Write("/n", b"x" * 11), 11)),
    ),
    "depth": Case(1, (Write("/d/a", "x"),), ((Write("/d/e/f", "x"), 2),)),
    "directory_entries": Case(
        2, (Write("/a", "x"), Write("/d/a", "x"), Write("/d/b", "x")),
        ((Write("/n", "x"), 3), (Write("/d/n", "x"), 3)),
    ),
    "read_bytes": Case(
        10, (Write("/a", b"x" * 11), Read("/a", 1), Read("/a", 0, 10)), ((Read("/a"), 11),)
    ),
    "snapshots": Case(1, (TakeSnapshot("1"),), ((TakeSnapshot("2"), 1),), QuotaExceeded),
    "snapshot_bytes": Case(
        10, (Write("/a", b"x" * 5), TakeSnapshot("1"), TakeSnapshot("2")),
        ((TakeSnapshot("3"), 10),), QuotaExceeded,
    ),
    "xattr_bytes": Case(
        10, (Write("/a", ""), SetAttrs("/a", Attrs(xattrs={"user.k": b"1234"}))),
        ((SetAttrs("/a", Attrs(xattrs={"user.k": b"12345"})), 11),),
    ),
    "batch_operations": Case(
        2, (Batch((Mkdir("/a"), Mkdir("/b"))),),
        ((Batch((Mkdir("/n"), Mkdir("/o"), Mkdir("/p"))), 3),),
    ),
    "transaction_nodes": Case(
        2, (Write("/d/a", "x"), Copy("/d", "/e", recursive=True), Write("/d/b", "x")),
        ((Copy("/d", "/n", recursive=True), 3),),
    ),
}  # fmt: skip

#: What bounds without refusing anything; each has its test below.
YIELDING = {
    "history_count", "history_age_s", "history_bytes", "trash_user_s", "trash_agent_s",
    "journal_age_s",
}  # fmt: skip
#: What bounds spaces of kind `artifacts` alone: `tests/test_artifacts.py` has their cases.
OF_ARTIFACTS = {"artifact_file_bytes", "artifact_space_bytes", "artifact_bytes"}
#: A sum over spaces, which no store in memory keeps.
SUMS = {"bytes", "nodes"}


def test_every_limit_has_its_case() -> None:
    assert set(REFUSING) | YIELDING | OF_ARTIFACTS == set(Limits.__struct_fields__)
    assert not set(REFUSING) & YIELDING


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", REFUSING)
def test_what_fits_is_kept_and_one_more_is_refused(site: Site, level: str, name: str) -> None:
    case = REFUSING[name]
    limits = Limits(**{name: case.limit})
    if site.engine == "memory" and level == "tenant" and name in SUMS:
        with pytest.raises(Unsupported):
            site.limited(level, limits)
        return
    home = site.limited(level, limits)
    for op in case.fits:
        home.perform(op)
    owner = "tenant" if level == "tenant" and name in SUMS else "space"
    before = site.state(home)
    for op, used in case.refused:
        with pytest.raises(case.error) as caught:
            home.perform(op)
        error: Any = caught.value
        assert (error.limit, error.size, error.used) == (f"{owner}.{name}", case.limit, used)
        after = site.state(home)
        assert without_grants(after) == without_grants(before)


def without_grants(state: Any) -> Any:
    """Looking for room, a refused write may have taken back what spaces hold of their tenant."""
    if not isinstance(state[0], dict) or "spaces" not in state[0]:
        return state
    rows = {**state[0], "spaces": [row[:12] for row in state[0]["spaces"]]}
    return rows, state[1]


def test_the_strictest_of_all_levels_counts(site: Site) -> None:
    for store, tenant, space in itertools.permutations((10, 20, 30)):
        catalog = site.catalog(Limits(file_bytes=store))
        of = catalog.open_tenant(f"tenant {next(_names)}", True)
        catalog.set_limits(of, Limits(file_bytes=tenant))
        home = catalog.open_space(of, "session", "s", Principal(), True)
        home.set_limits(Limits(file_bytes=space))
        home.perform(Write("/a", b"x" * 10))
        with pytest.raises(TooLarge):
            home.perform(Append("/a", "x"))
        assert home.perform(GetUsage()).limits.file_bytes == 10


def test_a_limit_that_is_raised_or_taken_away_lets_go(site: Site) -> None:
    home: Any = site.limited("space", Limits(bytes=10))
    home.perform(Write("/a", b"x" * 10))
    for limit in (11, None):
        with pytest.raises(QuotaExceeded):
            home.perform(Append("/a", "x"))
        home.set_limits(Limits(bytes=limit))
        home.perform(Append("/a", "x"))
        home.set_limits(Limits(bytes=home.perform(GetUsage()).bytes))


def test_a_limit_is_for_its_space_and_for_its_tenant_alone(site: Site) -> None:
    catalog = site.catalog()
    first, second = (catalog.open_tenant(f"tenant {next(_names)}", True) for _ in range(2))
    catalog.set_limits(first, Limits(file_bytes=5))
    spaces = [
        catalog.open_space(tenant, "session", key, Principal(), True)
        for tenant in (first, second) for key in ("s", "t")
    ]  # fmt: skip
    spaces[3].set_limits(Limits(file_bytes=4))
    allowed: list[int] = []
    for space in spaces:
        size = 0
        while size < 10:
            try:
                space.perform(Write("/a", b"x" * (size + 1)))
            except TooLarge:
                break
            size += 1
        allowed.append(size)
    assert allowed == [5, 5, 10, 4]


# -- streams


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["bytes", "file_bytes"])
@pytest.mark.parametrize("verb", [Write, Append])
def test_a_stream_is_stopped_and_nothing_of_it_is_left(
    site: Site, level: str, name: str, verb: Callable[..., Op[Any]]
) -> None:
    """Also what had been stored before the limit was met."""
    if site.engine == "memory" and level == "tenant" and name in SUMS:
        with pytest.raises(Unsupported):
            site.limited(level, Limits(bytes=1))
        return
    home = site.limited(level, Limits(**{name: 4_000_000}))
    home.perform(Write("/a", b"old"))
    before = site.state(home)
    for path in ("/a", "/d/n"):
        with pytest.raises((QuotaExceeded, TooLarge)) as caught:
            home.perform(verb(path, Stream(20)))
        assert caught.value.size == 4_000_000
        assert without_grants(site.state(home)) == without_grants(before)
    home.perform(verb("/d/n", Stream(10)))


# -- the arithmetic of quotas

FILE, SPACE, TENANT = 1_048_576, 52_428_800, 524_288_000


def test_a_file_of_exactly_its_limit(site: Site) -> None:
    home = site.limited("store", Limits(file_bytes=FILE))
    home.perform(Write("/a", bytes(FILE)))
    before = site.state(home)
    with pytest.raises(TooLarge):
        home.perform(Write("/a", bytes(FILE + 1)))
    assert site.state(home) == before


@pytest.mark.parametrize(("used", "passes"), [(52_326_400, True), (52_326_401, False)])
def test_an_overwrite_costs_only_the_difference(site: Site, used: int, passes: bool) -> None:
    home = site.limited("space", Limits(bytes=SPACE))
    home.perform(Write("/a", bytes(102_400)))
    home.perform(Write("/rest", ""))
    home.perform(Truncate("/rest", used - 102_400))
    before = site.state(home)
    if passes:
        home.perform(Write("/a", bytes(204_800)))
        assert home.perform(GetUsage()).bytes == SPACE
    else:
        with pytest.raises(QuotaExceeded) as caught:
            home.perform(Write("/a", bytes(204_800)))
        assert caught.value.used == used
        assert site.state(home) == before


@pytest.fixture
def tenant(site: Site) -> Any:
    """A tenant of ten conversations and 524,288,000 bytes; none in memory."""
    if site.engine == "memory":
        return None
    catalog = site.catalog()
    of = catalog.open_tenant(f"tenant {next(_names)}", True)
    catalog.set_limits(of, Limits(bytes=TENANT, nodes=40))
    return catalog, of


def conversations(tenant: Any, count: int) -> list[Any]:
    catalog, of = tenant
    return [
        catalog.open_space(of, "session", str(number), Principal(), True)
        for number in range(count)
    ]  # fmt: skip


def test_a_tenant_is_bounded_over_its_conversations(tenant: Any) -> None:
    """The last byte fits, wherever it is written; then not one more, in no conversation."""
    if tenant is None:
        return
    homes = conversations(tenant, 10)
    for home in homes:
        home.perform(Write("/a", "x"))
        home.perform(Truncate("/a", SPACE - 1))
    homes[3].perform(Write("/last", bytes(10)))
    catalog, of = tenant
    for home in homes:
        with pytest.raises(QuotaExceeded) as caught:
            home.perform(Append("/a", "x"))
        assert (caught.value.limit, caught.value.size) == ("tenant.bytes", TENANT)
    assert catalog.usage(of).bytes == TENANT
    homes[0].perform(Truncate("/a", SPACE - 2))
    homes[9].perform(Append("/a", "x"))
    assert catalog.usage(of).bytes == TENANT


def test_the_trash_counts_for_the_tenant_until_it_is_purged(tenant: Any) -> None:
    if tenant is None:
        return
    first, second = conversations(tenant, 2)
    first.perform(Write("/a", "x"))
    first.perform(Truncate("/a", TENANT))
    thing = first.perform(Trash("/a"))
    for home in (first, second):
        with pytest.raises(QuotaExceeded):
            home.perform(Write("/n", "x"))
    first.perform(Purge(thing.id))
    second.perform(Write("/n", "x"))
    second.perform(Truncate("/n", TENANT))


def test_history_and_snapshots_cost_a_tenant_nothing(tenant: Any) -> None:
    """They have limits of their own; contents are shared."""
    if tenant is None:
        return
    (home,) = conversations(tenant, 1)
    home.perform(Write("/a", "x"))
    home.perform(Truncate("/a", TENANT))
    home.perform(TakeSnapshot("full"))
    home.perform(Write("/a", "y"))
    home.perform(Truncate("/a", TENANT))
    usage = tenant[0].usage(tenant[1])
    assert (usage.bytes, usage.snapshot_bytes) == (TENANT, TENANT)
    assert usage.history_bytes == TENANT + 2


def test_a_deleted_conversation_gives_its_room_back(tenant: Any) -> None:
    if tenant is None:
        return
    first, second = conversations(tenant, 2)
    first.perform(Write("/a", "x"))
    first.perform(Truncate("/a", TENANT))
    first.delete()
    second.perform(Write("/a", "x"))
    second.perform(Truncate("/a", TENANT))


def test_nodes_of_a_tenant_are_counted_over_its_conversations(tenant: Any) -> None:
    if tenant is None:
        return
    homes = conversations(tenant, 4)
    for home, number in itertools.product(homes, range(10)):
        home.perform(Write(f"/{number}", ""))
    for home in homes:
        with pytest.raises(QuotaExceeded) as caught:
            home.perform(Mkdir("/n"))
        assert (caught.value.limit, caught.value.size) == ("tenant.nodes", 40)
    homes[0].perform(Remove("/0"))
    homes[3].perform(Mkdir("/n"))


# -- what yields instead of refusing


@pytest.mark.parametrize("level", LEVELS)
def test_history_yields(site: Site, level: str) -> None:
    for limits, kept in (
        (Limits(history_count=2), [4, 3, 2]), (Limits(history_bytes=2), [4, 3, 2]),
        (Limits(history_count=0), [4]),
    ):  # fmt: skip
        home = site.limited(level, limits)
        for text in "1234":
            home.perform(Write("/a", text))
        assert [each.revision for each in home.perform(History("/a"))] == kept


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kind", "seconds"), [("user", 100), ("agent", 10), ("operator", 100)])
def test_the_trash_is_kept_as_long_as_its_owner_may(
    site: Site, level: str, kind: str, seconds: int
) -> None:
    limits = Limits(trash_user_s=100, trash_agent_s=10)
    home = site.limited(level, limits, Principal(kind, "p"))
    home.perform(Write("/a", "x"))
    thing = home.perform(Trash("/a"))
    assert thing.expires_ns - thing.at_ns == seconds * 10**9
    site.clock.ns += seconds * 10**9 - 1
    assert len(home.perform(ListTrash()).items) == 1
    site.clock.ns += 1
    assert home.perform(ListTrash()).items == []


@pytest.mark.parametrize("level", LEVELS)
def test_history_and_journal_age(site: Site, level: str) -> None:
    """Ages are taken away by the sweep, and nothing younger with them."""
    home: Any = site.limited(level, Limits(history_age_s=10, journal_age_s=10))
    for text in "12":
        home.perform(Write("/a", text))
    site.clock.ns += 9 * 10**9
    home.perform(Write("/a", "3"))
    site.clock.ns += 2 * 10**9
    if site.opened is not None:
        site.opened.catalog.sweep(None)
        assert [each.revision for each in home.perform(History("/a"))] == [3, 2]
        newest = home.perform(Changes(after=2)).items
        assert [change.seq for change in newest] == [3]
    else:
        home._space.sweep()
        assert [each.revision for each in home.perform(History("/a"))] == [3, 2]
