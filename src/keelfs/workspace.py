"""The verbs people call, on the tree that a principal sees.

Each verb builds one operation and performs it; none knows what answers. Paths are text, absolute in
this tree; answers are values of `keelfs.model`; errors name paths as the caller wrote them. Verbs
that change something take `expect` (what must be there) and `key` (do it at most once).

Who calls: users, agents' tools and every surface. Awaitable twins live in `keelfs.aio`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload

from keelfs import ops
from keelfs.across import Across
from keelfs.arguments import BLOCK, Given, natural, text
from keelfs.door import Place, spell
from keelfs.errors import InvalidArgument, LinkLoop, NotADirectory, NotFound
from keelfs.model import (
    ANY,
    MAX_PAGE,
    Attrs,
    Data,
    Entry,
    Expect,
    Kind,
    Limits,
    Page,
    Stat,
    Transferred,
    Usage,
)
from keelfs.path import ROOT, parse
from keelfs.ports import Handler
from keelfs.timeline import Timeline
from keelfs.watch import Waiter

if TYPE_CHECKING:
    import io

    from keelfs.filehandle import OpenFile, RandomFile, WrittenFile, WrittenText

T = TypeVar("T")
Answers = list[Any]


class Workspace(Timeline, Across):
    """A tree, by text paths. It holds no state of its own and may be shared by threads."""

    # -- bytes -------------------------------------------------------------------------------

    def read(
        self, path: Place, offset: int = 0, length: int | None = None, revision: int | None = None
    ) -> bytes:
        """Bytes of a file, all from one revision; large files are streamed instead."""
        return self.perform(ops.Read(path, offset, length, revision))

    def read_text(
        self, path: Place, encoding: str = "utf-8", errors: str = "strict",
        revision: int | None = None,
    ) -> str:  # fmt: skip
        """The text of a file."""
        data = self.read(path, revision=revision)
        try:
            return data.decode(encoding, errors)
        except (LookupError, ValueError, TypeError) as reason:
            error = InvalidArgument(
                f"the file cannot be read as {encoding} text ({type(reason).__name__}); "
                'name its encoding, pass errors="replace", or read() its bytes'
            )
            spell(error, path)
            raise error from None

    def stream(
        self, path: Place, revision: int | None = None, block: int = BLOCK, offset: int = 0,
        length: int | None = None,
    ) -> Iterator[bytes]:  # fmt: skip
        """The bytes of one revision in blocks; what is written meanwhile does not show."""
        for name, value in (("block", block), ("offset", offset), ("length", length or 0)):
            natural(name, value)
        if block == 0:
            raise InvalidArgument("block is 1 or more")
        content = self.pin(path, revision)
        return _blocks(content.read, block, offset, length)

    def write(
        self, path: Place, data: Given, expect: Expect = ANY, parents: bool = True,
        mode: int | None = None, mime: str | None = None, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Makes the file or replaces its bytes, whole or not at all."""
        op = ops.Write(path, cast(Data, data), expect, parents, mode, mime)
        return self.perform(op, key=key)

    def add(
        self, path: Place, data: Given, parents: bool = True, mode: int | None = None,
        mime: str | None = None, *, key: str | None = None,
    ) -> Entry:  # fmt: skip
        """Makes a new file and never replaces one: of a taken name it makes `name (1).ext`."""
        return self.perform(ops.Add(path, cast(Data, data), parents, mode, mime), key=key)

    def append(
        self, path: Place, data: Given, expect: Expect = ANY, parents: bool = True, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Adds bytes at the end, making the file if it is missing."""
        return self.perform(ops.Append(path, cast(Data, data), expect, parents), key=key)

    def patch(
        self, path: Place, offset: int, data: Given, expect: Expect = ANY, *, key: str | None = None
    ) -> Stat:
        """Replaces bytes from `offset` on; a gap reads as zeros."""
        return self.perform(ops.Patch(path, offset, cast(Data, data), expect), key=key)

    def truncate(
        self, path: Place, size: int, expect: Expect = ANY, *, key: str | None = None
    ) -> Stat:
        """Cuts the file, or grows it by zeros."""
        return self.perform(ops.Truncate(path, size, expect), key=key)

    @overload
    def open(
        self, path: Place, mode: Literal["r", "rt"] = "r", expect: Expect | None = None,
        encoding: str = "utf-8", errors: str = "strict", newline: str | None = "",
    ) -> io.TextIOWrapper: ...  # fmt: skip
    @overload
    def open(self, path: Place, mode: Literal["rb"]) -> io.BufferedReader: ...
    @overload
    def open(
        self, path: Place, mode: Literal["w", "wt", "a", "at", "x", "xt", "r+", "w+"],
        expect: Expect | None = None, encoding: str = "utf-8", errors: str = "strict",
        newline: str | None = "",
    ) -> WrittenText: ...  # fmt: skip
    @overload
    def open(
        self, path: Place, mode: Literal["wb", "ab", "xb"], expect: Expect | None = None
    ) -> WrittenFile: ...
    @overload
    def open(
        self, path: Place, mode: Literal["r+b", "rb+", "w+b", "wb+"], expect: Expect | None = None
    ) -> RandomFile: ...
    @overload
    def open(
        self, path: Place, mode: str, expect: Expect | None = None, encoding: str = "utf-8",
        errors: str = "strict", newline: str | None = "",
    ) -> OpenFile: ...  # fmt: skip
    def open(
        self, path: Place, mode: str = "r", expect: Expect | None = None, encoding: str = "utf-8",
        errors: str = "strict", newline: str | None = "",
    ) -> OpenFile:  # fmt: skip
        """A file object. Reading is pinned to one revision and seekable.

        What is written is committed whole on closing: never by an exception in the `with` block,
        by `discard()` or by forgetting to close. "r+" commits only if nobody changed the file in
        between (`Conflict`), unless `expect` says otherwise. Line ends stay as they are.
        """
        from keelfs.filehandle import opened

        return opened(self, path, mode, expect, encoding, errors, newline)

    def checksum(self, path: Place) -> str:
        """The sha256 of a file in hexadecimal."""
        return self.perform(ops.Checksum(path))

    # -- names -------------------------------------------------------------------------------

    def stat(self, path: Place, follow: bool = True) -> Stat:
        """What is known about a node; `follow=False` looks at a link itself."""
        return self.perform(ops.GetStat(path, follow))

    def exists(self, path: Place) -> bool:
        """Whether something is there, links followed."""
        return self._is_there(path, follow=True)

    def lexists(self, path: Place) -> bool:
        """Whether an entry is there, be it a link to nothing."""
        return self._is_there(path, follow=False)

    def _is_there(self, path: Place, follow: bool) -> bool:
        try:
            self.perform(ops.GetStat(path, follow))
        except (NotFound, NotADirectory, LinkLoop):
            return False
        return True

    def list(self, path: Place = ROOT, after: str | None = None, limit: int = 1000) -> Page[Entry]:
        """One page of a directory, by name; `next` is what to pass as `after`."""
        return self.perform(ops.List(path, after, limit))

    def entries(self, path: Place = ROOT) -> Iterator[Entry]:
        """All entries of a directory, page after page."""
        return _pages(lambda after: self.list(path, after, MAX_PAGE))

    def mkdir(
        self, path: Place, parents: bool = False, exist_ok: bool = False, mode: int = 0o755, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Makes a directory."""
        return self.perform(ops.Mkdir(path, parents, exist_ok, mode), key=key)

    def mknod(
        self, path: Place, kind: Kind, mode: int = 0o644, rdev: int = 0, *, key: str | None = None
    ) -> Stat:
        """Makes a fifo, socket or device entry; nothing opens it."""
        return self.perform(ops.Mknod(path, kind, mode, rdev), key=key)

    def remove(
        self, path: Place, recursive: bool = False, expect: Expect = ANY, *, key: str | None = None
    ) -> None:
        """Removes an entry for good; `trash` keeps it for a while."""
        self.perform(ops.Remove(path, recursive, expect), key=key)

    def move(
        self, path: Place, to: Place, replace: bool = False, parents: bool = False,
        expect: Expect = ANY, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Renames an entry, whatever lies below it."""
        return self.perform(ops.Move(path, to, replace, parents, expect), key=key)

    def copy(
        self, path: Place, to: Place, replace: bool = False, recursive: bool = False,
        parents: bool = False, expect: Expect = ANY, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Copies a file, or with `recursive` a directory; bytes are shared, not copied."""
        return self.perform(ops.Copy(path, to, replace, recursive, parents, expect), key=key)

    def transfer(
        self, path: Place, to: Place, replace: bool = False, recursive: bool = False,
        parents: bool = False, *, key: str | None = None,
    ) -> Transferred:  # fmt: skip
        """Moves an entry, also from one mount into another; the answer says whether at once."""
        return self.perform(ops.Transfer(path, to, replace, recursive, parents), key=key)

    def symlink(
        self, target: str, path: Place, parents: bool = False, *, key: str | None = None
    ) -> Stat:
        """Makes a symbolic link at `path`; the target is kept as written."""
        return self.perform(ops.Symlink(target, path, parents), key=key)

    def readlink(self, path: Place) -> str:
        """A link's target as it was written."""
        return self.perform(ops.Readlink(path))

    def link(
        self, path: Place, to: Place, parents: bool = False, *, key: str | None = None
    ) -> Stat:
        """Gives the file at `path` a second name."""
        return self.perform(ops.Link(path, to, parents), key=key)

    def set_attrs(
        self, path: Place, *, mode: int | None = None, uid: int | None = None,
        gid: int | None = None, times: tuple[int | None, int | None] | None = None,
        readonly: bool | None = None, mime: str | None = None,
        xattrs: dict[str, bytes | None] | None = None, follow: bool = True, expect: Expect = ANY,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Sets attributes; what is left out stays. `times` are atime and mtime in nanoseconds."""
        atime_ns, mtime_ns = _pair(times, path)
        attrs = Attrs(
            mode=mode, uid=uid, gid=gid, atime_ns=atime_ns, mtime_ns=mtime_ns, readonly=readonly,
            mime=mime, xattrs=xattrs,
        )  # fmt: skip
        return self.perform(ops.SetAttrs(path, attrs, follow, expect), key=key)

    # -- many at once ------------------------------------------------------------------------

    def batch(self, operations: Iterable[ops.Op[Any]], *, key: str | None = None) -> Answers:
        """Performs operations in one transaction, all or none; their answers in order.

        An error says in `operation` which of them was refused.
        """
        return self.perform(ops.Batch(_listed(operations)), key=key)

    def usage(self, path: Place = ROOT) -> Usage:
        """The ledger of this tree; for another directory, the bytes and nodes below it."""
        return self.perform(ops.GetUsage(path))

    # -- smaller views -----------------------------------------------------------------------

    def subtree(self, path: Place) -> Workspace:
        """The same tree with `path` as its root, out of which no path and no link leads."""
        from keelfs.gates.subtree import Subtree

        return Workspace(Subtree(self._handler, parse(path)), wait=self._wait)

    def readonly(self) -> Workspace:
        """The same tree, in which every change is refused."""
        from keelfs.gates.readonly import ReadOnlyGate

        return Workspace(ReadOnlyGate(self._handler), wait=self._wait)


class SpaceHome(Handler, Protocol):
    """What a space of a store offers besides performing operations."""

    def fork(self, kind: str, key: str, at: str | None) -> SpaceHome:
        """A new space of the same tenant that holds this tree, or that of a snapshot."""
        ...

    def set_limits(self, limits: Limits) -> None:
        """Narrows the tenant's limits for this space."""
        ...

    def delete(self) -> None:
        """Deletes the space with everything in it."""
        ...

    def waiter(self) -> Waiter | None:
        """Who wakes the watchers of this space."""
        ...


class Space(Workspace):
    """The workspace of one space of a store: it can also be forked, limited and deleted.

    `gate` puts the gates of this principal before a home; forks get the same ones.
    """

    def __init__(self, home: SpaceHome, gate: Callable[[Handler], Handler] | None = None) -> None:
        super().__init__(home if gate is None else gate(home), wait=home.waiter())
        self._home, self._gate = home, gate

    def fork(self, kind: str, key: str, at: str | None = None) -> Space:
        """A new space that holds this tree, or a snapshot's; it costs rows, not bytes."""
        for name, value in (("kind", kind), ("key", key), ("at", at or "")):
            text(name, value)
        return Space(self._home.fork(kind, key, at), self._gate)

    def set_limits(self, limits: Limits) -> None:
        """Sets what this space may use, within what its tenant may."""
        if not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument("limits is a keelfs.Limits")
        self._home.set_limits(limits)

    def delete(self) -> None:
        """Deletes the space with everything in it, its history and trash too."""
        self._home.delete()


def _blocks(
    read: Callable[[int, int], bytes], block: int, offset: int, length: int | None
) -> Iterator[bytes]:
    end = None if length is None else offset + length
    while end is None or offset < end:
        data = read(offset, block if end is None else min(block, end - offset))
        if not data:
            return
        yield data
        offset += len(data)


def _pages(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    after: str | None = None
    while True:
        answer = page(after)
        yield from answer.items
        if answer.next is None:
            return
        after = answer.next


def _pair(times: Any, path: Place) -> tuple[Any, Any]:
    if times is None:
        return None, None
    try:
        atime, mtime = times
    except (TypeError, ValueError):
        error = InvalidArgument("times is a pair of nanoseconds: (atime, mtime)")
        spell(error, path)
        raise error from None
    return atime, mtime


def _listed(operations: Any) -> tuple[ops.Op[Any], ...]:
    """As a tuple, so that the culprit can be found in it; what is none is refused at the door."""
    return tuple(operations) if hasattr(operations, "__iter__") else operations
