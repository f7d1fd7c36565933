"""Serving answers that go on.

Nothing is kept for a slow reader: each reads the journal from its own cursor when it is ready for
more. One that takes nothing for too long is let go, and comes back with the cursor it was told.
The token is looked at again before each look, so that a stream ends when its token does.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from keelfs.errors import KeelError, RateLimited
from keelfs.model import Change
from keelfs.surfaces.rest.answer import Answer
from keelfs.surfaces.rest.bounds import Bounds
from keelfs.surfaces.rest.events import Live
from keelfs.surfaces.rest.pulse import Pulse

Send = Callable[[bytes], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
#: Looks at the journal, having looked at the token.
Look = Callable[[], Awaitable[list[Change]]]

#: A quiet stream says that it is alive after so many seconds.
HEARTBEAT: Final = 15.0


class Streams:
    """All streams and waiting questions of a process."""

    def __init__(self, pulse: Pulse, bounds: Bounds) -> None:
        self._pulse, self._bounds = pulse, bounds
        self._open: Counter[str] = Counter()
        self._stopping = False

    def stop(self) -> None:
        """Ends every stream; its client comes back to another process, or to this one later."""
        self._stopping = True
        self._pulse.wake_all()

    @contextmanager
    def _counted(self, who: str) -> Generator[None]:
        if self._open[who] >= self._bounds.streams_each or (
            self._open.total() >= self._bounds.streams
        ):
            raise RateLimited("too many streams are open; close some", after_s=5)
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def waited(self, live: Live, look: Look, who: str) -> Answer:
        """The changes that come before the question has waited for long enough."""
        deadline = time.monotonic() + (live.wait or 0)
        with self._counted(who), self._pulse.waiting(live.address) as event:
            while True:
                event.clear()
                changes = await look()
                left = deadline - time.monotonic()
                if changes or left <= 0 or self._stopping:
                    return live.answer(changes)
                if not live.watcher.behind:
                    await _until(event, left)

    async def serve(self, live: Live, look: Look, who: str, receive: Receive, send: Send) -> None:
        """Sends what changes until the client goes, or the process does."""
        with self._counted(who), self._pulse.waiting(live.address) as event:
            gone = asyncio.ensure_future(_gone(receive, event))
            try:
                await self._send(send, live.begin())
                while not gone.done():
                    event.clear()
                    if self._stopping:
                        await self._send(send, live.frame("stop", {}))
                        return
                    changes = await look()
                    if changes:
                        await self._send(send, live.frames(changes))
                    elif not live.watcher.behind and not await _until(event, HEARTBEAT):
                        await self._send(send, live.beat())
            except KeelError as error:
                # The session is gone, or the token is worth nothing any more.
                body = {"code": error.code, "error": error.message}
                await self._send(send, live.frame("end", body))
            finally:
                gone.cancel()

    async def _send(self, send: Send, data: bytes) -> None:
        async with asyncio.timeout(self._bounds.patience_s):
            await send(data)


async def _until(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came before so many seconds had passed."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _gone(receive: Receive, event: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    event.set()
