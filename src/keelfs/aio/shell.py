"""The agents' shell, awaitable.

A command runs in a thread of its own, because it may last; the event loop goes on. Unlike a verb, a
command whose caller is cancelled is told to stop, and what it had done by then is done.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from keelfs.aio.hop import Crew
from keelfs.aio.workspace import everyday_crew

if TYPE_CHECKING:
    from keelfs.agents import shell


class Shell:
    """A bash over one tree, for the event loop."""

    def __init__(self, sync: shell.Shell, crew: Crew | None = None) -> None:
        self._sync = sync
        self._crew = crew or everyday_crew()

    @property
    def sync(self) -> shell.Shell:
        """The same shell for threads."""
        return self._sync

    async def run(self, command: str, seconds: float | None = None) -> shell.ShellResult:
        try:
            return await self._crew.run_patient(self._sync.run, command, seconds)
        except asyncio.CancelledError:
            self._sync.stop()
            raise

    def stop(self) -> None:
        self._sync.stop()

    @property
    def cwd(self) -> str:
        return self._sync.cwd

    async def close(self) -> None:
        await self._crew.run_patient(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
