"""The power cut loses what it should and nothing else; bad writers are found, good ones pass."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import apsw
import pytest

from keelfs.testing.powerloss import (
    DAMAGES,
    Event,
    Log,
    Run,
    Survey,
    Verdict,
    images,
    record,
    survey,
)

CHANGES = 12
State = dict[int, bytes]


def _payload(number: int) -> bytes:
    return random.Random(number).randbytes(3000 + 977 * number % 9000)


def _states() -> list[State]:
    """Each change replaces two of four rows."""
    states: list[State] = [{}]
    for number in range(1, CHANGES + 1):
        pair = {number % 4: _payload(number), (number + 1) % 4: _payload(-number)}
        states.append(states[-1] | pair)
    return states


STATES = _states()


def _connect(path: Path, vfs: str | None, journal: str, synchronous: str) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=vfs)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA cache_size = 4; PRAGMA cache_spill = 4; PRAGMA mmap_size = 0")
    return connection


def _put(connection: apsw.Connection, rows: State) -> None:
    for key, data in rows.items():
        connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (key, data))


def _writer(journal: str, synchronous: str, *, split: bool = False):
    """Work that makes the changes; with `split`, each of them in two transactions."""

    def work(run: Run) -> None:
        path = run.directory / "db"
        connection = _connect(path, run.vfs, journal, synchronous)
        # A second connection of the same process shares the WAL's index with the first.
        other = _connect(path, run.vfs, journal, synchronous)
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")
        for number in range(1, CHANGES + 1):
            rows = {key: STATES[number][key] for key in (number % 4, (number + 1) % 4)}
            run.begin(number)
            halves = [{key: data} for key, data in rows.items()] if split else [rows]
            for half in halves:
                with connection:
                    _put(connection, half)
            run.ack(number)
            assert other.execute("SELECT count(*) FROM t").get == len(STATES[number])
            if number % 5 == 0 and journal == "WAL":
                other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        other.close()
        connection.close()

    return work


def _recover(directory: Path) -> State:
    if not (directory / "db").exists():
        return {}
    connection = apsw.Connection(str(directory / "db"))
    try:
        if connection.pragma("integrity_check") != "ok":
            raise apsw.CorruptError("integrity_check finds damage")
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").get:
            return {}
        return dict(connection.execute("SELECT k, v FROM t"))
    finally:
        connection.close()


def _survey(work, count: int = 400, *, lying: bool = False, seed: int = 5) -> Survey:
    return survey(record(work, lying=lying), STATES, _recover, random.Random(seed), count)


@pytest.mark.parametrize(
    ("journal", "synchronous"),
    [("WAL", "FULL"), ("DELETE", "EXTRA"), ("TRUNCATE", "FULL"), ("PERSIST", "FULL")],
)
def test_a_careful_writer_loses_nothing(journal: str, synchronous: str) -> None:
    result = _survey(_writer(journal, synchronous))
    assert result.sound, result.reasons
    assert result.counts == {Verdict.SOUND: 400}


@pytest.mark.parametrize(
    ("journal", "synchronous", "expected"),
    [
        ("WAL", "NORMAL", {Verdict.LOST}),
        ("DELETE", "FULL", {Verdict.LOST}),
        ("WAL", "OFF", {Verdict.LOST, Verdict.CORRUPT}),
        ("DELETE", "OFF", {Verdict.LOST, Verdict.CORRUPT}),
        ("MEMORY", "FULL", {Verdict.CORRUPT}),
    ],
)
def test_a_careless_writer_is_found(journal: str, synchronous: str, expected: set[Verdict]) -> None:
    result = _survey(_writer(journal, synchronous))
    assert expected <= set(result.counts), result
    if expected == {Verdict.LOST}:
        assert set(result.counts) == {Verdict.LOST, Verdict.SOUND}, result


def test_a_change_in_two_transactions_is_found() -> None:
    result = _survey(_writer("WAL", "FULL", split=True))
    assert set(result.counts) == {Verdict.SOUND, Verdict.NONATOMIC}, result


def test_a_disk_that_lies_about_syncs_is_found() -> None:
    result = _survey(_writer("WAL", "FULL"), lying=True)
    assert {Verdict.LOST, Verdict.CORRUPT} <= set(result.counts), result


def test_recovery_itself_may_be_cut_short() -> None:
    """Every image is opened over the recording VFS, and the power fails again meanwhile."""
    rng = random.Random(6)
    log = record(_writer("WAL", "FULL"))
    judged = 0
    for image in images(log, rng, 25):

        def reopen(run: Run, known: frozenset[int] = image.begun) -> None:
            connection = _connect(run.directory / "db", run.vfs, "WAL", "FULL")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            connection.close()

        again = record(reopen, start=image.directory)
        for second in images(again, rng, 6):
            found = _recover(second.directory)
            reached = [n for n in range(len(image.begun) + 1) if STATES[n] == found]
            assert reached, (image.cut, second.cut)
            assert reached[-1] >= len(image.acked), (image.cut, second.cut)
            judged += 1
    assert judged == 150


def test_what_the_disk_may_do_with_bytes_that_are_not_synced() -> None:
    """Each kind of damage does what its name says, and never touches what is safe."""
    safe, fresh = b"s" * 2048, b"f" * 2048
    log = Log({"f": safe}, [Event("write", "f", 1024, fresh), Event("truncate", "f", 2560)])
    found = {damage: set[bytes]() for damage in DAMAGES}
    for image in images(log, random.Random(7), 3000):
        if image.cut == 2:
            found[image.damage].add((image.directory / "f").read_bytes())
    written = safe[:1024] + fresh
    assert found["drop"] == {safe}
    assert found["all"] == {written[:2560]}
    assert found["prefix"] == {safe, written, written[:2560]}
    assert found["subset"] == {safe, written, written[:2560], safe + bytes(512)}
    assert len(found["torn"]) > 10
    for data in found["torn"] | found["garbage"]:
        assert data[:1024] == safe[:1024]
    torn, garbled = (
        {data[at : at + 512] for data in found[damage] for at in range(0, len(data), 512)}
        for damage in ("torn", "garbage")
    )
    assert torn == {b"s" * 512, b"f" * 512, bytes(512)}
    assert torn < garbled


def test_names_are_safe_when_a_new_file_or_the_directory_is_synced() -> None:
    def found(*events: Event) -> set[tuple[tuple[str, bytes], ...]]:
        log = Log({"old": b"1"}, list(events))
        return {
            tuple(sorted((path.name, path.read_bytes()) for path in image.directory.iterdir()))
            for image in images(log, random.Random(8), 400)
            if image.cut == len(events) and image.damage != "garbage"
        }

    old, new = ("old", b"1"), ("new", b"x")
    written = [Event("create", "new"), Event("write", "new", 0, b"x")]
    assert found(*written) == {(old,), (("new", b""), old), (new, old)}
    assert found(*written, Event("sync", "new")) == {(new, old)}
    assert found(Event("delete", "old")) == {(), (old,)}
    assert found(Event("delete", "old", 1)) == {()}
    assert found(Event("delete", "old"), *written, Event("sync", "new")) == {(new,)}


def test_threads_may_work_on_one_recorded_database() -> None:
    """Marks are sets: whatever was acknowledged by any thread must be there."""

    def work(run: Run) -> None:
        path = run.directory / "db"
        first = _connect(path, run.vfs, "WAL", "FULL")
        first.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")

        def write(numbers: range) -> None:
            connection = _connect(path, run.vfs, "WAL", "FULL")
            connection.set_busy_timeout(20_000)
            for number in numbers:
                run.begin(number)
                connection.execute("INSERT INTO t VALUES (?, ?)", (number, _payload(number)))
                run.ack(number)
            connection.close()

        threads = [threading.Thread(target=write, args=[range(n, 60, 3)]) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first.close()

    log = record(work)
    for image in images(log, random.Random(9), 150):
        found = _recover(image.directory)
        assert image.acked <= set(found) <= image.begun
        assert all(data == _payload(number) for number, data in found.items())
