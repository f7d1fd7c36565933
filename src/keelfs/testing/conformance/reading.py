"""The contract of looking: stat, list, read, open, readlink."""

from __future__ import annotations

import pytest

from keelfs.errors import (
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotAFile,
    NotALink,
    NotFound,
    RevisionNotFound,
    TooLarge,
)
from keelfs.model import MAX_PAGE, Kind, Limits
from keelfs.ops import (
    Append,
    GetStat,
    List,
    Mkdir,
    Mknod,
    Open,
    Patch,
    Read,
    Readlink,
    Remove,
    Symlink,
    Write,
)
from keelfs.testing.conformance.frame import Frame, Make, each, names, needs, refused
from keelfs.testing.portrait import Perform


class Reading(Frame):
    """What can be seen."""

    def test_stat_of_a_file_tells_kind_and_size(self, fs: Perform) -> None:
        """A file's stat tells its kind and its size in bytes."""
        fs(Write("/a", "héllo"))
        stat = fs(GetStat("/a"))
        assert (stat.kind, stat.size, stat.is_file) == (Kind.FILE, 6, True)

    def test_stat_of_the_root(self, fs: Perform) -> None:
        """The root is a directory of an empty tree, before anything was made."""
        stat = fs(GetStat("/"))
        assert (stat.kind, stat.size, stat.nlink) == (Kind.DIRECTORY, 0, 1)

    def test_stat_of_a_directory_has_no_size(self, fs: Perform) -> None:
        """A directory has size 0 and one link, whatever it holds."""
        fs(Write("/d/e/f", "x"))
        stat = fs(GetStat("/d"))
        assert (stat.kind, stat.size, stat.nlink, stat.is_directory) == (
            Kind.DIRECTORY, 0, 1, True,
        )  # fmt: skip

    @needs("symlinks")
    def test_stat_of_a_link_measures_its_target(self, fs: Perform) -> None:
        """A link's size is the length of its target in bytes."""
        fs(Symlink("zié", "/l"))
        stat = fs(GetStat("/l", follow=False))
        assert (stat.kind, stat.size, stat.target) == (Kind.SYMLINK, 4, "zié")

    @needs("symlinks")
    def test_stat_follows_a_link_when_asked(self, fs: Perform) -> None:
        """With `follow`, the stat is that of what the link leads to."""
        made = fs(Write("/a", "x"))
        fs(Symlink("a", "/l"))
        assert fs(GetStat("/l")).id == made.id
        assert fs(GetStat("/l", follow=False)).id != made.id

    @needs("symlinks")
    def test_stat_through_a_dangling_link(self, fs: Perform) -> None:
        """Following a dangling link finds nothing; not following finds the link."""
        fs(Symlink("nowhere", "/l"))
        assert fs(GetStat("/l", follow=False)).kind is Kind.SYMLINK
        with pytest.raises(NotFound):
            fs(GetStat("/l"))

    @needs("special_nodes", "devices")
    def test_stat_of_special_kinds(self, fs: Perform) -> None:
        """Special kinds have size 0 and keep their device number."""
        fs(Mknod("/dev", Kind.CHAR_DEVICE, 0o600, rdev=1281))
        stat = fs(GetStat("/dev"))
        assert (stat.kind, stat.size, stat.rdev) == (Kind.CHAR_DEVICE, 0, 1281)

    @pytest.mark.parametrize("path", ["/nothing", "/d/nothing", "/nothing/below"])
    def test_missing_is_not_found(self, fs: Perform, path: str) -> None:
        """A missing component raises NotFound for every verb that looks."""
        fs(Mkdir("/d"))
        for op in each(GetStat(path), List(path), Read(path), Readlink(path)):
            with pytest.raises(NotFound):
                fs(op)

    def test_a_file_in_the_middle(self, fs: Perform) -> None:
        """A component that is not a directory raises NotADirectory for every verb that looks."""
        fs(Write("/a", "x"))
        for op in each(GetStat("/a/b"), List("/a/b"), Read("/a/b/c"), Readlink("/a/b")):
            with pytest.raises(NotADirectory):
                fs(op)

    @needs("identity")
    def test_ids_differ_and_stay(self, fs: Perform) -> None:
        """Each node has an identity of its own, which a new content does not change."""
        first, other = fs(Write("/a", "1")), fs(Write("/b", "1"))
        assert first.id != other.id
        assert fs(Write("/a", "2")).id == first.id

    @needs("identity")
    def test_an_id_is_never_used_again(self, fs: Perform) -> None:
        """A file removed and made anew is another node."""
        first = fs(Write("/a", "1"))
        fs(Remove("/a"))
        assert fs(Write("/a", "1")).id != first.id

    def test_list_tells_name_and_kind(self, fs: Perform) -> None:
        """A listing gives each child's name with its stat."""
        fs(Write("/f", "abc"))
        fs(Mkdir("/d"))
        page = fs(List("/"))
        assert [(entry.name, entry.stat.kind, entry.stat.size) for entry in page.items] == [
            ("d", Kind.DIRECTORY, 0), ("f", Kind.FILE, 3),
        ]  # fmt: skip
        assert page.next is None

    def test_list_of_an_empty_directory(self, fs: Perform) -> None:
        """An empty directory lists as an empty page with nothing after it."""
        page = fs(List("/"))
        assert (page.items, page.next) == ([], None)

    def test_list_gives_children_only(self, fs: Perform) -> None:
        """Neither the directory itself nor grandchildren are listed."""
        fs(Write("/d/e/f/g", "x"))
        fs(Write("/d/h", "x"))
        assert names(fs, "/d") == ["e", "h"]

    def test_list_keeps_apart_names_that_begin_alike(self, fs: Perform) -> None:
        """A directory whose name begins another one's does not list what the other holds."""
        fs(Write("/ab/inside", "x"))
        fs(Mkdir("/a"))
        assert names(fs, "/a") == []
        assert names(fs) == ["a", "ab"]

    def test_list_sorts_by_bytes(self, fs: Perform) -> None:
        """Names come in the order of their UTF-8 bytes, not of any locale."""
        given = ["b", "a", "B", "Z", "é", "z", "a.b", "a-b", "a b", "10", "9", "_", "~", "😀", "ﬀ"]
        for name in given:
            fs(Write(f"/{name}", ""))
        assert names(fs) == sorted(given, key=str.encode)

    def test_list_stats_equal_stat(self, fs: Perform) -> None:
        """The stat in a listing is the stat that the verb gives, links not followed."""
        fs(Write("/f", "abc"))
        fs(Mkdir("/d"))
        for entry in fs(List("/")).items:
            assert entry.stat == fs(GetStat(f"/{entry.name}", follow=False))

    def test_list_of_a_file(self, fs: Perform) -> None:
        """Listing a file raises NotADirectory."""
        fs(Write("/a", "x"))
        with pytest.raises(NotADirectory):
            fs(List("/a"))

    def test_list_pages(self, fs: Perform) -> None:
        """Pages follow one another without gap or repetition, and the last one says so."""
        for index in range(7):
            fs(Write(f"/{index}", ""))
        first = fs(List("/", None, 3))
        second = fs(List("/", first.next, 3))
        third = fs(List("/", second.next, 3))
        pages = [[entry.name for entry in page.items] for page in (first, second, third)]
        assert pages == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
        assert (first.next, second.next, third.next) == ("2", "5", None)

    def test_list_page_that_fits_exactly(self, fs: Perform) -> None:
        """A page that holds all that is left has no next, though it is full."""
        for index in range(3):
            fs(Write(f"/{index}", ""))
        assert fs(List("/", None, 3)).next is None

    def test_list_after_a_name_that_does_not_exist(self, fs: Perform) -> None:
        """`after` is a place in the order; no entry of that name is needed."""
        for name in ("a", "c", "e"):
            fs(Write(f"/{name}", ""))
        assert [entry.name for entry in fs(List("/", "b")).items] == ["c", "e"]
        assert [entry.name for entry in fs(List("/", "c")).items] == ["e"]
        assert fs(List("/", "zz")).items == []

    @pytest.mark.parametrize("limit", [0, -1, MAX_PAGE + 1])
    def test_list_refuses_odd_limits(self, fs: Perform, limit: int) -> None:
        """The limit of a page lies between 1 and 10,000."""
        with pytest.raises(InvalidArgument):
            fs(List("/", None, limit))

    def test_list_accepts_the_largest_page(self, fs: Perform) -> None:
        """10,000 is a limit that is allowed."""
        assert fs(List("/", None, MAX_PAGE)).items == []

    @needs("symlinks")
    def test_list_follows_the_link_and_not_the_entries(self, fs: Perform) -> None:
        """A link to a directory lists that directory; links inside are listed as links."""
        fs(Write("/d/f", "x"))
        fs(Symlink("f", "/d/l"))
        fs(Symlink("d", "/link"))
        kinds = {entry.name: entry.stat.kind for entry in fs(List("/link")).items}
        assert kinds == {"f": Kind.FILE, "l": Kind.SYMLINK}

    def test_read_whole(self, fs: Perform) -> None:
        """A read gives back the bytes that were written, all 256 of them."""
        data = bytes(range(256)) * 3
        fs(Write("/a", data))
        assert fs(Read("/a")) == data

    def test_read_an_empty_file(self, fs: Perform) -> None:
        """An empty file has size 0 and reads as empty."""
        fs(Write("/a", b""))
        assert fs(Read("/a")) == b""
        assert fs(GetStat("/a")).size == 0

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [(0, 3, b"012"), (4, 3, b"456"), (8, 5, b"89"), (10, 5, b""), (99, 5, b""), (3, 0, b""),
         (5, None, b"56789"), (99, None, b"")],
    )  # fmt: skip
    def test_read_a_range(
        self, fs: Perform, offset: int, length: int | None, expected: bytes
    ) -> None:
        """A range gives fewer bytes only at the end; past the end it is empty."""
        fs(Write("/a", "0123456789"))
        assert fs(Read("/a", offset, length)) == expected

    def test_read_ranges_of_a_file_of_many_chunks(self, fs: Perform) -> None:
        """Ranges are right on, before and after the seams of a file of a megabyte."""
        data = b"".join(index.to_bytes(4) for index in range(2**18 + 77))
        fs(Write("/a", data))
        for seam in (2**12, 2**16, 2**18, 2**19, 2**20, len(data)):
            for offset in (seam - 3, seam - 1, seam, seam + 1):
                assert fs(Read("/a", offset, 5)) == data[offset : offset + 5]

    @pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1), (-5, 5)])
    def test_read_refuses_negative_ranges(
        self, fs: Perform, offset: int, length: int | None
    ) -> None:
        """A negative offset or length raises InvalidArgument."""
        fs(Write("/a", "0123456789"))
        with pytest.raises(InvalidArgument):
            fs(Read("/a", offset, length))

    def test_read_a_directory(self, fs: Perform) -> None:
        """Reading a directory, the root too, raises IsADirectory."""
        fs(Mkdir("/d"))
        for path in ("/d", "/"):
            with pytest.raises(IsADirectory):
                fs(Read(path))

    @needs("special_nodes")
    @pytest.mark.parametrize("kind", [Kind.FIFO, Kind.SOCKET])
    def test_read_a_special_kind(self, fs: Perform, kind: Kind) -> None:
        """What is neither file nor directory is never opened: NotAFile."""
        fs(Mknod("/s", kind))
        for op in each(Read("/s"), Open("/s"), Write("/s", "x"), Append("/s", "x")):
            with refused(fs, NotAFile):
                fs(op)

    @needs("special_nodes", "devices")
    @pytest.mark.parametrize("kind", [Kind.CHAR_DEVICE, Kind.BLOCK_DEVICE])
    def test_read_a_device(self, fs: Perform, kind: Kind) -> None:
        """Nor is a device."""
        self.test_read_a_special_kind(fs, kind)

    @needs("revisions", "history")
    def test_read_a_revision(self, fs: Perform) -> None:
        """Each kept revision reads as it was."""
        for text in ("one", "two", "three"):
            fs(Write("/a", text))
        got = [fs(Read("/a", 0, None, revision)) for revision in (1, 2, 3)]
        assert got == [b"one", b"two", b"three"]

    @needs("revisions")
    @pytest.mark.parametrize("revision", [0, 2, -1, 99])
    def test_read_a_revision_that_is_not_kept(self, fs: Perform, revision: int) -> None:
        """A revision that never was raises RevisionNotFound, and so does opening it.

        What is no number of a revision may be refused as such.
        """
        errors = (RevisionNotFound, InvalidArgument) if revision < 0 else RevisionNotFound
        fs(Write("/a", "x"))
        for op in each(Read("/a", 0, None, revision), Open("/a", revision)):
            with pytest.raises(errors):
                fs(op)

    @needs("limits")
    def test_read_limit(self, make: Make) -> None:
        """One read returns at most `read_bytes`; a range of a larger file may fit."""
        fs = make(limits=Limits(read_bytes=10))
        fs(Write("/a", b"x" * 25))
        assert fs(Read("/a", 5, 10)) == b"x" * 10
        assert fs(Read("/a", 20, None)) == b"x" * 5
        for op in each(Read("/a"), Read("/a", 0, 11)):
            with pytest.raises(TooLarge) as caught:
                fs(op)
            assert (caught.value.limit, caught.value.size) == ("space.read_bytes", 10)

    @needs("open")
    def test_open_reads_ranges(self, fs: Perform) -> None:
        """An opened content knows its stat and reads ranges like `read`."""
        fs(Write("/a", "0123456789"))
        content = fs(Open("/a"))
        assert content.stat.size == 10
        ranges = [(0, 4), (8, 9), (10, 1), (50, 1)]
        assert [content.read(*each) for each in ranges] == [b"0123", b"89", b"", b""]

    @needs("open")
    def test_open_pins_the_revision(self, fs: Perform) -> None:
        """What was opened before a change reads as before it."""
        fs(Write("/a", "old content"))
        content = fs(Open("/a"))
        fs(Write("/a", "new"))
        fs(Append("/a", "er"))
        fs(Patch("/a", 0, "N"))
        assert content.read(0, 99) == b"old content"

    @needs("open", "outliving")
    def test_open_outlives_the_file(self, fs: Perform) -> None:
        """What was opened is read also after the file is gone."""
        fs(Write("/a", "old content"))
        content = fs(Open("/a"))
        fs(Write("/a", "new"))
        fs(Remove("/a"))
        assert content.read(4, 7) == b"content"
        assert content.stat.size == 11

    @needs("open", "revisions", "history")
    def test_open_a_former_revision(self, fs: Perform) -> None:
        """A former revision opens with its own size and number."""
        fs(Write("/a", "first"))
        fs(Write("/a", "second!"))
        content = fs(Open("/a", 1))
        assert (content.stat.revision, content.stat.size) == (1, 5)
        assert content.read(0, 99) == b"first"

    @needs("open")
    def test_open_refuses_what_read_refuses(self, fs: Perform) -> None:
        """Opening raises the errors that reading raises."""
        fs(Mkdir("/d"))
        with pytest.raises(IsADirectory):
            fs(Open("/d"))
        with pytest.raises(NotFound):
            fs(Open("/nothing"))

    @needs("symlinks")
    @pytest.mark.parametrize("target", ["a", "/a", "../a", "./a//b/", "no where", "ü"])
    def test_readlink_gives_the_target_as_written(self, fs: Perform, target: str) -> None:
        """A link's target is kept as it was written."""
        fs(Symlink(target, "/l"))
        assert fs(Readlink("/l")) == target

    def test_readlink_of_other_kinds(self, fs: Perform) -> None:
        """Files and directories are not links: NotALink."""
        fs(Write("/a", "x"))
        for path in ("/a", "/"):
            with pytest.raises(NotALink):
                fs(Readlink(path))
