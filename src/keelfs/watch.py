"""Following the journal: what has changed since a cursor, and what changes from now on.

A watcher asks the journal for what lies behind its cursor and waits only when nothing does, so it
misses nothing, however slow it is: whatever wakes it is a hint and never a message. `Change.seq` is
a cursor from which another watcher goes on.

Waiting is left to the caller's kind of waiting: threads call `pause`, an event loop sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Protocol

from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.arguments import checked, flag
from keelfs.errors import InvalidArgument
from keelfs.model import END_OF_JOURNAL, Change, ChangeKind, Kind, Page
from keelfs.path import VPath

Names = tuple[str, ...]

#: Without a waiter the journal is asked after this many seconds, then after twice as many, ...
FIRST_PAUSE: Final = 0.01
#: ... up to this many: an idle watcher costs two small reads a second.
LONGEST_PAUSE: Final = 0.5
#: With a waiter it is still asked now and then, in case another process forgot to wake it.
LONGEST_WAIT: Final = 5.0

#: A change of a directory that changes all it holds: it passes every pattern, since what it holds
#: may match.
_SWEEPING: Final = {
    ChangeKind.MOVE, ChangeKind.COPY, ChangeKind.REMOVE, ChangeKind.TRASH, ChangeKind.UNTRASH,
    ChangeKind.ROLLBACK, ChangeKind.FORK, ChangeKind.REPAIR,
}  # fmt: skip


class Waiter(Protocol):
    """Knows when a space may have changed."""

    def wait(self, after_seq: int, timeout: float) -> None:
        """Returns once there may be a change behind `after_seq`, and after `timeout` seconds."""
        ...


class Watcher:
    """A cursor in the journal, and what it lets through."""

    def __init__(
        self, perform: Callable[[ops.Changes], Page[Change]], path: VPath | str,
        after: int | None, recursive: bool, kinds: Collection[ChangeKind] | None,
        matches: Callable[[Names], bool] | None, waiter: Waiter | None,
    ) -> None:  # fmt: skip
        flag("recursive", recursive)
        self._perform, self._path, self._waiter = perform, path, waiter
        self._recursive, self._kinds, self._matches = recursive, _known(kinds), matches
        self._pause = FIRST_PAUSE
        #: Whether the last look found more than the cursor had seen.
        self.behind = True
        if after is None:
            self.cursor = self._end()
        else:
            checked(ops.Changes(path, after))
            self.cursor = after

    def _end(self) -> int:
        page = self._perform(ops.Changes(self._path, END_OF_JOURNAL, 1))
        return int(page.next or 0)

    def poll(self) -> list[Change]:
        """The next changes that pass; none when there are none, or none that pass."""
        page = self._perform(ops.Changes(self._path, self.cursor))
        reached = self.cursor if page.next is None else int(page.next)
        # The cursor of a composed tree may be handed in with a mark that the answer has not.
        self.behind, self.cursor = reached != self.cursor, reached
        if self.behind:
            self._pause = FIRST_PAUSE
        seen = (self._narrowed(change) for change in page.items)
        return [change for change in seen if change is not None and self._passes(change)]

    @property
    def is_woken(self) -> bool:
        """Whether somebody wakes it; otherwise it looks by itself, again and again."""
        return self._waiter is not None

    def next_pause(self) -> float:
        """How long to wait before the next look, if nobody wakes the watcher."""
        if self._waiter is not None:
            return LONGEST_WAIT
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause

    def pause(self, longest: float) -> None:
        """Waits in this thread until another look is worth it."""
        seconds = min(self.next_pause(), longest)
        if self._waiter is None:
            time.sleep(seconds)
        else:
            self._waiter.wait(self.cursor, seconds)

    def follow(self, timeout: float | None) -> Iterator[Change]:
        """Changes as they come; ends when for `timeout` seconds none has passed."""
        idle_since = time.monotonic()
        while True:
            for change in self.poll():
                yield change
                idle_since = time.monotonic()
            if self.behind:
                continue
            left = remaining(timeout, idle_since)
            if left <= 0:
                return
            self.pause(left)

    def _narrowed(self, change: Change) -> Change | None:
        """The change as seen without recursion; ends that lie deeper are outside."""
        if self._recursive or (change.path is None and change.to is None):
            return change
        path, to = _shallow(change.path), _shallow(change.to)
        if path is None and to is None:
            return None
        whole = path == change.path and to == change.to
        return change if whole else with_fields(change, path=path, to=to)

    def _passes(self, change: Change) -> bool:
        if self._kinds is not None and change.kind not in self._kinds:
            return False
        if self._matches is None:
            return True
        if change.kind in _SWEEPING and change.node is Kind.DIRECTORY:
            return True
        return any(end is not None and self._matches(end) for end in (change.path, change.to))


def remaining(timeout: float | None, since: float) -> float:
    """Seconds left of `timeout`; without one, as many as any wait may take."""
    return LONGEST_WAIT if timeout is None else since + timeout - time.monotonic()


def checked_timeout(timeout: Any) -> None:
    """Refuses what cannot be a number of seconds."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and timeout >= 0):
        raise InvalidArgument("timeout is a number of seconds, 0 or more, or None for no end")


def _shallow(end: Names | None) -> Names | None:
    return end if end is not None and len(end) <= 1 else None


def _known(kinds: Collection[ChangeKind] | None) -> frozenset[ChangeKind] | None:
    if kinds is None:
        return None
    try:
        return frozenset(
            ChangeKind(kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)
        )
    except (TypeError, ValueError):
        names = ", ".join(kind.value for kind in ChangeKind)
        raise InvalidArgument(f"kinds is a set of keelfs.ChangeKind: {names}") from None
