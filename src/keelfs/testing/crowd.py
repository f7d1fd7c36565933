"""Many processes with many threads each, let loose on one store at the same moment.

A race says what everybody does and what must be true when all are done. A crowd runs it: processes
of their own that have nothing in common but the database, each of which opens the store once and
shares it among its threads. What a member raises is a violation like any other, so a race names
the refusals that it allows and no `StoreBusy` can hide among them. After every race the whole
store is checked.

A race can be run by a crowd that is careless in one way (`keelfs.testing.careless`): one that finds
nothing wrong then proves nothing.

Who calls: the concurrency tests. The races themselves lie in `keelfs.testing.races`.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from msgspec import Struct

import keelfs
from keelfs.testing.careless import CARELESS, Careless

#: How long the slowest process may take to start; only a broken one reaches it.
GATHERING_S: Final = 120.0


class Member:
    """One thread of one process: who it is, and what it works on."""

    def __init__(
        self, store: keelfs.Store, number: int, process: int, over: Any, careless: Careless
    ) -> None:
        self.store = store
        #: Counted through all processes.
        self.number = number
        self.process = process
        self.rng = random.Random(number)
        self._over = over
        self._careless = careless

    def space(self, key: str = "race") -> keelfs.Workspace:
        """A space of the tenant in which the race takes place."""
        space = self.store.tenant("crowd").space("session", key)
        return keelfs.Workspace(self._careless.handler(space.handler))

    @property
    def over(self) -> bool:
        """Whether somebody has ended the race, or failed."""
        return bool(self._over.is_set())

    def end(self) -> None:
        """Tells those who go on until the race is over."""
        self._over.set()


class Race(Struct, frozen=True, kw_only=True):
    """What all members do at once."""

    #: How many of the threads of each process take part.
    threads: int = 8

    def prepare(self, store: keelfs.Store) -> None:
        """Makes what the members find when they come."""

    def run(self, member: Member) -> Any:
        """What one member does; the answer is handed to `violations`."""
        raise NotImplementedError

    def violations(self, store: keelfs.Store, answers: Sequence[Any]) -> Iterator[str]:
        """What should not be, given what each member says. The store has no members any more."""
        raise NotImplementedError


class Result(Struct, frozen=True):
    """How a race went."""

    answers: list[Any]
    violations: list[str]


class _Task(Struct, frozen=True):
    """A race as one process is told about it."""

    url: str
    process: int
    race: Race
    careless: str
    settings: dict[str, Any]


class Crowd:
    """Processes that wait for races; a context manager. They are started by the first race."""

    #: Every race sees the same crowd: what is proved is proved for this many.
    processes: ClassVar[int] = 8

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._over = context.Event()
        meeting = context.Barrier(self.processes)
        self._pool = ProcessPoolExecutor(
            self.processes, mp_context=context, initializer=_arrive,
            initargs=(meeting, self._over),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._pool.shutdown(cancel_futures=True)

    def run(self, url: str, race: Race, careless: str = "not", **settings: Any) -> Result:
        """Runs a race; `settings` are those of every process that opens the store."""
        self._over.clear()
        with keelfs.open(url, **settings) as store:
            race.prepare(store)
        # Each task waits for all others to have arrived, so every process is given one.
        tasks = [
            self._pool.submit(_take_part, _Task(url, process, race, careless, settings))
            for process in range(self.processes)
        ]
        outcomes = [outcome for task in tasks for outcome in task.result()]
        found = [failure for _, failure in outcomes if failure is not None]
        answers = [answer for answer, failure in outcomes if failure is None]
        with keelfs.open(url, **settings) as store:
            if not found:
                found += race.violations(store, answers)
            found += [f"check() finds: {each.message}" for each in store.check().findings]
        return Result(answers, found)


class _Here:
    """What a process of the crowd shares with the others."""

    meeting: ClassVar[Any]
    over: ClassVar[Any]


def _arrive(meeting: Any, over: Any) -> None:
    _Here.meeting, _Here.over = meeting, over


def _take_part(task: _Task) -> list[tuple[Any, str | None]]:
    """One process's part: the answer or the failure of each of its threads."""
    careless = CARELESS[task.careless]
    with careless.store(), keelfs.open(task.url, **task.settings) as store:
        first = task.process * task.race.threads
        members = [
            Member(store, first + i, task.process, _Here.over, careless)
            for i in range(task.race.threads)
        ]
        outcomes: list[tuple[Any, str | None]] = [(None, "it has not come to an end")] * len(
            members
        )

        def act(i: int) -> None:
            try:
                outcomes[i] = (task.race.run(members[i]), None)
            except Exception as error:
                # Who waits for this member to finish something would wait for ever.
                _Here.over.set()
                told = "".join(traceback.format_exception(error)[-12:])
                outcomes[i] = (None, f"member {members[i].number}: {error!r}\n{told}")

        threads = [threading.Thread(target=act, args=[i]) for i in range(len(members))]
        _Here.meeting.wait(GATHERING_S)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return outcomes
