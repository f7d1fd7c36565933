"""Protocols only: what answers, what performs, what tells the time.

The sentences under each verb of `Volume` are its specification; the conformance suite proves them
for every volume. Implementations have no default bodies to fall back on, so a new verb breaks each
of them until someone has thought about it.

What holds for every verb:

* Links in the middle of a path are followed, inside the volume, absolute targets from its root, at
  most 40 of them (`LinkLoop`). A missing component raises `NotFound`, one that is not a directory
  `NotADirectory`.
* A refused operation leaves nothing behind.
* The root cannot be removed, replaced, moved or trashed (`Busy`).
* A `readonly` file refuses every change of its bytes (`ReadOnly`), also by copy or move onto it and
  by restore; it may be removed, moved, and made writable again.
* `expect` is judged on the node that the verb changes; a miss raises `Conflict`.
* `parents=True` makes missing directories, mode 0755, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

from keelfs.model import (
    Attrs,
    Change,
    Content,
    Data,
    Entry,
    Expect,
    Kind,
    Page,
    Revision,
    Snapshot,
    Stat,
    Trashed,
    Usage,
)
from keelfs.path import VPath

if TYPE_CHECKING:
    from keelfs.ops import Op

T = TypeVar("T")


class Clock(Protocol):
    """Tells the time; injected, so that tests decide what time it is."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        ...


class Handler(Protocol):
    """Performs operations: a store's space, a gate before it, a composed tree."""

    def perform(self, op: Op[T], /) -> T:
        """The operation's answer, wholly done, or an error and nothing done."""
        ...


class Joinable(Handler, Protocol):
    """A handler that can do its part of an operation in one transaction with others."""

    @property
    def store(self) -> object:
        """Equal for handlers that can be in one transaction."""
        ...

    def readied(self, op: Op[T], /) -> AbstractContextManager[Op[T]]:
        """The operation with its data made ready outside of any transaction; what was made ready
        is dropped if the block fails.
        """
        ...

    def together(self, others: Sequence[Joinable], work: Callable[[Sequence[Volume]], T], /) -> T:
        """Runs `work` on the volumes of this handler and of others of the same store, in one
        transaction; it may be run again from the start.
        """
        ...


