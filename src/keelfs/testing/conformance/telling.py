"""The contract of the journal: what is recorded, and who is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from keelfs.errors import InvalidArgument, KeelError
from keelfs.model import END_OF_JOURNAL, Attrs, Change, ChangeKind, Kind, Principal
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Copy,
    GetStat,
    Link,
    Mkdir,
    Mknod,
    Move,
    Op,
    Patch,
    Purge,
    Read,
    Remove,
    Restore,
    Rollback,
    SetAttrs,
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
    each,
    needs,
    refused,
)
from keelfs.testing.portrait import Perform


def journal(fs: Perform, path: str = "/", after: int = 0) -> list[Change]:
    return fs(Changes(path, after)).items


def told(fs: Perform, path: str = "/", after: int = 0) -> list[tuple[object, ...]]:
    """What happened, as kind, path and second path."""
    return [
        (change.kind.value, *("/".join(end) if end is not None else None for end in
                              (change.path, change.to)))
        for change in journal(fs, path, after)
    ]  # fmt: skip


def end(fs: Perform) -> int:
    return int(fs(Changes("/", END_OF_JOURNAL)).next or 0)


def last(fs: Perform) -> Change:
    return journal(fs)[-1]


@needs("journal")
class Journals(Frame):
    """Every change, once, in order, with its author."""

    def test_an_empty_journal(self, fs: Perform) -> None:
        """Before anything happens there is a cursor all the same."""
        page = fs(Changes())
        assert (page.items, page.next) == ([], "0")

    @needs("clock", "principal")
    def test_what_a_change_tells(self, make: Make, clock: FixedClock) -> None:
        """A change tells what, where, which revision, by whom and when."""
        fs = make(clock=clock, principal=Principal("agent", "a-1"))
        fs(Write("/a", "1"))
        clock.advance(1)
        fs(Write("/a", "2"))
        first, second = journal(fs)
        assert (first.seq, first.batch, first.kind, first.path, first.to) == (
            1, 1, ChangeKind.CREATE, ("a",), None,
        )  # fmt: skip
        assert (first.node, first.revision, first.by, first.at_ns) == (
            Kind.FILE, 1, "agent:a-1", NOON,
        )  # fmt: skip
        assert (second.seq, second.batch, second.kind, second.revision, second.at_ns) == (
            2, 2, ChangeKind.WRITE, 2, NOON + SECOND,
        )  # fmt: skip

    def test_made_parents_come_first(self, fs: Perform) -> None:
        """Each directory made on the way has its own change before the entry's."""
        fs(Write("/a/b/c", "x"))
        assert told(fs) == [
            ("create", "a", None),
            ("create", "a/b", None),
            ("create", "a/b/c", None),
        ]
        kinds = [(change.node, change.batch) for change in journal(fs)]
        assert kinds == [(Kind.DIRECTORY, 1), (Kind.DIRECTORY, 1), (Kind.FILE, 1)]

    @pytest.mark.parametrize(
        "op", [Write("/a", "x"), Append("/a", "x"), Patch("/a", 0, "x"), Truncate("/a", 0),
               Copy("/b", "/a", replace=True)],
    )  # fmt: skip
    def test_changes_of_bytes(self, fs: Perform, op: Op[Any]) -> None:
        """Every verb that changes the bytes of a file is a WRITE of a new revision."""
        fs(Write("/b", "b"))
        fs(Write("/a", "hello"))
        fs(op)
        change = last(fs)
        assert (change.kind, change.path, change.to, change.revision) == (
            ChangeKind.WRITE, ("a",), None, 2,
        )  # fmt: skip

    @needs("history")
    def test_restore_is_a_write(self, fs: Perform) -> None:
        """A restored revision is written as a new one."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Restore("/a", 1))
        assert (last(fs).kind, last(fs).revision) == (ChangeKind.WRITE, 3)

    def test_append_that_makes_the_file(self, fs: Perform) -> None:
        """An append to nothing is a CREATE."""
        fs(Append("/a", "x"))
        assert told(fs) == [("create", "a", None)]

    def test_mkdir_tells_the_kind(self, fs: Perform) -> None:
        """A directory is made by a CREATE of a directory."""
        fs(Mkdir("/d"))
        assert (last(fs).kind, last(fs).node) == (ChangeKind.CREATE, Kind.DIRECTORY)

    @needs("symlinks", "special_nodes")
    def test_other_kinds_are_told(self, fs: Perform) -> None:
        """Links and special kinds are created with their kind."""
        fs(Symlink("x", "/l"))
        fs(Mknod("/s", Kind.FIFO))
        assert [change.node for change in journal(fs)] == [Kind.SYMLINK, Kind.FIFO]

    def test_moves_and_copies(self, fs: Perform) -> None:
        """A move, or a copy to a new place, is one change, whatever it holds."""
        fs(Write("/d/e/f", "x"))
        start = end(fs)
        fs(Move("/d", "/m"))
        fs(Copy("/m", "/c", recursive=True))
        fs(Copy("/m/e/f", "/g"))
        assert told(fs, "/", start) == [
            ("move", "d", "m"),
            ("copy", "m", "c"),
            ("copy", "m/e/f", "g"),
        ]

    def test_a_move_that_replaces(self, fs: Perform) -> None:
        """What is replaced is removed first, in the same transaction."""
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        start = end(fs)
        fs(Move("/a", "/b", replace=True))
        assert told(fs, "/", start) == [("remove", "b", None), ("move", "a", "b")]
        assert {change.batch for change in journal(fs, "/", start)} == {start + 1}

    def test_a_copy_that_replaces_a_directory(self, fs: Perform) -> None:
        """A replaced directory is removed, then the copy comes."""
        fs(Write("/d/f", "x"))
        fs(Mkdir("/e"))
        start = end(fs)
        fs(Copy("/d", "/e", replace=True, recursive=True))
        assert told(fs, "/", start) == [("remove", "e", None), ("copy", "d", "e")]

    @needs("hard_links")
    def test_link_is_told(self, fs: Perform) -> None:
        """A link names its source and the new entry."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        assert told(fs)[-1] == ("link", "a", "b")

    def test_removing_a_tree_is_one_change(self, fs: Perform) -> None:
        """A removed directory stands for what it held."""
        fs(Write("/d/e/f", "x"))
        start = end(fs)
        fs(Remove("/d", recursive=True))
        assert told(fs, "/", start) == [("remove", "d", None)]

    @needs("owners", "xattrs", "mime", "readonly")
    def test_attributes_tell_what_was(self, fs: Perform) -> None:
        """The former values of exactly the given attributes are kept as JSON."""
        fs(Write("/a", "x", mode=0o640))
        fs(SetAttrs("/a", Attrs(xattrs={"user.k": b"\xff"})))
        fs(SetAttrs("/a", Attrs(mode=0o600, readonly=True, xattrs={"user.k": None, "user.n": b""})))
        change = last(fs)
        assert (change.kind, change.revision) == (ChangeKind.ATTRS, 1)
        assert json.loads(change.detail or "") == {
            "mode": 0o640, "readonly": False,
            "xattrs": {"user.k": base64.b64encode(b"\xff").decode(), "user.n": None},
        }  # fmt: skip

    @needs("trash")
    def test_trash_is_told(self, fs: Perform) -> None:
        """Trash and untrash name the thing; a purge is not of the tree."""
        fs(Write("/d/a", "x"))
        start = end(fs)
        first = fs(Trash("/d/a"))
        fs(Untrash(first.id, "/b"))
        second = fs(Trash("/b"))
        fs(Purge(second.id))
        assert told(fs, "/", start) == [
            ("trash", "d/a", None), ("untrash", "b", None), ("trash", "b", None),
        ]  # fmt: skip
        details = [change.detail for change in journal(fs, "/", start)]
        assert details == [first.id, first.id, second.id]

    @needs("snapshots")
    def test_snapshots_are_told(self, fs: Perform) -> None:
        """A rollback is told after the snapshot that makes it safe, in one transaction."""
        fs(TakeSnapshot("s"))
        safety = fs(Rollback("s"))
        assert told(fs) == [("snapshot", "", None), ("snapshot", "", None), ("rollback", "", None)]
        assert [change.detail for change in journal(fs)] == ["s", safety.name, "s"]
        assert [change.batch for change in journal(fs)] == [1, 2, 2]

    @needs("symlinks")
    def test_paths_are_canonical(self, fs: Perform) -> None:
        """A path through links is told as where it led."""
        fs(Mkdir("/real"))
        fs(Symlink("real", "/l"))
        start = end(fs)
        fs(Write("/l/a", "x"))
        fs(Symlink("real/a", "/m"))
        fs(Append("/m", "y"))
        fs(Move("/l/a", "/l/b"))
        assert told(fs, "/", start) == [
            ("create", "real/a", None), ("create", "m", None), ("write", "real/a", None),
            ("move", "real/a", "real/b"),
        ]  # fmt: skip

    def test_what_changes_nothing_is_not_told(self, fs: Perform) -> None:
        """No-ops leave no trace in the journal."""
        fs(Write("/d/a", "x"))
        start = end(fs)
        for op in each(
            Move("/d/a", "/d/a"), Copy("/d/a", "/d/a"), Append("/d/a", b""), Truncate("/d/a", 1),
            Patch("/d/a", 0, b""), Mkdir("/d", exist_ok=True), GetStat("/d"), Read("/d/a"),
        ):  # fmt: skip
            fs(op)
        assert end(fs) == start

    def test_what_is_refused_is_not_told(self, fs: Perform) -> None:
        """A refusal takes no number: the journal stays dense."""
        fs(Write("/a", "x"))
        for op in each(Mkdir("/a"), Remove("/nothing"), Write("/a/b", "x"), Move("/a", "/d/e")):
            with refused(fs, KeelError):
                fs(op)
        fs(Write("/b", "x"))
        assert [change.seq for change in journal(fs)] == [1, 2]

    @needs("batch")
    def test_a_batch_is_one_transaction(self, fs: Perform) -> None:
        """All changes of a batch carry the number of its first."""
        fs(Write("/a", "x"))
        fs(Batch((Write("/b", "x"), Write("/c/d", "x"), Remove("/a"))))
        assert [(change.seq, change.batch) for change in journal(fs)] == [
            (1, 1), (2, 2), (3, 2), (4, 2), (5, 2),
        ]  # fmt: skip

    def test_pages_follow_their_cursor(self, fs: Perform) -> None:
        """Whoever goes on from `next` misses nothing and sees nothing twice."""
        for index in range(7):
            fs(Write(f"/{index}", ""))
        seen: list[int] = []
        cursor = 0
        while page := fs(Changes("/", cursor, 3)):
            seen += [change.seq for change in page.items]
            cursor = int(page.next or 0)
            if not page.items:
                break
        assert (seen, cursor) == ([1, 2, 3, 4, 5, 6, 7], 7)

    def test_a_cursor_skips_what_is_elsewhere(self, fs: Perform) -> None:
        """A page without anything to tell still moves the cursor on."""
        fs(Mkdir("/d"))
        for index in range(5):
            fs(Write(f"/{index}", ""))
        page = fs(Changes("/d", 1))
        assert (page.items, page.next) == ([], "6")

    def test_the_end_of_the_journal(self, fs: Perform) -> None:
        """A cursor behind everything is told where the journal ends."""
        fs(Write("/a", "x"))
        page = fs(Changes("/", END_OF_JOURNAL))
        assert (page.items, page.next) == ([], "1")

    @pytest.mark.parametrize("op", [Changes("/", -1), Changes("/", 0, 0), Changes("/", 0, 10_001)])
    def test_odd_cursors(self, fs: Perform, op: Op[Any]) -> None:
        """A negative cursor and an odd limit raise InvalidArgument."""
        with pytest.raises(InvalidArgument):
            fs(op)

    def test_changes_are_relative(self, fs: Perform) -> None:
        """Whoever asks about a directory is told names below it, and nothing else."""
        fs(Write("/d/e/f", "x"))
        fs(Write("/dd/f", "x"))
        fs(Write("/f", "x"))
        assert told(fs, "/d") == [
            ("create", "", None),
            ("create", "e", None),
            ("create", "e/f", None),
        ]
        assert told(fs, "/d/e/f") == [("create", "", None)]

    def test_one_end_inside(self, fs: Perform) -> None:
        """Of a move or copy with one end inside, only that end is told."""
        fs(Write("/d/a", "x"))
        fs(Mkdir("/e"))
        start = end(fs)
        fs(Move("/d/a", "/e/b"))
        fs(Copy("/e/b", "/d/c"))
        fs(Move("/d/c", "/d/g"))
        assert told(fs, "/d", start) == [
            ("move", "a", None),
            ("copy", None, "c"),
            ("move", "c", "g"),
        ]
        assert told(fs, "/e", start) == [("move", None, "b"), ("copy", "b", None)]

    def test_a_directory_that_is_gone(self, fs: Perform) -> None:
        """Changes can be asked about a path that no longer exists, or never did."""
        fs(Write("/d/a", "x"))
        fs(Remove("/d", recursive=True))
        assert told(fs, "/d")[-1] == ("remove", "", None)
        assert told(fs, "/never") == []
