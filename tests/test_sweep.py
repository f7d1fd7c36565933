"""What the sweep gives back, what it spares, and that it may stop anywhere.

Both databases; time is moved by hand. Whatever is swept, and at whatever step the sweep stops, the
store stays sound and what is alive reads the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

import keelfs
from databases import ENGINES, TABLES, Opened
from keelfs.errors import CursorExpired, NotFound, RevisionNotFound, Unavailable
from keelfs.model import Limits
from keelfs.store import staging
from keelfs.testing.conformance.frame import FixedClock

GRACE_S = 3600.0
MIB = 2**20


@dataclass
class Site:
    """A store whose clock stands still, and a look past it."""

    opened: Opened
    clock: FixedClock
    store: keelfs.Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = keelfs.Store(self.opened.catalog)

    def space(self, key: str = "s", tenant: str = "acme") -> keelfs.Space:
        return self.store.tenant(tenant).space("session", key)

    def counts(self, *tables: str) -> dict[str, int]:
        """Rows of all tenants together."""
        return {
            table: self.opened.execute(f"SELECT count(*) FROM {table}")[0][0]
            for table in tables or TABLES
        }

    def sound(self) -> None:
        report = self.store.check()
        assert report.ok, report.findings


@pytest.fixture(params=ENGINES)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    clock = FixedClock()
    url = request.getfixturevalue(f"{request.param}_url")
    opened = Opened(request.param, url, clock=clock, limits=Limits())
    yield Site(opened, clock)
    opened.close()


# -- what has expired


def test_expired_trash_goes_and_the_rest_of_it_stays(site: Site) -> None:
    ws = site.space()
    ws.write("/old/a", b"a" * 70_000)
    ws.write("/young", b"y")
    ws.trash("/old")
    site.clock.advance(167 * 3600)
    kept = ws.trash("/young")
    site.clock.advance(2 * 3600)
    swept = site.store.sweep()
    assert (swept.expired_trash, swept.nodes) == (1, 2)
    assert ws.usage().trash_bytes == 1
    assert ws.untrash(kept.id).size == 1
    site.sound()


def test_trash_of_an_agent_expires_sooner(site: Site) -> None:
    acme = site.store.tenant("acme")
    agent = acme.space("session", "s", principal=keelfs.Principal("agent", "coder"))
    agent.write("/a", b"a")
    agent.write("/b", b"b")
    agent.trash("/a")
    acme.space("session", "s").trash("/b")
    site.clock.advance(25 * 3600)
    assert site.store.sweep().expired_trash == 1
    assert [item.path for item in agent.trashed().items] == [("b",)]


def test_history_ages_by_when_it_was_replaced(site: Site) -> None:
    ws = site.space()
    ws.set_limits(Limits(history_age_s=100))
    ws.write("/f", b"1")
    site.clock.advance(1000)
    ws.write("/f", b"2")
    site.clock.advance(60)
    ws.write("/f", b"3")
    site.clock.advance(60)
    assert site.store.sweep().expired_revisions == 1
    assert [kept.revision for kept in ws.history("/f")] == [3, 2]
    with pytest.raises(RevisionNotFound):
        ws.read("/f", revision=1)
    assert ws.read("/f", revision=2) == b"2"
    assert ws.usage().history_bytes == 1
    site.sound()


def test_the_journal_is_cut_at_its_beginning(site: Site) -> None:
    ws = site.space()
    ws.set_limits(Limits(journal_age_s=100))
    for number in range(5):
        ws.write(f"/{number}", b"")
    site.clock.advance(101)
    ws.write("/last", b"")
    assert site.store.sweep().expired_changes == 5
    with pytest.raises(CursorExpired):
        ws.changes(after=0)
    assert [change.path for change in ws.changes(after=5).items] == [("last",)]
    site.sound()


def test_answers_are_kept_for_a_day(site: Site) -> None:
    ws = site.space()
    ws.append("/log", b"x", key="once")
    site.clock.advance(23 * 3600)
    site.store.sweep()
    assert ws.append("/log", b"x", key="once").size == 1
    site.clock.advance(3600)
    site.store.sweep()
    assert ws.append("/log", b"x", key="once").size == 2


# -- bytes


@pytest.mark.parametrize("size", [100, 3 * MIB])
def test_freed_bytes_wait_out_their_grace(site: Site, size: int) -> None:
    ws = site.space()
    ws.set_limits(Limits(history_count=0))
    ws.write("/f", b"1" * size)
    pinned = ws.pin("/f")
    ws.write("/f", b"2" * size)
    site.clock.advance(GRACE_S - 1)
    assert site.store.sweep().contents == 0
    assert pinned.read(0, size) == b"1" * size
    site.clock.advance(1)
    assert site.store.sweep().contents == 1
    assert ws.read("/f") == b"2" * size
    assert site.counts("contents")["contents"] == 1
    assert site.counts("strands")["strands"] == int(size > MIB)
    site.sound()


def test_a_strand_stays_while_any_content_is_made_of_it(site: Site) -> None:
    ws = site.space()
    ws.set_limits(Limits(history_count=0))
    ws.write("/f", b"1" * MIB)
    ws.copy("/f", "/g")
    ws.append("/f", b"more")
    ws.patch("/f", 10, b"patched")
    ws.remove("/g")
    site.clock.advance(GRACE_S)
    site.store.sweep()
    assert ws.read("/f") == b"1" * 10 + b"patched" + b"1" * (MIB - 17) + b"more"
    ws.remove("/f")
    site.clock.advance(GRACE_S)
    site.store.sweep()
    assert site.counts("contents", "strands", "chunks") == {
        "contents": 0, "strands": 0, "chunks": 0,
    }  # fmt: skip
    site.sound()


def test_what_a_broken_stream_left_is_reclaimed(site: Site) -> None:
    """A process that dies while it streams discards nothing: chunks are left that nothing holds."""
    ws = site.space()
    reached = threading.Event()

    def blocks() -> Iterator[bytes]:
        yield b"x" * 9 * MIB
        reached.set()
        raise KeyboardInterrupt

    staged = site.opened.catalog._database  # the process dies before it can discard
    original, dead = staged.write, threading.Event()
    staged.write = lambda *a, **k: 1 / 0 if dead.is_set() else original(*a, **k)  # type: ignore

    def dying() -> Iterator[bytes]:
        for block in blocks():
            yield block
            dead.set()

    with suppress(ZeroDivisionError, KeyboardInterrupt):
        ws.write("/f", dying())
    staged.write = original  # type: ignore[method-assign]
    assert site.counts("chunks")["chunks"] > 0
    site.sound()
    site.store.sweep()
    assert site.counts("chunks")["chunks"] > 0
    site.clock.advance(GRACE_S)
    site.store.sweep()
    assert site.counts("chunks", "strands") == {"chunks": 0, "strands": 0}
    assert not ws.exists("/f")
    site.sound()


def test_a_stream_that_stood_still_for_too_long_is_refused_whole(site: Site) -> None:
    ws = site.space()

    def blocks() -> Iterator[bytes]:
        yield b"1" * 5 * MIB
        site.clock.advance(GRACE_S)
        site.store.sweep()
        yield b"2" * 5 * MIB

    with pytest.raises(Unavailable):
        ws.write("/f", blocks())
    assert not ws.exists("/f")
    site.sound()
    site.clock.advance(GRACE_S)
    site.store.sweep()
    assert site.counts("chunks", "strands", "contents") == {
        "chunks": 0, "strands": 0, "contents": 0,
    }  # fmt: skip


def test_a_stream_does_not_go_on_with_what_the_sweep_has_begun_to_take(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "DISCARDED", 2)
    ws = site.space()

    def blocks() -> Iterator[bytes]:
        yield b"1" * 5 * MIB
        site.clock.advance(GRACE_S)
        assert site.store.sweep(steps=1).chunks == 2
        yield b"2" * 5 * MIB

    with pytest.raises(Unavailable):
        ws.write("/f", blocks())
    site.sound()
    assert not ws.exists("/f")


@pytest.mark.parametrize("verb", ["write", "append", "patch"])
def test_a_stream_that_waits_for_the_rest_of_its_batch_is_refused(site: Site, verb: str) -> None:
    from keelfs import ops

    ws = site.space()
    ws.write("/first", b"x")

    def slow() -> Iterator[bytes]:
        yield b"2"
        site.clock.advance(GRACE_S)
        site.store.sweep()

    large = iter([b"1" * 5 * MIB])
    first = {
        "write": ops.Write("/first", large),
        "append": ops.Append("/first", large),
        "patch": ops.Patch("/first", 0, large),
    }[verb]
    with pytest.raises(Unavailable):
        ws.batch([first, ops.Write("/second", slow())])
    assert ws.read("/first") == b"x"
    assert not ws.exists("/second")
    site.sound()


# -- trees, spaces, tenants


def test_a_large_tree_that_was_removed_goes_in_steps(site: Site) -> None:
    ws = site.space()
    with_links = [f"/big/{number % 7}/deep/{number}" for number in range(2500)]
    ws.batch([keelfs.ops.Write(path, b"x" * 10) for path in with_links])
    ws.link("/big/1/deep/1", "/alive")
    ws.remove("/big", recursive=True)
    assert ws.usage().nodes == 1
    site.sound()
    before = site.counts("nodes")["nodes"]
    most = 0
    while site.store.sweep(steps=1).more:
        after = site.counts("nodes")["nodes"]
        most, before = max(most, before - after), after
        site.sound()
    assert most <= 2100
    assert site.counts("nodes")["nodes"] == 4
    assert ws.stat("/alive").nlink == 1
    assert ws.read("/alive") == b"x" * 10


def test_a_deleted_space_leaves_nothing_and_its_neighbours_everything(site: Site) -> None:
    ws, other = site.space("s"), site.space("t")
    ws.write("/big", b"1" * MIB)
    ws.write("/f", b"1")
    ws.write("/f", b"2")
    ws.append("/keyed", b"x", key="k")
    ws.symlink("f", "/l")
    ws.link("/f", "/g")
    ws.snapshot("one")
    ws.trash("/big")
    twin = ws.fork("session", "twin")
    other.write("/mine", b"mine")
    before = {path: twin.read(path) for path in ("/f", "/g", "/keyed")}
    ws.delete()
    site.sound()
    while site.store.sweep(steps=1).more:
        site.sound()
    site.clock.advance(GRACE_S)
    site.store.sweep()
    site.sound()
    assert {path: twin.read(path) for path in before} == before
    assert other.read("/mine") == b"mine"
    assert site.counts("spaces", "snapshots", "requests", "trash") == {
        "spaces": 2, "snapshots": 0, "requests": 0, "trash": 0,
    }  # fmt: skip
    with pytest.raises(NotFound):
        ws.read("/f")


def test_a_deleted_tenant_leaves_no_row(site: Site) -> None:
    ws = site.space()
    ws.write("/f", b"1" * MIB)
    ws.snapshot("one")
    site.space(tenant="other").write("/f", b"other")
    site.store.tenant("acme").delete()
    again = site.space()
    assert not again.exists("/f")
    site.store.sweep()
    site.clock.advance(GRACE_S)
    site.store.sweep()
    site.sound()
    assert site.counts("tenants")["tenants"] == 2
    assert site.counts("chunks")["chunks"] == 0
    assert site.space(tenant="other").read("/f") == b"other"


# -- beside others


def test_two_sweeps_and_a_writer_at_once_count_every_row_once(site: Site) -> None:
    for number in range(6):
        doomed = site.space(f"doomed {number}")
        doomed.batch([keelfs.ops.Write(f"/{name}", b"x" * 2000) for name in range(300)])
        doomed.fork("session", f"twin {number}")
        doomed.snapshot("one")
        doomed.delete()
    ws = site.space("alive")
    errors: list[BaseException] = []

    def run(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    def write() -> None:
        for number in range(40):
            ws.write("/f", b"%d" % number)

    works = [site.store.sweep, site.store.sweep, write]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    site.store.sweep()
    site.sound()
    for number in range(6):
        assert len(site.space(f"twin {number}").list("/", limit=1000).items) == 300


def test_a_quiet_store_costs_no_transaction(site: Site) -> None:
    site.space().write("/f", b"x")
    swept = site.store.sweep(steps=1)
    assert not swept.more
    assert swept == keelfs.model.Swept()


def test_history_of_a_model_ages_alike() -> None:
    """The model forgets the same revisions at the same time."""
    clock = FixedClock()
    store = keelfs.open("memory:", clock=clock)
    ws = store.tenant("acme").space("session", "s")
    ws.set_limits(Limits(history_age_s=100, journal_age_s=100))
    ws.write("/f", b"1")
    clock.advance(1000)
    ws.write("/f", b"2")
    clock.advance(60)
    ws.write("/f", b"3")
    clock.advance(60)
    swept = store.sweep()
    assert (swept.expired_revisions, swept.expired_changes) == (1, 2)
    assert [kept.revision for kept in ws.history("/f")] == [3, 2]
