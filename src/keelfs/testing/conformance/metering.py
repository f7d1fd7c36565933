"""The contract of the ledger and the limits."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import KeelError, NotFound, QuotaExceeded, TooLarge
from keelfs.model import Kind, Limits, Usage
from keelfs.ops import (
    Append,
    Batch,
    Copy,
    DropSnapshot,
    GetStat,
    GetUsage,
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
    Symlink,
    TakeSnapshot,
    Trash,
    Truncate,
    Untrash,
    Write,
)
from keelfs.ports import Handler
from keelfs.testing.conformance.frame import Blocks, Frame, Make, each, names, needs, refused
from keelfs.testing.conformance.subjects import Subject
from keelfs.testing.portrait import Perform


def used(fs: Perform, path: str = "/") -> tuple[int, int]:
    usage = fs(GetUsage(path))
    return usage.bytes, usage.nodes


@needs("usage")
class Ledger(Frame):
    """What is used equals what is there."""

    def test_an_empty_space(self, fs: Perform) -> None:
        """Nothing is used by nothing; the root is not counted."""
        assert used(fs) == (0, 0)

    @pytest.mark.parametrize(
        ("op", "expected"),
        [
            (Write("/d/n", "12"), (12, 5)), (Write("/a", "1"), (6, 4)),
            (Append("/a", "12"), (12, 4)),
            (Patch("/a", 6, "1"), (12, 4)), (Truncate("/a", 2), (7, 4)), (Mkdir("/e"), (10, 5)),
            (Remove("/a"), (5, 3)), (Remove("/d", recursive=True), (5, 1)),
            (Move("/a", "/d/e/b"), (10, 4)), (Move("/a", "/d/e/f", replace=True), (5, 3)),
            (Copy("/a", "/b"), (15, 5)), (Copy("/d", "/x", recursive=True), (15, 7)),
            (Copy("/a", "/d/e/f", replace=True), (10, 4)),
        ],
    )  # fmt: skip
    def test_every_verb_is_counted(
        self, fs: Perform, op: Op[Any], expected: tuple[int, int]
    ) -> None:
        """Each verb moves the counters by exactly what it does."""
        fs(Write("/a", "12345"))
        fs(Write("/d/e/f", "12345"))
        assert used(fs) == (10, 4)
        fs(op)
        assert used(fs) == expected

    @needs("hard_links", "shared_bytes")
    def test_every_name_is_charged(self, fs: Perform) -> None:
        """A second name of a node charges its size again, and grows with it."""
        fs(Write("/a", "123"))
        fs(Link("/a", "/b"))
        assert used(fs) == (6, 2)
        fs(Append("/a", "4"))
        assert used(fs) == (8, 2)
        fs(Remove("/b"))
        assert used(fs) == (4, 1)

    @needs("symlinks", "special_nodes")
    def test_links_and_specials_charge_names_only(self, fs: Perform) -> None:
        """Links and special kinds have no bytes to charge."""
        fs(Symlink("some/where", "/l"))
        fs(Mknod("/s", Kind.FIFO))
        assert used(fs) == (0, 2)

    def test_usage_of_a_directory(self, fs: Perform) -> None:
        """A directory's usage is what lies below it, without itself."""
        fs(Write("/d/e/f", "123"))
        fs(Write("/d/g", "45"))
        fs(Write("/h", "6"))
        assert [used(fs, path) for path in ("/d", "/d/e", "/h", "/d/g")] == [
            (5, 3), (3, 1), (1, 0), (2, 0),
        ]  # fmt: skip

    def test_usage_of_nothing(self, fs: Perform) -> None:
        """What is not there uses nothing, but that is an error."""
        with pytest.raises(NotFound):
            fs(GetUsage("/nothing"))

    @needs("trash")
    def test_the_trash_is_charged_apart(self, fs: Perform) -> None:
        """Trashing moves the charge, untrash moves it back, purge ends it."""
        fs(Write("/d/a", "12345"))
        thing = fs(Trash("/d"))
        usage = fs(GetUsage())
        assert (usage.bytes, usage.nodes, usage.trash_bytes, usage.trash_nodes) == (0, 0, 5, 2)
        fs(Untrash(thing.id))
        usage = fs(GetUsage())
        assert (usage.bytes, usage.nodes, usage.trash_bytes, usage.trash_nodes) == (5, 2, 0, 0)
        fs(Purge(fs(Trash("/d")).id))
        usage = fs(GetUsage())
        assert (usage.bytes, usage.trash_bytes, usage.trash_nodes) == (0, 0, 0)

    @needs("trash", "hard_links")
    def test_a_name_in_the_trash_grows_too(self, fs: Perform) -> None:
        """Bytes added under one name are charged where the other name lies."""
        fs(Write("/a", "1"))
        fs(Link("/a", "/b"))
        fs(Trash("/a"))
        fs(Append("/b", "23"))
        usage = fs(GetUsage())
        assert (usage.bytes, usage.trash_bytes) == (3, 3)

    @needs("history")
    def test_history_is_counted(self, fs: Perform) -> None:
        """Kept revisions count, until their file is gone."""
        for text in ("1", "22", "333"):
            fs(Write("/a", text))
        assert fs(GetUsage()).history_bytes == 3
        fs(Remove("/a"))
        assert fs(GetUsage()).history_bytes == 0

    @needs("history", "trash")
    def test_history_in_the_trash_is_counted(self, fs: Perform) -> None:
        """History stays counted in the trash and goes with a purge."""
        fs(Write("/a", "12"))
        fs(Write("/a", "3"))
        thing = fs(Trash("/a"))
        assert fs(GetUsage()).history_bytes == 2
        fs(Purge(thing.id))
        assert fs(GetUsage()).history_bytes == 0

    @needs("snapshots")
    def test_snapshots_are_counted(self, fs: Perform) -> None:
        """Each snapshot counts the bytes of its tree, also the safety of a rollback."""
        fs(Write("/a", "123"))
        fs(TakeSnapshot("1"))
        fs(TakeSnapshot("2"))
        assert fs(GetUsage()).snapshot_bytes == 6
        fs(DropSnapshot("1"))
        fs(Write("/a", "12345"))
        fs(Rollback("2"))
        assert (fs(GetUsage()).snapshot_bytes, used(fs)) == (8, (3, 1))

    @needs("limits")
    def test_usage_tells_the_limits(self, make: Make) -> None:
        """The limits in force are in the answer."""
        usage = make(limits=Limits(bytes=1000, nodes=50))(GetUsage())
        assert (usage.limits.bytes, usage.limits.nodes) == (1000, 50)
        assert isinstance(usage, Usage)


