"""The contract of operations that belong together: batches, and answers kept under keys."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import (
    Conflict,
    NotFound,
)
from keelfs.model import ABSENT, Kind
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Copy,
    GetUsage,
    History,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Once,
    Op,
    Purge,
    Read,
    Remove,
    Rollback,
    TakeSnapshot,
    Trash,
    Untrash,
    Write,
    fingerprint,
)
from keelfs.testing.conformance.frame import Frame, each, names, needs, refused
from keelfs.testing.portrait import Perform


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
                fs(op)
                for op in each(Changes(), GetUsage(), ListTrash(), History("/a"), ListSnapshots())
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
