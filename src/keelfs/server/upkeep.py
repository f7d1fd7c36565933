"""What a serving process does besides serving: it sweeps the store, now and then, in short steps.

Several processes may do it at once on one store: steps are short transactions, and each finds
nothing to do where another has been.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from typing import Final

import msgspec

from keelfs.aio import Crew
from keelfs.assembly import Store
from keelfs.model import Swept
from keelfs.server.metrics import Metrics

#: Seconds between two sweeps, and transactions that one of them may take before it pauses.
EVERY_S: Final = 60.0
STEPS: Final = 50
#: Seconds between the parts of a sweep that has more to do.
BREATH_S: Final = 0.2

_log = logging.getLogger("keelfs.server")


class Upkeep:
    """Sweeps for as long as the process serves."""

    def __init__(self, store: Store, crew: Crew, metrics: Metrics, every_s: float) -> None:
        self._store, self._crew, self._metrics, self._every_s = store, crew, metrics, every_s
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._every_s:
            self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """The step that is under way is done; no other begins."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            # Processes that were started together do not sweep together.
            await asyncio.sleep(self._every_s * random.uniform(0.5, 1.0))
            try:
                await self._sweep()
            except Exception:
                _log.exception("the sweep failed; it is tried again later")

    async def _sweep(self) -> None:
        more = True
        while more:
            swept = await self._crew.run_patient(self._store.sweep, STEPS)
            self._count(swept)
            more = swept.more
            await asyncio.sleep(BREATH_S)
        self._metrics.sweep_at.set(time.time())

    def _count(self, swept: Swept) -> None:
        for kind, number in msgspec.structs.asdict(swept).items():
            if kind != "more":
                self._metrics.swept.labels(kind).inc(number)
