"""Eight processes with eight threads each on one store: nothing is lost, torn, doubled or passed.

The races lie in `keelfs.testing.races` and `keelfs.testing.filling`. Each is also run by crowds
that are careless in one way, and has to convict them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

import keelfs
from databases import ENGINES, Opened
from keelfs.errors import StoreBusy
from keelfs.model import Limits
from keelfs.ops import Op, Read
from keelfs.ports import Volume
from keelfs.store import ledger
from keelfs.testing.crowd import Crowd, Race
from keelfs.testing.filling import Churning, Filling
from keelfs.testing.races import (
    Appending,
    Batching,
    Counting,
    Creating,
    Overwriting,
    Recording,
    Uprooting,
)

#: Attempts to convict a careless crowd; most of them need one.
ATTEMPTS = 10

IN_MANY_SPACES = Churning(turns=6, threads=3, spaces=8, bytes=40_000)

RACES = [
    pytest.param(Counting(), id="counting"),
    pytest.param(Creating(), id="creating"),
    pytest.param(Appending(), id="appending"),
    pytest.param(Overwriting(), id="overwriting"),
    pytest.param(Uprooting(), id="uprooting"),
    pytest.param(Batching(), id="batching"),
    pytest.param(Recording(), id="recording"),
    pytest.param(Churning(turns=8), id="churning"),
    pytest.param(IN_MANY_SPACES, id="churning in many spaces"),
    pytest.param(Filling(threads=4), id="filling"),
    pytest.param(Filling(threads=2, spaces=8), id="filling many spaces"),
]
LONG_RACES = [
    pytest.param(Counting(increments=100), id="counting"),
    pytest.param(Creating(rounds=600), id="creating"),
    pytest.param(Appending(records=60), id="appending"),
    pytest.param(Overwriting(overwrites=10_000), id="overwriting"),
    pytest.param(Uprooting(turns=100), id="uprooting"),
    pytest.param(Batching(turns=100), id="batching"),
    pytest.param(Recording(turns=400, files=12), id="recording"),
    pytest.param(Churning(turns=100), id="churning"),
    pytest.param(Churning(turns=40, spaces=16), id="churning in many spaces"),
    pytest.param(Filling(bytes=20_000_000, nodes=4_000), id="filling"),
    pytest.param(Filling(bytes=20_000_000, nodes=4_000, spaces=16), id="filling many spaces"),
]
CONVICTIONS = [
    pytest.param("sqlite", Counting(), "expects outside", "increments were acknowledged"),
    pytest.param("postgres", Counting(), "expects outside", "increments were acknowledged"),
    pytest.param("sqlite", Counting(), "no patience", "StoreBusy"),
    pytest.param("sqlite", Creating(), "expects outside", "were told that they made it"),
    pytest.param("sqlite", Appending(), "appends outside", "lost: "),
    pytest.param("sqlite", Overwriting(), "writes in pieces", "mixture"),
    pytest.param("sqlite", Overwriting(), "reads unpinned", "mixture"),
    pytest.param("sqlite", Overwriting(), "reads stale", "was read after"),
    pytest.param("sqlite", Uprooting(), "makes parents outside", "NotFound"),
    pytest.param("postgres", Uprooting(), "makes parents outside", "NotFound"),
    pytest.param("sqlite", Batching(), "batches in pieces", "seen|refused|moment|NotFound"),
    pytest.param("postgres", Batching(), "reads in pieces", "at one moment"),
    pytest.param("sqlite", Recording(), "expects outside", "does not allow"),
    pytest.param("postgres", Recording(), "appends outside", "does not allow"),
    pytest.param("sqlite", Recording(), "reads stale", "does not allow"),
    pytest.param("sqlite", Churning(enforced=False), "looks at limits outside", "are used"),
    pytest.param("postgres", IN_MANY_SPACES, "grants unlocked", "are used|tenant counts"),
]


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    with Crowd() as crowd:
        yield crowd


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{engine}_url"))


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_race(crowd: Crowd, url: str, race: Race) -> None:
    assert crowd.run(url, race).violations == []


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("race", LONG_RACES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_long_race(crowd: Crowd, url: str, race: Race) -> None:
    assert crowd.run(url, race, busy_timeout_s=300).violations == []


@pytest.mark.parametrize(("engine", "race", "careless", "told"), CONVICTIONS)
def test_a_careless_crowd_is_convicted(
    crowd: Crowd, url: str, race: Race, careless: str, told: str
) -> None:
    seen: list[str] = []
    for _ in range(ATTEMPTS):
        try:
            seen += crowd.run(url, race, careless).violations
        except StoreBusy as error:
            # Whoever has no patience may fail before the race has begun.
            seen.append(repr(error))
        if any(re.search(told, each) for each in seen):
            return
    pytest.fail(f"nobody saw {told!r} in {ATTEMPTS} races, but {seen[:3]}")


# -- what needs no crowd


class Meanwhile(Op[None], frozen=True):
    """Lets something happen between two operations of a batch."""

    act: Callable[[], object]
    places = ()

    def run(self, volume: Volume) -> None:
        self.act()


@pytest.mark.parametrize("below", ["/", "/d"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_of_reads_sees_one_moment(url: str, below: str) -> None:
    with keelfs.open(url) as store:
        ws = store.tenant("acme").space("session", "s")
        ws.write("/d/x", "before")
        seen = ws.subtree(below)
        path = "/d/x" if below == "/" else "/x"
        first, _, second = seen.batch(
            [Read(path), Meanwhile(lambda: ws.write("/d/x", "after")), Read(path)]
        )
        assert first == second == b"before"
        assert ws.read("/d/x") == b"after"


@pytest.mark.parametrize("engine", ["postgres"])
def test_sessions_of_one_tenant_do_not_wait_for_each_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one session is in the middle of a write near the tenant's limit, others go on."""
    with keelfs.open(url, busy_timeout_s=0.3) as store:
        acme = store.tenant("acme")
        acme.set_limits(Limits(bytes=10**9, nodes=10**6))
        one, other = acme.space("session", "one"), acme.space("session", "other")
        other.write("/first", "draws a slice of the allowance")
        with psycopg.connect(url) as held:
            held.execute("SELECT FROM spaces WHERE key = 'one' FOR NO KEY UPDATE")
            held.execute("SELECT FROM tenants FOR NO KEY UPDATE")
            for number in range(20):
                other.write(f"/{number}", bytes(5000))
            with pytest.raises(StoreBusy):
                one.write("/x", "the space itself is its own lock")
        # A store without slices asks the tenant each time, and would have to wait.
        monkeypatch.setattr(ledger, "SHARE", 10**12)
        other.write("/large", bytes(ledger.SLICE_BYTES))
        with psycopg.connect(url) as held:
            held.execute("SELECT FROM tenants FOR NO KEY UPDATE")
            with pytest.raises(StoreBusy):
                other.write("/y", "no slice is left")


