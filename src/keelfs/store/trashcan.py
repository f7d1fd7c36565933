"""The trash: a hidden directory of the same space, and a row that says what lies there.

Trashing moves one row, whatever lies below it; what is trashed stays charged to its space until it
is purged. Everything is looked up by id together with the space, never by path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keelfs.errors import AlreadyExists, NotFound
from keelfs.ident import uuid7
from keelfs.model import ChangeKind, Expect, Page, Stat, Trashed
from keelfs.path import VPath
from keelfs.store.database import Statement
from keelfs.store.expect import check_expect
from keelfs.store.names import (
    check_place,
    make_parents,
    relocate,
    removable,
    take_out,
    unhang,
)
from keelfs.store.scope import joined, split
from keelfs.store.tree import COLUMNS, TRASH, Node, Spot, kind_of, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View

NEVER: Final = 2**63 - 1

PUT: Final = Statement(
    """INSERT INTO trash (tenant, space, id, node, path, author, at_ns, expires_ns)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"""
)
_TRASHED: Final = f"""SELECT t.id, t.path, t.author, t.at_ns, t.expires_ns,
           {", ".join(f"n.{name}" for name in COLUMNS)}
      FROM trash t JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = t.node
     WHERE t.tenant = ?1 AND t.space = ?2"""
LISTED: Final = Statement(f"{_TRASHED} AND t.id > ?3 AND t.expires_ns > ?4 ORDER BY t.id LIMIT ?5")
ONE: Final = Statement(f"{_TRASHED} AND t.id = ?3 AND t.expires_ns > ?4")
TAKE: Final = Statement("DELETE FROM trash WHERE tenant = ?1 AND space = ?2 AND id = ?3")


def trash(view: View, path: VPath, expect: Expect) -> Trashed:
    spot = removable(view, path)
    node = spot.found
    check_expect(node, expect)
    return _put(view, spot, node)


def _put(view: View, spot: Spot, node: Node) -> Trashed:
    scope = view.scope
    trash_id = uuid7(scope.now_ns).hex()
    limits = scope.limits
    kept = limits.trash_agent_s if scope.principal.kind == "agent" else limits.trash_user_s
    expires = NEVER if kept is None else scope.now_ns + kept * 1_000_000_000
    unhang(view, spot.chain, node)
    scope.charge([TRASH], *node.weight)
    relocate(view, spot.chain[-1], spot.parts[-1], TRASH, trash_id, node)
    scope.gone.append(node.id)
    view.tx.do(
        PUT, view.space, trash_id, node.id, joined(spot.parts), scope.author, scope.now_ns, expires
    )
    scope.record(ChangeKind.TRASH, spot.parts, node, detail=trash_id)
    row = (trash_id, joined(spot.parts), scope.author, scope.now_ns, expires)
    return _trashed(view, row, node)


def _trashed(view: View, row: tuple[str, str, str, int, int], node: Node) -> Trashed:
    bytes_, nodes = node.weight
    return Trashed(
        id=row[0],
        path=split(row[1])[len(view.parts) :],
        kind=kind_of(node.kind),
        bytes=bytes_,
        nodes=nodes,
        by=row[2],
        at_ns=row[3],
        expires_ns=row[4],
    )


def trashed(view: View, after: str | None, limit: int) -> Page[Trashed]:
    """Pages through all rows of the space, and keeps those that were taken from below the view."""
    items: list[Trashed] = []
    cursor = after or ""
    while True:
        rows = view.tx.all(LISTED, view.space, cursor, view.scope.now_ns, limit + 1)
        for row in rows[:limit]:
            cursor = row[0]
            if split(row[1])[: len(view.parts)] == view.parts:
                items.append(_trashed(view, row[:5], Node(*row[5:])))
                if len(items) == limit:
                    return Page(items, cursor if row is not rows[-1] else None)
        if len(rows) <= limit:
            return Page(items, None)


def _find(view: View, trash_id: str) -> tuple[tuple[str, ...], Node]:
    row = view.tx.one(ONE, view.space, trash_id, view.scope.now_ns)
    if row is None or split(row[1])[: len(view.parts)] != view.parts:
        raise NotFound("there is no such thing in the trash")
    return split(row[1]), view.node(row[5:])


def untrash(view: View, trash_id: str, to: VPath | None, parents: bool) -> Stat:
    path, node = _find(view, trash_id)
    spot = resolve(view, to or VPath(path[len(view.parts) :]), follow=False)
    if spot.node is not None:
        raise AlreadyExists
    make_parents(view, spot, parents)
    scope = view.scope
    check_place(view, spot.chain[-1], len(spot.parts) - 1, node)
    bytes_, nodes = node.weight
    scope.charge([TRASH], -bytes_, -nodes)
    view.tx.do(TAKE, view.space, trash_id)
    relocate(view, TRASH, trash_id, spot.chain[-1], spot.parts[-1], node)
    scope.charge(spot.chain, bytes_, nodes)
    scope.raised(spot.chain, node.height)
    scope.children_changed(spot.chain[-1], +1)
    scope.record(ChangeKind.UNTRASH, spot.parts, node, detail=trash_id)
    scope.touch(spot.parts, node)
    return stat_of(node)


def purge(view: View, trash_id: str) -> None:
    _path, node = _find(view, trash_id)
    discard(view, trash_id, node)


def discard(view: View, trash_id: str, node: Node) -> None:
    """Removes a trashed thing for good; the sweep does so with what has expired."""
    view.tx.do(TAKE, view.space, trash_id)
    take_out(view, [TRASH], trash_id, node)
