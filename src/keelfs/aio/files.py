"""File objects of the event loop: those of `keelfs.filehandle`, each call in a thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeAlias, TypeVar

from keelfs.aio.hop import Crew
from keelfs.model import Stat

Text = TypeVar("Text", str, bytes)


class File(Generic[Text]):
    """An open file. Leaving its `async with` block closes it, and an exception discards it."""

    def __init__(self, crew: Crew, file: Any) -> None:
        self._crew, self._file = crew, file

    async def read(self, size: int = -1) -> Text:
        """At most `size` characters or bytes; all that is left without a size."""
        return await self._crew.run(self._file.read, size)

    async def readline(self) -> Text:
        """One line with its end; empty at the end of the file."""
        return await self._crew.run(self._file.readline)

    async def write(self, data: Text) -> int:
        """Adds to what closing commits."""
        return await self._crew.run(self._file.write, data)

    async def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to another place."""
        return await self._crew.run(self._file.seek, offset, whence)

    async def tell(self) -> int:
        """The present place."""
        return await self._crew.run(self._file.tell)

    async def truncate(self, size: int | None = None) -> int:
        """Cuts or grows what closing commits."""
        return await self._crew.run(self._file.truncate, size)

    async def close(self) -> None:
        """Commits what was written."""
        await self._crew.run(self._file.close)

    async def discard(self) -> None:
        """Closes the file and commits nothing."""
        await self._crew.run(getattr(self._file, "discard", self._file.close))

    @property
    def stat(self) -> Stat | None:
        """The file as it was opened; after closing, as it was committed; None when new."""
        layer = self._file if hasattr(self._file, "stat") else _raw(self._file)
        found: Stat | None = layer.stat
        return found

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    async def __aiter__(self) -> AsyncIterator[Text]:
        while line := await self.readline():
            yield line


def _raw(file: Any) -> Any:
    return file.raw if hasattr(file, "raw") else file.buffer.raw


Opening: TypeAlias = AbstractAsyncContextManager[File[Text]]


@asynccontextmanager
async def opening(crew: Crew, begin: Callable[[], Any]) -> AsyncGenerator[File[Any]]:
    """The file for the length of a block. Closing it is what commits it."""
    file: File[Any] = File(crew, await crew.run(begin))
    try:
        yield file
    except BaseException:
        await file.discard()
        raise
    await file.close()
