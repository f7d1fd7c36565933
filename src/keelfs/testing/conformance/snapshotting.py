"""The contract of snapshots and of going back to them."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    NotEmpty,
    NotFound,
    QuotaExceeded,
)
from keelfs.model import Limits, Principal, Snapshot
from keelfs.ops import (
    Append,
    Changes,
    DropSnapshot,
    GetStat,
    Link,
    ListSnapshots,
    Mkdir,
    Move,
    Read,
    Remove,
    Rollback,
    Symlink,
    TakeSnapshot,
    Trash,
    Untrash,
    Write,
)
from keelfs.testing.conformance.frame import (
    NOON,
    FixedClock,
    Frame,
    Make,
    each,
    names,
    needs,
    refused,
)
from keelfs.testing.conformance.history import revisions
from keelfs.testing.portrait import OWN_FIELDS, Perform, portrait, without


def contents(fs: Perform) -> dict[str, tuple[object, bytes]]:
    """The tree without what belongs to one moment."""
    return {
        path: (without(stat, *OWN_FIELDS, "revision"), data)
        for path, (stat, data) in portrait(fs).items()
    }


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
        listed = fs(ListSnapshots())
        assert list(listed) == taken

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
        for op in each(Rollback("s"), DropSnapshot("s")):
            with refused(fs, NotFound):
                fs(op)

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
