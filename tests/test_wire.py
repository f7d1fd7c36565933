"""Operations as JSON: every one of them goes there and comes back as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from keelfs import ops, wire
from keelfs.errors import InvalidArgument, Unsupported
from keelfs.model import ABSENT, ANY, Attrs, Expect, Kind, Limits, Stat, Usage
from keelfs.ops import Op
from keelfs.path import parse

STAT = Stat(kind=Kind.FILE, id=bytes(range(16)), size=3, revision=2, mode=0o600, sha256="ab")

SAMPLES: list[Op[Any]] = [
    ops.GetStat("/a", False), ops.List("/", "x", 7), ops.Read("/a", 1, 2, 3), ops.Open("/a", 1),
    ops.Readlink("/l"), ops.Write("/a", b"\x00\xff", ABSENT, False, 0o600, "text/plain"),
    ops.Add("/a", b"x"), ops.Append("/a", b"x", 4), ops.Patch("/a", 3, b"x", STAT),
    ops.Truncate("/a", 3), ops.Mkdir("/d", True, True, 0o700), ops.Mknod("/n", Kind.FIFO),
    ops.Symlink("../é", "/l"), ops.Link("/a", "/b"), ops.Remove("/a", True, 2),
    ops.Move("/a", "/b", True), ops.Transfer("/a", "/b"), ops.Copy("/a", "/b", expect=ANY),
    ops.SetAttrs("/a", Attrs(mode=1, xattrs={"k": b"\xff", "gone": None})), ops.Checksum("/a"),
    ops.History("/a", 3, 4), ops.Restore("/a", 1), ops.Trash("/a"), ops.ListTrash("a", 3),
    ops.Untrash("7", "/b"), ops.Untrash("7"), ops.Purge("7"), ops.TakeSnapshot("s"),
    ops.ListSnapshots(), ops.DropSnapshot("s"), ops.Rollback("s"), ops.Undo(3),
    ops.Changes("/d", 3, 4), ops.GetUsage("/d"),
]  # fmt: skip


def there_and_back(op: Op[Any]) -> Op[Any]:
    return wire.operation(wire.decoded(wire.sent(op)))


@pytest.mark.parametrize("op", SAMPLES, ids=lambda op: op.verb)
def test_an_operation_comes_back(op: Op[Any]) -> None:
    assert there_and_back(op) == op
    within = ops.Within(op, parse("/base/é"))
    assert there_and_back(within) == within
    once = ops.Once(op, "key", ops.fingerprint(op))
    assert there_and_back(once) == once


def test_every_operation_has_a_sample() -> None:
    assert {type(op).__name__ for op in SAMPLES} == set(wire._KINDS)


def test_batches_and_what_lies_in_each_other() -> None:
    batch = ops.Batch(tuple(SAMPLES))
    assert there_and_back(batch) == batch
    once = ops.Once(batch, "k", ops.fingerprint(batch))
    assert there_and_back(ops.Within(once, parse("/x"))) == ops.Within(once, parse("/x"))


def test_paths_may_be_parsed_already() -> None:
    assert there_and_back(ops.Move(parse("/a"), parse("/b/c"))) == ops.Move("/a", "/b/c")


def test_data_may_come_behind() -> None:
    class Given:
        def blocks(self) -> Any:
            return iter(())

    data = Given()
    shape = wire.decoded(wire.sent(ops.Append("/a", data)))
    assert wire.operation(shape, data) == ops.Append("/a", data)
    assert wire.operation(shape) == ops.Append("/a", b"")


def test_judges_stay_where_they_are() -> None:
    with pytest.raises(Unsupported):
        wire.sent(ops.Judged(ops.Remove("/a"), lambda tree, touched: None))


def test_a_key_is_for_all_that_it_holds() -> None:
    inner = ops.Once(ops.Remove("/a"), "k", b"")
    for op in (inner, ops.Batch((ops.Mkdir("/d"), inner)), ops.Within(inner, parse("/d"))):
        with pytest.raises(InvalidArgument):
            there_and_back(ops.Once(op, "l", b""))


def test_depth_is_bounded() -> None:
    op: Op[Any] = ops.Remove("/a")
    for _ in range(wire.DEPTH):
        op = ops.Within(op, parse("/d"))
    assert there_and_back(op) == op
    with pytest.raises(InvalidArgument):
        there_and_back(ops.Within(op, parse("/d")))
    deep = b'{"op":"within","base":"/","inner":' * 100_000
    with pytest.raises(InvalidArgument):
        wire.decoded(deep)


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[]", b"{}", b'{"op":"nothing"}', b'{"op":"judged"}', b'{"op":"read"}',
     b'{"op":"read","path":1}', b'{"op":"write","path":"/a","data":"?"}', b"\xff",
     b'{"op":"read","path":"/a","size":1}', b'{"op":"write","path":"/a","expect":"x"}',
     b'{"op":"list","path":"\xed\xa0\x80"}'],
)  # fmt: skip
def test_what_is_no_operation_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidArgument):
        wire.decoded(text)


@pytest.mark.parametrize("expect", [ANY, ABSENT, 7, STAT], ids=repr)
def test_expectations(expect: Expect) -> None:
    assert there_and_back(ops.Remove("/a", expect=expect)) == ops.Remove("/a", expect=expect)


def test_answers_come_back() -> None:
    usage = Usage(bytes=3, limits=Limits(bytes=7))
    op = ops.Batch((ops.GetStat("/a"), ops.Remove("/a"), ops.GetUsage(), ops.Read("/a")))
    answers = [STAT, None, usage, b"\xff"]
    assert wire.answer_to(op, wire.told(answers)) == answers
    assert wire.answer_to(ops.Undo(1), wire.told([3, 4])) == [3, 4]


def test_one_byte_of_another_field_is_seen() -> None:
    other = msgspec.structs.replace(SAMPLES[5], mode=0o601)
    assert there_and_back(other) != SAMPLES[5]
