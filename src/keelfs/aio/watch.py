"""Watching from the event loop: no thread sleeps for a watcher that nobody wakes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from keelfs.aio.hop import Crew
from keelfs.model import Change
from keelfs.watch import Watcher, remaining

T = TypeVar("T")

#: How long a watcher may hold a thread: what is cancelled gives it back after that.
LONGEST_HOLD: Final = 1.0


class Watch:
    """Changes as they come: `async for change in workspace.watch()`.

    It begins with its first step, or when it is awaited: after `watch = await workspace.watch()`
    nothing is missed that happens from then on. A step that is cancelled loses nothing either: what
    it would have brought, the next step brings.
    """

    def __init__(self, crew: Crew, begin: Callable[[], Watcher], timeout: float | None) -> None:
        self._crew, self._begin, self._timeout = crew, begin, timeout
        self._watcher: Watcher | None = None
        self._found: deque[Change] = deque()
        self._under_way: asyncio.Future[Any] | None = None

    def __await__(self) -> Generator[Any, None, Watch]:
        return self._begun().__await__()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        watcher = (await self._begun())._watcher
        assert watcher is not None
        idle_since = time.monotonic()
        while not self._found:
            self._found.extend(await self._kept(watcher.poll))
            if self._found or watcher.behind:
                continue
            left = remaining(self._timeout, idle_since)
            if left <= 0:
                raise StopAsyncIteration
            await self._pause(watcher, left)
        return self._found.popleft()

    async def _begun(self) -> Watch:
        if self._watcher is None:
            self._watcher = await self._kept(self._begin)
        return self

    async def _kept(self, call: Callable[[], T]) -> T:
        """What `call` answers; if this wait is cancelled, the next one gets the same answer.

        A watcher's cursor moves when it looks, so what it saw must not be dropped.
        """
        under_way = self._under_way or asyncio.ensure_future(self._crew.run(call))
        self._under_way = under_way
        # Waiting for a future in a set leaves it alone when the wait is cancelled.
        await asyncio.wait({under_way})
        self._under_way = None
        answer: T = under_way.result()
        return answer

    async def _pause(self, watcher: Watcher, left: float) -> None:
        if watcher.is_woken:
            await self._crew.run_patient(watcher.pause, min(left, LONGEST_HOLD))
        else:
            await asyncio.sleep(min(watcher.next_pause(), left))
