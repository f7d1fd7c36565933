"""The checker finds each damage and nothing else, and mends it and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import keelfs
from damages import DAMAGES, Damage, Place
from databases import ENGINES, Opened
from keelfs import ops
from keelfs.errors import KeelError
from keelfs.model import ANY, Kind, Principal, Report
from keelfs.path import parse
from keelfs.store.database import Tx
from keelfs.store.fsck import Checker
from keelfs.store.fsck.checker import INVARIANTS
from keelfs.store.fsck.mending import BEYOND_REPAIR, MENDERS
from keelfs.store.fsck.ownerless import OWNERLESS
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, Stream, prepare
from keelfs.testing.portrait import entries

#: What no report may hold: names, and words out of files, of the prepared space.
SECRETS = re.compile(r"late|hard|thrown|away|nowhere|ghost|empty/|/d\b|rubbish|deep|first\b|third")


@pytest.fixture(scope="module")
def opened_as(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Opened]]:
    made: dict[str, Opened] = {}

    def opened(engine: str) -> Opened:
        if engine not in made:
            if engine == "sqlite":
                url = f"sqlite:///{tmp_path_factory.mktemp('fsck') / 'store.db'}"
            else:
                cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
                url = cluster.create_database()
            made[engine] = Opened(engine, url)
            unguarded(made[engine])
        return made[engine]

    yield opened
    for each in made.values():
        each.close()


@pytest.fixture(params=ENGINES)
def opened(request: pytest.FixtureRequest, opened_as: Callable[[str], Opened]) -> Opened:
    return opened_as(request.param)


def unguarded(opened: Opened) -> None:
    """Lets `execute` do what the database itself would refuse."""
    if opened.engine == "sqlite":
        opened.execute("PRAGMA busy_timeout = 30000")
        opened.execute("PRAGMA foreign_keys = OFF")
    else:
        opened.execute("SET session_replication_role = replica")


def check(place: Place, *, repair: bool = False) -> Report:
    catalog = place.opened.catalog
    checker = Checker(place.opened.database, catalog._clock, repair)
    return checker.report([(place.tenant, "it")])


def names(report: Report, *, repaired: bool = False) -> set[str]:
    return {each.invariant for each in report.findings if each.repaired == repaired}


def told(place: Place) -> dict[str, bytes | str]:
    """What each path of a space reads as; how it fails, where it does."""
    found: dict[str, bytes | str] = {}
    pending = ["/"]
    while pending:
        above = pending.pop()
        for entry in entries(place.home.perform, above):
            path = f"{above.rstrip('/')}/{entry.name}"
            found[path] = entry.stat.kind.value
            if entry.stat.kind is Kind.DIRECTORY:
                pending.append(path)
            if entry.stat.kind in {Kind.FILE, Kind.SYMLINK}:
                try:
                    found[path] = place.home.perform(ops.Read(path))
                except KeelError as error:
                    found[path] = type(error).__name__
    return found


# -- each damage


def test_every_invariant_has_its_damage() -> None:
    names_ = [each.name for each in INVARIANTS]
    assert len(names_) == len(set(names_))
    assert {each.invariant for each in DAMAGES.values()} == set(names_)


def test_every_invariant_is_mended_or_said_to_be_beyond_repair() -> None:
    mended = {each.invariant for each in MENDERS}
    assert mended | set(BEYOND_REPAIR) == {each.name for each in INVARIANTS}
    assert not mended & set(BEYOND_REPAIR)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_mended(name: str, opened: Opened) -> None:
    damage = DAMAGES[name]
    place = Place(opened)
    before, rows = told(place), everything(place)
    damage.plant(place)

    found = check(place)
    assert names(found) == {damage.invariant} | damage.also
    assert not names(found, repaired=True)

    mended = check(place, repair=True)
    assert names(mended) == damage.left, mended.findings
    if not damage.left:
        assert names(mended, repaired=True) & ({damage.invariant} | damage.also)
    again = check(place, repair=True)
    assert (names(again), names(again, repaired=True)) == (damage.left, set())
    for report in (found, mended):
        assert not [each.message for each in report.findings if SECRETS.search(each.message)]

    after = everything(place)
    assert {table for table in rows if rows[table] != after[table]} <= {*damage.differs}
    left_alone(damage, before, told(place))
    goes_on(place, damage)


def everything(place: Place) -> dict[str, Any]:
    rows: dict[str, Any] = dict(place.opened.rows(place.tenant))
    return rows


def left_alone(damage: Damage, before: dict[str, Any], after: dict[str, Any]) -> None:
    """What the damage did not touch reads as before; what was cut off is where it can be found."""
    kept = {path: data for path, data in before.items() if path not in damage.gone}
    assert {path: after.get(path) for path in kept} == kept
    lost = {path: data for path, data in after.items() if path.startswith("/lost+found/#")}
    files = [data for data in lost.values() if isinstance(data, bytes)]
    for data in damage.found:
        assert data in files
    assert bool(lost) or not damage.found


def goes_on(place: Place, damage: Damage) -> None:
    """A mended space is one that can be worked in."""
    place.home.perform(ops.Write("/new/file", b"works"))
    place.home.perform(ops.Write("/a", b"again"))
    place.home.perform(ops.TakeSnapshot("after"))
    place.home.perform(ops.Remove("/new", recursive=True))
    assert names(check(place)) <= damage.left


# -- what is more than one row


def test_what_is_lost_is_found_under_its_number(opened: Opened) -> None:
    place = Place(opened)
    node = place.at("/d")
    DAMAGES["a directory without a name"].plant(place)
    check(place, repair=True)
    assert place.home.perform(ops.Read(f"/lost+found/#{node}/g")) == b"other"
    assert place.home.perform(ops.Read("/hard")) == b"other"


def test_a_lost_directory_keeps_the_names_in_it(opened: Opened) -> None:
    place = Place(opened)
    node = place.at("/d")
    DAMAGES["a directory without its row"].plant(place)
    check(place, repair=True)
    assert place.home.perform(ops.Read(f"/lost+found/#{node}/g")) == b"other"


def test_what_is_in_the_way_stays(opened: Opened) -> None:
    place = Place(opened)
    place.home.perform(ops.Write("/lost+found", b"mine"))
    node = place.at("/late")
    DAMAGES["a file without a name"].plant(place)
    check(place, repair=True)
    assert place.home.perform(ops.Read("/lost+found")) == b"mine"
    assert place.home.perform(ops.Read(f"/lost+found.2/#{node}")) == b"new"
    assert check(place).ok


def test_an_orphan_in_an_image_comes_back_with_the_snapshot(opened: Opened) -> None:
    place = Place(opened)
    image = place.image()
    place.run(f"DELETE FROM entries WHERE space = {image} AND name = 'a'")
    assert {"named", "children", "image-size"} <= names(check(place))
    assert not names(check(place, repair=True))
    place.home.perform(ops.Rollback("kept"))
    files = [data for path, data in told(place).items() if path.startswith("/lost+found/")]
    assert files == [b"second"]
    assert check(place).ok


def test_an_image_of_nobody_becomes_a_space(opened: Opened) -> None:
    place = Place(opened)
    DAMAGES["an image of nobody"].plant(place)
    check(place, repair=True)
    catalog = opened.catalog
    (key,) = [key for kind, key in catalog.spaces(place.tenant) if kind == "lost+found"]
    home = catalog.open_space(place.tenant, "lost+found", key, Principal(), False)
    assert home.perform(ops.Read("/a")) == b"second"
    home.perform(ops.Write("/a", b"third"))
    assert check(place).ok


def test_what_was_trashed_from_nowhere_can_be_restored(opened: Opened) -> None:
    place = Place(opened)
    DAMAGES["nothing says what was trashed"].plant(place)
    check(place, repair=True)
    (item,) = place.home.perform(ops.ListTrash()).items
    place.home.perform(ops.Untrash(item.id))
    assert b"rubbish" in told(place).values()
    assert check(place).ok


def test_a_snapshot_is_a_new_beginning_for_the_journal(opened: Opened) -> None:
    place = Place(opened)
    DAMAGES["a journal that leads elsewhere"].plant(place)
    assert names(check(place)) == {"replay"}
    place.home.perform(ops.TakeSnapshot("now"))
    assert check(place).ok


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lost_tenant_can_be_opened_again(engine: str, sqlite_url: str, postgres_url: str) -> None:
    opened = Opened(engine, sqlite_url if engine == "sqlite" else postgres_url)
    unguarded(opened)
    place = Place(opened)
    opened.execute(f"DELETE FROM tenants WHERE id = {place.tenant}")
    assert names(opened.catalog.check(False)) == {OWNERLESS}
    assert OWNERLESS in names(opened.catalog.check(True), repaired=True)
    tenant = opened.catalog.open_tenant(f"lost+found {place.tenant}", False)
    assert tenant == place.tenant
    assert opened.space(tenant).perform(ops.Read("/late")) == b"new"
    assert opened.catalog.check(True).ok
    opened.close()


def test_all_at_once(opened: Opened) -> None:
    """Several kinds of damage in one space, and a second repair that finds nothing to do."""
    place = Place(opened)
    for name in ("a directory in itself", "a file without a name", "a directory without its row",
                 "bytes miscounted", "holders miscounted", "an entry that leads nowhere",
                 "a strand is lost", "nothing says what was trashed"):  # fmt: skip
        if name == "holders miscounted":
            place.set_content("/big", "refs = 9")
        else:
            DAMAGES[name].plant(place)
    assert not names(check(place, repair=True))
    assert check(place, repair=True).ok
    assert b"new" in told(place).values()


def test_many_orphans_are_mended_in_several_transactions(opened: Opened) -> None:
    place = Place(opened)
    place.home.perform(ops.Batch(tuple(ops.Write(f"/m/{n:03}", b"%d" % n) for n in range(450))))
    place.run(f"DELETE FROM entries WHERE {place.here()} AND parent = {place.at('/m')}")
    report = check(place)
    assert len([each for each in report.findings if each.invariant == "named"]) == 100
    assert not names(check(place, repair=True))
    found = sorted(entry.name for entry in entries(place.home.perform, "/lost+found"))
    assert len(found) == 450
    assert check(place).ok
    assert place.home.perform(ops.GetUsage("/lost+found")).nodes == 450


# -- sound stores

#: What leaves more behind than a file and its name.
BUSY = (
    "write a stream", "append to a strand", "patch large", "truncate to longer", "link",
    "remove one of two names", "move a tree", "copy a tree", "trash a tree", "untrash",
    "take a snapshot", "drop a snapshot", "roll back", "undo a move", "batch with a stream",
    "once",
)  # fmt: skip


def test_a_busy_store_is_sound(opened: Opened) -> None:
    """With everything in use, and whatever is half done."""
    place = Place(opened)
    home = place.home
    for name in BUSY:
        other = opened.space(place.tenant, key=name)
        prepare(other.perform)
        other.perform(EXERCISES[name].op(other.perform))
    fork = home.fork("session", "fork", None)
    home.fork("session", "fork of a snapshot", "kept")
    fork.perform(ops.Write("/a", b"forked"))
    opened.space(place.tenant, key="copy a tree").delete()
    home.perform(ops.Batch(tuple(ops.Write(f"/m/{n}", b"x") for n in range(1100))))
    home.perform(ops.Remove("/m", recursive=True))
    volume: Any = home
    volume._ready(Stream())
    assert check(place).ok
    for _step in range(4):
        opened.catalog.sweep(1)
        assert check(place).ok
    home.perform(ops.Rollback("kept"))
    home.perform(ops.Untrash(home.perform(ops.ListTrash()).items[0].id))
    report = check(place, repair=True)
    assert report.ok, report.findings
    assert report.spaces > len(BUSY)
    assert report.nodes > 100
    assert report.contents > 100


def test_a_linked_file_that_comes_back_from_an_unknown_trash(opened: Opened) -> None:
    """A journal that begins after a name was trashed cannot know that it is another's."""
    place = Place(opened)
    home = place.home
    home.perform(ops.Link("/a", "/other"))
    item = home.perform(ops.Trash("/other"))
    home.perform(ops.TakeSnapshot("between"))
    home.perform(ops.Untrash(item.id))
    home.perform(ops.Write("/other", b"by another name"))
    assert check(place).ok


