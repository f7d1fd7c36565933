"""The contract of the trash."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    AlreadyExists,
    Busy,
    NotADirectory,
    NotFound,
)
from keelfs.model import Kind, Limits, Principal, Trashed
from keelfs.ops import (
    Append,
    GetStat,
    Link,
    ListTrash,
    Mkdir,
    Purge,
    Read,
    Remove,
    Symlink,
    Trash,
    Untrash,
    Write,
)
from keelfs.testing.conformance.frame import (
    NOON,
    SECOND,
    FixedClock,
    Frame,
    Make,
    each,
    names,
    needs,
    refused,
)
from keelfs.testing.conformance.history import revisions
from keelfs.testing.conformance.snapshotting import contents
from keelfs.testing.portrait import Perform, without

HOUR = 3600


def in_trash(fs: Perform) -> list[Trashed]:
    """What lies in the trash."""
    return fs(ListTrash()).items


@needs("trash")
class Trashing(Frame):
    """Out of the tree, not yet out of the world."""

    def test_trash_takes_the_entry_away(self, fs: Perform) -> None:
        """What is trashed is no longer in the tree; its place is free."""
        fs(Write("/d/a", "x"))
        thing = fs(Trash("/d/a"))
        assert (thing.path, thing.kind, thing.bytes, thing.nodes) == (("d", "a"), Kind.FILE, 1, 1)
        assert names(fs, "/d") == []
        fs(Write("/d/a", "new"))

    def test_trash_of_a_tree(self, fs: Perform) -> None:
        """A trashed directory counts all that it holds."""
        fs(Write("/d/a", "12"))
        fs(Write("/d/e/b", "345"))
        thing = fs(Trash("/d"))
        assert (thing.kind, thing.bytes, thing.nodes) == (Kind.DIRECTORY, 5, 4)

    @needs("clock", "limits")
    @pytest.mark.parametrize(("kind", "hours"), [("user", 168), ("agent", 24), ("operator", 168)])
    @needs("principal")
    def test_retention(self, make: Make, clock: FixedClock, kind: str, hours: int) -> None:
        """What a user trashes is kept for 168 hours, what an agent trashes for 24."""
        fs = make(clock=clock, principal=Principal(kind, "somebody"))
        fs(Write("/a", "x"))
        thing = fs(Trash("/a"))
        assert (thing.by, thing.at_ns) == (f"{kind}:somebody", NOON)
        assert thing.expires_ns == NOON + hours * HOUR * SECOND

    @needs("clock", "limits")
    def test_what_never_expires(self, make: Make, clock: FixedClock) -> None:
        """A retention of None keeps for good."""
        fs = make(clock=clock, limits=Limits(trash_user_s=None))
        fs(Write("/a", "x"))
        assert fs(Trash("/a")).expires_ns == 2**63 - 1

    @needs("clock")
    def test_expired_things_are_not_there(self, make: Make, clock: FixedClock) -> None:
        """Past its time a thing is not listed, cannot be put back and not be purged."""
        fs = make(clock=clock)
        fs(Write("/a", "x"))
        thing = fs(Trash("/a"))
        clock.advance(168 * HOUR - 1)
        assert in_trash(fs) == [thing]
        clock.advance(2)
        assert in_trash(fs) == []
        for op in each(Untrash(thing.id), Purge(thing.id)):
            with refused(fs, NotFound):
                fs(op)

    def test_trashed_is_oldest_first(self, fs: Perform) -> None:
        """Pages of the trash go from the oldest thing to the newest."""
        for name in ("c", "a", "b"):
            fs(Write(f"/{name}", ""))
        things = [fs(Trash(f"/{name}")) for name in ("c", "a", "b")]
        first = fs(ListTrash(None, 2))
        assert first.items == things[:2]
        second = fs(ListTrash(first.next, 2))
        assert (second.items, second.next) == (things[2:], None)

    def test_untrash_puts_back(self, fs: Perform) -> None:
        """A thing comes back byte for byte, with its identity and revision."""
        fs(Write("/d/a", "1"))
        before = fs(Write("/d/a", "2"))
        stat = fs(Untrash(fs(Trash("/d/a")).id))
        assert without(stat, "ctime_ns") == without(before, "ctime_ns")
        assert fs(Read("/d/a")) == b"2"
        assert in_trash(fs) == []

    def test_untrash_a_tree(self, fs: Perform) -> None:
        """A tree comes back as it was, links and all."""
        fs(Write("/d/e/f", "deep"))
        fs(Mkdir("/d/empty"))
        before = contents(fs)
        thing = fs(Trash("/d"))
        fs(Untrash(thing.id))
        assert contents(fs) == before

    @needs("history")
    def test_trash_keeps_history(self, fs: Perform) -> None:
        """Former revisions survive the trash."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Untrash(fs(Trash("/a")).id))
        assert revisions(fs, "/a") == [2, 1]

    def test_untrash_elsewhere(self, fs: Perform) -> None:
        """A thing may be put anywhere, its parents made if asked."""
        fs(Write("/a", "x"))
        thing = fs(Trash("/a"))
        with refused(fs, NotFound):
            fs(Untrash(thing.id, "/d/b", parents=False))
        fs(Untrash(thing.id, "/d/b"))
        assert (names(fs), names(fs, "/d")) == (["d"], ["b"])

    def test_untrash_makes_the_parents_that_have_gone(self, fs: Perform) -> None:
        """The directory that held a thing is made again when it comes back."""
        fs(Write("/d/e/a", "x"))
        thing = fs(Trash("/d/e/a"))
        fs(Remove("/d", recursive=True))
        fs(Untrash(thing.id))
        assert fs(Read("/d/e/a")) == b"x"

    def test_untrash_onto_something(self, fs: Perform) -> None:
        """A taken place is refused and the thing stays in the trash."""
        fs(Write("/a", "old"))
        thing = fs(Trash("/a"))
        fs(Write("/a", "new"))
        with refused(fs, AlreadyExists):
            fs(Untrash(thing.id))
        assert in_trash(fs) == [thing]
        fs(Untrash(thing.id, "/b"))
        assert (fs(Read("/a")), fs(Read("/b"))) == (b"new", b"old")

    def test_untrash_below_a_file(self, fs: Perform) -> None:
        """A parent that has become a file refuses."""
        fs(Write("/d/a", "x"))
        thing = fs(Trash("/d/a"))
        fs(Remove("/d"))
        fs(Write("/d", "file"))
        with refused(fs, NotADirectory):
            fs(Untrash(thing.id))

    def test_the_same_name_twice(self, fs: Perform) -> None:
        """Two things of one path lie side by side in the trash."""
        things: list[Trashed] = []
        for text in ("first", "second"):
            fs(Write("/a", text))
            things.append(fs(Trash("/a")))
        assert things[0].id != things[1].id
        fs(Untrash(things[0].id))
        assert fs(Read("/a")) == b"first"

    def test_purge(self, fs: Perform) -> None:
        """A purged thing is gone, and only it."""
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        first, second = fs(Trash("/a")), fs(Trash("/b"))
        fs(Purge(first.id))
        assert in_trash(fs) == [second]
        with refused(fs, NotFound):
            fs(Untrash(first.id))

    @pytest.mark.parametrize("trash_id", ["", "nothing", "0" * 32, "' OR 1=1 --", "%"])
    def test_unknown_ids(self, fs: Perform, trash_id: str) -> None:
        """An id that is not there is NotFound, whatever it looks like."""
        fs(Write("/a", "x"))
        fs(Trash("/a"))
        for op in each(Untrash(trash_id), Purge(trash_id)):
            with refused(fs, NotFound):
                fs(op)
        assert len(in_trash(fs)) == 1

    def test_trash_the_root(self, fs: Perform) -> None:
        """The root cannot be trashed, nothing cannot either."""
        fs(Write("/a", "x"))
        with refused(fs, Busy):
            fs(Trash("/"))
        with refused(fs, NotFound):
            fs(Trash("/nothing"))

    @needs("symlinks")
    def test_trash_takes_the_link(self, fs: Perform) -> None:
        """A link is trashed itself, its target stays."""
        fs(Write("/d/a", "x"))
        fs(Symlink("d", "/l"))
        assert fs(Trash("/l")).kind is Kind.SYMLINK
        assert names(fs, "/d") == ["a"]
        fs(Symlink("d", "/l"))
        assert fs(Trash("/l/a")).path == ("d", "a")

    @needs("hard_links")
    def test_trash_of_one_name(self, fs: Perform) -> None:
        """The other name of a node stays; what is written there comes back with the thing."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        thing = fs(Trash("/a"))
        fs(Append("/b", "y"))
        fs(Untrash(thing.id))
        assert (fs(Read("/a")), fs(GetStat("/a")).nlink) == (b"xy", 2)
