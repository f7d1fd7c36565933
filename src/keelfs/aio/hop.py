"""From the event loop to a thread, and back.

Work on a store is plain blocking code; here it is handed to a bounded crew of threads, one hop for
each verb. Work that waits for the loop itself (an upload that the loop feeds, a watcher asleep) has
threads of its own, so that it can never keep a verb waiting that it waits for.

Cancelling stops the waiting: work that has not begun is dropped, work that has begun is done.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from keelfs.arguments import Given
from keelfs.errors import StoreClosed

T = TypeVar("T")
P = ParamSpec("P")

#: Threads are made when they are needed; this many uploads and sleeping watchers at once.
PATIENT: Final = 256
#: Blocks of an upload that may wait for the thread that stores them.
DEPTH: Final = 8
#: An iterator's items come over in groups: as many as this, or as this many seconds bring.
GROUP, GROUP_SECONDS = 256, 0.01


class Crew:
    """The threads that do the work of one store, or of several."""

    def __init__(self, workers: int = 16) -> None:
        self._brisk = ThreadPoolExecutor(workers, "keelfs")
        self._patient = ThreadPoolExecutor(PATIENT, "keelfs-patient")

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `call` answers, in one of the threads for verbs."""
        return await _submitted(self._brisk, partial(call, *args, **kwargs))

    async def run_patient(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for work that may wait for the event loop, or for long."""
        return await _submitted(self._patient, partial(call, *args, **kwargs))

    async def carry(self, call: Callable[[Given], T], data: Given | AsyncIterable[bytes]) -> T:
        """What `call` answers, given the data; asynchronous data is fed to it as it arrives.

        If the data breaks off, or the caller is cancelled, `call` is told so by an error out of the
        data, and keeps nothing.
        """
        if not isinstance(data, AsyncIterable):
            return await self.run(call, data)
        feed = Feed(asyncio.get_running_loop())
        filling = asyncio.ensure_future(feed.fill(data))
        try:
            return await self.run_patient(call, feed)
        finally:
            feed.abandon(BrokenOff("the caller stopped waiting before all data had come"))
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)

    async def each(self, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """The items of an iterator that blocks."""
        items = await self.run(begin)
        try:
            while group := await self.run(_group, items):
                for item in group:
                    yield item
        finally:
            # A generator that is still at work in its thread cannot be closed; it ends by itself.
            with suppress(ValueError):
                getattr(items, "close", lambda: None)()

    def close(self) -> None:
        """Takes no more work; what has begun is done."""
        self._brisk.shutdown(wait=False)
        self._patient.shutdown(wait=False)


async def _submitted(executor: Executor, call: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    try:
        waiting = loop.run_in_executor(executor, copy_context().run, call)
    except RuntimeError as error:
        raise StoreClosed from error
    return await waiting


def _group(items: Iterator[T]) -> list[T]:
    group: list[T] = []
    until = time.monotonic() + GROUP_SECONDS
    for item in items:
        group.append(item)
        if len(group) >= GROUP or time.monotonic() >= until:
            break
    return group


class BrokenOff(Exception):
    """Ends, in its thread, the data of a caller who has gone."""


class Feed:
    """A source in a thread, filled from the event loop, which waits when the thread is behind."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._room = asyncio.Semaphore(DEPTH)
        #: None ends it.
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._broken: BaseException | None = None

    async def fill(self, blocks: AsyncIterable[bytes]) -> None:
        """Passes everything on; an error of the blocks becomes the error of the source."""
        try:
            async for block in blocks:
                await self._room.acquire()
                self._arrived.put([block])
            self._arrived.put(None)
        except Exception as error:
            self.abandon(error)

    def abandon(self, error: BaseException) -> None:
        """The source ends with this error at the next block, unless it has ended."""
        self._broken = self._broken or error
        self._arrived.put(None)

    def blocks(self) -> Iterator[bytes]:
        while True:
            arrived = self._arrived.get()
            if self._broken is not None:
                raise self._broken
            if arrived is None:
                return
            self._loop.call_soon_threadsafe(self._room.release)
            yield arrived[0]