@pytest.mark.parametrize("engine", ENGINES)
def test_what_came_from_another_space(engine: str, sqlite_url: str, postgres_url: str) -> None:
    with keelfs.open(sqlite_url if engine == "sqlite" else postgres_url) as store:
        tree = store.tenant("acme").agent_tree(session="s", agent="a", user="u")
        for text in ("one", "two"):
            tree.write("/f", text)
        tree.write("/d/e/f", "x")
        tree.transfer("/f", "/.agent/f")
        tree.transfer("/d", "/.agent/d", recursive=True)
        tree.write("/.agent/f", "three")
        tree.write("/.agent/d/e/g", "x")
        tree.move("/.agent/d/e", "/.agent/e")
        assert store.check().findings == []


def test_names_that_came_from_another_space_are_not_known(opened: Opened) -> None:
    """Its own journal does not say what it holds."""
    place = Place(opened)
    home, other = place.home, opened.space(place.tenant, key="other")
    other.perform(ops.Write("/t/a", b"1"))
    other.perform(ops.Write("/t/a", b"2"))
    other.perform(ops.Link("/t/a", "/t/b"))

    def work(tx: Tx) -> None:
        source, view = other.writing(tx), home.writing(tx)
        view.receive(source, parse("/t"), parse("/came"), False, True)
        view.receive(source, parse("/t/a"), parse("/file"), False, True)
        view.scope.flush()
        source.scope.flush()

    opened.database.write(place.tenant, work)
    assert check(place).ok
    home.perform(ops.Write("/file", b"3"))
    home.perform(ops.Move("/came/a", "/out"))
    home.perform(ops.Write("/out", b"4"))
    home.perform(ops.Write("/came/b", b"5"))
    assert home.perform(ops.Read("/out")) == b"5"
    assert check(place).ok


