"""What each verb costs on PostgreSQL in turns of the conversation, counted on the wire.

A verb that reads costs one turn, a verb that writes two: the lock, the walk and whatever else can
be asked at once go with the first, the changes and the commit with the second. A verb that cannot
know what to ask before it has an answer costs a turn more for each such answer; those are named
here with their reasons, and nothing costs more than its name here says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from databases import Opened
from keelfs.agents.composing import composed, registry_of
from keelfs.errors import KeelError
from keelfs.model import ABSENT
from keelfs.ops import (
    Batch,
    GetStat,
    GetUsage,
    List,
    Mkdir,
    Move,
    Once,
    Op,
    Patch,
    Read,
    Symlink,
    Write,
    fingerprint,
)
from keelfs.path import ROOT, parse
from keelfs.ports import Handler
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, LARGE, prepare
from keelfs.testing.tcp_counter import Relay

READING, WRITING = 1, 2

#: What costs more than one turn to read or two to write: how much, and why.
EXCEPTIONS: dict[str, tuple[int, str]] = {
    "stat": (2, "it follows a link"),
    "read large": (2, "the chunks are asked for when the walk has told which"),
    "read a revision": (2, "the revision is asked for when the walk has told the node"),
    "history": (2, "the revisions are asked for when the walk has told the node"),
    "write through a link": (6, "it follows a link to a file of two names, and charges both"),
    "remove a file": (3, "the history of the file is let go"),
    "remove one of two names": (3, "the database counts the names that are left"),
    "remove a tree": (4, "one turn for each directory, and one for the history of its files"),
    "move onto a file": (3, "the history of the replaced file is let go"),
    "restore": (3, "the revision is asked for when the walk has told the node"),
    "checksum": (3, "the bytes are read before their hash is kept"),
    "untrash": (3, "the trash says where the walk goes"),
    "purge": (3, "the tree is listed before it is removed"),
    "transfer a file": (4, "its kind is asked for, and the history of what it replaces let go"),
    "copy a tree": (5, "copies are counted, found and charged"),
    "take a snapshot": (3, "the new space is made before its rows"),
    "roll back": (8, "a snapshot of what is there, and a comparison of two trees"),
    "undo a write": (6, "the change, the place, the node and the revision are asked for in turn"),
    "undo a move": (5, "the change, the place, and both ends of the move"),
    "within": (3, "the inner walk begins where the outer one ends"),
    "batch": (6, "each operation sees what the one before it did"),
    "once a batch": (7, "each operation sees what the one before it did"),
    "write a short stream": (3, "the limits are looked at before the stream is read"),
    "write a stream": (10, "the stream is stored in transactions of its own"),
    "append a stream": (10, "the stream is stored in transactions of its own"),
    "add a stream": (11, "the stream is stored in transactions of its own"),
    "add under a free name": (3, "the names that are taken are asked for"),
    "add beside": (4, "the names that are taken are asked for, then the place"),
    "batch with a stream": (12, "the stream is stored in transactions of its own"),
}  # fmt: skip


class Line(Struct):
    """A store seen through a relay, and past it for what comes before."""

    direct: Opened
    relayed: Opened
    relay: Relay

    def homes(self) -> tuple[Handler, Handler]:
        """A new space, seen past the relay and through it."""
        tenant = self.direct.tenant()
        return self.direct.space(tenant), self.relayed.space(tenant)

    def turns(
        self,
        work: Callable[[Handler], object],
        before: Callable[[Handler], object] = lambda home: None,
    ) -> int:
        """The turns of some work in a new space, once its statements are prepared.

        A client that the machine lets wait in the middle of a sentence is counted too often, never
        too seldom: what was counted three times and never less is the number.
        """
        counts: list[int] = []
        while counts.count(min(counts, default=0)) < 3:
            outside, inside = self.homes()
            before(outside)
            with self.relay.counting() as count:
                work(inside)
            counts.append(count.round_trips)
        return min(counts)


@pytest.fixture(scope="module")
def line(postgres_cluster: PostgresCluster) -> Iterator[Line]:
    url = postgres_cluster.create_database()
    direct = Opened("postgres", url)
    with Relay(url) as relay:
        relayed = Opened("postgres", relay.url)
        # The connection of the pool is made by its first use.
        relayed.space(relayed.tenant()).perform(GetUsage())
        yield Line(direct, relayed, relay)
        relayed.close()
    direct.close()


def expected(name: str) -> int:
    plain = WRITING if EXERCISES[name].mutates else READING
    return EXCEPTIONS.get(name, (plain, ""))[0]


def test_every_exception_is_one() -> None:
    for name, (turns, reason) in EXCEPTIONS.items():
        assert turns > (WRITING if EXERCISES[name].mutates else READING), name
        assert reason


@pytest.mark.parametrize("name", EXERCISES)
def test_a_verb_costs_its_turns(line: Line, name: str) -> None:
    ops: list[Op[Any]] = []

    def prepared(home: Handler) -> None:
        prepare(home.perform)
        ops.append(EXERCISES[name].op(home.perform))

    assert line.turns(lambda home: home.perform(ops[-1]), prepared) == expected(name)


PLACES = {0: "/"} | {
    depth: "".join(f"/{level:x}" for level in range(depth)) for depth in range(1, 34)
}
DEEP = [(1, 0), (4, 0), (16, 0), (17, 1), (33, 2)]


@pytest.mark.parametrize(("depth", "more"), DEEP)
@pytest.mark.parametrize(
    ("verb", "turns"), [(GetStat, 1), (Read, 1), (List, 1), (Write, 2), (Mkdir, 2)]
)
def test_depth_costs_nothing_up_to_sixteen_names(
    line: Line, depth: int, more: int, verb: type[Any], turns: int
) -> None:
    """Beyond, each further sixteen names cost one turn, and a listing one to ask for its rows."""
    place = PLACES[depth]
    before = {List: Mkdir(place, parents=True), Mkdir: Mkdir(PLACES[depth - 1], True, True)}
    op = Write(place, "y") if verb is Write else verb(place)
    asks_late = 1 if verb is List and more else 0
    counted = line.turns(
        lambda home: home.perform(op),
        lambda home: home.perform(before.get(verb, Write(place, "x"))),
    )
    assert counted == turns + more + asks_late


@pytest.mark.parametrize("names", [1, 3])
def test_a_listing_that_follows_links_asks_for_its_rows_afterwards(line: Line, names: int) -> None:
    path = "/l" + "/e/f"[: 2 * (names - 1)]
    listed: list[Any] = []

    def before(home: Handler) -> None:
        home.perform(Write("/d/e/f/g", "x"))
        home.perform(Symlink("/d", "/l"))

    assert line.turns(lambda home: listed.append(home.perform(List(path))), before) == 3
    assert [each.name for each in listed[-1].items] == ["e" if names == 1 else "g"]


def test_the_pages_of_a_listing_cost_one_turn_each(line: Line) -> None:
    """Small ones: a server begins to answer once it has 8 KiB to say, whoever still speaks."""
    names = [f"{number:03}" for number in range(25)]
    found: list[str] = []

    def pages(home: Handler) -> None:
        found.clear()
        after: str | None = None
        for _page in range(3):
            page = home.perform(List("/d", after, 10))
            found.extend(each.name for each in page.items)
            after = page.next
        assert after is None

    def before(home: Handler) -> None:
        home.perform(Batch(tuple(Write(f"/d/{name}", "x") for name in names)))

    assert line.turns(pages, before) == 3
    assert found == names


@pytest.mark.parametrize(
    ("op", "turns"),
    [(Read("/n"), 1), (List("/a"), 1), (Write("/a", "y", ABSENT), 3), (Move("/n", "/b"), 3)],
)
def test_a_refusal_costs_the_end_of_its_transaction(line: Line, op: Op[Any], turns: int) -> None:
    """What was prepared stays prepared: a conflict is nothing unusual."""

    def refused(home: Handler) -> None:
        with pytest.raises(KeelError):
            home.perform(op)

    assert line.turns(refused, lambda home: home.perform(Write("/a", "x"))) == turns
    assert not any("DEALLOCATE" in text for text in line.relay.total.statements)


def test_a_repeat_under_a_key_is_answered_at_once(line: Line) -> None:
    op = Write("/a", "x")
    once = Once(op, "key", fingerprint(op))
    counted = line.turns(lambda home: home.perform(once), lambda home: home.perform(once))
    assert counted == WRITING


@pytest.mark.parametrize("times", [1, 4])
def test_a_large_read_asks_once_for_all_its_chunks(line: Line, times: int) -> None:
    counted = line.turns(
        lambda home: home.perform(Read("/a")),
        lambda home: home.perform(Write("/a", bytes(LARGE * times))),
    )
    assert counted == 2


def test_a_file_of_many_pieces_is_read_in_two_turns(line: Line) -> None:
    """One for the walk, one for all of its extents."""

    def patched(home: Handler) -> None:
        home.perform(Write("/pieces", bytes(100_000)))
        for number in range(5):
            home.perform(Patch("/pieces", 10_000 * number + 5000, b"patched"))

    assert line.turns(lambda home: home.perform(Read("/pieces")), patched) == 2


@pytest.mark.parametrize(
    ("op", "turns"),
    [(Read("/d/a"), 1), (GetStat("/d/a"), 1), (Write("/d/n", "x"), 2), (Mkdir("/d/m"), 2)],
)
def test_the_gates_of_an_agents_tree_cost_no_turn(line: Line, op: Op[Any], turns: int) -> None:
    """What is validated nowhere is not looked at, and what is asked first is asked at once."""

    def in_a_tree(home: Handler) -> None:
        composed({ROOT: home, parse("/.agent"): home}, {}, registry_of(None)).perform(op)

    assert line.turns(in_a_tree, lambda home: home.perform(Write("/d/a", "x"))) == turns
