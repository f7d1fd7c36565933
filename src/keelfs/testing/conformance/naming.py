"""The contract of hostile names and paths: everything that is legal is literal."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from keelfs.errors import InvalidPath, KeelError, NameTooLong, NotFound
from keelfs.ops import (
    Append,
    Changes,
    Copy,
    GetStat,
    GetUsage,
    List,
    Mkdir,
    Move,
    Op,
    Read,
    Remove,
    Symlink,
    Trash,
    Untrash,
    Write,
)
from keelfs.path import sort_key
from keelfs.testing.conformance.frame import Frame, each, names, needs, refused
from keelfs.testing.portrait import Perform

#: Names that a careless store takes for something else.
HOSTILE = [
    "_", "%", "%%", "a_c", "a%c", "\\", "\\_", "a\\", "'", '"', "`", "; DROP TABLE nodes --",
    "' OR '1'='1", "$1", "?1", ":name", "{0}", "*", "a*", "?", "[a-z]", "[", "~", "-rf", "--",
    "...", ".hidden", "..a", " ", " a", "a ", "a.", "a\nb", "\t", "\r\n", "\x01", "\x7f",
    "\x1b[31m",
    "é", "e\u0301", "ß", "İ", "ﬀ", "😀", "👨‍👩‍👧", "\u202egnp.exe", "שלום", "\u200b", "\ufeff",
    "\uffff",
    "A", "con", "NUL", "CON.txt", "a:b", "x" * 255, "é" * 127, "😀" * 63, "true", "null", "0",
]  # fmt: skip

#: Pairs that a careless comparison takes for one another.
TWINS = [
    ("a_c", "abc"), ("abc", "a_c"), ("a%", "abc"), ("%", "x"), ("_", "x"), ("a\\_c", "a_c"),
    ("A", "a"), ("README", "readme"), ("É", "é"), ("é", "e\u0301"), ("ß", "ss"), ("ﬀ", "ff"),
    ("İ", "i"), ("abc", "abcd"), ("abcd", "abc"), ("a", "a "), ("a", "a."), ("a", " a"),
    ("a", "a\n"), ("1", "01"), ("x" * 254, "x" * 255), ("a-b", "a_b"), ("😀", "😁"), ("a", "а"),
]  # fmt: skip

name_of = pytest.mark.parametrize("name", HOSTILE, ids=ascii)
twins = pytest.mark.parametrize(("name", "twin"), TWINS, ids=ascii)


class HostileNames(Frame):
    """A name is its bytes and nothing else."""

    @name_of
    def test_a_file_of_any_name(self, fs: Perform, name: str) -> None:
        """Every legal name is written, listed, read, copied, moved and removed as it is."""
        fs(Write(f"/{name}", "x"))
        assert names(fs) == [name]
        fs(Append(f"/{name}", "y"))
        fs(Copy(f"/{name}", f"/copies/{name}", parents=True))
        fs(Move(f"/{name}", f"/moved/{name}", parents=True))
        fs(Remove(f"/copies/{name}"))
        assert (names(fs, "/moved"), names(fs, "/copies")) == ([name], [])
        assert fs(Read(f"/moved/{name}")) == b"xy"

    @name_of
    def test_a_directory_of_any_name(self, fs: Perform, name: str) -> None:
        """Every legal name is that of a directory in the middle of a path, too."""
        fs(Write(f"/{name}/{name}/f", "x"))
        assert names(fs, f"/{name}/{name}") == ["f"]
        fs(Move(f"/{name}", "/plain"))
        assert fs(Read(f"/plain/{name}/f")) == b"x"
        fs(Remove(f"/plain/{name}", recursive=True))
        assert names(fs, "/plain") == []

    @needs("journal")
    @name_of
    def test_the_journal_keeps_any_name(self, fs: Perform, name: str) -> None:
        """The journal tells every name as it is, and keeps apart what is below it."""
        fs(Mkdir(f"/{name}"))
        fs(Write(f"/{name}/{name}", "x"))
        assert [change.path for change in fs(Changes()).items] == [(name,), (name, name)]
        assert [change.path for change in fs(Changes(f"/{name}")).items] == [(), (name,)]

    @needs("symlinks")
    @name_of
    def test_links_to_any_name(self, fs: Perform, name: str) -> None:
        """A link leads to a name of any kind."""
        fs(Write(f"/d/{name}", "x"))
        fs(Symlink(f"d/{name}", f"/l{name}"[:200]))
        assert fs(Read(f"/l{name}"[:200])) == b"x"

    @needs("trash")
    @name_of
    def test_trash_keeps_any_name(self, fs: Perform, name: str) -> None:
        """What is trashed under any name comes back under it."""
        fs(Write(f"/{name}/f", "x"))
        thing = fs(Trash(f"/{name}"))
        assert thing.path == (name,)
        fs(Untrash(thing.id))
        assert names(fs) == [name]

    def test_all_at_once(self, fs: Perform) -> None:
        """All of them lie in one directory, in the order of their bytes, over many pages."""
        for name in HOSTILE:
            fs(Write(f"/{name}", name))
        seen: list[str] = []
        after: str | None = None
        while True:
            page = fs(List("/", after, 7))
            seen += [entry.name for entry in page.items]
            after = page.next
            if after is None:
                break
        assert seen == sorted(HOSTILE, key=sort_key)
        assert [fs(Read(f"/{name}")) for name in HOSTILE] == [name.encode() for name in HOSTILE]

    def test_names_are_not_normalised(self, fs: Perform) -> None:
        """Composed and decomposed spellings are two names."""
        composed, decomposed = "ñ", unicodedata.normalize("NFD", "ñ")
        fs(Write(f"/{composed}", "1"))
        with pytest.raises(NotFound):
            fs(Read(f"/{decomposed}"))
        fs(Write(f"/{decomposed}", "2"))
        assert sorted(names(fs)) == sorted([composed, decomposed])

    @twins
    def test_twins_are_not_found(self, fs: Perform, name: str, twin: str) -> None:
        """What is there does not answer to its twin's name."""
        fs(Write(f"/{name}/f", "x"))
        for op in each(
            GetStat(f"/{twin}"), List(f"/{twin}"), Read(f"/{twin}/f"), Remove(f"/{twin}")
        ):
            with refused(fs, NotFound):
                fs(op)

    @twins
    def test_twins_survive(self, fs: Perform, name: str, twin: str) -> None:
        """Removing, moving and overwriting a tree leaves its twin as it was."""
        for directory in (name, twin):
            fs(Write(f"/{directory}/sub/f", directory))
        fs(Write(f"/{name}/sub/f", "changed"))
        assert fs(Read(f"/{twin}/sub/f")) == twin.encode()
        fs(Move(f"/{name}", "/moved"))
        assert sorted(names(fs)) == sorted(["moved", twin])
        fs(Move("/moved", f"/{name}"))
        fs(Remove(f"/{name}", recursive=True))
        assert (names(fs), fs(Read(f"/{twin}/sub/f"))) == ([twin], twin.encode())

    @twins
    def test_twins_are_copied_apart(self, fs: Perform, name: str, twin: str) -> None:
        """Copying a tree copies nothing of its twin."""
        fs(Write(f"/{name}/mine", "1"))
        fs(Write(f"/{twin}/other", "2"))
        fs(Copy(f"/{name}", "/copy of it", recursive=True))
        assert names(fs, "/copy of it") == ["mine"]

    @needs("usage")
    @twins
    def test_twins_are_counted_apart(self, fs: Perform, name: str, twin: str) -> None:
        """The usage of a directory does not count its twin's."""
        fs(Write(f"/{name}/f", "1"))
        fs(Write(f"/{twin}/f", "22"))
        assert (fs(GetUsage(f"/{name}")).bytes, fs(GetUsage(f"/{twin}")).bytes) == (1, 2)

    @needs("journal")
    @twins
    def test_twins_are_told_apart(self, fs: Perform, name: str, twin: str) -> None:
        """Whoever watches one is not told of the other."""
        fs(Write(f"/{twin}/f", "x"))
        assert fs(Changes(f"/{name}")).items == []

    @needs("trash")
    @twins
    def test_twins_are_trashed_apart(self, fs: Perform, name: str, twin: str) -> None:
        """Trashing one leaves the other."""
        fs(Write(f"/{name}/f", "1"))
        fs(Write(f"/{twin}/f", "2"))
        thing = fs(Trash(f"/{name}"))
        assert names(fs) == [twin]
        fs(Untrash(thing.id))
        assert fs(Read(f"/{twin}/f")) == b"2"


