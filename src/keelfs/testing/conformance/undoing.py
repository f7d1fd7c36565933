"""The contract of undo: one change reversed by new changes."""

from __future__ import annotations

import pytest

from keelfs.errors import InvalidArgument, NotFound, NotUndoable
from keelfs.model import Attrs
from keelfs.ops import (
    Copy,
    GetStat,
    Link,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Read,
    Remove,
    Rollback,
    SetAttrs,
    TakeSnapshot,
    Trash,
    Undo,
    Write,
)
from keelfs.testing.conformance.frame import (
    Frame,
    names,
    needs,
    refused,
)
from keelfs.testing.conformance.snapshotting import contents
from keelfs.testing.conformance.telling import end, told
from keelfs.testing.portrait import Perform


def undo_last(fs: Perform) -> list[int]:
    """Undoes the latest change; the numbers of the changes that it took."""
    seqs = fs(Undo(end(fs)))
    return list(seqs)


@needs("journal", "trash", "history", "revisions")
class Undoing(Frame):
    """Reversing one change by new changes."""

    def test_undo_answers_with_its_changes(self, fs: Perform) -> None:
        """Undo tells the numbers of the changes that it wrote."""
        fs(Write("/a", "x"))
        assert undo_last(fs) == [2]
        assert told(fs)[-1] == ("trash", "a", None)

    def test_undo_create(self, fs: Perform) -> None:
        """What was made goes into the trash, with what came to be in it."""
        fs(Mkdir("/d"))
        fs(Write("/d/a", "x"))
        fs(Undo(1))
        assert names(fs) == []
        assert [(thing.path, thing.nodes) for thing in fs(ListTrash()).items] == [(("d",), 2)]

    def test_undo_create_of_what_is_gone(self, fs: Perform) -> None:
        """What is no longer there cannot be undone."""
        fs(Write("/a", "x"))
        fs(Move("/a", "/b"))
        with refused(fs, NotUndoable):
            fs(Undo(1))

    def test_undo_write(self, fs: Perform) -> None:
        """A write is undone by restoring what was there, as a new revision."""
        fs(Write("/a", "old"))
        fs(Write("/a", "new"))
        undo_last(fs)
        assert (fs(Read("/a")), fs(GetStat("/a")).revision) == (b"old", 3)

    def test_undo_an_undo(self, fs: Perform) -> None:
        """An undo is a change like others and can be undone itself."""
        fs(Write("/a", "old"))
        fs(Write("/a", "new"))
        undo_last(fs)
        undo_last(fs)
        assert fs(Read("/a")) == b"new"

    def test_undo_a_write_that_was_written_over(self, fs: Perform) -> None:
        """A write that was followed by another is not undone behind its back."""
        for text in ("1", "2", "3"):
            fs(Write("/a", text))
        with refused(fs, NotUndoable):
            fs(Undo(2))

    @needs("owners", "xattrs", "mime", "readonly")
    def test_undo_attributes(self, fs: Perform) -> None:
        """Exactly the attributes that were set are set back."""
        fs(Write("/a", "x", mode=0o640))
        fs(SetAttrs("/a", Attrs(xattrs={"user.k": b"v"})))
        before = contents(fs)
        fs(SetAttrs("/a", Attrs(mode=0o600, mime="a/b", readonly=True,
                                xattrs={"user.k": None, "user.n": b"1"})))  # fmt: skip
        undo_last(fs)
        assert contents(fs) == before

    def test_undo_move(self, fs: Perform) -> None:
        """A move goes back."""
        fs(Write("/d/a", "x"))
        fs(Move("/d", "/e"))
        undo_last(fs)
        assert fs(Read("/d/a")) == b"x"
        assert told(fs)[-1] == ("move", "e", "d")

    def test_undo_move_when_the_origin_is_taken(self, fs: Perform) -> None:
        """A move does not go back onto something else."""
        fs(Write("/a", "x"))
        fs(Move("/a", "/b"))
        fs(Write("/a", "other"))
        with refused(fs, NotUndoable):
            fs(Undo(2))

    def test_undo_copy(self, fs: Perform) -> None:
        """A copy goes into the trash, the original stays."""
        fs(Write("/a", "x"))
        fs(Copy("/a", "/b"))
        undo_last(fs)
        assert names(fs) == ["a"]

    @needs("hard_links")
    def test_undo_link(self, fs: Perform) -> None:
        """The new name goes, the old one stays."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        undo_last(fs)
        assert (names(fs), fs(Read("/a"))) == (["a"], b"x")

    def test_undo_trash_and_untrash(self, fs: Perform) -> None:
        """What was trashed comes back; what came back goes again."""
        fs(Write("/a", "x"))
        fs(Trash("/a"))
        undo_last(fs)
        assert names(fs) == ["a"]
        undo_last(fs)
        assert names(fs) == []

    @needs("snapshots")
    def test_undo_rollback(self, fs: Perform) -> None:
        """A rollback is undone by going back to its safety snapshot."""
        fs(Write("/a", "old"))
        fs(TakeSnapshot("s"))
        fs(Write("/a", "new"))
        before = contents(fs)
        fs(Rollback("s"))
        undo_last(fs)
        assert contents(fs) == before
        assert len(fs(ListSnapshots())) == 3

    def test_undo_remove(self, fs: Perform) -> None:
        """What was removed for good is gone: NotUndoable says so."""
        fs(Write("/a", "x"))
        fs(Remove("/a"))
        with refused(fs, NotUndoable):
            fs(Undo(2))

    @needs("snapshots")
    def test_undo_snapshot(self, fs: Perform) -> None:
        """A snapshot changed nothing that could be undone."""
        fs(TakeSnapshot("s"))
        with refused(fs, NotUndoable):
            fs(Undo(1))

    @pytest.mark.parametrize("seq", [0, 2, 99, -1])
    def test_undo_what_never_was(self, fs: Perform, seq: int) -> None:
        """A number that is not in the journal is NotFound; what is none may be refused as such."""
        fs(Write("/a", "x"))
        with refused(fs, NotFound, *([InvalidArgument] if seq < 0 else [])):
            fs(Undo(seq))
