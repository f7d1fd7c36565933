"""A gate that asks somebody else's rule about each verb. What the rule is, it does not know.

The rule sees paths as they are written: it decides about verbs. Where a principal may go is a
matter of what is mounted for it, because a link can make any path lead elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from keelfs.ops import Op, unwrapped
from keelfs.ports import Handler

T = TypeVar("T")

#: Raises one of the `Refused` errors to say no.
Decide = Callable[[Op[Any]], None]


class Policy:
    """Performs what `decide` lets pass, also when it is wrapped or part of a batch."""

    def __init__(self, below: Handler, decide: Decide) -> None:
        self.below = below
        self.decide = decide

    def perform(self, op: Op[T], /) -> T:
        for each in unwrapped(op):
            self.decide(each)
        return self.below.perform(op)
