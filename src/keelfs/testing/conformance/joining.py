"""The contract of operations around operations: batches, keys, judges, sub-trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keelfs.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    KeelError,
    NotADirectory,
    NotFound,
    PermissionDenied,
    Unsupported,
    ValidationFailed,
)
from keelfs.model import ABSENT, Attrs, Kind
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Copy,
    GetStat,
    GetUsage,
    History,
    Judged,
    Link,
    List,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Mknod,
    Move,
    Once,
    Op,
    Purge,
    Read,
    Remove,
    Restore,
    Rollback,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Trash,
    Undo,
    Untrash,
    Within,
    Write,
    fingerprint,
)
from keelfs.path import parse
from keelfs.testing.conformance.frame import Frame, names, needs, refused
from keelfs.testing.conformance.subjects import Subject
from keelfs.testing.portrait import Perform, portrait


@needs("batch")
class Batches(Frame):
    """All or none."""

    def test_answers_in_order(self, fs: Perform) -> None:
        """A batch answers with the answer of each operation, in order."""
        answers = fs(Batch((Write("/a", "x"), Read("/a"), Mkdir("/d"), Remove("/a"))))
        assert [getattr(answer, "kind", answer) for answer in answers] == [
            Kind.FILE, b"x", Kind.DIRECTORY, None,
        ]  # fmt: skip

    def test_each_sees_those_before(self, fs: Perform) -> None:
        """Each operation sees what those before it did."""
        fs(Batch((Write("/d/a", "1"), Append("/d/a", "2"), Move("/d", "/e"), Copy("/e/a", "/b"))))
        assert fs(Read("/b")) == b"12"

    @pytest.mark.parametrize("position", [0, 1, 2, 3])
    def test_one_refusal_refuses_all(self, fs: Perform, position: int) -> None:
        """Wherever the refused one stands, nothing of the others is kept, and it is named."""
        fs(Write("/a", "old"))
        fs(Write("/d/b", "old"))
        ops: list[Op[Any]] = [Write("/a", "new"), Remove("/d", recursive=True), Write("/n/o", "x")]
        ops.insert(position, Remove("/nothing"))
        with refused(fs, NotFound) as caught:
            fs(Batch(tuple(ops)))
        assert caught.value.operation == position

    @needs("revisions")
    def test_each_keeps_its_expectation(self, fs: Perform) -> None:
        """Expectations inside of a batch are judged where they stand."""
        fs(Write("/a", "1"))
        fs(Batch((Write("/a", "2", 1), Write("/a", "3", 2), Write("/b", "1", ABSENT))))
        with refused(fs, Conflict):
            fs(Batch((Write("/a", "4", 3), Write("/a", "5", 3))))

    @needs("journal", "usage", "trash", "history", "snapshots")
    def test_a_refused_batch_leaves_no_trace_anywhere(self, fs: Perform) -> None:
        """Journal, ledger, trash, history and snapshots are as before, too."""
        fs(Write("/a", "1"))
        fs(Write("/d/b", "x"))
        thing = fs(Trash("/d/b"))
        fs(TakeSnapshot("s"))

        def everything() -> list[object]:
            return [
                fs(op)  # type: ignore[arg-type]
                for op in (Changes(), GetUsage(), ListTrash(), History("/a"), ListSnapshots())
            ]

        before = everything()
        with refused(fs, NotFound):
            fs(
                Batch(
                    (
                        Write("/a", "2"), Untrash(thing.id), TakeSnapshot("t"), Trash("/a"),
                        Rollback("s"), Copy("/a", "/x"), Purge(thing.id),
                    )
                )
            )  # fmt: skip
        assert everything() == before

    def test_an_empty_batch(self, fs: Perform) -> None:
        """A batch of nothing answers with nothing."""
        assert fs(Batch(())) == []


def once(op: Op[Any], key: str) -> Once[Any]:
    return Once(op, key, fingerprint(op))


@needs("requests")
class Requests(Frame):
    """A retry after a lost answer is given the first answer."""

    def test_a_repeat_does_nothing(self, fs: Perform) -> None:
        """The second time, nothing happens and the first answer comes back."""
        first = fs(once(Append("/a", "x"), "k"))
        assert fs(once(Append("/a", "x"), "k")) == first
        assert fs(Read("/a")) == b"x"

    def test_a_repeat_after_other_changes(self, fs: Perform) -> None:
        """The first answer is given even if it is no longer true."""
        first = fs(once(Write("/a", "1"), "k"))
        fs(Write("/a", "2"))
        assert fs(once(Write("/a", "1"), "k")) == first
        assert fs(Read("/a")) == b"2"

    def test_answers_of_every_kind(self, fs: Perform) -> None:
        """Nothing, and the answers of a batch, are kept as well."""
        fs(Write("/a", "x"))
        fs(once(Remove("/a"), "k"))
        assert fs(once(Remove("/a"), "k")) is None
        batch = Batch((Write("/b", "x"), Mkdir("/d"), Remove("/b")))
        assert fs(once(batch, "l")) == fs(once(batch, "l"))

    def test_another_request_under_the_key(self, fs: Perform) -> None:
        """A key belongs to one request: another one is a Conflict."""
        fs(once(Write("/a", "1"), "k"))
        with refused(fs, Conflict):
            fs(once(Write("/a", "2"), "k"))

    def test_a_refusal_is_not_kept(self, fs: Perform) -> None:
        """What was refused may be tried again under its key."""
        with refused(fs, NotFound):
            fs(once(Remove("/a"), "k"))
        fs(Write("/a", "x"))
        fs(once(Remove("/a"), "k"))
        assert names(fs) == []

    def test_keys_are_apart(self, fs: Perform) -> None:
        """Keys that look alike are two keys."""
        for key in ("a", "A", "a_", "a%", "á"):
            fs(once(Append("/log", "x"), key))
        assert fs(Read("/log")) == b"xxxxx"


def touched(fs: Perform, op: Op[Any]) -> list[tuple[str, ...]]:
    """What a judge is told that an operation touched."""
    seen: list[tuple[str, ...]] = []
    fs(Judged(op, lambda _, paths: seen.extend(paths)))
    return seen


@needs("judges", "journal")
class Judges(Frame):
    """A judge sees the tree as it would be, before it is."""

    @pytest.mark.parametrize(
        ("op", "path"),
        [
            (Write("/n", "x"), "n"), (Write("/a", "x"), "a"), (Append("/a", "x"), "a"),
            (Copy("/a", "/n"), "n"), (Copy("/d", "/n", recursive=True), "n"), (Move("/a", "/n"), "n"),
            (Move("/d", "/n"), "n"), (Copy("/d/b", "/a", replace=True), "a"), (Mkdir("/n"), "n"),
            (Batch((Write("/d/x", "1"), Move("/d/x", "/n"))), "n"),
        ],
    )  # fmt: skip
    def test_touched(self, fs: Perform, op: Op[Any], path: str) -> None:
        """Whatever changes bytes or places is told."""
        fs(Write("/a", "1"))
        fs(Write("/d/b", "2"))
        assert (path,) in touched(fs, op)

    def test_untouched(self, fs: Perform) -> None:
        """What was changed in an earlier transaction is not told."""
        fs(Write("/a", "1"))
        assert touched(fs, Write("/b", "1")) == [("b",)]
        assert touched(fs, Read("/a")) == []

    @needs("hard_links")
    def test_all_names_are_touched(self, fs: Perform) -> None:
        """A change under one name touches the others."""
        fs(Write("/a", "1"))
        fs(Link("/a", "/d/b", parents=True))
        assert sorted(touched(fs, Append("/a", "x"))) == [("a",), ("d", "b")]

    @needs("symlinks")
    def test_touched_is_canonical(self, fs: Perform) -> None:
        """A change through a link touches what the link leads to."""
        fs(Write("/d/a", "1"))
        fs(Symlink("d/a", "/l"))
        assert touched(fs, Write("/l", "x")) == [("d", "a")]

    @needs("history")
    def test_restore_and_untrash_are_touched(self, fs: Perform) -> None:
        """Bytes that come back are judged like bytes that come in."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        assert touched(fs, Restore("/a", 1)) == [("a",)]

    def test_a_judge_refuses_everything(self, fs: Perform) -> None:
        """What a judge refuses did not happen."""

        def refuse(volume: object, touched: object) -> None:
            raise ValidationFailed("no")

        with refused(fs, ValidationFailed):
            fs(Judged(Batch((Write("/a", "x"), Write("/b", "x"))), refuse))

    def test_a_judge_reads_what_would_be(self, fs: Perform) -> None:
        """The judge reads the final bytes."""
        seen: list[bytes] = []

        def look(volume, touched) -> None:  # type: ignore[no-untyped-def]
            seen.append(volume.open(parse("/a"), None).read(0, 99))

        fs(Write("/a", "old"))
        fs(Judged(Append("/a", "+new"), look))
        assert seen == [b"old+new"]


