"""The contract of what is kept: history, trash, snapshots."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    AlreadyExists,
    Busy,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotEmpty,
    NotFound,
    QuotaExceeded,
    RevisionNotFound,
)
from keelfs.model import Kind, Limits, Principal, Snapshot, Trashed
from keelfs.ops import (
    Append,
    Changes,
    DropSnapshot,
    GetStat,
    GetUsage,
    History,
    Link,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Purge,
    Read,
    Remove,
    Restore,
    Rollback,
    Symlink,
    TakeSnapshot,
    Trash,
    Truncate,
    Untrash,
    Write,
)
from keelfs.testing.conformance.frame import (
    NOON,
    SECOND,
    FixedClock,
    Frame,
    Make,
    names,
    needs,
    refused,
)
from keelfs.testing.portrait import OWN_FIELDS, Perform, portrait, without

HOUR = 3600


def revisions(fs: Perform, path: str) -> list[int]:
    return [kept.revision for kept in fs(History(path))]


def contents(fs: Perform) -> dict[str, tuple[object, bytes]]:
    """The tree without what belongs to one moment."""
    return {
        path: (without(stat, *OWN_FIELDS, "revision"), data)
        for path, (stat, data) in portrait(fs).items()
    }


def in_trash(fs: Perform) -> list[Trashed]:
    return fs(ListTrash()).items


@needs("history", "revisions")
class Histories(Frame):
    """Former contents."""

    def test_history_is_newest_first(self, fs: Perform) -> None:
        """The current revision comes first, then the former ones, with their sizes."""
        for text in ("1", "22", "333"):
            fs(Write("/a", text))
        assert [(kept.revision, kept.size) for kept in fs(History("/a"))] == [
            (3, 3),
            (2, 2),
            (1, 1),
        ]

    @needs("clock", "principal")
    def test_history_says_who_and_when(self, make: Make, clock: FixedClock) -> None:
        """Each revision tells when and by whom it was written."""
        fs = make(clock=clock, principal=Principal("agent", "writer"))
        fs(Write("/a", "1"))
        clock.advance(1)
        fs(Append("/a", "2"))
        assert [(kept.at_ns, kept.by) for kept in fs(History("/a"))] == [
            (NOON + SECOND, "agent:writer"), (NOON, "agent:writer"),
        ]  # fmt: skip

    def test_every_change_of_bytes_is_kept(self, fs: Perform) -> None:
        """Append, patch and truncate keep what was there as a write does."""
        fs(Write("/a", "hello"))
        fs(Append("/a", "!"))
        fs(Truncate("/a", 1))
        assert [fs(Read("/a", 0, None, number)) for number in (1, 2, 3)] == [
            b"hello", b"hello!", b"h",
        ]  # fmt: skip

    def test_history_pages(self, fs: Perform) -> None:
        """`before` and `limit` walk through a long history."""
        for index in range(5):
            fs(Write("/a", str(index)))
        assert [kept.revision for kept in fs(History("/a", None, 2))] == [5, 4]
        assert [kept.revision for kept in fs(History("/a", 4, 2))] == [3, 2]
        assert [kept.revision for kept in fs(History("/a", 2, 2))] == [1]
        assert list(fs(History("/a", 1, 2))) == []

    def test_history_of_other_things(self, fs: Perform) -> None:
        """Directories have no history, and what is not there neither."""
        with pytest.raises(IsADirectory):
            fs(History("/"))
        with pytest.raises(NotFound):
            fs(History("/a"))

    def test_restore(self, fs: Perform) -> None:
        """A restored revision is the newest one; nothing in between is lost."""
        for text in ("one", "two"):
            fs(Write("/a", text))
        assert fs(Restore("/a", 1)).revision == 3
        assert [fs(Read("/a", 0, None, number)) for number in (1, 2, 3)] == [b"one", b"two", b"one"]

    def test_restore_the_current_one(self, fs: Perform) -> None:
        """Restoring what is current changes nothing."""
        fs(Write("/a", "1"))
        before = fs(Write("/a", "2"))
        assert fs(Restore("/a", 2)) == before

    @pytest.mark.parametrize("revision", [0, 3, -1])
    def test_restore_what_is_not_kept(self, fs: Perform, revision: int) -> None:
        """A revision that never was cannot be restored."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        with refused(fs, RevisionNotFound):
            fs(Restore("/a", revision))

    def test_history_follows_a_move(self, fs: Perform) -> None:
        """History belongs to the node, not to its name."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Move("/a", "/b"))
        assert revisions(fs, "/b") == [2, 1]
        fs(Write("/a", "other"))
        assert revisions(fs, "/a") == [1]

    def test_history_goes_with_the_node(self, fs: Perform) -> None:
        """A file made anew where one was removed begins at revision 1 without a past."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Remove("/a"))
        fs(Write("/a", "new"))
        assert revisions(fs, "/a") == [1]

    @needs("hard_links")
    def test_history_goes_with_the_last_name(self, fs: Perform) -> None:
        """While a second name is there, the history is, too."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Link("/a", "/b"))
        fs(Remove("/a"))
        assert revisions(fs, "/b") == [2, 1]

    @needs("limits")
    def test_history_count(self, make: Make) -> None:
        """At most `history_count` former revisions are kept, the newest of them."""
        fs = make(limits=Limits(history_count=2))
        for index in range(6):
            fs(Write("/a", str(index)))
        assert revisions(fs, "/a") == [6, 5, 4]
        with pytest.raises(RevisionNotFound):
            fs(Read("/a", 0, None, 3))

    @needs("limits")
    def test_history_of_zero(self, make: Make) -> None:
        """A `history_count` of 0 keeps none, and revisions still count."""
        fs = make(limits=Limits(history_count=0))
        for index in range(3):
            fs(Write("/a", str(index)))
        assert revisions(fs, "/a") == [3]

    @needs("limits")
    def test_history_bytes(self, make: Make) -> None:
        """The oldest revisions of the file make room for the one that is replaced."""
        fs = make(limits=Limits(history_bytes=10))
        for size in (4, 4, 4, 4):
            fs(Write("/a", b"x" * size))
        assert revisions(fs, "/a") == [4, 3, 2]

    @needs("limits")
    def test_history_bytes_refuse_no_write(self, make: Make) -> None:
        """A content larger than all room for history is not kept, and the write passes."""
        fs = make(limits=Limits(history_bytes=10))
        fs(Write("/a", b"x" * 4))
        fs(Write("/a", b"x" * 11))
        fs(Write("/a", b"x"))
        assert revisions(fs, "/a") == [3]

    @needs("limits", "usage")
    def test_history_bytes_of_other_files_stay(self, make: Make) -> None:
        """Room taken by another file's history is not taken from it."""
        fs = make(limits=Limits(history_bytes=10))
        for path, size in (("/a", 8), ("/a", 8), ("/b", 5), ("/b", 5)):
            fs(Write(path, b"x" * size))
        assert (revisions(fs, "/a"), revisions(fs, "/b")) == ([2, 1], [2])
        assert fs(GetUsage()).history_bytes == 8


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
        for op in (Untrash(thing.id), Purge(thing.id)):
            with refused(fs, NotFound):
                fs(op)  # type: ignore[arg-type]

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
        for op in (Untrash(trash_id), Purge(trash_id)):
            with refused(fs, NotFound):
                fs(op)  # type: ignore[arg-type]
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