@pytest.mark.parametrize("engine", ENGINES)
def test_room_that_another_session_holds_unused_is_given_to_who_needs_it(url: str) -> None:
    with keelfs.open(url) as store:
        acme = store.tenant("acme")
        acme.set_limits(Limits(bytes=1000))
        spaces = [acme.space("session", str(number)) for number in range(20)]
        for space in spaces:
            space.write("/f", "x")
        spaces[0].append("/f", bytes(980))
        assert acme.usage().bytes == 1000
        with pytest.raises(keelfs.QuotaExceeded):
            spaces[1].append("/f", "x")
        assert store.check().ok


@pytest.mark.parametrize("engine", ["postgres"])
def test_a_space_made_while_allowances_are_settled_keeps_what_it_has_drawn(url: str) -> None:
    """The settlement waits for a writer; the new space is none of the rows that it waits for."""
    with keelfs.open(url) as store, closing(Opened("postgres", url)) as opened:
        acme = store.tenant("acme")
        acme.set_limits(Limits(bytes=1000))
        tenant = opened.tenant("acme")
        one = acme.space("session", "one")
        one.write("/f", bytes(900))
        with psycopg.connect(url) as held:
            held.execute("SELECT FROM spaces WHERE key = 'one' FOR NO KEY UPDATE")
            settling = threading.Thread(
                target=opened.database.write, args=[tenant, ledger.settle_tenant]
            )
            settling.start()
            _wait_for_a_lock(url, settling)
            late = acme.space("session", "late")
            late.write("/f", bytes(60))
        settling.join()
        assert store.check().ok
        with pytest.raises(keelfs.QuotaExceeded):
            one.append("/f", bytes(60))


@pytest.mark.parametrize("engine", ["postgres"])
def test_a_space_made_while_the_limits_of_its_tenant_are_set_is_bound_by_them(url: str) -> None:
    with keelfs.open(url) as store:
        acme = store.tenant("acme")
        one = acme.space("session", "one")
        with psycopg.connect(url) as held:
            held.execute("SELECT FROM spaces WHERE key = 'one' FOR NO KEY UPDATE")
            setting = threading.Thread(target=acme.set_limits, args=[Limits(bytes=1000)])
            setting.start()
            _wait_for_a_lock(url, setting)
            late = acme.space("session", "late")
            late.write("/f", bytes(60))
        setting.join()
        assert store.check().ok
        with pytest.raises(keelfs.QuotaExceeded):
            late.append("/f", bytes(941))
        one.write("/f", bytes(940))


@pytest.mark.parametrize("engine", ["postgres"])
def test_a_space_opened_under_other_limits_keeps_those_set_meanwhile(url: str) -> None:
    with keelfs.open(url) as store:
        store.tenant("acme").space("session", "one")
        stricter = keelfs.open(url, limits=Limits(file_bytes=700))
        opened: list[keelfs.Space] = []
        opening = threading.Thread(
            target=lambda: opened.append(stricter.tenant("acme").space("session", "one"))
        )
        with psycopg.connect(url) as held:
            held.execute("SELECT FROM spaces WHERE key = 'one' FOR NO KEY UPDATE")
            opening.start()
            _wait_for_a_lock(url, opening)
            own = ledger.encoded(Limits(file_bytes=10))
            held.execute("UPDATE tenants SET limits = %s WHERE name = 'acme'", [own])
            held.execute("UPDATE spaces SET limits = %s WHERE key = 'one'", [own])
        opening.join()
        with closing(stricter), pytest.raises(keelfs.TooLarge):
            opened[0].write("/f", bytes(11))


def _wait_for_a_lock(url: str, thread: threading.Thread) -> None:
    """Returns when the thread waits for a lock of this database."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with psycopg.connect(url, autocommit=True) as look:
        while look.execute(waiting).fetchone() == (0,):
            assert thread.is_alive(), "it waits for nobody"
