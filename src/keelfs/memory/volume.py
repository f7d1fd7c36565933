"""The top floor of the memory volume: the journal read and undone, the ledger, kept answers."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from keelfs.errors import (
    Conflict,
    CursorExpired,
    InvalidArgument,
    Missing,
    NotFound,
    NotUndoable,
    Taken,
    WrongKind,
)
from keelfs.memory.records import Node
from keelfs.memory.snapshots import Snapshots
from keelfs.memory.tree import check_page
from keelfs.model import ANY, UNLIMITED, Attrs, Change, ChangeKind, Page, Usage
from keelfs.path import VPath


class MemoryVolume(Snapshots):
    """Every verb of a volume, over dictionaries, during one transaction."""

    def rooted(self, base: VPath) -> MemoryVolume:
        if base.is_root:
            return self
        return MemoryVolume(self._state, self._turn, self._base + base.parts)

    def changes(self, path: VPath, after: int, limit: int) -> Page[Change]:
        check_page(limit)
        if after < 0:
            raise InvalidArgument("a cursor cannot be negative")
        totals = self._state.totals
        if after < totals["first_seq"]:
            raise CursorExpired
        base = self._base + path.parts
        seen: list[Change] = []
        for seq in range(after + 1, totals["seq"] + 1):
            change = as_seen_from(base, self._state.journal[seq])
            if change is not None:
                seen.append(change)
            if len(seen) == limit:
                return Page(seen, str(seq))
        return Page(seen, str(totals["seq"]))

    def usage(self, path: VPath) -> Usage:
        _, node = self.existing(path, follow=True)
        totals, limits = self._state.totals, self._turn.limits
        if node.id == self._state.root:
            counted = {name: totals[name] for name in Usage.__struct_fields__ if name in totals}
            return Usage(**counted, limits=limits)
        size, nodes = self._state.weight(node.id)
        return Usage(bytes=size, nodes=nodes - 1, limits=limits if path.is_root else UNLIMITED)

    def touched(self) -> Sequence[tuple[str, ...]]:
        base = VPath(self._base)
        paths = [
            VPath(path)
            for node in self._turn.touched
            if node in self._state.names
            for path in self._state.paths(node)
        ]
        return sorted(path.below(base).parts for path in paths if path.is_within(base))

    def recall(self, key: str, fingerprint: bytes) -> bytes | None:
        kept = self._state.requests.get((self._base, key))
        if kept is None:
            return None
        if kept[0] != fingerprint:
            raise Conflict("another request used this key; use a new key for a new request")
        return kept[1]

    def remember(self, key: str, fingerprint: bytes, answer: bytes) -> None:
        self._state.put(self._state.requests, (self._base, key), (fingerprint, answer))

    def undo(self, seq: int) -> Sequence[int]:
        self.whole()
        change = self._state.journal.get(seq)
        if change is None:
            raise NotFound("no change of this number is in the journal")
        reverse = self._reversals().get(change.kind)
        if reverse is None:
            raise NotUndoable(_ADVICE[change.kind])
        before = self._state.totals["seq"]
        try:
            reverse(change)
        except (Missing, Taken, WrongKind, Conflict) as error:
            raise NotUndoable(f"what the change made is no longer as it was: {error}") from error
        return range(before + 1, self._state.totals["seq"] + 1)

    def _reversals(self) -> dict[ChangeKind, Callable[[Change], object]]:
        return {
            ChangeKind.CREATE: lambda change: self._trash_again(change, change.path),
            ChangeKind.UNTRASH: lambda change: self._trash_again(change, change.path),
            ChangeKind.COPY: lambda change: self._trash_again(change, change.to),
            ChangeKind.LINK: lambda change: self._trash_again(change, change.to),
            ChangeKind.WRITE: self._unwrite,
            ChangeKind.ATTRS: self._reset,
            ChangeKind.MOVE: self._move_back,
            ChangeKind.TRASH: lambda change: self.untrash(str(change.detail), None, True),
            ChangeKind.ROLLBACK: lambda change: self.rollback(f"before-rollback-{change.seq - 1}"),
        }

    def _entry(self, change: Change, path: tuple[str, ...] | None) -> tuple[VPath, Node]:
        """What a change made, if it is still where the change put it."""
        node = self._state.at(path or ())
        if node.kind is not change.node:
            raise NotFound
        return VPath(path or ()), node

    def _trash_again(self, change: Change, path: tuple[str, ...] | None) -> None:
        self.trash(self._entry(change, path)[0], ANY)

    def _unwrite(self, change: Change) -> None:
        path, node = self._entry(change, change.path)
        if node.revision != change.revision:
            raise NotUndoable("the file was written since; restore a revision of it instead")
        self.restore(path, change.revision - 1, ANY)

    def _reset(self, change: Change) -> None:
        path, _ = self._entry(change, change.path)
        self.set_attrs(path, former_attrs(str(change.detail)), follow=False, expect=ANY)

    def _move_back(self, change: Change) -> None:
        path, _ = self._entry(change, change.to)
        self.move(path, VPath(change.path or ()), replace=False, parents=True, expect=ANY)


def as_seen_from(base: tuple[str, ...], change: Change) -> Change | None:
    """A change with paths as seen from `base`; None if it touches nothing there."""

    def inside(path: tuple[str, ...] | None) -> tuple[str, ...] | None:
        within = path is not None and path[: len(base)] == base
        return path[len(base) :] if path is not None and within else None

    path, to = inside(change.path), inside(change.to)
    if path is None and to is None:
        return None
    return replace(change, path=path, to=to)


def former_attrs(detail: str) -> Attrs:
    """The attributes that an ATTRS change replaced, ready to be set again."""
    former: dict[str, Any] = json.loads(detail)
    if "mime" in former:
        former["mime"] = former["mime"] or ""
    if "xattrs" in former:
        former["xattrs"] = {
            name: None if value is None else b64decode(value)
            for name, value in former["xattrs"].items()
        }
    return Attrs(**former)


_ADVICE = {
    ChangeKind.REMOVE: "what was removed is gone for good; roll back to a snapshot that holds it",
    ChangeKind.SNAPSHOT: "a snapshot changed nothing in the tree; drop it if it is not needed",
    ChangeKind.FORK: "the space began with this change; remove the space instead",
}