def test_a_journal_that_has_aged(opened: Opened) -> None:
    place = Place(opened)
    place.run(f"DELETE FROM changes WHERE {place.here()} AND seq < 5")
    assert check(place).ok
    place.home.perform(ops.DropSnapshot("kept"))
    place.home.perform(ops.Write("/a", b"on"))
    assert check(place).ok


def test_repair_beside_writers(opened: Opened) -> None:
    """Nobody is refused and nothing is lost while damage comes and goes."""
    place = Place(opened)
    stop, errors = threading.Event(), list[BaseException]()
    written = [0, 0]

    def write(who: int) -> None:
        try:
            while not stop.is_set():
                written[who] += 1
                place.home.perform(ops.Append(f"/by/{who}", b".", ANY))
                place.home.perform(ops.Write(f"/by/{who}-{written[who] % 5}/x", b"y"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    try:
        for name in ("a file without a name", "a directory in itself", "entries miscounted",
                     "let go and used", "users miscounted", "levels forgotten"):  # fmt: skip
            DAMAGES[name].plant(place)
            check(place, repair=True)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert check(place).ok
    for who in range(2):
        assert len(place.home.perform(ops.Read(f"/by/{who}"))) == written[who]


#: What the check of a tree may grow by, whatever it finds.
GREW_AT_MOST = 96 * 2**20
MEASURED = """
import re, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from databases import Opened

def most():
    # Unlike what getrusage says, this begins anew with the program.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

opened = Opened({engine!r}, {url!r})
before = most()
report = opened.catalog.check(False)
print(len(report.findings), report.nodes, (most() - before) * 1024)
opened.close()
"""


def grown(opened: Opened, directories: int) -> tuple[int, int]:
    """What a check of a large tree finds, and by how many bytes the process grows that asks."""
    home = opened.space(opened.tenant(), key="large")
    names_ = [f"/t/0/a file of some length, number {n}" for n in range(1000)]
    home.perform(ops.Batch(tuple(ops.Write(name, name.encode()) for name in names_)))
    for n in range(1, directories):
        home.perform(ops.Copy("/t/0", f"/t/{n}", recursive=True))
    program = MEASURED.format(
        tests=str(Path(__file__).parent), engine=opened.engine, url=opened.url
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as child:
        written = 0
        while child.poll() is None:
            home.perform(ops.Append("/log", b"."))
            written += 1
        findings, nodes, bytes_ = map(int, child.communicate()[0].split())
    assert written > 1
    assert nodes > directories * 1000
    return findings, bytes_


@pytest.mark.parametrize("engine", ENGINES)
def test_a_check_beside_a_writer(engine: str, sqlite_url: str, postgres_url: str) -> None:
    opened = Opened(engine, sqlite_url if engine == "sqlite" else postgres_url)
    assert grown(opened, 3)[0] == 0
    opened.close()


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_tree_is_checked_in_bounded_memory(
    engine: str, sqlite_url: str, postgres_url: str
) -> None:
    opened = Opened(engine, sqlite_url if engine == "sqlite" else postgres_url)
    findings, bytes_ = grown(opened, 200)
    print(f"\n{engine}: a check of 200,000 nodes grows by {bytes_ / 2**20:.0f} MiB")
    assert findings == 0
    assert bytes_ < GREW_AT_MOST
    opened.close()


def test_two_repairs_at_once(opened: Opened) -> None:
    place = Place(opened)
    for name in ("a file without a name", "holders miscounted", "entries miscounted"):
        if name == "holders miscounted":
            place.set_content("/big", "refs = 9")
        else:
            DAMAGES[name].plant(place)
    threads = [threading.Thread(target=check, args=(place,), kwargs={"repair": True})
               for _ in range(2)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert check(place).ok
    assert [data for path, data in told(place).items() if path.startswith("/lost+found/")] == [
        b"new"
    ]
