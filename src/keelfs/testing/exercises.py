"""Every operation at work: at least one exercise per class of `keelfs.ops`, in a prepared space.

Whoever has to prove something of all verbs iterates over `EXERCISES` and asserts that `unexercised`
finds nothing, so that a new operation cannot be left out. An exercise names its operation only when
it is asked, because ids of the trash and numbers of changes are known only then.

Who calls: the tests of faults, of isolation and of round trips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from keelfs import ops
from keelfs.model import ABSENT, ANY, Attrs, ChangeKind, Kind
from keelfs.ops import (
    Add,
    Append,
    Batch,
    Changes,
    Checksum,
    Copy,
    DropSnapshot,
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
    Open,
    Patch,
    Purge,
    Read,
    Readlink,
    Remove,
    Restore,
    Rollback,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Transfer,
    Trash,
    Truncate,
    Undo,
    Untrash,
    Within,
    Write,
)
from keelfs.path import parse
from keelfs.testing.portrait import Perform

#: More than one chunk, and more than one transaction of a stream.
LARGE: Final = 300_000
STREAM_BLOCKS: Final = 20


class Stream(Struct, frozen=True):
    """Blocks of 256 KiB, the same at every reading."""

    count: int = STREAM_BLOCKS

    def blocks(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield bytes([number]) * 262_144


class Exercise(Struct, frozen=True):
    """One operation at work in a prepared space."""

    name: str
    #: The class of `keelfs.ops` that it exercises.
    verb: type[Op[Any]]
    #: The operation, given what performs operations on the prepared space.
    op: Callable[[Perform], Op[Any]]

    @property
    def mutates(self) -> bool:
        return self.verb.mutates is not False


#: What every exercise finds: files with a history, links, a trash, a snapshot, a late change.
PREPARATION: Final[tuple[Op[Any], ...]] = (
    Batch(
        (
            Write("/a", "first"),
            Write("/a", "second"),
            Write("/d/e/f", "deep"),
            Write("/d/g", "other"),
            Write("/big", bytes(LARGE)),
            Write("/log", bytes(2000)),
            Append("/log", "line\n"),
            Symlink("/d/g", "/link"),
            Link("/d/g", "/hard"),
            Mkdir("/empty"),
            Write("/thrown/away", "rubbish"),
        )
    ),
    Trash("/thrown"),
    TakeSnapshot("kept"),
    Batch((Write("/a", "third"), Write("/late", "new"), Move("/d/e", "/e"))),
)


def prepare(perform: Perform) -> None:
    """Fills an empty space with what the exercises need."""
    for op in PREPARATION:
        perform(op)  # pyright: ignore[reportArgumentType]


def _trash_id(perform: Perform) -> str:
    return perform(ListTrash()).items[0].id


def _seq(perform: Perform, kind: ChangeKind) -> int:
    changes = perform(Changes(limit=10_000)).items
    return [change.seq for change in changes if change.kind is kind][-1]


def _accept(_tree: object, _touched: list[tuple[str, ...]]) -> None:
    return None


def _plain(name: str, op: Op[Any]) -> Exercise:
    return Exercise(name, type(op), lambda _perform: op)


def _once(op: Op[Any]) -> Op[Any]:
    return Once(op, "a key", ops.fingerprint(op))


_WRITING: Final = (
    _plain("write new", Write("/n", "new", ABSENT)),
    _plain("write new below new directories", Write("/x/y/z", "new")),
    _plain("write over", Write("/a", "fourth", 3)),
    _plain("write through a link", Write("/link", "changed")),
    _plain("write large", Write("/big", b"1" * LARGE)),
    _plain("write a stream", Write("/n", Stream())),
    _plain("write a short stream", Write("/n", Stream(1))),
    _plain("add under a free name", Add("/n.txt", "new")),
    _plain("add beside", Add("/a", "new")),
    _plain("add a stream", Add("/x/n", Stream())),
    _plain("append", Append("/a", "more")),
    _plain("append to a strand", Append("/log", "more")),
    _plain("append to large", Append("/big", b"2" * LARGE)),
    _plain("append new", Append("/n", "more")),
    _plain("append a stream", Append("/big", Stream())),
    _plain("patch", Patch("/a", 2, "xx")),
    _plain("patch large", Patch("/big", 1000, b"3" * LARGE)),
    _plain("truncate", Truncate("/a", 2)),
    _plain("truncate to longer", Truncate("/a", LARGE)),
)
_NAMING: Final = (
    _plain("mkdir", Mkdir("/n")),
    _plain("mkdir with parents", Mkdir("/x/y/z", parents=True)),
    _plain("mknod", Mknod("/n", Kind.FIFO)),
    _plain("symlink", Symlink("anywhere", "/n")),
    _plain("link", Link("/a", "/d/n")),
    _plain("remove a file", Remove("/a")),
    _plain("remove one of two names", Remove("/hard")),
    _plain("remove a tree", Remove("/d", recursive=True)),
    _plain("move a file", Move("/a", "/d/n")),
    _plain("move a tree", Move("/d", "/empty/n")),
    _plain("move onto a file", Move("/late", "/a", replace=True)),
    _plain("transfer a file", Transfer("/late", "/a", replace=True)),
    _plain("transfer a tree", Transfer("/d", "/empty/n", recursive=True)),
    _plain("copy a file", Copy("/a", "/n")),
    _plain("copy onto a file", Copy("/late", "/a", replace=True)),
    _plain("copy a tree", Copy("/d", "/n", recursive=True)),
    _plain("set attributes", SetAttrs("/a", Attrs(mode=0o600, xattrs={"user.k": b"v"}))),
    _plain("checksum", Checksum("/log")),
    _plain("restore", Restore("/a", 1)),
)
_KEEPING: Final = (
    _plain("trash a file", Trash("/a")),
    _plain("trash a tree", Trash("/d")),
    Exercise("untrash", Untrash, lambda perform: Untrash(_trash_id(perform))),
    Exercise("untrash elsewhere", Untrash, lambda perform: Untrash(_trash_id(perform), "/x/n")),
    Exercise("purge", Purge, lambda perform: Purge(_trash_id(perform))),
    _plain("take a snapshot", TakeSnapshot("n")),
    _plain("drop a snapshot", DropSnapshot("kept")),
    _plain("roll back", Rollback("kept")),
    Exercise("undo a write", Undo, lambda perform: Undo(_seq(perform, ChangeKind.WRITE))),
    Exercise("undo a move", Undo, lambda perform: Undo(_seq(perform, ChangeKind.MOVE))),
)
_MANY: Final = Batch((Write("/a", "batched"), Move("/d", "/n"), Remove("/late"), Mkdir("/m")))
_AROUND: Final = (
    _plain("batch", _MANY),
    _plain("batch with a stream", Batch((Write("/n", Stream()), Remove("/a")))),
    _plain("within", Within(Write("/n", "new"), parse("/d"))),
    _plain("judged", Judged(Write("/a", "judged"), _accept)),
    _plain("once", _once(Write("/a", "once", expect=ANY))),
    _plain("once a batch", _once(_MANY)),
)
_READING: Final = (
    _plain("stat", GetStat("/link")),
    _plain("list", List("/")),
    _plain("read", Read("/a")),
    _plain("read large", Read("/big", 1000, 290_000)),
    _plain("read a revision", Read("/a", revision=1)),
    _plain("open", Open("/big")),
    _plain("readlink", Readlink("/link")),
    _plain("history", History("/a")),
    _plain("list the trash", ListTrash()),
    _plain("list snapshots", ListSnapshots()),
    _plain("changes", Changes()),
    _plain("usage", GetUsage()),
    _plain("usage of a directory", GetUsage("/d")),
)

EXERCISES: Final[Mapping[str, Exercise]] = {
    each.name: each for each in (*_WRITING, *_NAMING, *_KEEPING, *_AROUND, *_READING)
}


def operations() -> set[type[Op[Any]]]:
    """Every operation that a caller can build."""
    named: dict[str, Any] = {
        name: value for name, value in vars(ops).items() if not name.startswith("_")
    }
    found: set[type[Op[Any]]] = {
        value for value in named.values() if isinstance(value, type) and issubclass(value, Op)
    }
    return found - {Op, ops.Wrapped}


def unexercised() -> set[str]:
    """The names of operations that no exercise covers."""
    covered = {each.verb for each in EXERCISES.values()}
    return {verb.__name__ for verb in operations() - covered}
