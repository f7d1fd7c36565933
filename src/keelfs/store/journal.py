"""The journal read, and turned back.

Every committed change has one row, numbered without gaps in the order of its space. What lies
below a directory is found by comparing components, page by page; a page looks at a bounded number
of rows and always says where the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

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
from keelfs.model import ANY, Change, ChangeKind, Page
from keelfs.path import VPath
from keelfs.store.attrs import former_attrs
from keelfs.store.database import Row, Statement
from keelfs.store.scope import OUTSIDE, split
from keelfs.store.tree import KINDS, kind_of, resolve

if TYPE_CHECKING:
    from keelfs.store.view import View

#: Rows that one page looks at; a quiet sub-tree of a busy space is read in several pages.
SCANNED: Final = 10_000

_COLUMNS: Final = "seq, batch, kind, path, dest, node, revision, author, at_ns, detail"
AFTER: Final = Statement(
    f"""SELECT {_COLUMNS} FROM changes
         WHERE tenant = ?1 AND space = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4"""
)
CHANGE: Final = Statement(
    f"SELECT {_COLUMNS} FROM changes WHERE tenant = ?1 AND space = ?2 AND seq = ?3"
)
#: The oldest change that is kept, and the newest there ever was.
ENDS: Final = Statement(
    """SELECT (SELECT min(seq) FROM changes WHERE tenant = ?1 AND space = ?2), s.seq
         FROM spaces s WHERE s.tenant = ?1 AND s.id = ?2"""
)

_ADVICE: Final = {
    ChangeKind.REMOVE: "what was removed is gone for good; roll back to a snapshot that holds it",
    ChangeKind.SNAPSHOT: "a snapshot changed nothing in the tree; drop it if it is not needed",
    ChangeKind.FORK: "the space began with this change; delete the space instead",
    ChangeKind.REPAIR: "the tree was damaged before it was mended",
}


def changes(view: View, path: VPath, after: int, limit: int) -> Page[Change]:
    if after < 0:
        raise InvalidArgument("a cursor cannot be negative")
    # The ends are asked for behind the rows: what expires in between is told, not passed over.
    rows = view.tx.later(AFTER, view.space, after, max(limit, SCANNED))
    ends = view.tx.one(ENDS, view.space)
    if ends is None:
        raise NotFound("this space has been deleted")
    oldest, newest = ends
    if after < newest and after + 1 < (newest + 1 if oldest is None else oldest):
        raise CursorExpired
    base = view.parts + path.parts
    seen: list[Change] = []
    cursor = min(after, newest)
    for row in rows():
        cursor = row[0]
        change = _seen_from(base, row)
        if change is not None:
            seen.append(change)
        if len(seen) == limit:
            break
    return Page(seen, str(cursor))


def _seen_from(base: tuple[str, ...], row: Row) -> Change | None:
    """A change with paths as seen from `base`; None if it touches nothing there."""
    path, to = _inside(base, row[3]), _inside(base, row[4])
    if path is None and to is None:
        return None
    return _change(row, path, to)


def _inside(base: tuple[str, ...], text: str | None) -> tuple[str, ...] | None:
    if text is None or text == OUTSIDE:
        return None
    path = split(text)
    return path[len(base) :] if path[: len(base)] == base else None


def _change(row: Row, path: tuple[str, ...] | None, to: tuple[str, ...] | None) -> Change:
    kind = kind_of(row[5])
    return Change(
        seq=row[0],
        batch=row[1],
        kind=ChangeKind(row[2]),
        path=path,
        to=to,
        node=kind,
        revision=row[6],
        by=row[7],
        at_ns=row[8],
        detail=row[9],
    )


def undo(view: View, seq: int) -> Sequence[int]:
    row = view.tx.one(CHANGE, view.space, seq)
    if row is None:
        raise NotFound("no change of this number is in the journal")
    change = _change(row, split(row[3]), None if row[4] is None else split(row[4]))
    reverse = _REVERSALS.get(change.kind)
    if reverse is None:
        raise NotUndoable(_ADVICE[change.kind])
    before = view.scope.row.seq
    try:
        reverse(view, change)
    except (Missing, Taken, WrongKind, Conflict) as error:
        raise NotUndoable(
            f"what the change made is no longer as it was: {error.message}"
        ) from error
    return range(before + 1, view.scope.row.seq + 1)


def _entry(view: View, change: Change, path: tuple[str, ...] | None) -> VPath:
    """What a change made, if it is still where the change put it."""
    where = VPath(path or ())
    node = resolve(view, where, follow=False).found
    if KINDS[node.kind] is not change.node:
        raise NotFound
    return where


def _trash_path(view: View, change: Change) -> None:
    view.trash(_entry(view, change, change.path), ANY)


def _trash_to(view: View, change: Change) -> None:
    view.trash(_entry(view, change, change.to), ANY)


def _unwrite(view: View, change: Change) -> None:
    path = _entry(view, change, change.path)
    node = resolve(view, path, follow=False).found
    if node.revision != change.revision:
        raise NotUndoable("the file was written since; restore a revision of it instead")
    view.restore(path, change.revision - 1, ANY)


def _reset(view: View, change: Change) -> None:
    view.set_attrs(_entry(view, change, change.path), former_attrs(change.detail or "{}"), False,
                   ANY)  # fmt: skip


def _move_back(view: View, change: Change) -> None:
    view.move(_entry(view, change, change.to), VPath(change.path or ()), False, True, ANY)


def _untrash(view: View, change: Change) -> None:
    view.untrash(str(change.detail), None, True)


def _roll_forward(view: View, change: Change) -> None:
    view.rollback(f"before-rollback-{change.seq - 1}")


_REVERSALS: Final[dict[ChangeKind, Callable[[View, Change], None]]] = {
    ChangeKind.CREATE: _trash_path,
    ChangeKind.UNTRASH: _trash_path,
    ChangeKind.COPY: _trash_to,
    ChangeKind.LINK: _trash_to,
    ChangeKind.WRITE: _unwrite,
    ChangeKind.ATTRS: _reset,
    ChangeKind.MOVE: _move_back,
    ChangeKind.TRASH: _untrash,
    ChangeKind.ROLLBACK: _roll_forward,
}
