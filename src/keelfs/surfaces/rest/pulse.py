"""Wakes whoever waits for a session to change: one look for all who wait, in one task.

What is looked at is a number in the row of each space that somebody waits for, so changes of other
processes are seen as those of this one; where the database can tell for less that nothing at all
was committed, not even that. A wake is a hint: whoever is woken reads the journal from its own
cursor and so misses nothing, however slow it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from keelfs.aio import Crew
from keelfs.identity import Authority

#: Seconds between two looks: what a change takes to be told, at most, besides the telling.
PAUSE: Final = 0.05

Address = tuple[int, int]
_log = logging.getLogger("keelfs.server")


class Pulse:
    """See the module."""

    def __init__(self, authority: Authority, crew: Crew) -> None:
        self._authority, self._crew = authority, crew
        self._waiting: dict[Address, set[asyncio.Event]] = {}
        self._seen: dict[Address, int] = {}
        self._version: object = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self, address: Address) -> Generator[asyncio.Event]:
        """An event that is set whenever the space may have changed."""
        event = asyncio.Event()
        self._waiting.setdefault(address, set()).add(event)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._beat())
        try:
            yield event
        finally:
            self._waiting[address].discard(event)
            if not self._waiting[address]:
                del self._waiting[address]
                self._seen.pop(address, None)

    def wake_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def _beat(self) -> None:
        while self._waiting:
            await asyncio.sleep(PAUSE)
            try:
                await self._look()
            except Exception:
                # The store may be away for a while; whoever waits looks by itself now and then.
                _log.warning("nobody could be woken", exc_info=True)
                await asyncio.sleep(1)

    async def _look(self) -> None:
        version = self._authority.version()
        if version == self._version:
            return
        asked = list(self._waiting)
        newest = await self._crew.run(self._authority.newest, asked)
        self._version = version
        for address, seq in zip(asked, newest, strict=True):
            if self._seen.get(address) != seq:
                self._seen[address] = seq
                for event in self._waiting.get(address, ()):
                    event.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