@needs("snapshots")
class Snapshotting(Frame):
    """Whole trees that come back."""

    @needs("clock", "principal")
    def test_snapshot_answers(self, make: Make, clock: FixedClock) -> None:
        """A snapshot tells its name, when and by whom it was taken, and what it holds."""
        fs = make(clock=clock, principal=Principal("user", "u"))
        fs(Write("/d/a", "123"))
        assert fs(TakeSnapshot("s")) == Snapshot(
            name="s", at_ns=NOON, by="user:u", bytes=3, nodes=2
        )

    def test_snapshots_are_oldest_first(self, fs: Perform) -> None:
        """Snapshots are listed in the order in which they were taken."""
        taken = [fs(TakeSnapshot(name)) for name in ("c", "a", "b")]
        assert list(fs(ListSnapshots())) == taken

    @pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "a\0b"])
    def test_odd_names(self, fs: Perform, name: str) -> None:
        """The name of a snapshot has 1 to 255 bytes and no NUL."""
        with refused(fs, InvalidArgument):
            fs(TakeSnapshot(name))

    @pytest.mark.parametrize("name", ["x" * 255, "a/b", "%", "..", "' --", " "])
    def test_other_names(self, fs: Perform, name: str) -> None:
        """Any other text is a name."""
        fs(TakeSnapshot(name))
        fs(Rollback(name))
        fs(DropSnapshot(name))

    def test_a_taken_name(self, fs: Perform) -> None:
        """A name is given once; dropped, it is free again."""
        fs(TakeSnapshot("s"))
        with refused(fs, AlreadyExists):
            fs(TakeSnapshot("s"))
        fs(DropSnapshot("s"))
        fs(TakeSnapshot("s"))

    def test_unknown_names(self, fs: Perform) -> None:
        """What is not there cannot be rolled back to or dropped."""
        for op in (Rollback("s"), DropSnapshot("s")):
            with refused(fs, NotFound):
                fs(op)  # type: ignore[arg-type]

    def test_rollback_brings_the_tree_back(self, fs: Perform) -> None:
        """Whatever was made, changed, moved and removed since, the tree is what it was."""
        fs(Write("/d/changed", "old"))
        fs(Write("/d/removed", "gone?"))
        fs(Write("/moved", "here"))
        fs(Mkdir("/empty"))
        before = contents(fs)
        fs(TakeSnapshot("s"))
        fs(Write("/d/changed", "new"))
        fs(Remove("/d/removed"))
        fs(Move("/moved", "/d/elsewhere"))
        fs(Write("/made/later", "x"))
        fs(Remove("/empty"))
        fs(Rollback("s"))
        assert contents(fs) == before

    def test_rollback_to_nothing(self, fs: Perform) -> None:
        """A snapshot of an empty tree empties the tree."""
        fs(TakeSnapshot("empty"))
        fs(Write("/d/e/f", "x"))
        fs(Rollback("empty"))
        assert names(fs) == []

    def test_rollback_keeps_what_was_there(self, fs: Perform) -> None:
        """The answer is a snapshot of what was there, and going back to it works."""
        fs(Write("/a", "old"))
        fs(TakeSnapshot("s"))
        fs(Write("/a", "new"))
        fs(Write("/b", "more"))
        now = contents(fs)
        safety = fs(Rollback("s"))
        assert [each.name for each in fs(ListSnapshots())] == ["s", safety.name]
        fs(Rollback(safety.name))
        assert contents(fs) == now

    @needs("journal")
    def test_the_name_of_the_safety_snapshot(self, fs: Perform) -> None:
        """It is called after the change that took it."""
        fs(TakeSnapshot("s"))
        safety = fs(Rollback("s"))
        taken = next(change for change in fs(Changes()).items if change.detail == safety.name)
        assert safety.name == f"before-rollback-{taken.seq}"

    @needs("revisions", "history")
    def test_rollback_keeps_identity_and_history(self, fs: Perform) -> None:
        """A file in both keeps its identity; the content it had becomes a former revision."""
        made = fs(Write("/a", "old"))
        fs(TakeSnapshot("s"))
        fs(Write("/a", "new"))
        fs(Rollback("s"))
        stat = fs(GetStat("/a"))
        assert (stat.id, stat.revision) == (made.id, 3)
        assert fs(Read("/a", 0, None, 2)) == b"new"
        assert revisions(fs, "/a") == [3, 2, 1]

    @needs("revisions")
    def test_rollback_leaves_unchanged_files_alone(self, fs: Perform) -> None:
        """A file that did not change is at the revision where it was."""
        fs(Write("/a", "1"))
        before = fs(Write("/a", "2"))
        fs(TakeSnapshot("s"))
        fs(Write("/b", "x"))
        fs(Rollback("s"))
        stat = fs(GetStat("/a"))
        assert (stat.id, stat.revision) == (before.id, 2)

    @needs("revisions")
    def test_rollback_of_a_removed_file(self, fs: Perform) -> None:
        """A file that is only in the snapshot comes back as a new node at its revision."""
        fs(Write("/a", "1"))
        before = fs(Write("/a", "2"))
        fs(TakeSnapshot("s"))
        fs(Remove("/a"))
        fs(Rollback("s"))
        stat = fs(GetStat("/a"))
        assert (stat.id != before.id, stat.revision, fs(Read("/a"))) == (True, 2, b"2")

    def test_rollback_through_a_changed_kind(self, fs: Perform) -> None:
        """A directory where a file was is no hindrance, nor the other way round."""
        fs(Write("/x", "file"))
        fs(Write("/y/f", "in a directory"))
        before = contents(fs)
        fs(TakeSnapshot("s"))
        fs(Remove("/x"))
        fs(Write("/x/f", "in a directory"))
        fs(Remove("/y", recursive=True))
        fs(Write("/y", "file"))
        fs(Rollback("s"))
        assert contents(fs) == before

    def test_rollback_after_a_swap(self, fs: Perform) -> None:
        """Files and directories that changed places go back to their own."""
        fs(Write("/a/f", "A"))
        fs(Write("/b/f", "B"))
        before = contents(fs)
        fs(TakeSnapshot("s"))
        fs(Move("/a", "/t"))
        fs(Move("/b", "/a"))
        fs(Move("/t", "/a/b"))
        fs(Rollback("s"))
        assert contents(fs) == before

    @needs("hard_links", "symlinks")
    def test_rollback_keeps_links(self, fs: Perform) -> None:
        """Symbolic and hard links come back as they were."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        fs(Symlink("a", "/l"))
        before = contents(fs)
        fs(TakeSnapshot("s"))
        fs(Remove("/b"))
        fs(Remove("/l"))
        fs(Write("/a", "y"))
        fs(Rollback("s"))
        assert contents(fs) == before
        assert fs(GetStat("/a")).id == fs(GetStat("/b")).id

    @needs("trash")
    def test_rollback_leaves_the_trash_alone(self, fs: Perform) -> None:
        """What was trashed since comes back to the tree, and is in the trash as well."""
        fs(Write("/a", "x"))
        fs(TakeSnapshot("s"))
        thing = fs(Trash("/a"))
        fs(Rollback("s"))
        assert fs(Read("/a")) == b"x"
        fs(Untrash(thing.id, "/b"))
        fs(Append("/b", "y"))
        assert (fs(Read("/a")), fs(Read("/b"))) == (b"x", b"xy")

    def test_a_snapshot_does_not_change(self, fs: Perform) -> None:
        """Nothing that is done to the tree shows in a snapshot, also after many rollbacks."""
        fs(Write("/a", "base"))
        fs(TakeSnapshot("s"))
        for text in ("1", "2", "3"):
            fs(Append("/a", text))
            fs(Rollback("s"))
            assert fs(Read("/a")) == b"base"

    def test_dropping_one_leaves_the_others(self, fs: Perform) -> None:
        """A dropped snapshot takes nothing with it that another one holds."""
        fs(Write("/a", "x"))
        fs(TakeSnapshot("one"))
        fs(TakeSnapshot("two"))
        fs(Remove("/a"))
        fs(DropSnapshot("one"))
        fs(Rollback("two"))
        assert fs(Read("/a")) == b"x"

    @needs("limits")
    def test_limits_of_snapshots(self, make: Make) -> None:
        """Their number and the sum of their bytes are limited."""
        fs = make(limits=Limits(snapshots=2))
        fs(TakeSnapshot("1"))
        fs(TakeSnapshot("2"))
        with refused(fs, QuotaExceeded) as caught:
            fs(TakeSnapshot("3"))
        assert (caught.value.limit, caught.value.size) == ("space.snapshots", 2)
        fs = make(limits=Limits(snapshot_bytes=10))
        fs(Write("/a", b"x" * 5))
        fs(TakeSnapshot("1"))
        fs(TakeSnapshot("2"))
        with refused(fs, QuotaExceeded) as caught:
            fs(TakeSnapshot("3"))
        assert (caught.value.limit, caught.value.size) == ("space.snapshot_bytes", 10)
        fs(DropSnapshot("1"))
        fs(TakeSnapshot("3"))

    def test_directories_are_not_replaced_by_a_refusal(self, fs: Perform) -> None:
        """A refused change between snapshot and rollback leaves both sound."""
        fs(Write("/d/a", "x"))
        fs(TakeSnapshot("s"))
        with refused(fs, NotEmpty):
            fs(Remove("/d"))
        fs(Rollback("s"))
        assert names(fs, "/d") == ["a"]