GROWING: list[Op[Any]] = [
    Write("/n", "x"), Write("/a", b"x" * 11), Append("/a", "x"), Append("/n", "x"),
    Patch("/a", 10, "x"), Patch("/a", 5, "123456"), Truncate("/a", 11), Copy("/a", "/n"),
    Copy("/d", "/n", recursive=True),
]  # fmt: skip


def full(make: Make) -> Perform:
    """A space of 20 bytes of which 20 are in use."""
    fs = make(limits=Limits(bytes=20))
    fs(Write("/a", b"x" * 10))
    fs(Write("/d/b", b"x" * 10))
    return fs


@needs("limits")
class Limited(Frame):
    """No limit is passed by a single byte, whatever the verb."""

    @pytest.mark.parametrize("op", GROWING)
    def test_bytes(self, make: Make, op: Op[Any]) -> None:
        """Each verb that grows a full space is refused; the error says which limit and how full."""
        fs = full(make)
        with refused(fs, QuotaExceeded) as caught:
            fs(op)
        error = caught.value
        assert (error.limit, error.size, error.used) == ("space.bytes", 20, 20)

    @needs("hard_links")
    def test_links_are_no_way_around(self, make: Make) -> None:
        """A hard link charges its size."""
        fs = full(make)
        with refused(fs, QuotaExceeded):
            fs(Link("/a", "/n"))

    @needs("history")
    def test_restore_is_no_way_around(self, make: Make) -> None:
        """Restoring a larger revision charges the difference."""
        fs = full(make)
        fs(Write("/a", "x"))
        fs(Write("/c", b"x" * 9))
        with refused(fs, QuotaExceeded):
            fs(Restore("/a", 1))

    @pytest.mark.parametrize(
        "op", [Write("/a", b"y" * 10), Write("/a", "y"), Patch("/a", 0, b"y" * 10),
               Truncate("/a", 3), Move("/a", "/m"), Mkdir("/m"), Write("/m", ""),
               Copy("/d/b", "/a", replace=True)],
    )  # fmt: skip
    def test_what_does_not_grow_passes(self, make: Make, op: Op[Any]) -> None:
        """An overwrite costs only the difference: a full space can still be worked in."""
        full(make)(op)

    @pytest.mark.parametrize("size", [9, 10, 11])
    def test_to_the_byte(self, make: Make, size: int) -> None:
        """The last byte fits, the one after it does not."""
        fs = make(limits=Limits(bytes=10))
        if size <= 10:
            fs(Write("/a", b"x" * size))
            return
        with refused(fs, QuotaExceeded):
            fs(Write("/a", b"x" * size))

    @needs("trash")
    def test_trash_is_no_way_around(self, make: Make) -> None:
        """What lies in the trash counts; a purge makes room."""
        fs = full(make)
        thing = fs(Trash("/a"))
        with refused(fs, QuotaExceeded):
            fs(Write("/n", "x"))
        fs(Purge(thing.id))
        fs(Write("/n", b"x" * 10))

    @needs("trash")
    def test_a_full_space_can_be_emptied_and_filled(self, make: Make) -> None:
        """Trashing and putting back need no room."""
        fs = full(make)
        fs(Untrash(fs(Trash("/d")).id))
        fs(Remove("/d", recursive=True))
        fs(Write("/n", b"x" * 10))

    @pytest.mark.parametrize(
        "op", [Write("/n", ""), Mkdir("/n"), Copy("/a", "/n"), Append("/n", "x"),
               Copy("/d", "/n", recursive=True)],
    )  # fmt: skip
    def test_nodes(self, make: Make, op: Op[Any]) -> None:
        """Each verb that makes a name in a full space is refused."""
        fs = make(limits=Limits(nodes=3))
        fs(Write("/a", "x"))
        fs(Write("/d/b", "x"))
        with refused(fs, QuotaExceeded) as caught:
            fs(op)
        assert (caught.value.limit, caught.value.size, caught.value.used) == ("space.nodes", 3, 3)

    def test_parents_are_nodes(self, make: Make) -> None:
        """Directories made on the way count, and a refusal leaves none of them."""
        fs = make(limits=Limits(nodes=3))
        with refused(fs, QuotaExceeded):
            fs(Write("/a/b/c/d", "x"))
        fs(Write("/a/b/c", "x"))

    @needs("relimit")
    def test_over_the_limit_already(
        self, make: Make, subject: Subject, handlers: list[Handler]
    ) -> None:
        """Where a limit was lowered below what is used, shrinking and moving still pass."""
        fs = make()
        fs(Write("/a", b"x" * 10))
        fs(Write("/d/b", b"x" * 10))
        assert subject.relimit is not None
        subject.relimit(handlers[-1], Limits(bytes=5, nodes=1))
        fs(Write("/a", b"x" * 9))
        fs(Move("/a", "/d/a"))
        fs(Remove("/d/b"))
        for op in each(Append("/d/a", "x"), Write("/n", "")):
            with refused(fs, QuotaExceeded):
                fs(op)

    @pytest.mark.parametrize(
        "op", [Write("/n", b"x" * 11), Append("/a", b"x" * 6), Append("/n", b"x" * 11),
               Patch("/a", 10, "x"), Patch("/a", 2**60, "x"), Truncate("/a", 11),
               Truncate("/a", 2**60)],
    )  # fmt: skip
    def test_file_bytes(self, make: Make, op: Op[Any]) -> None:
        """No file grows beyond `file_bytes`, not even with holes."""
        fs = make(limits=Limits(file_bytes=10))
        fs(Write("/a", b"x" * 5))
        with refused(fs, TooLarge) as caught:
            fs(op)
        assert (caught.value.limit, caught.value.size) == ("space.file_bytes", 10)

    def test_file_bytes_fit_exactly(self, make: Make) -> None:
        """A file of exactly `file_bytes` is kept."""
        fs = make(limits=Limits(file_bytes=10))
        fs(Write("/a", b"x" * 10))
        fs(Truncate("/a", 9))
        fs(Append("/a", "x"))

    @needs("streams")
    @pytest.mark.parametrize("limits", [Limits(file_bytes=1000), Limits(bytes=1000)])
    def test_streams_are_stopped(self, make: Make, limits: Limits) -> None:
        """A stream is given up soon after it passes a limit, and nothing of it is kept."""
        fs = make(limits=limits)
        fs(Write("/a", "old"))
        for path in ("/a", "/d/n"):
            source = Blocks(*[b"x" * 100_000] * 200)
            with refused(fs, QuotaExceeded, TooLarge):
                fs(Write(path, source))
            assert source.taken < 100

    def test_depth(self, make: Make) -> None:
        """An entry has at most `depth` directories above it, by every verb that places one."""
        fs = make(limits=Limits(depth=2))
        fs(Write("/a/b/c", "x"))
        fs(Write("/x/y/z", "x"))
        for op in each(
            Write("/a/b/d/e", "x"), Mkdir("/p/q/r/s", parents=True), Move("/x", "/a/x"),
            Copy("/x", "/a/x", recursive=True), Move("/x/y", "/a/b/y"),
        ):  # fmt: skip
            with refused(fs, TooLarge) as caught:
                fs(op)
            assert (caught.value.limit, caught.value.size) == ("space.depth", 2)

    def test_directory_entries(self, make: Make) -> None:
        """A directory holds at most `directory_entries` names, by every verb that places one."""
        fs = make(limits=Limits(directory_entries=3))
        for name in ("a", "b", "c"):
            fs(Write(f"/d/{name}", name))
        fs(Write("/f", "x"))
        for op in each(
            Write("/d/n", "x"), Mkdir("/d/n"), Move("/f", "/d/n"), Copy("/f", "/d/n"),
            Append("/d/n", "x"),
        ):  # fmt: skip
            with refused(fs, TooLarge) as caught:
                fs(op)
            assert (caught.value.limit, caught.value.size) == ("space.directory_entries", 3)
        fs(Move("/f", "/d/a", replace=True))
        fs(Write("/d/b", "x"))

    @needs("batch")
    def test_batch_operations(self, make: Make) -> None:
        """A batch has at most `batch_operations`."""
        fs = make(limits=Limits(batch_operations=3))
        ops = tuple(Write(f"/{index}", "x") for index in range(4))
        with refused(fs, TooLarge) as caught:
            fs(Batch(ops))
        assert (caught.value.limit, caught.value.size) == ("space.batch_operations", 3)
        fs(Batch(ops[:3]))

    def test_transaction_nodes(self, make: Make) -> None:
        """A copy touches at most `transaction_nodes`."""
        fs = make(limits=Limits(transaction_nodes=3))
        for name in ("a", "b"):
            fs(Write(f"/d/{name}", "x"))
        fs(Copy("/d", "/ok", recursive=True))
        fs(Write("/d/c", "x"))
        with refused(fs, TooLarge) as caught:
            fs(Copy("/d", "/n", recursive=True))
        assert (caught.value.limit, caught.value.size) == ("space.transaction_nodes", 3)

    @needs("snapshots")
    def test_transaction_nodes_of_snapshots(self, make: Make) -> None:
        """A snapshot, too."""
        fs = make(limits=Limits(transaction_nodes=2))
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        fs(TakeSnapshot("s"))
        fs(Write("/c", "x"))
        with refused(fs, TooLarge):
            fs(TakeSnapshot("t"))

    def test_the_default_depth(self, fs: Perform) -> None:
        """256 directories above an entry are allowed, 257 are not."""
        fs(Write("/d" * 256 + "/f", "x"))
        with pytest.raises(KeelError):
            fs(Mkdir("/d" * 257 + "/f", parents=True))
        assert fs(Read("/d" * 256 + "/f")) == b"x"
        assert fs(GetStat("/d" * 256)).is_directory
        assert names(fs) == ["d"]
