"""Listing a directory: one range of its entries, whatever lies below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from keelfs.errors import NotFound
from keelfs.model import Entry, Page
from keelfs.path import VPath
from keelfs.store.database import Row, Statement
from keelfs.store.tree import CHILDREN, COLUMNS, NODE, STRIDE, Node, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View


def _below(depth: int) -> Statement:
    """`CHILDREN` of what lies `depth` names below directory ?3, whatever kind it is."""
    directory = "?3"
    for level in range(depth):
        directory = (
            "(SELECT node FROM entries WHERE tenant = ?1 AND space = ?2"
            f" AND parent = {directory} AND name = ?{level + 4})"
        )
    found = f"""WHERE e.tenant = ?1 AND e.space = ?2 AND e.parent = {directory}
                  AND e.name > ?{depth + 4} ORDER BY e.name LIMIT ?{depth + 5}"""
    columns = ", ".join(f"n.{name}" for name in COLUMNS)
    return Statement(
        f"""SELECT e.name, {columns} FROM entries e
              JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = e.node {found}""",
        postgres=f"""SELECT e.name, {columns} FROM entries e
             CROSS JOIN LATERAL (SELECT {", ".join(COLUMNS)} FROM nodes
                 WHERE tenant = ?1 AND space = ?2 AND id = e.node OFFSET 0) n {found}""",
    )


#: By number of names.
BELOW: Final = [CHILDREN, *(_below(depth) for depth in range(1, STRIDE + 1))]


def entries_of(view: View, path: VPath, after: str, limit: int) -> Page[Entry]:
    later = _asked_ahead(view, path, after, limit + 1)
    spot = resolve(view, path)
    directory = spot.directory
    if later is not None and spot.parts == view.parts + path.parts:
        rows = later()
    else:
        rows = view.tx.all(CHILDREN, view.space, directory.id, after, limit + 1)
    if not rows and directory.children and not after:
        _still_there(view, directory)
    entries = [Entry(row[0], stat_of(view.node(row[1:]))) for row in rows[:limit]]
    return Page(entries, entries[-1].name if len(rows) > limit else None)


def _asked_ahead(view: View, path: VPath, after: str, limit: int) -> Callable[[], list[Row]] | None:
    """Asks for the entries together with the walk, where that saves a round trip.

    What comes back counts only if the walk met no link: nothing lies below one.
    """
    names = path.parts
    if not view.tx.pipelined or len(names) > STRIDE:
        return None
    return view.tx.later(BELOW[len(names)], view.space, view.chain[-1], *names, after, limit)


def _still_there(view: View, directory: Node) -> None:
    """A directory that held something and lists nothing was emptied, or it is gone."""
    if view.tx.one(NODE, view.space, directory.id) is None:
        raise NotFound