def inside(op: Op[Any], base: str = "/base") -> Within[Any]:
    return Within(op, parse(base))


def prepare(fs: Perform) -> None:
    """A file outside of the base and one inside."""
    fs(Write("/outside", "secret"))
    fs(Write("/base/a", "x"))


@needs("within")
class Confined(Frame):
    """A sub-tree out of which nothing leads."""

    def test_the_root_is_the_base(self, fs: Perform) -> None:
        """Paths start at the base; `..` stops there."""
        prepare(fs)
        assert fs(inside(Read("/../../a"))) == b"x"
        fs(inside(Write("/d/n", "y")))
        assert fs(Read("/base/d/n")) == b"y"
        with refused(fs, NotFound):
            fs(inside(Read("/outside")))

    @needs("symlinks")
    @pytest.mark.parametrize("target", ["../outside", "/outside", "../../outside", "/../outside"])
    def test_links_do_not_lead_out(self, fs: Perform, target: str) -> None:
        """Links resolve inside the base, absolute targets from it: read, write and list."""
        prepare(fs)
        fs(Symlink(target, "/base/l"))
        with pytest.raises(NotFound):
            fs(inside(Read("/l")))
        with refused(fs, KeelError):
            fs(inside(Write("/l", "x")))
        fs(inside(Write("/outside", "inside")))
        assert fs(inside(Read("/l"))) == b"inside"
        assert fs(Read("/outside")) == b"secret"

    @needs("symlinks")
    def test_no_link_in_the_base(self, fs: Perform) -> None:
        """A base that is a link, or leads through one, is refused."""
        prepare(fs)
        fs(Symlink("base", "/l"))
        with pytest.raises(NotADirectory):
            fs(inside(Read("/a"), "/l"))
        with pytest.raises(NotFound):
            fs(inside(Read("/a"), "/nothing"))

    def test_the_base_is_a_root(self, fs: Perform) -> None:
        """The base cannot be removed from inside."""
        prepare(fs)
        with refused(fs, Busy):
            fs(inside(Remove("/", recursive=True)))

    @needs("usage")
    def test_usage_of_the_base(self, fs: Perform) -> None:
        """The usage of the base is what lies below it."""
        prepare(fs)
        usage = fs(inside(GetUsage()))
        assert (usage.bytes, usage.nodes) == (1, 1)  # type: ignore[attr-defined]

    @needs("journal")
    def test_changes_below_the_base(self, fs: Perform) -> None:
        """The journal tells what happened below the base, relative to it."""
        prepare(fs)
        fs(inside(Move("/a", "/b")))
        fs(Move("/outside", "/base/c"))
        told = [(change.path, change.to) for change in fs(inside(Changes())).items]  # type: ignore[attr-defined]
        assert told == [((), None), (("a",), None), (("a",), ("b",)), (None, ("c",))]
        assert [change.path for change in fs(Changes()).items][-2] == ("base", "a")

    @needs("trash")
    def test_the_trash_of_the_base(self, fs: Perform) -> None:
        """Only what was taken from below the base is seen, put back or purged."""
        prepare(fs)
        foreign, own = fs(Trash("/outside")), fs(inside(Trash("/a")))
        assert [(thing.id, thing.path) for thing in fs(inside(ListTrash())).items] == [  # type: ignore[attr-defined]
            (own.id, ("a",))  # type: ignore[attr-defined]
        ]
        for op in (Untrash(foreign.id), Purge(foreign.id)):
            with refused(fs, NotFound):
                fs(inside(op))  # type: ignore[arg-type]
        fs(inside(Untrash(own.id)))  # type: ignore[attr-defined]
        assert fs(Read("/base/a")) == b"x"

    @needs("snapshots", "journal")
    @pytest.mark.parametrize("op", [TakeSnapshot("s"), ListSnapshots(), Rollback("s"), Undo(1)])
    def test_the_whole_space_is_out_of_reach(self, fs: Perform, op: Op[Any]) -> None:
        """Verbs of a whole space are refused."""
        prepare(fs)
        with refused(fs, PermissionDenied):
            fs(inside(op))

    @needs("requests")
    def test_keys_of_the_base(self, fs: Perform) -> None:
        """Nobody is given the answer to what was done elsewhere."""
        prepare(fs)
        fs(Mkdir("/other"))
        append = Append("/log", "x")
        for base in ("/base", "/other", "/"):
            fs(inside(once(append, "k"), base))
        assert [fs(Read(f"{base}/log")) for base in ("/base", "/other", "")] == [b"x"] * 3

    @needs("judges", "journal")
    def test_touched_below_the_base(self, fs: Perform) -> None:
        """A judge inside is told paths relative to the base, and nothing from outside."""
        prepare(fs)
        seen: list[tuple[str, ...]] = []
        judged = Judged(Append("/a", "y"), lambda _, touched: seen.extend(touched))
        fs(Batch((Append("/outside", "y"), inside(judged))))
        assert seen == [("a",)]


