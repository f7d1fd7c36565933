"""A gate that starts nothing after a given time. What has started is not interrupted."""

from __future__ import annotations

from typing import TypeVar

from keelfs.errors import DeadlineExceeded
from keelfs.ops import Op
from keelfs.ports import Clock, Handler

T = TypeVar("T")


class Deadline:
    """Refuses every operation from `at_ns` on."""

    def __init__(self, below: Handler, clock: Clock, at_ns: int) -> None:
        self.below = below
        self.clock = clock
        self.at_ns = at_ns

    def perform(self, op: Op[T], /) -> T:
        if self.clock.now_ns() >= self.at_ns:
            raise DeadlineExceeded("the deadline of the call has passed; nothing was done")
        return self.below.perform(op)
