"""The contract of former contents."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    InvalidArgument,
    IsADirectory,
    NotFound,
    RevisionNotFound,
)
from keelfs.model import Limits, Principal
from keelfs.ops import (
    Append,
    GetUsage,
    History,
    Link,
    Move,
    Read,
    Remove,
    Restore,
    Truncate,
    Write,
)
from keelfs.testing.conformance.frame import (
    NOON,
    SECOND,
    FixedClock,
    Frame,
    Make,
    needs,
    refused,
)
from keelfs.testing.portrait import Perform


def revisions(fs: Perform, path: str) -> list[int]:
    """The kept revisions of a file, newest first."""
    kept = fs(History(path))
    return [each.revision for each in kept]


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
        assert len(fs(History("/a", 1, 2))) == 0

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
        """A revision that never was cannot be restored, nor what is no number of one."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        with refused(fs, RevisionNotFound, *([InvalidArgument] if revision < 0 else [])):
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
