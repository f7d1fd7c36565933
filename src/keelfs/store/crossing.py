"""What comes from another space of the same tenant, in one transaction: rows, never bytes.

A tree is cloned by the database as a fork clones a whole space; its contents count one reference
more. Nothing of the source is changed here: whoever moves it removes it there, in the same
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keelfs.errors import TooLarge
from keelfs.ident import uuid7
from keelfs.model import ChangeKind, Stat
from keelfs.path import VPath
from keelfs.store.copying import (
    BECOMES,
    CLONE_NODES,
    COPY_ENTRIES,
    MARK,
    MARKED,
    UNHANG_TOP,
    UNMARK,
    adopt,
)
from keelfs.store.database import Statement
from keelfs.store.files import check_file_size
from keelfs.store.names import clear_place, hang, make_parents, refuse_dangling, removable
from keelfs.store.tree import DIRECTORY, NODE, Node, Spot, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View

#: The largest file and the fullest directory of the marked nodes.
LARGEST: Final = Statement(
    """SELECT max(CASE WHEN n.kind = 2 THEN n.size ELSE 0 END), max(n.children)
         FROM marks m JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = m.node
        WHERE m.tenant = ?1 AND m.space = ?2"""
)


def receive(view: View, source: View, path: VPath, to: VPath, replace: bool, parents: bool) -> Stat:
    """See `keelfs.ports.Volume.receive`."""
    node = removable(source, path).found
    spot = resolve(view, to, follow=False)
    if spot.node is not None:
        clear_place(view, spot, spot.node, node, replace)
    refuse_dangling(spot, parents)
    make_parents(view, spot, parents)
    came = _tree(view, source, node, spot) if node.kind == DIRECTORY else _one(view, node, spot)
    view.scope.record(ChangeKind.COPY, None, came, to=spot.parts)
    view.scope.touch(spot.parts, came)
    return stat_of(came)


def _one(view: View, node: Node, spot: Spot) -> Node:
    check_file_size(view, node.size)
    came = Node(**{name: getattr(node, name) for name in Node.__struct_fields__})
    came.id, came.uuid = view.scope.new_node(), uuid7(view.scope.now_ns)
    # Former contents and other names stay where they are.
    came.first_revision, came.nlink = node.revision, 1
    view.scope.refer(came.content, +1)
    hang(view, spot.chain, spot.parts, came, new=True)
    return came


def _tree(view: View, source: View, node: Node, spot: Spot) -> Node:
    scope, tx = view.scope, view.tx
    scope.refuse_many(node.below_nodes + 1)
    source.scope.flush_directories()
    source.scope.flush_references()
    first = scope.row.next_node
    tx.do(MARK, source.space, node.id, first)
    count = (tx.one(MARKED, source.space) or (0,))[0]
    scope.new_node(count)
    largest = tx.one(LARGEST, source.space) or (0, 0)
    _check_within(view, largest[0], largest[1])
    tx.do(CLONE_NODES, source.space, view.space, uuid7(scope.now_ns)[:9], 0)
    tx.do(COPY_ENTRIES, source.space, view.space)
    top = (tx.one(BECOMES, source.space, node.id) or (0,))[0]
    tx.do(UNMARK, source.space)
    adopt(scope, view.space, first, first + count - 1)
    row = tx.one(NODE, view.space, top)
    assert row is not None
    came = Node(*row)
    tx.do(UNHANG_TOP, view.space, came.id, spot.chain[-1])
    hang(view, spot.chain, spot.parts, came, new=False)
    return came


def _check_within(view: View, file_bytes: int, entries: int) -> None:
    """The limits of this space hold for what lies below, too."""
    check_file_size(view, file_bytes)
    limit = view.scope.limits.directory_entries
    if limit is not None and entries > limit:
        raise TooLarge(
            f"a directory may hold {limit} entries, one of these holds {entries}",
            limit="space.directory_entries",
            size=limit,
            used=entries,
        )
