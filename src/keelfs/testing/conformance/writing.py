"""The contract of bytes: write, append, patch, truncate, checksum, streams."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from keelfs.errors import (
    DanglingLink,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotFound,
    ReadOnly,
)
from keelfs.model import Attrs, Kind
from keelfs.ops import (
    Add,
    Append,
    Checksum,
    Copy,
    GetStat,
    Link,
    Mkdir,
    Move,
    Op,
    Patch,
    Read,
    Remove,
    Restore,
    SetAttrs,
    Symlink,
    Truncate,
    Write,
)
from keelfs.testing.conformance.frame import Blocks, Frame, each, names, needs, refused
from keelfs.testing.portrait import Perform


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Breaking:
    """A source that gives up in the middle."""

    def blocks(self) -> Iterator[bytes]:
        yield b"half"
        raise InvalidArgument("the source broke")


class Writing(Frame):
    """How bytes come in."""

    def test_add_takes_the_first_free_name(self, fs: Perform) -> None:
        """A taken name is left alone; what is added lies beside it."""
        names_given = [fs(Add("/a.tar.gz", text)).name for text in ("0", "1", "2")]
        assert names_given == ["a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"]
        assert [fs(Read(f"/{name}")) for name in names_given] == [b"0", b"1", b"2"]
        fs(Remove("/a.tar (1).gz"))
        assert fs(Add("/a.tar.gz", "3")).name == "a.tar (1).gz"

    @pytest.mark.parametrize(
        ("name", "beside"),
        [
            ("a", "a (1)"),
            (".env", ".env (1)"),
            ("a.", "a (1)."),
            ("a (1)", "a (1) (1)"),
            ("é" * 127, "é" * 125 + " (1)"),
            ("x" * 251 + ".txt", "x" * 247 + " (1).txt"),
        ],
    )
    def test_names_beside_stay_names(self, fs: Perform, name: str, beside: str) -> None:
        """The number stands before the ending, and the name stays within 255 bytes."""
        stat = fs(Add(f"/d/{name}", "0")).stat
        added = fs(Add(f"/d/{name}", "1", mode=0o600))
        assert (added.name, added.stat.mode) == (beside, 0o600)
        assert added.stat.id != stat.id

    @needs("symlinks")
    def test_add_follows_no_link_and_replaces_nothing(self, fs: Perform) -> None:
        """Directories and links take names as well, dangling ones included."""
        fs(Mkdir("/a"))
        fs(Symlink("nowhere", "/a (1)"))
        assert fs(Add("/a", "x")).name == "a (2)"
        assert fs(Add("/new/b", "x")).name == "b"
        with refused(fs, IsADirectory):
            fs(Add("/", "x"))
        with refused(fs, NotFound):
            fs(Add("/missing/b", "x", parents=False))
        with refused(fs, NotADirectory):
            fs(Add("/a (2)/b", "x"))

    def test_write_makes_a_file(self, fs: Perform) -> None:
        """A write to a free name makes the file, and answers with its stat."""
        stat = fs(Write("/a", "hello"))
        assert (stat.kind, stat.size) == (Kind.FILE, 5)
        assert stat == fs(GetStat("/a"))
        assert fs(Read("/a")) == b"hello"

    def test_write_replaces_all_bytes(self, fs: Perform) -> None:
        """A shorter content leaves nothing of a longer one."""
        fs(Write("/a", "a long content"))
        assert fs(Write("/a", "short")).size == 5
        assert fs(Read("/a")) == b"short"

    @needs("revisions")
    def test_revisions_count_from_one(self, fs: Perform) -> None:
        """A new file is at revision 1; each change of its bytes counts one more."""
        revisions = [
            fs(op).revision
            for op in each(
                Write("/a", "1"), Write("/a", "2"), Append("/a", "3"), Patch("/a", 0, "4"),
                Truncate("/a", 1), Write("/a", "4"),
            )
        ]  # fmt: skip
        assert revisions == [1, 2, 3, 4, 5, 6]

    def test_write_makes_parents(self, fs: Perform) -> None:
        """With `parents`, every missing directory is made and each listing shows the next."""
        path = "/users/u-1/agents/a-1/memory/feedback_terminology.md"
        fs(Write(path, "x"))
        assert [names(fs, path.rsplit("/", depth)[0] or "/") for depth in range(1, 7)] == [
            ["feedback_terminology.md"], ["memory"], ["a-1"], ["agents"], ["u-1"], ["users"],
        ]  # fmt: skip

    @needs("owners")
    def test_parents_have_mode_0755(self, fs: Perform) -> None:
        """Directories made on the way have mode 0755."""
        fs(Write("/a/b/c", "x"))
        assert [fs(GetStat(path)).mode for path in ("/a", "/a/b")] == [0o755, 0o755]

    @needs("owners")
    def test_existing_parents_stay_as_they_are(self, fs: Perform) -> None:
        """A directory that exists keeps its identity and mode when something is written below."""
        made = fs(Mkdir("/a", mode=0o700))
        fs(Write("/a/b/c", "x"))
        after = fs(GetStat("/a"))
        assert (after.id, after.mode) == (made.id, 0o700)

    def test_write_without_parents(self, fs: Perform) -> None:
        """Without `parents`, a missing directory refuses the write."""
        with refused(fs, NotFound):
            fs(Write("/d/a", "x", parents=False))

    @pytest.mark.parametrize("op", [Write("/f/a", "x"), Append("/f/a", "x"), Mkdir("/f/a/b", True)])
    def test_write_below_a_file(self, fs: Perform, op: Op[Any]) -> None:
        """A file has no entries: writing below one raises NotADirectory."""
        fs(Write("/f", "x"))
        with refused(fs, NotADirectory):
            fs(op)

    @pytest.mark.parametrize(
        "op",
        [
            Write("/d", "x"),
            Append("/d", "x"),
            Patch("/d", 0, "x"),
            Truncate("/d", 0),
            Write("/", "x"),
        ],
    )
    def test_write_onto_a_directory(self, fs: Perform, op: Op[Any]) -> None:
        """A directory has no bytes: IsADirectory, and it stays a directory with its children."""
        fs(Write("/d/keep", "x"))
        with refused(fs, IsADirectory):
            fs(op)

    @needs("owners")
    def test_modes_of_new_files(self, fs: Perform) -> None:
        """A new file has mode 0644 or the mode that was asked for, of which 12 bits count."""
        assert fs(Write("/a", "")).mode == 0o644
        assert fs(Write("/b", "", mode=0o600)).mode == 0o600
        assert fs(Write("/c", "", mode=0o104755)).mode == 0o4755

    @needs("owners")
    def test_mode_counts_only_for_a_new_file(self, fs: Perform) -> None:
        """Overwriting keeps the mode of the file."""
        fs(Write("/a", "", mode=0o600))
        assert fs(Write("/a", "x", mode=0o777)).mode == 0o600

    @needs("mime")
    def test_mime_is_kept_and_replaced(self, fs: Perform) -> None:
        """A media type is set by a write, kept by a write that names none."""
        assert fs(Write("/a", "", mime="text/plain")).mime == "text/plain"
        assert fs(Write("/a", "x")).mime == "text/plain"
        assert fs(Write("/a", "x", mime="text/html")).mime == "text/html"
        assert fs(Write("/b", "")).mime is None

    def test_text_is_written_as_utf8(self, fs: Perform) -> None:
        """Text is encoded as UTF-8."""
        fs(Write("/a", "né😀"))
        assert fs(Read("/a")) == "né😀".encode()

    def test_append_adds_at_the_end(self, fs: Perform) -> None:
        """Appends add up in order."""
        for text in ("one,", "two,", "three"):
            stat = fs(Append("/a", text))
        assert fs(Read("/a")) == b"one,two,three"
        assert stat.size == 13

    def test_many_small_appends(self, fs: Perform) -> None:
        """Fifty appends lose nothing and repeat nothing."""
        parts = [b"%03d\n" % index for index in range(50)]
        for part in parts:
            fs(Append("/log", part))
        assert fs(Read("/log")) == b"".join(parts)

    def test_append_makes_the_file(self, fs: Perform) -> None:
        """An append to a free name makes the file, and its parents if asked."""
        fs(Append("/d/a", "x"))
        assert fs(Read("/d/a")) == b"x"
        with refused(fs, NotFound):
            fs(Append("/e/a", "x", parents=False))

    def test_append_nothing_makes_an_empty_file(self, fs: Perform) -> None:
        """An empty append to a free name makes an empty file."""
        assert fs(Append("/a", b"")).size == 0
        assert names(fs) == ["a"]

    def test_append_nothing_changes_nothing(self, fs: Perform) -> None:
        """An empty append to an existing file changes neither revision nor times."""
        before = fs(Write("/a", "x"))
        assert fs(Append("/a", b"")) == before
        assert fs(GetStat("/a")) == before

    def test_append_to_a_copy_leaves_the_original(self, fs: Perform) -> None:
        """Contents are shared, and each file still has its own: appends do not show through."""
        fs(Write("/a", "base"))
        fs(Append("/a", "+"))
        fs(Copy("/a", "/b"))
        fs(Append("/b", "B"))
        fs(Append("/a", "A"))
        fs(Append("/b", "B"))
        assert (fs(Read("/a")), fs(Read("/b"))) == (b"base+A", b"base+BB")

    @pytest.mark.parametrize(
        ("offset", "data", "expected"),
        [(0, b"AB", b"AB23456789"), (4, b"AB", b"0123AB6789"), (8, b"AB", b"01234567AB"),
         (9, b"ABC", b"012345678ABC"), (10, b"A", b"0123456789A"),
         (12, b"A", b"0123456789\0\0A")],
    )  # fmt: skip
    def test_patch(self, fs: Perform, offset: int, data: bytes, expected: bytes) -> None:
        """A patch replaces bytes in place and grows the file if need be; a gap reads as zeros."""
        fs(Write("/a", "0123456789"))
        assert fs(Patch("/a", offset, data)).size == len(expected)
        assert fs(Read("/a")) == expected

    def test_patch_across_chunks(self, fs: Perform) -> None:
        """A patch over the seams of a large file changes exactly its own bytes."""
        data = bytearray(index % 251 for index in range(700_000))
        fs(Write("/a", bytes(data)))
        for offset, size in ((262_140, 9), (100_000, 300_000), (699_990, 100), (0, 1)):
            fs(Patch("/a", offset, b"P" * size))
            data[offset : offset + size] = b"P" * size
        assert fs(Read("/a")) == bytes(data)

    def test_patch_needs_the_file(self, fs: Perform) -> None:
        """Patching and truncating make no file."""
        for op in each(Patch("/a", 0, "x"), Truncate("/a", 0)):
            with refused(fs, NotFound):
                fs(op)

    @pytest.mark.parametrize("offset", [0, 1, 99])
    def test_an_empty_patch_changes_nothing(self, fs: Perform, offset: int) -> None:
        """A patch without bytes changes nothing, also beyond the end."""
        before = fs(Write("/a", "x"))
        assert fs(Patch("/a", offset, b"")) == before

    @pytest.mark.parametrize("op", [Patch("/a", -1, "x"), Truncate("/a", -1)])
    def test_negative_places(self, fs: Perform, op: Op[Any]) -> None:
        """Negative offsets and sizes raise InvalidArgument."""
        fs(Write("/a", "x"))
        with refused(fs, InvalidArgument):
            fs(op)

    @pytest.mark.parametrize(
        ("size", "expected"), [(0, b""), (2, b"he"), (5, b"hello"), (8, b"hello\0\0\0")]
    )
    def test_truncate(self, fs: Perform, size: int, expected: bytes) -> None:
        """A file is cut, or grown by zeros."""
        fs(Write("/a", "hello"))
        assert fs(Truncate("/a", size)).size == size
        assert fs(Read("/a")) == expected

    def test_truncate_then_grow_shows_zeros(self, fs: Perform) -> None:
        """What was cut off does not come back when the file grows again."""
        fs(Write("/a", b"secret" * 50_000))
        fs(Truncate("/a", 3))
        fs(Truncate("/a", 300_000))
        assert fs(Read("/a")) == b"sec" + bytes(299_997)

    def test_truncate_to_the_same_size(self, fs: Perform) -> None:
        """The size that the file has already changes nothing."""
        before = fs(Write("/a", "hello"))
        assert fs(Truncate("/a", 5)) == before

    @needs("symlinks")
    def test_writes_follow_links(self, fs: Perform) -> None:
        """Every verb that changes bytes follows a link at the end; the link stays a link."""
        fs(Write("/d/a", "0"))
        fs(Symlink("d/a", "/l"))
        fs(Write("/l", "12"))
        fs(Append("/l", "3"))
        fs(Patch("/l", 0, "9"))
        fs(Truncate("/l", 2))
        assert fs(Read("/d/a")) == b"92"
        assert fs(GetStat("/l", follow=False)).kind is Kind.SYMLINK

    @needs("symlinks")
    @pytest.mark.parametrize("op", [Write("/l", "x"), Append("/l", "x")])
    @pytest.mark.parametrize("target", ["nowhere", "no/where", "/d/nowhere"])
    def test_writing_through_a_dangling_link(self, fs: Perform, op: Op[Any], target: str) -> None:
        """A link that leads nowhere is not written through."""
        fs(Mkdir("/d"))
        fs(Symlink(target, "/l"))
        with refused(fs, DanglingLink):
            fs(op)

    @needs("readonly")
    @pytest.mark.parametrize(
        "op",
        [
            Write("/a", "x"), Append("/a", "x"), Patch("/a", 0, "x"), Truncate("/a", 0),
            Copy("/b", "/a", replace=True), Move("/b", "/a", replace=True),
        ],
    )  # fmt: skip
    def test_readonly_refuses_changes_of_bytes(self, fs: Perform, op: Op[Any]) -> None:
        """A readonly file refuses every change of its bytes, also by copy or move onto it."""
        fs(Write("/a", "keep"))
        fs(Write("/b", "other"))
        fs(SetAttrs("/a", Attrs(readonly=True)))
        with refused(fs, ReadOnly):
            fs(op)

    @needs("readonly", "history")
    def test_readonly_refuses_restore(self, fs: Perform) -> None:
        """Restoring a revision is a change of bytes, too."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        fs(SetAttrs("/a", Attrs(readonly=True)))
        with refused(fs, ReadOnly):
            fs(Restore("/a", 1))

    @needs("readonly", "hard_links")
    def test_readonly_holds_under_every_name(self, fs: Perform) -> None:
        """A second name is no way around readonly."""
        fs(Write("/a", "keep"))
        fs(SetAttrs("/a", Attrs(readonly=True)))
        fs(Link("/a", "/b"))
        with refused(fs, ReadOnly):
            fs(Append("/b", "x"))

    @needs("readonly")
    def test_readonly_files_move_and_go(self, fs: Perform) -> None:
        """A readonly file may be moved, removed, and made writable again."""
        fs(Write("/a", "keep"))
        assert fs(SetAttrs("/a", Attrs(readonly=True))).readonly
        assert fs(Move("/a", "/b")).readonly
        fs(SetAttrs("/b", Attrs(readonly=False)))
        fs(Write("/b", "new"))
        fs(SetAttrs("/b", Attrs(readonly=True)))
        fs(Remove("/b"))
        assert names(fs) == []

    @needs("checksum")
    def test_checksum(self, fs: Perform) -> None:
        """The checksum is that of the present bytes, after every way of changing them."""
        fs(Write("/a", "hello"))
        assert fs(Checksum("/a")) == sha256(b"hello")
        fs(Append("/a", "!"))
        assert fs(Checksum("/a")) == sha256(b"hello!")
        fs(Patch("/a", 0, "J"))
        assert fs(Checksum("/a")) == sha256(b"Jello!")
        fs(Truncate("/a", 1))
        assert fs(Checksum("/a")) == sha256(b"J")
        fs(Write("/a", ""))
        assert fs(Checksum("/a")) == sha256(b"")

    @needs("checksum", "known_checksum")
    def test_a_known_checksum_is_in_the_stat(self, fs: Perform) -> None:
        """A write makes the checksum known; a partial change makes it unknown until asked."""
        assert fs(Write("/a", "hello")).sha256 == sha256(b"hello")
        assert fs(Copy("/a", "/b")).sha256 == sha256(b"hello")
        for op in each(Append("/a", "!"), Patch("/a", 0, "J"), Truncate("/a", 2)):
            assert fs(op).sha256 is None
            assert fs(Checksum("/a")) == sha256(fs(Read("/a")))
            assert fs(GetStat("/a")).sha256 == sha256(fs(Read("/a")))

    @needs("checksum")
    def test_checksum_of_other_kinds(self, fs: Perform) -> None:
        """A directory has no checksum, and what is not there neither."""
        with pytest.raises(IsADirectory):
            fs(Checksum("/"))
        with pytest.raises(NotFound):
            fs(Checksum("/a"))

    @needs("streams")
    @pytest.mark.parametrize(
        "blocks", [(), (b"",), (b"one", b"", b"two"), tuple(b"%d," % n for n in range(300))]
    )
    def test_streams_are_joined(self, fs: Perform, blocks: tuple[bytes, ...]) -> None:
        """Blocks of any size make the same file as their sum, in write, append and patch."""
        whole = b"".join(blocks)
        assert fs(Write("/a", Blocks(*blocks))).size == len(whole)
        assert fs(Read("/a")) == whole
        fs(Append("/a", Blocks(*blocks)))
        assert fs(Read("/a")) == whole * 2
        fs(Patch("/a", 1, Blocks(*blocks)))
        assert fs(Read("/a")) == (whole[:1] + whole + (whole * 2)[1 + len(whole) :])

    @needs("streams", "checksum", "known_checksum")
    def test_a_streamed_file_has_a_checksum(self, fs: Perform) -> None:
        """The checksum of a streamed write is that of all its blocks."""
        blocks = [bytes([index]) * 100_000 for index in range(9)]
        assert fs(Write("/a", Blocks(*blocks))).sha256 == sha256(b"".join(blocks))

    @needs("streams")
    def test_a_stream_that_breaks_leaves_nothing(self, fs: Perform) -> None:
        """A source that raises in the middle refuses the write; the old content stays."""

        fs(Write("/a", "old"))
        for path in ("/a", "/new"):
            with refused(fs, InvalidArgument):
                fs(Write(path, Breaking()))
