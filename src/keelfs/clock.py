"""What time it is, for whoever was not given another clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Now:
    """A function that tells nanoseconds since 1970, as a clock."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now

    def now_ns(self) -> int:
        return self._now()


class SystemClock:
    """The machine's clock, which never steps back within one process."""

    def __init__(self) -> None:
        self._last = 0

    def now_ns(self) -> int:
        now = time.time_ns()
        self._last = now if now > self._last else self._last
        return self._last
