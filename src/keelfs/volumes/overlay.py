"""Copy-on-write over another volume: reads fall through, writes stay above.

`Overlay(lower, upper)` never changes `lower`. `upper` is a space, in memory or of a store, or a
sub-tree of one: the overlay is as lasting as it is, and has no state besides. Each operation runs
inside one transaction of the upper space, batches, judges and kept requests included, so it is
done wholly or not at all.

What is good to know:

* A file of the lower tree is brought up whole before the first change of its bytes or attributes;
  a directory is brought up with all it holds, page by page, before it is moved.
* Identity and revisions go on from what `stat` told of the lower node, so an expectation taken
  before the bringing up holds after it. What other programs change below while a file is not
  brought up changes its revision as the lower volume tells it.
* Files below that are larger than `max_file_read_bytes` are listed but not read (`TooLarge`). One
  file of this size may be held in memory while it is brought up. What may be kept is limited by
  the upper space.
* Whiteouts of one directory share the room of its extended attributes in the upper space.
* `usage` is a recount of the merged tree. There is no history, trash, snapshot or journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from keelfs import ops
from keelfs.errors import Unsupported
from keelfs.path import VPath
from keelfs.ports import Handler, Volume
from keelfs.volumes.merge import Merge
from keelfs.volumes.overlayvolume import OverlayVolume

T = TypeVar("T")

MAX_FILE_READ_BYTES: Final = 10 * 2**20


class Overlay:
    """Performs operations on a lower tree that is not to be changed."""

    def __init__(
        self, lower: Handler, upper: Handler, *,
        max_file_read_bytes: int | None = MAX_FILE_READ_BYTES,
    ) -> None:  # fmt: skip
        self._lower, self._upper, self._cap = lower, upper, max_file_read_bytes

    def perform(self, op: ops.Op[T], /) -> T:
        """The operation's answer, wholly done, or an error and nothing done."""
        return self._upper.perform(_Layered(op, self._lower, self._cap))


class _Layered(ops.Wrapped[T], Generic[T], frozen=True):
    """An operation on the merged tree, as the upper handler sees it."""

    lower: Handler
    cap: int | None

    @property
    def mutates(self) -> bool:  # type: ignore[override]  # pyright: ignore
        return self.op.mutates

    def rerooted(self, change: Callable[[VPath], VPath]) -> _Layered[T]:  # noqa: ARG002
        raise Unsupported("the upper tree of an overlay is a space, or a sub-tree of one")

    def seen_from(self, mount: VPath) -> _Layered[T]:
        return self if mount.is_root else self.rerooted(mount.join)

    def run(self, volume: Volume) -> T:
        return self.op.run(OverlayVolume(Merge(self.lower, volume, self.cap), volume))
