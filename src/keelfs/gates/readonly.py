"""A gate that lets nothing be changed. Whoever composes a tree puts it before what must stay."""

from __future__ import annotations

from typing import TypeVar

from keelfs.errors import ReadOnly
from keelfs.ops import Checksum, Op, Within
from keelfs.ports import Handler

T = TypeVar("T")


class ReadOnlyGate:
    """Refuses every operation that may change something."""

    def __init__(self, below: Handler) -> None:
        self.below = below

    def perform(self, op: Op[T], /) -> T:
        if op.mutates and not _only_computes(op):
            raise ReadOnly("this tree is read-only")
        return self.below.perform(op)


def _only_computes(op: Op[T]) -> bool:
    """A checksum is kept once it is computed, but nobody can see a difference."""
    while isinstance(op, Within):
        op = op.op
    return isinstance(op, Checksum)