class Volume(Protocol):
    """Answers operations, inside whatever transaction its handler opened."""

    def stat(self, path: VPath, follow: bool) -> Stat:
        """The node at `path`; with `follow`, a link at its end is followed.

        A link's size is the length of its target in bytes. Special kinds have size 0.
        A directory's size is 0 and its nlink 1.
        """
        ...

    def list(self, path: VPath, after: str | None, limit: int) -> Page[Entry]:
        """Entries of a directory whose names sort after `after`, by UTF-8 bytes.

        A link at the end is followed; entries are not. `after` need not exist. `limit` lies
        between 1 and 10,000. `next` is the last name of the page, None when nothing follows.
        """
        ...

    def read(self, path: VPath, offset: int, length: int | None, revision: int | None) -> bytes:
        """Bytes of a file, all from one revision; fewer than `length` only at the end.

        Follows a link at the end. `IsADirectory`, `NotAFile` for other kinds, `RevisionNotFound`
        for a revision that is not kept, `TooLarge` beyond `Limits.read_bytes`, `InvalidArgument`
        for a negative offset or length. An offset past the end reads as empty.
        """
        ...

    def open(self, path: VPath, revision: int | None) -> Content:
        """The content of a file, pinned; the same errors as `read`."""
        ...

    def readlink(self, path: VPath) -> str:
        """A link's target as it was written; `NotALink` for other kinds."""
        ...

    def write(
        self, path: VPath, data: Data, expect: Expect, parents: bool, mode: int | None,
        mime: str | None,
    ) -> Stat:  # fmt: skip
        """Makes the file, or replaces its bytes: one revision more, the old one in its history.

        Follows a link at the end (`DanglingLink` if it leads nowhere). `IsADirectory`, `NotAFile`
        for other kinds. `expect=ABSENT` raises `Conflict` when anything is there. `mode` (default
        0644) counts only for a new file; `mime=None` keeps the present one.
        """
        ...

    def append(self, path: VPath, data: Data, expect: Expect, parents: bool) -> Stat:
        """Adds bytes at the end; makes the file if it is missing. Otherwise as `write`.

        Adding nothing to an existing file changes nothing, its revision neither.
        """
        ...

    def patch(self, path: VPath, offset: int, data: Data, expect: Expect) -> Stat:
        """Replaces bytes from `offset` on, growing the file if need be; a gap reads as zeros.

        The file must exist. An empty patch changes nothing.
        """
        ...

    def truncate(self, path: VPath, size: int, expect: Expect) -> Stat:
        """Cuts the file, or grows it by zeros. The size it has already changes nothing."""
        ...

    def mkdir(self, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
        """Makes a directory. `AlreadyExists`, unless `exist_ok` and it is a directory (or a link
        to one); the root always exists.
        """
        ...

    def mknod(self, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
        """Makes an entry of a special kind (`InvalidArgument` for the other kinds)."""
        ...

    def symlink(self, target: str, path: VPath, parents: bool) -> Stat:
        """Makes a link; the target is kept as written, 1 to 4,095 bytes, and need not exist."""
        ...

    def link(self, path: VPath, to: VPath, parents: bool) -> Stat:
        """Gives the node at `path` (a link at its end is not followed) a second name.

        `IsADirectory` for directories. `AlreadyExists` if `to` is taken.
        """
        ...

    def remove(self, path: VPath, recursive: bool, expect: Expect) -> None:
        """Removes the entry for good (a link itself, not its target). `NotEmpty` for a directory
        that holds something, unless `recursive`.
        """
        ...

    def move(self, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
        """Renames; links at either end are not followed. The stat is the moved node's.

        Onto itself, or onto another name of the same node: nothing changes. Into itself:
        `InvalidArgument`. A taken place: `AlreadyExists`, unless `replace`; then a file replaces a
        file (any kind that is not a directory), a directory an empty directory (`NotEmpty`);
        `IsADirectory`, `NotADirectory` where the kinds differ. `expect` is judged on the source.
        """
        ...

    def copy(
        self, path: VPath, to: VPath, replace: bool, recursive: bool, parents: bool, expect: Expect
    ) -> Stat:
        """Copies without copying bytes. Follows a link at the end of `path`, not of `to`.

        The copy keeps mode, mime, readonly, xattrs and owner; its times are new. A directory needs
        `recursive` (`IsADirectory`), its links are copied as links. A taken place as for `move`,
        but a file copied onto a file becomes its next revision. Onto itself: nothing changes. A
        directory into itself: `InvalidArgument`. `expect` is judged on what is at `to`.
        """
        ...

    def receive(self, source: Volume, path: VPath, to: VPath, replace: bool, parents: bool) -> Stat:
        """Makes at `to` what another volume of the same transaction holds at `path`.

        Links at either end are not followed. A taken place as for `move`. The bytes are shared;
        nodes keep revision, times and attributes, get identities of their own and begin their
        history anew. In the journal it is a copy from outside. The source is not changed.
        """
        ...

    def set_attrs(self, path: VPath, attrs: Attrs, follow: bool, expect: Expect) -> Stat:
        """Sets attributes; the revision stays. Modes keep their lower 12 bits."""
        ...

    def checksum(self, path: VPath) -> str:
        """The sha256 of a file in hexadecimal, computed once if it is not known."""
        ...

    def history(self, path: VPath, before: int | None, limit: int) -> Sequence[Revision]:
        """Kept revisions of a file, newest first, the current one included."""
        ...

    def restore(self, path: VPath, revision: int, expect: Expect) -> Stat:
        """Makes a kept revision the newest one. The current one: nothing changes."""
        ...

    def trash(self, path: VPath, expect: Expect) -> Trashed:
        """Takes the entry out of the tree and keeps it until it expires."""
        ...

    def trashed(self, after: str | None, limit: int) -> Page[Trashed]:
        """What lies in the trash, oldest first."""
        ...

    def untrash(self, trash_id: str, to: VPath | None, parents: bool) -> Stat:
        """Puts a trashed thing back where it was, or at `to`. `AlreadyExists` if taken."""
        ...

    def purge(self, trash_id: str) -> None:
        """Removes one trashed thing for good."""
        ...

    def snapshot(self, name: str) -> Snapshot:
        """Keeps the present tree under a name (1 to 255 bytes); `AlreadyExists`."""
        ...

    def snapshots(self) -> Sequence[Snapshot]:
        """By time, oldest first."""
        ...

    def drop_snapshot(self, name: str) -> None:
        """Forgets a snapshot."""
        ...

    def rollback(self, name: str) -> Snapshot:
        """Makes the tree what the snapshot holds. What was there is kept as a snapshot first,
        which is the answer. Files present in both keep their identity and history.
        """
        ...

    def undo(self, seq: int) -> Sequence[int]:
        """Reverses one change of the journal by new changes; their seqs. `NotUndoable`."""
        ...

    def changes(self, path: VPath, after: int, limit: int) -> Page[Change]:
        """Journal entries with `seq > after` that touch `path` or what lies below it.

        `next` is the cursor to go on from: always given, also on an empty page. It never lies
        beyond the end of the journal, whatever `after` is, so that asking after `END_OF_JOURNAL`
        answers where the journal ends.
        """
        ...

    def usage(self, path: VPath) -> Usage:
        """For the root, the whole ledger; for another directory, the bytes and nodes below it;
        for anything else its own bytes.
        """
        ...

    def rooted(self, base: VPath) -> Volume:
        """The same volume, in the same transaction, with the directory `base` as its root.

        Nothing above `base` is reachable: links resolve inside it, absolute targets from it, and
        `..` stops at it. No link in `base` itself is followed: a link there raises
        `NotADirectory`, a missing component `NotFound`. For the root the answer is this volume.

        Every answer is relative to `base`: `changes`, `touched` and `usage` see what lies below it
        (`usage` of the root gives the sums of the directory, with the limits of the space),
        `trashed`, `untrash` and `purge` see only what was taken from below it (a foreign id is
        `NotFound`). Verbs of a whole space (`snapshot`, `snapshots`, `drop_snapshot`, `rollback`,
        `undo`) raise `PermissionDenied`. The keys of `recall` and `remember` are apart for each
        base, so that nobody is given the answer to what was done elsewhere.
        """
        ...

    def touched(self) -> Sequence[tuple[str, ...]]:
        """Canonical paths, all names of hard-linked nodes included, whose bytes or whose place
        changed in this transaction so far. A moved or copied directory stands for what it holds.
        """
        ...

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        """The answer kept under an idempotency key; `Conflict` if another request used the key."""
        ...

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        """Keeps an answer under an idempotency key, in the same transaction."""
        ...
