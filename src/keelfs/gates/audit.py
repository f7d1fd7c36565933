"""A gate that reports every attempt, refusals included. It never sees or keeps content.

It stands outside of the gates that refuse. What is done with a report is up to whoever composes
the tree; an error of the recorder reaches the caller, so that nothing goes on unrecorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from keelfs.errors import KeelError, UnknownFailure
from keelfs.model import Principal
from keelfs.ops import Op, unwrapped
from keelfs.ports import Clock, Handler

T = TypeVar("T")


class Attempt(Struct, frozen=True, kw_only=True):
    """One operation that was asked for, and how it ended."""

    verb: str
    #: The different verbs inside: of a batch those of its operations, otherwise the verb itself.
    verbs: tuple[str, ...]
    #: As they were asked for, from the root of the tree that is audited.
    paths: tuple[str, ...]
    mutates: bool
    #: "ok", or the code of the error.
    outcome: str
    principal: str
    at_ns: int
    duration_ns: int


class Audit:
    """Calls `record` once for every operation, after it has ended."""

    def __init__(
        self,
        below: Handler,
        record: Callable[[Attempt], None],
        *,
        principal: Principal,
        clock: Clock,
    ) -> None:
        self.below = below
        self.record = record
        self.principal = str(principal)
        self.clock = clock

    def perform(self, op: Op[T], /) -> T:
        at_ns, started = self.clock.now_ns(), time.perf_counter_ns()
        outcome = UnknownFailure.code
        try:
            answer = self.below.perform(op)
            outcome = "ok"
        except KeelError as error:
            outcome = error.code
            raise
        finally:
            self.record(self._attempt(op, outcome, at_ns, time.perf_counter_ns() - started))
        return answer

    def _attempt(self, op: Op[Any], outcome: str, at_ns: int, duration_ns: int) -> Attempt:
        return Attempt(
            verb=op.verb,
            verbs=tuple(dict.fromkeys(each.verb for each in unwrapped(op))),
            paths=tuple(str(path) for path in op.paths()),
            mutates=op.mutates,
            outcome=outcome,
            principal=self.principal,
            at_ns=at_ns,
            duration_ns=duration_ns,
        )
