"""The contract of names: mkdir, mknod, remove, move."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import (
    AlreadyExists,
    Busy,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotEmpty,
    NotFound,
)
from keelfs.model import Kind
from keelfs.ops import (
    Copy,
    GetStat,
    Link,
    List,
    Mkdir,
    Mknod,
    Move,
    Op,
    Read,
    Remove,
    Symlink,
    Write,
)
from keelfs.testing.conformance.frame import FixedClock, Frame, Make, names, needs, refused
from keelfs.testing.portrait import Perform, portrait, without


class Entering(Frame):
    """Names made, taken away and changed."""

    def test_mkdir(self, fs: Perform) -> None:
        """A directory is made empty, and answers with its stat."""
        stat = fs(Mkdir("/d"))
        assert stat.kind is Kind.DIRECTORY
        assert stat == fs(GetStat("/d"))
        assert names(fs, "/d") == []

    @needs("owners")
    def test_mkdir_mode(self, fs: Perform) -> None:
        """A directory has mode 0755 or the mode that was asked for; what is made above has 0755."""
        assert fs(Mkdir("/d")).mode == 0o755
        assert fs(Mkdir("/p/q", parents=True, mode=0o40700)).mode == 0o700
        assert fs(GetStat("/p")).mode == 0o755

    def test_mkdir_needs_its_parent(self, fs: Perform) -> None:
        """Without `parents` a missing directory above refuses; with it, all are made."""
        with refused(fs, NotFound):
            fs(Mkdir("/a/b/c"))
        fs(Mkdir("/a/b/c", parents=True))
        assert names(fs, "/a/b") == ["c"]

    @pytest.mark.parametrize("path", ["/d", "/f", "/"])
    def test_mkdir_where_something_is(self, fs: Perform, path: str) -> None:
        """A taken name is refused; the root always exists."""
        fs(Write("/d/keep", "x"))
        fs(Write("/f", "x"))
        with refused(fs, AlreadyExists):
            fs(Mkdir(path))

    def test_mkdir_exist_ok(self, fs: Perform) -> None:
        """With `exist_ok`, an existing directory is the answer and stays as it is."""
        fs(Write("/d/keep", "x"))
        before = portrait(fs)
        assert fs(Mkdir("/d", exist_ok=True, mode=0o700)) == before["/d"][0]
        assert fs(Mkdir("/", exist_ok=True)) == before["/"][0]
        assert portrait(fs) == before

    def test_mkdir_exist_ok_on_a_file(self, fs: Perform) -> None:
        """`exist_ok` is no excuse for a file."""
        fs(Write("/f", "x"))
        with refused(fs, AlreadyExists):
            fs(Mkdir("/f", parents=True, exist_ok=True))

    @needs("symlinks")
    def test_mkdir_on_links(self, fs: Perform) -> None:
        """A link to a directory passes as one with `exist_ok`; other links never do."""
        made = fs(Mkdir("/d"))
        fs(Write("/f", "x"))
        for target, path in (("d", "/to_d"), ("f", "/to_f"), ("nowhere", "/to_nothing")):
            fs(Symlink(target, path))
        assert fs(Mkdir("/to_d", exist_ok=True)).id == made.id
        for path in ("/to_f", "/to_nothing"):
            with refused(fs, AlreadyExists):
                fs(Mkdir(path, exist_ok=True))
        fs(Symlink("to_itself", "/to_itself"))
        for path in ("/to_d", "/to_itself"):
            with refused(fs, AlreadyExists):
                fs(Mkdir(path))

    @needs("special_nodes")
    @pytest.mark.parametrize("kind", [Kind.FIFO, Kind.SOCKET])
    def test_mknod(self, fs: Perform, kind: Kind) -> None:
        """Each special kind is made, listed, moved, copied and removed like any entry."""
        assert fs(Mknod("/s", kind, 0o640)).mode == 0o640
        fs(Move("/s", "/t"))
        assert fs(Copy("/t", "/u")).kind is kind
        assert [entry.stat.kind for entry in fs(List("/")).items] == [kind, kind]
        fs(Remove("/t"))
        assert names(fs) == ["u"]

    @needs("special_nodes", "devices")
    @pytest.mark.parametrize("kind", [Kind.CHAR_DEVICE, Kind.BLOCK_DEVICE])
    def test_mknod_of_devices(self, fs: Perform, kind: Kind) -> None:
        """Devices too."""
        self.test_mknod(fs, kind)

    @needs("special_nodes")
    @pytest.mark.parametrize("kind", [Kind.FILE, Kind.DIRECTORY, Kind.SYMLINK])
    def test_mknod_refuses_other_kinds(self, fs: Perform, kind: Kind) -> None:
        """Files, directories and links have verbs of their own."""
        with refused(fs, InvalidArgument):
            fs(Mknod("/s", kind))

    @needs("special_nodes")
    def test_mknod_where_something_is(self, fs: Perform) -> None:
        """A taken name and a missing parent are refused."""
        fs(Write("/s", "x"))
        with refused(fs, AlreadyExists):
            fs(Mknod("/s", Kind.FIFO))
        with refused(fs, NotFound):
            fs(Mknod("/d/s", Kind.FIFO))

    def test_remove_a_file(self, fs: Perform) -> None:
        """A removed file is gone, and only it."""
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        assert fs(Remove("/a")) is None
        assert names(fs) == ["b"]
        with pytest.raises(NotFound):
            fs(Read("/a"))

    def test_remove_what_is_not_there(self, fs: Perform) -> None:
        """Removing nothing raises NotFound."""
        with refused(fs, NotFound):
            fs(Remove("/a"))
        with refused(fs, NotFound):
            fs(Remove("/a", recursive=True))

    def test_remove_an_empty_directory(self, fs: Perform) -> None:
        """An empty directory needs no `recursive`."""
        fs(Mkdir("/d"))
        fs(Remove("/d"))
        assert names(fs) == []

    def test_remove_a_full_directory(self, fs: Perform) -> None:
        """A directory that holds something is refused, unless `recursive`."""
        fs(Write("/d/e/f", "x"))
        with refused(fs, NotEmpty):
            fs(Remove("/d"))
        fs(Remove("/d", recursive=True))
        assert names(fs) == []

    def test_what_was_removed_does_not_come_back(self, fs: Perform) -> None:
        """A directory made anew in the place of a removed tree is empty."""
        fs(Write("/d/e/f", "x"))
        fs(Remove("/d", recursive=True))
        fs(Mkdir("/d"))
        assert names(fs, "/d") == []
        fs(Mkdir("/d/e"))
        assert names(fs, "/d/e") == []

    @pytest.mark.parametrize(
        "op", [Remove("/", recursive=True), Move("/", "/x"), Move("/d", "/", replace=True),
               Copy("/d", "/", replace=True, recursive=True), Remove("/..", recursive=True)],
    )  # fmt: skip
    def test_the_root_stays(self, fs: Perform, op: Op[Any]) -> None:
        """The root cannot be removed, replaced or moved: Busy."""
        fs(Write("/d/a", "x"))
        with refused(fs, Busy):
            fs(op)

    def test_move_a_file(self, fs: Perform) -> None:
        """A moved file keeps identity, revision and bytes; the old name is free."""
        fs(Write("/a", "1"))
        before = fs(Write("/a", "2"))
        fs(Mkdir("/d"))
        stat = fs(Move("/a", "/d/b"))
        assert without(stat, "ctime_ns") == without(before, "ctime_ns")
        assert stat == fs(GetStat("/d/b"))
        assert (names(fs), fs(Read("/d/b"))) == (["d"], b"2")

    def test_move_a_tree(self, fs: Perform) -> None:
        """A moved directory takes along everything below it."""
        fs(Write("/d/e/f", "deep"))
        fs(Write("/d/g", "flat"))
        before = fs(GetStat("/d/e/f"))
        fs(Move("/d", "/x"))
        assert names(fs) == ["x"]
        assert (fs(Read("/x/e/f")), fs(Read("/x/g"))) == (b"deep", b"flat")
        assert fs(GetStat("/x/e/f")) == before

    def test_move_makes_parents_when_asked(self, fs: Perform) -> None:
        """A missing directory at the destination refuses, unless `parents`."""
        fs(Write("/a", "x"))
        with refused(fs, NotFound):
            fs(Move("/a", "/d/e/a"))
        fs(Move("/a", "/d/e/a", parents=True))
        assert names(fs, "/d/e") == ["a"]

    def test_move_of_nothing(self, fs: Perform) -> None:
        """A source that is not there is NotFound, and no parents are made for it."""
        with refused(fs, NotFound):
            fs(Move("/a", "/d/b", parents=True))

    @pytest.mark.parametrize("path", ["/a", "/d"])
    @pytest.mark.parametrize("replace", [False, True])
    def test_move_onto_itself(self, fs: Perform, path: str, replace: bool) -> None:
        """A move onto itself changes nothing and destroys nothing."""
        fs(Write("/a", "x"))
        fs(Write("/d/b", "x"))
        before = portrait(fs)
        assert fs(Move(path, path, replace=replace)) == before[path][0]
        assert portrait(fs) == before

    @needs("hard_links")
    def test_move_onto_another_name_of_the_same_node(self, fs: Perform) -> None:
        """Both names stay, as POSIX has it."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        before = portrait(fs)
        fs(Move("/a", "/b", replace=True))
        assert portrait(fs) == before

    @pytest.mark.parametrize("to", ["/d/x", "/d/e/x", "/d/e/f/../x"])
    def test_move_into_itself(self, fs: Perform, to: str) -> None:
        """A directory cannot be moved below itself."""
        fs(Mkdir("/d/e/f", parents=True))
        with refused(fs, InvalidArgument):
            fs(Move("/d", to, parents=True))

    @needs("symlinks")
    def test_move_into_itself_by_a_link(self, fs: Perform) -> None:
        """A link is no way of moving a directory below itself."""
        fs(Mkdir("/d/e", parents=True))
        fs(Symlink("/d/e", "/l"))
        with refused(fs, InvalidArgument):
            fs(Move("/d", "/l/x"))

    def test_move_next_to_a_longer_name(self, fs: Perform) -> None:
        """A name that continues the source's name is not below it."""
        fs(Write("/ab/f", "x"))
        fs(Mkdir("/abc"))
        fs(Move("/ab", "/abc/ab"))
        assert fs(Read("/abc/ab/f")) == b"x"

    @pytest.mark.parametrize(
        ("path", "to"), [("/f", "/g"), ("/f", "/d"), ("/d", "/f"), ("/d", "/e")]
    )
    def test_move_onto_something(self, fs: Perform, path: str, to: str) -> None:
        """A taken place is refused unless `replace` is asked for."""
        fs(Write("/f", "f"))
        fs(Write("/g", "g"))
        fs(Mkdir("/d"))
        fs(Mkdir("/e"))
        with refused(fs, AlreadyExists):
            fs(Move(path, to))

    def test_move_replaces_a_file(self, fs: Perform) -> None:
        """With `replace`, the file that was there is gone, and the moved one keeps its identity."""
        moved = fs(Write("/a", "new"))
        fs(Write("/b", "old content"))
        assert fs(Move("/a", "/b", replace=True)).id == moved.id
        assert (names(fs), fs(Read("/b"))) == (["b"], b"new")

    def test_move_replaces_an_empty_directory(self, fs: Perform) -> None:
        """A directory replaces an empty directory."""
        fs(Write("/d/f", "x"))
        fs(Mkdir("/e"))
        fs(Move("/d", "/e", replace=True))
        assert (names(fs), names(fs, "/e")) == (["e"], ["f"])

    def test_move_onto_a_full_directory(self, fs: Perform) -> None:
        """A directory that holds something is not replaced, not even by its own child."""
        fs(Write("/d/f", "x"))
        fs(Write("/e/g/h", "x"))
        with refused(fs, NotEmpty):
            fs(Move("/d", "/e", replace=True))
        with refused(fs, NotEmpty):
            fs(Move("/e/g", "/e", replace=True))

    def test_move_across_kinds(self, fs: Perform) -> None:
        """A file does not replace a directory, nor a directory a file."""
        fs(Write("/f", "x"))
        fs(Mkdir("/d"))
        with refused(fs, IsADirectory):
            fs(Move("/f", "/d", replace=True))
        with refused(fs, NotADirectory):
            fs(Move("/d", "/f", replace=True))

    @needs("symlinks")
    def test_move_moves_the_link(self, fs: Perform) -> None:
        """A link at either end is not followed: the link moves, the link is replaced."""
        fs(Write("/a", "a"))
        fs(Write("/b", "b"))
        fs(Symlink("a", "/l"))
        fs(Move("/l", "/m"))
        assert fs(GetStat("/m", follow=False)).kind is Kind.SYMLINK
        fs(Move("/b", "/m", replace=True))
        assert fs(GetStat("/m", follow=False)).kind is Kind.FILE
        assert (fs(Read("/a")), fs(Read("/m"))) == (b"a", b"b")

    @needs("times", "clock")
    def test_times_of_directories(self, make: Make, clock: FixedClock) -> None:
        """Making and removing an entry sets the directory's times; changing bytes does not."""
        fs = make(clock=clock)
        fs(Mkdir("/d"))
        steps: list[tuple[Op[Any], bool]] = [
            (Write("/d/a", "x"), True), (Write("/d/a", "y"), False), (Mkdir("/d/e"), True),
            (Write("/d/e/b", "x"), False), (Remove("/d/a"), True), (Move("/d/e", "/e"), True),
        ]  # fmt: skip
        for op, changes in steps:
            before = fs(GetStat("/d")).mtime_ns
            clock.advance(1)
            fs(op)
            stat = fs(GetStat("/d"))
            assert (stat.mtime_ns, stat.ctime_ns) == (
                (clock.now,) * 2 if changes else (before,) * 2
            )

    @needs("times", "clock")
    def test_times_of_files(self, make: Make, clock: FixedClock) -> None:
        """A change of bytes sets mtime and ctime; a move sets ctime alone."""
        fs = make(clock=clock)
        made = fs(Write("/a", "x"))
        assert {made.mtime_ns, made.ctime_ns, made.created_ns} == {clock.now}
        clock.advance(1)
        written = fs(Write("/a", "y"))
        assert (written.mtime_ns, written.ctime_ns) == (clock.now, clock.now)
        assert written.created_ns == made.created_ns
        clock.advance(1)
        moved = fs(Move("/a", "/b"))
        assert (moved.mtime_ns, moved.ctime_ns) == (written.mtime_ns, clock.now)
