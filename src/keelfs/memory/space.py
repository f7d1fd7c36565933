"""A space in memory: one lock, and transactions that leave nothing behind when they fail.

Who calls: assembly for stores that live in memory, tests for a model to compare with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from keelfs.errors import InvalidArgument, NotFound, TooLarge
from keelfs.ident import uuid7
from keelfs.memory.records import Node
from keelfs.memory.snapshots import sprout
from keelfs.memory.state import State
from keelfs.memory.tree import DIRECTORY_MODE, MAX_FILE_BYTES, Turn
from keelfs.memory.volume import MemoryVolume
from keelfs.model import ChangeKind, Data, Kind, Limits, Principal, Stat, Swept
from keelfs.ops import Op, unwrapped
from keelfs.path import VPath
from keelfs.ports import Clock

T = TypeVar("T")


class _SystemClock:
    def now_ns(self) -> int:
        return time.time_ns()


class MemorySpace:
    """One isolated tree in dictionaries; performs operations for one principal."""

    def __init__(
        self, principal: Principal | None = None, limits: Limits | None = None,
        clock: Clock | None = None, ids: Callable[[int], bytes] = uuid7,
    ) -> None:  # fmt: skip
        self._principal = principal or Principal()
        self._clock = clock or _SystemClock()
        self._ids = ids
        self._limits = [limits or Limits()]
        self._lock = threading.RLock()
        self._busy = [False]
        self._state = State(_root(self._clock.now_ns(), ids))

    @property
    def limits(self) -> Limits:
        """What may not be passed; setting them removes nothing that is there already."""
        return self._limits[0]

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits[0] = limits

    def acting_as(self, principal: Principal) -> MemorySpace:
        """The same space for another principal."""
        other = object.__new__(MemorySpace)
        other.__dict__.update(self.__dict__, _principal=principal)
        return other

    def perform(self, op: Op[T], /) -> T:
        """The operation's answer, wholly done, or an error and nothing done."""
        # Data is taken in before the lock is held: a slow stream holds up nobody, and a stream
        # that reads this very space finds it free.
        with self.readied(op) as ready:
            return self._transaction(ready.run)

    @contextmanager
    def readied(self, op: Op[T], /) -> Generator[Op[T]]:
        """The operation with its data taken in."""
        limit, operations = self.limits.batch_operations, _size(op)
        if limit is not None and operations > limit:
            raise TooLarge(
                f"a batch may have {limit} operations, this one has {operations}",
                limit="space.batch_operations", size=limit, used=operations,
            )  # fmt: skip
        yield op.staged(self._taken_in)

    @property
    def store(self) -> object:
        """All spaces in the memory of one process can be in one transaction."""
        return MemorySpace

    def together(
        self, others: Sequence[MemorySpace], work: Callable[[Sequence[MemoryVolume]], T], /
    ) -> T:
        """Runs work on several spaces, which are locked in one order and rewound together."""
        asked = [self, *others]
        opened: dict[int, MemoryVolume] = {}
        with ExitStack() as stack:
            for space in sorted(asked, key=lambda space: id(space._lock)):
                if id(space._lock) not in opened:
                    opened[id(space._lock)] = stack.enter_context(space._opened())
            return work([opened[id(space._lock)] for space in asked])

    def _transaction(self, work: Callable[[MemoryVolume], T]) -> T:
        with self._opened() as volume:
            return work(volume)

    @contextmanager
    def _opened(self) -> Generator[MemoryVolume]:
        with self._lock:
            if self._busy[0]:
                raise InvalidArgument("a judge cannot perform operations; use what it was given")
            self._busy[0] = True
            try:
                yield MemoryVolume(self._state, self._turn())
            except BaseException:
                self._state.rewind()
                raise
            else:
                self._state.settle()
            finally:
                self._busy[0] = False

    def _turn(self) -> Turn:
        batch = self._state.totals["seq"] + 1
        return Turn(self._principal, self.limits, self._clock.now_ns(), batch, self._ids)

    def _taken_in(self, data: Data) -> bytes:
        """All bytes of what a write carries, given up as soon as they cannot fit."""
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        if not callable(getattr(cast(object, data), "blocks", None)):
            raise InvalidArgument("data is bytes, text, or something with blocks()")
        taken = bytearray()
        for block in data.blocks():
            taken += block
            self._check_stream(len(taken))
        return bytes(taken)

    def _check_stream(self, size: int) -> None:
        with self._lock:
            volume = MemoryVolume(self._state, self._turn())
            volume.check_size("file_bytes", size, "the bytes of one file")
            room, used = self.limits.bytes, volume.charged()["bytes"]
        if size > MAX_FILE_BYTES:
            raise TooLarge(
                f"a file in memory may have {MAX_FILE_BYTES} bytes",
                limit="space.file_bytes", size=MAX_FILE_BYTES, used=size,
            )  # fmt: skip
        # Only what is larger than the whole space, and than all that is in it, is sure to grow it
        # beyond its limit; everything else is judged when it is known what it replaces.
        if room is not None and size > max(room, used):
            volume.check_file_size(size, former=used)

    def fork(self, at: str | None = None) -> MemorySpace:
        """A new space that begins with this tree, or with what a snapshot holds.

        Nodes keep their revisions; ids are new; history, trash and snapshots stay here.
        """
        with self._lock:
            if at is not None and at not in self._state.snapshots:
                raise NotFound("there is no snapshot of this name")
            tree = self._state.freeze() if at is None else self._state.snapshots[at].tree
            other = MemorySpace(self._principal, self.limits, self._clock, self._ids)
            turn = other._turn()
            MemoryVolume(other._state, turn).check_size(
                "transaction_nodes", len(tree.nodes) - 1, "the nodes of one fork"
            )
            other._state = sprout(tree, lambda: self._ids(turn.now))
        MemoryVolume(other._state, turn).record(ChangeKind.FORK, (), detail=at)
        other._state.settle()
        return other

    def tree(self) -> dict[str, Stat]:
        """Every path and its stat, parents first; for comparing, not for walking large trees."""
        with self._lock:
            volume = MemoryVolume(self._state, self._turn())
            found = sorted(path for path, _ in self._state.walk(self._state.root))
            return {str(VPath(path)): volume.stat(VPath(path), follow=False) for path in found}

    def recount(self) -> dict[str, int]:
        """The counters of the ledger, counted anew from what there is."""
        with self._lock:
            state = self._state
            trash = [state.weight(node) for node in state.children[b"trash"].values()]
            tree = state.weight(state.root)
            history = [len(kept.data) for each in state.history.values() for kept in each]
            albums = [album.snapshot.bytes for album in state.snapshots.values()]
        return {
            "bytes": tree[0], "nodes": tree[1] - 1,
            "trash_bytes": sum(size for size, _ in trash),
            "trash_nodes": sum(nodes for _, nodes in trash),
            "history_bytes": sum(history), "snapshot_bytes": sum(albums),
        }  # fmt: skip

    def sweep(self) -> Swept:
        """Forgets what has expired: trash, revisions that are too old, the journal's beginning."""
        return self._transaction(
            lambda volume: Swept(
                expired_trash=volume.sweep_trash(),
                expired_revisions=_sweep_history(self._state, self._cut("history_age_s")),
                expired_changes=_sweep_journal(self._state, self._cut("journal_age_s")),
            )
        )

    def _cut(self, age: str) -> int | None:
        seconds: int | None = getattr(self.limits, age)
        return None if seconds is None else self._clock.now_ns() - seconds * 10**9


def _root(now: int, ids: Callable[[int], bytes]) -> Node:
    node = Node(id=ids(now), kind=Kind.DIRECTORY, mode=DIRECTORY_MODE)
    return replace(node, atime_ns=now, mtime_ns=now, ctime_ns=now, created_ns=now)


def _size(op: Op[Any]) -> int:
    return sum(1 for _ in unwrapped(op))


def _sweep_history(state: State, before: int | None) -> int:
    """Forgets contents whose successors have been there since before that time."""
    if before is None:
        return 0
    dropped = 0
    for node, kept in list(state.history.items()):
        until = [*(each.at_ns for each in kept[1:]), state.nodes[node].written_ns]
        old = max((at for at, when in enumerate(until, 1) if when <= before), default=0)
        state.set_history(node, kept[old:])
        dropped += old
    return dropped


def _sweep_journal(state: State, before: int | None) -> int:
    old = [seq for seq, change in state.journal.items() if before and change.at_ns <= before]
    for seq in old:
        state.drop(state.journal, seq)
    if old:
        state.put(state.totals, "first_seq", max(old))
    return len(old)
