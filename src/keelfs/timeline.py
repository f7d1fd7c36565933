"""The verbs about time: what a tree was, what became of it, and the way back.

They need a volume that keeps history; others answer `Unsupported`. Who calls: everybody, as verbs
of a workspace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from keelfs import ops
from keelfs.arguments import natural, text
from keelfs.door import Door, Place, spelling
from keelfs.errors import InvalidArgument
from keelfs.model import (
    ANY,
    Change,
    ChangeKind,
    Expect,
    Page,
    Revision,
    Snapshot,
    Stat,
    Trashed,
)
from keelfs.path import ROOT, VPath
from keelfs.ports import Handler
from keelfs.watch import Waiter, Watcher, checked_timeout


class Timeline(Door):
    """A door that also knows who wakes its watchers."""

    def __init__(self, handler: Handler, *, wait: Waiter | None = None) -> None:
        super().__init__(handler)
        self._wait = wait

    def history(self, path: Place, before: int | None = None, limit: int = 1000) -> list[Revision]:
        """Kept revisions of a file, newest first, the current one included."""
        kept = self.perform(ops.History(path, before, limit))
        return list(kept)

    def restore(
        self, path: Place, revision: int, expect: Expect = ANY, *, key: str | None = None
    ) -> Stat:
        """Makes a kept revision the newest one."""
        return self.perform(ops.Restore(path, revision, expect), key=key)

    def trash(self, path: Place, expect: Expect = ANY, *, key: str | None = None) -> Trashed:
        """Takes an entry out of the tree; `untrash` with the id brings it back."""
        return self.perform(ops.Trash(path, expect), key=key)

    def trashed(self, after: str | None = None, limit: int = 1000) -> Page[Trashed]:
        """One page of what lies in the trash, oldest first."""
        return self.perform(ops.ListTrash(after, limit))

    def untrash(
        self, trash_id: str, to: Place | None = None, parents: bool = True, *,
        key: str | None = None,
    ) -> Stat:  # fmt: skip
        """Puts a trashed thing back where it was, or at `to`."""
        return self.perform(ops.Untrash(trash_id, to, parents), key=key)

    def purge(self, trash_id: str, *, key: str | None = None) -> None:
        """Removes one trashed thing for good."""
        self.perform(ops.Purge(trash_id), key=key)

    def snapshot(self, name: str, *, key: str | None = None) -> Snapshot:
        """Keeps the present tree under a name; it costs rows, not bytes."""
        return self.perform(ops.TakeSnapshot(name), key=key)

    def snapshots(self) -> list[Snapshot]:
        """By time, oldest first."""
        kept = self.perform(ops.ListSnapshots())
        return list(kept)

    def drop_snapshot(self, name: str, *, key: str | None = None) -> None:
        """Forgets a snapshot."""
        self.perform(ops.DropSnapshot(name), key=key)

    def rollback(self, name: str, *, key: str | None = None) -> Snapshot:
        """Makes the tree what the snapshot holds; the answer keeps what was there before."""
        return self.perform(ops.Rollback(name), key=key)

    def undo(self, seq: int, *, key: str | None = None) -> Sequence[int]:
        """Reverses one change of the journal by new changes, whose seqs it answers."""
        return self.perform(ops.Undo(seq), key=key)

    def changes(self, path: Place = ROOT, after: int = 0, limit: int = 1000) -> Page[Change]:
        """One page of the journal; `next` is the cursor to go on from, at the end too."""
        return self.perform(ops.Changes(path, after, limit))

    def watch(
        self, path: Place = ROOT, after: int | None = None, recursive: bool = True,
        kinds: Collection[ChangeKind] | None = None, pattern: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[Change]:  # fmt: skip
        """Changes as they come, from now on or behind a cursor; it misses none.

        "Now" is the moment of the call. `after=change.seq` goes on where another watcher stopped.
        `recursive=False` tells of the path itself and its direct children. `pattern` is a glob over
        the paths below `path`; a directory that moves, with all it holds, passes every pattern.
        It ends when for `timeout` seconds nothing has passed; 0 takes what is there.
        """
        checked_timeout(timeout)
        return self.watcher(path, after, recursive, kinds, pattern).follow(timeout)

    def watcher(
        self, path: Place = ROOT, after: int | None = None, recursive: bool = True,
        kinds: Collection[ChangeKind] | None = None, pattern: str | None = None,
    ) -> Watcher:  # fmt: skip
        """What `watch` iterates over, for callers that wait in their own way."""
        matches = None
        if pattern is not None:
            from keelfs.glob import GlobPattern

            text("pattern", pattern)
            matches = GlobPattern(pattern).matches
        return Watcher(self.perform, path, after, recursive, kinds, matches, self._wait)

    def diff(
        self, path: Place, from_revision: int | None = None, to_revision: int | None = None,
        *, other: Place | None = None, context: int = 3,
    ) -> str:  # fmt: skip
        """A unified diff between two revisions of a text, or between it and another file.

        A revision left out is the current one.
        """
        from keelfs.textdiff import MAX_BYTES, unified

        def compared(_: VPath) -> str:
            if other is None and from_revision is None:
                raise InvalidArgument("say what to compare: from_revision=, or other= for a file")
            natural("context", context)
            target = path if other is None else other
            sides = self.pin(path, from_revision), self.pin(target, to_revision)
            # One byte too many is enough to be refused by size; no more is read.
            texts = [side.read(0, MAX_BYTES + 1) for side in sides]
            names = [
                f"{shown} (revision {side.stat.revision})"
                for shown, side in zip((path, target), sides, strict=True)
            ]
            return unified(texts[0], texts[1], names[0], names[1], context)

        return spelling(path, compared)
