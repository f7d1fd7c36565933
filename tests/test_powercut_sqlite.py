"""SQLite and the power cut: images of each moment, none of which has lost or torn anything."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import keelfs
from keelfs.clock import SystemClock
from keelfs.memory import MemorySpace
from keelfs.model import UNLIMITED
from keelfs.ops import Once
from keelfs.store.catalog import SqlCatalog
from keelfs.store.sqlite import SqliteDatabase
from keelfs.testing import workload
from keelfs.testing.exercises import EXERCISES, Exercise, prepare
from keelfs.testing.powerloss import (
    Log,
    Run,
    Survey,
    Verdict,
    boundaries,
    images,
    judge,
    record,
    survey,
)
from keelfs.testing.workload import picture, space_of

CHANGES = 30
MUTATING = {name: each for name, each in EXERCISES.items() if each.mutates}
Picture = dict[str, Any]


def _recover(directory: Path) -> Picture:
    """What a store opened on an image holds; it must be sound."""
    with keelfs.open(f"sqlite:///{directory / 'db'}") as store:
        report = store.check()
        assert report.ok, report.findings[:3]
        return picture(space_of(store).perform)


# -- a long life


@pytest.fixture(scope="module")
def states() -> list[Picture]:
    """What the script has made after each of its operations."""
    script = workload.Script(31)
    found = [picture(script.space.perform)]
    for _ in range(CHANGES):
        script.next()
        found.append(picture(script.space.perform))
    return found


def _life(opened: Callable[[Run], keelfs.Store]) -> Callable[[Run], None]:
    def work(run: Run) -> None:
        script = workload.Script(31)
        with opened(run) as store:
            space = space_of(store)
            for number in range(1, CHANGES + 1):
                op = script.next()
                run.begin(number)
                space.perform(op)
                run.ack(number)

    return work


def _with(durability: str) -> Callable[[Run], keelfs.Store]:
    return lambda run: keelfs.open(
        f"sqlite:///{run.directory / 'db'}", vfs=run.vfs, durability=durability
    )


class Hasty(SqliteDatabase):
    """Syncs nothing, whatever it is asked for."""

    def _connect(self) -> apsw.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _begin(self, durable: bool) -> None:
        super()._begin(True)


def _hasty(run: Run) -> keelfs.Store:
    database = Hasty(str(run.directory / "db"), vfs=run.vfs)
    database.migrate()
    return keelfs.Store(SqlCatalog(database, SystemClock(), UNLIMITED, 3600.0))


def _surveyed(work: Callable[[Run], None], states: list[Picture], count: int) -> Survey:
    return survey(record(work), states, _recover, random.Random(32), count)


def test_full_durability_loses_nothing(states: list[Picture]) -> None:
    result = _surveyed(_life(_with("full")), states, 150)
    assert result.sound, result.reasons
    assert result.counts == {Verdict.SOUND: 150}


def test_relaxed_durability_loses_the_last_writes_and_nothing_else(states: list[Picture]) -> None:
    result = _surveyed(_life(_with("relaxed")), states, 60)
    assert set(result.counts) == {Verdict.SOUND, Verdict.LOST}, result.reasons


def test_a_store_that_does_not_sync_is_convicted(states: list[Picture]) -> None:
    result = _surveyed(_life(_hasty), states, 120)
    assert {Verdict.LOST, Verdict.CORRUPT} <= set(result.counts), result


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(8))
def test_every_moment_of_a_long_life_loses_nothing(seed: int, states: list[Picture]) -> None:
    log = record(_life(_with("full")))
    count = 2 * len(log.events)
    result = survey(log, states, _recover, random.Random(100 + seed), count)
    assert result.counts == {Verdict.SOUND: count}, result.reasons


def test_recovery_may_be_cut_short_as_well(states: list[Picture]) -> None:
    """Each image is opened on a disk that fails again while the store recovers and goes on."""
    rng, judged = random.Random(33), 0

    def recover_and_go_on(run: Run) -> None:
        with _with("full")(run) as store:
            assert store.check().ok
            store.tenant("other").space("session", "s").write("/later", "later")

    for first in images(record(_life(_with("full"))), rng, 10):
        again = record(recover_and_go_on, start=first.directory)
        for second in images(again, rng, 5, among=boundaries(again)):
            found = _recover(second.directory)
            reached = [n for n in range(len(first.begun) + 1) if states[n] == found]
            assert reached, (first.cut, first.damage, second.cut, second.damage)
            assert reached[-1] >= len(first.acked), (first.cut, second.cut)
            judged += 1
    assert judged == 50


def test_the_first_opening_may_be_cut_short() -> None:
    """Whatever is left of a store half made, opening it again makes one that works."""

    def work(run: Run) -> None:
        _with("full")(run).close()

    log = record(work)
    moments = boundaries(log)
    for image in images(log, random.Random(34), 6 * len(moments), among=moments):
        with keelfs.open(f"sqlite:///{image.directory / 'db'}") as store:
            space_of(store).write("/a", "a")
            assert store.check().ok


# -- every verb


class Prepared:
    """A directory with a prepared store, and what it holds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with keelfs.open(f"sqlite:///{directory / 'db'}") as store:
            prepare(space_of(store).perform)
        self.before = _recover(directory)

    def after(self, exercise: Exercise) -> Picture:
        """What the memory model makes of it."""
        space = MemorySpace()
        prepare(space.perform)
        assert picture(space.perform) == self.before
        space.perform(exercise.op(space.perform))
        return picture(space.perform)

    def record(self, exercise: Exercise) -> Log:
        def work(run: Run) -> None:
            with _with("full")(run) as store:
                space = space_of(store)
                op = exercise.op(space.perform)
                run.begin(1)
                space.perform(op)
                run.ack(1)

        return record(work, start=self.directory)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("prepared"))


def _judged(prepared: Prepared, exercise: Exercise, each: int, seed: int) -> None:
    after = prepared.after(exercise)
    log = prepared.record(exercise)
    moments = boundaries(log)
    rng = random.Random(seed)
    for image in images(log, rng, each * len(moments), among=moments):
        verdict, reason = judge(image, [prepared.before, after], _recover)
        assert verdict is Verdict.SOUND, (image.cut, image.damage, verdict, reason)
        if exercise.verb is Once:
            # Repeated after the cut, it is done exactly once, whether it was kept or not.
            with keelfs.open(f"sqlite:///{image.directory / 'db'}") as store:
                space = space_of(store)
                space.perform(exercise.op(space.perform))
                assert picture(space.perform) == after


@pytest.mark.parametrize("name", MUTATING)
def test_a_verb_is_wholly_kept_or_not_at_all(prepared: Prepared, name: str) -> None:
    _judged(prepared, MUTATING[name], 1, 35)


@pytest.mark.torture
@pytest.mark.parametrize("name", MUTATING)
def test_a_verb_survives_every_damage(prepared: Prepared, name: str) -> None:
    _judged(prepared, MUTATING[name], 30, 36)


def test_a_verb_in_two_transactions_is_convicted(prepared: Prepared) -> None:
    exercise = MUTATING["batch"]
    after = prepared.after(exercise)

    def work(run: Run) -> None:
        with _with("full")(run) as store:
            space = space_of(store)
            run.begin(1)
            for op in exercise.op(space.perform).ops:
                space.perform(op)
            run.ack(1)

    log = record(work, start=prepared.directory)
    result = survey(
        log, [prepared.before, after], _recover, random.Random(37), 30, among=boundaries(log)
    )
    assert result.counts[Verdict.NONATOMIC], result
