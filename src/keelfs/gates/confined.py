"""A gate that shows some directories of a tree, at their own places, and refuses everything else.

Each operation is run in one of the directories by the volume itself (`Within`), so that no link
leads out of it. An operation that names several paths needs one directory that holds them all; one
that is about the tree as a whole needs the root. It is refused before anything is looked at, so a
refusal tells nothing about what exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from msgspec.structs import replace as with_fields

from keelfs.errors import PermissionDenied
from keelfs.ops import Batch, Once, Op, Within
from keelfs.path import ROOT, VPath
from keelfs.ports import Handler

T = TypeVar("T")


class Confined:
    """The parts of a tree that lie at or below `bases`."""

    def __init__(self, below: Handler, bases: Iterable[VPath]) -> None:
        self.below = below
        # The shortest first, so that a directory within another one never hides it.
        self.bases = sorted(bases, key=lambda base: len(base.parts))
        #: Whether a short read is worth no thread of its own.
        self.local_reads = bool(getattr(below, "local_reads", False))

    def perform(self, op: Op[T], /) -> T:
        return self.below.perform(self._within(op))

    def _within(self, op: Op[T]) -> Op[T]:
        if isinstance(op, Once):
            return cast(Op[T], with_fields(op, op=self._within(op.op)))
        if isinstance(op, Batch):
            return cast(Op[T], with_fields(op, ops=tuple(self._within(each) for each in op.ops)))
        base = self._base_of(op)
        return op if base.is_root else Within(op.rerooted(lambda path: path.below(base)), base)

    def _base_of(self, op: Op[Any]) -> VPath:
        paths = op.paths() or (ROOT,)
        for base in self.bases:
            if all(path.is_within(base) for path in paths):
                return base
        raise PermissionDenied("this token does not reach here")
