"""PostgreSQL killed, its clients killed, the line between them cut: nothing acknowledged is lost.

What a client was told is there, whole and once, and nothing else is; what it could not be told is
there whole or not at all, and a retry under the same key ends the doubt.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import keelfs
from keelfs import ops
from keelfs.errors import InDoubt
from keelfs.model import Limits
from keelfs.ops import Append, Changes, GetUsage, ListTrash, Once, Op
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, Exercise, prepare
from keelfs.testing.killer import Killed, Writer, rounds
from keelfs.testing.portrait import OWN_FIELDS, portrait, without
from keelfs.testing.tcp_counter import Relay
from played import Played

#: Clients that write while their server dies, each in a space of its own.
WRITERS = 3
#: Attempts to catch a careless client; each round catches most of them.
ATTEMPTS = 40


# -- the server dies


def _torment(cluster: PostgresCluster, count: int, seed: int, *options: str) -> int:
    """Kills the server again and again; how often a client was in the middle of a change."""
    url, rng = cluster.create_database(f"torment_{seed}"), random.Random(seed)
    games = [Played(url, seed + i, *options, space=f"of {i}") for i in range(WRITERS)]
    for number in range(count):
        writers = [Writer(game.spawn(number)) for game in games]
        try:
            for writer in writers:
                writer.wait_for(rng.randint(2, 25))
            if rng.random() < 0.5:
                cluster.kill9()
            else:
                cluster.stop("immediate")
        finally:
            for writer in writers:
                writer.kill9()
        cluster.start()
        for game, writer in zip(games, writers, strict=True):
            game.verify(writer.killed(number))
    assert min(game.at for game in games) > count
    return sum(game.inside for game in games)


def test_a_killed_server_loses_nothing_acknowledged() -> None:
    with PostgresCluster() as cluster:
        assert _torment(cluster, 2, 31), "no crash hit an operation under way"


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 400, 100))
def test_a_server_killed_forty_times_loses_nothing_acknowledged(seed: int) -> None:
    with PostgresCluster() as cluster:
        assert _torment(cluster, 40, seed)


def test_what_is_not_synced_is_lost_and_the_loss_is_seen() -> None:
    """A control: "relaxed" gives up the last moments before a crash of the server, and no more."""
    with PostgresCluster(settings={"wal_writer_delay": "10000ms"}) as cluster:
        with pytest.raises(AssertionError, match="LOST"):
            _torment(cluster, ATTEMPTS, 32, "--durability=relaxed")


# -- a client dies


def _murder(url: str, count: int, seed: int, *options: str) -> Played:
    played = Played(url, seed, *options)

    def verify(killed: Killed) -> None:
        _wait_for_servants(url)
        played.verify(killed)

    rounds(count, played.spawn, verify, seed=seed)
    return played


def _wait_for_servants(url: str) -> None:
    """Returns when no process of the server works for a client that is dead."""
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url, autocommit=True) as look:
        while look.execute(others).fetchone() != (0,):
            pass


def test_a_killed_client_loses_nothing_acknowledged(postgres_url: str) -> None:
    played = _murder(postgres_url, 5, 41)
    assert played.at > 20
    assert played.inside, "no kill hit an operation under way"


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(5))
def test_a_client_killed_forty_times_loses_nothing(postgres_url: str, seed: int) -> None:
    assert _murder(postgres_url, 40, seed).inside


@pytest.mark.parametrize(
    ("careless", "told"),
    [
        ("early", "LOST"),
        # The kill has to fall into one of its rare batches.
        pytest.param("pieces", "NONATOMIC", marks=pytest.mark.torture),
    ],
)
def test_a_careless_client_is_convicted(postgres_url: str, careless: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        _murder(postgres_url, ATTEMPTS, 42, f"--careless={careless}")


# -- the line is cut


class Line:
    """A store behind a relay, and the same store seen past it."""

    def __init__(self, url: str, relay: Relay) -> None:
        self.url, self.relay = url, relay
        self.direct = keelfs.open(url)
        self.cut = keelfs.open(relay.url, pool_size=1)
        self._spaces = 0

    def fresh(self) -> tuple[keelfs.Space, keelfs.Space]:
        """One prepared space, behind the relay and past it."""
        self._spaces += 1
        spaces = [
            store.tenant("line").space("session", str(self._spaces))
            for store in (self.cut, self.direct)
        ]
        prepare(spaces[1].handler.perform)
        return spaces[0], spaces[1]

    def settle(self) -> None:
        """Returns when no transaction is under way: the server goes on with what was cut off."""
        busy = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self.url, autocommit=True) as look:
            while look.execute(busy).fetchone() != (0,):
                pass

    def close(self) -> None:
        self.cut.close()
        self.direct.close()


@pytest.fixture(scope="module")
def line(postgres_cluster: PostgresCluster) -> Iterator[Line]:
    url = postgres_cluster.create_database("line")
    with Relay(url) as relay:
        line = Line(url, relay)
        line.direct.tenant("line").set_limits(Limits(bytes=10**9, nodes=10**6))
        yield line
        line.close()


def effect(space: keelfs.Space) -> Any:
    """All that can be seen of a space, but for what differs from one to the next."""
    look = space.handler.perform
    tree = {
        path: (without(stat, *OWN_FIELDS), data) for path, (stat, data) in portrait(look).items()
    }
    journal = [(each.kind, each.path, each.to, each.revision) for each in look(Changes()).items]
    trash = [(each.path, each.bytes) for each in look(ListTrash()).items]
    return tree, journal, trash, look(GetUsage())


def keyed(op: Op[Any]) -> Op[Any]:
    return op if isinstance(op, Once) else Once(op, "a key", ops.fingerprint(op))


def attempt(space: keelfs.Space, op: Op[Any]) -> bool:
    """Performs the operation; whether it stayed in doubt."""
    try:
        space.handler.perform(op)
    except InDoubt:
        return True
    return False


CHANGING = [
    exercise
    for exercise in EXERCISES.values()
    # A stream commits what it stages before; the cuts below reach those commits too.
    if exercise.mutates and "stream" not in exercise.name
]
SOME = (
    *("write over", "append to a strand", "move a tree", "remove a tree", "untrash", "batch"),
    *("take a snapshot", "undo a move"),
)
CUT = [
    "append to a strand",
    *(
        pytest.param(name, marks=pytest.mark.torture)
        for name in ("write new", "write a stream", "move a tree", "batch")
    ),
]


@pytest.mark.parametrize("last_words", [False, True])
def test_an_answer_that_is_lost_is_in_doubt_and_a_retry_is_done_once(
    line: Line, last_words: bool
) -> None:
    _lose_answers(line, [EXERCISES[name] for name in SOME], last_words)


@pytest.mark.torture
@pytest.mark.parametrize("last_words", [False, True])
def test_an_answer_of_any_verb_that_is_lost_is_in_doubt(line: Line, last_words: bool) -> None:
    _lose_answers(line, CHANGING, last_words)


def _lose_answers(line: Line, exercises: list[Exercise], last_words: bool) -> None:
    for exercise in exercises:
        expected = _expected(line, exercise)
        cut, direct = line.fresh()
        op = keyed(exercise.op(direct.handler.perform))
        cut.exists("/")
        line.relay.cut_at("commit", last_words=last_words)
        assert attempt(cut, op), exercise.name
        assert effect(direct) == expected, f"{exercise.name} is not done once by itself"
        assert not attempt(cut, op)
        assert effect(direct) == expected, f"{exercise.name} is done twice"
    assert line.direct.check().findings == []


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("forward", [True, pytest.param(False, marks=pytest.mark.torture)])
def test_a_cut_at_any_message_leaves_all_or_nothing(line: Line, name: str, forward: bool) -> None:
    exercise = EXERCISES[name]
    expected = _expected(line, exercise)
    doubts, message = 0, 0
    while True:
        cut, direct = line.fresh()
        before, op = effect(direct), keyed(exercise.op(direct.handler.perform))
        cut.exists("/")
        cuts, message = line.relay.total.cuts, message + 1
        line.relay.cut_after(message, forward=forward)
        doubt = attempt(cut, op)
        line.settle()
        assert effect(direct) in ([before, expected] if doubt else [expected])
        done = line.relay.total.cuts == cuts
        line.relay.cut_after(0)
        assert not attempt(cut, op)
        assert effect(direct) == expected, f"a cut at message {message}"
        doubts += doubt
        if done:
            break
    assert doubts, "no cut fell upon a commit"
    assert line.direct.check().findings == []


def _expected(line: Line, exercise: Exercise) -> Any:
    """What the exercise does when nothing is cut."""
    _, direct = line.fresh()
    direct.handler.perform(keyed(exercise.op(direct.handler.perform)))
    return effect(direct)


def test_a_retry_without_a_key_is_done_twice(line: Line) -> None:
    """A control: the looks above can tell once from twice."""
    cut, direct = line.fresh()
    for _ in range(2):
        cut.exists("/")
        line.relay.cut_at("commit")
        assert attempt(cut, Append("/n", "more"))
    assert direct.read("/n") == b"moremore"


# -- connections end at any moment


def _harried(url: str, wanted: int) -> None:
    """Callers without keys, while the server ends one of their connections after the other."""
    acked: list[list[str]] = [[] for _ in range(4)]
    doubtful: list[list[str]] = [[] for _ in range(4)]
    with keelfs.open(url, pool_size=6) as store:
        spaces = [store.tenant("acme").space("session", str(i)) for i in range(4)]

        def call(i: int) -> None:
            while len(acked[i]) < wanted:
                word = f"{len(acked[i])}/{len(doubtful[i])}"
                try:
                    spaces[i].append("/log", f"{word};")
                    acked[i].append(word)
                except InDoubt:
                    doubtful[i].append(word)

        callers = [threading.Thread(target=call, args=[i]) for i in range(4)]
        for caller in callers:
            caller.start()
        _end_connections(
            url,
            going_on=lambda: any(caller.is_alive() for caller in callers),
            done=lambda: sum(map(len, acked)),
        )
        for caller in callers:
            caller.join()
        for space, sure, unsure in zip(spaces, acked, doubtful, strict=True):
            found = space.read_text("/log").split(";")[:-1]
            assert len(found) == len(set(found)), "a change is done twice"
            assert set(sure) <= set(found) <= set(sure) | set(unsure)
        assert any(doubtful), "no connection ended while it committed"
        assert store.check().ok


def _end_connections(url: str, going_on: Callable[[], bool], done: Callable[[], int]) -> None:
    """Ends one connection after every few changes, at no particular moment."""
    end_one = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'keelfs' AND datname = current_database()"
        " ORDER BY random() LIMIT 1"
    )
    ended = 0
    with psycopg.connect(url, autocommit=True) as server:
        while going_on():
            if done() < ended * 8:
                time.sleep(random.random() * 0.001)
                continue
            server.execute(end_one)
            ended += 1


def test_connections_that_end_while_they_commit_double_nothing(postgres_url: str) -> None:
    _harried(postgres_url, 150)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_connections_that_end_ten_thousand_times_double_nothing(postgres_url: str) -> None:
    _harried(postgres_url, 50_000)
