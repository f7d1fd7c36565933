"""What conversations keep, awaitable. Who calls: `Tenant` of `keelfs.aio`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from keelfs.aio.hop import Crew

if TYPE_CHECKING:
    from keelfs import artifacts
    from keelfs.artifacts import FileEvent, Turn
    from keelfs.filing import Artifact, Citation, MemoryEntry, Put, Room
    from keelfs.model import Page


class Artifacts:
    """Files that are known by a number and a path, and belong to one conversation."""

    def __init__(self, sync: artifacts.Artifacts, crew: Crew) -> None:
        self._sync, self._run = sync, crew.run

    async def put(self, path: str, data: bytes | str, *, mime: str | None = None) -> Put:
        return await self._run(self._sync.put, path, data, mime=mime)

    async def get(self, id_: int, *, via: int | None = None) -> Artifact:
        return await self._run(self._sync.get, id_, via=via)

    async def find(self, id_: int) -> Artifact:
        return await self._run(self._sync.find, id_)

    async def at(self, path: str) -> Artifact:
        return await self._run(self._sync.at, path)

    async def read(self, what: int | str, *, via: int | None = None) -> bytes:
        return await self._run(self._sync.read, what, via=via)

    async def fetch(self, what: int | str, *, via: int | None = None) -> tuple[Artifact, bytes]:
        return await self._run(self._sync.fetch, what, via=via)

    async def list(self, *, cursor: str | None = None, limit: int = 200) -> Page[Artifact]:
        return await self._run(self._sync.list, cursor=cursor, limit=limit)

    async def delete(self, id_: int) -> None:
        await self._run(self._sync.delete, id_)

    async def usage(self) -> Room:
        return await self._run(self._sync.usage)

    async def citations(self, *, after: str = "", limit: int = 200) -> Sequence[Citation]:
        return await self._run(self._sync.citations, after=after, limit=limit)


class Memory:
    """Entries that every conversation of a tenant sees; one may link to an artifact."""

    def __init__(self, sync: artifacts.Memory, crew: Crew) -> None:
        self._sync, self._run = sync, crew.run

    async def add(
        self,
        type_: str,
        title: str,
        content: str,
        *,
        source: str = "",
        tags: Iterable[str] = (),
        artifact: int | None = None,
    ) -> MemoryEntry:
        return await self._run(
            self._sync.add, type_, title, content, source=source, tags=tags, artifact=artifact
        )

    async def get(self, id_: int) -> MemoryEntry:
        return await self._run(self._sync.get, id_)

    async def list(
        self,
        *,
        type_: str = "",
        tag: str = "",
        q: str = "",
        as_of_ns: int | None = None,
        since_ns: int = 0,
        cursor: str | None = None,
        limit: int = 200,
    ) -> Page[MemoryEntry]:
        return await self._run(
            self._sync.list, type_=type_, tag=tag, q=q, as_of_ns=as_of_ns, since_ns=since_ns,
            cursor=cursor, limit=limit,
        )  # fmt: skip

    async def update(
        self,
        id_: int,
        *,
        type_: str | UnsetType = UNSET,
        title: str | UnsetType = UNSET,
        content: str | UnsetType = UNSET,
        source: str | UnsetType = UNSET,
        tags: Iterable[str] | UnsetType = UNSET,
        artifact: int | UnsetType | None = UNSET,
    ) -> MemoryEntry:
        return await self._run(
            self._sync.update, id_, type_=type_, title=title, content=content, source=source,
            tags=tags, artifact=artifact,
        )  # fmt: skip

    async def invalidate(self, id_: int) -> None:
        await self._run(self._sync.invalidate, id_)

    async def delete(self, id_: int) -> None:
        await self._run(self._sync.delete, id_)


class Conversation:
    """Carries out slash commands."""

    def __init__(self, sync: artifacts.Conversation, crew: Crew) -> None:
        self._sync, self._crew = sync, crew

    async def turn(self, text: str | Iterable[str]) -> Turn:
        """Carries out all commands of a text."""
        return await self._crew.run(self._sync.turn, text)

    def stream(self, pieces: Iterable[str]) -> AsyncIterator[str | FileEvent]:
        """Results and files, each as soon as its command is complete in the text."""
        return self._crew.each(lambda: self._sync.stream(pieces))
