"""The contract of copies."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotEmpty,
    NotFound,
)
from keelfs.model import Attrs, Kind
from keelfs.ops import (
    Append,
    Copy,
    GetStat,
    History,
    Link,
    Mkdir,
    Patch,
    Read,
    Readlink,
    Remove,
    SetAttrs,
    Symlink,
    Write,
)
from keelfs.testing.conformance.frame import FixedClock, Frame, Make, names, needs, refused
from keelfs.testing.portrait import Perform, portrait


class Copying(Frame):
    """Copies of files and of trees."""

    def test_copy_a_file(self, fs: Perform) -> None:
        """A copy is another node with the same bytes."""
        fs(Write("/a", "0"))
        source = fs(Write("/a", "hello"))
        stat = fs(Copy("/a", "/b"))
        assert stat == fs(GetStat("/b"))
        assert (stat.id != source.id, stat.size) == (True, 5)
        assert (fs(Read("/a")), fs(Read("/b"))) == (b"hello", b"hello")

    @needs("revisions")
    def test_a_copy_is_at_revision_one(self, fs: Perform) -> None:
        """Whatever the revision of the file that was copied."""
        fs(Write("/a", "0"))
        assert fs(Write("/a", "hello")).revision == 2
        assert fs(Copy("/a", "/b")).revision == 1

    def test_copies_change_apart(self, fs: Perform) -> None:
        """What is done to one of the two does not show in the other, nor does its removal."""
        fs(Write("/a", "hello"))
        fs(Copy("/a", "/b"))
        fs(Patch("/b", 0, "J"))
        fs(Append("/a", "!"))
        assert (fs(Read("/a")), fs(Read("/b"))) == (b"hello!", b"Jello")
        fs(Remove("/a"))
        assert fs(Read("/b")) == b"Jello"

    @needs("owners", "mime", "readonly", "xattrs")
    def test_copy_keeps_attributes(self, fs: Perform) -> None:
        """A copy keeps mode, owner, media type, readonly and xattrs."""
        fs(Write("/a", "x", mode=0o640, mime="text/plain"))
        fs(SetAttrs("/a", Attrs(uid=7, gid=8, readonly=True, xattrs={"user.k": b"v"})))
        stat = fs(Copy("/a", "/b"))
        assert (stat.mode, stat.uid, stat.gid, stat.mime, stat.readonly, stat.xattrs) == (
            0o640, 7, 8, "text/plain", True, {"user.k": b"v"},
        )  # fmt: skip

    @needs("times", "clock")
    def test_copy_has_new_times(self, make: Make, clock: FixedClock) -> None:
        """The times of a copy are those of the copying."""
        fs = make(clock=clock)
        fs(Write("/a", "x"))
        clock.advance(5)
        stat = fs(Copy("/a", "/b"))
        assert {stat.mtime_ns, stat.ctime_ns, stat.created_ns} == {clock.now}

    def test_copy_of_nothing(self, fs: Perform) -> None:
        """A source that is not there is NotFound, and no parents are made for it."""
        with refused(fs, NotFound):
            fs(Copy("/a", "/d/b", parents=True))

    def test_copy_makes_parents_when_asked(self, fs: Perform) -> None:
        """A missing directory at the destination refuses, unless `parents`."""
        fs(Write("/a", "x"))
        with refused(fs, NotFound):
            fs(Copy("/a", "/d/b"))
        fs(Copy("/a", "/d/b", parents=True))
        assert fs(Read("/d/b")) == b"x"

    def test_copy_onto_something(self, fs: Perform) -> None:
        """A taken place is refused unless `replace` is asked for."""
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        fs(Mkdir("/d"))
        for to in ("/b", "/d"):
            with refused(fs, AlreadyExists):
                fs(Copy("/a", to))

    @needs("revisions", "history")
    def test_copy_onto_a_file_is_its_next_revision(self, fs: Perform) -> None:
        """A file copied onto a file keeps the identity that was there, and its history."""
        fs(Write("/a", "new"))
        there = fs(Write("/b", "old"))
        stat = fs(Copy("/a", "/b", replace=True))
        assert (stat.id, stat.revision) == (there.id, 2)
        assert [fs(Read("/b", 0, None, number)) for number in (1, 2)] == [b"old", b"new"]

    @needs("hard_links", "shared_bytes")
    def test_copy_onto_a_hard_link(self, fs: Perform) -> None:
        """A file copied onto one name of a node shows under the other names."""
        fs(Write("/a", "new"))
        fs(Write("/b", "old"))
        fs(Link("/b", "/c"))
        fs(Copy("/a", "/b", replace=True))
        assert fs(Read("/c")) == b"new"

    def test_copy_across_kinds(self, fs: Perform) -> None:
        """A file does not replace a directory, nor a directory a file."""
        fs(Write("/f", "x"))
        fs(Mkdir("/d"))
        with refused(fs, IsADirectory):
            fs(Copy("/f", "/d", replace=True))
        with refused(fs, NotADirectory):
            fs(Copy("/d", "/f", replace=True, recursive=True))

    @pytest.mark.parametrize("replace", [False, True])
    def test_copy_onto_itself(self, fs: Perform, replace: bool) -> None:
        """A copy onto itself changes nothing, for files and directories."""
        fs(Write("/d/a", "x"))
        before = portrait(fs)
        fs(Copy("/d/a", "/d/a", replace=replace))
        fs(Copy("/d", "/d", replace=replace, recursive=True))
        assert portrait(fs) == before

    def test_copy_a_directory_needs_recursive(self, fs: Perform) -> None:
        """A directory is not copied by accident."""
        fs(Mkdir("/d"))
        with refused(fs, IsADirectory):
            fs(Copy("/d", "/e"))

    def test_copy_a_tree(self, fs: Perform) -> None:
        """A copied tree holds the same, and shares nothing but bytes with the original."""
        fs(Write("/d/e/f", "deep"))
        fs(Write("/d/g", "flat"))
        fs(Mkdir("/d/empty"))
        fs(Copy("/d", "/x", recursive=True))
        fs(Write("/d/g", "changed"))
        fs(Remove("/d/e", recursive=True))
        assert names(fs, "/x") == ["e", "empty", "g"]
        assert (fs(Read("/x/e/f")), fs(Read("/x/g"))) == (b"deep", b"flat")

    def test_copied_nodes_have_ids_of_their_own(self, fs: Perform) -> None:
        """No node of a copied tree has the identity of another."""
        fs(Write("/d/e/f", "x"))
        fs(Copy("/d", "/x", recursive=True))
        ids = [stat.id for stat, _ in portrait(fs).values()]
        assert len(set(ids)) == len(ids)

    def test_copy_a_tree_onto_a_directory(self, fs: Perform) -> None:
        """An empty directory is replaced by a tree; one that holds something is not."""
        fs(Write("/d/f", "x"))
        fs(Mkdir("/empty"))
        fs(Write("/full/g", "x"))
        fs(Copy("/d", "/empty", replace=True, recursive=True))
        assert names(fs, "/empty") == ["f"]
        with refused(fs, NotEmpty):
            fs(Copy("/d", "/full", replace=True, recursive=True))

    @pytest.mark.parametrize("to", ["/d/x", "/d/e/x"])
    def test_copy_into_itself(self, fs: Perform, to: str) -> None:
        """A directory cannot be copied below itself, nor the root anywhere."""
        fs(Mkdir("/d/e", parents=True))
        with refused(fs, InvalidArgument):
            fs(Copy("/d", to, recursive=True))
        with refused(fs, InvalidArgument):
            fs(Copy("/", "/d/x", recursive=True))

    @needs("symlinks")
    def test_copy_follows_the_source(self, fs: Perform) -> None:
        """A link at the end of the source is followed: what it leads to is copied."""
        fs(Write("/a", "x"))
        fs(Symlink("a", "/l"))
        assert fs(Copy("/l", "/b")).kind is Kind.FILE
        fs(Symlink("nowhere", "/dangling"))
        with refused(fs, NotFound):
            fs(Copy("/dangling", "/c"))

    @needs("symlinks")
    def test_copy_does_not_follow_the_destination(self, fs: Perform) -> None:
        """A link at the destination is taken; with `replace` the link goes, not its target."""
        fs(Write("/a", "new"))
        fs(Write("/b", "old"))
        fs(Symlink("b", "/l"))
        with refused(fs, AlreadyExists):
            fs(Copy("/a", "/l"))
        fs(Copy("/a", "/l", replace=True))
        assert fs(GetStat("/l", follow=False)).kind is Kind.FILE
        assert (fs(Read("/l")), fs(Read("/b"))) == (b"new", b"old")

    @needs("symlinks")
    def test_links_inside_a_tree_are_copied_as_links(self, fs: Perform) -> None:
        """A copied tree holds its links with their targets as written."""
        fs(Write("/d/a", "x"))
        fs(Symlink("a", "/d/l"))
        fs(Symlink("/nowhere", "/d/m"))
        fs(Copy("/d", "/e", recursive=True))
        assert [fs(Readlink(path)) for path in ("/e/l", "/e/m")] == ["a", "/nowhere"]
        assert fs(Read("/e/l")) == b"x"

    @needs("history")
    def test_a_copy_begins_its_own_history(self, fs: Perform) -> None:
        """The history of the source does not come along."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(Copy("/a", "/b"))
        assert [kept.revision for kept in fs(History("/b"))] == [1]
