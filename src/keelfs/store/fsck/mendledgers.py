"""Mending what is counted, and rows that belong to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from keelfs.ident import uuid7
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.mendtrees import ALIKE, UUID
from keelfs.store.fsck.site import HELD, LOST_AND_FOUND, Site, begin
from keelfs.store.ledger import (
    GRANT,
    LOCK_LATE_SPACES,
    LOCK_SPACES,
    LOCK_TENANT,
    SET_GRANT,
    decoded,
)
from keelfs.store.reaping import CHANGES, ENTRIES, NODES, REQUESTS, REVISIONS, TRASH
from keelfs.store.snapshots import DELETE
from keelfs.store.spaces import FORGET_IMAGES
from keelfs.store.tree import ROOT

#: Rows that one transaction takes away.
_ROWS: Final = 1000

SNAPSHOTS_OF: Final = Statement(
    """SELECT p.name, p.bytes, p.nodes, i.deleted_ns FROM snapshots p
         LEFT JOIN spaces i ON i.tenant = ?1 AND i.id = ?3 AND i.kind = 'snapshot'
        WHERE p.tenant = ?1 AND p.space = ?2 AND p.image = ?3 ORDER BY p.name"""
)
REVIVE: Final = Statement(
    "UPDATE spaces SET deleted_ns = NULL WHERE tenant = ?1 AND id = ?2 AND kind = 'snapshot'"
)
RESIZE: Final = Statement(
    """UPDATE snapshots SET bytes = ?4, nodes = ?5
        WHERE tenant = ?1 AND space = ?2 AND name = ?3"""
)
NEEDED_BY: Final = Statement(
    "SELECT space, name FROM snapshots WHERE tenant = ?1 AND image = ?2 ORDER BY space, name"
)
MAKE_SPACE_OF: Final = Statement(
    """UPDATE spaces SET kind = ?3 WHERE tenant = ?1 AND id = ?2 AND kind = 'snapshot'"""
)
LAST_CHANGE: Final = Statement("SELECT max(seq) FROM changes WHERE tenant = ?1 AND space = ?2")
UNMARK: Final = Statement("DELETE FROM marks WHERE tenant = ?1 AND space = ?2")
THERE: Final = Statement("SELECT 1 FROM spaces WHERE tenant = ?1 AND id = ?2")
ANY_NODE: Final = Statement("SELECT 1 FROM nodes WHERE tenant = ?1 AND space = ?2 LIMIT 1")
_REMAKE: Final = """INSERT INTO spaces (id, tenant, kind, key, seq, created_ns){0}
    VALUES (?2, ?1, ?3, ?4, (SELECT coalesce(max(seq), 0) FROM changes
                              WHERE tenant = ?1 AND space = ?2), ?5)"""
REMAKE_SPACE: Final = Statement(
    _REMAKE.format(""), postgres=_REMAKE.format(" OVERRIDING SYSTEM VALUE")
)
_OF_NOTHING: Final = {
    "entries": ENTRIES, "revisions": REVISIONS, "nodes": NODES, "changes": CHANGES,
    "trash": TRASH, "requests": REQUESTS,
}  # fmt: skip


# -- in one space


def ledger(site: Site, rows: list[Row]) -> None:
    if rows:
        site.count_ledger()


def image(site: Site, rows: list[Row]) -> None:
    """A snapshot whose image is whole gets it back; one without an image goes."""
    for _space, needed in rows:
        held = site.tx.one(HELD, needed, ROOT)
        for name, bytes_, nodes, deleted_ns in site.tx.all(SNAPSHOTS_OF, site.space, needed):
            if deleted_ns is not None and held is not None and (bytes_, nodes) == held[1:3]:
                site.tx.do(REVIVE, needed)
                site.did(f"the image {needed} of a snapshot is there again")
            else:
                site.tx.do(DELETE, site.space, name)
                site.count_ledger()
                site.did(f"a snapshot was removed whose image {needed} is lost")


def image_size(site: Site, rows: list[Row]) -> None:
    for _space, needed, *_sizes in rows:
        held = site.tx.one(HELD, needed, ROOT)
        for name, *_more in site.tx.all(SNAPSHOTS_OF, site.space, needed):
            assert held is not None
            site.tx.do(RESIZE, site.space, name, held[1], held[2])
            site.count_ledger()
            site.did(f"what the image {needed} holds was counted anew")


def journal(site: Site, rows: list[Row]) -> None:
    """The next change gets a number of its own; a change that is lost does not come back."""
    row = site.tx.one(LAST_CHANGE, site.space)
    if rows and row is not None and row[0] is not None and row[0] > site.scope.row.seq:
        site.scope.row.seq = row[0]
        site.did("no number of a change will be given a second time")


# -- of a whole tenant, all of whose spaces are locked


def identity(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """The first of several nodes that are taken for one keeps its identity."""
    for _count, space, id_ in rows:
        for other_space, other in tx.all(ALIKE, space, id_)[1:]:
            tx.one(UUID, other_space, other, uuid7(now_ns))
            yield f"space {other_space}: node {other} has an identity of its own"


def image_owner(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """An image that no snapshot needs becomes a space that can be opened."""
    for id_, *_count in rows:
        needed = tx.all(NEEDED_BY, id_)
        for space, name in needed[1:]:
            tx.do(DELETE, space, name)
            yield f"space {space}: one of two snapshots of the same image {id_} was removed"
        if not needed:
            tx.do(MAKE_SPACE_OF, id_, LOST_AND_FOUND)
            begin(tx, id_, now_ns)
            yield f"space {id_}: the image that no snapshot needs is a space of its own"


def grants(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """Each space is granted what it uses, as the tenant's limits want it."""
    del now_ns, rows
    tx.all(LOCK_SPACES)
    tenant, spaces = tx.one(LOCK_TENANT), tx.all(LOCK_LATE_SPACES)
    limits = decoded(tenant[0] if tenant else "{}")
    granted = [
        (row[0], None if limits.bytes is None else row[1], None if limits.nodes is None else row[2])
        for row in spaces
    ]
    tx.many(SET_GRANT, granted)
    tx.do(GRANT, sum(row[1] or 0 for row in granted), sum(row[2] or 0 for row in granted))
    yield "what the spaces of the tenant are granted was counted anew"


def homeless(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """A space that still has nodes is made again, as an image where it is needed as one; rows of
    one that has none go.
    """
    for table, space in sorted(rows, key=lambda row: row[1]):
        if tx.one(THERE, space) is not None:
            continue
        if tx.one(ANY_NODE, space) is not None:
            kind = "snapshot" if tx.one(NEEDED_BY, space) is not None else LOST_AND_FOUND
            tx.do(REMAKE_SPACE, space, kind, f"space {space}", now_ns)
            if kind == LOST_AND_FOUND:
                begin(tx, space, now_ns)
            yield f"space {space}: it was lost and can be opened again"
        elif table == "snapshots":
            tx.do(FORGET_IMAGES, space)
            yield f"space {space}: it does not exist, and its snapshots were removed"
        elif tx.all(_OF_NOTHING[table], space, _ROWS):
            yield f"space {space}: it does not exist, and rows of its {table} were removed"


def marks(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns
    for space, *_count in rows:
        tx.do(UNMARK, space)
        yield f"space {space}: marks that a copy left behind were removed"
