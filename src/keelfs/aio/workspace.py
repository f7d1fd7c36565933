"""The verbs of a workspace, awaitable: one line for each, and no second way of doing anything.

Who calls: programs with an event loop, and the surfaces that serve from one.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar, overload

from keelfs import ops, workspace
from keelfs.aio.files import Opening, opening
from keelfs.aio.hop import Crew
from keelfs.aio.watch import Watch
from keelfs.arguments import BLOCK, Given
from keelfs.door import Pinned, Place
from keelfs.model import (
    ANY,
    Change,
    ChangeKind,
    Entry,
    Expect,
    Kind,
    Limits,
    Match,
    Page,
    Revision,
    Snapshot,
    Stat,
    Transferred,
    Trashed,
    Usage,
)
from keelfs.path import ROOT
from keelfs.watch import checked_timeout

if TYPE_CHECKING:
    from keelfs.archive import Archived, Bounds, Progress
    from keelfs.parcel import Format, Outside

T = TypeVar("T")
P = ParamSpec("P")
Answers: TypeAlias = list[Any]
Revisions: TypeAlias = list[Revision]
Snapshots: TypeAlias = list[Snapshot]
#: Data of a write: what the blocking verbs take, and what arrives asynchronously.
Arriving = Given | AsyncIterable[bytes]

#: What a handler that reads from its own memory or file answers faster than a thread is woken.
SHORT: Final = 64 * 1024


@lru_cache(maxsize=1)
def everyday_crew() -> Crew:
    """The threads of workspaces that were given none."""
    return Crew()


class Workspace:
    """A tree, by text paths, for the event loop.

    Cancelling a verb stops the wait for it: one that has begun in its thread is done. A write whose
    data is asynchronous is discarded if its data has not all come.
    """

    def __init__(self, sync: workspace.Workspace, crew: Crew | None = None) -> None:
        self._sync = sync
        self._crew = crew or everyday_crew()
        self._local = bool(getattr(sync.handler, "local_reads", False))

    @property
    def sync(self) -> workspace.Workspace:
        """The same workspace for threads."""
        return self._sync

    async def _hop(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._crew.run(call, *args, **kwargs)

    async def _short(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls what is short where the handler reads locally, without a thread."""
        if self._local:
            return call(*args, **kwargs)
        return await self._crew.run(call, *args, **kwargs)

    async def perform(self, op: ops.Op[T], /, *, key: str | None = None) -> T:
        return await self._hop(self._sync.perform, op, key=key)

    async def pin(self, path: Place, revision: int | None = None) -> Pinned:
        return await self._hop(self._sync.pin, path, revision)

    # -- bytes -------------------------------------------------------------------------------

    async def read(
        self, path: Place, offset: int = 0, length: int | None = None, revision: int | None = None
    ) -> bytes:
        if self._local and (length is None or type(length) is int):
            short = SHORT if length is None else min(SHORT, length)
            data = self._sync.read(path, offset, short, revision)
            # Fewer bytes than asked for: the file ends there, and this is all of it.
            if len(data) < short or short == length:
                return data
        return await self._hop(self._sync.read, path, offset, length, revision)

    async def read_text(
        self, path: Place, encoding: str = "utf-8", errors: str = "strict",
        revision: int | None = None,
    ) -> str:  # fmt: skip
        return await self._hop(self._sync.read_text, path, encoding, errors, revision)

    async def stream(
        self, path: Place, revision: int | None = None, block: int = BLOCK, offset: int = 0,
        length: int | None = None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        content = await self._hop(self._sync.stream, path, revision, block, offset, length)
        while data := await self._hop(next, content, b""):
            yield data

    async def write(
        self, path: Place, data: Arriving, expect: Expect = ANY, parents: bool = True,
        mode: int | None = None, mime: str | None = None, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        def work(given: Given) -> Stat:
            return self._sync.write(path, given, expect, parents, mode, mime, key=key)

        return await self._crew.carry(work, data)

    async def add(
        self, path: Place, data: Arriving, parents: bool = True, mode: int | None = None,
        mime: str | None = None, *, key: str | None = None,
    ) -> Entry:  # fmt: skip
        def work(given: Given) -> Entry:
            return self._sync.add(path, given, parents, mode, mime, key=key)

        return await self._crew.carry(work, data)

    async def append(
        self, path: Place, data: Arriving, expect: Expect = ANY, parents: bool = True, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        def work(given: Given) -> Stat:
            return self._sync.append(path, given, expect, parents, key=key)

        return await self._crew.carry(work, data)

    async def patch(
        self, path: Place, offset: int, data: Arriving, expect: Expect = ANY, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        def work(given: Given) -> Stat:
            return self._sync.patch(path, offset, given, expect, key=key)

        return await self._crew.carry(work, data)

    async def truncate(
        self, path: Place, size: int, expect: Expect = ANY, *, key: str | None = None
    ) -> Stat:
        return await self._hop(self._sync.truncate, path, size, expect, key=key)

    @overload
    def open(
        self, path: Place, mode: Literal["rb", "wb", "ab", "xb", "r+b", "rb+", "w+b", "wb+"],
        expect: Expect | None = None,
    ) -> Opening[bytes]: ...  # fmt: skip
    @overload
    def open(
        self, path: Place, mode: Literal["r", "w", "a", "x", "r+", "w+"] = "r",
        expect: Expect | None = None, encoding: str = "utf-8", errors: str = "strict",
        newline: str | None = "",
    ) -> Opening[str]: ...  # fmt: skip
    def open(
        self, path: Place, mode: str = "r", expect: Expect | None = None, encoding: str = "utf-8",
        errors: str = "strict", newline: str | None = "",
    ) -> Opening[Any]:  # fmt: skip
        """`async with workspace.open(path, "wb") as file`: see the blocking verb."""
        return opening(
            self._crew, lambda: self._sync.open(path, mode, expect, encoding, errors, newline)
        )

    async def checksum(self, path: Place) -> str:
        return await self._hop(self._sync.checksum, path)

    # -- names -------------------------------------------------------------------------------

    async def stat(self, path: Place, follow: bool = True) -> Stat:
        return await self._short(self._sync.stat, path, follow)

    async def exists(self, path: Place) -> bool:
        return await self._short(self._sync.exists, path)

    async def lexists(self, path: Place) -> bool:
        return await self._short(self._sync.lexists, path)

    async def list(
        self, path: Place = ROOT, after: str | None = None, limit: int = 1000
    ) -> Page[Entry]:
        return await self._hop(self._sync.list, path, after, limit)

    def entries(self, path: Place = ROOT) -> AsyncIterator[Entry]:
        return self._crew.each(lambda: self._sync.entries(path))

    async def mkdir(
        self, path: Place, parents: bool = False, exist_ok: bool = False, mode: int = 0o755, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        return await self._hop(self._sync.mkdir, path, parents, exist_ok, mode, key=key)

    async def mknod(
        self, path: Place, kind: Kind, mode: int = 0o644, rdev: int = 0, *, key: str | None = None
    ) -> Stat:
        return await self._hop(self._sync.mknod, path, kind, mode, rdev, key=key)

    async def remove(
        self, path: Place, recursive: bool = False, expect: Expect = ANY, *, key: str | None = None
    ) -> None:
        await self._hop(self._sync.remove, path, recursive, expect, key=key)

    async def move(
        self, path: Place, to: Place, replace: bool = False, parents: bool = False,
        expect: Expect = ANY, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        return await self._hop(self._sync.move, path, to, replace, parents, expect, key=key)

    async def copy(
        self, path: Place, to: Place, replace: bool = False, recursive: bool = False,
        parents: bool = False, expect: Expect = ANY, *, key: str | None = None,
    ) -> Stat:  # fmt: skip
        return await self._hop(
            self._sync.copy, path, to, replace, recursive, parents, expect, key=key
        )

    async def transfer(
        self, path: Place, to: Place, replace: bool = False, recursive: bool = False,
        parents: bool = False, *, key: str | None = None,
    ) -> Transferred:  # fmt: skip
        return await self._hop(self._sync.transfer, path, to, replace, recursive, parents, key=key)

    async def symlink(
        self, target: str, path: Place, parents: bool = False, *, key: str | None = None
    ) -> Stat:
        return await self._hop(self._sync.symlink, target, path, parents, key=key)

    async def readlink(self, path: Place) -> str:
        return await self._short(self._sync.readlink, path)

    async def link(
        self, path: Place, to: Place, parents: bool = False, *, key: str | None = None
    ) -> Stat:
        return await self._hop(self._sync.link, path, to, parents, key=key)

    async def set_attrs(
        self, path: Place, *, mode: int | None = None, uid: int | None = None,
        gid: int | None = None, times: tuple[int | None, int | None] | None = None,
        readonly: bool | None = None, mime: str | None = None,
        xattrs: dict[str, bytes | None] | None = None, follow: bool = True, expect: Expect = ANY,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        return await self._hop(
            self._sync.set_attrs, path, mode=mode, uid=uid, gid=gid, times=times,
            readonly=readonly, mime=mime, xattrs=xattrs, follow=follow, expect=expect, key=key,
        )  # fmt: skip

    # -- many at once ------------------------------------------------------------------------

    async def batch(self, operations: Iterable[ops.Op[Any]], *, key: str | None = None) -> Answers:
        return await self._hop(self._sync.batch, operations, key=key)

    async def usage(self, path: Place = ROOT) -> Usage:
        return await self._hop(self._sync.usage, path)

    def walk(self, path: Place = ROOT) -> AsyncIterator[tuple[str, Stat]]:
        return self._crew.each(lambda: self._sync.walk(path))

    def glob(self, pattern: str, path: Place = ROOT) -> AsyncIterator[str]:
        return self._crew.each(lambda: self._sync.glob(pattern, path))

    def grep(
        self, pattern: str, path: Place = ROOT, glob: str | None = None, *, fixed: bool = False,
        case_sensitive: bool = True, limit: int | None = None,
    ) -> AsyncIterator[Match]:  # fmt: skip
        return self._crew.each(
            lambda: self._sync.grep(
                pattern, path, glob, fixed=fixed, case_sensitive=case_sensitive, limit=limit
            )
        )

    async def export(
        self, to: Outside, path: Place = ROOT, format: Format | None = None, *,
        progress: Progress | None = None,
    ) -> Archived:  # fmt: skip
        work = self._sync.export
        return await self._crew.run_patient(work, to, path, format, progress=progress)

    async def import_(
        self, source: Outside | bytes, path: Place = ROOT, format: Format | None = None, *,
        replace: bool = False, bounds: Bounds | None = None, progress: Progress | None = None,
    ) -> Archived:  # fmt: skip
        return await self._crew.run_patient(
            self._sync.import_, source, path, format, replace=replace, bounds=bounds,
            progress=progress,
        )  # fmt: skip

    # -- time --------------------------------------------------------------------------------

    async def history(self, path: Place, before: int | None = None, limit: int = 1000) -> Revisions:
        return await self._hop(self._sync.history, path, before, limit)

    async def restore(
        self, path: Place, revision: int, expect: Expect = ANY, *, key: str | None = None
    ) -> Stat:
        return await self._hop(self._sync.restore, path, revision, expect, key=key)

    async def diff(
        self, path: Place, from_revision: int | None = None, to_revision: int | None = None,
        *, other: Place | None = None, context: int = 3,
    ) -> str:  # fmt: skip
        return await self._hop(
            self._sync.diff, path, from_revision, to_revision, other=other, context=context
        )

    async def trash(self, path: Place, expect: Expect = ANY, *, key: str | None = None) -> Trashed:
        return await self._hop(self._sync.trash, path, expect, key=key)

    async def trashed(self, after: str | None = None, limit: int = 1000) -> Page[Trashed]:
        return await self._hop(self._sync.trashed, after, limit)

    async def untrash(
        self, trash_id: str, to: Place | None = None, parents: bool = True, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        return await self._hop(self._sync.untrash, trash_id, to, parents, key=key)

    async def purge(self, trash_id: str, *, key: str | None = None) -> None:
        await self._hop(self._sync.purge, trash_id, key=key)

    async def snapshot(self, name: str, *, key: str | None = None) -> Snapshot:
        return await self._hop(self._sync.snapshot, name, key=key)

    async def snapshots(self) -> Snapshots:
        return await self._hop(self._sync.snapshots)

    async def drop_snapshot(self, name: str, *, key: str | None = None) -> None:
        await self._hop(self._sync.drop_snapshot, name, key=key)

    async def rollback(self, name: str, *, key: str | None = None) -> Snapshot:
        return await self._hop(self._sync.rollback, name, key=key)

    async def undo(self, seq: int, *, key: str | None = None) -> Sequence[int]:
        return await self._hop(self._sync.undo, seq, key=key)

    async def changes(self, path: Place = ROOT, after: int = 0, limit: int = 1000) -> Page[Change]:
        return await self._hop(self._sync.changes, path, after, limit)

    def watch(
        self, path: Place = ROOT, after: int | None = None, recursive: bool = True,
        kinds: Collection[ChangeKind] | None = None, pattern: str | None = None,
        timeout: float | None = None,
    ) -> Watch:  # fmt: skip
        """Changes as they come. "Now" is its first step, or `await` of it."""
        checked_timeout(timeout)
        return Watch(
            self._crew, lambda: self._sync.watcher(path, after, recursive, kinds, pattern), timeout
        )

    # -- smaller views -----------------------------------------------------------------------

    def subtree(self, path: Place) -> Workspace:
        return Workspace(self._sync.subtree(path), self._crew)

    def readonly(self) -> Workspace:
        return Workspace(self._sync.readonly(), self._crew)


class Space(Workspace):
    """The workspace of one space of a store, for the event loop."""

    def __init__(self, sync: workspace.Space, crew: Crew | None = None) -> None:
        super().__init__(sync, crew)
        self._space = sync

    async def fork(self, kind: str, key: str, at: str | None = None) -> Space:
        return Space(await self._hop(self._space.fork, kind, key, at), self._crew)

    async def set_limits(self, limits: Limits) -> None:
        await self._hop(self._space.set_limits, limits)

    async def delete(self) -> None:
        await self._hop(self._space.delete)