#: An operation that must be refused by whoever says that it cannot.
REFUSALS: dict[str, Callable[[], Op[Any]]] = {
    "symlinks": lambda: Symlink("x", "/refused"),
    "hard_links": lambda: Link("/a", "/refused"),
    "special_nodes": lambda: Mknod("/refused", Kind.FIFO),
    "xattrs": lambda: SetAttrs("/a", Attrs(xattrs={"user.k": b"v"})),
    "history": lambda: History("/a"),
    "trash": lambda: Trash("/a"),
    "snapshots": lambda: TakeSnapshot("s"),
    "journal": lambda: Changes(),
    "requests": lambda: once(Write("/refused", "x"), "k"),
}


class Honesty(Frame):
    """What a subject says it cannot do, it refuses."""

    @pytest.mark.parametrize("ability", sorted(REFUSALS))
    def test_what_it_cannot_do_is_refused(
        self, fs: Perform, subject: Subject, ability: str
    ) -> None:
        """A verb that is not offered raises a typed error and leaves nothing behind."""
        fs(Write("/a", "x"))
        if ability not in subject.cannot:
            assert portrait(fs)
            return
        with refused(fs, Unsupported, PermissionDenied):
            fs(REFUSALS[ability]())

    def test_a_taken_name_stays_taken(self, fs: Perform) -> None:
        """Ten creators of one directory: one makes it, the others are told."""
        made = 0
        for _ in range(10):
            try:
                fs(Mkdir("/d"))
                made += 1
            except AlreadyExists:
                continue
        assert (made, [entry.name for entry in fs(List("/")).items]) == (1, ["d"])
        assert fs(GetStat("/d")).is_directory
