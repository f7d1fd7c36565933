"""One frozen class per operation.

An operation is a value: it knows its paths, whether it changes anything, and how to run itself
against a volume. Read-only trees, sub-trees, audit, replay, batches and tests are each one loop
over operations. Paths may be given as text; they are parsed when they are asked for.

Who calls: workspaces build operations, gates look at them, handlers run them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace as with_fields

from keelfs.errors import AlreadyExists, InvalidArgument, IsADirectory, KeelError, NotFound
from keelfs.model import (
    ABSENT,
    ANY,
    END_OF_JOURNAL,
    Attrs,
    Change,
    Content,
    Data,
    Entry,
    Expect,
    Judge,
    Kind,
    Page,
    Revision,
    Snapshot,
    Stat,
    Transferred,
    Trashed,
    Usage,
)
from keelfs.path import ROOT, VPath, parse
from keelfs.ports import Volume

T = TypeVar("T")
Place = VPath | str
Carrier = TypeVar("Carrier", bound="Op[Any]")

#: How many names an `Add` looks at before it gives up.
MOST_NAMES_TRIED: Final = 1000


class Op(Struct, Generic[T], frozen=True):
    """What every operation knows about itself."""

    #: Whether performing it may change anything.
    mutates: ClassVar[bool] = False
    #: The names of the fields that hold paths.
    places: ClassVar[tuple[str, ...]] = ("path",)

    @property
    def verb(self) -> str:
        """The name under which audit, policy and metrics know it."""
        return type(self).__name__.lower()

    def paths(self) -> tuple[VPath, ...]:
        """Every path it names."""
        given = (getattr(self, name) for name in self.places)
        return tuple(parse(place) for place in given if place is not None)

    def rerooted(self, change: Callable[[VPath], VPath]) -> Self:
        """The same operation with each of its paths changed.

        This confines nothing, because links know nothing of it: `Within` does.
        """
        given = {name: getattr(self, name) for name in self.places}
        moved = {name: change(parse(place)) for name, place in given.items() if place is not None}
        return with_fields(self, **moved) if moved else self

    def seen_from(self, mount: VPath) -> Self:
        """The same operation as a volume sees it that is mounted at `mount`."""
        return self.rerooted(lambda path: path.below(mount))

    def staged(self, stage: Callable[[Data], Data]) -> Self:  # noqa: ARG002
        """The same operation with its data, if it carries any, replaced by `stage(data)`."""
        return self

    def run(self, volume: Volume) -> T:
        """The answer of `volume`, inside the transaction that its handler opened."""
        raise NotImplementedError

    def recalled(self, kept: bytes) -> T:
        """The answer that was kept of this operation, decoded as what `run` says it returns."""
        return cast(T, msgspec.msgpack.decode(kept, type=_answer(type(self))))


class _Mutation(Op[T], Generic[T], frozen=True):
    mutates: ClassVar[bool] = True


class _Carrying(_Mutation[Stat], frozen=True):
    """A mutation with a field `data`."""

    def staged(self, stage: Callable[[Data], Data]) -> Self:
        data = cast(Data | str, self.data)  # type: ignore[attr-defined]  # pyright: ignore
        return _with_staged(self, data, stage)


def _with_staged(op: Carrier, data: Data | str, stage: Callable[[Data], Data]) -> Carrier:
    return with_fields(op, data=stage(data.encode() if isinstance(data, str) else data))


class GetStat(Op[Stat], frozen=True):
    path: Place
    follow: bool = True

    def run(self, volume: Volume) -> Stat:
        return volume.stat(parse(self.path), self.follow)


class List(Op[Page[Entry]], frozen=True):
    path: Place
    after: str | None = None
    limit: int = 1000

    def run(self, volume: Volume) -> Page[Entry]:
        return volume.list(parse(self.path), self.after, self.limit)


class Read(Op[bytes], frozen=True):
    path: Place
    offset: int = 0
    length: int | None = None
    revision: int | None = None

    def run(self, volume: Volume) -> bytes:
        return volume.read(parse(self.path), self.offset, self.length, self.revision)


class Open(Op[Content], frozen=True):
    path: Place
    revision: int | None = None

    def run(self, volume: Volume) -> Content:
        return volume.open(parse(self.path), self.revision)


class Readlink(Op[str], frozen=True):
    path: Place

    def run(self, volume: Volume) -> str:
        return volume.readlink(parse(self.path))


class Write(_Carrying, frozen=True):
    path: Place
    data: Data | str
    expect: Expect = ANY
    parents: bool = True
    mode: int | None = None
    mime: str | None = None

    def run(self, volume: Volume) -> Stat:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return volume.write(parse(self.path), data, self.expect, self.parents, self.mode, self.mime)


class Add(_Mutation[Entry], frozen=True):
    """A new file under the first free of the names `name.ext`, `name (1).ext`, `name (2).ext`."""

    path: Place
    data: Data | str
    parents: bool = True
    mode: int | None = None
    mime: str | None = None

    def staged(self, stage: Callable[[Data], Data]) -> Self:
        return _with_staged(self, self.data, stage)

    def run(self, volume: Volume) -> Entry:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        path = _free_place(volume, parse(self.path))
        stat = volume.write(path, data, ABSENT, self.parents, self.mode, self.mime)
        return Entry(path.name, stat)


def _free_place(volume: Volume, path: VPath) -> VPath:
    if path.is_root:
        raise IsADirectory
    for name in islice(path.names_beside(), MOST_NAMES_TRIED):
        place = path.parent.child(name)
        try:
            volume.stat(place, False)
        except NotFound:
            return place
    raise AlreadyExists(f"the name is taken, and so are {MOST_NAMES_TRIED - 1} like it")


class Append(_Carrying, frozen=True):
    path: Place
    data: Data | str
    expect: Expect = ANY
    parents: bool = True

    def run(self, volume: Volume) -> Stat:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return volume.append(parse(self.path), data, self.expect, self.parents)


class Patch(_Carrying, frozen=True):
    path: Place
    offset: int
    data: Data | str
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return volume.patch(parse(self.path), self.offset, data, self.expect)


class Truncate(_Mutation[Stat], frozen=True):
    path: Place
    size: int
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        return volume.truncate(parse(self.path), self.size, self.expect)


class Mkdir(_Mutation[Stat], frozen=True):
    path: Place
    parents: bool = False
    exist_ok: bool = False
    mode: int = 0o755

    def run(self, volume: Volume) -> Stat:
        return volume.mkdir(parse(self.path), self.parents, self.exist_ok, self.mode)


class Mknod(_Mutation[Stat], frozen=True):
    path: Place
    kind: Kind
    mode: int = 0o644
    rdev: int = 0

    def run(self, volume: Volume) -> Stat:
        return volume.mknod(parse(self.path), self.kind, self.mode, self.rdev)


class Symlink(_Mutation[Stat], frozen=True):
    target: str
    path: Place
    parents: bool = False

    def run(self, volume: Volume) -> Stat:
        return volume.symlink(self.target, parse(self.path), self.parents)


class Link(_Mutation[Stat], frozen=True):
    places: ClassVar[tuple[str, ...]] = ("path", "to")
    path: Place
    to: Place
    parents: bool = False

    def run(self, volume: Volume) -> Stat:
        return volume.link(parse(self.path), parse(self.to), self.parents)


class Remove(_Mutation[None], frozen=True):
    path: Place
    recursive: bool = False
    expect: Expect = ANY

    def run(self, volume: Volume) -> None:
        return volume.remove(parse(self.path), self.recursive, self.expect)


class Move(_Mutation[Stat], frozen=True):
    places: ClassVar[tuple[str, ...]] = ("path", "to")
    path: Place
    to: Place
    replace: bool = False
    parents: bool = False
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        return volume.move(
            parse(self.path), parse(self.to), self.replace, self.parents, self.expect
        )


class Transfer(_Mutation[Transferred], frozen=True):
    """A move that may lead from one volume of a composed tree into another."""

    places: ClassVar[tuple[str, ...]] = ("path", "to")
    path: Place
    to: Place
    replace: bool = False
    recursive: bool = False
    parents: bool = False

    def run(self, volume: Volume) -> Transferred:
        if not self.recursive:
            self.check_kind(volume.stat(parse(self.path), False))
        stat = volume.move(parse(self.path), parse(self.to), self.replace, self.parents, ANY)
        return Transferred(stat=stat, atomic=True)

    def check_kind(self, stat: Stat) -> None:
        """Refuses a directory, unless it was said that one is meant."""
        if stat.is_directory and not self.recursive:
            raise IsADirectory("pass recursive=True to transfer a directory")


class Copy(_Mutation[Stat], frozen=True):
    places: ClassVar[tuple[str, ...]] = ("path", "to")
    path: Place
    to: Place
    replace: bool = False
    recursive: bool = False
    parents: bool = False
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        return volume.copy(
            parse(self.path), parse(self.to), self.replace, self.recursive, self.parents,
            self.expect,
        )  # fmt: skip


class SetAttrs(_Mutation[Stat], frozen=True):
    path: Place
    attrs: Attrs
    follow: bool = True
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        return volume.set_attrs(parse(self.path), self.attrs, self.follow, self.expect)


class Checksum(_Mutation[str], frozen=True):
    """Changes nothing that can be seen, but keeps what it computed."""

    path: Place

    def run(self, volume: Volume) -> str:
        return volume.checksum(parse(self.path))


class History(Op[Sequence[Revision]], frozen=True):
    path: Place
    before: int | None = None
    limit: int = 1000

    def run(self, volume: Volume) -> Sequence[Revision]:
        return volume.history(parse(self.path), self.before, self.limit)


class Restore(_Mutation[Stat], frozen=True):
    path: Place
    revision: int
    expect: Expect = ANY

    def run(self, volume: Volume) -> Stat:
        return volume.restore(parse(self.path), self.revision, self.expect)


class Trash(_Mutation[Trashed], frozen=True):
    path: Place
    expect: Expect = ANY

    def run(self, volume: Volume) -> Trashed:
        return volume.trash(parse(self.path), self.expect)


class ListTrash(Op[Page[Trashed]], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    after: str | None = None
    limit: int = 1000

    def run(self, volume: Volume) -> Page[Trashed]:
        return volume.trashed(self.after, self.limit)


class Untrash(_Mutation[Stat], frozen=True):
    places: ClassVar[tuple[str, ...]] = ("to",)
    trash_id: str
    to: Place | None = None
    parents: bool = True

    def run(self, volume: Volume) -> Stat:
        to = None if self.to is None else parse(self.to)
        return volume.untrash(self.trash_id, to, self.parents)


class Purge(_Mutation[None], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    trash_id: str

    def run(self, volume: Volume) -> None:
        return volume.purge(self.trash_id)


class TakeSnapshot(_Mutation[Snapshot], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    name: str

    def run(self, volume: Volume) -> Snapshot:
        return volume.snapshot(self.name)


class ListSnapshots(Op[Sequence[Snapshot]], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()

    def run(self, volume: Volume) -> Sequence[Snapshot]:
        return volume.snapshots()


class DropSnapshot(_Mutation[None], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    name: str

    def run(self, volume: Volume) -> None:
        return volume.drop_snapshot(self.name)


class Rollback(_Mutation[Snapshot], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    name: str

    def run(self, volume: Volume) -> Snapshot:
        return volume.rollback(self.name)


class Undo(_Mutation[Sequence[int]], frozen=True):
    places: ClassVar[tuple[str, ...]] = ()
    seq: int

    def run(self, volume: Volume) -> Sequence[int]:
        return volume.undo(min(self.seq, END_OF_JOURNAL))


class Changes(Op[Page[Change]], frozen=True):
    path: Place = ROOT
    after: int = 0
    limit: int = 1000

    def run(self, volume: Volume) -> Page[Change]:
        return volume.changes(parse(self.path), min(self.after, END_OF_JOURNAL), self.limit)


class GetUsage(Op[Usage], frozen=True):
    path: Place = ROOT

    def run(self, volume: Volume) -> Usage:
        return volume.usage(parse(self.path))


class Batch(_Mutation[list[Any]], frozen=True):
    """Operations in one transaction: all or none, each seeing what those before it did."""

    places: ClassVar[tuple[str, ...]] = ()
    ops: tuple[Op[Any], ...]

    @property
    def mutates(self) -> bool:  # type: ignore[override]  # pyright: ignore
        return any(op.mutates for op in self.ops)

    def paths(self) -> tuple[VPath, ...]:
        return tuple(path for op in self.ops for path in op.paths())

    def rerooted(self, change: Callable[[VPath], VPath]) -> Self:
        return with_fields(self, ops=tuple(op.rerooted(change) for op in self.ops))

    def seen_from(self, mount: VPath) -> Self:
        return with_fields(self, ops=tuple(op.seen_from(mount) for op in self.ops))

    def staged(self, stage: Callable[[Data], Data]) -> Self:
        return with_fields(self, ops=tuple(op.staged(stage) for op in self.ops))

    def run(self, volume: Volume) -> list[Any]:
        answers: list[Any] = []
        for index, op in enumerate(self.ops):
            try:
                answers.append(op.run(volume))
            except KeelError as error:
                error.operation = index
                raise
        return answers

    def recalled(self, kept: bytes) -> list[Any]:
        each = msgspec.msgpack.decode(kept, type=list[msgspec.Raw])
        return [op.recalled(bytes(raw)) for op, raw in zip(self.ops, each, strict=True)]


class Wrapped(_Mutation[T], Generic[T], frozen=True):
    """An operation around another one."""

    places: ClassVar[tuple[str, ...]] = ()
    op: Op[T]

    @property
    def verb(self) -> str:
        return self.op.verb

    def paths(self) -> tuple[VPath, ...]:
        return self.op.paths()

    def rerooted(self, change: Callable[[VPath], VPath]) -> Self:
        return with_fields(self, op=self.op.rerooted(change))

    def seen_from(self, mount: VPath) -> Self:
        return with_fields(self, op=self.op.seen_from(mount))

    def staged(self, stage: Callable[[Data], Data]) -> Self:
        return with_fields(self, op=self.op.staged(stage))

    def recalled(self, kept: bytes) -> T:
        return self.op.recalled(kept)


class Within(Wrapped[T], Generic[T], frozen=True):
    """Runs an operation in the sub-tree below `base`, out of which no link leads."""

    base: VPath

    @property
    def mutates(self) -> bool:  # type: ignore[override]  # pyright: ignore
        return self.op.mutates

    def paths(self) -> tuple[VPath, ...]:
        return tuple(self.base.join(path) for path in self.op.paths())

    def rerooted(self, change: Callable[[VPath], VPath]) -> Self:
        return with_fields(self, base=change(self.base))

    def seen_from(self, mount: VPath) -> Self:
        return with_fields(self, base=self.base.below(mount))

    def run(self, volume: Volume) -> T:
        return self.op.run(volume.rooted(self.base))


class Judged(Wrapped[T], Generic[T], frozen=True):
    """Runs an operation, then lets a judge look at what it did before anything is committed."""

    judge: Judge
    #: Where the volume that runs it is mounted in the tree that the judge knows.
    at: VPath = ROOT

    def seen_from(self, mount: VPath) -> Self:
        return with_fields(self, op=self.op.seen_from(mount), at=self.at.join(mount))

    def run(self, volume: Volume) -> T:
        answer = self.op.run(volume)
        touched = [self.at.parts + path for path in volume.touched()]
        self.judge(Mounted(volume, self.at), touched)
        return answer


class Mounted:
    """What a judge may see of a volume mounted at `at`: files to open, directories to list."""

    def __init__(self, volume: Volume, at: VPath) -> None:
        self._volume, self._at = volume, at

    def stat(self, path: VPath, follow: bool) -> Stat:
        return self._volume.stat(path.below(self._at), follow)

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        return self._volume.list(path.below(self._at), after, limit)

    def open(self, path: VPath, revision: int | None) -> Content:
        return self._volume.open(path.below(self._at), revision)


class Once(Wrapped[T], Generic[T], frozen=True):
    """Runs an operation at most once per key: a repeat is given the first answer.

    The key and the answer are kept in the transaction of the operation itself. An opened content
    cannot be kept; every other answer can.
    """

    key: str
    #: Tells a repeat from another request under the same key; made from the whole request.
    fingerprint: bytes

    def run(self, volume: Volume) -> T:
        kept = volume.recall(self.key, self.fingerprint)
        if kept is not None:
            return self.op.recalled(kept)
        answer = self.op.run(volume)
        volume.remember(self.key, self.fingerprint, msgspec.msgpack.encode(answer, enc_hook=_plain))
        return answer


def unwrapped(op: Op[Any]) -> Iterator[Op[Any]]:
    """The plain operations inside batches and wrappers, with their paths as seen from outside.

    Whatever decides by verb looks at these, so that no wrapping hides one.
    """
    match op:
        case Batch():
            for each in op.ops:
                yield from unwrapped(each)
        case Within():
            for each in unwrapped(op.op):
                yield each.rerooted(op.base.join)
        case Wrapped():
            yield from unwrapped(op.op)
        case _:
            yield op


def _plain(answer: object) -> list[object]:
    if isinstance(answer, Sequence):
        return list(cast(Sequence[object], answer))
    raise InvalidArgument("an opened content cannot be kept under an idempotency key")


@cache
def _answer(operation: type[Op[Any]]) -> Any:
    return get_type_hints(operation.run)["return"]


def fingerprint(op: Op[Any]) -> bytes:
    """Equal for equal requests. Data that is streamed counts only by its presence."""
    digest = hashlib.sha256(type(op).__name__.encode())
    for name in op.__struct_fields__:
        value: object = getattr(op, name)
        if isinstance(op, Batch):
            digest.update(b"".join(fingerprint(each) for each in op.ops))
        elif isinstance(value, Op):
            inner: Op[Any] = value  # pyright: ignore[reportUnknownVariableType]
            digest.update(fingerprint(inner))
        elif name == "data" and not isinstance(value, bytes | str):
            digest.update(b"a stream")
        else:
            digest.update(repr(value).encode())
    return digest.digest()
