"""Snapshots: images of a whole space, and the way back to one.

An image is a space of kind `snapshot` that holds copied rows and shares every byte. Rolling back
first takes an image of what is there, so that nothing is lost by it; files that both trees hold
keep their identity and gain a revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from keelfs.errors import AlreadyExists, InvalidArgument, NotFound, QuotaExceeded
from keelfs.ident import uuid7
from keelfs.model import ChangeKind, Snapshot
from keelfs.store.copying import clone_space
from keelfs.store.database import Statement
from keelfs.store.rollback import return_to
from keelfs.store.spaces import insert_space

if TYPE_CHECKING:
    from keelfs.store.view import View

INSERT: Final = Statement(
    """INSERT INTO snapshots (tenant, space, name, image, seq, author, at_ns, bytes, nodes)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"""
)
ALL: Final = Statement(
    """SELECT name, at_ns, author, bytes, nodes, image, seq FROM snapshots
       WHERE tenant = ?1 AND space = ?2 ORDER BY seq"""
)
ONE: Final = Statement(
    """SELECT name, at_ns, author, bytes, nodes, image, seq FROM snapshots
       WHERE tenant = ?1 AND space = ?2 AND name = ?3"""
)
COUNT: Final = Statement("SELECT count(*) FROM snapshots WHERE tenant = ?1 AND space = ?2")
DELETE: Final = Statement("DELETE FROM snapshots WHERE tenant = ?1 AND space = ?2 AND name = ?3")
#: The sweep takes the rows of a deleted space away.
DELETE_IMAGE: Final = Statement("UPDATE spaces SET deleted_ns = ?3 WHERE tenant = ?1 AND id = ?2")


def check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("the name of a snapshot is UTF-8 text") from None
    if not 1 <= size <= 255 or "\0" in name:
        raise InvalidArgument("the name of a snapshot has 1 to 255 bytes and no NUL")


def snapshot(view: View, name: str) -> Snapshot:
    check_name(name)
    if view.tx.one(ONE, view.space, name) is not None:
        raise AlreadyExists("there is already a snapshot of this name")
    return take(view, name)


def take(view: View, name: str | None) -> Snapshot:
    """Keeps the present tree; without a name, under one made of the change's number."""
    scope = view.scope
    row = scope.row
    _check_room(view, row.bytes)
    scope.refuse_many(row.nodes)
    scope.flush_directories()
    scope.flush_references()
    seq = row.seq + 1
    name = name or f"before-rollback-{seq}"
    key = uuid7(scope.now_ns).hex()
    image = insert_space(view.tx, "snapshot", key, scope.now_ns)
    clone_space(scope, view.space, image)
    scope.record(ChangeKind.SNAPSHOT, (), None, detail=name)
    view.tx.do(
        INSERT, view.space, name, image, seq, scope.author, scope.now_ns, row.bytes, row.nodes
    )
    row.snapshot_bytes += row.bytes
    return Snapshot(
        name=name, at_ns=scope.now_ns, by=scope.author, bytes=row.bytes, nodes=row.nodes
    )


def _check_room(view: View, bytes_: int) -> None:
    limits, used = view.scope.limits, view.scope.row.snapshot_bytes
    if limits.snapshot_bytes is not None and used + bytes_ > limits.snapshot_bytes:
        raise QuotaExceeded(
            f"the snapshots of a space may hold {limits.snapshot_bytes} bytes, {used} are used",
            limit="space.snapshot_bytes",
            size=limits.snapshot_bytes,
            used=used,
        )
    if limits.snapshots is not None:
        count = (view.tx.one(COUNT, view.space) or (0,))[0]
        if count >= limits.snapshots:
            raise QuotaExceeded(
                f"a space may have {limits.snapshots} snapshots; drop one first",
                limit="space.snapshots",
                size=limits.snapshots,
                used=count,
            )


def snapshots(view: View) -> Sequence[Snapshot]:
    return [
        Snapshot(name=row[0], at_ns=row[1], by=row[2], bytes=row[3], nodes=row[4])
        for row in view.tx.all(ALL, view.space)
    ]


def image_of(view: View, name: str) -> tuple[int, int]:
    """The space that holds a snapshot, and how many nodes it has."""
    row = view.tx.one(ONE, view.space, name)
    if row is None:
        raise NotFound("there is no snapshot of this name")
    return row[5], row[4]


def drop_snapshot(view: View, name: str) -> None:
    row = view.tx.one(ONE, view.space, name)
    if row is None:
        raise NotFound("there is no snapshot of this name")
    view.tx.do(DELETE, view.space, name)
    view.tx.do(DELETE_IMAGE, row[5], view.scope.now_ns)
    view.scope.row.snapshot_bytes -= row[3]


def rollback(view: View, name: str) -> Snapshot:
    image, nodes = image_of(view, name)
    view.scope.refuse_many(nodes + view.scope.row.nodes)
    kept = take(view, None)
    return_to(view, image)
    view.scope.record(ChangeKind.ROLLBACK, (), None, detail=name)
    return kept