class Paths(Frame):
    """How a path is read."""

    @pytest.mark.parametrize(
        "path",
        ["/d/a", "d/a", "//d//a", "/d/a/", "/./d/./a", "/d/../d/a", "/../../d/a", "/x/../d/a",
         "/d/b/../a", "d/./a//"],
    )  # fmt: skip
    def test_spellings(self, fs: Perform, path: str) -> None:
        """Repeated slashes and dots vanish; `..` is resolved lexically and stops at the root."""
        fs(Write("/d/a", "x"))
        assert fs(Read(path)) == b"x"

    @pytest.mark.parametrize("path", ["/", "", ".", "/..", "//", "/d/..", "../.."])
    def test_spellings_of_the_root(self, fs: Perform, path: str) -> None:
        """What leads above the root is the root."""
        fs(Write("/d/a", "x"))
        assert names(fs, path) == ["d"]

    @pytest.mark.parametrize("path", ["/a\0b", "\0", "/d/\0/a", "/a\ud800"])
    def test_what_is_no_path(self, fs: Perform, path: str) -> None:
        """NUL and what is not UTF-8 are refused by every verb."""
        for op in each(Write(path, "x"), Read(path), List(path), Mkdir(path), Remove(path),
                   GetStat(path), Copy("/", path), Move("/", path)):  # fmt: skip
            with refused(fs, InvalidPath):
                fs(op)

    @pytest.mark.parametrize("name", ["x" * 256, "é" * 128, "😀" * 64])
    def test_names_that_are_too_long(self, fs: Perform, name: str) -> None:
        """A name has at most 255 bytes of UTF-8."""
        for op in each(Write(f"/{name}", "x"), Mkdir(f"/d/{name}", parents=True), Read(f"/{name}")):
            with refused(fs, NameTooLong):
                fs(op)

    def test_paths_that_are_too_long(self, fs: Perform) -> None:
        """A path has at most 4,096 bytes."""
        longest = "/x" * 100 + "/" + "/".join(["y" * 243] * 15)
        assert len(longest.encode()) <= 4096
        fs(Write(longest, "x"))
        assert fs(Read(longest)) == b"x"
        with refused(fs, NameTooLong):
            fs(Write("/" + "x/" * 2048, "x"))

    @pytest.mark.parametrize(
        "op", [Read("/secret/nothing"), Remove("/secret"), Mkdir("/secret/a"), Write("/", "x"),
               Move("/secret/nothing", "/b"), List("/secret/a"), Copy("/secret", "/b")],
    )  # fmt: skip
    def test_messages_name_no_path(self, fs: Perform, op: Op[Any]) -> None:
        """The message of an error says what is wrong without a path of the volume's own."""
        fs(Write("/secret/a", "x"))
        with pytest.raises(KeelError) as caught:
            fs(op)
        assert "secret" not in caught.value.message
        assert caught.value.message
        assert caught.value.code
